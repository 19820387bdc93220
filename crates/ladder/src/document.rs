//! A document as `fetch` answers it: one JSON text, and the same as structure with links.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use stile_tools::answer::ResourceLink;

use super::continuation::{self, LadderEntry, LadderShape, RenderedContinuation};
use super::json_members::{members_of, tree};
use super::output::Shape;
use super::text_lines;

/// The most characters of a title in a structured answer.
pub(super) const TITLE_CHARS: usize = 120;

/// A record, or a part of a field, as a document: text, structure and links.
pub(super) struct Document {
    /// The document as JSON text, complete without the structure.
    pub(super) text: String,
    pub(super) structured: Map<String, Json>,
    pub(super) links: Vec<ResourceLink>,
    /// The address of the remaining fields.
    pub(super) next_uri: Option<String>,
}

/// The structured answers of `fetch`.
#[derive(Serialize, JsonSchema)]
pub struct FetchAnswer {
    id: String,
    title: String,
    text: String,
    url: String,
    metadata: Map<String, Json>,
    #[schemars(with = "LadderShape")]
    content_ladder: Json,
}

impl Shape for FetchAnswer {}

/// A document without its text.
pub(super) struct DocumentParts {
    pub(super) id: String,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) metadata: Map<String, Json>,
    pub(super) entries: Vec<RenderedContinuation>,
    pub(super) more: Option<RenderedContinuation>,
}

/// The JSON of the document's text.
#[derive(Serialize)]
struct DocumentJson<'a> {
    id: &'a str,
    title: &'a str,
    text: &'a str,
    url: &'a str,
    metadata: &'a Map<String, Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<Json>,
}

impl DocumentParts {
    fn to_json<'a>(&'a self, text: &'a str) -> DocumentJson<'a> {
        let Self { id, url, title, metadata, .. } = self;
        let next = self.entries.iter().chain(&self.more).map(continuation_step).collect();
        DocumentJson { id, title, text, url, metadata, next }
    }

    /// Returns the length of the document's text without its text field, in bytes.
    pub(super) fn len(&self) -> usize {
        serde_json::to_string(&self.to_json(""))
            .map_or(0, |json| text_lines::escape_line_breaks(json).len())
    }

    /// Builds the document with this text.
    pub(super) fn document(self, text: String) -> Document {
        // Serializing strings and JSON values cannot fail.
        let json = text_lines::escape_line_breaks(
            serde_json::to_string(&self.to_json(&text)).unwrap_or_default(),
        );
        let Self { id, url, title, metadata, entries, more } = self;
        let next_uri = more.as_ref().map(|more| more.link.uri.clone());
        let mut links = Vec::new();
        let mut parts = |entry: RenderedContinuation| {
            links.push(entry.link);
            entry.entry
        };
        let entries: Vec<LadderEntry> = entries.into_iter().map(&mut parts).collect();
        let more: Vec<LadderEntry> = more.into_iter().map(&mut parts).collect();
        let content_ladder = tree(&continuation::content_ladder(&entries, &more));
        let answer = FetchAnswer { id, title, text, url, metadata, content_ladder };
        let structured = members_of(&answer);
        Document { text: json, structured, links, next_uri }
    }
}

/// Renders what the text says about a truncated field: how much is shown, and the call that
/// continues. Leaves out what the document already says and what only programs need.
pub(super) fn continuation_step(entry: &RenderedContinuation) -> Json {
    let json = tree(&entry.entry.json);
    let Some(members) = json.as_object() else { return Json::Null };
    // The call that reads bytes has an address only.
    let names_field = json.pointer("/read/args/field_path").is_some();
    let is_spoken = |name: &str| match name {
        "id" | "connection_id" | "stream" | "record_id" | "resource" => true,
        "field_path" | "digest" => names_field,
        _ => false,
    };
    let kept = members.iter().filter(|(name, _)| !is_spoken(name));
    Json::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}
