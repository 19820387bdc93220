//! The request with which a client sends the owner's browser here.
//!
//! A request of an unknown client, or for an unknown address, never leads the browser elsewhere.
//! Any other faulty request goes back to the client if the owner is signed in; a stranger's browser
//! is not sent to an address that anybody may have registered.
//!
//! *Source*: RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2; RFC 9207;
//! RFC 9700, section 4.11.

use std::time::Instant;

use axum::body::Body;
use http::{Response, StatusCode};
use maud::html;
use stile_domain::percent::encode_component;
use stile_domain::sign_in::asked_access::AskedScopes;
use stile_domain::sign_in::pkce::CodeChallenge;

use super::access_request::{AccessRequest, ReturnAddress};
use super::clients::redirect_of;
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::parameters::FormParameters;
use super::pending::{NotKept, REQUEST_URI, SentRequest};
use super::record_access::AskedRecords;
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::http::metadata::is_own_resource;
use crate::pages::browser_session::BrowserSession;
use crate::pages::frame::{PageFrame, redirect};
use crate::pages::sign_in_methods::sentence;

/// The path of the page where the owner decides.
pub const CONSENT_PATH: &str = "/consent";
/// The longest `state`, in bytes, which the server only sends back.
const MAX_STATE_BYTES: usize = 4096;

/// Why a request is not put to the owner.
#[derive(Debug)]
pub enum RefusedRequest {
    /// Nobody knows where an answer may go, so the browser stays here.
    Here(OAuthError),
    /// The client learns of the error.
    AtClient(Box<ReturnAddress>, OAuthError),
}

