//! Blobs: bytes that a record refers to, such as an attachment.
//!
//! A blob is named by its content, so the same bytes are one blob wherever they came from. A field
//! refers to a blob if its value is an object with a text `blob_id`, or an array or object that
//! contains such objects at any depth. The other members of the object (`mime_type`, `size_bytes`,
//! `sha256`) come from the producer unchecked. Only `fetch_url` is this server's. The store writes
//! `fetch_url` into the record, so every way of reading the record shows the same URL.

mod reference_finder;
mod shown;

use std::fmt;
use std::ops::Range;

pub use self::reference_finder::{FoundReference, ReferenceFinder};
use self::reference_finder::{ID, URL};
pub use self::shown::without_addresses;
use super::value::{FieldValue, RecordFields};
use crate::hash::ContentHash;

/// The largest blob, in bytes.
pub const MAX_BYTES: u64 = 4 << 30;
/// The bytes in one stored piece of a blob. The last piece may be shorter.
pub const PIECE_BYTES: u64 = 64 << 10;
/// The most characters of each part of a media type (RFC 6838, section 4.2).
const MAX_TYPE_PART: usize = 127;

/// The name of a blob: `sha256-` and the 64 lower-case hexadecimal digits of its bytes' SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobId(ContentHash);

impl BlobId {
    /// Names the blob whose bytes have this SHA-256.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(ContentHash::from_bytes(digest))
    }

    /// Parses a name; returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        ContentHash::parse(text.strip_prefix("sha256-")?).ok().map(Self)
    }

    /// Returns the SHA-256 of the blob's bytes.
    pub fn digest(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Returns the path at which the server serves the blob, `/v1/blobs/{blob_id}`.
    pub fn url(&self) -> String {
        format!("/v1/blobs/{self}")
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256-{}", self.0)
    }
}

/// A field's reference to a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobReference {
    /// Where in the field's value the reference is, as a JSON pointer.
    pub pointer: String,
    /// The blob that the field names.
    pub id: BlobId,
    /// The media type that the producer claims, normalized; absent if the claim is not a media
    /// type.
    pub media_type: Option<String>,
    /// The number of bytes that the producer claims.
    pub size_bytes: Option<u64>,
    /// Where the reference ends in the value's JSON, in Unicode scalar values.
    pub end_chars: u64,
}

impl BlobReference {
    /// Reads an object with a `blob_id` as a reference. Returns `None` if the `blob_id` does not
    /// have the form of this server's, [`BlobId`].
    pub fn of(found: FoundReference) -> Option<Self> {
        let id = BlobId::parse(&found.blob_id)?;
        let media_type = found.mime_type.as_deref().and_then(media_type);
        let FoundReference { pointer, size_bytes, end_chars, .. } = found;
        Some(Self { pointer, id, media_type, size_bytes, end_chars })
    }
}

/// The longest object that counts as a reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 512;
/// The longest text in such an object, in bytes.
const MAX_REFERENCE_TEXT: usize = 255;

/// Whether a value, given as compact JSON, is a reference to a blob: a short object of short
/// members with a blob identifier and a media type.
///
/// Such an object is always returned whole, so a reader never has to continue it. A longer object
/// is read as text.
pub fn is_blob_reference(json: &str) -> bool {
    if !json.starts_with('{') || json.len() > MAX_REFERENCE_BYTES {
        return false;
    }
    let Ok(members) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json)
    else {
        return false;
    };
    let is_text = |name: &str| members.get(name).is_some_and(serde_json::Value::is_string);
    let is_short = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.len() <= MAX_REFERENCE_TEXT,
        value => !value.is_array() && !value.is_object(),
    };
    is_text(ID) && is_text("mime_type") && members.values().all(is_short)
}

/// Returns the references to blobs in a value, given as compact JSON or its beginning, in the order
/// in which they end.
pub fn blob_references(json: &str) -> Vec<BlobReference> {
    found_references(json).into_iter().filter_map(BlobReference::of).collect()
}

