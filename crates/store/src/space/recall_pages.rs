//! What `file.search` asks the store for, and what it answers.

use std::time::Duration;

use stile_domain::facts::UnixNanos;
use stile_domain::find::time_bound::TimeBound;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::hash::ContentHash;
use stile_domain::path::SpacePath;
use stile_domain::recall::excerpt::Excerpt;
use stile_domain::recall::question::RecallQuestion;

use super::left_out::LeftOut;

/// What to look for, and in which files.
#[derive(Clone, Debug)]
pub struct RecallQuery {
    /// What the caller asks.
    pub question: RecallQuestion,
    /// The kinds of files to look into; all if empty.
    pub kinds: Vec<RecallKind>,
    /// The times between which a file was changed last, both included.
    pub modified: [Option<TimeBound>; 2],
    /// How many files to return at most.
    pub limit: usize,
}

/// A kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallKind {
    /// Markdown notes.
    Note,
    /// Other text.
    Text,
    /// Documents whose text has to be extracted.
    Document,
}

/// How much a call may read.
#[derive(Clone, Copy, Debug)]
pub struct RecallBudget {
    /// The bytes after which no further file is read. The first file is always read.
    pub bytes: u64,
    /// The time after which the call answers with what it has.
    pub time: Duration,
}

/// The files that fit a question best.
#[derive(Clone, Debug, Default)]
pub struct RecallPage {
    /// The files, the best first.
    pub results: Vec<RecalledFile>,
    /// The words of the question that occur.
    pub matched: Vec<String>,
    /// The words of the question that are nowhere. Empty if the question leaves files out by a
    /// phrase, an excluded word, a kind or a time: these may have the words.
    pub nowhere: Vec<String>,
    /// How many files have any of the words.
    pub total: u64,
    /// Files that were not ranked, in the order of the reasons.
    pub left_out: Vec<LeftOut>,
    /// Where the next call goes on; `None` if nothing is left.
    pub next: Option<WalkCursor>,
}

/// A file that fits a question.
#[derive(Clone, Debug)]
pub struct RecalledFile {
    /// The path in the space.
    pub path: SpacePath,
    /// The title of a note, of a document or of a page of HTML; the name of another file.
    pub title: String,
    /// When the file was changed last.
    pub modified: UnixNanos,
    /// The hash of the whole file.
    pub hash: ContentHash,
    /// The passages that fit, the best first.
    pub passages: Vec<RecalledPassage>,
}

/// A passage that fits a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledPassage {
    /// Its lines, and the text on them.
    pub excerpt: Excerpt,
    /// The page of a document where it begins, from 1.
    pub page: Option<u64>,
}
