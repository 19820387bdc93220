//! What became of each file and each folder through all changes.
//!
//! A row of the history names paths and versions. Two files may have the same path one after the
//! other, and the same content, and one file may have many paths. So the rows are gone through from
//! the first to the last, and each file gets a life of its own: the paths that it had, and what
//! stood in it. An undo that gives a removed file back goes on with its life.
//!
//! Then it is known for each file which changes may be taken back: see `undoing`.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::past_change::{ChangeNumber, PastChange, PastChangeKind, UNDO};
use super::timeline::{CallerNumber, Timeline};

pub mod undoing;

/// The lives of files, and when there was a folder at each path.
///
/// A folder has no life of its own: an undo makes and removes folders, and moves what they hold.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    files: Vec<File>,
    /// Which file each change was one of.
    of_change: BTreeMap<ChangeNumber, FileNumber>,
    /// Undos that gave a file back in the place of another one: the other one, and the file.
    exchanges: BTreeMap<ChangeNumber, [FileNumber; 2]>,
    /// The file at each path after the changes so far.
    at: BTreeMap<SpacePath, FileNumber>,
    folders: BTreeMap<SpacePath, Timeline<bool>>,
    changes: BTreeMap<ChangeNumber, PastChange>,
    /// Who made changes, by the names of their shares.
    callers: BTreeMap<String, CallerNumber>,
}

/// The number of a file among all of them.
pub type FileNumber = usize;

/// The life of one file.
#[derive(Clone, Debug)]
struct File {
    /// Where it is; `None` while it is nowhere.
    places: Timeline<Option<SpacePath>>,
    /// What is in it; `None` before it was created.
    versions: Timeline<Option<ContentHash>>,
}

/// Returns the number of what a change found.
fn before(number: ChangeNumber) -> ChangeNumber {
    ChangeNumber(number.0 - 1)
}

impl Lives {
    /// Goes through all changes, in the order of their numbers.
    pub fn of(changes: &[PastChange]) -> Self {
        let mut lives = Self::default();
        for change in changes {
            match (change.kind.is_of_folder(), change.takes_back) {
                (true, _) => lives.change_folder(change),
                (false, Some(first)) => lives.give_back(change, first),
                (false, None) => lives.change(change),
            }
            lives.changes.insert(change.number, change.clone());
        }
        lives
    }

    /// Returns a change that was gone through.
    pub fn recorded(&self, number: ChangeNumber) -> Option<&PastChange> {
        self.changes.get(&number)
    }

    /// Returns where the file of a change is after all changes.
    pub fn place_of(&self, number: ChangeNumber) -> Option<&SpacePath> {
        self.files.get(*self.of_change.get(&number)?)?.places.value()?.as_ref()
    }

    /// Returns where a file is once changes are taken back, and what made it so.
    pub fn left(
        &self,
        file: FileNumber,
        asked: &BTreeSet<ChangeNumber>,
    ) -> (Option<&SpacePath>, Option<&PastChange>) {
        let Some(file) = self.files.get(file) else { return (None, None) };
        let (places, versions) = (file.places.back(asked), file.versions.back(asked));
        let made = [file.places.made_left(&places), file.versions.made_left(&versions)];
        let made = made.into_iter().flatten().max().and_then(|made| self.changes.get(&made));
        (file.places.left(&places).and_then(Option::as_ref), made)
    }

    /// Returns which file is at a path after all changes.
    pub fn file_at(&self, path: &SpacePath) -> Option<FileNumber> {
        self.at.get(path).copied()
    }

    /// Returns the last change after `after` that made what is at a path after all changes: the
    /// file with this version, or the folder for `None`.
    pub fn made_by(
        &self,
        path: &SpacePath,
        after: ChangeNumber,
        version: Option<ContentHash>,
    ) -> Option<&PastChange> {
        let last = match version {
            None => self.folders.get(path).filter(|it| it.value() == Some(&true))?.made_by(),
            Some(_) => {
                let file = self.files.get(self.file_at(path)?)?;
                let is_it = file.versions.value() == Some(&version);
                let made_by = [file.places.made_by(), file.versions.made_by()];
                made_by.into_iter().flatten().max().filter(|_| is_it)
            }
        };
        self.changes.get(&last?).filter(|last| last.number > after)
    }

    /// Whether a folder is at a path after all changes; `None` if no change tells.
    pub fn has_folder(&self, path: &SpacePath) -> Option<bool> {
        self.folders.get(path)?.value().copied()
    }

    /// Whether a change that made a folder at a path still counts there, below others.
    pub fn is_held(&self, path: &SpacePath, number: ChangeNumber) -> bool {
        let asked = BTreeSet::from([number]);
        let folder = self.folders.get(path);
        folder.is_some_and(|folder| folder.buried(&folder.back(&asked), &asked).is_some())
    }

    fn caller(&mut self, change: &PastChange) -> CallerNumber {
        let next = self.callers.len();
        *self.callers.entry(change.author.share()).or_insert(next)
    }

