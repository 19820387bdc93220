//! Moves a file or a folder and rewrites the links that led to it, in the notes that the caller may
//! change.
//!
//! First the plan: a walk over the notes that the caller may read finds those with links to
//! rewrite, and the hash of each. Then the file is moved, then its own links are rewritten, and
//! then each note is changed by itself, if it still is the version of the plan. So a note is always
//! whole, and a note that somebody has saved meanwhile is left and reported. The notes of a folder
//! that moves come before all others, in the order of their paths; [`super::folder_links`] plans
//! them.
//!
//! A call plans for one time slice and for [`MAX_REWRITTEN_NOTES`] notes, and says where the next
//! call goes on. A call that repeats the first one after a kill finds the file moved already, and
//! rewrites what is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_domain::limits::MAX_REWRITTEN_NOTES;
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::canvas::facts_of_file;
use stile_domain::notes::link_rewrite::{MovedFile, RewritePass, RewrittenLinks};
use stile_domain::notes::links::LinkedFiles;
use stile_domain::notes::note_query::may_have_links;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, EditBelow, Permit, Walk};

use crate::cancellation::Cancellation;

use super::disclosure::Disclosure;
use super::file_hash::hash_file;
use super::new_text::NewText;
use super::notes::{ORDER, may_have_readable_links};
use super::read::regular;
use super::tree::SLICE;
use super::walk::Walker;
use super::walk_pages::{LinkRewrites, LinkRewriting, NoteRewrite, RewriteOutcome};
use super::{Inner, Space, os, refusal};

/// How long one call changes notes. After that it answers, and the next call goes on.
const LONGEST_WRITING: Duration = Duration::from_secs(8);

/// The name of a rewritten note's line in the journal.
const EVENT: &str = "rewrite_links";

/// A note of the plan, and the permit to change it.
pub(super) struct PlannedNote {
    path: SpacePath,
    /// Where the next call goes on after the note; `None` for the moved file itself.
    position: Option<WalkPosition>,
    hash: ContentHash,
    links: RewrittenLinks,
    permit: Option<Permit<Edit>>,
    moved: Arc<MovedFile>,
}

/// What a call is going to do.
pub(super) struct LinkPlan {
    pub(super) pass: RewritePass,
    notes: Vec<PlannedNote>,
    pub(super) searched: u64,
    pub(super) skipped: u64,
    pub(super) next: Option<WalkCursor>,
}

impl LinkPlan {
    /// Creates a plan without notes.
    pub(super) fn new(pass: RewritePass) -> Self {
        Self { pass, notes: Vec::new(), searched: 0, skipped: 0, next: None }
    }

    /// Whether one call changes no more notes.
    pub(super) fn is_full(&self) -> bool {
        self.notes.len() >= MAX_REWRITTEN_NOTES
    }

    /// Adds a note, if it has links to rewrite or to report.
    pub(super) fn add(
        &mut self,
        path: SpacePath,
        position: Option<WalkPosition>,
        text: &str,
        links: RewrittenLinks,
        may_edit: &Permit<EditBelow>,
        moved: &Arc<MovedFile>,
    ) {
        if links.is_any() {
            self.notes.push(PlannedNote {
                permit: may_edit.to_edit(&path),
                path,
                position,
                hash: ContentHash::digest(text.as_bytes()),
                // The change plans again from the text, so that few texts are in memory.
                links: RewrittenLinks { text: None, ..links },
                moved: Arc::clone(moved),
            });
        }
    }
}

