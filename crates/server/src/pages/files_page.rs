//! The page that shows a folder, and the page of one file: its versions, what changed between them,
//! and the form that gives one back.

use std::time::Duration;

use axum::body::Body;
use http::Response;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use stile_domain::audit::told_name;
use stile_domain::byte_size::size;
use stile_domain::history::past_change::{Author, PastChange};
use stile_domain::history::undo_plan::PathNow;
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::instant::Instant;
use stile_domain::tool_name::Spelling;
use stile_domain::unseen::{shown, shown_ends};
use stile_store::history::ChangeQuery;
use tokio::runtime::Handle;

use super::diff_view::{DiffForm, difference};
use super::frame::{CALL_PATH, FILE_PATH, FILES_PATH, UNDO_PATH};
use super::room::Room;
use super::signed_in::{self, Outcome, PageError, Visit};
use super::times::when;
use crate::owner_files::undo::RESTORE;
use crate::owner_files::{OwnerFiles, Restoration};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The most entries of a folder that a page shows. With usual names they fit into 60 KB.
const ENTRIES_OF_PAGE: usize = 100;
/// The most changes that the top folder names.
const RECENT: usize = 8;
/// The bytes of the last changes, of the way to a folder, of odd names, of the changes of a file,
/// and of its difference.
const RECENT_BYTES: usize = 10_000;
const WAY_BYTES: usize = 5_000;
const ODD_BYTES: usize = 6_000;
const CHANGE_BYTES: usize = 22_000;
const DIFFERENCE_BYTES: usize = 22_000;
/// The most names that cannot be read.
const MAX_ODD: usize = 50;
/// The most changes of a file that are read.
const MAX_CHANGES: usize = 1000;
/// The most changes of a file that a page shows.
const CHANGES_OF_PAGE: usize = 60;
/// How long a page looks for the smallest difference.
pub(super) const DIFF_TIME: Duration = Duration::from_millis(250);
/// The most characters of a path that a page shows.
pub(super) const MAX_PATH: usize = 160;
const NO_FOLDER: &str = "There is no such folder, or the server cannot read it.";
const NOT_RESTORED: &str = "The version was not given back: the file changed meanwhile, or the \
                            server cannot write there. Load its page again to see what is true now.";
const NO_HISTORY: &str = "This server keeps no old versions, so this page has nothing to show.";

/// What the page says after a form: the word in the address and the sentence.
const RESTORED: (&str, &str) = ("restored", "The file has that version again.");

/// Shows a folder, or sends a browser without a session to sign in first.
pub fn show_folder(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (FILES_PATH, "Files"), |visit| {
        let files = files(visit)?;
        let folder = path_of(visit)?;
        let mut arguments = json!({ "path": folder });
        if let (Some(cursor), Some(members)) =
            (visit.parameters.get("cursor"), arguments.as_object_mut())
        {
            members.insert("cursor".to_owned(), json!(cursor));
        }
        let listed = Handle::current().block_on(files.call("file.list", arguments));
        // The tool's own words are for agents.
        let listed = listed.map_err(|_| PageError::Absent(NO_FOLDER))?;
        let recent = match folder.is_root() {
            true => {
                let query = ChangeQuery { limit: Some(RECENT), ..ChangeQuery::default() };
                files.history.changes(&query).map_err(|error| PageError::logged(&error))?
            }
            false => Vec::new(),
        };
        let odd = match listed.get("unnameable").and_then(Value::as_u64) {
            None | Some(0) => Vec::new(),
            Some(_) => {
                let names = files.tools.odd_names(&files.caller, &folder, MAX_ODD + 1);
                let names = Handle::current().block_on(names);
                names.map_err(|error| PageError::Refused(error.message(Spelling::Dotted)))?
            }
        };
        Ok(folder_markup(visit, &folder, &listed, &recent, &odd))
    })
}

/// Shows a file with its versions, or sends a browser without a session to sign in first.
pub fn show_file(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, (FILE_PATH, "File"), |visit| {
        let files = files(visit)?;
        let path = path_of(visit)?;
        let query = ChangeQuery {
            path: Some(path.clone()),
            limit: Some(MAX_CHANGES),
            ..ChangeQuery::default()
        };
        let changes = files.history.changes(&query).map_err(|error| PageError::logged(&error))?;
        let found = Handle::current().block_on(files.now(&path));
        let found = found.map_err(|error| PageError::Refused(error.to_string()))?;
        if changes.is_empty() && !matches!(found, PathNow::File(_)) {
            return Err(PageError::Absent("There is no such file."));
        }
        let version = visit.parameters.get("version").and_then(OldVersion::parse);
        let version = version.or_else(|| {
            let last = changes.iter().find(|it| it.concerns(&path) && it.before.is_some());
            last.map(|change| OldVersion::Before(change.number))
        });
        let compared = version.map(|version| compare(&files, &path, version));
        let done = visit.text("done") == RESTORED.0;
        let form = DiffForm::of(visit);
        Ok(FileView { visit, path: &path, changes: &changes, compared, form, done }.markup())
    })
}

