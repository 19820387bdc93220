//! A part of a field that an address names: characters of its text, or bytes.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use stile_domain::base64;
use stile_domain::records::handle::{FieldRange, Handle, HandleKind, RecordPart, parse_digest};
use stile_domain::records::problem::CursorProblem;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::GetFieldWindow;
use stile_domain::records::selector::{MAX_CHARS, TextSelector};

use super::budget::{LONGEST_ESCAPE, prefix_within};
use super::call_context::CallContext;
use super::continuation::{Continuation, MAX_BYTES_PART, RenderedContinuation};
use super::error::LadderError;
use super::json_members::members;
use super::read_record_field::{field_request, not_text_error, read_window};
use super::record_reference::{handle_record, open_handle};
use super::wire;

/// A part of a field, and the addresses of the parts beside it.
pub(super) struct FieldPart {
    pub(super) id: RecordId,
    pub(super) field: String,
    pub(super) body: PartBody,
    pub(super) mime_type: String,
    pub(super) next: Option<NextPart>,
    pub(super) previous_uri: Option<String>,
    /// How to read the bytes that the part refers to.
    pub(super) references: Vec<RenderedContinuation>,
    /// The bounds of this part and the size of the whole.
    pub(super) range: Map<String, Json>,
}

/// What follows a part.
pub(super) struct NextPart {
    pub(super) uri: String,
    /// Where it begins, in characters or bytes.
    pub(super) start: u64,
}

pub(super) enum PartBody {
    Text(String),
    Base64(String),
}

/// Who reads a part.
#[derive(Clone, Copy)]
pub(super) enum PartForm {
    /// A client that reads resources: bytes are bytes, and a part is as long as its address says.
    Resource,
    /// A model that reads the text of an answer: bytes of a text are shown as text, and the JSON of
    /// a part has at most so many bytes.
    Document { max_bytes: usize },
}

/// A response with a window of bytes.
#[derive(Deserialize)]
struct WireByteWindow {
    field: WireByteField,
    window: WireBytes,
}

#[derive(Deserialize)]
struct WireByteField {
    mime_type: Option<String>,
    digest: Option<String>,
}

#[derive(Deserialize)]
struct WireBytes {
    base64: String,
    total_bytes: Option<u64>,
    start_bytes: u64,
    end_bytes: u64,
    next_offset_bytes: Option<u64>,
    previous_offset_bytes: Option<u64>,
    next_cursor: Option<String>,
    previous_cursor: Option<String>,
}

impl WireBytes {
    /// Returns whether the numbers fit the bytes and each other, and the window begins at the
    /// requested offset, if there was one.
    fn is_consistent(&self, requested: Option<u64>) -> bool {
        let Self { start_bytes: start, end_bytes: end, .. } = *self;
        // Four characters are three bytes, less the padding.
        let filled = self.base64.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
        let count = (self.base64.len() / 4 * 3)
            .checked_sub(filled)
            .and_then(|count| u64::try_from(count).ok());
        let total = self.total_bytes.unwrap_or(u64::MAX);
        self.base64.len().is_multiple_of(4)
            && count.is_some_and(|count| {
                count <= MAX_BYTES_PART && end.checked_sub(start) == Some(count)
            })
            && end <= total
            && i64::try_from(end).is_ok()
            && self.next_offset_bytes.is_none_or(|next| next == end && start < end)
            && self.previous_offset_bytes.is_none_or(|previous| previous < start)
            && requested.is_none_or(|requested| {
                start == requested.min(total) || (start < requested && start == end)
            })
    }

    /// Returns the bytes as text, if their type says that they are text and they are UTF-8 from the
    /// first one on: as many whole characters as fit into JSON of `max_bytes` bytes.
    fn text(&self, mime_type: &str, max_bytes: usize) -> Option<String> {
        let is_text = mime_type.starts_with("text/")
            || matches!(mime_type, "application/json" | "application/xml" | "message/rfc822");
        let bytes = base64::from_standard(&self.base64).filter(|_| is_text)?;
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            // The last character is not whole.
            Err(error) if error.error_len().is_none() && self.next_offset_bytes.is_some() => {
                std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
            }
            Err(_) => return None,
        };
        let (shown, _) = prefix_within(text, usize::MAX, max_bytes);
        (!shown.is_empty() || bytes.is_empty()).then(|| shown.to_owned())
    }
}

impl FieldPart {
    /// Reads the part that a handle names.
    ///
    /// # Errors
    /// As `read_record_field`; [`LadderError::Cursor`] for a handle of another kind, caller or
    /// version.
    pub(super) async fn read(
        context: &CallContext,
        handle: &str,
        form: PartForm,
    ) -> Result<Self, LadderError> {
        let handle = open_handle(context, handle, HandleKind::Field)?;
        match handle.part.clone() {
            RecordPart::Bytes { extent, cursor } => {
                Self::read_bytes(context, &handle, extent, cursor.as_deref(), form).await
            }
            RecordPart::Window(extent) => Self::read_text(context, &handle, extent, form).await,
            RecordPart::Fields { .. } => Err(LadderError::Cursor(CursorProblem::Mismatch)),
        }
    }

