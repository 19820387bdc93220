//! Plans what takes changes back, and carries the plan out.
//!
//! The plan comes from `domain::history::undo_plan`. It names what cannot be given back before
//! anything is changed, and what of the undo itself cannot be taken back, since the history has no
//! room for it. [`Shortfall`] is all that, and an undo is whole only if there is none. Each step is
//! one call of a tool, guarded by the hash of the file, so a file that
//! somebody changes meanwhile is left as it is. After an interruption, or once an obstacle is gone,
//! the next plan goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::history::folder_modes::{
    FolderModes, FolderNote, OWNER_ALONE, folder_modes, folders_before,
};
use stile_domain::history::lives::Lives;
use stile_domain::history::past_change::{Author, ChangeNumber, PastChange, PastChangeKind};
use stile_domain::history::past_folder::{FolderNow, FolderRest, PastFolder};
use stile_domain::history::undo_plan::{
    LeftChange, LeftReason, Obstacle, PathNow, UndoFacts, UndoPlan, UndoStep, folders_above,
    undo_plan,
};
use stile_domain::history::version::OldVersion;
use stile_domain::path::SpacePath;
use stile_domain::shown_paths::ShownPaths;
use stile_store::history::{
    ChangeQuery, ForeseenStep, History, HistoryError, UndoRoom, UnrecordedChanges, VersionError,
};

use super::{OwnerFiles, OwnerFilesError};

pub use stile_domain::history::past_change::{RESTORE, UNDO};

/// Whether what was done with a tool is to be taken back. What the owner took back or gave back
/// stays so, unless a call or a client is named.
fn is_of_query(query: &ChangeQuery, tool: &str) -> bool {
    let is_of_one = query.client.is_some() || query.callers.is_some();
    query.call.is_some() || is_of_one || ![UNDO, RESTORE].contains(&tool)
}

/// What takes changes back, and what it leaves.
#[derive(Default)]
pub struct PlannedUndo {
    /// The steps, and the changes that are left.
    pub plan: UndoPlan,
    /// The modes of the folders that steps make.
    modes: BTreeMap<SpacePath, u32>,
    /// What the history keeps of what steps replace or remove.
    room: UndoRoom,
    /// The files that steps replace or remove although the history has no room for what they hold.
    pub lacking: Vec<SpacePath>,
    /// Changes of the client that no history has.
    pub unrecorded: Vec<UnrecordedChanges>,
}

/// Something because of which an undo is not whole. The owner is told each of them, and a command
/// that has any ends with exit code 1.
#[derive(Clone, Copy, Debug)]
pub enum Shortfall<'a> {
    /// A file is left as it is.
    Left(&'a LeftChange),
    /// Changes of a client are in no history, so nothing takes them back.
    Unrecorded(&'a UnrecordedChanges),
    /// The history has no room for what steps replace or remove at these paths, so those steps
    /// cannot be taken back.
    NotKept(&'a [SpacePath]),
    /// A step failed, with the reason.
    Failed(&'a UndoStep, &'a str),
}

impl PlannedUndo {
    /// Returns how an output shows the paths of the plan.
    pub fn shown_paths(&self) -> ShownPaths {
        let unrecorded = self.unrecorded.iter().flat_map(UnrecordedChanges::paths);
        ShownPaths::of(self.plan.paths().chain(unrecorded))
    }

    /// Returns why the undo will not be whole.
    pub fn shortfalls(&self) -> Vec<Shortfall<'_>> {
        self.shortfalls_with(&self.lacking, &[])
    }

    fn shortfalls_with<'a>(
        &'a self,
        lacking: &'a [SpacePath],
        failed: &'a [FailedStep<'_>],
    ) -> Vec<Shortfall<'a>> {
        let lacking = (!lacking.is_empty()).then_some(Shortfall::NotKept(lacking));
        let failed = failed.iter().map(|(step, why)| Shortfall::Failed(step, why));
        let unrecorded = self.unrecorded.iter().map(Shortfall::Unrecorded);
        let left = self.plan.left.iter().map(Shortfall::Left);
        left.chain(unrecorded).chain(lacking).chain(failed).collect()
    }
}

