//! Finds the references to bytes that the preview of a field does not reach.
//!
//! A list of attachments is often longer than a preview. A document names the bytes of each of
//! them, as far as one window of the field goes. The windows after it name theirs.

use stile_domain::records::selector::{MAX_CHARS, TextSelector};

use super::call_context::CallContext;
use super::read_record_field::read_window;
use super::record_view::{Cut, CutKind, FieldView, RecordView, json_field, references_in};

/// Reads on in each field whose preview begins with a reference to bytes or is cut within one, and
/// shows the field whole if there is room. Previews stay as they are from the first field on that
/// cannot be read, so a server that is down is asked once.
pub(super) async fn find_further(context: &CallContext, record: &mut RecordView) {
    let RecordView { id, fields, .. } = record;
    for field in fields {
        let Some(digest) = digest_of_preview(field) else { continue };
        let selector = TextSelector::At { start: 0, limit: MAX_CHARS };
        let Ok(window) = read_window(context, id, &field.name, &selector).await else { return };
        // The record changed between the two requests. What is shown is of one version.
        if window.digest.as_ref() != Some(&digest) {
            continue;
        }
        if window.complete {
            let whole = json_field(field.name.clone(), &window.text, context.budgets.preview_chars);
            let cut = whole.cut.map(|cut| Cut { digest: Some(digest), ..cut });
            *field = FieldView { cut, ..whole };
        } else {
            field.references = references_in(&window.text);
        }
    }
}

/// Returns the digest of a field of which the server sent a beginning with references to bytes. If
/// the server sent the whole field, all of its references are known.
fn digest_of_preview(field: &FieldView) -> Option<String> {
    let cut = field.cut.as_ref().filter(|cut| cut.kind == CutKind::Json)?;
    field.value.as_str().filter(|json| json.contains("\"blob_id\""))?;
    cut.digest.clone()
}
