//! The server under TLS, and behind a proxy.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use stile_server::http::tls::{TlsFiles, TlsIdentity};
use stile_testkit::client::{Reply, read_reply};
use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::tls::Pair;

use crate::gateway_kit::call;
use crate::support;

const PATIENCE: Duration = Duration::from_secs(60);
const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";

/// A folder with a space, a certificate and its key.
struct Stage {
    folder: tempfile::TempDir,
    rig: Rig,
    pair: Pair,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let stage = Self { folder, rig, pair: Pair::new() };
        stage.install(&stage.pair.certificate, &stage.pair.key);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces both files at once, as a program that renews certificates does.
    fn install(&self, certificate: &str, key: &str) {
        for (name, text) in [("certificate.pem", certificate), ("key.pem", key)] {
            std::fs::write(self.path("new"), text).unwrap();
            private(&self.path("new"));
            std::fs::rename(self.path("new"), self.path(name)).unwrap();
        }
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { certificate: self.path("certificate.pem"), key: self.path("key.pem") }
    }

    fn flags(&self) -> Vec<String> {
        let TlsFiles { certificate, key } = self.files();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        vec!["--tls-certificate".into(), text(certificate), "--tls-key".into(), text(key)]
    }

    fn serve(&self, more: &[&str]) -> Server {
        let flags = self.flags();
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.rig.serve(&flags)
    }
}

#[cfg(unix)]
fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[cfg(not(unix))]
fn private(_: &Path) {}

/// A connection under TLS that trusts one authority.
struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    fn connect(address: SocketAddr, authority: &str) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Self(BufReader::new(StreamOwned::new(tls, stream))))
    }

    fn send(&mut self, method: &str, target: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}");
        let rest = format!("Content-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all((head + &rest).as_bytes()).unwrap();
        read_reply(&mut self.0).unwrap()
    }

    fn get(&mut self, target: &str) -> Reply {
        self.send("GET", target, "", "")
    }

    fn is_alive(&mut self) -> bool {
        self.get("/health").status == 200
    }
}

fn plain(address: SocketAddr, headers: &str) -> Reply {
    plain_get(address, "/mcp", headers)
}

