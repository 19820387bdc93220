//! How a list or a field goes on exactly where it stopped.
//!
//! What is sealed here travels through a client and comes back: the kind of read, a digest of
//! everything that the read was asked with and of who asked, and the place. A store encrypts it, so
//! a client can neither read nor make one, and it gives no authority: whoever sends it is asked for
//! their grant first. All of a kind have one length, so that a length says nothing.

use super::order::MAX_ORDER_BYTES;
use super::problem::CursorProblem;
use crate::hash::{ContentHash, ContentHasher};

/// How much of a record key is in a cursor; of a longer one the rest is looked up.
const KEY_BYTES: usize = 96;
const BINDING_BYTES: usize = 16;
const DIGEST_BYTES: usize = 16;

const LIST: u8 = 1;
const WINDOW: u8 = 2;
const SEARCH: u8 = 5;
const FIELDS: u8 = 6;
const BYTES: u8 = 7;

/// What a cursor may be used with: a digest of the kind of read, the caller and every parameter but
/// the size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding([u8; BINDING_BYTES]);

impl Binding {
    /// The digest of these parts, in order. No two lists of parts have the same.
    pub fn new<'p>(parts: impl IntoIterator<Item = &'p str>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        Self(first(ContentHash::digest(&bytes).as_bytes()))
    }

    /// Takes the binding that stands at the beginning of some bytes.
    pub(super) fn split(bytes: &[u8]) -> Result<(Self, &[u8]), CursorProblem> {
        let mut rest = bytes;
        let digest =
            take(&mut rest, BINDING_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        Ok((Self(digest), rest))
    }
}

/// The last record of a page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// A digest of what the list was ordered by. A place in another order is none.
    pub ordering: Binding,
    /// Its place in the order, if it has one.
    pub order: Option<Vec<u8>>,
    /// The number of its connection's stream.
    pub stream: i64,
    /// The beginning of its key, all of it if it has no more than 96 bytes.
    pub key: Vec<u8>,
    /// Whether that is all of the key.
    pub whole_key: bool,
    /// Its number.
    pub record: i64,
}

/// What a window is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUnit {
    /// Unicode scalar values of a text.
    Chars,
    /// Bytes of what is binary.
    Bytes,
}

impl WindowUnit {
    /// The one of the windows that what was sealed goes on with, if it does with any.
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

/// A place in one version of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCursor {
    /// What it is counted in.
    pub unit: WindowUnit,
    /// The beginning of the field's digest.
    pub digest: [u8; DIGEST_BYTES],
    /// Where the window begins.
    pub start: u64,
    /// How much it has at most, unless the caller says so anew.
    pub limit: u64,
}

/// The last hit of a page of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    /// Its number.
    pub record: i64,
}

/// A place between two fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldsCursor {
    /// How many fields are before it.
    pub before: u64,
    /// The beginning of the digest of their names.
    digest: [u8; DIGEST_BYTES],
}

/// The names of a record's first fields, of which only their number and digest is kept.
#[derive(Clone, Default)]
pub struct FieldNames {
    count: u64,
    hasher: ContentHasher,
}

impl FieldNames {
    /// Adds the next one.
    pub fn push(&mut self, name: &str) {
        self.count += 1;
        self.hasher.update(&(name.len() as u64).to_be_bytes());
        self.hasher.update(name.as_bytes());
    }

    /// The place behind them.
    pub fn cursor(&self) -> FieldsCursor {
        FieldsCursor { before: self.count, digest: first(self.hasher.clone().finish().as_bytes()) }
    }
}

impl FieldsCursor {
    /// The bytes to be sealed.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = bind(FIELDS, binding);
        bytes.extend(self.before.to_be_bytes());
        bytes.extend(self.digest);
        bytes
    }

    /// Reads what was sealed, for the same fields of the same record.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = bound(bytes, FIELDS, binding)?;
        let before = u64::try_from(number(&mut rest)?).map_err(|_| CursorProblem::Malformed)?;
        let digest =
            take(&mut rest, DIGEST_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        Ok(Self { before, digest })
    }
}

