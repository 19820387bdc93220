//! Search: finds the records in which all terms occur, and where in them.
//!
//! Hits are ordered by time, or ranked by rules of each record's own texts. In both orders a search
//! first walks the list of records by time and looks for the terms in each, which finds common
//! words soon. Then it reads from the index which records match. If they are few, it sorts them.
//! Otherwise it walks on, and takes those that the index named. The matches without a time come
//! last, in the order of the index.
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
//! An index that costs a round trip for each question answers the whole query instead
//! ([`whole_matches`]): which records match, some thousands at a time. What it names is not looked
//! at again, and what a page needs is read at once.
//!
//! The index has no list for a prefix. It merges the lists of all words with that prefix, which are
//! many for a short one. But most texts contain a short prefix, so the newest records are searched
//! first, and the index is queried only if that fails.

mod hit;
mod match_finder;
mod places;
mod postings;
mod search_scope;
mod whole_matches;

use std::collections::HashSet;
use std::sync::Arc;

use stile_domain::records::filter::Condition;
use stile_domain::records::pieces::MAX_RECORD;
use stile_domain::records::problem::Problem;
use stile_domain::records::sealed_cursor::{MatchTotal, SearchCursor, SearchRank};
use stile_domain::records::tokenizer::ParsedQuery;

use self::match_finder::{MatchFinder, is_short_prefix};
use super::model::{RecordRow, RecordSource, SortOrder};
use super::view::{ListPosition, ListWalk, RecordsView};

pub use self::hit::{EXCERPT_BEFORE, EXCERPT_CHARS, FieldMatch, RecordHit};

/// The records of a list that are searched before matches are counted, and how many more for each
/// hit among them.
const FIRST_SEARCHED: usize = 64;
const SEARCHED_PER_HIT: usize = 24;
/// The same for a query with a short prefix. The index merges the lists of all its words.
const FIRST_SEARCHED_FOR_PREFIX: usize = 512;
/// The maximum number of matches that are sorted, and that are remembered while a list is walked.
const MAX_SORTED: usize = 4096;
const MAX_REMEMBERED: usize = 16_384;
/// The maximum number of matches that are ranked: the first of the list.
pub const MAX_RANKED: usize = 1000;
/// The number of records that the first query of a list reads.
const FIRST_ROWS: usize = 32;
/// The records whose fields are read at once to be ranked.
const ROWS_AHEAD: usize = 128;
/// The matches of the index that are looked up at once: the first of all, and the most.
const FIRST_MATCHES: usize = 16;
const MOST_MATCHES: usize = 1024;
/// The same if the index answers whole queries: a statement costs more than the rows.
const FIRST_OF_WHOLE: usize = 1024;
const MOST_OF_WHOLE: usize = 8192;
/// The first records of a list whose texts are searched before such an index is asked.
const LOOKED_AT_OF_WHOLE: usize = 128;

/// The order of a search's hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// By the time that lists are ordered by, the latest first; then by connection and key.
    /// Records without such a time come last, those that were ingested last first.
    Newest,
    /// By [`stile_domain::records::relevance`], then as the newest.
    Relevance,
}

/// What to search for.
#[derive(Clone, Copy, Debug)]
pub struct RecordSearchQuery<'q> {
    /// The terms that must all occur.
    pub query: &'q ParsedQuery,
    /// Conditions that must all hold of the record.
    pub conditions: &'q [Condition],
    /// The order of the hits.
    pub order: SearchOrder,
    /// The hit to continue after. `None` starts at the beginning.
    pub after: Option<&'q SearchCursor>,
    /// The maximum number of hits.
    pub limit: usize,
}

/// One page of hits.
#[derive(Debug)]
pub struct RecordSearchPage {
    /// The hits, in order.
    pub hits: Vec<RecordHit>,
    /// Whether more hits follow.
    pub has_more: bool,
    /// Whether there are matches that were not ranked, and that no page has.
    pub is_truncated: bool,
}

/// The place of a hit among those with the same score. Later times are greater.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum HitPosition {
    /// After all records with a time, by number.
    Untimed(i64),
    /// By time, as in a list.
    Timed(ListPosition),
}

impl HitPosition {
    fn of(row: &RecordRow) -> Self {
        match row.order_key {
            None => Self::Untimed(row.number),
            Some(_) => Self::Timed(ListPosition::of(row)),
        }
    }
}

/// A search in progress.
struct Search<'s> {
    finder: MatchFinder<'s>,
    query: &'s ParsedQuery,
    conditions: &'s [Condition],
    check_limits: &'s dyn Fn() -> Result<(), Problem>,
    /// The newest record that counts, by number.
    newest_record: i64,
}