/// Answers the browser that a client sends here.
pub fn answer(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let session = BrowserSession::of(server, request);
    // A flood from the owner's own address does not keep the owner out. One of several people has
    // no more than others.
    if session.as_ref().is_none_or(|session| !session.owns_all())
        && let Err(error) = server.take_turn(&request.address)
    {
        return refused_here(StatusCode::TOO_MANY_REQUESTS, &error.description);
    }
    let parameters = match FormParameters::parse(&request.query) {
        Ok(parameters) => parameters,
        Err(bad) => return refused_here(StatusCode::BAD_REQUEST, &bad.to_string()),
    };
    if let Some(reference) = parameters.get("request_uri") {
        return pushed(server, &parameters, reference);
    }
    let sent = SentRequest { parameters: request.query.clone(), origin: request.origin.clone() };
    match check(server, &parameters, &request.origin) {
        Ok(_) => match server.pending.keep(sent, &request.address, Instant::now()) {
            Ok(handle) => {
                if session.is_some() {
                    server.pending.reserve(&handle, Instant::now());
                }
                to_consent(&handle)
            }
            Err(NotKept::State(error)) => refused(&OAuthError::of_state(error)),
            Err(error) => refused_here(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        Err(RefusedRequest::Here(error)) => {
            refused_here(StatusCode::BAD_REQUEST, &error.description)
        }
        Err(RefusedRequest::AtClient(address, error)) if session.is_some() => {
            redirect(&address.with_error(&error))
        }
        Err(RefusedRequest::AtClient(address, error)) => refused_with_way_back(&address, &error),
    }
}

/// Sends the browser on with a request that was pushed before by the client that it names.
fn pushed(
    server: &AuthorizationServer,
    parameters: &FormParameters,
    reference: &str,
) -> Response<Body> {
    let handle = reference.strip_prefix(REQUEST_URI).unwrap_or_default();
    match find(server, handle) {
        Some(asked) if parameters.get("client_id") == Some(asked.client.id.as_str()) => {
            to_consent(handle)
        }
        _ => refused_here(
            StatusCode::BAD_REQUEST,
            "the pushed request is unknown, was decided, or has waited for more than ten minutes",
        ),
    }
}

fn to_consent(handle: &str) -> Response<Body> {
    redirect(&format!("{CONSENT_PATH}?request={}", encode_component(handle)))
}

/// Returns a request that waits, checked; `None` if it was decided, waited for too long, or may not
/// be made any more.
pub fn find(server: &AuthorizationServer, handle: &str) -> Option<AccessRequest> {
    recheck(server, &server.pending.find(handle, Instant::now())?)
}

/// Takes a request away to decide it, so that it is decided once. `None` as for [`find`].
pub fn take(server: &AuthorizationServer, handle: &str) -> Option<AccessRequest> {
    recheck(server, &server.pending.take(handle, Instant::now())?)
}

fn recheck(server: &AuthorizationServer, sent: &SentRequest) -> Option<AccessRequest> {
    let parameters = FormParameters::parse(&sent.parameters).ok()?;
    check(server, &parameters, &sent.origin).ok()
}

/// Checks the parameters of a request to the issuer `origin`.
///
/// # Errors
/// [`RefusedRequest`].
pub fn check(
    server: &AuthorizationServer,
    parameters: &FormParameters,
    origin: &str,
) -> Result<AccessRequest, RefusedRequest> {
    let here = |code, why: &'static str| RefusedRequest::Here(OAuthError::new(code, why));
    let id = parameters
        .get("client_id")
        .ok_or_else(|| here(OAuthErrorCode::InvalidRequest, "the request names no client"))?;
    let client = server
        .client(id)
        .map_err(|error| RefusedRequest::Here(OAuthError::of_state(error)))?
        .ok_or_else(|| {
            here(
                OAuthErrorCode::InvalidClient,
                "the client is not known here; it may have to connect anew",
            )
        })?;
    let named = parameters.get("redirect_uri");
    let redirect = redirect_of(&client, named).ok_or_else(|| {
        here(
            OAuthErrorCode::InvalidRequest,
            "the client has not registered the address where its answer would go",
        )
    })?;
    let return_to = ReturnAddress {
        redirect,
        state: parameters.get("state").map(str::to_owned),
        issuer: origin.to_owned(),
    };
    let have_records = server.settings.owners.have_records();
    match read_wishes(parameters, origin, &client.id, have_records) {
        Ok((challenge, scopes, records)) => {
            let redirect_named = named.is_some();
            Ok(AccessRequest { client, return_to, redirect_named, challenge, scopes, records })
        }
        Err(error) => Err(RefusedRequest::AtClient(Box::new(return_to), error)),
    }
}

/// Reads what a known client asks for.
fn read_wishes(
    parameters: &FormParameters,
    origin: &str,
    client: &str,
    have_records: bool,
) -> Result<(CodeChallenge, AskedScopes, Option<AskedRecords>), OAuthError> {
    let invalid = |why: String| OAuthError::new(OAuthErrorCode::InvalidRequest, why);
    if parameters.get("state").is_some_and(|state| state.len() > MAX_STATE_BYTES) {
        return Err(invalid("state is longer than 4096 bytes".to_owned()));
    }
    if parameters.get("request").is_some() {
        return Err(invalid("request objects are not supported".to_owned()));
    }
    if parameters.get("response_type") != Some("code") {
        let why = "response_type must be code";
        return Err(OAuthError::new(OAuthErrorCode::UnsupportedResponseType, why));
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(invalid("response_mode must be query".to_owned()));
    }
    let (challenge, method) =
        (parameters.get("code_challenge"), parameters.get("code_challenge_method"));
    let challenge = CodeChallenge::parse(challenge, method)
        .map_err(|bad| invalid(bad.to_string().replace('`', "")))?;
    check_resources(parameters, origin)?;
    let records = match parameters.get("authorization_details") {
        Some(_) if !have_records => {
            let why = "this server has no records";
            return Err(OAuthError::new(OAuthErrorCode::InvalidAuthorizationDetails, why));
        }
        Some(details) => AskedRecords::parse(details, client)?,
        None => None,
    };
    let scopes = match parameters.get("scope") {
        // A client that asks for records alone gets no files.
        None if records.is_some() => Ok(AskedScopes::none()),
        scope => AskedScopes::parse(scope),
    };
    let scopes = scopes.map_err(|bad| {
        OAuthError::new(OAuthErrorCode::InvalidScope, bad.to_string().replace('`', ""))
    })?;
    Ok((challenge, scopes, records))
}

/// Refuses a request for the resource of another server.
///
/// # Errors
/// `invalid_target`.
pub fn check_resources(parameters: &FormParameters, origin: &str) -> Result<(), OAuthError> {
    if parameters.all("resource").all(|resource| is_own_resource(origin, resource)) {
        return Ok(());
    }
    let why = format!("resource must be {origin}/mcp");
    Err(OAuthError::new(OAuthErrorCode::InvalidTarget, why))
}

/// Returns a page for a request whose client has no usable document.
pub fn refused(error: &OAuthError) -> Response<Body> {
    let status = match error.code {
        OAuthErrorCode::TooManyRequests
        | OAuthErrorCode::Unavailable
        | OAuthErrorCode::ServerError => error.code.status(),
        _ => StatusCode::BAD_REQUEST,
    };
    refused_here(status, &error.description)
}

/// Returns a page for a request that leads nowhere.
pub fn refused_here(status: StatusCode, why: &str) -> Response<Body> {
    let body = html! {
        h1 { "This request cannot be answered" }
        p { (sentence(&why)) }
        p { "Nothing was allowed. Go back to the application and connect again." }
    };
    PageFrame::new("Request refused").respond(status, &body)
}

fn refused_with_way_back(address: &ReturnAddress, error: &OAuthError) -> Response<Body> {
    let body = html! {
        h1 { "This request cannot be answered" }
        p { (error.description) "." }
        p {
            "Nothing was allowed. "
            a href=(address.with_error(error)) { "Go back to " (address.redirect.host()) }
        }
    };
    PageFrame::new("Request refused").respond(StatusCode::BAD_REQUEST, &body)
}
