//! Writes the index of search tokens.
//!
//! A text arrives in parts and is cut into tokens. Each token belongs to the piece in which it
//! begins. The row of a piece also has the [`OVERLAP`] tokens after the piece, so that a search
//! finds a phrase that begins in one piece and ends in the next.

use std::collections::VecDeque;

use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::{MAX_PHRASE_TOKENS, PieceTokenizer, SearchToken};

/// The tokens of the following text in the row of a piece: one less than a phrase can have.
pub(super) const OVERLAP: usize = MAX_PHRASE_TOKENS - 1;
/// The character between a tag and its token. No token contains this control character, and FTS5
/// takes it for a letter.
const TAG_END: char = '\u{80}';

/// Returns what precedes each token of a tagged field in the index.
pub(super) fn tag_prefix(tag: i64) -> String {
    format!("{tag}{TAG_END}")
}

type Put<'p> = &'p mut dyn FnMut(i64, &str) -> Result<(), Problem>;

/// Cuts a text into tokens and builds the index rows of its pieces.
pub(super) struct Indexer {
    tokenizer: PieceTokenizer,
    rows: Rows,
}

/// Rows that are not complete yet.
struct Rows {
    prefix: String,
    record: i64,
    slot: u16,
    open: VecDeque<Row>,
}

struct Row {
    piece: u64,
    tokens: String,
    /// Tokens after the piece.
    overlap: usize,
}

impl Indexer {
    pub(super) fn new(tag: i64, record: i64, slot: u16) -> Self {
        let rows = Rows { prefix: tag_prefix(tag), record, slot, open: VecDeque::new() };
        Self { tokenizer: PieceTokenizer::default(), rows }
    }

    pub(super) fn feed(&mut self, text: &str, put: Put<'_>) -> Result<(), Problem> {
        let Self { tokenizer, rows } = self;
        tokenizer.feed(text, |token| rows.add(&token, put))
    }

    pub(super) fn finish(self, put: Put<'_>) -> Result<(), Problem> {
        let Self { tokenizer, mut rows } = self;
        tokenizer.finish(|token| rows.add(&token, put))?;
        for row in std::mem::take(&mut rows.open) {
            put(rows.number(row.piece)?, row.tokens.trim_end())?;
        }
        Ok(())
    }
}

impl Rows {
    fn add(&mut self, token: &SearchToken<'_>, put: Put<'_>) -> Result<(), Problem> {
        let piece = token.start / PIECE_CHARS;
        if self.open.back().is_none_or(|row| row.piece < piece) {
            self.open.push_back(Row { piece, tokens: String::new(), overlap: 0 });
        }
        for row in &mut self.open {
            for part in [self.prefix.as_str(), &token.text, " "] {
                row.tokens.push_str(part);
            }
            row.overlap += usize::from(row.piece < piece);
        }
        while self.open.front().is_some_and(|row| row.overlap >= OVERLAP) {
            let Some(row) = self.open.pop_front() else { break };
            put(self.number(row.piece)?, row.tokens.trim_end())?;
        }
        Ok(())
    }

    fn number(&self, piece: u64) -> Result<i64, Problem> {
        pieces::number(self.record, self.slot, piece).ok_or(Problem::Corrupt)
    }
}
