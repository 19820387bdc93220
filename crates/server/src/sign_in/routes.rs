//! The paths of the authorization server and of the pages that it needs.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{MethodRouter, get, post};
use http::Response;
use stile_records::grant_document::REQUEST_TYPE;
use tokio::runtime::Handle;

use super::authorize::CONSENT_PATH;
use super::oauth_error::OAuthError;
use super::server_metadata::{
    AUTHORIZE_PATH, DocumentSupport, INTROSPECT_PATH, METADATA_PATH, PUSH_PATH, REGISTER_PATH,
    REVOKE_PATH, TOKEN_PATH,
};
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use super::{authorize, consent, introspect, push, register, revoke, server_metadata, token};
use crate::http::responses;
use crate::pages::frame::{
    ACCESS_PATH, ACCOUNT_PATH, PASSKEY_SCRIPT_PATH, STYLE_PATH, passkey_script, style,
};
use crate::pages::sign_in_methods::{
    self, CALLBACK_PATH, PASSKEY_PATH, PASSWORD_PATH, PROVIDER_PATH,
};
use crate::pages::sign_in_page::{self, SIGN_IN_PATH, SIGN_OUT_PATH};
use crate::pages::{access_page, account_page};

/// The copy of the metadata for clients that know OpenID Connect only.
pub const OPENID_PATH: &str = "/.well-known/openid-configuration";

/// A function that answers a request. It may use the disk.
pub type WebHandler = fn(&AuthorizationServer, &WebRequest) -> Response<Body>;

/// A function that answers a request whose client has no usable document.
pub type RefusalHandler = fn(&OAuthError) -> Response<Body>;

/// Returns the routes of the authorization server.
pub fn routes(server: &Arc<AuthorizationServer>) -> Router {
    let on_get = |handler: WebHandler| on(get, server, handler);
    let on_post = |handler: WebHandler| on(post, server, handler);
    let metadata: WebHandler = |server, request| {
        let documents = server.settings.documents.as_ref();
        let are_fetched = documents.is_some_and(|documents| {
            // The handler runs on a blocking thread.
            Handle::current().block_on(documents.are_reached())
        });
        let documents = if are_fetched { DocumentSupport::Fetched } else { DocumentSupport::None };
        let details = server.settings.records.as_ref().map(|_| REQUEST_TYPE);
        server_metadata::answer(&request.origin, details.as_slice(), documents)
    };
    let mut router = Router::new();
    for path in [METADATA_PATH, OPENID_PATH] {
        // Some clients put the path of the resource behind, others before.
        router = router
            .route(path, on_get(metadata))
            .route(&format!("{path}/mcp"), on_get(metadata))
            .route(&format!("{path}/mcp/"), on_get(metadata))
            .route(&format!("{path}/"), on_get(metadata))
            .route(&format!("/mcp{path}"), on_get(metadata));
    }
    router
        .route(ACCESS_PATH, on_get(access_page::show))
        .route(access_page::END_PATH, on_post(access_page::end))
        .route(access_page::NARROW_PATH, on_post(access_page::narrow))
        .route(access_page::REVOKE_TOKEN_PATH, on_post(access_page::revoke_token))
        .route(access_page::REVOKE_GRANT_PATH, on_post(access_page::revoke_grant))
        .route(ACCOUNT_PATH, on_get(account_page::show))
        .route(account_page::REGISTER_PATH, on_post(account_page::register))
        .route(account_page::REMOVE_PASSKEY_PATH, on_post(account_page::remove_passkey))
        .route(account_page::END_SESSIONS_PATH, on_post(account_page::end_sessions))
        .route(PASSWORD_PATH, on_post(sign_in_methods::with_password))
        .route(PASSKEY_PATH, on_post(sign_in_methods::with_passkey))
        .route(PROVIDER_PATH, on_get(sign_in_methods::to_provider))
        .route(CALLBACK_PATH, on_get(sign_in_methods::from_provider))
        .route(PASSKEY_SCRIPT_PATH, get(|| async { passkey_script() }))
        .route(AUTHORIZE_PATH, on_client(get, server, authorize::answer, authorize::refused))
        .route(REGISTER_PATH, on_post(register::answer))
        .route(TOKEN_PATH, on_post(token::answer))
        .route(REVOKE_PATH, on_post(revoke::answer))
        .route(INTROSPECT_PATH, on_post(introspect::answer))
        .route(PUSH_PATH, on_client(post, server, push::answer, refused_as_json))
        .route(CONSENT_PATH, on_get(consent::show).merge(on_post(consent::decide)))
        .route(SIGN_IN_PATH, on_get(sign_in_page::show).merge(on_post(sign_in_page::sign_in)))
        .route(SIGN_OUT_PATH, on_post(sign_in_page::sign_out))
        .route(STYLE_PATH, get(|| async { style() }))
}

/// Returns the answer to a client's program whose document cannot be used.
fn refused_as_json(error: &OAuthError) -> Response<Body> {
    error.clone().into_response()
}

/// Returns a route that reads a request whole and answers it on a blocking thread.
pub fn on(
    method: fn(HandlerOf) -> MethodRouter,
    server: &Arc<AuthorizationServer>,
    handler: WebHandler,
) -> MethodRouter {
    method(HandlerOf { server: Arc::clone(server), handler, refuse: None })
}

/// Returns a route that begins a sign-in: it first fetches the document of the client that the
/// request names, if the client has one. `refuse` answers if that fails.
pub fn on_client(
    method: fn(HandlerOf) -> MethodRouter,
    server: &Arc<AuthorizationServer>,
    handler: WebHandler,
    refuse: RefusalHandler,
) -> MethodRouter {
    method(HandlerOf { server: Arc::clone(server), handler, refuse: Some(refuse) })
}

/// A handler with the server that it is of.
#[derive(Clone)]
pub struct HandlerOf {
    server: Arc<AuthorizationServer>,
    handler: WebHandler,
    /// Set for requests with which a sign-in begins.
    refuse: Option<RefusalHandler>,
}

impl axum::handler::Handler<(), ()> for HandlerOf {
    type Future = std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

    fn call(self, request: Request, (): ()) -> Self::Future {
        let Self { server, handler, refuse } = self;
        Box::pin(async move {
            let public_url = server.settings.public_url.as_deref();
            let request = match WebRequest::read(request, public_url).await {
                Ok(request) => request,
                Err(refused) => return *refused,
            };
            if let Some(refuse) = refuse
                && let Some(id) = request.client_id()
                && let Err(error) = server.refresh_client(&id, &request).await
            {
                return refuse(&error);
            }
            let answered = tokio::task::spawn_blocking(move || handler(&server, &request)).await;
            answered.unwrap_or_else(|_| responses::internal())
        })
    }
}
