//! How to read what an answer leaves out: the member `content_ladder`.
//!
//! *Shape*: `entries[]` has one entry for each truncated field, and one for each reference to
//! bytes, wherever in a value the reference is; bytes come last. An entry says how much is shown,
//! the call that continues (`read`) and the resource with the same part (`resource`).
//! `more_fields[]` has one entry for each record that shows some of its fields only. An entry has
//! the parts of the record's identifier beside it only if the identifier is short.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use stile_domain::base64::encoded_text::EncodedText;
use stile_domain::hash::hex;
use stile_domain::json::text::ObjectText;
use stile_domain::records::blob::BlobId;
use stile_domain::records::handle::{FieldRange, RecordPart, parse_digest};
use stile_domain::records::record_id::RecordId;
use stile_domain::records::selector::DEFAULT_CHARS;
use stile_tools::answer::ResourceLink;

use super::call_context::CallContext;
use super::error::LadderError;
use super::json_members::present_members;
use super::record_view::{CutKind, FieldView, MoreFields};
use super::text_lines;

/// The most bytes of a binary field in one resource.
pub(super) const MAX_BYTES_PART: u64 = 64 * 1024;

/// The usual length of an entry, in bytes.
const ENTRY_BYTES: usize = 900;

/// The longest identifier, in bytes, whose parts an entry repeats. The parts of a longer identifier
/// stand only within the identifier.
const MAX_REPEATED_ID: usize = 256;

/// Returns whether an entry repeats the parts of an identifier beside it.
pub(super) fn repeats_parts(id: &str) -> bool {
    id.len() <= MAX_REPEATED_ID
}

/// Something that an answer shortens, and how to read the rest. Rendered on demand for the text,
/// the structure and the links.
pub(super) struct Continuation<'a> {
    id: &'a RecordId,
    /// The record's identifier as text.
    name: String,
    what: ContinuationKind<'a>,
    uri: String,
}

enum ContinuationKind<'a> {
    /// A text field that continues.
    Text(TextContinuation<'a>),
    /// A binary field, or a reference to bytes within a field.
    Bytes(BytesContinuation<'a>),
    /// A field with more references to bytes than an answer names.
    MoreBytes { field: &'a str, unnamed: usize },
    /// A record with more fields than shown. The call that shows the rest names these fields and
    /// begins at this cursor.
    More { shown: u64, total: u64, fields: Option<&'a [String]>, cursor: Option<&'a str> },
    /// A record of which no field is shown.
    Record,
}

/// The window with which a client reads the rest of a truncated field.
pub(super) struct TextContinuation<'a> {
    pub(super) field: &'a str,
    pub(super) status: PreviewStatus,
    /// The scalar values shown, and the scalar values of the whole field.
    pub(super) shown: u64,
    pub(super) size: Option<u64>,
    pub(super) digest: Option<&'a str>,
    /// The offset at which the window begins, in scalar values.
    pub(super) start: u64,
    /// A text that the call finds, if its offset is not known.
    pub(super) find: Option<&'a str>,
    /// What the whole field seems to encode.
    pub(super) looks_like: Option<&'a EncodedText>,
}

/// Bytes that an answer does not show.
pub(super) struct BytesContinuation<'a> {
    pub(super) field: Cow<'a, str>,
    pub(super) mime_type: Option<&'a str>,
    pub(super) size_bytes: Option<u64>,
    pub(super) digest: Option<Cow<'a, str>>,
}

/// A [`Continuation`], rendered for the structure.
#[derive(Clone, Debug)]
pub(super) struct LadderEntry {
    /// Compact JSON.
    pub(super) json: String,
    is_bytes: bool,
}

impl LadderEntry {
    fn json(&self) -> &str {
        &self.json
    }

    /// Returns the bytes of the entry in a list, with a comma after it.
    pub(super) fn len(&self) -> usize {
        self.json.len() + 1
    }
}

/// A [`Continuation`], rendered for both the structure and the links.
#[derive(Clone, Debug)]
pub(super) struct RenderedContinuation {
    pub(super) entry: LadderEntry,
    pub(super) link: ResourceLink,
}

/// Returns the continuation of a field; `None` if the field is complete.
pub(super) fn of_field<'a>(
    context: &CallContext,
    id: &'a RecordId,
    field: &'a FieldView,
) -> Result<Option<Continuation<'a>>, LadderError> {
    let Some(cut) = &field.cut else { return Ok(None) };
    if let CutKind::Binary { mime_type, size_bytes } = &cut.kind {
        let bytes = BytesContinuation {
            field: field.name.as_str().into(),
            mime_type: mime_type.as_deref(),
            size_bytes: *size_bytes,
            digest: cut.digest.as_deref().map(Cow::Borrowed),
        };
        return bytes.continuation(context, id).map(Some);
    }
    let onward = TextContinuation {
        field: &field.name,
        status: PreviewStatus::Truncated,
        shown: cut.shown_chars,
        size: cut.size_chars,
        digest: cut.digest.as_deref(),
        start: cut.shown_chars,
        find: None,
        looks_like: cut.looks_like.as_ref(),
    };
    onward.continuation(context, id).map(Some)
}

