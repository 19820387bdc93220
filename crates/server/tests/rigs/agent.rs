//! An agent that reads, changes what it read, and writes down what it was told.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::Chance;
use stile_testkit::client::McpClient;
use stile_testkit::history::{Activity, Change, Event, Outcome};

use crate::servers::CANARY;

pub(crate) type Events = Vec<Event<ContentHash>>;

/// The instants that all agents share.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// An agent, the texts that it believes in, and its history of each file.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) chance: Chance,
    /// The texts as it saw or made them last.
    pub(crate) views: HashMap<String, String>,
    pub(crate) history: HashMap<String, Events>,
    /// Whether the agent appends.
    pub(crate) appends: bool,
    client: Box<dyn McpClient>,
    clock: Clock,
    versions: u64,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Told {
    Done(Value),
    Refused(String),
    /// No answer came.
    Nothing(io::Error),
}

impl Agent {
    pub(crate) fn new(
        name: String,
        client: Box<dyn McpClient>,
        chance: Chance,
        clock: &Clock,
    ) -> Self {
        let (views, history, clock) = (HashMap::new(), HashMap::new(), clock.clone());
        Self { name, chance, views, history, appends: true, client, clock, versions: 0 }
    }

    /// Talks to another process from now on.
    pub(crate) fn reconnect(&mut self, client: Box<dyn McpClient>) {
        self.client = client;
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Told {
        match self.client.tool(tool, arguments) {
            Err(error) => Told::Nothing(error),
            Ok(answer) => match answer.pointer("/error/code").and_then(Value::as_str) {
                Some(code) => Told::Refused(code.to_owned()),
                None => Told::Done(answer),
            },
        }
    }

    /// A line that no other agent writes, and not this one twice, naming the version that it comes
    /// from.
    pub(crate) fn new_line(&mut self, parent: &str) -> String {
        self.versions += 1;
        let parent: String =
            ContentHash::digest(parent.as_bytes()).to_string().chars().take(12).collect();
        format!("version {}-{} parent {parent} {CANARY}", self.name, self.versions)
    }

    /// Reads a whole file and believes it.
    pub(crate) fn read(&mut self, path: &str) -> Told {
        let began = self.clock.now();
        let told = self.call("text.read", json!({ "path": path }));
        let ended = self.clock.now();
        if let Told::Done(answer) = &told {
            let (text, hash) =
                (answer["content"].as_str().unwrap(), answer["hash"].as_str().unwrap());
            assert_eq!(answer["truncated"], false, "{path} grew past a window");
            let version = ContentHash::digest(text.as_bytes());
            assert_eq!(version.to_string(), hash, "{path}: the hash is not that of the text");
            self.views.insert(path.to_owned(), text.to_owned());
            self.note(path, Event { began, ended, activity: Activity::Read(version) });
        }
        told
    }

    /// Changes a file in one of many ways, from what it believes is there; what it believes
    /// afterwards is what it was told.
    pub(crate) fn change(&mut self, path: &str) -> Told {
        if !self.views.contains_key(path) {
            let told = self.read(path);
            if !matches!(told, Told::Done(_)) {
                return told;
            }
        }
        let text = self.views.remove(path).unwrap();
        let line = self.new_line(&text);
        let parent = ContentHash::digest(text.as_bytes());
        let mut proposed = propose(&text, &line, &mut self.chance);
        while proposed.0 == "text.append" && !self.appends {
            if text.is_empty() {
                return Told::Refused("an empty file can only be appended to".to_owned());
            }
            proposed = propose(&text, &line, &mut self.chance);
        }
        let (tool, mut arguments, new) = proposed;
        arguments["path"] = path.into();
        arguments["hash"] = parent.to_string().into();
        let version = ContentHash::digest(new.as_bytes());
        let began = self.clock.now();
        let told = self.call(tool, arguments);
        let (ended, outcome) = match &told {
            Told::Done(answer) => {
                assert_eq!(
                    answer["hash"],
                    version.to_string(),
                    "{path}: {tool} made something else of {text:?}"
                );
                self.views.insert(path.to_owned(), new);
                (self.clock.now(), Outcome::Acknowledged)
            }
            Told::Refused(code) if code == "unknown_outcome" => {
                (self.clock.now(), Outcome::Unknown)
            }
            Told::Refused(code) => {
                assert!(code == "stale" || code == "busy", "{path}: {tool} was refused as {code}");
                (self.clock.now(), Outcome::Refused)
            }
            Told::Nothing(_) => (u64::MAX, Outcome::Unknown),
        };
        self.note(
            path,
            Event {
                began,
                ended,
                activity: Activity::Requested(Change { parent, version, outcome }),
            },
        );
        told
    }

    fn note(&mut self, path: &str, event: Event<ContentHash>) {
        self.history.entry(path.to_owned()).or_default().push(event);
    }
}

/// The lines past which a file shrinks again.
const MANY: usize = 40;

/// A change of a text that puts `line` into it: the tool, its arguments, and the text that it must
/// make.
pub(crate) fn propose(
    text: &str,
    line: &str,
    chance: &mut Chance,
) -> (&'static str, Value, String) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let bare = |line: &str| line.trim_end_matches('\n').to_owned();
    if lines.is_empty() || (lines.len() < MANY && chance.happens(30)) {
        let open = !text.is_empty() && !text.ends_with('\n');
        let new = format!("{text}{}{line}\n", if open { "\n" } else { "" });
        return ("text.append", json!({ "content": format!("{line}\n") }), new);
    }
    if lines.len() < MANY && chance.happens(40) {
        let at = chance.below(lines.len());
        let arguments = json!({ "line": at + 1, "anchor": bare(lines[at]), "content": line });
        let new = [lines[..at].concat(), format!("{line}\n"), lines[at..].concat()].concat();
        return ("text.insert", arguments, new);
    }
    let count = if lines.len() < MANY { 1 + chance.below(2.min(lines.len())) } else { MANY / 2 };
    let at = chance.below(lines.len() - count + 1);
    let old = lines[at..at + count].concat();
    let end = if old.ends_with('\n') { "\n" } else { "" };
    let new = [lines[..at].concat(), format!("{line}{end}"), lines[at + count..].concat()].concat();
    ("text.replace", json!({ "lines": [at + 1, at + count + 1], "old": old, "new": line }), new)
}
