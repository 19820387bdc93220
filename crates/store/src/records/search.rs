//! Search: finds the records in which all terms occur, the newest first, and where in them.
//!
//! The index is queried for the searchable fields that the caller may see, and no others. It gives
//! one list of records for each term. The search walks all lists together from the newest
//! record down; each list skips the records that another one lacks. A record that is in all lists
//! is then looked up in the database, in the same moment, so that a grant hides it as everywhere
//! else. The index has no positions, so the text of a hit is cut into tokens again. Of a long text
//! only the part that the index names is cut.
//!
//! The list with the fewest records leads. If it skips more of a longer list than one query of that
//! list returns, the record itself is searched for the other term.
//!
//! The index has no list for a prefix. It merges the lists of all words with that prefix, which are
//! many for a short one. But most texts contain a short prefix, so the newest records are searched
//! first, and the index is queried only if that fails.

use std::collections::HashMap;

use stile_domain::records::filter::Condition;
use stile_domain::records::pieces::{self, CharRange, MAX_RECORD, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, RecordBody, StoredValue};
use stile_domain::records::tokenizer::{
    self, ParsedQuery, PieceTokenizer, PlaceFinder, QueryTerm, SearchTerm, SearchToken, TermFinder,
    TermPlace,
};

use super::engine::Postings;
use super::model::{RecordRow, RecordSource};
use super::view::{LoadedRecord, LongValueRef, RecordsView};

/// The maximum number of visible records of a source that are collected if many others are hidden.
const MAX_COLLECTED: i64 = 20_000;
/// How many records turn out to be hidden before the visible ones are collected.
const MAX_HIDDEN: usize = 256;
/// The maximum number of pieces of a text that is cut into tokens from its beginning.
const SHORT_PIECES: u64 = 4;
/// The maximum number of pieces of a text that is searched for a prefix from its beginning.
const PREFIX_PIECES: u64 = 64;
/// The length of a place with several terms, in characters: what the texts of the tools show of it.
const PLACE_CHARS: u64 = 160;
/// The maximum number of terms whose first occurrence in a long text is looked at.
const MAX_PLACES: usize = 4;
/// The steps between two checks of the request's limits.
const STEPS_PER_CHECK: u64 = 64;
/// How many records in a row may lack a common term before its list is read on.
const MAX_MISSES: usize = 64;
/// The records and pieces of text that are searched for a prefix before the index is queried.
const PREFIX_BUDGET: u64 = 512;
/// The maximum number of pieces that are searched backwards for a position where cutting can begin.
const PIECES_BACK: u64 = 16;

/// What to search for.
#[derive(Clone, Copy, Debug)]
pub struct RecordSearchQuery<'q> {
    /// The terms that must all occur.
    pub query: &'q ParsedQuery,
    /// Conditions that must all hold of the record.
    pub conditions: &'q [Condition],
    /// Finds only records that were first ingested before the record with this number.
    pub before: Option<i64>,
    /// The maximum number of hits.
    pub limit: usize,
}

/// One page of hits.
#[derive(Debug)]
pub struct RecordSearchPage {
    /// The hits, the newest first.
    pub hits: Vec<RecordHit>,
    /// Whether more hits follow.
    pub has_more: bool,
}

/// A record in which all terms occur.
#[derive(Debug)]
pub struct RecordHit {
    /// The record without its fields.
    pub row: RecordRow,
    /// The fields that the caller may see.
    pub fields: LoadedRecord,
    /// The fields in which a term occurs, in the record's order.
    pub matches: Vec<FieldMatch>,
}

/// A field in which a term occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// The name of the field.
    pub field: String,
    /// Where the place begins that holds the most terms, of those that were looked at. `None` if
    /// the text has such a long word that cutting could not begin near the occurrence.
    pub position: Option<CharRange>,
    /// The number of different terms at that place.
    pub terms: usize,
}

/// The maximum number of pieces that are searched for an occurrence, from the one that the index
/// names on.
const PIECES_FORWARD: u64 = 16;

/// The searched fields of a source, with their tags in the index.
type Tags = HashMap<String, i64>;

/// The sources that are searched.
struct Scope<'s> {
    view: &'s RecordsView<'s>,
    sources: &'s [RecordSource],
    /// The index of the source of each stream.
    indices: HashMap<i64, usize>,
    tags: Vec<Tags>,
}

/// A search in progress.
struct Search<'s> {
    scope: Scope<'s>,
    check_limits: &'s dyn Fn() -> Result<(), Problem>,
    /// How often the search moved to another record.
    steps: u64,
    conditions: &'s [Condition],
    /// The visible records of each source. `None` if they were not collected.
    visible: Vec<Option<Vec<i64>>>,
    /// How many records turned out to be hidden.
    hidden: usize,
    lists: Vec<TermList<'s>>,
    /// The records in which an excluded term occurs, for each such term.
    excluded: Vec<TermList<'s>>,
    /// Whether the lists are sorted, so that the one with the fewest records leads.
    is_sorted: bool,
}

