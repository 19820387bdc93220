//! The page that shows what records there are: each stream with its size and its latest record, and
//! how the last imports went.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::unseen::shown_ends;
use stile_records::administration::DeclaredStream;

use super::frame::{GRANT_PATH, IMPORT_PATH, RECORDS_PATH};
use super::grant_page::{address_of, streams};
use super::import_view::last_imports;
use super::room::Room;
use super::signed_in::{self, PageError, Visit};
use super::times::when;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The most characters of a name, and the most streams of a page.
const MAX_NAME: usize = 80;
const MAX_STREAMS: usize = 200;
/// The bytes of the last imports.
const IMPORT_BYTES: usize = 20_000;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (RECORDS_PATH, "Records"), |visit| {
        visit.owner_space()?;
        let records = visit.records().ok_or(PageError::Absent("There are no records here."))?;
        Ok(markup(visit, &streams(visit, &records)?))
    })
}

fn markup(visit: &Visit<'_>, streams: &[DeclaredStream]) -> Markup {
    let mut room = Room::of_page();
    let ended = visit.server.settings.uploads.ended_of(&visit.session.subject);
    let mut of_imports = room.part(IMPORT_BYTES);
    let imports = last_imports(visit.now, &ended, &mut of_imports);
    let first = visit.first_row();
    let rows = room.fit(streams.iter().skip(first), MAX_STREAMS, |stream| row(visit, stream));
    let all: u64 = streams.iter().map(|stream| stream.records).sum();
    html! {
        h1 { "Records" }
        @if streams.is_empty() {
            div class="empty" {
                p { "There are no records yet: no mail, no bank account, no contacts." }
                p { a class="button" href=(IMPORT_PATH) { "Import a file" } }
            }
        } @else {
            p class="muted" {
                @if all == 1 { "1 record" } @else { (all) " records" }
                @if streams.len() == 1 { " in one stream." }
                @else { " in " (streams.len()) " streams." }
            }
            div class="table streams" role="region" aria-label="Streams" tabindex="0" {
                table {
                    thead {
                        tr {
                            th scope="col" { "What they are" }
                            th scope="col" { "Where from" }
                            th scope="col" class="number" { "Records" }
                            th scope="col" { "Last import" }
                            th scope="col" { span class="unseen" { "What can be done" } }
                        }
                    }
                    tbody { (rows) }
                }
            }
            (rows.next_page((first, streams.len()), &format!("{RECORDS_PATH}?")))
            p class="links" {
                a href=(IMPORT_PATH) { "Import a file" }
                a href=(GRANT_PATH) { "Make a grant" }
            }
        }
        (imports)
    }
}

fn row(visit: &Visit<'_>, stream: &DeclaredStream) -> Markup {
    let name = shown_ends(stream.stream.as_str(), MAX_NAME);
    html! {
        tr {
            td { strong { bdi { (name) } } }
            td { bdi { (shown_ends(stream.connection.as_str(), MAX_NAME)) } }
            td class="number" {
                (stream.records)
                // Where the page is narrow, no heading says what is counted.
                span class="unit" { @if stream.records == 1 { " record" } @else { " records" } }
            }
            td {
                @match stream.latest {
                    Some(at) => { (when(visit.now, at.seconds())) }
                    None => { "nothing yet" }
                }
            }
            td {
                a href=(address_of(stream)) {
                    "Grant some of it" span class="unseen" { ": " (name) }
                }
            }
        }
    }
}
