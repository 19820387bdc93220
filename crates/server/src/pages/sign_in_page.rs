//! The page where the owner signs in, with a one-time code that `stile sign-in` prints.
//!
//! Opening the link does not spend the code: programs that preview links would. The button does.

use axum::body::Body;
use http::{Response, StatusCode};
use maud::html;

use super::browser_session::{self, BrowserSession};
use super::frame::{PageFrame, redirect};
use crate::sign_in::parameters::FormParameters;
use crate::sign_in::secret::digest_of;
use crate::sign_in::settings::AuthorizationServer;
use crate::sign_in::web_request::WebRequest;

/// The path of the page.
pub const SIGN_IN_PATH: &str = "/sign-in";
/// The path that ends a session.
pub const SIGN_OUT_PATH: &str = "/sign-out";
/// The longest path to return to, in bytes.
const MAX_RETURN_BYTES: usize = 512;

/// Shows the page, or what a session makes needless.
pub fn show(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let parameters = FormParameters::parse(&request.query).unwrap_or_default();
    let return_to = return_path(&parameters);
    if let Some(session) = BrowserSession::of(server, request)
        && parameters.get("code").is_none()
    {
        return match return_to {
            Some(path) => redirect(path),
            None => signed_in(&session),
        };
    }
    page(StatusCode::OK, parameters.get("code"), return_to, None)
}

/// Signs in with the code of the form.
pub fn sign_in(server: &AuthorizationServer, request: &WebRequest) -> Response<Body> {
    let form = request.form().and_then(|form| FormParameters::parse(form).ok());
    let form = form.unwrap_or_default();
    let return_to = return_path(&form);
    let refuse = |status, why| page(status, None, return_to, Some(why));
    if request.is_cross_site() {
        return refuse(StatusCode::FORBIDDEN, "The form is not from this page.");
    }
    if server.take_turn(&request.address).is_err() {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "Too many attempts. Wait a little.");
    }
    let code = form.get("code").unwrap_or_default();
    let spent = server.tokens().spend_link(&digest_of(code), server.now());
    match spent {
        Ok(Some(subject)) => {
            let response = redirect(return_to.unwrap_or(SIGN_IN_PATH));
            browser_session::open(server, request, &subject, response).unwrap_or_else(|| {
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "The server could not write its state.")
            })
        }
        Ok(None) => refuse(
            StatusCode::FORBIDDEN,
            "The code is wrong, used, or older than ten minutes. Make another with stile sign-in.",
        ),
        Err(error) => {
            tracing::error!(target: "stile::sign_in", %error, "a code could not be looked up");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "The server could not read its state.")
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
    let is_own = |path: &&str| {
        path.len() <= MAX_RETURN_BYTES
            && path.starts_with('/')
            && !path.starts_with("//")
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    parameters.get("return_to").filter(is_own)
}

fn page(
    status: StatusCode,
    code: Option<&str>,
    return_to: Option<&str>,
    problem: Option<&str>,
) -> Response<Body> {
    let body = html! {
        h1 { "Sign in" }
        @if let Some(problem) = problem { p.warning role="alert" { (problem) } }
        form method="post" action=(SIGN_IN_PATH) {
            @if let Some(path) = return_to {
                input type="hidden" name="return_to" value=(path);
            }
            @if let Some(code) = code {
                input type="hidden" name="code" value=(code);
                p { "This opens the owner's pages in this browser." }
            } @else {
                p {
                    "Run " code { "stile sign-in" } " in a terminal of the machine where Stile \
                     runs, and paste the code that it prints."
                }
                p {
                    label for="code" { "Code: " }
                    input id="code" name="code" autocomplete="one-time-code" required;
                }
            }
            p { button type="submit" { "Sign in" } }
        }
    };
    PageFrame::new("Sign in").respond(status, &body)
}

fn signed_in(session: &BrowserSession) -> Response<Body> {
    let body = html! {
        h1 { "You are signed in" }
        p {
            "If an application waits for you, go back to its page in this browser and reload the \
             page."
        }
        form method="post" action=(SIGN_OUT_PATH) {
            input type="hidden" name="csrf" value=(session.csrf_token());
            p { button type="submit" { "Sign out" } }
        }
    };
    PageFrame::new("Signed in").respond(StatusCode::OK, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

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
