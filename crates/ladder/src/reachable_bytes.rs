//! Leaves out references to bytes that the server has no way to read.
//!
//! A reference within a value is read by a path into the field. Servers of this program know such
//! paths, and read their own blobs. Another server is asked once whether it, or what stands
//! between, finds the bytes.

use stile_domain::records::blob::{BlobId, FoundReference};
use stile_domain::records::request::GetFieldWindow;

use super::call_context::CallContext;
use super::error::LadderError;
use super::read_record_field::{field_request, first_byte_of, is_byte_window};
use super::record_view::RecordView;

/// Removes the references within the fields of a record, unless the server can read them.
pub(super) async fn keep_reachable(context: &CallContext, record: &mut RecordView) {
    let Some(known) = context.finds_inner_values() else {
        let is_own = |found: &FoundReference| BlobId::parse(&found.blob_id).is_some();
        record.fields.iter_mut().for_each(|field| field.references.retain(is_own));
        return;
    };
    if record.fields.iter().all(|field| field.references.is_empty()) {
        return;
    }
    let finds = match known.get() {
        Some(finds) => Some(*finds),
        None => match reference_where(record, |one| !one.pointer.is_empty()) {
            Some(inner) => finds(context, inner).await.map(|finds| *known.get_or_init(|| finds)),
            // A path without a pointer names a field, so the answer says nothing of other paths.
            None => match reference_where(record, |_| true) {
                Some(whole) => finds(context, whole).await,
                None => None,
            },
        },
    };
    if finds != Some(true) {
        record.fields.iter_mut().for_each(|field| field.references.clear());
    }
}

/// Returns a request for what the first such reference of a record leads to.
fn reference_where(
    record: &RecordView,
    is_wanted: fn(&FoundReference) -> bool,
) -> Option<GetFieldWindow> {
    let (field, reference) = record
        .fields
        .iter()
        .find_map(|field| Some((field, field.references.iter().find(|one| is_wanted(one))?)))?;
    Some(field_request(&record.id, &format!("{}{}", field.name, reference.pointer)))
}

/// Asks the server for one byte of a reference. Returns whether it knows the path; `None` if the
/// server gave no answer to that.
async fn finds(context: &CallContext, reference: GetFieldWindow) -> Option<bool> {
    match context.send(first_byte_of(reference)).await {
        Ok(answer) => Some(is_byte_window(&answer)),
        Err(LadderError::Server { response, .. }) if response.code() == "blob_not_found" => {
            Some(true)
        }
        // The record may be gone by now, which says nothing of the path.
        Err(LadderError::Server { response, .. }) if response.code() == "not_found" => None,
        // The server keeps its blobs where the adapter sends no request.
        Err(LadderError::Server { response, .. }) if response.code() == "blob_elsewhere" => {
            Some(false)
        }
        // Any other refusal may be about this record alone.
        Err(LadderError::Server { response, .. }) => {
            matches!(response.status, 400 | 422).then_some(false)
        }
        Err(_) => None,
    }
}
