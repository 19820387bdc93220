//! Plans an undo that was made in part before.
//!
//! An undo leaves what it cannot give back, for example because a folder has the path of a file.
//! Once that is out of the way, the owner runs the undo again. By then the files are versions that
//! the first undo made, which no change of the agent made. They count as somebody's in a plan of
//! the agent's changes alone. So this plan may go back through the changes of earlier undos first:
//! those that took back what is to be taken back now, and no others. What an undo of other changes
//! gave back is somebody's, like any file that was changed since. A change that an undo took back
//! is not taken back again, whatever became of its file since.
//! It decides that for each group of files that have to do with each other: through moves, or
//! because one has the path of a folder of the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::hash::ContentHash;

use super::{
    ChangeNumber, LeftChange, LeftReason, PastChange, PastChangeKind, PathNow, Planned, Planner,
    SpacePath, UndoFacts, UndoPlan, UndoStep, folders_above, planned,
};

/// Plans the undo of `changes`. `undone` are the changes that undos made after the first of them.
/// Both are in the order of their numbers.
pub fn undo_plan_again(
    changes: &[PastChange],
    undone: &[PastChange],
    facts: &mut dyn UndoFacts,
) -> UndoPlan {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    let taken_back = TakenBack::by(undone);
    let gone = gone_by_hand(changes, undone, facts);
    let is_gone = |change: &PastChange| {
        change.kind == PastChangeKind::FolderRemoved && gone.contains(&change.path)
    };
    let planned_for: Vec<_> = changes.iter().filter(|it| !is_gone(it)).cloned().collect();
    for group in groups(&planned_for, &undos_of(&planned_for, undone)) {
        match choose(&group, &taken_back, facts) {
            Choice::Changes => kept.extend(group.changes),
            Choice::Rest(rest) => kept.extend(rest),
            Choice::All => kept.extend(group.all()),
            Choice::Nothing(plan) => left.extend(plan.left),
        }
    }
    kept.sort_by_key(|change| change.number);
    let mut plan = planned(&kept, facts).plan;
    plan.left.extend(left);
    leave_out_what_is_taken_back(&mut plan, changes, &taken_back);
    leave_what_somebody_moved(&mut plan, changes, (&taken_back, facts));
    // Several changes of one file are left for one reason.
    let mut named = BTreeSet::new();
    plan.left.retain(|left| named.insert((left.path.clone(), left.to.clone(), left.why)));
    plan
}

/// Returns those of `changes` that none of the undos took back which made `undone`. Both are in the
/// order of their numbers.
pub fn not_taken_back(changes: Vec<PastChange>, undone: &[PastChange]) -> Vec<PastChange> {
    let done = TakenBack::by(undone).of(&changes);
    changes.into_iter().filter(|change| !done.contains(&change.number)).collect()
}

/// Returns the paths at which changes removed folders and made others later, which somebody removed
/// by hand since. What somebody removed is not made again.
fn gone_by_hand(
    changes: &[PastChange],
    undone: &[PastChange],
    facts: &mut dyn UndoFacts,
) -> BTreeSet<SpacePath> {
    let mut last = BTreeMap::new();
    for change in changes.iter().chain(undone) {
        for (path, is_there) in folders_after(change) {
            let newest = last.entry(path).or_insert((change.number, is_there));
            if change.number > newest.0 {
                *newest = (change.number, is_there);
            }
        }
    }
    let asked: BTreeSet<_> = changes.iter().map(|change| change.number).collect();
    let removed = changes.iter().filter(|it| it.kind == PastChangeKind::FolderRemoved);
    let paths: BTreeSet<_> = removed.map(|change| change.path.clone()).collect();
    let mut is_gone = |path: &SpacePath| {
        // An undo that was interrupted may have recorded a folder that it did not make yet.
        let is_left =
            last.get(path).is_some_and(|(number, is_there)| *is_there && asked.contains(number));
        is_left && facts.folder(path).is_none()
    };
    paths.into_iter().filter(|path| is_gone(path)).collect()
}

