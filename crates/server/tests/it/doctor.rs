//! `stile doctor` against real servers: what it calls good, and what it finds.

use std::path::PathBuf;
use std::process::Output;

use stile_testkit::process::{Rig, Server};
use stile_testkit::upstream::tls::Pair;
use stile_testkit::upstream::{Behaviour, Reply, Upstream};

struct Stage {
    folder: tempfile::TempDir,
    rig: Rig,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        let stage = Self { folder, rig };
        let pair = Pair::new();
        let texts = [pair.certificate, pair.key, pair.authority];
        for (name, text) in ["certificate.pem", "key.pem", "authority.pem"].iter().zip(texts) {
            std::fs::write(stage.path(name), text).unwrap();
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn serve_tls(&self, more: &[&str]) -> Server {
        let (certificate, key) = (self.text("certificate.pem"), self.text("key.pem"));
        let flags = ["--tls-certificate", &certificate, "--tls-key", &key];
        self.rig.serve(&[&flags, more].concat())
    }

    /// Runs the command and returns its lines and its exit code.
    fn doctor(&self, public: &str, more: &[&str]) -> (Vec<String>, Option<i32>) {
        let arguments = [&["doctor", "--public", public], more].concat();
        let Output { status, stdout, .. } = self.rig.command(&arguments).output().unwrap();
        let lines = String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect();
        (lines, status.code())
    }

    fn doctor_with_authority(&self, public: &str) -> (Vec<String>, Option<i32>) {
        self.doctor(public, &["--ca-file", &self.text("authority.pem")])
    }
}

fn words(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.split_whitespace().next().unwrap()).collect()
}

#[test]
fn doctor_finds_true_documents_at_the_address_that_clients_use() {
    let stage = Stage::new();
    let server = stage.serve_tls(&[]);
    let public = format!("https://localhost:{}", server.address.port());
    let (lines, code) = stage.doctor_with_authority(&public);
    // The address is of this machine, and no documents of clients are fetched without a public URL.
    assert_eq!(words(&lines), ["note", "note", "ok", "ok", "ok", "note", "note"], "{lines:#?}");
    assert_eq!(code, Some(0));
    assert!(lines[1].contains("hosted clients") && lines[1].contains("port 443"), "{lines:#?}");
    assert!(lines[2].contains("with a trusted certificate"), "{lines:#?}");
    assert!(lines[5].contains("oauth-authorization-server is true"), "{lines:#?}");
}

#[test]
fn doctor_says_that_a_certificate_is_not_trusted() {
    let stage = Stage::new();
    let server = stage.serve_tls(&[]);
    let public = format!("https://localhost:{}", server.address.port());
    let (lines, code) = stage.doctor(&public, &[]);
    assert_eq!((words(&lines), code), (vec!["note", "note", "bad"], Some(1)), "{lines:#?}");
    assert!(lines[2].contains("its certificate is not trusted"), "{lines:#?}");
}

#[test]
fn doctor_finds_a_server_that_describes_another_address() {
    let stage = Stage::new();
    let server = stage.serve_tls(&["--public-url", "https://notes.example.org"]);
    let public = format!("https://localhost:{}", server.address.port());
    let (lines, code) = stage.doctor_with_authority(&public);
    assert_eq!(
        (words(&lines), code),
        (vec!["note", "note", "ok", "bad", "bad"], Some(1)),
        "{lines:#?}"
    );
    for line in &lines[3..] {
        assert!(line.contains(&format!("--public-url {public}")), "{lines:#?}");
    }
}

#[test]
fn doctor_names_what_answers_instead_of_the_server() {
    let stage = Stage::new();
    let other = Upstream::start(Behaviour::always(Reply::bytes(200, "text/html", "welcome")));
    let (lines, code) = stage.doctor(&other.url(), &[]);
    assert_eq!((words(&lines), code), (vec!["note", "note", "bad"], Some(1)), "{lines:#?}");
    assert!(lines[2].contains("something else than Stile answers"), "{lines:#?}");
    other.set(Behaviour::Refuse);
    let (lines, _) = stage.doctor(&other.url(), &[]);
    assert!(lines[2].contains("nothing answers on port"), "{lines:#?}");
    let (lines, code) = stage.doctor("https://no-such-name.invalid", &[]);
    assert_eq!((words(&lines), code), (vec!["bad"], Some(1)), "{lines:#?}");
}
