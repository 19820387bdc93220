//! A hostile agent does all it can to the files of a person, who saves some of them meanwhile. Then
//! one undo has to give everything back, or to name what not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::process::{Rig, Server};

const FILES: [&str; 8] = ["a.md", "b.md", "c.md", "d/a.md", "d/b.md", "d/e/a.md", "f/a.md", "g.md"];
const LIMITS: [&str; 3] = ["64KiB", "1MiB", "1GiB"];
const DEEDS: usize = 40;

/// One person, one agent, and what is known of the files.
struct Stage {
    rig: Rig,
    chance: Chance,
    originals: BTreeMap<String, String>,
    /// What the person saved or put in place of a file.
    touched: BTreeSet<String>,
    /// Where the agent moved files, the latest last.
    moves: Vec<(String, String)>,
    serial: usize,
}

impl Stage {
    fn text(&mut self) -> String {
        self.serial += 1;
        let lines = [1, 3, 200, 2_000][self.chance.below(4)];
        let line = |line: usize| {
            format!("{}\n", ContentHash::digest(format!("{} {line}", self.serial).as_bytes()))
        };
        (0..lines).map(line).collect()
    }

    /// Returns the regular files of the space with their texts, without following links.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(&self.rig.root, "", &mut files);
        files
    }

    fn any(&mut self, files: &BTreeMap<String, String>) -> Option<(String, String)> {
        let at = self.chance.below(files.len().max(1));
        files.iter().nth(at).map(|(path, text)| (path.clone(), text.clone()))
    }

    /// Calls one tool of the agent. Refusals are part of the game.
    fn agent(&mut self, client: &mut Http) {
        let files = self.files();
        let hash = |text: &str| ContentHash::digest(text.as_bytes()).to_string();
        let name = FILES[self.chance.below(FILES.len())].to_owned();
        let known = self.any(&files);
        let content = self.text();
        let (tool, arguments) = match (self.chance.below(10), known) {
            (0..3, Some((path, text))) => {
                ("file.remove", json!({ "path": path, "hash": hash(&text) }))
            }
            (3..5, Some((path, text))) => {
                let arguments = json!({
                    "path": path, "hash": hash(&text), "lines": [1, 0],
                    "old": text.lines().next().unwrap_or_default(), "new": content,
                });
                ("text.replace", arguments)
            }
            (5, Some((path, text))) => {
                ("text.append", json!({ "path": path, "hash": hash(&text), "content": content }))
            }
            (6, Some((path, text))) => {
                let to = format!("{name}.moved");
                let to = if self.chance.happens(50) { name } else { to };
                let arguments = json!({ "path": path, "hash": hash(&text), "to": to });
                if let Ok(answer) = client.tool("file.move", arguments)
                    && answer.get("error").is_none()
                {
                    self.moves.push((path, to));
                }
                return;
            }
            // A folder in place of a file, and a file in place of a folder.
            (7, _) => ("folder.create", json!({ "path": name })),
            (8, _) => {
                let path = ["d", "d/e", "f"][self.chance.below(3)];
                ("folder.remove", json!({ "path": path }))
            }
            _ => {
                let path = [name.as_str(), "d", "f", "new.md"][self.chance.below(4)];
                ("file.create", json!({ "path": path, "content": content }))
            }
        };
        let _: Result<Value, _> = client.tool(tool, arguments);
    }

    /// Saves a file, or puts a link in its place, as a person does.
    fn person(&mut self) {
        let Some((path, _)) = self.any(&self.files()) else { return };
        let file = self.rig.root.join(&path);
        if self.chance.happens(20) {
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/nowhere", &file).unwrap();
        } else {
            std::fs::write(&file, format!("saved by hand {}\n", self.serial)).unwrap();
        }
        self.touched.insert(path);
    }

    /// Checks what one undo of the agent came to.
    fn check(&self, seed: u64) {
        let undo = ["undo", "--client", "agent", "--since", "1h", "--yes", "--root"];
        let mut command = self.rig.command(&undo);
        let output = command.arg(&self.rig.root).arg("--state").arg(&self.rig.state).output();
        let output = output.unwrap();
        let told = [&output.stdout[..], &output.stderr[..]].concat();
        let told = String::from_utf8(told).unwrap();
        let files = self.files();
        let fail = |what: &str, path: &str| panic!("seed {seed}: {path} {what}:\n{told}");
        let is_named = |path: &str| {
            let names = |line: &str| {
                let words = line.split([' ', ',', ':']);
                let is_left = line.starts_with("leave") || line.starts_with('/');
                is_left && words.into_iter().any(|word| word == format!("/{path}"))
            };
            told.lines().any(names)
        };
        let mut all_back = true;
        for (path, text) in &self.originals {
            if files.get(path) == Some(text) {
                continue;
            }
            // The file may have been saved, or may be named, where it was moved to.
            let mut places = BTreeSet::from([path.as_str()]);
            for (from, to) in &self.moves {
                if places.contains(from.as_str()) {
                    places.insert(to);
                }
            }
            if places.iter().any(|place| self.touched.contains(*place)) {
                continue;
            }
            all_back = false;
            if !places.iter().any(|place| is_named(place)) {
                fail("did not come back and is not named", path);
            }
        }
        if !all_back && output.status.success() {
            panic!("seed {seed}: not everything came back, and the exit code is 0:\n{told}");
        }
        for path in files.keys() {
            let is_known = self.originals.contains_key(path) || self.touched.contains(path);
            // A displaced file that the history did not keep waits in its folder for a while.
            let is_ours = path.contains("(conflict ") || path.contains(".stile-");
            if !is_known && !is_ours && !is_named(path) {
                fail("was left by the agent and is not named", path);
            }
        }
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            files.insert(path, std::fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn play(seed: u64, limit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), crate::servers::binary());
    let mut stage = Stage {
        rig,
        chance: Chance::of(seed),
        originals: BTreeMap::new(),
        touched: BTreeSet::new(),
        moves: Vec::new(),
        serial: 0,
    };
    for name in FILES {
        let (text, file) = (stage.text(), stage.rig.root.join(name));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &text).unwrap();
        stage.originals.insert(name.to_owned(), text);
    }
    let token = stage.rig.token(&["write:/"], &["--client", "agent"]);
    let start = |rig: &Rig| -> (Server, Http) {
        let server = rig.serve(&["--history-bytes", limit]);
        let client = server.client(&token);
        (server, client)
    };
    let (mut server, mut client) = start(&stage.rig);
    // Every second game has a person in it.
    let has_person = stage.chance.happens(50);
    for _ in 0..DEEDS {
        if has_person && stage.chance.happens(10) {
            stage.person();
        } else if stage.chance.happens(3) {
            server.kill();
            (server, client) = start(&stage.rig);
        } else {
            stage.agent(&mut client);
        }
    }
    stage.check(seed);
    server.kill();
}

#[test]
fn one_undo_gives_back_what_a_hostile_agent_did_or_names_what_not() {
    let (seed, games) = (seed(), scaled_long(12, 300, 3_000));
    println!("seed {seed}");
    for game in 0..games {
        play(seed.wrapping_add(game as u64), LIMITS[game % LIMITS.len()]);
    }
    println!("{games} games");
}
