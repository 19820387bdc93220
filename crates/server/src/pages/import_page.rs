//! The page that imports a file: shows what it will become, and then stores it.
//!
//! The page does what `stile import` does, with the same code: [`crate::owner_imports`]. The form
//! that stores names the file and how it is read, so what is stored is what was shown.

use axum::body::Body;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::table::column::TableSpelling;
use stile_domain::records::table::written_date::DateOrder;
use stile_domain::records::table::written_number::DecimalMark;
use stile_import::importer::ImportTarget;
use stile_import::importers::csv::options::CsvOptions;
use stile_import::reading::{ReadingOptions, UndeclaredFields};

use super::frame::{IMPORT_PATH, SHOW};
use super::import_view::{ChosenOrder, ImportView, SEEN_FIELD, Shown, progress_markup};
use super::signed_in::{self, Outcome, PageError, Visit};
use crate::owner_imports::uploads::{ImportOrder, Stage, Upload, proposed_connection};
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The page in the navigation, and its title.
const PAGE: (&str, &str) = (IMPORT_PATH, "Import");
/// The stream that is proposed for a format that proposes none.
const PROPOSED_STREAM: &str = "records";
const NO_RECORDS: &str = "There are no records here.";
const NO_FILE: &str = "The file is here no longer. The server that took it keeps it for an hour at \
    most, until it stops, and no other server has it. Send it again.";

/// Lets the owner of records import into them, and nobody else.
pub(super) fn may_import(visit: &Visit<'_>) -> Result<(), PageError> {
    records(visit).map(drop)
}

fn records(visit: &Visit<'_>) -> Result<OwnedRecords, PageError> {
    visit.owner_space()?;
    visit.records().ok_or(PageError::Absent(NO_RECORDS))
}

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::show(server, request, PAGE, |visit| {
        let records = records(visit)?;
        let uploads = &server.settings.uploads;
        let mut turns = uploads.all_of(&visit.session.digest()).into_iter();
        let upload = turns.next();
        let next: Vec<_> = turns.collect();
        let csrf_token = visit.session.csrf_token();
        let shown = match &upload {
            None => Shown::Nothing(visit.now, uploads.ended_of(&visit.session.subject)),
            Some(upload) => match upload.stage() {
                Stage::Running(progress) => Shown::Running(upload, progress),
                Stage::Ended(ended) => Shown::Ended(upload, ended),
                Stage::Waiting => {
                    let chosen = chosen(visit, upload);
                    let previewed = order(&chosen).map(|order| {
                        let owned = (&records.service, &records.owner);
                        let previewed = upload.preview(owned, &order, server.instant());
                        (order.target, previewed)
                    });
                    Shown::Preview(upload, chosen, previewed)
                }
            },
        };
        let changed = !visit.text("changed").is_empty();
        Ok(ImportView { csrf_token: &csrf_token, shown, changed, next: &next }.markup())
    })
}

/// Answers with how far the import of the session's file is; with nothing if none runs.
pub fn progress(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::look(server, request, |visit| {
        records(visit)?;
        let upload = server.settings.uploads.of(&visit.session.digest());
        let mut response = match upload.map(|upload| upload.stage()) {
            Some(Stage::Running(progress)) => {
                Response::new(Body::from(progress_markup(progress).into_string()))
            }
            _ => {
                let mut none = Response::new(Body::empty());
                *none.status_mut() = StatusCode::NO_CONTENT;
                none
            }
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        headers.insert(http::header::CONTENT_TYPE, html);
        Ok(response)
    })
}

/// Stores the file that the form names, if the owner looked at what it becomes as the form says.
/// Otherwise shows that.
pub fn store(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        let records = records(visit)?;
        let uploads = &server.settings.uploads;
        let upload = uploads.of(&visit.session.digest());
        // The page may be older than the file.
        let upload = upload.filter(|upload| upload.number == visit.text("upload"));
        let upload = upload.ok_or_else(|| PageError::Refused(NO_FILE.to_owned()))?;
        let chosen = chosen(visit, &upload);
        // What the owner did not look at is shown, and not stored.
        if visit.text("do") == SHOW || visit.text(SEEN_FIELD) != chosen.query() {
            let asked = if visit.text("do") == SHOW { "" } else { "&changed=on" };
            return Ok(Outcome::Redirect(format!("{IMPORT_PATH}?{}{asked}", chosen.query())));
        }
        let order = order(&chosen).map_err(PageError::Refused)?;
        let owned = (records.service, records.owner);
        uploads
            .start(&upload, owned, order, server.instant())
            .map_err(|why| PageError::Refused(upload.without_path(&why)))?;
        Ok(Outcome::Redirect(IMPORT_PATH.to_owned()))
    })
}

/// Forgets the file of the session whose turn it is, or all of them.
pub fn forget(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    signed_in::change(server, request, PAGE, |visit| {
        records(visit)?;
        let (uploads, session) = (&server.settings.uploads, visit.session.digest());
        match visit.text("which") {
            "all" => uploads.forget_all(&session),
            _ => uploads.forget(&session),
        }
        Ok(Outcome::Redirect(IMPORT_PATH.to_owned()))
    })
}

/// Returns what the owner chose, and proposals for what they left out.
fn chosen(visit: &Visit<'_>, upload: &Upload) -> ChosenOrder {
    let text = |name: &str, proposed: &dyn Fn() -> String| match visit.text(name).trim() {
        "" => proposed(),
        chosen => chosen.to_owned(),
    };
    let of_format = || upload.proposed_stream().unwrap_or_else(|| PROPOSED_STREAM.to_owned());
    ChosenOrder {
        connection: text("connection", &|| proposed_connection(upload.name())),
        stream: text("stream", &of_format),
        dates: text("dates", &String::new),
        decimal: text("decimal", &String::new),
        adds_fields: !visit.text("add-fields").is_empty(),
    }
}

/// Returns the order that was chosen, or why there is none.
fn order(chosen: &ChosenOrder) -> Result<ImportOrder, String> {
    let name = |text: &str, what: &str| {
        SourceName::parse(text).map_err(|bad| format!("“{what}” is written in another way: {bad}."))
    };
    let target = ImportTarget {
        connection: name(&chosen.connection, "Where the rows come from")?,
        stream: name(&chosen.stream, "What they are")?,
    };
    let spelling = TableSpelling {
        decimal: match chosen.decimal.as_str() {
            "comma" => Some(DecimalMark::Comma),
            "point" => Some(DecimalMark::Point),
            _ => None,
        },
        dates: DateOrder::named(&chosen.dates),
    };
    let undeclared = match chosen.adds_fields {
        true => UndeclaredFields::Declare,
        false => UndeclaredFields::Report,
    };
    let csv = CsvOptions { spelling, ..CsvOptions::default() };
    Ok(ImportOrder { target, reading: ReadingOptions { csv, rows: None, undeclared } })
}
