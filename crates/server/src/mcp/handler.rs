//! What the SDK calls, and what is called for it.
//!
//! Every method finds out who is asking, makes one call of [`Offer`] and puts the answer into the
//! protocol's words. Each runs behind a guard, because a panic inside the SDK leaves its request
//! hanging for ever.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
    CompleteResult, ContentBlock, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use stile_tools::calls::UnknownTool;

use super::client_names::{Spelling, spelling};
use super::tool_cards::ToolCards;
use super::{envelope, identity, resources};
use crate::config::ToolNames;
use crate::offer::{Asker, Offer, Structured, Told};

type Context = RequestContext<RoleServer>;

/// Who is asking.
#[derive(Clone, Debug)]
pub enum Caller {
    /// One caller for as long as the process lives: stdio.
    Fixed(Asker),
    /// The caller of each request, left in its extensions by the HTTP edge.
    OfRequest,
}

/// The server as the SDK knows it. Clones are one server.
#[derive(Clone)]
pub struct Handler {
    shared: Arc<Shared>,
}

struct Shared {
    offer: Offer,
    caller: Caller,
    names: ToolNames,
    cards: ToolCards,
}

impl Handler {
    /// A server of `offer`.
    pub fn new(offer: Offer, caller: Caller, names: ToolNames) -> Self {
        let cards = ToolCards::new(offer.cards());
        Self { shared: Arc::new(Shared { offer, caller, names, cards }) }
    }

    fn asker(&self, context: &Context) -> Result<Asker, ErrorData> {
        match &self.shared.caller {
            Caller::Fixed(asker) => Ok(asker.clone()),
            Caller::OfRequest => context
                .extensions
                .get::<http::request::Parts>()
                .and_then(|parts| parts.extensions.get::<Asker>())
                .cloned()
                .ok_or_else(|| internal("a request came without its caller")),
        }
    }

    fn config(&self) -> ServerConfig {
        let offer = &self.shared.offer;
        match () {
            () if offer.is_gateway() => identity::of_gateway(),
            () if offer.space().is_some() => identity::of_space(),
            () => identity::of_records(),
        }
    }

    fn spelling(&self, asker: &Asker, context: &Context) -> Spelling {
        // A request that carries its own version belongs to no session, whatever came before it.
        let session =
            if context.meta.protocol_version().is_none() { context.peer.peer_info() } else { None };
        let session_client = session.as_ref().map(|session| session.client_info.name.as_str());
        spelling(self.shared.names, asker.principal.client(), session_client)
    }
}

/// An internal error with an incident number, and its line in the log.
fn internal(what: &'static str) -> ErrorData {
    let (message, data) = envelope::incident(what);
    ErrorData::internal_error(message, Some(data))
}

/// Runs `work` so that a panic in it is an answer.
async fn guarded<T>(work: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(internal("a handler panicked")))
}

fn is_sessionless(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// `_meta` of a result.
fn meta(context: &Context) -> Option<MetaObject> {
    is_sessionless(context).then(identity::result_meta)
}

/// Refuses every cursor: all lists here fit one page, so none was ever given out.
fn only_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor.as_ref()) {
        Some(_) => {
            Err(ErrorData::invalid_params("there is no such `cursor`: the list has one page", None))
        }
        None => Ok(()),
    }
}

/// How the protocol says an answer.
fn tool_result(told: Told, meta: Option<MetaObject>) -> CallToolResult {
    let structured = match told.structured {
        Structured::Tree(value) => value,
        // It was made as JSON.
        Structured::SameAsText => serde_json::from_str(&told.text).unwrap_or_default(),
    };
    let mut content = vec![ContentBlock::text(told.text)];
    content.extend(told.links.iter().map(resources::link));
    let mut result = if told.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(structured);
    result.meta = meta;
    result
}

