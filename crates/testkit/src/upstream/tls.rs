//! The server under TLS, and over HTTP/2.
//!
//! HTTP/1.1 is written by hand here too, so every fault can be had under TLS. HTTP/2 is a
//! library's, because what a gateway has to show over it is that it gets notes at all.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::behaviour::{Behaviour, Received, Shared, held};
use super::wire;

/// What the server offers to speak under TLS. Who asks for none of it in the handshake is answered
/// in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone.
    Http2,
    /// HTTP/2, and HTTP/1.1 to those who know no better.
    Either,
}

impl Protocol {
    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&str] = match self {
            Self::Http1 => &["http/1.1"],
            Self::Http2 => &["h2"],
            Self::Either => &["h2", "http/1.1"],
        };
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }
}

/// The certificate that the server presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// A good one, for `localhost` and 127.0.0.1.
    Good,
    /// One for `elsewhere.example`.
    OtherName,
    /// One that was good until 2020.
    Expired,
    /// One that will be good in 2090.
    NotYetValid,
    /// One that is signed by another authority, which has the same name.
    OtherAuthority,
}

/// The TLS configuration of a server, and the authority that a client must trust.
pub(super) struct Identity {
    pub(super) acceptor: TlsAcceptor,
    pub(super) authority: String,
}

/// An authority: what it signs with, and its certificate in PEM.
#[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().expect("a key can be made");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Authority of a test");
    let pem = params.self_signed(&key).expect("it can be signed").pem();
    (Issuer::new(params, key), pem)
}

/// A certificate with its key and its authority, all in PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate of a server.
    pub certificate: String,
    /// The private key of the certificate.
    pub key: String,
    /// The authority that signed the certificate.
    pub authority: String,
}

impl Pair {
    /// Makes a pair for `localhost` and 127.0.0.1, of an authority of its own.
    pub fn new() -> Self {
        Self::of(Certificate::Good)
    }

    /// Makes a pair with a certificate of this kind.
    pub fn of(certificate: Certificate) -> Self {
        let names: &[&str] = match certificate {
            Certificate::OtherName => &["elsewhere.example"],
            _ => &["localhost", "127.0.0.1"],
        };
        Self::signed(names, certificate)
    }

    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    fn signed(names: &[&str], certificate: Certificate) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the names are good");
        match certificate {
            Certificate::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            Certificate::NotYetValid => params.not_before = date_time_ymd(2090, 1, 1),
            _ => {}
        }
        let (trusted, pem) = authority();
        let signer =
            if certificate == Certificate::OtherAuthority { authority().0 } else { trusted };
        let key = KeyPair::generate().expect("a key can be made");
        let signed = params.signed_by(&key, &signer).expect("it can be signed");
        Self { certificate: signed.pem(), key: key.serialize_pem(), authority: pem }
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    pub(super) fn of(protocol: Protocol, certificate: Certificate) -> Self {
        Self::with(protocol, Pair::of(certificate))
    }

    /// One whose good certificate has these names.
    pub(super) fn named(protocol: Protocol, names: &[&str]) -> Self {
        Self::with(protocol, Pair::signed(names, Certificate::Good))
    }

    #[expect(clippy::expect_used, reason = "a rig that cannot be set up should say so at once")]
    fn with(protocol: Protocol, pair: Pair) -> Self {
        let signed = CertificateDer::from_pem_slice(pair.certificate.as_bytes());
        let secret = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
        // The provider is named here, so no other crate's choice is in the way.
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(
                vec![signed.expect("it is a certificate")],
                secret.expect("it is a key"),
            )
            .expect("the key is the certificate's");
        config.alpn_protocols = protocol.names();
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority: pair.authority }
    }
}

/// Shakes hands, and then speaks what was agreed.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    number: usize,
    shared: Arc<Shared>,
) -> io::Result<()> {
    let stream = acceptor.accept(stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return wire::serve(stream, number, &shared).await;
    }
    let service = service_fn(move |request| answer(request, number, Arc::clone(&shared)));
    let server =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
    server.await.map_err(io::Error::other)
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    shared: Arc<Shared>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let received = receive(request, connection).await?;
    held(&shared.received).push(received.clone());
    match shared.behaviour() {
        Behaviour::Notes(answer) => {
            let reply = answer(&received);
            tokio::time::sleep(reply.after).await;
            shared.sent.fetch_add(reply.body.len() as u64, Ordering::SeqCst);
            let mut response = Response::builder().status(reply.status);
            for (name, value) in &reply.headers {
                response = response.header(name, value);
            }
            Ok(response.body(Full::new(Bytes::from(reply.body)))?)
        }
        Behaviour::Silence | Behaviour::Deaf => std::future::pending().await,
        Behaviour::Wire(_) | Behaviour::CloseAtOnce | Behaviour::Refuse => {
            Err("the stream is reset".into())
        }
    }
}

