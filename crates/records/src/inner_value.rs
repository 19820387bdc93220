//! A value within a field's array or object, at the place that a JSON pointer names.
//!
//! The field's JSON is read from its beginning to the place, piece by piece. A short value is then
//! held, and a long one is read again for each part of it, so memory does not grow with the field.

use stile_domain::hash::ContentHasher;
use stile_domain::records::json_pointer::{JsonKind, JsonPointer, ValueFinder};
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, LongValue, StoredValue};
use stile_store::records::{LongValueRef, RecordsView};

/// The longest value that is held, in bytes.
const MAX_HELD: u64 = 64 * 1024;

/// A value within a field's value.
pub(crate) struct InnerValue {
    kind: JsonKind,
    measured: LongValue,
    /// The text of a short value: a text itself, or the JSON of another value.
    held: Option<String>,
    pointer: JsonPointer,
}

impl InnerValue {
    /// Finds the value at a place within JSON; `None` if nothing is there. `read` passes on the
    /// JSON piece by piece, until it gets `false`.
    pub(crate) fn load(
        pointer: JsonPointer,
        read: impl FnOnce(&mut dyn FnMut(&str) -> bool) -> Result<(), Problem>,
    ) -> Result<Option<Self>, Problem> {
        let mut hasher = ContentHasher::default();
        let (mut chars, mut bytes, mut held) = (0, 0, String::new());
        let mut finder = ValueFinder::new(&pointer);
        read(&mut |piece| {
            finder.feed(piece, &mut |part| {
                hasher.update(part.as_bytes());
                chars += pieces::count(part);
                bytes += part.len() as u64;
                if bytes <= MAX_HELD {
                    held.push_str(part);
                }
            })
        })?;
        let Some(kind) = finder.finish() else { return Ok(None) };
        let measured = LongValue { chars, bytes, digest: *hasher.finish().as_bytes() };
        let held = (bytes <= MAX_HELD).then_some(held);
        Ok(Some(Self { kind, measured, held, pointer }))
    }

    /// Returns the value as a field of this name, without anything kept beside it.
    pub(crate) fn field<'a>(&'a self, name: &'a str) -> BodyField<'a> {
        let value = match (&self.held, self.kind) {
            (Some(_), JsonKind::Null) => StoredValue::Null,
            (Some(text), JsonKind::Bool) => StoredValue::Bool(text == "true"),
            (Some(text), JsonKind::Number) => StoredValue::Number(text),
            (Some(text), JsonKind::Text) => StoredValue::Text(text),
            (Some(text), JsonKind::Array | JsonKind::Object) => StoredValue::Json(text),
            (None, JsonKind::Text) => StoredValue::LongText(self.measured),
            (None, _) => StoredValue::LongJson(self.measured),
        };
        BodyField { name, slot: None, binary: false, value }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.kind == JsonKind::Text
    }

    pub(crate) fn measured(&self) -> LongValue {
        self.measured
    }

    /// Passes on the text of the value, part by part, until `take` returns `false`.
    pub(crate) fn pieces(
        &self,
        view: &RecordsView<'_>,
        outer: LongValueRef,
        take: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), Problem> {
        let mut finder = ValueFinder::new(&self.pointer);
        let mut goes_on = true;
        view.long_pieces(outer, |piece| {
            let more = finder.feed(piece, &mut |part| goes_on = goes_on && take(part));
            Ok(more && goes_on)
        })
    }
}
