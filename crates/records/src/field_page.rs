//! `preview_bytes` and `fields_cursor`: the fields of a record, a page at a time.
//!
//! The answer about a record has a bound, however many fields the record has. For fields before and
//! after the page only their names are read.

use stile_domain::json::text::escaped_len;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::sealed_cursor::{Binding, FieldNames, FieldsCursor};
use stile_domain::records::stored_body::BodyField;
use stile_store::records::{LoadedRecord, RecordRow, RecordSource};

use crate::context::ReadContext;
use crate::named_parts::NamedParts;
use crate::response_sink::{ResponseSink, write_json_string};
use crate::type_marks::TypeMarks;
use crate::value_preview::ValuePreview;

/// Where a request cuts values and records.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviewLimits {
    /// The length at which a value is truncated, in scalar values; `None` for whole values.
    pub(crate) value_chars: Option<u64>,
    /// The greatest size of a record's page of fields, in bytes of JSON; `None` for all fields.
    record_bytes: Option<usize>,
    /// The selection of fields as a text, to bind a cursor to.
    field_selection: String,
    cursor: Option<String>,
}

impl PreviewLimits {
    /// Takes the limits from a request: `preview_chars` and `preview_bytes`, and `fields_cursor`.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] if a parameter is missing without which the answer would have no
    /// bound.
    pub(crate) fn new(
        (value_chars, bytes): (Option<u64>, Option<u64>),
        cursor: Option<String>,
        parts: &NamedParts<'_>,
    ) -> Result<Self, Problem> {
        if bytes.is_some() && value_chars.is_none() {
            let message =
                "`preview_bytes` needs `preview_chars`, which bounds a single value; send both";
            return Problem::refuse("preview_bytes", message);
        }
        if cursor.is_some() && bytes.is_none() {
            let message = "`fields_cursor` needs `preview_bytes`, which says how much comes at a time; send both";
            return Problem::refuse("fields_cursor", message);
        }
        let record_bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let names = parts.fields().map(|names| {
            let mut names = names.to_vec();
            names.sort();
            names
        });
        let field_selection = selection_text(names.as_deref(), parts.view);
        Ok(Self { value_chars, record_bytes, field_selection, cursor })
    }

    /// The greatest size of a record's page of fields, in bytes of JSON; `None` for all fields.
    pub(crate) fn record_bytes(&self) -> Option<usize> {
        self.record_bytes
    }

    /// Returns the limits for the related records of a record, which have all their fields.
    pub(crate) fn for_related(&self) -> Self {
        Self { field_selection: selection_text(None, None), cursor: None, ..*self }
    }
}

/// Returns the selection of fields as a text. No two selections have the same text.
fn selection_text(names: Option<&[String]>, view: Option<&str>) -> String {
    format!("{names:?}{view:?}")
}

/// Some fields of a record, in the record's order.
#[derive(Default)]
pub(crate) struct FieldPage {
    fields: Vec<PageField>,
    /// The bytes of the members of `data` and of `previews`. Each member but the first of its
    /// object counts with the comma before it.
    bytes: usize,
    has_previews: bool,
    remaining: Option<RemainingFields>,
}

struct PageField {
    name: String,
    value: ValuePreview,
}

/// The member `more_fields`.
struct RemainingFields {
    /// The number of fields up to the end of this page.
    shown: u64,
    total: u64,
    next_cursor: String,
}