impl Space {
    /// Moves a file, and rewrites the links that led to it or that the move would break, in the
    /// notes that the caller may change. Plans and writes nothing if the request is dry.
    ///
    /// # Errors
    /// A [`Refusal`]; the file is then where it was, and no link is changed.
    pub async fn move_with_links(
        &self,
        (from, to): (Permit<Edit>, Permit<Edit>),
        (names, may_edit): (Permit<Walk>, Permit<EditBelow>),
        request: LinkRewriting,
    ) -> Result<LinkRewrites, Refusal> {
        let LinkRewriting { base, is_dry, cursor } = request.clone();
        let paths = (from.path().clone(), to.path().clone());
        let cancellation = self.cancellation.clone();
        let told = Disclosure::of(&from).making(&to);
        let plan = move |inner: &Inner| {
            inner.plan_links(&paths, (&names, &may_edit), &request, &cancellation)
        };
        let plan = self.answer(told, plan).await?;
        if !is_dry && cursor.is_none() && plan.pass == RewritePass::First {
            self.move_file((from, to), base).await?;
        }
        Ok(self.rewrite_notes(plan, is_dry, cursor).await)
    }

    /// Changes the notes of a plan.
    pub(super) async fn rewrite_notes(
        &self,
        plan: LinkPlan,
        is_dry: bool,
        cursor: Option<WalkCursor>,
    ) -> LinkRewrites {
        let LinkPlan { notes, searched, skipped, next, .. } = plan;
        let mut done = LinkRewrites { searched, skipped, next, ..LinkRewrites::default() };
        let deadline = Instant::now() + LONGEST_WRITING;
        let mut last = cursor.and_then(|cursor| cursor.after);
        for note in notes {
            if !is_dry && Instant::now() >= deadline {
                done.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                break;
            }
            last = note.position.clone().or(last);
            let is_moved_file = note.position.is_none();
            let (rewrite, hash) = self.rewrite_note(note, is_dry).await;
            done.hash = hash.filter(|_| is_moved_file).or(done.hash);
            done.notes.push(rewrite);
        }
        done
    }

    /// Changes one note of the plan. Returns what became of it, and its new hash.
    async fn rewrite_note(
        &self,
        note: PlannedNote,
        is_dry: bool,
    ) -> (NoteRewrite, Option<ContentHash>) {
        let PlannedNote { path, hash, links, permit, moved, .. } = note;
        let RewrittenLinks { changes, unspellable, ambiguous, .. } = links;
        let (outcome, new) = match permit {
            None => (RewriteOutcome::Left("insufficient_scope"), None),
            Some(_) if is_dry || changes.is_empty() => (RewriteOutcome::Planned, None),
            Some(permit) => {
                let at = path.clone();
                let plan = move |text: &str| {
                    Ok(moved.rewrite(&at, text).text.unwrap_or_else(|| text.to_owned()))
                };
                match self.edit(permit, hash, NewText::default(), ["hash", "hash"], plan).await {
                    Ok(edited) => (RewriteOutcome::Written, Some(edited.hash)),
                    Err(refusal) => (RewriteOutcome::Left(refusal.code().0), None),
                }
            }
        };
        if let Some(new) = new {
            (self.options.events)(JournalLine {
                tool: EVENT.to_owned(),
                path: Some(path.clone()),
                before: Some(hash),
                after: Some(new),
                outcome: "ok".to_owned(),
                ..JournalLine::default()
            });
        }
        (NoteRewrite { path, changes, unspellable, ambiguous, outcome }, new)
    }
}

impl Inner {
    fn plan_links(
        &self,
        (from, to): &(SpacePath, SpacePath),
        (names, may_edit): (&Permit<Walk>, &Permit<EditBelow>),
        request: &LinkRewriting,
        cancellation: &Cancellation,
    ) -> Result<LinkPlan, Refusal> {
        let pass = self.pass_of(from, to, request)?;
        let mut plan = LinkPlan::new(pass);
        let mut files = LinkedFiles::for_path(from).and_for_path(to);
        let own = match &request.cursor {
            None if may_have_links(from.as_str()) && may_have_links(to.as_str()) => {
                let at = if pass == RewritePass::First { from } else { to };
                let text = self.read_text(at, MAX_NOTE_BYTES).ok();
                let read = text.and_then(|text| {
                    facts_of_file(from.as_str(), &text).map(|facts| (text, facts))
                });
                plan.skipped += u64::from(read.is_none());
                read
            }
            _ => None,
        };
        let targets = own.iter().flat_map(|(_, facts)| facts.links.iter());
        let mut own_files = LinkedFiles::for_targets(targets.map(|link| &link.target))
            .and_for_path(from)
            .and_for_path(to);
        self.add_to_each(names, [&mut files, &mut own_files], cancellation)?;
        if let Some((text, _)) = own {
            let moved = Arc::new(MovedFile::new(from.clone(), to.clone(), &own_files, pass));
            plan.add(to.clone(), None, &text, moved.rewrite(to, &text), may_edit, &moved);
        }
        // What a cursor goes on with may have been begun before.
        let goes_on = request.cursor.is_some() && !request.is_dry;
        let pass = if goes_on { RewritePass::Again } else { pass };
        let moved = Arc::new(MovedFile::new(from.clone(), to.clone(), &files, pass));
        let after = request.cursor.clone().and_then(|cursor| cursor.after);
        self.plan_notes(&mut plan, &moved, (names, may_edit), after, cancellation)?;
        Ok(plan)
    }

