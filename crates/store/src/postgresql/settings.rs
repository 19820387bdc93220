//! How to reach the database: its address, with TLS where the way leads over a network.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use stile_domain::percent::decode_form;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{DatabaseError, PgError};
use crate::trusted_roots;

/// How long connecting may take, unless the address says otherwise.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);
/// How long a connection is silent before the system asks whether the other side is there, and
/// again. So a statement whose answer never comes ends within about half a minute.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// How often the system asks in vain before the connection counts as lost.
const ASK_TIMES: u32 = 3;
/// What the library does if the address does not say.
const ASK_AFTER_OF_LIBRARY: Duration = Duration::from_secs(2 * 60 * 60);

/// The address of a database. It may contain a password, so it is never printed.
pub(crate) struct Settings {
    config: Config,
    /// `None` for a database on this machine.
    tls: Option<MakeRustlsConnect>,
}

impl Settings {
    /// Parses an address such as `postgres://stile@db.example/stile`.
    ///
    /// A database on another machine is reached over TLS with a certificate that this machine
    /// trusts, unless the address says `sslmode=disable`.
    pub(crate) fn parse(address: &str) -> Result<Self, DatabaseError> {
        let (address, roots) = with_words_of_libpq(address);
        match roots {
            None => Self::with_roots(&address, trusted_roots::of_machine),
            Some(file) => match trusted_roots::of_file(Path::new(&file)) {
                roots if roots.is_empty() => Err(DatabaseError::NoRoots),
                roots => Self::with_roots(&address, || roots),
            },
        }
    }

    /// Parses an address, with the authorities that this machine trusts.
    pub(super) fn with_roots(
        address: &str,
        roots: impl FnOnce() -> RootCertStore,
    ) -> Result<Self, DatabaseError> {
        let mut config: Config = address.parse().map_err(|_| DatabaseError::BadAddress)?;
        config.application_name("stile");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED);
        }
        if config.get_keepalives_idle() == ASK_AFTER_OF_LIBRARY {
            config.keepalives_idle(ASK_AFTER);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(ASK_AFTER / 2);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(ASK_TIMES);
        }
        let is_near = is_near(&config);
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            SslMode::Prefer if is_near => {
                config.ssl_mode(SslMode::Disable);
                None
            }
            _ => {
                config.ssl_mode(SslMode::Require);
                Some(MakeRustlsConnect::new(tls_config(roots())?))
            }
        };
        Ok(Self { config, tls })
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        let hosts = self.config.get_hosts().len().max(self.config.get_hostaddrs().len()).max(1);
        let hosts = u32::try_from(hosts).unwrap_or(1);
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT).saturating_mul(2 * hosts)
    }

    /// Connects, and serves the connection on the runtime of the caller.
    pub(crate) async fn connect(&self) -> Result<Client, PgError> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(connection);
                client
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(connection);
                client
            }
        })
    }
}

/// Takes the words of an address out that PostgreSQL's own clients know and the library does not:
/// `sslmode=verify-full` and `verify-ca` are `require`, which always checks the authority and the
/// name here, and `sslrootcert` names a file of authorities in place of the system's.
fn with_words_of_libpq(address: &str) -> (String, Option<String>) {
    let is_url = address.contains("://");
    let (head, words) = match (is_url, address.split_once('?')) {
        (true, Some((head, words))) => (format!("{head}?"), words),
        (true, None) => return (address.to_owned(), None),
        (false, _) => (String::new(), address),
    };
    let separator = if is_url { "&" } else { " " };
    let mut roots = None;
    let mut kept = Vec::new();
    for word in words.split(if is_url { '&' } else { ' ' }) {
        match word.split_once('=') {
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", file)) => {
                let file = if is_url { decode_form(file) } else { Some(file.to_owned()) };
                roots = Some(file.unwrap_or_default());
            }
            Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
            _ => kept.push(word),
        }
    }
    (head + &kept.join(separator), roots)
}

