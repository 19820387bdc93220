//! Finds references to blobs in JSON that arrives in pieces.

use std::ops::Range;

use crate::json::pieces::{Container, JsonEvent, JsonLexer};
use crate::records::json_pointer::push_step;
use crate::records::pieces;

/// The member that names a blob.
pub(super) const ID: &str = "blob_id";
/// The member with the blob's address.
pub(super) const URL: &str = "fetch_url";
/// The longest way to a reference, and the longest text in a reference, in bytes.
const MAX_TEXT: usize = 1024;

/// An object in a value that names a blob, of this server or of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReference {
    /// Where in the value the object is, as a JSON pointer.
    pub pointer: String,
    /// The blob's name, in the member `blob_id`.
    pub blob_id: String,
    /// The member `mime_type`, if it is a text.
    pub mime_type: Option<String>,
    /// The member `size_bytes`, if it is a number of bytes.
    pub size_bytes: Option<u64>,
    /// Where the object ends in the JSON, in bytes.
    pub end: usize,
    /// Where the object ends in the JSON, in Unicode scalar values.
    pub end_chars: u64,
    /// The bytes of the member `fetch_url`'s value, if the JSON is compact.
    pub(super) url: Option<Range<usize>>,
}

/// Finds references to blobs in valid JSON that arrives in pieces.
///
/// Holds short names and texts only. An object whose place has more than 1,024 bytes is passed
/// over, since no answer has room for the calls that name it.
#[derive(Debug, Default)]
pub struct ReferenceFinder {
    lexer: JsonLexer,
    walk: Walk,
}

#[derive(Debug, Default)]
struct Walk {
    open: Vec<OpenValue>,
    /// The text that is being read, or the digits; `None` if it is long.
    text: Option<String>,
    /// The pieces before this one, in bytes and in scalar values.
    bytes: usize,
    chars: u64,
}

/// An array or an object that has begun.
#[derive(Debug)]
struct OpenValue {
    kind: Container,
    index: u64,
    /// The name of the present member; `None` if it is long.
    name: Option<String>,
    /// Where that name ends, in bytes.
    name_end: usize,
    members: Members,
}

/// The members of an object that say which blob it names.
#[derive(Debug, Default)]
struct Members {
    blob_id: Option<String>,
    mime_type: Option<String>,
    size_bytes: Option<u64>,
    url: Option<Range<usize>>,
}

impl ReferenceFinder {
    /// Reads the next piece. `take` gets each reference that ends in it.
    pub fn feed(&mut self, piece: &str, take: &mut dyn FnMut(FoundReference)) {
        let Self { lexer, walk } = self;
        lexer.feed(piece, &mut |event, end| {
            if let Some(found) = walk.follow(event, piece, end) {
                take(found);
            }
        });
        walk.bytes += piece.len();
        walk.chars += pieces::count(piece);
    }
}

impl Walk {
    fn follow(&mut self, event: JsonEvent<'_>, piece: &str, end: usize) -> Option<FoundReference> {
        let at = self.bytes + end;
        match event {
            JsonEvent::Begin(kind) => {
                self.text = Some(String::new());
                let (name, members) = (Some(String::new()), Members::default());
                self.open.push(OpenValue { kind, index: 0, name, name_end: 0, members });
            }
            JsonEvent::Name(part) | JsonEvent::Text(part) | JsonEvent::Scalar(part) => {
                let text = self.text.get_or_insert_default();
                if text.len() <= MAX_TEXT {
                    text.push_str(part);
                }
            }
            JsonEvent::NameEnd => {
                let name = self.take_text();
                let open = self.open.last_mut()?;
                open.name = name;
                open.name_end = at;
            }
            JsonEvent::TextEnd => {
                let text = self.take_text();
                self.open.last_mut()?.end_value(ScalarKind::Text, text, at);
            }
            JsonEvent::ScalarEnd => {
                let digits = self.take_text();
                self.open.last_mut()?.end_value(ScalarKind::Other, digits, at);
            }
            JsonEvent::End => {
                let members = self.open.pop()?.members;
                let pointer = self.pointer();
                if let Some(around) = self.open.last_mut() {
                    around.end_value(ScalarKind::Other, None, at);
                }
                return Some(FoundReference {
                    pointer: pointer?,
                    blob_id: members.blob_id?,
                    mime_type: members.mime_type,
                    size_bytes: members.size_bytes,
                    end: at,
                    end_chars: self.chars + pieces::count(piece.get(..end).unwrap_or_default()),
                    url: members.url,
                });
            }
        }
        None
    }

    fn take_text(&mut self) -> Option<String> {
        let text = self.text.replace(String::new()).unwrap_or_default();
        (text.len() <= MAX_TEXT).then_some(text)
    }

    /// Returns the place of the present value of the innermost open one.
    fn pointer(&self) -> Option<String> {
        let mut pointer = String::new();
        for open in &self.open {
            match open.kind {
                Container::Array => push_step(&mut pointer, &open.index.to_string()),
                Container::Object => push_step(&mut pointer, open.name.as_deref()?),
            }
        }
        (pointer.len() <= MAX_TEXT).then_some(pointer)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScalarKind {
    Text,
    Other,
}

impl OpenValue {
    /// Goes on to the next value, after one that ended at the byte `at`: a scalar with its text, or
    /// an array or an object.
    fn end_value(&mut self, kind: ScalarKind, text: Option<String>, at: usize) {
        self.index += 1;
        if self.kind == Container::Array {
            return;
        }
        let members = &mut self.members;
        match (self.name.as_deref().unwrap_or_default(), kind) {
            (ID, ScalarKind::Text) => members.blob_id = text,
            ("mime_type", ScalarKind::Text) => members.mime_type = text,
            ("size_bytes", ScalarKind::Other) => {
                members.size_bytes = text.and_then(|digits| digits.parse().ok());
            }
            // A colon stands between the name and the value.
            (URL, _) => members.url = Some(self.name_end + 1..at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn references_are_the_same_however_the_json_is_cut(
            name in "[a-c\"é/~]{0,3}", text in "\\PC{0,9}", size in 1_usize..30,
        ) {
            let (name, text) = (serde_json::Value::from(name), serde_json::Value::from(text));
            let json = format!(
                "{{{name}:[{text},-1.5e3,{{\"blob_id\":{text},\"size_bytes\":12,\"mime_type\":\"a/b\"}}],\
                 \"x\":{{\"blob_id\":\"é\",\"fetch_url\":[1,{text}],\"sha256\":\"0\"}}}}"
            );
            let mut whole = Vec::new();
            ReferenceFinder::default().feed(&json, &mut |found| whole.push(found));
            prop_assert_eq!(whole.len(), 2);
            for found in &whole {
                prop_assert_eq!(pieces::count(&json[..found.end]), found.end_chars);
                let value: serde_json::Value = serde_json::from_str(&json).unwrap();
                let object = value.pointer(&found.pointer).unwrap();
                prop_assert_eq!(object["blob_id"].as_str(), Some(found.blob_id.as_str()));
                prop_assert_eq!(object["size_bytes"].as_u64(), found.size_bytes);
                if let Some(url) = &found.url {
                    prop_assert_eq!(&json[url.clone()], object["fetch_url"].to_string());
                }
            }
            let letters: Vec<char> = json.chars().collect();
            let (mut finder, mut cut) = (ReferenceFinder::default(), Vec::new());
            for piece in letters.chunks(size) {
                finder.feed(&piece.iter().collect::<String>(), &mut |found| cut.push(found));
            }
            prop_assert_eq!(cut, whole);
        }
    }
}