/// Leaves out what somebody changed since of a file whose change is taken back already. Nothing of
/// it is to be done, whatever became of the file later.
fn leave_out_what_is_taken_back(
    plan: &mut UndoPlan,
    changes: &[PastChange],
    taken_back: &TakenBack<'_>,
) {
    let asked: BTreeSet<_> = changes.iter().map(|change| change.number).collect();
    let done = taken_back.of(changes);
    plan.left.retain(|left| {
        // A change that an undo made is not to be taken back itself.
        let is_asked = asked.contains(&left.number) && !done.contains(&left.number);
        is_asked || !left.why.is_somebodys()
    });
}

/// Leaves the files and folders that calls created and that somebody moved elsewhere since. For the
/// plan there is nothing at their paths, as before the calls.
fn leave_what_somebody_moved(
    plan: &mut UndoPlan,
    changes: &[PastChange],
    (taken_back, facts): (&TakenBack<'_>, &mut dyn UndoFacts),
) {
    let by_steps: BTreeSet<_> = plan.steps.iter().filter_map(UndoStep::takes_back).collect();
    let named: BTreeSet<_> = plan.left.iter().map(|left| left.path.clone()).collect();
    for change in changes.iter().filter(|change| change.kind.is_creation()) {
        let (number, path) = (change.number, &change.path);
        if by_steps.contains(&number) || named.contains(path) || taken_back.has(change) {
            continue;
        }
        let place = facts.moved_since(path, number);
        let mut is_there = |place: &SpacePath| match change.kind.is_of_folder() {
            true => facts.folder(place).is_some(),
            false => matches!(facts.now(place), PathNow::File(_)),
        };
        if let Some(place) = place.filter(|place| is_there(place)) {
            let why = LeftReason::MovedSince;
            plan.left.push(LeftChange { number, path: path.clone(), to: Some(place), why });
        }
    }
}

/// Which changes undos took back. An undo may be taken back, too, and then it took nothing back.
#[derive(Default)]
struct TakenBack<'u> {
    /// The undos that changed a file where it is, by its path, in the order of their numbers.
    in_place: BTreeMap<&'u SpacePath, Vec<&'u PastChange>>,
    /// The undos that moved a file or changed a folder, by the change that each took back.
    moves: BTreeMap<ChangeNumber, Vec<ChangeNumber>>,
    /// The undos that made or removed a folder, by its path, in the order of their numbers.
    folders: BTreeMap<&'u SpacePath, Vec<&'u PastChange>>,
}

impl<'u> TakenBack<'u> {
    fn by(undone: &'u [PastChange]) -> Self {
        let mut taken_back = Self::default();
        for undo in undone {
            if is_of_folder_alone(undo.kind) {
                let of_folder = taken_back.folders.entry(&undo.path).or_default();
                match undo.takes_back {
                    Some(_) => of_folder.push(undo),
                    // The undo removed a folder that it had made itself.
                    None => drop(of_folder.pop()),
                }
            }
            match (undo.kind, undo.takes_back) {
                (kind, None) if kind.is_of_folder() => {}
                (kind, Some(first)) if kind.is_move() || kind.is_of_folder() => {
                    taken_back.moves.entry(first).or_default().push(undo.number);
                }
                _ => taken_back.in_place.entry(&undo.path).or_default().push(undo),
            }
        }
        taken_back
    }

    /// Returns those of `changes` that undos took back. With a move to a path, an undo takes back
    /// what became of the file there, too: it may have gone back from elsewhere.
    fn of(&self, changes: &[PastChange]) -> BTreeSet<ChangeNumber> {
        let (mut done, mut came) = (BTreeSet::new(), BTreeMap::new());
        let moves = self.moves_of(changes);
        for change in changes.iter().filter(|change| !change.kind.is_of_folder()) {
            let has_come = change.kind != PastChangeKind::Created
                && came.get(&change.path).copied().unwrap_or(false);
            let is_moved = change.kind.is_move();
            let is_taken_back =
                if is_moved { moves.contains(&change.number) } else { self.has(change) };
            let is_done = is_taken_back || has_come;
            if is_done {
                done.insert(change.number);
            }
            match &change.to {
                Some(to) => {
                    came.remove(&change.path);
                    came.insert(to, is_done);
                }
                None if change.kind == PastChangeKind::Created => drop(came.remove(&change.path)),
                None => {}
            }
        }
        let of_folders = changes.iter().filter(|it| it.kind.is_of_folder() && self.has(it));
        done.extend(of_folders.map(|change| change.number));
        done
    }

