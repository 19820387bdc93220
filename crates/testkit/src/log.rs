//! Captures the log of a thread while a test runs.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

/// Captures all lines that Stile's crates log in this thread, until it is dropped. A thread has at
/// most one `Log`.
///
/// Lines have no colours and no targets: `2026-01-01T00:00:00Z  WARN words field=value`.
pub struct Log {
    lines: Lines,
    _until_dropped: DefaultGuard,
}

/// A second subscriber, which wants no line.
///
/// With a single subscriber, `tracing` remembers for all threads whether the first thread that logs
/// at a place was interested. Threads of other tests have no subscriber. With two subscribers,
/// `tracing` asks both each time.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(tracing_subscriber::registry().with(LevelFilter::OFF)));

impl Log {
    /// Begins to capture the lines of this thread.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "`new` changes the thread")]
    pub fn new() -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let sink = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false);
        let layer = layer.with_writer(move || sink.clone());
        // The program's log leaves out other crates too.
        let ours = Targets::new().with_target("stile", LevelFilter::TRACE);
        let guard = set_default(tracing_subscriber::registry().with(layer.with_filter(ours)));
        Self { lines, _until_dropped: guard }
    }

    /// Returns the lines so far, with U+FFFD for bytes that are not UTF-8.
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
