//! The notes that have records, and what a look at their folder finds changed.
//!
//! A look lists folders and compares the state of each file with the state when its note was read
//! last. It reads no note. What it finds missing is not yet removed: the caller makes sure first.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::ops::Bound;

use stile_domain::facts::FileStamp;
use stile_domain::path::SpacePath;
use stile_store::space::note_folder::FolderNotes;

use crate::importers::markdown::relative;

/// How much of a folder is looked at.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// All of it.
    Whole,
    /// These folders, and folders in them that are new or were replaced.
    Folders(BTreeSet<SpacePath>),
}

/// The folder, as a look needs it.
pub(super) trait Folders {
    /// Lists one folder; `None` if it is not there.
    fn list(&self, folder: &SpacePath) -> io::Result<Option<FolderNotes>>;

    /// Is told of a folder before it is listed.
    fn found(&self, folder: &SpacePath);

    /// Is told of a folder that is not there any more.
    fn lost(&self, folder: &SpacePath);
}

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Notes that are new, or whose files are in another state than when they were read.
    pub(super) changed: Vec<(SpacePath, FileStamp)>,
    /// Keys of notes that were not found.
    pub(super) missing: Vec<String>,
    /// Folders that could not be listed. The notes below them count as found.
    pub(super) unread: Vec<(SpacePath, io::Error)>,
    /// How many entries have a name that no path can have.
    pub(super) unnameable: u64,
}

/// The notes that have records, by their keys.
#[derive(Debug, Default)]
pub(super) struct KnownNotes {
    /// The state of each note's file when it was read. `None` if it was read by another process.
    notes: BTreeMap<String, Option<FileStamp>>,
    /// The state of each folder when it was listed.
    folders: BTreeMap<SpacePath, FileStamp>,
}

impl KnownNotes {
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(super) fn insert(&mut self, key: String, stamp: Option<FileStamp>) {
        self.notes.insert(key, stamp);
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.notes.remove(key);
    }

    /// Looks at the folder.
    pub(super) fn look(&mut self, look: &Look, folders: &dyn Folders) -> Findings {
        let (mut queue, is_whole) = match look {
            Look::Whole => (vec![SpacePath::root()], true),
            Look::Folders(folders) => (folders.iter().cloned().collect(), false),
        };
        let mut findings = Findings::default();
        let mut seen = HashSet::new();
        while let Some(folder) = queue.pop() {
            if !seen.insert(folder.clone()) {
                continue;
            }
            folders.found(&folder);
            match folders.list(&folder) {
                Ok(Some(found)) => {
                    self.compare(&folder, &found, folders, &mut findings);
                    for (inner, stamp) in found.folders {
                        if self.folders.insert(inner.clone(), stamp) != Some(stamp) || is_whole {
                            queue.push(inner);
                        }
                    }
                }
                Ok(None) if !folder.is_root() => {
                    let folder = relative(&folder).to_owned();
                    self.lose(&folder, folders, &mut findings);
                }
                Ok(None) => findings.unread.push((folder, io::ErrorKind::NotFound.into())),
                Err(error) => {
                    // The next look at its parent lists it again.
                    self.folders.remove(&folder);
                    findings.unread.push((folder, error));
                }
            }
        }
        findings
    }

    /// Compares what one folder holds with what is known of it.
    fn compare(
        &mut self,
        folder: &SpacePath,
        found: &FolderNotes,
        folders: &dyn Folders,
        findings: &mut Findings,
    ) {
        findings.unnameable += found.unnameable;
        for (note, stamp) in &found.notes {
            if self.notes.get(relative(note)) != Some(&Some(*stamp)) {
                findings.changed.push((note.clone(), *stamp));
            }
        }
        let prefix = match relative(folder) {
            "" => String::new(),
            path => format!("{path}/"),
        };
        let notes: HashSet<&str> = found.notes.iter().map(|(note, _)| relative(note)).collect();
        let inner: HashSet<&str> = found.folders.iter().map(|(path, _)| relative(path)).collect();
        let (own, below) = self.children(&prefix);
        findings.missing.extend(own.into_iter().filter(|key| !notes.contains(key.as_str())));
        for folder in below.iter().filter(|folder| !inner.contains(folder.as_str())) {
            self.lose(folder, folders, findings);
        }
    }

