//! Tests of the way to a real server, and of what somebody on the network sees of it.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use stile_testkit::postgres::{PASSWORD, PostgresServer, TestDatabase};
use stile_testkit::upstream::tls::Pair;
use stile_testkit::wiretap::Wiretap;

use super::PgConnection;
use super::settings::Settings;

/// What a client sends first to ask for TLS.
const ASKS_FOR_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// This machine, by an address that is not a loopback address.
const FAR: &str = "0.0.0.0";
const NEAR: &str = "127.0.0.1";

/// Connects, asks over which way, and hangs up. Returns whether it was TLS, or the error, and the
/// bytes that the client sent.
fn connect(
    database: &TestDatabase,
    authority: &str,
    (host, hostaddr, sslmode): (&str, &str, &str),
) -> (Result<bool, String>, Vec<u8>) {
    let wiretap = Wiretap::before(database.server().address());
    let host = format!("{host}:{}", wiretap.address.port());
    let address = database.network_address(&host, &format!("hostaddr={hostaddr}{sslmode}"));
    let roots = || {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        roots
    };
    let settings = Settings::with_roots(&address, roots).unwrap();
    let answer = PgConnection::open(&settings).and_then(|connection| {
        let text = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        Ok(connection.one(text, &[])?.unwrap().get(0))
    });
    (answer.map_err(|error| error.to_string()), wiretap.sent().concat())
}

/// Refuses bytes of a client that are more than the question for TLS and records of TLS, or that
/// name the user, the password or the database.
fn assert_nothing_in_clear(sent: &[u8]) {
    let mut records = sent.strip_prefix(&ASKS_FOR_TLS).unwrap();
    while !records.is_empty() {
        let [20..=23, 3, _, high, low, rest @ ..] = records else { panic!("{records:?}") };
        records = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..).unwrap();
    }
    let text = String::from_utf8_lossy(sent);
    assert!(["stile", "test0", PASSWORD].iter().all(|secret| !text.contains(secret)), "{text}");
}

#[test]
fn a_database_with_a_trusted_certificate_is_reached_over_tls() {
    let test = "a_database_with_a_trusted_certificate_is_reached_over_tls";
    let pair = Pair::new();
    let Some(server) = PostgresServer::on_network(test, Some(&pair)) else { return };
    let database = server.database();
    for way in [
        ("localhost", NEAR, "&sslmode=require"),
        ("127.0.0.1", NEAR, "&sslmode=require"),
        ("localhost", FAR, "&sslmode=require"),
        ("localhost", FAR, "&sslmode=prefer"),
        ("localhost", FAR, ""),
    ] {
        let (answer, sent) = connect(&database, &pair.authority, way);
        assert_eq!(answer, Ok(true), "{way:?}");
        assert_nothing_in_clear(&sent);
    }
}

#[test]
fn a_certificate_that_is_unknown_or_for_another_name_is_refused_and_names_nothing() {
    let test = "a_certificate_that_is_unknown_or_for_another_name_is_refused_and_names_nothing";
    let pair = Pair::new();
    let Some(server) = PostgresServer::on_network(test, Some(&pair)) else { return };
    let database = server.database();
    let unknown = "this machine does not trust the authority of its certificate";
    let other_name = "its certificate is for another name";
    for (authority, host, reason) in [
        (&Pair::new().authority, "localhost", unknown),
        (&pair.authority, "db.example", other_name),
        (&pair.authority, "10.0.0.1", other_name),
    ] {
        for way in [(host, NEAR, "&sslmode=require"), (host, FAR, "")] {
            let (answer, sent) = connect(&database, authority, way);
            let error = answer.unwrap_err();
            assert!(error.contains(reason), "{way:?}: {error}");
            let named = ["stile", "test0", PASSWORD, host, NEAR, FAR];
            assert!(named.iter().all(|secret| !error.contains(secret)), "{way:?}: {error}");
            assert_nothing_in_clear(&sent);
        }
    }
}

#[test]
fn a_database_without_tls_hears_nothing_unless_it_is_near_or_the_address_allows_it() {
    let test = "a_database_without_tls_hears_nothing_unless_it_is_near_or_the_address_allows_it";
    let Some(server) = PostgresServer::on_network(test, None) else { return };
    let (database, authority) = (server.database(), Pair::new().authority);
    for way in [
        ("localhost", NEAR, "&sslmode=require"),
        ("localhost", FAR, "&sslmode=require"),
        ("localhost", FAR, "&sslmode=prefer"),
        ("localhost", FAR, ""),
    ] {
        let (answer, sent) = connect(&database, &authority, way);
        let error = answer.unwrap_err();
        assert!(error.contains("server does not support TLS"), "{way:?}: {error}");
        assert_eq!(sent, ASKS_FOR_TLS, "{way:?}");
    }
    for way in [
        ("localhost", NEAR, ""),
        ("db.example", NEAR, "&sslmode=prefer"),
        ("localhost", NEAR, "&sslmode=disable"),
        ("localhost", FAR, "&sslmode=disable"),
    ] {
        let (answer, sent) = connect(&database, &authority, way);
        assert_eq!(answer, Ok(false), "{way:?}");
        assert!(!sent.starts_with(&ASKS_FOR_TLS), "{way:?}");
        assert!(String::from_utf8_lossy(&sent).contains("stile"), "{way:?}");
    }
}

#[test]
fn without_tls_a_database_that_demands_it_refuses() {
    let test = "without_tls_a_database_that_demands_it_refuses";
    let pair = Pair::new();
    let Some(server) = PostgresServer::on_network(test, Some(&pair)) else { return };
    let way = ("localhost", NEAR, "&sslmode=disable");
    let (answer, _) = connect(&server.database(), &pair.authority, way);
    assert!(answer.unwrap_err().contains("no encryption"));
}
