//! The page that changes what an approved client may do with files: the choices of the page of
//! consent, with what the client may do now.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, AskedScopes, LineOrigin};
use stile_store::state::AuthorizationRecord;

use super::access_page::{find, leave};
use super::consent_page::SHOW;
use super::frame::{ACCESS_PATH, EDIT_PATH};
use super::shown_text::shown_name;
use super::signed_in::{self, Outcome, PageError, Visit};
use crate::sign_in::access_choices::AccessChoices;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (EDIT_PATH, "What a client may do");
const GONE: &str = "There is no such access, or it has ended.";

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let record = record(visit)?;
        Ok(markup(visit, &record, None))
    })
}

/// Gives the client what the form leaves, or shows what the choices open.
pub fn save(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let record = record(visit)?;
        if visit.text("do") == SHOW {
            return Ok(Outcome::Page(markup(visit, &record, Some(visit.parameters))));
        }
        let chosen = choices(visit, &record).approved(visit.parameters);
        // What the person's role does not allow is left out.
        let is_allowed = |scope: &&Scope| visit.session.may_approve(scope);
        let chosen: Scopes = chosen.iter().filter(is_allowed).cloned().collect();
        let done = match leave(server, &record, &chosen)? {
            "narrowed" => "changed",
            other => other,
        };
        Ok(Outcome::Redirect(format!("{ACCESS_PATH}?done={done}")))
    })
}

fn record(visit: &Visit<'_>) -> Result<AuthorizationRecord, PageError> {
    let found = find(visit.server, visit.session, visit.text("id"))?;
    let counts =
        |record: &AuthorizationRecord| record.ended.is_none() && record.expires > visit.now;
    found.filter(counts).ok_or(PageError::Absent(GONE))
}

/// Returns what can be chosen: what the client may do now, and what it could be allowed beyond.
fn choices<'a>(visit: &'a Visit<'_>, record: &AuthorizationRecord) -> AccessChoices<'a> {
    let now = Scopes::from_claim(&record.scopes);
    let mut lines = AskedScopes::none().lines(&now);
    for verb in [Verb::Read, Verb::Write] {
        let scope = Scope::everything(verb);
        if !lines.iter().any(|line| line.scope == scope) {
            lines.push(AccessLine { scope, origin: LineOrigin::Offered });
        }
    }
    AccessChoices {
        lines,
        given_up: Vec::new(),
        shut: now.iter().filter(|scope| scope.verb() == Verb::Deny).cloned().collect(),
        folders: &visit.server.settings.folders,
        // An administrator changes the approvals of others, and sees the folders of their own.
        subject: &visit.session.subject,
    }
}

fn markup(
    visit: &Visit<'_>,
    record: &AuthorizationRecord,
    chosen: Option<&FormParameters>,
) -> Markup {
    let name = shown_name(&record.client_name);
    html! {
        h1 { "What " bdi { (name) } " may do" }
        form method="post" action=(EDIT_PATH) data-follow {
            (visit.csrf_field())
            input type="hidden" name="id" value=(record.id);
            section class="card" aria-labelledby="files" {
                h2 id="files" { "It may:" }
                (choices(visit, record).form(chosen).markup())
            }
            @if record.grant.is_some() {
                p class="muted" {
                    "What it sees of your records is said by its grant, which "
                    a href=(ACCESS_PATH) { "Clients" } " lists. A grant is revoked as a whole."
                }
            }
            div class="actions" {
                button name="do" value="save" { "Save" }
                button class="plain" name="do" value=(SHOW) { "Show what that opens" }
            }
            p class="muted" {
                "It counts from the client's next call on. With nothing ticked its access ends."
            }
        }
        p { a href=(ACCESS_PATH) { "Back without a change" } }
    }
}
