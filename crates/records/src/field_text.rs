//! The text of a field's value, which is in the record's row or, if it is long, in pieces beside
//! it. The text of a value that is not a text is its JSON.

use stile_domain::hash::{ContentHash, hex};
use stile_domain::json::text::escaped;
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::pieces::{self, CharRange};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::{LoadedRecord, LongValueRef, RecordsView};

use crate::inner_value::InnerValue;
use crate::response_sink::{ResponseSink, write_json_string};

/// The text of a field's value, wherever the store keeps it.
pub(crate) struct FieldText<'a> {
    location: TextLocation<'a>,
    /// Whether the value is a text, not the JSON of another value.
    pub(crate) is_text: bool,
}

enum TextLocation<'a> {
    Inline(&'a str),
    Long(LongValueRef),
    /// Within the JSON of a long value.
    Within(&'a InnerValue, LongValueRef),
}

impl<'a> FieldText<'a> {
    /// Finds the text of a field. Reads no long value yet.
    ///
    /// # Errors
    /// [`Problem::Corrupt`] if the record refers to a long value that it does not have.
    pub(crate) fn load(loaded: &LoadedRecord, entry: &BodyField<'a>) -> Result<Self, Problem> {
        let inline = |text, is_text| Ok(Self { location: TextLocation::Inline(text), is_text });
        let long = |is_text| {
            let value = loaded.long_value(entry).ok_or(Problem::Corrupt)?;
            Ok(Self { location: TextLocation::Long(value), is_text })
        };
        match entry.value {
            StoredValue::Null => inline("null", false),
            StoredValue::Bool(true) => inline("true", false),
            StoredValue::Bool(false) => inline("false", false),
            StoredValue::Number(text) | StoredValue::Json(text) => inline(text, false),
            StoredValue::Text(text) => inline(text, true),
            StoredValue::LongText(_) => long(true),
            StoredValue::LongJson(_) => long(false),
        }
    }

    /// Returns the text of a long value within a long value.
    pub(crate) fn within(inner: &'a InnerValue, outer: LongValueRef) -> Self {
        Self { location: TextLocation::Within(inner, outer), is_text: inner.is_text() }
    }

    /// Returns the length in Unicode scalar values.
    pub(crate) fn chars(&self) -> u64 {
        match &self.location {
            TextLocation::Inline(text) => pieces::count(text),
            TextLocation::Long(long) => long.value.chars,
            TextLocation::Within(inner, _) => inner.measured().chars,
        }
    }

    /// Returns the SHA-256 digest of the whole text.
    pub(crate) fn digest(&self) -> [u8; 32] {
        match &self.location {
            TextLocation::Inline(text) => *ContentHash::digest(text.as_bytes()).as_bytes(),
            TextLocation::Long(long) => long.value.digest,
            TextLocation::Within(inner, _) => inner.measured().digest,
        }
    }

    /// Reads the scalar values from `start` up to but not including `end`.
    pub(crate) fn slice(
        &self,
        view: &RecordsView<'_>,
        start: u64,
        end: u64,
    ) -> Result<String, Problem> {
        match &self.location {
            TextLocation::Inline(text) => Ok(pieces::slice(text, start, end).to_owned()),
            TextLocation::Long(long) => view.long_text(*long, start, end),
            TextLocation::Within(..) => {
                let (mut text, mut at) = (String::new(), 0);
                self.pieces(view, &mut |piece| {
                    text += pieces::slice(piece, start.saturating_sub(at), end.saturating_sub(at));
                    at += pieces::count(piece);
                    at < end
                })?;
                Ok(text)
            }
        }
    }

    /// Passes on the text piece by piece, until `take` returns `false`.
    pub(crate) fn pieces(
        &self,
        view: &RecordsView<'_>,
        take: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), Problem> {
        match &self.location {
            TextLocation::Inline(text) => {
                take(text);
                Ok(())
            }
            TextLocation::Long(long) => view.long_pieces(*long, |piece| Ok(take(piece))),
            TextLocation::Within(inner, outer) => inner.pieces(view, *outer, take),
        }
    }

    /// Returns the long value that the text is, whole.
    pub(crate) fn long(&self) -> Option<LongValueRef> {
        match self.location {
            TextLocation::Long(long) => Some(long),
            TextLocation::Inline(_) | TextLocation::Within(..) => None,
        }
    }

    /// Finds the first occurrence of a text.
    pub(crate) fn find(
        &self,
        view: &RecordsView<'_>,
        needle: &Needle,
    ) -> Result<Option<CharRange>, Problem> {
        match &self.location {
            TextLocation::Inline(text) => Ok(NeedleFinder::new(needle).feed(text)),
            TextLocation::Long(long) => view.find_in_long(*long, needle),
            TextLocation::Within(..) => {
                let (mut finder, mut found) = (NeedleFinder::new(needle), None);
                self.pieces(view, &mut |piece| {
                    found = finder.feed(piece);
                    found.is_none()
                })?;
                Ok(found)
            }
        }
    }

    pub(crate) fn write_json(
        &self,
        view: &RecordsView<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        match &self.location {
            TextLocation::Inline(text) if self.is_text => write_json_string(out, text),
            TextLocation::Inline(json) => out.write(json),
            TextLocation::Long(_) | TextLocation::Within(..) => {
                let quote = if self.is_text { "\"" } else { "" };
                out.write(quote);
                self.pieces(view, &mut |piece| {
                    if self.is_text {
                        out.write(&escaped(piece));
                    } else {
                        out.write(piece);
                    }
                    !out.is_closed()
                })?;
                out.write(quote);
            }
        }
        Ok(())
    }
}

pub(crate) fn json_type(entry: &BodyField<'_>) -> &'static str {
    match entry.value {
        StoredValue::Null => "null",
        StoredValue::Bool(_) => "boolean",
        StoredValue::Number(_) => "number",
        StoredValue::Text(_) | StoredValue::LongText(_) => "string",
        StoredValue::Json(json) if json.starts_with('[') => "array",
        StoredValue::Json(_) => "object",
        // An array or an object. To know which, the store would have to read the value.
        StoredValue::LongJson(_) => "json",
    }
}

/// Writes a digest as answers have it: `sha256:` and 64 hexadecimal digits.
pub(crate) fn format_digest(digest: &[u8; 32]) -> String {
    format!("sha256:{}", hex(digest))
}
