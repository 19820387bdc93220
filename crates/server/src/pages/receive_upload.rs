//! Takes the files that a form of the import page sends.
//!
//! The body is not read whole as that of other forms is. The head says whose session it is, and the
//! first field that the form is from the session's own page: before that, no byte of a file is
//! stored. The bytes go to the disk as they come. If one file of a form does not arrive whole, none
//! of them is taken.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use stile_domain::form_upload::{BadUpload, FormEvent, FormUpload};
use stile_store::staged_uploads::{IncomingFile, StagedFile};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::browser_session::BrowserSession;
use super::frame::{IMPORT_PATH, redirect};
use super::import_page;
use super::signed_in;
use crate::fair_share::{Neighbour, Share};
use crate::http::connection::ConnectionState;
use crate::http::options::Timeouts;
use crate::http::stranger_places::WayIn;
use crate::http::{request_body, responses};
use crate::owner_imports::uploads::{MAX_UPLOAD_BYTES, UPLOAD_LIFE, Uploads};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// What a form has beside its files, at most, in bytes.
const MAX_FRAME_BYTES: u64 = 64 * 1024;
/// How long the next bytes may take.
const STALL: Duration = Duration::from_secs(30);
/// How many bytes are written at once.
const WRITTEN_AT_ONCE: usize = 512 * 1024;

/// Why files were not taken.
enum NotTaken {
    /// The form is not from a page of the session.
    Foreign,
    /// It cannot be read.
    Bad(BadUpload),
    /// It broke off, or the next bytes did not come in time.
    Stalled,
    /// The disk refuses it.
    Disk(std::io::Error),
}

impl From<BadUpload> for NotTaken {
    fn from(bad: BadUpload) -> Self {
        Self::Bad(bad)
    }
}