/// Gives a file the version that the form names.
pub fn restore(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, (FILE_PATH, "File"), |visit| {
        let files = files(visit)?;
        let path = path_of(visit)?;
        let version = OldVersion::parse(visit.text("version"))
            .ok_or_else(|| PageError::Refused("The version cannot be read.".to_owned()))?;
        let runtime = Handle::current();
        let restoration = runtime.block_on(files.restoration(&path, version.clone()));
        let restoration = restoration.map_err(|error| PageError::Refused(error.to_string()))?;
        let replaced = match restoration {
            Restoration::Blocked(_) => {
                let why = "A folder, a link or something that cannot be read is at that path.";
                return Err(PageError::Refused(why.to_owned()));
            }
            Restoration::Needless | Restoration::BringBack => None,
            Restoration::Replace(hash) => Some(hash),
        };
        let shown = visit.text("over");
        if replaced.map(|hash| hash.to_string()).unwrap_or_default() != shown {
            let why = "The file changed since you looked at it, so nothing was done.";
            return Err(PageError::Refused(why.to_owned()));
        }
        if restoration != Restoration::Needless {
            let restored = runtime.block_on(files.restore(&path, &version, replaced));
            restored.map_err(|_| PageError::Refused(NOT_RESTORED.to_owned()))?;
        }
        let path = encode_component(path.as_str());
        Ok(Outcome::Redirect(format!("{FILE_PATH}?path={path}&done={}", RESTORED.0)))
    })
}

fn files(visit: &Visit<'_>) -> Result<OwnerFiles, PageError> {
    let space = visit.owner_space()?;
    let files = space.files(&visit.session.subject, RESTORE);
    files.ok_or_else(|| PageError::Absent(space.why_no_files(NO_HISTORY)))
}

fn path_of(visit: &Visit<'_>) -> Result<SpacePath, PageError> {
    let path = visit.parameters.get("path").unwrap_or("/");
    SpacePath::parse(path).map_err(|error| PageError::Refused(error.to_string()))
}

/// An old version beside the file as it is.
struct Compared {
    version: OldVersion,
    /// The difference as `diff -u` shows it; the reason where there is none.
    difference: Result<String, String>,
    restoration: Option<Restoration>,
}

