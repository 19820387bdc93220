//! `GET /v1/search`: the records in which words occur, and where in them.
//!
//! A hit says which fields have a term, and of the first of them shows the text around it with its
//! range, so that one window more reads on from there. There is no markup in an excerpt and no
//! score.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use stile_domain::hash::ContentHash;
use stile_domain::percent::encode_component;
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::sealed_cursor::{Binding, SearchCursor};
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::tokenizer::{MAX_QUERY_SCALARS, MAX_TERMS, ParsedQuery};
use stile_store::records::{FieldMatch, RecordHit, RecordSearchQuery, RecordSource};

use super::Reading;
use super::fields;
use super::list::{Address, DEFAULT_LIMIT, of_each, put_envelope_end, put_envelope_start};
use super::parameters::Parameters;
use super::render::{connection, digest_text, meta};
use super::sink::ResponseSink;

/// Characters of an excerpt, at most.
pub const EXCERPT_CHARS: u64 = 320;
/// Characters of an excerpt before the hit, at most, where it is not the whole text.
pub const EXCERPT_BEFORE: u64 = 80;
/// How long a search goes on at most.
const LONGEST: Duration = Duration::from_secs(20);
/// Excerpts of a hit, at most, each of another field.
pub const MAX_EXCERPTS: usize = 3;

/// Fields that may say what a record is called; the first of them that does is its title.
const TITLES: [&str; 4] = ["title", "name", "subject", "summary"];
/// Characters of a title, at most.
const TITLE_CHARS: u64 = 120;

