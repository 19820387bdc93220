//! What persists: the file space beneath one directory handle, keys and tokens, the journal.
//!
//! The only crate that opens a file or a database. It decides nothing that the domain can decide:
//! it takes permits and plans, and makes them true on a disk that others write to as well.

pub mod archive;
pub mod files;
pub mod journal;
pub mod records;
pub mod sealer;
pub mod space;
pub mod state;

use std::io;

use stile_domain::error::Refusal;

/// Logs an unexpected error and returns a refusal that names the log line. Neither holds a path.
pub fn incident(doing: &'static str, error: &io::Error) -> Refusal {
    Refusal::Internal { incident: log_incident(doing, error) }
}

/// Logs an unexpected error, without any path, and returns the number of the log line.
pub fn log_incident(doing: &'static str, error: &io::Error) -> u64 {
    let incident = new_incident();
    tracing::error!(incident, doing, kind = ?error.kind(), errno = error.raw_os_error(), "unexpected error");
    incident
}

/// A number for a line of the log that an agent can pass on to its user.
pub fn new_incident() -> u64 {
    // Twelve decimal digits: short enough to be read out, and they fit a JSON number exactly.
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low) % 1_000_000_000_000
}
