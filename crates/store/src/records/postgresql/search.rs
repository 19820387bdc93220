//! Reads the index of words.
//!
//! A query is answered as a whole, in a few statements, however many records have its words: the
//! first reads the newest blocks of all its tokens. If these are all blocks of some term, and few
//! records have it, the next reads only the blocks of the other terms in which these records may
//! be. Otherwise larger parts of all lists follow. Every statement finds blocks by the primary key:
//! equality and ranges are the conditions that PostgreSQL takes into an index below a policy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use stile_domain::records::pieces;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::SearchTerm;

use super::posting_lists::{PostingList, TermLists, intersect};
use super::read::{PgSnapshot, column};
use crate::postgresql::{TenantSql, params, tenant_sql};
use crate::records::port::{
    IndexAccess, IndexMatches, MatchReader, MatchedPart, PieceQuery, ReadIndex, TaggedTerm,
};

/// The blocks of each list that the first statement reads.
const FIRST_BLOCKS: usize = 32;
/// The blocks of all lists together that a later statement reads. A block has some 1,000 bytes.
const MOST_BLOCKS: usize = 16_384;
/// The most records whose blocks are looked up rather than read one after the other.
const FEW_RECORDS: usize = 256;

/// Reads blocks of some lists, the newest first.
pub(super) const NEWEST_BLOCKS: TenantSql = tenant_sql!(
    "SELECT list.at, block.first, block.postings \
             FROM unnest($2::bigint[], $3::bytea[]) WITH ORDINALITY AS list (tag, token, at) \
             CROSS JOIN LATERAL (SELECT b.first, b.postings FROM word_blocks b \
             WHERE b.tenant = $1 AND b.tag = list.tag AND b.token = list.token \
             AND b.first <= $4 ORDER BY b.first DESC LIMIT $5) AS block"
);

/// Reads the blocks of lists in which some numbers may be.
pub(super) const PARTS: TenantSql = tenant_sql!(
    "WITH wanted AS MATERIALIZED (SELECT DISTINCT part.at, part.tag, part.token, \
                 block.first FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], \
                 $6::bigint[]) AS part (at, tag, token, first, last) CROSS JOIN LATERAL (\
                 (SELECT b.first FROM word_blocks b WHERE b.tenant = $1 AND b.tag = part.tag \
                 AND b.token = part.token AND b.first <= part.first \
                 ORDER BY b.first DESC LIMIT 1) \
                 UNION ALL (SELECT b.first FROM word_blocks b WHERE b.tenant = $1 \
                 AND b.tag = part.tag AND b.token = part.token AND b.first > part.first \
                 AND b.first <= part.last ORDER BY b.first)) AS block) \
                 SELECT wanted.at, wanted.first, block.postings FROM wanted \
                 CROSS JOIN LATERAL (SELECT b.postings FROM word_blocks b WHERE b.tenant = $1 \
                 AND b.tag = wanted.tag AND b.token = wanted.token AND b.first = wanted.first \
                 LIMIT 1) AS block"
);

/// Reads all blocks of tokens with some prefixes.
pub(super) const PREFIXES: TenantSql = tenant_sql!(
    "SELECT list.at, block.postings FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) \
             WITH ORDINALITY AS list (tag, start, after, at) \
             CROSS JOIN LATERAL (SELECT b.postings FROM word_blocks b WHERE b.tenant = $1 \
             AND b.tag = list.tag AND b.token >= list.start AND b.token < list.after OFFSET 0) \
             AS block"
);

/// A token of a field, whose postings are read.
struct WordList<'s> {
    tag: i64,
    token: &'s [u8],
    keeps_places: bool,
    /// All its postings, once they were read.
    whole: Option<PostingList>,
}

/// The tokens of a field from `start` on, before `end`.
struct PrefixList<'s> {
    tag: i64,
    start: &'s [u8],
    end: Vec<u8>,
}

/// The lists that some terms need.
#[derive(Default)]
struct Lists<'s> {
    words: Vec<WordList<'s>>,
    prefixes: Vec<PrefixList<'s>>,
}

/// The numbers that are looked up in the list of a word.
struct ListPart {
    word: usize,
    first: i64,
    last: i64,
}

/// A query that is being answered.
struct PgMatches<'s> {
    snapshot: &'s PgSnapshot<'s>,
    lists: Lists<'s>,
    /// What the prefixes have, once it was read.
    prefixes: Option<Vec<PostingList>>,
    required: Vec<TermLists>,
    excluded: Vec<TermLists>,
    is_new: bool,
}