impl RecordsView<'_> {
    /// Finds records of some sources. A query that requires no term finds nothing. Calls
    /// `check_limits` regularly, since a search may skip very many records.
    ///
    /// # Errors
    /// The error of `check_limits` or of the database;
    /// [`Problem::InvalidCursor`](Problem::InvalidCursor) as for a list.
    pub fn find_text(
        &self,
        sources: &[RecordSource],
        query: RecordSearchQuery<'_>,
        check_limits: &dyn Fn() -> Result<(), Problem>,
    ) -> Result<RecordSearchPage, Problem> {
        let sources = &ordered_by_time(sources);
        let after = query.after.map(|after| self.hit_position(sources, after)).transpose()?;
        let rank = query.after.and_then(|after| after.rank);
        let newest_record = match (query.order, rank) {
            (SearchOrder::Newest, _) => MAX_RECORD,
            (SearchOrder::Relevance, Some(rank)) => rank.newest_record,
            (SearchOrder::Relevance, None) => {
                self.snapshot.newest_record(MAX_RECORD)?.map_or(0, |(record, _)| record)
            }
        };
        let mut search = Search {
            finder: MatchFinder::new(self, sources, query.query, query.conditions, check_limits)?,
            query: query.query,
            conditions: query.conditions,
            check_limits,
            newest_record,
        };
        let wanted = query.limit.saturating_add(1);
        let mut is_truncated = false;
        let mut rows: Vec<(RecordRow, Option<SearchRank>)> = match query.order {
            _ if query.query.terms.is_empty() => Vec::new(),
            SearchOrder::Newest => {
                let rows = search.newest(after, wanted)?;
                rows.into_iter().map(|row| (row, None)).collect()
            }
            SearchOrder::Relevance => {
                let mut matches = search.newest(None, MAX_RANKED + 1)?;
                is_truncated = matches.len() > MAX_RANKED;
                matches.truncate(MAX_RANKED);
                let ranked = search.ranked(matches)?.into_iter();
                let after = rank.map(|rank| rank.score).zip(after);
                let ranked = ranked.skip_while(|(score, row)| {
                    // Greater scores and later times come first.
                    let at = (*score, HitPosition::of(row));
                    after.as_ref().is_some_and(|after| at >= *after)
                });
                let with_rank = |(score, row)| (row, Some(SearchRank { score, newest_record }));
                ranked.map(with_rank).take(wanted).collect()
            }
        };
        let has_more = rows.len() > query.limit;
        rows.truncate(query.limit);
        self.read_ahead(rows.iter().map(|(row, _)| (sources.as_slice(), row)))?;
        if search.finder.is_whole() {
            let rows: Vec<RecordRow> = rows.iter().map(|(row, _)| row.clone()).collect();
            search.finder.scope.read_ahead_places(&rows, query.query)?;
        }
        let hit = |(row, rank)| search.finder.scope.hit(row, query.query, rank);
        let hits = rows.into_iter().map(hit).collect::<Result<_, _>>()?;
        Ok(RecordSearchPage { hits, has_more, is_truncated })
    }

    fn hit_position(
        &self,
        sources: &[RecordSource],
        cursor: &SearchCursor,
    ) -> Result<HitPosition, Problem> {
        Ok(match cursor.position.order {
            None => HitPosition::Untimed(cursor.position.record),
            Some(_) => HitPosition::Timed(self.list_position(sources, &cursor.position)?),
        })
    }

    /// Returns the cursor that continues a search after a hit.
    pub fn search_position(
        &self,
        sources: &[RecordSource],
        hit: &RecordHit,
        total: Option<MatchTotal>,
    ) -> Option<SearchCursor> {
        let position = self.position_of(&ordered_by_time(sources), &hit.row)?;
        Some(SearchCursor { rank: hit.rank, position, total })
    }

    /// Counts the records that match, up to `limit`. Returns the number, and whether there are
    /// more.
    ///
    /// # Errors
    /// The error of `check_limits` or of the database.
    pub fn count_text(
        &self,
        sources: &[RecordSource],
        query: &ParsedQuery,
        conditions: &[Condition],
        limit: usize,
        check_limits: &dyn Fn() -> Result<(), Problem>,
    ) -> Result<(usize, bool), Problem> {
        let mut count = 0;
        self.each_match(sources, query, conditions, check_limits, &mut |rows| {
            count += rows.len();
            Ok(count <= limit)
        })?;
        Ok((count.min(limit), count > limit))
    }

    /// Passes the records that match to `take`, some at a time and in no particular order, until it
    /// returns `false`. A query that requires no term matches nothing.
    ///
    /// # Errors
    /// The error of `take`, of `check_limits` or of the database.
    pub fn each_match(
        &self,
        sources: &[RecordSource],
        query: &ParsedQuery,
        conditions: &[Condition],
        check_limits: &dyn Fn() -> Result<(), Problem>,
        take: &mut dyn FnMut(&[RecordRow]) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        if query.terms.is_empty() {
            return Ok(());
        }
        let mut finder = MatchFinder::new(self, sources, query, conditions, check_limits)?;
        if let Some(rows) = self.few_matching(sources, conditions)? {
            return take(&finder.matching(rows, usize::MAX)?).map(drop);
        }
        let mut target = MAX_RECORD;
        let (mut wanted, most) = match finder.is_whole() {
            true => (FIRST_OF_WHOLE, MOST_OF_WHOLE),
            false => (FIRST_MATCHES, MOST_MATCHES),
        };
        loop {
            let (rows, is_last) = finder.next_visible(&mut target, wanted)?;
            if !take(&rows)? || is_last {
                return Ok(());
            }
            check_limits()?;
            wanted = (4 * wanted).min(most);
        }
    }
}

