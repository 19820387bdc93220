//! What a database says of itself: its time, and whether it takes writes.
//!
//! The servers of a database share tokens, sessions and codes that end at a time. They agree on the
//! time since each goes by the clock of the database ([`clock::follow`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use super::connection::PgConnection;
use super::error::PgError;
use crate::clock;
use crate::platform;

/// By how much the clock of this machine may differ from the database's.
const MAX_DIFFERENCE: Duration = Duration::from_secs(5);
/// An answer that took longer says little about the time.
const MAX_TRIP: Duration = Duration::from_secs(2);

/// What a database says of itself, and how far the clock of this machine is from the database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseCondition {
    /// By how many milliseconds the clock of this machine is ahead of the database's; negative if
    /// behind it. `None` if the answer took too long to tell.
    pub ahead_milliseconds: Option<i64>,
    /// Whether the database takes writes.
    pub writes: Writes,
}

/// Whether a database takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// It takes them.
    #[default]
    Taken,
    /// `default_transaction_read_only` is on, for the whole database or for the servers' role.
    OffByDefault,
    /// It is a standby, which only reads until it is promoted.
    OffOnStandby,
}

impl Writes {
    /// Returns why the database takes no writes, as part of a sentence; `None` if it does.
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Taken => None,
            Self::OffByDefault => {
                Some("the database takes no writes, since `default_transaction_read_only` is on")
            }
            Self::OffOnStandby => Some("the database takes no writes, since it is a standby"),
        }
    }
}

impl DatabaseCondition {
    /// Returns how far the clock of this machine is from the database's, if that is too far.
    pub fn clock_fault(&self) -> Option<String> {
        let ahead = self.ahead_milliseconds?;
        let difference = Duration::from_millis(ahead.unsigned_abs());
        (difference > MAX_DIFFERENCE).then(|| {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            format!(
                "the clock of this machine is {:.1} seconds {side} the database's, and {} are \
                 allowed",
                difference.as_secs_f64(),
                MAX_DIFFERENCE.as_secs(),
            )
        })
    }
}

/// Asks the database for its condition, and lets this process go by its clock.
pub(super) fn look(connection: &PgConnection) -> Result<DatabaseCondition, PgError> {
    // Not prepared: this is asked of databases that are behind a pooler, too.
    let text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
                pg_is_in_recovery(), current_setting('default_transaction_read_only')";
    let asked = platform::steady();
    let row = connection.texts(text)?;
    let trip = platform::steady().saturating_sub(asked);
    let [Some(microseconds), Some(is_standby), Some(is_read_only)] = row.as_slice() else {
        return Err(PgError::NoAnswer);
    };
    let microseconds = microseconds.parse().map_err(|_| PgError::NoAnswer)?;
    let writes = match (&**is_standby, &**is_read_only) {
        ("t", _) => Writes::OffOnStandby,
        (_, "on") => Writes::OffByDefault,
        _ => Writes::Taken,
    };
    let time = UNIX_EPOCH + Duration::from_micros(microseconds);
    let ahead_milliseconds = (trip <= MAX_TRIP).then(|| clock::follow(time, asked + trip / 2));
    Ok(DatabaseCondition { ahead_milliseconds, writes })
}

/// The last condition of a database. A change is worth a line in the log.
#[derive(Default)]
pub(super) struct Known {
    last: Mutex<Option<DatabaseCondition>>,
}

impl Known {
    /// Notes a condition, and logs how it differs from the last one.
    pub(super) fn note(&self, now: DatabaseCondition) {
        let last = self.lock().replace(now);
        let last =
            last.unwrap_or(DatabaseCondition { ahead_milliseconds: None, writes: Writes::Taken });
        match (last.clock_fault(), now.clock_fault()) {
            (None, Some(fault)) => tracing::error!(
                "{fault}; the database's counts, and this server is not ready until they agree: \
                 set the clock of this machine, or that of the database"
            ),
            (Some(_), None) if now.ahead_milliseconds.is_some() => {
                tracing::warn!("the clock of this machine agrees with the database's again");
            }
            _ => {}
        }
        if last.writes == now.writes {
            return;
        }
        match now.writes.refusal() {
            Some(reason) => tracing::warn!(
                "{reason}; requests that write are refused with 503, and reads are answered"
            ),
            None => tracing::warn!("the database takes writes again"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<DatabaseCondition>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_five_seconds_off() {
        let fault = |ahead_milliseconds| {
            DatabaseCondition { ahead_milliseconds, writes: Writes::Taken }.clock_fault()
        };
        for good in [None, Some(0), Some(5000), Some(-5000)] {
            assert_eq!(fault(good), None, "{good:?}");
        }
        assert!(fault(Some(5100)).unwrap().contains("5.1 seconds ahead of the database's"));
        assert!(fault(Some(-3_600_000)).unwrap().contains("3600.0 seconds behind the database's"));
    }
}
