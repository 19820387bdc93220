//! The page that shows how the server is: what `stile doctor` finds in its state, the size of the
//! history, and what the records hold.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use maud::{Markup, html};
use stile_domain::byte_size::size;

use super::frame::{BACKUP_PATH, BACKUP_PROGRESS_PATH, HEALTH_PATH, RECORDS_PATH};
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::{ago, instant};
use crate::checkup::{self, Finding, FindingGrade};
use crate::owned_space::OwnedSpace;
use crate::owner_backup::{BackupStage, EndedBackup, OtherBackupRuns, RunningBackup};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The share of the history below which the room that is left is worth a look: one part of so many.
const LITTLE_HISTORY: u64 = 10;

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (HEALTH_PATH, "Health"), |visit| {
        let space = visit.owner_space()?;
        // Before the findings, which say how old the last backup is.
        let stage = (!visit.session.is_one_of_people).then(|| space.backup.stage());
        Ok(markup(visit, stage.as_ref(), &findings(visit, space)))
    })
}

/// Begins to copy the state, as `stile backup` does.
pub fn back_up(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, (HEALTH_PATH, "Backup"), |visit| {
        let space = backed_up_space(visit)?;
        let records = visit.records().map(|owned| (owned.service, owned.owner));
        let begun = space.backup.start(space.state.clone(), records, crate::clock::now());
        begun.map_err(|OtherBackupRuns| {
            let why = "A backup is being made already. Health shows how far it is.";
            PageError::Refused(why.to_owned())
        })?;
        Ok(Outcome::Redirect(HEALTH_PATH.to_owned()))
    })
}

/// Answers with how far the backup is; with nothing if none is being made.
pub fn backup_progress(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::look(server, request, |visit| {
        let mut response = match backed_up_space(visit)?.backup.stage() {
            BackupStage::Running(running) => {
                Response::new(Body::from(progress(visit, running).into_string()))
            }
            _ => {
                let mut none = Response::new(Body::empty());
                *none.status_mut() = StatusCode::NO_CONTENT;
                none
            }
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        Ok(response)
    })
}

/// Returns the space whose state its owner may copy.
fn backed_up_space<'v>(visit: &'v Visit<'_>) -> Result<&'v OwnedSpace, PageError> {
    let space = visit.owner_space()?;
    match visit.session.is_one_of_people {
        true => Err(PageError::Absent("The operator of this server makes backups.")),
        false => Ok(space),
    }
}

fn findings(visit: &Visit<'_>, space: &OwnedSpace) -> Vec<Finding> {
    // What belongs to the server is the operator's, and so are the names of its folders.
    if visit.session.is_one_of_people {
        let files = space.check_files("your files");
        return match files.outcome {
            FindingGrade::Bad => vec![files],
            _ => vec![files, history(space)],
        };
    }
    let folder =
        |step, path: &std::path::Path| checkup::folder(step, &path.display().to_string(), path);
    let mut findings = vec![folder("files", &space.root), folder("state", space.state.path())];
    findings.extend(checkup::tokens(visit.server.tokens().list(), &space.state, visit.now));
    findings.extend(space.check_journal(instant(visit.now)));
    if let Ok(bytes) = space.journal.bytes() {
        findings.push(Finding::good("journal size", size(bytes)));
    }
    findings.push(history(space));
    findings.push(checkup::backup(&space.state, visit.now));
    findings.extend(checkup::restored(&space.state, visit.now));
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

fn markup(visit: &Visit<'_>, stage: Option<&BackupStage>, findings: &[Finding]) -> Markup {
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
        @if let Some(stage) = stage { (backup(visit, stage)) }
        h2 { "Records" }
        p { a href=(RECORDS_PATH) { "What records there are, and how the last imports went" } }
    }
}

/// Shows the backup that is being made, or how the last one ended and the form for another.
fn backup(visit: &Visit<'_>, stage: &BackupStage) -> Markup {
    html! {
        @match stage {
            BackupStage::Running(running) => {
                section class="card" aria-labelledby="backing-up" {
                    h2 id="backing-up" { "A backup is being made" }
                    div data-progress=(BACKUP_PROGRESS_PATH) { (progress(visit, *running)) }
                    p class="links" { a href=(HEALTH_PATH) { "Look again" } }
                    p class="muted" { "You may leave this page." }
                }
            }
            BackupStage::Ended(ended) => {
                (ended_backup(visit, ended))
                (backup_form(visit))
            }
            BackupStage::None => { (backup_form(visit)) }
        }
    }
}

fn progress(visit: &Visit<'_>, running: RunningBackup) -> Markup {
    let RunningBackup { began, copied, total } = running;
    // The state may grow meanwhile.
    let done = copied.min(total);
    let percent = (done * 100).checked_div(total).unwrap_or_default();
    html! {
        label for="backup-bar" {
            (percent) "% of about " (size(total)) ", begun " (ago(visit.now, began.seconds()))
        }
        progress id="backup-bar" max=(total.max(1)) value=(done) { (percent) "%" }
    }
}

fn ended_backup(visit: &Visit<'_>, ended: &EndedBackup) -> Markup {
    html! {
        @match &ended.made {
            Ok(made) => {
                p class="notice" role="status" {
                    "The state is copied: " (made.files) " files, " (size(made.bytes)) ", begun "
                    (ago(visit.now, ended.began.seconds())) "."
                }
                p { "The archive is on the disk of this server:" }
                p class="copy" { code { (made.archive.display()) } }
                p {
                    "Copy it to another disk, and keep it as safe as a key: it holds the key and \
                     everything else of the state. The two newest archives are kept there. "
                    code { "stile restore-backup FILE" } " brings the state back."
                }
            }
            Err(why) => p class="warning" role="alert" {
                "The backup failed, and there is no archive of it: " (why) "."
            },
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
                 state folder. You need not wait for it. The files of the space, and a database on \
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
