//! The methods that the SDK calls.
//!
//! Every method finds the caller, makes one call of [`Service`] and converts the answer to the
//! protocol's types. Each catches panics, since a panic inside the SDK leaves the request without
//! an answer for ever.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
    CompleteResult, CompletionInfo, ContentBlock, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use stile_domain::permit::Principal;
use stile_domain::tool_name::ShownTools;
use stile_store::cancellation::Cancellation;
use stile_tools::answer::{Answer, Structured};
use stile_tools::definition::ToolGroup;
use stile_tools::prompts::{PromptRefused, Prompts};
use stile_tools::space::file_resource;
use stile_tools::toolset::{Caller, Feature, UnknownTool};

use super::client_names::{answer_form, spelling};
use super::list_changes::{CurrentRights, IsOpen, ListChange, ListListener, ShownLists};
use super::presentation::Presentation;
use super::subscriptions::{self, SubscriberLife, Subscriptions, TokenExpiry, WatchFor, Watched};
use super::tool_definitions::ToolDefinitions;
use super::{direct, envelope, handshake, progress, prompts, resources, revisions, server_info};
use crate::auth::{LAST_ANSWER, RIGHTS_CHECK, StdioClient, StdioRefusal};
use crate::config::AnswerForms;
use crate::people::Person;
use crate::service::Service;

type Context = RequestContext<RoleServer>;

/// The header that names a session.
const SESSION_ID: &str = "mcp-session-id";

/// Where a handler finds the caller of a request.
#[derive(Clone, Debug)]
pub enum CallerSource {
    /// One caller for as long as the process lives.
    Fixed(Box<Caller>),
    /// The client that started this process, which may be ended while it runs.
    Stdio(Arc<StdioClient>),
    /// The extensions of each HTTP request, into which the endpoint put the caller, with the
    /// spelling of tool names for that caller.
    Request,
}

/// A call of a session that has a name and arguments and nothing else.
#[derive(Debug)]
pub(crate) struct SessionCall {
    /// The id of the request.
    pub(crate) id: Value,
    /// The name of the tool.
    pub(crate) name: String,
    /// The arguments; null if there are none.
    pub(crate) arguments: Value,
}

/// The server as the SDK calls it. Clones share everything.
#[derive(Clone)]
pub struct Handler {
    shared: Arc<Shared>,
}

struct Shared {
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
    definitions: ToolDefinitions,
    subscriptions: Arc<Subscriptions>,
}

impl Handler {
    /// Serves the tools and resources of `service`.
    pub fn new(
        service: Service,
        caller: CallerSource,
        presentation: Presentation,
        subscriptions: Arc<Subscriptions>,
    ) -> Self {
        let definitions = ToolDefinitions::new(service.definitions());
        let shared = Shared { service, caller, presentation, definitions, subscriptions };
        Self { shared: Arc::new(shared) }
    }

    /// Whether there is a tool of this name.
    pub(crate) fn knows_tool(&self, name: &str) -> bool {
        self.shared.definitions.group(name).is_some()
    }

    /// Answers a call of the client on stdio, as [`ServerHandler::call_tool`] does. Returns the
    /// JSON-RPC response. `client` is what the client said of itself when it opened the session.
    pub(crate) async fn answer_session_call(
        &self,
        call: SessionCall,
        client: &Implementation,
        cancellation: Cancellation,
    ) -> String {
        let SessionCall { id, name, arguments } = call;
        let answered = guarded(async {
            let caller = Caller { cancellation, ..self.session_caller(client)? };
            let call = self.shared.service.call(&name, arguments, &caller);
            self.while_allowed(&caller, call).await?.map_err(|UnknownTool| unknown_tool())
        });
        match answered.await {
            Ok(answer) => {
                let group = self.shared.definitions.group(&name).unwrap_or(ToolGroup::Records);
                let wanted = self.shared.presentation.answers;
                direct::session_response(&id, &answer, answer_form(wanted, Some(client), group))
            }
            Err(ErrorData { code, message, data, .. }) => {
                envelope::error(Some(&id), code.0, &message, data).to_string()
            }
        }
    }