/// A step that failed, with the reason.
type FailedStep<'p> = (&'p UndoStep, String);

/// An undo that was carried out.
pub struct MadeUndo<'p> {
    planned: &'p PlannedUndo,
    failed: Vec<FailedStep<'p>>,
    /// The files that steps replaced or removed although the history had no room for what they
    /// held.
    lacking: Vec<SpacePath>,
}

impl MadeUndo<'_> {
    /// Returns how many steps were made.
    pub fn done(&self) -> usize {
        self.planned.plan.steps.len() - self.failed.len()
    }

    /// Returns why the undo is not whole.
    pub fn shortfalls(&self) -> Vec<Shortfall<'_>> {
        self.planned.shortfalls_with(&self.lacking, &self.failed)
    }

    /// Whether the history has everything that steps replaced or removed, so that the undo itself
    /// can be taken back whole.
    pub fn can_be_taken_back(&self) -> bool {
        self.lacking.is_empty()
    }
}

/// Plans what takes the changes back that `query` finds; `None` if there are none.
///
/// # Errors
/// [`OwnerFilesError`].
pub async fn plan(
    owner: &OwnerFiles,
    query: &ChangeQuery,
) -> Result<Option<PlannedUndo>, OwnerFilesError> {
    let mut changes = owner.history.changes(query)?;
    changes.retain(|change| is_of_query(query, &change.author.tool));
    changes.reverse();
    let unrecorded = unrecorded(owner, query, &changes)?;
    if changes.is_empty() && unrecorded.is_empty() {
        return Ok(None);
    }
    let all = made_alone(owner, related(owner, &changes)?).await?;
    let (mut plan, found) = plan_of(owner, &changes, &all).await?;
    leave_out_others_folders(owner, &changes, &mut plan)?;
    plan.bring_back_first();
    let modes = plan_folder_modes(owner, (query, &changes, &all), &mut plan).await?;
    doubt_reasons(&mut plan, &changes, &unrecorded);
    let (room, lacking) = decide_room(owner, &plan, &found).await?;
    Ok(Some(PlannedUndo { plan, modes, room, lacking, unrecorded }))
}

/// Leaves out what is said of folders that hold something and that a client made where another one
/// had taken a folder away: that a folder is there is as it was before both.
fn leave_out_others_folders(
    owner: &OwnerFiles,
    changes: &[PastChange],
    plan: &mut UndoPlan,
) -> Result<(), HistoryError> {
    let calls: BTreeSet<ChangeNumber> = changes.iter().map(|change| change.call).collect();
    let mut left = Vec::new();
    for change in std::mem::take(&mut plan.left) {
        let is_of_other = |it: &FolderNote| {
            it.tool != UNDO
                && (1..change.number.0).contains(&it.call.0)
                && !calls.contains(&it.call)
        };
        let is_as_before = matches!(change.why, LeftReason::Holds { .. })
            && owner.history.folder_notes_at([&change.path])?.iter().any(is_of_other);
        if !is_as_before {
            left.push(change);
        }
    }
    plan.left = left;
    Ok(())
}

