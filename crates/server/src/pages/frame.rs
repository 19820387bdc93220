//! The frame, the style and the headers of every page.
//!
//! No page loads anything from elsewhere or shows inside of another page. The only scripts are this
//! server's own: one for passkeys, and one for the rest, such as times in the reader's zone. Every
//! page works without the second. A form goes to this server; only the consent page names one more
//! target, because browsers apply `form-action` to the redirect that follows.
//!
//! *Source*: Content Security Policy Level 3; RFC 9700, section 4.16.

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use stile_store::state::StateError;

/// The path of the style sheet.
pub const STYLE_PATH: &str = "/pages/style.css";
const STYLE: &str = include_str!("style.css");
/// The path of the script for passkeys.
pub const PASSKEY_SCRIPT_PATH: &str = "/pages/passkey.js";
const PASSKEY_SCRIPT: &str = include_str!("passkey.js");
/// The path of the script that shows times in the reader's zone.
pub const PAGE_SCRIPT_PATH: &str = "/pages/page.js";
const PAGE_SCRIPT: &str = include_str!("page.js");
/// The picture of the program, which the header shows.
pub(super) const MARK: &str = include_str!("../mcp/icon.svg");
/// The decision that only shows what the choices open.
pub const SHOW: &str = "show";
/// The path that leads a signed-in person to the first page, and a visitor to the sign-in.
pub const OWNER_PATH: &str = "/owner";
/// The path of the page that shows who may do what.
pub const ACCESS_PATH: &str = "/owner/clients";
/// The path of the page that changes what a client may do, and of its form.
pub const EDIT_PATH: &str = "/owner/clients/edit";
/// The path of the page that shows what the owner signs in with.
pub const ACCOUNT_PATH: &str = "/owner/account";
/// The path of the page that tells what was done.
pub const ACTIVITY_PATH: &str = "/owner/activity";
/// The path of the page that shows what one call changed.
pub const CALL_PATH: &str = "/owner/activity/call";
/// The path of the calls that come while that page is open.
pub const LIVE_PATH: &str = "/owner/activity/live";
/// The path of what browsers read to install the page as an application.
pub const MANIFEST_PATH: &str = "/pages/app.webmanifest";
const MANIFEST: &str = include_str!("app.webmanifest");
/// The path of the page that shows the design.
pub const DESIGN_PATH: &str = "/pages/design";
/// The path of the mark of the program.
pub const ICON_PATH: &str = "/pages/icon.svg";
/// The path of the page that shows a folder.
pub const FILES_PATH: &str = "/owner/files";
/// The path of the page that shows a file, and of the form that gives back a version.
pub const FILE_PATH: &str = "/owner/file";
/// The path of the page that plans an undo, and of the form that carries it out.
pub const UNDO_PATH: &str = "/owner/undo";
/// The path of the page that connects a client.
pub const CONNECT_PATH: &str = "/owner/connect";
/// The path of the form that makes a token.
pub const MAKE_TOKEN_PATH: &str = "/owner/connect/token";
/// Where the form goes that makes a token for an import.
pub const MAKE_IMPORT_TOKEN_PATH: &str = "/owner/connect/import-token";
/// The path of the page that makes a grant on records, and of its form.
pub const GRANT_PATH: &str = "/owner/grant";
/// The path of the page that shows what records there are.
pub const RECORDS_PATH: &str = "/owner/records";
/// The path of the page that imports a file, and of the form that sends one.
pub const IMPORT_PATH: &str = "/owner/import";
/// The path of how far an import is.
pub const IMPORT_PROGRESS_PATH: &str = "/owner/import/progress";
/// The path of the form that begins an import.
pub const STORE_IMPORT_PATH: &str = "/owner/import/store";
/// The path of the form that forgets a file that was sent.
pub const FORGET_IMPORT_PATH: &str = "/owner/import/forget";
/// The path of the page that shows how the server is.
pub const HEALTH_PATH: &str = "/owner/health";
/// The path of the form that copies the state.
pub const BACKUP_PATH: &str = "/owner/health/backup";
/// The path of how far a backup is.
pub const BACKUP_PROGRESS_PATH: &str = "/owner/health/backup/progress";
/// The path of the page on which a visitor signs in.
pub const SIGN_IN_PATH: &str = "/sign-in";
/// The path that ends a session.
pub const SIGN_OUT_PATH: &str = "/sign-out";

/// Which pages a signed-in person has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesOf {
    /// Those of the one owner of a space.
    Owner,
    /// Those of a person among several: what the person approved, and the sign-in.
    Person,
}

/// The pages of the navigation.
const PAGES: [(&str, &str, PagesOf); 8] = [
    (ACCESS_PATH, "Clients", PagesOf::Person),
    (ACTIVITY_PATH, "Activity", PagesOf::Owner),
    (FILES_PATH, "Files", PagesOf::Owner),
    (RECORDS_PATH, "Records", PagesOf::Owner),
    (CONNECT_PATH, "Connect", PagesOf::Owner),
    (IMPORT_PATH, "Import", PagesOf::Owner),
    (HEALTH_PATH, "Health", PagesOf::Owner),
    (ACCOUNT_PATH, "Signing in", PagesOf::Person),
];

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// The frame of one page.
pub struct PageFrame<'a> {
    title: &'a str,
    form_target: Option<String>,
    navigation: Option<Navigation<'a>>,
    scripts: Vec<&'static str>,
}

