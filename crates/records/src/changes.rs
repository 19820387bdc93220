//! `GET /v1/streams/{stream}/records?changes_since=…`: what changed for the caller since they asked
//! before.
//!
//! A session begins with `beginning` or with the `next_changes_since` of the session before, goes
//! on with cursors alone, and ends with a page that has the next `next_changes_since`; no other
//! page has one, so that nobody stores it who has not had them all. What it tells of is fixed with
//! its first page. Of what it tells of it shows the record that there is, or, where the caller saw
//! one and sees none any more, that it is gone.

use serde_json::json;
use stile_domain::records::key_history::{ChangeRange, ChangesCursor, SyncPoint};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::Binding;
use stile_store::records::{RecordChange, RecordSource};

use super::Reading;
use super::bounded::Cut;
use super::fields;
use super::list::{Address, limit, of_each, put_cursor, put_envelope_end, put_envelope_start};
use super::parameters::Parameters;
use super::render::{Shown, connection, meta, put_record};
use super::sink::ResponseSink;

/// The parameter.
pub(super) const CHANGES_SINCE: &str = "changes_since";
/// What is sent as it the first time.
const BEGINNING: &str = "beginning";

/// Whether a list is asked for what changed: by the parameter, or by a cursor of such a list.
pub(super) fn is_asked(reading: Reading<'_>, parameters: &Parameters) -> bool {
    let is_place =
        |cursor| reading.view.unseal(cursor).is_ok_and(|bytes| ChangesCursor::is_kind_of(&bytes));
    parameters.text(CHANGES_SINCE).is_some() || parameters.text("cursor").is_some_and(is_place)
}

/// Puts a page of what changed.
///
/// # Errors
/// What the parameters or the database say against it; [`Problem::ChangesExpired`].
pub(super) fn changes(
    reading: Reading<'_>,
    sources: &[RecordSource],
    stream: &str,
    (parameters, cut): (&Parameters, &Cut),
    address: &Address,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = reading.view;
    alone(parameters)?;
    let wanted = fields::requested(reading, sources, parameters.names("fields"))?;
    let bindings = Bindings::new(reading, stream, parameters)?;
    let (session, after) = begun(reading, sources, parameters, &bindings)?;
    let after = after.as_ref().map(|(source, key)| (*source, key.as_str()));
    let (changes, has_more) = view.changes(sources, &session, after, limit(parameters))?;
    let cursor_after = |change: &RecordChange| {
        let (source, key) = change.source_and_key();
        let stream = sources.get(source).ok_or(Problem::NotFound)?.id();
        view.seal(&ChangesCursor { session, stream, key: key.to_owned() }.encode(bindings.page))
    };
    let next = changes.last().filter(|_| has_more).map(cursor_after).transpose()?;
    put_envelope_start(address, next.as_deref(), out);
    if next.is_none() {
        out.write(&format!(
            "\"next_changes_since\":\"{}\",",
            view.seal(&session.until.encode(bindings.sync))?
        ));
    }
    out.write("\"data\":[");
    let shown = Shown { fields: wanted.as_ref(), cut };
    for (at, change) in changes.iter().enumerate() {
        out.write(if at > 0 { "," } else { "" });
        match change {
            RecordChange::Present(row) => put_record(reading, sources, row, shown, out)?,
            RecordChange::Deleted { .. } => put_gone(sources, change, out)?,
        }
        if of_each(parameters) {
            put_cursor(&cursor_after(change)?, out);
        }
        out.write("}");
        if out.is_closed() {
            return Ok(());
        }
    }
    put_envelope_end(address, next.as_deref(), &meta(parameters), out);
    Ok(())
}

/// That nothing was sent that would choose, order or count the records of a list.
fn alone(parameters: &Parameters) -> Result<(), Problem> {
    let excluded = [
        ("order", parameters.text("order").is_some()),
        ("sort", parameters.text("sort").is_some()),
        ("count", parameters.text("count").is_some()),
        ("filter", !parameters.conditions().is_empty()),
        ("view", parameters.text("view").is_some()),
    ];
    let message =
        |name: &str| format!("`{name}` does not go with `{CHANGES_SINCE}`; leave one of them out");
    if let Some((name, _)) = excluded.iter().find(|(_, is_sent)| *is_sent) {
        return Err(Problem::invalid(name, message(name)));
    }
    if parameters.names("expand").is_some() || !parameters.limits().is_empty() {
        return Err(Problem::InvalidExpand {
            param: "expand".to_owned(),
            message: message("expand"),
        });
    }
    Ok(())
}

/// What the tokens of a session are bound to.
struct Bindings {
    page: Binding,
    sync: Binding,
}

impl Bindings {
    fn new(reading: Reading<'_>, stream: &str, parameters: &Parameters) -> Result<Self, Problem> {
        let fields =
            parameters.names("fields").map_or_else(String::new, |names| format!("{names:?}"));
        let common = [reading.view.caller(), stream, connection(parameters)?.unwrap_or("*")];
        let of = |kind, more| Binding::new(std::iter::once(kind).chain(common).chain(more));
        Ok(Self { page: of("changes", Some(fields.as_str())), sync: of("sync", None) })
    }
}

/// Where a session goes on: after this key of this source.
type After = Option<(usize, String)>;

/// The session that a request begins or goes on with.
fn begun(
    reading: Reading<'_>,
    sources: &[RecordSource],
    parameters: &Parameters,
    bindings: &Bindings,
) -> Result<(ChangeRange, After), Problem> {
    let view = reading.view;
    let since = match parameters.text(CHANGES_SINCE) {
        None | Some(BEGINNING) => None,
        Some(token) => {
            let opened = view
                .unseal(token)
                .map_err(|_| Problem::InvalidChangesSince(CursorProblem::Malformed))?;
            Some(SyncPoint::decode(&opened, bindings.sync).map_err(Problem::InvalidChangesSince)?)
        }
    };
    // Whoever sends both goes on, and does not begin again.
    if let Some(cursor) = parameters.text("cursor") {
        let place = ChangesCursor::decode(&view.unseal(cursor)?, bindings.page)
            .map_err(Problem::InvalidCursor)?;
        let source = sources.iter().position(|source| source.id() == place.stream);
        let source = source.ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
        return Ok((known(reading, place.session)?, Some((source, place.key))));
    }
    let until = view.mark()?;
    // To begin needs nothing of the log.
    let Some(since) = since else { return Ok((ChangeRange::from_beginning(until), None)) };
    Ok((known(reading, ChangeRange { since, until })?, None))
}

/// A session of which nothing is forgotten.
fn known(reading: Reading<'_>, session: ChangeRange) -> Result<ChangeRange, Problem> {
    if reading.view.is_expired(&session)? { Err(Problem::ChangesExpired) } else { Ok(session) }
}

/// Puts what is told of a record that is gone, but for its closing brace.
fn put_gone(
    sources: &[RecordSource],
    change: &RecordChange,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let RecordChange::Deleted { source, key, emitted, deleted } = change else { return Ok(()) };
    let source = sources.get(*source).ok_or(Problem::NotFound)?;
    let told = json!({
        "object": "record", "id": key, "stream": source.stream(), "connection_id": source.connection(),
        "connector_instance_id": source.connection(), "deleted": true, "deleted_at": deleted.to_rfc3339(),
        "emitted_at": emitted.to_rfc3339(),
    });
    let told = told.to_string();
    out.write(told.strip_suffix('}').unwrap_or(&told));
    Ok(())
}
