//! What persists: the files of the space, the database of records, keys, tokens and the journal.
//!
//! No other crate opens a file or a database. The store decides nothing that the domain can decide:
//! it takes permits and plans, and carries them out on a disk that other programs write to as well.

pub mod archive;
pub mod cancellation;
pub mod clock;
pub mod files;
pub mod foreign_database;
pub mod foreign_file;
pub mod history;
pub mod journal;
pub mod on_first_use;
pub mod owner_texts;
pub mod person_folder;
mod platform;
pub mod postgresql;
pub mod probe;
pub mod read_limit;
pub mod records;
mod seal;
pub mod sealer;
pub mod space;
mod sql;
pub mod staged_uploads;
pub mod state;
pub mod state_backup;
pub mod store_copy;
pub mod trusted_roots;

use std::io;
use std::time::UNIX_EPOCH;

use stile_domain::error::Refusal;
use stile_domain::records::instant::Instant;

/// Reads the clock.
fn now() -> Instant {
    let since = clock::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Logs an unexpected error and returns a refusal with the number of the log line. Neither contains
/// a path.
pub fn incident(doing: &'static str, error: &io::Error) -> Refusal {
    Refusal::Internal { incident: log_incident(doing, error) }
}

/// Returns the date where this machine is, with the name of its time zone, such as
/// `2026-11-26 in Europe/Berlin`.
pub fn local_date() -> String {
    let now = jiff::Zoned::now();
    let zone = now.time_zone().iana_name().unwrap_or("UTC");
    format!("{} in {zone}", now.strftime("%Y-%m-%d"))
}

/// Logs an unexpected error, without any path, and returns the number of the log line.
pub fn log_incident(doing: &'static str, error: &io::Error) -> u64 {
    let incident = new_incident();
    tracing::error!(incident, doing, kind = ?error.kind(), errno = error.raw_os_error(), "unexpected error");
    incident
}

/// Makes the number of a log line, which an agent can report to its user.
pub fn new_incident() -> u64 {
    // Twelve decimal digits: short enough to be read out, and they fit a JSON number exactly.
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low) % 1_000_000_000_000
}
