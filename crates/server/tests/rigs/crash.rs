//! The server is killed at random instants while agents work, and started again.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::history::{Activity, Change, Outcome, check_line};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{CANARY, Door, Field};

const AGENTS: usize = 4;
/// Longer than a server may take to answer first, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An agent that shares some files with the others and makes, changes, moves and removes some of
/// its own.
struct Worker {
    agent: Agent,
    /// What its own files may hold: one thing, or two where the kill came before the answer. `None`
    /// is no file.
    own: BTreeMap<String, Vec<Option<String>>>,
    /// The paths of a move that got no answer. The file is at exactly one of them.
    moving: Option<[String; 2]>,
    made: usize,
}

impl Worker {
    /// One call; `false` once no answer came.
    fn work(&mut self, shared: &[String]) -> bool {
        let there: Vec<String> = self
            .own
            .iter()
            .filter(|(_, may)| may[0].is_some())
            .map(|(path, _)| path.clone())
            .collect();
        let any = |chance: &mut Chance, of: &[String]| of[chance.below(of.len())].clone();
        match self.agent.chance.below(100) {
            0..50 => {
                let path = any(&mut self.agent.chance, shared);
                !matches!(self.agent.change(&path), Told::Nothing(_))
            }
            50..75 if there.len() < 8 => self.create(),
            75..83 if !there.is_empty() => {
                let path = any(&mut self.agent.chance, &there);
                self.remove(&path)
            }
            83..92 if !there.is_empty() => {
                let path = any(&mut self.agent.chance, &there);
                self.rename(&path)
            }
            _ if there.is_empty() => self.create(),
            _ => {
                let path = any(&mut self.agent.chance, &there);
                self.change(&path)
            }
        }
    }

    fn create(&mut self) -> bool {
        self.made += 1;
        // Some in a folder of their own, so that folders are made as well.
        let name = format!("{}-{}", self.agent.name, self.made);
        let path = if self.agent.chance.happens(30) {
            format!("/own/{name}/a/note.md")
        } else {
            format!("/own/{name}.md")
        };
        let content =
            format!("{}\n", self.agent.new_line("")).repeat(1 + self.agent.chance.below(400));
        let told = self.agent.call("file.create", json!({ "path": path, "content": content }));
        self.settle(path, None, Some(content), told)
    }

    /// Moves a file within its folder, to another one, or to one that has to be made.
    fn rename(&mut self, path: &str) -> bool {
        self.made += 1;
        let name = format!("{}-{}", self.agent.name, self.made);
        let to = match self.agent.chance.below(3) {
            0 => format!("{}-{name}.md", path.trim_end_matches(".md")),
            1 => format!("/own/{name}.md"),
            _ => format!("/own/{name}/a/note.md"),
        };
        let before = self.own[path][0].clone();
        let hash = ContentHash::digest(before.as_deref().unwrap().as_bytes()).to_string();
        let told = self.agent.call("file.move", json!({ "path": path, "hash": hash, "to": to }));
        let (may, answered) = match told {
            Told::Done(_) => ([vec![None], vec![before]], true),
            Told::Refused(code) if code == "busy" => ([vec![before], vec![None]], true),
            Told::Refused(code) => panic!("{path} to {to}: refused as {code}"),
            Told::Nothing(_) => {
                self.moving = Some([path.to_owned(), to.clone()]);
                ([vec![before.clone(), None], vec![None, before]], false)
            }
        };
        let [from_may, to_may] = may;
        self.own.insert(path.to_owned(), from_may);
        self.own.insert(to, to_may);
        answered
    }

    fn remove(&mut self, path: &str) -> bool {
        let before = self.own[path][0].clone();
        let hash = ContentHash::digest(before.as_deref().unwrap().as_bytes()).to_string();
        let told = self.agent.call("file.remove", json!({ "path": path, "hash": hash }));
        self.settle(path.to_owned(), before, None, told)
    }

    fn change(&mut self, path: &str) -> bool {
        let before = self.own[path][0].clone().unwrap();
        let line = self.agent.new_line(&before);
        let hash = ContentHash::digest(before.as_bytes()).to_string();
        let arguments = json!({ "path": path, "hash": hash, "content": format!("{line}\n") });
        let told = self.agent.call("text.append", arguments);
        let after = format!("{before}{line}\n");
        self.settle(path.to_owned(), Some(before), Some(after), told)
    }

    fn settle(
        &mut self,
        path: String,
        before: Option<String>,
        after: Option<String>,
        told: Told,
    ) -> bool {
        let (may, answered) = match told {
            Told::Done(_) => (vec![after], true),
            Told::Refused(code) if code == "busy" => (vec![before], true),
            Told::Refused(code) => panic!("{path}: refused as {code}"),
            Told::Nothing(_) => (vec![before, after], false),
        };
        self.own.insert(path, may);
        answered
    }

    /// Holds its own files to what it was told, and knows from then on what there is.
    fn check(&mut self, field: &Field) -> Result<(), String> {
        for (path, may) in &mut self.own {
            let file = field.root().join(path.trim_start_matches('/'));
            let found = std::fs::read_to_string(file).ok();
            if !may.contains(&found) {
                let lengths = |text: &Option<String>| text.as_ref().map(String::len);
                let may: Vec<_> = may.iter().map(lengths).collect();
                return Err(format!(
                    "{path} holds {:?} bytes and may hold {may:?}",
                    lengths(&found)
                ));
            }
            *may = vec![found];
        }
        if let Some(paths) = self.moving.take() {
            let there = paths.iter().filter(|path| self.own[*path][0].is_some()).count();
            if there != 1 {
                return Err(format!("of {paths:?} there are {there}"));
            }
        }
        self.own.retain(|_, may| may[0].is_some());
        Ok(())
    }
}