    /// Returns those of the moves of files that undos took back. An undo at the path to which a
    /// file was moved is one of that file only if it removed it, since the changes had created it,
    /// and a later change did not move it on before, or an undo took that one back, too. What
    /// another client made there, or what was there before, is another file.
    fn moves_of(&self, changes: &[PastChange]) -> BTreeSet<ChangeNumber> {
        let (mut done, mut went_on) = (BTreeSet::new(), BTreeMap::new());
        let asked: BTreeSet<_> = changes.iter().map(|change| change.number).collect();
        let is_own = |undo: &PastChange| {
            undo.after.is_none() && undo.takes_back.is_some_and(|first| asked.contains(&first))
        };
        for change in changes.iter().rev().filter(|change| !change.kind.is_of_folder()) {
            let Some(to) = &change.to else {
                if change.kind == PastChangeKind::Removed {
                    went_on.remove(&change.path);
                }
                continue;
            };
            let is_there = went_on.remove(to).unwrap_or(true);
            let is_done = self.has_move_from_place(change, &|undo| is_there && is_own(undo));
            if is_done {
                done.insert(change.number);
            }
            went_on.insert(&change.path, is_done);
        }
        done
    }

    /// Whether undos took a move of a file or a folder back. `is_of_file` says whether one at the
    /// path of the move was one of that file.
    fn has_move_from_place(
        &self,
        change: &PastChange,
        is_of_file: &dyn Fn(&PastChange) -> bool,
    ) -> bool {
        let to = change.to.as_ref().unwrap_or(&change.path);
        let is_of_folder = change.kind.is_of_folder();
        let in_place = if is_of_folder { &self.folders } else { &self.in_place };
        let undo_at = |path| undo_in_place(in_place.get(path), change.number);
        // Or it came back to the path before, without the one in between.
        let has_come_back =
            || undo_at(&change.path).is_some_and(|undo| is_of_folder || undo.after.is_some());
        self.has_move(change.number) || undo_at(to).is_some_and(is_of_file) || has_come_back()
    }

    fn has(&self, change: &PastChange) -> bool {
        match change.kind {
            kind if is_of_folder_alone(kind) => {
                has_in_place(self.folders.get(&change.path), change.number)
            }
            kind if kind.is_move() => self.has_move_from_place(change, &|_| true),
            _ => has_in_place(self.in_place.get(&change.path), change.number),
        }
    }

    fn has_move(&self, number: ChangeNumber) -> bool {
        self.moves.get(&number).is_some_and(|undos| undos.iter().any(|undo| !self.has_move(*undo)))
    }
}

fn has_in_place(undos: Option<&Vec<&PastChange>>, number: ChangeNumber) -> bool {
    undo_in_place(undos, number).is_some()
}

/// Returns which of the undos at one path took a change of it back. After an undo a file or a
/// folder is what it was before the first change that the undo took back.
fn undo_in_place<'u>(
    undos: Option<&Vec<&'u PastChange>>,
    number: ChangeNumber,
) -> Option<&'u PastChange> {
    let mut until = None;
    for undo in undos.into_iter().flatten().rev() {
        if undo.number <= number {
            break;
        }
        if until.is_some_and(|until| undo.number >= until) {
            continue;
        }
        match undo.takes_back {
            Some(first) if first <= number => return Some(*undo),
            first => until = first,
        }
    }
    None
}

/// Whether a change made or removed a folder at one path.
fn is_of_folder_alone(kind: PastChangeKind) -> bool {
    kind.is_of_folder() && !kind.is_move()
}

