//! The server's certificate and key for TLS, which can change while the server runs.
//!
//! The files are read at the start, and again when a client connects and the last look was a while
//! ago. Connections that are open keep what they began with. If new files cannot be used, the old
//! pair stays, and the log says why.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stile_store::state::read_settings;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsAcceptor;

/// How often the files are read again at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The files of a certificate and its key, both in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Why the files of a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// The file of the certificate cannot be read.
    #[error("cannot read the file of --tls-certificate: {0}")]
    CertificateUnreadable(io::Error),
    /// The file of the key cannot be read.
    #[error("cannot read the file of --tls-key: {0}")]
    KeyUnreadable(io::Error),
    /// The first file has no certificate.
    #[error("the file of --tls-certificate holds no certificate in PEM")]
    NoCertificate,
    /// The second file has no key.
    #[error("the file of --tls-key holds no private key in PEM")]
    NoKey,
    /// The key is of another certificate.
    #[error(
        "the key of --tls-key does not belong to the certificate of --tls-certificate; the \
         server's own certificate must be the first in its file"
    )]
    Mismatch,
    /// The pair has a form or an algorithm that is not supported.
    #[error("the certificate of --tls-certificate cannot be used with the key of --tls-key")]
    Unusable,
}

/// The pair that new connections get.
#[derive(Debug)]
pub struct TlsIdentity {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// What was found at the last look.
    found: Found,
    /// When to look again; `None` while somebody looks.
    next_look: Option<Instant>,
}

/// What the files held at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Unreadable,
    /// The digest of both.
    Texts([u8; 32]),
}

impl TlsIdentity {
    /// Reads the pair.
    ///
    /// # Errors
    /// [`TlsFilesError`].
    pub fn open(files: TlsFiles) -> Result<Arc<Self>, TlsFilesError> {
        let (found, config) = read(&files);
        let config = config?;
        let next_look = Some(Instant::now() + LOOK_INTERVAL);
        let current = Mutex::new(Current { config, found, next_look });
        Ok(Arc::new(Self { files, current }))
    }

    /// Returns what a new connection begins with.
    pub async fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        if self.begins_look() {
            let identity = Arc::clone(self);
            // A runtime that stops refuses the work; the old pair is good enough for it.
            let _ = spawn_blocking(move || identity.look()).await;
        }
        TlsAcceptor::from(Arc::clone(&self.lock().config))
    }

    /// Returns whether the caller must look at the files now.
    fn begins_look(&self) -> bool {
        let mut current = self.lock();
        let is_due = current.next_look.is_some_and(|due| Instant::now() >= due);
        if is_due {
            current.next_look = None;
        }
        is_due
    }

    /// Takes a new pair if the files have one.
    fn look(&self) {
        let (found, config) = read(&self.files);
        let mut current = self.lock();
        current.next_look = Some(Instant::now() + LOOK_INTERVAL);
        if found == current.found {
            return;
        }
        current.found = found;
        match config {
            Ok(config) => {
                current.config = config;
                tracing::info!(target: "stile::http", "new connections get a new certificate");
            }
            Err(error) => tracing::warn!(
                target: "stile::http",
                %error,
                "the new certificate cannot be used; the old one stays in use"
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads both files. Returns what they hold, beside what can be made of it.
fn read(files: &TlsFiles) -> (Found, Result<Arc<ServerConfig>, TlsFilesError>) {
    let certificate = match read_settings(&files.certificate) {
        Ok(text) => text,
        Err(error) => {
            return (Found::Unreadable, Err(TlsFilesError::CertificateUnreadable(error)));
        }
    };
    let key = match read_settings(&files.key) {
        Ok(text) => text,
        Err(error) => return (Found::Unreadable, Err(TlsFilesError::KeyUnreadable(error))),
    };
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&certificate.len().to_be_bytes());
    context.update(certificate.as_bytes());
    context.update(key.as_bytes());
    let mut texts = [0; 32];
    texts.copy_from_slice(context.finish().as_ref());
    (Found::Texts(texts), server_config(&certificate, &key).map(Arc::new))
}

fn server_config(certificate: &str, key: &str) -> Result<ServerConfig, TlsFilesError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| TlsFilesError::NoCertificate)?;
    if chain.is_empty() {
        return Err(TlsFilesError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| TlsFilesError::NoKey)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // These versions are TLS 1.2 and 1.3.
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| TlsFilesError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsFilesError::Mismatch,
            _ => TlsFilesError::Unusable,
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
