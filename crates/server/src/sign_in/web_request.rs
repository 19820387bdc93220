//! A request to a page or an endpoint of the authorization server, read whole.
//!
//! Handlers are functions from such a request to a response. They may use the disk, so they run on
//! a blocking thread.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::header::{CONTENT_TYPE, COOKIE};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use stile_domain::sign_in::source_network::source_network;
use tokio::time::timeout;

use super::parameters::{FormParameters, MAX_PARAMETER_BYTES};
use crate::http::peer::RequestOrigin;
use crate::http::{metadata, responses};

/// How long a request body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A request, read whole.
#[derive(Clone, Debug)]
pub struct WebRequest {
    /// The origin under which the client reaches the server, which is the issuer.
    pub origin: String,
    /// The query, without its question mark.
    pub query: String,
    /// The head of the request.
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Bytes,
    /// The address of the client, or of IPv6 its network: what limits count as one source.
    pub address: String,
}

impl WebRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The response to a body that is too long or does not arrive.
    pub async fn read(
        request: Request,
        public_url: Option<&str>,
    ) -> Result<Self, Box<Response<Body>>> {
        let (parts, body) = request.into_parts();
        let head = Self::without_body(parts, public_url);
        let body = Limited::new(body, MAX_PARAMETER_BYTES).collect();
        let refuse = |message| {
            let refused = responses::plain(StatusCode::BAD_REQUEST, "invalid_request", message);
            Box::new(responses::closing(refused))
        };
        let body = match timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return Err(refuse("the body is too long or broke off")),
            Err(_) => return Err(refuse("the body did not arrive in time")),
        };
        Ok(Self { body, ..head })
    }

    /// Returns a request whose body somebody else reads.
    pub fn without_body(parts: Parts, public_url: Option<&str>) -> Self {
        let origin = metadata::origin(public_url, &parts);
        let address = parts.extensions.get::<RequestOrigin>();
        let address = address.map(|origin| source_network(origin.address).to_string());
        Self {
            origin,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            body: Bytes::new(),
            address: address.unwrap_or_default(),
        }
    }

    /// Returns a header; `None` if it is absent or no text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns whether the browser reaches the server over TLS.
    pub fn is_secure(&self) -> bool {
        self.origin.starts_with(Scheme::HTTPS.as_str())
    }

    /// Returns the form in the body; `None` if the body is not a form.
    pub fn form(&self) -> Option<&str> {
        let kind = self.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let kind = kind.split(';').next()?.trim();
        kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
            .then(|| std::str::from_utf8(&self.body).ok())
            .flatten()
    }

    /// Returns the client that a form or else the query names; `None` if it names none, or several.
    pub fn client_id(&self) -> Option<String> {
        let parameters = FormParameters::parse(self.form().unwrap_or(&self.query)).ok()?;
        parameters.get("client_id").map(str::to_owned)
    }

    /// Returns the value of a cookie; `None` if it is absent or sent more than once.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let all = self.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(found, _)| found.trim() == name);
        let (_, value) = values.next()?;
        values.next().is_none().then(|| value.trim())
    }

    /// Returns whether a page of another site made the browser send this request. A browser says
    /// so; [`crate::http::origin_policy`] refuses most such requests before.
    pub fn is_cross_site(&self) -> bool {
        let site = self.headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        site.is_some_and(|site| site != "same-origin" && site != "none")
    }
}
