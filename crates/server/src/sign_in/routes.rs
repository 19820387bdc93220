//! The paths of the authorization server and of the pages that it needs.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{MethodRouter, get, post};
use http::Response;
use stile_records::grant_document::REQUEST_TYPE;

use super::authorize::CONSENT_PATH;
use super::server_metadata::{
    AUTHORIZE_PATH, INTROSPECT_PATH, METADATA_PATH, PUSH_PATH, REGISTER_PATH, REVOKE_PATH,
    TOKEN_PATH,
};
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use super::{authorize, consent, introspect, push, register, revoke, server_metadata, token};
use crate::http::responses;
use crate::pages::frame::{STYLE_PATH, style};
use crate::pages::sign_in_page::{self, SIGN_IN_PATH, SIGN_OUT_PATH};

/// The copy of the metadata for clients that know OpenID Connect only.
pub const OPENID_PATH: &str = "/.well-known/openid-configuration";

/// A function that answers a request. It may use the disk.
pub type WebHandler = fn(&AuthorizationServer, &WebRequest) -> Response<Body>;

/// Returns the routes of the authorization server.
pub fn routes(server: &Arc<AuthorizationServer>) -> Router {
    let on_get = |handler: WebHandler| on(get, server, handler);
    let on_post = |handler: WebHandler| on(post, server, handler);
    let metadata: WebHandler = |server, request| {
        let details = server.settings.records.as_ref().map(|_| REQUEST_TYPE);
        server_metadata::answer(&request.origin, details.as_slice())
    };
    let mut router = Router::new();
    for path in [METADATA_PATH, OPENID_PATH] {
        // Some clients put the path of the resource behind, others before.
        router = router
            .route(path, on_get(metadata))
            .route(&format!("{path}/mcp"), on_get(metadata))
            .route(&format!("/mcp{path}"), on_get(metadata));
    }
    router
        .route(AUTHORIZE_PATH, on_get(authorize::answer))
        .route(REGISTER_PATH, on_post(register::answer))
        .route(TOKEN_PATH, on_post(token::answer))
        .route(REVOKE_PATH, on_post(revoke::answer))
        .route(INTROSPECT_PATH, on_post(introspect::answer))
        .route(PUSH_PATH, on_post(push::answer))
        .route(CONSENT_PATH, on_get(consent::show).merge(on_post(consent::decide)))
        .route(SIGN_IN_PATH, on_get(sign_in_page::show).merge(on_post(sign_in_page::sign_in)))
        .route(SIGN_OUT_PATH, on_post(sign_in_page::sign_out))
        .route(STYLE_PATH, get(|| async { style() }))
}

/// Returns a route that reads a request whole and answers it on a blocking thread.
pub fn on(
    method: fn(HandlerOf) -> MethodRouter,
    server: &Arc<AuthorizationServer>,
    handler: WebHandler,
) -> MethodRouter {
    method(HandlerOf { server: Arc::clone(server), handler })
}

/// A handler with the server that it is of.
#[derive(Clone)]
pub struct HandlerOf {
    server: Arc<AuthorizationServer>,
    handler: WebHandler,
}

impl axum::handler::Handler<(), ()> for HandlerOf {
    type Future = std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

    fn call(self, request: Request, (): ()) -> Self::Future {
        let Self { server, handler } = self;
        Box::pin(async move {
            let public_url = server.settings.public_url.as_deref();
            let request = match WebRequest::read(request, public_url).await {
                Ok(request) => request,
                Err(refused) => return *refused,
            };
            let answered = tokio::task::spawn_blocking(move || handler(&server, &request)).await;
            answered.unwrap_or_else(|_| responses::internal())
        })
    }
}