impl FieldPage {
    /// Reads the page of a record's fields that the limits describe; `None` if the request sets no
    /// limit in bytes. `entries` are the fields that the caller may see and has selected. Marks the
    /// fields of the page that do not have the declared type.
    ///
    /// # Errors
    /// [`Problem::InvalidFieldsCursor`]; what the database reports.
    pub(crate) fn load<'b>(
        context: ReadContext<'_>,
        (source, row, loaded): (&RecordSource, &RecordRow, &'b LoadedRecord),
        limits: &PreviewLimits,
        (mut entries, marks): (
            impl Iterator<Item = Result<BodyField<'b>, Problem>>,
            &mut TypeMarks,
        ),
    ) -> Result<Option<Self>, Problem> {
        let (Some(max_bytes), Some(chars)) = (limits.record_bytes, limits.value_chars) else {
            return Ok(None);
        };
        let declaration = context.declarations.get(source)?;
        let (stream, connection) = (source.stream().as_str(), source.connection().as_str());
        let binding = || {
            let caller = context.view.caller();
            let selection = limits.field_selection.as_str();
            Binding::new(["fields", caller, stream, connection, &row.key, selection])
        };
        let mut names = FieldNames::default();
        if let Some(cursor) = &limits.cursor {
            let position = decode_cursor(context, cursor, binding())?;
            skip_fields(position, &mut names, &mut entries)?;
        }
        let (mut page, mut total, mut end) = (Self::default(), names.cursor().before, None);
        for entry in entries {
            let entry = entry?;
            total += 1;
            if end.is_none() {
                let value = ValuePreview::load(context, loaded, &entry, chars)?;
                let field = PageField { name: entry.name.to_owned(), value };
                if page.try_add(field, max_bytes) {
                    marks.check(&declaration, &entry);
                    names.push(entry.name);
                    continue;
                }
            }
            end.get_or_insert_with(|| names.cursor());
        }
        if let Some(end) = end {
            let next_cursor = context.view.seal(&end.encode(binding()))?;
            page.remaining = Some(RemainingFields { shown: end.before, total, next_cursor });
        }
        Ok(Some(page))
    }

    /// Adds a field if it fits, or if it is the first.
    fn try_add(&mut self, field: PageField, max_bytes: usize) -> bool {
        let name = escaped_len(&field.name) + 3;
        let value = name + field.value.value_len() + usize::from(!self.fields.is_empty());
        let preview = field.value.preview_len();
        let preview = preview.map(|preview| name + preview + usize::from(self.has_previews));
        let bytes = self.bytes + value + preview.unwrap_or(0);
        let fits = self.fields.is_empty() || bytes <= max_bytes;
        if fits {
            self.bytes = bytes;
            self.has_previews |= preview.is_some();
            self.fields.push(field);
        }
        fits
    }

    /// Writes the members of `data`, its closing brace, `previews` and `more_fields`.
    pub(crate) fn write(&self, out: &mut dyn ResponseSink) {
        for (index, PageField { name, value }) in self.fields.iter().enumerate() {
            out.write(if index > 0 { "," } else { "" });
            write_json_string(out, name);
            out.write(":");
            value.write_value(out);
        }
        out.write("}");
        let previews = self
            .fields
            .iter()
            .filter_map(|PageField { name, value }| Some((name, value.preview_json()?)));
        for (index, (name, preview)) in previews.enumerate() {
            out.write(if index > 0 { "," } else { ",\"previews\":{" });
            write_json_string(out, name);
            out.write(":");
            out.write(&preview);
        }
        if self.has_previews {
            out.write("}");
        }
        if let Some(RemainingFields { shown, total, next_cursor }) = &self.remaining {
            out.write(&format!(
                ",\"more_fields\":{{\"shown\":{shown},\"total\":{total},\"next_cursor\":\"{next_cursor}\"}}"
            ));
        }
    }
}

fn decode_cursor(
    context: ReadContext<'_>,
    cursor: &str,
    binding: Binding,
) -> Result<FieldsCursor, Problem> {
    let opened = context
        .view
        .unseal(cursor)
        .map_err(|_| Problem::InvalidFieldsCursor(CursorProblem::Malformed))?;
    FieldsCursor::decode(&opened, binding).map_err(Problem::InvalidFieldsCursor)
}

/// Skips the fields before a cursor. They must be the fields that preceded it when it was made.
fn skip_fields<'b>(
    cursor: FieldsCursor,
    names: &mut FieldNames,
    entries: &mut impl Iterator<Item = Result<BodyField<'b>, Problem>>,
) -> Result<(), Problem> {
    let stale = || Problem::InvalidFieldsCursor(CursorProblem::Stale);
    for _ in 0..cursor.before {
        names.push(entries.next().ok_or_else(stale)??.name);
    }
    if names.cursor() == cursor { Ok(()) } else { Err(stale()) }
}
