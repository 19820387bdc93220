//! What the page that imports a file shows: a form for a file, a preview of it, how far its import
//! is, or what the import did.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Map, Value};
use stile_domain::byte_size::size;
use stile_domain::form_upload::MAX_FILES;
use stile_domain::percent::encode_component;
use stile_domain::unseen::{shown, shown_ends, shown_start};
use stile_import::importer::ImportTarget;
use stile_import::report::{ImportProgress, ImportReport};
use stile_import::run::ImportPreview;

use super::frame::{
    CONNECT_PATH, FORGET_IMPORT_PATH, IMPORT_PATH, IMPORT_PROGRESS_PATH, SHOW, STORE_IMPORT_PATH,
    csrf_field,
};
use super::room::Room;
use super::times::when;
use crate::owner_imports::uploads::{EndedImport, MAX_UPLOAD_BYTES, Previewed, Upload};
use crate::owner_imports::words;
use crate::sign_in::record_sample::shown_record;

/// The most lines of one kind that the page shows, and the most characters of one.
const MAX_LINES: usize = 60;
const MAX_LINE: usize = 300;
/// The bytes of the fields of a row that a preview shows, and of the lines of one kind.
const ROW_BYTES: usize = 6_000;
const LINE_BYTES: usize = 9_000;
/// The form of the choices, and the field with those that the owner looked at.
const CHOICES_FORM: &str = "reading";
pub(super) const SEEN_FIELD: &str = "seen";
/// How dates can be spelled, and numbers: the value of the form and its words.
const DATES: [(&str, &str); 4] = [
    ("", "as the file shows"),
    ("day-first", "the day first"),
    ("month-first", "the month first"),
    ("year-first", "the year first"),
];
const DECIMALS: [(&str, &str); 3] =
    [("", "as the file shows"), ("point", "a point, as in 1.50"), ("comma", "a comma, as in 1,50")];

/// What the owner chose of an import.
#[derive(Clone, Debug)]
pub(super) struct ChosenOrder {
    pub(super) connection: String,
    pub(super) stream: String,
    pub(super) dates: String,
    pub(super) decimal: String,
    /// Whether fields that the stream lacks are declared.
    pub(super) adds_fields: bool,
}

