//! Reads one note over HTTP with one request, `GET {upstream}/api/v1/notes/{path}`.
//!
//! The request is never repeated. The module maps failures to the port of
//! [`stile_tools::remote_notes`].

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use stile_domain::notes::portable::PortableNote;
use stile_domain::percent;
use stile_tools::remote_notes::source::{NoteRequest, NoteSource, UpstreamFailure};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::outbound::{OutboundClient, OutboundError, OutboundLimits};

/// The header that names the vault of the note.
pub const VAULT_ID: HeaderName = HeaderName::from_static("x-vault-id");
/// The header that names the user in whose name the note is read.
pub const USER_ID: HeaderName = HeaderName::from_static("x-user-id");
/// The header with the secret that the gateway and the server with the notes share.
pub const GATEWAY_AUTH: HeaderName = HeaderName::from_static("x-gateway-auth");
/// Reads in flight at once. Each may hold a response of the largest size, so the number bounds
/// memory. Further reads wait, within their own time.
const MAX_IN_FLIGHT: usize = 64;

/// A server that has the notes, over HTTP.
pub struct HttpNoteStore {
    outbound: OutboundClient,
    /// `{upstream}/api/v1/notes/`.
    notes: String,
    secret: Option<HeaderValue>,
    bounds: OutboundLimits,
    in_flight: Semaphore,
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
        Self { outbound, notes, secret, bounds, in_flight: Semaphore::new(MAX_IN_FLIGHT) }
    }

    async fn fetch(&self, request: NoteRequest<'_>) -> Result<PortableNote, UpstreamFailure> {
        let headers = self.headers(&request)?;
        let uri: Uri = (self.notes.clone()
            + &percent::encode_uri_component(request.path().as_str()))
            .parse()
            .map_err(|_| UpstreamFailure::Unavailable)?;
        let due = Instant::now() + self.bounds.total;
        let permit = timeout_at(due, self.in_flight.acquire())
            .await
            .map_err(|_| UpstreamFailure::Timeout)?;
        // The wait for a permit counts towards the time of the call.
        let bounds =
            OutboundLimits { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let json = self.outbound.get(uri, headers, bounds).await.map_err(to_failure)?;
        drop(permit);
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

fn to_failure(failed: OutboundError) -> UpstreamFailure {
    match failed {
        OutboundError::Timeout => UpstreamFailure::Timeout,
        OutboundError::Unavailable => UpstreamFailure::Unavailable,
        OutboundError::Status(status) => UpstreamFailure::Status(status.as_u16()),
        OutboundError::TooLarge => UpstreamFailure::TooLarge,
        OutboundError::Encoded => UpstreamFailure::InvalidResponse,
    }
}