/// Returns the continuations of the references to bytes within a field: of the first `most`, and
/// one that leads to the others.
pub(super) fn of_references<'a>(
    context: &CallContext,
    id: &'a RecordId,
    field: &'a FieldView,
    most: usize,
) -> Result<Vec<Continuation<'a>>, LadderError> {
    let named = field.references.iter().take(most);
    let mut all: Vec<Continuation<'a>> = named
        .map(|reference| {
            let bytes = BytesContinuation {
                field: format!("{}{}", field.name, reference.pointer).into(),
                mime_type: reference.mime_type.as_deref(),
                size_bytes: reference.size_bytes,
                // Another server may name blobs in another way.
                digest: BlobId::parse(&reference.blob_id)
                    .map(|id| format!("sha256:{}", hex(id.digest())).into()),
            };
            bytes.continuation(context, id)
        })
        .collect::<Result<_, _>>()?;
    let unnamed = field.references.len().saturating_sub(most);
    if unnamed > 0 {
        let whole =
            FieldRange { field: field.name.clone(), digest: None, start: 0, limit: DEFAULT_CHARS };
        let uri = context.uri(id, RecordPart::Window(whole))?;
        let what = ContinuationKind::MoreBytes { field: &field.name, unnamed };
        all.push(Continuation::new(id, what, uri));
    }
    Ok(all)
}

impl<'a> BytesContinuation<'a> {
    /// Returns the continuation that begins with the first byte.
    pub(super) fn continuation(
        self,
        context: &CallContext,
        id: &'a RecordId,
    ) -> Result<Continuation<'a>, LadderError> {
        let uri = bytes_uri(context, id, &self.field)?;
        Ok(self.at(id, uri))
    }

    /// Returns the continuation that begins at an address.
    pub(super) fn at(self, id: &'a RecordId, uri: String) -> Continuation<'a> {
        Continuation::new(id, ContinuationKind::Bytes(self), uri)
    }
}

impl<'a> TextContinuation<'a> {
    /// Returns the continuation for a field of this record.
    pub(super) fn continuation(
        self,
        context: &CallContext,
        id: &'a RecordId,
    ) -> Result<Continuation<'a>, LadderError> {
        let digest = self.digest.and_then(parse_digest);
        let extent = FieldRange {
            field: self.field.to_owned(),
            digest,
            start: self.start,
            limit: DEFAULT_CHARS,
        };
        let uri = context.uri(id, RecordPart::Window(extent))?;
        Ok(self.at(id, uri))
    }

    /// Returns the continuation for a window with a known address.
    pub(super) fn at(self, id: &'a RecordId, uri: String) -> Continuation<'a> {
        Continuation::new(id, ContinuationKind::Text(self), uri)
    }
}

/// Returns the address of the first bytes of a binary field.
pub(super) fn bytes_uri(
    context: &CallContext,
    id: &RecordId,
    field: &str,
) -> Result<String, LadderError> {
    let extent =
        FieldRange { field: field.to_owned(), digest: None, start: 0, limit: MAX_BYTES_PART };
    context.uri(id, RecordPart::Bytes { extent, cursor: None })
}

/// The most bytes of field names that a call repeats.
const NAMES_BYTES: usize = 2048;

/// Returns the continuation of a record with more fields than shown.
///
/// A cursor is valid only with the same `fields`, so the call repeats these. If the names are too
/// long for that, the call reads the record from its beginning. So does the address, which has no
/// room for names.
pub(super) fn of_more<'a>(
    context: &CallContext,
    id: &'a RecordId,
    more: &'a MoreFields,
    fields: &'a [String],
) -> Result<Continuation<'a>, LadderError> {
    let repeated = repeated_names(fields);
    let cursor =
        Some(more.next_cursor.as_str()).filter(|_| fields.is_empty() || repeated.is_some());
    let part = RecordPart::Fields { cursor: fields.is_empty().then(|| more.next_cursor.clone()) };
    let MoreFields { shown, total, .. } = *more;
    let what = ContinuationKind::More { shown, total, fields: repeated, cursor };
    Ok(Continuation::new(id, what, context.uri(id, part)?))
}

/// Returns the fields that a call repeats: those of the request, if their names are short.
fn repeated_names(fields: &[String]) -> Option<&[String]> {
    let is_repeated = !fields.is_empty() && json!(fields).to_string().len() <= NAMES_BYTES;
    is_repeated.then_some(fields)
}

