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
use crate::http::stranger_places::WayIn;
use crate::pages::frame::{
    ACCESS_PATH, ACCOUNT_PATH, ACTIVITY_PATH, BACKUP_PATH, BACKUP_PROGRESS_PATH, CALL_PATH,
    CONNECT_PATH, DESIGN_PATH, EDIT_PATH, FILE_PATH, FILES_PATH, FORGET_IMPORT_PATH, GRANT_PATH,
    HEALTH_PATH, ICON_PATH, IMPORT_PATH, IMPORT_PROGRESS_PATH, LIVE_PATH, MAKE_IMPORT_TOKEN_PATH,
    MAKE_TOKEN_PATH, MANIFEST_PATH, OWNER_PATH, PAGE_SCRIPT_PATH, PASSKEY_SCRIPT_PATH,
    RECORDS_PATH, STORE_IMPORT_PATH, STYLE_PATH, UNDO_PATH, icon, manifest, page_script,
    passkey_script, style,
};
use crate::pages::sign_in_methods::{
    self, CALLBACK_PATH, PASSKEY_PATH, PASSWORD_PATH, PROVIDER_PATH,
};
use crate::pages::sign_in_page::{self, SIGN_IN_PATH, SIGN_OUT_PATH};
use crate::pages::{
    access_page, account_page, activity_page, call_page, connect_page, design_page, edit_page,
    files_page, grant_page, health_page, import_page, live_activity, receive_upload, records_page,
    undo_page,
};

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
        let details = server.settings.owners.have_records().then_some(REQUEST_TYPE);
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
        .route(OWNER_PATH, on_get(access_page::lead_in))
        .route(ACCESS_PATH, on_get(access_page::show))
        .route(access_page::END_PATH, on_post(access_page::end))
        .route(access_page::NARROW_PATH, on_post(access_page::narrow))
        .route(access_page::TAKE_AWAY_PATH, on_post(access_page::take_away))
        .route(EDIT_PATH, on_get(edit_page::show).merge(on_post(edit_page::save)))
        .route(access_page::REVOKE_TOKEN_PATH, on_post(access_page::revoke_token))
        .route(access_page::REVOKE_GRANT_PATH, on_post(access_page::revoke_grant))
        .route(ACTIVITY_PATH, on_get(activity_page::show))
        .route(LIVE_PATH, on_get(live_activity::follow))
        .route(CALL_PATH, on_get(call_page::show))
        .route(UNDO_PATH, on_get(undo_page::show).merge(on_post(undo_page::carry_out)))
        .route(FILES_PATH, on_get(files_page::show_folder))
        .route(FILE_PATH, on_get(files_page::show_file).merge(on_post(files_page::restore)))
        .route(CONNECT_PATH, on_get(connect_page::show))
        .route(MAKE_TOKEN_PATH, on_post(connect_page::make_token))
        .route(MAKE_IMPORT_TOKEN_PATH, on_post(connect_page::make_import_token))
        .route(RECORDS_PATH, on_get(records_page::show))
        .route(GRANT_PATH, on_get(grant_page::show).merge(on_post(grant_page::make)))
        .route(IMPORT_PATH, on_get(import_page::show).merge(upload(server)))
        .route(IMPORT_PROGRESS_PATH, on_get(import_page::progress))
        .route(STORE_IMPORT_PATH, on_post(import_page::store))
        .route(FORGET_IMPORT_PATH, on_post(import_page::forget))
        .route(HEALTH_PATH, on_get(health_page::show))
        .route(BACKUP_PATH, on_post(health_page::back_up))
        .route(BACKUP_PROGRESS_PATH, on_get(health_page::backup_progress))
        .route(ACCOUNT_PATH, on_get(account_page::show))
        .route(account_page::REGISTER_PATH, on_post(account_page::register))
        .route(account_page::REMOVE_PASSKEY_PATH, on_post(account_page::remove_passkey))
        .route(account_page::SET_PASSWORD_PATH, on_post(account_page::set_password))
        .route(account_page::END_SESSION_PATH, on_post(account_page::end_session))
        .route(account_page::END_SESSIONS_PATH, on_post(account_page::end_sessions))
        .route(PASSWORD_PATH, on_post(sign_in_methods::with_password))
        .route(PASSKEY_PATH, on_post(sign_in_methods::with_passkey))
        .route(PROVIDER_PATH, on_get(sign_in_methods::to_provider))
        .route(CALLBACK_PATH, on_get(sign_in_methods::from_provider))
        .route(PASSKEY_SCRIPT_PATH, get(|| async { passkey_script() }))
        .route(MANIFEST_PATH, get(|| async { manifest() }))
        .route(ICON_PATH, get(|| async { icon() }))
        .route(DESIGN_PATH, get(|| async { design_page::show() }))
        .route(PAGE_SCRIPT_PATH, get(|| async { page_script() }))
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