fn plain_get(address: SocketAddr, target: &str, headers: &str) -> Reply {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    read_reply(&mut stream).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn under_tls_everything_that_names_the_server_says_https() {
    let stage = Stage::new();
    let server = stage.serve(&[]);
    let log = String::from_utf8(server.log_so_far()).unwrap();
    assert!(log.contains("listening on https://127.0.0.1:"), "{log}");
    assert!(!log.contains("warning"), "{log}");
    let mut client = Client::connect(server.address, &stage.pair.authority).unwrap();
    assert_eq!(client.0.get_ref().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let metadata = client.get(PROTECTED_RESOURCE).json();
    assert_eq!(metadata["resource"], "https://localhost/mcp");
    let of_origin = PROTECTED_RESOURCE.strip_suffix("/mcp").unwrap();
    for (target, metadata) in [
        ("/mcp", PROTECTED_RESOURCE),
        ("/v1/streams", of_origin),
        ("/api/v1/notes/a.md", of_origin),
    ] {
        let refused = client.get(target);
        assert_eq!(refused.status, 401, "{target}");
        let challenge = refused.header("www-authenticate").unwrap();
        let named = format!("resource_metadata=\"https://localhost{metadata}\"");
        assert!(challenge.contains(&named), "{challenge}");
    }
    let own_page = format!("Origin: https://localhost:{}\r\n", server.address.port());
    assert_eq!(client.send("GET", "/health", &own_page, "").status, 200);
    let mut client = Client::connect(server.address, &stage.pair.authority).unwrap();
    let plain_page = own_page.replace("https", "http");
    assert_eq!(client.send("GET", "/health", &plain_page, "").status, 403);
    let mut client = Client::connect(server.address, &stage.pair.authority).unwrap();
    let forged = client.send("GET", PROTECTED_RESOURCE, "X-Forwarded-Proto: http\r\n", "");
    assert_eq!(forged.json()["resource"], "https://localhost/mcp");

    let token = stage.rig.token(&["write:/"], &[]);
    let headers = format!(
        "Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } });
    let answer = client.send("POST", "/mcp", &headers, &hello.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("mcp-session-id").is_some());
}

#[test]
fn a_gateway_and_its_server_speak_tls_to_each_other_and_to_clients() {
    let stage = Stage::new();
    std::fs::write(stage.rig.root.join("a.md"), "# Heading\n").unwrap();
    let authority = stage.path("authority.pem");
    std::fs::write(&authority, &stage.pair.authority).unwrap();
    let server = stage.serve(&[]);
    let token = stage.rig.token(&["read:/"], &[]);
    let upstream = format!("https://127.0.0.1:{}", server.address.port());
    let trust = ["--upstream", &upstream, "--ca-file", authority.to_str().unwrap()];
    let gateway = stage.rig.gateway(&trust);
    let told = call(&mut gateway.client(&token), "get_note_outline", "a.md");
    assert_eq!(told.structured["headings"][0]["text"], "Heading", "{told:?}");

    let flags = stage.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(trust).collect();
    let gateway = stage.rig.gateway(&flags);
    let mut client = Client::connect(gateway.address, &stage.pair.authority).unwrap();
    let metadata = client.get(PROTECTED_RESOURCE).json();
    assert_eq!(metadata["resource"], "https://localhost/mcp");
}

#[test]
fn a_renewed_certificate_serves_new_connections_and_ends_no_old_one() {
    let stage = Stage::new();
    let server = stage.serve(&[]);
    let connect = |pair: &Pair| Client::connect(server.address, &pair.authority);
    let mut first = connect(&stage.pair).unwrap();
    assert!(first.is_alive());

    let renewed = Pair::new();
    stage.install(&renewed.certificate, &renewed.key);
    eventually("a new connection sees the new certificate", || connect(&renewed).is_ok());
    assert!(connect(&stage.pair).is_err(), "the old certificate is no longer shown");
    assert!(first.is_alive(), "an old connection goes on");
    let mut second = connect(&renewed).unwrap();

    for (certificate, key) in [
        ("no certificate", renewed.key.as_str()),
        (&stage.pair.certificate, "no key"),
        (&stage.pair.certificate, &renewed.key),
    ] {
        let said = server.log_so_far().len();
        stage.install(certificate, key);
        eventually("the log says that the new files cannot be used", || {
            assert!(connect(&renewed).unwrap().is_alive(), "the good pair stays");
            String::from_utf8_lossy(&server.log_so_far()[said..]).contains("cannot be used")
        });
    }
    std::fs::remove_file(stage.files().key).unwrap();
    assert!(connect(&renewed).unwrap().is_alive());

    stage.install(&stage.pair.certificate, &stage.pair.key);
    eventually("a good pair is taken again", || connect(&stage.pair).is_ok());
    assert!(first.is_alive() && second.is_alive());
    let log = String::from_utf8(server.stop().1).unwrap();
    let path = stage.folder.path().to_str().unwrap();
    let names_path = |line: &&str| line.contains("certificate") && line.contains(path);
    assert_eq!(log.lines().find(names_path), None);
}

#[test]
fn files_that_do_not_belong_together_are_refused_at_the_start() {
    let stage = Stage::new();
    let start = |more: &[&str]| {
        let mut command = stage.rig.command(&["serve", "--listen", "127.0.0.1:0", "--state"]);
        command.arg(&stage.rig.state).args(stage.flags()).args(more).arg(&stage.rig.root);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let other = Pair::new();
    for (certificate, key, why) in [
        (stage.pair.certificate.as_str(), other.key.as_str(), "does not belong to"),
        (&stage.pair.certificate, &stage.pair.certificate, "--tls-key holds no private key"),
        (&stage.pair.key, &stage.pair.key, "--tls-certificate holds no certificate"),
        ("", "", "--tls-certificate holds no certificate"),
    ] {
        stage.install(certificate, key);
        let error = start(&[]);
        assert!(error.contains(why), "{why}: {error}");
        assert!(!error.contains("PRIVATE") && !error.contains("/key.pem"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_that_every_user_can_read_is_named_at_the_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new();
    let key = stage.files().key;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let log = String::from_utf8(stage.serve(&[]).log_so_far()).unwrap();
    assert!(log.contains("warning: every user of this machine can read"), "{log}");
}

#[test]
fn plain_text_on_a_port_with_tls_gets_a_400_that_says_so() {
    let stage = Stage::new();
    let server = stage.serve(&[]);
    let mut neighbour = Client::connect(server.address, &stage.pair.authority).unwrap();
    let refused = plain(server.address, "Authorization: Bearer a.b.c\r\n");
    assert_eq!((refused.status, &refused.json()["error"]), (400, &Value::from("https_only")));
    // What is neither TLS nor HTTP ends too.
    for bytes in [&b"\0\0\0\0\r\n\r\n"[..], b"SSH-2.0-x\r\n\r\n", b"\x16\x03\x01\xff\xff\xff\xff"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let ended = stream.read_to_end(&mut Vec::new());
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.as_ref().err().is_none_or(is_reset), "{ended:?}");
    }
    assert!(neighbour.is_alive());
    assert!(Client::connect(server.address, &stage.pair.authority).unwrap().is_alive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_handshakes_end_and_make_room_for_others() {
    let stage = Stage::new();
    let identity = TlsIdentity::open(stage.files()).unwrap();
    let server = support::Server::with(|options| {
        options.tls = Some(identity);
        options.max_connections = 4;
        options.timeouts.head = Duration::from_secs(3);
    })
    .await;
    let address = server.address;
    let authority = stage.pair.authority.clone();
    let clients = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        // Some send nothing, the others the beginning of a handshake.
        let stalled: Vec<TcpStream> = (0..12)
            .map(|number| {
                let mut stream = TcpStream::connect(address).unwrap();
                if number % 2 == 0 {
                    stream.write_all(b"\x16\x03\x01\x02").unwrap();
                }
                stream
            })
            .collect();
        assert!(Client::connect(address, &authority).unwrap().is_alive());
        for mut stream in stalled {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
        assert!(begun.elapsed() < PATIENCE, "a stalled handshake stays open");
    });
    clients.await.unwrap();
}

#[test]
fn the_scheme_follows_the_header_of_a_named_proxy_alone() {
    let stage = Stage::new();
    let resource = |server: &Server, headers: &str| {
        plain_get(server.address, PROTECTED_RESOURCE, headers).json()["resource"].clone()
    };
    let challenge = |server: &Server, headers: &str| {
        plain(server.address, headers).header("www-authenticate").unwrap().to_owned()
    };
    let https = "X-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.9\r\n";
    let believing = stage.rig.serve(&["--behind-proxy", "192.0.2.0/24,127.0.0.1"]);
    assert_eq!(resource(&believing, https), "https://localhost/mcp");
    assert_eq!(resource(&believing, ""), "http://localhost/mcp");
    assert!(challenge(&believing, https).contains("\"https://localhost/"));
    for wrong in [
        "X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n",
        "X-Forwarded-Proto: https, http\r\n",
        "X-Forwarded-For: unknown\r\n",
    ] {
        let refused = plain(believing.address, wrong);
        assert_eq!(refused.status, 400, "{wrong}");
    }
    for more in [&[][..], &["--behind-proxy", "192.0.2.1"]] {
        let server = stage.rig.serve(more);
        assert_eq!(resource(&server, https), "http://localhost/mcp", "{more:?}");
        assert!(challenge(&server, https).contains("\"http://localhost/"), "{more:?}");
    }
}
