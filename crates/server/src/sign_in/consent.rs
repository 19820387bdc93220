//! The owner's decision about a client's request, and the code that the client gets.
//!
//! A request is decided once. What is approved is never more than what the page offered: each line
//! is computed again from the request, and the form can only remove or narrow it.

use std::time::Instant;

use axum::body::Body;
use http::{Response, StatusCode};
use maud::html;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::Instant as RecordsInstant;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::state::{AuthorizationRecord, NewCode, StateError};

use super::access_choices::{AccessChoices, names_a_folder};
use super::access_request::AccessRequest;
use super::authorize::{CONSENT_PATH, find, refused_here, take};
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::parameters::FormParameters;
use super::record_access::{AskedRecords, MadeGrant, OwnedRecords, grant_of_streams};
use super::record_choices::{RecordChoices, turns};
use super::secret::RandomSecret;
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::pages::browser_session::BrowserSession;
use crate::pages::consent_page::{ConsentView, DURATIONS, PROPOSED_DURATION};
use crate::pages::frame::SHOW;
use crate::pages::frame::{ACCESS_PATH, PageFrame, redirect};
use crate::pages::sign_in_page::SIGN_IN_PATH;
use crate::pages::waiting_path;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let parameters = FormParameters::parse(&request.query).unwrap_or_default();
    let handle = parameters.get("request").unwrap_or_default();
    let Some(asked) = find(server, handle) else { return gone(server, handle) };
    match BrowserSession::of(server, request) {
        Some(session) => {
            server.pending.reserve(handle, Instant::now());
            page(server, &asked, (handle, &request.origin), &session, None)
        }
        None => {
            let here = format!("{CONSENT_PATH}?request={}", encode_component(handle));
            let to_sign_in =
                redirect(&format!("{SIGN_IN_PATH}?return_to={}", encode_component(&here)));
            waiting_path::remember(request, &here, to_sign_in)
        }
    }
}

/// Carries out the owner's decision.
pub fn decide(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    let form = form.unwrap_or_default();
    let session = BrowserSession::of(server, request);
    let Some(session) = session.filter(|session| session.sent(request, &form)) else {
        return refused_here(
            StatusCode::FORBIDDEN,
            "the form is not from this page, or the session has ended",
        );
    };
    let handle = form.get("request").unwrap_or_default();
    let Some(asked) = find(server, handle) else { return gone(server, handle) };
    // Nobody allows records whose fields the page did not show, or a time or a folder that nobody
    // can read.
    let is_readable = names_a_folder(&form)
        && match (form.get("decision"), records(server, &session)) {
            (Some("approve"), Some(records)) => {
                let choices = record_choices(server, &asked, &records);
                !choices.shows_more(&form) && choices.chosen(&form).is_ok()
            }
            _ => true,
        };
    // Who decides does not only look, whatever else a form sends.
    let looks = form.get("do") == Some(SHOW) || turns(&form);
    let only_looks = form.get("decision").is_none() && looks;
    let denies = form.get("decision") == Some("deny");
    if only_looks || !is_readable && !denies {
        return page(server, &asked, (handle, &request.origin), &session, Some(&form));
    }
    let Some(asked) = take(server, handle) else { return gone(server, handle) };
    let answered = match form.get("decision") {
        Some("approve") => approve(server, &asked, &session, &form),
        _ => Err(OAuthError::new(OAuthErrorCode::AccessDenied, "the owner said no")),
    };
    redirect(&match answered {
        Ok(code) => asked.return_to.with(&[("code", code.reveal())]),
        Err(error) => asked.return_to.with_error(&error),
    })
}

/// Records what the owner approved, and returns the code for it.
fn approve(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    session: &BrowserSession,
    form: &FormParameters,
) -> Result<RandomSecret, OAuthError> {
    let before = allowed_before(server, asked, session).map_err(OAuthError::of_state)?;
    let approved = choices(asked, &before, server, session).approved(form);
    // What the person's role does not allow is left out.
    let is_allowed = |scope: &&Scope| session.may_approve(scope);
    let approved: Scopes = approved.iter().filter(is_allowed).cloned().collect();
    let now = server.now();
    let seconds = seconds_of(form);
    let expires = now.saturating_add(seconds);
    let grant = approved_records(server, asked, session, form, expires)?;
    if grant.is_none() && !approved.iter().any(|scope| scope.verb().is_right()) {
        let why = "the owner approved no part of the request";
        return Err(OAuthError::new(OAuthErrorCode::AccessDenied, why));
    }
    let code = RandomSecret::draw().map_err(OAuthError::of_state)?;
    let authorization = AuthorizationRecord {
        id: uuid::Uuid::new_v4().to_string(),
        client: asked.client.id.clone(),
        client_name: asked.client.name.clone(),
        subject: session.subject.clone(),
        audience: server.settings.audience.clone(),
        scopes: approved.to_string(),
        single_use: grant.as_ref().is_some_and(|grant| grant.single_use),
        grant: grant.map(|grant| grant.id),
        created: now,
        expires,
        used: None,
        ended: None,
    };
    let new = NewCode {
        digest: code.digest(),
        redirect: asked.redirect_named.then_some(asked.return_to.redirect.as_str()),
        challenge: asked.challenge.as_str(),
    };
    server.tokens().authorize(&authorization, &asked.client, &new).map_err(OAuthError::of_state)?;
    Ok(code)
}