/// Returns those of the changes that undos made that took back some of `changes`, or an undo of
/// these.
pub fn undos_of(changes: &[PastChange], undone: &[PastChange]) -> Vec<PastChange> {
    let mut numbers: BTreeSet<ChangeNumber> = changes.iter().map(|change| change.number).collect();
    let mut made: BTreeSet<_> = changes.iter().flat_map(places_after).collect();
    let mut undos = Vec::new();
    for undo in undone {
        let is_of = undo.takes_back.is_some_and(|first| numbers.contains(&first));
        if is_of && made.contains(&(undo.path.clone(), undo.before)) {
            numbers.insert(undo.number);
            made.extend(places_after(undo));
            undos.push(undo.clone());
        }
    }
    undos
}

/// Returns the paths of a change, each with the version that it had after the change.
fn places_after(change: &PastChange) -> Vec<(SpacePath, Option<ContentHash>)> {
    match (&change.to, change.kind) {
        (Some(to), kind) if kind.is_move() => {
            vec![(change.path.clone(), None), (to.clone(), change.after)]
        }
        _ => vec![(change.path.clone(), change.after)],
    }
}

/// Returns the paths whose folder a change made, removed or moved, and whether a folder was there
/// after it.
fn folders_after(change: &PastChange) -> Vec<(SpacePath, bool)> {
    let path = || change.path.clone();
    match (change.kind, &change.to) {
        (PastChangeKind::FolderCreated, _) => vec![(path(), true)],
        (PastChangeKind::FolderRemoved, _) => vec![(path(), false)],
        (PastChangeKind::FolderMoved, Some(to)) => vec![(path(), false), (to.clone(), true)],
        (PastChangeKind::FolderMerged, Some(to)) => vec![(to.clone(), true)],
        _ => Vec::new(),
    }
}

/// Changes of files that have to do with each other.
#[derive(Default)]
struct Group {
    /// What is to be taken back.
    changes: Vec<PastChange>,
    /// What earlier undos made.
    undone: Vec<PastChange>,
}

impl Group {
    /// Returns all changes in the order of their numbers.
    fn all(&self) -> Vec<PastChange> {
        let mut all = [self.changes.clone(), self.undone.clone()].concat();
        all.sort_by_key(|change| change.number);
        all
    }
}

/// Which changes of a group a plan goes back through.
enum Choice {
    /// Those that are to be taken back.
    Changes,
    /// Those of earlier undos, too.
    All,
    /// These alone: earlier undos took the others back, and somebody changed their files since.
    Rest(Vec<PastChange>),
    /// None: earlier undos did what can be done. The plan says what is left.
    Nothing(UndoPlan),
}

