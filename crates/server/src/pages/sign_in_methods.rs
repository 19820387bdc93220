//! Signs in with a password or with a passkey, as a form of the sign-in page sends them.
//!
//! A form of neither is offered where the owner has none, but an answer to one says the same
//! whether there is a password or not, and whether a passkey is known or not.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use axum::body::Body;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use stile_store::state::StateError;

use super::browser_session;
use super::frame::{ACCESS_PATH, redirect, state_status};
use super::sign_in_page::{Shown, page, return_path};
use super::visitor::Visitor;
use crate::owner_sign_in::openid::OpenIdAnswer;
use crate::owner_sign_in::password::{PasswordError, PasswordVerdict};
use crate::passkeys::{Assertion, PasskeyRefused, RelyingParty};
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

pub use super::sign_in_view::{CALLBACK_PATH, PASSKEY_PATH, PASSWORD_PATH, PROVIDER_PATH};

const NOT_FROM_THIS_PAGE: &str = "The form is not from this page.";
const WRONG_PASSWORD: &str = "The password is wrong, or there is none. A password is set on the \
                              page, or in a terminal with stile owner password.";

/// Signs in with the password of the form.
pub fn with_password(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = form_of(request);
    let refuse = |status, why: &str| refused(server, request, &form, status, why);
    // Where an identity provider signs people in, it alone says who they are. Where each person
    // has a space, the one owner's password and passkeys open none.
    if request.is_cross_site()
        || server.methods.provider.is_some()
        || server.settings.owners.are_people()
    {
        return refuse(StatusCode::FORBIDDEN, NOT_FROM_THIS_PAGE);
    }
    match guess(server, request, form.get("password").unwrap_or_default()) {
        Guess::Right(subject) => sign_in(server, request, &form, &subject),
        Guess::Wrong => refuse(StatusCode::FORBIDDEN, WRONG_PASSWORD),
        Guess::TooSoon(wait) => later(refuse, wait),
        Guess::Failed(error) => refuse(state_status(&error), error.consequence()),
        Guess::Unusable => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "The server could not check the password.")
        }
    }
}

/// What a password that somebody typed leads to.
pub(super) enum Guess {
    /// It is the password of this user.
    Right(String),
    /// It is another one, or there is none.
    Wrong,
    /// It was not looked at. The next may come after this time.
    TooSoon(Duration),
    /// The state fails.
    Failed(StateError),
    /// The stored password cannot be read. The log says so.
    Unusable,
}

/// Checks a password. Wrong ones delay the next of the same address.
pub(super) fn guess(server: &AuthorizationServer, request: &WebRequest, typed: &str) -> Guess {
    let methods = &server.methods;
    let address = address_of(request);
    if let Err(wait) = methods.attempts.begin(address, Instant::now()) {
        return Guess::TooSoon(wait);
    }
    // Handlers run on blocking threads, of which a hash may hold one.
    let checked = methods.passwords.check(typed.to_owned());
    match tokio::runtime::Handle::current().block_on(checked) {
        Ok(PasswordVerdict::Right(subject)) => {
            methods.attempts.succeed(address, Instant::now());
            Guess::Right(subject)
        }
        Ok(PasswordVerdict::Wrong) => {
            tracing::info!(target: "stile::sign_in", client = %address, "a password was wrong");
            Guess::Wrong
        }
        Err(PasswordError::Busy) => {
            methods.attempts.cancel(address);
            Guess::TooSoon(Duration::from_secs(2))
        }
        Err(PasswordError::State(error)) => {
            methods.attempts.cancel(address);
            error.log("a password could not be checked");
            Guess::Failed(error)
        }
        Err(error @ PasswordError::Unusable) => {
            methods.attempts.cancel(address);
            tracing::error!(target: "stile::sign_in", %error, "a password could not be checked");
            Guess::Unusable
        }
    }
}

/// Signs in with the answer of a passkey.
pub fn with_passkey(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = form_of(request);
    let refuse = |status, why: &str| refused(server, request, &form, status, why);
    if request.is_cross_site()
        || server.methods.provider.is_some()
        || server.settings.owners.are_people()
    {
        return refuse(StatusCode::FORBIDDEN, NOT_FROM_THIS_PAGE);
    }
    if server.take_turn(&request.address).is_err() {
        return later(refuse, Duration::from_secs(10));
    }
    let site = RelyingParty::of_origin(&request.origin);
    let (Some(site), Some(visitor)) = (site, Visitor::known(request)) else {
        return refuse(StatusCode::FORBIDDEN, "Load this page again and allow its cookie.");
    };
    let value = |name: &str| form.get(name).unwrap_or_default();
    let answer = Assertion {
        credential: value("credential"),
        client_data: value("client_data"),
        authenticator_data: value("authenticator_data"),
        signature: value("signature"),
        user_handle: value("user_handle"),
    };
    let times = (Instant::now(), server.now());
    match server.methods.passkeys.sign_in(&site, visitor.binding(), &answer, times) {
        Ok(subject) => sign_in(server, request, &form, &subject),
        Err(PasskeyRefused::State(error)) => {
            error.log("a passkey could not be looked up");
            refuse(state_status(&error), error.consequence())
        }
        Err(refused) => {
            tracing::info!(
                target: "stile::sign_in",
                client = %request.address,
                reason = %refused,
                "a passkey was refused"
            );
            refuse(StatusCode::FORBIDDEN, &sentence(&refused))
        }
    }
}

