//! The server's name, version and capabilities, as clients get them.

use std::sync::LazyLock;

use stile_domain::base64;

use crate::service::Service;
use rmcp::model::{
    Icon, Implementation, JsonObject, MetaObject, PromptsCapability, ProtocolVersion,
    ResourcesCapability, ServerCapabilities, ServerConfig, ToolsCapability,
};
use stile_tools::toolset::{Caller, Feature};

/// The protocol's name for the server.
pub const NAME: &str = "stile";
/// The server's name for people.
pub const TITLE: &str = "Stile";
/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the answer to `initialize`, on which the answer to `server/discover` is based.
///
/// Without a caller there are no instructions.
pub(crate) fn server_config(service: &Service, caller: Option<&Caller>) -> ServerConfig {
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    capabilities.tools = Some(tools);
    if service.has(Feature::Resources) {
        let mut resources = ResourcesCapability::default();
        resources.list_changed = Some(true);
        resources.subscribe = service.has(Feature::Subscriptions).then_some(true);
        capabilities.resources = Some(resources);
    }
    if service.owner_texts().prompts.is_some() {
        capabilities.prompts = Some(PromptsCapability::default());
    }
    if service.has(Feature::Completions) {
        capabilities.completions = Some(JsonObject::default());
    }
    let config = ServerConfig::new(capabilities)
        .with_protocol_version(ProtocolVersion::V_2025_11_25)
        .with_server_info(implementation().with_icons(vec![icon()]));
    match caller {
        Some(caller) => config.with_instructions(service.instructions(caller)),
        None => config,
    }
}

/// Returns `_meta` for a result of the sessionless lifecycle, where every result should name the
/// server.
pub(crate) fn result_meta() -> MetaObject {
    static META: LazyLock<MetaObject> = LazyLock::new(|| {
        let mut meta = MetaObject::new();
        let who = serde_json::to_value(implementation()).unwrap_or_default();
        meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), who);
        meta
    });
    META.clone()
}

/// Returns [`result_meta`] as compact JSON.
pub(crate) fn result_meta_text() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| serde_json::to_string(&result_meta()).unwrap_or_default());
    &TEXT
}

fn implementation() -> Implementation {
    Implementation::new(NAME, VERSION).with_title(TITLE)
}

/// Returns the icon inline, so that clients need not fetch it.
fn icon() -> Icon {
    let drawing = base64::standard(include_str!("icon.svg").trim());
    Icon::new(format!("data:image/svg+xml;base64,{drawing}"))
        .with_mime_type("image/svg+xml")
        .with_sizes(vec!["any".to_owned()])
}
