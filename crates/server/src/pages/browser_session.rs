//! The owner's session in a browser: a cookie, and the proof that a form is from our own page.
//!
//! The cookie is `SameSite=Lax`, because the browser comes to the consent page from the client's
//! site. So a cookie alone changes nothing: each form carries a token that is made of the session's
//! secret, and the browser must not say that the form is another site's.
//!
//! *Source*: draft-ietf-httpbis-rfc6265bis, section 4.1.3; OWASP, "Cross-Site Request Forgery".

use axum::body::Body;
use http::header::{SET_COOKIE, USER_AGENT};
use http::{HeaderValue, Response};
use ring::digest::{SHA256, digest};
use stile_domain::base64;
use stile_domain::role::Role;
use stile_domain::scope::{Scope, Verb};
use stile_domain::sign_in::browser_name::browser_name;
use stile_store::state::{SecretDigest, StateError};

use crate::sign_in::parameters::FormParameters;
use crate::sign_in::secret::{RandomSecret, digest_of};
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// A session of the owner.
pub struct BrowserSession {
    /// The user who signed in.
    pub subject: String,
    /// The role of a person whom an identity provider signed in; `None` for the owner.
    pub role: Option<Role>,
    /// Whether the person is one of several who each own a space.
    pub is_one_of_people: bool,
    secret: String,
}

/// Returns the name of the cookie. Browsers accept `__Host-` only over TLS, for the whole host and
/// from the host itself.
fn cookie_name(request: &WebRequest) -> &'static str {
    if request.is_secure() { "__Host-stile" } else { "stile" }
}

impl BrowserSession {
    /// Returns the session of a request; `None` if there is none or it has ended.
    pub fn of(server: &AuthorizationServer, request: &WebRequest) -> Option<Self> {
        Self::found(server, request, |session| {
            let tokens = server.tokens();
            let user = tokens.session_user(session, server.now())?;
            if user.is_some() {
                let browser = browser_name(request.header(USER_AGENT).unwrap_or_default());
                tokens.note_session_place(session, &browser, &request.address)?;
            }
            Ok(user)
        })
    }

    /// Returns the session that sent a form from a page of its own, with the form; `None` for any
    /// other request.
    pub(super) fn with_form(
        server: &AuthorizationServer,
        request: &WebRequest,
    ) -> Option<(Self, FormParameters)> {
        let form = request.form().and_then(|form| FormParameters::parse(form).ok());
        let form = form.unwrap_or_default();
        let session = Self::of(server, request)?;
        session.sent(request, &form).then_some((session, form))
    }

    /// Returns the session of a request that a page makes by itself: it does not keep the session
    /// open.
    pub fn unused(server: &AuthorizationServer, request: &WebRequest) -> Option<Self> {
        Self::found(server, request, |session| {
            let open = server.tokens().sessions(server.now())?;
            let found = open.into_iter().find(|open| open.digest == *session);
            Ok(found.map(|open| open.subject))
        })
    }

    fn found(
        server: &AuthorizationServer,
        request: &WebRequest,
        user: impl FnOnce(&SecretDigest) -> Result<Option<String>, StateError>,
    ) -> Option<Self> {
        let secret = request.cookie(cookie_name(request))?.to_owned();
        let user = user(&digest_of(&secret));
        let user = user.unwrap_or_else(|error| {
            error.log("a session could not be looked up");
            None
        });
        let subject = user?;
        let role = match server.tokens().session_role(&digest_of(&secret)) {
            Ok(role) => role.map(|role| Role::from_claim(Some(&role))),
            Err(error) => {
                error.log("a role could not be read");
                return None;
            }
        };
        let is_one_of_people = server.settings.owners.are_people();
        // A server of one owner that runs on while its database gets people knows no session of
        // theirs from its owner's.
        if !is_one_of_people && !server.tokens().has_one_owner() {
            tracing::error!(target: "stile::sign_in", "the database has people: restart with --spaces");
            return None;
        }
        Some(Self { subject, role, is_one_of_people, secret })
    }

