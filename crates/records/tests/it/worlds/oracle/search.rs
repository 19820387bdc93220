//! The obvious search: every text of every record is cut into words and looked through.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::json;
use stile_domain::percent::encode_component;
use stile_domain::records::pieces::CharRange;
use stile_domain::records::tokenizer::{
    ParsedQuery, PlaceFinder, QueryTerm, SearchTerm, SearchToken, TermPlace, best_place, tokens,
};
use stile_domain::records::value::FieldValue;

use super::super::model::FieldDecl;
use super::{
    EMITTED, INVALID, J, List, NOT_FOUND, Oracle, Params, Rec, Refusal, Seen, Source, add_warnings,
    compare, is_binary, place, put, time_of_text,
};

impl Oracle<'_> {
    pub(super) fn search(&self, params: &Params) -> Result<List, Refusal> {
        let connection = params.connection()?;
        let q = params.text("q").unwrap_or_default();
        if !(1..=1024).contains(&q.chars().count()) {
            return Err(INVALID);
        }
        let sources = match params.names.get("streams") {
            None => {
                let mut all = self.sources();
                all.retain(|seen| connection.is_none_or(|name| seen.source.connection == name));
                all
            }
            Some(names) => {
                let mut named = Vec::new();
                for name in names {
                    match self.of(name, connection) {
                        Err(NOT_FOUND) if params.conditions.is_empty() => {}
                        own => named.extend(own?),
                    }
                }
                named
            }
        };
        if !params.conditions.is_empty() {
            if params.names.get("streams").is_none_or(|names| names.len() != 1) {
                return Err(INVALID);
            }
            self.allowed(&sources, params)?;
        }
        let query = self.words(&sources, q)?;
        let by_relevance = params.text("order") == Some("relevance");
        let mut hits = Vec::new();
        for (at, seen) in sources.iter().enumerate() {
            for (key, record) in seen.records().filter(|(_, record)| seen.passes(record, params)) {
                let Some(hit) = hit(seen, key, record, &query) else { continue };
                let score = if by_relevance { score(seen, record, &query) } else { 0 };
                // A source that is not ordered by time has no newest record.
                let is_timed = |name: &String| seen.source.decl.is_time(name);
                let place =
                    place(seen, record).filter(|_| seen.source.decl.cursor.iter().any(is_timed));
                hits.push((score, place, record.born, at, key.as_bytes(), hit));
            }
        }
        hits.sort_by(|a, b| {
            let none_last = a.1.is_none().cmp(&b.1.is_none());
            let born = if a.1.is_none() { b.2.cmp(&a.2) } else { Ordering::Equal };
            let newest = compare(&b.1, &a.1).then(born).then(b.3.cmp(&a.3)).then(b.4.cmp(a.4));
            b.0.cmp(&a.0).then(none_last).then(newest)
        });
        let mut meta = params.meta();
        let recall = json!({
            "complete": true, "ranking_scope": "all_matches", "truncated": false,
            "sources_searched_count": sources.len(),
        });
        put(&mut meta, "recall", J::of(&recall));
        put(&mut meta, "count", J::Num(hits.len().to_string()));
        put(&mut meta, "count_accuracy", J::Str("exact".into()));
        if hits.is_empty() && !query.terms.is_empty() {
            let counted = query.terms.iter().take(8).map(|term| {
                let alone = ParsedQuery { terms: vec![term.clone()], ..ParsedQuery::default() };
                let with = sources.iter().flat_map(|seen| {
                    let records = seen.records().filter(|(_, record)| seen.passes(record, params));
                    records.filter_map(|(key, record)| hit(seen, key, record, &alone))
                });
                let count = with.count();
                let field = term.field.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
                let written = field
                    + &match &term.term {
                        SearchTerm::Word(word) => word.clone(),
                        SearchTerm::Prefix(prefix) => format!("{prefix}*"),
                        SearchTerm::Phrase(words) => format!("\"{}\"", words.join(" ")),
                    };
                json!({ "term": written, "records": count.min(3), "has_more": count > 3 })
            });
            put(&mut meta, "terms", J::of(&counted.collect()));
        }
        add_warnings(&mut meta, word_warnings(&query).into_iter().collect());
        let is_hit =
            |seen: &Seen<'_>, key: &str, record: &Rec| hit(seen, key, record, &query).is_some();
        add_warnings(&mut meta, self.passed_over(&sources, params, &is_hit));
        if params.text("cursor").is_none() {
            add_warnings(&mut meta, unsearched_lists(&sources, &query).into_iter().collect());
        }
        let limit = params.number("limit").unwrap_or(25) as usize;
        Ok(List {
            rows: hits.into_iter().map(|(.., hit)| hit).collect(),
            limit,
            meta,
            changes: false,
        })
    }
}