    /// Waits for the answer to a call. If the owner ends the client on stdio meanwhile, cancels the
    /// call, and returns what it answers to that, or an error. (The endpoint does so for callers of
    /// HTTP.)
    async fn while_allowed<T>(
        &self,
        caller: &Caller,
        call: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        let CallerSource::Stdio(client) = &self.shared.caller else { return Ok(call.await) };
        let mut call = std::pin::pin!(call);
        loop {
            if let Ok(answer) = tokio::time::timeout(RIGHTS_CHECK, &mut call).await {
                return Ok(answer);
            }
            let client = Arc::clone(client);
            if matches!(tokio::task::spawn_blocking(move || client.is_ended()).await, Ok(true)) {
                break;
            }
        }
        caller.cancellation.cancel();
        let last = tokio::time::timeout(LAST_ANSWER, call).await;
        let ended = |_| ErrorData::new(ErrorCode(envelope::ENDED), envelope::ENDED_TEXT, None);
        last.map_err(ended)
    }

    /// Returns the caller on stdio whose session was opened with these words.
    fn session_caller(&self, client: &Implementation) -> Result<Caller, ErrorData> {
        let caller = match &self.shared.caller {
            CallerSource::Fixed(caller) => Caller::clone(caller),
            CallerSource::Stdio(stdio) => {
                let principal = stdio.principal(Some(&client.name));
                principal.map(Caller::local).map_err(|refusal| refused(&refusal))?
            }
            CallerSource::Request => return Err(internal("a request came without its caller")),
        };
        let names = self.told_in_session(&caller, Some(client));
        Ok(Caller { names, ..caller })
    }

    /// Returns how long a subscriber may be told of changes.
    fn subscriber_life(&self, caller: &Caller, context: &Context) -> SubscriberLife {
        let parts = context.extensions.get::<http::request::Parts>();
        let expiry = parts.and_then(|parts| parts.extensions.get::<TokenExpiry>());
        let expires = expiry.map(|TokenExpiry(expires)| *expires);
        SubscriberLife { principal: caller.principal.clone(), expires }
    }

    async fn listen_to_changes(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let context = subscription.request_context();
        let caller = self.caller(context)?;
        let life = self.subscriber_life(&caller, context);
        let uris = subscription.accepted().resource_subscriptions.clone().unwrap_or_default();
        let mut watches = Vec::new();
        for uri in uris {
            watches.push(self.watch(uri, &caller, context).await?);
        }
        let (service, rights) = (self.service(context).clone(), self.rights());
        let lists = ListListener::new(service, caller, life.expires, rights);
        self.shared.subscriptions.listen(subscription, watches, lists, life).await;
        Ok(())
    }

    /// Watches an address for a caller.
    async fn watch(
        &self,
        uri: String,
        caller: &Caller,
        context: &Context,
    ) -> Result<Watched, ErrorData> {
        let service = self.service(context).clone();
        let watch = service.watch_resource(&uri, caller).await.map_err(resources::error)?;
        let (address, caller) = (uri.clone(), caller.clone());
        let again: WatchFor = Arc::new(move |principal| {
            let (service, uri) = (service.clone(), address.clone());
            let caller = Caller { principal, ..caller.clone() };
            Box::pin(async move {
                service.check_resource(&uri, &caller).ok()?;
                service.watch_resource(&uri, &caller).await.ok()
            })
        });
        Ok(Watched::new(uri, watch, again))
    }

    /// Records what the client of a session is shown; nothing outside of a session.
    fn lists_shown(&self, context: &Context, record: impl FnOnce(&mut ShownLists)) {
        if !is_sessionless(context) {
            self.shared.subscriptions.lists_shown(&session_of(context), record);
        }
    }

    fn rights(&self) -> CurrentRights {
        Arc::clone(self.shared.subscriptions.rights())
    }