    /// Goes on with a change of a folder.
    fn change_folder(&mut self, change: &PastChange) {
        let by = self.caller(change);
        let (path, number) = (&change.path, change.number);
        let is_own = change.takes_back.is_none() && change.author.tool == UNDO;
        let mut set = |path: &SpacePath, is_there: bool, was_there: bool| {
            let folder = self.folders.entry(path.clone());
            let folder = folder.or_insert_with(|| Timeline::of(was_there, before(number)));
            folder.find(was_there, before(number));
            match change.takes_back {
                Some(first) => folder.give_back(is_there, number, first),
                // The undo removes a folder that it made itself.
                None if is_own => folder.take_away(is_there, number),
                None => folder.change(is_there, number, by),
            }
        };
        match (change.kind, &change.to) {
            (PastChangeKind::FolderCreated, _) => set(path, true, false),
            (PastChangeKind::FolderRemoved, _) => set(path, false, true),
            (PastChangeKind::FolderMerged, Some(to)) => set(to, true, true),
            (PastChangeKind::FolderMoved, Some(to)) => {
                set(path, false, true);
                set(to, true, false);
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        (place, version): (Option<&SpacePath>, Option<ContentHash>),
        number: ChangeNumber,
    ) -> FileNumber {
        let places = Timeline::of(place.cloned(), before(number));
        let versions = Timeline::of(version, before(number));
        self.files.push(File { places, versions });
        self.files.len() - 1
    }

    /// Returns the file that a change found at a path.
    fn found(&mut self, change: &PastChange) -> FileNumber {
        let (path, number) = (&change.path, change.number);
        let known = self.at.get(path).copied();
        let file = known.unwrap_or_else(|| self.begin((Some(path), change.before), number));
        self.at.insert(path.clone(), file);
        if let Some(file) = self.files.get_mut(file).filter(|_| change.before.is_some()) {
            file.versions.find(change.before, before(number));
        }
        file
    }

    /// Takes the file at a path from there, since a change found none: somebody removed it.
    fn find_nothing(&mut self, path: &SpacePath, number: ChangeNumber) {
        if let Some(gone) = self.at.remove(path)
            && let Some(file) = self.files.get_mut(gone)
        {
            file.places.find(None, before(number));
        }
    }

    /// Goes on with a change of a file that no undo made, or of which nobody knows what it took
    /// back.
    fn change(&mut self, change: &PastChange) {
        let (path, number, by) = (&change.path, change.number, self.caller(change));
        let file = match change.kind {
            PastChangeKind::Created => {
                self.find_nothing(path, number);
                self.begin((None, None), number)
            }
            _ => self.found(change),
        };
        self.of_change.insert(number, file);
        let place = match (change.kind, &change.to) {
            (PastChangeKind::Moved, Some(to)) => {
                self.find_nothing(to, number);
                Some(Some(to))
            }
            (PastChangeKind::Created, _) => Some(Some(path)),
            (PastChangeKind::Removed, _) => Some(None),
            _ => None,
        };
        if let Some(place) = place {
            self.put(file, place, |file| file.places.change(place.cloned(), number, by));
        }
        if let Some(file) = self.files.get_mut(file)
            && change.after.is_some()
            && file.versions.value() != Some(&change.after)
        {
            file.versions.change(change.after, number, by);
        }
    }

    /// Puts a file at a path, or nowhere.
    fn put(&mut self, number: FileNumber, place: Option<&SpacePath>, note: impl FnOnce(&mut File)) {
        let Some(file) = self.files.get_mut(number) else { return };
        let before = file.places.value().cloned().flatten();
        note(file);
        if let Some(before) = before
            && self.at.get(&before) == Some(&number)
        {
            self.at.remove(&before);
        }
        if let Some(place) = place {
            self.at.insert(place.clone(), number);
        }
    }

    /// Whether a change after `first` created a file.
    fn began_after(&self, file: FileNumber, first: ChangeNumber) -> bool {
        let places = self.files.get(file).map(|file| file.places.first());
        places.flatten().is_some_and(|(place, at)| place.is_none() && at >= first)
    }

    /// Goes on with a change of an undo that took back all changes since `first` which its file had
    /// by then.
    fn give_back(&mut self, change: &PastChange, first: ChangeNumber) {
        let (path, number) = (&change.path, change.number);
        let of_first = self.of_change.get(&first).copied();
        let place = match change.kind {
            PastChangeKind::Removed => None,
            _ => Some(change.to.as_ref().unwrap_or(path)),
        };
        if let (PastChangeKind::Moved, Some(to)) = (change.kind, place) {
            self.find_nothing(to, number);
        }
        let file = match change.kind {
            PastChangeKind::Created => {
                self.find_nothing(path, number);
                of_first.unwrap_or_else(|| self.begin((None, None), number))
            }
            PastChangeKind::Removed => self.found(change),
            _ => {
                let there = self.found(change);
                let file = match self.exchanges.get(&first) {
                    Some([gone, came]) if *came == there => *gone,
                    // Before it began, another one was there, of which nothing is known.
                    _ if of_first.is_none() && self.began_after(there, first) => {
                        self.begin((None, None), number)
                    }
                    _ => of_first.unwrap_or(there),
                };
                if file != there {
                    self.put(there, None, |file| {
                        file.places.give_back(None, number, first);
                        file.versions.go_back(number, first);
                    });
                    self.exchanges.insert(number, [there, file]);
                }
                file
            }
        };
        self.of_change.insert(number, file);
        self.put(file, place, |file| {
            if file.places.value() != Some(&place.cloned()) {
                file.places.give_back(place.cloned(), number, first);
            }
            match change.after {
                Some(_) if file.versions.value() == Some(&change.after) => {}
                Some(_) => file.versions.give_back(change.after, number, first),
                None => file.versions.go_back(number, first),
            }
        });
    }
}
