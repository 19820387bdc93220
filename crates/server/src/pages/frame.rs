//! The frame, the style and the headers of every page.
//!
//! No page runs a script, loads anything from elsewhere, or shows inside of another page. A form
//! goes to this server; only the consent page names one more target, because browsers apply
//! `form-action` to the redirect that follows.
//!
//! *Source*: Content Security Policy Level 3; RFC 9700, section 4.16.

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use maud::{DOCTYPE, Markup, html};

/// The path of the style sheet.
pub const STYLE_PATH: &str = "/pages/style.css";
const STYLE: &str = include_str!("style.css");

/// The frame of one page.
pub struct PageFrame<'a> {
    title: &'a str,
    form_target: Option<String>,
}

impl<'a> PageFrame<'a> {
    /// Makes the frame of a page with this title.
    pub fn new(title: &'a str) -> Self {
        Self { title, form_target: None }
    }

    /// Lets the forms of the page lead to another origin, too: `https://client.example`.
    #[must_use]
    pub fn with_form_target(self, origin: String) -> Self {
        Self { form_target: Some(origin), ..self }
    }

    /// Returns the page with its headers.
    pub fn respond(&self, status: StatusCode, body: &Markup) -> Response<Body> {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    title { (self.title) " · Stile" }
                    link rel="stylesheet" href=(STYLE_PATH);
                }
                body { main { (body) } }
            }
        };
        let mut response = Response::new(Body::from(page.into_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Ok(policy) = HeaderValue::from_str(&self.policy()) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        let fixed = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (X_FRAME_OPTIONS, "DENY"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // With `no-referrer`, browsers send `Origin: null` with a form.
            (REFERRER_POLICY, "same-origin"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn policy(&self) -> String {
        // A target with a space or a semicolon would be more than one target.
        let is_one = |target: &&String| !target.contains([' ', ';', ',']);
        let target = self.form_target.as_ref().filter(is_one);
        let target = target.map(|target| format!(" {target}")).unwrap_or_default();
        format!(
            "default-src 'none'; style-src 'self'; form-action 'self'{target}; \
             frame-ancestors 'none'; base-uri 'none'"
        )
    }
}

/// Sends the browser elsewhere, with GET.
pub fn redirect(location: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    match HeaderValue::from_str(location) {
        Ok(location) => {
            *response.status_mut() = StatusCode::SEE_OTHER;
            response.headers_mut().insert(LOCATION, location);
        }
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Returns the style sheet.
pub fn style() -> Response<Body> {
    let mut response = Response::new(Body::from(STYLE));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