/// Returns everything in a value that looks like a reference to a blob of any server, in the order
/// in which the references end.
pub fn found_references(json: &str) -> Vec<FoundReference> {
    // Almost no value names a blob. Skip the parsing of all others.
    if !json.contains("\"blob_id\"") {
        return Vec::new();
    }
    let mut all = Vec::new();
    ReferenceFinder::default().feed(json, &mut |found| all.push(found));
    all
}

/// Writes this server's `fetch_url` into every object of a record's fields that names a blob.
///
/// Doing so twice changes nothing.
pub fn add_fetch_urls(fields: &mut RecordFields) {
    for (_, value) in fields {
        if let FieldValue::Json(json) = value
            && let Some(updated) = with_fetch_urls(json)
        {
            *json = updated;
        }
    }
}

/// Returns compact JSON with this server's `fetch_url` in each object that names a blob; `None` if
/// nothing changes.
///
/// An existing `fetch_url` is replaced where it stands; a missing one is added at the end.
fn with_fetch_urls(json: &str) -> Option<String> {
    let change = |found: FoundReference| {
        let url = FieldValue::Text(BlobId::parse(&found.blob_id)?.url()).to_json();
        Some(match found.url {
            Some(old) => (old, url),
            None => (found.end - 1..found.end - 1, format!(",\"{URL}\":{url}")),
        })
    };
    let mut changes: Vec<(Range<usize>, String)> =
        found_references(json).into_iter().filter_map(change).collect();
    // A reference within a `fetch_url` goes with it.
    changes.sort_by_key(|(old, _)| (old.start, std::cmp::Reverse(old.end)));
    let mut updated = String::with_capacity(json.len());
    let mut done = 0;
    for (old, new) in &changes {
        if old.start >= done {
            updated.push_str(json.get(done..old.start)?);
            updated.push_str(new);
            done = old.end;
        }
    }
    updated.push_str(json.get(done..)?);
    (updated != json).then_some(updated)
}

/// Normalizes a media type: without parameters, in lower case (RFC 6838, section 4.2). Returns
/// `None` for any other text.
pub fn media_type(text: &str) -> Option<String> {
    let plain = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, subtype) = plain.split_once('/')?;
    let fits = |part: &str| {
        (1..=MAX_TYPE_PART).contains(&part.len())
            && part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    (fits(kind) && fits(subtype)).then_some(plain)
}