impl Oracle<'_> {
    /// The words of a text that are looked for.
    pub(crate) fn words(&self, sources: &[Seen<'_>], q: &str) -> Result<ParsedQuery, Refusal> {
        if !(1..=1024).contains(&q.chars().count()) {
            return Err(INVALID);
        }
        let is_field = |name: &str| sources.iter().any(|seen| searches(seen, name));
        let query = ParsedQuery::parse_with_fields(q, &is_field);
        match query.terms.is_empty() && !query.excluded.is_empty() {
            true => Err(INVALID),
            false => Ok(query),
        }
    }
}

/// What is said of a text without words. No test draws one with too many.
pub(crate) fn word_warnings(query: &ParsedQuery) -> Option<J> {
    query.terms.is_empty().then(|| {
        J::of(&json!({
            "code": "query_without_words", "param": "q",
            "message": "`q` holds nothing that can be searched for, such as a word, a number or an emoji",
        }))
    })
}

/// Whether all words occur in a record.
pub(crate) fn occurs(seen: &Seen<'_>, key: &str, record: &Rec, query: &ParsedQuery) -> bool {
    hit(seen, key, record, query).is_some()
}

/// The first place of a term, in characters.
fn first(text: &str, term: &SearchTerm) -> Option<(u64, u64)> {
    let all: Vec<_> = tokens(text).collect();
    (0..all.len()).find_map(|at| match term {
        SearchTerm::Word(word) => (all[at].text == *word).then(|| (all[at].start, all[at].end)),
        SearchTerm::Prefix(prefix) => {
            all[at].text.starts_with(prefix).then(|| (all[at].start, all[at].end))
        }
        SearchTerm::Phrase(phrase) => {
            let part = all.get(at..at + phrase.len())?;
            part.iter()
                .map(|token| token.text.to_string())
                .eq(phrase.iter().cloned())
                .then(|| (all[at].start, part.last().unwrap().end))
        }
    })
}

/// The place with the most terms. Of a text of more than four pieces, the first places of the first
/// four terms count, with what follows them.
fn best_of(terms: &[&SearchTerm], text: &str) -> Option<TermPlace> {
    if text.chars().count() <= 4 * 8192 {
        return best_place(terms, text, 160);
    }
    let mut best: Option<TermPlace> = None;
    for (start, end) in terms.iter().filter_map(|term| first(text, term)).take(4) {
        let mut finder = PlaceFinder::new(terms, 160, start);
        let _ = tokens(text)
            .take_while(|token| token.start <= start + 160)
            .any(|token| finder.feed(&token));
        let range = CharRange { start, end };
        let found = finder.best().unwrap_or(TermPlace { range, terms: 1 });
        if best.is_none_or(|best| best.terms < found.terms) {
            best = Some(found);
        }
        if found.terms == terms.len() {
            break;
        }
    }
    best
}

