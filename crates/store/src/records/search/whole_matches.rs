//! The records that match a query, from an index that answers whole queries.

use std::collections::VecDeque;

use stile_domain::records::pieces::MAX_RECORD;
use stile_domain::records::problem::Problem;
use stile_domain::records::tokenizer::{ParsedQuery, QueryTerm};

use super::super::port::{IndexAccess, MatchReader, Snapshot, TaggedTerm};
use super::search_scope::Tags;

/// The records that match, the newest first.
pub(super) struct WholeMatches<'s> {
    reader: Box<dyn MatchReader + 's>,
    /// Those that were read and not skipped yet.
    ahead: VecDeque<i64>,
    /// The newest record that the reader has not looked at.
    rest: Option<i64>,
}

impl<'s> WholeMatches<'s> {
    /// Asks for a query in the fields with these tags; `all` are the fields in which excluded terms
    /// count. `None` if the index gives lists instead.
    pub(super) fn new<'t>(
        snapshot: &'s dyn Snapshot,
        query: &'s ParsedQuery,
        tags: impl Iterator<Item = &'t Tags> + Clone,
        all: &[Tags],
    ) -> Option<Self> {
        let IndexAccess::Whole(index) = snapshot.access() else { return None };
        let required: Vec<_> =
            query.terms.iter().map(|term| tagged_term(term, tags.clone())).collect();
        let excluded: Vec<_> =
            query.excluded.iter().map(|term| tagged_term(term, all.iter())).collect();
        let reader = index.matches(&required, &excluded);
        Some(Self { reader, ahead: VecDeque::new(), rest: Some(MAX_RECORD) })
    }

    /// Returns the newest match that is not newer than `target`.
    pub(super) fn next(&mut self, target: i64) -> Result<Option<i64>, Problem> {
        loop {
            while self.ahead.front().is_some_and(|record| *record > target) {
                self.ahead.pop_front();
            }
            if let Some(record) = self.ahead.front() {
                return Ok(Some(*record));
            }
            let Some(rest) = self.rest else { return Ok(None) };
            let part = self.reader.next(rest.min(target))?;
            (self.ahead, self.rest) = (part.records.into(), part.rest);
        }
    }

    /// Returns those of some records that match. Both are sorted.
    pub(super) fn among(&mut self, records: &[i64]) -> Result<Vec<i64>, Problem> {
        self.reader.among(records)
    }
}

/// Returns a term with the tags of the fields in which it counts.
pub(super) fn tagged_term<'q, 't>(
    term: &'q QueryTerm,
    tags: impl Iterator<Item = &'t Tags>,
) -> TaggedTerm<'q> {
    let fields = tags.flatten().filter(|(field, _)| term.is_for(field));
    TaggedTerm { term: &term.term, tags: fields.map(|(_, tag)| *tag).collect() }
}
