//! What is told of one value: all of it, or its beginning and what is missing.

use stile_domain::hash::ContentHash;
use stile_domain::json_string::{escaped, escaped_len};
use stile_domain::records::blob::is_blob_reference;
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::{LoadedRecord, LongValueRef};

use super::Reading;
use super::render::digest_text;
use super::sink::{ResponseSink, write_json_string};

/// A value, or as much as is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A text.
    Text(String),
    /// Everything else, as JSON.
    Json(String),
    /// The beginning of a text, or of the JSON text of something else.
    Beginning {
        /// What is told.
        text: String,
        /// How much that is, in scalar values.
        shown_chars: u64,
        /// How much there is, in scalar values.
        size_chars: u64,
        /// Of all of it.
        digest: String,
        /// Whether it is a text.
        is_text: bool,
    },
    /// That it is bytes in base64.
    Bytes {
        /// The scalar values of the base64.
        size_chars: u64,
    },
}

/// How previews end, by what they are of.
const OF_TEXT: &str = "\",\"text_like\":true,\"mime_type\":\"text/plain\"}";
const OF_JSON: &str = "\",\"text_like\":false,\"mime_type\":\"application/json\"}";
const OF_BYTES: &str =
    ",\"text_like\":false,\"mime_type\":\"application/octet-stream\",\"encoding\":\"base64\"}";
/// What stands before their numbers.
const SHOWN: &str = "{\"shown_chars\":";
const SIZE: &str = ",\"size_chars\":";
const DIGEST: &str = ",\"digest\":\"";

impl Told {
    /// Puts it.
    pub(super) fn put(&self, out: &mut dyn ResponseSink) {
        match self {
            Self::Text(text) | Self::Beginning { text, .. } => write_json_string(out, text),
            Self::Json(json) => out.write(json),
            Self::Bytes { .. } => out.write("null"),
        }
    }

    /// The bytes of that.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Beginning { text, .. } => escaped_len(text) + 2,
            Self::Json(json) => json.len(),
            Self::Bytes { .. } => "null".len(),
        }
    }

    /// What is said of it beside it, as JSON, where it is not all.
    pub(super) fn preview(&self) -> Option<String> {
        match self {
            Self::Text(_) | Self::Json(_) => None,
            Self::Beginning { shown_chars, size_chars, digest, is_text, .. } => {
                let end = if *is_text { OF_TEXT } else { OF_JSON };
                Some(format!("{SHOWN}{shown_chars}{SIZE}{size_chars}{DIGEST}{digest}{end}"))
            }
            // Of the bytes no digest is known, and that of their characters would be taken for it.
            Self::Bytes { size_chars } => Some(format!("{SHOWN}0{SIZE}{size_chars}{OF_BYTES}")),
        }
    }

    /// The bytes of that.
    pub(super) fn preview_len(&self) -> Option<usize> {
        let digits = |number: &u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
        match self {
            Self::Text(_) | Self::Json(_) => None,
            Self::Beginning { shown_chars, size_chars, digest, is_text, .. } => {
                let end = if *is_text { OF_TEXT } else { OF_JSON };
                let around = SHOWN.len() + SIZE.len() + DIGEST.len() + end.len();
                Some(around + digits(shown_chars) + digits(size_chars) + digest.len())
            }
            Self::Bytes { size_chars } => {
                Some(SHOWN.len() + 1 + SIZE.len() + digits(size_chars) + OF_BYTES.len())
            }
        }
    }
}

/// The value of a field: what it says and where it is kept.
struct Kept<'a> {
    /// Where it is here.
    inline: Option<&'a str>,
    /// Where it is in pieces.
    long: Option<LongValueRef>,
    is_text: bool,
}

impl<'a> Kept<'a> {
    fn of(loaded: &LoadedRecord, entry: &BodyField<'a>) -> Self {
        let (inline, is_text) = match entry.value {
            StoredValue::Null => (Some("null"), false),
            StoredValue::Bool(true) => (Some("true"), false),
            StoredValue::Bool(false) => (Some("false"), false),
            StoredValue::Text(text) => (Some(text), true),
            StoredValue::Number(text) | StoredValue::Json(text) => (Some(text), false),
            StoredValue::LongText(_) => (None, true),
            StoredValue::LongJson(_) => (None, false),
        };
        let long = if inline.is_none() { loaded.long_value(entry) } else { None };
        Self { inline, long, is_text }
    }
}