/// How well a record fits: points for a phrase, for nearness, for names and for counts.
fn score(seen: &Seen<'_>, record: &Rec, query: &ParsedQuery) -> u64 {
    let mut texts = Vec::new();
    for (name, value) in &record.fields {
        let Some(text) = words_of(value) else { continue };
        let text = text.as_str();
        if searches(seen, name) && !is_binary(&seen.source.decl, name, value) {
            let chars = text.char_indices().nth(4 * 8192).map_or(text.len(), |(at, _)| at);
            // A token that the cut goes through does not count.
            let cut = chars < text.len();
            let mut all: Vec<SearchToken<'static>> = tokens(text)
                .take_while(|token| token.start < 4 * 8192)
                .map(|SearchToken { text, start, end }| SearchToken {
                    text: text.into_owned().into(),
                    start,
                    end,
                })
                .collect();
            if cut && all.last().is_some_and(|token| token.end >= 4 * 8192) {
                all.pop();
            }
            texts.push((name.as_str(), all));
        }
    }
    let count = query.terms.len() as u64;
    let words = |term: &SearchTerm| match term {
        SearchTerm::Word(word) => vec![word.clone()],
        SearchTerm::Phrase(words) => words.clone(),
        SearchTerm::Prefix(_) => Vec::new(),
    };
    let occurs = |all: &[SearchToken<'_>], term: &SearchTerm, at: usize| match term {
        SearchTerm::Prefix(prefix) => all[at].text.starts_with(prefix).then_some(at),
        other => {
            let words = words(other);
            let part = all.get(at..at + words.len())?;
            let is_it = part.iter().zip(&words).all(|(token, word)| token.text == *word);
            is_it.then_some(at + words.len() - 1)
        }
    };
    let is_for =
        |term: &QueryTerm, name: &str| term.field.as_ref().is_none_or(|field| field == name);
    let plain =
        |term: &QueryTerm| term.field.is_none() && !matches!(term.term, SearchTerm::Prefix(_));
    let mut points = 0;
    if count > 1 && query.terms.iter().all(plain) {
        let phrase: Vec<String> = query.terms.iter().flat_map(|term| words(&term.term)).collect();
        let is_short = phrase.len() <= 32;
        let phrase = SearchTerm::Phrase(phrase);
        let has = |all: &Vec<SearchToken<'_>>| {
            (0..all.len()).any(|at| occurs(all, &phrase, at).is_some())
        };
        points += if is_short && texts.iter().any(|(_, all)| has(all)) { 1000 } else { 0 };
    }
    let near = texts.iter().flat_map(|(name, all)| {
        (0..all.len()).map(move |from| {
            let end = all[from].start + 160;
            let close = (from..all.len()).take_while(|at| all[*at].start < end);
            let held = query.terms.iter().filter(|term| {
                let ends =
                    |at| occurs(all, &term.term, at).is_some_and(|last| all[last].end <= end);
                is_for(term, name) && close.clone().any(ends)
            });
            held.count() as u64
        })
    });
    points += 600 * near.max().unwrap_or(0).max(1) / count;
    let named = query.terms.iter().filter(|term| {
        texts.iter().any(|(name, all)| {
            ["title", "name", "subject", "summary"].contains(name)
                && is_for(term, name)
                && (0..all.len()).any(|at| occurs(all, &term.term, at).is_some())
        })
    });
    points += 600 * named.count() as u64 / count;
    let often = query.terms.iter().map(|term| {
        let of = texts.iter().filter(|(name, _)| is_for(term, name)).map(|(_, all)| {
            (0..all.len()).filter(|at| occurs(all, &term.term, *at).is_some()).count() as u64
        });
        let n = of.sum::<u64>().max(1);
        400 * n / (n + 2)
    });
    points + often.sum::<u64>() / count
}

/// The text in which words are looked for: a text, or the texts of a list where they are in its
/// JSON.
fn words_of(value: &FieldValue) -> Option<String> {
    let json = match value {
        FieldValue::Text(text) => return Some(text.clone()),
        FieldValue::Json(json) => J::parse(json),
        _ => return None,
    };
    let J::Arr(members) = json else { return None };
    let members = members.iter().map(|member| match member {
        J::Str(text) => {
            let in_place =
                |character: char| match serde_json::to_string(&character).unwrap().len() - 2 {
                    _ if character > '\u{7f}' => character.to_string(),
                    1 => character.to_string(),
                    escaped => " ".repeat(escaped),
                };
            format!(" {} ", text.chars().map(in_place).collect::<String>())
        }
        other => " ".repeat(width(other)),
    });
    Some(format!(" {} ", members.collect::<Vec<_>>().join(" ")))
}

