//! What the pages of a signed-in person share: who is there, the frame, forms, and failures.

use std::sync::Arc;

use axum::body::Body;
use http::{Response, StatusCode};
use maud::{Markup, html};
use stile_domain::percent::encode_component;
use stile_domain::records::problem::Problem;
use stile_store::state::StateError;

use super::browser_session::BrowserSession;
use super::frame::{ACCESS_PATH, PageFrame, PagesOf, SIGN_IN_PATH, redirect, state_status};
use super::sign_in_methods::sentence;
use crate::owned_space::OwnedSpace;
use crate::people::Person;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::secret::RandomSecret;
use crate::sign_in::settings::{AuthorizationServer, Owners};
use crate::sign_in::web_request::WebRequest;

/// The cookie in which the script of the page says how many minutes its reader is ahead of UTC.
const ZONE_COOKIE: &str = "stile-zone";
/// The most minutes that a zone is ahead of UTC or behind it.
const MAX_ZONE_MINUTES: i64 = 14 * 60;

/// The field with the number of a form that makes something once.
const ONCE_FIELD: &str = "once";
const USED: &str = "This form was sent before, and what it makes was made then. Nothing was made \
                    now. Open the page anew to make another one.";

const BAD_ADDRESS: &str = "The address of the page cannot be read: a part of it is no text, is \
                           there twice, or is too long.";

/// Why a page cannot be shown or changed.
#[derive(Debug)]
pub(super) enum PageError {
    /// The state fails.
    State(StateError),
    /// The records, the journal or the history fail. The log has the reason.
    Failed,
    /// There is nothing like this here, or not for this person.
    Absent(&'static str),
    /// What the form says cannot be done, with the reason for the owner.
    Refused(String),
    /// The records cannot be used at this moment, with the reason.
    NotNow(String),
}

impl From<StateError> for PageError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl PageError {
    /// Logs why something cannot be used.
    pub(super) fn logged(error: &impl std::fmt::Display) -> Self {
        tracing::error!(target: "stile::pages", %error, "a page could not be shown");
        Self::Failed
    }

    /// Says why records cannot be used. What may pass a moment later says so, and is not logged.
    pub(super) fn of_records(problem: &Problem) -> Self {
        match problem.code().1 {
            503 => Self::NotNow(sentence(problem)),
            _ => Self::logged(problem),
        }
    }
}

/// A request of a signed-in person for a page.
pub(super) struct Visit<'a> {
    pub(super) server: &'a AuthorizationServer,
    pub(super) session: &'a BrowserSession,
    /// The parameters of the query, or of the form.
    pub(super) parameters: &'a FormParameters,
    /// The origin under which the browser reaches the server.
    pub(super) origin: &'a str,
    /// The time in UTC seconds.
    pub(super) now: i64,
    /// How many minutes the clock of the reader is ahead of UTC, as the script of the page says; 0
    /// without it.
    pub(super) zone_minutes: i64,
    /// What the person has, where each person has a space.
    person: Option<Arc<Person>>,
}

impl<'a> Visit<'a> {
    /// Returns the space that the person owns.
    pub(super) fn owned(&self) -> Option<&OwnedSpace> {
        match &self.server.settings.owners {
            Owners::One { space, .. } => space.as_deref().filter(|_| self.session.owns_all()),
            Owners::Each(_) => self.person.as_ref()?.owned.as_ref(),
        }
    }

    /// Returns the space that the person owns.
    ///
    /// # Errors
    /// [`PageError::Absent`] for anybody else.
    pub(super) fn owner_space(&self) -> Result<&OwnedSpace, PageError> {
        self.owned().ok_or(PageError::Absent("This page is for the owner of a space."))
    }

    /// Returns the records that the person owns or administers.
    pub(super) fn records(&self) -> Option<OwnedRecords> {
        let may_see = self.session.administers() || self.session.is_one_of_people;
        self.server.settings.owners.records_of(&self.session.subject).filter(|_| may_see)
    }

    /// Returns a parameter, or an empty text.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.parameters.get(name).unwrap_or_default()
    }

    /// Returns the number of the first row of a list that goes on from another page.
    pub(super) fn first_row(&self) -> usize {
        self.text("from").parse().unwrap_or_default()
    }

    /// Returns the field that proves that a form is from this page.
    pub(super) fn csrf_field(&self) -> Markup {
        super::frame::csrf_field(&self.session.csrf_token())
    }

    /// Returns the field with the number of a form that makes something once.
    pub(super) fn once_field() -> Markup {
        let number = RandomSecret::draw();
        html! {
            @if let Ok(number) = &number {
                input type="hidden" name=(ONCE_FIELD) value=(number.reveal());
            }
        }
    }

    /// Makes what a form asks for, unless the form made it before. A form whose work fails can be
    /// sent again.
    pub(super) fn once<T>(
        &self,
        make: impl FnOnce() -> Result<T, PageError>,
    ) -> Result<T, PageError> {
        let (used, number) = (&self.server.used_forms, self.text(ONCE_FIELD));
        if number.is_empty() {
            return make();
        }
        if !used.add(number) {
            return Err(PageError::Refused(USED.to_owned()));
        }
        make().inspect_err(|_| used.remove(number))
    }

    /// Returns the frame of a page.
    pub(super) fn frame<'t>(&self, title: &'t str, path: &'t str) -> PageFrame<'t> {
        let pages = match self.owned() {
            Some(_) => PagesOf::Owner,
            None => PagesOf::Person,
        };
        PageFrame::new(title).with_navigation(path, self.session.csrf_token(), pages)
    }
}