/// Returns whether every connection stays on this machine. Where the address has `hostaddr`, the
/// program connects to those, and each host is only the name that a certificate must have.
fn is_near(config: &Config) -> bool {
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_this_machine),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, DatabaseError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| DatabaseError::BadAddress)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_database_on_this_machine_is_reached_without_tls() {
        let mode = |address: &str| {
            let settings = Settings::parse(address).unwrap();
            assert_eq!(settings.tls.is_some(), settings.config.get_ssl_mode() == SslMode::Require);
            settings.tls.is_some()
        };
        for near in ["localhost", "127.0.0.1", "%2Frun%2Fpostgresql"] {
            assert!(!mode(&format!("postgres://ann@{near}/stile")), "{near}");
        }
        for far in ["db.example", "10.0.0.1", "localhost.example", "localhost,db.example"] {
            assert!(mode(&format!("postgres://ann@{far}/stile")), "{far}");
        }
        // The program connects to `hostaddr`, and the host only names the certificate.
        for (address, is_far) in [
            ("localhost/stile?hostaddr=10.0.0.1", true),
            ("localhost,localhost/stile?hostaddr=127.0.0.1,10.0.0.1", true),
            ("%2Frun%2Fpostgresql/stile?hostaddr=10.0.0.1", true),
            ("/stile?hostaddr=10.0.0.1", true),
            ("db.example/stile?hostaddr=127.0.0.1", false),
            ("/stile?hostaddr=::1", false),
        ] {
            assert_eq!(mode(&format!("postgres://ann@{address}")), is_far, "{address}");
        }
        assert!(mode("postgres://ann@localhost/stile?sslmode=require"));
        assert!(!mode("postgres://ann@db.example/stile?sslmode=disable"));
    }

    #[test]
    fn the_words_of_other_clients_are_understood() {
        let taken = |address: &str| with_words_of_libpq(address);
        let plain = "postgres://a@db.example/stile?sslmode=require";
        for word in ["verify-full", "verify-ca"] {
            let address = format!("postgres://a@db.example/stile?sslmode={word}");
            assert_eq!(taken(&address), (plain.to_owned(), None));
        }
        let named = "postgres://a@h/d?sslrootcert=%2Fca.pem&sslmode=verify-full";
        let expected = ("postgres://a@h/d?sslmode=require".to_owned(), Some("/ca.pem".to_owned()));
        assert_eq!(taken(named), expected);
        let words = "host=h sslmode=verify-full sslrootcert=/ca.pem";
        let expected = ("host=h sslmode=require".to_owned(), Some("/ca.pem".to_owned()));
        assert_eq!(taken(words), expected);
        assert_eq!(taken("postgres://a@h/d?sslrootcert=system").1, None);
        for address in [
            "postgres://a@db.example/d?sslmode=verify-full",
            "postgres://a@one.example,two.example/d?target_session_attrs=read-write",
        ] {
            assert!(Settings::parse(address).unwrap().tls.is_some(), "{address}");
        }
        let missing = "postgres://a@db.example/d?sslrootcert=/nonexistent.pem";
        assert_eq!(Settings::parse(missing).map(drop), Err(DatabaseError::NoRoots));
    }

    #[test]
    fn a_silent_connection_is_asked_unless_the_address_says_how() {
        let of = |words: &str| Settings::parse(&format!("postgres://a@h/d{words}")).unwrap().config;
        let ours = of("");
        assert_eq!(ours.get_keepalives_idle(), ASK_AFTER);
        assert_eq!(ours.get_keepalives_interval(), Some(ASK_AFTER / 2));
        assert_eq!(ours.get_keepalives_retries(), Some(ASK_TIMES));
        assert_eq!(ours.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED));
        let theirs = of("?keepalives_idle=77&tcp_user_timeout=3");
        assert_eq!(theirs.get_keepalives_idle(), Duration::from_secs(77));
        assert_eq!(theirs.get_tcp_user_timeout(), Some(&Duration::from_secs(3)));
    }

    #[test]
    fn a_bad_address_is_refused_without_its_password() {
        let error = Settings::parse("postgres://ann:secret@db.example:port/x").map(drop);
        assert!(!error.unwrap_err().to_string().contains("secret"));
    }
}
