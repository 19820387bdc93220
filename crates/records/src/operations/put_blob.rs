//! `POST /v1/blobs`: stores bytes that records can refer to.
//!
//! The body may arrive as slowly as its sender likes. The body goes to a spool file first, and to
//! the database only when it is complete.

use std::io::{self, BufRead, Write};

use serde_json::{Value as Json, json};
use stile_domain::hash::hex;
use stile_domain::records::blob::{BlobId, MAX_BYTES};
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::Parameters;
use stile_store::records::{StoredBlob, WriteRefusal};

use crate::context::OwnerContext;
use crate::media_types;
use crate::operation_declaration::{
    BodyDeclaration, OperationAccess, OperationDeclaration, OperationHandler, OperationMethod,
    ResponseContent, ResponseDeclaration,
};
use crate::request_target::RequestTarget;

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "putBlob",
    method: OperationMethod::Post,
    path: "/v1/blobs",
    about: "Stores the bytes of the body, of any type, for records that name them. For the owner alone.",
    parameters: &[],
    body: Some(BodyDeclaration {
        media_type: media_types::OCTET_STREAM,
        about: "The bytes of the blob.",
    }),
    response: ResponseDeclaration {
        status: 201,
        about: "The bytes are stored.",
        content: ResponseContent::Json {
            object: Some("blob"),
            required: &["object", "blob_id", "size_bytes", "sha256", "fetch_url"],
        },
    },
    other_responses: &[ResponseDeclaration::error(413, "The body is too large.")],
    access: OperationAccess::OwnerOnly,
    handler: OperationHandler::Store(put_blob),
};

fn put_blob(
    context: OwnerContext<'_>,
    _target: &RequestTarget,
    _parameters: &Parameters,
    body: &mut dyn BufRead,
) -> Result<Json, Problem> {
    let mut spool = context.records.create_spool_file().map_err(|error| spool_error(&error))?;
    let mut bytes = 0;
    loop {
        let message = "the body ended before it was whole, so nothing is stored; send it again";
        let part = body
            .fill_buf()
            .map_err(|_| Problem::InvalidRequest { param: None, message: message.into() })?;
        if part.is_empty() {
            break;
        }
        bytes += part.len() as u64;
        if bytes > MAX_BYTES {
            return Err(Problem::BlobTooLarge);
        }
        spool.write_all(part).map_err(|error| spool_error(&error))?;
        let length = part.len();
        body.consume(length);
    }
    let stored =
        context.records.write(context.owner, |batch| batch.put_blob(&mut spool.into_reader()))?;
    let StoredBlob { id, bytes, digest } = stored.map_err(|refusal| match refusal {
        WriteRefusal::BlobTooLarge => Problem::BlobTooLarge,
        _ => spool_error(&io::ErrorKind::UnexpectedEof.into()),
    })?;
    let id = BlobId::parse(&id).unwrap_or_else(|| BlobId::from_digest(digest));
    Ok(json!({
        "object": "blob", "blob_id": id.to_string(), "size_bytes": bytes, "sha256": hex(&digest),
        "fetch_url": id.url(),
    }))
}

fn spool_error(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::Full,
        _ => Problem::Internal { incident: stile_store::log_incident("spool", error) },
    }
}
