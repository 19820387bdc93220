//! The page of one call: what it changed, file by file, with the difference.

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_domain::history::past_change::{ChangeNumber, PastChange};
use stile_domain::percent::encode_component;
use stile_domain::unseen::shown_start;
use stile_store::history::ChangeQuery;
use tokio::runtime::Handle;

use super::diff_view::{DiffForm, difference};
use super::files_page::{DIFF_TIME, MAX_PATH};
use super::frame::{ACTIVITY_PATH, CALL_PATH, FILE_PATH, UNDO_PATH};
use super::signed_in::{self, PageError, Visit};
use super::times::when;
use crate::owner_files::OwnerFiles;
use crate::owner_files::undo::RESTORE;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The most changes of a call that a page names, and of which it shows the difference.
const MAX_CHANGES: usize = 100;
const MAX_DIFFERENCES: usize = 2;

/// Shows what a call changed, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (CALL_PATH, "What a call changed"), |visit| {
        let space = visit.owner_space()?;
        let files = space.files(&visit.session.subject, RESTORE);
        let files = files.ok_or(PageError::Absent("This server keeps no old versions."))?;
        let absent = PageError::Absent("There is no such call, or it changed nothing.");
        let Ok(call) = visit.text("call").parse().map(ChangeNumber) else { return Err(absent) };
        let query = ChangeQuery { call: Some(call), ..ChangeQuery::default() };
        let mut changes =
            files.history.changes(&query).map_err(|error| PageError::logged(&error))?;
        changes.reverse();
        let Some(first) = changes.first() else { return Err(absent) };
        Ok(markup(visit, &files, first, &changes))
    })
}

fn markup(
    visit: &Visit<'_>,
    files: &OwnerFiles,
    first: &PastChange,
    changes: &[PastChange],
) -> Markup {
    let (call, form) = (first.call, DiffForm::of(visit));
    html! {
        h1 { "What call " (call) " changed" }
        p {
            bdi { (shown_start(first.author.name(), 80)) } ", with " code { (first.author.tool) } ", "
            (when(visit.now, first.at.0 / 1_000_000))
        }
        p class="links" {
            a class="button" href={ (UNDO_PATH) "?call=" (call) } { "Take it back" }
        }
        (form.links(|form| format!("{CALL_PATH}?call={call}{}", form.query())))
        @for change in changes.iter().take(MAX_DIFFERENCES) {
            section class="card" { (changed(files, change, form)) }
        }
        @if changes.len() > MAX_DIFFERENCES {
            h2 { "And" }
            ul class="plan" {
                @for change in changes.iter().skip(MAX_DIFFERENCES).take(MAX_CHANGES) {
                    li { (sentence(change)) }
                }
            }
            @if changes.len() > MAX_CHANGES {
                p class="muted" { "The call made " (changes.len()) " changes." }
            }
        }
        p { a href=(ACTIVITY_PATH) { "Back to the activity" } }
    }
}

fn changed(files: &OwnerFiles, change: &PastChange, form: DiffForm) -> Markup {
    let difference_of = Handle::current().block_on(files.change_difference(change, DIFF_TIME));
    html! {
        h2 { (sentence(change)) }
        @match difference_of {
            Ok(Some(text)) if text.is_empty() => p class="muted" { "Its text stayed as it was." },
            Ok(Some(text)) => { (difference(&text, form)) }
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
            bdi { (shown_start(path, MAX_PATH)) }
        }
    };
    let of_folder = if change.kind.is_of_folder() { "folder " } else { "" };
    html! {
        @match &change.to {
            Some(_) => { "moved " (of_folder) bdi { (shown_start(change.path.as_str(), MAX_PATH)) } " to " (file) }
            None => { (change.kind.verb()) " " (of_folder) (file) }
        }
    }
}
