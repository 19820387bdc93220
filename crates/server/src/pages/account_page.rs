//! The page that shows what the owner signs in with, and the forms that change it.

use std::time::Instant;

use axum::body::Body;
use http::{Response, StatusCode};
use stile_domain::hash::hex;
use stile_domain::owner_password::OwnerPassword;
use stile_domain::percent::encode_component;
use stile_store::state::{SecretDigest, StateError};

use super::account_view::{AccountView, PasskeyRow, SessionRow};
use super::browser_session::BrowserSession;
use super::frame::{ACCOUNT_PATH, PageFrame, PagesOf, SIGN_IN_PATH, redirect};
use super::sign_in_methods::{Guess, guess, sentence, sentence_start};
use super::sign_in_view::PASSWORD_SET;
use super::signed_in::{self, PageError, refused};
use crate::owner_sign_in::password;
use crate::passkeys::{
    PasskeyName, PasskeyRefused, Registration, RegistrationOptions, RelyingParty,
};
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::settings::{AuthorizationServer, Owners};
use crate::sign_in::web_request::WebRequest;

pub use super::account_view::{
    END_SESSION_PATH, END_SESSIONS_PATH, REGISTER_PATH, REMOVE_PASSKEY_PATH, SET_PASSWORD_PATH,
};

/// What the page says after a form: the word in the address and the sentence.
const NOTICES: [(&str, &str); 4] = [
    ("signed-out", "That browser is signed out, from its next request on."),
    ("registered", "The passkey is registered. It signs in from now on."),
    ("removed", "The passkey is removed. It signs in no longer."),
    ("gone", "There was nothing to change: it had ended already."),
];

/// Shows the page, or sends a browser without a session to sign in first.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let Some(session) = BrowserSession::of(server, request) else {
        return redirect(&format!("{SIGN_IN_PATH}?return_to={}", encode_component(ACCOUNT_PATH)));
    };
    let query = FormParameters::parse(&request.query).unwrap_or_default();
    let done = query.get("done").unwrap_or_default();
    let notice = NOTICES.iter().find(|(word, _)| *word == done).map(|(_, sentence)| *sentence);
    page(server, request, &session, StatusCode::OK, notice)
}

fn page(
    server: &AuthorizationServer,
    request: &WebRequest,
    session: &BrowserSession,
    status: StatusCode,
    notice: Option<&str>,
) -> Response<Body> {
    let csrf_token = session.csrf_token();
    let view = match view(server, request, session) {
        Ok(view) => AccountView { csrf_token: &csrf_token, notice, ..view },
        Err(error) => return failed(error),
    };
    let owns = match &server.settings.owners {
        Owners::One { space, .. } => space.is_some() && session.owns_all(),
        Owners::Each(_) => true,
    };
    let pages = if owns { PagesOf::Owner } else { PagesOf::Person };
    let frame =
        PageFrame::new("Signing in").with_navigation(ACCOUNT_PATH, session.csrf_token(), pages);
    let frame = if view.registration.is_some() { frame.with_passkey_script() } else { frame };
    frame.respond(status, &view.markup())
}

fn view<'a>(
    server: &AuthorizationServer,
    request: &WebRequest,
    session: &'a BrowserSession,
) -> Result<AccountView<'a>, StateError> {
    let tokens = server.tokens();
    // Passwords and passkeys are the one owner's. People sign in at their provider, or with a
    // link of the operator.
    let is_owner = session.owns_all();
    let passkeys = tokens.passkeys()?.into_iter().filter(|_| is_owner).map(|passkey| PasskeyRow {
        id: hex(&passkey.credential),
        name: passkey.name,
        site: passkey.domain,
        created: passkey.created,
        last_used: passkey.last_used,
    });
    let this = session.digest();
    let mut open = tokens.sessions(server.now())?;
    open.retain(|open| open.subject == session.subject);
    let sessions = open.into_iter().map(|open| SessionRow {
        began: open.created,
        last_used: open.used,
        is_this: open.digest == this,
        id: session_id(&open.digest),
        browser: match open.browser.as_str() {
            "" => "A browser that asked for no page yet".to_owned(),
            browser => sentence_start(browser),
        },
        address: open.address,
    });
    Ok(AccountView {
        csrf_token: "",
        now: server.now(),
        notice: None,
        is_owner,
        password_set: tokens.owner_password()?.map(|password| password.changed),
        passkeys: passkeys.collect(),
        registration: registration(server, request, session),
        owner_name: &session.subject,
        sessions: sessions.collect(),
    })
}

/// Returns what the browser needs to register a passkey, where browsers allow one.
fn registration(
    server: &AuthorizationServer,
    request: &WebRequest,
    session: &BrowserSession,
) -> Option<RegistrationOptions> {
    let site = RelyingParty::of_origin(&request.origin).filter(|_| session.owns_all())?;
    let passkeys = &server.methods.passkeys;
    passkeys.registration_options(&site, &session.digest(), Instant::now()).ok()
}

