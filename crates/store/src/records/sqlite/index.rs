//! The index of search tokens, as it is written.
//!
//! A text is cut into tokens as it comes, wherever its parts end, and each token belongs to the
//! piece that it begins in. So that a phrase is found that begins in one piece and ends in the
//! next, the row of a piece also has the [`OVERLAP`] tokens after it.

use std::collections::VecDeque;

use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::{MAX_PHRASE_TOKENS, PieceTokenizer, SearchToken};

/// Tokens of the following text in the row of a piece: one less than a phrase can have.
pub(super) const OVERLAP: usize = MAX_PHRASE_TOKENS - 1;
/// Between a tag and its token. No token has it: it is a control character. The index takes it for
/// a letter.
const TAG_END: char = '\u{80}';

/// What stands before each token of a tagged field in the index.
pub(super) fn mark(tag: i64) -> String {
    format!("{tag}{TAG_END}")
}

type Put<'p> = &'p mut dyn FnMut(i64, &str) -> Result<(), Problem>;

/// Cuts a text into tokens and gathers the rows of its pieces.
pub(super) struct Indexer {
    stream: PieceTokenizer,
    rows: Rows,
}

/// Rows that still want tokens.
struct Rows {
    mark: String,
    record: i64,
    slot: u16,
    open: VecDeque<Row>,
}

struct Row {
    piece: u64,
    tokens: String,
    after: usize,
}

impl Indexer {
    pub(super) fn new(tag: i64, record: i64, slot: u16) -> Self {
        let rows = Rows { mark: mark(tag), record, slot, open: VecDeque::new() };
        Self { stream: PieceTokenizer::default(), rows }
    }

    pub(super) fn feed(&mut self, text: &str, put: Put<'_>) -> Result<(), Problem> {
        let Self { stream, rows } = self;
        stream.feed(text, |token| rows.add(&token, put))
    }

    pub(super) fn finish(self, put: Put<'_>) -> Result<(), Problem> {
        let Self { stream, mut rows } = self;
        stream.finish(|token| rows.add(&token, put))?;
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
            self.open.push_back(Row { piece, tokens: String::new(), after: 0 });
        }
        for row in &mut self.open {
            for part in [self.mark.as_str(), &token.text, " "] {
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
