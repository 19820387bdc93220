//! What an answer says of each thing that it shortened: `content_ladder`.
//!
//! *Shape*: `entries[]`, one for each cut field, incomplete ones first, with how much of it is shown, the literal call
//! that reads on (`read`) and the resource that is the same window (`resource`); `more_fields[]`, one for each record
//! whose fields do not all fit. Bytes have no call that reads them, only the resource.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::handle::{Extent, Part, digest_of};
use stile_domain::records::record_id::RecordId;
use stile_domain::records::selector::DEFAULT_CHARS;

use super::Link;
use super::climb::Climb;
use super::lines;
use super::shown::{Cut, Field, Kind, MoreFields};
use super::trouble::Trouble;

/// The bytes of one piece of a binary field, at most.
pub const BYTES_PIECE: u64 = 64 * 1024;

/// One cut field, in every form in which it is told.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// In the structure.
    pub(super) json: Json,
    /// In the text.
    pub(super) line: String,
    /// Beside the text.
    pub(super) link: Link,
}

/// A window that a cut field is read on with.
pub(super) struct Onward<'a> {
    pub(super) id: &'a RecordId,
    pub(super) field: &'a str,
    pub(super) status: &'static str,
    /// The characters that are shown, and all that there are.
    pub(super) shown: u64,
    pub(super) size: Option<u64>,
    pub(super) digest: Option<&'a str>,
    /// Where the window begins.
    pub(super) start: u64,
}

/// The entry of a field, if it is cut.
pub(super) fn of_field(climb: &Climb<'_>, id: &RecordId, field: &Field) -> Result<Option<Entry>, Trouble> {
    let Some(cut) = &field.cut else { return Ok(None) };
    if let Kind::Binary { mime_type, size_bytes } = &cut.kind {
        return of_bytes(climb, id, &field.name, cut, mime_type.as_deref(), *size_bytes).map(Some);
    }
    let onward = Onward {
        id,
        field: &field.name,
        status: "truncated",
        shown: cut.shown_chars,
        size: cut.size_chars,
        digest: cut.digest.as_deref(),
        start: cut.shown_chars,
    };
    onward.entry(climb).map(Some)
}

impl Onward<'_> {
    pub(super) fn entry(&self, climb: &Climb<'_>) -> Result<Entry, Trouble> {
        let id = self.id.to_string();
        let args = json!({ "id": id, "field_path": self.field, "offset_chars": self.start });
        let uri = climb.uri(self.id, Part::Window(self.extent(DEFAULT_CHARS)))?;
        let line = lines::next("read_record_field", &args, &lines::shown_of(self.shown, self.size));
        let mut json = head(self.id, &id, self.field, self.status);
        json.insert("shown_chars".to_owned(), self.shown.into());
        put(&mut json, "size_chars", self.size.map(Json::from));
        put(&mut json, "digest", self.digest.map(Json::from));
        json.insert("read".to_owned(), json!({ "tool": "read_record_field", "args": args }));
        json.insert("resource".to_owned(), json!({ "uri": uri }));
        let size = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        let description = format!("{id} {}, from character {}{size} on", Json::from(self.field), self.start);
        let link = Link { uri, name: "field-window".to_owned(), description, mime_type: "text/plain".to_owned() };
        Ok(Entry { json: Json::Object(json), line, link })
    }

    fn extent(&self, limit: u64) -> Extent {
        let digest = self.digest.and_then(digest_of);
        Extent { field: self.field.to_owned(), digest, start: self.start, limit }
    }
}

/// The entry of a field that holds bytes.
fn of_bytes(
    climb: &Climb<'_>,
    id: &RecordId,
    field: &str,
    cut: &Cut,
    mime_type: Option<&str>,
    size_bytes: Option<u64>,
) -> Result<Entry, Trouble> {
    let uri = bytes_uri(climb, id, field)?;
    let mut json = head(id, &id.to_string(), field, "binary-only");
    put(&mut json, "mime_type", mime_type.map(Json::from));
    put(&mut json, "size_bytes", size_bytes.map(Json::from));
    put(&mut json, "digest", cut.digest.as_deref().map(Json::from));
    let mut told = Map::new();
    for name in ["field_path", "mime_type", "size_bytes", "digest"] {
        put(&mut told, name, json.get(name).cloned());
    }
    let line = format!("binary: {} is behind its resource link", Json::Object(told));
    json.insert("resource".to_owned(), json!({ "uri": uri }));
    let size = size_bytes.map(|size| format!(", {size} bytes")).unwrap_or_default();
    let link = Link {
        uri,
        name: "field-bytes".to_owned(),
        description: format!("{id} {}{size}", Json::from(field)),
        mime_type: mime_type.unwrap_or("application/octet-stream").to_owned(),
    };
    Ok(Entry { json: Json::Object(json), line, link })
}

