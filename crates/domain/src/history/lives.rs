//! What became of each file and each folder through all changes.
//!
//! A row of the history names paths and versions. Two files may have the same path one after the
//! other, and the same content, and one file may have many paths. So the rows are gone through from
//! the first to the last, and each file gets a life of its own: the paths that it had, and what
//! stood in it. An undo that gives a removed file back goes on with its life.
//!
//! Then it is known for each file which changes may be taken back: those above which no other
//! change stands. The others are buried, and are named.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::past_change::{ChangeNumber, PastChange, PastChangeKind, UNDO};
use super::timeline::{Back, Buried, CallerNumber, Timeline};

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

/// Changes of one file or folder that are not taken back, since others came after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The change that is named.
    pub number: ChangeNumber,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The path that the change gave it, or where it is.
    pub path: SpacePath,
    /// What holds the changes.
    pub why: Holding,
    /// Whether it is so only once other changes are taken back.
    pub is_by_then: bool,
    /// The change that came after; `None` if nobody knows what it was, or it is one of the owner.
    pub by: Option<ChangeNumber>,
}

/// What others made of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It is at another path, and would be at `without` without the changes; `None` if it would be
    /// nowhere.
    Moved {
        /// Where it is.
        now: SpacePath,
        /// Where it would be.
        without: Option<SpacePath>,
    },
    /// It was removed, and would be there without the changes.
    Removed {
        /// Where it would be, if it would not be where it was last.
        without: Option<SpacePath>,
        /// What would be in it; `None` for a folder.
        version: Option<ContentHash>,
    },
    /// It has other content, and would have this one without the changes.
    Changed {
        /// What it would have.
        without: Option<ContentHash>,
    },
    /// It is as it would be without the changes.
    AsBefore,
}

/// What is taken back, and what not.
#[derive(Clone, Debug, Default)]
pub struct Undoing {
    /// The changes that are taken back, by their numbers, each at the paths and with the versions
    /// that its file has by then: other clients may have moved or edited it.
    pub changes: BTreeMap<ChangeNumber, PastChange>,
    /// Which file each of them is one of, where it is one alone.
    pub of_change: BTreeMap<ChangeNumber, Option<FileNumber>>,
    /// The changes that make a folder at a path again, and those that take one from it.
    pub folders: [BTreeSet<(ChangeNumber, SpacePath)>; 2],
    /// Where files are once their moves are taken back.
    pub places: BTreeMap<FileNumber, SpacePath>,
    /// What is not taken back.
    pub held: Vec<Held>,
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

    /// Returns what is taken back of the changes that are asked for.
    pub fn undoing(&self, asked: &BTreeSet<ChangeNumber>) -> Undoing {
        let mut undoing = Undoing::default();
        for (at, file) in self.files.iter().enumerate() {
            let changes = self.undoing_of(file, asked, &mut undoing.held);
            let place = file.places.left(&file.places.back(asked)).cloned().flatten();
            undoing.places.extend(place.filter(|_| !changes.is_empty()).map(|place| (at, place)));
            for change in changes {
                let of_one = undoing.of_change.entry(change.number).or_insert(Some(at));
                *of_one = of_one.filter(|one| *one == at);
                undoing.changes.insert(change.number, change);
            }
        }
        self.undoing_of_folders(asked, &mut undoing);
        undoing.held.sort_by_key(|held| held.number);
        undoing
    }

    /// Adds what is taken back of the changes of folders.
    fn undoing_of_folders(&self, asked: &BTreeSet<ChangeNumber>, undoing: &mut Undoing) {
        let mut waiting = Vec::new();
        for (path, folder) in &self.folders {
            let back = folder.back_to_first(asked);
            let is_there = folder.value() == Some(&true);
            let was_there = folder.left(&back) == Some(&true);
            if let Some(buried) = folder.buried(&back, asked) {
                undoing.held.extend(self.held_folder(path, [is_there, was_there], buried));
            }
            match is_there || was_there {
                true => self.add_folder((path, folder), back, undoing),
                false if back.changes.is_empty() => {}
                false => waiting.push(((path, folder), back)),
            }
        }
        // A folder that moves back goes through paths at which there is none before and after.
        let is_joined = |undoing: &Undoing, path: &SpacePath| {
            let mut moves = undoing.changes.values().filter(|it| it.kind.is_of_folder());
            moves.any(|change| change.kind.is_move() && change.concerns(path))
        };
        while let Some(at) = waiting.iter().position(|((path, _), _)| is_joined(undoing, path)) {
            let (folder, back) = waiting.swap_remove(at);
            self.add_folder(folder, back, undoing);
        }
    }

    fn add_folder(
        &self,
        (path, folder): (&SpacePath, &Timeline<bool>),
        back: Back,
        undoing: &mut Undoing,
    ) {
        for number in back.changes {
            let Some(change) = self.changes.get(&number) else { continue };
            undoing.changes.insert(number, change.clone());
            let [given, taken] = &mut undoing.folders;
            let is_made = folder.value_of(number) == Some(&true);
            if is_made { taken } else { given }.insert((number, path.clone()));
        }
    }

    /// Names a change of a folder above which others stand.
    fn held_folder(
        &self,
        path: &SpacePath,
        [is_there, was_there]: [bool; 2],
        Buried { number, without, by, .. }: Buried<bool>,
    ) -> Option<Held> {
        let by_other = self.by_other(by);
        let why = match (is_there, was_there, without) {
            (_, true, true) => by_other.map(|_| Holding::AsBefore)?,
            (false, false, true) => Holding::Removed { without: None, version: None },
            (false, false, false) => {
                Holding::Moved { now: self.folder_after(by?, path)?, without: None }
            }
            _ => return None,
        };
        let (is_folder, is_by_then) = (true, false);
        Some(Held { number, is_folder, path: path.clone(), why, is_by_then, by: by_other })
    }

