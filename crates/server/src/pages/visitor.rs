//! The cookie of a browser that is not signed in: a random name for this browser and nothing more.
//!
//! A challenge to a passkey, and a journey to an identity provider, belong to the browser that
//! began them. So an answer that somebody else brought along signs nobody in. The cookie is not a
//! session: signing in makes a new secret.

use axum::body::Body;
use http::header::SET_COOKIE;
use http::{HeaderValue, Response};

use crate::sign_in::secret::RandomSecret;
use crate::sign_in::web_request::WebRequest;

/// How long the cookie is kept, in seconds.
const KEPT_SECONDS: u32 = 60 * 60;

/// A browser that is not signed in.
pub(super) struct Visitor {
    secret: String,
    is_new: bool,
}

impl Visitor {
    /// Returns the visitor that a request names.
    pub(super) fn known(request: &WebRequest) -> Option<Self> {
        let secret = request.cookie(cookie_name(request)).filter(|secret| !secret.is_empty())?;
        Some(Self { secret: secret.to_owned(), is_new: false })
    }

    /// Returns the visitor that a request names, or a new one; `None` if the system gives no random
    /// numbers.
    pub(super) fn known_or_new(request: &WebRequest) -> Option<Self> {
        Self::known(request).or_else(|| {
            let secret = RandomSecret::draw().ok()?.reveal().to_owned();
            Some(Self { secret, is_new: true })
        })
    }

    /// Returns what challenges are bound to.
    pub(super) fn binding(&self) -> &[u8] {
        self.secret.as_bytes()
    }

    /// Gives the cookie to a browser that does not have it yet.
    pub(super) fn remember(
        &self,
        request: &WebRequest,
        mut response: Response<Body>,
    ) -> Response<Body> {
        let secure = if request.is_secure() { "; Secure" } else { "" };
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={KEPT_SECONDS}{secure}",
            cookie_name(request),
            self.secret
        );
        if self.is_new
            && let Ok(cookie) = HeaderValue::try_from(cookie)
        {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        response
    }
}

fn cookie_name(request: &WebRequest) -> &'static str {
    if request.is_secure() { "__Host-stile-visitor" } else { "stile-visitor" }
}
