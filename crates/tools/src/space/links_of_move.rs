//! What moves of files and folders answer about links.

use schemars::JsonSchema;
use serde::Serialize;
use stile_domain::error::Refusal;
use stile_domain::limits::MAX_LISTED_REWRITES;
use stile_domain::path::SpacePath;
use stile_domain::permit::{EditBelow, Gate, Permit, Walk};
use stile_store::space::{LinkRewrites, NoteRewrite, RewriteOutcome};

/// The most characters of a link that `dry_run` shows.
const MAX_LINK_CHARS: usize = 200;

/// The permits to look for links in the whole space, and to rewrite them, as far as the scopes
/// reach.
pub(super) type NotePermits = (Permit<Walk>, Permit<EditBelow>);

/// Returns the permits for links. `None` for a caller who may read or change nothing but what
/// moves: a move needs no more scopes because of links.
pub(super) fn note_permits(gate: Gate<'_>) -> Option<NotePermits> {
    let root = SpacePath::root();
    gate.permit(&root).ok().zip(gate.permit(&root).ok())
}

/// Returns what `rewrite_links` is if it is left out.
pub(super) fn by_default() -> bool {
    true
}

/// Refuses the arguments that only a move with links takes.
pub(super) fn without_links(is_dry: bool, cursor: Option<&str>) -> Result<(), Refusal> {
    match is_dry || cursor.is_some() {
        true => Err(Refusal::invalid_argument("`dry_run` and `cursor` need `rewrite_links`")),
        false => Ok(()),
    }
}

/// What became of links after a move.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LinksOfMove {
    /// `false` for a dry run.
    pub(super) written: bool,
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
    pub(super) fn of(done: LinkRewrites, is_dry: bool, query: &str) -> Self {
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
