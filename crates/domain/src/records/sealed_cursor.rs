//! The state of a cursor: where a list, a search, a field or a record's fields continue.
//!
//! The bytes hold the kind of read, a digest of its parameters and its caller, and the position.
//! The store encrypts them, so a client can neither read nor forge a cursor. A cursor grants no
//! access: the store checks the grant of whoever sends one first. All cursors of a kind have the
//! same length, so the length reveals nothing.

use super::aggregator::GroupId;
use super::order::MAX_ORDER_BYTES;
use super::problem::CursorProblem;
use crate::hash::{ContentHash, ContentHasher};

/// The longest prefix of a record key in a cursor. The store looks up the rest of a longer key.
const KEY_BYTES: usize = 96;
const BINDING_BYTES: usize = 16;
const DIGEST_BYTES: usize = 16;

const LIST: u8 = 1;
const WINDOW: u8 = 2;
const SEARCH: u8 = 5;
const FIELDS: u8 = 6;
const BYTES: u8 = 7;
const GROUPS: u8 = 8;

/// What a cursor may be used with: a digest of the kind of read, the caller and every parameter but
/// the size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding([u8; BINDING_BYTES]);

impl Binding {
    /// Digests the parts in order. Different lists of parts have different digests.
    pub fn new<'p>(parts: impl IntoIterator<Item = &'p str>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        Self(prefix(ContentHash::digest(&bytes).as_bytes()))
    }

    /// Takes the binding from the front of `rest`.
    pub(super) fn take(rest: &mut &[u8]) -> Result<Self, CursorProblem> {
        take_array(rest).map(Self)
    }
}

/// The last record of a page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// A digest of the list's order. The position means nothing in another order.
    pub ordering: Binding,
    /// The record's order key; absent if the record has no value to order by.
    pub order: Option<Vec<u8>>,
    /// The database's number of the connection's stream.
    pub stream: i64,
    /// The first 96 bytes of the record's key, or all of a shorter key.
    pub key: Vec<u8>,
    /// Whether `key` is the whole key.
    pub whole_key: bool,
    /// The database's number of the record.
    pub record: i64,
}

/// The unit of a window's positions and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUnit {
    /// Unicode scalar values of a text.
    Chars,
    /// Bytes of a binary field.
    Bytes,
}

impl WindowUnit {
    /// Returns the unit of an unsealed cursor; `None` unless the cursor continues a window.
    pub fn of_cursor(bytes: &[u8]) -> Option<Self> {
        [Self::Chars, Self::Bytes].into_iter().find(|unit| bytes.first() == Some(&unit.kind()))
    }

    fn kind(self) -> u8 {
        match self {
            Self::Chars => WINDOW,
            Self::Bytes => BYTES,
        }
    }
}

/// The start of the next window in one version of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCursor {
    /// The unit of `start` and `limit`.
    pub unit: WindowUnit,
    /// The first 16 bytes of the SHA-256 of the field's content.
    pub digest: [u8; DIGEST_BYTES],
    /// The offset at which the window begins.
    pub start: u64,
    /// The longest window, unless the caller sends another limit.
    pub limit: u64,
}

/// The last hit of a page of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    /// The rank of the hit. `None` if the hits have the order of lists.
    pub rank: Option<SearchRank>,
    /// The position of the hit in a list.
    pub position: ListCursor,
    /// How many records matched when the first page was made. `None` in a cursor of a version that
    /// did not count them.
    pub total: Option<MatchTotal>,
}

/// How many records match a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchTotal {
    /// This number.
    Exactly(u32),
    /// This number, and perhaps more.
    AtLeast(u32),
}

/// The rank of a hit by relevance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRank {
    /// The score of the hit.
    pub score: u64,
    /// The newest record, by the database's number, when the first page was made. A newer one
    /// would push an older one out of those that are ranked.
    pub newest_record: i64,
}

/// The last group of a page of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupsCursor {
    /// The group to continue after.
    pub after: GroupId,
}

impl GroupsCursor {
    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(GROUPS, binding);
        bytes.extend(self.after);
        bytes
    }

    /// Decodes an unsealed cursor of the same aggregation.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, GROUPS, binding)?;
        Ok(Self { after: take_array(&mut rest)? })
    }
}

