//! `GET /v1/streams/{stream}/records`: records in order, a page at a time.
//!
//! With `changes_since` the operation lists what changed instead, see [`crate::changes`].

use serde_json::json;
use stile_domain::records::filter::Condition;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::ListRecords;
use stile_domain::records::request::parameters::condition_texts;
use stile_domain::records::sealed_cursor::{Binding, ListCursor};
use stile_store::records::{RecordQuery, RecordRow, RecordSource, SortOrder};

use crate::changes;
use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::field_selection;
use crate::list_response::{
    LIST_MEMBERS, has_record_cursors, names_text, page_limit, write_list_end, write_list_start,
    write_record_cursor,
};
use crate::named_parts::NamedParts;
use crate::operation_declaration::{AnsweredRequest, OperationDeclaration, ResponseDeclaration};
use crate::page_reading::records_at_once;
use crate::passed_over;
use crate::recurrences::Recurrences;
use crate::related::{RecordSelection, RelatedRecords};
use crate::request_target::RequestAddress;
use crate::response_meta::{add_warnings, response_meta};
use crate::response_sink::ResponseSink;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    about: "Records, ordered by the stream's cursor field, then connection, then key.",
    response: ResponseDeclaration::json("list", LIST_MEMBERS),
    other_responses: &[ResponseDeclaration::error(410, "`changes_since` is too old.")],
    ..OperationDeclaration::of_requests::<ListRecords>()
};

/// What a request asks for, compared with what its caller may see.
struct ListPlan {
    sources: Vec<RecordSource>,
    /// The conditions as the request has them.
    asked: Vec<Condition>,
    /// The conditions that the records must fulfil, those that repeat included.
    conditions: Vec<Condition>,
    recurrences: Recurrences,
    order: SortOrder,
    selection: RecordSelection,
    limits: PreviewLimits,
    /// What the cursors of the list are bound to.
    binding: Binding,
    /// Where the page begins; `None` for the first one.
    after: Option<ListCursor>,
}

