//! Every disk that a power cut could leave during real changes, built and opened.
//!
//! The seam records what each system call of a change does. A cut may come after any of these
//! calls. What was synced is then there. Of all else in a folder, each making, renaming, exchange
//! and removal of a name is there or not, whatever came before or after. A rename from one folder
//! to another is there in both or in neither, and surely there once both are synced. A file that
//! was not synced has its old content, none, a part, zeros or the new one, with the old or the new
//! mode. What was synced of a file that is appended to stays. A disk in two has no rename that
//! exchanges or refuses to replace.
//!
//! Law: after a start on such a disk, every acknowledged change is there whole. The change that was
//! not acknowledged is there whole or not at all. The start removes the temporary files of Stile,
//! but for one kind: if the mode of a new file reached the disk before its content, Stile cannot
//! tell that file from a save of another program, and keeps it as a conflict copy.
//!
//! With a history, the folder of the displaced files is on the simulated disk too. SQLite syncs the
//! database itself, so its files are copied as they are at each call. Law: whatever change is on
//! the disk after the cut, the history has the content that the change replaced or removed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::hash::ContentHash;
use stile_domain::limits::FileLimits;
use stile_domain::path::SpacePath;
use stile_testkit::chance::{Chance, scaled_long, seed};

use crate::history::{History, HistoryLimits, HistorySettings, UnkeptChange};
use crate::state::{StateDir, folder_identity};

use super::append_intent;
use super::fault::{self, Effect};
use super::identity::Identity;
use super::tests::{Rig, hash, path};

/// Above this number of changes of names that are not synced, a sample of what may be left of them.
const ALL_SUBSETS: u32 = 6;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Content {
    bytes: Vec<u8>,
    mode: u32,
}

/// A file or folder of the simulated disk.
#[derive(Clone, Debug)]
enum Node {
    File { synced: Content, now: Content },
    Folder(BTreeMap<String, usize>),
}

/// A change of names that is not synced. Folders are numbers of nodes.
#[derive(Clone, Debug)]
enum NameChange {
    Add(usize, String, usize),
    Exchange(usize, String, String),
    Rename([usize; 2], String, String),
    Remove(usize, String),
}

/// A change of names, and the folders that are to be synced before it surely is there.
#[derive(Clone, Debug)]
struct Pending {
    folders: BTreeSet<usize>,
    change: NameChange,
}

/// The files of a disk by path, with the node of each, since a file may have two names. `None` is a
/// folder.
type Tree = BTreeMap<String, Option<(usize, Content)>>;

/// The disk as it surely is, and what may be there as well.
struct Disk {
    nodes: Vec<Node>,
    /// What the numbers of the system mean now; the system gives a number again.
    known: HashMap<(u64, u64), usize>,
    pending: Vec<Pending>,
}

/// The visible files of a disk by path, with their content.
type Files = BTreeMap<String, Vec<u8>>;

impl Disk {
    /// Reads what is on the disk before the changes, all of which counts as synced.
    fn read(folder: &Path) -> Self {
        let mut disk = Self { nodes: Vec::new(), known: HashMap::new(), pending: Vec::new() };
        disk.add(folder);
        disk
    }

