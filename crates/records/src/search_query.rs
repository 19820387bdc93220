//! The words that a request looks for: its parameter `q`, and what is said of it.

use serde_json::{Value as Json, json};
use stile_domain::records::problem::{BroadTerms, Problem};
use stile_domain::records::tokenizer::{MAX_QUERY_SCALARS, MAX_TERMS, ParsedQuery, SearchTerm};
use stile_store::records::RecordSource;

/// Checks the text of `q`; `None` if the request has none.
///
/// # Errors
/// [`Problem::InvalidRequest`] for an empty or too long text.
pub(crate) fn query_text(q: Option<&str>) -> Result<Option<&str>, Problem> {
    let Some(text) = q else { return Ok(None) };
    if text.is_empty() {
        return Problem::refuse(
            "q",
            "`q` must have the words to look for, such as `ferns \"water the\" mo*`",
        );
    }
    if text.chars().nth(MAX_QUERY_SCALARS).is_some() {
        return Problem::refuse("q", format!("`q` has at most {MAX_QUERY_SCALARS} characters"));
    }
    Ok(Some(text))
}

/// Parses the text of `q` for these sources, whose searched fields it may name.
///
/// # Errors
/// [`Problem::InvalidRequest`] if it only excludes.
pub(crate) fn parse_query(text: &str, sources: &[RecordSource]) -> Result<ParsedQuery, Problem> {
    let searched = |name: &str| sources.iter().any(|source| source.searches(name));
    let query = ParsedQuery::parse_with_fields(text, &searched);
    if query.terms.is_empty() && !query.excluded.is_empty() {
        return Problem::refuse(
            "q",
            "`q` only excludes; send a word that must occur too, such as `ferns -moss`",
        );
    }
    Ok(query)
}

/// Returns what a search that examines too many records searches for.
pub(crate) fn broad_terms(query: &ParsedQuery) -> BroadTerms {
    match query.terms.as_slice() {
        [one] if matches!(one.term, SearchTerm::Prefix(_)) => BroadTerms::OnePrefix,
        [_] => BroadTerms::One,
        _ => BroadTerms::Several,
    }
}

/// Returns warnings of words that are not looked for.
pub(crate) fn query_warnings(query: &ParsedQuery) -> Vec<Json> {
    let mut warnings = Vec::new();
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
    warnings
}
