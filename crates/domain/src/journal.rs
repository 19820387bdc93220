//! The lines of the journal: caller, tool, path, hashes and outcome of each call, for the owner.
//!
//! A line never holds content. The hashes name the versions that a call read, replaced and wrote.
//! With them the owner can compare a line with the file, and a later undo can find the old version.
//! The line of a note tool has neither path nor heading, only the extent of the answer.

pub mod refusals;

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::history::past_change::ChangeNumber;
use crate::notes::answers::AnswerExtent;
use crate::path::SpacePath;
use crate::permit::Principal;
use crate::records::shown_records::StreamTally;

/// The longest path in the line of a refused call, in bytes.
pub const MAX_REFUSED_PATH_BYTES: usize = 512;

/// One call, or one event that no call caused, as a line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLine {
    /// When the call ended: RFC 3339, UTC, microseconds.
    pub at: String,
    /// The user who called; absent for an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The token's `jti`; absent on stdio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The approval under which the token was issued, which outlives the token; absent for a token
    /// of no approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The client that the token was issued to; absent where the token names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tool by its canonical name, or `list`, or an event such as `conflict_copy`.
    pub tool: String,
    /// The path of the call; absent for the note tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<SpacePath>,
    /// The path at which the call put the file, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SpacePath>,
    /// The hash of the version that was read or replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ContentHash>,
    /// The hash of the version that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ContentHash>,
    /// How many lines of the file the call added or changed; absent where nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_lines: Option<u64>,
    /// Whether the call only showed what it would change, and wrote nothing; absent for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The number of the call in the history, which `stile undo` takes; absent if the history has
    /// no change of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ChangeNumber>,
    /// The number of headings or sections in the answer of a note tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<u64>,
    /// Whether the answer of a note tool was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// How many lines, passages or names a search of files showed; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// How many records of each stream the answer showed something of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<StreamTally>,
    /// `ok`, or the stable code of the refusal.
    pub outcome: String,
    /// How many refused calls the line stands for; absent for the line of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Whether `path` or `to` is a folder above the path of a refused call, which was too long to
    /// keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened: Option<bool>,
    /// The number that the server's log repeats, for the outcome `internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
}

/// What a call was about, for its line in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTrace {
    /// The file; absent for a call that the journal records without its file.
    pub path: Option<SpacePath>,
    /// Where a call put the file, if that is another path.
    pub to: Option<SpacePath>,
    /// The version that the call read or replaced.
    pub before: Option<ContentHash>,
    /// The version that the call made.
    pub after: Option<ContentHash>,
    /// How many lines the call adds or changes.
    pub changed_lines: Option<u64>,
    /// Whether the call has `dry_run`: the answer shows what it would change, and nothing changes.
    pub is_dry_run: bool,
    /// How much of a note's structure the answer held.
    pub extent: Option<AnswerExtent>,
    /// How many lines, passages or names a search of files shows.
    pub hits: Option<u64>,
    /// How many records of each stream the answer shows something of.
    pub records: Vec<StreamTally>,
    /// The files of a call that reads several, each of which gets a line of its own; empty for all
    /// other calls.
    pub files: Vec<FileTrace>,
}

/// One file of a call that reads several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTrace {
    /// The path of the file.
    pub path: SpacePath,
    /// The version that the call read.
    pub version: Option<ContentHash>,
    /// `ok`, or the stable code of the refusal.
    pub outcome: &'static str,
}

impl CallTrace {
    /// Creates the trace of a call about one file.
    pub fn of_file(path: &SpacePath, before: Option<ContentHash>) -> Self {
        Self { path: Some(path.clone()), before, ..Self::default() }
    }

    /// Adds the path at which the call puts the file.
    #[must_use]
    pub fn with_target(self, to: &SpacePath) -> Self {
        Self { to: Some(to.clone()), ..self }
    }

    /// Marks the call as one that writes nothing.
    #[must_use]
    pub fn as_dry_run(self) -> Self {
        Self { is_dry_run: true, ..self }
    }

    /// Adds how many records of each stream the answer shows.
    #[must_use]
    pub fn with_records(self, records: Vec<StreamTally>) -> Self {
        Self { records, ..self }
    }

    /// Adds how many lines the call adds or changes.
    #[must_use]
    pub fn with_changed_lines(self, lines: u64) -> Self {
        Self { changed_lines: Some(lines), ..self }
    }
}

impl JournalLine {
    /// Creates the line of a finished call, not yet stamped with its time. `operation` is the
    /// tool's canonical name or the operation of `/v1`, `outcome` is `ok` or a stable code, and
    /// `incident` names the log line of an internal error.
    pub fn for_call(
        principal: &Principal,
        operation: impl Into<String>,
        trace: CallTrace,
        outcome: impl Into<String>,
        incident: Option<u64>,
    ) -> Self {
        Self {
            at: String::new(),
            subject: Some(principal.subject().to_owned()),
            token: principal.token().map(str::to_owned),
            approval: principal.approval().map(str::to_owned),
            client: principal.client().map(str::to_owned),
            tool: operation.into(),
            path: trace.path,
            to: trace.to,
            before: trace.before,
            after: trace.after,
            changed_lines: trace.changed_lines,
            dry_run: trace.is_dry_run.then_some(true),
            call: None,
            sections: trace.extent.map(|extent| extent.sections),
            truncated: trace.extent.map(|extent| extent.truncated),
            hits: trace.hits,
            records: trace.records,
            outcome: outcome.into(),
            calls: None,
            shortened: None,
            incident,
        }
    }

    /// Returns the line as it is kept: a refused call leaves at most [`MAX_REFUSED_PATH_BYTES`] of
    /// each of its paths, since nobody needs to own the disk that a refused call fills.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if self.outcome == "ok" {
            return self;
        }
        for path in [&mut self.path, &mut self.to] {
            if let Some(above) = path.as_ref().and_then(folder_above) {
                *path = Some(above);
                self.shortened = Some(true);
            }
        }
        self
    }
}

/// Returns the lowest folder above a path that is short enough for the line of a refused call;
/// `None` if the path itself is.
fn folder_above(path: &SpacePath) -> Option<SpacePath> {
    let fits = |path: &SpacePath| path.as_str().len() <= MAX_REFUSED_PATH_BYTES;
    let mut above = path.clone();
    while !fits(&above) {
        above = above.split()?.0;
    }
    (above != *path).then_some(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refused_call_leaves_a_folder_for_a_path_that_is_too_long() {
        let deep = format!("/{}", ["a".repeat(200), "b".repeat(200), "c".repeat(200)].join("/"));
        let line = |path: &str, outcome: &str| JournalLine {
            path: SpacePath::parse(path).ok(),
            outcome: outcome.to_owned(),
            ..JournalLine::default()
        };
        assert_eq!(line(&deep, "ok").bounded(), line(&deep, "ok"));
        assert_eq!(line("/a.md", "stale").bounded(), line("/a.md", "stale"));
        let kept = line(&deep, "stale").bounded();
        let above = kept.path.unwrap();
        assert_eq!((above.as_str().len(), kept.shortened), (402, Some(true)));
        assert!(deep.starts_with(above.as_str()));
    }
}