async fn receive(request: Request<Incoming>, connection: usize) -> Result<Received, hyper::Error> {
    let (parts, body) = request.into_parts();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let authority = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
    let more = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())));
    Ok(Received {
        connection,
        method: parts.method.to_string(),
        target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        version: format!("{:?}", parts.version),
        headers: std::iter::once((":authority".to_owned(), authority)).chain(more).collect(),
        head: Vec::new(),
        body: body.collect().await?.to_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use hyper::client::conn::http2::handshake;
    use serde_json::json;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;
    use crate::client::{Reply as Answered, read_reply};
    use crate::upstream::{Reply, Upstream};

    /// A client's settings that trust the authority of one server and no other.
    fn trusting(upstream: &Upstream, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(upstream.authority().as_bytes()).unwrap())
            .unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    fn get(upstream: &Upstream, name: &str, target: &str) -> io::Result<Answered> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tls = ClientConnection::new(trusting(upstream, &["http/1.1"]), name).unwrap();
        let stream = std::net::TcpStream::connect(upstream.address())?;
        let mut stream = BufReader::new(StreamOwned::new(tls, stream));
        stream
            .get_mut()
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: store\r\n\r\n").as_bytes())?;
        read_reply(&mut stream)
    }

    fn echo(received: &Received) -> Reply {
        Reply::note(&json!({}), &received.note().unwrap_or_default())
    }

    #[test]
    fn notes_arrive_over_tls_from_a_trusted_name() {
        let upstream =
            Upstream::start_tls(Protocol::Http1, Certificate::Good, Behaviour::notes(echo));
        assert!(upstream.url().starts_with("https://127.0.0.1:"));
        for name in ["localhost", "127.0.0.1"] {
            assert_eq!(
                get(&upstream, name, "/api/v1/notes/a%2Fb.md").unwrap().json()["body"],
                "a/b.md"
            );
        }
        assert_eq!(upstream.requests()[0].version, "HTTP/1.1");
    }

    #[test]
    fn an_invalid_certificate_ends_the_handshake_before_a_request() {
        use Certificate::{Expired, NotYetValid, OtherAuthority, OtherName};
        for (certificate, reason) in [
            (OtherName, "NotValidForName"),
            (Expired, "Expired"),
            (NotYetValid, "NotValidYet"),
            (OtherAuthority, "BadSignature"),
        ] {
            let upstream =
                Upstream::start_tls(Protocol::Either, certificate, Behaviour::notes(echo));
            let error = format!("{:?}", get(&upstream, "localhost", "/").unwrap_err());
            assert!(error.contains(reason), "{certificate:?}: {error}");
            assert_eq!((upstream.connections(), upstream.requests().len()), (1, 0));
        }
    }

    #[test]
    fn faults_work_over_tls_too() {
        let upstream =
            Upstream::start_tls(Protocol::Http1, Certificate::Good, Behaviour::note_of(5_000));
        assert_eq!(get(&upstream, "localhost", "/").unwrap().body.len(), 5_000);
        upstream.set(Behaviour::cut_in_headers());
        assert!(get(&upstream, "localhost", "/").is_err());
        assert_eq!(upstream.requests().len(), 2);
    }

    #[tokio::test]
    async fn notes_arrive_over_http2_on_one_connection() {
        let upstream =
            Upstream::start_tls(Protocol::Either, Certificate::Good, Behaviour::notes(echo));
        let stream = TcpStream::connect(upstream.address()).await.unwrap();
        let connector = TlsConnector::from(trusting(&upstream, &["h2"]));
        let stream =
            connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
        let (mut sender, connection) =
            handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let driver = tokio::spawn(connection);
        for target in ["/api/v1/notes/one.md", "/api/v1/notes/two.md"] {
            let request =
                Request::get(format!("https://localhost{target}")).header("x-vault-id", "v");
            let response =
                sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(target.ends_with(answer["body"].as_str().unwrap()));
        }
        upstream.set(Behaviour::cut_in_body());
        let request = Request::get("https://localhost/x").body(Full::default()).unwrap();
        assert!(sender.send_request(request).await.is_err());
        let requests = upstream.requests();
        assert_eq!((requests.len(), upstream.connections()), (3, 1));
        assert_eq!(requests[0].version, "HTTP/2.0");
        assert_eq!(requests[0].target, "/api/v1/notes/one.md");
        let headers = [(":authority", "localhost"), ("x-vault-id", "v")];
        assert_eq!(
            requests[0].headers,
            headers.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        driver.abort();
    }
}