/// Adds what gives folders their modes to the plan. Returns the modes of all folders with files of
/// before the changes.
async fn plan_folder_modes(
    owner: &OwnerFiles,
    (query, changes, rows): (&ChangeQuery, &[PastChange], &[PastChange]),
    plan: &mut UndoPlan,
) -> Result<BTreeMap<SpacePath, u32>, OwnerFilesError> {
    let mut notes = owner.history.folder_notes(query)?;
    notes.retain(|note| is_of_query(query, &note.tool));
    let before = folders_before(changes, &notes);
    if before.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut now = BTreeMap::new();
    // A folder that a step removes is made again with its mode.
    let removed = plan.steps.iter().filter_map(|step| match step {
        UndoStep::UnmakeFolder { path, .. } => Some(path),
        _ => None,
    });
    let removed: BTreeSet<&SpacePath> = removed.collect();
    for path in before.keys().filter(|path| !removed.contains(path)) {
        let mode = owner.tools.folder_mode(&owner.caller, path).await?;
        now.extend(mode.map(|mode| (path.clone(), mode)));
    }
    let mut steps = Vec::new();
    for path in interrupted_folders(owner, rows)? {
        // A folder that is made gets its mode once it is there, and a kill came in between.
        let is_of_undo = |it: &FolderNote| it.tool == UNDO && it.mode == OWNER_ALONE;
        let is_mended = owner.history.folder_notes_at([&path])?.iter().any(is_of_undo);
        if let (Some(is), Some(folder)) = (now.get_mut(&path), before.get(&path))
            && *is == OWNER_ALONE
            && folder.mode != OWNER_ALONE
            && !is_mended
        {
            let (from, to) = (*is, folder.mode);
            *is = to;
            steps.push(UndoStep::SetFolderMode { path, from, to });
        }
    }
    plan.steps.append(&mut steps);
    let all = owner.history.folder_notes_at(before.keys())?;
    let modes = before.iter().map(|(path, folder)| (path.clone(), folder.mode)).collect();
    let made = made_by_steps(&plan.steps, &modes);
    let FolderModes { steps, mut left } = folder_modes(&before, [&now, &made], [&notes, &all]);
    left.retain(|left| !is_given_back(&left.path, (changes, rows)));
    plan.steps.extend(steps);
    plan.left.extend(left);
    Ok(modes)
}

/// Returns the folders that steps make, or into which they bring something, with the modes that
/// they give those that they make.
fn made_by_steps(steps: &[UndoStep], modes: &BTreeMap<SpacePath, u32>) -> BTreeMap<SpacePath, u32> {
    let mut made = BTreeMap::new();
    for step in steps {
        match step {
            UndoStep::GiveFolder { path, mode, .. } => {
                made.insert(path.clone(), mode & 0o777 | OWNER_ALONE);
            }
            UndoStep::Restore { path, .. } | UndoStep::MoveBack { to: path, .. } => {
                for folder in folders_above(path) {
                    if let Some(mode) = modes.get(&folder) {
                        made.entry(folder).or_insert(*mode);
                    }
                }
            }
            _ => {}
        }
    }
    made
}

/// Whether an undo that is not to be taken back gave a folder back already. Whatever mode it has
/// now is somebody's then.
fn is_given_back(path: &SpacePath, (changes, rows): (&[PastChange], &[PastChange])) -> bool {
    let is_of_folder =
        |it: &&PastChange| it.author.tool == UNDO && it.kind.is_of_folder() && it.path == *path;
    let of_folder = { rows.iter().rev() }.filter(is_of_folder).find(|it| !is_asked(changes, it));
    of_folder.is_some_and(|undo| undo.kind == PastChangeKind::FolderCreated)
}

/// Whether a change is one of those that are to be taken back, in the order of their numbers.
fn is_asked(changes: &[PastChange], change: &PastChange) -> bool {
    changes.binary_search_by_key(&change.number, |asked| asked.number).is_ok()
}

/// Takes from folders the rights that they do not keep, before files come back into them. What
/// fails here fails again in its step, which does the rest and is recorded.
async fn close_folders(owner: &OwnerFiles, steps: &[UndoStep]) {
    for step in steps {
        let UndoStep::SetFolderMode { path, from, to } = step else { continue };
        // What the server needs to work in the folder goes last.
        let narrowed = from & (to | OWNER_ALONE);
        if narrowed != *from {
            let arguments = json!({ "path": path, "from": from, "to": narrowed });
            let _ = owner.call("folder.set_mode", arguments).await;
        }
    }
}

