//! What every server does before it serves, however it is reached.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use stile_records::RecordServices;
use stile_store::journal::Journal;
use stile_store::records::Records;
use stile_store::space::{OpenError, Space, SpaceOptions};
use stile_store::state::{StateDir, check_disjoint, create_space_folder, is_inside};
use stile_tools::calls::Services;
use stile_tools::registry;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Failure;
use crate::clock;
use crate::config::declarations::ROOT;
use crate::config::{Config, LogLevel, Resolved, Source, YesNo};
use crate::offer::Offer;

/// Opens the state folder, the journal and the space, in this order, so that a space is not touched
/// where its changes could not be journalled.
pub(super) fn open(resolved: &Resolved) -> Result<(StateDir, Services), Failure> {
    open_with(resolved, |config, journal| {
        if *resolved.source(&ROOT) == Source::Default {
            create_space_folder(&config.root).map_err(|error| {
                Failure::Failed(format!("cannot make {}: {error}", config.root.display()))
            })?;
        }
        open_space(config, journal)
    })
}

/// The same for a command that only reads: a space that is not there is not made, and one that is
/// stays untouched.
pub(super) fn open_to_read(resolved: &Resolved) -> Result<Services, Failure> {
    let (_, services) = open_with(resolved, |config, journal| {
        Space::open_ambient_to_read(&config.root, options(config, journal))
            .map_err(|error| cannot_open(config, &error))
    })?;
    Ok(services)
}

fn open_with(
    resolved: &Resolved,
    space: impl FnOnce(&Config, &Arc<Journal>) -> Result<Space, Failure>,
) -> Result<(StateDir, Services), Failure> {
    let config = &resolved.config;
    check_disjoint(&config.root, &config.state)?;
    if is_inside(&config.config, &config.root)? {
        return Err(Failure::Usage(format!(
            "the settings file {} lies in the space, where an agent could change it; move it elsewhere",
            config.config.display()
        )));
    }
    let state = StateDir::open(&config.state)?;
    let journal = Journal::open(&state).map_err(|error| {
        Failure::Failed(format!("cannot open the journal in {}: {error}", state.path().display()))
    })?;
    let journal = Arc::new(journal);
    let space = space(config, &journal)?;
    Ok((state, Services { space, journal, tools: registry::TOOLS }))
}

/// Opens the database of records; makes it on first use.
pub(super) fn open_records(
    state: &StateDir,
    journal: &Arc<Journal>,
) -> Result<RecordServices, Failure> {
    let records =
        Records::open(state, clock::now()).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(RecordServices::new(records).journalled(Arc::clone(journal)))
}

/// What a server of these offers: a space, and records where there are any.
pub(super) fn offer(config: &Config, services: Services, records: Option<RecordServices>) -> Offer {
    let offer = Offer::of_space(services);
    match records {
        Some(records) => {
            offer.with_records(records, config.budgets(), config.strict_schemas == YesNo::Yes)
        }
        None => offer,
    }
}

/// The one place where the root of a space is named to the store to change it.
fn open_space(config: &Config, journal: &Arc<Journal>) -> Result<Space, Failure> {
    let (space, notices) = Space::open_ambient(&config.root, options(config, journal))
        .map_err(|error| cannot_open(config, &error))?;
    for notice in notices {
        writeln!(io::stderr(), "{notice}")?;
    }
    Ok(space)
}

fn options(config: &Config, journal: &Arc<Journal>) -> SpaceOptions {
    let events = Arc::clone(journal);
    SpaceOptions {
        limits: config.limits(),
        lock_wait: Duration::from_secs(config.lock_wait_seconds),
        // Nobody waits for an event; that it is missing is logged, and the next change is refused.
        events: Arc::new(move |line| {
            if let Err(error) = events.append(line) {
                let _ = stile_store::incident("journal", &error);
            }
        }),
    }
}

fn cannot_open(config: &Config, error: &OpenError) -> Failure {
    Failure::Usage(format!("cannot serve {}: {error}", config.root.display()))
}

/// Logs to standard error what our own crates say, and nothing of what others do: the SDK logs
/// whole messages, and so contents.
pub(super) fn log(level: LogLevel) {
    log_lines(level, true);
}

/// The same for the gateway, whose lines hold their fields and nothing else.
pub(super) fn log_without_targets(level: LogLevel) {
    log_lines(level, false);
}

fn log_lines(level: LogLevel, targets: bool) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(targets);
    let lines = lines.with_filter(filter(level));
    // An error means that a subscriber is there already.
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

/// Says of a panic only where it happened: what it says may hold content.
pub(super) fn hide_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // Of a dependency the compiler knows the whole path, on the machine that built it.
        let name = |file: &str| file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let place =
            panic.location().map(|place| format!("{}:{}", name(place.file()), place.line()));
        let _ = writeln!(io::stderr(), "stile panicked at {}", place.unwrap_or_default());
    }));
}

/// Lets the process have as many connections and files open as it may.
pub(super) fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Where this is refused the lower limit stands, and connections are bounded anyway.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Completes when the process is asked to end: an interrupt, or a request to terminate. It listens
/// for both from the call on, so that a request that comes as soon as the server says where it
/// listens is honoured.
///
/// # Errors
/// What the system says to that.
pub(super) fn stop() -> io::Result<impl Future<Output = ()>> {
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
    #[cfg(not(unix))]
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// The runtime that serves.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn only_our_own_crates_are_logged() {
        let filter = filter(LogLevel::Debug);
        assert!(filter.would_enable("stile_server::http", &Level::DEBUG));
        assert!(filter.would_enable("stile_store", &Level::ERROR));
        assert!(!filter.would_enable("stile_server", &Level::TRACE));
        for target in ["rmcp", "rmcp::service", "hyper", "tokio", "", "h2"] {
            assert!(!filter.would_enable(target, &Level::ERROR), "{target}");
        }
    }

    fn resolved(
        root: &std::path::Path,
        state: &std::path::Path,
        file: Option<&std::path::Path>,
    ) -> Resolved {
        let flag = |name: &str| {
            let path = match name {
                "root" => root,
                "state" => state,
                "config" => file?,
                _ => return None,
            };
            path.to_str().map(str::to_owned)
        };
        crate::config::resolve(&flag, &|_| None).unwrap()
    }

    #[test]
    fn state_in_the_space_is_refused_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join(".state");
        let failure = open(&resolved(folder.path(), &state, None)).map(drop).unwrap_err();
        assert!(
            matches!(failure, Failure::Usage(ref message) if message.contains("must lie apart")),
            "{failure:?}"
        );
        assert!(!state.exists());
    }

    #[test]
    fn settings_in_the_space_are_refused() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = root.path().join("stile.toml");
        std::fs::write(&file, "").unwrap();
        let failure =
            open(&resolved(root.path(), state.path(), Some(&file))).map(drop).unwrap_err();
        assert!(
            matches!(failure, Failure::Usage(ref message) if message.contains("lies in the space")),
            "{failure:?}"
        );
    }
}
