//! The index of search tokens, as it is written.
//!
//! A text is cut into tokens as it comes, wherever its parts end, and each token belongs to the piece that it
//! begins in. So that a phrase is found that begins in one piece and ends in the next, the row of a piece also has
//! the [`OVERLAP`] tokens after it.

use std::collections::VecDeque;

use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokens::tokens;

/// Tokens of the following text in the row of a piece: one less than a phrase can have.
const OVERLAP: usize = 31;
/// Between a tag and its token. No token has it: it is a control character. The index takes it for a letter.
const TAG_END: char = '\u{80}';

/// What stands before each token of a tagged field in the index.
pub(super) fn mark(tag: i64) -> String {
    format!("{tag}{TAG_END}")
}

type Put<'p> = &'p mut dyn FnMut(i64, &str) -> Result<(), Problem>;

/// Cuts a text into tokens and gathers the rows of its pieces.
pub(super) struct Indexer {
    mark: String,
    record: i64,
    slot: u16,
    /// The end of what came, from the token on that may not be complete.
    held: String,
    /// Scalar values before that.
    before: u64,
    /// Rows that still want tokens.
    open: VecDeque<Row>,
}

struct Row {
    piece: u64,
    tokens: String,
    after: usize,
}

impl Indexer {
    pub(super) fn new(tag: i64, record: i64, slot: u16) -> Self {
        Self { mark: mark(tag), record, slot, held: String::new(), before: 0, open: VecDeque::new() }
    }

    pub(super) fn feed(&mut self, text: &str, put: Put<'_>) -> Result<(), Problem> {
        self.held.push_str(text);
        self.cut(false, put)
    }

    pub(super) fn finish(mut self, put: Put<'_>) -> Result<(), Problem> {
        self.cut(true, put)?;
        for row in std::mem::take(&mut self.open) {
            put(self.number(row.piece)?, row.tokens.trim_end())?;
        }
        Ok(())
    }

    fn cut(&mut self, all: bool, put: Put<'_>) -> Result<(), Problem> {
        let held = std::mem::take(&mut self.held);
        let count = pieces::count(&held);
        let mut kept = count;
        for token in tokens(&held) {
            // What touches the end may go on in the next part; cutting begins again where it began.
            if token.end == count && !all {
                kept = token.start;
                break;
            }
            self.add((self.before + token.start) / PIECE_CHARS, &token.text, put)?;
        }
        self.before += kept;
        self.held = held.get(pieces::byte_of(&held, kept)..).unwrap_or_default().to_owned();
        Ok(())
    }

    fn add(&mut self, piece: u64, token: &str, put: Put<'_>) -> Result<(), Problem> {
        if self.open.back().is_none_or(|row| row.piece < piece) {
            self.open.push_back(Row { piece, tokens: String::new(), after: 0 });
        }
        for row in &mut self.open {
            for part in [self.mark.as_str(), token, " "] {
                row.tokens.push_str(part);
            }
            row.after += usize::from(row.piece < piece);
        }
        while self.open.front().is_some_and(|row| row.after >= OVERLAP) {
            let Some(row) = self.open.pop_front() else { break };
            put(self.number(row.piece)?, row.tokens.trim_end())?;
        }
        Ok(())
    }

    fn number(&self, piece: u64) -> Result<i64, Problem> {
        pieces::number(self.record, self.slot, piece).ok_or(Problem::Corrupt)
    }
}
