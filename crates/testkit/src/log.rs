//! What the program logs while a test runs.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

/// Every line, of every level, that Stile's own crates log in the thread that made this, until it
/// is dropped. A thread has one at a time.
///
/// Lines have no colours and, as the gateway's, no targets: `2026-01-01T00:00:00Z  WARN words
/// field=value`.
pub struct Log {
    lines: Lines,
    _until_dropped: DefaultGuard,
}

/// While a process has one subscriber only, a place that logs for the first time asks the
/// subscriber of the thread that came there whether it is of interest to anybody, and remembers the
/// answer for all threads. Other tests have threads without one. With a second one it asks both;
/// this one, which is there before any other and stays, wants nothing.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF)));

impl Log {
    /// Begins to listen.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it does something to the thread")]
    pub fn new() -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let sink = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false);
        let layer = layer.with_writer(move || sink.clone());
        // As the program has it: what other crates say is not for its log.
        let ours = Targets::new().with_target("stile", LevelFilter::TRACE);
        let guard = set_default(tracing_subscriber::registry().with(layer.with_filter(ours)));
        Self { lines, _until_dropped: guard }
    }

    /// What was logged so far; bytes that are not UTF-8 as U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.lines.lock()).into_owned()
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
