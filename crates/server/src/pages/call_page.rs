//! The page of one call: what it changed, file by file, with the difference.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::percent::encode_component;
use stile_domain::unseen::shown_ends;
use stile_store::history::ChangeQuery;
use tokio::runtime::Handle;

use super::diff_view::{DiffForm, difference};
use super::files_page::{DIFF_TIME, MAX_PATH, author};
use super::frame::{ACTIVITY_PATH, CALL_PATH, FILE_PATH, UNDO_PATH};
use super::room::Room;
use super::signed_in::{self, PageError, Visit};
use super::times::when;
use crate::owner_files::OwnerFiles;
use crate::owner_files::undo::RESTORE;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The most changes of which the page of a call shows the difference, and the bytes of each.
const MAX_DIFFERENCES: usize = 2;
const DIFFERENCE_BYTES: usize = 13_000;
/// The most changes of a page.
const MAX_CHANGES: usize = 200;

/// Shows what a call changed, or one change of it, or sends a browser without a session to sign in
/// first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (CALL_PATH, "What a call changed"), |visit| {
        let space = visit.owner_space()?;
        let files = space.files(&visit.session.subject, RESTORE);
        let none = || PageError::Absent(space.why_no_files("This server keeps no old versions."));
        let files = files.ok_or_else(none)?;
        let absent = PageError::Absent("There is no such call, or it changed nothing.");
        let Ok(call) = visit.text("call").parse().map(ChangeNumber) else { return Err(absent) };
        let query = ChangeQuery { call: Some(call), ..ChangeQuery::default() };
        let mut changes =
            files.history.changes(&query).map_err(|error| PageError::logged(&error))?;
        changes.reverse();
        let Some(first) = changes.first() else { return Err(absent) };
        match visit.parameters.get("change") {
            None => Ok(markup(visit, &files, first, &changes)),
            Some(number) => {
                let named = |change: &&PastChange| change.number.to_string() == number;
                let change = changes.iter().find(named).ok_or(absent)?;
                Ok(one_change(visit, &files, change))
            }
        }
    })
}

fn markup(
    visit: &Visit<'_>,
    files: &OwnerFiles,
    first: &PastChange,
    changes: &[PastChange],
) -> Markup {
    let (call, form) = (first.call, DiffForm::of(visit));
    let mut room = Room::of_page();
    let from = visit.first_row();
    // A page that goes on shows no difference, but leads to each.
    let inline = if from == 0 { MAX_DIFFERENCES } else { 0 };
    let cards = room.fit(changes, inline, |change| {
        html! { section class="card" { (changed(files, change, form, DIFFERENCE_BYTES)) } }
    });
    let begin = from.max(cards.shown);
    let rows = room.fit(changes.iter().skip(begin), MAX_CHANGES, |change| {
        html! {
            li {
                (sentence(change)) " "
                a href={ (CALL_PATH) "?call=" (call) "&change=" (change.number) } {
                    "What changed" span class="unseen" { " in change " (change.number) }
                }
            }
        }
    });
    html! {
        h1 { "What call " (call) " changed" }
        (by(visit, first))
        p class="links" {
            a class="button" href={ (UNDO_PATH) "?call=" (call) } { "Take it back" }
        }
        @if cards.shown > 0 {
            (form.links(|form| format!("{CALL_PATH}?call={call}{}", form.query())))
        }
        (cards)
        @if rows.shown > 0 {
            @if cards.shown > 0 { h2 { "And" } }
            ul class="plan" { (rows) }
        }
        (rows.next_page((begin, changes.len()), &format!("{CALL_PATH}?call={call}")))
        p { a href=(ACTIVITY_PATH) { "Back to the activity" } }
    }
}

/// Shows one change of a call.
fn one_change(visit: &Visit<'_>, files: &OwnerFiles, change: &PastChange) -> Markup {
    let (call, form) = (change.call, DiffForm::of(visit));
    let here = format!("{CALL_PATH}?call={call}&change={}", change.number);
    html! {
        h1 { "What call " (call) " changed in one file" }
        (by(visit, change))
        (form.links(|form| format!("{here}{}", form.query())))
        section class="card" { (changed(files, change, form, 3 * DIFFERENCE_BYTES)) }
        p class="links" {
            a href={ (CALL_PATH) "?call=" (call) } { "All that the call changed" }
            a href=(ACTIVITY_PATH) { "Back to the activity" }
        }
    }
}

/// Says who called, and when.
fn by(visit: &Visit<'_>, change: &PastChange) -> Markup {
    html! {
        p {
            bdi { (author(&change.author)) } ", with " code { (change.author.tool) } ", "
            (when(visit.now, change.at.seconds()))
        }
    }
}

fn changed(files: &OwnerFiles, change: &PastChange, form: DiffForm, bytes: usize) -> Markup {
    let difference_of = Handle::current().block_on(files.change_difference(change, DIFF_TIME));
    html! {
        h2 { (sentence(change)) }
        @match difference_of {
            Ok(Some(text)) if text.is_empty() => p class="muted" { "Its text stayed as it was." },
            Ok(Some(text)) => { (difference(&text, form, bytes)) }
            Ok(None) => p class="muted" { "It is not text, so no difference is shown." },
            Err(_) => p class="muted" {
                "The history no longer has both versions, so no difference is shown. What the file \
                 is after a call is kept when another call replaces it."
            },
        }
    }
}

/// Names a change with a link to its file: `changed /work/plan.md`.
fn sentence(change: &PastChange) -> Markup {
    let path = change.to.as_ref().unwrap_or(&change.path).as_str();
    let file = html! {
        a href={ (FILE_PATH) "?path=" (encode_component(path)) } {
            bdi { (shown_ends(path, MAX_PATH)) }
        }
    };
    let of_folder = if change.kind.is_of_folder() { "folder " } else { "" };
    html! {
        @match &change.to {
            Some(_) => { "moved " (of_folder) bdi { (shown_ends(change.path.as_str(), MAX_PATH)) } " to " (file) }
            None => { (change.kind.verb()) " " (of_folder) (file) }
        }
    }
}