/// Returns the route that takes a file, whose form is larger than others and is not read whole.
fn upload(server: &Arc<AuthorizationServer>) -> MethodRouter {
    let server = Arc::clone(server);
    post(move |request: Request| receive_upload::answer(Arc::clone(&server), request))
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
            let way = WayIn::of(request.uri().path());
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
            let thread = match server.take_thread(&request.address, way).await {
                Ok(thread) => thread,
                Err(used_up) => return *responses::share_used_up(used_up),
            };
            // The thread is the source's for as long as it works, even if the client hangs up.
            let answered = tokio::task::spawn_blocking(move || {
                let answer = handler(&server, &request);
                drop(thread);
                answer
            });
            let answered = answered.await;
            answered.unwrap_or_else(|_| responses::internal())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use futures::future::join_all;
    use http::{StatusCode, Uri};
    use stile_store::staged_uploads::UploadFolder;
    use stile_store::state::{StateDir, TokenKey, TokenStore};
    use tower::ServiceExt as _;

    use super::*;
    use crate::auth::{LocalVerifier, TokenUses};
    use crate::clock::wall_clock;
    use crate::http::peer::RequestOrigin;
    use crate::owner_imports::uploads::Uploads;
    use crate::sign_in::settings::SignInSettings;

    /// How many requests are being answered, and whether they may end.
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    static MAY_END: Mutex<bool> = Mutex::new(false);
    static ENDS: Condvar = Condvar::new();

    /// Lets them end, also if the test fails.
    struct EndsOnDrop;

    impl Drop for EndsOnDrop {
        fn drop(&mut self) {
            *MAY_END.lock().unwrap() = true;
            ENDS.notify_all();
        }
    }

    fn ends_later(_: &AuthorizationServer, _: &WebRequest) -> Response<Body> {
        ANSWERED.fetch_add(1, Ordering::SeqCst);
        let ends = ENDS.wait_while(MAY_END.lock().unwrap(), |may_end| !*may_end);
        drop(ends.unwrap());
        Response::new(Body::empty())
    }

    fn server(folder: &std::path::Path) -> Arc<AuthorizationServer> {
        let state = StateDir::open(folder).unwrap();
        let key = TokenKey::open(&state).unwrap();
        let tokens = Arc::new(TokenStore::open(&state).unwrap());
        let verifier = LocalVerifier::new(&key, "a", Arc::clone(&tokens), wall_clock);
        let settings = SignInSettings {
            key,
            uses: TokenUses::new(Arc::clone(&tokens)),
            tokens,
            audience: "a".to_owned(),
            public_url: None,
            access_life: Duration::from_secs(60),
            verifier: Arc::new(verifier),
            owners: crate::sign_in::settings::Owners::One { records: None, space: None },
            folders: Arc::new(|_, _| Vec::new()),
            connectable: Vec::new(),
            documents: None,
            clock: wall_clock,
            provider: None,
            uploads: Uploads::new(UploadFolder::open(&state).unwrap()),
            fleet: None,
        };
        Arc::new(AuthorizationServer::new(settings).unwrap())
    }

    /// The turns of sources and of their ways in are those of [`crate::fair_share`].
    #[tokio::test]
    async fn requests_of_strangers_share_few_threads_and_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path());
        let answers: WebHandler = |_, _| Response::new(Body::empty());
        let router = Router::new()
            .route(REGISTER_PATH, on(get, &server, ends_later))
            .route(SIGN_IN_PATH, on(get, &server, answers));
        let ask = |address: [u8; 4], path: &'static str| {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = Uri::from_static(path);
            let scheme = http::uri::Scheme::HTTP;
            request.extensions_mut().insert(RequestOrigin { address: address.into(), scheme });
            let router = router.clone();
            async move { router.oneshot(request).await.unwrap().status() }
        };
        let ends = EndsOnDrop;
        let flood: Vec<_> =
            (0..100).map(|_| tokio::spawn(ask([192, 0, 2, 1], REGISTER_PATH))).collect();
        while ANSWERED.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
        // Another source, and another way in of the same one, are answered meanwhile.
        assert_eq!(ask([192, 0, 2, 2], SIGN_IN_PATH).await, StatusCode::OK);
        assert_eq!(ask([192, 0, 2, 1], SIGN_IN_PATH).await, StatusCode::OK);
        assert_eq!(ANSWERED.load(Ordering::SeqCst), 8, "one source alone has half of the threads");
        drop(ends);
        let statuses = join_all(flood).await;
        assert!(statuses.into_iter().all(|status| status.unwrap() == StatusCode::OK));
    }
}