/// How many characters a value has as JSON.
fn width(json: &J) -> usize {
    let text = |text: &str| serde_json::to_string(text).unwrap().chars().count();
    let list =
        |widths: Vec<usize>| widths.len().saturating_sub(1) + widths.iter().sum::<usize>() + 2;
    match json {
        J::Null => 4,
        J::Bool(is_true) => 5 - usize::from(*is_true),
        J::Num(digits) => digits.len(),
        J::Str(string) => text(string),
        J::Arr(members) => list(members.iter().map(width).collect()),
        J::Obj(members) => {
            list(members.iter().map(|(name, value)| text(name) + 1 + width(value)).collect())
        }
    }
}

/// What is said of lists and objects that a search does not look into.
pub(crate) fn unsearched_lists(sources: &[Seen<'_>], query: &ParsedQuery) -> Option<J> {
    let mut terms = query.terms.iter().chain(&query.excluded);
    if query.terms.is_empty() || terms.all(|term| term.field.is_some()) {
        return None;
    }
    let left_out = |seen: &Seen<'_>| -> Vec<(String, bool)> {
        let left_out = seen.source.decl.fields.iter().filter(|field| {
            let holds = |kind| field.types().contains(&kind);
            let items = &field.schema["items"]["type"];
            let is_words = *items == json!(null) || items.to_string().contains("\"string\"");
            let has_words = holds("object") || holds("array") && is_words;
            has_words && seen.field(&field.name) && !(field.is_list() && field.lexical)
        });
        let decl = &seen.source.decl;
        let is_filtered = |field: &FieldDecl| field.is_list() && decl.exact(field);
        left_out.map(|field| (field.name.clone(), is_filtered(field))).collect()
    };
    let left_out: Vec<(String, bool)> = sources.iter().flat_map(left_out).collect();
    let has_filtered = left_out.iter().any(|(_, is_filtered)| *is_filtered);
    let fields: BTreeSet<String> = left_out.into_iter().map(|(name, _)| name).collect();
    let named: Vec<String> = fields.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = match fields.len() {
        0..=5 => String::new(),
        all => format!(" and {} more", all - 5),
    };
    let message = format!(
        "no search looks into the lists or objects of {}{more}, so more records may have these \
         words{}",
        named.join(", "),
        if has_filtered { "; a filter finds a whole member of a list" } else { "" }
    );
    (!fields.is_empty()).then(|| {
        J::of(&json!({
            "code": "lists_not_searched", "param": "q", "message": message,
            "detail": { "fields": fields },
        }))
    })
}

/// Whether a field is searched for the caller.
fn searches(seen: &Seen<'_>, name: &str) -> bool {
    seen.field(name) && seen.source.decl.field(name).is_some_and(|field| field.lexical)
}

