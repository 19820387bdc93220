//! What a read of a file is asked for and answers: where it begins, as what the bytes are read, and
//! the part of the file that one answer holds.

use stile_domain::file_cursor::FileCursor;
use stile_domain::hash::ContentHash;
use stile_domain::line_search::LineQuery;
use stile_domain::lines::{LineRange, ResolvedLines};
use stile_domain::notes::section::WantedSection;
use stile_domain::text_encoding::{EncodingSource, TextEncoding};
use stile_domain::window;
use stile_domain::window::WindowInput::Partial;

/// The position at which a read begins.
#[derive(Clone, Debug)]
pub enum WindowStart {
    /// At the first line of a range.
    Range(LineRange),
    /// At the first line of a range that contains a text.
    Match {
        /// The lines to search.
        range: LineRange,
        /// The text to find.
        query: LineQuery,
    },
    /// At the first line of a section of a note.
    Section {
        /// The section, by an id, its heading or a path of headings.
        section: WantedSection,
        /// The text to find in the section, for a window that begins at the line with it.
        query: Option<LineQuery>,
    },
    /// At the first line of a part of a document, such as a page.
    Part {
        /// The number of the part, from 1.
        number: u64,
        /// The text to find in the part, for a window that begins at the line with it.
        query: Option<LineQuery>,
    },
    /// Where an earlier read ended.
    Cursor(FileCursor),
}

/// As what the bytes of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAs {
    /// UTF-8 alone; anything else is refused.
    Utf8,
    /// As UTF-8, as a document, or in the encoding that is recognised.
    Recognised,
    /// In the encoding that the caller names.
    Stated(TextEncoding),
    /// As a document, also if it is text that is marked up.
    Extracted,
}

impl ReadAs {
    pub(super) fn is_stated(self) -> bool {
        matches!(self, Self::Stated(_))
    }
}

/// Where a window of the text of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentWindow {
    /// How many pages, slides, sheets or chapters the document has.
    pub parts: u64,
    /// In which of them the window begins, from 1. `None` if there are none.
    pub first: Option<u64>,
}

/// Some lines of a text file, within the limits of an answer.
#[derive(Clone, Debug)]
pub struct FileWindow {
    /// The text of the lines, as stored.
    pub content: String,
    /// The hash of the whole file.
    pub hash: ContentHash,
    /// The size of the whole file in bytes.
    pub size_bytes: u64,
    /// The number of lines of the whole file.
    pub total_lines: u64,
    /// The lines that `content` has, in whole or in part.
    pub lines: ResolvedLines,
    /// The line that contains the text to find.
    pub match_line: Option<u64>,
    /// The encoding of a text that is not UTF-8, and how it is known. `content` is decoded, and the
    /// lines are those of the decoded text.
    pub encoding: Option<(TextEncoding, EncodingSource)>,
    /// The document whose text this is. `content` and the lines are those of its text.
    pub document: Option<DocumentWindow>,
    /// Where the range continues. `None` if it is complete.
    pub next: Option<WindowContinuation>,
    /// Where the window begins, and the end of the range.
    pub start: FileCursor,
}

impl FileWindow {
    /// Cuts the window to at most `budget` bytes, as if it had been read so. A budget below one
    /// character gives one.
    #[must_use]
    pub fn within(mut self, budget: usize) -> Self {
        let budget = budget.max(4);
        if self.content.len() <= budget {
            return self;
        }
        let FileCursor { hash, offset, line, end } = self.start;
        let cut = window::find_end(self.content.as_bytes(), line, end, budget, Partial);
        self.content.truncate(cut.bytes);
        self.lines.end = cut.line + u64::from(cut.inside);
        self.next = Some(WindowContinuation {
            cursor: FileCursor { hash, offset: offset + cut.bytes as u64, line: cut.line, end },
            is_inside_line: cut.inside,
        });
        self
    }
}

/// Some bytes of a file of any kind.
#[derive(Clone, Debug)]
pub struct FileBytes {
    /// The bytes of the window.
    pub bytes: Vec<u8>,
    /// The first bytes of the file, by which its kind can be told.
    pub head: Vec<u8>,
    /// The hash of the whole file.
    pub hash: ContentHash,
    /// The size of the whole file in bytes.
    pub size_bytes: u64,
}

/// Where a bounded read continues.
#[derive(Clone, Copy, Debug)]
pub struct WindowContinuation {
    /// The cursor that continues the read.
    pub cursor: FileCursor,
    /// Whether the cursor is inside a line.
    pub is_inside_line: bool,
}
