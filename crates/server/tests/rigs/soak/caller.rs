//! A caller that means well: it changes files of its own, and knows what every answer must be.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::Chance;
use stile_testkit::client::{Http, Reply};
use stile_testkit::hosted::{Lifecycle, Peer};

use super::hostile::Kind;
use super::{HOSTILE_EVERY, LARGE_LINES, Place, RECORDS, large_line};
use crate::agent::{Told, propose};
use crate::servers::CANARY;

/// How many files of its own a caller has at most.
const FILES: usize = 8;

/// What a file of a caller holds.
pub(super) struct Held {
    text: String,
    /// What it holds instead if a change was made whose answer the caller did not wait for.
    pending: Option<String>,
}

impl Held {
    /// Whether the file may hold this text. If it is that of the pending change, the change was
    /// made. If it is the other, the change may still come.
    fn accept(&mut self, text: &str) -> bool {
        if self.pending.as_deref() == Some(text) {
            self.text = self.pending.take().unwrap();
        }
        self.text == text
    }

    pub(super) fn hash(&self) -> String {
        ContentHash::digest(self.text.as_bytes()).to_string()
    }
}

/// A caller with its files, and its figures.
pub(super) struct Caller<'a> {
    pub(super) place: &'a Place,
    pub(super) chance: Chance,
    pub(super) files: BTreeMap<String, Held>,
    number: usize,
    proper: Http,
    made: usize,
    lines: usize,
    figures: Figures,
}

/// What callers did.
#[derive(Default)]
pub(super) struct Figures {
    /// How long each proper call took.
    took: Vec<Duration>,
    changes: usize,
    hostile: BTreeMap<Kind, usize>,
}

impl Figures {
    pub(super) fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.changes += other.changes;
        for (kind, count) in other.hostile {
            *self.hostile.entry(kind).or_default() += count;
        }
    }

    pub(super) fn calls(&self) -> usize {
        self.took.len() + self.hostile.values().sum::<usize>()
    }

    pub(super) fn hostile(&self, kind: Kind) -> usize {
        self.hostile.get(&kind).copied().unwrap_or_default()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took = self.took.clone();
        took.sort_unstable();
        let part = |share: usize| took[(took.len() * share / 1000).min(took.len() - 1)];
        write!(
            formatter,
            "{} proper, {} of them changes, half of them within {:?}, 99 % within {:?}, 99.9 % \
             within {:?}, all within {:?}; hostile {:?}",
            took.len(),
            self.changes,
            part(500),
            part(990),
            part(999),
            part(1000),
            self.hostile
        )
    }
}

/// The text of a record.
pub(super) fn record_text(row: usize) -> String {
    format!("the text of record {row}")
}

/// The texts of the headings of a note, which are all written as `# text`.
fn headings(text: &str) -> Vec<&str> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim()).collect()
}

impl<'a> Caller<'a> {
    pub(super) fn new(place: &'a Place, number: usize, chance: Chance) -> Self {
        let proper = place.server.client(&place.tokens.owner);
        let (files, figures) = (BTreeMap::new(), Figures::default());
        Self { place, chance, files, number, proper, made: 0, lines: 0, figures }
    }

    pub(super) fn into_figures(self) -> Figures {
        self.figures
    }

    /// Calls until the time is over, or something is wrong.
    pub(super) fn work(&mut self) -> Result<(), String> {
        self.begin()?;
        while let Some(number) = self.place.pace.wait() {
            if number % HOSTILE_EVERY == HOSTILE_EVERY - 1 {
                let kind = Kind::ALL[number / HOSTILE_EVERY % Kind::ALL.len()];
                self.attack(kind).map_err(|fault| format!("{kind:?}: {fault}"))?;
                *self.figures.hostile.entry(kind).or_default() += 1;
            } else {
                self.act()?;
            }
        }
        Ok(())
    }