    fn add(&mut self, at: &Path) -> usize {
        let metadata = at.symlink_metadata().unwrap();
        let number = self.make((metadata.dev(), metadata.ino()), Node::Folder(BTreeMap::new()));
        self.nodes[number] = if metadata.is_dir() {
            let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap());
            let named = entries
                .map(|entry| (entry.file_name().into_string().unwrap(), self.add(&entry.path())));
            Node::Folder(named.collect())
        } else {
            let mode = metadata.permissions().mode() & 0o777;
            let content = Content { bytes: fs::read(at).unwrap(), mode };
            Node::File { synced: content.clone(), now: content }
        };
        number
    }

    fn make(&mut self, identity: (u64, u64), node: Node) -> usize {
        self.nodes.push(node);
        self.known.insert(identity, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn number(&self, Identity(device, inode): Identity) -> usize {
        self.known[&(device, inode)]
    }

    fn now(&mut self, file: Identity) -> &mut Content {
        let number = self.number(file);
        let Node::File { now, .. } = &mut self.nodes[number] else { panic!("not a file") };
        now
    }

    fn apply(&mut self, effect: &Effect) {
        let (folder, change) = match effect {
            Effect::Wrote { file, bytes } => return self.now(*file).bytes.extend(bytes),
            Effect::Overwrote { file, bytes } => {
                let now = &mut self.now(*file).bytes;
                let end = bytes.len().min(now.len());
                now.splice(..end, bytes.iter().copied());
                return;
            }
            Effect::Truncated { file, size } => {
                return self.now(*file).bytes.truncate(usize::try_from(*size).unwrap());
            }
            Effect::SetMode { file, mode } => {
                self.now(*file).mode = *mode;
                return;
            }
            Effect::Synced(what) => return self.sync(self.number(*what)),
            Effect::MadeFile { folder, name, file: Identity(device, inode), mode } => {
                let empty = || Content { bytes: Vec::new(), mode: *mode };
                let node = Node::File { synced: empty(), now: empty() };
                let file = self.make((*device, *inode), node);
                let folder = self.number(*folder);
                (folder, NameChange::Add(folder, name.clone(), file))
            }
            Effect::MadeFolder { folder, name, made: Identity(device, inode) } => {
                let made = self.make((*device, *inode), Node::Folder(BTreeMap::new()));
                let folder = self.number(*folder);
                (folder, NameChange::Add(folder, name.clone(), made))
            }
            Effect::Linked { folder, name, file } => {
                let (folder, file) = (self.number(*folder), self.number(*file));
                (folder, NameChange::Add(folder, name.clone(), file))
            }
            Effect::Exchanged { folder, one, other } => {
                let folder = self.number(*folder);
                (folder, NameChange::Exchange(folder, one.clone(), other.clone()))
            }
            Effect::Renamed { folder, from, to_folder, to } => {
                let folders = [self.number(*folder), self.number(*to_folder)];
                let change = NameChange::Rename(folders, from.clone(), to.clone());
                self.pending.push(Pending { folders: folders.into(), change });
                return;
            }
            Effect::Removed { folder, name } => {
                let folder = self.number(*folder);
                (folder, NameChange::Remove(folder, name.clone()))
            }
        };
        self.pending.push(Pending { folders: [folder].into(), change });
    }

    fn sync(&mut self, number: usize) {
        if let Node::File { synced, now } = &mut self.nodes[number] {
            *synced = now.clone();
            return;
        }
        let mut left = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            pending.folders.remove(&number);
            if pending.folders.is_empty() {
                pending.change.apply(&mut self.nodes);
            } else {
                left.push(pending);
            }
        }
        self.pending = left;
    }

    /// The disks that a cut now could leave, as trees: each subset of the pending changes of names,
    /// and each content of the files that are not synced.
    fn after_a_cut(&self, chance: &mut Chance) -> BTreeSet<Tree> {
        let count = u32::try_from(self.pending.len()).unwrap();
        let subsets: Vec<u64> = if count <= ALL_SUBSETS {
            (0..1 << count).collect()
        } else {
            let any = |_| chance.below(1 << count.min(30)) as u64;
            [0, (1 << count) - 1].into_iter().chain((0..1 << ALL_SUBSETS).map(any)).collect()
        };
        let mut disks = BTreeSet::new();
        for subset in subsets {
            let mut nodes = self.nodes.clone();
            for (bit, pending) in self.pending.iter().enumerate() {
                if subset >> bit & 1 == 1 {
                    pending.change.apply(&mut nodes);
                }
            }
            for variant in 0..10 {
                let mut tree = BTreeMap::new();
                lay_out(&nodes, 0, "", variant, &mut tree);
                disks.insert(tree);
            }
        }
        disks
    }
}

impl NameChange {
    /// Changes the names of folders. A change of names that are not there does nothing.
    fn apply(&self, nodes: &mut [Node]) {
        match self {
            Self::Add(folder, name, node) => {
                names(nodes, *folder).entry(name.clone()).or_insert(*node);
            }
            Self::Exchange(folder, one, other) => {
                let names = names(nodes, *folder);
                if let (Some(&first), Some(&second)) = (names.get(one), names.get(other)) {
                    names.insert(one.clone(), second);
                    names.insert(other.clone(), first);
                }
            }
            Self::Rename([folder, to_folder], from, to) => {
                if !names(nodes, *to_folder).contains_key(to)
                    && let Some(node) = names(nodes, *folder).remove(from)
                {
                    names(nodes, *to_folder).insert(to.clone(), node);
                }
            }
            Self::Remove(folder, name) => {
                names(nodes, *folder).remove(name);
            }
        }
    }
}

