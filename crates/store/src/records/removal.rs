//! Removed records and streams, as the database keeps them until they are restored or go for good.
//!
//! The row of a removed stream stays. Clients that ask for changes learn from it what went, and a
//! stream that is made anew under the name takes the row over, with another revision. Removed
//! records that can be restored are in a stream of their own, whose name no caller can send. A
//! query names the streams that it reads, so it never meets them.

use serde::{Deserialize, Serialize};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::{Instant, MICROS_A_DAY};

/// How long removed records can be restored, in microseconds: 30 days.
pub(super) const REMOVED_KEPT: i64 = 30 * MICROS_A_DAY;

/// The identifier of a removal.
///
/// *Shape*: `rm_` and 12 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RemovalId(String);

impl RemovalId {
    /// Draws an identifier at random.
    pub fn random() -> Self {
        let drawn = uuid::Uuid::new_v4().simple().to_string();
        Self(format!("rm_{}", drawn.get(..12).unwrap_or(&drawn)))
    }

    /// Returns the identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why nobody sees a stream. The database keeps it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub(super) enum HiddenReason {
    /// The stream was removed, and some of its records have still to go.
    Leaving {
        /// The stream that keeps the records. `None` if they go for good.
        to: Option<i64>,
    },
    /// The stream was removed, and has no records.
    Gone,
    /// The stream keeps removed records.
    Keeping(RemovedStream),
}

/// What is known of the stream that removed records were in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RemovedStream {
    /// The removal that the records belong to.
    pub removal: RemovalId,
    /// When they were removed, in microseconds since 1970.
    pub at: i64,
    /// The connection of the stream.
    pub connection: SourceName,
    /// The name of the stream.
    pub stream: SourceName,
    /// Whether the stream was removed with them.
    pub is_whole: bool,
    /// The declaration of the stream, as JSON.
    pub declaration: String,
    /// The indexed fields of the stream.
    pub indexed: IndexedFields,
}

/// A stream that nobody sees.
pub(super) struct HiddenStream {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) connection: i64,
    pub(super) reason: HiddenReason,
}

/// Removed records of one stream that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRemoval {
    /// The number of the stream that keeps the records.
    pub(super) kept_in: i64,
    /// What they were removed from, and when.
    pub stream: RemovedStream,
    /// The number of the records.
    pub records: u64,
}

impl KeptRemoval {
    /// The time at which the records go for good, with the first write after it.
    pub fn ends(&self) -> Instant {
        Instant(self.stream.at.saturating_add(REMOVED_KEPT))
    }
}