/// Chooses what finds fewer changes of somebody else, and then what takes fewer steps.
fn choose(group: &Group, taken_back: &TakenBack<'_>, facts: &mut dyn UndoFacts) -> Choice {
    let asked: BTreeSet<_> = group.changes.iter().map(|change| change.number).collect();
    let mut done = taken_back.of(&group.changes);
    let open = &asked - &done;
    let ChosenPlan { choice, steps, ends } = choose_by_plan(group, &open, facts);
    let mut again = changes_what_undos_left(group, &ends, facts);
    // A file may still have to go on from where an undo left it.
    let is_open = |change: &&PastChange| open.contains(&change.number);
    again.retain(|path| !group.changes.iter().filter(is_open).any(|open| open.concerns(path)));
    if open.is_empty() && !again.is_empty() {
        return Choice::Nothing(UndoPlan::default());
    }
    let all = group.all();
    let ended_by_own = ended_by_undo(group, &all);
    done.extend(&ended_by_own);
    let left_by_us: BTreeMap<_, _> = all.iter().flat_map(places_after).collect();
    // Somebody changed these files after an undo took back what the steps would take back, or the
    // undo of other changes did that: then it gave back what was there before, whatever it holds.
    let own = TakenBack::by(&group.undone);
    let done_by_own = own.of(&group.changes);
    let by_own = |number| ended_by_own.contains(&number) || done_by_own.contains(&number);
    let is_again = |step: &&UndoStep| step.takes_back().is_some_and(|first| done.contains(&first));
    let folders_left_by_us: BTreeMap<_, _> = all.iter().flat_map(folders_after).collect();
    let mut changed_since = BTreeSet::new();
    for step in steps.iter().filter(is_again) {
        let is_by_others = !step.takes_back().is_some_and(by_own);
        let folders = match step {
            UndoStep::GiveFolder { path, from, .. } => vec![Some(path), from.as_ref()],
            UndoStep::UnmakeFolder { path, .. } => vec![Some(path)],
            _ => Vec::new(),
        };
        for path in folders.iter().copied().flatten() {
            let is_there = facts.folder(path).is_some();
            let is_left = folders_left_by_us.get(path).is_none_or(|left| *left == is_there);
            if is_by_others || !is_left {
                changed_since.insert(path.clone());
            }
        }
        // Nor does the step make a folder above again that somebody removed since.
        let above = step.paths().flat_map(folders_above);
        let mut is_gone = |path: &SpacePath| {
            folders_left_by_us.get(path) == Some(&true) && facts.folder(path).is_none()
        };
        changed_since.extend(above.filter(|path| is_gone(path)));
        if !folders.is_empty() {
            continue;
        }
        let now = match facts.now(step.path()) {
            PathNow::File(version) => Some(version),
            PathNow::Nothing | PathNow::Blocked(_) => None,
        };
        // A mode that somebody gave the file since stays, too.
        let is_for_mode = matches!(step, UndoStep::Restore { from, to, .. } if *from == Some(*to))
            && steps.iter().filter(|other| touches(other, step.path())).count() == 1;
        if is_for_mode
            || is_by_others
            || again.contains(step.path())
            || left_by_us.get(step.path()).is_some_and(|left| *left != now)
        {
            changed_since.insert(step.path().clone());
        }
    }
    if changed_since.is_empty() {
        return choice;
    }
    if asked.is_subset(&done) {
        // Everything is taken back, and what differs is somebody's.
        return Choice::Nothing(UndoPlan::default());
    }
    add_other_folders(&all, &done, &mut changed_since);
    let chosen = if matches!(choice, Choice::All) { all } else { group.changes.clone() };
    let mut without = BTreeSet::new();
    let mut is_rest = |change: &PastChange| {
        let is_undo = !asked.contains(&change.number);
        let is_done = done.contains(&change.number) || is_undo;
        // What an undo did with the other folder of a move goes with the move.
        let is_of_other = is_undo
            && change.kind.is_of_folder()
            && change.takes_back.is_some_and(|first| without.contains(&first));
        let is_changed = changed_since.iter().any(|path| change.concerns(path));
        let is_rest = !(is_done && (is_changed || is_of_other));
        if !is_rest {
            without.insert(change.number);
        }
        is_rest
    };
    let rest: Vec<PastChange> = chosen.into_iter().filter(|change| is_rest(change)).collect();
    let planner = planned(&rest, facts);
    let is_nothing = comes_to_nothing(&planner);
    let Planner { plan, files, .. } = planner;
    match is_nothing && !has_other_file(&files, &open, facts) {
        true => Choice::Nothing(plan),
        false => Choice::Rest(rest),
    }
}

/// Returns the paths that are as undos of a group left them, and that would not stay so. Where a
/// client made another file of the same content, it may look as if that were still there.
fn changes_what_undos_left(
    group: &Group,
    ends: &Ends,
    facts: &mut dyn UndoFacts,
) -> BTreeSet<SpacePath> {
    let asked: BTreeSet<_> = group.changes.iter().map(|change| change.number).collect();
    let mut last = BTreeMap::new();
    for change in group.all() {
        let is_undo = !asked.contains(&change.number);
        last.extend(places_after(&change).into_iter().map(|(path, it)| (path, (is_undo, it))));
    }
    let mut is_as_left = |path: &&SpacePath| match last.get(*path) {
        Some((true, Some(version))) => facts.now(path) == PathNow::File(*version),
        Some((true, None)) => facts.now(path) == PathNow::Nothing,
        _ => false,
    };
    ends.keys().filter(|path| is_as_left(path)).cloned().collect()
}