/// Makes the steps of a plan, and removes those of its folders that are empty then. Calls `on_step`
/// with the number of steps that were tried before each. Tries every step, whatever becomes of
/// those before it.
pub async fn carry_out<'p>(
    owner: &OwnerFiles,
    planned: &'p PlannedUndo,
    on_step: &mut dyn FnMut(u64),
) -> MadeUndo<'p> {
    let mut failed = Vec::new();
    // Without this note, a later undo takes each recorded step for one that was made.
    let begun = owner.history.begin_undo().ok();
    owner.call.set_folder_modes(planned.modes.clone());
    owner.call.set_room(planned.room.clone());
    close_folders(owner, &planned.plan.steps).await;
    for (done, step) in (0..).zip(&planned.plan.steps) {
        on_step(done);
        let (tool, arguments) = call_of(step);
        owner.call.set_takes_back(step.takes_back());
        if let Err(error) = owner.call(tool, arguments).await {
            failed.push((step, error));
        }
    }
    owner.call.set_takes_back(None);
    if let Some(begun) = begun {
        let _ = owner.history.end_undo(begun);
    }
    let lacking = owner.call.number().map(|call| owner.history.lacking(call));
    // If the history cannot say what it has no room for, what was foreseen counts.
    let lacking = lacking.unwrap_or_else(|| Ok(Vec::new()));
    let lacking = lacking.unwrap_or_else(|_| planned.lacking.clone());
    MadeUndo { planned, failed, lacking }
}

/// Returns the changes that no history has, as far as the undo is about them. An undo of one call
/// is about those of its client in the time of the call, of which some may be others.
fn unrecorded(
    owner: &OwnerFiles,
    query: &ChangeQuery,
    changes: &[PastChange],
) -> Result<Vec<UnrecordedChanges>, HistoryError> {
    let mut lines = owner.history.unrecorded()?;
    if query.call.is_some() {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return Ok(Vec::new());
        };
        lines.retain(|line| {
            let is_at_that_time = line.until >= first.at && line.since.0 <= last.at.0 + MOST_CALL;
            line.client == first.author.name() && is_at_that_time
        });
    }
    lines.retain(|line| {
        let is_later = query.since.is_none_or(|since| line.until >= since);
        let is_earlier = query.until.is_none_or(|until| line.since < until);
        let is_of_client = query.client.as_ref().is_none_or(|client| line.client == *client);
        let is_by = |caller: &String| line.share == Author::share_of(caller);
        let is_of_caller = query.callers.as_ref().is_none_or(|callers| callers.iter().any(is_by));
        is_later && is_earlier && is_of_client && is_of_caller
    });
    Ok(lines)
}

/// Says of files that were changed since, or are gone, that a change may have done it that no
/// history has, if there were such changes later.
fn doubt_reasons(plan: &mut UndoPlan, changes: &[PastChange], unrecorded: &[UnrecordedChanges]) {
    let Some(last) = unrecorded.iter().map(|gap| gap.until).max() else { return };
    let times: BTreeMap<_, _> = changes.iter().map(|change| (change.number, change.at)).collect();
    for left in &mut plan.left {
        if times.get(&left.number).is_none_or(|at| *at <= last) {
            left.why = left.why.beside_unrecorded();
        }
    }
}

/// How long after the last change that a call recorded it may have made others, in microseconds.
const MOST_CALL: i64 = 60 * 1_000_000;

/// Returns all changes of the files and folders that `changes` changed, in the order of their
/// numbers, since the first of them, or the first that one of them took back.
fn related(owner: &OwnerFiles, changes: &[PastChange]) -> Result<Vec<PastChange>, HistoryError> {
    let Some(mut first) = changes.first().map(|change| change.number) else {
        return Ok(Vec::new());
    };
    let mut taken_back: BTreeSet<_> = changes.iter().filter_map(|it| it.takes_back).collect();
    loop {
        let begins = taken_back.first().map_or(first, |taken| first.min(*taken));
        let paths = changes.iter().flat_map(|it| std::iter::once(&it.path).chain(&it.to)).cloned();
        let related = owner.history.related_changes(paths, ChangeNumber(begins.0 - 1))?;
        let of_undos = related.iter().filter(|change| taken_back.contains(&change.number));
        let further: Vec<_> = of_undos.filter_map(|undo| undo.takes_back).collect();
        taken_back.extend(further);
        if taken_back.first().is_none_or(|taken| *taken >= begins) {
            return Ok(related);
        }
        first = begins;
    }
}

/// Returns the calls of the undos among changes that were killed before they ended.
fn unfinished_calls(
    owner: &OwnerFiles,
    changes: &[PastChange],
) -> Result<BTreeSet<ChangeNumber>, HistoryError> {
    let is_of_undo = |change: &&PastChange| change.author.tool == UNDO;
    let calls: BTreeSet<_> = changes.iter().filter(is_of_undo).map(|change| change.call).collect();
    let begun = owner.history.unfinished_undos()?.into_iter();
    let next = |begun| calls.range((Bound::Excluded(begun), Bound::Unbounded)).next().copied();
    Ok(begun.filter_map(next).collect())
}

