//! What walks are asked for, and the pages that they answer.

use stile_domain::facts::UnixNanos;
use stile_domain::find::hit_line::HitLine;
use stile_domain::find::name_pattern::{NameGlob, NamePattern};
use stile_domain::find::text_query::TextQuery;
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::hash::ContentHash;
use stile_domain::limits::MAX_FOUND_NAMES;
use stile_domain::listing::EntryKind;
use stile_domain::notes::link_rewrite::LinkChange;
use stile_domain::notes::links::NoteLink;
use stile_domain::path::SpacePath;

use super::left_out::LeftOut;
use super::os;

/// A file or folder below the folder that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The path in the space.
    pub path: SpacePath,
    /// The file type of the entry.
    pub kind: EntryKind,
    /// The size of a regular file, in bytes.
    pub size_bytes: Option<u64>,
    /// When a regular file was changed last.
    pub modified: Option<UnixNanos>,
    /// How many entries a folder holds that a list did not go into, if that is known already.
    pub entry_count: Option<u64>,
    /// The first bytes of a file whose type is to be told.
    pub head: Option<Vec<u8>>,
}

/// One page of a walk.
#[derive(Clone, Debug, Default)]
pub struct TreePage {
    /// The entries of the page, in order.
    pub entries: Vec<TreeEntry>,
    /// How many files and folders this call looked at.
    pub searched: u64,
    /// If a search for names found nothing at all: the names closest to the pattern.
    pub near: Vec<SpacePath>,
    /// How many entries no path can name, in the folders that this call finished.
    pub unnameable: u64,
    /// Where the next page begins; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}

/// One page of notes.
#[derive(Clone, Debug, Default)]
pub struct NotePage {
    /// The notes of the page, in order.
    pub notes: Vec<TreeEntry>,
    /// How many notes this call looked into.
    pub searched: u64,
    /// How many notes it could not look into, since they are too large, not text, or changing.
    pub skipped: u64,
    /// How many entries no path can name, in the folders that this call finished.
    pub unnameable: u64,
    /// Where the next page begins; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}

/// How many notes have each tag, or each value of a property.
#[derive(Clone, Debug, Default)]
pub struct ValueCounts {
    /// The values, each with how many notes have it, the most frequent first, then by value.
    pub counts: Vec<(Box<str>, u64)>,
    /// How many notes were looked into.
    pub searched: u64,
    /// How many notes could not be looked into.
    pub skipped: u64,
    /// How many entries no path can name.
    pub unnameable: u64,
}

/// Which links of a note to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDirection {
    /// Those of the note itself.
    Out,
    /// Those of other notes that lead to the note.
    In,
    /// Those of the note, and then those that lead to it.
    Both,
}

/// A link of a note, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutLink {
    /// The link as the note has it.
    pub link: NoteLink,
    /// The file to which it leads; `None` if the caller may read none.
    pub path: Option<SpacePath>,
}

/// One page of the links from and to a note.
#[derive(Clone, Debug, Default)]
pub struct LinkPage {
    /// The links of the note, in its order.
    pub out: Vec<OutLink>,
    /// The links that lead to the note, each with the note that has it.
    pub links_here: Vec<(SpacePath, NoteLink)>,
    /// How many notes this call looked into for links that lead here.
    pub searched: u64,
    /// How many notes it could not look into.
    pub skipped: u64,
    /// How many entries no path can name, in the folders that this call finished.
    pub unnameable: u64,
    /// Where the next page begins; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}

impl LinkPage {
    pub(super) fn is_full(&self) -> bool {
        self.out.len() + self.links_here.len() >= MAX_FOUND_NAMES
    }
}

/// How to move a file and rewrite links.
#[derive(Clone, Debug)]
pub struct LinkRewriting {
    /// The version of the file to move.
    pub base: ContentHash,
    /// Whether to plan only, and to write nothing.
    pub is_dry: bool,
    /// Where an earlier call stopped, which has moved the file. `None` for the first call.
    pub cursor: Option<WalkCursor>,
}

/// What became of the links of one call.
#[derive(Clone, Debug, Default)]
pub struct LinkRewrites {
    /// The hash of the moved file if its own links were rewritten.
    pub hash: Option<ContentHash>,
    /// The notes with links to rewrite, in order.
    pub notes: Vec<NoteRewrite>,
    /// How many notes this call looked into.
    pub searched: u64,
    /// How many notes it could not look into.
    pub skipped: u64,
    /// Where the next call goes on; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}

/// A note with links to rewrite.
#[derive(Clone, Debug)]
pub struct NoteRewrite {
    /// The note; the moved file at its new path.
    pub path: SpacePath,
    /// The links that are rewritten, or would be.
    pub changes: Vec<LinkChange>,
    /// How many links cannot be spelled so that they lead to their file.
    pub unspellable: u32,
    /// How many links may be meant as they are now.
    pub ambiguous: u32,
    /// What became of `changes`.
    pub outcome: RewriteOutcome,
}

/// What became of the changes of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// The note is only looked at, and could be changed.
    Planned,
    /// The note was changed.
    Written,
    /// The note is as it was. The code of the refusal says why.
    Left(&'static str),
}

/// Which files and folders to find.
#[derive(Clone, Debug)]
pub struct NameQuery {
    /// What the name must be like.
    pub pattern: NamePattern,
    /// The only file type to find; `None` for every type.
    pub kind: Option<EntryKind>,
    /// The times between which a file was changed last, both included.
    pub modified: [Option<TimeBound>; 2],
    /// In which order to show what was found.
    pub order: FoundOrder,
}

/// In which order a walk shows what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FoundOrder {
    /// As the walk finds it, or the best first.
    #[default]
    Usual,
    /// Files that were changed last first. Folders are left out.
    Newest,
}

impl NameQuery {
    pub(super) fn has_times(&self) -> bool {
        self.modified != [None, None]
    }

    pub(super) fn fits(&self, entry: &TreeEntry) -> bool {
        let now = if self.has_times() { os::now() } else { 0 };
        let [after, before] = self.modified.map(|bound| bound.map(|bound| bound.at(now)));
        let is_between = |time: UnixNanos| {
            after.is_none_or(|after| after <= time) && before.is_none_or(|before| time <= before)
        };
        self.kind.is_none_or(|kind| kind == entry.kind)
            && (!self.has_times() || entry.modified.is_some_and(is_between))
    }
}

/// What to search for, and in which files.
#[derive(Clone, Debug)]
pub struct TextSearch {
    /// What a line must contain.
    pub query: TextQuery,
    /// Which files to search; `None` for all.
    pub glob: Option<NameGlob>,
    /// How many lines to show before and after each hit.
    pub context: usize,
}

/// A line that contains what was searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The file with the hit.
    pub path: SpacePath,
    /// The hash of the whole file.
    pub hash: ContentHash,
    /// The number of the line, from 1.
    pub line: u64,
    /// The page of a document, from 1.
    pub page: Option<u64>,
    /// The line with the hit.
    pub text: HitLine,
    /// The lines before it.
    pub before: Vec<String>,
    /// The lines after it.
    pub after: Vec<String>,
}

/// One page of hits.
#[derive(Clone, Debug, Default)]
pub struct SearchPage {
    /// The hits, by path and line.
    pub hits: Vec<SearchHit>,
    /// How many files this call searched.
    pub files_searched: u64,
    /// The files that this call did not search, in the order of the reasons.
    pub left_out: Vec<LeftOut>,
    /// How many lines a regular expression was tried on in parts, without a match.
    pub lines_in_parts: u64,
    /// Where the next page begins; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}
