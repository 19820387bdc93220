//! One value of a record, whole or truncated, and the entry in `previews` that says what is
//! missing.

use serde_json::json;
use stile_domain::base64::encoded_text::{self, EncodedText, HEAD_CHARS, TAIL_CHARS};
use stile_domain::json::text::escaped_len;
use stile_domain::records::blob::is_blob_reference;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::LoadedRecord;

use crate::context::ReadContext;
use crate::field_bytes::base64_len;
use crate::field_text::{FieldText, format_digest};
use crate::response_sink::{ResponseSink, write_json_string};

/// A value as an answer with `preview_chars` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValuePreview {
    Text(String),
    /// The whole JSON of another value.
    Json(String),
    /// The beginning of a text, or of the JSON of another value.
    Truncated {
        /// The beginning.
        text: String,
        /// The length of `text` in scalar values.
        shown_chars: u64,
        /// The length of the whole in scalar values.
        size_chars: u64,
        /// The digest of the whole.
        digest: String,
        /// Whether the value is a text.
        is_text: bool,
        /// What a text seems to encode.
        looks_like: Option<EncodedText>,
    },
    /// Bytes in base64, of which no part is shown.
    Base64 {
        /// The length of the base64 in scalar values.
        size_chars: u64,
        /// The number of bytes that it encodes.
        size_bytes: u64,
    },
}

/// How the entries in `previews` end.
const TEXT_END: &str = "\",\"text_like\":true,\"mime_type\":\"text/plain\"}";
const JSON_END: &str = "\",\"text_like\":false,\"mime_type\":\"application/json\"}";
const BYTES_END: &str =
    ",\"text_like\":false,\"mime_type\":\"application/octet-stream\",\"encoding\":\"base64\"}";
/// What precedes their numbers and their digest.
const SHOWN: &str = "{\"shown_chars\":";
const SIZE: &str = ",\"size_chars\":";
const BYTES: &str = ",\"size_bytes\":";
const DIGEST: &str = ",\"digest\":\"";

impl ValuePreview {
    /// Reads a value, truncated to `max_chars` Unicode scalar values.
    pub(crate) fn load(
        context: ReadContext<'_>,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        max_chars: u64,
    ) -> Result<Self, Problem> {
        let field = FieldText::load(loaded, entry)?;
        let (size_chars, is_text) = (field.chars(), field.is_text);
        let can_be_truncated = match entry.value {
            // No window continues a truncated reference.
            StoredValue::Json(json) => !is_blob_reference(json),
            _ => is_text || matches!(entry.value, StoredValue::LongJson(_)),
        };
        if can_be_truncated && entry.binary {
            let size_bytes = base64_len(context.view, &field)?;
            return Ok(Self::Base64 { size_chars, size_bytes });
        }
        if can_be_truncated && size_chars > max_chars {
            let guessed = if is_text { guess(context, &field)? } else { None };
            return Ok(Self::Truncated {
                text: field.slice(context.view, 0, max_chars)?,
                shown_chars: max_chars,
                size_chars,
                digest: format_digest(&field.digest()),
                is_text,
                looks_like: guessed,
            });
        }
        let text = field.slice(context.view, 0, size_chars)?;
        Ok(if is_text { Self::Text(text) } else { Self::Json(text) })
    }

    pub(crate) fn write_value(&self, out: &mut dyn ResponseSink) {
        match self {
            Self::Text(text) | Self::Truncated { text, .. } => write_json_string(out, text),
            Self::Json(json) => out.write(json),
            Self::Base64 { .. } => out.write("null"),
        }
    }

