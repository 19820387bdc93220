//! Records as JSON, written while they are read.

use std::collections::BTreeSet;

use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;
use stile_store::records::{LoadedRecord, RecordRow, RecordSource};

use crate::context::ReadContext;
use crate::field_page::{FieldPage, PreviewLimits};
use crate::field_text::FieldText;
use crate::response_sink::{ResponseSink, write_json_string};
use crate::type_marks::TypeMarks;
use crate::value_preview::ValuePreview;

/// How much of a record is written.
#[derive(Clone, Copy)]
pub(crate) struct RecordOptions<'a> {
    /// The fields to write; `None` for all.
    pub(crate) fields: Option<&'a BTreeSet<String>>,
    /// Where values and records are cut.
    pub(crate) limits: &'a PreviewLimits,
}

/// Writes one record except its closing brace, so that the caller can add members.
pub(crate) fn write_record(
    context: ReadContext<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    options: RecordOptions<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let loaded = context.view.load_fields(sources, row)?;
    let is_selected = |name: &str| options.fields.is_none_or(|fields| fields.contains(name));
    let entries = || {
        let entries = loaded.body().entries().map(|entry| entry.map_err(|_| Problem::Corrupt));
        entries.filter(|entry| entry.as_ref().map_or(true, |entry| is_selected(entry.name)))
    };
    let mut marks = TypeMarks::default();
    let read = (source, row, &loaded);
    let page = FieldPage::load(context, read, options.limits, (entries(), &mut marks))?;
    out.note_record(source, &row.key);
    out.write("{\"object\":\"record\",\"id\":");
    write_json_string(out, &row.key);
    let stream = source.stream();
    let connection = source.connection();
    out.write(&format!(
        ",\"stream\":\"{stream}\",\"connection_id\":\"{connection}\",\"connector_instance_id\":\"{connection}\",\"emitted_at\":\"{}\",\"data\":{{",
        row.emitted.to_rfc3339()
    ));
    match page {
        Some(page) => page.write(out),
        None => {
            let declaration = context.declarations.get(source)?;
            let entries = entries()
                .inspect(|entry| entry.iter().for_each(|own| marks.check(&declaration, own)));
            write_fields(context, &loaded, entries, options.limits.value_chars, out)?;
        }
    }
    marks.write(out);
    Ok(())
}

/// Writes all of these fields: the members of `data`, its closing brace, and `previews`.
fn write_fields<'b>(
    context: ReadContext<'_>,
    loaded: &LoadedRecord,
    entries: impl Iterator<Item = Result<BodyField<'b>, Problem>>,
    value_chars: Option<u64>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let mut previews = String::new();
    let mut is_first = true;
    for entry in entries {
        let entry = entry?;
        if out.is_closed() {
            break;
        }
        if !std::mem::take(&mut is_first) {
            out.write(",");
        }
        write_json_string(out, entry.name);
        out.write(":");
        let Some(chars) = value_chars else {
            FieldText::load(loaded, &entry)?.write_json(context.view, out)?;
            continue;
        };
        let value = ValuePreview::load(context, loaded, &entry, chars)?;
        value.write_value(out);
        if let Some(preview) = value.preview_json() {
            previews.push_str(if previews.is_empty() { "" } else { "," });
            write_json_string(&mut previews, entry.name);
            previews.push(':');
            previews.push_str(&preview);
        }
    }
    out.write("}");
    if !previews.is_empty() {
        out.write(&format!(",\"previews\":{{{previews}}}"));
    }
    Ok(())
}