/// Returns the continuation of a record of which an answer has no room for all fields: the call
/// reads the requested fields from the first one on.
pub(super) fn of_cut<'a>(
    context: &CallContext,
    id: &'a RecordId,
    (shown, total): (u64, u64),
    fields: &'a [String],
) -> Result<Continuation<'a>, LadderError> {
    let what =
        ContinuationKind::More { shown, total, fields: repeated_names(fields), cursor: None };
    Ok(Continuation::new(id, what, context.uri(id, RecordPart::Fields { cursor: None })?))
}

/// Returns the continuation of a record of which no field is shown.
pub(super) fn of_record<'a>(
    context: &CallContext,
    id: &'a RecordId,
) -> Result<Continuation<'a>, LadderError> {
    Ok(Continuation::new(
        id,
        ContinuationKind::Record,
        context.uri(id, RecordPart::Fields { cursor: None })?,
    ))
}

impl<'a> Continuation<'a> {
    fn new(id: &'a RecordId, what: ContinuationKind<'a>, uri: String) -> Self {
        Self { id, name: id.to_string(), what, uri }
    }

    /// Returns the tool that continues, and its arguments as compact JSON.
    pub(super) fn read(&self) -> (&'static str, String) {
        let mut args = ObjectText::new(self.name.len() + 96);
        self.put_args(&mut args);
        (self.tool(), args.finish())
    }

    /// Adds the member `read`: the call that continues.
    pub(super) fn put_read(&self, object: &mut ObjectText) {
        object.put_object("read", |call| {
            call.put("tool", self.tool());
            call.put_object("args", |args| self.put_args(args));
        });
    }

