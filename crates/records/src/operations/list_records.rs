//! `GET /v1/streams/{stream}/records`: records in order, a page at a time.
//!
//! With `changes_since` the operation lists what changed instead, see [`crate::changes`].

use serde_json::json;
use stile_domain::records::filter::Condition;
use stile_domain::records::identifiers::MAX_FIELD_NAME_BYTES;
use stile_domain::records::order::ORDERS;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::ReadOperation;
use stile_domain::records::sealed_cursor::{Binding, ListCursor};
use stile_store::records::{RecordQuery, RecordRow, RecordSource, SortOrder};

use crate::changes::{self, CHANGES_SINCE};
use crate::connections::requested_connection;
use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::field_selection;
use crate::list_response::{
    LIST_MEMBERS, has_record_cursors, page_limit, write_list_end, write_list_start,
    write_record_cursor,
};
use crate::operation_declaration::{OperationDeclaration, ResponseDeclaration};
use crate::parameters::{Parameter, ParameterType, Parameters};
use crate::passed_over;
use crate::recurrences::Recurrences;
use crate::related::{self, RecordSelection, RelatedRecords};
use crate::request_target::RequestTarget;
use crate::response_meta::{add_warnings, response_meta};
use crate::response_sink::ResponseSink;
use crate::shared_parameters::{
    CONNECTION, CONNECTION_ALIAS, CURSOR, CURSORS, EXPAND, EXPAND_LIMIT, FIELDS, FILTER, LIMIT,
    MAX_CURSOR_BYTES, OR, PREVIEW, PREVIEW_BYTES, VIEW,
};

/// The records whose bodies and long texts are read at once: a page has more, and its texts may be
/// more than are read ahead.
const READ_AT_ONCE: usize = 25;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "Records, ordered by the stream's cursor field, then connection, then key.",
    parameters: &[
        LIMIT,
        CURSOR,
        CURSORS,
        Parameter::optional(
            "order",
            ParameterType::OneOf(&ORDERS),
            "The direction; the default is `desc`.",
        ),
        Parameter::optional(
            "sort",
            ParameterType::Text { max_bytes: MAX_FIELD_NAME_BYTES + 1 },
            "The stream's cursor field, with `-` before it for descending: another way to send `order`.",
        ),
        Parameter::optional(
            "count",
            ParameterType::OneOf(&["none", "estimated", "exact"]),
            "Whether `meta.count` has the number of records on all pages. The number is always exact.",
        ),
        FIELDS,
        VIEW,
        EXPAND,
        EXPAND_LIMIT,
        FILTER,
        OR,
        Parameter::optional(
            CHANGES_SINCE,
            ParameterType::Text { max_bytes: MAX_CURSOR_BYTES },
            "Only records that changed or were deleted since the answer that returned this as `next_changes_since`; `beginning` for the first time. Excludes all parameters but `limit`, `cursor`, `cursors`, `fields`, `preview_chars`, `preview_bytes` and `connection_id`.",
        ),
        PREVIEW,
        PREVIEW_BYTES,
        CONNECTION,
        CONNECTION_ALIAS,
    ],
    response: ResponseDeclaration::json("list", LIST_MEMBERS),
    other_responses: &[ResponseDeclaration::error(410, "`changes_since` is too old.")],
    ..OperationDeclaration::read(
        ReadOperation::Records.id(),
        ReadOperation::Records.path(),
        list_records,
    )
};

