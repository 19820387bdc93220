//! The page where the owner decides about a client's request, and the code that the client gets.
//!
//! Each line of the request can be removed or narrowed. The client's name is its own word, so the
//! page shows where the answer goes beside it.

use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Response, StatusCode};
use maud::{Markup, html};
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{narrow, sentence};
use stile_store::state::{AuthorizationRecord, NewCode};

use super::access_request::AccessRequest;
use super::authorize::{CONSENT_PATH, refused_here};
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::parameters::FormParameters;
use super::secret::RandomSecret;
use super::settings::AuthorizationServer;
use super::web_request::WebRequest;
use crate::pages::browser_session::BrowserSession;
use crate::pages::frame::{PageFrame, redirect};
use crate::pages::sign_in_page::SIGN_IN_PATH;

/// How long an approval may last: the value in the form, the words, and the seconds.
const DURATIONS: [(&str, &str, i64); 5] = [
    ("1d", "one day", 86_400),
    ("7d", "a week", 604_800),
    ("30d", "30 days", 2_592_000),
    ("90d", "90 days", 7_776_000),
    ("365d", "a year", 31_536_000),
];
/// The duration that the page proposes.
const PROPOSED: &str = "90d";

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let parameters = FormParameters::parse(&request.query).unwrap_or_default();
    let handle = parameters.get("request").unwrap_or_default();
    let Some(asked) = server.pending.find(handle, Instant::now()) else { return gone() };
    match BrowserSession::of(server, request) {
        Some(session) => page(&asked, handle, &session),
        None => {
            let here = format!("{CONSENT_PATH}?request={}", encode_component(handle));
            redirect(&format!("{SIGN_IN_PATH}?return_to={}", encode_component(&here)))
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
    let Some(asked) = server.pending.take(handle, Instant::now()) else { return gone() };
    let denied = |why: &'static str| {
        let error = OAuthError::new(OAuthErrorCode::AccessDenied, why);
        redirect(&asked.return_to.with_error(&error))
    };
    if form.get("decision") != Some("approve") {
        return denied("the owner said no");
    }
    let approved = approved_scopes(&asked, &form);
    if approved.iter().all(|scope| scope.verb() == Verb::Deny) {
        return denied("the owner approved no part of the request");
    }
    match issue_code(server, &asked, &session, approved, &form) {
        Ok(code) => redirect(&asked.return_to.with(&[("code", code.reveal())])),
        Err(error) => redirect(&asked.return_to.with_error(&error)),
    }
}

/// Returns what the owner left of the request: the lines that are ticked, as they were narrowed.
/// A line that cannot be narrowed as the form says is left out.
fn approved_scopes(asked: &AccessRequest, form: &FormParameters) -> Scopes {
    let kept = asked.scopes.lines().enumerate().filter_map(|(index, line)| {
        form.get(&format!("line-{index}"))?;
        let verb = match form.get(&format!("verb-{index}")) {
            Some("read") => Verb::Read,
            _ => line.verb(),
        };
        let folder = match form.get(&format!("folder-{index}")) {
            Some(folder) => SpacePath::parse(folder).ok()?,
            None => line.path().clone(),
        };
        narrow(line, verb, &folder)
    });
    kept.chain(asked.scopes.denials().cloned()).collect()
}

fn issue_code(
    server: &AuthorizationServer,
    asked: &AccessRequest,
    session: &BrowserSession,
    approved: Scopes,
    form: &FormParameters,
) -> Result<RandomSecret, OAuthError> {
    let random = |error| OAuthError::of_state(error);
    let code = RandomSecret::draw().map_err(random)?;
    let wanted = form.get("duration").unwrap_or(PROPOSED);
    let seconds = DURATIONS.iter().find(|(value, ..)| *value == wanted).map_or(86_400, |row| row.2);
    let now = server.now();
    let redirect = asked.return_to.redirect.as_str();
    let authorization = AuthorizationRecord {
        id: uuid::Uuid::new_v4().to_string(),
        client: asked.client.id.clone(),
        client_name: asked.client.name.clone(),
        subject: session.subject.clone(),
        audience: server.settings.audience.clone(),
        scopes: approved.to_string(),
        grant: None,
        single_use: false,
        created: now,
        expires: now.saturating_add(seconds),
        used: None,
        ended: None,
    };
    let new = NewCode {
        digest: code.digest(),
        redirect: asked.redirect_named.then_some(redirect),
        challenge: asked.challenge.as_str(),
    };
    server.tokens().authorize(&authorization, &new).map_err(OAuthError::of_state)?;
    Ok(code)
}

fn page(asked: &AccessRequest, handle: &str, session: &BrowserSession) -> Response<Body> {
    let redirect = &asked.return_to.redirect;
    let body = html! {
        h1 { (asked.client.name) " asks for access" }
        p {
            "The answer goes to " strong { (redirect.host()) } ". "
            "The name is the client's own word; nobody has checked it."
        }
        @if redirect.stays_on_this_computer() {
            p.warning {
                "The answer stays on this computer. Any program on it can ask in this name. Go on \
                 only if you have just started connecting " (asked.client.name) " yourself."
            }
        }
        form method="post" action=(CONSENT_PATH) {
            input type="hidden" name="csrf" value=(session.csrf_token());
            input type="hidden" name="request" value=(handle);
            p { (asked.client.name) " wants to:" }
            ul.lines {
                @for (index, line) in asked.scopes.lines().enumerate() {
                    li { (line_of_form(index, line, asked.scopes.proposes(line))) }
                }
            }
            @for denial in asked.scopes.denials() {
                p { "It will " (sentence(denial)) "." }
            }
            p {
                label for="duration" { "For how long: " }
                select id="duration" name="duration" {
                    @for (value, words, _) in DURATIONS {
                        option value=(value) selected[value == PROPOSED] { (words) }
                    }
                }
            }
            p {
                button type="submit" name="decision" value="approve" { "Allow" }
                " "
                button type="submit" name="decision" value="deny" { "Do not allow" }
            }
        }
    };
    PageFrame::new("Allow access?")
        .with_form_target(redirect.form_action_source())
        .respond(StatusCode::OK, &body)
}

fn line_of_form(index: usize, line: &Scope, is_proposed: bool) -> Markup {
    let id = format!("line-{index}");
    html! {
        input type="checkbox" id=(id) name=(id) value="on" checked[is_proposed];
        " "
        label for=(id) { (sentence(line)) }
        @if line.verb() == Verb::Write {
            " "
            select name=(format!("verb-{index}")) aria-label="what it may do there" {
                option value="write" { "as asked" }
                option value="read" { "read only" }
            }
        }
    }
}

fn gone() -> Response<Body> {
    refused_here(
        StatusCode::BAD_REQUEST,
        "the request was decided already, or has waited for more than ten minutes",
    )
}

/// How long the longest approval lasts.
pub const LONGEST: Duration = Duration::from_secs(31_536_000);