/// Adds the other folders of moves that are taken back and that concern one of the paths, so that
/// what was done with those folders goes with the moves.
fn add_other_folders(
    all: &[PastChange],
    done: &BTreeSet<ChangeNumber>,
    paths: &mut BTreeSet<SpacePath>,
) {
    let is_move = |it: &&PastChange| it.kind.is_of_folder() && it.kind.is_move();
    let moves = || all.iter().filter(is_move).filter(|it| done.contains(&it.number));
    loop {
        let ends = moves().map(|it| [Some(&it.path), it.to.as_ref()]);
        let joined = ends.filter(|ends| ends.iter().flatten().any(|path| paths.contains(*path)));
        let joined: BTreeSet<SpacePath> = joined.flatten().flatten().cloned().collect();
        if joined.is_subset(paths) {
            return;
        }
        paths.extend(joined);
    }
}

/// Returns the changes of folders to which an undo did something last. Such an undo went back to
/// before all of them, though its steps name other changes: a folder is only there or not.
fn ended_by_undo(group: &Group, all: &[PastChange]) -> BTreeSet<ChangeNumber> {
    let mut last = BTreeMap::new();
    for change in all {
        last.extend(folders_after(change).into_iter().map(|(path, _)| (path, change)));
    }
    let asked: BTreeSet<_> = group.changes.iter().map(|change| change.number).collect();
    let is_ended = |change: &&PastChange| {
        let last = last.get(&change.path).filter(|last| !asked.contains(&last.number));
        let is_undo = last.and_then(|last| last.takes_back).is_some_and(|it| asked.contains(&it));
        is_of_folder_alone(change.kind) && is_undo
    };
    group.changes.iter().filter(is_ended).map(|change| change.number).collect()
}

/// Whether a step changes what is at a path.
fn touches(step: &UndoStep, path: &SpacePath) -> bool {
    step.path() == path || matches!(step, UndoStep::MoveBack { to, .. } if to == path)
}

/// The files that the steps of a plan change, with the versions that they have after all steps.
type Ends = BTreeMap<SpacePath, Option<ContentHash>>;

/// What was chosen by what the plans come to.
struct ChosenPlan {
    choice: Choice,
    steps: Vec<UndoStep>,
    ends: Ends,
}

impl ChosenPlan {
    fn nothing(plan: UndoPlan) -> Self {
        Self { choice: Choice::Nothing(plan), steps: Vec::new(), ends: Ends::new() }
    }
}

/// Chooses by what the plans come to. `open` are the changes that no undo took back.
fn choose_by_plan(
    group: &Group,
    open: &BTreeSet<ChangeNumber>,
    facts: &mut dyn UndoFacts,
) -> ChosenPlan {
    let short = planned(&group.changes, facts);
    let (short_ends, short_folders) = (ends(&short), short.known.ends());
    let short_plan = short.plan;
    let of_changes = |ends: Ends| {
        let steps = short_plan.steps.clone();
        ChosenPlan { choice: Choice::Changes, steps, ends }
    };
    if group.undone.is_empty() {
        return of_changes(short_ends);
    }
    // Then an undo's own change that could not be taken back is of no concern.
    let is_done = open.is_empty() && short_plan.steps.is_empty() && short_plan.left.is_empty();
    let whole = planned(&group.all(), facts);
    if foreign(&whole.plan) > foreign(&short_plan) {
        return of_changes(short_ends);
    }
    let (whole_ends, whole_folders) = (ends(&whole), whole.known.ends());
    if comes_to_nothing(&whole) {
        if is_done {
            return ChosenPlan::nothing(UndoPlan::default());
        }
        let Planner { plan, files, .. } = whole;
        return match has_other_file(&files, open, facts) {
            true => ChosenPlan { choice: Choice::All, steps: plan.steps, ends: whole_ends },
            false => ChosenPlan::nothing(plan),
        };
    }
    let is_same = whole.plan.left.len() == short_plan.left.len()
        && (&whole_ends, whole_folders) == (&short_ends, short_folders);
    match is_same {
        true => of_changes(short_ends),
        false => ChosenPlan { choice: Choice::All, steps: whole.plan.steps, ends: whole_ends },
    }
}