    /// Tells the client of stdio when its lists change, for as long as it is there.
    fn tell_of_lists(&self, peer: Peer<RoleServer>) {
        let caller = match &self.shared.caller {
            CallerSource::Fixed(caller) => Caller::clone(caller),
            CallerSource::Stdio(client) => {
                let session = peer.peer_info().map(|session| session.client_info.name.clone());
                match client.principal_of_lists(session.as_deref()) {
                    Ok(principal) => Caller::local(principal),
                    Err(_) => return,
                }
            }
            CallerSource::Request => return,
        };
        let service = self.shared.service.clone();
        let shown = self.shared.subscriptions.shown_to("");
        let listener = ListListener::new(service, caller, None, self.rights()).after(shown);
        let client = peer.clone();
        let is_open: IsOpen = Arc::new(move || !client.is_transport_closed());
        tokio::spawn(listener.while_open(is_open).tell(peer, || true));
    }

    fn caller(&self, context: &Context) -> Result<Caller, ErrorData> {
        self.caller_by(context, StdioClient::principal)
    }

    /// Returns the caller of a list that looks at no file and no record.
    fn caller_of_lists(&self, context: &Context) -> Result<Caller, ErrorData> {
        self.caller_by(context, StdioClient::principal_of_lists)
    }

    /// Returns the caller. `principal` finds the client on stdio.
    fn caller_by(
        &self,
        context: &Context,
        principal: fn(&StdioClient, Option<&str>) -> Result<Principal, StdioRefusal>,
    ) -> Result<Caller, ErrorData> {
        match &self.shared.caller {
            CallerSource::Fixed(caller) => Ok(Caller {
                names: self.told_tools(caller, context),
                // Each call is cancelled by itself.
                cancellation: Cancellation::default(),
                ..Caller::clone(caller)
            }),
            CallerSource::Stdio(client) => {
                let principal = principal(client, client_name(context).as_deref());
                let caller = principal.map(Caller::local).map_err(|refusal| refused(&refusal))?;
                Ok(Caller { names: self.told_tools(&caller, context), ..caller })
            }
            CallerSource::Request => context
                .extensions
                .get::<http::request::Parts>()
                .and_then(|parts| parts.extensions.get::<Caller>())
                .cloned()
                .ok_or_else(|| internal("a request came without its caller")),
        }
    }

    /// Returns how this client is shown tools and answers: as its request says, or as the settings.
    fn presentation(&self, context: &Context) -> Presentation {
        let parts = context.extensions.get::<http::request::Parts>();
        let chosen = parts.and_then(|parts| parts.extensions.get::<Presentation>());
        chosen.copied().unwrap_or(self.shared.presentation)
    }

    /// Returns the service of the caller of a request, or the one that all callers have.
    fn service<'a>(&'a self, context: &'a Context) -> &'a Service {
        let parts = context.extensions.get::<http::request::Parts>();
        let person = parts.and_then(|parts| parts.extensions.get::<Arc<Person>>());
        person.map_or(&self.shared.service, |person| &person.service)
    }

    fn config(&self, service: &Service, caller: Option<&Caller>) -> ServerConfig {
        server_info::server_config(service, caller)
    }

    /// Returns the prompts of the service.
    fn prompts(&self, context: &Context) -> Result<Arc<Prompts>, ErrorData> {
        let prompts = &self.service(context).owner_texts().prompts;
        prompts.clone().ok_or_else(no_such_method)
    }

    /// Returns the canonical names of the tools that a caller is shown.
    async fn shown_tools(&self, caller: &Caller, context: &Context) -> Vec<&'static str> {
        let listed = self.service(context).listed(caller).await;
        let groups = self.presentation(context).groups;
        let is_shown = |name: &&'static str| self.shared.definitions.is_shown(name, groups);
        listed.into_iter().filter(is_shown).collect()
    }

    /// Returns the tools that the caller on stdio may be told of.
    fn told_tools(&self, caller: &Caller, context: &Context) -> ShownTools {
        self.told_in_session(caller, session_client(context).as_ref())
    }

    /// Returns the tools that a caller on stdio may be told of whose session `client` opened.
    fn told_in_session(&self, caller: &Caller, client: Option<&Implementation>) -> ShownTools {
        let Presentation { names, groups, .. } = self.shared.presentation;
        let session = client.map(|client| client.name.as_str());
        let spelling = spelling(names, caller.principal.client(), session);
        self.shared.service.told_tools(caller, spelling, groups)
    }

    /// Returns the form in which this client gets the answers of a group of tools.
    fn answer_form(&self, group: ToolGroup, context: &Context) -> AnswerForms {
        let wanted = self.presentation(context).answers;
        answer_form(wanted, session_client(context).as_ref(), group)
    }
}

