//! Directory listings as resources: what is offered, and how a failed read is told.

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::scope::Verb;
use stile_tools::list::{self, ListError};

/// The resources that are listed: the root of the space, to a caller who may list it.
pub(crate) fn listed(principal: &Principal) -> Vec<Resource> {
    let root = SpacePath::root();
    if !principal.scopes().cover(Verb::Read, &root) {
        return Vec::new();
    }
    let root = Resource::new(stile_domain::listing::uri(&root), "space")
        .with_title("The space")
        .with_description("What the top directory of the space holds.")
        .with_mime_type(list::MIME_TYPE);
    vec![root]
}

/// The one template, to a caller who may list anything.
pub(crate) fn templates(principal: &Principal) -> Vec<ResourceTemplate> {
    if !principal.scopes().any(Verb::Read) {
        return Vec::new();
    }
    let template = ResourceTemplate::new(list::TEMPLATE, list::NAME)
        .with_title("List a directory")
        .with_description(list::DESCRIPTION)
        .with_mime_type(list::MIME_TYPE);
    vec![template]
}

/// What was read. The URI is the one that was asked for, since clients look for it.
pub(crate) fn contents(uri: &str, text: String) -> ReadResourceResult {
    ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(list::MIME_TYPE)])
}

/// The JSON-RPC error of a failed read. The SDK turns "not found" into the code of the caller's revision.
pub(crate) fn error(uri: &str, error: ListError) -> ErrorData {
    match error {
        ListError::NoSuchResource => {
            let data = json!({ "code": "not_found", "uri": uri });
            ErrorData::resource_not_found(
                "There is no such resource; read `list:///` to see what there is.",
                Some(data),
            )
        }
        ListError::Refused(refusal) => refused(uri, &refusal),
    }
}

/// The same where there is no resource at all. It does not repeat the URI, in which a caller may have put a path.
pub(crate) fn none() -> ErrorData {
    ErrorData::resource_not_found(
        "There is no such resource; this server has none.",
        Some(json!({ "code": "not_found" })),
    )
}

fn refused(uri: &str, refusal: &Refusal) -> ErrorData {
    let mut data = refusal.to_json();
    if let Value::Object(data) = &mut data {
        // The message is said once, outside.
        data.remove("message");
        data.insert("uri".to_owned(), uri.into());
    }
    let code = match refusal {
        Refusal::NotFound { .. } => ErrorCode::RESOURCE_NOT_FOUND,
        Refusal::Internal { .. } => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode::INVALID_PARAMS,
    };
    ErrorData::new(code, refusal.to_string(), Some(data))
}
