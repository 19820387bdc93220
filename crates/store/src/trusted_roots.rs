//! The certificate authorities that a connection over TLS trusts.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Returns the authorities that this machine trusts. Without any that can be read, a connection
/// that needs one fails.
pub fn of_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    #[cfg(not(target_os = "macos"))]
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    #[cfg(target_os = "macos")]
    add(&mut roots, &file_of_macos());
    roots
}

/// Returns the authorities in a file of PEM, and none if it cannot be read or has none.
pub fn of_file(file: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    add(&mut roots, file);
    roots
}

/// Adds the authorities in a file of PEM, and passes over what is none.
fn add(roots: &mut RootCertStore, file: &Path) {
    if let Ok(found) = CertificateDer::pem_file_iter(file) {
        roots.add_parsable_certificates(found.filter_map(Result::ok));
    }
}

/// Returns the file of the authorities on macOS: that of the variable `SSL_CERT_FILE`, by which
/// companies name their own, or else the one that comes with the system. What was added to the
/// keychain alone is not in it: asking the keychain takes frameworks that cannot be linked without
/// the SDK of Apple.
#[cfg(target_os = "macos")]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable is the system's and no setting of ours"
)]
fn file_of_macos() -> std::path::PathBuf {
    std::env::var_os("SSL_CERT_FILE").unwrap_or_else(|| "/etc/ssl/cert.pem".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_authority_gives_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem");
        assert!(of_file(&file).is_empty());
        std::fs::write(&file, "no certificate").unwrap();
        assert!(of_file(&file).is_empty());
    }
}
