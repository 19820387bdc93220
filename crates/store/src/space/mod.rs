//! The file space beneath one directory handle.

use std::path::Path;

use stile_domain::cursor::Cursor;
use stile_domain::edit::EditError;
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::lines::{LineRange, Lines};
use stile_domain::listing::{Page, Position};
use stile_domain::permit::{Edit, List, Permit, Read};
use stile_domain::search::Query;

/// A folder that agents are let into.
#[derive(Clone)]
pub struct Space {}

/// Where a read begins.
#[derive(Clone, Debug)]
pub enum ReadFrom {
    /// At the first line of a range.
    Range(LineRange),
    /// At the first line of a range that contains a text.
    Match {
        /// The range.
        range: LineRange,
        /// The text.
        query: Query,
    },
    /// Where an earlier read stopped.
    Cursor(Cursor),
}

/// Lines of a text file, bounded.
#[derive(Clone, Debug)]
pub struct Window {
    /// The lines, as stored.
    pub content: String,
    /// Of the whole file.
    pub hash: ContentHash,
    /// Of the whole file.
    pub total_lines: u64,
    /// Which lines `content` touches.
    pub lines: Lines,
    /// The line that contains the query.
    pub match_line: Option<u64>,
    /// How the range goes on.
    pub next: Option<Next>,
}

/// How a bounded read goes on.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Exactly where it stopped.
    pub cursor: Cursor,
    /// Whether that is inside a line.
    pub inside: bool,
}

/// A file that was made.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// Of its bytes.
    pub hash: ContentHash,
    /// Its size.
    pub size_bytes: u64,
    /// Absent where it is not text.
    pub total_lines: Option<u64>,
}

/// A file that was changed.
#[derive(Clone, Copy, Debug)]
pub struct Edited {
    /// Of its new bytes.
    pub hash: ContentHash,
    /// Of its new text.
    pub total_lines: u64,
}