/// Leads the browser to the identity provider.
pub fn to_provider(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let query = FormParameters::parse(&request.query).unwrap_or_default();
    let refuse = |status, why: &str| refused(server, request, &query, status, why);
    if server.take_turn(&request.address).is_err() {
        return later(refuse, Duration::from_secs(10));
    }
    let visitor = Visitor::known_or_new(request);
    let (Some(provider), Some(visitor)) = (&server.methods.provider, visitor) else {
        return refuse(StatusCode::NOT_FOUND, "No identity provider signs people in here.");
    };
    let callback = format!("{}{CALLBACK_PATH}", request.origin);
    let return_to = return_path(&query).unwrap_or(ACCESS_PATH);
    let begun = provider.begin(&callback, visitor.binding(), return_to, Instant::now());
    match tokio::runtime::Handle::current().block_on(begun) {
        Ok(location) => visitor.remember(request, redirect(&location)),
        Err(error) => refuse(StatusCode::BAD_GATEWAY, &sentence(&error)),
    }
}

/// Signs in the person whom the identity provider sends back.
pub fn from_provider(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let query = FormParameters::parse(&request.query).unwrap_or_default();
    let refuse = |status, why: &str| refused(server, request, &query, status, why);
    let (Some(provider), Some(visitor)) = (&server.methods.provider, Visitor::known(request))
    else {
        return refuse(StatusCode::FORBIDDEN, "This sign-in did not begin in this browser.");
    };
    if server.take_turn(&request.address).is_err() {
        return later(refuse, Duration::from_secs(10));
    }
    let callback = format!("{}{CALLBACK_PATH}", request.origin);
    let answer = OpenIdAnswer {
        state: query.get("state").unwrap_or_default(),
        code: query.get("code"),
        iss: query.get("iss"),
    };
    let finished = provider.finish(&callback, visitor.binding(), answer, Instant::now());
    let person = match tokio::runtime::Handle::current().block_on(finished) {
        Ok(person) => person,
        Err(error) => return refuse(StatusCode::FORBIDDEN, &sentence(&error)),
    };
    let response = redirect(&person.return_to);
    let who = (person.subject.as_str(), person.role);
    browser_session::open_for_person(server, request, who, response)
        .unwrap_or_else(|error| refuse(state_status(&error), error.consequence()))
}

/// Opens a new session, whatever the browser had before, and leads to the page that was wanted.
fn sign_in(
    server: &AuthorizationServer,
    request: &WebRequest,
    form: &FormParameters,
    subject: &str,
) -> Response<Body> {
    let response = redirect(return_path(form).unwrap_or(ACCESS_PATH));
    browser_session::open(server, request, subject, response).unwrap_or_else(|error| {
        refused(server, request, form, state_status(&error), error.consequence())
    })
}

fn refused(
    server: &AuthorizationServer,
    request: &WebRequest,
    form: &FormParameters,
    status: StatusCode,
    why: &str,
) -> Response<Body> {
    let shown = Shown { status, code: None, return_to: return_path(form), problem: Some(why) };
    page(server, request, &shown)
}

/// Refuses an attempt until some time has passed.
fn later(refuse: impl Fn(StatusCode, &str) -> Response<Body>, wait: Duration) -> Response<Body> {
    let seconds = wait.as_secs().saturating_add(1);
    let why = format!(
        "Too many attempts. Try again in {seconds} s, or sign in with a code from the terminal."
    );
    let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, &why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn form_of(request: &WebRequest) -> FormParameters {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    form.unwrap_or_default()
}

/// Returns the address of the client. Clients without a known address count as one.
fn address_of(request: &WebRequest) -> IpAddr {
    request.address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Returns an error as a sentence.
pub(crate) fn sentence(error: &impl std::fmt::Display) -> String {
    sentence_start(&error.to_string()) + "."
}

/// Returns a text with a capital.
pub(super) fn sentence_start(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().map(char::to_uppercase).into_iter().flatten().collect();
    format!("{first}{}", characters.as_str())
}
