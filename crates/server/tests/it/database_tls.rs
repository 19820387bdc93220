//! The program and a database that it reaches over TLS.

use std::process::Command;

use stile_testkit::postgres::{PASSWORD, PostgresServer, TestDatabase};
use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::tls::Pair;

use crate::sign_in_kit::fetch;

/// Returns `stile serve` with a database on the network, and a file with the authority to trust.
fn serve(folder: &std::path::Path, database: &TestDatabase, authority: &str) -> Command {
    let rig = Rig::below(folder, env!("CARGO_BIN_EXE_stile"));
    let file = folder.join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let port = database.server().address().port();
    let address = format!("localhost:{port}");
    let address = database.network_address(&address, "hostaddr=127.0.0.1&sslmode=require");
    let mut command = rig.command(&["serve", "--listen", "127.0.0.1:0", "--database", &address]);
    command.arg("--state").arg(&rig.state).arg(&rig.root);
    command.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR");
    command
}

#[test]
fn a_server_is_ready_with_a_database_over_tls_whose_authority_is_in_ssl_cert_file() {
    let test = "a_server_is_ready_with_a_database_over_tls_whose_authority_is_in_ssl_cert_file";
    let pair = Pair::new();
    let Some(postgres) = PostgresServer::on_network(test, Some(&pair)) else { return };
    let (database, folder) = (postgres.database(), tempfile::tempdir().unwrap());
    let server = Server::start(serve(folder.path(), &database, &pair.authority));
    let ready = fetch("GET", &format!("http://{}/ready", server.address), &[], "");
    assert_eq!(ready.status, 200);
    let ways = database.run(
        "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'stile'",
    );
    assert_eq!(ways, "t\n");
}

#[test]
fn a_server_that_does_not_trust_its_database_does_not_start_and_names_nothing() {
    let test = "a_server_that_does_not_trust_its_database_does_not_start_and_names_nothing";
    let Some(postgres) = PostgresServer::on_network(test, Some(&Pair::new())) else { return };
    let (database, folder) = (postgres.database(), tempfile::tempdir().unwrap());
    let output = serve(folder.path(), &database, &Pair::new().authority).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("does not trust the authority of its certificate"), "{said}");
    let port = postgres.address().port().to_string();
    let folder = folder.path().to_str().unwrap();
    let named = [PASSWORD, "localhost", "127.0.0.1", &port, folder];
    assert!(named.iter().all(|secret| !said.contains(secret)), "{said}");
}
