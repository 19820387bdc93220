//! A hostile agent does all it can to the files of a person, who changes some of them meanwhile, as
//! another agent may. Then one undo of each agent has to give everything back, or to name what not,
//! and its exit code has to say which of the two it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::process::{Rig, Server};

const FILES: [&str; 8] = ["a.md", "b.md", "c.md", "d/a.md", "d/b.md", "d/e/a.md", "f/a.md", "g.md"];
const FOLDERS: [&str; 9] = ["d", "d/e", "f", "d", "d/e", "f", "l", "h", "h/i"];
const FOLDERS_WITH_FILES: [&str; 3] = ["d", "d/e", "f"];
/// Folders that hold a link alone, or nothing but folders.
const FOLDERS_WITHOUT_FILES: [&str; 4] = ["l", "h/i/j", "h/k", "d/empty"];
/// Links, and where they lead.
const LINKS: [(&str, &str); 4] =
    [("l/link", "../a.md"), ("d/link", "a.md"), ("d/e/link", "nowhere"), ("f/link", "/")];
/// Files whose names no path can hold.
const NAMELESS: [&[u8]; 3] = [b"d/back\\slash.md", b"d/e/caf\xe9.md", b"f/50%41\\.md"];
const PIPE: &str = "d/e/pipe";
const FOLDER_MODES: [u32; 3] = [0o700, 0o750, 0o755];
/// Other names, for folders and files alike. Some differ from those above in case only.
const NAMES: [&str; 7] = ["new.md", "A.md", "D", "x", "x/y", "d/x", "a.md/z"];
const MODES: [u32; 3] = [0o600, 0o640, 0o644];
const LIMITS: [&str; 3] = ["64KiB", "1MiB", "1GiB"];
const DEEDS: usize = 40;

/// A file with its text.
type Files = BTreeMap<String, String>;

/// Everything below a folder, with its kind, its mode, its text, and where it leads.
type Tree = BTreeMap<PathBuf, String>;

/// One person, the agents, and what is known of the files.
struct Stage {
    rig: Rig,
    chance: Chance,
    originals: Files,
    /// Everything that was there at first.
    whole: Tree,
    modes: BTreeMap<String, u32>,
    /// What the person saved, moved, or put in place of something.
    touched: BTreeSet<String>,
    /// What the person made where nothing was.
    made: BTreeSet<String>,
    /// The files with whose content agents made others.
    twins: BTreeSet<String>,
    /// Whether the history has room for all, and nobody but the agent does anything.
    is_alone: bool,
    /// Where agents moved files, the latest last.
    moves: Vec<(String, String)>,
    /// What the last change of an agent did, if it can be turned back.
    last: Option<Turn>,
    serial: usize,
}

/// What a change did that another agent may turn back, so that everything is as before, by the same
/// bytes and modes.
#[derive(Clone)]
enum Turn {
    /// A file with this text was removed.
    Removed(String, String),
    /// In a file of this text, the first text took the place of the second one.
    Edited(String, String, [String; 2]),
    /// A file or a folder was moved.
    Moved(&'static str, String, String),
    /// A folder was removed.
    FolderRemoved(String),
}

/// A call of an agent, and where it moves files.
struct Deed {
    tool: &'static str,
    arguments: Value,
    moves: Vec<(String, String)>,
}

impl Deed {
    fn new(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, moves: Vec::new() }
    }

    /// Returns what turns the deed back. `files` are those of before.
    fn turn(&self, files: &Files) -> Option<Turn> {
        let text = |key: &str| self.arguments[key].as_str().map(str::to_owned);
        let path = text("path")?;
        let was = || files.get(&path).cloned();
        match self.tool {
            "file.remove" => Some(Turn::Removed(path.clone(), was()?)),
            "text.replace" => {
                let (was, old, new) = (was()?, text("old")?, text("new")?);
                Some(Turn::Edited(path.clone(), was.replacen(&old, &new, 1), [new, old]))
            }
            "file.move" | "folder.move" => Some(Turn::Moved(self.tool, path, text("to")?)),
            "folder.remove" => Some(Turn::FolderRemoved(path)),
            _ => None,
        }
    }
}

