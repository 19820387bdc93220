//! Directory listings and parts of records as resources: what is offered, and how a failed read is
//! told.

use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, ErrorCode, MetaObject, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};
use stile_domain::error::Refusal;
use stile_domain::path::SpacePath;
use stile_domain::permit::Principal;
use stile_domain::scope::Verb;
use stile_ladder::Link;
use stile_ladder::resources::{Body, Content, TEMPLATES};
use stile_ladder::trouble::Trouble;
use stile_tools::list::{self, ListError};

use crate::offer::NotRead;

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

/// The templates of records, to a caller who is shown the tools about them.
pub(crate) fn record_templates() -> Vec<ResourceTemplate> {
    let templates = TEMPLATES.iter().map(|template| {
        let shown = ResourceTemplate::new(template.uri, template.name)
            .with_title(template.title)
            .with_description(template.description);
        match template.mime_type {
            Some(mime_type) => shown.with_mime_type(mime_type),
            None => shown,
        }
    });
    templates.collect()
}

/// A way to a resource, beside the text of an answer.
pub(crate) fn link(link: &Link) -> ContentBlock {
    let resource = Resource::new(&link.uri, &link.name)
        .with_description(&link.description)
        .with_mime_type(&link.mime_type);
    ContentBlock::ResourceLink(resource)
}

/// What was read. The URI is the one that was asked for, since clients look for it.
pub(crate) fn contents(uri: &str, content: Content) -> ReadResourceResult {
    let Content { body, mime_type, meta } = content;
    let contents = match body {
        Body::Text(text) => ResourceContents::text(text, uri),
        Body::Blob(bytes) => ResourceContents::blob(bytes, uri),
    };
    let contents = contents.with_mime_type(mime_type);
    let contents = if meta.is_empty() { contents } else { contents.with_meta(MetaObject(meta)) };
    ReadResourceResult::new(vec![contents])
}

/// The JSON-RPC error of a failed read. The SDK turns "not found" into the code of the caller's
/// revision.
pub(crate) fn error(uri: &str, error: NotRead) -> ErrorData {
    match error {
        NotRead::Listing(ListError::NoSuchResource) => {
            let data = json!({ "code": "not_found", "uri": uri });
            ErrorData::resource_not_found(
                "There is no such resource; read `list:///` to see what there is.",
                Some(data),
            )
        }
        NotRead::Listing(ListError::Refused(refusal)) => refused(uri, &refusal),
        NotRead::Record(trouble) => record_error(&trouble),
    }
}

/// The same of a record: the error of the tool that reads it, whole, as what a program can use.
fn record_error(trouble: &Trouble) -> ErrorData {
    let error = trouble.to_json();
    let code = match trouble.status() {
        404 => ErrorCode::RESOURCE_NOT_FOUND,
        status if status >= 500 => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode::INVALID_PARAMS,
    };
    let message = error
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("the resource was not read")
        .to_owned();
    ErrorData::new(code, message, Some(Value::Object(error)))
}

/// The same where there is no resource at all. It does not repeat the URI, in which a caller may
/// have put a path.
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