/// The records in which a term occurs, the newest first.
struct TermList<'q> {
    term: &'q QueryTerm,
    index: Postings,
    /// How many more records and pieces may be searched before the index is queried. `None` if it
    /// is queried already.
    budget: Option<u64>,
    /// The record that was found last without the index.
    last_hit: Option<i64>,
    /// How many records in a row were searched and lacked the term.
    misses: usize,
}

impl RecordsView<'_> {
    /// Finds records of some sources, the newest first. A query that requires no term finds
    /// nothing. Calls `check_limits` regularly, since a search may skip very many records.
    ///
    /// # Errors
    /// The error of `check_limits` or of the database.
    pub fn find_text(
        &self,
        sources: &[RecordSource],
        query: RecordSearchQuery<'_>,
        check_limits: &dyn Fn() -> Result<(), Problem>,
    ) -> Result<RecordSearchPage, Problem> {
        let mut page = RecordSearchPage { hits: Vec::new(), has_more: false };
        let mut search = Search::new(self, sources, query, check_limits)?;
        let mut target = query.before.map_or(MAX_RECORD, |before| before.saturating_sub(1));
        if search.lists.is_empty() {
            return Ok(page);
        }
        while let Some(record) = search.next_match(target)? {
            target = record - 1;
            let Some(row) = search.visible_row(record)? else { continue };
            if search.is_excluded(record)? {
                continue;
            }
            if page.hits.len() == query.limit {
                page.has_more = true;
                break;
            }
            page.hits.push(search.scope.hit(row, query.query)?);
        }
        Ok(page)
    }
}