fn names(nodes: &mut [Node], folder: usize) -> &mut BTreeMap<String, usize> {
    let Node::Folder(names) = &mut nodes[folder] else { panic!("not a folder") };
    names
}

/// Lists what is below a folder.
fn lay_out(nodes: &[Node], number: usize, at: &str, variant: usize, tree: &mut Tree) {
    match &nodes[number] {
        Node::Folder(names) => {
            tree.insert(at.to_owned(), None);
            for (name, inner) in names {
                lay_out(nodes, *inner, &format!("{at}/{name}"), variant, tree);
            }
        }
        Node::File { synced, now } => {
            // What was synced stays where something is added to it.
            let kept = if now.bytes.starts_with(&synced.bytes) { synced.bytes.len() } else { 0 };
            let added = now.bytes.len() - kept;
            let bytes = match variant % 5 {
                _ if synced.bytes == now.bytes => now.bytes.clone(),
                0 => synced.bytes.clone(),
                1 => now.bytes[..kept].to_vec(),
                2 => now.bytes[..kept + added / 2].to_vec(),
                3 => [&now.bytes[..kept], &vec![0; added]].concat(),
                _ => now.bytes.clone(),
            };
            let mode = if variant < 5 { synced.mode } else { now.mode };
            tree.insert(at.to_owned(), Some((number, Content { bytes, mode })));
        }
    }
}

/// One change of a file, and how the files are after it.
struct Done {
    /// The number of effects when it was acknowledged.
    end: usize,
    files: Files,
    /// The content that the change replaced or removed.
    replaced: Option<Vec<u8>>,
}

/// Whether files are appended to. What recovers that must be on the simulated disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Appends {
    None,
    InPlace,
}

/// Makes some changes, and returns their effects.
fn change(
    rig: &Rig,
    chance: &mut Chance,
    files: &mut Files,
    (changes, appends): (usize, Appends),
) -> (Vec<Effect>, Vec<Done>) {
    fault::record_effects();
    let mut done = Vec::new();
    for number in 0..changes {
        let any = chance.below(files.len());
        let (name, old) = files.iter().nth(any).unwrap();
        let (name, old) = (name.clone(), String::from_utf8(old.clone()).unwrap());
        let before = old.clone().into_bytes();
        let mut replaced = None;
        match chance.below(if appends == Appends::InPlace { 8 } else { 5 }) {
            5.. => {
                let new = format!("{old}added {number}\n");
                let more = new[old.len()..].to_owned();
                rig.append(&name[1..], &old, &more).unwrap();
                files.insert(name, new.into_bytes());
                replaced = Some(before);
            }
            4 => {
                let folder = ["", "/folder", "/new", "/new/deep"][chance.below(4)];
                let to = format!("{folder}/moved {number}.md");
                let mut made = Vec::new();
                rig.inner()
                    .change(|change| {
                        change.move_file(&path(&name), hash(&old), &path(&to), &mut made)
                    })
                    .unwrap();
                files.remove(&name);
                files.insert(to, old.into_bytes());
            }
            0 => {
                let deep = if chance.happens(50) { "/new/deep" } else { "" };
                let name = format!("{deep}/{number}.md");
                let text = format!("made {number}\n").repeat(1 + chance.below(3));
                rig.inner().create(&path(&name), text.as_bytes()).unwrap();
                files.insert(name, text.into_bytes());
            }
            1 if files.len() > 2 => {
                rig.inner().remove(&path(&name), hash(&old)).unwrap();
                files.remove(&name);
                replaced = Some(before);
            }
            _ => {
                let new = format!("{old}change {number}\n");
                let text = new.clone();
                let plan = Box::new(move |_: &str| Ok(text.clone()));
                rig.inner().edit(&path(&name), hash(&old), ["lines", "old"], plan).unwrap();
                files.insert(name, new.into_bytes());
                replaced = Some(before);
            }
        }
        done.push(Done { end: fault::recorded().len(), files: files.clone(), replaced });
    }
    (fault::recorded(), done)
}

