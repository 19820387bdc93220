//! What the store indexes of a stream, taken from its declaration: the fields that order the
//! records, give their times, are searched, and hold bytes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::order::CursorFieldOrder;

/// The indexed fields of a stream. The store keeps them as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IndexedFields {
    /// The field that orders lists.
    pub cursor_field: Option<String>,
    /// Whether the cursor field holds times.
    pub cursor_is_time: bool,
    /// The field that holds a record's time.
    pub time_field: Option<String>,
    /// The fields whose texts are indexed for search.
    pub searchable: BTreeSet<String>,
    /// The fields whose texts are bytes in base64. Streams that an earlier version declared have
    /// none.
    #[serde(default)]
    pub binary: BTreeSet<String>,
}

impl IndexedFields {
    /// Returns how the values of the cursor field compare.
    pub fn ordering(&self) -> CursorFieldOrder {
        if self.cursor_is_time { CursorFieldOrder::Times } else { CursorFieldOrder::Texts }
    }
}