impl SearchCursor {
    /// The bytes to be sealed.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = vec![SEARCH];
        bytes.extend(binding.0);
        bytes.extend(self.record.to_be_bytes());
        bytes
    }

    /// Reads what was sealed, for the same search.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = bound(bytes, SEARCH, binding)?;
        Ok(Self { record: number(&mut rest)? })
    }
}

impl ListCursor {
    /// The place of a record.
    pub fn new(
        ordering: Binding,
        order: Option<Vec<u8>>,
        stream: i64,
        key: &str,
        record: i64,
    ) -> Self {
        let bytes = key.as_bytes();
        let whole_key = bytes.len() <= KEY_BYTES;
        Self {
            ordering,
            order,
            stream,
            key: bytes.get(..KEY_BYTES).unwrap_or(bytes).to_vec(),
            whole_key,
            record,
        }
    }

    /// The bytes to be sealed.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = vec![LIST];
        bytes.extend(binding.0);
        bytes.extend(self.ordering.0);
        let order = self.order.as_deref();
        bytes.push(order.map_or(0, |order| order.len() as u8));
        padded(&mut bytes, order.unwrap_or_default(), MAX_ORDER_BYTES);
        bytes.extend(self.stream.to_be_bytes());
        bytes.push(self.key.len() as u8);
        bytes.push(u8::from(self.whole_key));
        padded(&mut bytes, &self.key, KEY_BYTES);
        bytes.extend(self.record.to_be_bytes());
        bytes
    }

    /// Reads what was sealed, for the same read.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = bound(bytes, LIST, binding)?;
        let ordering =
            take(&mut rest, BINDING_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        let length = usize::from(*take(&mut rest, 1)?.first().ok_or(CursorProblem::Malformed)?);
        let order = take(&mut rest, MAX_ORDER_BYTES)?
            .get(..length)
            .ok_or(CursorProblem::Malformed)?
            .to_vec();
        let stream = number(&mut rest)?;
        let key_length = usize::from(*take(&mut rest, 1)?.first().ok_or(CursorProblem::Malformed)?);
        let whole_key = take(&mut rest, 1)? == [1];
        let key =
            take(&mut rest, KEY_BYTES)?.get(..key_length).ok_or(CursorProblem::Malformed)?.to_vec();
        let record = number(&mut rest)?;
        Ok(Self {
            ordering: Binding(ordering),
            order: (length > 0).then_some(order),
            stream,
            key,
            whole_key,
            record,
        })
    }
}

impl WindowCursor {
    /// A place in the version of a field that has this digest.
    pub fn new(unit: WindowUnit, digest: &[u8; 32], start: u64, limit: u64) -> Self {
        Self { unit, digest: first(digest), start, limit }
    }

    /// The bytes to be sealed.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = bind(self.unit.kind(), binding);
        bytes.extend(self.digest);
        bytes.extend(self.start.to_be_bytes());
        bytes.extend(self.limit.to_be_bytes());
        bytes
    }

    /// Reads what was sealed, for the same field of the same digest.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(
        bytes: &[u8],
        unit: WindowUnit,
        binding: Binding,
        digest: &[u8; 32],
    ) -> Result<Self, CursorProblem> {
        let mut rest = bound(bytes, unit.kind(), binding)?;
        let was: [u8; DIGEST_BYTES] =
            take(&mut rest, DIGEST_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        if was != first(digest) {
            return Err(CursorProblem::Stale);
        }
        let mut length = || u64::try_from(number(&mut rest)?).map_err(|_| CursorProblem::Malformed);
        Ok(Self { unit, digest: was, start: length()?, limit: length()? })
    }
}

/// The beginning of what is sealed.
pub(super) fn bind(kind: u8, binding: Binding) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(binding.0);
    bytes
}