/// A position between two fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldsCursor {
    /// The number of fields before the position.
    pub before: u64,
    /// The beginning of the digest of those fields' names.
    digest: [u8; DIGEST_BYTES],
}

/// A running count and digest of the names of a record's first fields.
#[derive(Clone, Default)]
pub struct FieldNames {
    count: u64,
    hasher: ContentHasher,
}

impl FieldNames {
    /// Adds the name of the next field.
    pub fn push(&mut self, name: &str) {
        self.count += 1;
        self.hasher.update(&(name.len() as u64).to_be_bytes());
        self.hasher.update(name.as_bytes());
    }

    /// Returns the position after the fields added so far.
    pub fn cursor(&self) -> FieldsCursor {
        FieldsCursor { before: self.count, digest: prefix(self.hasher.clone().finish().as_bytes()) }
    }
}

impl FieldsCursor {
    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(FIELDS, binding);
        bytes.extend(self.before.to_be_bytes());
        bytes.extend(self.digest);
        bytes
    }

    /// Decodes an unsealed cursor of the same fields of the same record.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, FIELDS, binding)?;
        Ok(Self { before: take_u64(&mut rest)?, digest: take_array(&mut rest)? })
    }
}

impl SearchCursor {
    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(SEARCH, binding);
        let rank = self.rank.unwrap_or(SearchRank { score: 0, newest_record: 0 });
        bytes.push(u8::from(self.rank.is_some()));
        bytes.extend(rank.score.to_be_bytes());
        bytes.extend(rank.newest_record.to_be_bytes());
        self.position.put(&mut bytes);
        let (kind, records) = match self.total {
            None => (0, 0),
            Some(MatchTotal::Exactly(records)) => (1, records),
            Some(MatchTotal::AtLeast(records)) => (2, records),
        };
        bytes.push(kind);
        bytes.extend(records.to_be_bytes());
        bytes
    }

    /// Decodes an unsealed cursor of the same search.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, SEARCH, binding)?;
        let [is_ranked] = take_array(&mut rest)?;
        let score = take_u64(&mut rest)?;
        let rank = SearchRank { score, newest_record: take_i64(&mut rest)? };
        let position = ListCursor::take(&mut rest)?;
        // A cursor of a version without totals ends here.
        let total = match rest.split_first() {
            Some((1, mut records)) => {
                Some(MatchTotal::Exactly(u32::from_be_bytes(take_array(&mut records)?)))
            }
            Some((2, mut records)) => {
                Some(MatchTotal::AtLeast(u32::from_be_bytes(take_array(&mut records)?)))
            }
            _ => None,
        };
        Ok(Self { rank: (is_ranked == 1).then_some(rank), position, total })
    }
}

impl ListCursor {
    /// Makes the cursor for a page that ends with this record. Keeps 96 bytes of its key.
    pub fn new(
        ordering: Binding,
        order: Option<Vec<u8>>,
        stream: i64,
        key: &str,
        record: i64,
    ) -> Self {
        let bytes = key.as_bytes();
        let whole_key = bytes.len() <= KEY_BYTES;
        let key = bytes.get(..KEY_BYTES).unwrap_or(bytes).to_vec();
        Self { ordering, order, stream, key, whole_key, record }
    }

    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(LIST, binding);
        self.put(&mut bytes);
        bytes
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.ordering.0);
        let order = self.order.as_deref().unwrap_or_default();
        bytes.push(order.len() as u8);
        put_padded(bytes, order, MAX_ORDER_BYTES);
        bytes.extend(self.stream.to_be_bytes());
        bytes.push(self.key.len() as u8);
        bytes.push(u8::from(self.whole_key));
        put_padded(bytes, &self.key, KEY_BYTES);
        bytes.extend(self.record.to_be_bytes());
    }

    /// Decodes an unsealed cursor of the same list.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        Self::take(&mut strip_header(bytes, LIST, binding)?)
    }

    fn take(rest: &mut &[u8]) -> Result<Self, CursorProblem> {
        let ordering = Binding::take(rest)?;
        let [length] = take_array(rest)?;
        let order = take_padded(rest, usize::from(length), MAX_ORDER_BYTES)?.to_vec();
        let stream = take_i64(rest)?;
        let [key_length, whole_key] = take_array(rest)?;
        let key = take_padded(rest, usize::from(key_length), KEY_BYTES)?.to_vec();
        let record = take_i64(rest)?;
        let order = (length > 0).then_some(order);
        Ok(Self { ordering, order, stream, key, whole_key: whole_key == 1, record })
    }
}