    /// Returns how many bytes [`ValuePreview::write_value`] writes.
    pub(crate) fn value_len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Truncated { text, .. } => escaped_len(text) + 2,
            Self::Json(json) => json.len(),
            Self::Base64 { .. } => "null".len(),
        }
    }

    /// Returns the entry in `previews`; `None` for a whole value.
    pub(crate) fn preview_json(&self) -> Option<String> {
        match self {
            Self::Text(_) | Self::Json(_) => None,
            Self::Truncated { shown_chars, size_chars, digest, is_text, looks_like, .. } => {
                let end = if *is_text { TEXT_END } else { JSON_END };
                let beginning = format!("{SHOWN}{shown_chars}{SIZE}{size_chars}{DIGEST}{digest}");
                let guessed = looks_like.as_ref().map(looks_like_json).unwrap_or_default();
                Some(format!("{beginning}{}{guessed}}}", end.trim_end_matches('}')))
            }
            // Without a digest: that of the bytes is unknown, and that of the base64 would be
            // mistaken for it.
            Self::Base64 { size_chars, size_bytes } => {
                Some(format!("{SHOWN}0{SIZE}{size_chars}{BYTES}{size_bytes}{BYTES_END}"))
            }
        }
    }

    /// Returns the length of that entry in bytes.
    pub(crate) fn preview_len(&self) -> Option<usize> {
        let digits = |number: &u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
        match self {
            Self::Text(_) | Self::Json(_) => None,
            Self::Truncated { shown_chars, size_chars, digest, is_text, looks_like, .. } => {
                let end = if *is_text { TEXT_END } else { JSON_END };
                let fixed = SHOWN.len() + SIZE.len() + DIGEST.len() + end.len();
                let guessed = looks_like.as_ref().map_or(0, |seems| looks_like_json(seems).len());
                Some(fixed + digits(shown_chars) + digits(size_chars) + digest.len() + guessed)
            }
            Self::Base64 { size_chars, size_bytes } => {
                let fixed = SHOWN.len() + 1 + SIZE.len() + BYTES.len() + BYTES_END.len();
                Some(fixed + digits(size_chars) + digits(size_bytes))
            }
        }
    }
}

/// Guesses what a text encodes, from its beginning and its end.
fn guess(context: ReadContext<'_>, field: &FieldText<'_>) -> Result<Option<EncodedText>, Problem> {
    let chars = field.chars();
    let head = field.slice(context.view, 0, HEAD_CHARS.min(chars))?;
    if !may_be_encoded(&head) {
        return Ok(None);
    }
    let tail = field.slice(context.view, chars.saturating_sub(TAIL_CHARS), chars)?;
    Ok(encoded_text::guess(&head, &tail, chars))
}

/// Returns whether a text that begins so may encode bytes. Most texts have a space near their
/// beginning, and are not read at their end.
pub(crate) fn may_be_encoded(head: &str) -> bool {
    head.starts_with("data:") || !head.chars().take(40).any(|c| !c.is_ascii_graphic())
}

/// Renders the member that says what a text seems to encode, with the comma before it.
fn looks_like_json(guessed: &EncodedText) -> String {
    let EncodedText { mime_type, size_bytes } = guessed;
    let json = json!({ "mime_type": mime_type, "encoding": "base64", "size_bytes": size_bytes });
    format!(",\"looks_like\":{json}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    proptest! {
        #[test]
        fn reported_length_equals_bytes_written(
            text in "(?s).{0,40}", shown_chars: u64, size_chars: u64, is_text: bool, variant in 0..4,
        ) {
            let digest = format_digest(&[7; 32]);
            let value = match variant {
                0 => ValuePreview::Text(text),
                1 => ValuePreview::Json(Json::from(text).to_string()),
                2 => ValuePreview::Truncated {
                    text, shown_chars, size_chars, digest, is_text,
                    looks_like: is_text.then(|| EncodedText {
                        mime_type: "image/\"x".to_owned(), size_bytes: size_chars,
                    }),
                },
                _ => ValuePreview::Base64 { size_chars, size_bytes: shown_chars },
            };
            let mut written = String::new();
            value.write_value(&mut written);
            prop_assert_eq!(value.value_len(), written.len());
            prop_assert_eq!(value.preview_len(), value.preview_json().map(|preview| preview.len()));
        }
    }

    #[test]
    fn a_preview_names_size_digest_and_type() {
        let digest = format_digest(&[7; 32]);
        let text = String::new();
        let preview = |value: ValuePreview| {
            value.preview_json().map(|preview| serde_json::from_str::<Json>(&preview).unwrap())
        };
        let truncated = |is_text| {
            let (text, digest) = (text.clone(), digest.clone());
            preview(ValuePreview::Truncated {
                text,
                shown_chars: 3,
                size_chars: 10,
                digest,
                is_text,
                looks_like: None,
            })
        };
        let expected = |text_like: bool, mime_type: &str| {
            Some(
                json!({ "shown_chars": 3, "size_chars": 10, "digest": digest, "text_like": text_like, "mime_type": mime_type }),
            )
        };
        assert_eq!(truncated(true), expected(true, "text/plain"));
        assert_eq!(truncated(false), expected(false, "application/json"));
        let bytes = json!({
            "shown_chars": 0, "size_chars": 400, "size_bytes": 298, "text_like": false, "mime_type": "application/octet-stream", "encoding": "base64"
        });
        assert_eq!(preview(ValuePreview::Base64 { size_chars: 400, size_bytes: 298 }), Some(bytes));
        assert_eq!(preview(ValuePreview::Json("1".to_owned())), None);
    }
}
