//! What a search says beside its hits: the server's warnings, how often each term occurs, and where
//! it looked.

use serde_json::{Value as Json, json};
use stile_domain::records::tokenizer::ParsedQuery;
use stile_domain::tool_name::ShownTools;

use super::budget::prefix_within;
use super::text_lines;

/// Says where a search without hits looked, for an agent that looks for a file. `file_tools` are
/// the tools of the caller, if there are files to find.
pub(super) fn records_only(file_tools: Option<ShownTools>) -> String {
    let looked = "`search` looks in records (mail, messages and the like) and never in files";
    match file_tools {
        Some(names) => {
            let calls = ["`text.search`", "`file.find` for names"].map(|call| names.sentence(call));
            let calls: Vec<_> =
                calls.iter().filter(|call| !call.is_empty()).map(|it| &**it).collect();
            match calls.join(", or ") {
                none if none.is_empty() => looked.to_owned(),
                calls => format!("{looked}; for files, call {calls}"),
            }
        }
        None => looked.to_owned(),
    }
}

/// Renders the server's warnings, and a note if the search was not complete.
pub(super) fn warnings(meta: &Json, q: &str, has_filter: bool) -> Vec<String> {
    /// The most warnings in the text.
    const MOST_SHOWN: usize = 4;
    let warnings = meta.get("warnings").and_then(Json::as_array).into_iter().flatten();
    let messages: Vec<&str> =
        warnings.filter_map(|warning| warning.get("message").and_then(Json::as_str)).collect();
    let mut lines: Vec<String> = messages
        .iter()
        .map(|message| format!("note: {}", Json::from(prefix_within(message, 200, 300).0)))
        .take(MOST_SHOWN)
        .collect();
    if let more @ 1.. = messages.len().saturating_sub(MOST_SHOWN) {
        lines.push(format!("note: {more} more in `meta.warnings` of the structured answer"));
    }
    let complete =
        meta.get("recall").and_then(|recall| recall.get("complete")).and_then(Json::as_bool);
    lines.extend(term_counts(meta, q, has_filter));
    if complete == Some(false) {
        lines.push("note: not all that could match was looked through".to_owned());
    }
    lines
}

/// Renders in how many records each term of a search without hits occurs, and what to try: a search
/// for those that do occur, or one that excludes nothing.
fn term_counts(meta: &Json, q: &str, has_filter: bool) -> Option<String> {
    /// The most characters of a term and of all terms, in a line.
    const TERM_CHARS: usize = 40;
    const TRIED_BYTES: usize = 200;
    let terms = meta.get("terms")?.as_array()?;
    // The records can have the word where no search looks: in a name, a number or an object.
    let nowhere = match has_filter {
        false => "is in no searched field",
        true => "is in no searched field of the records that the filter admits",
    };
    let (mut counts, mut tried) = (Vec::new(), Vec::new());
    for term in terms.iter().take(8) {
        let text = term.get("term")?.as_str()?;
        let records = term.get("records")?.as_u64()?;
        let has_more = term.get("has_more").and_then(Json::as_bool).unwrap_or_default();
        let shown = text_lines::escape_line_breaks(
            Json::from(prefix_within(text, TERM_CHARS, 2 * TERM_CHARS).0).to_string(),
        );
        counts.push(match (records, has_more) {
            (0, _) => format!("{shown} {nowhere}"),
            (_, true) => format!("{shown} in more than {records}"),
            _ => format!("{shown} in {records}"),
        });
        if records > 0 {
            tried.push(text);
        }
    }
    let excludes = !ParsedQuery::parse(q).excluded.is_empty();
    let none = if excludes { " and none that `q` excludes" } else { "" };
    let mut line = format!("note: no record has all of these words{none}: {}", counts.join(", "));
    let is_shorter = !tried.is_empty() && (tried.len() < terms.len() || excludes);
    let tried = if is_shorter { tried.join(" ") } else { String::new() };
    if is_shorter && tried.len() <= TRIED_BYTES {
        let args = text_lines::escape_line_breaks(json!({ "q": tried }).to_string());
        line.push_str(&format!("; try search {args}"));
    } else {
        line.push_str(match has_filter {
            true => "; try without the filter, or a prefix such as fern*",
            false => "; try fewer or shorter words, or a prefix such as fern*",
        });
    }
    Some(line)
}
