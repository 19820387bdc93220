//! Which of two exports of one source is the older one, where its rows do not say when they were
//! changed.
//!
//! The files of an export have times, and the declaration of a stream remembers that of the newest
//! export in it. A row of an older export, or of one that says no time, changes no record that is
//! stored. Rows that say themselves when they were changed are compared by that.

use serde_json::{Value as Json, json};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::instant::Instant;

use crate::importers::csv::options::MEMBER;

/// The member that has the time of the newest export, beside the form of tables.
const NEWEST: &str = "newest_export";

/// When an export was made; `None` inside if its files do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTime(pub Option<Instant>);

/// How a row of an export stands to the records that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportAge {
    /// No export is newer, so the row replaces a record.
    Newest,
    /// The stream has a newer export.
    Outdated,
    /// It is not known which export is newer.
    Undated,
}

impl ExportAge {
    /// Returns how an export stands to the newest one that is stored.
    pub(crate) fn of(ExportTime(time): ExportTime, newest: Option<Instant>) -> Self {
        match (time, newest) {
            (Some(time), Some(newest)) if time < newest => Self::Outdated,
            (Some(_), _) => Self::Newest,
            (None, _) => Self::Undated,
        }
    }
}

/// Returns the time of the newest export that is stored in a stream.
pub(crate) fn newest(declaration: &Declaration) -> Option<Instant> {
    let member = declaration.member(MEMBER)?.get(NEWEST)?;
    Instant::parse(member.as_str()?)
}

/// Returns a declaration as JSON that remembers the newest of these exports; `None` if it need not
/// change.
pub(crate) fn remember_in(
    declaration: &Declaration,
    exports: impl Iterator<Item = ExportTime>,
) -> Option<Json> {
    let time = exports.filter_map(|ExportTime(time)| time).max()?;
    if newest(declaration).is_some_and(|newest| newest >= time) {
        return None;
    }
    let mut json = declaration.to_json();
    let member = json.as_object_mut()?.entry(MEMBER).or_insert_with(|| json!({}));
    match member {
        Json::Object(member) => drop(member.insert(NEWEST.to_owned(), time.to_rfc3339().into())),
        other => *other = json!({ NEWEST: time.to_rfc3339() }),
    }
    Some(json)
}