impl ReadIndex for PgSnapshot<'_> {
    fn access(&self) -> IndexAccess<'_> {
        IndexAccess::Whole(self)
    }

    fn first_pieces(&self, wanted: &[PieceQuery<'_>]) -> Result<Vec<Option<i64>>, Problem> {
        let (mut terms, mut parts) = (Vec::new(), Vec::new());
        let mut lists = Lists::default();
        for PieceQuery { term, tag, first, last } in wanted {
            // Of each list only a part is read, so none is shared.
            let known = lists.words.len();
            terms.push(lists.add(term, &[*tag], known));
            let own = known..lists.words.len();
            parts.extend(own.map(|word| ListPart { word, first: *first, last: *last }));
        }
        let words = self.parts_of(&lists, &parts)?;
        let prefixes = self.prefixes_of(&lists)?;
        let answer = |(term, wanted): (&TermLists, &PieceQuery<'_>)| {
            let numbers = term.numbers(&|at| words.get(&at), &prefixes)?;
            let from = numbers.partition_point(|number| *number < wanted.first);
            Ok(numbers.get(from).copied().filter(|number| *number <= wanted.last))
        };
        terms.iter().zip(wanted).map(answer).collect()
    }
}

impl IndexMatches for PgSnapshot<'_> {
    fn matches<'s>(
        &'s self,
        required: &[TaggedTerm<'s>],
        excluded: &[TaggedTerm<'s>],
    ) -> Box<dyn MatchReader + 's> {
        let mut lists = Lists::default();
        let mut terms = |terms: &[TaggedTerm<'s>]| {
            terms.iter().map(|term| lists.add(term.term, &term.tags, 0)).collect()
        };
        let (required, excluded) = (terms(required), terms(excluded));
        let is_new = true;
        Box::new(PgMatches { snapshot: self, lists, prefixes: None, required, excluded, is_new })
    }
}

impl<'s> Lists<'s> {
    /// Adds the lists of a term in some fields. Lists from the index `shared` on may be used again.
    fn add(&mut self, term: &'s SearchTerm, tags: &[i64], shared: usize) -> TermLists {
        match term {
            SearchTerm::Word(word) => {
                let lists = tags.iter().map(|tag| self.word(*tag, word, false, shared));
                TermLists::Word(lists.collect())
            }
            SearchTerm::Phrase(phrase) => {
                let field = |tag: &i64| {
                    phrase.iter().map(|token| self.word(*tag, token, true, shared)).collect()
                };
                TermLists::Phrase(tags.iter().map(field).collect())
            }
            SearchTerm::Prefix(start) => {
                let first = self.prefixes.len();
                let mut end = start.as_bytes().to_vec();
                // No byte of UTF-8 is 0xff, so no token is between this text and the next one.
                end.iter_mut().last().into_iter().for_each(|last| *last = last.saturating_add(1));
                let start = start.as_bytes();
                let lists =
                    tags.iter().map(|tag| PrefixList { tag: *tag, start, end: end.clone() });
                self.prefixes.extend(lists);
                TermLists::Prefix((first..self.prefixes.len()).collect())
            }
        }
    }

    /// Returns the index of the list of a token.
    fn word(&mut self, tag: i64, token: &'s str, keeps_places: bool, shared: usize) -> usize {
        let token = token.as_bytes();
        let mut known = self.words.iter().enumerate().skip(shared);
        let found = known.find(|(_, word)| (word.tag, word.token) == (tag, token));
        let at = found.map_or(self.words.len(), |(at, _)| at);
        match self.words.get_mut(at) {
            Some(word) => word.keeps_places |= keeps_places,
            None => self.words.push(WordList { tag, token, keeps_places, whole: None }),
        }
        at
    }
}

/// Blocks of lists, each with its first number, by the index of the list.
type Blocks = BTreeMap<usize, Vec<(i64, Vec<u8>)>>;

