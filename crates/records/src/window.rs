//! `GET /v1/streams/{stream}/records/{id}/field-window`: a part of one field, at the cost of that
//! part.

use serde_json::{Value as Json, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::blob::{blob_references, is_blob_reference};
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::identifiers::is_field_name;
use stile_domain::records::pieces::{self, CharRange};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, WindowCursor, WindowUnit};
use stile_domain::records::selector::{ByteSelector, TextParameters, TextSelector, WindowBounds};
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::{LoadedRecord, LongValueRef, RecordSource};

use super::Reading;
use super::bytes;
use super::detail::the_one;
use super::fields::may_see;
use super::parameters::Parameters;
use super::render::{JSON_TYPE, connection, digest_text, meta};
use super::sink::ResponseSink;

/// A field's text, wherever it is kept.
pub(super) enum Content<'a> {
    Inline(&'a str),
    Long(LongValueRef),
}

/// Which field of which record.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The record's key.
    pub key: &'a str,
}

/// A field of one record, as its windows are told and their cursors bound.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) source: &'a RecordSource,
    pub(super) field: &'a str,
    pub(super) binding: Binding,
}

impl Place<'_> {
    /// The cursor of a window that begins there and has so much, in the version that has this
    /// digest.
    pub(super) fn sealed(
        &self,
        reading: Reading<'_>,
        unit: WindowUnit,
        digest: &[u8; 32],
        place: Option<(u64, u64)>,
    ) -> Result<Option<String>, Problem> {
        let seal = |(start, limit)| {
            reading.view.seal(&WindowCursor::new(unit, digest, start, limit).encode(self.binding))
        };
        place.map(seal).transpose()
    }
}

/// Puts a window.
///
/// # Errors
/// What the grant, the parameters or the database say against it.
pub fn window(
    reading: Reading<'_>,
    of: Field<'_>,
    parameters: &Parameters,
    path: &str,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = reading.view;
    let (bytes, selector) = (byte_selector(parameters)?, selector(parameters)?);
    let name = parameters.text("field").unwrap_or_default();
    if !is_field_name(name) {
        return Err(Problem::InvalidFieldPath);
    }
    let sources = view.sources_of(of.stream, connection(parameters)?)?;
    if !sources.iter().any(|source| may_see(source, name)) {
        return Err(Problem::FieldNotGranted { field: name.to_owned(), param: "field".to_owned() });
    }
    let row = the_one(reading, &sources, of.key)?;
    let loaded = view.load_fields(&sources, &row)?;
    let entry = loaded.body().field(name).map_err(|_| Problem::Corrupt)?;
    let entry = entry.ok_or_else(|| Problem::FieldNotFound { field: name.to_owned() })?;
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let binding = Binding::new([
        "window",
        view.caller(),
        of.stream,
        source.connection().as_str(),
        of.key,
        name,
    ]);
    let place = Place { source, field: name, binding };
    let holds = Holds::of(&entry);
    let bytes = match holds {
        Holds::Text => bytes,
        Holds::Bytes | Holds::Both => bytes.or_else(|| goes_on_in_bytes(reading, &selector)),
    };
    let (field, window) = match (holds, bytes) {
        (Holds::Text, Some(_)) => return Err(Problem::FieldNotBinary { field: name.to_owned() }),
        (Holds::Bytes, None) => return Err(Problem::FieldNotText { field: name.to_owned() }),
        (_, None) => of_text(reading, place, (&loaded, &entry), &selector)?,
        (_, Some(bytes)) => bytes::window(reading, place, (&loaded, &entry), &bytes)?,
    };
    let answer = json!({
        "object": "field_window",
        "url": path,
        "stream": of.stream,
        "record_id": of.key,
        "connection_id": source.connection().as_str(),
        "field": field,
        "window": window,
        "links": {},
        "meta": meta(parameters),
    });
    out.write(&answer.to_string());
    Ok(())
}