    /// Returns the keys of the notes in a folder, and its folders that have notes.
    fn children(&self, prefix: &str) -> (Vec<String>, Vec<String>) {
        let (mut notes, mut folders) = (Vec::new(), Vec::new());
        let mut from = Bound::Included(prefix.to_owned());
        while let Some((key, _)) = self.notes.range((from, Bound::Unbounded)).next()
            && let Some(rest) = key.strip_prefix(prefix)
        {
            from = match rest.split_once('/') {
                None => {
                    notes.push(key.clone());
                    Bound::Excluded(key.clone())
                }
                Some((name, _)) => {
                    let folder = format!("{prefix}{name}");
                    // `0` is the character after `/`, so this is behind all notes of the folder.
                    let behind = Bound::Included(format!("{folder}0"));
                    folders.push(folder);
                    behind
                }
            };
        }
        (notes, folders)
    }

    /// Finds all notes below a folder missing, and forgets its folders.
    fn lose(&mut self, folder: &str, folders: &dyn Folders, findings: &mut Findings) {
        let prefix = format!("{folder}/");
        let below = self.notes.range(prefix.clone()..).map(|(key, _)| key);
        findings.missing.extend(below.take_while(|key| key.starts_with(&prefix)).cloned());
        if let Ok(path) = SpacePath::parse(&format!("/{folder}")) {
            self.folders.retain(|known, _| !path.covers(known));
            folders.lost(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Folders by their paths, each with what it holds, or `None` if it cannot be read.
    #[derive(Default)]
    struct Fake {
        folders: BTreeMap<&'static str, Option<Vec<&'static str>>>,
        listed: RefCell<Vec<String>>,
    }

    impl Folders for Fake {
        fn list(&self, folder: &SpacePath) -> io::Result<Option<FolderNotes>> {
            self.listed.borrow_mut().push(folder.as_str().to_owned());
            let Some(names) = self.folders.get(folder.as_str()) else { return Ok(None) };
            let names = names.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
            let entry = |name: &&str| (folder.child(name).unwrap(), stamp(1));
            let (notes, folders) = names.iter().partition::<Vec<&str>, _>(|n| n.ends_with(".md"));
            Ok(Some(FolderNotes {
                notes: notes.iter().map(entry).collect(),
                folders: folders.iter().map(entry).collect(),
                unnameable: 0,
            }))
        }

        fn found(&self, _: &SpacePath) {}

        fn lost(&self, _: &SpacePath) {}
    }

    fn stamp(inode: u64) -> FileStamp {
        FileStamp { device: 1, inode, size: 1, modified: 1, changed: 1 }
    }

    fn look(known: &mut KnownNotes, look: &Look, fake: &Fake) -> (Vec<String>, Vec<String>) {
        let findings = known.look(look, fake);
        let changed = findings.changed.iter().map(|(note, _)| relative(note).to_owned()).collect();
        (changed, findings.missing)
    }

    #[test]
    fn what_is_below_a_folder_that_cannot_be_read_is_not_missing() {
        let mut known = KnownNotes::default();
        for key in ["a.md", "closed/b.md", "closed/deep/c.md", "open/d.md", "open-e.md"] {
            known.insert(key.to_owned(), Some(stamp(1)));
        }
        let mut fake = Fake::default();
        fake.folders.insert("/", Some(vec!["closed", "open"]));
        fake.folders.insert("/closed", None);
        fake.folders.insert("/open", Some(vec![]));
        let findings = known.look(&Look::Whole, &fake);
        assert_eq!(findings.missing, ["a.md", "open-e.md", "open/d.md"]);
        assert_eq!(findings.unread.len(), 1);
        // Once it can be read, an event in its parent is enough for it to be listed.
        fake.folders.insert("/closed", Some(vec!["b.md"]));
        let root = Look::Folders([SpacePath::root()].into());
        let (changed, missing) = look(&mut known, &root, &fake);
        assert!(changed.is_empty() && missing.contains(&"closed/deep/c.md".to_owned()));
    }

    #[test]
    fn a_look_at_one_folder_lists_that_one_and_what_is_new_in_it() {
        let mut known = KnownNotes::default();
        let mut fake = Fake::default();
        fake.folders.insert("/", Some(vec!["a.md", "b", "c"]));
        fake.folders.insert("/b", Some(vec!["x.md"]));
        fake.folders.insert("/c", Some(vec!["y.md"]));
        let (changed, _) = look(&mut known, &Look::Whole, &fake);
        assert_eq!(changed.len(), 3);
        for key in changed {
            known.insert(key, Some(stamp(1)));
        }
        fake.listed.borrow_mut().clear();
        fake.folders.insert("/b", Some(vec!["x.md", "new"]));
        fake.folders.insert("/b/new", Some(vec!["z.md"]));
        let folder = Look::Folders([SpacePath::parse("/b").unwrap()].into());
        assert_eq!(look(&mut known, &folder, &fake), (vec!["b/new/z.md".to_owned()], vec![]));
        assert_eq!(*fake.listed.borrow(), ["/b", "/b/new"]);
    }
}