impl PgSnapshot<'_> {
    /// Reads blocks of some lists, from those that may have the number `last` down, and not more
    /// than `limit` of each.
    fn newest_blocks(
        &self,
        lists: &Lists<'_>,
        some: &[usize],
        last: i64,
        limit: usize,
    ) -> Result<Blocks, Problem> {
        let own = || some.iter().filter_map(|at| lists.words.get(*at));
        let tags: Vec<i64> = own().map(|word| word.tag).collect();
        let tokens: Vec<&[u8]> = own().map(|word| word.token).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut blocks = Blocks::new();
        for row in &self.rows(&NEWEST_BLOCKS, params![tags, tokens, last, limit])? {
            let at: i64 = column(row, 0)?;
            let at = usize::try_from(at - 1).ok().and_then(|at| some.get(at));
            let at = at.ok_or(Problem::Corrupt)?;
            blocks.entry(*at).or_default().push((column(row, 1)?, column(row, 2)?));
        }
        blocks.values_mut().for_each(|blocks| blocks.sort_unstable());
        Ok(blocks)
    }

    /// Reads the blocks of lists in which some numbers may be.
    fn parts_of(
        &self,
        lists: &Lists<'_>,
        parts: &[ListPart],
    ) -> Result<BTreeMap<usize, PostingList>, Problem> {
        let mut blocks = Blocks::new();
        if !parts.is_empty() {
            let words = || parts.iter().filter_map(|part| lists.words.get(part.word));
            let at: Vec<i64> =
                parts.iter().map(|part| i64::try_from(part.word).unwrap_or(i64::MAX)).collect();
            let tags: Vec<i64> = words().map(|word| word.tag).collect();
            let tokens: Vec<&[u8]> = words().map(|word| word.token).collect();
            let first: Vec<i64> = parts.iter().map(|part| part.first).collect();
            let last: Vec<i64> = parts.iter().map(|part| part.last).collect();
            for row in &self.rows(&PARTS, params![at, tags, tokens, first, last])? {
                let at: i64 = column(row, 0)?;
                let at = usize::try_from(at).map_err(|_| Problem::Corrupt)?;
                blocks.entry(at).or_default().push((column(row, 1)?, column(row, 2)?));
            }
            blocks.values_mut().for_each(|blocks| blocks.sort_unstable());
        }
        let mut read: BTreeMap<usize, PostingList> = BTreeMap::new();
        for part in parts {
            if let Entry::Vacant(new) = read.entry(part.word) {
                let own = blocks.remove(&part.word).unwrap_or_default();
                new.insert(lists.list(part.word, &own)?);
            }
        }
        Ok(read)
    }

    /// Reads all postings of the prefixes.
    fn prefixes_of(&self, lists: &Lists<'_>) -> Result<Vec<PostingList>, Problem> {
        if lists.prefixes.is_empty() {
            return Ok(Vec::new());
        }
        let tags: Vec<i64> = lists.prefixes.iter().map(|prefix| prefix.tag).collect();
        let starts: Vec<&[u8]> = lists.prefixes.iter().map(|prefix| prefix.start).collect();
        let ends: Vec<&[u8]> = lists.prefixes.iter().map(|prefix| prefix.end.as_slice()).collect();
        let rows = self.rows(&PREFIXES, params![tags, starts, ends])?;
        let mut blocks: Vec<Vec<&[u8]>> = vec![Vec::new(); lists.prefixes.len()];
        for row in &rows {
            let at: i64 = column(row, 0)?;
            let own = usize::try_from(at - 1).ok().and_then(|at| blocks.get_mut(at));
            own.ok_or(Problem::Corrupt)?.push(column(row, 1)?);
        }
        blocks.into_iter().map(|own| PostingList::of_tokens(own.into_iter())).collect()
    }
}

impl Lists<'_> {
    /// Reads blocks of a list, which are in order.
    fn list(&self, at: usize, blocks: &[(i64, Vec<u8>)]) -> Result<PostingList, Problem> {
        let keeps_places = self.words.get(at).is_some_and(|word| word.keeps_places);
        PostingList::of_blocks(blocks.iter().map(|(_, block)| block.as_slice()), keeps_places)
    }
}

