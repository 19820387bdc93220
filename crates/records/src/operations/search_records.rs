//! `GET /v1/search`: the records in which words occur, and where in them.
//!
//! A hit names the fields that have a term. For up to three places in these fields, those with the
//! most terms together first, it has an excerpt: the text around the place with its range, from
//! which a field window reads on. Excerpts have no markup, and hits show no score.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use stile_domain::percent::encode_component;
use stile_domain::records::filter::Condition;
use stile_domain::records::instant::Instant as RecordInstant;
use stile_domain::records::pieces;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::relevance::naming_rank;
use stile_domain::records::request::SearchRecords;
use stile_domain::records::request::parameters::condition_texts;
use stile_domain::records::sealed_cursor::{Binding, MatchTotal, SearchCursor};
use stile_domain::records::tokenizer::ParsedQuery;
use stile_store::records::{
    EXCERPT_BEFORE, EXCERPT_CHARS, FieldMatch, MAX_RANKED, RecordHit, RecordSearchQuery,
    RecordSource, SearchOrder,
};

use crate::context::ReadContext;
use crate::field_selection;
use crate::field_text::{FieldText, format_digest};
use crate::list_response::{
    LIST_MEMBERS, has_record_cursors, names_text, page_limit, write_list_end, write_list_start,
};
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::page_reading::read_hits;
use crate::passed_over;
use crate::recurrences::Recurrences;
use crate::request_target::RequestAddress;
use crate::response_meta::{add_warnings, response_meta};
use crate::response_sink::ResponseSink;
use crate::search_query::{broad_terms, parse_query, query_text, query_warnings};
use crate::unsearched_lists;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "The records in which all words of `q` occur, and where in them.",
    response: ResponseDeclaration::json("list", LIST_MEMBERS),
    ..OperationDeclaration::of_requests::<SearchRecords>()
};

/// The longest time that a search may take.
const MAX_DURATION: Duration = Duration::from_secs(20);
/// The longest time for counting the matches of a search, or the terms of one without hits.
const MAX_COUNTING: Duration = Duration::from_secs(2);
/// The greatest number of matches that are counted. Of more the answer says that there are at least
/// as many.
const MAX_TOTAL: u32 = 10_000;
/// The greatest number of terms that are counted, and of records that each is counted in.
const MAX_COUNTED_TERMS: usize = 8;
const MAX_COUNTED: usize = 3;
/// The greatest number of excerpts of a hit.
const MAX_EXCERPTS: usize = 3;

/// The greatest length of a title, in characters.
const TITLE_CHARS: u64 = 120;

impl AnsweredRequest for SearchRecords {
    fn answer(
        &self,
        context: ReadContext<'_>,
        address: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        search_within(MAX_DURATION, context, self, address, out)
    }
}

