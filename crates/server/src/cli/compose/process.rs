//! What every command that serves does with the process: the log, panics, signals, the runtime.

use std::io::{self, Write as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::failure::Failure;
use crate::config::LogLevel;

/// Logs what this workspace's crates say to standard error. Nothing that another crate says is
/// logged: the SDK logs whole messages, and so contents.
pub(crate) fn log(level: LogLevel) {
    log_lines(level, true);
}

/// Logs like [`log`], for the gateway: a line has its fields and no target.
pub(crate) fn log_without_targets(level: LogLevel) {
    log_lines(level, false);
}

fn log_lines(level: LogLevel, has_target: bool) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(has_target);
    let lines = lines.with_filter(filter(level));
    // An error means that a subscriber is installed already.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("stile", level)
}

/// Reports only where a panic happened: the panic's message may hold content.
pub(crate) fn hide_panic_messages() {
    std::panic::set_hook(Box::new(|panic| {
        // The compiler knows a dependency's file by its whole path on the machine that built it.
        let name = |file: &str| file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let location = panic
            .location()
            .map(|location| format!("{}:{}", name(location.file()), location.line()));
        let _ = writeln!(io::stderr(), "stile panicked at {}", location.unwrap_or_default());
    }));
}

/// Raises the limit of open files and connections to the highest that the system allows.
pub(crate) fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // If the system refuses, the lower limit stays. The number of connections is bounded
        // anyway.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Returns a future that completes when the process is asked to end, by an interrupt or a request
/// to terminate.
///
/// Both signals are caught from the call on. A signal that comes as soon as the server has printed
/// its address is not lost.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        let (mut interrupt, mut stop) = (ctrl_c()?, ctrl_break()?);
        let (mut closed, mut shutdown) = (ctrl_close()?, ctrl_shutdown()?);
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = stop.recv() => {}
                _ = closed.recv() => {}
                _ = shutdown.recv() => {}
            }
        })
    }
}

/// Runs a future to its end on a runtime of many threads.
///
/// Threads that still work or wait then are abandoned: a thread may wait for input that never
/// comes. A server gives the calls in flight their time before its future ends.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn only_the_crates_of_this_workspace_are_logged() {
        let filter = filter(LogLevel::Debug);
        assert!(filter.would_enable("stile_server::http", &Level::DEBUG));
        assert!(filter.would_enable("stile_store", &Level::ERROR));
        assert!(!filter.would_enable("stile_server", &Level::TRACE));
        for target in ["rmcp", "rmcp::service", "hyper", "tokio", "", "h2"] {
            assert!(!filter.would_enable(target, &Level::ERROR), "{target}");
        }
    }
}