/// Logs a fault of this program, and returns the internal error that names the incident.
fn internal(what: &'static str) -> ErrorData {
    let (message, data) = envelope::incident(what);
    ErrorData::internal_error(message, Some(data))
}

/// Returns the error for a client that started this process and may not act.
fn refused(refusal: &StdioRefusal) -> ErrorData {
    match refusal {
        StdioRefusal::Ended { .. } => ErrorData::invalid_request(refusal.to_string(), None),
        StdioRefusal::State(error) => {
            tracing::error!(target: "stile::stdio", %error, "the client could not be looked up");
            internal("the client could not be looked up")
        }
    }
}

/// Returns what the client said of itself when it opened the session of a request; `None` outside
/// of a session.
fn session_client(context: &Context) -> Option<Implementation> {
    // A request that carries its own version belongs to no session, whatever came before it.
    if context.meta.protocol_version().is_some() {
        return None;
    }
    context.peer.peer_info().map(|session| session.client_info.clone())
}

/// Returns the name that the client gives itself, in this request or when it opened the session.
fn client_name(context: &Context) -> Option<String> {
    let session = || context.peer.peer_info().map(|session| session.client_info.name.clone());
    context.meta.client_info().map(|client| client.name).or_else(session)
}

/// Runs `work`, and turns a panic into an internal error.
async fn guarded<T>(work: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(internal("a handler panicked")))
}

fn is_sessionless(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Returns the session of a request; empty on stdio, which is one session.
fn session_of(context: &Context) -> String {
    let parts = context.extensions.get::<http::request::Parts>();
    let session = parts.and_then(|parts| parts.headers.get(SESSION_ID));
    session.and_then(|session| session.to_str().ok()).unwrap_or_default().to_owned()
}

fn meta(context: &Context) -> Option<MetaObject> {
    is_sessionless(context).then(server_info::result_meta)
}

/// Refuses every cursor of a list that fits one page, so that the server never sent one.
fn only_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor.as_ref()) {
        Some(_) => {
            Err(ErrorData::invalid_params("there is no such `cursor`: the list has one page", None))
        }
        None => Ok(()),
    }
}

/// Converts an answer to the protocol's result of a call.
fn tool_result(answer: Answer, forms: AnswerForms, meta: Option<MetaObject>) -> CallToolResult {
    let is_error = answer.failure.is_some();
    let structured = match answer.structured {
        _ if forms == AnswerForms::Text => None,
        Structured::Tree(value) => Some(value),
        Structured::Json(json) => serde_json::from_str(&json).ok(),
        Structured::SameAsText => serde_json::from_str(&answer.text).ok(),
    };
    let mut content = Vec::with_capacity(1 + answer.links.len());
    if forms.has_text(is_error) {
        content.push(ContentBlock::text(answer.text));
    }
    content.extend(answer.media.map(resources::media));
    content.extend(answer.links.iter().map(resources::link));
    let mut result =
        if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured;
    result.meta = meta;
    result
}