    fn tool(&self) -> &'static str {
        match &self.what {
            ContinuationKind::Text(_) | ContinuationKind::MoreBytes { .. } => "read_record_field",
            ContinuationKind::Bytes(_)
            | ContinuationKind::More { .. }
            | ContinuationKind::Record => "fetch",
        }
    }

    fn put_args(&self, args: &mut ObjectText) {
        match &self.what {
            ContinuationKind::Text(TextContinuation { field, start, find, .. }) => {
                args.put("id", &self.name);
                args.put("field_path", field);
                match find {
                    Some(text) => args.put("q", text),
                    None => args.put("offset_chars", start),
                }
            }
            ContinuationKind::Bytes(_) => args.put("id", &self.uri),
            ContinuationKind::MoreBytes { field, .. } => {
                args.put("id", &self.name);
                args.put("field_path", field);
            }
            ContinuationKind::More { fields, cursor, .. } => {
                args.put("id", &self.name);
                args.put_some("fields", *fields);
                args.put_some("cursor", *cursor);
            }
            ContinuationKind::Record => args.put("id", &self.name),
        }
    }

    /// Renders the continuation for the structure.
    pub(super) fn entry(&self) -> LadderEntry {
        LadderEntry { json: self.json(), is_bytes: matches!(self.what, ContinuationKind::Bytes(_)) }
    }

    fn json(&self) -> String {
        let mut json = ObjectText::new(ENTRY_BYTES);
        json.put("id", &self.name);
        let place = match &self.what {
            ContinuationKind::Text(TextContinuation { field, status, .. }) => {
                Some((*field, *status))
            }
            ContinuationKind::Bytes(bytes) => {
                Some((bytes.field.as_ref(), PreviewStatus::BinaryOnly))
            }
            ContinuationKind::MoreBytes { field, .. } => Some((*field, PreviewStatus::Truncated)),
            ContinuationKind::More { .. } | ContinuationKind::Record => None,
        };
        if let Some((field, status)) = place {
            if repeats_parts(&self.name) {
                let RecordId { connection, stream, key } = self.id;
                json.put("connection_id", connection.as_deref().unwrap_or_default());
                json.put("stream", stream);
                json.put("record_id", key);
            }
            json.put("field_path", field);
            json.put("preview_status", &status);
        }
        for (name, size) in self.sizes() {
            json.put_some(name, size.as_ref());
        }
        json.put_some("looks_like", self.looks_like().as_ref());
        self.put_read(&mut json);
        json.put_object("resource", |resource| resource.put("uri", &self.uri));
        json.finish()
    }

    /// Renders what a text seems to encode.
    fn looks_like(&self) -> Option<Json> {
        let ContinuationKind::Text(TextContinuation { looks_like, .. }) = &self.what else {
            return None;
        };
        looks_like.map(|EncodedText { mime_type, size_bytes }| {
            json!({ "mime_type": mime_type, "encoding": "base64", "size_bytes": size_bytes })
        })
    }

    /// Returns the members that say how much there is and how much is shown.
    fn sizes(&self) -> [(&'static str, Option<Json>); 3] {
        match &self.what {
            ContinuationKind::Text(TextContinuation { shown, size, digest, .. }) => [
                ("shown_chars", Some((*shown).into())),
                ("size_chars", size.map(Json::from)),
                ("digest", digest.map(Json::from)),
            ],
            ContinuationKind::Bytes(BytesContinuation {
                mime_type, size_bytes, digest, ..
            }) => [
                ("mime_type", mime_type.map(Json::from)),
                ("size_bytes", size_bytes.map(Json::from)),
                ("digest", digest.as_deref().map(Json::from)),
            ],
            ContinuationKind::MoreBytes { unnamed, .. } => {
                [("more_references", Some((*unnamed).into())), ("", None), ("", None)]
            }
            ContinuationKind::More { shown, total, .. } => [
                ("shown_fields", Some((*shown).into())),
                ("total_fields", Some((*total).into())),
                ("", None),
            ],
            ContinuationKind::Record => [("", None), ("", None), ("", None)],
        }
    }

    /// Renders the continuation as a line of the text.
    pub(super) fn line(&self) -> String {
        let note = match &self.what {
            ContinuationKind::Text(TextContinuation { shown, size, .. }) => {
                let note = text_lines::shown_note(*shown, *size);
                self.looks_like()
                    .map_or(note.clone(), |seems| format!("{note}; looks like {seems}"))
            }
            ContinuationKind::Bytes(bytes) => {
                let [mime_type, size_bytes, digest] = self.sizes();
                let path = ("field_path", Some(bytes.field.as_ref().into()));
                let members = present_members([path, mime_type, size_bytes, digest]);
                format!("bytes: {}", Json::Object(members))
            }
            ContinuationKind::MoreBytes { unnamed, .. } => {
                format!("its windows name {unnamed} more references to bytes")
            }
            ContinuationKind::More { shown, total, .. } => shown_fields_note(*shown, *total),
            ContinuationKind::Record => String::new(),
        };
        let (tool, args) = self.read();
        text_lines::next_call(tool, &args, &note)
    }

    /// Renders the continuation as a link beside the text.
    pub(super) fn link(self) -> ResourceLink {
        let Self { name: id, what, uri, .. } = self;
        let (name, description, mime_type) = match what {
            ContinuationKind::Text(TextContinuation { field, start, size, .. }) => {
                let size = size.map(|size| format!(" of {size}")).unwrap_or_default();
                let description =
                    format!("{id} {}, from character {start}{size} on", Json::from(field));
                ("field-window", description, "text/plain")
            }
            ContinuationKind::Bytes(BytesContinuation { field, mime_type, size_bytes, .. }) => {
                let size = size_bytes.map(|size| format!(", {size} bytes")).unwrap_or_default();
                let mime_type = mime_type.unwrap_or("application/octet-stream");
                ("field-bytes", format!("{id} {}{size}", Json::from(field)), mime_type)
            }
            ContinuationKind::MoreBytes { field, .. } => {
                ("field-window", format!("{id} {}, its JSON", Json::from(field)), "text/plain")
            }
            ContinuationKind::More { shown, total, .. } => (
                "record",
                format!("{id}, its other fields: {}", shown_fields_note(shown, total)),
                "application/json",
            ),
            ContinuationKind::Record => ("record", format!("{id}, whole"), "application/json"),
        };
        ResourceLink { uri, name: name.to_owned(), description, mime_type: mime_type.to_owned() }
    }

    /// Renders the continuation for the structure and as a link.
    pub(super) fn rendered(self) -> RenderedContinuation {
        RenderedContinuation { entry: self.entry(), link: self.link() }
    }
}

fn shown_fields_note(shown: u64, total: u64) -> String {
    format!("{shown} of {total} fields shown")
}

/// Makes the member `content_ladder`. Binary fields come last in `entries`.
pub(super) fn content_ladder(entries: &[LadderEntry], more: &[LadderEntry]) -> String {
    let bytes = entries.iter().chain(more).map(LadderEntry::len).sum::<usize>();
    let of = |is_bytes: bool| entries.iter().filter(move |entry| entry.is_bytes == is_bytes);
    let mut ladder = ObjectText::new(bytes + 64);
    ladder.put_list("entries", of(false).chain(of(true)).map(LadderEntry::json));
    ladder.put_list("more_fields", more.iter().map(LadderEntry::json));
    ladder.finish()
}

// The shape of `content_ladder`. A doc comment would become part of every output schema.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
pub(super) struct LadderShape {
    entries: Vec<EntryShape>,
    more_fields: Option<Vec<Map<String, Json>>>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema of the shape is used")]
struct EntryShape {
    id: String,
    connection_id: Option<String>,
    stream: Option<String>,
    record_id: Option<String>,
    field_path: String,
    preview_status: PreviewStatus,
    read: Option<Map<String, Json>>,
    resource: Map<String, Json>,
}

// How much of a field an answer shows.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PreviewStatus {
    Truncated,
    SnippetOnly,
    BinaryOnly,
}