    /// Adds the notes after a position to the plan, until the plan is full or the time is over.
    pub(super) fn plan_notes(
        &self,
        plan: &mut LinkPlan,
        moved: &Arc<MovedFile>,
        (names, may_edit): (&Permit<Walk>, &Permit<EditBelow>),
        after: Option<WalkPosition>,
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        let deadline = Instant::now() + SLICE;
        let mut walker = Walker::new(self, names, ORDER, usize::MAX, after.clone())?;
        let (mut last, mut is_first) = (after, true);
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if plan.is_full() || Instant::now() >= deadline && !is_first {
                plan.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                break;
            }
            if moved.is_at(&found.path) {
                continue;
            }
            is_first = false;
            last = Some(found.position());
            if !may_have_readable_links(names, &found) {
                continue;
            }
            let Some(known) = self.known_note(&found) else {
                plan.skipped += 1;
                continue;
            };
            plan.searched += 1;
            if !moved.concerns(&found.path, &known.facts) {
                continue;
            }
            let Ok(text) = self.read_text(&found.path, MAX_NOTE_BYTES) else {
                plan.skipped += 1;
                continue;
            };
            let (position, links) = (found.position(), moved.rewrite(&found.path, &text));
            plan.add(found.path, Some(position), &text, links, may_edit, moved);
        }
        Ok(())
    }

    /// Returns whether the file is still to be moved, or was moved by an earlier call.
    fn pass_of(
        &self,
        from: &SpacePath,
        to: &SpacePath,
        request: &LinkRewriting,
    ) -> Result<RewritePass, Refusal> {
        let stale = |path: &SpacePath| Refusal::Stale { path: path.clone(), argument: "hash" };
        let found = regular(self.root.open_file(from), from);
        let goes_on = request.cursor.is_some();
        match found {
            Ok(_) if goes_on && !request.is_dry => {
                Err(Refusal::AlreadyExists { path: from.clone() })
            }
            Ok(old) if request.is_dry && !goes_on => {
                let hash = hash_file(&old.file).map_err(|error| refusal(&error, from))?;
                if hash != request.base {
                    return Err(stale(from));
                }
                match self.is_taken(to) {
                    true => Err(Refusal::AlreadyExists { path: to.clone() }),
                    false => Ok(RewritePass::First),
                }
            }
            Ok(_) => Ok(RewritePass::First),
            Err(absent) if absent.code().0 == "not_found" => {
                let Ok(moved) = regular(self.root.open_file(to), to) else { return Err(absent) };
                let hash = hash_file(&moved.file).map_err(|error| refusal(&error, to))?;
                if goes_on || hash == request.base {
                    Ok(RewritePass::Again)
                } else {
                    Err(stale(to))
                }
            }
            Err(other) => Err(other),
        }
    }

    /// Whether anything has this path.
    pub(super) fn is_taken(&self, path: &SpacePath) -> bool {
        let Some((folder, name)) = path.split() else { return true };
        self.root.open_folder(&folder).is_ok_and(|folder| os::status_at(&folder, name).is_ok())
    }
}