fn build(folder: &Path, tree: &Tree) {
    let mut built: HashMap<usize, std::path::PathBuf> = HashMap::new();
    for (at, content) in tree.iter().filter(|(at, _)| !at.is_empty()) {
        let at = folder.join(&at[1..]);
        match content {
            None => fs::create_dir_all(&at).unwrap(),
            Some((node, _)) if built.contains_key(node) => {
                fs::hard_link(&built[node], &at).unwrap();
            }
            Some((node, Content { bytes, mode })) => {
                built.insert(*node, at.clone());
                fs::write(&at, bytes).unwrap();
                fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
    }
}

fn visit(folder: &Path, at: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let at = format!("{at}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            visit(&entry.path(), &at, files);
        } else {
            files.insert(at, fs::read(entry.path()).unwrap());
        }
    }
}

/// Removes the conflict copy of a part of what the unacknowledged edit was to write. Returns
/// whether there was one.
fn take_torn_copy(found: &mut Files, old: &Files, new: &Files) -> bool {
    let edits = new.iter().filter(|(name, text)| old.get(*name).is_some_and(|it| it != *text));
    for (name, text) in edits {
        let begin = format!("{} (conflict ", name.trim_end_matches(".md"));
        let is_torn = |bytes: &[u8]| {
            text.starts_with(bytes) && bytes != text || bytes.iter().all(|byte| *byte == 0)
        };
        let copy = found.iter().find(|(copy, bytes)| copy.starts_with(&begin) && is_torn(bytes));
        if let Some(copy) = copy.map(|(copy, _)| copy.clone()) {
            found.remove(&copy);
            return true;
        }
    }
    false
}

/// The error of a rename whose flags the file system does not know.
const EINVAL: i32 = 22;

/// A folder in memory if the system has one: what is built is synced often.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

#[test]
fn a_power_cut_at_any_call_loses_no_acknowledged_change_and_tears_no_file() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let (mut built, mut copies) = (0, 0);
    for round in 0..scaled_long(12, 500, 20_000) {
        fault::lack_flags((round % 2 == 1).then_some(EINVAL));
        let rig = Rig::on_any(folder());
        let mut files = Files::new();
        fs::create_dir(rig.file("folder")).unwrap();
        for name in ["/a.md", "/folder/b.md"] {
            rig.put(&name[1..], "first\n");
            files.insert(name.to_owned(), b"first\n".to_vec());
        }
        let mut disk = Disk::read(rig.folder.path());
        let before = files.clone();
        let (effects, done) = change(&rig, &mut chance, &mut files, (3, Appends::None));
        for cut in 0..=effects.len() {
            if cut > 0 {
                disk.apply(&effects[cut - 1]);
            }
            let acknowledged = done.iter().rfind(|done| done.end <= cut);
            let old = acknowledged.map_or(&before, |done| &done.files);
            let new = done.iter().find(|done| done.end > cut).map_or(old, |done| &done.files);
            for tree in disk.after_a_cut(&mut chance) {
                let cut_off = folder();
                build(cut_off.path(), &tree);
                let restarted = Rig::on_any(cut_off);
                let mut found = Files::new();
                visit(restarted.folder.path(), "", &mut found);
                copies += usize::from(take_torn_copy(&mut found, old, new));
                assert!(
                    found == *old || found == *new,
                    "seed {seed}, after {cut} of {effects:?}:\n{tree:?}\nbecame {found:?}"
                );
                built += 1;
            }
        }
    }
    fault::lack_flags(None);
    println!("{built} disks, {copies} of them with a torn conflict copy");
}

/// The folders of a space and of its state, on one disk.
struct Both {
    folder: tempfile::TempDir,
    rig: Rig,
    history: Arc<History>,
}

const STATE: &str = "state";
const APPENDS: &str = "state/appends";
const DATABASE: &str = "state/history/history.db";

