//! The page that shows how the server is: what `stile doctor` finds in its state, the size of the
//! history, and what the records hold.

use std::sync::Mutex;

use axum::body::Body;
use http::Response;
use maud::{Markup, html};
use stile_records::administration::DeclaredStream;

use super::files_page::size;
use super::frame::{BACKUP_PATH, HEALTH_PATH, IMPORT_PATH};
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::when;
use crate::auth::signed_in_owner;
use crate::checkup::{self, Finding, FindingGrade};
use crate::owned_space::OwnedSpace;
use crate::owner_backup;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// Held while a backup is made.
static ONE_BACKUP: Mutex<()> = Mutex::new(());
/// The most streams of records that the page names.
const MAX_STREAMS: usize = 100;
/// The share of the history below which the room that is left is worth a look: one part of so many.
const LITTLE_HISTORY: u64 = 10;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (HEALTH_PATH, "Health"), |visit| {
        let space = visit.owner_space()?;
        Ok(markup(visit, &findings(visit, space), &streams(visit)?))
    })
}

/// Copies the state, as `stile backup` does.
pub fn back_up(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, (HEALTH_PATH, "Backup"), |visit| {
        let space = visit.owner_space()?;
        if visit.session.is_one_of_people {
            return Err(PageError::Absent("The operator of this server makes backups."));
        }
        let _alone = ONE_BACKUP.try_lock().map_err(|_| {
            PageError::Refused("A backup is being made. Load Health again to see it.".to_owned())
        })?;
        let records = visit.records();
        let of_owner = records.as_ref().map(|owned| (&owned.service, &owned.owner));
        let made = owner_backup::to_state(&space.state, of_owner, crate::clock::now());
        let (archive, manifest) = made.map_err(|error| PageError::Refused(error.to_string()))?;
        let (files, bytes) = manifest.totals();
        Ok(Outcome::Page(html! {
            h1 { "The state is copied" }
            p class="notice" role="status" { (files) " files, " (size(bytes)) "." }
            p { "The archive is on the disk of this server:" }
            p class="copy" { code { (archive.display()) } }
            p {
                "Copy it to another disk, and keep it as safe as a key: it holds the key and \
                 everything else of the state. The two newest archives are kept there. "
                code { "stile restore-backup FILE" } " brings the state back."
            }
            p { a href=(HEALTH_PATH) { "Back to Health" } }
        }))
    })
}

fn findings(visit: &Visit<'_>, space: &OwnedSpace) -> Vec<Finding> {
    // What belongs to the server is the operator's, and so are the names of its folders.
    if visit.session.is_one_of_people {
        return vec![checkup::folder("files", "your files", &space.root), history(space)];
    }
    let folder =
        |step, path: &std::path::Path| checkup::folder(step, &path.display().to_string(), path);
    let mut findings = vec![folder("files", &space.root), folder("state", space.state.path())];
    findings.extend(checkup::tokens(visit.server.tokens().list(), visit.now));
    findings.extend(checkup::journal(&space.state));
    if let Ok(bytes) = space.journal.bytes() {
        findings.push(Finding::good("journal size", size(bytes)));
    }
    findings.push(history(space));
    findings.push(checkup::backup(&space.state, visit.now));
    findings
}

/// Returns how much room the history has left.
fn history(space: &OwnedSpace) -> Finding {
    const STEP: &str = "history";
    let Some(history) = space.history() else {
        let mend = "start the server without `--history off`";
        return Finding::warning(STEP, "old versions are not kept", mend);
    };
    let most = history.settings().limits.bytes;
    match history.free_bytes() {
        Err(error) => Finding::bad(STEP, error.to_string(), "do as the message says"),
        Ok(free) => {
            let detail = format!("{} free of at most {}", size(free), size(most));
            match free < most / LITTLE_HISTORY {
                true => Finding::warning(STEP, detail, "raise `--history-bytes`, or make room"),
                false => Finding::good(STEP, detail),
            }
        }
    }
}

fn streams(visit: &Visit<'_>) -> Result<Vec<DeclaredStream>, PageError> {
    let Some(records) = visit.records() else { return Ok(Vec::new()) };
    let owner = signed_in_owner(&visit.session.subject);
    let streams = records.service.list_streams(&owner, visit.server.instant());
    streams.map_err(|problem| PageError::logged(&problem))
}

fn markup(visit: &Visit<'_>, findings: &[Finding], streams: &[DeclaredStream]) -> Markup {
    let bad = findings.iter().filter(|finding| finding.outcome != FindingGrade::Good).count();
    html! {
        h1 { "Health" }
        @match bad {
            0 => p class="notice" { "Everything that was looked at is as it should be." },
            1 => p class="warning" { "One thing needs a look." },
            many => p class="warning" { (many) " things need a look." },
        }
        ul class="findings" { @for finding in findings { (found(finding)) } }
        p class="muted" {
            code { "stile doctor" } " also asks each client's entry, the port and the database. "
            code { "stile backup FILE" } " copies the state to a file that you name."
        }
        @if !visit.session.is_one_of_people { (backup_form(visit)) }
        h2 { "Records" }
        @if streams.is_empty() {
            p class="empty" {
                "There are no records. " a href=(IMPORT_PATH) { "Import a file" }
            }
        } @else {
            (streams_table(visit, streams))
        }
    }
}

fn backup_form(visit: &Visit<'_>) -> Markup {
    html! {
        form method="post" action=(BACKUP_PATH) {
            (visit.csrf_field())
            div class="actions" { button class="plain" { "Back up now" } }
            p class="muted" {
                "Copies the key, the tokens, the records, the history and the journal into the \
                 state folder. This can take minutes. The files of the space, and a database on \
                 PostgreSQL, are not in it."
            }
        }
    }
}

fn found(finding: &Finding) -> Markup {
    let (class, word) = match finding.outcome {
        FindingGrade::Good => ("good", "good"),
        FindingGrade::Warning => ("look", "look"),
        FindingGrade::Bad => ("bad", "bad"),
    };
    html! {
        li class=(class) {
            span class="mark" { (word) }
            span {
                strong { (finding.step) } ": " (finding.detail)
                @if let Some(mend) = &finding.mend { span class="mend" { (mend) } }
            }
        }
    }
}

fn streams_table(visit: &Visit<'_>, streams: &[DeclaredStream]) -> Markup {
    html! {
        div class="table" role="region" aria-label="Streams of records" tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "Connection" }
                        th scope="col" { "Stream" }
                        th scope="col" { "Records" }
                        th scope="col" { "Last import" }
                    }
                }
                tbody {
                    @for stream in streams.iter().take(MAX_STREAMS) {
                        tr {
                            td { (stream.connection) }
                            td { (stream.stream) }
                            td class="number" { (stream.records) }
                            td {
                                @if let Some(latest) = stream.latest {
                                    (when(visit.now, latest.0 / 1_000_000))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
