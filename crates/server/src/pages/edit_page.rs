//! The page that changes what an approved client may do with files and see of records: the choices
//! of the page of consent, with what the client may do now.
//!
//! A grant never changes. The approval gets another one in its place, in the same step as its
//! scopes, and then the old one is revoked.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::asked_access::{AccessLine, AskedScopes, LineOrigin};
use stile_store::records::GrantStatus;
use stile_store::state::AuthorizationRecord;

use super::access_page::{find, leave};
use super::consent_page::FILE_BYTES;
use super::frame::{ACCESS_PATH, EDIT_PATH, SHOW};
use super::room::Room;
use super::shown_text::shown_name;
use super::signed_in::{self, Outcome, PageError, Visit};
use crate::sign_in::access_choices::{AccessChoices, names_a_folder};
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::record_access::{OwnedRecords, grant_of_streams};
use crate::sign_in::record_choices::RecordChoices;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (EDIT_PATH, "What a client may do");
const GONE: &str = "There is no such access, or it has ended.";

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let record = record(visit)?;
        markup(visit, &record, None)
    })
}

/// Gives the client what the form leaves, or shows what the choices open.
pub fn save(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let record = record(visit)?;
        let owned = visit.records();
        let granted = owned.as_ref().map(|owned| Granted::of(visit, owned, &record)).transpose()?;
        let shows_more =
            granted.as_ref().is_some_and(|it| it.choices().shows_more(visit.parameters));
        if visit.text("do") == SHOW || shows_more || !names_a_folder(visit.parameters) {
            return Ok(Outcome::Page(markup(visit, &record, Some(visit.parameters))?));
        }
        let chosen = choices(visit, &record).approved(visit.parameters);
        // What the person's role does not allow is left out.
        let is_allowed = |scope: &&Scope| visit.session.may_approve(scope);
        let chosen: Scopes = chosen.iter().filter(is_allowed).cloned().collect();
        let done = match granted.map_or(Ok(None), |granted| granted.changed(visit))? {
            None => leave(server, &record, &chosen)?,
            Some(grant) => replace(visit, &record, &chosen, grant)?,
        };
        let done = if done == "narrowed" { "changed" } else { done };
        Ok(Outcome::Redirect(format!("{ACCESS_PATH}?done={done}")))
    })
}

/// The grant of an approval on the records of the person, if it has one.
struct Granted<'a> {
    records: &'a OwnedRecords,
    grant: Option<Grant>,
    approval: &'a AuthorizationRecord,
    now: Instant,
}

impl<'a> Granted<'a> {
    fn of(
        visit: &Visit<'_>,
        records: &'a OwnedRecords,
        approval: &'a AuthorizationRecord,
    ) -> Result<Self, PageError> {
        let now = visit.server.instant();
        let found = match &approval.grant {
            Some(id) => records.service.find_grant(&records.owner, id),
            None => Ok(None),
        };
        let found = found.map_err(|problem| PageError::of_records(&problem))?;
        let found = found.filter(|record| record.status(now) == GrantStatus::Active);
        Ok(Self { records, grant: found.and_then(|record| record.grant), approval, now })
    }

    fn choices(&self) -> RecordChoices<'a> {
        RecordChoices::of_grant(self.records, self.now, self.grant.as_ref())
    }

    /// Makes the grant that the form chose; `None` if the form leaves it as it is. Inside, the
    /// identifier of the new grant, or `None` if the form leaves nothing.
    fn changed(&self, visit: &Visit<'_>) -> Result<Option<Option<String>>, PageError> {
        let refused = |why: String| PageError::Refused(format!("{why}. Nothing was changed."));
        let choices = self.choices();
        let chosen = choices.chosen(visit.parameters);
        let chosen = chosen.map_err(|error| PageError::Refused(error.to_string()))?;
        if choices.leaves_all(&chosen) {
            return Ok(None);
        }
        if chosen.is_empty() {
            return Ok(Some(None));
        }
        let ends = Instant::from_seconds(self.approval.expires);
        let mut request =
            grant_of_streams(&self.approval.client, chosen, self.now).map_err(refused)?;
        request.expires = Some(ends);
        request.single_use = self.approval.single_use;
        if let Some(before) = &self.grant {
            // What the owner and the client agreed beside the records stays.
            request.client.clone_from(&before.client);
            request.purpose.clone_from(&before.purpose);
            request.stated = before.stated.clone();
            request.expires = before.expires.or(Some(ends));
        }
        let made = self.records.grant(request, self.now).map_err(refused)?;
        Ok(Some(Some(made.id)))
    }
}

/// Gives an approval other scopes and another grant in one step, and revokes the grant that nobody
/// has any more. If the approval changed meanwhile, the new grant is revoked.
fn replace(
    visit: &Visit<'_>,
    record: &AuthorizationRecord,
    chosen: &Scopes,
    grant: Option<String>,
) -> Result<&'static str, PageError> {
    let (server, now) = (visit.server, visit.server.instant());
    let has_rights = chosen.iter().any(|scope| scope.verb().is_right());
    if grant.is_none() && !has_rights {
        server.end_authorization(record)?;
        return Ok("ended");
    }
    let (before, after) = (record.grant.as_deref(), grant.as_deref());
    let bound = server.tokens().replace_grant(&record.id, &chosen.to_string(), [before, after]);
    let gone = match &bound {
        Ok(true) => before,
        Ok(false) | Err(_) => after,
    };
    if let (Some(records), Some(gone)) = (visit.records(), gone) {
        records.revoke(gone, now);
    }
    Ok(if bound? { "changed" } else { "gone" })
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
            lines.push(AccessLine { scope, origin: LineOrigin::NotNow });
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
) -> Result<Markup, PageError> {
    let name = shown_name(&record.client_name);
    let owned = visit.records();
    let granted = owned.as_ref().map(|owned| Granted::of(visit, owned, record)).transpose()?;
    let records = granted.as_ref().map(Granted::choices).filter(|choices| !choices.is_empty());
    let mut room = Room::of_page();
    let files = room.take(choices(visit, record).form(chosen).markup(FILE_BYTES));
    Ok(html! {
        h1 { "What " bdi { (name) } " may do" }
        form method="post" action=(EDIT_PATH) autocomplete="off" data-follow {
            (visit.csrf_field())
            input type="hidden" name="id" value=(record.id);
            section class="card" aria-labelledby="files" {
                h2 id="files" { "It may:" }
                (files)
            }
            @if let Some(records) = records {
                section class="card" aria-labelledby="records" {
                    h2 id="records" { "Of your records it may:" }
                    @if record.grant.is_none() {
                        p class="muted" { "It sees no records unless you add some." }
                    }
                    (records.form(chosen).markup(room.left()))
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
        p class="links" { a href=(ACCESS_PATH) { "Back without a change" } }
    })
}
