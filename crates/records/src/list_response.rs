//! The envelope that lists of records, changes and search hits share: sizes of pages, cursors and
//! links.

use serde_json::{Value as Json, json};
use stile_domain::records::request::shared_parameters::DEFAULT_LIMIT;

use crate::request_target::RequestAddress;
use crate::response_sink::{ResponseSink, write_json_string};

/// The members of every list.
pub(crate) const LIST_MEMBERS: &[&str] = &["object", "url", "has_more", "data", "links", "meta"];

/// Returns the greatest number of records on a page, for the `limit` of a request.
pub(crate) fn page_limit(limit: Option<u64>) -> usize {
    usize::try_from(limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX)
}

/// Returns whether each record of a page has a cursor of its own, by the `cursors` of a request.
/// A caller that uses only the first records of a page continues with the cursor of the last one
/// used.
pub(crate) fn has_record_cursors(cursors: Option<&str>) -> bool {
    cursors == Some("each")
}

/// Returns a list of names as a text, to bind a cursor to; empty if the request has none.
pub(crate) fn names_text(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{names:?}") }
}

/// Writes the members before the records of a list.
pub(crate) fn write_list_start(
    address: RequestAddress<'_>,
    next_cursor: Option<&str>,
    out: &mut dyn ResponseSink,
) {
    out.write("{\"object\":\"list\",\"url\":");
    write_json_string(out, address.path);
    out.write(&format!(",\"has_more\":{},", next_cursor.is_some()));
    if let Some(cursor) = next_cursor {
        out.write(&format!("\"next_cursor\":\"{cursor}\","));
    }
}

/// Writes the cursor of one record, among the members of that record.
pub(crate) fn write_record_cursor(cursor: &str, out: &mut dyn ResponseSink) {
    out.write(&format!(",\"cursor\":\"{cursor}\""));
}

/// Writes the members after the records of a list.
pub(crate) fn write_list_end(
    address: RequestAddress<'_>,
    next_cursor: Option<&str>,
    meta: &Json,
    out: &mut dyn ResponseSink,
) {
    let links = json!({
        "self": address.target(),
        "next": next_cursor.map(|cursor| address.target_with_cursor(cursor)),
    });
    out.write(&format!("],\"links\":{links},\"meta\":{meta}}}"));
}
