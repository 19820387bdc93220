//! Records as JSON, written as they are read.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::blob::is_reference;
use stile_domain::records::body::{Entry, Held};
use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_store::records::{Loaded, Row, Source};

use super::Reading;
use super::bounded::{self, Cut};
use super::parameters::Parameters;
use super::sink::{Sink, escaped, put_string};

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
    sources: &[Source],
    row: &Row,
    shown: Shown<'_>,
    out: &mut dyn Sink,
) -> Result<(), Problem> {
    let source = sources.get(row.source).ok_or(Problem::NotFound)?;
    let loaded = reading.view.load(sources, row)?;
    let is_shown = |name: &str| shown.fields.is_none_or(|fields| fields.contains(name));
    let entries = || {
        let entries = loaded.body().entries().map(|entry| entry.map_err(|_| Problem::Corrupt));
        entries.filter(|entry| entry.as_ref().map_or(true, |entry| is_shown(entry.name)))
    };
    let page = bounded::page(reading, (source, row, &loaded), shown.cut, entries())?;
    out.put("{\"object\":\"record\",\"id\":");
    put_string(out, &row.key);
    let stream = source.stream();
    let connection = source.connection();
    out.put(&format!(
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
    loaded: &Loaded,
    entries: impl Iterator<Item = Result<Entry<'b>, Problem>>,
    preview: Option<u64>,
    out: &mut dyn Sink,
) -> Result<(), Problem> {
    let mut previews = serde_json::Map::new();
    let mut first = true;
    for entry in entries {
        let entry = entry?;
        if out.is_gone() {
            break;
        }
        if !std::mem::take(&mut first) {
            out.put(",");
        }
        put_string(out, entry.name);
        out.put(":");
        if let Some(preview) = put_value(reading, loaded, &entry, preview, out)? {
            previews.insert(entry.name.to_owned(), preview);
        }
    }
    out.put("}");
    if !previews.is_empty() {
        out.put(&format!(",\"previews\":{}", Json::Object(previews)));
    }
    Ok(())
}

/// Puts a value, or the beginning of a long one; of that it says what is missing.
pub(super) fn put_value(
    reading: Reading<'_>,
    loaded: &Loaded,
    entry: &Entry<'_>,
    preview: Option<u64>,
    out: &mut dyn Sink,
) -> Result<Option<Json>, Problem> {
    let (inline, long, is_text) = match entry.held {
        Held::Null => (Some("null"), None, false),
        Held::Bool(true) => (Some("true"), None, false),
        Held::Bool(false) => (Some("false"), None, false),
        Held::Number(digits) => (Some(digits), None, false),
        Held::Text(text) => (Some(text), None, true),
        Held::Json(json) => (Some(json), None, false),
        Held::LongText(_) => (None, loaded.long(entry), true),
        Held::LongJson(_) => (None, loaded.long(entry), false),
    };
    let size = inline.map_or_else(|| long.map_or(0, |long| long.long.chars), pieces::count);
    let can_be_cut = match entry.held {
        // Nothing reads on in one.
        Held::Json(json) => !is_reference(json),
        _ => is_text || matches!(entry.held, Held::LongJson(_)),
    };
    if let Some(most) = preview
        && can_be_cut
        && (size > most || entry.binary)
    {
        let most = if entry.binary { 0 } else { most };
        let beginning = match (inline, long) {
            (Some(text), _) => pieces::slice(text, 0, most).to_owned(),
            (None, Some(long)) => reading.view.text(long, 0, most)?,
            (None, None) => return Err(Problem::Corrupt),
        };
        if entry.binary {
            out.put("null")
        } else {
            put_string(out, &beginning)
        }
        let digest = || match (inline, long) {
            (_, Some(long)) => digest_text(&long.long.digest),
            (text, None) => digest_text(ContentHash::of(text.unwrap_or_default().as_bytes()).as_bytes()),
        };
        let mut told = json!({ "shown_chars": size.min(most), "size_chars": size });
        let more = match (is_text, entry.binary) {
            // Of the bytes no digest is known, and that of their characters would be taken for it.
            (_, true) => {
                json!({ "text_like": false, "mime_type": "application/octet-stream", "encoding": "base64" })
            }
            (true, false) => json!({ "digest": digest(), "text_like": true, "mime_type": "text/plain" }),
            (false, false) => json!({ "digest": digest(), "text_like": false, "mime_type": JSON_TYPE }),
        };
        if let (Some(told), Json::Object(more)) = (told.as_object_mut(), more) {
            told.extend(more);
        }
        return Ok(Some(told));
    }
    match (inline, long) {
        (Some(text), _) if is_text => put_string(out, text),
        (Some(json), _) => out.put(json),
        (None, Some(long)) => {
            out.put(if is_text { "\"" } else { "" });
            reading.view.pieces(long, |piece| {
                if is_text {
                    out.put(&escaped(piece))
                } else {
                    out.put(piece)
                }
                Ok(!out.is_gone())
            })?;
            out.put(if is_text { "\"" } else { "" });
        }
        (None, None) => return Err(Problem::Corrupt),
    }
    Ok(None)
}

/// A digest as it is shown.
pub(super) fn digest_text(digest: &[u8; 32]) -> String {
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
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
    let (name, alias) = (parameters.text("connection_id"), parameters.text("connector_instance_id"));
    if let (Some(name), Some(alias)) = (name, alias)
        && name != alias
    {
        let message = "`connection_id` and `connector_instance_id` are one parameter and differ; send one of them";
        return Err(Problem::invalid("connection_id", message));
    }
    Ok(name.or(alias))
}

/// The connections of these sources.
pub(super) fn connections(sources: &[Source]) -> Vec<String> {
    sources.iter().map(|source| source.connection().to_string()).collect()
}
