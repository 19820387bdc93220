//! Fetches documents from addresses that strangers choose, from the public network only.
//!
//! Whoever asks for a sign-in chooses the address, so a request from here could reach what only
//! this machine reaches. Therefore: HTTPS on port 443; the name is resolved once, every address of
//! the answer must be public, and the connection goes to one of these addresses, so that a second
//! answer of the name server changes nothing; no redirect; nothing of the request is the stranger's
//! but host and path; and time and size are limited.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use stile_domain::sign_in::client_id_url::ClientIdUrl;
use stile_domain::sign_in::public_address::is_public_address;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{CertificateError, MAX_HEAD_BYTES, OutboundError, read_plain_body, tls_config};
use crate::sign_in::client_documents::{DocumentSource, FetchError, FetchedDocument};

/// The port of HTTPS. No other is ever connected to.
const PORT: u16 = 443;
/// The longest fetch, from resolving the name to the last byte. Clients wait 10 s for a page.
const TOTAL: Duration = Duration::from_secs(5);
/// How long one address of a host is tried, if the host has several.
const CONNECT: Duration = Duration::from_millis(1500);
/// The longest document, in bytes.
pub const MAX_CLIENT_DOCUMENT_BYTES: usize = 64 * 1024;
/// The most addresses of a host that are read. The first of them are tried.
const MAX_ADDRESSES: usize = 32;
/// The most addresses of a host that are tried.
const MAX_TRIES: usize = 3;

/// The network as the fetcher uses it. Tests put another in its place, to say what a name resolves
/// to and to see which address is connected to.
pub trait PublicNetwork: Send + Sync + 'static {
    /// Returns the addresses of a host.
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Connects to an address.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNetwork;

impl PublicNetwork for SystemNetwork {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        async move {
            let found = lookup_host((host, PORT)).await?;
            Ok(found.take(MAX_ADDRESSES).map(|address| address.ip()).collect())
        }
        .boxed()
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(address).boxed()
    }
}

/// Fetches documents of clients from the public network.
pub struct PublicHttps {
    network: Box<dyn PublicNetwork>,
    tls: TlsConnector,
    total: Duration,
}

impl PublicHttps {
    /// A fetcher that trusts the platform's authorities and those in `authorities`, certificates in
    /// PEM.
    ///
    /// # Errors
    /// [`CertificateError`] if `authorities` cannot be used.
    pub fn new(
        network: impl PublicNetwork,
        authorities: Option<&str>,
    ) -> Result<Self, CertificateError> {
        let mut config: ClientConfig = tls_config(authorities)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { network: Box::new(network), tls, total: TOTAL })
    }

    /// The same with another limit of time, for tests of slow servers.
    #[must_use]
    pub fn with_time_limit(self, total: Duration) -> Self {
        Self { total, ..self }
    }

    async fn get(&self, url: &ClientIdUrl) -> Result<FetchedDocument, FetchError> {
        let stream = self.connect(url.host()).await?;
        let name = ServerName::try_from(url.host().to_owned());
        let name = name.map_err(|_| FetchError::Unreachable)?;
        let stream = self.tls.connect(name, stream).await.map_err(|_| FetchError::Unreachable)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|_| FetchError::Unreachable)?;
        let mut request = Request::get(url.path());
        for (name, value) in [
            (HOST, url.host()),
            (ACCEPT, "application/json"),
            (USER_AGENT, concat!("stile/", env!("CARGO_PKG_VERSION"))),
        ] {
            request = request.header(name, value);
        }
        let request = request.body(Empty::new()).map_err(|_| FetchError::Unreachable)?;
        let answered = async {
            let response =
                sender.send_request(request).await.map_err(|_| FetchError::Unreachable)?;
            if response.status() != StatusCode::OK {
                return Err(FetchError::Status(response.status().as_u16()));
            }
            if !is_json(response.headers()) {
                return Err(FetchError::NotJson);
            }
            let max_age = max_age(response.headers());
            let bytes = read_plain_body(response, MAX_CLIENT_DOCUMENT_BYTES).await;
            let bytes = bytes.map_err(|error| match error {
                OutboundError::TooLarge => FetchError::TooLarge,
                OutboundError::Encoded => FetchError::NotJson,
                _ => FetchError::Unreachable,
            })?;
            Ok(FetchedDocument { bytes, max_age })
        };
        // The connection is driven here, and not by a task, so that it ends with this future.
        let mut answered = std::pin::pin!(answered);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            answer = &mut answered => answer,
            _ = &mut connection => answered.await,
        }
    }

    /// Resolves a host once, and connects to one of its addresses if all are public.
    async fn connect(&self, host: &str) -> Result<TcpStream, FetchError> {
        let resolved = self.network.resolve(host).await;
        let addresses = resolved.map_err(|_| FetchError::Unreachable)?;
        if addresses.is_empty() {
            return Err(FetchError::Unreachable);
        }
        if !addresses.iter().copied().all(is_public_address) {
            return Err(FetchError::NotPublic);
        }
        for address in addresses.into_iter().take(MAX_TRIES) {
            let connecting = self.network.connect(SocketAddr::new(address, PORT));
            if let Ok(Ok(stream)) = timeout(CONNECT, connecting).await {
                return Ok(stream);
            }
        }
        Err(FetchError::Unreachable)
    }
}

impl DocumentSource for PublicHttps {
    fn fetch<'a>(
        &'a self,
        url: &'a ClientIdUrl,
    ) -> BoxFuture<'a, Result<FetchedDocument, FetchError>> {
        async move { timeout(self.total, self.get(url)).await.unwrap_or(Err(FetchError::TimedOut)) }
            .boxed()
    }

    fn finds<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool> {
        async move {
            let resolved = timeout(CONNECT, self.network.resolve(host)).await;
            matches!(resolved, Ok(Ok(addresses))
                if !addresses.is_empty() && addresses.iter().copied().all(is_public_address))
        }
        .boxed()
    }
}

/// Whether a response says that it is JSON: `application/json`, or a type that ends in `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

/// Returns how long a response says that it may be kept, in seconds: 0 for `no-store` and
/// `no-cache`, `None` if it says nothing.
fn max_age(headers: &HeaderMap) -> Option<u64> {
    let lists = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives = lists.flat_map(|list| list.split(',')).map(|it| it.trim().to_lowercase());
    let seconds = directives.filter_map(|directive| match directive.as_str() {
        "no-store" | "no-cache" => Some(0),
        other => other.strip_prefix("max-age=")?.parse().ok(),
    });
    seconds.min()
}

#[cfg(test)]
mod tests;
