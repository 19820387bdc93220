//! Requests that leave this program. No other place makes any.
//!
//! Where they go is configured and never said by a caller or by an answer: no redirect is followed
//! and no proxy is taken from the environment. Each is made once. Each wait is bounded, and so is
//! what is read.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::auth::{KeyFetchError, KeySetError, KeySource, MAX_KEY_SET_BYTES};

/// How long a connection is kept that nothing is asked on. Shorter than servers commonly keep
/// theirs, so that it is seldom they who close it, just when it is used again.
const IDLE: Duration = Duration::from_secs(20);
/// Connections that are kept to one server.
const MOST_IDLE: usize = 64;
/// How much of an answer that is not wanted is read, so that its connection can be used again, and
/// for how long.
const DRAINED_BYTES: usize = 16 * 1024;
const DRAINING: Duration = Duration::from_millis(100);
/// The longest head of an answer.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The longest body of an answer that is no success.
pub const MAX_REFUSAL_BYTES: usize = 16 * 1024;
/// Room made before anything has arrived, whatever length was announced.
const FIRST_ROOM: usize = 64 * 1024;
/// How long a fetch of keys may take. Whoever waits for it has a limit of its own.
const FETCH: Duration = Duration::from_secs(10);

/// Makes requests, and keeps connections for the next ones.
#[derive(Clone)]
pub struct OutboundClient {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

/// How long is waited for an answer, and how much of it is read.
#[derive(Clone, Copy, Debug)]
pub struct OutboundLimits {
    /// From asking, connecting included, to the last byte.
    pub total: Duration,
    /// The longest body.
    pub body_bytes: usize,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct OutboundResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body. Of a status other than 200 it is empty where it cannot be read, is encoded or is
    /// longer than [`MAX_REFUSAL_BYTES`].
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundError {
    /// It took too long.
    Timeout,
    /// The server cannot be reached, cannot prove who it is, hung up, or does not speak HTTP.
    Unavailable,
    /// The server answered, and not with success.
    Status(StatusCode),
    /// The body is longer than is read.
    TooLarge,
    /// The body has an encoding that was not asked for, and could be a small spelling of something
    /// huge.
    Encoded,
}

/// The certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// They are not PEM, or hold no certificate.
    #[error("holds no certificate in PEM")]
    NotPem,
    /// One of them cannot be an authority.
    #[error("holds a certificate that cannot be used as an authority")]
    NotAnAuthority,
}

impl OutboundClient {
    /// Trusts what the platform trusts and the authorities in `authorities`, certificates in PEM.
    /// Waits `connect` for a connection.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn new(authorities: Option<&str>, connect: Duration) -> Result<Self, CertificateError> {
        let mut roots = RootCertStore::empty();
        // Where the platform has none, or some that cannot be read, a connection that needs one
        // fails.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(pem) = authorities {
            let mut added = 0;
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|_| CertificateError::NotPem)?;
                roots.add(certificate).map_err(|_| CertificateError::NotAnAuthority)?;
                added += 1;
            }
            if added == 0 {
                return Err(CertificateError::NotPem);
            }
        }
        let tls =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|_| CertificateError::NotAnAuthority)?
                .with_root_certificates(roots)
                .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        // A request whose connection was closed before any of it was sent is sent on another; that
        // is not a second try, and nothing else is tried twice.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector);
        Ok(Self { client })
    }

    /// The body of the answer with status 200 to one `GET` with exactly these headers and `Host`.
    ///
    /// # Errors
    /// [`OutboundError`], which holds nothing of what was sent or received but the status.
    pub async fn get(
        &self,
        uri: Uri,
        headers: HeaderMap,
        bounds: OutboundLimits,
    ) -> Result<Vec<u8>, OutboundError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        timeout(bounds.total, self.answer(request, bounds.body_bytes))
            .await
            .unwrap_or(Err(OutboundError::Timeout))
    }

    /// The answer to one `GET` with exactly these headers and `Host`, whatever its status. No
    /// redirect is followed.
    ///
    /// # Errors
    /// [`OutboundError`], but [`OutboundError::Status`].
    pub async fn exchange(
        &self,
        uri: Uri,
        headers: HeaderMap,
        bounds: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answered = async {
            let response =
                self.client.request(request).await.map_err(|error| unreachable(&error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = match (status, is_encoded(&headers)) {
                (StatusCode::OK, true) => return Err(OutboundError::Encoded),
                (StatusCode::OK, false) => body(response, bounds.body_bytes).await?,
                (_, true) => Vec::new(),
                (_, false) => body(response, MAX_REFUSAL_BYTES).await.unwrap_or_default(),
            };
            Ok(OutboundResponse { status, headers, body })
        };
        timeout(bounds.total, answered).await.unwrap_or(Err(OutboundError::Timeout))
    }

    async fn answer(
        &self,
        request: Request<Empty<Bytes>>,
        most: usize,
    ) -> Result<Vec<u8>, OutboundError> {
        let response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if status != StatusCode::OK {
            let _ = timeout(DRAINING, body(response, DRAINED_BYTES)).await;
            return Err(OutboundError::Status(status));
        }
        if is_encoded(response.headers()) {
            return Err(OutboundError::Encoded);
        }
        body(response, most).await
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity")
}

/// Connecting has a limit of its own, which the library tells as an error of input and output.
fn unreachable(error: &hyper_util::client::legacy::Error) -> OutboundError {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::TimedOut
        {
            return OutboundError::Timeout;
        }
        cause = error.source();
    }
    OutboundError::Unavailable
}

/// Reads a body up to a length, and no further.
async fn body(response: Response<Incoming>, most: usize) -> Result<Vec<u8>, OutboundError> {
    let announced = response
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(OutboundError::TooLarge);
    }
    let mut body = response.into_body();
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default().min(FIRST_ROOM));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| OutboundError::Unavailable)?;
        let Ok(piece) = frame.into_data() else { continue };
        if bytes.len() + piece.len() > most {
            return Err(OutboundError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The keys of an identity provider, where it publishes them.
pub struct KeySetUrl {
    outbound: OutboundClient,
    uri: Uri,
}

impl KeySetUrl {
    /// At this address; `None` where it is none.
    pub fn new(outbound: OutboundClient, url: &str) -> Option<Self> {
        url.parse().ok().map(|uri| Self { outbound, uri })
    }
}

impl KeySource for KeySetUrl {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, KeyFetchError>> {
        let headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let bounds = OutboundLimits { total: FETCH, body_bytes: MAX_KEY_SET_BYTES };
        async move {
            self.outbound.get(self.uri.clone(), headers, bounds).await.map_err(
                |failed| match failed {
                    OutboundError::Timeout => KeyFetchError::TimedOut,
                    OutboundError::Unavailable => KeyFetchError::Unreachable,
                    OutboundError::Status(status) => KeyFetchError::Status(status.as_u16()),
                    OutboundError::TooLarge => KeySetError::TooLong.into(),
                    OutboundError::Encoded => KeySetError::Malformed.into(),
                },
            )
        }
        .boxed()
    }
}