/// Searches for at most `duration`.
fn search_within(
    duration: Duration,
    context: ReadContext<'_>,
    request: &SearchRecords,
    address: RequestAddress<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = context.view;
    let Some(text) = query_text(request.q.as_deref())? else {
        return Problem::refuse(
            "q",
            "`q` must be sent: the words to look for, such as `ferns \"water the\" mo*`",
        );
    };
    let sources = requested_sources(context, request)?;
    if !request.conditions.is_empty() && request.streams.len() != 1 {
        let message = "`filter` needs `streams` with exactly one stream, whose declaration says what can be filtered by";
        return Problem::refuse("filter", message);
    }
    let asked = field_selection::conditions(context, &sources, &request.conditions)?;
    let mut conditions = asked.clone();
    let recurrences = Recurrences::let_in(context, &sources, &mut conditions)?;
    let binding = cursor_binding(context, request)?;
    let after = context
        .decode_cursor(request.cursor.as_deref(), |bytes| SearchCursor::decode(bytes, binding))?;
    let query = parse_query(text, &sources)?;
    let search = RecordSearchQuery {
        query: &query,
        conditions: &conditions,
        order: match request.order {
            Some("relevance") => SearchOrder::Relevance,
            _ => SearchOrder::Newest,
        },
        after: after.as_ref(),
        limit: page_limit(request.limit),
    };
    let start = Instant::now();
    let check_limits = || match () {
        // The reader is gone, so nobody reads this error.
        () if out.is_closed() => Err(Problem::Busy),
        () if start.elapsed() > duration => {
            Err(Problem::SearchTooBroad { terms: broad_terms(&query) })
        }
        () => Ok(()),
    };
    let page = view.find_text(&sources, search, &check_limits)?;
    let total = match &after {
        Some(after) => after.total,
        None if !page.has_more => u32::try_from(page.hits.len()).ok().map(MatchTotal::Exactly),
        None => Some(count_matches(context, &sources, search, &|| out.is_closed())?),
    };
    let cursor_after = |hit: &RecordHit| {
        let position = view
            .search_position(&sources, hit, total)
            .ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
        view.seal(&position.encode(binding))
    };
    let next_cursor = page.hits.last().filter(|_| page.has_more).map(cursor_after).transpose()?;
    let mut meta = response_meta(&request.clamped, &request.connection);
    add_total(&mut meta, total);
    add_search_meta(&mut meta, &query, sources.len(), page.is_truncated);
    if after.is_none() {
        let warnings = passed_over_warnings(context, (&sources, search), &asked, out)?;
        add_warnings(&mut meta, warnings);
        add_warnings(&mut meta, recurrences.warnings());
        let unsearched = unsearched_lists::warning(context, &sources, &query)?;
        add_warnings(&mut meta, unsearched.into_iter().collect());
    }
    if page.hits.is_empty() && after.is_none() {
        add_term_counts(context, &mut meta, &sources, &conditions, &query)?;
    }
    let excerpt = |at: u64| {
        let start = at.saturating_sub(EXCERPT_BEFORE);
        start..at.max(start + EXCERPT_CHARS)
    };
    read_hits(context, &page.hits, TITLE_CHARS, excerpt)?;
    write_list_start(address, next_cursor.as_deref(), out);
    out.write("\"data\":[");
    for (index, hit) in page.hits.iter().enumerate() {
        out.write(if index > 0 { "," } else { "" });
        if let Some(source) = sources.get(hit.row.source) {
            out.note_record(source, &hit.row.key);
        }
        let mut json = hit_json(context, &sources, hit)?;
        if let Some(json) = json.as_object_mut().filter(|_| has_record_cursors(request.cursors)) {
            json.insert("cursor".to_owned(), cursor_after(hit)?.into());
        }
        out.write(&json.to_string());
    }
    write_list_end(address, next_cursor.as_deref(), &meta, out);
    Ok(())
}