/// Returns the records of which the owner may let clients see something.
fn records(server: &AuthorizationServer, session: &BrowserSession) -> Option<OwnedRecords> {
    let may_grant = session.administers() || session.is_one_of_people;
    server.settings.owners.records_of(&session.subject).filter(|_| may_grant)
}

/// Returns the choices that the owner has about records.
fn record_choices<'a>(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    records: &'a OwnedRecords,
) -> RecordChoices<'a> {
    RecordChoices::of_request(records, server.instant(), asked.records.as_ref())
}

/// Makes the grant on the records that the owner chose; `None` if there are none.
fn approved_records(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    session: &BrowserSession,
    form: &FormParameters,
    expires: i64,
) -> Result<Option<MadeGrant>, OAuthError> {
    let Some(records) = records(server, session) else { return Ok(None) };
    let now = server.instant();
    let expires = RecordsInstant::from_seconds(expires);
    let made = || {
        let choices = record_choices(server, asked, &records);
        let streams = choices.chosen(form).map_err(|error| error.to_string())?;
        if streams.is_empty() {
            return Ok(None);
        }
        let mut request = match &asked.records {
            Some(asked) => asked.request_of(streams, now)?,
            None => grant_of_streams(&asked.client.id, streams, now)?,
        };
        request.expires = Some(request.expires.map_or(expires, |asked| asked.min(expires)));
        records.grant(request, now).map(Some)
    };
    made().map_err(|why: String| {
        // The reason may name what exists here, which the client must not learn.
        tracing::warn!(target: "stile::sign_in", why, "a grant could not be made");
        let why = "the records cannot be granted as chosen; the owner finds the reason in the log";
        OAuthError::new(OAuthErrorCode::InvalidAuthorizationDetails, why)
    })
}

/// Returns how long the approval lasts, in seconds. A value that is not on the page is a day.
fn seconds_of(form: &FormParameters) -> i64 {
    let wanted = form.get("duration").unwrap_or(PROPOSED_DURATION);
    DURATIONS.iter().find(|(value, ..)| *value == wanted).map_or(86_400, |row| row.2)
}

/// Returns the scopes of the client's latest authorization that is still in force.
fn allowed_before(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    session: &BrowserSession,
) -> Result<Scopes, StateError> {
    let client = (asked.client.id.as_str(), server.settings.audience.as_str());
    // What another person approved changes nothing for this one, and stays unknown.
    let subject = (!session.owns_all()).then_some(session.subject.as_str());
    let latest = server.tokens().latest_authorization(client, subject, server.now())?;
    Ok(latest.map_or_else(Scopes::none, |found| Scopes::from_claim(&found.scopes)))
}

/// Returns the choices that the owner has about a request.
fn choices<'a>(
    asked: &AccessRequest,
    before: &Scopes,
    server: &'a AuthorizationServer,
    session: &'a BrowserSession,
) -> AccessChoices<'a> {
    let shut = before.iter().filter(|scope| scope.verb() == Verb::Deny);
    AccessChoices {
        lines: asked.scopes.lines(before),
        given_up: asked.scopes.denials().cloned().collect(),
        shut: shut.cloned().collect(),
        folders: &server.settings.folders,
        subject: &session.subject,
    }
}

fn page(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    (handle, origin): (&str, &str),
    session: &BrowserSession,
    chosen: Option<&FormParameters>,
) -> Response<Body> {
    let before = match allowed_before(server, asked, session) {
        Ok(before) => before,
        Err(error) => {
            let error = OAuthError::of_state(error);
            return refused_here(error.code.status(), &error.description);
        }
    };
    let choices = choices(asked, &before, server, session);
    let owned = records(server, session);
    let of_records = owned.as_ref().map(|owned| record_choices(server, asked, owned));
    let of_records = of_records.filter(|choices| !choices.is_empty());
    let view = ConsentView {
        client: &asked.client.name,
        redirect: &asked.return_to.redirect,
        csrf: session.csrf_token(),
        handle,
        action: CONSENT_PATH,
        folder: server.settings.owners.folder_name(),
        server: origin.split_once("://").map_or(origin, |(_, server)| server),
        files: choices.form(chosen),
        before: before.iter().cloned().collect(),
        records: of_records.map(|choices| choices.form(chosen)),
        purpose: asked.records.as_ref().and_then(AskedRecords::purpose),
        is_single_use: asked.records.as_ref().is_some_and(AskedRecords::is_single_use),
        asks_for_records: asked.records.is_some(),
    };
    view.respond(StatusCode::OK)
}

/// Answers a browser that comes back to a request that was decided, or that waited for too long.
fn gone(server: &AuthorizationServer, handle: &str) -> Response<Body> {
    if !server.pending.was_decided(handle, Instant::now()) {
        return refused_here(
            StatusCode::BAD_REQUEST,
            "the request has waited for more than ten minutes",
        );
    }
    let body = html! {
        h1 { "This was decided" }
        p { "You have allowed or refused this already. Nothing changed now." }
        p { a href=(ACCESS_PATH) { "See what each client may do" } }
    };
    PageFrame::new("Decided").respond(StatusCode::CONFLICT, &body)
}