/// Puts a page of hits.
///
/// # Errors
/// What the grant, the parameters or the database say against it.
pub fn search(
    reading: Reading<'_>,
    parameters: &Parameters,
    address: &Address,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = reading.view;
    let text = parameters.text("q").unwrap_or_default();
    if text.is_empty() {
        return Err(Problem::invalid(
            "q",
            "`q` must be sent: the words to look for, such as `ferns \"water the\" mo*`",
        ));
    }
    if text.chars().nth(MAX_QUERY_SCALARS).is_some() {
        return Err(Problem::invalid(
            "q",
            format!("`q` has at most {MAX_QUERY_SCALARS} characters"),
        ));
    }
    let sources = sources(reading, parameters)?;
    let find_stream = parameters.names("streams").is_some_and(|names| names.len() == 1);
    if !parameters.conditions().is_empty() && !find_stream {
        let message = "`filter` needs `streams` with exactly one stream, whose declaration says what can be filtered by";
        return Err(Problem::invalid("filter", message));
    }
    let conditions = fields::conditions(reading, &sources, parameters.conditions())?;
    let binding = binding(reading, parameters);
    let before = match parameters.text("cursor") {
        None => None,
        Some(cursor) => Some(
            SearchCursor::decode(&view.unseal(cursor)?, binding)
                .map_err(Problem::InvalidCursor)?
                .record,
        ),
    };
    let query = ParsedQuery::parse(text);
    let limit =
        usize::try_from(parameters.number("limit").unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
    let asked = RecordSearchQuery { query: &query, conditions: &conditions, before, limit };
    let since = Instant::now();
    let go_on = || match () {
        // Nobody reads what is said to one who is gone.
        () if out.is_closed() => Err(Problem::Busy),
        () if since.elapsed() > LONGEST => Err(Problem::SearchTooBroad),
        () => Ok(()),
    };
    let page = view.find_text(&sources, asked, &go_on)?;
    let cursor_after =
        |hit: &RecordHit| view.seal(&SearchCursor { record: hit.row.number() }.encode(binding));
    let next = page.hits.last().filter(|_| page.has_more).map(cursor_after).transpose()?;
    let mut meta = meta(parameters);
    told_of_recall(&mut meta, &query, sources.len());
    put_envelope_start(address, next.as_deref(), out);
    out.write("\"data\":[");
    for (at, hit) in page.hits.iter().enumerate() {
        out.write(if at > 0 { "," } else { "" });
        let mut shown = shown(reading, &sources, hit)?;
        if let Some(shown) = shown.as_object_mut().filter(|_| of_each(parameters)) {
            shown.insert("cursor".to_owned(), cursor_after(hit)?.into());
        }
        out.write(&shown.to_string());
    }
    put_envelope_end(address, next.as_deref(), &meta, out);
    Ok(())
}

/// The sources that are searched: those of the streams that were named, or all.
fn sources(reading: Reading<'_>, parameters: &Parameters) -> Result<Vec<RecordSource>, Problem> {
    let view = reading.view;
    let wanted = connection(parameters)?;
    let Some(streams) = parameters.names("streams") else {
        let mut sources = view.sources()?;
        sources.retain(|source| wanted.is_none_or(|wanted| source.connection().as_str() == wanted));
        return Ok(sources);
    };
    let mut sources = Vec::new();
    for stream in streams {
        match view.sources_of(stream, wanted) {
            Ok(own) => sources.extend(own),
            // For the owner, streams only narrow; but what a condition is about must be there.
            Err(Problem::StreamNotFound { .. }) if parameters.conditions().is_empty() => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(sources)
}

/// What is said of how complete a search is, the same on all of its pages.
fn told_of_recall(meta: &mut Json, query: &ParsedQuery, sources: usize) {
    let Some(meta) = meta.as_object_mut() else { return };
    meta.insert("count".to_owned(), Json::Null);
    meta.insert("count_accuracy".to_owned(), "not_counted".into());
    let recall = json!({
        "complete": true, "ranking_scope": "all_matches", "truncated": false, "sources_searched_count": sources,
    });
    meta.insert("recall".to_owned(), recall);
    let Some(warnings) = meta.get_mut("warnings").and_then(Json::as_array_mut) else { return };
    if query.terms.is_empty() {
        warnings.push(json!({
            "code": "query_without_words", "param": "q",
            "message": "`q` holds nothing that can be searched for, such as a word, a number or an emoji",
        }));
    }
    if query.left_out > 0 {
        warnings.push(json!({
            "code": "query_shortened", "param": "q",
            "message": format!("only the first {MAX_TERMS} terms of `q` were looked for"),
            "detail": { "left_out": query.left_out },
        }));
    }
}

/// One hit.
fn shown(reading: Reading<'_>, sources: &[RecordSource], hit: &RecordHit) -> Result<Json, Problem> {
    let source = sources.get(hit.row.source).ok_or(Problem::NotFound)?;
    let (stream, connection, key) =
        (source.stream().as_str(), source.connection().as_str(), &hit.row.key);
    let record = format!("/v1/streams/{stream}/records/{}", encode_component(key));
    let mut excerpts = Vec::new();
    for found in hit.matches.iter().take(MAX_EXCERPTS) {
        excerpts.push(excerpt(reading, hit, found, source, &record)?);
    }
    let snippet = excerpts
        .first()
        .map(|one| json!({ "field": one["field_path"], "text": one["preview_text"] }));
    let fields: Vec<&str> = hit.matches.iter().map(|found| found.field.as_str()).collect();
    Ok(json!({
        "object": "search_result",
        "stream": stream,
        "record_key": key,
        "connection_id": connection,
        "connector_instance_id": connection,
        "connector_id": connection,
        "emitted_at": hit.row.emitted.to_rfc3339(),
        "title": title(reading, hit)?,
        "record_url": format!("{record}?connection_id={connection}"),
        "matched_fields": fields,
        "snippet": snippet,
        "evidence_excerpts": excerpts,
    }))
}

/// What a record is called, as far as the caller may see that, and in which field it stands: the
/// beginning of a text that is not empty and no base64.
fn title(reading: Reading<'_>, hit: &RecordHit) -> Result<Json, Problem> {
    for name in TITLES {
        let entry = hit.fields.body().field(name).map_err(|_| Problem::Corrupt)?;
        let Some(entry) = entry.filter(|entry| !entry.binary) else { continue };
        let text = match (entry.value, hit.fields.long_value(&entry)) {
            (StoredValue::Text(text), _) => pieces::slice(text, 0, TITLE_CHARS).to_owned(),
            (StoredValue::LongText(_), Some(long)) => {
                reading.view.long_text(long, 0, TITLE_CHARS)?
            }
            _ => continue,
        };
        if !text.is_empty() {
            return Ok(json!({ "field": name, "text": text }));
        }
    }
    Ok(Json::Null)
}

/// The digest of a text, or what it is to be made of.
enum Digest<'a> {
    Of(&'a str),
    Known([u8; 32]),
}

/// The text around the place of a term, and how to read on from there.
fn excerpt(
    reading: Reading<'_>,
    hit: &RecordHit,
    found: &FieldMatch,
    source: &RecordSource,
    record: &str,
) -> Result<Json, Problem> {
    let name = &found.field;
    let entry = hit.fields.body().field(name).ok().flatten().ok_or(Problem::Corrupt)?;
    let at = found.position.map_or(0, |place| place.start);
    let start =
        |total: u64| if total <= EXCERPT_CHARS { 0 } else { at.saturating_sub(EXCERPT_BEFORE) };
    let (start, text, total, digest) = match (entry.value, hit.fields.long_value(&entry)) {
        (StoredValue::Text(text), _) => {
            let total = pieces::count(text);
            let start = start(total);
            (
                start,
                pieces::slice(text, start, start + EXCERPT_CHARS).to_owned(),
                total,
                Digest::Of(text),
            )
        }
        (_, Some(long)) => {
            let (total, start) = (long.value.chars, start(long.value.chars));
            let shown = reading.view.long_text(long, start, start + EXCERPT_CHARS)?;
            (start, shown, total, Digest::Known(long.value.digest))
        }
        _ => return Err(Problem::Corrupt),
    };
    let end = start + pieces::count(&text);
    // Whoever has the whole text needs no name for its version.
    let digest = (end - start < total).then(|| match digest {
        Digest::Of(text) => digest_text(ContentHash::digest(text.as_bytes()).as_bytes()),
        Digest::Known(digest) => digest_text(&digest),
    });
    let (stream, connection) = (source.stream().as_str(), source.connection().as_str());
    let route = format!(
        "{record}/field-window?field={}&connection_id={connection}&offset_chars={at}",
        encode_component(name)
    );
    Ok(json!({
        "object": "evidence_excerpt",
        "field_path": name,
        "preview_text": text,
        "start_chars": start,
        "end_chars": end,
        "size_chars": total,
        "digest": digest,
        "match": found.position.map(|place| json!({ "start_chars": place.start, "end_chars": place.end })),
        "provenance": "lexical_match",
        "truncated": end - start < total,
        "read": {
            "object": "field_window_read", "method": "GET", "route": route, "stream": stream,
            "record_id": hit.row.key, "field": name, "connection_id": connection, "offset_chars": at,
        },
    }))
}

/// Everything that a cursor of this search depends on but the size of its pages.
fn binding(reading: Reading<'_>, parameters: &Parameters) -> Binding {
    let streams =
        parameters.names("streams").map_or_else(String::new, |names| format!("{names:?}"));
    let connection = parameters.text("connection_id").or(parameters.text("connector_instance_id"));
    // No text that is sent can be taken for none.
    let connection = format!("{connection:?}");
    let text = parameters.text("q").unwrap_or_default();
    let conditions = parameters.conditions_text();
    Binding::new(
        ["search", reading.view.caller(), text, &connection, &streams]
            .into_iter()
            .chain(conditions.iter().map(String::as_str)),
    )
}
