//! `folder.move`: another name or another place for a folder with all that it holds, and never over
//! anything. Links are rewritten as `file.move` does it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{EditTree, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::{LinkRewriting, Space};

use super::links_of_move::{LinksOfMove, NotePermits, by_default, note_permits, without_links};
use super::two_paths::both;
use super::walking::cursor_of;
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Move or rename a folder with all it holds, never over anything.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderMove {
    /// Which folder.
    path: SpacePath,
    /// `tree_hash`. See `file.list`.
    hash: ContentHash,
    /// Its new path.
    to: SpacePath,
    /// Rewrite links so that each leads where it led.
    #[serde(default = "by_default")]
    rewrite_links: bool,
    /// Only show.
    #[serde(default)]
    dry_run: bool,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// A folder that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderMoved {
    /// Its new path.
    path: SpacePath,
    /// Its hash, which changes only if links in it do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ContentHash")]
    tree_hash: Option<ContentHash>,
    /// What became of links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LinksOfMove")]
    links: Option<LinksOfMove>,
    #[serde(skip)]
    base: Option<ContentHash>,
}

impl Output for FolderMoved {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        let is_written = self.links.as_ref().is_none_or(|links| links.written);
        (self.base, self.tree_hash.filter(|_| is_written))
    }
}

impl Tool for FolderMove {
    const NAME: &'static str = "folder.move";
    const TITLE: &'static str = "Move a folder";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = ((Permit<EditTree>, Permit<EditTree>), Option<NotePermits>);
    type Output = FolderMoved;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let paths = both(gate.permit(&self.path), gate.permit(&self.to))?;
        Ok((paths, if self.rewrite_links { note_permits(gate) } else { None }))
    }

    async fn run(
        self,
        (paths, notes): Self::Permits,
        space: &Space,
    ) -> Result<FolderMoved, Refusal> {
        let Self { path, hash, to, dry_run, cursor, .. } = self;
        let query = format!("move folder {:?}", (path.as_str(), to.as_str(), dry_run));
        let Some(notes) = notes else {
            without_links(dry_run, cursor.as_deref())?;
            space.move_folder(paths, hash).await?;
            let tree_hash = Some(hash);
            return Ok(FolderMoved { path: to, tree_hash, links: None, base: Some(hash) });
        };
        let given = cursor.as_deref();
        let cursor = given.map(|cursor| cursor_of(Some(cursor), &query)).transpose()?;
        let request = LinkRewriting { base: hash, is_dry: dry_run, cursor };
        let done = space.move_folder_with_links(paths, notes, request).await?;
        Ok(FolderMoved {
            path: to,
            tree_hash: if dry_run { Some(hash) } else { done.hash },
            links: Some(LinksOfMove::of(done, dry_run, &query)),
            base: Some(hash),
        })
    }

    fn trace(&self) -> CallTrace {
        let trace = CallTrace::of_file(&self.path, Some(self.hash)).with_target(&self.to);
        if self.dry_run { trace.as_dry_run() } else { trace }
    }
}
