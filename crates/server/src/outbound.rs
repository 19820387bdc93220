//! The HTTP client. No other module sends requests.
//!
//! The configuration decides where requests go, never a caller: this client follows no redirect and
//! takes no proxy from the environment. `provider::blob_redirect` decides about the one redirect
//! that a response may name. Each request is sent once. Every wait is limited, and so is the size
//! of a response. What strangers name is fetched by [`public_https`] alone, which has rules of its
//! own.

pub mod public_https;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use stile_store::trusted_roots;
use tokio::time::timeout;

use crate::auth::{KeyFetchError, KeySetError, KeySource, MAX_KEY_SET_BYTES};

/// How long an idle connection is kept. Servers commonly keep theirs longer, so a server seldom
/// closes a connection just when it is used again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The most idle connections to one server.
const MAX_IDLE_PER_HOST: usize = 64;
/// How many bytes of an unused response are read, so that its connection can be used again.
const DRAIN_BYTES: usize = 16 * 1024;
/// How long an unused response is read.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest head of a response, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The longest body of a response with a status other than 200, in bytes.
pub const MAX_REFUSAL_BYTES: usize = 16 * 1024;
/// The most bytes that are allocated before anything has arrived, whatever `Content-Length` says.
const MAX_INITIAL_CAPACITY: usize = 64 * 1024;
/// The longest fetch of keys. The waiting code has a shorter limit of its own.
const KEY_FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests, and keeps connections for the next ones. Clones share the connections.
#[derive(Clone)]
pub struct OutboundClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// The limits of one request.
#[derive(Clone, Copy, Debug)]
pub struct OutboundLimits {
    /// The time from connecting to the last byte of the response.
    pub total: Duration,
    /// The longest response body, in bytes.
    pub body_bytes: usize,
}

/// A response of any status.
#[derive(Clone, Debug)]
pub struct OutboundResponse {
    /// The status of the response.
    pub status: StatusCode,
    /// All headers of the response.
    pub headers: HeaderMap,
    /// The body. For a status other than 200, the body is empty if it cannot be read, is encoded,
    /// or is longer than [`MAX_REFUSAL_BYTES`].
    pub body: Vec<u8>,
}

/// Why a request has no usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundError {
    /// The response took too long.
    Timeout,
    /// The server cannot be reached, has no trusted certificate, disconnected, or does not speak
    /// HTTP.
    Unavailable,
    /// The response has a status other than 200.
    Status(StatusCode),
    /// The body is longer than the limit.
    TooLarge,
    /// The body has a `Content-Encoding` that was not requested. A small encoded body could decode
    /// to a huge one.
    Encoded,
}

/// Why configured certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The text is not PEM, or has no certificate.
    #[error("holds no certificate in PEM")]
    NotPem,
    /// A certificate cannot be an authority.
    #[error("holds a certificate that cannot be used as an authority")]
    NotAnAuthority,
}

impl OutboundClient {
    /// A client that trusts the platform's authorities and those in `authorities`, certificates in
    /// PEM. Waits at most `connect` for a connection.
    pub fn new(authorities: Option<&str>, connect: Duration) -> Result<Self, CertificateError> {
        let tls = tls_config(authorities)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        // A request whose connection was closed before any byte was sent is sent on another. That
        // is the only retry.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector);
        Ok(Self { client })
    }

    /// Sends one `GET` with exactly these headers and `Host`, and returns the body of a response
    /// with status 200.
    ///
    /// # Errors
    /// [`OutboundError`], which repeats nothing that was sent or received but the status.
    pub async fn get(
        &self,
        uri: Uri,
        headers: HeaderMap,
        limits: OutboundLimits,
    ) -> Result<Vec<u8>, OutboundError> {
        let received = async {
            let response = self.send(request(uri, headers, Full::default())).await?;
            let status = response.status();
            if status != StatusCode::OK {
                let _ = timeout(DRAIN_TIMEOUT, read_body(response, DRAIN_BYTES)).await;
                return Err(OutboundError::Status(status));
            }
            read_plain_body(response, limits.body_bytes).await
        };
        timeout(limits.total, received).await.unwrap_or(Err(OutboundError::Timeout))
    }

    /// Sends one `GET` with exactly these headers and `Host`, and returns the response of any
    /// status.
    ///
    /// # Errors
    /// [`OutboundError`], but never [`OutboundError::Status`].
    pub async fn exchange(
        &self,
        uri: Uri,
        headers: HeaderMap,
        limits: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        self.receive(request(uri, headers, Full::default()), None, limits).await
    }

    /// Sends one `GET` for a range that begins with the byte `start` and has at most
    /// `limits.body_bytes` bytes. Returns the response of any status.
    ///
    /// A server may send the whole with status 200. Then the bytes before the range are skipped,
    /// and nothing after it is read.
    ///
    /// # Errors
    /// [`OutboundError`], but never [`OutboundError::Status`].
    pub async fn exchange_range(
        &self,
        uri: Uri,
        mut headers: HeaderMap,
        start: u64,
        limits: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let last = start.saturating_add(limits.body_bytes as u64).saturating_sub(1);
        let range = HeaderValue::try_from(format!("bytes={start}-{last}"));
        headers.insert(RANGE, range.map_err(|_| OutboundError::Unavailable)?);
        self.receive(request(uri, headers, Full::default()), Some(start), limits).await
    }