    async fn read_text(
        context: &CallContext,
        handle: &Handle,
        extent: FieldRange,
        form: PartForm,
    ) -> Result<Self, LadderError> {
        let most = match form {
            PartForm::Resource => MAX_CHARS,
            PartForm::Document { max_bytes } => (max_bytes / LONGEST_ESCAPE) as u64,
        };
        let limit = extent.limit.clamp(1, most.clamp(1, MAX_CHARS));
        let selector = TextSelector::At { start: extent.start, limit };
        let id = handle_record(handle);
        let window = match read_window(context, &id, &extent.field, &selector).await {
            Err(LadderError::Server { response, .. }) if response.code() == "field_not_text" => {
                handle.check(context.handle_binding(), None).map_err(LadderError::Cursor)?;
                // The field was a text when the handle was made, with a known digest, and is not a
                // text now.
                if extent.digest.is_some() {
                    return Err(LadderError::Cursor(CursorProblem::Stale));
                }
                return Err(not_text_error(context, &id, &extent.field, response).await?.0.into());
            }
            other => other?,
        };
        window.check(context, handle)?;
        let next_uri = window.next_uri(context)?;
        let references = window.bytes(context)?.into_iter().map(Continuation::rendered).collect();
        Ok(Self {
            references,
            next: next_uri.map(|uri| NextPart { uri, start: window.end }),
            previous_uri: window.previous_uri(context)?,
            range: members([
                ("start_chars", window.start.into()),
                ("end_chars", window.end.into()),
                ("size_chars", window.size_chars.into()),
            ]),
            id: window.id,
            field: window.field,
            body: PartBody::Text(window.text),
            mime_type: window.mime_type.unwrap_or_else(|| "text/plain".to_owned()),
        })
    }

    async fn read_bytes(
        context: &CallContext,
        handle: &Handle,
        extent: FieldRange,
        cursor: Option<&str>,
        form: PartForm,
    ) -> Result<Self, LadderError> {
        let id = handle_record(handle);
        let most = match form {
            PartForm::Resource => MAX_BYTES_PART,
            // Three bytes are four characters.
            PartForm::Document { max_bytes } => (max_bytes / 4 * 3) as u64,
        };
        let limit = extent.limit.clamp(1, most.clamp(1, MAX_BYTES_PART));
        let request = GetFieldWindow {
            cursor: cursor.map(str::to_owned),
            offset_bytes: cursor.is_none().then_some(extent.start),
            limit_bytes: Some(limit),
            ..field_request(&id, &extent.field)
        };
        let answer = context.send(request).await?;
        let WireByteWindow { field, window } = wire::parse(&answer)?;
        let digest = field.digest.as_deref().and_then(parse_digest);
        handle.check(context.handle_binding(), digest).map_err(LadderError::Cursor)?;
        if !window.is_consistent(cursor.is_none().then_some(extent.start)) {
            return Err(LadderError::invalid_response());
        }
        let uri = |start: u64, limit: u64, cursor: Option<String>| {
            let extent = FieldRange { start, limit, digest, ..extent.clone() };
            context.uri(&id, RecordPart::Bytes { extent, cursor })
        };
        let mime_type = field.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        let text = match form {
            PartForm::Document { max_bytes } => window.text(&mime_type, max_bytes),
            PartForm::Resource => None,
        };
        // A text may end before the bytes do: within its last character, or where it fits no more.
        let end = match &text {
            Some(text) => window.start_bytes + text.len() as u64,
            None => window.end_bytes,
        };
        let next = if end < window.end_bytes {
            Some((end, None))
        } else {
            window.next_offset_bytes.map(|next| (next, window.next_cursor.clone()))
        };
        let next = next
            .map(|(start, cursor)| uri(start, limit, cursor).map(|uri| NextPart { uri, start }))
            .transpose()?;
        let previous_uri = window
            .previous_offset_bytes
            .map(|before| {
                let limit = window.start_bytes.saturating_sub(before);
                uri(before, limit, window.previous_cursor.clone())
            })
            .transpose()?;
        Ok(Self {
            next,
            previous_uri,
            references: Vec::new(),
            range: members([
                ("start_bytes", window.start_bytes.into()),
                ("end_bytes", end.into()),
                ("size_bytes", window.total_bytes.into()),
            ]),
            body: text.map_or(PartBody::Base64(window.base64), PartBody::Text),
            field: extent.field,
            id,
            mime_type,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_windows_of_bytes_are_refused() {
        let bytes = |length: usize, start: u64, end: u64| WireBytes {
            base64: "A".repeat(length),
            total_bytes: None,
            start_bytes: start,
            end_bytes: end,
            next_offset_bytes: Some(end),
            previous_offset_bytes: start.checked_sub(1),
            next_cursor: None,
            previous_cursor: None,
        };
        assert!(bytes(8, 3, 9).is_consistent(Some(3)) && bytes(8, 3, 9).is_consistent(None));
        assert!(!bytes(8, 3, 9).is_consistent(Some(4)), "it begins elsewhere");
        assert!(WireBytes { base64: "AAA=".to_owned(), ..bytes(4, 0, 2) }.is_consistent(Some(0)));
        for (length, start, end) in
            [(8, 9, 3), (8, 3, 10), (7, 0, 5), (8, u64::MAX - 6, u64::MAX), (87_384, 0, 65_538)]
        {
            assert!(!bytes(length, start, end).is_consistent(None), "{length} {start} {end}");
        }
        for next in [0, 3, 10] {
            assert!(
                !WireBytes { next_offset_bytes: Some(next), ..bytes(8, 3, 9) }.is_consistent(None),
                "{next}"
            );
        }
        assert!(
            !WireBytes { previous_offset_bytes: Some(3), ..bytes(8, 3, 9) }.is_consistent(None)
        );
    }
}