fn compare(files: &OwnerFiles, path: &SpacePath, version: OldVersion) -> Compared {
    let runtime = Handle::current();
    let restoration = runtime.block_on(files.restoration(path, version.clone()));
    let restoration = restoration.ok();
    let difference = match restoration {
        Some(Restoration::Needless) => Err("The file is what it was then.".to_owned()),
        Some(Restoration::BringBack) => Err("There is no such file now.".to_owned()),
        _ => {
            let versions = [Some(version.clone()), None];
            let compared = files.difference(path, versions, ["then", "now"], DIFF_TIME);
            match runtime.block_on(compared) {
                Ok(Some(text)) => Ok(text),
                Ok(None) => Err("It is not text, so there is nothing to compare.".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        }
    };
    Compared { version, difference, restoration }
}

/// Returns the way from the top folder to a path, each part a link.
fn way(path: &SpacePath) -> Markup {
    let mut here = SpacePath::root();
    let parts: Vec<(SpacePath, &str)> = path
        .components()
        .map(|part| {
            here = here.child(part).unwrap_or_else(SpacePath::root);
            (here.clone(), part)
        })
        .collect();
    // The last parts matter most, and a deep path has many.
    let last = parts.len();
    let mut room = WAY_BYTES;
    let mut shown: Vec<String> = Vec::new();
    for (at, (folder, name)) in parts.iter().enumerate().rev() {
        let part = html! {
            " / "
            @if at + 1 == last { span aria-current="page" { bdi { (shown_ends(name, 80)) } } }
            @else {
                a href={ (FILES_PATH) "?path=" (encode_component(folder.as_str())) } {
                    bdi { (shown_ends(name, 80)) }
                }
            }
        };
        let Some(left) = room.checked_sub(part.0.len()) else {
            shown.push(" / …".to_owned());
            break;
        };
        room = left;
        shown.push(part.0);
    }
    html! {
        nav class="way" aria-label="The way here" {
            a href=(FILES_PATH) { "All files" }
            @for part in shown.iter().rev() { (PreEscaped(part)) }
        }
    }
}

fn folder_markup(
    visit: &Visit<'_>,
    folder: &SpacePath,
    listed: &Value,
    recent: &[PastChange],
    odd: &[String],
) -> Markup {
    let entries = listed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The tool lists more at a time than a page shows.
    let skipped = visit.text("skip").parse().unwrap_or(0_usize).min(entries.len());
    let rest = entries.get(skipped..).unwrap_or_default();
    let mut room = Room::of_page();
    let recent = room.part(RECENT_BYTES).fit(recent, RECENT, |it| recent_change(visit, it));
    let odd = odd_names(odd, room.part(ODD_BYTES));
    let entries = room.fit(rest, ENTRIES_OF_PAGE, |entry| entry_row(visit, entry));
    let here = format!("{FILES_PATH}?path={}", encode_component(folder.as_str()));
    let cursor = |name: &str| format!("&cursor={}", encode_component(name));
    let more = listed["next_cursor"].as_str().is_some();
    let next = match (rest.len() > entries.shown, listed["next_cursor"].as_str()) {
        (true, _) => {
            let of_page = visit.parameters.get("cursor").map(cursor).unwrap_or_default();
            Some(format!("{here}{of_page}&skip={}", skipped + entries.shown))
        }
        (false, next) => next.map(|next| format!("{here}{}", cursor(next))),
    };
    html! {
        h1 { "Files" }
        @if !folder.is_root() { (way(folder)) }
        @if rest.is_empty() && odd.is_none() {
            p class="empty" {
                "There is nothing in this folder. What clients make here shows at once."
            }
        }
        ul class="files" { (entries) }
        @if let Some(next) = next {
            nav class="paging" aria-label="More files" {
                a href=(next) {
                    @if more { "More" } @else { "And " (rest.len() - entries.shown) " more" }
                }
            }
        }
        @if let Some(odd) = odd { (odd) }
        @if recent.shown > 0 {
            section aria-labelledby="recent" {
                h2 id="recent" { "Changed last" }
                ul class="changes" { (recent) }
            }
        }
    }
}

/// Names what no client can reach, with what can be done; `None` if there is nothing like that.
fn odd_names(names: &[String], mut room: Room) -> Option<Markup> {
    if names.is_empty() {
        return None;
    }
    let shown = room.fit(names, MAX_ODD, |name| {
        html! { li { code { bdi { (shown_ends(name, MAX_PATH)) } } } }
    });
    Some(html! {
        section class="warning" aria-labelledby="odd" {
            h2 id="odd" { "Names that cannot be used" }
            p {
                "No path can have these names, so no client can see or change what has them, and \
                 this page cannot open it: they are not UTF-8, or have a control character, a \
                 backslash or something else that systems do not agree on. To let clients reach \
                 it, rename it in your file manager or with " code { "mv" } " in a terminal. What \
                 cannot be shown is written as " code { "\\x" } " or " code { "\\u" } " and its \
                 number."
            }
            ul { (shown) }
            (shown.and_more(names.len()))
        }
    })
}

/// Returns who made a change, as a sentence begins.
pub(super) fn author(author: &Author) -> String {
    shown_ends(&told_name(author.name()), 80)
}

fn recent_change(visit: &Visit<'_>, change: &PastChange) -> Markup {
    let path = change.to.as_ref().unwrap_or(&change.path).as_str();
    html! {
        li {
            span class="said" {
                bdi { (author(&change.author)) } " " (change.kind.verb()) " "
                a href={ (FILE_PATH) "?path=" (encode_component(path)) } {
                    bdi { (shown_ends(path, MAX_PATH)) }
                }
            }
            span class="time" { (when(visit.now, change.at.seconds())) }
        }
    }
}

fn entry_row(visit: &Visit<'_>, entry: &Value) -> Markup {
    let path = entry["path"].as_str().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    let kind = entry["type"].as_str().unwrap_or_default();
    let target = match kind {
        "directory" => Some(FILES_PATH),
        "file" => Some(FILE_PATH),
        _ => None,
    };
    let changed = entry["modified"].as_str().and_then(Instant::parse);
    html! {
        li class=(kind) {
            @match target {
                Some(target) => a href={ (target) "?path=" (encode_component(path)) } {
                    bdi { (shown_ends(name, MAX_PATH)) @if kind == "directory" { "/" } }
                },
                None => span { bdi { (shown_ends(name, MAX_PATH)) } " (" (kind) ")" },
            }
            span class="muted" {
                @if let Some(bytes) = entry["size_bytes"].as_u64() { (size(bytes)) }
                @if let Some(count) = entry["entry_count"].as_u64() { (count) " entries" }
            }
            span class="muted" {
                @if let Some(changed) = changed { (when(visit.now, changed.seconds())) }
            }
        }
    }
}

/// The page of one file.
struct FileView<'a> {
    visit: &'a Visit<'a>,
    path: &'a SpacePath,
    changes: &'a [PastChange],
    compared: Option<Compared>,
    form: DiffForm,
    done: bool,
}

impl FileView<'_> {
    fn markup(&self) -> Markup {
        let name = self.path.components().next_back().unwrap_or("/");
        let first = self.visit.first_row();
        let rest = self.changes.iter().skip(first);
        let changes =
            Room::of(CHANGE_BYTES).fit(rest, CHANGES_OF_PAGE, |change| self.change(change));
        let here = format!("{FILE_PATH}?path={}", encode_component(self.path.as_str()));
        html! {
            h1 { bdi { (shown_ends(name, 80)) } }
            (way(self.path))
            @if self.done { p class="notice" role="status" { (RESTORED.1) } }
            h2 { "What changed it" }
            @if self.changes.is_empty() {
                p class="empty" {
                    "No agent changed this file, as far as the history goes back, so there is no \
                     earlier version."
                }
            }
            ul class="changes" { (changes) }
            (changes.next_page((first, self.changes.len()), &here))
            @if self.changes.len() >= MAX_CHANGES {
                p class="muted" { "The latest " (MAX_CHANGES) " changes are listed." }
            }
            @if let Some(compared) = &self.compared { (self.compared(compared)) }
        }
    }

    fn change(&self, change: &PastChange) -> Markup {
        html! {
            li {
                span class="said" {
                    bdi { (author(&change.author)) } " "
                    @match &change.to {
                        Some(to) => {
                            "moved it to " code { (shown_ends(to.as_str(), MAX_PATH)) }
                        }
                        None => { (change.kind.verb()) " it" }
                    }
                }
                span class="time" { (when(self.visit.now, change.at.seconds())) }
                span class="links" {
                    @if change.before.is_some() {
                        a href=(self.address(&OldVersion::Before(change.number), self.form)) {
                            "Before this" span class="unseen" { " change " (change.number) }
                        }
                    }
                    a href={ (CALL_PATH) "?call=" (change.call) } {
                        "What it changed" span class="unseen" { " in call " (change.call) }
                    }
                    a href={ (UNDO_PATH) "?call=" (change.call) } {
                        "Take back" span class="unseen" { " call " (change.call) }
                    }
                }
            }
        }
    }

    fn address(&self, version: &OldVersion, form: DiffForm) -> String {
        let path = encode_component(self.path.as_str());
        format!("{FILE_PATH}?path={path}&version={version}{}#compared", form.query())
    }

    /// Returns the links to the two forms of the difference.
    fn forms(&self, version: &OldVersion) -> Markup {
        self.form.links(|form| self.address(version, form))
    }

    fn compared(&self, compared: &Compared) -> Markup {
        let over = match compared.restoration {
            Some(Restoration::Replace(hash)) => Some(hash.to_string()),
            Some(Restoration::BringBack) => Some(String::new()),
            _ => None,
        };
        html! {
            section id="compared" class="card" aria-labelledby="compared-title" {
                h2 id="compared-title" {
                    @match &compared.version {
                        OldVersion::Before(number) => { "Before change " (number) ", and now" }
                        OldVersion::Hash(_) => { "An old version, and now" }
                    }
                }
                @match &compared.difference {
                    Ok(text) => {
                        (self.forms(&compared.version))
                        (difference(text, self.form, DIFFERENCE_BYTES))
                    }
                    Err(why) => p { (shown(why)) },
                }
                @if let Some(over) = over {
                    form method="post" action=(FILE_PATH) {
                        (self.visit.csrf_field())
                        input type="hidden" name="path" value=(self.path);
                        input type="hidden" name="version" value=(compared.version);
                        input type="hidden" name="over" value=(over);
                        div class="actions" { button { "Give back this version" } }
                        p class="muted" { "The file as it is now is kept as an old version." }
                    }
                }
            }
        }
    }
}