/// What one undo said, and whether its exit code was 0.
struct Undone {
    told: String,
    is_whole: bool,
}

impl Undone {
    /// Whether the plan left a change as it is.
    fn leaves_something(&self) -> bool {
        self.told.lines().any(|line| line.starts_with("leave"))
    }

    /// Returns whether a path is named among what is left.
    fn names(&self, path: &str) -> bool {
        let is_named = |line: &str| {
            let mut words = line.split([' ', ',', ':']);
            let is_left = line.starts_with("leave") || line.starts_with('/');
            let is_left = is_left || line.contains("are not in the history, which had no room");
            is_left && words.any(|word| word == format!("/{path}"))
        };
        // Of changes without a row, the history names only some files.
        self.told.contains(", and maybe others") || self.told.lines().any(is_named)
    }
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
    fn files(&self) -> Files {
        let mut files = BTreeMap::new();
        collect(&self.rig.root, "", &mut files);
        files
    }

    /// Returns everything in the space but what is ours.
    fn tree(&self) -> Tree {
        let (mut found, mut folders) = (Tree::new(), vec![self.rig.root.clone()]);
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let metadata = path.symlink_metadata().unwrap();
                let (kind, mode) = (metadata.file_type(), metadata.permissions().mode());
                let what = if kind.is_symlink() {
                    format!("link {:?}", fs::read_link(&path).unwrap())
                } else if kind.is_file() {
                    format!("{mode:o} {:?}", hash(&fs::read_to_string(&path).unwrap()))
                } else {
                    format!("{mode:o}")
                };
                if kind.is_dir() {
                    folders.push(path.clone());
                }
                if !is_ours(&path.to_string_lossy()) {
                    found.insert(path.strip_prefix(&self.rig.root).unwrap().to_owned(), what);
                }
            }
        }
        found
    }

    fn any(&mut self, files: &Files) -> Option<(String, String)> {
        let at = self.chance.below(files.len().max(1));
        files.iter().nth(at).map(|(path, text)| (path.clone(), text.clone()))
    }

    fn one_of(&mut self, names: &[&str]) -> String {
        names[self.chance.below(names.len())].to_owned()
    }

    /// Returns any name of a file or a folder that a call may name.
    fn any_name(&mut self) -> String {
        match self.chance.below(4) {
            0 => self.one_of(&FOLDERS),
            1 => self.one_of(&NAMES),
            _ => self.one_of(&FILES),
        }
    }

    /// Calls one tool of an agent. Refusals are part of the game.
    fn agent(&mut self, client: &mut Http) {
        let deed = self.deed(client);
        self.act(client, deed);
    }

    /// Lets an agent turn back what was done last.
    fn turn_back(&mut self, client: &mut Http) {
        let Some(turn) = self.last.take() else { return };
        let files = self.files();
        let deed = match turn {
            Turn::Removed(path, text) => {
                self.twins.insert(path.clone());
                // A file with that text has the mode, too, if it is a copy.
                let twin = files.iter().find(|(_, other)| **other == text).map(|(twin, _)| twin);
                match twin.cloned() {
                    Some(twin) => {
                        let arguments = json!({ "path": twin, "hash": hash(&text), "to": path });
                        match self.chance.happens(50) {
                            true => Deed::new("file.copy", arguments),
                            false => Deed {
                                moves: vec![(twin, path)],
                                ..Deed::new("file.move", arguments)
                            },
                        }
                    }
                    None => Deed::new("file.create", json!({ "path": path, "content": text })),
                }
            }
            Turn::Edited(path, text, [old, new]) => {
                let arguments = json!({
                    "path": path, "hash": hash(&text), "lines": [1, 0], "old": old, "new": new,
                });
                Deed::new("text.replace", arguments)
            }
            Turn::Moved("file.move", from, to) => {
                let hash = hash(files.get(&to).map_or("", String::as_str));
                let arguments = json!({ "path": to, "hash": hash, "to": from });
                Deed { moves: vec![(to, from)], ..Deed::new("file.move", arguments) }
            }
            Turn::Moved(_, from, to) => self.move_of_folder(client, &files, [&to, &from]),
            Turn::FolderRemoved(path) => Deed::new("folder.create", json!({ "path": path })),
        };
        self.act(client, deed);
    }

    fn act(&mut self, client: &mut Http, deed: Deed) {
        let turn = deed.turn(&self.files());
        let answer = client.tool(deed.tool, deed.arguments);
        if answer.is_ok_and(|answer| answer.get("error").is_none()) {
            self.moves.extend(deed.moves);
            self.last = turn;
        }
    }

    fn deed(&mut self, client: &mut Http) -> Deed {
        let files = self.files();
        let (name, known, content) = (self.any_name(), self.any(&files), self.text());
        match (self.chance.below(15), known) {
            (0..3, Some((path, text))) => {
                Deed::new("file.remove", json!({ "path": path, "hash": hash(&text) }))
            }
            (3..5, Some((path, text))) => {
                let arguments = json!({
                    "path": path, "hash": hash(&text), "lines": [1, 0],
                    "old": text.lines().next().unwrap_or_default(), "new": content,
                });
                Deed::new("text.replace", arguments)
            }
            (5, Some((path, text))) => {
                let arguments = json!({ "path": path, "hash": hash(&text), "content": content });
                Deed::new("text.append", arguments)
            }
            (6..8, Some((path, text))) => {
                let arguments = json!({ "path": path, "hash": hash(&text), "to": name });
                Deed { moves: vec![(path, name)], ..Deed::new("file.move", arguments) }
            }
            // A folder in place of a file, and a file in place of a folder.
            (8, _) => Deed::new("folder.create", json!({ "path": name })),
            (9, _) => Deed::new("folder.remove", json!({ "path": self.one_of(&FOLDERS) })),
            (10, _) => self.removal_of_a_folder(client),
            (11, _) => self.move_of_a_folder(client, &files, &name),
            (13, Some((path, text))) => {
                let arguments = json!({ "path": path, "hash": hash(&text), "to": name });
                self.twins.insert(path);
                Deed::new("file.copy", arguments)
            }
            // Moves on a file that was moved before, so that it had a path in between.
            (14, _) => {
                let (path, to) = (self.moves.last().map(|it| it.1.clone()), name);
                let path = path.filter(|path| files.contains_key(path));
                let Some(path) = path.or(files.keys().next().cloned()) else {
                    return Deed::new("folder.create", json!({ "path": to }));
                };
                let arguments = json!({ "path": path, "hash": hash(&files[&path]), "to": to });
                Deed { moves: vec![(path, to)], ..Deed::new("file.move", arguments) }
            }
            _ => {
                // Now and then with the content that a file had which the agent removed.
                let again = self.originals.get(&name).filter(|_| self.serial.is_multiple_of(3));
                let again = again.cloned();
                if again.is_some() {
                    self.twins.insert(name.clone());
                }
                let content = again.unwrap_or(content);
                Deed::new("file.create", json!({ "path": name, "content": content }))
            }
        }
    }

    fn removal_of_a_folder(&mut self, client: &mut Http) -> Deed {
        let path = self.one_of(&FOLDERS);
        let hash = tree_hash(client, &path);
        Deed::new("folder.remove", json!({ "path": path, "hash": hash }))
    }

    /// Moves a folder, maybe to the place of another one or of a file that went.
    fn move_of_a_folder(&mut self, client: &mut Http, files: &Files, to: &str) -> Deed {
        let from = match self.chance.below(3) {
            0 => self.one_of(&NAMES),
            _ => self.one_of(&FOLDERS),
        };
        self.move_of_folder(client, files, [&from, to])
    }

    fn move_of_folder(&self, client: &mut Http, files: &Files, [from, to]: [&str; 2]) -> Deed {
        let hash = tree_hash(client, from);
        let below = |path: &String| {
            path.strip_prefix(&format!("{from}/"))
                .map(|rest| (path.clone(), format!("{to}/{rest}")))
        };
        let moves = files.keys().filter_map(below).collect();
        let arguments = json!({ "path": from, "hash": hash, "to": to });
        Deed { moves, ..Deed::new("folder.move", arguments) }
    }

    /// Does what a person does: saves a file, removes it, gives it another name, puts a link in
    /// place of it or of its folder, closes a folder, or makes a file or a folder somewhere.
    fn person(&mut self) {
        let Some((path, _)) = self.any(&self.files()) else { return };
        let file = self.rig.root.join(&path);
        match self.chance.below(12) {
            8 => return self.close_a_folder(),
            9 => return self.make_a_closed_folder(),
            10 | 11 => return self.make_a_file(),
            0 => {
                fs::remove_file(&file).unwrap();
                symlink("/nowhere", &file).unwrap();
            }
            1 => fs::remove_file(&file).unwrap(),
            2 => {
                let to = format!("kept {}.md", self.serial);
                fs::rename(&file, self.rig.root.join(&to)).unwrap();
                self.touched.insert(to);
            }
            3 => return self.link_in_place_of_a_folder(),
            4 => {
                let name = self.any_name();
                // Where there is something, it stays.
                let _: std::io::Result<()> = fs::create_dir(self.rig.root.join(&name));
                self.touched.insert(name);
                return;
            }
            _ => fs::write(&file, format!("saved by hand {}\n", self.serial)).unwrap(),
        }
        self.touched.insert(path);
    }

    fn close_a_folder(&mut self) {
        let name = self.one_of(&FOLDERS);
        let folder = self.rig.root.join(name);
        if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
            // The agent is not all that the folders differ by.
            self.is_alone = false;
        }
    }

    /// Makes a folder with a file where nothing is, and closes it.
    fn make_a_closed_folder(&mut self) {
        let name = self.any_name();
        let folder = self.rig.root.join(&name);
        if fs::create_dir(&folder).is_ok() {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(folder.join("secret.md"), format!("secret {}\n", self.serial)).unwrap();
            self.made.insert(format!("{name}/secret.md"));
            self.touched.insert(name);
        }
    }

    /// Makes a file where nothing is, which may be a path that another file had in between.
    fn make_a_file(&mut self) {
        let name = match self.moves.is_empty() {
            true => self.any_name(),
            false => self.moves[self.chance.below(self.moves.len())].1.clone(),
        };
        let file = self.rig.root.join(&name);
        let made = fs::File::options().write(true).create_new(true).open(&file);
        if made.is_ok() {
            fs::write(file, format!("made by hand {}\n", self.serial)).unwrap();
            self.made.insert(name);
        }
    }

    /// Returns the modes of all folders, each by what tells it from every other one there ever was.
    fn folders(&self) -> BTreeMap<(u64, SystemTime), (PathBuf, u32)> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![self.rig.root.clone()]);
        while let Some(folder) = folders.pop() {
            let metadata = folder.symlink_metadata().unwrap();
            let inner = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            folders.extend(inner.filter(|path| path.symlink_metadata().unwrap().is_dir()));
            if let Ok(made) = metadata.created() {
                let mode = metadata.permissions().mode() & 0o777;
                found.insert((metadata.ino(), made), (folder, mode));
            }
        }
        found
    }

    fn link_in_place_of_a_folder(&mut self) {
        let folder = self.one_of(&FOLDERS);
        let there = self.rig.root.join(&folder);
        if !there.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        let below = |path: &String| path.strip_prefix(&format!("{folder}/")).map(str::to_owned);
        let mut names = (0..).map(|at| format!("kept {} {at}", self.serial));
        let kept = names.find(|name| !self.rig.root.join(name).exists()).unwrap();
        for rest in self.files().keys().filter_map(below) {
            self.touched.insert(format!("{folder}/{rest}"));
            self.touched.insert(format!("{kept}/{rest}"));
        }
        fs::rename(&there, self.rig.root.join(&kept)).unwrap();
        symlink(self.rig.root.join(&kept), &there).unwrap();
        self.touched.insert(folder);
    }

    /// Takes away what keeps files from their paths: links, and folders without a file.
    fn clear_obstacles(&self) {
        for name in FOLDERS.iter().chain(&FILES) {
            let path = self.rig.root.join(name);
            match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => fs::remove_file(path).unwrap(),
                Ok(found) if found.is_dir() && FILES.contains(name) => {
                    let mut inside = BTreeMap::new();
                    collect(&path, "", &mut inside);
                    if inside.is_empty() {
                        fs::remove_dir_all(path).unwrap();
                    }
                }
                _ => {}
            }
        }
    }

    fn stile(&self, arguments: &[&str]) -> Undone {
        let mut command = self.rig.command(arguments);
        command.arg("--root").arg(&self.rig.root).arg("--state").arg(&self.rig.state);
        let output = command.output().unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        Undone { told, is_whole: output.status.success() }
    }

    /// Plans an undo and makes it, and checks that it does what its plan says: it ends with the
    /// same exit code, no step fails, what the plan says is not kept is not and all else is, and
    /// each file that is restored by one step has the bytes that the history had for it.
    fn take_back(&self, seed: u64, undo: &[&str]) -> Undone {
        let planned = self.stile(&[undo, &["--json"]].concat());
        let values = serde_json::Deserializer::from_str(&planned.told).into_iter::<Value>();
        let plan = values.take(1).find_map(Result::ok).unwrap_or_default();
        let promised = self.promised(&plan);
        let undone = self.stile(&[undo, &["--yes"]].concat());
        let told = format!(
            "seed {seed}: {undo:?}:\n{plan}\n{}\n---\n{}\n{}",
            planned.told,
            undone.told,
            self.stile(&["history"]).told,
        );
        assert_eq!(planned.is_whole, undone.is_whole, "the exit code, {told}");
        if let Some((done, all)) = steps_done(&undone.told) {
            assert_eq!(done, all, "a step failed, {told}");
        }
        let lacks = plan["not_kept"].as_array().is_some_and(|files| !files.is_empty());
        assert_eq!(lacks, undone.told.contains("so those steps cannot be taken back"), "{told}");
        assert_eq!(lacks, undone.told.contains("except for what the history"), "{told}");
        for (path, bytes) in promised {
            let now = fs::read(self.rig.root.join(&path[1..])).ok();
            assert!(now.as_ref() == Some(&bytes), "{path} is not what was promised, {told}");
        }
        undone
    }

    /// Returns the files that a plan restores with one step, and touches with no other, each with
    /// the bytes that it is to have.
    fn promised(&self, plan: &Value) -> Vec<(String, Vec<u8>)> {
        let steps = plan["steps"].as_array().cloned().unwrap_or_default();
        let named =
            |step: &Value| ["path", "to", "from"].map(|key| step[key].as_str().map(str::to_owned));
        let all: Vec<String> = steps.iter().flat_map(named).flatten().collect();
        let is_alone = |path: &str| {
            let below = format!("{path}/");
            let is_other =
                |other: &&String| *other != path && !path.starts_with(&format!("{other}/"));
            all.iter().filter(|other| *other == path).count() == 1
                && all.iter().filter(is_other).all(|other| !other.starts_with(&below))
        };
        let restored = steps.iter().filter(|step| step["step"] == "restore");
        let restored = restored.filter_map(|step| {
            let path = step["path"].as_str().filter(|path| is_alone(path))?;
            let version = format!("{path}@{}", step["before_change"]);
            let mut command = self.rig.command(&["show", &version]);
            command.arg("--root").arg(&self.rig.root).arg("--state").arg(&self.rig.state);
            let shown = command.output().unwrap();
            shown.status.success().then(|| (path.to_owned(), shown.stdout))
        });
        restored.collect()
    }

    /// Takes back what an agent did. The history may know nothing of an agent.
    fn undo(&self, seed: u64, agent: &str) -> Undone {
        let before = self.folders();
        let undone = self.take_back(seed, &["undo", "--client", agent, "--since", "1h"]);
        for (folder, (path, mode)) in self.folders() {
            let Some((was_at, was)) = before.get(&folder) else { continue };
            let is_open = mode & !was != 0;
            assert!(!is_open, "seed {seed}: {was_at:?} of {was:o} is {path:?} with {mode:o} now");
        }
        let is_nothing = undone.told.contains("the history has no change");
        Undone { is_whole: undone.is_whole || is_nothing, ..undone }
    }

    /// Checks what the latest undos of all agents came to.
    fn check(&self, seed: u64, undone: &[Undone]) {
        let files = self.files();
        let told: String = undone.iter().map(|undone| undone.told.as_str()).collect();
        let fail = |what: &str, path: &str| {
            let history = self.stile(&["history"]).told;
            panic!("seed {seed}: {path} {what}:\n{told}\n{history}")
        };
        let is_named = |path: &str| undone.iter().any(|undone| undone.names(path));
        let mut all_back = true;
        for (path, text) in &self.originals {
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
            // Of two files with one content, the plan may name the other one.
            let is_twin_named =
                self.twins.contains(path) && undone.iter().any(|undone| !undone.is_whole);
            if files.get(path) == Some(text) {
                let mode = self.rig.root.join(path).metadata().unwrap().permissions().mode();
                let is_excused = is_twin_named || places.iter().any(|it| is_named(it));
                if mode & 0o777 != self.modes[path] && !is_excused {
                    fail("came back with another mode", path);
                }
                continue;
            }
            all_back = false;
            // The owner looks for a file where it was at first. Where others than one agent took
            // part, it may be named by a path that it had since.
            let is_alone = undone.len() == 1 && self.touched.is_empty() && self.made.is_empty();
            let is_named_by_path = match is_alone {
                true => is_named(path),
                false => places.iter().any(|place| is_named(place)),
            };
            if !is_twin_named && !is_named_by_path {
                fail("did not come back and is not named", path);
            }
        }
        for folder in FOLDERS_WITH_FILES {
            let is_back = |(path, text): (&String, &String)| {
                path.starts_with(&format!("{folder}/")) && files.get(path) == Some(text)
            };
            let found = self.rig.root.join(folder).symlink_metadata();
            let found = found.ok().filter(fs::Metadata::is_dir);
            let is_wanted = !self.touched.contains(folder) && self.originals.iter().any(is_back);
            let Some(found) = found.filter(|_| is_wanted && !is_named(folder)) else { continue };
            let (mode, was) = (found.permissions().mode() & 0o777, self.modes[folder]);
            if mode & !was != 0 || self.is_alone && mode != was {
                fail(&format!("has the mode {mode:o} and had {was:o}"), folder);
            }
        }
        if !all_back && undone.iter().all(|undone| undone.is_whole) {
            panic!("seed {seed}: not everything came back, and the exit code is 0:\n{told}");
        }
        // Of several agents, an undo of one may bring back what another one had made. It goes with
        // the next undo of that one.
        let all_left = files.keys().filter(|_| undone.len() == 1);
        for path in all_left {
            let is_made = self.made.contains(path)
                || files[path].starts_with("made by hand")
                || files[path].starts_with("secret ");
            let is_known = self.originals.contains_key(path) || self.touched.contains(path);
            let is_known = is_known || is_made;
            if !is_known && !is_ours(path) && !is_named(path) {
                fail("was left by the agent and is not named", path);
            }
        }
    }

    /// Takes back what both agents did, until nothing is to be done. Then everything is back, or
    /// the last undos name it.
    fn undo_by_turns(&self, seed: u64) {
        let mut told = String::new();
        for _ in 0..DEEDS {
            let last = ["agent", "other"].map(|agent| self.undo(seed, agent));
            self.check(seed, &last);
            if last.iter().all(|undone| steps_done(&undone.told).is_none()) {
                return;
            }
            told.extend(last.map(|undone| undone.told));
        }
        panic!("seed {seed}: the undos of two agents come to no end:\n{told}");
    }

    /// Checks that everything is as it was at first: nobody but one agent did anything.
    fn check_whole(&self, seed: u64, what: &str, expected: &Tree, undone: &Undone) {
        let now = self.tree();
        let differs = |path: &&PathBuf| now.get(*path) != expected.get(*path);
        let differing: BTreeSet<_> = now.keys().chain(expected.keys()).filter(differs).collect();
        let differing: Vec<_> =
            differing.into_iter().map(|path| (path, expected.get(path), now.get(path))).collect();
        assert!(differing.is_empty(), "seed {seed}: {what}: {differing:#?}\n{}", undone.told);
    }

    /// Takes a whole undo back and makes it again. Both leave everything as it was before.
    fn there_and_back(&self, seed: u64, before: &Tree, undone: &Undone) {
        let Some(call) = number_of(&undone.told) else { return };
        let again = self.take_back(seed, &["undo", &call]);
        let is_promised = undone.told.contains("takes this back.");
        assert!(
            !again.leaves_something() || !is_promised,
            "seed {seed}: not taken back:\n{}",
            again.told
        );
        if again.is_whole {
            self.check_whole(seed, "the undo of the undo", before, &again);
            let undone = self.undo(seed, "agent");
            assert!(undone.is_whole, "seed {seed}: the second undo:\n{}", undone.told);
            self.check_whole(seed, "the second undo", &self.whole, &undone);
        }
    }
}

