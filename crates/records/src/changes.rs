//! `changes_since` of `GET /v1/streams/{stream}/records`: what changed for the caller since an
//! earlier answer.
//!
//! A session begins with `beginning` or with the `next_changes_since` of the session before, and
//! goes on with cursors. Its first page fixes what the session reports. Only its last page has a
//! `next_changes_since`, so that no client stores one without having all pages. For each changed
//! record a page has the present record, or, if the caller saw the record and cannot see it any
//! more, that the record is deleted.

use serde_json::json;
use stile_domain::records::key_history::{ChangeRange, ChangesCursor, SyncPoint};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::ListRecords;
use stile_domain::records::sealed_cursor::Binding;
use stile_store::records::{RecordChange, RecordSource};

use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::field_selection;
use crate::list_response::{
    has_record_cursors, names_text, page_limit, write_list_end, write_list_start,
    write_record_cursor,
};
use crate::page_reading::read_page;
use crate::record_json::{RecordOptions, write_record};
use crate::request_target::RequestAddress;
use crate::response_meta::response_meta;
use crate::response_sink::ResponseSink;

/// The parameter's value for the first session.
const BEGINNING: &str = "beginning";

/// Returns whether a request asks for changes: by the parameter, or by a cursor of such a list.
pub(crate) fn is_requested(context: ReadContext<'_>, request: &ListRecords) -> bool {
    let is_changes_cursor = |cursor: &str| {
        context.view.unseal(cursor).is_ok_and(|bytes| ChangesCursor::is_kind_of(&bytes))
    };
    request.changes_since.is_some() || request.cursor.as_deref().is_some_and(is_changes_cursor)
}

/// Writes a page of changes.
///
/// # Errors
/// What the parameters or the database rule out; [`Problem::ChangesExpired`].
pub(crate) fn list_changes(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    (request, limits): (&ListRecords, &PreviewLimits),
    address: RequestAddress<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = context.view;
    refuse_list_parameters(request)?;
    let names = Some(request.fields.as_slice()).filter(|names| !names.is_empty());
    let fields = field_selection::requested(context, sources, names)?;
    let bindings = Bindings::new(context, request)?;
    let (session, after) = requested_session(context, sources, request, &bindings)?;
    let after = after.as_ref().map(|(source, key)| (*source, key.as_str()));
    let (changes, has_more) = view.changes(sources, &session, after, page_limit(request.limit))?;
    let cursor_after = |change: &RecordChange| {
        let (source, key) = change.source_and_key();
        let stream = sources.get(source).ok_or(Problem::NotFound)?.id();
        view.seal(&ChangesCursor { session, stream, key: key.to_owned() }.encode(bindings.page))
    };
    let next_cursor = changes.last().filter(|_| has_more).map(cursor_after).transpose()?;
    write_list_start(address, next_cursor.as_deref(), out);
    if next_cursor.is_none() {
        let next_session = view.seal(&session.until.encode(bindings.sync))?;
        out.write(&format!("\"next_changes_since\":\"{next_session}\","));
    }
    out.write("\"data\":[");
    let options = RecordOptions { fields: fields.as_ref(), limits };
    let present = changes.iter().filter_map(|change| match change {
        RecordChange::Present(row) => Some((sources, row, options)),
        RecordChange::Deleted { .. } => None,
    });
    read_page(context, &present.collect::<Vec<_>>())?;
    for (index, change) in changes.iter().enumerate() {
        out.write(if index > 0 { "," } else { "" });
        match change {
            RecordChange::Present(row) => write_record(context, sources, row, options, out)?,
            RecordChange::Deleted { .. } => write_deletion(sources, change, out)?,
        }
        if has_record_cursors(request.cursors) {
            write_record_cursor(&cursor_after(change)?, out);
        }
        out.write("}");
        if out.is_closed() {
            return Ok(());
        }
    }
    let meta = response_meta(&request.clamped, &request.connection);
    write_list_end(address, next_cursor.as_deref(), &meta, out);
    Ok(())
}