/// Registers the passkey that the browser made.
pub fn register(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let value = |name: &str| form.get(name).unwrap_or_default();
        let site = RelyingParty::of_origin(&request.origin).filter(|_| session.owns_all());
        let site = site.ok_or(PasskeyRefused::OtherSite)?;
        let name = PasskeyName::parse(value("name")).ok_or(PasskeyRefused::Malformed)?;
        let answer = Registration {
            client_data: value("client_data"),
            authenticator_data: value("authenticator_data"),
        };
        let (digest, times) = (session.digest(), (Instant::now(), server.now()));
        let owner = (&digest[..], session.subject.as_str());
        server.methods.passkeys.register(&site, owner, &answer, &name, times)?;
        Ok(format!("{ACCOUNT_PATH}?done=registered"))
    })
}

/// Removes the passkey whose identifier the form has.
pub fn remove_passkey(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let id = form.get("id").unwrap_or_default();
        let known = server.tokens().passkeys()?;
        let named =
            known.iter().find(|passkey| hex(&passkey.credential) == id && session.owns_all());
        let removed = match named {
            Some(passkey) => server.tokens().remove_passkey(&passkey.credential)?,
            None => false,
        };
        let done = if removed { "removed" } else { "gone" };
        Ok(format!("{ACCOUNT_PATH}?done={done}"))
    })
}

/// Returns what names a session in a form.
fn session_id(digest: &SecretDigest) -> String {
    hex(digest).get(..32).unwrap_or_default().to_owned()
}

/// Ends the session of the person that the form names.
pub fn end_session(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        let id = form.get("session").unwrap_or_default();
        let open = server.tokens().sessions(server.now())?;
        let named = open
            .iter()
            .find(|open| open.subject == session.subject && session_id(&open.digest) == id);
        let done = match named {
            Some(named) => {
                server.tokens().close_session(&named.digest)?;
                "signed-out"
            }
            None => "gone",
        };
        Ok(format!("{ACCOUNT_PATH}?done={done}"))
    })
}

/// Ends all sessions of the person, this one too.
pub fn end_sessions(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |_, session| {
        server.tokens().close_sessions_of(&session.subject)?;
        Ok(SIGN_IN_PATH.to_owned())
    })
}

/// Sets the owner's password. Who has one shows that by it. All browsers then sign in anew, this
/// one too.
pub fn set_password(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    change(server, request, |form, session| {
        if !session.owns_all() || server.methods.provider.is_some() {
            let why = "Only the one owner of a server has a password there.";
            return Err(Unchanged::Because(why.to_owned()));
        }
        let new = OwnerPassword::parse(form.get("new").unwrap_or_default())
            .map_err(|bad| Unchanged::Because(sentence(&bad)))?;
        if server.tokens().owner_password()?.is_some() {
            check_password(server, request, form.get("current").unwrap_or_default())?;
        }
        let stored = password::hash(&session.subject, &new, server.now()).map_err(|error| {
            tracing::error!(target: "stile::sign_in", %error, "a password could not be hashed");
            Unchanged::Because("The server could not store the password.".to_owned())
        })?;
        server.tokens().set_owner_password(&stored)?;
        server.tokens().close_all_sessions()?;
        Ok(format!("{SIGN_IN_PATH}?done={PASSWORD_SET}"))
    })
}

/// Refuses who does not know the password that is to be replaced.
fn check_password(
    server: &AuthorizationServer,
    request: &WebRequest,
    typed: &str,
) -> Result<(), Unchanged> {
    let why = match guess(server, request, typed) {
        Guess::Right(_) => return Ok(()),
        Guess::Wrong => "The present password is wrong; it stays.".to_owned(),
        Guess::TooSoon(wait) => {
            format!("Nothing was changed. Try again in {} seconds.", wait.as_secs() + 1)
        }
        Guess::Failed(error) => return Err(error.into()),
        Guess::Unusable => "The server could not check the password; it stays.".to_owned(),
    };
    Err(Unchanged::Because(why))
}

/// Why a form changed nothing.
enum Unchanged {
    /// The state fails.
    State(StateError),
    /// The page says this.
    Because(String),
}

impl From<StateError> for Unchanged {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<PasskeyRefused> for Unchanged {
    fn from(refused: PasskeyRefused) -> Self {
        match refused {
            PasskeyRefused::State(error) => Self::State(error),
            why => Self::Because(sentence(&why)),
        }
    }
}

/// Carries out a form of a session, and leads to the address that `change` returns.
fn change(
    server: &AuthorizationServer,
    request: &WebRequest,
    change: impl FnOnce(&FormParameters, &BrowserSession) -> Result<String, Unchanged>,
) -> Response<Body> {
    let Some((session, form)) = BrowserSession::with_form(server, request) else {
        return refused();
    };
    match change(&form, &session) {
        Ok(location) => redirect(&location),
        Err(Unchanged::State(error)) => failed(error),
        Err(Unchanged::Because(why)) => {
            page(server, request, &session, StatusCode::FORBIDDEN, Some(&why))
        }
    }
}

fn failed(error: StateError) -> Response<Body> {
    signed_in::failed(&PageError::State(error))
}
