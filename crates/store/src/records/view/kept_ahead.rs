//! The bodies of records and the pieces of long values that a view has read ahead.

use std::collections::HashMap;
use std::sync::Arc;

use stile_domain::records::tokenizer::SearchTerm;

use crate::records::port::PieceQuery;

/// The bytes of records and of pieces that are kept. More are read ahead only after these are
/// forgotten.
const MOST_BYTES: usize = 8 << 20;

/// What was read ahead.
#[derive(Default)]
pub(super) struct ReadAhead {
    bodies: HashMap<i64, Arc<[u8]>>,
    pieces: HashMap<i64, Arc<str>>,
    /// The first pieces with a term, by the term, the tag of its field, and the first of all.
    first_pieces: HashMap<(SearchTerm, i64, i64), Option<i64>>,
    bytes: usize,
}

impl ReadAhead {
    pub(super) fn body(&self, record: i64) -> Option<Arc<[u8]>> {
        self.bodies.get(&record).cloned()
    }

    pub(super) fn piece(&self, number: i64) -> Option<Arc<str>> {
        self.pieces.get(&number).cloned()
    }

    /// Returns the answer to a question that was asked ahead.
    pub(super) fn first_piece(&self, query: &PieceQuery<'_>) -> Option<Option<i64>> {
        // Few are asked ahead, and only of long texts.
        if self.first_pieces.is_empty() {
            return None;
        }
        self.first_pieces.get(&(query.term.clone(), query.tag, query.first)).copied()
    }

    pub(super) fn keep_first_piece(&mut self, query: &PieceQuery<'_>, piece: Option<i64>) {
        self.first_pieces.insert((query.term.clone(), query.tag, query.first), piece);
    }

    pub(super) fn keep_body(&mut self, record: i64, body: Arc<[u8]>) {
        self.bytes += body.len();
        self.bodies.insert(record, body);
    }

    pub(super) fn keep_piece(&mut self, number: i64, text: Arc<str>) {
        self.bytes += text.len();
        self.pieces.insert(number, text);
    }

    /// Forgets everything if it is much.
    pub(super) fn make_room(&mut self) {
        if self.bytes > MOST_BYTES {
            *self = Self::default();
        }
    }
}
