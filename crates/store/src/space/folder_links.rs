//! Moves a folder and rewrites the links that led into it, and those of its own notes.

use std::sync::Arc;
use std::time::Instant;

use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::notes::MAX_NOTE_BYTES;
use stile_domain::notes::link_rewrite::{MovedFile, RewritePass};
use stile_domain::notes::links::LinkedFiles;
use stile_domain::notes::note_facts::NoteFacts;
use stile_domain::path::SpacePath;
use stile_domain::permit::{EditBelow, EditTree, Permit, Walk};
use stile_domain::tree_hash::TreeItem;

use crate::cancellation::Cancellation;

use super::disclosure::Disclosure;
use super::folder_moves::FolderPermits;
use super::folder_tree::FolderTree;
use super::link_rewriting::LinkPlan;
use super::notes::may_have_readable_links;
use super::tree::SLICE;
use super::walk::Found;
use super::walk_pages::{LinkRewrites, LinkRewriting};
use super::{Inner, Space};

/// A note of a folder that moves.
struct OwnNote {
    /// Where the note is when the links are planned.
    there: SpacePath,
    /// Where it is after the move.
    now: SpacePath,
    /// `None` if it cannot be looked into.
    facts: Option<Arc<NoteFacts>>,
}

impl Space {
    /// Moves a folder, and rewrites the links that led into it or that the move would break, in the
    /// notes that the caller may change. Plans and writes nothing if the request is dry. The hash
    /// of the answer is that of the folder afterwards.
    ///
    /// # Errors
    /// A [`Refusal`]; the folder is then where it was, and no link is changed.
    pub async fn move_folder_with_links(
        &self,
        permits: (Permit<EditTree>, Permit<EditTree>),
        (names, may_edit): (Permit<Walk>, Permit<EditBelow>),
        request: LinkRewriting,
    ) -> Result<LinkRewrites, Refusal> {
        let LinkRewriting { base, is_dry, cursor } = request.clone();
        let told = Disclosure::of(&permits.0).making(&permits.1);
        let permits = Arc::new(permits);
        let (cancellation, planned) = (self.cancellation.clone(), Arc::clone(&permits));
        let plan = move |inner: &Inner| {
            inner.plan_folder_links(&planned, (&names, &may_edit), &request, &cancellation)
        };
        let plan = self.answer(told.clone(), plan).await?;
        if !is_dry && cursor.is_none() && plan.pass == RewritePass::First {
            let (mut made, moving) = (Vec::new(), Arc::clone(&permits));
            self.change(told.clone(), move |change| change.move_folder(&moving, base, &mut made))
                .await?;
        }
        let mut done = self.rewrite_notes(plan, is_dry, cursor).await;
        if !is_dry {
            // The move is made. A folder that cannot be hashed now has no hash to send.
            let cancellation = Cancellation::default();
            let hash = move |inner: &Inner| inner.tree_hash(&permits.1, &cancellation);
            done.hash = self.answer(told, hash).await.ok();
        }
        Ok(done)
    }
}

impl Inner {
    fn plan_folder_links(
        &self,
        permits: &FolderPermits,
        (names, may_edit): (&Permit<Walk>, &Permit<EditBelow>),
        request: &LinkRewriting,
        cancellation: &Cancellation,
    ) -> Result<LinkPlan, Refusal> {
        let (from, to) = (permits.0.path(), permits.1.path());
        let (pass, tree) = self.pass_of_folder(permits, request, cancellation)?;
        let mut plan = LinkPlan::new(pass);
        let own = self.own_notes(&tree, (from, to), names, cancellation)?;
        let targets = own.iter().filter_map(|note| note.facts.as_ref());
        let targets = targets.flat_map(|facts| facts.links.iter().map(|link| &link.target));
        let mut files = LinkedFiles::for_targets(targets);
        for entry in tree.entries.iter().filter(|it| matches!(it.item, TreeItem::File { .. })) {
            files = files.and_for_path(&entry.path);
        }
        self.add_to_each(names, [&mut files], cancellation)?;
        // What a cursor goes on with may have been begun before.
        let goes_on = request.cursor.is_some() && !request.is_dry;
        let pass = if goes_on { RewritePass::Again } else { pass };
        let moved = Arc::new(MovedFile::of_folder(from.clone(), to.clone(), &files, pass));
        let after = request.cursor.clone().and_then(|cursor| cursor.after);
        let own_after = after.clone().filter(|after| to.covers(&after.path));
        if request.cursor.is_none() || own_after.is_some() {
            let after = own_after.as_ref().map(|after| &after.path);
            self.plan_own_notes(&mut plan, (own, after), &moved, may_edit, cancellation)?;
        }
        if plan.next.is_none() {
            let after = after.filter(|_| own_after.is_none());
            self.plan_notes(&mut plan, &moved, (names, may_edit), after, cancellation)?;
        }
        Ok(plan)
    }

