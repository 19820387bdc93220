//! The envelope that lists of records, changes and search hits share: sizes of pages, cursors and
//! links.

use serde_json::{Value as Json, json};

use crate::parameters::Parameters;
use crate::request_target::RequestTarget;
use crate::response_sink::{ResponseSink, write_json_string};

/// The number of records on a page if the request does not say.
pub const DEFAULT_LIMIT: u64 = 25;
/// The greatest number of records on a page, and of groups in an aggregation.
pub const MAX_LIMIT: u64 = 100;
/// The members of every list.
pub(crate) const LIST_MEMBERS: &[&str] = &["object", "url", "has_more", "data", "links", "meta"];

/// Returns the greatest number of records on the requested page.
pub(crate) fn page_limit(parameters: &Parameters) -> usize {
    usize::try_from(parameters.number("limit").unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX)
}

/// Returns whether each record of a page has a cursor of its own. A caller that uses only the first
/// records of a page continues with the cursor of the last one used.
pub(crate) fn has_record_cursors(parameters: &Parameters) -> bool {
    parameters.text("cursors") == Some("each")
}

/// Writes the members before the records of a list.
pub(crate) fn write_list_start(
    target: &RequestTarget,
    next_cursor: Option<&str>,
    out: &mut dyn ResponseSink,
) {
    out.write("{\"object\":\"list\",\"url\":");
    write_json_string(out, &target.path);
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
    target: &RequestTarget,
    next_cursor: Option<&str>,
    meta: &Json,
    out: &mut dyn ResponseSink,
) {
    let links = json!({
        "self": target.address(),
        "next": next_cursor.map(|cursor| target.address_with_cursor(cursor)),
    });
    out.write(&format!("],\"links\":{links},\"meta\":{meta}}}"));
}