    /// Sends one `POST` with a form, these headers, `Host` and `Content-Type`. Returns the response
    /// of any status.
    ///
    /// # Errors
    /// [`OutboundError`], but never [`OutboundError::Status`].
    pub async fn post_form(
        &self,
        uri: Uri,
        mut headers: HeaderMap,
        form: String,
        limits: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        self.post(uri, headers, Bytes::from(form), limits).await
    }

    /// Sends one `POST` with exactly these headers and `Host`, and returns the response of any
    /// status.
    ///
    /// # Errors
    /// [`OutboundError`], but never [`OutboundError::Status`].
    pub async fn post(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
        limits: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let mut request = request(uri, headers, Full::new(body));
        *request.method_mut() = Method::POST;
        self.receive(request, None, limits).await
    }

    /// Sends a request and returns the response of any status, with the body of a refusal cut. With
    /// `range`, the request asks for the bytes from that one on.
    async fn receive(
        &self,
        request: Request<Full<Bytes>>,
        range: Option<u64>,
        limits: OutboundLimits,
    ) -> Result<OutboundResponse, OutboundError> {
        let received = async {
            let response = self.send(request).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = match (status, range) {
                (StatusCode::OK, Some(start)) => {
                    read_range(response, start, limits.body_bytes).await?
                }
                (StatusCode::PARTIAL_CONTENT, Some(_)) | (StatusCode::OK, None) => {
                    read_plain_body(response, limits.body_bytes).await?
                }
                _ => read_plain_body(response, MAX_REFUSAL_BYTES).await.unwrap_or_default(),
            };
            Ok(OutboundResponse { status, headers, body })
        };
        timeout(limits.total, received).await.unwrap_or(Err(OutboundError::Timeout))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, OutboundError> {
        self.client.request(request).await.map_err(|error| transport_error(&error))
    }
}

/// Returns settings of TLS that trust the platform's authorities and those in `authorities`,
/// certificates in PEM.
fn tls_config(authorities: Option<&str>) -> Result<ClientConfig, CertificateError> {
    let mut roots = trusted_roots::of_machine();
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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| CertificateError::NotAnAuthority)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn request(uri: Uri, headers: HeaderMap, body: Full<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::new(body);
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// Distinguishes a timeout from other failures. The library reports the limit of connecting as an
/// I/O error.
fn transport_error(error: &hyper_util::client::legacy::Error) -> OutboundError {
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

/// Reads a body of at most `max_bytes` without a `Content-Encoding`.
async fn read_plain_body(
    response: Response<Incoming>,
    max_bytes: usize,
) -> Result<Vec<u8>, OutboundError> {
    let mut encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| encoding != "identity") {
        return Err(OutboundError::Encoded);
    }
    read_body(response, max_bytes).await
}

/// Reads at most `count` bytes of a body without a `Content-Encoding`, from the byte `start` on.
async fn read_range(
    response: Response<Incoming>,
    start: u64,
    count: usize,
) -> Result<Vec<u8>, OutboundError> {
    let mut encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| encoding != "identity") {
        return Err(OutboundError::Encoded);
    }
    let mut body = response.into_body();
    let (mut skipped, mut bytes) = (0, Vec::new());
    while bytes.len() < count
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|_| OutboundError::Unavailable)?;
        let Ok(piece) = frame.into_data() else { continue };
        let before = usize::try_from(start - skipped).unwrap_or(usize::MAX).min(piece.len());
        skipped += before as u64;
        let taken = piece.get(before..).unwrap_or_default();
        bytes.extend_from_slice(taken.get(..count - bytes.len()).unwrap_or(taken));
    }
    Ok(bytes)
}

async fn read_body(
    response: Response<Incoming>,
    max_bytes: usize,
) -> Result<Vec<u8>, OutboundError> {
    let announced = response
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(OutboundError::TooLarge);
    }
    let mut body = response.into_body();
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default().min(MAX_INITIAL_CAPACITY));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| OutboundError::Unavailable)?;
        let Ok(piece) = frame.into_data() else { continue };
        if bytes.len() + piece.len() > max_bytes {
            return Err(OutboundError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The address at which an identity provider publishes its keys.
pub struct KeySetUrl {
    outbound: OutboundClient,
    uri: Uri,
}

impl KeySetUrl {
    /// Returns `None` if `url` is not an address.
    pub fn new(outbound: OutboundClient, url: &str) -> Option<Self> {
        url.parse().ok().map(|uri| Self { outbound, uri })
    }
}

impl KeySource for KeySetUrl {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, KeyFetchError>> {
        let headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let limits = OutboundLimits { total: KEY_FETCH_TIMEOUT, body_bytes: MAX_KEY_SET_BYTES };
        async move {
            self.outbound.get(self.uri.clone(), headers, limits).await.map_err(
                |error| match error {
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
