//! `GET /v1/streams/{stream}/records`: records in order, a page at a time.

use serde_json::{Value as Json, json};
use stile_domain::records::cursor::{Binding, ListPlace};
use stile_domain::records::problem::{BadCursor, Problem};
use stile_store::records::{ListQuery, Order};

use super::fields;
use super::parameters::Parameters;
use super::render::{Shown, connection, meta, put_record};
use super::sink::{Sink, put_string};
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
    fn with_cursor(&self, cursor: Option<&str>) -> String {
        let Some(cursor) = cursor else {
            let separator = if self.query.is_empty() { "" } else { "?" };
            return format!("{}{separator}{}", self.path, self.query);
        };
        let others: Vec<&str> =
            self.query.split('&').filter(|part| !part.is_empty() && !part.starts_with("cursor=")).collect();
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
    out: &mut dyn Sink,
) -> Result<(), Problem> {
    let view = reading.view;
    let sources = view.sources_of(stream, connection(parameters)?)?;
    if changes::is_asked(reading, parameters) {
        return changes::changes(reading, &sources, stream, parameters, address, out);
    }
    let wanted = fields::requested(reading, &sources, parameters.names("fields"))?;
    let conditions = fields::conditions(reading, &sources, parameters.conditions())?;
    let order = order(parameters)?;
    let binding = binding(reading, stream, parameters, order);
    let after = match parameters.text("cursor") {
        None => None,
        Some(cursor) => Some(ListPlace::decode(&view.open(cursor)?, binding).map_err(Problem::InvalidCursor)?),
    };
    let query = ListQuery { order, after: after.as_ref(), conditions: &conditions, limit: limit(parameters) };
    let page = view.list(&sources, query)?;
    let next = match page.rows.last().filter(|_| page.has_more) {
        None => None,
        Some(row) => {
            let place = view.place_of(&sources, row).ok_or(Problem::InvalidCursor(BadCursor::Stale))?;
            Some(view.seal(&place.encode(binding))?)
        }
    };
    let shown = Shown { fields: wanted.as_ref(), preview: parameters.number("preview_chars") };
    put_envelope_start(address, next.as_deref(), out);
    out.put("\"data\":[");
    for (at, row) in page.rows.iter().enumerate() {
        if at > 0 {
            out.put(",");
        }
        put_record(reading, &sources, row, shown, out)?;
        out.put("}");
        if out.is_gone() {
            return Ok(());
        }
    }
    put_envelope_end(address, next.as_deref(), parameters, out);
    Ok(())
}

/// How many records a page has at most.
pub(super) fn limit(parameters: &Parameters) -> usize {
    usize::try_from(parameters.number("limit").unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX)
}

/// Puts what comes before the records of a list.
pub(super) fn put_envelope_start(address: &Address, next: Option<&str>, out: &mut dyn Sink) {
    out.put("{\"object\":\"list\",\"url\":");
    put_string(out, &address.path);
    out.put(&format!(",\"has_more\":{},", next.is_some()));
    if let Some(next) = next {
        out.put(&format!("\"next_cursor\":\"{next}\","));
    }
}

/// Puts what comes after the records of a list.
pub(super) fn put_envelope_end(address: &Address, next: Option<&str>, parameters: &Parameters, out: &mut dyn Sink) {
    let links = json!({
        "self": address.with_cursor(None),
        "next": next.map_or(Json::Null, |next| address.with_cursor(Some(next)).into()),
    });
    out.put(&format!("],\"links\":{links},\"meta\":{}}}", meta(parameters)));
}

/// `order`, or what `sort` says of it.
fn order(parameters: &Parameters) -> Result<Order, Problem> {
    match parameters.text("order") {
        Some("asc") => Ok(Order::Ascending),
        _ => Ok(Order::Descending),
    }
}

/// Everything that a cursor of this list depends on but the size of its pages.
fn binding(reading: Reading<'_>, stream: &str, parameters: &Parameters, order: Order) -> Binding {
    let order = if order == Order::Ascending { "asc" } else { "desc" };
    let fields = parameters.names("fields").map_or_else(String::new, |names| format!("{names:?}"));
    let conditions: Vec<String> = parameters
        .conditions()
        .iter()
        .map(|given| format!("{:?}", (&given.field, given.operator.map(|op| op.name()), &given.value)))
        .collect();
    let connection = parameters.text("connection_id").or(parameters.text("connector_instance_id"));
    Binding::of(
        ["list", reading.view.caller(), stream, connection.unwrap_or("*"), order, &fields]
            .into_iter()
            .chain(conditions.iter().map(String::as_str)),
    )
}