/// Returns the folders that undos made which were killed.
fn interrupted_folders(
    owner: &OwnerFiles,
    rows: &[PastChange],
) -> Result<BTreeSet<SpacePath>, HistoryError> {
    let calls = unfinished_calls(owner, rows)?;
    let is_made = |change: &&PastChange| {
        change.kind == PastChangeKind::FolderCreated && calls.contains(&change.call)
    };
    Ok(rows.iter().filter(is_made).map(|change| change.path.clone()).collect())
}

/// Returns changes without those that an undo recorded and did not make, since it was killed in
/// between: the history has a change before the folder has it. Such a change is among the last of
/// its call.
async fn made_alone(
    owner: &OwnerFiles,
    changes: Vec<PastChange>,
) -> Result<Vec<PastChange>, OwnerFilesError> {
    // The calls whose last step may not have been made, with the change that it takes back.
    let calls = unfinished_calls(owner, &changes)?.into_iter();
    let mut unfinished: BTreeMap<_, Option<ChangeNumber>> =
        calls.map(|call| (call, None)).collect();
    let mut made = Vec::with_capacity(changes.len());
    for change in changes.into_iter().rev() {
        if let Some(step) = unfinished.get_mut(&change.call) {
            let is_of_step = step.is_none() || *step == change.takes_back;
            if is_of_step && was_not_made(owner, &change).await? {
                *step = change.takes_back;
                continue;
            }
            unfinished.remove(&change.call);
        }
        made.push(change);
    }
    made.reverse();
    Ok(made)
}

/// Whether a path is still as it was before a change: now, or when the next change found it.
async fn was_not_made(owner: &OwnerFiles, change: &PastChange) -> Result<bool, OwnerFilesError> {
    let path = &change.path;
    let query = ChangeQuery {
        path: Some(path.clone()),
        above: Some(change.number),
        ..ChangeQuery::default()
    };
    let mut later = owner.history.changes(&query)?;
    later.retain(|later| later.number > change.number && later.concerns(path));
    let next = later.last();
    if change.kind.is_of_folder() {
        let is_there = owner.tools.folder_now(&owner.caller, path).await?.is_some();
        return Ok(next.is_none()
            && match change.kind {
                PastChangeKind::FolderCreated => !is_there,
                PastChangeKind::FolderRemoved | PastChangeKind::FolderMoved => is_there,
                _ => false,
            });
    }
    let (before, after) = match change.kind {
        PastChangeKind::Moved => (change.before.or(change.after), None),
        _ => (change.before, change.after),
    };
    let found = match next {
        Some(next) if next.path == *path => next.before,
        // A move brought a file to the path, where there was none.
        Some(_) => None,
        None => match owner.tools.path_now(&owner.caller, path).await? {
            PathNow::File(version) => Some(version),
            PathNow::Nothing => None,
            PathNow::Blocked(_) => return Ok(false),
        },
    };
    Ok(before != after && found == before)
}

/// Which version of a file a step gives: the one before a change, over the version `from`.
type Restored = (SpacePath, ChangeNumber, Option<ContentHash>);

/// A file by the path that it has now and the one that it had, and the change before which another
/// file may have had its content.
type Compared = ([SpacePath; 2], ChangeNumber);

