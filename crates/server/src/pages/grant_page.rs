//! The page that makes a grant on records: the owner chooses streams, where their records are from,
//! fields and times, and sees two records as the client will see them beside what it will not.
//!
//! The grant is made as `stile grant create` makes it, and a token for it as `stile token --grant`
//! does, which the page shows once. What is chosen is never more than the form names.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::percent::encode_component;
use stile_domain::scope::Scopes;
use stile_domain::unseen::shown_ends;
use stile_records::administration::DeclaredStream;

use super::access_rows::{grants, rights_in_words};
use super::frame::{GRANT_PATH, IMPORT_PATH, SHOW};
use super::record_form::MORE_FIELD;
use super::room::{Fitted, Room};
use super::signed_in::{self, Outcome, PageError, Visit};
use super::token_made::{self, duration_select, made};
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::record_choices::{RecordChoices, value_of};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (GRANT_PATH, "Make a grant");
/// The most characters of a name, and the most streams to choose from.
const MAX_NAME: usize = 80;
const MAX_STREAMS: usize = 200;
/// The bytes of the choices.
const CHOICE_BYTES: usize = 45_000;

/// Shows the streams, or what can be granted of one, or sends a browser without a session to sign
/// in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let records = records(visit)?;
        if visit.text("stream").is_empty() {
            return Ok(streams_markup(&streams(visit, &records)?, visit));
        }
        let (connection, stream) = (visit.text("connection"), visit.text("stream"));
        let known = streams(visit, &records)?;
        let named = known.iter().find(|known| {
            known.connection.as_str() == connection && known.stream.as_str() == stream
        });
        let named = named.ok_or(PageError::Absent("There is no such stream."))?;
        let first = format!("{MORE_FIELD}={}", encode_component(&value_of(named)));
        let form = FormParameters::parse(&first).unwrap_or_default();
        Ok(markup(visit, &token_made::choices(visit, &records), &form))
    })
}

/// Makes the grant that the form chose, and a token for it; or shows what the choices mean.
pub fn make(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let records = records(visit)?;
        let choices = token_made::choices(visit, &records);
        if visit.text("do") == SHOW || choices.shows_more(visit.parameters) {
            return Ok(Outcome::Page(markup(visit, &choices, visit.parameters)));
        }
        let client = visit.text("client").trim();
        if client.is_empty() {
            return Err(PageError::Refused("A grant needs the name of its client.".to_owned()));
        }
        let make = || token_made::grant(visit, &records, (client, Scopes::none()));
        let (order, minted) = visit.once(make)?;
        let said = rights_in_words(&order.scopes, &order.records, &grants(visit)?);
        Ok(Outcome::Page(made(visit, &order, &minted, &said)))
    })
}

/// Returns the records of which the person may grant something.
fn records(visit: &Visit<'_>) -> Result<OwnedRecords, PageError> {
    visit.owner_space()?;
    visit.records().ok_or(PageError::Absent("There are no records here."))
}

pub(super) fn streams(
    visit: &Visit<'_>,
    records: &OwnedRecords,
) -> Result<Vec<DeclaredStream>, PageError> {
    let listed = records.service.list_streams(&records.owner, visit.server.instant());
    listed.map_err(|problem| PageError::of_records(&problem))
}

/// Shows the streams of which something can be granted.
fn streams_markup(streams: &[DeclaredStream], visit: &Visit<'_>) -> Markup {
    let first = visit.first_row();
    let rows = stream_links(&mut Room::of_page(), streams, first);
    html! {
        h1 { "Make a grant" }
        @if streams.is_empty() {
            p class="empty" {
                "There are no records to grant. " a href=(IMPORT_PATH) { "Import a file" }
            }
        } @else {
            p { "Of which records shall a client see something?" }
        }
        ul class="rows" { (rows) }
        (rows.next_page((first, streams.len()), &format!("{GRANT_PATH}?")))
    }
}

fn stream_links(room: &mut Room, streams: &[DeclaredStream], first: usize) -> Fitted {
    room.fit(streams.iter().skip(first), MAX_STREAMS, |stream| {
        let (connection, name) = (stream.connection.as_str(), stream.stream.as_str());
        html! {
            li {
                a href=(address_of(stream)) {
                    (shown_ends(name, MAX_NAME)) " of " (shown_ends(connection, MAX_NAME))
                }
                span class="muted" { (stream.records) " records" }
            }
        }
    })
}

/// Returns the address of the page that grants some of a stream.
pub(super) fn address_of(stream: &DeclaredStream) -> String {
    let [connection, stream] =
        [stream.connection.as_str(), stream.stream.as_str()].map(encode_component);
    format!("{GRANT_PATH}?connection={connection}&stream={stream}")
}

/// Shows what can be granted, and what is chosen.
fn markup(visit: &Visit<'_>, choices: &RecordChoices<'_>, form: &FormParameters) -> Markup {
    html! {
        h1 { "Make a grant" }
        p { "Choose what a client sees of your records. It sees nothing else." }
        form method="post" action=(GRANT_PATH) autocomplete="off" data-follow {
            (visit.csrf_field())
            (Visit::once_field())
            section class="card" aria-labelledby="records" {
                h2 id="records" { "It may:" }
                (choices.form(Some(form)).markup(CHOICE_BYTES))
            }
            (whom(visit))
            div class="actions" {
                button name="do" value="make" { "Make the grant and its token" }
                button class="plain" name="do" value=(SHOW) formnovalidate {
                    "Show what it will see"
                }
            }
        }
    }
}

fn whom(visit: &Visit<'_>) -> Markup {
    html! {
        section class="card" aria-labelledby="whom" {
            h2 id="whom" { "For whom, and how long" }
            div class="filter words" {
                div {
                    label for="client" { "Name of the client" }
                    input id="client" name="client" required maxlength="200" autocomplete="off"
                        value=(visit.text("client"));
                }
                div {
                    label for="purpose" { "What for (optional)" }
                    input id="purpose" name="purpose" maxlength="300" autocomplete="off"
                        value=(visit.text("purpose"));
                }
                div { (duration_select(visit)) }
            }
        }
    }
}
