//! A window in a tool's answer: its length as JSON, its position, and its neighbours.

use serde_json::Value as Json;
use stile_domain::records::handle::{ContentVersion, FieldRange, Handle, RecordPart};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::selector::TextSelector;

use super::super::budget::{LONGEST_ESCAPE, escaped_len, prefix_within};
use super::super::call_context::CallContext;
use super::super::continuation::{BytesContinuation, Continuation, repeats_parts};
use super::super::error::LadderError;
use super::super::json_members::json_object;
use super::super::text_lines;
use super::wire_window::WireReference;

/// The most references to bytes that a window names. A window with more is shortened.
const MAX_REFERENCES: usize = 8;
/// A reference has at least so many characters: a member with an identifier.
const MIN_REFERENCE_CHARS: u64 = 80;

/// A window whose response was checked.
pub(crate) struct CheckedWindow {
    pub(crate) id: RecordId,
    pub(crate) field: String,
    pub(crate) text: String,
    pub(crate) text_like: bool,
    pub(crate) mime_type: Option<String>,
    pub(crate) size_chars: Option<u64>,
    pub(crate) digest: Option<String>,
    pub(super) version: ContentVersion,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) limit: u64,
    pub(crate) complete: bool,
    pub(crate) found: Option<(u64, u64)>,
    /// The references to bytes that end in the window.
    pub(super) references: Vec<WireReference>,
    pub(super) next: Option<AdjacentWindow>,
    pub(super) previous: Option<AdjacentWindow>,
}

/// The window before or after another one.
pub(super) struct AdjacentWindow {
    pub(super) start: u64,
    pub(super) limit: u64,
    pub(super) cursor: String,
}

impl CheckedWindow {
    /// Returns how many scalar values of the text fit into an answer; `None` if all do.
    pub(super) fn fitting_chars(
        &self,
        context: &CallContext,
        selector: &TextSelector,
    ) -> Option<u64> {
        if let Some(last) = self.references.get(MAX_REFERENCES - 1)
            && self.references.len() > MAX_REFERENCES
        {
            let chars = match selector {
                TextSelector::Around { .. } => MIN_REFERENCE_CHARS * MAX_REFERENCES as u64,
                _ => last.end_chars.saturating_sub(self.start),
            };
            return Some(chars.max(1));
        }
        let room = context.budgets.structured.saturating_sub(self.max_members_len(selector));
        if self.text.len().saturating_mul(LONGEST_ESCAPE) <= room {
            return None;
        }
        let (shown, count) = prefix_within(&self.text, usize::MAX, room);
        (shown.len() < self.text.len()).then_some((count as u64).max(1))
    }

    /// Returns an upper bound for the structure without the text, in bytes: names, cursors, three
    /// addresses and the search text.
    pub(super) fn max_members_len(&self, selector: &TextSelector) -> usize {
        /// Member names, numbers, digest and media type.
        const FIXED: usize = 1024;
        /// The sealed parts of an address that are not names, and its beginning.
        const SEALED: usize = 256;
        let q = if let TextSelector::Around { q, .. } = selector { escaped_len(q) } else { 0 };
        let RecordId { connection, stream, key } = &self.id;
        let names = connection.as_ref().map_or(0, String::len)
            + stream.len()
            + key.len()
            + self.field.len();
        let cursors: usize = [&self.next, &self.previous]
            .into_iter()
            .flatten()
            .map(|beside| beside.cursor.len())
            .sum();
        let id = self.id.to_string();
        let named = id.len() + names + escaped_len(key) + escaped_len(&self.field);
        let address = (names + SEALED) * 4 / 3;
        // A reference is named with two addresses, and may have a longer path than the field.
        let paths: usize =
            self.references.iter().map(|reference| 3 * escaped_len(&reference.path)).sum();
        let entry_names = if repeats_parts(&id) { named } else { id.len() };
        let references = self.references.len() * (FIXED / 2 + entry_names + 2 * address) + paths;
        FIXED + q + cursors + named + 3 * address + references
    }

    /// Returns the continuations of the references to bytes that end in the window.
    pub(crate) fn bytes(
        &self,
        context: &CallContext,
    ) -> Result<Vec<Continuation<'_>>, LadderError> {
        let one = |reference| -> Result<Continuation<'_>, LadderError> {
            let reference: &WireReference = reference;
            let bytes = BytesContinuation {
                field: reference.path.as_str().into(),
                mime_type: reference.mime_type.as_deref(),
                size_bytes: reference.size_bytes,
                digest: reference.digest.as_deref().map(Into::into),
            };
            bytes.continuation(context, &self.id)
        };
        self.references.iter().map(one).collect()
    }

    /// Returns the address of a part of the field in its current version.
    fn uri(&self, context: &CallContext, start: u64, limit: u64) -> Result<String, LadderError> {
        let digest = self.version.digest;
        context.uri(
            &self.id,
            RecordPart::Window(FieldRange { field: self.field.clone(), digest, start, limit }),
        )
    }

    /// Returns the address of this window.
    pub(crate) fn own_uri(&self, context: &CallContext) -> Result<String, LadderError> {
        self.uri(context, self.start, self.end.saturating_sub(self.start).max(1))
    }

    /// Returns the address of the next window.
    pub(crate) fn next_uri(&self, context: &CallContext) -> Result<Option<String>, LadderError> {
        self.next.as_ref().map(|next| self.uri(context, next.start, next.limit)).transpose()
    }

    /// Returns the address of the previous window.
    pub(crate) fn previous_uri(
        &self,
        context: &CallContext,
    ) -> Result<Option<String>, LadderError> {
        self.previous
            .as_ref()
            .map(|before| self.uri(context, before.start, before.limit))
            .transpose()
    }

    /// Checks that a handle was issued to this caller and for the field's current version.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`] and [`CursorProblem::Stale`].
    pub(crate) fn check(&self, context: &CallContext, handle: &Handle) -> Result<(), LadderError> {
        handle
            .check(context.handle_binding(), self.version.digest)
            .map_err(|why: CursorProblem| LadderError::Cursor(why))
    }

    /// Renders the first line of the text: position and cursors as JSON, and the number of the line
    /// where the field's text begins. The field's text cannot forge this line.
    pub(super) fn header(&self, id: &str) -> String {
        let lines = usize::from(self.next.is_some()) + self.references.len();
        let cursor = |beside: &Option<AdjacentWindow>| {
            Json::from(beside.as_ref().map(|beside| beside.cursor.as_str()))
        };
        let header = json_object([
            ("id", id.into()),
            ("field_path", self.field.as_str().into()),
            ("start_chars", self.start.into()),
            ("end_chars", self.end.into()),
            ("size_chars", self.size_chars.into()),
            ("complete", self.complete.into()),
            ("next_cursor", cursor(&self.next)),
            ("previous_cursor", cursor(&self.previous)),
            ("text_from_line", (2 + lines).into()),
        ]);
        text_lines::escape_line_breaks(header.to_string())
    }
}