/// Returns how many steps were made, and of how many.
fn steps_done(told: &str) -> Option<(&str, &str)> {
    let line = told.lines().find(|line| line.contains(" done."))?;
    let (counts, _) = line.split_once(" done.")?;
    counts.split_once(" of ")
}

/// Returns the number that takes an undo back.
fn number_of(told: &str) -> Option<String> {
    let (_, rest) = told.split_once("`stile undo ")?;
    Some(rest.split('`').next()?.to_owned())
}

/// A displaced file that the history did not keep waits in its folder for a while.
fn is_ours(path: &str) -> bool {
    path.contains("(conflict ") || path.contains(".stile-")
}

fn hash(text: &str) -> String {
    ContentHash::digest(text.as_bytes()).to_string()
}

/// Returns the hash of a folder with all that it holds; null if the agent cannot get it.
fn tree_hash(client: &mut Http, path: &str) -> Value {
    let listed = client.tool("file.list", json!({ "path": path, "tree_hash": true }));
    listed.map_or(Value::Null, |listed| listed["tree_hash"].clone())
}

fn collect(folder: &Path, prefix: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.contains('\\')) else { continue };
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            files.insert(path, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

/// Prepares the files of the person.
fn stage(folder: &Path, seed: u64) -> Stage {
    let mut stage = Stage {
        rig: Rig::below(folder, crate::servers::binary()),
        chance: Chance::of(seed),
        originals: BTreeMap::new(),
        whole: BTreeMap::new(),
        modes: BTreeMap::new(),
        touched: BTreeSet::new(),
        made: BTreeSet::new(),
        twins: BTreeSet::new(),
        is_alone: false,
        moves: Vec::new(),
        last: None,
        serial: 0,
    };
    for name in FILES {
        let (text, file) = (stage.text(), stage.rig.root.join(name));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &text).unwrap();
        let mode = MODES[stage.chance.below(MODES.len())];
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        stage.originals.insert(name.to_owned(), text);
        stage.modes.insert(name.to_owned(), mode);
    }
    plant_what_is_no_file(&mut stage);
    for name in FOLDERS_WITH_FILES {
        let mode = FOLDER_MODES[stage.chance.below(FOLDER_MODES.len())];
        fs::set_permissions(stage.rig.root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        stage.modes.insert(name.to_owned(), mode);
    }
    stage.whole = stage.tree();
    stage
}

/// Adds what no change of a file records: links, a pipe, names that no path can hold, and folders
/// without files.
fn plant_what_is_no_file(stage: &mut Stage) {
    let root = stage.rig.root.clone();
    for name in FOLDERS_WITHOUT_FILES {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for (name, target) in LINKS {
        symlink(target, root.join(name)).unwrap();
    }
    for name in NAMELESS {
        fs::write(root.join(OsStr::from_bytes(name)), stage.text()).unwrap();
    }
    assert!(Command::new("mkfifo").arg(root.join(PIPE)).status().unwrap().success());
    for name in FOLDERS.iter().chain(&FOLDERS_WITHOUT_FILES) {
        let mode = FOLDER_MODES[stage.chance.below(FOLDER_MODES.len())];
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn play(seed: u64, limit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = stage(folder.path(), seed);
    let tokens = ["agent", "other"].map(|name| stage.rig.token(&["write:/"], &["--client", name]));
    let start = |rig: &Rig| -> (Server, [Http; 2]) {
        let server = rig.serve(&["--history-bytes", limit]);
        let clients = [&tokens[0], &tokens[1]].map(|token| server.client(token));
        (server, clients)
    };
    let (mut server, mut clients) = start(&stage.rig);
    // Every second game has a person in it, and every third a second agent.
    let (has_person, has_other) = (stage.chance.happens(50), stage.chance.happens(33));
    stage.is_alone = !has_person && !has_other && limit == "1GiB";
    for _ in 0..DEEDS {
        if has_person && stage.chance.happens(10) {
            stage.person();
        } else if stage.chance.happens(3) {
            server.kill();
            (server, clients) = start(&stage.rig);
        } else {
            let who = usize::from(has_other && stage.chance.happens(40));
            match has_other && stage.chance.happens(25) {
                true => stage.turn_back(&mut clients[who]),
                false => stage.agent(&mut clients[who]),
            }
        }
    }
    let before = stage.tree();
    let undone = stage.undo(seed, "agent");
    if has_other {
        stage.check(seed, &[undone, stage.undo(seed, "other")]);
        stage.undo_by_turns(seed);
    } else {
        let is_whole = undone.is_whole;
        stage.check(seed, std::slice::from_ref(&undone));
        if is_whole && !has_person {
            stage.check_whole(seed, "the undo", &stage.whole, &undone);
        }
        // Once nothing is in the way, the same command goes on.
        stage.clear_obstacles();
        stage.check(seed, &[stage.undo(seed, "agent")]);
        if is_whole && !has_person {
            stage.there_and_back(seed, &before, &undone);
        }
    }
    server.kill();
}

/// Two agents work, and the owner takes calls back in between, under a history that is too small.
fn play_with_small_histories(seed: u64, limit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = stage(folder.path(), seed);
    let tokens = ["agent", "other"].map(|name| stage.rig.token(&["write:/"], &["--client", name]));
    let server = stage.rig.serve(&["--history-bytes", limit, "--history", "keep"]);
    let mut clients = [&tokens[0], &tokens[1]].map(|token| server.client(token));
    for _ in 0..DEEDS {
        let who = usize::from(stage.chance.happens(40));
        stage.agent(&mut clients[who]);
        if stage.chance.happens(8) {
            let call = (1 + stage.chance.below(2 * stage.serial)).to_string();
            stage.take_back(seed, &["undo", &call]);
        }
    }
    for undo in [&["undo", "--since", "1h"][..], &["undo", "--client", "agent"]] {
        let undone = stage.take_back(seed, undo);
        if let Some(call) = number_of(&undone.told) {
            let again = stage.take_back(seed, &["undo", &call]);
            let is_promised = undone.told.contains("takes this back.");
            assert!(
                !again.leaves_something() || !is_promised,
                "seed {seed}: not taken back:\n{}",
                again.told
            );
        }
    }
    server.kill();
}

#[test]
fn an_undo_does_what_its_plan_promises_however_small_the_history_is() {
    let (seed, games) = (seed(), scaled_long(9, 300, 3_000));
    println!("seed {seed}");
    for game in 0..games {
        let limit = ["24KiB", "64KiB", "200KiB"][game % 3];
        play_with_small_histories(seed.wrapping_add(game as u64), limit);
    }
    println!("{games} games");
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
