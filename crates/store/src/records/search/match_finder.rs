//! Finds the records in which all terms occur, by the lists of the index.

use stile_domain::records::filter::Condition;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::{ParsedQuery, QueryTerm, SearchTerm};

use super::super::model::{RecordRow, RecordSource};
use super::super::view::RecordsView;
use super::hit::{PREFIX_PIECES, SHORT_PIECES};
use super::postings::Postings;
use super::search_scope::{SearchScope, Tags};
use super::whole_matches::{WholeMatches, tagged_term};

/// The maximum number of visible records of a source that are collected if many others are hidden.
const MAX_COLLECTED: i64 = 20_000;
/// How many records turn out to be hidden before the visible ones are collected.
const MAX_HIDDEN: usize = 256;
/// The steps between two checks of the request's limits.
const STEPS_PER_CHECK: u64 = 64;
/// How many records in a row may lack a common term before its list is read on.
const MAX_MISSES: usize = 64;
/// The records and pieces of text that are searched for a prefix before the index is queried.
const PREFIX_BUDGET: u64 = 512;

/// The scalar values from which on a prefix has few words.
const LONG_PREFIX: usize = 5;

/// Returns whether a term is a prefix that many words may have, so that its list is long.
pub(super) fn is_short_prefix(term: &SearchTerm) -> bool {
    matches!(term, SearchTerm::Prefix(prefix) if prefix.chars().count() < LONG_PREFIX)
}

/// Finds the records in which all terms occur, from the newest down.
pub(super) struct MatchFinder<'s> {
    pub(super) scope: SearchScope<'s>,
    check_limits: &'s dyn Fn() -> Result<(), Problem>,
    /// How often the search moved to another record.
    steps: u64,
    query: &'s ParsedQuery,
    conditions: &'s [Condition],
    /// The visible records of each source. `None` if they were not collected.
    visible: Vec<Option<Vec<i64>>>,
    /// How many records turned out to be hidden.
    hidden: usize,
    /// If the index answers whole queries. Then there are no lists.
    whole: Option<WholeMatches<'s>>,
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

impl<'s> MatchFinder<'s> {
    pub(super) fn new(
        view: &'s RecordsView<'s>,
        sources: &'s [RecordSource],
        query: &'s ParsedQuery,
        conditions: &'s [Condition],
        check_limits: &'s dyn Fn() -> Result<(), Problem>,
    ) -> Result<Self, Problem> {
        let mut tags = Vec::new();
        let mut visible = Vec::new();
        let streams: Vec<i64> = sources.iter().map(|source| source.id).collect();
        let mut all_tags = view.snapshot.tags_of(&streams)?;
        for source in sources {
            let mut own = all_tags.remove(&source.id).unwrap_or_default();
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
        let whole = WholeMatches::new(view.snapshot, query, tags.iter(), &tags);
        let lists = |terms: &'s [QueryTerm]| match whole {
            Some(_) => Vec::new(),
            None => terms.iter().map(|term| TermList::new(term, tags.iter())).collect(),
        };
        let (lists, excluded) = (lists(&query.terms), lists(&query.excluded));
        let indices = sources.iter().enumerate().map(|(at, source)| (source.id, at)).collect();
        let scope = SearchScope { view, sources, indices, tags };
        Ok(Self {
            scope,
            check_limits,
            steps: 0,
            query,
            conditions,
            visible,
            hidden: 0,
            whole,
            lists,
            excluded,
            is_sorted: false,
        })
    }

