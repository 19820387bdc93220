//! `GET /v1/streams/{stream}/records`: records in order, a page at a time.

use serde_json::{Value as Json, json};
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, ListCursor};
use stile_store::records::{RecordQuery, RecordRow, RecordSource, SortOrder};

use super::bounded::Cut;
use super::fields;
use super::parameters::Parameters;
use super::related;
use super::render::{connection, meta};
use super::sink::{ResponseSink, write_json_string};
use super::{Reading, changes};

/// Records of a page where the caller does not say.
pub const DEFAULT_LIMIT: u64 = 25;

/// Where a request was sent to: a path, and the query without its cursor.
#[derive(Clone, Debug)]
pub struct Address {
    /// The path, as it was sent.
    pub path: String,
    /// The query, as it was sent.
    pub query: String,
}

impl Address {
    /// The same with another cursor, or the request itself.
    pub(super) fn with_cursor(&self, cursor: Option<&str>) -> String {
        let Some(cursor) = cursor else {
            let separator = if self.query.is_empty() { "" } else { "?" };
            return format!("{}{separator}{}", self.path, self.query);
        };
        let others: Vec<&str> = self
            .query
            .split('&')
            .filter(|part| !part.is_empty() && !part.starts_with("cursor="))
            .collect();
        let others: String = others.iter().map(|part| format!("{part}&")).collect();
        format!("{}?{others}cursor={cursor}", self.path)
    }
}

/// Puts a page of records.
///
/// # Errors
/// What the grant, the parameters or the database say against it.
pub fn list(
    reading: Reading<'_>,
    stream: &str,
    parameters: &Parameters,
    address: &Address,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = reading.view;
    let sources = view.sources_of(stream, connection(parameters)?)?;
    related::owner_only(reading, parameters)?;
    let cut = Cut::new(parameters)?;
    if changes::is_asked(reading, parameters) {
        return changes::changes(reading, &sources, stream, (parameters, &cut), address, out);
    }
    let fields = related::fields_of(reading, &sources, parameters)?;
    let conditions = fields::conditions(reading, &sources, parameters.conditions())?;
    let order = order(&sources, parameters)?;
    let wanted = related::relations(reading, &sources, parameters, fields)?;
    let binding = binding(reading, stream, parameters, order);
    let after = match parameters.text("cursor") {
        None => None,
        Some(cursor) => Some(
            ListCursor::decode(&view.unseal(cursor)?, binding).map_err(Problem::InvalidCursor)?,
        ),
    };
    let query = RecordQuery {
        order,
        after: after.as_ref(),
        conditions: &conditions,
        limit: limit(parameters),
    };
    let page = view.list(&sources, query)?;
    let cursor_after = |row: &RecordRow| {
        let place =
            view.position_of(&sources, row).ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
        view.seal(&place.encode(binding))
    };
    let next = page.rows.last().filter(|_| page.has_more).map(cursor_after).transpose()?;
    let count = counted(reading, &sources, &conditions, parameters)?;
    let mut streams = related::Streams::new();
    put_envelope_start(address, next.as_deref(), out);
    out.write("\"data\":[");
    for (at, row) in page.rows.iter().enumerate() {
        if at > 0 {
            out.write(",");
        }
        wanted.put(reading, &sources, row, &cut, (&mut streams, &mut *out))?;
        if of_each(parameters) {
            put_cursor(&cursor_after(row)?, out);
        }
        out.write("}");
        if out.is_closed() {
            return Ok(());
        }
    }
    let mut meta = meta(parameters);
    if let (Some(meta), Some(count)) = (meta.as_object_mut(), count) {
        meta.insert("count".to_owned(), json!({ "kind": "exact", "value": count }));
    }
    put_envelope_end(address, next.as_deref(), &meta, out);
    Ok(())
}

/// How many records a page has at most.
pub(super) fn limit(parameters: &Parameters) -> usize {
    usize::try_from(parameters.number("limit").unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX)
}