impl ListPlan {
    fn new(
        context: ReadContext<'_>,
        request: &ListRecords,
        (parts, limits): (&NamedParts<'_>, PreviewLimits),
        sources: Vec<RecordSource>,
    ) -> Result<Self, Problem> {
        let fields = parts.selected_fields(context, &sources)?;
        let asked = field_selection::conditions(context, &sources, &request.conditions)?;
        let mut conditions = asked.clone();
        let recurrences = Recurrences::let_in(context, &sources, &mut conditions)?;
        let order = requested_order(&sources, request.order, request.sort.as_deref())?;
        let selection = RecordSelection::new(context, &sources, parts, fields)?;
        let binding = cursor_binding(context, request, order)?;
        let after = context
            .decode_cursor(request.cursor.as_deref(), |bytes| ListCursor::decode(bytes, binding))?;
        Ok(Self {
            sources,
            asked,
            conditions,
            recurrences,
            order,
            selection,
            limits,
            binding,
            after,
        })
    }
}

impl AnsweredRequest for ListRecords {
    fn answer(
        &self,
        context: ReadContext<'_>,
        address: RequestAddress<'_>,
        out: &mut dyn ResponseSink,
    ) -> Result<(), Problem> {
        let view = context.view;
        let connection = self.connection.name()?;
        let is_of_changes = changes::is_requested(context, self);
        let sources = match is_of_changes {
            true => view.changed_sources_of(&self.stream, connection)?,
            false => view.sources_of(&self.stream, connection)?,
        };
        let parts = NamedParts {
            fields: &self.fields,
            view: self.view.as_deref(),
            expand: &self.expand,
            expand_limit: &self.expand_limit,
        };
        parts.refuse_for_clients(context)?;
        let limits = PreviewLimits::new((self.preview_chars, self.preview_bytes), None, &parts)?;
        if is_of_changes {
            return changes::list_changes(context, &sources, (self, &limits), address, out);
        }
        let plan = ListPlan::new(context, self, (&parts, limits), sources)?;
        let ListPlan { sources, conditions, selection, limits, .. } = &plan;
        let query = RecordQuery {
            order: plan.order,
            after: plan.after.as_ref(),
            conditions,
            limit: page_limit(self.limit),
        };
        let page = view.list(sources, query)?;
        let cursor_after = |row: &RecordRow| {
            let position = view
                .position_of(sources, row)
                .ok_or(Problem::InvalidCursor(CursorProblem::Stale))?;
            view.seal(&position.encode(plan.binding))
        };
        let next_cursor =
            page.rows.last().filter(|_| page.has_more).map(cursor_after).transpose()?;
        let count = match self.count {
            None | Some("none") => None,
            Some(_) => Some(view.count_matching(sources, conditions)?),
        };
        let mut related = selection.find_related(context, sources, &page.rows)?;
        let read_ahead = |rows: &[RecordRow], related: &RelatedRecords| {
            selection.read_page(context, sources, (rows, related), limits)
        };
        // A page has more records, and its texts may be more than are read ahead.
        let at_once = records_at_once(limits);
        let (first, _) = page.rows.split_at(page.rows.len().min(at_once));
        read_ahead(first, &related)?;
        write_list_start(address, next_cursor.as_deref(), out);
        out.write("\"data\":[");
        for (index, row) in page.rows.iter().enumerate() {
            if index > 0 {
                out.write(",");
                if index.is_multiple_of(at_once) {
                    let next = page.rows.iter().skip(index).take(at_once).cloned();
                    read_ahead(&next.collect::<Vec<_>>(), &related)?;
                }
            }
            selection.write_record(context, sources, row, limits, (&mut related, &mut *out))?;
            if let Some(dates) = plan.recurrences.of(row.source, &row.key) {
                out.write(&format!(",\"occurs_on\":{}", json!(dates)));
            }
            if has_record_cursors(self.cursors) {
                write_record_cursor(&cursor_after(row)?, out);
            }
            out.write("}");
            if out.is_closed() {
                return Ok(());
            }
        }
        let mut meta = response_meta(&self.clamped, &self.connection);
        if plan.after.is_none() {
            let mut count =
                |other: &[Condition]| view.count_matching(sources, other).map(|it| (it, true));
            let warnings = passed_over::warnings(context, sources, &plan.asked, &mut count)?;
            add_warnings(&mut meta, warnings);
            add_warnings(&mut meta, plan.recurrences.warnings());
        }
        if let (Some(meta), Some(count)) = (meta.as_object_mut(), count) {
            meta.insert("count".to_owned(), json!({ "kind": "exact", "value": count }));
        }
        write_list_end(address, next_cursor.as_deref(), &meta, out);
        Ok(())
    }
}

/// Returns the order that `order` or `sort` names; descending is the default.
fn requested_order(
    sources: &[RecordSource],
    order: Option<&str>,
    sort: Option<&str>,
) -> Result<SortOrder, Problem> {
    let order = order
        .map(|order| if order == "asc" { SortOrder::Ascending } else { SortOrder::Descending });
    let Some(sort) = sort else {
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
    request: &ListRecords,
    order: SortOrder,
) -> Result<Binding, Problem> {
    let order = if order == SortOrder::Ascending { "asc" } else { "desc" };
    let fields = names_text(&request.fields);
    let conditions = condition_texts(&request.conditions);
    // An empty text stands for no view: no view has that name.
    let view = request.view.as_deref().unwrap_or_default();
    let related = format!("{:?}{:?}", request.expand, request.expand_limit);
    let parts = [
        "list",
        context.view.caller(),
        &request.stream,
        request.connection.name()?.unwrap_or("*"),
        order,
        &fields,
        view,
        &related,
    ];
    Ok(Binding::new(parts.into_iter().chain(conditions.iter().map(String::as_str))))
}