/// What the command found out for the plan.
#[derive(Default)]
struct Found {
    now: BTreeMap<SpacePath, PathNow>,
    /// A file that has a version now, for each version.
    files: BTreeMap<ContentHash, SpacePath>,
    /// Why a version cannot be given.
    lacks: BTreeMap<Restored, Option<LeftReason>>,
    /// The paths that were looked up without knowing what is there.
    unknown_paths: BTreeSet<SpacePath>,
    /// The restoring steps that were planned without knowing whether there is a version.
    unknown: Vec<UndoStep>,
    /// Whether a file is another one than before a change.
    others: BTreeMap<Compared, bool>,
    /// The files of which that was not known.
    unknown_others: BTreeSet<Compared>,
    /// What is in folders.
    folders: BTreeMap<SpacePath, Option<FolderNow>>,
    /// The folders of which that was not known.
    unknown_folders: BTreeSet<SpacePath>,
    /// What folders were before the changes of them.
    past_folders: BTreeMap<ChangeNumber, PastFolder>,
    /// What keeps files and folders from being changed.
    guards: BTreeMap<SpacePath, Option<Obstacle>>,
    /// The files and folders of which that is not known.
    unknown_guards: BTreeSet<SpacePath>,
    /// How versions are got that no file has now, and maybe no history: from what a step replaces.
    made: BTreeMap<ContentHash, MadeVersion>,
}

/// A version that a step makes of a file, which is the version `from` by then; `None` where there
/// is no file.
struct MadeVersion {
    path: SpacePath,
    from: Option<ContentHash>,
}

impl UndoFacts for Found {
    fn now(&mut self, path: &SpacePath) -> PathNow {
        let known = self.now.get(path).copied();
        if known.is_none() {
            self.unknown_paths.insert(path.clone());
        }
        known.unwrap_or(PathNow::Nothing)
    }

    fn lacks(&mut self, step: &UndoStep) -> Option<LeftReason> {
        let UndoStep::Restore { path, before, from, .. } = step else { return None };
        let known = self.lacks.get(&(path.clone(), *before, *from)).copied();
        if known.is_none() {
            self.unknown.push(step.clone());
        }
        known.flatten()
    }

    fn is_other_file(&mut self, now: &SpacePath, path: &SpacePath, before: ChangeNumber) -> bool {
        let file = ([now.clone(), path.clone()], before);
        let known = self.others.get(&file).copied();
        if known.is_none() {
            self.unknown_others.insert(file);
        }
        known.unwrap_or(false)
    }

    fn guard(&mut self, path: &SpacePath) -> Option<Obstacle> {
        let known = self.guards.get(path).copied();
        if known.is_none() {
            self.unknown_guards.insert(path.clone());
        }
        known.flatten()
    }

    fn folder(&mut self, path: &SpacePath) -> Option<FolderNow> {
        let known = self.folders.get(path);
        if known.is_none() {
            self.unknown_folders.insert(path.clone());
        }
        known.cloned().flatten()
    }

    fn folder_before(&mut self, change: ChangeNumber) -> PastFolder {
        self.past_folders.get(&change).cloned().unwrap_or_default()
    }
}

/// Plans the undo of changes among all changes of their files and folders. Looks at each path and
/// reads each version that the plan needs, so that no step is planned whose version is missing or
/// damaged.
async fn plan_of(
    owner: &OwnerFiles,
    changes: &[PastChange],
    all: &[PastChange],
) -> Result<(UndoPlan, Found), OwnerFilesError> {
    let lives = Lives::of(all);
    let past_folders = owner.history.past_folders(all)?;
    let mut found = Found { past_folders, ..Found::default() };
    loop {
        let plan = undo_plan(changes, &lives, &mut found);
        let unknown_folders = std::mem::take(&mut found.unknown_folders);
        let unknown = std::mem::take(&mut found.unknown);
        let unknown_paths = std::mem::take(&mut found.unknown_paths);
        let unknown_others = std::mem::take(&mut found.unknown_others);
        let all_paths_are_known = unknown_paths.is_empty() && unknown_folders.is_empty();
        let unknown_guards = std::mem::take(&mut found.unknown_guards);
        let all_versions_are_known = unknown.is_empty() && unknown_others.is_empty();
        if all_paths_are_known && all_versions_are_known && unknown_guards.is_empty() {
            return Ok((plan, found));
        }
        for path in unknown_folders {
            let now = owner.tools.folder_now(&owner.caller, &path).await?;
            found.folders.insert(path, now);
        }
        for path in unknown_paths {
            let now = owner.tools.path_now(&owner.caller, &path).await?;
            if let PathNow::File(version) = now {
                found.files.entry(version).or_insert_with(|| path.clone());
            }
            found.now.insert(path, now);
        }
        for path in unknown_guards.into_iter().filter(|_| all_paths_are_known) {
            let guard = owner.tools.guard(&owner.caller, &path).await?;
            found.guards.insert(path, guard);
        }
        for compared in unknown_others.into_iter().filter(|_| all_paths_are_known) {
            let is_other = is_other_file(owner, &found, &compared).await;
            found.others.insert(compared, is_other);
        }
        // Steps that were planned without knowing the files may not be needed.
        for step in unknown.into_iter().filter(|_| all_paths_are_known) {
            let UndoStep::Restore { path, from, to, before } = step else { continue };
            let lacks = lacks(owner, &found, &path, (from, to)).await;
            if lacks.is_none() {
                found.made.entry(to).or_insert(MadeVersion { path: path.clone(), from });
            }
            found.lacks.insert((path, before, from), lacks);
        }
    }
}