pub(super) fn bound(bytes: &[u8], kind: u8, binding: Binding) -> Result<&[u8], CursorProblem> {
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

pub(super) fn number(rest: &mut &[u8]) -> Result<i64, CursorProblem> {
    take(rest, 8)?.try_into().map(i64::from_be_bytes).map_err(|_| CursorProblem::Malformed)
}

pub(super) fn padded(bytes: &mut Vec<u8>, part: &[u8], length: usize) {
    bytes.extend(part);
    bytes.extend(std::iter::repeat_n(0, length.saturating_sub(part.len())));
}

fn first<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    let mut first = [0; N];
    first.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_comes_back_for_the_same_read_and_no_other(
            order in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..=MAX_ORDER_BYTES)),
            key in "\\PC{1,170}", stream in any::<i64>(), record in any::<i64>(),
            digest in any::<[u8; 32]>(), start in 0..u64::MAX / 2,
        ) {
            let (binding, other) = (Binding::new(["a", "bc"]), Binding::new(["ab", "c"]));
            let place = ListCursor::new(other, order, stream, &key, record);
            let bytes = place.encode(binding);
            prop_assert_eq!(bytes.len(), 1 + 16 + 16 + 1 + 64 + 8 + 1 + 1 + 96 + 8, "all have one length");
            prop_assert_eq!(ListCursor::decode(&bytes, binding), Ok(place));
            prop_assert_eq!(ListCursor::decode(&bytes, other), Err(CursorProblem::Mismatch));

            let mut changed = digest;
            changed[0] ^= 1;
            for (unit, elsewhere) in [(WindowUnit::Chars, WindowUnit::Bytes), (WindowUnit::Bytes, WindowUnit::Chars)] {
                let place = WindowCursor::new(unit, &digest, start, start / 3);
                let window = place.encode(binding);
                prop_assert_eq!(WindowCursor::decode(&window, unit, binding, &digest), Ok(place));
                prop_assert_eq!(WindowCursor::decode(&window, unit, other, &digest), Err(CursorProblem::Mismatch));
                prop_assert_eq!(WindowCursor::decode(&window, elsewhere, binding, &digest), Err(CursorProblem::Mismatch));
                prop_assert_eq!(WindowCursor::decode(&bytes, unit, binding, &digest), Err(CursorProblem::Mismatch));
                prop_assert_eq!(WindowCursor::decode(&window, unit, binding, &changed), Err(CursorProblem::Stale));
                prop_assert_eq!((WindowUnit::of_cursor(&window), WindowUnit::of_cursor(&bytes)), (Some(unit), None));
            }

            let place = SearchCursor { record };
            let search = place.encode(binding);
            prop_assert_eq!(SearchCursor::decode(&search, binding), Ok(place));
            prop_assert_eq!(SearchCursor::decode(&search, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(SearchCursor::decode(&bytes, binding), Err(CursorProblem::Mismatch));
            prop_assert_eq!(ListCursor::decode(&search, binding), Err(CursorProblem::Mismatch));

            let mut names = FieldNames::default();
            names.push(&key);
            let place = names.cursor();
            let fields = place.encode(binding);
            prop_assert_eq!(fields.len(), 1 + 16 + 8 + 16, "all have one length");
            prop_assert_eq!(FieldsCursor::decode(&fields, binding), Ok(place));
            prop_assert_eq!(FieldsCursor::decode(&fields, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(FieldsCursor::decode(&search, binding), Err(CursorProblem::Mismatch));
        }

        #[test]
        fn other_names_are_another_place(names in proptest::collection::vec("[ab]{0,3}", 0..4), others in proptest::collection::vec("[ab]{0,3}", 0..4)) {
            let place = |names: &[String]| {
                let mut all = FieldNames::default();
                names.iter().for_each(|name| all.push(name));
                all.cursor()
            };
            prop_assert_eq!(place(&names) == place(&others), names == others);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..250)) {
            let binding = Binding::new([""]);
            prop_assert!(ListCursor::decode(&bytes, binding).is_err());
            prop_assert!(FieldsCursor::decode(&bytes, binding).is_err());
        }
    }
}
