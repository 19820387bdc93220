//! The page where the owner signs in, and the one-time code that `stile sign-in` prints.
//!
//! Opening the link does not spend the code: programs that preview links would. The button does.
//! `sign_in_methods` takes passwords and passkeys.

use std::time::Instant;

use axum::body::Body;
use http::{Response, StatusCode};

use super::browser_session::{self, BrowserSession};
use super::frame::{ACCESS_PATH, PageFrame, redirect, state_status};
use super::sign_in_view::{PASSWORD_SET, SignInView};
use super::visitor::Visitor;
use super::waiting_path;
use crate::owner_sign_in::openid::MAX_RETURN_BYTES;
use crate::passkeys::RelyingParty;
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::secret::digest_of;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

pub use super::frame::{SIGN_IN_PATH, SIGN_OUT_PATH};

/// Shows the page, or what a session makes needless.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let parameters = FormParameters::parse(&request.query).unwrap_or_default();
    let return_to = return_path(&parameters);
    let code = parameters.get("code");
    if code.is_none() && BrowserSession::of(server, request).is_some() {
        return redirect(return_to.unwrap_or(ACCESS_PATH));
    }
    let shown = Shown { status: StatusCode::OK, code, return_to, problem: None };
    page(server, request, &shown)
}

/// Signs in with the code of the form.
pub fn sign_in(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    let form = form.unwrap_or_default();
    let return_to = return_path(&form);
    let refuse = |status, why| {
        page(server, request, &Shown { status, code: None, return_to, problem: Some(why) })
    };
    if request.is_cross_site() {
        return refuse(StatusCode::FORBIDDEN, "The form is not from this page.");
    }
    let code = digest_of(code_of(form.get("code").unwrap_or_default()));
    // A code cannot be guessed, so only wrong ones are counted: a flood from the owner's own
    // address does not keep the owner out.
    let is_known = server.tokens().has_link(&code).unwrap_or(true);
    if !is_known && server.take_turn(&request.address).is_err() {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "Too many attempts. Wait a little.");
    }
    match server.tokens().spend_link(&code, server.now()) {
        Ok(Some(subject)) => {
            let waiting = waiting_path::of(request);
            let waiting = waiting.as_deref().filter(|path| is_own_path(path));
            let response = redirect(return_to.or(waiting).unwrap_or(ACCESS_PATH));
            let response = waiting_path::forget(request, response);
            browser_session::open(server, request, &subject, response)
                .unwrap_or_else(|error| refuse(state_status(&error), error.consequence()))
        }
        Ok(None) => refuse(
            StatusCode::FORBIDDEN,
            "The code is wrong, used, or older than ten minutes. Make another with stile sign-in.",
        ),
        Err(error) => {
            error.log("a code could not be looked up");
            refuse(state_status(&error), error.consequence())
        }
    }
}

/// Ends the session of a browser that asks for it by our form.
pub fn sign_out(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    let form = form.unwrap_or_default();
    match BrowserSession::of(server, request) {
        Some(session) if session.sent(request, &form) => {
            session.close(server, request, redirect(SIGN_IN_PATH))
        }
        _ => redirect(SIGN_IN_PATH),
    }
}

/// Returns the path of this server to which a browser returns after signing in; `None` if the
/// parameter is absent or could lead elsewhere.
pub fn return_path(parameters: &FormParameters) -> Option<&str> {
    parameters.get("return_to").filter(|path| is_own_path(path))
}

/// Returns whether a text is a path of this server in every browser.
fn is_own_path(path: &str) -> bool {
    path.len() <= MAX_RETURN_BYTES
        && path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Returns the code that a person pasted: the code, or the link that has it.
fn code_of(pasted: &str) -> &str {
    let pasted = pasted.trim();
    match pasted.split_once("?code=") {
        Some((_, code)) => code.split(['&', '#']).next().unwrap_or_default(),
        None => pasted,
    }
}

/// What differs between two showings of the page.
pub(super) struct Shown<'a> {
    pub(super) status: StatusCode,
    /// The code of the link that was opened.
    pub(super) code: Option<&'a str>,
    /// The path that the visitor wanted.
    pub(super) return_to: Option<&'a str>,
    /// Why the last attempt failed.
    pub(super) problem: Option<&'a str>,
}

/// Returns the page, with a challenge for a passkey where browsers allow one.
pub(super) fn page(
    server: &AuthorizationServer,
    request: &WebRequest,
    &Shown { status, code, return_to, problem }: &Shown<'_>,
) -> Response<Body> {
    let provider = server.methods.provider.is_some();
    // What the owner does not have is not offered, and whether the state can be read is not asked:
    // a visitor then sees the way that always works.
    let tokens = server.tokens();
    let is_owned = !provider && !server.settings.owners.are_people();
    let password = is_owned && tokens.owner_password().is_ok_and(|password| password.is_some());
    let known = tokens.passkeys().unwrap_or_default();
    let has_passkey = |site: &RelyingParty| known.iter().any(|it| it.domain == site.domain());
    let site = RelyingParty::of_origin(&request.origin);
    let site = site.filter(|site| is_owned && has_passkey(site));
    // Only a challenge is bound to the browser.
    let visitor = site.as_ref().and_then(|_| Visitor::known_or_new(request));
    let asked = site.as_ref().zip(visitor.as_ref()).and_then(|(site, visitor)| {
        let passkeys = &server.methods.passkeys;
        passkeys.sign_in_challenge(site, visitor.binding(), Instant::now()).ok()
    });
    let passkey = asked.as_deref().zip(site.as_ref().map(RelyingParty::domain));
    let asked_with = FormParameters::parse(&request.query).unwrap_or_default();
    let is_password_set = password && asked_with.get("done") == Some(PASSWORD_SET);
    let view =
        SignInView { return_to, problem, is_password_set, code, provider, password, passkey };
    let body = view.markup();
    let frame = PageFrame::new("Sign in");
    let frame = if passkey.is_some() { frame.with_passkey_script() } else { frame };
    let response = frame.respond(status, &body);
    match visitor {
        Some(visitor) => visitor.remember(request, response),
        None => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_pasted_as_well_as_a_code() {
        assert_eq!(code_of(" abc-_1\n"), "abc-_1");
        assert_eq!(code_of("http://127.0.0.1:9999/sign-in?code=abc-_1"), "abc-_1");
        assert_eq!(code_of("https://a.example/sign-in?code=abc&x=1"), "abc");
        assert_eq!(code_of("https://a.example/sign-in"), "https://a.example/sign-in");
    }

    #[test]
    fn a_browser_returns_to_this_server_only() {
        let path = |value: &str| {
            let query = format!("return_to={}", stile_domain::percent::encode_component(value));
            return_path(&FormParameters::parse(&query).unwrap()).map(str::to_owned)
        };
        assert_eq!(path("/consent?request=a").as_deref(), Some("/consent?request=a"));
        for other in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "evil",
            "/a b",
            "/\u{e4}",
            "/a\r\nb",
            "javascript:alert(1)",
            &format!("/{}", "a".repeat(600)),
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
