//! `HEAD /v1/blobs/{blob_id}`: the size and the type of a blob, without its bytes.

use super::get_blob;
use crate::operation_declaration::{
    OperationDeclaration, OperationMethod, ResponseContent, ResponseDeclaration,
};

pub(super) const OPERATION: OperationDeclaration = OperationDeclaration {
    id: "headBlob",
    method: OperationMethod::Head,
    about: "The headers of a blob, without its bytes.",
    response: ResponseDeclaration {
        status: 200,
        about: "The blob exists.",
        content: ResponseContent::Empty,
    },
    other_responses: &[],
    ..get_blob::OPERATION
};