impl PgMatches<'_> {
    /// Returns the list of a word, if it was read as a whole, or among those that were read now.
    fn known<'l>(
        &'l self,
        read: &'l BTreeMap<usize, PostingList>,
        at: usize,
    ) -> Option<&'l PostingList> {
        self.lists.words.get(at).and_then(|word| word.whole.as_ref()).or_else(|| read.get(&at))
    }

    /// Returns the matches after the record `floor`, up to `last`, in order.
    fn matching(
        &self,
        read: &BTreeMap<usize, PostingList>,
        bounds: (i64, i64),
    ) -> Result<Vec<i64>, Problem> {
        let prefixes = self.prefixes.as_deref().unwrap_or_default();
        let records = |term: &TermLists| term.records(&|at| self.known(read, at), prefixes, bounds);
        let mut all = self.required.iter().map(records).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable_by_key(Vec::len);
        let mut all = all.into_iter();
        let first = all.next().unwrap_or_default();
        let mut matching = all.fold(first, |found, records| intersect(&found, &records));
        for term in &self.excluded {
            if matching.is_empty() {
                break;
            }
            let excluded = intersect(&matching, &records(term)?);
            matching.retain(|record| excluded.binary_search(record).is_err());
        }
        Ok(matching)
    }

    /// Returns the records that have all required terms whose lists were read as a whole. `None` if
    /// there is no such term, or more than a few records.
    fn few(&self, last: i64) -> Result<Option<Vec<i64>>, Problem> {
        let prefixes = self.prefixes.as_deref().unwrap_or_default();
        let read = BTreeMap::new();
        let mut few: Option<Vec<i64>> = None;
        for term in &self.required {
            if term.words().into_iter().all(|at| self.known(&read, at).is_some()) {
                let records = term.records(&|at| self.known(&read, at), prefixes, (0, last))?;
                few = Some(few.map_or_else(|| records.clone(), |few| intersect(&few, &records)));
            }
        }
        Ok(few.filter(|few| few.len() <= FEW_RECORDS))
    }

    fn read_prefixes(&mut self) -> Result<(), Problem> {
        if self.prefixes.is_none() {
            self.prefixes = Some(self.snapshot.prefixes_of(&self.lists)?);
        }
        Ok(())
    }

    /// Returns the lists that were not read as a whole.
    fn open_lists(&self) -> Vec<usize> {
        let words = self.lists.words.iter().enumerate();
        words.filter(|(_, word)| word.whole.is_none()).map(|(at, _)| at).collect()
    }
}

impl MatchReader for PgMatches<'_> {
    fn next(&mut self, target: i64) -> Result<MatchedPart, Problem> {
        let none = MatchedPart { records: Vec::new(), rest: None };
        if self.required.iter().any(TermLists::is_nowhere) {
            return Ok(none);
        }
        self.read_prefixes()?;
        let open = self.open_lists();
        let is_first = std::mem::take(&mut self.is_new);
        // What the first statement reads as a whole also serves other questions.
        let last =
            if is_first { i64::MAX } else { pieces::last_of(target.min(pieces::MAX_RECORD)) };
        let mut limit = match is_first {
            true => FIRST_BLOCKS,
            false => (MOST_BLOCKS / open.len().max(1)).max(FIRST_BLOCKS),
        };
        let (blocks, floor) = loop {
            let blocks = match open.is_empty() {
                true => Blocks::new(),
                false => self.snapshot.newest_blocks(&self.lists, &open, last, limit)?,
            };
            let cut_off = blocks.values().filter(|own| own.len() >= limit);
            let oldest = cut_off.filter_map(|own| own.first()).map(|(first, _)| *first).max();
            let floor = oldest.map_or(0, |first| pieces::parts(first).0);
            if floor < target || is_first {
                break (blocks, floor);
            }
            // A record may have more blocks of a word than were read.
            limit = limit.saturating_mul(16);
        };
        let mut read = BTreeMap::new();
        for at in open {
            let own = blocks.get(&at).map(Vec::as_slice).unwrap_or_default();
            let list = self.lists.list(at, own)?;
            match self.lists.words.get_mut(at) {
                Some(word) if is_first && own.len() < limit => word.whole = Some(list),
                _ => drop(read.insert(at, list)),
            }
        }
        if is_first
            && floor > 0
            && let Some(few) = self.few(target)?
        {
            let records = self.among(&few)?.into_iter().rev().collect();
            return Ok(MatchedPart { records, rest: None });
        }
        let records = self.matching(&read, (floor, target))?.into_iter().rev().collect();
        Ok(MatchedPart { records, rest: (floor > 0).then_some(floor.min(target)) })
    }

    fn among(&mut self, records: &[i64]) -> Result<Vec<i64>, Problem> {
        if records.is_empty() || self.required.iter().any(TermLists::is_nowhere) {
            return Ok(Vec::new());
        }
        self.read_prefixes()?;
        let part = |word| {
            move |record: &i64| {
                let first = pieces::number(*record, 0, 0).unwrap_or(i64::MAX);
                ListPart { word, first, last: pieces::last_of(*record) }
            }
        };
        let open = self.open_lists();
        let parts: Vec<ListPart> =
            open.into_iter().flat_map(|word| records.iter().map(part(word))).collect();
        let read = self.snapshot.parts_of(&self.lists, &parts)?;
        Ok(intersect(records, &self.matching(&read, (0, pieces::MAX_RECORD))?))
    }
}
