//! The page for a person who opens the address of the server in a browser.
//!
//! Strangers see the page, so it says what every visitor may know: what this is, how a client is
//! connected, and where the owner signs in.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use maud::{Markup, html};

use super::accept::Accepted;
use super::metadata::{self, MCP_PATH, ROOT_PATH};
use super::options::HttpOptions;
use crate::pages::frame::{OWNER_PATH, PageFrame};

/// What the page says of this server.
#[derive(Clone, Debug)]
pub(super) struct StartPage {
    public_url: Option<Arc<str>>,
    content: Content,
    sign_in: SignIn,
}

/// What clients reach through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Files, notes and records of this server.
    Own,
    /// Notes of another server, through a gateway.
    NotesElsewhere,
}

/// How a client gets a token.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SignIn {
    /// The client asks the owner on the pages of this server.
    Here,
    /// Other servers issue the tokens.
    At(Arc<[String]>),
    /// The owner makes tokens on the command line.
    ByCommand,
}

impl StartPage {
    /// Makes the page of a server. `has_space` is `false` for a gateway.
    pub(super) fn new(options: &HttpOptions, has_space: bool) -> Self {
        let sign_in = match (&options.sign_in, &*options.authorization_servers) {
            (Some(_), _) => SignIn::Here,
            (None, []) => SignIn::ByCommand,
            (None, issuers) => SignIn::At(issuers.into()),
        };
        Self {
            public_url: options.public_url.as_deref().map(Into::into),
            content: if has_space { Content::Own } else { Content::NotesElsewhere },
            sign_in,
        }
    }

    /// Returns whether a browser sent a request to look at the address.
    pub(super) fn is_asked_for(&self, request: &Request<Body>) -> bool {
        let looks = [Method::GET, Method::HEAD].contains(request.method());
        looks && Accepted::of(request.headers()).page
    }

    /// Returns the page.
    pub(super) fn show(&self, request: Request<Body>) -> Response<Body> {
        let (parts, _) = request.into_parts();
        PageFrame::new("Agents in your files").respond(StatusCode::OK, &self.body(&parts))
    }

    /// Answers at an address at which there is nothing: a browser with a page, others as
    /// [`metadata::nothing_here`] does.
    pub(super) fn nothing_here(&self, request: Request<Body>) -> Response<Body> {
        let is_asked_for = self.is_asked_for(&request);
        let (parts, _) = request.into_parts();
        let origin = metadata::origin(self.public_url.as_deref(), &parts);
        if !is_asked_for {
            return metadata::nothing_here(&origin);
        }
        let title = "There is no such page";
        let content = html! {
            h1 { (title) }
            p { "There is nothing at this address." }
            p { "A client takes the address " code { (origin) (MCP_PATH) } "." }
            @if self.sign_in == SignIn::Here {
                p { a class="button" href=(OWNER_PATH) { "Open your page" } }
            } @else {
                p { a href=(ROOT_PATH) { "To the first page" } }
            }
        };
        PageFrame::new(title).respond(StatusCode::NOT_FOUND, &content)
    }

    fn body(&self, parts: &Parts) -> Markup {
        let origin = metadata::origin(self.public_url.as_deref(), parts);
        html! {
            h1 { "Stile lets agents in, as far as you say" }
            @match self.content {
                Content::Own => p {
                    "AI agents reach files, notes and records here, as far as their owner allows. \
                     The owner sees what they did, and takes it back."
                },
                Content::NotesElsewhere => p {
                    "This gateway of Stile lets AI agents read notes that another server has, as \
                     far as their roles allow. Agents connect with the Model Context Protocol \
                     (MCP)."
                },
            }
            @if self.sign_in == SignIn::Here {
                p {
                    a class="button" href=(OWNER_PATH) { "Open your page" }
                }
            }
            h2 { "Connect a client" }
            p { "Give your client this address: " code { (origin) (MCP_PATH) } }
            @match &self.sign_in {
                SignIn::Here => {
                    p {
                        "The client speaks the Model Context Protocol (MCP). It opens a page of \
                         this server, on which the owner decides what it may do."
                    }
                }
                SignIn::At(issuers) => p {
                    "The client then signs you in at "
                    @for (at, issuer) in issuers.iter().enumerate() {
                        @if at > 0 { " or " }
                        code { (issuer) }
                    }
                    "."
                },
                SignIn::ByCommand => p {
                    "The client needs a token. The owner makes one on the command line, with "
                    code { "stile token" } "."
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(options: &HttpOptions, has_space: bool) -> String {
        let page = StartPage::new(options, has_space);
        let request = Request::get("/").header("host", "localhost:8080").body(()).unwrap();
        page.body(&request.into_parts().0).into_string()
    }

    #[test]
    fn the_page_says_only_what_is_true_of_the_server() {
        let by_command = text(&HttpOptions::default(), true);
        assert!(by_command.contains("http://localhost:8080/mcp"), "{by_command}");
        assert!(by_command.contains("stile token") && !by_command.contains(OWNER_PATH));
        let with_pages =
            HttpOptions { sign_in: Some(axum::Router::new()), ..HttpOptions::default() };
        let here = text(&with_pages, true);
        assert!(here.contains(OWNER_PATH) && !here.contains("stile token"), "{here}");
        let hosted = HttpOptions {
            authorization_servers: vec!["https://id.example/<a>".to_owned()],
            public_url: Some("https://notes.example.org/".to_owned()),
            ..HttpOptions::default()
        };
        let elsewhere = text(&hosted, false);
        assert!(elsewhere.contains("gateway") && !elsewhere.contains(OWNER_PATH), "{elsewhere}");
        assert!(elsewhere.contains("https://notes.example.org/mcp"), "{elsewhere}");
        assert!(elsewhere.contains("https://id.example/&lt;a&gt;"), "{elsewhere}");
    }
}
