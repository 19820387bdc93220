//! A record that a search found, and how far its texts are looked through.

use stile_domain::records::pieces::CharRange;
use stile_domain::records::sealed_cursor::SearchRank;

use super::super::model::RecordRow;
use super::super::view::LoadedRecord;

/// The maximum number of pieces of a text that is cut into tokens from its beginning.
pub(super) const SHORT_PIECES: u64 = 4;
/// The maximum number of pieces of a text that is searched for a prefix from its beginning.
pub(super) const PREFIX_PIECES: u64 = 64;
/// The maximum number of places of a hit, unless more fields match.
pub(super) const MAX_PLACES: usize = 3;
/// The maximum number of characters of a field that are shown around a place.
pub const EXCERPT_CHARS: u64 = 320;
/// The maximum number of these characters that come before the place.
pub const EXCERPT_BEFORE: u64 = 80;

/// A record in which all terms occur.
#[derive(Debug)]
pub struct RecordHit {
    /// The record without its fields.
    pub row: RecordRow,
    /// The fields that the caller may see.
    pub fields: LoadedRecord,
    /// The best place of each field in which a term occurs, in the record's order. Then later
    /// places in these fields, if there are fewer than three fields.
    pub matches: Vec<FieldMatch>,
    /// The rank by relevance. `None` if the hits have the order of lists.
    pub rank: Option<SearchRank>,
}

/// A place in a field in which terms occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// The name of the field.
    pub field: String,
    /// Where the place begins. The first place of a field holds the most terms of all places that
    /// were looked at. `None` if the text has such a long word that cutting could not begin near
    /// the occurrence.
    pub position: Option<CharRange>,
    /// The number of different terms at that place.
    pub terms: usize,
}
