//! Somebody moves the folder of the space away, puts another one there, and puts the right one
//! back, again and again, while agents read and write.
//!
//! Law: no acknowledged change is lost, and none is in the other folder. An answer is right or the
//! error `root_moved`. While another folder is there, no change succeeds and `/health` reports it.
//! Once the right one is back, the same process goes on at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::client::McpClient;

use crate::servers::{CANARY, Door, Field, Process, walk};

/// Agents of each process.
const AGENTS: usize = 2;

/// An agent with files of its own.
struct Agent {
    client: Box<dyn McpClient>,
    chance: Chance,
    /// What its files hold.
    files: BTreeMap<String, String>,
    name: String,
    made: usize,
    done: usize,
    refused: usize,
}

/// The text that a file has in both folders, so that its hash is right in the wrong one too.
fn same(is_one: bool) -> String {
    format!("# Same {CANARY}\n{}\n", if is_one { "one" } else { "two" })
}

fn hash(text: &str) -> String {
    ContentHash::digest(text.as_bytes()).to_string()
}

impl Agent {
    fn same_path(&self) -> String {
        format!("/same-{}.md", self.name)
    }

    /// Calls a tool. `None` if the root was moved; any other error fails.
    fn call(&mut self, tool: &str, arguments: Value) -> Option<Value> {
        let answer = self.client.tool(tool, arguments).unwrap();
        match answer.pointer("/error/code").and_then(Value::as_str) {
            None => {
                self.done += 1;
                Some(answer)
            }
            Some("root_moved") => {
                self.refused += 1;
                None
            }
            Some(_) => panic!("{tool} of {}: {answer}", self.name),
        }
    }

    fn work(&mut self) {
        match self.chance.below(5) {
            0 => self.toggle(),
            1 => self.append(),
            2 => self.create(),
            3 => self.remove(),
            _ => self.read(),
        }
    }

    /// Changes the file that the other folder has as well.
    fn toggle(&mut self) {
        let path = self.same_path();
        let text = self.files[&path].clone();
        let is_one = text == same(true);
        let (old, new) = if is_one { ("one", "two") } else { ("two", "one") };
        let arguments = json!({
            "path": path, "hash": hash(&text), "lines": [1, 0], "old": old, "new": new,
        });
        if self.call("text.replace", arguments).is_some() {
            self.files.insert(path, same(!is_one));
        }
    }

    fn any(&mut self) -> (String, String) {
        let number = self.chance.below(self.files.len());
        let (path, text) = self.files.iter().nth(number).unwrap();
        (path.clone(), text.clone())
    }

    fn append(&mut self) {
        let (path, text) = self.any();
        if path == self.same_path() {
            return self.toggle();
        }
        let arguments = json!({ "path": path, "hash": hash(&text), "content": "more\n" });
        if self.call("text.append", arguments).is_some() {
            self.files.insert(path, format!("{text}more\n"));
        }
    }

    fn create(&mut self) {
        self.made += 1;
        let path = format!("/own/{}-{}.md", self.name, self.made);
        let text = format!("{path} {CANARY}\n");
        if self.call("file.create", json!({ "path": path, "content": text })).is_some() {
            self.files.insert(path, text);
        }
    }

    fn remove(&mut self) {
        let (path, text) = self.any();
        if path == self.same_path() {
            return self.toggle();
        }
        if self.call("file.remove", json!({ "path": path, "hash": hash(&text) })).is_some() {
            self.files.remove(&path);
        }
    }

    fn read(&mut self) {
        let (path, text) = self.any();
        if let Some(answer) = self.call("text.read", json!({ "path": path })) {
            assert_eq!(answer["content"], text, "{path}");
        }
    }
}

/// Every file of a folder, hidden ones too.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = BTreeMap::new();
    walk(folder, &mut |path| {
        tree.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(path).unwrap());
    });
    tree
}

fn health(process: &Process) -> (u16, Value) {
    let Process::Http(server, _) = process else { panic!("no health") };
    let head = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let reply = server.client("").send(head.as_bytes()).unwrap();
    (reply.status, reply.json()["status"].clone())
}