/// The navigation of a signed-in person.
struct Navigation<'a> {
    csrf_token: String,
    path: &'a str,
    pages: PagesOf,
}

impl<'a> PageFrame<'a> {
    /// Makes the frame of a page with this title.
    pub fn new(title: &'a str) -> Self {
        Self { title, form_target: None, navigation: None, scripts: Vec::new() }
    }

    /// Shows the navigation of a signed-in person on the page at `path`. `csrf_token` is for the
    /// form that signs out.
    #[must_use]
    pub fn with_navigation(mut self, path: &'a str, csrf_token: String, pages: PagesOf) -> Self {
        self.scripts.push(PAGE_SCRIPT_PATH);
        Self { navigation: Some(Navigation { csrf_token, path, pages }), ..self }
    }

    /// Lets the page show what its form would do while its reader chooses.
    #[must_use]
    pub fn with_page_script(mut self) -> Self {
        self.scripts.push(PAGE_SCRIPT_PATH);
        self
    }

    /// Lets the page ask for a passkey, with the script of this server.
    #[must_use]
    pub fn with_passkey_script(mut self) -> Self {
        self.scripts.push(PASSKEY_SCRIPT_PATH);
        self
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
                    link rel="icon" href=(ICON_PATH) type="image/svg+xml";
                    link rel="manifest" href=(MANIFEST_PATH);
                    meta name="theme-color" content="#4f6b3a";
                    @for script in &self.scripts { script src=(script) defer {} }
                }
                body {
                    @if self.navigation.is_some() {
                        a class="skip" href="#main" { "Skip to the content" }
                    }
                    header { div { (self.header()) } }
                    main id="main" { (body) }
                }
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
            (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
            (PERMISSIONS_POLICY, "camera=(), geolocation=(), microphone=(), payment=()"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn header(&self) -> Markup {
        let name = html! { (PreEscaped(MARK)) span { "Stile" } };
        html! {
            @match &self.navigation {
                None => span.name { (name) },
                Some(Navigation { csrf_token, path: here, pages }) => {
                    a.name href=(ACCESS_PATH) { (name) }
                    form method="post" action=(SIGN_OUT_PATH) {
                        (csrf_field(csrf_token))
                        button.link type="submit" { "Sign out" }
                    }
                    nav aria-label="Pages" {
                        @for (path, name, of) in PAGES {
                            @if of == PagesOf::Person || *pages == PagesOf::Owner {
                                a href=(path) aria-current=[(path == *here).then_some("page")] {
                                    (name)
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn policy(&self) -> String {
        // A target with a space or a semicolon would be more than one target.
        let is_one = |target: &&String| !target.contains([' ', ';', ',']);
        let target = self.form_target.as_ref().filter(is_one);
        let target = target.map(|target| format!(" {target}")).unwrap_or_default();
        let script = match self.scripts.is_empty() {
            true => "",
            false => "script-src 'self'; connect-src 'self'; ",
        };
        format!(
            "default-src 'none'; {script}style-src 'self'; img-src 'self'; manifest-src \
             'self'; form-action 'self'{target}; frame-ancestors 'none'; base-uri 'none'"
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

/// Returns the hidden field that proves that a form is from a page of the session.
pub fn csrf_field(csrf_token: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf_token); }
}

/// Returns the style sheet.
pub fn style() -> Response<Body> {
    file("text/css; charset=utf-8", STYLE)
}

/// Returns the script that shows times in the reader's zone.
pub fn page_script() -> Response<Body> {
    file("text/javascript; charset=utf-8", PAGE_SCRIPT)
}

/// Returns what browsers read to install the page as an application.
pub fn manifest() -> Response<Body> {
    file("application/manifest+json", MANIFEST)
}

/// Returns the mark of the program.
pub fn icon() -> Response<Body> {
    file("image/svg+xml", MARK)
}

/// Returns the script for passkeys.
pub fn passkey_script() -> Response<Body> {
    file("text/javascript; charset=utf-8", PASSKEY_SCRIPT)
}

fn file(media_type: &'static str, content: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Returns the status of a page whose state fails.
pub(super) fn state_status(error: &StateError) -> StatusCode {
    match error.passes() {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(frame: &PageFrame<'_>) -> String {
        let response = frame.respond(StatusCode::OK, &html! {});
        response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_policy_allows_what_a_page_needs_and_no_more() {
        assert_eq!(
            policy(&PageFrame::new("Sign in")),
            "default-src 'none'; style-src 'self'; img-src 'self'; manifest-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert!(
            policy(&PageFrame::new("").with_passkey_script()).contains("; script-src 'self'; ")
        );
        let with_target = |target: &str| PageFrame::new("").with_form_target(target.to_owned());
        let consent = policy(&with_target("https://claude.ai"));
        assert!(consent.contains("form-action 'self' https://claude.ai; "), "{consent}");
        for target in ["https://a; script-src *", "https://a https://b", "a,b"] {
            assert!(policy(&with_target(target)).contains("form-action 'self'; "), "{target}");
        }
    }

    #[tokio::test]
    async fn a_title_is_text_and_not_markup() {
        let response = PageFrame::new("<script>").respond(StatusCode::OK, &html! {});
        let page = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "{page}");
    }
}