impl<'s> Search<'s> {
    fn new(
        view: &'s RecordsView<'s>,
        sources: &'s [RecordSource],
        query: RecordSearchQuery<'s>,
        check_limits: &'s dyn Fn() -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let mut tags = Vec::new();
        let mut visible = Vec::new();
        for source in sources {
            let mut own = view.snapshot.tags(source)?;
            own.retain(|field, _| source.searches(field));
            tags.push(own);
            // A query about one of the granted keys costs as much as one about all of them.
            let has_granted_keys = source.visibility.keys().is_some();
            visible.push(if has_granted_keys {
                view.snapshot.visible_records(source, i64::MAX - 1)?
            } else {
                None
            });
        }
        let list = |term: &'s QueryTerm| {
            let fields = tags.iter().flat_map(Tags::iter).filter(|(field, _)| term.is_for(field));
            let tags: Vec<i64> = fields.map(|(_, tag)| *tag).collect();
            TermList::new(term, &tags)
        };
        let lists = query.query.terms.iter().map(list).collect();
        let excluded = query.query.excluded.iter().map(list).collect();
        let indices = sources.iter().enumerate().map(|(at, source)| (source.id, at)).collect();
        let scope = Scope { view, sources, indices, tags };
        Ok(Self {
            scope,
            check_limits,
            steps: 0,
            conditions: query.conditions,
            visible,
            hidden: 0,
            lists,
            excluded,
            is_sorted: false,
        })
    }

    /// Finds the newest record, not newer than `target`, in which all terms occur.
    fn next_match(&mut self, mut target: i64) -> Result<Option<i64>, Problem> {
        'next_target: loop {
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS_PER_CHECK) {
                (self.check_limits)()?;
            }
            for at in 0..self.lists.len() {
                let follows = at > 0 && self.is_sorted;
                let searches =
                    follows && self.lists.get(at).is_some_and(|list| list.prefers_record(target));
                // A hidden record need not be searched.
                if searches && self.visible_row(target)?.is_none() {
                    target -= 1;
                    continue 'next_target;
                }
                let Some(list) = self.lists.get_mut(at) else { break };
                match list.seek(&self.scope, target, searches)? {
                    None => return Ok(None),
                    Some(record) if record < target => {
                        target = record;
                        // The leading list comes first for the next record.
                        if at > 0 {
                            continue 'next_target;
                        }
                    }
                    Some(_) => {}
                }
            }
            if !std::mem::replace(&mut self.is_sorted, true) {
                self.lists.sort_by_key(|list| std::cmp::Reverse(list.index.gap()));
                continue;
            }
            match self.newest_visible(target) {
                None => return Ok(None),
                Some(record) if record < target => target = record,
                Some(_) => return Ok(Some(target)),
            }
        }
    }

    /// Returns whether an excluded term occurs in a record, in the fields that are searched.
    fn is_excluded(&mut self, record: i64) -> Result<bool, Problem> {
        for list in &mut self.excluded {
            if list.seek(&self.scope, record, false)? == Some(record) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the newest record, not newer than `target`, that is not known to be hidden.
    fn newest_visible(&self, target: i64) -> Option<i64> {
        let mut newest = None;
        for visible in &self.visible {
            let Some(records) = visible else { return Some(target) };
            let count = records.partition_point(|record| *record <= target);
            newest = newest.max(count.checked_sub(1).and_then(|last| records.get(last)).copied());
        }
        newest
    }

    /// Looks a record up, if the caller may see it and the conditions hold.
    fn visible_row(&mut self, record: i64) -> Result<Option<RecordRow>, Problem> {
        let snapshot = &self.scope.view.snapshot;
        let stream = snapshot.stream_of(record)?;
        let Some((at, source)) = stream.and_then(|stream| self.scope.source(stream)) else {
            return Ok(None);
        };
        let is_hidden = match self.visible.get(at) {
            Some(Some(records)) => records.binary_search(&record).is_err(),
            _ => false,
        };
        let row = if is_hidden {
            None
        } else {
            snapshot.find_in_time(source, record, self.conditions)?
        };
        if row.is_none() && source.visibility.time.is_some() {
            self.hidden += 1;
            if self.hidden == MAX_HIDDEN {
                self.collect_visible()?;
            }
        }
        Ok(row.map(|row| RecordRow { source: at, ..row }))
    }

    /// Collects the visible records of each source whose grant has a time range, if they are few.
    fn collect_visible(&mut self) -> Result<(), Problem> {
        for (source, visible) in self.scope.sources.iter().zip(&mut self.visible) {
            if visible.is_none() && source.visibility.time.is_some() {
                *visible = self.scope.view.snapshot.visible_records(source, MAX_COLLECTED)?;
            }
        }
        Ok(())
    }
}

impl<'q> TermList<'q> {
    fn new(term: &'q QueryTerm, tags: &[i64]) -> Self {
        let budget = matches!(term.term, SearchTerm::Prefix(_)).then_some(PREFIX_BUDGET);
        Self { term, index: Postings::new(&term.term, tags), budget, last_hit: None, misses: 0 }
    }

    /// Returns `target` if it is in the list, and otherwise an older record that is not older than
    /// the next one of the list. `searches` means to search the record instead of the index.
    fn seek(
        &mut self,
        scope: &Scope<'_>,
        mut target: i64,
        searches: bool,
    ) -> Result<Option<i64>, Problem> {
        if searches && let Some(has) = self.search(scope, target)? {
            return Ok(Some(if has { target } else { target - 1 }));
        }
        while let Some(budget) = self.budget {
            if let Some(last) = self.last_hit.filter(|last| *last <= target) {
                return Ok(Some(last));
            }
            let Some((record, stream)) = scope.view.snapshot.newest_record(target)? else {
                return Ok(None);
            };
            let (has, cost) = scope.has(record, stream, self.term, PREFIX_PIECES)?;
            // From the first text that is too long, only the index is queried.
            self.budget = budget.checked_sub(cost).filter(|_| has.is_some());
            match has {
                Some(true) => self.last_hit = Some(record),
                Some(false) => target = record - 1,
                None => {}
            }
        }
        if let Some(last) = self.last_hit.filter(|last| *last <= target) {
            return Ok(Some(last));
        }
        self.misses = 0;
        self.index.seek(&scope.view.snapshot, target)
    }

    /// Returns whether searching a record is cheaper than reading on in the index.
    fn prefers_record(&self, target: i64) -> bool {
        self.budget.is_some() || self.misses < MAX_MISSES && self.index.is_far(target)
    }

    /// Returns whether the term occurs in a record. `None` if the record is too long to search.
    fn search(&mut self, scope: &Scope<'_>, target: i64) -> Result<Option<bool>, Problem> {
        let Some(stream) = scope.view.snapshot.stream_of(target)? else { return Ok(None) };
        let max_pieces = if self.budget.is_some() { PREFIX_PIECES } else { SHORT_PIECES };
        let (has, cost) = scope.has(target, stream, self.term, max_pieces)?;
        self.budget =
            self.budget.and_then(|budget| budget.checked_sub(cost)).filter(|_| has.is_some());
        self.misses = if has == Some(true) { 0 } else { self.misses + 1 };
        Ok(has)
    }
}

impl Scope<'_> {
    fn source(&self, stream: i64) -> Option<(usize, &RecordSource)> {
        let at = *self.indices.get(&stream)?;
        Some((at, self.sources.get(at)?))
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
    fn has(
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
            let position = match (entry.value, loaded.long_value(&entry)) {
                (StoredValue::Text(text), _) => tokenizer::find(term, text),
                (StoredValue::LongText(_), Some(long)) => {
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

    fn hit(&self, row: RecordRow, query: &ParsedQuery) -> Result<RecordHit, Problem> {
        let loaded = self.view.load_fields(self.sources, &row)?;
        let mut matches = Vec::new();
        for entry in self.searched(row.source, loaded.body()) {
            let (entry, tag) = entry?;
            let own = query.terms.iter().filter(|term| term.is_for(entry.name));
            let terms: Vec<&SearchTerm> = own.map(|term| &term.term).collect();
            if let Some(place) = self.view.best_place(&loaded, &entry, tag, &terms)? {
                let (position, terms) = place.map_or((None, 1), |at| (Some(at.range), at.terms));
                matches.push(FieldMatch { field: entry.name.to_owned(), position, terms });
            }
        }
        Ok(RecordHit { row, fields: loaded, matches })
    }
}

impl RecordsView<'_> {
    /// Returns the place of a field that holds the most terms. `None` if no term occurs.
    ///
    /// Of a text of more than [`SHORT_PIECES`] pieces, only the first occurrences of the first
    /// [`MAX_PLACES`] terms are looked at, with what follows them.
    fn best_place(
        &self,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        tag: i64,
        terms: &[&SearchTerm],
    ) -> Result<Option<Option<TermPlace>>, Problem> {
        let long = match (entry.value, loaded.long_value(entry)) {
            (StoredValue::Text(text), _) => {
                return Ok(tokenizer::best_place(terms, text, PLACE_CHARS).map(Some));
            }
            (StoredValue::LongText(_), Some(long)) => long,
            _ => return Ok(None),
        };
        if long.piece_count() <= SHORT_PIECES {
            let mut finder = PlaceFinder::new(terms, PLACE_CHARS, 0);
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
            let mut finder = PlaceFinder::new(terms, PLACE_CHARS, range.start);
            let max_pieces = piece + 2 - start / PIECE_CHARS;
            self.cut_pieces(long, start, max_pieces, &mut |token| {
                let is_past = token.start > range.start + PLACE_CHARS;
                is_past || finder.feed(&token)
            })?;
            let found = finder.best().unwrap_or(TermPlace { range, terms: 1 });
            if best.flatten().is_none_or(|best| best.terms < found.terms) {
                best = Some(Some(found));
            }
            looked_at += 1;
            if looked_at == MAX_PLACES || found.terms == terms.len() {
                break;
            }
        }
        Ok(best)
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
        let Some(number) = self.snapshot.first_piece(
            term,
            tag,
            long.piece_number(0)?,
            long.piece_number(count - 1)?,
        )?
        else {
            return Ok(None);
        };
        let (.., piece) = pieces::parts(number);
        let start = self.cut_start(long, piece)?;
        // The index row of a piece also has some tokens of the following pieces.
        let max_pieces = piece + PIECES_FORWARD - start / PIECE_CHARS;
        Ok(Some(self.find_position(long, term, start, piece * PIECE_CHARS, max_pieces)?))
    }

    /// Returns the last offset before a piece from which a text can be cut into the same tokens as
    /// from its beginning.
    fn cut_start(&self, long: LongValueRef, piece: u64) -> Result<u64, Problem> {
        for back in (piece.saturating_sub(PIECES_BACK)..piece).rev() {
            let mut found = None;
            self.snapshot.piece(long.piece_number(back)?, |text| {
                found = tokenizer::last_token_boundary(text)
                    .and_then(|at| text.get(..at))
                    .map(pieces::count);
            })?;
            if let Some(chars) = found {
                return Ok(back * PIECE_CHARS + chars);
            }
        }
        Ok(if piece <= PIECES_BACK { 0 } else { piece * PIECE_CHARS })
    }

    /// Cuts at most `max_pieces` pieces of a long text, beginning at the offset `start`, and
    /// returns the first position of a term from the offset `from` on.
    fn find_position(
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
    fn cut_pieces(
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
        self.snapshot.pieces(long.piece_number(first)?, long.piece_number(last)?, &mut |text| {
            let text = text
                .get(pieces::byte_offset(text, std::mem::take(&mut skip))..)
                .unwrap_or_default();
            is_done = tokenizer.feed(text, &mut take).is_err();
            Ok(!is_done)
        })?;
        // A token that is cut off where reading ended is not a token of the text.
        if !is_done && last + 1 == long.piece_count() {
            let _ = tokenizer.finish(&mut take);
        }
        Ok(())
    }
}
