//! What a store needs to know of a stream's declaration: which fields decide where a record stands,
//! and which are searched.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::order::CursorFieldOrder;

/// The terms on which a stream's records are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct IndexedFields {
    /// The field that orders lists.
    pub cursor_field: Option<String>,
    /// Whether that field holds times.
    pub cursor_is_time: bool,
    /// The field that says when a record happened.
    pub time_field: Option<String>,
    /// The fields whose texts are indexed for search.
    pub searchable: BTreeSet<String>,
}

impl IndexedFields {
    /// How the values of the cursor field compare.
    pub fn ordering(&self) -> CursorFieldOrder {
        if self.cursor_is_time { CursorFieldOrder::Times } else { CursorFieldOrder::Texts }
    }
}
