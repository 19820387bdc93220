//! Reads one note over HTTP with one request, `GET {upstream}/api/v1/notes/{path}`.
//!
//! The request is never repeated. The module maps failures to the port of
//! [`stile_tools::remote_notes`].

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use stile_domain::notes::portable::PortableNote;
use stile_domain::percent;
use stile_tools::remote_notes::source::{NoteRequest, NoteSource, UpstreamFailure};

use crate::by_vault::ByVault;
use crate::outbound::{OutboundClient, OutboundError, OutboundLimits};

/// The header that names the vault of the note.
pub const VAULT_ID: HeaderName = HeaderName::from_static("x-vault-id");
/// The header that names the user in whose name the note is read.
pub const USER_ID: HeaderName = HeaderName::from_static("x-user-id");
/// The header with the secret that the gateway and the server with the notes share.
pub const GATEWAY_AUTH: HeaderName = HeaderName::from_static("x-gateway-auth");
/// A server that has the notes, over HTTP.
pub struct HttpNoteStore {
    outbound: OutboundClient,
    /// `{upstream}/api/v1/notes/`.
    notes: String,
    secret: Option<HeaderValue>,
    bounds: OutboundLimits,
}

impl HttpNoteStore {
    /// Prepares reads from the server at `base`, an origin that a path may follow. Every read has
    /// `secret` in its header [`GATEWAY_AUTH`].
    pub fn new(
        outbound: OutboundClient,
        base: &str,
        secret: Option<HeaderValue>,
        bounds: OutboundLimits,
    ) -> Self {
        let notes = format!("{}/api/v1/notes/", base.trim_end_matches('/'));
        Self { outbound, notes, secret, bounds }
    }

    async fn fetch(&self, request: NoteRequest<'_>) -> Result<PortableNote, UpstreamFailure> {
        let headers = self.headers(&request)?;
        let uri: Uri = (self.notes.clone()
            + &percent::encode_uri_component(request.path().as_str()))
            .parse()
            .map_err(|_| UpstreamFailure::Unavailable)?;
        let json = self.outbound.get(uri, headers, self.bounds).await.map_err(to_failure)?;
        PortableNote::parse(&json).map_err(|_| UpstreamFailure::InvalidResponse)
    }

    /// Returns all headers but `Host`. Of what the caller sent, the headers have only the token.
    fn headers(&self, request: &NoteRequest<'_>) -> Result<HeaderMap, UpstreamFailure> {
        let session = request.session();
        let credential = session.credential.as_ref().ok_or(UpstreamFailure::NotForwarded)?;
        // These texts were checked with the token. A text that is not a header value never comes
        // here.
        let value = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes()).map_err(|_| UpstreamFailure::NotForwarded)
        };
        let mut authorization = value(&format!("Bearer {}", credential.reveal()))?;
        authorization.set_sensitive(true);
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(VAULT_ID, value(&session.vault)?);
        headers.insert(USER_ID, value(&session.user)?);
        if let Some(secret) = &self.secret {
            headers.insert(GATEWAY_AUTH, secret.clone());
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

impl NoteSource for HttpNoteStore {
    fn read<'a>(
        &'a self,
        request: NoteRequest<'a>,
    ) -> BoxFuture<'a, Result<PortableNote, UpstreamFailure>> {
        self.fetch(request).boxed()
    }
}

impl NoteSource for ByVault<HttpNoteStore> {
    /// Reads from the server that has the notes of the session's vault.
    fn read<'a>(
        &'a self,
        request: NoteRequest<'a>,
    ) -> BoxFuture<'a, Result<PortableNote, UpstreamFailure>> {
        match self.get(&request.session().vault) {
            Some(store) => store.read(request),
            // A vault without a server has no sessions.
            None => ready(Err(UpstreamFailure::NotForwarded)).boxed(),
        }
    }
}

fn to_failure(failed: OutboundError) -> UpstreamFailure {
    match failed {
        OutboundError::Timeout => UpstreamFailure::Timeout,
        OutboundError::Unavailable => UpstreamFailure::Unavailable,
        OutboundError::Status(status) => UpstreamFailure::Status(status.as_u16()),
        OutboundError::TooLarge => UpstreamFailure::TooLarge,
        OutboundError::Encoded => UpstreamFailure::InvalidResponse,
    }
}
