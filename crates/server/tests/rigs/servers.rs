//! Server processes, what they leave on the disk, and what they must not say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stile_domain::hash::ContentHash;
use stile_domain::path::RESERVED_PREFIX;
use stile_testkit::client::McpClient;
use stile_testkit::leaks::Canaries;
use stile_testkit::process::{Piped, Rig, Server};

/// Stands in every text that is written.
pub(crate) const CANARY: &str = "heron-5c1d7e90b2";

/// A folder with a space in it, served by any number of processes.
pub(crate) struct Field {
    folder: tempfile::TempDir,
    logs: Vec<u8>,
    /// One for each state folder.
    tokens: Vec<(PathBuf, String)>,
}

/// How a process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Http,
    Stdio,
}

/// A running process.
pub(crate) enum Process {
    Http(Server, String),
    Stdio(Piped),
}

/// Returns the program to try: the one that `STILE_BIN` names, or the one that was built.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("STILE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_stile").into()).into()
}

impl Field {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("space")).unwrap();
        Self { folder, logs: Vec::new(), tokens: Vec::new() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    /// The rig with a state folder of its own name, on the one root.
    fn rig(&self, state: &str) -> Rig {
        Rig { binary: binary(), root: self.root(), state: self.folder.path().join(state) }
    }

    /// Starts a process whose state is in the folder `state`.
    pub(crate) fn start(&mut self, door: Door, state: &str) -> Process {
        let rig = self.rig(state);
        match door {
            Door::Stdio => Process::Stdio(rig.piped(&["--log", "trace"])),
            Door::Http => {
                let known = self
                    .tokens
                    .iter()
                    .find(|(of, _)| *of == rig.state)
                    .map(|(_, token)| token.clone());
                let token = known.unwrap_or_else(|| {
                    let token = rig.token(&["write:/"], &[]);
                    self.tokens.push((rig.state.clone(), token.clone()));
                    token
                });
                let many =
                    ["--log", "trace", "--rate-per-second", "1000000", "--rate-burst", "1000000"];
                Process::Http(rig.serve(&many), token)
            }
        }
    }

    /// Ends a process as it likes to be ended.
    pub(crate) fn stop(&mut self, process: Process) {
        let (status, log) = match process {
            Process::Http(server, _) => server.stop(),
            Process::Stdio(piped) => piped.stop(),
        };
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&log));
        self.logs.extend(log);
    }

    /// Ends a process as nobody likes to.
    pub(crate) fn kill(&mut self, process: Process) {
        self.logs.extend(match process {
            Process::Http(server, _) => server.kill(),
            Process::Stdio(piped) => piped.kill(),
        });
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path.trim_start_matches('/'))).unwrap()
    }

    /// Every file below the root that is not hidden as ours, by its path in the space, and its
    /// hash.
    pub(crate) fn files(&self) -> BTreeMap<String, ContentHash> {
        let mut files = BTreeMap::new();
        walk(&self.root(), &mut |path| {
            let name = path.file_name().unwrap().to_string_lossy();
            if !name.starts_with(RESERVED_PREFIX) {
                let inside = path.strip_prefix(self.root()).unwrap();
                files.insert(
                    format!("/{}", inside.display()),
                    ContentHash::digest(&fs::read(path).unwrap()),
                );
            }
        });
        files
    }

    /// Files of ours that are left anywhere below the root.
    pub(crate) fn strays(&self) -> Vec<PathBuf> {
        let mut strays = Vec::new();
        walk(&self.root(), &mut |path| {
            if path.file_name().unwrap().to_string_lossy().starts_with(RESERVED_PREFIX) {
                strays.push(path.to_path_buf());
            }
        });
        strays
    }

    /// Displaced files that wait in a state folder.
    pub(crate) fn held(&self, state: &str) -> Vec<PathBuf> {
        let mut held = Vec::new();
        walk(&self.folder.path().join(state).join("history/held"), &mut |path| {
            if !path.to_string_lossy().ends_with(".alive") {
                held.push(path.to_path_buf());
            }
        });
        held
    }

    /// What the journals say was done: tool, path and the hash after it.
    pub(crate) fn journalled(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        self.journals(&mut |text| {
            // A kill may cut the last line of a file short.
            lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        });
        lines
    }

    fn journals(&self, each: &mut dyn FnMut(&str)) {
        for state in self.states() {
            if state.join("journal").exists() {
                walk(&state.join("journal"), &mut |path| {
                    each(&String::from_utf8_lossy(&fs::read(path).unwrap()))
                });
            }
        }
    }

    fn states(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| *path != self.root() && path.is_dir()).collect()
    }

    /// Fails where a log holds something that it must not, or a journal holds content.
    pub(crate) fn assert_quiet(&self) {
        let mut canaries = Canaries::new()
            .plant("content", CANARY)
            .plant("root", self.root().to_str().unwrap())
            .plant("home", self.rig("state").home().to_str().unwrap());
        for (_, token) in &self.tokens {
            canaries = canaries.plant("token", token);
        }
        for state in self.states() {
            let Ok(key) = fs::read_to_string(state.join("key.json")) else { continue };
            let key: Value = serde_json::from_str(&key).unwrap();
            let secret = key["secret"].as_str().unwrap();
            let bytes = ContentHash::parse(secret).unwrap();
            canaries = canaries.plant("key", secret).plant_bytes("key", bytes.as_bytes());
        }
        // Over HTTP a server says at least where it listens.
        assert!(
            !self.logs.is_empty() || self.tokens.is_empty(),
            "nothing was logged, so nothing was searched"
        );
        canaries.assert_absent("a log", &self.logs);
        let log = String::from_utf8_lossy(&self.logs);
        for trouble in ["ERROR", "panicked", "cannot exchange", "no advisory locks"] {
            let line = log.lines().find(|line| line.contains(trouble));
            assert!(line.is_none(), "a log says: {}", line.unwrap());
        }
        self.journals(&mut |text| canaries.assert_absent("a journal", text.as_bytes()));
    }
}

impl Process {
    pub(crate) fn client(&self) -> Box<dyn McpClient> {
        match self {
            Self::Http(server, token) => Box::new(server.client(token)),
            Self::Stdio(piped) => Box::new(piped.client()),
        }
    }
}

/// Calls `each` with every file below a folder; names that vanish meanwhile are passed over.
pub(crate) fn walk(folder: &Path, each: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map_while(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), each),
            Ok(_) => each(&entry.path()),
            Err(_) => {}
        }
    }
}