/// Says which records the conditions pass over because a field has a value of another type: those
/// among the records that the search finds.
fn passed_over_warnings(
    context: ReadContext<'_>,
    (sources, search): (&[RecordSource], RecordSearchQuery<'_>),
    asked: &[Condition],
    out: &dyn ResponseSink,
) -> Result<Vec<Json>, Problem> {
    let mut count = |other: &[Condition]| {
        // Most fields have no such value, which is found without looking for words.
        if context.view.count_matching(sources, other)? == 0 {
            return Ok((0, true));
        }
        let search = RecordSearchQuery { conditions: other, ..search };
        Ok(match count_matches(context, sources, search, &|| out.is_closed())? {
            MatchTotal::Exactly(count) => (u64::from(count), true),
            MatchTotal::AtLeast(count) => (u64::from(count), false),
        })
    };
    passed_over::warnings(context, sources, asked, &mut count)
}

/// Returns the sources of the requested streams, or all that the caller may see.
fn requested_sources(
    context: ReadContext<'_>,
    request: &SearchRecords,
) -> Result<Vec<RecordSource>, Problem> {
    let view = context.view;
    let requested = request.connection.name()?;
    if request.streams.is_empty() {
        let mut sources = view.sources()?;
        sources.retain(|source| requested.is_none_or(|name| source.connection().as_str() == name));
        return Ok(sources);
    }
    let mut sources = Vec::new();
    for stream in &request.streams {
        match view.sources_of(stream, requested) {
            Ok(own) => sources.extend(own),
            // The owner may name a stream that does not exist, unless a condition needs it.
            Err(Problem::StreamNotFound { .. }) if request.conditions.is_empty() => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(sources)
}

/// Counts the matches of a search up to [`MAX_TOTAL`], for at most [`MAX_COUNTING`].
fn count_matches(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    search: RecordSearchQuery<'_>,
    is_closed: &dyn Fn() -> bool,
) -> Result<MatchTotal, Problem> {
    let RecordSearchQuery { query, conditions, .. } = search;
    let start = Instant::now();
    let check_limits = || match () {
        () if is_closed() => Err(Problem::Busy),
        () if start.elapsed() > MAX_COUNTING => {
            Err(Problem::SearchTooBroad { terms: broad_terms(query) })
        }
        () => Ok(()),
    };
    let mut count: u32 = 0;
    let done = context.view.each_match(sources, query, conditions, &check_limits, &mut |rows| {
        count = count.saturating_add(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        Ok(count <= MAX_TOTAL)
    });
    match done {
        Ok(()) if count <= MAX_TOTAL => Ok(MatchTotal::Exactly(count)),
        Ok(()) | Err(Problem::SearchTooBroad { .. }) => {
            // The first page has more hits than its limit.
            let seen = u32::try_from(search.limit).unwrap_or(MAX_TOTAL) + 1;
            Ok(MatchTotal::AtLeast(count.max(seen).min(MAX_TOTAL)))
        }
        Err(problem) => Err(problem),
    }
}

/// Adds to `meta` how many records match. The same on all pages of a search.
fn add_total(meta: &mut Json, total: Option<MatchTotal>) {
    let (count, accuracy) = match total {
        Some(MatchTotal::Exactly(count)) => (json!(count), "exact"),
        Some(MatchTotal::AtLeast(count)) => (json!(count), "lower_bound"),
        None => (Json::Null, "not_counted"),
    };
    if let Some(meta) = meta.as_object_mut() {
        meta.insert("count".to_owned(), count);
        meta.insert("count_accuracy".to_owned(), accuracy.into());
    }
}

/// Adds to `meta` how complete the search is. The same on all pages of a search.
fn add_search_meta(meta: &mut Json, query: &ParsedQuery, sources: usize, is_truncated: bool) {
    let Some(meta) = meta.as_object_mut() else { return };
    let scope = if is_truncated { "candidate_window" } else { "all_matches" };
    let mut recall = json!({
        "complete": !is_truncated, "ranking_scope": scope, "truncated": is_truncated,
        "sources_searched_count": sources,
    });
    if let Some(recall) = recall.as_object_mut().filter(|_| is_truncated) {
        recall.insert("candidate_window_limit".to_owned(), MAX_RANKED.into());
    }
    meta.insert("recall".to_owned(), recall);
    let Some(warnings) = meta.get_mut("warnings").and_then(Json::as_array_mut) else { return };
    if is_truncated {
        warnings.push(json!({
            "code": "not_all_ranked", "param": "order",
            "message": format!(
                "only the newest {MAX_RANKED} records with these words were ranked; more words leave fewer, and `order` `newest` lists all"
            ),
        }));
    }
    warnings.extend(query_warnings(query));
}

/// Adds to `meta` in how many records each term of a search without hits occurs, over the same
/// sources and conditions: whether a term is absent, rare or common in what the caller may see.
fn add_term_counts(
    context: ReadContext<'_>,
    meta: &mut Json,
    sources: &[RecordSource],
    conditions: &[Condition],
    query: &ParsedQuery,
) -> Result<(), Problem> {
    let start = Instant::now();
    let check_limits = || match start.elapsed() > MAX_COUNTING {
        true => Err(Problem::SearchTooBroad { terms: broad_terms(query) }),
        false => Ok(()),
    };
    let mut counts = Vec::new();
    // The search itself found that its only term is in no record.
    let is_counted = query.terms.len() == 1 && query.excluded.is_empty();
    for term in query.terms.iter().take(MAX_COUNTED_TERMS) {
        let alone = ParsedQuery { terms: vec![term.clone()], ..ParsedQuery::default() };
        let view = context.view;
        let counted = match is_counted {
            true => Ok((0, false)),
            false => view.count_text(sources, &alone, conditions, MAX_COUNTED, &check_limits),
        };
        match counted {
            Ok((records, has_more)) => counts.push(json!({
                "term": term.to_string(), "records": records, "has_more": has_more,
            })),
            // The counts so far are worth more than a refusal.
            Err(Problem::SearchTooBroad { .. }) => break,
            Err(problem) => return Err(problem),
        }
    }
    if let Some(meta) = meta.as_object_mut().filter(|_| !counts.is_empty()) {
        meta.insert("terms".to_owned(), counts.into());
    }
    Ok(())
}

fn hit_json(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    hit: &RecordHit,
) -> Result<Json, Problem> {
    let source = sources.get(hit.row.source).ok_or(Problem::NotFound)?;
    let (stream, connection, key) =
        (source.stream().as_str(), source.connection().as_str(), &hit.row.key);
    let record_url = format!("/v1/streams/{stream}/records/{}", encode_component(key));
    let mut excerpts = Vec::new();
    // Places that hold more of the words come first.
    let mut best: Vec<&FieldMatch> = hit.matches.iter().collect();
    best.sort_by_key(|found| std::cmp::Reverse(found.terms));
    for found in best.into_iter().take(MAX_EXCERPTS) {
        excerpts.push(excerpt(context, hit, found, source, &record_url)?);
    }
    let snippet = excerpts
        .first()
        .map(|one| json!({ "field": one["field_path"], "text": one["preview_text"] }));
    let mut fields: Vec<&str> = Vec::new();
    for found in &hit.matches {
        if !fields.contains(&found.field.as_str()) {
            fields.push(&found.field);
        }
    }
    Ok(json!({
        "object": "search_result",
        "stream": stream,
        "record_key": key,
        "connection_id": connection,
        "connector_instance_id": connection,
        "connector_id": connection,
        "emitted_at": hit.row.emitted.to_rfc3339(),
        "title": title(context, hit)?,
        "record_url": format!("{record_url}?connection_id={connection}"),
        "matched_fields": fields,
        "snippet": snippet,
        "evidence_excerpts": excerpts,
    }))
}

/// Returns the title of a record and the field that holds it: the beginning of the first title
/// field that is a text, not empty and not base64. Otherwise the first line of the first text of
/// several words. Null if the caller may see no such field.
fn title(context: ReadContext<'_>, hit: &RecordHit) -> Result<Json, Problem> {
    let mut naming = Vec::new();
    for entry in hit.fields.body().entries() {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        naming.extend(naming_rank(entry.name).filter(|_| !entry.binary).map(|rank| (rank, entry)));
    }
    naming.sort_by_key(|(rank, _)| *rank);
    for (_, entry) in naming {
        let Ok(field @ FieldText { is_text: true, .. }) = FieldText::load(&hit.fields, &entry)
        else {
            continue;
        };
        let text = field.slice(context.view, 0, TITLE_CHARS)?;
        if !text.is_empty() {
            return Ok(json!({ "field": entry.name, "text": text }));
        }
    }
    for entry in hit.fields.body().entries() {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        if entry.binary {
            continue;
        }
        let Ok(field @ FieldText { is_text: true, .. }) = FieldText::load(&hit.fields, &entry)
        else {
            continue;
        };
        let text = field.slice(context.view, 0, TITLE_CHARS)?;
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if line.contains(char::is_whitespace) && RecordInstant::parse(line).is_none() {
            return Ok(json!({ "field": entry.name, "text": line }));
        }
    }
    Ok(Json::Null)
}

/// Returns the text around a term, and the window that reads on from there.
fn excerpt(
    context: ReadContext<'_>,
    hit: &RecordHit,
    found: &FieldMatch,
    source: &RecordSource,
    record_url: &str,
) -> Result<Json, Problem> {
    let name = &found.field;
    let entry = hit.fields.body().field(name).ok().flatten().ok_or(Problem::Corrupt)?;
    let field = FieldText::load(&hit.fields, &entry)?;
    let total = field.chars();
    let at = found.position.map_or(0, |position| position.start);
    let start = if total <= EXCERPT_CHARS { 0 } else { at.saturating_sub(EXCERPT_BEFORE) };
    let text = field.slice(context.view, start, start + EXCERPT_CHARS)?;
    let end = start + pieces::count(&text);
    // An excerpt that is the whole text needs no digest.
    let digest = (end - start < total).then(|| format_digest(&field.digest()));
    let (stream, connection) = (source.stream().as_str(), source.connection().as_str());
    let route = format!(
        "{record_url}/field-window?field={}&connection_id={connection}&offset_chars={at}",
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
        "match": found.position.map(|range| json!({ "start_chars": range.start, "end_chars": range.end })),
        "provenance": "lexical_match",
        "truncated": end - start < total,
        "read": {
            "object": "field_window_read", "method": "GET", "route": route, "stream": stream,
            "record_id": hit.row.key, "field": name, "connection_id": connection, "offset_chars": at,
        },
    }))
}

/// Binds a cursor to everything that the search depends on except the size of its pages.
fn cursor_binding(context: ReadContext<'_>, request: &SearchRecords) -> Result<Binding, Problem> {
    let streams = names_text(&request.streams);
    // As `Debug` output no connection can be mistaken for the absence of one.
    let connection = format!("{:?}", request.connection.name()?);
    let text = request.q.as_deref().unwrap_or_default();
    let conditions = condition_texts(&request.conditions);
    let order = request.order.unwrap_or("newest");
    let parts = ["search", context.view.caller(), text, &connection, &streams, order];
    Ok(Binding::new(parts.into_iter().chain(conditions.iter().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declarations::DeclarationCache;
    use crate::test_store::{TestStore, owner};

    /// How many of the newest records lack the words, and how many older ones have them.
    const NEWER: usize = 520;
    const OLDER: usize = 200;

    /// Searches without any time, and returns the message of the refusal.
    fn refusal(store: &TestStore, q: &str) -> String {
        let request = SearchRecords { q: Some(q.to_owned()), ..SearchRecords::default() };
        let address = RequestAddress::default();
        let permit = owner().gate().records().unwrap();
        let declarations = DeclarationCache::default();
        let searched = store.service.records.read(&permit, RecordInstant(1), |view| {
            let context = ReadContext { view, declarations: &declarations };
            search_within(Duration::ZERO, context, &request, address, &mut String::new())
        });
        searched.unwrap_err().to_string()
    }

    #[test]
    fn a_search_that_takes_too_long_says_what_to_search_for_instead() {
        let store = TestStore::new();
        // More records without the words are newer than a search looks through before it reads the
        // index, and more with them are older than it counts between two looks at the clock.
        let lines: String = (0..NEWER + OLDER)
            .map(|at| {
                let word = if at < OLDER { "zyzzyva moss" } else { "fern" };
                let time = RecordInstant::from_seconds(at as i64).to_rfc3339();
                json!({ "id": format!("k{at}"), "at": time, "text": word }).to_string() + "\n"
            })
            .collect();
        let parameters = [("connection_id", "own")];
        store.ingest(&owner(), "notes", &parameters, &mut lines.as_bytes()).unwrap();
        assert_eq!(store.count("notes"), (NEWER + OLDER) as u64);
        for (q, advice) in [
            ("zy*", "send a longer prefix or a further word"),
            ("zyzzyva", "send a further word"),
            ("zyzzyva moss", "search for rarer words"),
            ("zy* mo*", "search for rarer words"),
        ] {
            let message = refusal(&store, q);
            assert!(message.contains(advice), "{q}: {message}");
        }
    }
}