/// Refuses the parameters that choose, order or count the records of an ordinary list.
fn refuse_list_parameters(request: &ListRecords) -> Result<(), Problem> {
    let excluded = [
        ("order", request.order.is_some()),
        ("sort", request.sort.is_some()),
        ("count", request.count.is_some()),
        ("filter", !request.conditions.is_empty()),
        ("view", request.view.is_some()),
    ];
    let message =
        |name: &str| format!("`{name}` does not go with `changes_since`; leave one of them out");
    if let Some((name, _)) = excluded.iter().find(|(_, is_sent)| *is_sent) {
        return Problem::refuse(name, message(name));
    }
    if !request.expand.is_empty() || !request.expand_limit.is_empty() {
        return Err(Problem::InvalidExpand {
            param: "expand".to_owned(),
            message: message("expand"),
        });
    }
    Ok(())
}

/// What the cursors and the `next_changes_since` of a session are bound to.
struct Bindings {
    page: Binding,
    sync: Binding,
}

impl Bindings {
    fn new(context: ReadContext<'_>, request: &ListRecords) -> Result<Self, Problem> {
        let fields = names_text(&request.fields);
        let connection = request.connection.name()?.unwrap_or("*");
        let common = [context.view.caller(), &request.stream, connection];
        let binding = |kind, more| Binding::new(std::iter::once(kind).chain(common).chain(more));
        Ok(Self { page: binding("changes", Some(fields.as_str())), sync: binding("sync", None) })
    }
}

/// The position after which a session goes on: the index of a source, and a key.
type SessionPosition = Option<(usize, String)>;

/// Returns the session that a request begins or continues.
fn requested_session(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    request: &ListRecords,
    bindings: &Bindings,
) -> Result<(ChangeRange, SessionPosition), Problem> {
    let view = context.view;
    let since = match request.changes_since.as_deref() {
        None | Some(BEGINNING) => None,
        Some(token) => {
            let opened = view
                .unseal(token)
                .map_err(|_| Problem::InvalidChangesSince(CursorProblem::Malformed))?;
            Some(SyncPoint::decode(&opened, bindings.sync).map_err(Problem::InvalidChangesSince)?)
        }
    };
    // A request with a cursor and `changes_since` continues a session.
    if let Some(cursor) = &request.cursor {
        let cursor = ChangesCursor::decode(&view.unseal(cursor)?, bindings.page)
            .map_err(Problem::InvalidCursor)?;
        let source = sources.iter().position(|source| source.id() == cursor.stream);
        let source = source.ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
        return Ok((unexpired(context, cursor.session)?, Some((source, cursor.key))));
    }
    let until = view.sync_point()?;
    // The first session needs nothing of the log.
    let Some(since) = since else { return Ok((ChangeRange::from_beginning(until), None)) };
    Ok((unexpired(context, ChangeRange { since, until })?, None))
}

/// A session of which nothing is forgotten.
fn unexpired(context: ReadContext<'_>, session: ChangeRange) -> Result<ChangeRange, Problem> {
    if context.view.is_expired(&session)? { Err(Problem::ChangesExpired) } else { Ok(session) }
}

/// Writes a deleted record except the closing brace.
fn write_deletion(
    sources: &[RecordSource],
    change: &RecordChange,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let RecordChange::Deleted { source, key, emitted, deleted } = change else { return Ok(()) };
    let source = sources.get(*source).ok_or(Problem::NotFound)?;
    let json = json!({
        "object": "record", "id": key, "stream": source.stream(), "connection_id": source.connection(),
        "connector_instance_id": source.connection(), "deleted": true, "deleted_at": deleted.to_rfc3339(),
        "emitted_at": emitted.to_rfc3339(),
    });
    let json = json.to_string();
    out.write(json.strip_suffix('}').unwrap_or(&json));
    Ok(())
}