/// Whether a file is another one than before a change, though it has the same content.
async fn is_other_file(
    owner: &OwnerFiles,
    found: &Found,
    ([now, path], before): &Compared,
) -> bool {
    let Some(PathNow::File(hash)) = found.now.get(now) else { return false };
    let version = (OldVersion::Before(*before), *hash);
    owner.tools.is_other_file(&owner.caller, [now, path], version).await
}

/// Returns the bytes of a version that a file is by then. The file may be at another path now, from
/// which the plan moves it back, or a step may make the version of what is there.
async fn bytes_by_then(owner: &OwnerFiles, found: &Found, version: ContentHash) -> Option<Vec<u8>> {
    let (mut wanted, mut steps) = (version, Vec::new());
    let mut bytes = loop {
        let there = match found.files.get(&wanted) {
            Some(source) => owner.tools.version_bytes(&owner.caller, source, None).await.ok(),
            None => owner.history.version_bytes(wanted, owner.most_bytes()).ok(),
        };
        if let Some(there) = there {
            break there;
        }
        let MadeVersion { path, from } = found.made.get(&wanted)?;
        // Each version has one step, so the steps come to an end, or go round.
        if steps.len() > found.made.len() {
            return None;
        }
        match from {
            Some(from) => {
                steps.push((path, wanted));
                wanted = *from;
            }
            None => break owner.history.bytes_of(path, wanted, None, owner.most_bytes()).ok()?,
        }
    };
    while let Some((path, made)) = steps.pop() {
        bytes = owner.history.bytes_of(path, made, Some(&bytes), owner.most_bytes()).ok()?;
    }
    Some(bytes)
}

/// Decides what the history keeps of what the steps of a plan replace or remove. Returns the files,
/// too, of which it does not.
async fn decide_room(
    owner: &OwnerFiles,
    plan: &UndoPlan,
    found: &Found,
) -> Result<(UndoRoom, Vec<SpacePath>), OwnerFilesError> {
    let (mut folders, mut steps) = (FoldersByThen::default(), Vec::new());
    for step in &plan.steps {
        let rows = rows_of(owner, step, &mut folders).await?;
        let (from, wanted) = match step {
            UndoStep::Restore { from, to, .. } => (*from, Some(*to)),
            UndoStep::Remove { from, .. } => (Some(*from), None),
            _ => (None, None),
        };
        let path = step.path();
        let bytes = match from {
            Some(from) => bytes_by_then(owner, found, from).await,
            None => None,
        };
        let most = owner.most_bytes();
        let needs = wanted.map(|wanted| {
            // A version that cannot be found any more makes its step fail.
            owner.history.needed_for(path, wanted, bytes.as_deref(), most).unwrap_or_default()
        });
        let copy = from.map(|from| {
            let given = wanted.map(|wanted| {
                let given = owner.history.bytes_of(path, wanted, bytes.as_deref(), most);
                // Of a version that cannot be found, nothing is known to begin with it.
                given.ok().filter(|_| bytes.is_some()).unwrap_or_default()
            });
            let version = (from, bytes.as_deref().unwrap_or_default());
            owner.history.foresee_copy(&owner.call, (path, given.as_deref()), version)
        });
        let copy = copy.transpose()?.flatten();
        steps.push(ForeseenStep { rows, needs: needs.flatten(), copy });
    }
    Ok(owner.history.undo_room(&steps)?)
}

