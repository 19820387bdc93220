//! Search: the records in which all terms occur, the newest first, and where in them.
//!
//! The index is asked for the fields that the caller may see and that are declared for it, and for
//! no others. Lists of records, one for each term, are walked together from the newest down, each
//! passing over what another one lacks; what they agree on is then asked of the records themselves,
//! in the same moment, so that what a grant hides is hidden here as everywhere. Positions are not
//! in the index: the text of a hit is cut into tokens again, of a long one only the part that the
//! index names.
//!
//! The list with the fewest records leads. Where it passes over more of a longer list than one
//! reading of that gives, the record itself is looked at for the other term.
//!
//! The index has no list for a prefix and makes one of all its words, which for a short prefix is
//! long. Such a prefix is in most texts, so the newest records are looked at first and the index is
//! asked only where that does not do.

use std::collections::HashMap;

use stile_domain::records::filter::Condition;
use stile_domain::records::pieces::{self, CharRange, MAX_RECORD, PIECE_CHARS};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, RecordBody, StoredValue};
use stile_domain::records::tokenizer::{
    self, ParsedQuery, PieceTokenizer, SearchTerm, SearchToken, TermFinder,
};

use super::sqlite::Postings;
use super::view::{LoadedRecord, LongValueRef, RecordRow, RecordSource, RecordsView};

/// Visible records of a source that are gathered where many others turn out to be hidden.
const MOST_VISIBLE: i64 = 20_000;
/// Records that may turn out to be hidden before that is done.
const PATIENCE: usize = 256;
/// Pieces of a text that is cut into tokens from its beginning.
const SHORT_PIECES: u64 = 4;
/// The same for a prefix.
const PREFIX_PIECES: u64 = 64;
/// Steps from one question whether to go on to the next.
const STEPS: u64 = 64;
/// Records that may lack a common term before its list is read on.
const MISSES: usize = 64;
/// Records and pieces of text that are looked through for a prefix before the index is asked for
/// it.
const LOOKED_THROUGH: u64 = 512;
/// Pieces that are looked through backwards for a place where cutting can begin.
const PIECES_BACK: u64 = 16;

/// A search.
#[derive(Clone, Copy, Debug)]
pub struct RecordSearchQuery<'q> {
    /// What must occur.
    pub query: &'q ParsedQuery,
    /// What must hold of the record.
    pub conditions: &'q [Condition],
    /// Only records that were first ingested before the one with this number.
    pub before: Option<i64>,
    /// At most how many.
    pub limit: usize,
}

/// Some hits.
#[derive(Debug)]
pub struct RecordSearchPage {
    /// They, the newest first.
    pub hits: Vec<RecordHit>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A record that was found.
#[derive(Debug)]
pub struct RecordHit {
    /// It.
    pub row: RecordRow,
    /// Its fields that the caller may see.
    pub fields: LoadedRecord,
    /// Those of them in which a term occurs, in the record's order.
    pub matches: Vec<FieldMatch>,
}

/// A field in which a term occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// The field.
    pub field: String,
    /// The first place of the first term of the query that occurs in it. None where the text has no
    /// word end for so long that cutting could not begin in its middle.
    pub position: Option<CharRange>,
}

/// Pieces from the one that the index names on in which a place is looked for.
const PIECES_ON: u64 = 16;

/// The fields of a source that are searched, and their marks in the index.
type Tags = HashMap<String, i64>;

/// What is searched.
struct Scope<'s> {
    view: &'s RecordsView<'s>,
    sources: &'s [RecordSource],
    /// Which source a stream is.
    places: HashMap<i64, usize>,
    tags: Vec<Tags>,
}

/// A search that is under way.
struct Search<'s> {
    scope: Scope<'s>,
    go_on: &'s dyn Fn() -> Result<(), Problem>,
    /// How often records were passed over.
    steps: u64,
    conditions: &'s [Condition],
    /// Of sources of which they were gathered, all records that may be seen.
    visible: Vec<Option<Vec<i64>>>,
    rejected: usize,
    lists: Vec<List<'s>>,
    /// Whether the first list is the one with the fewest records, as far as was seen.
    is_led: bool,
}