fn hit(seen: &Seen<'_>, key: &str, record: &Rec, query: &ParsedQuery) -> Option<J> {
    let searched = |name: &str| searches(seen, name);
    let texts: Vec<(&str, String, &str)> = record
        .fields
        .iter()
        .filter(|(name, value)| searched(name) && !is_binary(&seen.source.decl, name, value))
        .filter_map(|(name, value)| match value {
            FieldValue::Text(shown) | FieldValue::Json(shown) => {
                Some((name.as_str(), words_of(value)?, shown.as_str()))
            }
            _ => None,
        })
        .collect();
    let is_for =
        |term: &QueryTerm, name: &str| term.field.as_ref().is_none_or(|field| field == name);
    let found = |term: &QueryTerm| {
        texts.iter().any(|(name, text, _)| is_for(term, name) && first(text, &term.term).is_some())
    };
    let is_found = query.terms.iter().all(found) && !query.excluded.iter().any(found);
    if query.terms.is_empty() || !is_found {
        return None;
    }
    let Source { connection, stream, .. } = seen.source;
    let url = format!("/v1/streams/{stream}/records/{}", encode_component(key));
    let (mut fields, mut places, mut excerpts) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text, shown) in &texts {
        let (name, text, shown) = (*name, text.as_str(), *shown);
        let own = query.terms.iter().filter(|term| is_for(term, name));
        let own: Vec<&SearchTerm> = own.map(|term| &term.term).collect();
        let Some(place) = best_of(&own, text) else { continue };
        fields.push(name);
        places.push((place, name, text, shown));
    }
    for (mut place, name, text, shown) in places.clone() {
        let own = query.terms.iter().filter(|term| is_for(term, name));
        let own: Vec<&SearchTerm> = own.map(|term| &term.term).collect();
        while places.len() < 3 && text.chars().count() <= 4 * 8192 {
            let mut finder = PlaceFinder::new(&own, 160, place.range.start.max(80) + 320);
            let _ = tokens(text).any(|token| finder.feed(&token));
            let Some(next) = finder.best() else { break };
            places.push((next, name, text, shown));
            place = next;
        }
    }
    places.sort_by_key(|(place, ..)| std::cmp::Reverse(place.terms));
    for (place, name, _, whole) in places.into_iter().take(3) {
        let (start, end) = (place.range.start, place.range.end);
        let chars: Vec<char> = whole.chars().collect();
        let from = if chars.len() <= 320 { 0 } else { (start as usize).saturating_sub(80) };
        let to = (from + 320).min(chars.len());
        let shown: String = chars[from..to].iter().collect();
        let digest = (to - from < chars.len()).then(|| super::digest_of(whole));
        excerpts.push(json!({
            "object": "evidence_excerpt", "field_path": name, "preview_text": shown, "start_chars": from,
            "end_chars": to, "size_chars": chars.len(), "digest": digest, "match": { "start_chars": start, "end_chars": end },
            "provenance": "lexical_match", "truncated": shown.chars().count() < chars.len(),
            "read": {
                "object": "field_window_read", "method": "GET", "stream": stream, "record_id": key, "field": name,
                "connection_id": connection, "offset_chars": start,
                "route": format!(
                    "{url}/field-window?field={}&connection_id={connection}&offset_chars={start}", encode_component(name)
                ),
            },
        }));
    }
    let one = excerpts.first().unwrap();
    let mut titles =
        ["title", "name", "subject", "summary"].into_iter().filter(|name| seen.field(name));
    let title = titles.find_map(|name| match record.field(name) {
        Some(FieldValue::Text(text))
            if !text.is_empty()
                && !is_binary(&seen.source.decl, name, record.field(name).unwrap()) =>
        {
            Some(json!({ "field": name, "text": text.chars().take(120).collect::<String>() }))
        }
        _ => None,
    });
    let beginning = || {
        record.fields.iter().filter(|(name, _)| seen.field(name)).find_map(|(name, value)| {
            let FieldValue::Text(text) = value else { return None };
            let shown: String = text.chars().take(120).collect();
            let line = shown.lines().map(str::trim).find(|line| !line.is_empty())?.to_owned();
            let is_title = line.contains(char::is_whitespace)
                && !is_binary(&seen.source.decl, name, value)
                && time_of_text(&line).is_none();
            is_title.then(|| json!({ "field": name, "text": line }))
        })
    };
    let title = title.or_else(beginning);
    Some(J::of(&json!({
        "title": title,
        "object": "search_result", "stream": stream, "record_key": key, "connection_id": connection,
        "connector_instance_id": connection, "connector_id": connection, "emitted_at": EMITTED[record.emitted].1,
        "record_url": format!("{url}?connection_id={connection}"), "matched_fields": fields,
        "snippet": { "field": one["field_path"], "text": one["preview_text"] }, "evidence_excerpts": excerpts,
    })))
}