/// Which folders are there after the steps so far, as far as that is known.
type FoldersByThen = BTreeMap<SpacePath, bool>;

/// Returns the bytes of the rows that a step adds to the history, those of the folders that it
/// makes among them.
async fn rows_of(
    owner: &OwnerFiles,
    step: &UndoStep,
    folders: &mut FoldersByThen,
) -> Result<u64, OwnerFilesError> {
    let row = |path: &SpacePath, to: Option<&SpacePath>, rest: &FolderRest| {
        History::bytes_of_row(path, to, rest)
    };
    let (path, none) = (step.path(), FolderRest::new());
    let mut rows = match step {
        UndoStep::GiveFolder { from: Some(from), rest, .. } if !rest.is_empty() => {
            row(from, Some(path), rest)
        }
        UndoStep::GiveFolder { .. } => 0,
        UndoStep::MoveBack { to, .. } => row(path, Some(to), &none),
        // The row of the removal, and the note of the mode.
        UndoStep::RemoveFolder { .. } | UndoStep::UnmakeFolder { .. } => {
            folders.insert(path.clone(), false);
            2 * row(path, None, &none)
        }
        UndoStep::Restore { .. } | UndoStep::Remove { .. } | UndoStep::SetFolderMode { .. } => {
            row(path, None, &none)
        }
    };
    let needed: Vec<SpacePath> = match step {
        UndoStep::GiveFolder { .. } => {
            std::iter::once(path.clone()).chain(folders_above(path)).collect()
        }
        UndoStep::MoveBack { to, .. } => folders_above(to).collect(),
        UndoStep::Restore { from: None, .. } => folders_above(path).collect(),
        _ => Vec::new(),
    };
    for folder in needed {
        let is_there = match folders.get(&folder) {
            Some(is_there) => *is_there,
            None => owner.tools.folder_mode(&owner.caller, &folder).await?.is_some(),
        };
        if !is_there {
            rows += row(&folder, None, &none);
        }
        folders.insert(folder, true);
    }
    Ok(rows)
}

/// Returns why the history cannot give a file the version `to`. `from` is the version that the file
/// has by then, of which the other one may be the beginning.
async fn lacks(
    owner: &OwnerFiles,
    found: &Found,
    path: &SpacePath,
    (from, to): (Option<ContentHash>, ContentHash),
) -> Option<LeftReason> {
    let bytes = match from {
        Some(from) => bytes_by_then(owner, found, from).await,
        None => None,
    };
    match owner.history.bytes_of(path, to, bytes.as_deref(), owner.most_bytes()) {
        Ok(_) => None,
        Err(VersionError::Damaged { .. }) => Some(LeftReason::Damaged),
        Err(VersionError::TooLarge { .. }) => Some(LeftReason::TooLarge),
        Err(_) => Some(LeftReason::NotKept),
    }
}

/// Returns the call that makes a step.
fn call_of(step: &UndoStep) -> (&'static str, Value) {
    match step {
        UndoStep::Restore { path, from: Some(hash), before, .. } => {
            ("file.restore", json!({ "path": path, "version": before.to_string(), "hash": hash }))
        }
        UndoStep::Restore { path, from: None, before, .. } => {
            ("file.restore", json!({ "path": path, "version": before.to_string() }))
        }
        UndoStep::Remove { path, from, .. } => {
            ("file.remove", json!({ "path": path, "hash": from }))
        }
        UndoStep::MoveBack { path, from, to, .. } => {
            let exact = json!({ "path": path, "hash": from, "to": to, "rewrite_links": false });
            ("file.move", exact)
        }
        UndoStep::RemoveFolder { path } | UndoStep::UnmakeFolder { path, .. } => {
            ("folder.remove", json!({ "path": path }))
        }
        UndoStep::GiveFolder { path, mode, from, rest, .. } => {
            ("folder.give", json!({ "path": path, "mode": mode, "from": from, "rest": rest }))
        }
        UndoStep::SetFolderMode { path, from, to } => {
            ("folder.set_mode", json!({ "path": path, "from": from, "to": to }))
        }
    }
}
