//! What the pages that make a token share: the grant on records that comes with it, how long it is
//! valid, and the page that shows it once.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::json;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_domain::unseen::shown_ends;

use super::consent_page::{DURATIONS, MAX_DOUBT, PROPOSED_DURATION};
use super::frame::ACCESS_PATH;
use super::signed_in::{PageError, Visit};
use super::times::{instant, moment};
use crate::auth::scope_doubts::doubts;
use crate::auth::{MintRequest, MintedToken};
use crate::http::metadata::MCP_PATH;
use crate::sign_in::record_access::{MAX_PURPOSE_CHARS, OwnedRecords, grant_of_streams};
use crate::sign_in::record_choices::RecordChoices;

/// Returns what can be granted to a client that has no grant yet.
pub(super) fn choices<'a>(visit: &Visit<'_>, records: &'a OwnedRecords) -> RecordChoices<'a> {
    RecordChoices::of_grant(records, visit.server.instant(), None)
}

/// Makes the grant that the form chose, and a token for it that also has these scopes.
pub(super) fn grant(
    visit: &Visit<'_>,
    records: &OwnedRecords,
    (client, scopes): (&str, Scopes),
) -> Result<(MintRequest, MintedToken), PageError> {
    let refused = |why: String| PageError::Refused(format!("{why}; no grant was made."));
    let chosen = choices(visit, records).chosen(visit.parameters);
    let chosen = chosen.map_err(|error| PageError::Refused(error.to_string()))?;
    if chosen.is_empty() {
        let why =
            "Choose a stream, and at least one field that the client sees; no grant was made.";
        return Err(PageError::Refused(why.to_owned()));
    }
    let now = visit.server.instant();
    let life = life(visit);
    let micros = i64::try_from(life.as_micros()).unwrap_or(i64::MAX);
    let purpose: String = visit.text("purpose").trim().chars().take(MAX_PURPOSE_CHARS).collect();
    let mut request = grant_of_streams(client, chosen, now).map_err(refused)?;
    request.purpose = Some(purpose).filter(|purpose| !purpose.is_empty());
    request.expires = Some(Instant(now.0.saturating_add(micros)));
    let made = records.grant(request, now).map_err(refused)?;
    let order = MintRequest {
        subject: visit.session.subject.clone(),
        scopes,
        client: Some(client.to_owned()),
        records: RecordsClaim::Grant(made.id.as_str().into()),
        life,
    };
    let minted = visit.server.minter().mint(&order, (visit.server.settings.clock)());
    minted.map(|minted| (order, minted)).map_err(|error| {
        // A grant that no token names shows nobody anything.
        records.revoke(&made.id, now);
        refused(error.to_string())
    })
}

/// Returns how long the form wants a token to be valid. A value that is not on the page is a day.
pub(super) fn life(visit: &Visit<'_>) -> Duration {
    let wanted = visit.parameters.get("duration").unwrap_or(PROPOSED_DURATION);
    let seconds = DURATIONS.iter().find(|(value, ..)| *value == wanted).map_or(86_400, |it| it.2);
    provided(visit, Duration::from_secs(seconds.unsigned_abs()))
}

/// Returns how long a token is valid at most. Who has left the provider keeps no token beyond what
/// the provider would give.
pub(super) fn provided(visit: &Visit<'_>, life: Duration) -> Duration {
    let is_provided = visit.server.methods.provider.is_some();
    if is_provided { life.min(visit.server.settings.access_life) } else { life }
}

/// Returns the field for how long a client may do something.
pub(super) fn duration_select(visit: &Visit<'_>) -> Markup {
    let chosen = visit.parameters.get("duration").unwrap_or(PROPOSED_DURATION);
    html! {
        label for="duration" { "For" }
        select id="duration" name="duration" {
            @for (value, words, _) in DURATIONS {
                option value=(value) selected[value == chosen] { (words) }
            }
        }
    }
}

/// Returns rights as the rest of a sentence.
pub(super) fn in_a_row(rights: &[Markup]) -> Markup {
    html! { @for (at, right) in rights.iter().enumerate() { @if at > 0 { ", " } (right) } }
}

/// Shows a new token, with the block that most clients take. `said` is what its client may do, each
/// right as the rest of a sentence that begins with the client.
pub(super) fn made(
    visit: &Visit<'_>,
    order: &MintRequest,
    minted: &MintedToken,
    said: &[Markup],
) -> Markup {
    let block = json!({ "mcpServers": { "stile": {
        "type": "http",
        "url": format!("{}{MCP_PATH}", visit.origin),
        "headers": { "Authorization": format!("Bearer {}", minted.token) },
    } } });
    let name = order.client.as_deref().unwrap_or_default();
    let root = visit.owner_space().ok().map(|space| space.root.as_path());
    html! {
        h1 { "The token is made" }
        p class="warning" role="status" {
            "This page shows the token once. Copy it now, and give it to nobody but the client."
        }
        p {
            bdi { (shown_ends(name, 80)) } " " (in_a_row(said)) ", until "
            (moment(visit.now, instant(minted.expires))) "."
        }
        @for doubt in doubts(order.scopes.iter(), root) {
            p class="warning" { "Please look again: " (shown_ends(&doubt, MAX_DOUBT)) "." }
        }
        label for="made-token" { "The token" }
        textarea id="made-token" readonly rows="4" { (minted.token) }
        label for="made-block" { "Or the block for the client's settings" }
        textarea id="made-block" readonly rows="12" { (format!("{block:#}")) }
        p { a href=(ACCESS_PATH) { "Who may do what" } }
    }
}