    /// Returns whether the person is the one owner of everything here.
    pub fn owns_all(&self) -> bool {
        self.role.is_none() && !self.is_one_of_people
    }

    /// Returns whether the person sees and ends what others approved. Where each person owns a
    /// space, nobody does, whatever the role.
    pub fn administers(&self) -> bool {
        !self.is_one_of_people && matches!(self.role, None | Some(Role::Admin))
    }

    /// Returns whether the person may let a client do this. Who may only read lets clients only
    /// read. The owner of a space may let clients do everything there.
    pub fn may_approve(&self, scope: &Scope) -> bool {
        match self.role {
            _ if self.is_one_of_people => true,
            None | Some(Role::Admin | Role::Editor) => true,
            Some(Role::Viewer | Role::Evaluator) => matches!(scope.verb(), Verb::Read | Verb::Deny),
        }
    }

    /// Returns what the state holds of the session's secret. It names the session to the server.
    pub fn digest(&self) -> SecretDigest {
        digest_of(&self.secret)
    }

    /// Returns the token that each form of the session carries.
    pub fn csrf_token(&self) -> String {
        let text = format!("form of {}", self.secret);
        base64::url_safe(digest(&SHA256, text.as_bytes()))
    }

    /// Returns whether a form is from a page of this session.
    pub fn sent(&self, request: &WebRequest, form: &FormParameters) -> bool {
        !request.is_cross_site() && form.get("csrf").is_some_and(|token| self.gave(token))
    }

    /// Returns whether the token of a form is that of this session.
    pub fn gave(&self, token: &str) -> bool {
        // Hashes are compared, so the time of the comparison tells nothing about the token.
        digest_of(token) == digest_of(&self.csrf_token())
    }

    /// Ends the session, and returns the response with the order to forget the cookie.
    pub fn close(
        &self,
        server: &AuthorizationServer,
        request: &WebRequest,
        response: Response<Body>,
    ) -> Response<Body> {
        if let Err(error) = server.tokens().close_session(&digest_of(&self.secret)) {
            error.log("a session could not be ended");
        }
        with_cookie(response, request, "", 0)
    }
}

/// Opens a session for a person whom an identity provider signed in, as [`open`] does.
///
/// # Errors
/// [`StateError`] if the state cannot be written; it is logged.
pub fn open_for_person(
    server: &AuthorizationServer,
    request: &WebRequest,
    (subject, role): (&str, Role),
    response: Response<Body>,
) -> Result<Response<Body>, StateError> {
    open_with(server, request, subject, response, |session| {
        server.tokens().set_session_role(session, role.as_str())
    })
}

/// Opens a session for a user who has proved who they are, and returns the response with its
/// cookie.
///
/// # Errors
/// [`StateError`] if the state cannot be written; it is logged.
pub fn open(
    server: &AuthorizationServer,
    request: &WebRequest,
    subject: &str,
    response: Response<Body>,
) -> Result<Response<Body>, StateError> {
    open_with(server, request, subject, response, |_| Ok(()))
}

fn open_with(
    server: &AuthorizationServer,
    request: &WebRequest,
    subject: &str,
    response: Response<Body>,
    complete: impl FnOnce(&SecretDigest) -> Result<(), StateError>,
) -> Result<Response<Body>, StateError> {
    let secret = RandomSecret::draw().map_err(|_| StateError::Random)?;
    let digest = secret.digest();
    // The cookie is sent last, so nobody has a session without its role.
    let opened = server.tokens().open_session(&digest, subject, server.now());
    let opened = opened.and_then(|()| complete(&digest));
    if let Err(error) = opened {
        error.log("a session could not be opened");
        return Err(error);
    }
    let age = stile_store::state::SESSION_SECONDS;
    Ok(with_cookie(response, request, secret.reveal(), age))
}

fn with_cookie(
    mut response: Response<Body>,
    request: &WebRequest,
    value: &str,
    seconds: i64,
) -> Response<Body> {
    let secure = if request.is_secure() { "; Secure" } else { "" };
    let cookie = format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}",
        cookie_name(request)
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
