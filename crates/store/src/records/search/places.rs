//! The places of a field where search terms stand.

use std::borrow::Cow;

use stile_domain::records::list_text::ListText;
use stile_domain::records::pieces::{self, CharRange, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::relevance::NEAR_CHARS;
use stile_domain::records::stored_body::BodyField;
use stile_domain::records::tokenizer::{
    self, PieceTokenizer, PlaceFinder, SearchTerm, SearchToken, TermFinder, TermPlace,
};

use super::super::port::PieceQuery;
use super::super::view::{LoadedRecord, LongValueRef, RecordsView};
use super::hit::{EXCERPT_BEFORE, EXCERPT_CHARS, PREFIX_PIECES, SHORT_PIECES};

/// The maximum number of terms whose first occurrence in a long text is looked at.
const MAX_LOOKED_AT: usize = 4;
/// The maximum number of pieces that are searched backwards for a position where cutting can begin.
const PIECES_BACK: u64 = 16;
/// The maximum number of pieces that are searched for an occurrence, from the one that the index
/// names on.
const PIECES_FORWARD: u64 = 16;

impl RecordsView<'_> {
    /// Returns the place of a field that holds the most terms. `None` if no term occurs.
    ///
    /// Of a text of more than [`SHORT_PIECES`] pieces, only the first occurrences of the first
    /// [`MAX_LOOKED_AT`] terms are looked at, with what follows them.
    pub(super) fn best_place(
        &self,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        tag: i64,
        terms: &[&SearchTerm],
    ) -> Result<Option<Option<TermPlace>>, Problem> {
        if let Some(text) = entry.value.searched_text() {
            return Ok(tokenizer::best_place(terms, &text, NEAR_CHARS).map(Some));
        }
        let Some(long) = loaded.long_value(entry) else { return Ok(None) };
        if long.piece_count() <= SHORT_PIECES {
            let mut finder = PlaceFinder::new(terms, NEAR_CHARS, 0);
            self.cut_pieces(long, 0, SHORT_PIECES, &mut |token| finder.feed(&token))?;
            return Ok(finder.best().map(Some));
        }
        let mut best: Option<Option<TermPlace>> = None;
        let mut looked_at = 0;
        for term in terms {
            let Some(position) = self.position_in_long(long, term, tag)? else { continue };
            let Some(range) = position else {
                best = best.or(Some(None));
                continue;
            };
            let piece = range.start / PIECE_CHARS;
            let start = self.cut_start(long, piece)?;
            let mut finder = PlaceFinder::new(terms, NEAR_CHARS, range.start);
            let max_pieces = piece + 2 - start / PIECE_CHARS;
            self.cut_pieces(long, start, max_pieces, &mut |token| {
                let is_past = token.start > range.start + NEAR_CHARS;
                is_past || finder.feed(&token)
            })?;
            let found = finder.best().unwrap_or(TermPlace { range, terms: 1 });
            if best.flatten().is_none_or(|best| best.terms < found.terms) {
                best = Some(Some(found));
            }
            looked_at += 1;
            if looked_at == MAX_LOOKED_AT || found.terms == terms.len() {
                break;
            }
        }
        Ok(best)
    }

    /// Returns the best place of a short text whose excerpt does not overlap that of an earlier
    /// place. `None` for a text of more than [`SHORT_PIECES`] pieces.
    pub(super) fn later_place(
        &self,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        terms: &[&SearchTerm],
        place: CharRange,
    ) -> Result<Option<TermPlace>, Problem> {
        let from = place.start.max(EXCERPT_BEFORE) + EXCERPT_CHARS;
        let mut finder = PlaceFinder::new(terms, NEAR_CHARS, from);
        match (entry.value.searched_text(), loaded.long_value(entry)) {
            (Some(text), _) => {
                let _ = tokenizer::tokens(&text).any(|token| finder.feed(&token));
            }
            (None, Some(long)) if long.piece_count() <= SHORT_PIECES => {
                self.cut_pieces(long, 0, SHORT_PIECES, &mut |token| finder.feed(&token))?;
            }
            _ => {}
        }
        Ok(finder.best())
    }

    /// Returns the first position of a term in a long text.
    fn position_in_long(
        &self,
        long: LongValueRef,
        term: &SearchTerm,
        tag: i64,
    ) -> Result<Option<Option<CharRange>>, Problem> {
        let count = long.piece_count();
        let is_prefix = matches!(term, SearchTerm::Prefix(_));
        let near = if is_prefix { PREFIX_PIECES } else { SHORT_PIECES };
        if is_prefix || count <= near {
            let position = self.find_position(long, term, 0, 0, near)?;
            if position.is_some() || count <= near {
                return Ok(position.map(Some));
            }
        }
        let (first, last) = (long.piece_number(0)?, long.piece_number(count - 1)?);
        let Some(number) = self.first_piece(PieceQuery { term, tag, first, last })? else {
            return Ok(None);
        };
        let (.., piece) = pieces::parts(number);
        let start = self.cut_start(long, piece)?;
        // The index row of a piece also has some tokens of the following pieces.
        let max_pieces = piece + PIECES_FORWARD - start / PIECE_CHARS;
        Ok(Some(self.find_position(long, term, start, piece * PIECE_CHARS, max_pieces)?))
    }

    /// Returns the last offset before a piece from which a text can be cut into the same tokens as
    /// from its beginning. A list is cut from there, as a part does not tell which of it is text.
    fn cut_start(&self, long: LongValueRef, piece: u64) -> Result<u64, Problem> {
        if long.is_json {
            return Ok(0);
        }
        for back in (piece.saturating_sub(PIECES_BACK)..piece).rev() {
            let mut found = None;
            let number = long.piece_number(back)?;
            self.each_piece(number, number, &mut |text| {
                found = tokenizer::last_token_boundary(text)
                    .and_then(|at| text.get(..at))
                    .map(pieces::count);
                Ok(false)
            })?;
            if let Some(chars) = found {
                return Ok(back * PIECE_CHARS + chars);
            }
        }
        Ok(if piece <= PIECES_BACK { 0 } else { piece * PIECE_CHARS })
    }

    /// Cuts at most `max_pieces` pieces of a long text, beginning at the offset `start`, and
    /// returns the first position of a term from the offset `from` on.
    pub(super) fn find_position(
        &self,
        long: LongValueRef,
        term: &SearchTerm,
        start: u64,
        from: u64,
        max_pieces: u64,
    ) -> Result<Option<CharRange>, Problem> {
        let mut finder = TermFinder::new(term, from);
        let mut found = None;
        self.cut_pieces(long, start, max_pieces, &mut |token| {
            found = finder.feed(&token);
            found.is_some()
        })?;
        Ok(found)
    }

    /// Cuts at most `max_pieces` pieces of a long text, beginning at the offset `start`, until
    /// `take` returns `true`.
    pub(super) fn cut_pieces(
        &self,
        long: LongValueRef,
        start: u64,
        max_pieces: u64,
        take: &mut dyn FnMut(SearchToken<'_>) -> bool,
    ) -> Result<(), Problem> {
        let mut tokenizer = PieceTokenizer::starting_at(start);
        let mut take = |token: SearchToken<'_>| if take(token) { Err(()) } else { Ok(()) };
        let mut is_done = false;
        let first = start / PIECE_CHARS;
        let last = long.piece_count().saturating_sub(1).min(first.saturating_add(max_pieces - 1));
        let mut skip = start % PIECE_CHARS;
        let mut list = long.is_json.then(ListText::default);
        self.each_piece(long.piece_number(first)?, long.piece_number(last)?, &mut |text| {
            let text = text
                .get(pieces::byte_offset(text, std::mem::take(&mut skip))..)
                .unwrap_or_default();
            let text = match &mut list {
                Some(list) => Cow::Owned(list.feed(text)),
                None => Cow::Borrowed(text),
            };
            is_done = tokenizer.feed(&text, &mut take).is_err();
            Ok(!is_done)
        })?;
        // A token that is cut off where reading ended is not a token of the text.
        if !is_done && last + 1 == long.piece_count() {
            let _ = tokenizer.finish(&mut take);
        }
        Ok(())
    }
}