fn list_records(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let view = context.view;
    let connection = requested_connection(parameters)?;
    let is_of_changes = changes::is_requested(context, parameters);
    let sources = match is_of_changes {
        true => view.changed_sources_of(&target.stream, connection)?,
        false => view.sources_of(&target.stream, connection)?,
    };
    related::refuse_owner_parameters(context, parameters)?;
    let limits = PreviewLimits::parse(parameters)?;
    if is_of_changes {
        return changes::list_changes(context, &sources, target, (parameters, &limits), out);
    }
    let fields = related::requested_fields(context, &sources, parameters)?;
    let mut conditions = field_selection::conditions(context, &sources, parameters.conditions())?;
    let asked = conditions.clone();
    let recurrences = Recurrences::let_in(context, &sources, &mut conditions)?;
    let order = requested_order(&sources, parameters)?;
    let selection = RecordSelection::with_fields(context, &sources, parameters, fields)?;
    let binding = cursor_binding(context, &target.stream, parameters, order);
    let after = context.decode_cursor(parameters, |bytes| ListCursor::decode(bytes, binding))?;
    let query = RecordQuery {
        order,
        after: after.as_ref(),
        conditions: &conditions,
        limit: page_limit(parameters),
    };
    let page = view.list(&sources, query)?;
    let cursor_after = |row: &RecordRow| {
        let position =
            view.position_of(&sources, row).ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
        view.seal(&position.encode(binding))
    };
    let next_cursor = page.rows.last().filter(|_| page.has_more).map(cursor_after).transpose()?;
    let count = requested_count(context, &sources, &conditions, parameters)?;
    let mut related = selection.find_related(context, &sources, &page.rows)?;
    let read_ahead = |rows: &[RecordRow], related: &RelatedRecords| {
        selection.read_page(context, &sources, (rows, related), &limits)
    };
    let (first, _) = page.rows.split_at(page.rows.len().min(READ_AT_ONCE));
    read_ahead(first, &related)?;
    write_list_start(target, next_cursor.as_deref(), out);
    out.write("\"data\":[");
    for (index, row) in page.rows.iter().enumerate() {
        if index > 0 {
            out.write(",");
            if index.is_multiple_of(READ_AT_ONCE) {
                let next = page.rows.iter().skip(index).take(READ_AT_ONCE).cloned();
                read_ahead(&next.collect::<Vec<_>>(), &related)?;
            }
        }
        selection.write_record(context, &sources, row, &limits, (&mut related, &mut *out))?;
        if let Some(dates) = recurrences.of(row.source, &row.key) {
            out.write(&format!(",\"occurs_on\":{}", json!(dates)));
        }
        if has_record_cursors(parameters) {
            write_record_cursor(&cursor_after(row)?, out);
        }
        out.write("}");
        if out.is_closed() {
            return Ok(());
        }
    }
    let mut meta = response_meta(parameters);
    if after.is_none() {
        let mut count =
            |other: &[Condition]| view.count_matching(&sources, other).map(|it| (it, true));
        let warnings = passed_over::warnings(context, &sources, &asked, &mut count)?;
        add_warnings(&mut meta, warnings);
        add_warnings(&mut meta, recurrences.warnings());
    }
    if let (Some(meta), Some(count)) = (meta.as_object_mut(), count) {
        meta.insert("count".to_owned(), json!({ "kind": "exact", "value": count }));
    }
    write_list_end(target, next_cursor.as_deref(), &meta, out);
    Ok(())
}

/// Counts the records on all pages; `None` if the request does not ask for that.
fn requested_count(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    conditions: &[Condition],
    parameters: &Parameters,
) -> Result<Option<u64>, Problem> {
    match parameters.text("count") {
        None | Some("none") => Ok(None),
        Some(_) => context.view.count_matching(sources, conditions).map(Some),
    }
}

/// Returns the order that `order` or `sort` names; descending is the default.
fn requested_order(
    sources: &[RecordSource],
    parameters: &Parameters,
) -> Result<SortOrder, Problem> {
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
        invalid("`sort` is the stream's `cursor_field`, or `-` and that; the schema says which field that is")
    })?;
    match order {
        Some(order) if order != sorted => {
            Err(invalid("`sort` and `order` disagree; send one of them"))
        }
        _ => Ok(sorted),
    }
}

/// Binds a cursor to everything that the list depends on except the size of its pages.
fn cursor_binding(
    context: ReadContext<'_>,
    stream: &str,
    parameters: &Parameters,
    order: SortOrder,
) -> Binding {
    let order = if order == SortOrder::Ascending { "asc" } else { "desc" };
    let fields = parameters.names("fields").map_or_else(String::new, |names| format!("{names:?}"));
    let conditions = parameters.condition_texts();
    let connection = parameters.text("connection_id").or(parameters.text("connector_instance_id"));
    // An empty text stands for no view: no view has that name.
    let view = parameters.text("view").unwrap_or_default();
    let related = format!(
        "{:?}{:?}",
        parameters.names("expand").unwrap_or_default(),
        parameters.relation_limits()
    );
    Binding::new(
        [
            "list",
            context.view.caller(),
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