    /// Leaves out the records that lists order by time. Call this before the first match is asked
    /// for.
    pub(super) fn leave_out_timed(&mut self) -> Result<(), Problem> {
        for (source, visible) in self.scope.sources.iter().zip(&mut self.visible) {
            if source.ordered_by().is_none() {
                continue;
            }
            let snapshot = self.scope.view.snapshot;
            if let Some(untimed) = snapshot.unordered_records(source, MAX_COLLECTED)? {
                *visible = Some(untimed);
            }
        }
        // The index is not read for sources that have no such records.
        let sources = || {
            let sources = self.scope.tags.iter().zip(&self.visible);
            let has_records =
                |visible: &Option<Vec<i64>>| !visible.as_ref().is_some_and(Vec::is_empty);
            sources.filter(move |(_, visible)| has_records(visible)).map(|(tags, _)| tags)
        };
        let snapshot = self.scope.view.snapshot;
        self.whole = WholeMatches::new(snapshot, self.query, sources(), &self.scope.tags);
        self.lists = self.lists.iter().map(|list| TermList::new(list.term, sources())).collect();
        Ok(())
    }

    /// Returns whether the index answers whole queries, so that what it names needs no other look.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Returns those of some visible records that match, in their order, and not more than `most`.
    /// Reads their fields at once.
    pub(super) fn matching(
        &mut self,
        rows: Vec<RecordRow>,
        most: usize,
    ) -> Result<Vec<RecordRow>, Problem> {
        let mut of_long = (Vec::new(), Vec::new());
        if let Some(whole) = &mut self.whole {
            self.scope.read_ahead(rows.iter())?;
            // Of a long text the index tells more with one question than its pieces would.
            for row in &rows {
                if self.scope.has_long_text(row)? {
                    of_long.0.push(row.number);
                }
            }
            of_long.0.sort_unstable();
            of_long.1 = whole.among(&of_long.0)?;
        }
        let mut matching = Vec::new();
        for row in rows {
            if matching.len() == most {
                break;
            }
            (self.check_limits)()?;
            let is_match = match of_long.0.binary_search(&row.number) {
                Ok(_) => of_long.1.binary_search(&row.number).is_ok(),
                Err(_) => self.scope.matches(&row, self.query)?,
            };
            if is_match {
                matching.push(row);
            }
        }
        Ok(matching)
    }