/// Whether each record of a page is to have a cursor, so that a caller who takes only the first of
/// them can go on after those.
pub(super) fn of_each(parameters: &Parameters) -> bool {
    parameters.text("cursors") == Some("each")
}

/// Puts the cursor after a record, among its members.
pub(super) fn put_cursor(cursor: &str, out: &mut dyn ResponseSink) {
    out.write(&format!(",\"cursor\":\"{cursor}\""));
}

/// Puts what comes before the records of a list.
pub(super) fn put_envelope_start(
    address: &Address,
    next: Option<&str>,
    out: &mut dyn ResponseSink,
) {
    out.write("{\"object\":\"list\",\"url\":");
    write_json_string(out, &address.path);
    out.write(&format!(",\"has_more\":{},", next.is_some()));
    if let Some(next) = next {
        out.write(&format!("\"next_cursor\":\"{next}\","));
    }
}

/// Puts what comes after the records of a list.
pub(super) fn put_envelope_end(
    address: &Address,
    next: Option<&str>,
    meta: &Json,
    out: &mut dyn ResponseSink,
) {
    let links = json!({
        "self": address.with_cursor(None),
        "next": next.map_or(Json::Null, |next| address.with_cursor(Some(next)).into()),
    });
    out.write(&format!("],\"links\":{links},\"meta\":{meta}}}"));
}

/// How many records there are on all pages, where that is asked for.
fn counted(
    reading: Reading<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    parameters: &Parameters,
) -> Result<Option<u64>, Problem> {
    match parameters.text("count") {
        None | Some("none") => Ok(None),
        Some(_) => reading.view.count_matching(sources, conditions).map(Some),
    }
}

/// `order`, or what `sort` says of it.
fn order(sources: &[RecordSource], parameters: &Parameters) -> Result<SortOrder, Problem> {
    let order = parameters
        .text("order")
        .map(|order| if order == "asc" { SortOrder::Ascending } else { SortOrder::Descending });
    let Some(sort) = parameters.text("sort") else {
        return Ok(order.unwrap_or(SortOrder::Descending));
    };
    let direction = |source: &RecordSource| match source.ordered_by()? {
        field if field == sort => Some(SortOrder::Ascending),
        field if Some(field) == sort.strip_prefix('-') => Some(SortOrder::Descending),
        _ => None,
    };
    let invalid = |message: &str| Problem::InvalidSort { message: message.to_owned() };
    let sorted = sources.first().and_then(direction);
    let sorted =
        sorted.filter(|first| sources.iter().all(|source| direction(source) == Some(*first)));
    let sorted = sorted.ok_or_else(|| {
        invalid("`sort` is the stream's `cursor_field`, or `-` and that; `/v1/schema` says which field that is")
    })?;
    match order {
        Some(order) if order != sorted => {
            Err(invalid("`sort` and `order` disagree; send one of them"))
        }
        _ => Ok(sorted),
    }
}

/// Everything that a cursor of this list depends on but the size of its pages.
fn binding(
    reading: Reading<'_>,
    stream: &str,
    parameters: &Parameters,
    order: SortOrder,
) -> Binding {
    let order = if order == SortOrder::Ascending { "asc" } else { "desc" };
    let fields = parameters.names("fields").map_or_else(String::new, |names| format!("{names:?}"));
    let conditions = parameters.conditions_text();
    let connection = parameters.text("connection_id").or(parameters.text("connector_instance_id"));
    // A view cannot be told from a list of fields by an empty text: no view has that name.
    let view = parameters.text("view").unwrap_or_default();
    let related =
        format!("{:?}{:?}", parameters.names("expand").unwrap_or_default(), parameters.limits());
    Binding::new(
        [
            "list",
            reading.view.caller(),
            stream,
            connection.unwrap_or("*"),
            order,
            &fields,
            view,
            &related,
        ]
        .into_iter()
        .chain(conditions.iter().map(String::as_str)),
    )
}