impl WindowCursor {
    /// Makes a cursor for the version of a field whose content has this SHA-256.
    pub fn new(unit: WindowUnit, digest: &[u8; 32], start: u64, limit: u64) -> Self {
        Self { unit, digest: prefix(digest), start, limit }
    }

    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(self.unit.kind(), binding);
        bytes.extend(self.digest);
        bytes.extend(self.start.to_be_bytes());
        bytes.extend(self.limit.to_be_bytes());
        bytes
    }

    /// Decodes an unsealed cursor of the same field, whose content now has this SHA-256.
    ///
    /// # Errors
    /// [`CursorProblem`]; [`CursorProblem::Stale`] if the content had another digest.
    pub fn decode(
        bytes: &[u8],
        unit: WindowUnit,
        binding: Binding,
        digest: &[u8; 32],
    ) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, unit.kind(), binding)?;
        let was: [u8; DIGEST_BYTES] = take_array(&mut rest)?;
        if was != prefix(digest) {
            return Err(CursorProblem::Stale);
        }
        Ok(Self { unit, digest: was, start: take_u64(&mut rest)?, limit: take_u64(&mut rest)? })
    }
}

/// Begins the bytes of a cursor: its kind and its binding.
pub(super) fn header(kind: u8, binding: Binding) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(binding.0);
    bytes
}

/// Returns what follows the header; refuses another kind or another binding.
pub(super) fn strip_header(
    bytes: &[u8],
    kind: u8,
    binding: Binding,
) -> Result<&[u8], CursorProblem> {
    let (head, rest) = bytes.split_at_checked(1 + BINDING_BYTES).ok_or(CursorProblem::Malformed)?;
    match head.split_first() {
        Some((found, digest)) if *found == kind && digest == binding.0 => Ok(rest),
        _ => Err(CursorProblem::Mismatch),
    }
}

pub(super) fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], CursorProblem> {
    let (taken, after) = rest.split_at_checked(length).ok_or(CursorProblem::Malformed)?;
    *rest = after;
    Ok(taken)
}

pub(super) fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], CursorProblem> {
    take(rest, N)?.try_into().map_err(|_| CursorProblem::Malformed)
}

pub(super) fn take_i64(rest: &mut &[u8]) -> Result<i64, CursorProblem> {
    take_array(rest).map(i64::from_be_bytes)
}

/// Takes a number of at most 63 bits.
pub(super) fn take_u64(rest: &mut &[u8]) -> Result<u64, CursorProblem> {
    u64::try_from(take_i64(rest)?).map_err(|_| CursorProblem::Malformed)
}

/// Appends a part, filled up with zeros to a fixed size.
pub(super) fn put_padded(bytes: &mut Vec<u8>, part: &[u8], size: usize) {
    bytes.extend(part);
    bytes.extend(std::iter::repeat_n(0, size.saturating_sub(part.len())));
}

/// Takes a part of `length` bytes and the padding that fills it up to `size`.
pub(super) fn take_padded<'a>(
    rest: &mut &'a [u8],
    length: usize,
    size: usize,
) -> Result<&'a [u8], CursorProblem> {
    take(rest, size)?.get(..length).ok_or(CursorProblem::Malformed)
}