/// What is told of a value where more than so many scalar values are not.
pub(super) fn told(
    reading: Reading<'_>,
    loaded: &LoadedRecord,
    entry: &BodyField<'_>,
    chars: u64,
) -> Result<Told, Problem> {
    let Kept { inline, long, is_text } = Kept::of(loaded, entry);
    let size = inline.map_or_else(|| long.map_or(0, |long| long.value.chars), pieces::count);
    let can_be_cut = match entry.value {
        // Nothing reads on in one.
        StoredValue::Json(json) => !is_blob_reference(json),
        _ => is_text || matches!(entry.value, StoredValue::LongJson(_)),
    };
    if inline.is_none() && long.is_none() {
        return Err(Problem::Corrupt);
    }
    if can_be_cut && entry.binary {
        return Ok(Told::Bytes { size_chars: size });
    }
    let is_cut = can_be_cut && size > chars;
    let most = if is_cut { chars } else { size };
    let text = match (inline, long) {
        (Some(text), _) => pieces::slice(text, 0, most).to_owned(),
        (None, Some(long)) => reading.view.long_text(long, 0, most)?,
        (None, None) => return Err(Problem::Corrupt),
    };
    let digest = || match (inline, long) {
        (_, Some(long)) => digest_text(&long.value.digest),
        (text, None) => {
            digest_text(ContentHash::digest(text.unwrap_or_default().as_bytes()).as_bytes())
        }
    };
    Ok(match (is_cut, is_text) {
        (true, _) => {
            Told::Beginning { text, shown_chars: most, size_chars: size, digest: digest(), is_text }
        }
        (false, true) => Told::Text(text),
        (false, false) => Told::Json(text),
    })
}

/// Puts all of a value.
pub(super) fn put_whole(
    reading: Reading<'_>,
    loaded: &LoadedRecord,
    entry: &BodyField<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    match Kept::of(loaded, entry) {
        Kept { inline: Some(text), is_text: true, .. } => write_json_string(out, text),
        Kept { inline: Some(json), .. } => out.write(json),
        Kept { long: Some(long), is_text, .. } => {
            out.write(if is_text { "\"" } else { "" });
            reading.view.long_pieces(long, |piece| {
                if is_text {
                    out.write(&escaped(piece))
                } else {
                    out.write(piece)
                }
                Ok(!out.is_closed())
            })?;
            out.write(if is_text { "\"" } else { "" });
        }
        Kept { inline: None, long: None, .. } => return Err(Problem::Corrupt),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    proptest! {
        #[test]
        fn what_is_told_is_as_long_as_is_said(
            text in "(?s).{0,40}", shown_chars: u64, size_chars: u64, is_text: bool, which in 0..4,
        ) {
            let digest = digest_text(&[7; 32]);
            let told = match which {
                0 => Told::Text(text),
                1 => Told::Json(Json::from(text).to_string()),
                2 => Told::Beginning { text, shown_chars, size_chars, digest, is_text },
                _ => Told::Bytes { size_chars },
            };
            let mut written = String::new();
            told.put(&mut written);
            prop_assert_eq!(told.len(), written.len());
            prop_assert_eq!(told.preview_len(), told.preview().map(|preview| preview.len()));
        }
    }

    #[test]
    fn a_preview_says_what_it_is_of() {
        let digest = digest_text(&[7; 32]);
        let text = String::new();
        let preview = |told: Told| {
            told.preview().map(|preview| serde_json::from_str::<Json>(&preview).unwrap())
        };
        let of = |is_text| {
            let (text, digest) = (text.clone(), digest.clone());
            preview(Told::Beginning { text, shown_chars: 3, size_chars: 10, digest, is_text })
        };
        let told = |text_like: bool, mime_type: &str| {
            let told = json!({ "shown_chars": 3, "size_chars": 10, "digest": digest, "text_like": text_like, "mime_type": mime_type });
            Some(told)
        };
        assert_eq!(of(true), told(true, "text/plain"));
        assert_eq!(of(false), told(false, "application/json"));
        let bytes = json!({
            "shown_chars": 0, "size_chars": 400, "text_like": false, "mime_type": "application/octet-stream", "encoding": "base64"
        });
        assert_eq!(preview(Told::Bytes { size_chars: 400 }), Some(bytes));
        assert_eq!(preview(Told::Json("1".to_owned())), None);
    }
}
