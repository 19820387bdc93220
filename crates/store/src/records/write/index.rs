//! Writes the index of search tokens.
//!
//! A text arrives in parts and is cut into tokens. Each token belongs to the piece in which it
//! begins. The row of a piece also has the [`OVERLAP`] tokens after the piece, so that a search
//! finds a phrase that begins in one piece and ends in the next.
//!
//! Short texts and lists have one piece. Those of a record share one row, under the number of the
//! first, since rows are expensive. A token has the tag of its field, so no phrase and no search of
//! one field takes a token of another.

use std::collections::VecDeque;

use stile_domain::records::list_text::ListText;
use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::tokenizer::{MAX_PHRASE_TOKENS, PieceTokenizer, SearchToken, tokens};

use crate::records::port::RowWriter;
use crate::records::tagged_tokens::{TaggedTokens, tag_prefix};

/// The tokens of the following text in the row of a piece: one less than a phrase can have.
const OVERLAP: usize = MAX_PHRASE_TOKENS - 1;

/// Cuts a text or a list into tokens and writes the index rows of its pieces.
pub(super) struct Indexer<'w> {
    tokenizer: PieceTokenizer,
    /// `None` for a text.
    list: Option<ListText>,
    rows: Rows<'w>,
}

/// Adds the tokens of a short text to a row.
pub(super) fn add_tokens(row: &mut TaggedTokens, tag: i64, text: &str) {
    let prefix = tag_prefix(tag);
    tokens(text).for_each(|token| row.push(&prefix, &token.text));
}

/// Writes the row of short texts, unless it has no token. `slot` is that of the first text.
pub(super) fn write_tokens(
    writer: &dyn RowWriter,
    record: i64,
    slot: u16,
    row: &TaggedTokens,
) -> Result<(), Problem> {
    if row.is_empty() {
        return Ok(());
    }
    writer.insert_tokens(pieces::number(record, slot, 0).ok_or(Problem::Corrupt)?, row)
}

/// Rows that are not complete yet.
struct Rows<'w> {
    writer: &'w dyn RowWriter,
    prefix: String,
    record: i64,
    slot: u16,
    open: VecDeque<Row>,
}

struct Row {
    piece: u64,
    tokens: TaggedTokens,
    /// Tokens after the piece.
    overlap: usize,
}

impl<'w> Indexer<'w> {
    pub(super) fn new(
        writer: &'w dyn RowWriter,
        tag: i64,
        record: i64,
        slot: u16,
        value: &StoredValue<'_>,
    ) -> Self {
        let list = matches!(value, StoredValue::LongJson(_)).then(ListText::default);
        let rows = Rows { writer, prefix: tag_prefix(tag), record, slot, open: VecDeque::new() };
        Self { tokenizer: PieceTokenizer::default(), list, rows }
    }

    pub(super) fn feed(&mut self, text: &str) -> Result<(), Problem> {
        let Self { tokenizer, list, rows } = self;
        match list {
            Some(list) => tokenizer.feed(&list.feed(text), |token| rows.add(&token)),
            None => tokenizer.feed(text, |token| rows.add(&token)),
        }
    }

    pub(super) fn finish(self) -> Result<(), Problem> {
        let Self { tokenizer, mut rows, .. } = self;
        tokenizer.finish(|token| rows.add(&token))?;
        std::mem::take(&mut rows.open).iter().try_for_each(|row| rows.write(row))
    }
}

impl Rows<'_> {
    fn add(&mut self, token: &SearchToken<'_>) -> Result<(), Problem> {
        let piece = token.start / PIECE_CHARS;
        if self.open.back().is_none_or(|row| row.piece < piece) {
            self.open.push_back(Row { piece, tokens: TaggedTokens::default(), overlap: 0 });
        }
        for row in &mut self.open {
            row.tokens.push(&self.prefix, &token.text);
            row.overlap += usize::from(row.piece < piece);
        }
        while self.open.front().is_some_and(|row| row.overlap >= OVERLAP) {
            let Some(row) = self.open.pop_front() else { break };
            self.write(&row)?;
        }
        Ok(())
    }

    fn write(&self, row: &Row) -> Result<(), Problem> {
        let number = pieces::number(self.record, self.slot, row.piece).ok_or(Problem::Corrupt)?;
        self.writer.insert_tokens(number, &row.tokens)
    }
}
