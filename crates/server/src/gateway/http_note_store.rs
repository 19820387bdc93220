//! One note over HTTP: `GET {upstream}/api/v1/notes/{path}`, once.

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

/// The vault that the path is looked for in.
pub const VAULT_ID: HeaderName = HeaderName::from_static("x-vault-id");
/// The user in whose name the note is read.
pub const USER_ID: HeaderName = HeaderName::from_static("x-user-id");
/// The secret that the gateway and the server share.
pub const GATEWAY_AUTH: HeaderName = HeaderName::from_static("x-gateway-auth");
/// Reads at once. Each may hold an answer of the greatest size, so this bounds memory; more wait
/// their turn, within their own time.
const MOST_READS: usize = 64;

/// A server that has the notes.
pub struct HttpNoteStore {
    outbound: OutboundClient,
    /// `{upstream}/api/v1/notes/`.
    notes: String,
    secret: Option<HeaderValue>,
    bounds: OutboundLimits,
    reads: Semaphore,
}

impl HttpNoteStore {
    /// The server at `base`, an origin that a path may follow. `secret` goes along with every read.
    pub fn new(
        outbound: OutboundClient,
        base: &str,
        secret: Option<HeaderValue>,
        bounds: OutboundLimits,
    ) -> Self {
        let notes = format!("{}/api/v1/notes/", base.trim_end_matches('/'));
        Self { outbound, notes, secret, bounds, reads: Semaphore::new(MOST_READS) }
    }

    async fn fetch(&self, request: NoteRequest<'_>) -> Result<PortableNote, UpstreamFailure> {
        let headers = self.headers(&request)?;
        let uri: Uri = (self.notes.clone()
            + &percent::encode_uri_component(request.path().as_str()))
            .parse()
            .map_err(|_| UpstreamFailure::Unavailable)?;
        let due = Instant::now() + self.bounds.total;
        let turn =
            timeout_at(due, self.reads.acquire()).await.map_err(|_| UpstreamFailure::Timeout)?;
        // Waiting for a turn is part of the time that a caller waits.
        let bounds =
            OutboundLimits { total: due.saturating_duration_since(Instant::now()), ..self.bounds };
        let json = self.outbound.get(uri, headers, bounds).await.map_err(failure)?;
        drop(turn);
        PortableNote::parse(&json).map_err(|_| UpstreamFailure::InvalidResponse)
    }

    /// All headers but `Host`. What the caller sent has no part in them but its token.
    fn headers(&self, request: &NoteRequest<'_>) -> Result<HeaderMap, UpstreamFailure> {
        let session = request.session();
        let credential = session.credential.as_ref().ok_or(UpstreamFailure::NotForwarded)?;
        // All of these were checked when the token was; a value that is none would not have come
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

fn failure(failed: OutboundError) -> UpstreamFailure {
    match failed {
        OutboundError::Timeout => UpstreamFailure::Timeout,
        OutboundError::Unavailable => UpstreamFailure::Unavailable,
        OutboundError::Status(status) => UpstreamFailure::Status(status.as_u16()),
        OutboundError::TooLarge => UpstreamFailure::TooLarge,
        OutboundError::Encoded => UpstreamFailure::InvalidResponse,
    }
}
