//! `GET /v1/streams/{stream}/records/{id}/field-window`: a part of one field, at the cost of that part.

use serde_json::{Value as Json, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::body::{Entry, Held};
use stile_domain::records::cursor::{Binding, WindowPlace};
use stile_domain::records::find::{Finder, Found, Needle};
use stile_domain::records::names::is_field_name;
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::selector::{Selector, Span};
use stile_store::records::{Loaded, LongRef};

use super::Reading;
use super::detail::the_one;
use super::fields::may_see;
use super::parameters::Parameters;
use super::render::{JSON_TYPE, connection, digest_text, meta};
use super::sink::Sink;

/// A field's text, wherever it is kept.
enum Content<'a> {
    Inline(&'a str),
    Long(LongRef),
}

/// Which field of which record.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The record's key.
    pub key: &'a str,
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
    out: &mut dyn Sink,
) -> Result<(), Problem> {
    let view = reading.view;
    let selector = selector(parameters)?;
    let name = parameters.text("field").unwrap_or_default();
    if !is_field_name(name) {
        return Err(Problem::InvalidFieldPath);
    }
    let sources = view.sources_of(of.stream, connection(parameters)?)?;
    if !sources.iter().any(|source| may_see(source, name)) {
        return Err(Problem::FieldNotGranted { field: name.to_owned(), param: "field".to_owned() });
    }
    let row = the_one(reading, &sources, of.key)?;
    let loaded = view.load(&sources, &row)?;
    let entry = loaded.body().field(name).map_err(|_| Problem::Corrupt)?;
    let entry = entry.ok_or_else(|| Problem::FieldNotFound { field: name.to_owned() })?;
    if is_binary(&entry) {
        return Err(Problem::FieldNotText { field: name.to_owned() });
    }
    let (content, is_text) = Content::of(&loaded, &entry)?;
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let binding = Binding::of(["window", view.caller(), of.stream, source.connection().as_str(), of.key, name]);
    let (total, digest) = content.measure();
    let (span, found) = content.span(reading, &selector, binding)?;
    let sealed = |place: Option<(u64, u64)>| -> Result<Json, Problem> {
        let Some((start, limit)) = place else { return Ok(Json::Null) };
        Ok(view.seal(&WindowPlace::new(&digest, start, limit).encode(binding))?.into())
    };
    let (next, previous) = (span.next(), span.previous());
    let answer = json!({
        "object": "field_window",
        "url": path,
        "stream": of.stream,
        "record_id": of.key,
        "connection_id": source.connection().as_str(),
        "field": {
            "path": name,
            "type": type_of(&entry),
            "text_like": is_text,
            "mime_type": if is_text { "text/plain" } else { JSON_TYPE },
            "size_chars": total,
            "digest": digest_text(&digest),
        },
        "window": {
            "text": content.text(reading, span)?,
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
        },
        "links": {},
        "meta": meta(parameters),
    });
    out.put(&answer.to_string());
    Ok(())
}

/// Which window was asked for.
fn selector(parameters: &Parameters) -> Result<Selector, Problem> {
    Selector::new(
        parameters.text("cursor"),
        parameters.number("offset_chars"),
        parameters.number("limit_chars"),
        parameters.text("q"),
        parameters.number("before_chars"),
        parameters.number("after_chars"),
    )
}

impl<'a> Content<'a> {
    /// The text of a field, and whether it is one or JSON.
    fn of(loaded: &Loaded, entry: &Entry<'a>) -> Result<(Self, bool), Problem> {
        let long = || loaded.long(entry).map(Self::Long).ok_or(Problem::Corrupt);
        Ok(match entry.held {
            Held::Null => (Self::Inline("null"), false),
            Held::Bool(true) => (Self::Inline("true"), false),
            Held::Bool(false) => (Self::Inline("false"), false),
            Held::Number(digits) => (Self::Inline(digits), false),
            Held::Json(json) => (Self::Inline(json), false),
            Held::Text(text) => (Self::Inline(text), true),
            Held::LongText(_) => (long()?, true),
            Held::LongJson(_) => (long()?, false),
        })
    }

    /// Where the window lies, and what was found in it.
    fn span(
        &self,
        reading: Reading<'_>,
        selector: &Selector,
        binding: Binding,
    ) -> Result<(Span, Option<Found>), Problem> {
        let (total, digest) = self.measure();
        match selector {
            Selector::At { start, limit } => Ok((Span::at(*start, *limit, total), None)),
            Selector::After { cursor, limit } => {
                let place = WindowPlace::decode(&reading.view.open(cursor)?, binding, &digest);
                let place = place.map_err(Problem::InvalidCursor)?;
                Ok((Span::at(place.start, limit.unwrap_or(place.limit), total), None))
            }
            Selector::Around { q, before, after, limit } => {
                let needle = Needle::new(q).ok_or(Problem::QueryNotFound)?;
                let found = self.find(reading, &needle)?.ok_or(Problem::QueryNotFound)?;
                let span = Span::around(found.start, found.end, *before, *after, *limit, total);
                let message = "`limit_chars` is less than what was found is long; send more, or leave it out";
                let too_small = || Problem::InvalidWindow { param: "limit_chars", message: message.to_owned() };
                Ok((span.ok_or_else(too_small)?, Some(found)))
            }
        }
    }

    fn measure(&self) -> (u64, [u8; 32]) {
        match self {
            Self::Inline(text) => (pieces::count(text), *ContentHash::of(text.as_bytes()).as_bytes()),
            Self::Long(long) => (long.long.chars, long.long.digest),
        }
    }

    fn find(&self, reading: Reading<'_>, needle: &Needle) -> Result<Option<Found>, Problem> {
        match self {
            Self::Inline(text) => Ok(Finder::new(needle).feed(text)),
            Self::Long(long) => reading.view.search(*long, needle),
        }
    }

    fn text(&self, reading: Reading<'_>, span: Span) -> Result<String, Problem> {
        match self {
            Self::Inline(text) => Ok(pieces::slice(text, span.start, span.end).to_owned()),
            Self::Long(long) => reading.view.text(*long, span.start, span.end),
        }
    }
}

fn type_of(entry: &Entry<'_>) -> &'static str {
    match entry.held {
        Held::Null => "null",
        Held::Bool(_) => "boolean",
        Held::Number(_) => "number",
        Held::Text(_) | Held::LongText(_) => "string",
        Held::Json(json) if json.starts_with('[') => "array",
        Held::Json(_) => "object",
        // Which of the two it is would have to be read.
        Held::LongJson(_) => "json",
    }
}

/// Whether a field holds bytes: base64, or a reference to a blob.
fn is_binary(entry: &Entry<'_>) -> bool {
    let Held::Json(json) = entry.held else { return entry.binary };
    json.starts_with('{')
        && serde_json::from_str::<Json>(json).is_ok_and(|json| {
            let text = |name: &str| json.get(name).is_some_and(Json::is_string);
            text("blob_id") && text("mime_type")
        })
}