/// Whether everything is as the steps of a plan would leave it.
fn comes_to_nothing(planner: &Planner<'_>) -> bool {
    planner.known.ends().is_empty() && ends(planner).is_empty()
}

/// Whether a file is another one than before the first of its changes, which no undo took back.
fn has_other_file(
    files: &BTreeMap<SpacePath, Planned>,
    open: &BTreeSet<ChangeNumber>,
    facts: &mut dyn UndoFacts,
) -> bool {
    files.iter().any(|(path, file)| {
        let first = file.made.and(file.first).filter(|first| open.contains(first));
        first.is_some_and(|first| facts.is_other_file(path, path, first))
    })
}

/// Returns how many changes a plan leaves since somebody else seems to have changed the file.
fn foreign(plan: &UndoPlan) -> usize {
    let is_foreign = |why| matches!(why, LeftReason::ChangedSince | LeftReason::GoneSince);
    plan.left.iter().filter(|left| is_foreign(left.why)).count()
}

/// Returns the files that the steps change, with the versions that they have after all steps. A
/// file of which only the other plan knows stays as it is.
fn ends(planner: &Planner<'_>) -> Ends {
    let is_changed = |file: &Planned| match file.at_first {
        PathNow::File(version) => file.made != Some(version),
        PathNow::Nothing | PathNow::Blocked(_) => file.made.is_some(),
    };
    let changed = planner.files.iter().filter(|(_, file)| is_changed(file));
    changed.map(|(path, file)| (path.clone(), file.made)).collect()
}

/// Returns the groups of changes. Changes of undos that have nothing to do with `changes` are left
/// out.
fn groups(changes: &[PastChange], undone: &[PastChange]) -> Vec<Group> {
    let mut sets = Sets::default();
    for change in changes.iter().chain(undone) {
        let path = sets.number_of(&change.path);
        if let Some(to) = &change.to {
            let to = sets.number_of(to);
            sets.join(path, to);
        }
    }
    let paths: Vec<(SpacePath, usize)> =
        sets.numbers.iter().map(|(path, number)| (path.clone(), *number)).collect();
    for (path, number) in paths {
        for folder in folders_above(&path) {
            if let Some(above) = sets.numbers.get(&folder).copied() {
                sets.join(number, above);
            }
        }
    }
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for change in changes {
        let set = sets.set_of_path(&change.path);
        groups.entry(set).or_default().changes.push(change.clone());
    }
    for change in undone {
        let set = sets.set_of_path(&change.path);
        if let Some(group) = groups.get_mut(&set) {
            group.undone.push(change.clone());
        }
    }
    groups.into_values().collect()
}

/// Sets of paths that can be joined. Each set is known by the number of one of its paths.
#[derive(Default)]
struct Sets {
    numbers: BTreeMap<SpacePath, usize>,
    /// For each path another one of its set, or itself for the one that names the set.
    parents: Vec<usize>,
}

impl Sets {
    fn number_of(&mut self, path: &SpacePath) -> usize {
        let next = self.parents.len();
        let number = *self.numbers.entry(path.clone()).or_insert(next);
        if number == next {
            self.parents.push(next);
        }
        number
    }

    fn set_of_path(&mut self, path: &SpacePath) -> usize {
        let number = self.number_of(path);
        self.set_of(number)
    }

    fn set_of(&mut self, mut number: usize) -> usize {
        while let Some(parent) = self.parents.get(number).copied()
            && parent != number
        {
            let above = self.parents.get(parent).copied().unwrap_or(parent);
            if let Some(place) = self.parents.get_mut(number) {
                *place = above;
            }
            number = above;
        }
        number
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.set_of(one), self.set_of(other));
        if let Some(place) = self.parents.get_mut(one) {
            *place = other;
        }
    }
}