    /// Makes the first files.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        (0..FILES / 2).try_for_each(|_| self.create())
    }

    /// Makes one proper call.
    pub(super) fn act(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..50 => self.read(),
            50..55 => self.read_large(),
            55..62 => self.list(),
            62..70 => self.outline(),
            70..80 => self.record(),
            80..85 => self.aggregate(),
            85..87 => self.session(),
            87..96 => self.change(),
            _ if self.files.len() < FILES => self.create(),
            _ => self.remove(),
        }
    }

    /// The path of one of the caller's files.
    pub(super) fn any(&mut self) -> String {
        let nth = self.chance.below(self.files.len());
        self.files.keys().nth(nth).unwrap().clone()
    }

    /// Sends a proper request and measures it.
    fn timed(
        &mut self,
        send: impl FnOnce(&mut Http) -> std::io::Result<Reply>,
    ) -> Result<Reply, String> {
        let since = Instant::now();
        let reply = send(&mut self.proper).map_err(|error| format!("no answer: {error}"))?;
        self.figures.took.push(since.elapsed());
        match reply.status {
            200 => Ok(reply),
            status => Err(format!("refused: {status} {}", String::from_utf8_lossy(&reply.body))),
        }
    }

    /// Calls a tool.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Told, String> {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.timed(|client| client.post("tools/call", params))?.json();
        let content = &reply["result"]["structuredContent"];
        match content.pointer("/error/code").and_then(Value::as_str) {
            Some(code) => Ok(Told::Refused(code.to_owned())),
            None if content.is_object() => Ok(Told::Done(content.clone())),
            None => Err(format!("{tool} {arguments}: {reply}")),
        }
    }

    /// Calls a tool that must not refuse.
    fn done(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        match self.call(tool, arguments)? {
            Told::Done(answer) => Ok(answer),
            told => Err(format!("{tool} {arguments}: {told:?}")),
        }
    }

    fn get(&mut self, target: &str) -> Result<Value, String> {
        let (address, token) = (self.place.server.address, &self.place.tokens.owner);
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        Ok(self.timed(|client| client.send(request.as_bytes()))?.json())
    }

    fn read(&mut self) -> Result<(), String> {
        let path = self.any();
        let answer = self.done("text.read", &json!({ "path": path }))?;
        let text = answer["content"].as_str().unwrap_or_default();
        let held = self.files.get_mut(&path).unwrap();
        if !held.accept(text) || answer["hash"] != held.hash() || answer["truncated"] != false {
            return Err(format!("{path} holds {:?}, and an answer {answer}", held.text));
        }
        Ok(())
    }

    fn read_large(&mut self) -> Result<(), String> {
        let first = 1 + self.chance.below(LARGE_LINES - 50);
        let arguments = json!({ "path": "/large.md", "lines": [first, first + 50] });
        let answer = self.done("text.read", &arguments)?;
        let expected: String = (first..first + 50).map(large_line).collect();
        if answer["content"] != expected {
            return Err(format!("lines from {first}: {answer}"));
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(), String> {
        let uri = format!("list:///c{}", self.number);
        let reply =
            self.timed(|client| client.post("resources/read", json!({ "uri": uri })))?.json();
        let text = reply.pointer("/result/contents/0/text").and_then(Value::as_str);
        let list: Value = serde_json::from_str(text.unwrap_or_default())
            .map_err(|_| format!("{uri}: {reply}"))?;
        let found = list["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found: Vec<_> = found.iter().filter_map(|entry| entry["name"].as_str()).collect();
        let expected: Vec<_> =
            self.files.keys().filter_map(|path| path.rsplit('/').next()).collect();
        if found != expected {
            return Err(format!("{uri}: {list} instead of {expected:?}"));
        }
        Ok(())
    }

    fn outline(&mut self) -> Result<(), String> {
        let path = self.any();
        let arguments = json!({ "path": path.trim_start_matches('/') });
        let answer = self.done("get_note_outline", &arguments)?;
        let found = answer["headings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found: Vec<_> = found.iter().filter_map(|heading| heading["text"].as_str()).collect();
        let held = &self.files[&path];
        let may = |text: &str| headings(text) == found;
        if !may(&held.text) && !held.pending.as_deref().is_some_and(may) {
            return Err(format!("{path} holds {:?}, and its outline {answer}", held.text));
        }
        Ok(())
    }

    fn record(&mut self) -> Result<(), String> {
        let row = self.chance.below(RECORDS);
        let answer = self.get(&format!("/v1/streams/rows/records/r{row}"))?;
        if answer["data"] != json!({ "id": format!("r{row}"), "text": record_text(row) }) {
            return Err(format!("record {row}: {answer}"));
        }
        Ok(())
    }

    fn aggregate(&mut self) -> Result<(), String> {
        let answer = self.get("/v1/streams/rows/aggregate?metric=count")?;
        if answer["value"] != RECORDS {
            return Err(format!("{RECORDS} records: {answer}"));
        }
        Ok(())
    }

    /// Opens a session, reads in it, and ends it.
    fn session(&mut self) -> Result<(), String> {
        let fault = |what: &dyn fmt::Debug| format!("a session: {what:?}");
        let place = self.place;
        let address = place.server.address;
        let revision = ["2025-06-18", "2025-11-25"][self.chance.below(2)];
        let mut peer = Peer::new(address, &place.tokens.owner, Lifecycle::Session(revision));
        let reply = peer.initialize().map_err(|error| fault(&error))?;
        peer.session = reply.header("mcp-session-id").map(str::to_owned);
        if reply.status != 200 || peer.session.is_none() {
            return Err(fault(&reply));
        }
        let (path, since) = (self.any(), Instant::now());
        let answer = peer.call("text.read", &json!({ "path": path }));
        self.figures.took.push(since.elapsed());
        let held = self.files.get_mut(&path).unwrap();
        if !held.accept(answer["structuredContent"]["content"].as_str().unwrap_or_default()) {
            return Err(fault(&(path, answer)));
        }
        let ended = peer.bodiless("DELETE").map_err(|error| fault(&error))?;
        if ended.status != 204 { Err(fault(&ended)) } else { Ok(()) }
    }

    /// A line that was not written before; every fifth is a heading.
    pub(super) fn new_line(&mut self) -> String {
        self.lines += 1;
        let start = if self.chance.happens(20) { "## " } else { "" };
        format!("{start}line {} of caller {} {CANARY}", self.lines, self.number)
    }

    pub(super) fn is_pending(&self, path: &str) -> bool {
        self.files[path].pending.is_some()
    }

    fn change(&mut self) -> Result<(), String> {
        let (path, line) = (self.any(), self.new_line());
        let (tool, arguments, new) = self.proposal(&path, &line);
        self.figures.changes += 1;
        let told = self.call(tool, &arguments)?;
        let held = self.files.get_mut(&path).unwrap();
        match told {
            Told::Done(answer) => {
                *held = Held { text: new, pending: None };
                let hash = held.hash();
                if answer["hash"] == hash { Ok(()) } else { Err(format!("{path}: {answer}")) }
            }
            told => overtaken(held, told).map_err(|told| format!("{tool} {path}: {told:?}")),
        }
    }

    /// A change of a file: the tool, its arguments, and the text that it makes.
    pub(super) fn proposal(&mut self, path: &str, line: &str) -> (&'static str, Value, String) {
        let held = &self.files[path];
        let (tool, mut arguments, new) = propose(&held.text, line, &mut self.chance);
        arguments["path"] = path.into();
        arguments["hash"] = held.hash().into();
        (tool, arguments, new)
    }

    /// Remembers that a change may have been made.
    pub(super) fn leave_pending(&mut self, path: &str, new: String) {
        self.files.get_mut(path).unwrap().pending = Some(new);
    }

    fn create(&mut self) -> Result<(), String> {
        self.made += 1;
        self.figures.changes += 1;
        let path = format!("/c{}/{}.md", self.number, self.made);
        let text = format!("# {path}\n\n{}\n", self.new_line());
        let answer = self.done("file.create", &json!({ "path": path, "content": text }))?;
        let held = Held { text, pending: None };
        if answer["hash"] != held.hash() {
            return Err(format!("{path}: {answer}"));
        }
        self.files.insert(path, held);
        Ok(())
    }

    fn remove(&mut self) -> Result<(), String> {
        let path = self.any();
        self.figures.changes += 1;
        let told =
            self.call("file.remove", &json!({ "path": path, "hash": self.files[&path].hash() }))?;
        if let Told::Done(_) = told {
            self.files.remove(&path);
            return Ok(());
        }
        let held = self.files.get_mut(&path).unwrap();
        overtaken(held, told).map_err(|told| format!("file.remove {path}: {told:?}"))
    }

    /// Fails where a file does not hold what it must.
    pub(super) fn check_files(&mut self) {
        for (path, held) in &mut self.files {
            let file = self.place.rig.root.join(path.trim_start_matches('/'));
            let found = std::fs::read_to_string(file).unwrap();
            assert!(held.accept(&found), "{path} holds {found:?} instead of {:?}", held.text);
        }
    }
}

/// Believes that a pending change was made, if a call was refused as stale and there is one.
fn overtaken(held: &mut Held, told: Told) -> Result<(), Told> {
    match (told, held.pending.take()) {
        (Told::Refused(code), Some(pending)) if code == "stale" => {
            held.text = pending;
            Ok(())
        }
        (told, _) => Err(told),
    }
}
