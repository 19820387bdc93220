//! Which changes can be taken back: those of each file above which no other change stands. The
//! others are buried, and are named.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::ContentHash;
use crate::path::SpacePath;

use super::super::past_change::{ChangeNumber, PastChange, PastChangeKind};
use super::super::timeline::{Back, Buried, Timeline};
use super::{File, FileNumber, Lives};

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
    /// Others wrote into it, and it would not be there without the changes.
    Written,
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

impl Lives {
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

    /// Returns what is taken back of the changes of a file, and names what is not.
    fn undoing_of(
        &self,
        file: &File,
        asked: &BTreeSet<ChangeNumber>,
        held: &mut Vec<Held>,
    ) -> Vec<PastChange> {
        let way = Way::back(self, file, asked);
        let (is_free, hold) = match (&way.now, &way.then) {
            (None, None) => (false, way.held_nowhere()),
            (Some(now), None) => {
                let hold = way.held_by_edits(now);
                (hold.is_none(), hold)
            }
            (now, Some(_)) if way.is_created => {
                (false, now.as_ref().and_then(|now| way.held_by_moves(now)))
            }
            (_, Some(then)) => (true, way.held_below(then)),
        };
        let is_taken_back = !way.places.changes.is_empty() || !way.versions.changes.is_empty();
        let is_by_then = is_free && is_taken_back && way.now.is_some() && way.then.is_some();
        if let Some(Hold { number, path, why, by }) = hold {
            let by = self.by_other(by);
            if why != Holding::AsBefore || by.is_some() {
                held.push(Held { number, is_folder: false, path, why, is_by_then, by });
            }
        }
        if is_free { self.by_then(file, &way.places, &way.versions) } else { Vec::new() }
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

/// Why changes of a file are not taken back, and by which change.
struct Hold {
    number: ChangeNumber,
    path: SpacePath,
    why: Holding,
    by: Option<ChangeNumber>,
}

/// The way back of a file through the changes that are asked for.
struct Way<'a> {
    lives: &'a Lives,
    file: &'a File,
    asked: &'a BTreeSet<ChangeNumber>,
    places: Back,
    versions: Back,
    /// Where the file is, and where it is once its moves are taken back.
    now: Option<SpacePath>,
    then: Option<SpacePath>,
    /// Whether the changes created it.
    is_created: bool,
    /// The change that created it, where what others wrote into it comes back.
    created: Option<ChangeNumber>,
}

impl<'a> Way<'a> {
    fn back(lives: &'a Lives, file: &'a File, asked: &'a BTreeSet<ChangeNumber>) -> Self {
        let (mut places, versions) = (file.places.back_at_once(asked), file.versions.back(asked));
        let now = file.places.value().cloned().flatten();
        let is_created = file.versions.left(&versions) == Some(&None);
        let way = file.places.back(asked);
        let goes = file.places.left(&way) == Some(&None);
        let mut created = None;
        if now.is_none() && goes && !is_created && !way.changes.is_empty() {
            // The changes created the file and removed it, and others wrote into it in between.
            places = file.places.back_to_some(asked, &None);
            created = way.changes.last().copied();
        }
        let then = file.places.left(&places).cloned().flatten();
        Self { lives, file, asked, places, versions, now, then, is_created, created }
    }

    /// Returns what holds a file that others removed. One that was nowhere before the changes
    /// either is as it was.
    fn held_nowhere(&self) -> Option<Hold> {
        let buried = self.file.places.buried(&self.places, self.asked);
        let was_nowhere = buried.as_ref().is_some_and(|it| it.without.is_none());
        // What the changes themselves removed, and others did not write into.
        let went_by_itself = !self.file.places.back(self.asked).changes.is_empty();
        if self.is_created || was_nowhere || went_by_itself {
            return None;
        }
        let version = self.file.versions.left(&self.versions).copied().flatten();
        if let Some(Buried { number, made: Some(path), without, by }) = buried {
            return Some(Hold { number, path, why: Holding::Removed { without, version }, by });
        }
        let of_versions = self.file.versions.buried(&self.versions, self.asked);
        let number = self.versions.changes.last().copied();
        let number = number.or_else(|| of_versions.map(|buried| buried.number))?;
        let changed = self.lives.changes.get(&number)?;
        let path = changed.to.as_ref().unwrap_or(&changed.path).clone();
        let why = Holding::Removed { without: None, version };
        Some(Hold { number, path, why, by: self.file.places.made_by() })
    }

    /// Returns what holds a file that would go, if others edited it.
    fn held_by_edits(&self, now: &SpacePath) -> Option<Hold> {
        let number = *self.places.changes.last()?;
        let last = self.file.versions.number_left(&self.versions)?;
        let (why, by) = (Holding::Changed { without: None }, self.file.versions.made_by());
        (last > number).then(|| Hold { number, path: now.clone(), why, by })
    }

    /// Returns what holds a file that the changes created and others moved.
    fn held_by_moves(&self, now: &SpacePath) -> Option<Hold> {
        let number = *self.versions.changes.last()?;
        let path = self.lives.changes.get(&number)?.path.clone();
        let why = match path == *now {
            true => Holding::Changed { without: None },
            false => Holding::Moved { now: now.clone(), without: None },
        };
        Some(Hold { number, path, why, by: self.file.places.made_by() })
    }

    /// Returns what holds changes below those of others, of a file that is at a path by then.
    fn held_below(&self, then: &SpacePath) -> Option<Hold> {
        if let Some(number) = self.created {
            let (path, by) = (then.clone(), self.file.versions.made_by());
            return Some(Hold { number, path, why: Holding::Written, by });
        }
        if let Some(buried) = self.file.places.buried(&self.places, self.asked) {
            let Buried { number, made, without, by } = buried;
            let is_same = without.as_ref() == Some(then);
            let why = match is_same {
                true => Holding::AsBefore,
                false => Holding::Moved { now: then.clone(), without },
            };
            // The owner looks for it where it was before the changes.
            let path = match (is_same, &why) {
                (false, Holding::Moved { without: Some(without), .. }) => without.clone(),
                (false, _) => made.unwrap_or_else(|| then.clone()),
                (true, _) => then.clone(),
            };
            return Some(Hold { number, path, why, by });
        }
        let Buried { number, without, by, .. } =
            self.file.versions.buried(&self.versions, self.asked)?;
        let is_same = self.file.versions.left(&self.versions) == Some(&without);
        let why = if is_same { Holding::AsBefore } else { Holding::Changed { without } };
        let path = self.now.as_ref().unwrap_or(then).clone();
        Some(Hold { number, path, why, by })
    }
}
