//! Records as JSON, written as they are read.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::hash::hex;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::BodyField;
use stile_store::records::{LoadedRecord, RecordRow, RecordSource};

use super::Reading;
use super::bounded::{self, Cut};
use super::parameters::Parameters;
use super::sink::{ResponseSink, write_json_string};
use super::values::{put_whole, told};

/// How records are shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    /// Only these fields.
    pub(super) fields: Option<&'a BTreeSet<String>>,
    /// Only so far.
    pub(super) cut: &'a Cut,
}

/// A value that is not text is shown as this type.
pub(super) const JSON_TYPE: &str = "application/json";

/// Puts one record, but for its closing brace, so that more can be said of it.
pub(super) fn put_record(
    reading: Reading<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    shown: Shown<'_>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let loaded = reading.view.load_fields(sources, row)?;
    let is_shown = |name: &str| shown.fields.is_none_or(|fields| fields.contains(name));
    let entries = || {
        let entries = loaded.body().entries().map(|entry| entry.map_err(|_| Problem::Corrupt));
        entries.filter(|entry| entry.as_ref().map_or(true, |entry| is_shown(entry.name)))
    };
    let page = bounded::page(reading, (source, row, &loaded), shown.cut, entries())?;
    out.write("{\"object\":\"record\",\"id\":");
    write_json_string(out, &row.key);
    let stream = source.stream();
    let connection = source.connection();
    out.write(&format!(
        ",\"stream\":\"{stream}\",\"connection_id\":\"{connection}\",\"connector_instance_id\":\"{connection}\",\"emitted_at\":\"{}\",\"data\":{{",
        row.emitted.to_rfc3339()
    ));
    match page {
        Some(page) => page.put(out),
        None => put_fields(reading, &loaded, entries(), shown.cut.chars, out)?,
    }
    Ok(())
}

/// Puts all of these fields, from within `data` on.
fn put_fields<'b>(
    reading: Reading<'_>,
    loaded: &LoadedRecord,
    entries: impl Iterator<Item = Result<BodyField<'b>, Problem>>,
    preview: Option<u64>,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let mut previews = String::new();
    let mut first = true;
    for entry in entries {
        let entry = entry?;
        if out.is_closed() {
            break;
        }
        if !std::mem::take(&mut first) {
            out.write(",");
        }
        write_json_string(out, entry.name);
        out.write(":");
        let Some(chars) = preview else {
            put_whole(reading, loaded, &entry, out)?;
            continue;
        };
        let told = told(reading, loaded, &entry, chars)?;
        told.put(out);
        if let Some(preview) = told.preview() {
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

/// A digest as it is shown.
pub(super) fn digest_text(digest: &[u8; 32]) -> String {
    format!("sha256:{}", hex(digest))
}

/// The member `meta`: what the caller should know, and what does not change the answer.
pub(super) fn meta(parameters: &Parameters) -> Json {
    let mut warnings: Vec<Json> = Vec::new();
    for (param, requested, most) in &parameters.clamped {
        warnings.push(json!({
            "code": "limit_clamped", "param": param,
            "message": format!("`{param}` is at most {most}, which was taken instead"),
            "detail": { "requested_limit": requested, "max_limit": most },
        }));
    }
    if parameters.text("connector_instance_id").is_some() {
        warnings.push(json!({
            "code": "deprecated_alias_used", "param": "connector_instance_id",
            "message": "`connector_instance_id` is an old name of `connection_id`",
        }));
    }
    json!({ "warnings": warnings })
}

/// The connection that was asked for, under either name.
pub(super) fn connection(parameters: &Parameters) -> Result<Option<&str>, Problem> {
    let (name, alias) =
        (parameters.text("connection_id"), parameters.text("connector_instance_id"));
    if let (Some(name), Some(alias)) = (name, alias)
        && name != alias
    {
        let message = "`connection_id` and `connector_instance_id` are one parameter and differ; send one of them";
        return Err(Problem::invalid("connection_id", message));
    }
    Ok(name.or(alias))
}

/// The connections of these sources.
pub(super) fn connections(sources: &[RecordSource]) -> Vec<String> {
    sources.iter().map(|source| source.connection().to_string()).collect()
}