/// The records in which a term occurs, the newest first.
struct List<'q> {
    term: &'q SearchTerm,
    index: Postings,
    /// How many records and pieces of text may be looked through before the index is asked at all.
    left: Option<u64>,
    /// What was found last in that way.
    last: Option<i64>,
    /// Records one after the other that were looked at and lacked the term.
    misses: usize,
}

impl RecordsView<'_> {
    /// Finds records of some sources, the newest first. A query without a term finds none. `go_on`
    /// is asked again and again, since there may be very many records to pass over.
    ///
    /// # Errors
    /// What the database says, and `go_on`.
    pub fn find_text(
        &self,
        sources: &[RecordSource],
        query: RecordSearchQuery<'_>,
        go_on: &dyn Fn() -> Result<(), Problem>,
    ) -> Result<RecordSearchPage, Problem> {
        let mut page = RecordSearchPage { hits: Vec::new(), has_more: false };
        let mut search = Search::new(self, sources, query, go_on)?;
        let mut target = query.before.map_or(MAX_RECORD, |before| before.saturating_sub(1));
        if search.lists.is_empty() {
            return Ok(page);
        }
        while let Some(record) = search.agreed(target)? {
            target = record - 1;
            let Some(row) = search.seen(record)? else { continue };
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
        go_on: &'s dyn Fn() -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let mut tags = Vec::new();
        let mut visible = Vec::new();
        for source in sources {
            let granted = |field: &str| source.fields().is_none_or(|fields| fields.contains(field));
            let mut own = view.snapshot.tags(source)?;
            own.retain(|field, _| source.terms.searchable.contains(field) && granted(field));
            tags.push(own);
            // Keys are asked for all at once, since each question about them is one about all of
            // them.
            let few = source.sight.keys().is_some();
            visible.push(if few { view.snapshot.visible(source, i64::MAX - 1)? } else { None });
        }
        let all: Vec<i64> = tags.iter().flat_map(Tags::values).copied().collect();
        let lists = query.query.terms.iter().map(|term| List::new(term, &all)).collect();
        let places = sources.iter().enumerate().map(|(at, source)| (source.row, at)).collect();
        let scope = Scope { view, sources, places, tags };
        Ok(Self {
            scope,
            go_on,
            steps: 0,
            conditions: query.conditions,
            visible,
            rejected: 0,
            lists,
            is_led: false,
        })
    }

    /// The newest record, not newer than `target`, in which all terms occur.
    fn agreed(&mut self, mut target: i64) -> Result<Option<i64>, Problem> {
        'again: loop {
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS) {
                (self.go_on)()?;
            }
            for at in 0..self.lists.len() {
                let follows = at > 0 && self.is_led;
                let looks = follows && self.lists.get(at).is_some_and(|list| list.looks(target));
                // A record that is hidden need not be looked at.
                if looks && self.seen(target)?.is_none() {
                    target -= 1;
                    continue 'again;
                }
                let Some(list) = self.lists.get_mut(at) else { break };
                match list.seek(&self.scope, target, looks)? {
                    None => return Ok(None),
                    Some(record) if record < target => {
                        target = record;
                        // What leads is asked first for the next one.
                        if at > 0 {
                            continue 'again;
                        }
                    }
                    Some(_) => {}
                }
            }
            if !std::mem::replace(&mut self.is_led, true) {
                // The rarest leads.
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

    /// The newest record, not newer than `target`, that may be visible as far as is known.
    fn newest_visible(&self, target: i64) -> Option<i64> {
        let mut newest = None;
        for visible in &self.visible {
            let Some(records) = visible else { return Some(target) };
            let count = records.partition_point(|record| *record <= target);
            newest = newest.max(count.checked_sub(1).and_then(|last| records.get(last)).copied());
        }
        newest
    }

    /// A record, if the caller may see it and the conditions hold.
    fn seen(&mut self, record: i64) -> Result<Option<RecordRow>, Problem> {
        let snapshot = &self.scope.view.snapshot;
        let stream = snapshot.stream_of(record)?;
        let Some((at, source)) = stream.and_then(|stream| self.scope.source(stream)) else {
            return Ok(None);
        };
        let is_hidden = match self.visible.get(at) {
            Some(Some(records)) => records.binary_search(&record).is_err(),
            _ => false,
        };
        let row =
            if is_hidden { None } else { snapshot.timely(source, record, self.conditions)? };
        if row.is_none() && source.sight.time.is_some() {
            self.rejected += 1;
            if self.rejected == PATIENCE {
                self.gather()?;
            }
        }
        Ok(row.map(|row| RecordRow { source: at, ..row }))
    }

    /// Where a grant shows few of many records, they are known from now on.
    fn gather(&mut self) -> Result<(), Problem> {
        for (source, visible) in self.scope.sources.iter().zip(&mut self.visible) {
            if visible.is_none() && source.sight.time.is_some() {
                *visible = self.scope.view.snapshot.visible(source, MOST_VISIBLE)?;
            }
        }
        Ok(())
    }
}

impl<'q> List<'q> {
    fn new(term: &'q SearchTerm, tags: &[i64]) -> Self {
        let left = matches!(term, SearchTerm::Prefix(_)).then_some(LOOKED_THROUGH);
        Self { term, index: Postings::new(term, tags), left, last: None, misses: 0 }
    }

    /// `target`, if it is in the list; otherwise a record that is older and not older than the next
    /// one of the list. Where it `looks`, it asks the record and not itself.
    fn seek(
        &mut self,
        scope: &Scope<'_>,
        mut target: i64,
        looks: bool,
    ) -> Result<Option<i64>, Problem> {
        if looks && let Some(has) = self.look(scope, target)? {
            return Ok(Some(if has { target } else { target - 1 }));
        }
        while let Some(left) = self.left {
            if let Some(last) = self.last.filter(|last| *last <= target) {
                return Ok(Some(last));
            }
            let Some((record, stream)) = scope.view.snapshot.newest(target)? else {
                return Ok(None);
            };
            let (has, cost) = scope.has(record, stream, self.term, PREFIX_PIECES)?;
            // What is too long to be looked through is left to the index, and so is the rest.
            self.left = left.checked_sub(cost).filter(|_| has.is_some());
            match has {
                Some(true) => self.last = Some(record),
                Some(false) => target = record - 1,
                None => {}
            }
        }
        if let Some(last) = self.last.filter(|last| *last <= target) {
            return Ok(Some(last));
        }
        self.misses = 0;
        self.index.seek(&scope.view.snapshot, target)
    }

    /// Whether looking at a record is better than reading on in the index.
    fn looks(&self, target: i64) -> bool {
        self.left.is_some() || self.misses < MISSES && self.index.is_far(target)
    }

    /// Whether the term occurs in a record that is not too long to be looked at.
    fn look(&mut self, scope: &Scope<'_>, target: i64) -> Result<Option<bool>, Problem> {
        let Some(stream) = scope.view.snapshot.stream_of(target)? else { return Ok(None) };
        let most = if self.left.is_some() { PREFIX_PIECES } else { SHORT_PIECES };
        let (has, cost) = scope.has(target, stream, self.term, most)?;
        self.left = self.left.and_then(|left| left.checked_sub(cost)).filter(|_| has.is_some());
        self.misses = if has == Some(true) { 0 } else { self.misses + 1 };
        Ok(has)
    }
}

impl Scope<'_> {
    fn source(&self, stream: i64) -> Option<(usize, &RecordSource)> {
        let at = *self.places.get(&stream)?;
        Some((at, self.sources.get(at)?))
    }

    /// The searched fields of a record of a source.
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

    /// Whether a term occurs in a record, where it is not too long to be looked through, and what
    /// that cost. Of a long text no more than `most` pieces are.
    fn has(
        &self,
        record: i64,
        stream: i64,
        term: &SearchTerm,
        most: u64,
    ) -> Result<(Option<bool>, u64), Problem> {
        let mut cost = 1;
        let Some((at, source)) = self.source(stream) else { return Ok((Some(false), cost)) };
        let loaded = LoadedRecord::new(record, self.view.snapshot.body(source, record)?);
        let mut is_whole = true;
        for entry in self.searched(at, loaded.body()) {
            let (entry, _) = entry?;
            let place = match (entry.value, loaded.long_value(&entry)) {
                (StoredValue::Text(text), _) => tokenizer::find(term, text),
                (StoredValue::LongText(_), Some(long)) => {
                    is_whole &= long.count() <= most;
                    cost += long.count().min(most);
                    self.view.seek_place(long, term, 0, 0, most)?
                }
                _ => None,
            };
            if place.is_some() {
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
            if let Some(place) = self.view.first_place(&loaded, &entry, tag, query)? {
                matches.push(FieldMatch { field: entry.name.to_owned(), position: place });
            }
        }
        Ok(RecordHit { row, fields: loaded, matches })
    }
}

impl RecordsView<'_> {
    /// The first place of the first term that occurs in a field; none where no term does.
    fn first_place(
        &self,
        loaded: &LoadedRecord,
        entry: &BodyField<'_>,
        tag: i64,
        query: &ParsedQuery,
    ) -> Result<Option<Option<CharRange>>, Problem> {
        for term in &query.terms {
            let place = match (entry.value, loaded.long_value(entry)) {
                (StoredValue::Text(text), _) => tokenizer::find(term, text).map(Some),
                (StoredValue::LongText(_), Some(long)) => self.place_in_long(long, term, tag)?,
                _ => return Ok(None),
            };
            if place.is_some() {
                return Ok(place);
            }
        }
        Ok(None)
    }

    /// The first place of a term in a long text.
    fn place_in_long(
        &self,
        long: LongValueRef,
        term: &SearchTerm,
        tag: i64,
    ) -> Result<Option<Option<CharRange>>, Problem> {
        let count = long.count();
        let is_prefix = matches!(term, SearchTerm::Prefix(_));
        let near = if is_prefix { PREFIX_PIECES } else { SHORT_PIECES };
        if is_prefix || count <= near {
            let place = self.seek_place(long, term, 0, 0, near)?;
            if place.is_some() || count <= near {
                return Ok(place.map(Some));
            }
        }
        let Some(number) =
            self.snapshot.first_piece(term, tag, long.number(0)?, long.number(count - 1)?)?
        else {
            return Ok(None);
        };
        let (.., piece) = pieces::parts(number);
        let start = self.restart(long, piece)?;
        // The row of a piece has some tokens of what follows.
        let most = piece + PIECES_ON - start / PIECE_CHARS;
        Ok(Some(self.seek_place(long, term, start, piece * PIECE_CHARS, most)?))
    }

    /// The last place before a piece where a text can be cut into tokens as if from its beginning.
    fn restart(&self, long: LongValueRef, piece: u64) -> Result<u64, Problem> {
        for back in (piece.saturating_sub(PIECES_BACK)..piece).rev() {
            let mut found = None;
            self.snapshot.piece(long.number(back)?, |text| {
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

    /// Cuts a long text from a place on, no more than so many pieces of it, and looks for a term
    /// from another on.
    fn seek_place(
        &self,
        long: LongValueRef,
        term: &SearchTerm,
        start: u64,
        from: u64,
        most: u64,
    ) -> Result<Option<CharRange>, Problem> {
        let (mut stream, mut finder) =
            (PieceTokenizer::starting_at(start), TermFinder::new(term, from));
        let mut found = None;
        let mut take = |token: SearchToken<'_>| match finder.feed(&token) {
            Some(place) => Err(place),
            None => Ok(()),
        };
        let first = start / PIECE_CHARS;
        let last = long.count().saturating_sub(1).min(first.saturating_add(most - 1));
        let mut skip = start % PIECE_CHARS;
        self.snapshot.pieces(long.number(first)?, long.number(last)?, &mut |text| {
            let text = text
                .get(pieces::byte_offset(text, std::mem::take(&mut skip))..)
                .unwrap_or_default();
            found = stream.feed(text, &mut take).err();
            Ok(found.is_none())
        })?;
        // A token that is cut off where reading ended is none of the text's.
        let is_end = last + 1 == long.count();
        Ok(found.or_else(|| if is_end { stream.finish(&mut take).err() } else { None }))
    }
}