/// Whether a browser may display a blob of this type by itself: displaying it runs no code from the
/// bytes.
pub fn is_safe_inline(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/pdf" | "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(digit: u8) -> String {
        BlobId::from_digest([digit; 32]).to_string()
    }

    fn ids(json: &str) -> Vec<String> {
        blob_references(json).into_iter().map(|reference| reference.id.to_string()).collect()
    }

    #[test]
    fn blobs_are_found_at_any_depth_with_their_place() {
        let (a, b) = (id(1), id(2));
        let places = |json: &str| -> Vec<String> {
            blob_references(json).into_iter().map(|reference| reference.pointer).collect()
        };
        let whole = format!("{{\"blob_id\":\"{a}\"}}");
        assert_eq!((ids(&whole), places(&whole)), (vec![a.clone()], vec![String::new()]));
        let many = format!(
            "[1,{{\"blob_id\":\"{a}\"}},null,{{\"\":[],\"blob_id\":\"{b}\",\"n\":1.50e400}},\"x\"]"
        );
        assert_eq!(ids(&many), [a.clone(), b.clone()]);
        assert_eq!(places(&many), ["/1", "/3"]);
        let deep = format!(
            "{{\"a/~\":[[{{\"blob_id\":\"{a}\",\"like\":{{\"blob_id\":\"{b}\"}}}}]],\"\":{whole}}}"
        );
        assert_eq!(ids(&deep), [b, a.clone(), a.clone()]);
        assert_eq!(places(&deep), ["/a~1~0/0/0/like", "/a~1~0/0/0", "/"]);
        for none in [
            format!("{{\"blob_id\":[\"{a}\"]}}"),
            format!("{{\"blob_id\":{{\"x\":\"{a}\"}}}}"),
            format!("{{\"blob_id\":\"{}\"}}", a.to_uppercase()),
            format!("{{\"blob_id\":\"{a}0\"}}"),
            "{\"blob_id\":7}".to_owned(),
            format!("[\"blob_id\",\"{a}\"]"),
        ] {
            assert_eq!(ids(&none), Vec::<String>::new(), "{none}");
            assert_eq!(with_fetch_urls(&none), None, "{none}");
        }
    }

    #[test]
    fn a_reference_within_an_address_goes_with_it() {
        let (a, b) = (id(1), id(2));
        let json =
            format!("{{\"blob_id\":\"{a}\",\"fetch_url\":[{{\"blob_id\":\"{b}\"}}],\"n\":1}}");
        let updated = with_fetch_urls(&json).unwrap();
        let expected = format!("{{\"blob_id\":\"{a}\",\"fetch_url\":\"/v1/blobs/{a}\",\"n\":1}}");
        assert_eq!(updated, expected);
        assert_eq!(with_fetch_urls(&updated), None);
    }

    #[test]
    fn a_producers_fetch_url_is_replaced_in_place_and_a_missing_one_is_added() {
        let a = id(1);
        let json = format!(
            "[{{\"fetch_url\":\"http://x\",\"blob_id\":\"{a}\",\"n\":1.50e400}},7,\
             {{\"blob_id\":\"{a}\"}}]"
        );
        let updated = with_fetch_urls(&json).unwrap();
        assert_eq!(
            updated,
            format!(
                "[{{\"fetch_url\":\"/v1/blobs/{a}\",\"blob_id\":\"{a}\",\"n\":1.50e400}},7,\
                 {{\"blob_id\":\"{a}\",\"fetch_url\":\"/v1/blobs/{a}\"}}]"
            )
        );
        assert_eq!(with_fetch_urls(&updated), None, "again changes nothing");
        let one = format!("{{\"blob_id\":\"{a}\",\"fetch_url\":null}}");
        assert_eq!(
            with_fetch_urls(&one).unwrap(),
            format!("{{\"blob_id\":\"{a}\",\"fetch_url\":\"/v1/blobs/{a}\"}}")
        );
    }

    #[test]
    fn a_media_type_is_normalized_or_refused() {
        for (text, is) in [
            ("Text/HTML; charset=utf-8", Some("text/html")),
            ("application/vnd.ms-excel", Some("application/vnd.ms-excel")),
            ("image/svg+xml", Some("image/svg+xml")),
            ("text", None),
            ("text/", None),
            ("/plain", None),
            ("text/plain\r\nX: y", None),
            ("text/pl ain", None),
            ("a/b/c", None),
            ("", None),
        ] {
            assert_eq!(media_type(text).as_deref(), is, "{text}");
        }
        assert!(
            is_safe_inline("image/png")
                && !is_safe_inline("image/svg+xml")
                && !is_safe_inline("text/html")
        );
    }

    proptest! {
        #[test]
        fn adding_a_fetch_url_changes_nothing_else(
            text in "\\PC{0,40}",
            kind in 0..5,
            digit in any::<u8>(),
        ) {
            let quoted = serde_json::Value::from(text.as_str()).to_string();
            let object = format!("{{{quoted}:[{quoted}],\"blob_id\":\"{}\"}}", id(digit));
            let json = match kind {
                0 => object,
                1 => format!("[{object},{object}]"),
                2 => format!("[{quoted},{object}]"),
                3 => format!("{{\"x\":[[{object}],{object}]}}"),
                _ => format!("[{quoted}]"),
            };
            let updated = with_fetch_urls(&json).unwrap_or_else(|| json.clone());
            prop_assert_eq!(with_fetch_urls(&updated), None);
            let places = |json: &str| -> Vec<(String, BlobId)> {
                let all = blob_references(json).into_iter();
                all.map(|reference| (reference.pointer, reference.id)).collect()
            };
            prop_assert_eq!(places(&updated), places(&json));
            let url = format!(",\"fetch_url\":\"/v1/blobs/{}\"", id(digit));
            let without = updated.replace(&url, "");
            prop_assert_eq!(without, json);
        }
    }
}