impl Search<'_> {
    /// Returns the next matches by time.
    fn newest(
        &mut self,
        after: Option<HitPosition>,
        wanted: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut rows = match after {
            Some(HitPosition::Untimed(record)) => return self.untimed(record - 1, wanted),
            Some(HitPosition::Timed(position)) => self.timed(Some(position), wanted)?,
            None => self.timed(None, wanted)?,
        };
        if rows.len() < wanted {
            rows.extend(self.untimed(self.newest_record, wanted - rows.len())?);
        }
        Ok(rows)
    }

    /// Returns the next matches that have a time.
    fn timed(
        &mut self,
        after: Option<ListPosition>,
        wanted: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let (view, sources) = (self.finder.scope.view, self.finder.scope.sources);
        let order = SortOrder::Descending;
        let is_whole = self.finder.is_whole();
        let batch = if is_whole { LOOKED_AT_OF_WHOLE } else { FIRST_ROWS };
        let walk = ListWalk::new(view.snapshot, sources, self.conditions, order, after, batch);
        let mut walk = walk.only_ordered();
        let mut rows = Vec::new();
        let has_prefix = self.query.terms.iter().any(|term| is_short_prefix(&term.term));
        let mut left = match has_prefix {
            _ if is_whole => 0,
            true => FIRST_SEARCHED_FOR_PREFIX,
            false => FIRST_SEARCHED,
        };
        if is_whole {
            let mut first = Vec::new();
            while first.len() < LOOKED_AT_OF_WHOLE
                && let Some(row) = walk.next()?
            {
                first.push(row);
            }
            let is_all = first.len() < LOOKED_AT_OF_WHOLE;
            first.retain(|row| row.number <= self.newest_record);
            rows = self.finder.matching(first, wanted)?;
            if is_all {
                return Ok(rows);
            }
        }
        while left > 0 && rows.len() < wanted {
            let Some(row) = walk.next()? else { return Ok(rows) };
            left -= 1;
            if self.matches(&row)? {
                left += SEARCHED_PER_HIT;
                rows.push(row);
            }
        }
        if rows.len() == wanted {
            return Ok(rows);
        }
        let matches = self.matching_records()?;
        let most = if is_whole { MAX_REMEMBERED } else { MAX_SORTED };
        if let Some(records) = matches.as_ref().filter(|records| records.len() <= most) {
            let more = self.sorted_after(walk.position(), records, wanted - rows.len())?;
            rows.extend(more);
            return Ok(rows);
        }
        let matches: Option<HashSet<i64>> = matches.map(|records| records.into_iter().collect());
        while rows.len() < wanted {
            let Some(row) = walk.next()? else { break };
            (self.check_limits)()?;
            let may_match = matches.as_ref().is_none_or(|all| all.contains(&row.number));
            if may_match && (is_whole || self.matches(&row)?) {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// Returns the next matches that have no time, from a record down.
    fn untimed(&mut self, mut target: i64, wanted: usize) -> Result<Vec<RecordRow>, Problem> {
        let (view, sources) = (self.finder.scope.view, self.finder.scope.sources);
        if let Some(mut rows) = view.few_matching(sources, self.conditions)? {
            rows.retain(|row| row.order_key.is_none() && row.number <= target);
            return self.finder.matching(rows, wanted);
        }
        let mut finder =
            MatchFinder::new(view, sources, self.query, self.conditions, self.check_limits)?;
        finder.leave_out_timed()?;
        let mut rows = Vec::new();
        let mut batch = wanted;
        while rows.len() < wanted {
            let (found, is_last) = finder.next_visible(&mut target, batch)?;
            rows.extend(found.into_iter().filter(|row| row.order_key.is_none()));
            if is_last {
                break;
            }
            batch = (2 * batch).min(MOST_MATCHES);
        }
        rows.truncate(wanted);
        Ok(rows)
    }

    /// Returns whether a record of a list matches.
    fn matches(&self, row: &RecordRow) -> Result<bool, Problem> {
        Ok(row.number <= self.newest_record && self.finder.scope.matches(row, self.query)?)
    }

    /// Returns the numbers of the records in which all terms occur, hidden ones too. `None` if
    /// there are more than [`MAX_REMEMBERED`] and the index does not answer whole queries.
    fn matching_records(&mut self) -> Result<Option<Vec<i64>>, Problem> {
        let (mut records, mut target) = (Vec::new(), self.newest_record);
        while let Some(record) = self.finder.next_match(target)? {
            if records.len() == MAX_REMEMBERED && !self.finder.is_whole() {
                return Ok(None);
            }
            records.push(record);
            target = record - 1;
        }
        Ok(Some(records))
    }

    /// Returns the latest of some records that have a time, are visible, not excluded, and after a
    /// position.
    fn sorted_after(
        &self,
        position: Option<&ListPosition>,
        records: &[i64],
        wanted: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let scope = &self.finder.scope;
        let snapshot = scope.view.snapshot;
        let mut places = Vec::new();
        if records.is_empty() {
            return Ok(Vec::new());
        }
        for (stream, row) in snapshot.rows_of(records)? {
            let Some((at, source)) = scope.source(stream) else { continue };
            if row.order_key.is_some() && source.ordered_by().is_some() {
                let row = RecordRow { source: at, ..row };
                let place = ListPosition::of(&row);
                if position.is_none_or(|position| place < *position) {
                    places.push((place, source, row));
                }
            }
        }
        places.sort_unstable_by(|(a, ..), (b, ..)| b.cmp(a));
        let mut rows: Vec<RecordRow> = Vec::new();
        let (mut places, mut some) = (places.into_iter(), wanted);
        while rows.len() < wanted {
            (self.check_limits)()?;
            let next: Vec<_> = places.by_ref().take(some).collect();
            if next.is_empty() {
                break;
            }
            let mut visible = HashSet::new();
            for source in scope.sources {
                let own = next.iter().filter(|(_, other, _)| other.id == source.id);
                let own: Vec<i64> = own.map(|(.., row)| row.number).collect();
                if !own.is_empty() {
                    let found = snapshot.visible_among(source, &own, self.conditions)?;
                    visible.extend(found.into_iter().map(|row| row.number));
                }
            }
            for (.., row) in next {
                let is_shown = visible.contains(&row.number) && rows.len() < wanted;
                if is_shown && (self.finder.is_whole() || !scope.excludes(&row, self.query)?) {
                    rows.push(row);
                }
            }
            some = (2 * some).min(MOST_MATCHES);
        }
        Ok(rows)
    }

    /// Sorts records by relevance, with their scores.
    fn ranked(&self, rows: Vec<RecordRow>) -> Result<Vec<(u64, RecordRow)>, Problem> {
        let mut ranked = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            (self.check_limits)()?;
            if at % ROWS_AHEAD == 0 {
                let next = rows.iter().skip(at).take(ROWS_AHEAD);
                self.finder.scope.read_ahead(next.clone())?;
                if self.finder.is_whole() {
                    self.finder.scope.read_ahead_beginnings(next)?;
                }
            }
            ranked.push((self.finder.scope.score(row, self.query)?, row.clone()));
        }
        // The rows are ordered by time, which a stable sort keeps.
        ranked.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        Ok(ranked)
    }
}

/// Returns the sources, those with another order than by time without an order: a name that sorts
/// last is not the newest.
fn ordered_by_time(sources: &[RecordSource]) -> Vec<RecordSource> {
    let mut sources = sources.to_vec();
    for source in &mut sources {
        if source.indexed.cursor_field.is_some() && !source.indexed.cursor_is_time {
            Arc::make_mut(&mut source.indexed).cursor_field = None;
        }
    }
    sources
}
