//! The guide to records, command by command.
//!
//! Each line of a `console` block that begins with `$` is run, in order and in one folder. What the
//! page shows of its output must be what it prints, where `…` stands for anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use stile_testkit::process::{Rig, Server};

struct Reader {
    rig: Rig,
    work: PathBuf,
    variables: BTreeMap<String, String>,
    server: Option<Server>,
}

impl Reader {
    fn new(folder: &Path) -> Self {
        let rig = Rig::below(folder, env!("CARGO_BIN_EXE_stile"));
        let work = folder.join("work");
        std::fs::create_dir(&work).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        std::os::unix::fs::symlink(root.join("examples"), work.join("examples")).unwrap();
        Self { rig, work, variables: BTreeMap::new(), server: None }
    }

    /// Runs a line and answers what it prints.
    fn run(&mut self, line: &str) -> String {
        if let Some((name, command)) = line.split_once("=$(") {
            let said = self.shell(command.strip_suffix(')').unwrap());
            self.variables.insert(name.to_owned(), said.trim().to_owned());
            return String::new();
        }
        if line.starts_with("stile serve ") {
            self.server = Some(self.rig.serve(&["--log", "error"]));
            return String::new();
        }
        let Some(rest) = line.strip_prefix("curl -s -H \"Authorization: Bearer $TOKEN\" ") else {
            return self.shell(line);
        };
        let (file, target) = rest.split_once("\"http://127.0.0.1:9999").unwrap();
        let sent = file.trim().strip_prefix("--data-binary @");
        self.fetch(
            target.strip_suffix('"').unwrap(),
            sent.map(|file| std::fs::read(self.work.join(file)).unwrap()),
        )
    }

    fn shell(&self, line: &str) -> String {
        let path = format!(
            "{}:{}",
            self.rig.binary.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(&self.work).envs(&self.variables);
        command.env("PATH", path).env("HOME", self.rig.home()).env("STILE_STATE", &self.rig.state);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn fetch(&self, target: &str, sent: Option<Vec<u8>>) -> String {
        let server = self.server.as_ref().expect("the page starts a server first");
        let token = &self.variables["TOKEN"];
        let (method, body) = sent.map_or(("GET", Vec::new()), |body| ("POST", body));
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
            server.address,
            body.len()
        );
        String::from_utf8(
            server.client(token).send(&[head.as_bytes(), &body].concat()).unwrap().body,
        )
        .unwrap()
    }
}

/// Whether a text is what the page shows, `…` standing for anything.
fn fits(shown: &str, said: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap();
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        let found = if at + 1 == parts.len() { rest.rfind(part) } else { rest.find(part) };
        let Some(found) = found else { return false };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn every_command_of_the_guide_does_what_the_guide_says() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md"),
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(folder.path());
    let mut commands = 0;
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for command in format!("\n{block}").split("\n$ ").skip(1) {
            let (line, shown) = command.split_once('\n').unwrap_or((command, ""));
            let said = reader.run(line);
            let (shown, said) = (shown.trim_end(), said.trim_end());
            assert!(fits(shown, said), "$ {line}\nthe page shows:\n{shown}\nand it says:\n{said}");
            commands += 1;
        }
    }
    assert!(commands > 15, "{commands}");
}

#[test]
fn dots_in_the_guide_match_any_text() {
    assert!(
        fits("a…c", "abc")
            && fits("…", "x")
            && fits("a…", "a")
            && fits("", "")
            && fits("a…b…c", "a1b2c")
    );
    assert!(!fits("a…c", "abd") && !fits("ab", "abc") && !fits("", "x") && !fits("a…b…c", "a1c"));
}