/// A list that depends on who asks and changes with the space.
macro_rules! uncached {
    ($result:ident, $items:expr, $context:expr) => {{
        let mut result = $result::with_all_items($items);
        result.ttl_ms = Some(0);
        result.cache_scope = Some(CacheScope::Private);
        result.meta = meta($context);
        result
    }};
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.config()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(identity::PROTOCOL_VERSIONS)
    }

    async fn discover(&self, _context: Context) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(identity::PROTOCOL_VERSIONS.to_vec(), self.config()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        guarded(async {
            only_page(request.as_ref())?;
            let asker = self.asker(&context)?;
            let tools = self.shared.offer.listed(&asker);
            let cards = self.shared.cards.list(&tools, self.spelling(&asker, &context));
            Ok(uncached!(ListToolsResult, cards, &context))
        })
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        guarded(async {
            let asker = self.asker(&context)?;
            let arguments = request.arguments.map_or(Value::Null, Value::Object);
            match self.shared.offer.call(&request.name, arguments, &asker).await {
                Ok(told) => Ok(tool_result(told, meta(&context)).into()),
                Err(UnknownTool) => Err(ErrorData::invalid_params(
                    "there is no tool of that name; see `tools/list`",
                    None,
                )),
            }
        })
        .await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        guarded(async {
            only_page(request.as_ref())?;
            let asker = self.asker(&context)?;
            let found = self.shared.offer.space().map(|_| resources::listed(&asker.principal));
            Ok(uncached!(ListResourcesResult, found.unwrap_or_default(), &context))
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        guarded(async {
            only_page(request.as_ref())?;
            let asker = self.asker(&context)?;
            let found = self.shared.offer.space().map(|_| resources::templates(&asker.principal));
            let mut found = found.unwrap_or_default();
            if self.shared.offer.shows_records(&asker) {
                found.extend(resources::record_templates());
            }
            Ok(uncached!(ListResourceTemplatesResult, found, &context))
        })
        .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        guarded(async {
            let asker = self.asker(&context)?;
            if self.shared.offer.is_gateway() {
                return Err(resources::none());
            }
            let read = self.shared.offer.read_resource(&request.uri, &asker).await;
            let content = read.map_err(|error| resources::error(&request.uri, error))?;
            let mut result = resources::contents(&request.uri, content);
            result.ttl_ms = Some(0);
            result.cache_scope = Some(CacheScope::Private);
            result.meta = meta(&context);
            Ok(result.into())
        })
        .await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request.as_ref())?;
        Ok(uncached!(ListPromptsResult, Vec::new(), &context))
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::invalid_params("there is no such prompt", None))
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    /// Accepted and without effect: nothing is ever logged to a client.
    #[expect(
        deprecated,
        reason = "older clients still send it, and refusing it would fail their start-up"
    )]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if is_sessionless(&context) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None));
        }
        Ok(())
    }

    /// Where a known method ends up whose parameters do not parse, together with the unknown
    /// methods.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult, ErrorData> {
        if is_known(&request.method, is_sessionless(&context)) {
            let message = format!("the parameters do not fit {}", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method", None))
    }
}

/// Whether the protocol has that method in that lifecycle.
fn is_known(method: &str, sessionless: bool) -> bool {
    match method {
        "tools/call"
        | "tools/list"
        | "resources/read"
        | "resources/list"
        | "resources/templates/list"
        | "prompts/list"
        | "prompts/get"
        | "completion/complete" => true,
        "server/discover" => sessionless,
        "initialize" | "ping" | "logging/setLevel" => !sessionless,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_as_an_internal_error_with_an_incident() {
        let answer = guarded::<()>(async { panic!("the content of a note") }).await.unwrap_err();
        assert_eq!(answer.code, ErrorCode::INTERNAL_ERROR);
        let data = answer.data.unwrap();
        assert_eq!(data["code"], "internal");
        assert!(data["incident"].is_u64());
        assert!(!answer.message.contains("note"));
    }
}