impl From<std::io::Error> for NotTaken {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Takes the files, and leads back to the page.
pub async fn answer(server: Arc<AuthorizationServer>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Arc<ConnectionState>>().cloned();
    let head = WebRequest::without_body(parts, server.settings.public_url.as_deref());
    let thread = match server.take_thread(&head.address, WayIn::Pages).await {
        Ok(thread) => thread,
        Err(used_up) => return *responses::share_used_up(used_up),
    };
    let checking = Arc::clone(&server);
    let checked = spawn_blocking(move || {
        let checked = signed_in::check(&checking, &head, import_page::may_import);
        drop(thread);
        checked.map(|(session, ())| (session, head))
    });
    let (session, head) = match checked.await {
        Ok(Ok(session)) => session,
        Ok(Err(refused)) => return *refused,
        Err(_) => return responses::internal(),
    };
    let uploads = &server.settings.uploads;
    let room = match room(uploads, &session, connection.as_deref(), &body) {
        Ok(room) => room,
        Err((status, why)) => {
            let announced = body.size_hint().exact().unwrap_or(u64::MAX);
            let announced = usize::try_from(announced).unwrap_or(usize::MAX);
            request_body::drain(body, announced, &Timeouts::default()).await;
            return not_taken(status, why);
        }
    };
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let reading = read(uploads, &session, content_type.unwrap_or_default(), body);
    match timeout(UPLOAD_LIFE, reading).await.unwrap_or(Err(NotTaken::Stalled)) {
        Ok(files) => {
            let (all, digest) = (Arc::clone(uploads), session.digest());
            match spawn_blocking(move || all.put(digest, files, room)).await {
                Ok(()) => redirect(IMPORT_PATH),
                Err(_) => responses::internal(),
            }
        }
        Err(why) => refused(&why),
    }
}

/// Takes the room for files of the length that the request announces.
fn room(
    uploads: &Arc<Uploads>,
    session: &BrowserSession,
    connection: Option<&ConnectionState>,
    body: &Body,
) -> Result<Share, (StatusCode, &'static str)> {
    const LATER: &str = "Too many files are being sent or wait for their import. Import or remove \
                         yours, or try again later.";
    let Some(bytes) = body.size_hint().exact() else {
        let why = "The browser did not say how long the files are.";
        return Err((StatusCode::LENGTH_REQUIRED, why));
    };
    if bytes > MAX_UPLOAD_BYTES + MAX_FRAME_BYTES {
        let why = "The files have more than 256 MB. The command `stile import` takes larger ones.";
        return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let later = (StatusCode::TOO_MANY_REQUESTS, LATER);
    let session_name = stile_domain::hash::hex(&session.digest());
    let sender = Neighbour::stranger(&session.subject, &session_name);
    let room = uploads.room(&sender, bytes).map_err(|_| later)?;
    // From now on the body has the time of a known caller's.
    if let Some(connection) = connection {
        connection.admit(uploads.connections(), &sender).map_err(|_| later)?;
    }
    Ok(room)
}

/// Reads the form, and stores its files.
async fn read(
    uploads: &Arc<Uploads>,
    session: &BrowserSession,
    content_type: &str,
    mut body: Body,
) -> Result<Vec<StagedFile>, NotTaken> {
    let mut form = FormUpload::of_type(content_type)?;
    let mut is_own = false;
    let mut files = Vec::new();
    let mut incoming: Option<IncomingFile> = None;
    let mut unwritten = Vec::new();
    loop {
        let piece = timeout(STALL, body.frame()).await.map_err(|_| NotTaken::Stalled)?;
        let Some(piece) = piece else { break };
        let Ok(piece) = piece.map_err(|_| NotTaken::Stalled)?.into_data() else { continue };
        for event in form.feed(&piece)? {
            match event {
                FormEvent::Field { name, value } => {
                    is_own |= name == "csrf" && session.gave(&value);
                }
                FormEvent::File(_) if !is_own => return Err(NotTaken::Foreign),
                FormEvent::File(name) => incoming = Some(begin(uploads, name).await?),
                FormEvent::Bytes(bytes) => unwritten.extend(bytes),
                FormEvent::FileEnd => {
                    let last = written(incoming.take(), std::mem::take(&mut unwritten)).await?;
                    let last = last.ok_or(BadUpload::NoFile)?;
                    files.push(on_disk(move || last.finish()).await?);
                }
            }
        }
        if unwritten.len() >= WRITTEN_AT_ONCE {
            incoming = written(incoming, std::mem::take(&mut unwritten)).await?;
        }
    }
    form.finish()?;
    Ok(files)
}

async fn begin(uploads: &Arc<Uploads>, name: String) -> Result<IncomingFile, NotTaken> {
    let uploads = Arc::clone(uploads);
    on_disk(move || uploads.begin(&name)).await
}

async fn written(
    incoming: Option<IncomingFile>,
    bytes: Vec<u8>,
) -> Result<Option<IncomingFile>, NotTaken> {
    let Some(mut incoming) = incoming else { return Ok(None) };
    on_disk(move || incoming.write(&bytes).map(|()| Some(incoming))).await
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, NotTaken> {
    let done = spawn_blocking(work).await;
    Ok(done.unwrap_or_else(|_| Err(std::io::ErrorKind::Interrupted.into()))?)
}

fn refused(why: &NotTaken) -> Response<Body> {
    let response = match why {
        NotTaken::Foreign => signed_in::refused(),
        NotTaken::Bad(BadUpload::NoFile) => {
            not_taken(StatusCode::BAD_REQUEST, "No file was chosen.")
        }
        NotTaken::Bad(BadUpload::TooMany) => {
            not_taken(StatusCode::BAD_REQUEST, "A form takes 20 files at most.")
        }
        NotTaken::Bad(_) => not_taken(StatusCode::BAD_REQUEST, "The form could not be read."),
        NotTaken::Stalled => {
            not_taken(StatusCode::REQUEST_TIMEOUT, "The files did not arrive whole.")
        }
        NotTaken::Disk(error) => {
            tracing::error!(target: "stile::pages", %error, "a file could not be stored");
            let why = "The server could not store the files. Health says whether its disk is full.";
            not_taken(StatusCode::INSUFFICIENT_STORAGE, why)
        }
    };
    responses::closing(response)
}

fn not_taken(status: StatusCode, why: &str) -> Response<Body> {
    signed_in::plain(status, "Nothing was taken", &format!("{why} Nothing was stored."))
}