/// Creates a file at `path`; returns the code of the refusal.
fn try_create(client: &mut dyn McpClient, path: &str) -> Option<String> {
    let answer = client.tool("file.create", json!({ "path": path, "content": "x\n" })).unwrap();
    answer.pointer("/error/code").map(|code| code.as_str().unwrap().to_owned())
}

#[test]
fn a_folder_that_is_replaced_while_it_is_served_loses_nothing_and_gets_nothing_else() {
    let (seed, rounds) = (seed(), scaled_long(50, 1_000, 50_000));
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let mut field = Field::new();
    let outside = tempfile::tempdir_in(field.root().parent().unwrap()).unwrap();
    let (away, other) = (outside.path().join("away"), outside.path().join("other"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("others.md"), "another folder\n").unwrap();
    let processes = [field.start(Door::Http, "a"), field.start(Door::Stdio, "b")];
    let mut agents = Vec::new();
    for (number, process) in (0..2 * AGENTS).map(|number| (number, &processes[number % 2])) {
        let name = number.to_string();
        let path = format!("/same-{name}.md");
        for folder in [&field.root(), &other] {
            fs::write(folder.join(&path[1..]), same(true)).unwrap();
        }
        agents.push(Agent {
            client: process.client(),
            chance: chance.fork(),
            files: BTreeMap::from([(path, same(true))]),
            name,
            made: 0,
            done: 0,
            refused: 0,
        });
    }
    // Whoever answers has opened the folder.
    for agent in &mut agents {
        agent.read();
    }
    let before = tree(&other);
    let root = field.root();
    let mut probes: Vec<_> = processes.iter().map(Process::client).collect();
    let ended = AtomicBool::new(false);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for agent in &mut agents {
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    agent.work();
                }
            });
        }
        let _ends = EndOnDrop(&ended);
        for round in 0..rounds {
            let mut pause =
                || std::thread::sleep(Duration::from_micros(chance.below(10_000) as u64));
            let probe = format!("/probe-{round}.md");
            pause();
            fs::rename(&root, &away).unwrap();
            if round % 3 == 0 {
                pause();
                assert_eq!(health(&processes[0]), (503, json!("root_moved")), "{round}: away");
            }
            fs::rename(&other, &root).unwrap();
            for client in &mut probes {
                let code = try_create(&mut **client, &probe);
                assert_eq!(code.as_deref(), Some("root_moved"), "{round}: another folder");
            }
            pause();
            assert_eq!(
                health(&processes[0]),
                (503, json!("root_moved")),
                "{round}: another folder"
            );
            fs::rename(&root, &other).unwrap();
            assert_eq!(tree(&other), before, "{round}: the other folder is as it was");
            fs::rename(&away, &root).unwrap();
            assert_eq!(health(&processes[0]), (200, json!("ok")), "{round}: back");
            for (number, client) in probes.iter_mut().enumerate() {
                let probe = format!("/probe-{round}-{number}.md");
                assert_eq!(try_create(&mut **client, &probe), None, "{round}: back");
                fs::remove_file(root.join(&probe[1..])).unwrap();
            }
        }
    });
    let took = started.elapsed();
    let mut expected = BTreeMap::new();
    let (mut done, mut refused) = (0, 0);
    for agent in &agents {
        done += agent.done;
        refused += agent.refused;
        let files = agent.files.iter();
        expected
            .extend(files.map(|(path, text)| (path.clone(), ContentHash::digest(text.as_bytes()))));
    }
    assert_eq!(field.files(), expected, "seed {seed}: what was acknowledged is there");
    for process in processes {
        field.stop(process);
    }
    assert_eq!(field.strays(), [] as [PathBuf; 0]);
    assert_eq!(tree(&other), before, "the other folder is as it was");
    println!("{rounds} rounds in {took:.1?}; {done} calls done, {refused} refused as root_moved");
    assert!(done >= rounds && refused >= rounds, "too little happened");
    field.assert_quiet();
}

/// Sets a flag when dropped.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