/// What is in the files of the database, by the ending of their names.
type Database = Vec<(&'static str, Vec<u8>)>;

fn database(folder: &Path) -> Database {
    // The log is read last: it is only added to meanwhile.
    let files = ["", "-wal"].map(|end| (end, fs::read(format!("{}{end}", at(folder)))));
    files.into_iter().filter_map(|(end, bytes)| Some((end, bytes.ok()?))).collect()
}

fn at(folder: &Path) -> String {
    folder.join(DATABASE).into_os_string().into_string().unwrap()
}

impl Both {
    fn open(folder: tempfile::TempDir, space: tempfile::TempDir) -> Self {
        let state = StateDir::open(&folder.path().join(STATE)).unwrap();
        let limits = HistoryLimits { days: 30, bytes: 1 << 30 };
        let settings = HistorySettings { limits, unkept: UnkeptChange::IsRefused };
        let history = History::open(&state, space.path(), settings).unwrap();
        let history = Arc::new(history);
        let options = (FileLimits::default(), Vec::new(), Duration::from_secs(20));
        let appends = folder.path().join(APPENDS);
        let (rig, _) = Rig::recovering(space, options, Some(Arc::clone(&history)), &appends);
        Self { folder, rig, history }
    }

    fn space(folder: &Path) -> tempfile::TempDir {
        tempfile::Builder::new().prefix("space").rand_bytes(0).tempdir_in(folder).unwrap()
    }

    fn new() -> Self {
        let folder = folder();
        let space = Self::space(folder.path());
        fs::create_dir(space.path().join("folder")).unwrap();
        for name in ["a.md", "folder/b.md"] {
            fs::write(space.path().join(name), "first\n").unwrap();
        }
        Self::open(folder, space)
    }

    /// Starts on the disk that a cut left.
    fn after_a_cut(tree: &Tree, database: &Database, disk: &Disk) -> Self {
        let folder = folder();
        let space = Self::space(folder.path());
        build(folder.path(), tree);
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{end}", at(folder.path())));
        }
        for (end, bytes) in database {
            fs::write(format!("{}{end}", at(folder.path())), bytes).unwrap();
        }
        // The space is recognised by the number of its folder, which is another one here.
        let identity = folder_identity(&space.path().metadata().unwrap(), space.path());
        let connection = rusqlite::Connection::open(at(folder.path())).unwrap();
        assert_eq!(connection.execute("UPDATE spaces SET folder = ?1", [identity]).unwrap(), 1);
        drop(connection);
        // An append is recovered in the file that it was for.
        let number = |at: &Path| at.metadata().map(|found| (found.dev(), found.ino())).ok();
        let file_of = |was: (u64, u64), file: &SpacePath| {
            let node = tree.get(&format!("/space{file}"))?.as_ref()?.0;
            let is_same = disk.known.get(&was) == Some(&node);
            is_same.then(|| number(&space.path().join(&file.as_str()[1..]))).flatten()
        };
        let root = number(space.path()).unwrap();
        append_intent::of_test::renumber(&folder.path().join(APPENDS), root, file_of);
        Self::open(folder, space)
    }
}

#[test]
fn a_power_cut_leaves_in_the_history_what_any_change_on_the_disk_replaced() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let (mut built, mut kept) = (0, 0);
    for round in 0..scaled_long(2, 100, 4_000) {
        fault::lack_flags((round % 2 == 1).then_some(EINVAL));
        let both = Both::new();
        let mut files = Files::new();
        visit(both.rig.folder.path(), "", &mut files);
        let mut disk = Disk::read(both.folder.path());
        let before = files.clone();
        let databases = Rc::new(RefCell::new(vec![database(both.folder.path())]));
        let (seen, whole) = (Rc::clone(&databases), both.folder.path().to_owned());
        let copy = Box::new(move || seen.borrow_mut().push(database(&whole)));
        fault::after_each_effect(Some(copy));
        let (effects, done) = change(&both.rig, &mut chance, &mut files, (2, Appends::InPlace));
        fault::after_each_effect(None);
        for cut in 0..=effects.len() {
            if cut > 0 {
                disk.apply(&effects[cut - 1]);
            }
            let count = done.iter().filter(|done| done.end <= cut).count();
            let old = count.checked_sub(1).map_or(&before, |last| &done[last].files);
            let new = done.get(count).map_or(old, |done| &done.files);
            for tree in disk.after_a_cut(&mut chance) {
                let again = Both::after_a_cut(&tree, &databases.borrow()[cut], &disk);
                let mut found = Files::new();
                visit(again.rig.folder.path(), "", &mut found);
                take_torn_copy(&mut found, old, new);
                let is_new = found == *new;
                assert!(found == *old || is_new, "seed {seed}, cut {cut}: {tree:?}: {found:?}");
                let made = done.iter().take(count + usize::from(is_new));
                for bytes in made.filter_map(|done| done.replaced.as_ref()) {
                    let found = again.history.version_bytes(ContentHash::digest(bytes), u64::MAX);
                    assert_eq!(found.unwrap(), *bytes, "seed {seed}, cut {cut} of {effects:?}");
                    kept += 1;
                }
                built += 1;
            }
        }
    }
    fault::lack_flags(None);
    assert!(kept > 0, "seed {seed}: some change replaced something");
    println!("{built} disks, {kept} versions found in their histories");
}