/// Shows a page at `path`, or sends a browser without a session to sign in first.
pub(super) fn show(
    server: &AuthorizationServer,
    request: &WebRequest,
    (path, title): (&str, &str),
    content: impl FnOnce(&Visit<'_>) -> Result<Markup, PageError>,
) -> Response<Body> {
    let Some(session) = BrowserSession::of(server, request) else {
        let here = match request.query.as_str() {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        };
        return redirect(&format!("{SIGN_IN_PATH}?return_to={}", encode_component(&here)));
    };
    let Ok(parameters) = FormParameters::parse(&request.query) else {
        return failed(&PageError::Refused(BAD_ADDRESS.to_owned()));
    };
    let visit = visit(server, request, &session, &parameters);
    match content(&visit) {
        Ok(content) => visit.frame(title, path).respond(StatusCode::OK, &content),
        Err(error) => failed(&error),
    }
}

/// Answers a request that the script of a page makes by itself, which is no use of the session.
/// Without a session there is nothing.
pub(super) fn look(
    server: &AuthorizationServer,
    request: &WebRequest,
    answer: impl FnOnce(&Visit<'_>) -> Result<Response<Body>, PageError>,
) -> Response<Body> {
    let Some(session) = BrowserSession::unused(server, request) else { return refused() };
    let parameters = FormParameters::parse(&request.query).unwrap_or_default();
    answer(&visit(server, request, &session, &parameters)).unwrap_or_else(|error| failed(&error))
}

/// What a form leads to.
pub(super) enum Outcome {
    /// The browser goes on to an address of this server.
    Redirect(String),
    /// A page answers.
    Page(Markup),
}

/// Carries out a form of a session. A page that answers has the title and is in the place of the
/// page at `path`.
pub(super) fn change(
    server: &AuthorizationServer,
    request: &WebRequest,
    (path, title): (&str, &str),
    change: impl FnOnce(&Visit<'_>) -> Result<Outcome, PageError>,
) -> Response<Body> {
    let Some((session, form)) = BrowserSession::with_form(server, request) else {
        return refused();
    };
    let visit = visit(server, request, &session, &form);
    match change(&visit) {
        Ok(Outcome::Redirect(location)) => redirect(&location),
        Ok(Outcome::Page(content)) => visit.frame(title, path).respond(StatusCode::OK, &content),
        Err(error) => failed(&error),
    }
}

/// Lets `check` decide about a request whose body is not read yet. Without a session there is
/// nothing.
pub(super) fn check<T>(
    server: &AuthorizationServer,
    request: &WebRequest,
    check: impl FnOnce(&Visit<'_>) -> Result<T, PageError>,
) -> Result<(BrowserSession, T), Box<Response<Body>>> {
    let session = BrowserSession::of(server, request).filter(|_| !request.is_cross_site());
    let Some(session) = session else { return Err(Box::new(refused())) };
    let parameters = FormParameters::default();
    let checked = check(&visit(server, request, &session, &parameters));
    checked.map(|checked| (session, checked)).map_err(|error| Box::new(failed(&error)))
}

fn visit<'a>(
    server: &'a AuthorizationServer,
    request: &'a WebRequest,
    session: &'a BrowserSession,
    parameters: &'a FormParameters,
) -> Visit<'a> {
    let person = match &server.settings.owners {
        Owners::One { .. } => None,
        // The log has the reason if the space cannot be opened.
        Owners::Each(people) => people.of(&session.subject).ok(),
    };
    let zone = request.cookie(ZONE_COOKIE).and_then(|zone| zone.parse::<i64>().ok());
    let zone_minutes = zone.filter(|zone| zone.abs() <= MAX_ZONE_MINUTES).unwrap_or_default();
    let (origin, now) = (request.origin.as_str(), server.now());
    Visit { server, session, parameters, origin, now, zone_minutes, person }
}

/// Refuses a form that is not from a page of the session.
pub(super) fn refused() -> Response<Body> {
    let why = "The form is not from this page, or the session has ended.";
    plain(StatusCode::FORBIDDEN, "Nothing was changed", why)
}

/// Says that a page cannot be shown, or that a form was not carried out.
pub(super) fn failed(error: &PageError) -> Response<Body> {
    let (status, title, why) = match error {
        PageError::State(error) => {
            error.log("a page could not use the state");
            (state_status(error), "The server failed", error.consequence())
        }
        PageError::Absent(why) => (StatusCode::NOT_FOUND, "There is no such page", *why),
        PageError::Refused(why) => (StatusCode::CONFLICT, "That is not possible", why.as_str()),
        PageError::NotNow(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, "Not at this moment", why.as_str())
        }
        PageError::Failed => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "The server failed",
            "It could not use its state. Load the page again to see what is true now.",
        ),
    };
    plain(status, title, why)
}

/// Says in a page of its own what did not happen, and why.
pub(super) fn plain(status: StatusCode, title: &str, why: &str) -> Response<Body> {
    let body = html! {
        h1 { (title) }
        p { (why) }
        p { a href=(ACCESS_PATH) { "Back to the page" } }
    };
    PageFrame::new(title).respond(status, &body)
}
