//! Reads the records of a page at once, before they are written one after the other.
//!
//! A database on another machine answers each question after a round trip. What was read ahead is
//! kept in the view and changes no answer: whatever was not read ahead is read when it is needed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use stile_domain::records::pieces::PIECE_CHARS;
use stile_domain::records::problem::Problem;

use super::{LongValueRef, RecordsView};
use crate::records::model::{RecordRow, RecordSource};
use crate::records::port::PieceQuery;

/// The records that one question reads.
const MOST_RECORDS: usize = 256;
/// The pieces of long values that one call reads.
const MOST_PIECES: usize = 512;

impl RecordsView<'_> {
    /// Reads the fields of some records, each with its sources, in a few round trips.
    ///
    /// # Errors
    /// The error of the database.
    pub fn read_ahead<'r>(
        &self,
        rows: impl IntoIterator<Item = (&'r [RecordSource], &'r RecordRow)>,
    ) -> Result<(), Problem> {
        let mut wanted: Vec<(&RecordSource, i64)> = Vec::new();
        let mut numbers = BTreeSet::new();
        for (sources, row) in rows {
            let source = sources.get(row.source).ok_or(Problem::NotFound)?;
            let is_known = self.ahead.borrow().body(row.number).is_some();
            if !is_known && numbers.insert(row.number) {
                wanted.push((source, row.number));
            }
        }
        for wanted in wanted.chunks(MOST_RECORDS) {
            self.ahead.borrow_mut().make_room();
            self.snapshot.bodies(wanted, &mut |record, body| {
                self.ahead.borrow_mut().keep_body(record, body.into());
            })?;
        }
        Ok(())
    }

    /// Reads parts of long values in one round trip, each as a range of Unicode scalars. Leaves out
    /// the last ones if they are very many.
    ///
    /// # Errors
    /// The error of the database.
    pub fn read_ahead_texts(
        &self,
        parts: impl IntoIterator<Item = (LongValueRef, Range<u64>)>,
    ) -> Result<(), Problem> {
        let mut numbers = BTreeSet::new();
        'parts: for (value, range) in parts {
            let end = range.end.min(value.value.chars);
            if range.start >= end {
                continue;
            }
            for piece in range.start / PIECE_CHARS..=(end - 1) / PIECE_CHARS {
                if numbers.len() >= MOST_PIECES {
                    break 'parts;
                }
                let number = value.piece_number(piece)?;
                if self.ahead.borrow().piece(number).is_none() {
                    numbers.insert(number);
                }
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = numbers.into_iter().collect();
        self.snapshot.some_pieces(&numbers, &mut |number, text| {
            self.ahead.borrow_mut().keep_piece(number, text.into());
        })
    }

    /// Asks for the first pieces with some terms at once, and returns them.
    pub(in crate::records) fn read_ahead_first_pieces(
        &self,
        wanted: &[PieceQuery<'_>],
    ) -> Result<Vec<Option<i64>>, Problem> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.snapshot.first_pieces(wanted)?;
        for (query, piece) in wanted.iter().zip(&found) {
            self.ahead.borrow_mut().keep_first_piece(query, *piece);
        }
        Ok(found)
    }

    /// Returns the first piece of a value with a term.
    pub(in crate::records) fn first_piece(
        &self,
        query: PieceQuery<'_>,
    ) -> Result<Option<i64>, Problem> {
        let known = self.ahead.borrow().first_piece(&query);
        match known {
            Some(piece) => Ok(piece),
            None => Ok(self.snapshot.first_pieces(&[query])?.pop().flatten()),
        }
    }

    /// Returns the beginning of a long value, if it was read ahead.
    pub fn beginning_read_ahead(&self, value: LongValueRef) -> Option<Arc<str>> {
        self.ahead.borrow().piece(value.piece_number(0).ok()?)
    }
}