    /// Returns those of some matches that are not excluded and visible, the newest first.
    pub(super) fn next_visible(
        &mut self,
        target: &mut i64,
        wanted: usize,
    ) -> Result<(Vec<RecordRow>, bool), Problem> {
        let mut records = Vec::new();
        while records.len() < wanted
            && let Some(record) = self.next_match(*target)?
        {
            *target = record - 1;
            if !self.is_excluded(record)? {
                records.push(record);
            }
        }
        let is_last = records.len() < wanted;
        let mut rows = self.visible_rows(&records)?;
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.number));
        Ok((rows, is_last))
    }

    /// Finds the newest record, not newer than `target`, in which all terms occur.
    pub(super) fn next_match(&mut self, mut target: i64) -> Result<Option<i64>, Problem> {
        'next_target: loop {
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS_PER_CHECK) {
                (self.check_limits)()?;
            }
            if let Some(whole) = &mut self.whole {
                let Some(record) = whole.next(target)? else { return Ok(None) };
                match self.newest_visible(record) {
                    None => return Ok(None),
                    Some(visible) if visible < record => target = visible,
                    Some(_) => return Ok(Some(record)),
                }
                continue;
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
    pub(super) fn is_excluded(&mut self, record: i64) -> Result<bool, Problem> {
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
    pub(super) fn visible_row(&mut self, record: i64) -> Result<Option<RecordRow>, Problem> {
        let snapshot = self.scope.view.snapshot;
        let stream = snapshot.stream_of(record)?;
        let Some((at, source)) = stream.and_then(|stream| self.scope.source(stream)) else {
            return Ok(None);
        };
        let row = if self.is_hidden(at, record) {
            None
        } else {
            snapshot.find_in_time(source, record, self.conditions)?
        };
        let row = row.map(|row| seen_through(at, source, row));
        if row.is_none() && source.visibility.time.is_some() {
            self.note_hidden(1)?;
        }
        Ok(row)
    }

    /// Looks some records up at once, as [`MatchFinder::visible_row`] does.
    pub(super) fn visible_rows(&mut self, records: &[i64]) -> Result<Vec<RecordRow>, Problem> {
        let snapshot = self.scope.view.snapshot;
        let mut found = Vec::new();
        if records.is_empty() {
            return Ok(found);
        }
        let mut of_source: Vec<Vec<i64>> = vec![Vec::new(); self.scope.sources.len()];
        for (stream, row) in snapshot.rows_of(records)? {
            let Some((at, source)) = self.scope.source(stream) else { continue };
            if self.is_hidden(at, row.number) {
                continue;
            }
            if source.visibility.time.is_none() && self.conditions.is_empty() {
                found.push(seen_through(at, source, row));
            } else if let Some(own) = of_source.get_mut(at) {
                own.push(row.number);
            }
        }
        let mut hidden = 0;
        for ((at, source), own) in self.scope.sources.iter().enumerate().zip(&of_source) {
            if own.is_empty() {
                continue;
            }
            let rows = snapshot.visible_among(source, own, self.conditions)?;
            if source.visibility.time.is_some() {
                hidden += own.len() - rows.len();
            }
            found.extend(rows.into_iter().map(|row| seen_through(at, source, row)));
        }
        self.note_hidden(hidden)?;
        Ok(found)
    }

    /// Returns whether the caller's grant is known to hide a record of a source.
    fn is_hidden(&self, source: usize, record: i64) -> bool {
        match self.visible.get(source) {
            Some(Some(records)) => records.binary_search(&record).is_err(),
            _ => false,
        }
    }

    /// Notes that records turned out to be hidden. If they are many, the visible ones are
    /// collected.
    fn note_hidden(&mut self, records: usize) -> Result<(), Problem> {
        let before = self.hidden;
        self.hidden += records;
        match before < MAX_HIDDEN && self.hidden >= MAX_HIDDEN {
            true => self.collect_visible(),
            false => Ok(()),
        }
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

/// Returns a row of a source as the caller sees it: without an order that it may not see.
fn seen_through(at: usize, source: &RecordSource, row: RecordRow) -> RecordRow {
    let order_key = row.order_key.filter(|_| source.ordered_by().is_some());
    RecordRow { source: at, order_key, ..row }
}

impl<'q> TermList<'q> {
    /// Lists the records of the sources with these fields.
    fn new<'t>(term: &'q QueryTerm, sources: impl Iterator<Item = &'t Tags>) -> Self {
        let tags = tagged_term(term, sources).tags;
        let is_searched = is_short_prefix(&term.term) && !tags.is_empty();
        let budget = is_searched.then_some(PREFIX_BUDGET);
        Self { term, index: Postings::new(&term.term, &tags), budget, last_hit: None, misses: 0 }
    }

    /// Returns `target` if it is in the list, and otherwise an older record that is not older than
    /// the next one of the list. `searches` means to search the record instead of the index.
    fn seek(
        &mut self,
        scope: &SearchScope<'_>,
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
        self.index.seek(scope.view.snapshot, target)
    }

    /// Returns whether searching a record is cheaper than reading on in the index.
    fn prefers_record(&self, target: i64) -> bool {
        self.budget.is_some() || self.misses < MAX_MISSES && self.index.is_far(target)
    }

    /// Returns whether the term occurs in a record. `None` if the record is too long to search.
    fn search(&mut self, scope: &SearchScope<'_>, target: i64) -> Result<Option<bool>, Problem> {
        let Some(stream) = scope.view.snapshot.stream_of(target)? else { return Ok(None) };
        let max_pieces = if self.budget.is_some() { PREFIX_PIECES } else { SHORT_PIECES };
        let (has, cost) = scope.has(target, stream, self.term, max_pieces)?;
        self.budget =
            self.budget.and_then(|budget| budget.checked_sub(cost)).filter(|_| has.is_some());
        self.misses = if has == Some(true) { 0 } else { self.misses + 1 };
        Ok(has)
    }
}
