//! `file.move`: another name or another folder for a file, and never over anything. The links that
//! led to it are rewritten if the caller wants that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::journal::CallTrace;
use stile_domain::limits::MAX_LISTED_REWRITES;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Edit, EditBelow, Gate, Permit, Walk};
use stile_domain::tool_name::Spelling;
use stile_store::space::{LinkRewrites, LinkRewriting, NoteRewrite, RewriteOutcome, Space};

use super::two_paths::both;
use super::walking::cursor_of;
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// The most characters of a link that `dry_run` shows.
const MAX_LINK_CHARS: usize = 200;

/// Move or rename a file, never over anything. Missing folders are made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileMove {
    /// Which file.
    path: FilePath,
    /// Its `hash`.
    hash: ContentHash,
    /// Its new path.
    to: FilePath,
    /// Rewrite links to it.
    #[serde(default)]
    rewrite_links: bool,
    /// Only show.
    #[serde(default)]
    dry_run: bool,
    /// `next_cursor`.
    cursor: Option<String>,
}

/// A file that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileMoved {
    /// Its new path.
    path: SpacePath,
    /// Its hash, which changes only if its own links do.
    hash: ContentHash,
    /// What became of links, with `rewrite_links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LinksOfMove")]
    links: Option<LinksOfMove>,
    #[serde(skip)]
    base: Option<ContentHash>,
}

/// What became of the links that led to a moved file.
#[derive(Debug, Serialize, JsonSchema)]
struct LinksOfMove {
    /// `false` for a dry run.
    written: bool,
    /// How many notes have rewritten links.
    notes: usize,
    /// How many links were rewritten.
    links: usize,
    /// The first of these notes.
    paths: Vec<SpacePath>,
    /// The first of these links, for a dry run.
    changes: Vec<ChangedLink>,
    /// How many notes have links that were left as they are.
    left_notes: usize,
    /// The first of these notes.
    left: Vec<LeftNote>,
    /// How many notes could not be looked into.
    skipped: u64,
    /// Whether there may be more notes.
    truncated: bool,
    /// What to send as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A link and its new form.
#[derive(Debug, Serialize, JsonSchema)]
struct ChangedLink {
    path: SpacePath,
    line: u32,
    old: String,
    new: String,
}

/// A note whose links were left.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftNote {
    path: SpacePath,
    links: usize,
    /// The code of a refusal, `unspellable` or `ambiguous`.
    why: &'static str,
}

impl LinksOfMove {
    fn of(done: LinkRewrites, is_dry: bool, query: &str) -> Self {
        let mut links = Self {
            written: !is_dry,
            notes: 0,
            links: 0,
            paths: Vec::new(),
            changes: Vec::new(),
            left_notes: 0,
            left: Vec::new(),
            skipped: done.skipped,
            truncated: done.next.is_some(),
            next_cursor: done.next.map(|next| next.encode(query)),
        };
        for note in done.notes {
            links.add(note, is_dry);
        }
        links
    }

    fn add(&mut self, note: NoteRewrite, is_dry: bool) {
        let NoteRewrite { path, changes, unspellable, ambiguous, outcome } = note;
        let count = changes.len();
        let mut left =
            vec![(unspellable as usize, "unspellable"), (ambiguous as usize, "ambiguous")];
        match outcome {
            RewriteOutcome::Left(why) => left.insert(0, (count, why)),
            RewriteOutcome::Planned | RewriteOutcome::Written if count > 0 => {
                self.notes += 1;
                self.links += count;
                if self.paths.len() < MAX_LISTED_REWRITES {
                    self.paths.push(path.clone());
                }
                let room = MAX_LISTED_REWRITES.saturating_sub(self.changes.len());
                let shown = changes.into_iter().take(if is_dry { room } else { 0 });
                self.changes.extend(shown.map(|change| ChangedLink {
                    path: path.clone(),
                    line: change.line,
                    old: change.old.chars().take(MAX_LINK_CHARS).collect(),
                    new: change.new.chars().take(MAX_LINK_CHARS).collect(),
                }));
            }
            RewriteOutcome::Planned | RewriteOutcome::Written => {}
        }
        let left = left.into_iter().filter(|(links, _)| *links > 0);
        let left: Vec<_> =
            left.map(|(links, why)| LeftNote { path: path.clone(), links, why }).collect();
        self.left_notes += usize::from(!left.is_empty());
        let room = MAX_LISTED_REWRITES.saturating_sub(self.left.len());
        self.left.extend(left.into_iter().take(room));
    }
}

impl Output for FileMoved {
    fn render(self, _: Spelling) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }

    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        let is_written = self.links.as_ref().is_none_or(|links| links.written);
        (self.base, is_written.then_some(self.hash))
    }
}

impl Tool for FileMove {
    const NAME: &'static str = "file.move";
    const TITLE: &'static str = "Move a file";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = false;
    type Context = Space;
    type Permits = ((Permit<Edit>, Permit<Edit>), Option<(Permit<Walk>, Permit<EditBelow>)>);
    type Output = FileMoved;
    type Error = Refusal;

    fn ask(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let paths = both(gate.permit(&self.path), gate.permit(&self.to))?;
        let root = SpacePath::root();
        let notes = self.rewrite_links.then(|| Ok((gate.permit(&root)?, gate.permit(&root)?)));
        Ok((paths, notes.transpose()?))
    }

    async fn run(self, (paths, notes): Self::Permits, space: &Space) -> Result<FileMoved, Refusal> {
        let Self { path, hash, to, dry_run, cursor, .. } = self;
        let query = format!("move {:?}", (path.as_str(), to.as_str(), dry_run));
        let Some(notes) = notes else {
            if dry_run || cursor.is_some() {
                return Err(Refusal::invalid_argument(
                    "`dry_run` and `cursor` need `rewrite_links: true`",
                ));
            }
            space.move_file(paths, hash).await?;
            return Ok(FileMoved { path: to.into(), hash, links: None, base: Some(hash) });
        };
        let given = cursor.as_deref();
        let cursor = given.map(|cursor| cursor_of(Some(cursor), &query)).transpose()?;
        let request = LinkRewriting { base: hash, is_dry: dry_run, cursor };
        let done = space.move_with_links(paths, notes, request).await?;
        Ok(FileMoved {
            path: to.into(),
            hash: done.hash.unwrap_or(hash),
            links: Some(LinksOfMove::of(done, dry_run, &query)),
            base: Some(hash),
        })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, Some(self.hash)).with_target(&self.to)
    }
}