/// The members `field` and `window` of a window of a field that is not binary.
fn of_text(
    reading: Reading<'_>,
    place: Place<'_>,
    (loaded, entry): (&LoadedRecord, &BodyField<'_>),
    selector: &TextSelector,
) -> Result<(Json, Json), Problem> {
    let (content, is_text) = Content::of(loaded, entry)?;
    let (total, digest) = content.measure();
    let (span, found) = content.span(reading, selector, place.binding)?;
    let (next, previous) = (span.next(), span.previous());
    let sealed = |next| place.sealed(reading, WindowUnit::Chars, &digest, next);
    let field = json!({
        "path": place.field,
        "type": type_of(entry),
        "text_like": is_text,
        "mime_type": if is_text { "text/plain" } else { JSON_TYPE },
        "size_chars": total,
        "digest": digest_text(&digest),
    });
    let window = json!({
        "text": content.text(reading, span.start, span.end)?,
        "total_chars": total,
        "start_chars": span.start,
        "end_chars": span.end,
        "limit_chars": span.limit,
        "complete": span.is_complete(),
        "has_more": next.is_some(),
        "next_offset_chars": next.map(|(start, _)| start),
        "previous_offset_chars": previous.map(|(start, _)| start),
        "match_start_chars": found.map(|found| found.start),
        "match_end_chars": found.map(|found| found.end),
        "next_cursor": sealed(next)?,
        "previous_cursor": sealed(previous)?,
    });
    Ok((field, window))
}

/// Which window was asked for.
fn selector(parameters: &Parameters) -> Result<TextSelector, Problem> {
    TextSelector::new(
        parameters.text("cursor"),
        parameters.number("offset_chars"),
        parameters.number("limit_chars"),
        parameters.text("q"),
        parameters.number("before_chars"),
        parameters.number("after_chars"),
    )
}

/// Which window of bytes was asked for, if one was.
fn byte_selector(parameters: &Parameters) -> Result<Option<ByteSelector>, Problem> {
    let chars = ["offset_chars", "limit_chars", "before_chars", "after_chars"];
    let text = if parameters.text("q").is_some()
        || chars.iter().any(|name| parameters.number(name).is_some())
    {
        TextParameters::Sent
    } else {
        TextParameters::Absent
    };
    let (offset, limit) = (parameters.number("offset_bytes"), parameters.number("limit_bytes"));
    ByteSelector::new(parameters.text("cursor"), offset, limit, text)
}

/// What goes on in bytes, though nothing but its cursor says so.
fn goes_on_in_bytes(reading: Reading<'_>, selector: &TextSelector) -> Option<ByteSelector> {
    let TextSelector::After { cursor, limit: None } = selector else { return None };
    let opened = reading.view.unseal(cursor).ok()?;
    (WindowUnit::of_cursor(&opened) == Some(WindowUnit::Bytes))
        .then(|| ByteSelector::After { cursor: cursor.clone(), limit: None })
}

impl<'a> Content<'a> {
    /// The text of a field, and whether it is one or JSON.
    pub(super) fn of(
        loaded: &LoadedRecord,
        entry: &BodyField<'a>,
    ) -> Result<(Self, bool), Problem> {
        let long = || loaded.long_value(entry).map(Self::Long).ok_or(Problem::Corrupt);
        Ok(match entry.value {
            StoredValue::Null => (Self::Inline("null"), false),
            StoredValue::Bool(true) => (Self::Inline("true"), false),
            StoredValue::Bool(false) => (Self::Inline("false"), false),
            StoredValue::Number(digits) => (Self::Inline(digits), false),
            StoredValue::Json(json) => (Self::Inline(json), false),
            StoredValue::Text(text) => (Self::Inline(text), true),
            StoredValue::LongText(_) => (long()?, true),
            StoredValue::LongJson(_) => (long()?, false),
        })
    }

    /// Where the window lies, and what was found in it.
    fn span(
        &self,
        reading: Reading<'_>,
        selector: &TextSelector,
        binding: Binding,
    ) -> Result<(WindowBounds, Option<CharRange>), Problem> {
        let (total, digest) = self.measure();
        match selector {
            TextSelector::At { start, limit } => {
                Ok((WindowBounds::from_offset(*start, *limit, total), None))
            }
            TextSelector::After { cursor, limit } => {
                let opened = reading.view.unseal(cursor)?;
                let unit = WindowUnit::of_cursor(&opened).unwrap_or(WindowUnit::Chars);
                let place = WindowCursor::decode(&opened, unit, binding, &digest);
                // What was binary when the cursor was made is another value by now, whatever its
                // digest.
                let place = place.and_then(|place| {
                    if unit == WindowUnit::Chars { Ok(place) } else { Err(CursorProblem::Stale) }
                });
                let place = place.map_err(Problem::InvalidCursor)?;
                Ok((
                    WindowBounds::from_offset(place.start, limit.unwrap_or(place.limit), total),
                    None,
                ))
            }
            TextSelector::Around { q, before, after, limit } => {
                let needle = Needle::new(q).ok_or(Problem::QueryNotFound)?;
                let found = self.find(reading, &needle)?.ok_or(Problem::QueryNotFound)?;
                let span =
                    WindowBounds::around(found.start, found.end, *before, *after, *limit, total);
                let message =
                    "`limit_chars` is less than what was found is long; send more, or leave it out";
                let too_small =
                    || Problem::InvalidWindow { param: "limit_chars", message: message.to_owned() };
                Ok((span.ok_or_else(too_small)?, Some(found)))
            }
        }
    }

    /// How many characters it has, and its digest.
    pub(super) fn measure(&self) -> (u64, [u8; 32]) {
        match self {
            Self::Inline(text) => {
                (pieces::count(text), *ContentHash::digest(text.as_bytes()).as_bytes())
            }
            Self::Long(long) => (long.value.chars, long.value.digest),
        }
    }

    fn find(&self, reading: Reading<'_>, needle: &Needle) -> Result<Option<CharRange>, Problem> {
        match self {
            Self::Inline(text) => Ok(NeedleFinder::new(needle).feed(text)),
            Self::Long(long) => reading.view.find_in_long(*long, needle),
        }
    }

    /// The characters from one up to but not including another.
    pub(super) fn text(
        &self,
        reading: Reading<'_>,
        start: u64,
        end: u64,
    ) -> Result<String, Problem> {
        match self {
            Self::Inline(text) => Ok(pieces::slice(text, start, end).to_owned()),
            Self::Long(long) => reading.view.long_text(*long, start, end),
        }
    }
}

/// The type of a field's value.
pub(super) fn type_of(entry: &BodyField<'_>) -> &'static str {
    match entry.value {
        StoredValue::Null => "null",
        StoredValue::Bool(_) => "boolean",
        StoredValue::Number(_) => "number",
        StoredValue::Text(_) | StoredValue::LongText(_) => "string",
        StoredValue::Json(json) if json.starts_with('[') => "array",
        StoredValue::Json(_) => "object",
        // Which of the two it is would have to be read.
        StoredValue::LongJson(_) => "json",
    }
}

/// What can be read of a field.
#[derive(Clone, Copy)]
enum Holds {
    /// Characters.
    Text,
    /// Bytes: base64, or a reference to a blob and nothing else.
    Bytes,
    /// Both: an object that refers to a blob and says more.
    Both,
}

impl Holds {
    fn of(entry: &BodyField<'_>) -> Self {
        match entry.value {
            StoredValue::Json(json) if is_blob_reference(json) => Self::Bytes,
            StoredValue::Json(json)
                if json.starts_with('{') && !blob_references(json).is_empty() =>
            {
                Self::Both
            }
            _ if entry.binary => Self::Bytes,
            _ => Self::Text,
        }
    }
}