fn prefix<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    let mut prefix = [0; N];
    prefix.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_position_between_fields_counts_the_fields_before_it() {
        let mut names = FieldNames::default();
        for (before, name) in ["id", "", "text"].into_iter().enumerate() {
            assert_eq!(names.cursor().before, before as u64);
            names.push(name);
        }
        assert_eq!(names.cursor().before, 3);
    }

    proptest! {
        #[test]
        fn a_cursor_is_decoded_for_the_same_read_only(
            order in proptest::option::of(vec(any::<u8>(), 1..=MAX_ORDER_BYTES)),
            key in "\\PC{1,170}", stream in any::<i64>(), record in any::<i64>(),
            digest in any::<[u8; 32]>(), start in 0..u64::MAX / 2,
        ) {
            let (binding, other) = (Binding::new(["a", "bc"]), Binding::new(["ab", "c"]));
            let cursor = ListCursor::new(other, order, stream, &key, record);
            let bytes = cursor.encode(binding);
            prop_assert_eq!(
                bytes.len(),
                1 + 16 + 16 + 1 + 64 + 8 + 1 + 1 + 96 + 8,
                "all have one length",
            );
            prop_assert_eq!(ListCursor::decode(&bytes, binding), Ok(cursor.clone()));
            prop_assert_eq!(ListCursor::decode(&bytes, other), Err(CursorProblem::Mismatch));
            let position = cursor;

            let mut changed = digest;
            changed[0] ^= 1;
            let (chars, bytes_unit) = (WindowUnit::Chars, WindowUnit::Bytes);
            for (unit, elsewhere) in [(chars, bytes_unit), (bytes_unit, chars)] {
                let cursor = WindowCursor::new(unit, &digest, start, start / 3);
                let window = cursor.encode(binding);
                prop_assert_eq!(WindowCursor::decode(&window, unit, binding, &digest), Ok(cursor));
                prop_assert_eq!(
                    WindowCursor::decode(&window, unit, other, &digest),
                    Err(CursorProblem::Mismatch),
                );
                prop_assert_eq!(
                    WindowCursor::decode(&window, elsewhere, binding, &digest),
                    Err(CursorProblem::Mismatch),
                );
                prop_assert_eq!(
                    WindowCursor::decode(&bytes, unit, binding, &digest),
                    Err(CursorProblem::Mismatch),
                );
                prop_assert_eq!(
                    WindowCursor::decode(&window, unit, binding, &changed),
                    Err(CursorProblem::Stale),
                );
                prop_assert_eq!(
                    (WindowUnit::of_cursor(&window), WindowUnit::of_cursor(&bytes)),
                    (Some(unit), None),
                );
            }

            let rank = SearchRank { score: start, newest_record: record };
            let total = Some(MatchTotal::AtLeast(start as u32));
            let cursor = SearchCursor { rank: Some(rank), position, total };
            let total = Some(MatchTotal::Exactly(start as u32));
            let in_order = SearchCursor { rank: None, total, ..cursor.clone() };
            let search = in_order.encode(binding);
            let before_totals = &search[..search.len() - 5];
            let without = SearchCursor { total: None, ..in_order.clone() };
            prop_assert_eq!(SearchCursor::decode(before_totals, binding), Ok(without));
            prop_assert_eq!(SearchCursor::decode(&search, binding), Ok(in_order));
            let ranked = cursor.encode(binding);
            prop_assert_eq!(ranked.len(), search.len(), "both orders have one length");
            prop_assert_eq!(SearchCursor::decode(&ranked, binding), Ok(cursor));
            prop_assert_eq!(SearchCursor::decode(&search, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(SearchCursor::decode(&bytes, binding), Err(CursorProblem::Mismatch));
            prop_assert_eq!(ListCursor::decode(&search, binding), Err(CursorProblem::Mismatch));

            let cursor = GroupsCursor { after: binding.0 };
            let groups = cursor.encode(binding);
            prop_assert_eq!(GroupsCursor::decode(&groups, binding), Ok(cursor));
            prop_assert_eq!(GroupsCursor::decode(&groups, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(GroupsCursor::decode(&search, binding), Err(CursorProblem::Mismatch));

            let mut names = FieldNames::default();
            names.push(&key);
            let cursor = names.cursor();
            let fields = cursor.encode(binding);
            prop_assert_eq!(fields.len(), 1 + 16 + 8 + 16, "all have one length");
            prop_assert_eq!(FieldsCursor::decode(&fields, binding), Ok(cursor));
            prop_assert_eq!(FieldsCursor::decode(&fields, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(FieldsCursor::decode(&search, binding), Err(CursorProblem::Mismatch));
        }

        #[test]
        fn other_field_names_give_another_cursor(
            names in vec("[ab]{0,3}", 0..4),
            others in vec("[ab]{0,3}", 0..4),
        ) {
            let cursor = |names: &[String]| {
                let mut all = FieldNames::default();
                names.iter().for_each(|name| all.push(name));
                all.cursor()
            };
            prop_assert_eq!(cursor(&names) == cursor(&others), names == others);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(
            bytes in vec(any::<u8>(), 0..250),
        ) {
            let binding = Binding::new([""]);
            prop_assert!(ListCursor::decode(&bytes, binding).is_err());
            prop_assert!(FieldsCursor::decode(&bytes, binding).is_err());
        }
    }
}