    /// Returns the notes of a folder that the caller may read, in the order of their paths.
    fn own_notes(
        &self,
        tree: &FolderTree,
        (from, to): (&SpacePath, &SpacePath),
        names: &Permit<Walk>,
        cancellation: &Cancellation,
    ) -> Result<Vec<OwnNote>, Refusal> {
        let mut own = Vec::new();
        for entry in tree.entries.iter().filter(|it| matches!(it.item, TreeItem::File { .. })) {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            let found = Found::at(own_position(&entry.path));
            let is_left_out = self.options.search_ignore.leaves_out_below(&entry.path, false);
            if is_left_out || !may_have_readable_links(names, &found) {
                continue;
            }
            let there = entry.path.clone();
            let now = there.relocated(from, to).unwrap_or_else(|| there.clone());
            let facts = self.known_note(&found).map(|known| known.facts);
            own.push(OwnNote { there, now, facts });
        }
        own.sort_by(|one, other| one.now.components().cmp(other.now.components()));
        Ok(own)
    }

    /// Adds the notes of the folder after a path to the plan, until the plan is full or the time is
    /// over.
    fn plan_own_notes(
        &self,
        plan: &mut LinkPlan,
        (own, after): (Vec<OwnNote>, Option<&SpacePath>),
        moved: &Arc<MovedFile>,
        may_edit: &Permit<EditBelow>,
        cancellation: &Cancellation,
    ) -> Result<(), Refusal> {
        let deadline = Instant::now() + SLICE;
        let is_left =
            |note: &OwnNote| after.is_none_or(|after| note.now.components().gt(after.components()));
        let mut last = None;
        for OwnNote { there, now, facts } in own.into_iter().filter(is_left) {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            if last.is_some() && (plan.is_full() || Instant::now() >= deadline) {
                plan.next = Some(WalkCursor { after: last, ..WalkCursor::default() });
                return Ok(());
            }
            let position = own_position(&now);
            last = Some(position.clone());
            plan.searched += 1;
            let text = match facts {
                Some(facts) if !moved.concerns(&now, &facts) => continue,
                Some(_) => self.read_text(&there, MAX_NOTE_BYTES).ok(),
                None => None,
            };
            let Some(text) = text else {
                (plan.searched, plan.skipped) = (plan.searched - 1, plan.skipped + 1);
                continue;
            };
            let links = moved.rewrite(&now, &text);
            plan.add(now, Some(position), &text, links, may_edit, moved);
        }
        Ok(())
    }

    /// Returns whether the folder is still to be moved, or was moved by an earlier call, and what
    /// it holds.
    fn pass_of_folder(
        &self,
        permits: &FolderPermits,
        request: &LinkRewriting,
        cancellation: &Cancellation,
    ) -> Result<(RewritePass, FolderTree), Refusal> {
        let (from, to) = (permits.0.path(), permits.1.path());
        let goes_on = request.cursor.is_some();
        match self.open_to_move(from, to) {
            Ok(_) if goes_on && !request.is_dry => {
                Err(Refusal::AlreadyExists { path: from.clone() })
            }
            Ok(handle) if goes_on => {
                Ok((RewritePass::First, self.tree(&handle, &permits.0, cancellation)?))
            }
            Ok(handle) => {
                let tree = self.folder_to_move(&handle, permits, request.base, cancellation)?;
                match self.is_taken(to) {
                    true => Err(Refusal::AlreadyExists { path: to.clone() }),
                    false => Ok((RewritePass::First, tree)),
                }
            }
            Err(absent) if absent.code().0 == "not_found" => {
                let Ok(handle) = self.root.open_folder(to) else { return Err(absent) };
                let tree = self.tree(&handle, &permits.1, cancellation)?;
                if goes_on || tree.hash() == request.base {
                    Ok((RewritePass::Again, tree))
                } else {
                    Err(Refusal::StaleFolder { path: to.clone() })
                }
            }
            Err(other) => Err(other),
        }
    }
}

/// Returns the position of a note of the folder, which is in no walk.
fn own_position(path: &SpacePath) -> WalkPosition {
    WalkPosition { start: SpacePath::root(), path: path.clone(), is_folder: false }
}