/// Makes a list result that no client may cache, since it depends on the caller and on the space.
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
        self.config(&self.shared.service, None)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let caller = self.caller_of_lists(&context)?;
        if session_of(&context).is_empty() {
            // The one of stdio; the endpoint records the others.
            self.shared.subscriptions.session_opened("");
        }
        let config = self.config(self.service(&context), Some(&caller));
        Ok(config.with_protocol_version(handshake::agreed_version(&request.protocol_version)))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(revisions::ALL)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let parts = context.extensions.get::<http::request::Parts>();
        match parts.and_then(|parts| parts.headers.get(SESSION_ID)?.to_str().ok()) {
            Some(session) => self.shared.subscriptions.session_has_peer(session, &context.peer),
            None => self.tell_of_lists(context.peer),
        }
    }

    async fn discover(&self, context: Context) -> Result<DiscoverResult, ErrorData> {
        let caller = self.caller_of_lists(&context)?;
        let config = self.config(self.service(&context), Some(&caller));
        Ok(DiscoverResult::from_server_info(revisions::ALL.to_vec(), config))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        guarded(async {
            only_page(request.as_ref())?;
            let caller = self.caller_of_lists(&context)?;
            let session = session_of(&context);
            if !session.is_empty() {
                // Some clients never say that they are initialized.
                self.shared.subscriptions.session_has_peer(&session, &context.peer);
            }
            let tools = self.service(&context).listed(&caller).await;
            self.lists_shown(&context, |shown| shown.tools_shown(&tools));
            let groups = self.presentation(&context).groups;
            let form = |group| self.answer_form(group, &context);
            let spelling = caller.names.spelling();
            let definitions = self.shared.definitions.list(&tools, groups, spelling, form);
            Ok(uncached!(ListToolsResult, definitions, &context))
        })
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        guarded(async {
            let caller = self.caller(&context)?;
            let arguments = request.arguments.map_or(Value::Null, Value::Object);
            let call = self.service(&context).call(&request.name, arguments, &caller);
            let mut call = std::pin::pin!(self.while_allowed(&caller, call));
            // A call that is cancelled ends by itself, and is journalled.
            let answer = tokio::select! {
                answer = &mut call => answer,
                never = progress::tell(&context) => match never {},
                () = context.ct.cancelled() => {
                    caller.cancellation.cancel();
                    call.await
                }
            };
            match answer? {
                Ok(answer) => {
                    let group = self.shared.definitions.group(&request.name);
                    let group = group.unwrap_or(ToolGroup::Records);
                    let forms = self.answer_form(group, &context);
                    Ok(tool_result(answer, forms, meta(&context)).into())
                }
                Err(UnknownTool) => Err(unknown_tool()),
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
            let cursor = request.and_then(|request| request.cursor);
            let caller = self.caller(&context)?;
            let service = self.service(&context);
            let page = service.recent_files(cursor.as_deref(), &caller).await;
            let page = page.map_err(resources::error)?;
            let mut listed = Vec::new();
            if cursor.is_none() {
                self.lists_shown(&context, |shown| shown.resources_shown(service, &caller));
                self.shared.subscriptions.resources_listed(&session_of(&context));
                let kinds = service.resources(&caller);
                listed.extend(kinds.iter().map(|kind| resources::resource(kind, caller.names)));
            }
            listed.extend(page.files.into_iter().map(resources::file));
            let mut result = uncached!(ListResourcesResult, listed, &context);
            result.next_cursor = page.next_cursor;
            Ok(result)
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
            let caller = self.caller_of_lists(&context)?;
            let templates = self.service(&context).resource_templates(&caller);
            let templates =
                templates.iter().map(|kind| resources::template(kind, caller.names)).collect();
            Ok(uncached!(ListResourceTemplatesResult, templates, &context))
        })
        .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        guarded(async {
            let caller = self.caller(&context)?;
            let read = self.service(&context).read_resource(&request.uri, &caller).await;
            let content = read.map_err(resources::error)?;
            let mut result = resources::contents(&request.uri, content);
            result.ttl_ms = Some(0);
            result.cache_scope = Some(CacheScope::Private);
            result.meta = meta(&context);
            Ok(result.into())
        })
        .await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let service = &self.shared.service;
        let lists = ListChange { tools: true, resources: service.has(Feature::Resources) };
        let is_watched = service.has(Feature::Subscriptions);
        let is_watchable = |uri: &str| is_watched && service.knows_resource(uri);
        Some(subscriptions::acceptable(requested, lists, is_watchable))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        guarded(self.listen_to_changes(subscription)).await
    }

    async fn subscribe(
        &self,
        request: rmcp::model::SubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        guarded(async {
            if !self.shared.service.has(Feature::Subscriptions) {
                return Err(no_such_method());
            }
            let caller = self.caller(&context)?;
            let watched = self.watch(request.uri, &caller, &context).await?;
            let life = self.subscriber_life(&caller, &context);
            let (session, peer) = (session_of(&context), context.peer.clone());
            self.shared.subscriptions.add(&session, watched, life, peer);
            Ok(())
        })
        .await
    }

    async fn unsubscribe(
        &self,
        request: rmcp::model::UnsubscribeRequestParams,
        context: Context,
    ) -> Result<(), ErrorData> {
        if !self.shared.service.has(Feature::Subscriptions) {
            return Err(no_such_method());
        }
        self.shared.subscriptions.remove(&session_of(&context), &request.uri);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        guarded(async {
            let prompts = self.prompts(&context)?;
            only_page(request.as_ref())?;
            let caller = self.caller_of_lists(&context)?;
            let tools = self.shown_tools(&caller, &context).await;
            let listed = prompts.list(&tools, caller.names.spelling()).await;
            let listed = listed.into_iter().map(prompts::prompt).collect();
            Ok(uncached!(ListPromptsResult, listed, &context))
        })
        .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        guarded(async {
            let prompts = self.prompts(&context)?;
            let caller = self.caller(&context)?;
            let tools = self.shown_tools(&caller, &context).await;
            let values = request.arguments.unwrap_or_default();
            let spelling = caller.names.spelling();
            let got = prompts.get(&request.name, &values, &tools, spelling);
            let filled = got.await.map_err(|refused| prompts::error(&refused))?;
            let mut result = prompts::filled(filled);
            result.meta = meta(&context);
            Ok(result.into())
        })
        .await
    }

    /// Completes the path of a listing or a file, and the argument `path` of a prompt. All else has
    /// no completions.
    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        guarded(async {
            if !self.shared.service.has(Feature::Completions) {
                return Err(no_such_method());
            }
            let caller = self.caller(&context)?;
            let argument = &request.argument;
            let service = self.service(&context);
            let template = match &request.r#ref {
                Reference::Resource(template) => template.uri.as_str(),
                Reference::Prompt(prompt) => {
                    let tools = self.shown_tools(&caller, &context).await;
                    let prompts = self.prompts(&context)?;
                    let listed = prompts.list(&tools, caller.names.spelling()).await;
                    if !listed.iter().any(|listed| listed.name == prompt.name) {
                        return Err(prompts::error(&PromptRefused::Unknown));
                    }
                    if argument.name == "path" { file_resource::TEMPLATE_URI } else { "" }
                }
                _ => "",
            };
            let found = service.complete(template, &argument.name, &argument.value, &caller).await;
            let mut completion = CompletionInfo::default();
            completion.values = found.values;
            completion.has_more = Some(found.has_more);
            let mut result = CompleteResult::new(completion);
            result.meta = meta(&context);
            Ok(result)
        })
        .await
    }

    #[expect(deprecated, reason = "the SDK would accept the level, and the server logs nothing")]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        _: Context,
    ) -> Result<(), ErrorData> {
        Err(no_such_method())
    }

    /// Answers unknown methods, and known methods whose parameters the SDK cannot parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult, ErrorData> {
        let is_of_prompts = matches!(request.method.as_str(), "prompts/list" | "prompts/get");
        if is_of_prompts && self.prompts(&context).is_err() {
            return Err(no_such_method());
        }
        if is_of_prompts || is_known(&request.method, is_sessionless(&context)) {
            let message = format!("the parameters do not fit {}", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(no_such_method())
    }
}

fn unknown_tool() -> ErrorData {
    ErrorData::invalid_params("there is no tool of that name; see `tools/list`", None)
}

fn no_such_method() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method", None)
}

/// Returns whether the protocol has this method in this lifecycle.
fn is_known(method: &str, sessionless: bool) -> bool {
    match method {
        "tools/call"
        | "tools/list"
        | "resources/read"
        | "resources/list"
        | "resources/templates/list"
        | "completion/complete" => true,
        "server/discover" | "subscriptions/listen" => sessionless,
        "initialize" | "ping" | "resources/subscribe" | "resources/unsubscribe" => !sessionless,
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