#[test]
fn a_kill_at_any_instant_tears_no_file_and_loses_no_acknowledged_change() {
    let (seed, kills) = (seed(), scaled_long(30, 1_000, 10_000));
    println!("seed {seed}");
    let mut chance = Chance::of(seed);
    let mut field = Field::new();
    let shared: Vec<String> =
        (0..4).map(|file| format!("/shared/{}/{file}.md", file / 2)).collect();
    for path in &shared {
        let file = field.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{path} begins {CANARY}\n")).unwrap();
    }
    let clock = Clock::default();
    let mut workers: Vec<Worker> = Vec::new();
    let (mut acknowledged, mut unanswered) = (HashSet::new(), 0);
    let (mut strays, mut held) = (0, 0);
    let calls = AtomicUsize::new(0);
    let started = Instant::now();
    for kill in 0..kills {
        let fail = |what: String| -> ! { panic!("seed {seed}, kill {kill}: {what}") };
        let before = field.files();
        let door = if chance.happens(50) { Door::Http } else { Door::Stdio };
        let process = field.start(door, "state");
        // Whoever answers has cleaned up.
        for number in workers.len()..AGENTS {
            let agent = Agent::new(format!("{number}"), process.client(), chance.fork(), &clock);
            workers.push(Worker { agent, own: BTreeMap::new(), moving: None, made: 0 });
        }
        for worker in &mut workers {
            worker.agent.reconnect(process.client());
        }
        if let Told::Nothing(error) = workers[0].agent.read(&shared[0]) {
            fail(format!("no answer: {error}"));
        }
        if field.files() != before {
            fail(format!("the start changed files: {before:?} became {:?}", field.files()));
        }
        if !field.strays().is_empty() {
            fail(format!("the start left {:?}", field.strays()));
        }
        // Folders stay when their files are removed; so many of them would only slow the rig down.
        for folder in
            std::fs::read_dir(field.root().join("own")).into_iter().flatten().map_while(Result::ok)
        {
            let _ = std::fs::remove_dir(folder.path().join("a"))
                .and_then(|()| std::fs::remove_dir(folder.path()));
        }
        let firsts: Vec<ContentHash> = shared.iter().map(|path| before[path]).collect();
        let goal = calls.load(Ordering::Relaxed) + 1 + chance.below(40);
        let moment = Duration::from_micros(chance.below(4_000) as u64);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| {
                    while worker.work(&shared) {
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let deadline = Instant::now() + PATIENCE;
            while calls.load(Ordering::Relaxed) < goal && Instant::now() < deadline {
                std::thread::yield_now();
            }
            // Any instant will do; this only chooses one.
            std::thread::sleep(moment);
            field.kill(process);
        });
        strays += field.strays().len();
        held += field.held("state").len();
        // Before anything could be repaired: each file is whole, and everything acknowledged is
        // there.
        for (path, first) in shared.iter().zip(firsts) {
            let mut events = Vec::new();
            for worker in &mut workers {
                worker.agent.views.remove(path);
                events.extend(worker.agent.history.remove(path).unwrap_or_default());
            }
            for event in &events {
                match event.activity {
                    Activity::Requested(Change {
                        version, outcome: Outcome::Acknowledged, ..
                    }) => {
                        acknowledged.insert(version.to_string());
                    }
                    Activity::Requested(Change { outcome: Outcome::Unknown, .. }) => {
                        unanswered += 1
                    }
                    _ => {}
                }
            }
            let last = ContentHash::digest(field.text(path).as_bytes());
            if let Err(faults) = check_line(first, last, &events) {
                fail(format!("{path}: {faults:?}"));
            }
        }
        for worker in &mut workers {
            worker.check(&field).unwrap_or_else(|what| fail(what));
        }
        let expected = shared.len() + workers.iter().map(|worker| worker.own.len()).sum::<usize>();
        if field.files().len() != expected {
            fail(format!("{expected} files expected, found {:?}", field.files().keys()));
        }
    }
    let took = started.elapsed();
    let process = field.start(Door::Http, "state");
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.stop(process);
    assert_eq!(field.held("state"), [] as [std::path::PathBuf; 0]);
    // What was acknowledged was journalled before.
    for line in field.journalled() {
        if let Some(after) = line["after"].as_str() {
            acknowledged.remove(after);
        }
    }
    assert!(acknowledged.is_empty(), "seed {seed}: not in the journal: {acknowledged:?}");
    println!(
        "{kills} kills in {took:.1?}; {} calls answered, {unanswered} changes of shared files unanswered, {strays} files \
         left behind and {held} held files cleaned up",
        calls.into_inner()
    );
    // A kill that interrupts nothing proves nothing.
    assert!(unanswered >= kills / 10, "only {unanswered} changes were interrupted");
    assert!(strays + held >= kills, "only {strays} and {held} files were left behind");
    field.assert_quiet();
}