    /// Returns a change if it is not one of the owner.
    fn by_other(&self, by: Option<ChangeNumber>) -> Option<ChangeNumber> {
        by.filter(|by| self.changes.get(by).is_some_and(|it| !it.author.is_of_owner()))
    }

    /// Returns where a folder is by now that a change moved from a path.
    fn folder_after(&self, moved: ChangeNumber, path: &SpacePath) -> Option<SpacePath> {
        let (mut moved, mut path) = (moved, path);
        // Each move is later than the one before.
        loop {
            let change = self.changes.get(&moved).filter(|it| it.kind.is_move())?;
            let to = change.to.as_ref().filter(|_| change.path == *path)?;
            let there = self.folders.get(to)?;
            if *there.value()? {
                return Some(to.clone());
            }
            let next = there.made_by().filter(|next| *next > moved)?;
            (moved, path) = (next, to);
        }
    }

    fn undoing_of(
        &self,
        file: &File,
        asked: &BTreeSet<ChangeNumber>,
        held: &mut Vec<Held>,
    ) -> Vec<PastChange> {
        let (places, versions) = (file.places.back_at_once(asked), file.versions.back(asked));
        let now = file.places.value().cloned().flatten();
        let then = file.places.left(&places).cloned().flatten();
        let is_created = file.versions.left(&versions) == Some(&None);
        let is_taken_back = !places.changes.is_empty() || !versions.changes.is_empty();
        let is_by_then = is_taken_back && now.is_some() && then.is_some() && !is_created;
        let mut hold = |number, path: &SpacePath, why, by: Option<ChangeNumber>| {
            let by = self.by_other(by);
            if why != Holding::AsBefore || by.is_some() {
                let (is_folder, path) = (false, path.clone());
                held.push(Held { number, is_folder, path, why, is_by_then, by });
            }
        };
        let buried = file.places.buried(&places, asked);
        match (&now, &then) {
            (None, None) => {
                // What is nowhere, and was nowhere before the changes, is as it was.
                let is_made = buried.as_ref().is_some_and(|it| it.without.is_none());
                let is_gone_by_itself = !file.places.back(asked).changes.is_empty();
                if is_created || is_made || is_gone_by_itself {
                    return Vec::new();
                }
                let of_versions = file.versions.buried(&versions, asked);
                let version = file.versions.left(&versions).copied().flatten();
                let number = versions.changes.last().copied();
                let number = number.or_else(|| of_versions.map(|buried| buried.number));
                let changed = number.and_then(|number| self.changes.get(&number));
                match (buried, changed) {
                    (Some(Buried { number, made: Some(made), without, by }), _) => {
                        hold(number, &made, Holding::Removed { without, version }, by);
                    }
                    (_, Some(changed)) => {
                        let path = changed.to.as_ref().unwrap_or(&changed.path);
                        let why = Holding::Removed { without: None, version };
                        hold(changed.number, path, why, file.places.made_by());
                    }
                    _ => {}
                }
                return Vec::new();
            }
            (Some(now), None) => {
                // Others edited what goes.
                if let (Some(first), Some(last)) =
                    (places.changes.last(), file.versions.number_left(&versions))
                    && last > *first
                {
                    let why = Holding::Changed { without: None };
                    hold(*first, now, why, file.versions.made_by());
                    return Vec::new();
                }
            }
            (_, Some(_)) if is_created => {
                // Others moved what would go.
                let number = versions.changes.last().copied();
                if let (Some(number), Some(now)) = (number, &now)
                    && let Some(made) = self.changes.get(&number)
                {
                    let why = match made.path == *now {
                        true => Holding::Changed { without: None },
                        false => Holding::Moved { now: now.clone(), without: None },
                    };
                    hold(number, &made.path, why, file.places.made_by());
                }
                return Vec::new();
            }
            (_, Some(place)) => {
                let of_versions = file.versions.buried(&versions, asked);
                match (buried, of_versions) {
                    (Some(Buried { number, without, by, .. }), _)
                        if without.as_ref() == Some(place) =>
                    {
                        hold(number, place, Holding::AsBefore, by);
                    }
                    (Some(Buried { number, made, without, by }), _) => {
                        let why = Holding::Moved { now: place.clone(), without };
                        hold(number, made.as_ref().unwrap_or(place), why, by);
                    }
                    (None, Some(Buried { number, without, by, .. })) => {
                        let is_same = file.versions.left(&versions) == Some(&without);
                        let why =
                            if is_same { Holding::AsBefore } else { Holding::Changed { without } };
                        hold(number, now.as_ref().unwrap_or(place), why, by);
                    }
                    (None, None) => {}
                }
            }
        }
        self.by_then(file, &places, &versions)
    }

    /// Returns changes of a file at the paths and with the versions that it has by then.
    fn by_then(&self, file: &File, places: &Back, versions: &Back) -> Vec<PastChange> {
        let numbers: BTreeSet<_> = places.changes.iter().chain(&versions.changes).collect();
        let mut place = file.places.value().cloned().flatten();
        let mut version = file.versions.value().copied().flatten();
        let mut changes = Vec::new();
        for number in numbers.into_iter().rev() {
            let Some(mut change) = self.changes.get(number).cloned() else { continue };
            match &place {
                Some(place) if !places.changes.contains(number) => {
                    (change.path, change.to) = (place.clone(), None);
                    if change.kind.is_move() {
                        change.kind = PastChangeKind::Replaced;
                    }
                }
                _ => place = Some(change.path.clone()),
            }
            match change.kind {
                PastChangeKind::Moved => (change.before, change.after) = (version, version),
                _ => version = change.before,
            }
            changes.push(change);
        }
        changes
    }
}
