//! Converts resources, links and their errors to the protocol's types.

use rmcp::ErrorData;
use rmcp::model::{
    Annotations, ContentBlock, ErrorCode, MetaObject, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, Role,
};
use serde_json::Value;
use stile_domain::tool_name::ShownTools;
use stile_tools::answer::{Media, MediaKind, ResourceLink};
use stile_tools::toolset::{
    FileResource, ResourceBody, ResourceContent, ResourceError, ResourceErrorKind, ResourceKind,
};

pub(crate) fn resource(kind: &ResourceKind, names: ShownTools) -> Resource {
    let resource = Resource::new(kind.uri.as_ref(), kind.name.as_ref())
        .with_title(kind.title)
        .with_description(names.sentence(kind.description));
    match kind.mime_type {
        Some(mime_type) => resource.with_mime_type(mime_type),
        None => resource,
    }
}

/// Converts a file that is listed.
pub(crate) fn file(file: FileResource) -> Resource {
    let path = file.path.as_str();
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut annotations = Annotations::default();
    annotations.audience = Some(vec![Role::User, Role::Assistant]);
    annotations.last_modified = Some(file.modified);
    let resource = Resource::new(file.uri, path)
        .with_title(name)
        .with_size(file.size_bytes)
        .with_annotations(annotations);
    match file.mime_type {
        Some(mime_type) => resource.with_mime_type(mime_type),
        None => resource,
    }
}

pub(crate) fn template(kind: &ResourceKind, names: ShownTools) -> ResourceTemplate {
    let template = ResourceTemplate::new(kind.uri.as_ref(), kind.name.as_ref())
        .with_title(kind.title)
        .with_description(names.sentence(kind.description));
    match kind.mime_type {
        Some(mime_type) => template.with_mime_type(mime_type),
        None => template,
    }
}

/// Converts an image or a sound to the protocol's content.
pub(crate) fn media(media: Media) -> ContentBlock {
    match media.kind {
        MediaKind::Image => ContentBlock::image(media.data, media.mime_type),
        MediaKind::Audio => ContentBlock::audio(media.data, media.mime_type),
    }
}

/// Converts a link that an answer has beside its text.
pub(crate) fn link(link: &ResourceLink) -> ContentBlock {
    let resource = Resource::new(&link.uri, &link.name)
        .with_description(&link.description)
        .with_mime_type(&link.mime_type);
    ContentBlock::ResourceLink(resource)
}

/// Converts the content of a resource. `uri` is the address in the request, which clients look for.
pub(crate) fn contents(uri: &str, content: ResourceContent) -> ReadResourceResult {
    let ResourceContent { body, mime_type, meta } = content;
    let contents = match body {
        ResourceBody::Text(text) => ResourceContents::text(text, uri),
        ResourceBody::Base64(bytes) => ResourceContents::blob(bytes, uri),
    };
    let contents = contents.with_mime_type(mime_type);
    let contents = if meta.is_empty() { contents } else { contents.with_meta(MetaObject(meta)) };
    ReadResourceResult::new(vec![contents])
}

/// Converts the error of a failed read. The SDK turns "not found" into the code of the caller's
/// revision of the protocol.
pub(crate) fn error(error: ResourceError) -> ErrorData {
    let code = match error.kind {
        ResourceErrorKind::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        ResourceErrorKind::Invalid => ErrorCode::INVALID_PARAMS,
        ResourceErrorKind::Failed => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(code, error.message, Some(Value::Object(error.data)))
}