/// The address of the first bytes of a binary field.
pub(super) fn bytes_uri(climb: &Climb<'_>, id: &RecordId, field: &str) -> Result<String, Trouble> {
    let extent = Extent { field: field.to_owned(), digest: None, start: 0, limit: BYTES_PIECE };
    climb.uri(id, Part::Bytes { extent, cursor: None })
}

/// The most bytes of field names that a call repeats.
const NAMES_BYTES: usize = 2048;

/// That a record has more fields than are shown, and the call that shows them. A cursor goes on with the `fields` that were
/// asked for and no others, so that they are said again; where they are too many, and in an address, which has no room for
/// them, the record is gone through from its beginning.
pub(super) fn of_more(
    climb: &Climb<'_>,
    id: &RecordId,
    more: &MoreFields,
    fields: &[String],
) -> Result<Entry, Trouble> {
    let (args, cursor) = match (fields, json!(fields)) {
        ([], _) => (json!({ "id": id.to_string(), "cursor": more.next_cursor }), Some(more.next_cursor.clone())),
        (_, names) if names.to_string().len() <= NAMES_BYTES => {
            (json!({ "id": id.to_string(), "fields": names, "cursor": more.next_cursor }), None)
        }
        _ => (json!({ "id": id.to_string() }), None),
    };
    let uri = climb.uri(id, Part::Fields { cursor })?;
    let note = format!("{} of {} fields shown", more.shown, more.total);
    let line = lines::next("fetch", &args, &note);
    let json = json!({
        "id": id.to_string(), "shown_fields": more.shown, "total_fields": more.total,
        "read": { "tool": "fetch", "args": args }, "resource": { "uri": uri },
    });
    let link = Link {
        uri,
        name: "record".to_owned(),
        description: format!("{id}, its other fields: {note}"),
        mime_type: "application/json".to_owned(),
    };
    Ok(Entry { json, line, link })
}

/// That a record is not shown at all, since its names alone are too long, and the call that shows it.
pub(super) fn of_record(climb: &Climb<'_>, id: &RecordId) -> Result<Entry, Trouble> {
    let args = json!({ "id": id.to_string() });
    let uri = climb.uri(id, Part::Fields { cursor: None })?;
    let line = lines::next("fetch", &args, "");
    let json = json!({
        "id": id.to_string(), "read": { "tool": "fetch", "args": args }, "resource": { "uri": uri },
    });
    let link = Link {
        uri,
        name: "record".to_owned(),
        description: format!("{id}, whole"),
        mime_type: "application/json".to_owned(),
    };
    Ok(Entry { json, line, link })
}

fn head(id: &RecordId, text: &str, field: &str, status: &str) -> Map<String, Json> {
    let mut json = Map::new();
    json.insert("id".to_owned(), text.into());
    json.insert("connection_id".to_owned(), id.connection.clone().unwrap_or_default().into());
    json.insert("stream".to_owned(), id.stream.as_str().into());
    json.insert("record_id".to_owned(), id.key.as_str().into());
    json.insert("field_path".to_owned(), field.into());
    json.insert("preview_status".to_owned(), status.into());
    json
}

fn put(json: &mut Map<String, Json>, name: &str, value: Option<Json>) {
    if let Some(value) = value {
        json.insert(name.to_owned(), value);
    }
}

/// What is told of an answer's shortened things: cut fields first, then bytes, then records with more fields.
pub(super) fn ladder(entries: Vec<Json>, more: Vec<Json>) -> Json {
    let is_bytes = |entry: &Json| entry.get("preview_status").and_then(Json::as_str) == Some("binary-only");
    let (bytes, cut): (Vec<Json>, Vec<Json>) = entries.into_iter().partition(is_bytes);
    let entries: Vec<Json> = cut.into_iter().chain(bytes).collect();
    json!({ "entries": entries, "more_fields": more })
}

/// The schema of `content_ladder`.
pub(super) fn ladder_schema() -> Json {
    json!({
        "type": "object",
        "properties": {
            "entries": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "id": { "type": "string" }, "field_path": { "type": "string" },
                    "preview_status": { "enum": ["truncated", "snippet-only", "binary-only"] },
                    "read": { "type": "object" }, "resource": { "type": "object" }
                },
                "required": ["id", "connection_id", "stream", "record_id", "field_path", "preview_status", "resource"]
            } },
            "more_fields": { "type": "array", "items": { "type": "object" } }
        },
        "required": ["entries"]
    })
}