/// What the page is about.
pub(super) enum Shown<'a> {
    /// No file was sent. The last imports are shown, with the time now in UTC seconds.
    Nothing(i64, Vec<Arc<EndedImport>>),
    /// A file waits: what it would become, or why that cannot be said.
    Preview(&'a Upload, ChosenOrder, Result<(ImportTarget, Previewed), String>),
    /// Its import runs.
    Running(&'a Upload, ImportProgress),
    /// Its import has ended.
    Ended(&'a Upload, Arc<EndedImport>),
}

/// The page.
pub(super) struct ImportView<'a> {
    pub(super) csrf_token: &'a str,
    pub(super) shown: Shown<'a>,
    /// Whether the owner wanted to store another choice than they had looked at.
    pub(super) changed: bool,
    /// The files that were sent together with this one, and whose turn comes.
    pub(super) next: &'a [Arc<Upload>],
}

impl ChosenOrder {
    /// Returns the query that leads to the preview of these choices.
    pub(super) fn query(&self) -> String {
        let Self { connection, stream, dates, decimal, adds_fields } = self;
        let pairs = [
            ("connection", connection.as_str()),
            ("stream", stream),
            ("dates", dates),
            ("decimal", decimal),
            ("add-fields", if *adds_fields { "on" } else { "" }),
        ];
        let pairs = pairs.map(|(name, value)| format!("{name}={}", encode_component(value)));
        pairs.join("&")
    }
}

impl ImportView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        html! {
            h1 { "Import" }
            @match &self.shown {
                Shown::Nothing(now, ended) => {
                    (self.sending())
                    (last_imports(*now, ended, &mut Room::of_page()))
                }
                Shown::Preview(upload, .., Ok((_, previewed))) if is_empty(previewed) => {
                    (file(upload))
                    p class="warning" role="alert" {
                        "The file has no rows, so there is nothing to store."
                    }
                    (self.forgetting("Leave this file out"))
                }
                Shown::Preview(upload, chosen, previewed) => {
                    (file(upload))
                    (self.preview(upload, chosen, previewed))
                    (self.forgetting("Leave this file out"))
                }
                Shown::Running(upload, progress) => {
                    (file(upload))
                    div id="import-progress" class="card" data-progress=(IMPORT_PROGRESS_PATH) {
                        (progress_markup(*progress))
                    }
                    p class="links" { a href=(IMPORT_PATH) { "Look again" } }
                    p class="muted" {
                        "You may leave this page. Rows are stored in whole batches. If the server \
                         stops, send the file again: no row is stored a second time."
                    }
                }
                Shown::Ended(upload, ended) => {
                    (file(upload))
                    (ended_import(upload, ended))
                    (self.forgetting(self.after()))
                }
            }
        }
    }

    fn sending(&self) -> Markup {
        html! {
            p {
                "An export of a bank, a mailbox, chats, a calendar, contacts or notes becomes \
                 records, which you can grant to clients field by field. You see first what the \
                 rows become."
            }
            form class="drop" method="post" action=(IMPORT_PATH) enctype="multipart/form-data"
                data-drop="file"
            {
                (csrf_field(self.csrf_token))
                label for="file" { "Files" span class="drop-here" hidden { ", or drop them here" } }
                input id="file" name="file" type="file" required multiple;
                div class="actions" { button { "Send and look" } }
            }
            p class="muted" {
                "At most " (MAX_FILES) " files of " (MAX_UPLOAD_BYTES >> 20) " MB together. You \
                 look at one after the other. Only this browser sees a file. It is removed when it \
                 is imported, after an hour, and when the server stops. "
                code { "stile import" } " takes larger files, folders, and what "
                code { "stile export" } " wrote."
            }
            p class="links" { a href=(CONNECT_PATH) { "Let a program import" } }
        }
    }

    fn preview(
        &self,
        upload: &Upload,
        chosen: &ChosenOrder,
        previewed: &Result<(ImportTarget, Previewed), String>,
    ) -> Markup {
        html! {
            @if self.changed {
                p class="warning" role="alert" {
                    "You changed how the file is read after you looked at it, so nothing is stored \
                     yet. This is what it becomes now."
                }
            }
            (self.choices(upload, chosen))
            div id="preview" data-follows { (found(upload, previewed)) }
        }
    }

    /// Returns the form with which the owner looks at the preview again, and stores what it shows.
    fn choices(&self, upload: &Upload, chosen: &ChosenOrder) -> Markup {
        let name = |id: &str, label: &str, value: &str| {
            html! {
                div {
                    label for=(id) { (label) }
                    input id=(id) name=(id) value=(value) required maxlength="64"
                        autocomplete="off";
                }
            }
        };
        let choice = |id: &str, label: &str, all: &[(&str, &str)], value: &str| {
            html! {
                div {
                    label for=(id) { (label) }
                    select id=(id) name=(id) {
                        @for &(word, words) in all {
                            option value=(word) selected[word == value] { (words) }
                        }
                    }
                }
            }
        };
        html! {
            section class="card" aria-labelledby="choices" {
                h2 id="choices" { "Where they go, and how they are read" }
                form id=(CHOICES_FORM) class="filter reading" method="post"
                    action=(STORE_IMPORT_PATH) data-follow
                {
                    (csrf_field(self.csrf_token))
                    input type="hidden" name="upload" value=(upload.number);
                    span id="looked-at" data-follows hidden {
                        input type="hidden" name=(SEEN_FIELD) value=(chosen.query());
                    }
                    (name("connection", "Where the rows come from", &chosen.connection))
                    (name("stream", "What they are", &chosen.stream))
                    (choice("dates", "Dates have", &DATES, &chosen.dates))
                    (choice("decimal", "Numbers have", &DECIMALS, &chosen.decimal))
                    div {
                        label class="choice" for="add-fields" {
                            input type="checkbox" id="add-fields" name="add-fields" value="on"
                                checked[chosen.adds_fields];
                            span { "Declare fields that the stream lacks" }
                        }
                    }
                    div class="actions" {
                        button class="plain" name="do" value=(SHOW) { "Look again" }
                    }
                }
            }
        }
    }

    /// Returns the words of the button that follows an import.
    fn after(&self) -> &'static str {
        if self.next.is_empty() { "Import another file" } else { "Go on to the next file" }
    }

    fn forgetting(&self, label: &str) -> Markup {
        html! {
            form method="post" action=(FORGET_IMPORT_PATH) {
                (csrf_field(self.csrf_token))
                div class="actions" {
                    button class="plain" name="which" value="this" { (label) }
                    @if !self.next.is_empty() {
                        button class="plain" name="which" value="all" { "Leave out all files" }
                    }
                }
            }
            @if !self.next.is_empty() {
                section aria-labelledby="next" {
                    h2 id="next" { "Then" }
                    ul class="rows" {
                        @for upload in self.next {
                            li {
                                bdi { (shown(upload.name())) }
                                @if let Some(part) = upload.part() { ", " (part) }
                                span class="muted" { (size(upload.bytes)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether a file was read and has no rows, neither good nor bad ones.
fn is_empty(previewed: &Previewed) -> bool {
    let is_empty =
        |preview: &ImportPreview| preview.rows.is_empty() && preview.report.bad_rows == 0;
    previewed.as_ref().as_ref().is_ok_and(is_empty)
}

fn file(upload: &Upload) -> Markup {
    html! {
        p {
            "The file " strong { bdi { (shown(upload.name())) } } ", " (size(upload.bytes)) "."
            @if let Some(part) = upload.part() {
                " It has several kinds of data. This is its part " strong { (part) } "."
            }
        }
    }
}

/// Shows what was looked at, and the button that stores it.
fn found(upload: &Upload, previewed: &Result<(ImportTarget, Previewed), String>) -> Markup {
    html! {
        @match previewed {
            Err(why) => p class="warning" role="alert" { (said(why)) },
            Ok((target, previewed)) => {
                @match previewed.as_ref() {
                    Err(why) => p class="warning" role="alert" { (said(why)) },
                    // A preview without a row has read the whole file.
                    Ok(preview) if preview.rows.is_empty() => {
                        p class="warning" role="alert" { "No row of the file can be stored." }
                        (bad_rows(upload, &preview.report))
                    }
                    Ok(preview) => {
                        (findings(upload, target, &preview.report))
                        (rows(&preview.rows))
                        div class="actions" {
                            button form=(CHOICES_FORM) name="do" value="store" { "Store all rows" }
                        }
                        p class="muted" {
                            "Nothing is stored yet. A row with the key of a stored record replaces \
                             it."
                        }
                    }
                }
            }
        }
    }
}

/// Shows how the file is read, what the columns became and why, and what does not fit.
fn findings(upload: &Upload, target: &ImportTarget, report: &ImportReport) -> Markup {
    let read: Vec<String> = report.read_as.iter().map(|line| upload.without_path(line)).collect();
    html! {
        @if !read.is_empty() {
            h2 { "How it is read" }
            (lines(&read))
        }
        @if let Some(declared) = words::declared(target, report) {
            h2 { "What each field becomes, and why" }
            p { (said(&declared.replace("and now declared", "and will be declared"))) }
            (lines(&report.declared_because))
        } @else {
            p {
                "The stream " bdi { (target.stream.as_str()) } " of "
                bdi { (target.connection.as_str()) }
                " is there already, and keeps what it declares."
            }
        }
        (misfits(upload, target, report))
        (bad_rows(upload, report))
    }
}

fn misfits(upload: &Upload, target: &ImportTarget, report: &ImportReport) -> Markup {
    let mut said: Vec<String> =
        words::misfits(report).iter().map(|line| upload.without_path(line)).collect();
    said.extend(
        words::undeclared(target, report).map(|lacking| {
            format!("{lacking} To declare them, import again with the tick for that.")
        }),
    );
    html! {
        @if !said.is_empty() {
            h2 { "What does not fit" }
            (lines(&said))
        }
    }
}

fn bad_rows(upload: &Upload, report: &ImportReport) -> Markup {
    let mut said: Vec<String> = report
        .bad
        .iter()
        .take(MAX_LINES)
        .map(|bad| upload.without_path(&format!("{}:{}: {}", bad.file, bad.line, bad.reason)))
        .collect();
    let unlisted = report.bad_rows.saturating_sub(said.len() as u64);
    if unlisted > 0 {
        said.push(format!("and {unlisted} more bad rows"));
    }
    html! {
        @if !said.is_empty() {
            h2 { "Rows that cannot be stored" }
            (lines(&said))
        }
    }
}

/// Shows the first rows as they will be stored.
fn rows(rows: &[String]) -> Markup {
    let parsed: Vec<Map<String, Value>> =
        rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect();
    html! {
        h2 { "The first rows, as they will be stored" }
        @for row in &parsed {
            (shown_record(row.iter(), ROW_BYTES))
        }
    }
}

/// Shows how far an import is.
pub(super) fn progress_markup(progress: ImportProgress) -> Markup {
    let ImportProgress { storing, bytes, total } = progress;
    let done = bytes.min(total);
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let action = if storing { "Storing" } else { "Reading" };
    html! {
        label for="bar" { (action) ": " (percent) "% of " (size(total)) }
        progress id="bar" max=(total.max(1)) value=(done) { (percent) "%" }
    }
}

/// Shows the imports that have ended, each with what could not be stored.
pub(super) fn last_imports(now: i64, all: &[Arc<EndedImport>], room: &mut Room) -> Markup {
    let shown = room.fit(all, all.len(), |ended| {
        html! {
            div class="card" {
                h3 {
                    bdi { (shown_ends(&ended.file, MAX_LINE)) } " into "
                    bdi { (ended.target.stream.as_str()) } " of "
                    bdi { (ended.target.connection.as_str()) }
                }
                p { (when(now, ended.at.seconds())) ": " (counts(&ended.report)) }
                @if let Some(why) = &ended.error { p class="warning" { (said(why)) } }
                @if !ended.bad.is_empty() {
                    details {
                        summary { "Rows that could not be stored" }
                        (lines(&ended.bad))
                    }
                }
            }
        }
    });
    html! {
        @if !all.is_empty() {
            section aria-labelledby="last" {
                h2 id="last" { "The last imports on this page" }
                (shown)
                (shown.and_more(all.len()))
            }
        }
    }
}

/// Shows what an import did.
fn ended_import(upload: &Upload, ended: &EndedImport) -> Markup {
    let EndedImport { target, report, error, .. } = ended;
    let attached = words::attached(report).into_iter().chain(words::without_text_field(report));
    let attached = attached.chain(words::replaced(report)).chain(words::older(report));
    let attached: Vec<String> = attached.chain(words::left_out(report)).collect();
    html! {
        @match error {
            Some(why) => {
                p class="warning" role="alert" { (said(why)) }
                p {
                    "Before that: " (counts(report))
                    ". Send the file again to go on from there."
                }
            }
            None => p class="notice" role="status" {
                "Stored in " bdi { (target.stream.as_str()) } " of "
                bdi { (target.connection.as_str()) } ": " (counts(report)) "."
            },
        }
        @if let Some(declared) = words::declared(target, report) {
            p { (said(&declared)) }
            (lines(&report.declared_because))
        }
        (lines(&attached))
        (misfits(upload, target, report))
        (bad_rows(upload, report))
    }
}

fn lines(all: &[String]) -> Markup {
    let shown = Room::of(LINE_BYTES).fit(all, MAX_LINES, |line| html! { li { (said(line)) } });
    html! {
        @if !all.is_empty() { ul class="plan" { (shown) } }
        (shown.and_more(all.len()))
    }
}

/// Shows a sentence that has words of the file in it. What stands between backticks is a name.
fn said(text: &str) -> Markup {
    let text = shown_start(text, MAX_LINE);
    let parts: Vec<&str> = text.split('`').collect();
    html! {
        @for (at, part) in parts.iter().enumerate() {
            // The last backtick of an odd number opens nothing.
            @if at % 2 == 0 { (part) }
            @else if at + 1 == parts.len() { "`" (part) }
            @else { code { bdi { (part) } } }
        }
    }
}

/// Returns what became of the rows of an import: `3 new rows, 1 changed`.
fn counts(report: &ImportReport) -> String {
    let rows = |count: u64| if count == 1 { "row" } else { "rows" };
    let counts = [
        (report.added, format!("new {}", rows(report.added))),
        (report.changed, "changed".to_owned()),
        (report.unchanged, "as before".to_owned()),
        (report.bad_rows, "not stored".to_owned()),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    if counts.is_empty() { "no rows".to_owned() } else { counts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_file_are_text() {
        let row = r#"{"<b>":"<script>\u202e","amount":4.5}"#.to_owned();
        let page = rows(&[row]).into_string();
        assert!(page.contains("&lt;script&gt;\\u{202e}") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn what_stands_between_backticks_is_a_name() {
        let shown = said("The stream `a<b` of `c is new").into_string();
        assert_eq!(shown, "The stream <code><bdi>a&lt;b</bdi></code> of `c is new");
    }

    #[test]
    fn counts_say_what_there_is() {
        let report = |added, changed, bad_rows| {
            counts(&ImportReport { added, changed, bad_rows, ..ImportReport::default() })
        };
        assert_eq!(report(1, 0, 0), "1 new row");
        assert_eq!(report(3, 2, 1), "3 new rows, 2 changed, 1 not stored");
        assert_eq!(report(0, 0, 0), "no rows");
    }

    #[test]
    fn progress_never_passes_its_end() {
        let at = |bytes, total| {
            let progress = ImportProgress { storing: true, bytes, total };
            progress_markup(progress).into_string()
        };
        assert!(at(5, 10).contains("Storing: 50%"));
        assert!(at(50, 10).contains("100%") && at(0, 0).contains("max=\"1\""));
    }
}
