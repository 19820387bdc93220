//! What a search looks into: the searched fields of the sources that the caller may see.

use std::collections::HashMap;

use stile_domain::records::pieces::{self, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::relevance::RecordScorer;
use stile_domain::records::sealed_cursor::SearchRank;
use stile_domain::records::stored_body::{BodyField, RecordBody};
use stile_domain::records::tokenizer::{self, ParsedQuery, QueryTerm, SearchTerm, tokens};

use super::super::model::{RecordRow, RecordSource};
use super::super::port::PieceQuery;
use super::super::view::{LoadedRecord, RecordsView};
use super::hit::{FieldMatch, MAX_PLACES, PREFIX_PIECES, RecordHit, SHORT_PIECES};

/// The searched fields of a source, with their tags in the index.
pub(super) type Tags = HashMap<String, i64>;

/// The sources that are searched.
pub(super) struct SearchScope<'s> {
    pub(super) view: &'s RecordsView<'s>,
    pub(super) sources: &'s [RecordSource],
    /// The index of the source of each stream.
    pub(super) indices: HashMap<i64, usize>,
    pub(super) tags: Vec<Tags>,
}

impl SearchScope<'_> {
    pub(super) fn source(&self, stream: i64) -> Option<(usize, &RecordSource)> {
        let at = *self.indices.get(&stream)?;
        Some((at, self.sources.get(at)?))
    }

    /// Reads the fields of some visible records at once.
    pub(super) fn read_ahead<'r>(
        &'r self,
        rows: impl Iterator<Item = &'r RecordRow>,
    ) -> Result<(), Problem> {
        self.view.read_ahead(rows.map(|row| (self.sources, row)))
    }

    /// Returns whether a record has a long text or list that is searched.
    pub(super) fn has_long_text(&self, row: &RecordRow) -> Result<bool, Problem> {
        let loaded = self.view.load_fields(self.sources, row)?;
        for entry in self.searched(row.source, loaded.body()) {
            if entry?.0.value.long().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads what [`SearchScope::score`] needs of long texts, of some records at once.
    pub(super) fn read_ahead_beginnings<'r>(
        &self,
        rows: impl Iterator<Item = &'r RecordRow>,
    ) -> Result<(), Problem> {
        let mut parts = Vec::new();
        for row in rows {
            let loaded = self.view.load_fields(self.sources, row)?;
            for entry in self.searched(row.source, loaded.body()) {
                let long = loaded.long_value(&entry?.0);
                parts.extend(long.map(|long| (long, 0..SHORT_PIECES * PIECE_CHARS)));
            }
        }
        self.view.read_ahead_texts(parts)
    }

    /// Reads what [`SearchScope::hit`] needs of long texts, of some records at once.
    pub(super) fn read_ahead_places(
        &self,
        rows: &[RecordRow],
        query: &ParsedQuery,
    ) -> Result<(), Problem> {
        let (mut wanted, mut longs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let loaded = self.view.load_fields(self.sources, row)?;
            for entry in self.searched(row.source, loaded.body()) {
                let (entry, tag) = entry?;
                let Some(long) = loaded.long_value(&entry) else { continue };
                if long.piece_count() <= SHORT_PIECES {
                    parts.push((long, 0..long.value.chars));
                    continue;
                }
                let (first, last) =
                    (long.piece_number(0)?, long.piece_number(long.piece_count() - 1)?);
                for term in query.terms.iter().filter(|term| term.is_for(entry.name)) {
                    wanted.push(PieceQuery { term: &term.term, tag, first, last });
                    longs.push(long);
                }
            }
        }
        let found = self.view.read_ahead_first_pieces(&wanted)?;
        for ((query, long), found) in wanted.iter().zip(longs).zip(found) {
            let Some(number) = found else { continue };
            let (.., piece) = pieces::parts(number);
            // Looking for a prefix begins at the beginning of a text.
            let is_prefix = matches!(query.term, SearchTerm::Prefix(_)) && piece < PREFIX_PIECES;
            let start = if is_prefix { 0 } else { piece.saturating_sub(1) };
            parts.push((long, start * PIECE_CHARS..(piece + 2) * PIECE_CHARS));
        }
        self.view.read_ahead_texts(parts)
    }

    /// Returns the searched fields of a record, with their tags.
    fn searched<'b>(
        &self,
        at: usize,
        body: RecordBody<'b>,
    ) -> impl Iterator<Item = Result<(BodyField<'b>, i64), Problem>> {
        let tags = self.tags.get(at);
        body.entries().filter_map(move |entry| match entry {
            Err(_) => Some(Err(Problem::Corrupt)),
            Ok(entry) if entry.slot.is_none() || entry.binary => None,
            Ok(entry) => tags.and_then(|tags| tags.get(entry.name)).map(|tag| Ok((entry, *tag))),
        })
    }

    /// Returns whether a term occurs in a record, and how many records and pieces this read. `None`
    /// if the term is not in the first `max_pieces` pieces of a longer text.
    pub(super) fn has(
        &self,
        record: i64,
        stream: i64,
        term: &QueryTerm,
        max_pieces: u64,
    ) -> Result<(Option<bool>, u64), Problem> {
        let mut cost = 1;
        let Some((at, source)) = self.source(stream) else { return Ok((Some(false), cost)) };
        let loaded = self.view.load_number(source, record)?;
        let mut is_whole = true;
        for entry in self.searched(at, loaded.body()) {
            let (entry, _) = entry?;
            if !term.is_for(entry.name) {
                continue;
            }
            let term = &term.term;
            let position = match (entry.value.searched_text(), loaded.long_value(&entry)) {
                (Some(text), _) => tokenizer::find(term, &text),
                (None, Some(long)) => {
                    is_whole &= long.piece_count() <= max_pieces;
                    cost += long.piece_count().min(max_pieces);
                    self.view.find_position(long, term, 0, 0, max_pieces)?
                }
                _ => None,
            };
            if position.is_some() {
                return Ok((Some(true), cost));
            }
        }
        Ok((is_whole.then_some(false), cost))
    }

    /// Returns whether all terms of a query occur in a visible record, and no excluded ones.
    pub(super) fn matches(&self, row: &RecordRow, query: &ParsedQuery) -> Result<bool, Problem> {
        let loaded = self.view.load_fields(self.sources, row)?;
        for term in &query.terms {
            if !self.holds(row, &loaded, term)? {
                return Ok(false);
            }
        }
        Ok(!self.excludes(row, query)?)
    }

    /// Returns whether an excluded term of a query occurs in a visible record.
    pub(super) fn excludes(&self, row: &RecordRow, query: &ParsedQuery) -> Result<bool, Problem> {
        if query.excluded.is_empty() {
            return Ok(false);
        }
        let loaded = self.view.load_fields(self.sources, row)?;
        for term in &query.excluded {
            if self.holds(row, &loaded, term)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a term occurs in a record. Of a long text the index answers for what is
    /// beyond its first pieces.
    fn holds(
        &self,
        row: &RecordRow,
        loaded: &LoadedRecord,
        term: &QueryTerm,
    ) -> Result<bool, Problem> {
        let is_prefix = matches!(term.term, SearchTerm::Prefix(_));
        let max_pieces = if is_prefix { PREFIX_PIECES } else { SHORT_PIECES };
        let mut long_texts = Vec::new();
        for entry in self.searched(row.source, loaded.body()) {
            let (entry, tag) = entry?;
            if !term.is_for(entry.name) {
                continue;
            }
            let position = match (entry.value.searched_text(), loaded.long_value(&entry)) {
                (Some(text), _) => tokenizer::find(&term.term, &text),
                (None, Some(long)) => {
                    if long.piece_count() > max_pieces {
                        long_texts.push((long, tag));
                    }
                    self.view.find_position(long, &term.term, 0, 0, max_pieces)?
                }
                _ => None,
            };
            if position.is_some() {
                return Ok(true);
            }
        }
        for (long, tag) in long_texts {
            let (first, last) = (long.piece_number(0)?, long.piece_number(long.piece_count() - 1)?);
            let query = PieceQuery { term: &term.term, tag, first, last };
            if self.view.first_piece(query)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns how well a record fits a query. Of a long text its first pieces count.
    pub(super) fn score(&self, row: &RecordRow, query: &ParsedQuery) -> Result<u64, Problem> {
        let mut scorer = RecordScorer::new(query);
        let loaded = self.view.load_fields(self.sources, row)?;
        for entry in self.searched(row.source, loaded.body()) {
            let (entry, _) = entry?;
            scorer.read_field(entry.name, |take| {
                match (entry.value.searched_text(), loaded.long_value(&entry)) {
                    (Some(text), _) => tokens(&text).for_each(|token| take(&token)),
                    (None, Some(long)) => {
                        self.view.cut_pieces(long, 0, SHORT_PIECES, &mut |token| {
                            take(&token);
                            false
                        })?;
                    }
                    _ => {}
                }
                Ok::<_, Problem>(())
            })?;
        }
        Ok(scorer.score())
    }

    /// Returns a hit, with the places to show of it.
    pub(super) fn hit(
        &self,
        row: RecordRow,
        query: &ParsedQuery,
        rank: Option<SearchRank>,
    ) -> Result<RecordHit, Problem> {
        let loaded = self.view.load_fields(self.sources, &row)?;
        let (mut matches, mut fields) = (Vec::new(), Vec::new());
        for entry in self.searched(row.source, loaded.body()) {
            let (entry, tag) = entry?;
            let own = query.terms.iter().filter(|term| term.is_for(entry.name));
            let terms: Vec<&SearchTerm> = own.map(|term| &term.term).collect();
            if let Some(place) = self.view.best_place(&loaded, &entry, tag, &terms)? {
                let (position, count) = place.map_or((None, 1), |at| (Some(at.range), at.terms));
                matches.push(FieldMatch { field: entry.name.to_owned(), position, terms: count });
                fields.push((entry, terms, position));
            }
        }
        for (entry, terms, mut position) in fields {
            while matches.len() < MAX_PLACES
                && let Some(place) = position
                && let Some(next) = self.view.later_place(&loaded, &entry, &terms, place)?
            {
                position = Some(next.range);
                let field = entry.name.to_owned();
                matches.push(FieldMatch { field, position, terms: next.terms });
            }
        }
        Ok(RecordHit { row, fields: loaded, matches, rank })
    }
}
