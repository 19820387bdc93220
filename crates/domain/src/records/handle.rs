//! The state behind an address: which record, or which part of which field, a resource stands for.
//!
//! A handle travels through a client and comes back, like a cursor, and like one it is sealed: a
//! client can neither read, make nor change one. It gives no authority: whoever sends it asks with
//! their own grant for what it names, and only where that is allowed is it looked at whether the
//! handle was made for them and is of the text as it is now.

use super::problem::CursorProblem;
use super::sealed_cursor::{Binding, bind, bound, number, take};

const RECORD: u8 = 64;
const WINDOW: u8 = 65;
const BYTES: u8 = 66;
const OFFSET: u8 = 67;
const LISTED: u8 = 68;
const DIGEST_BYTES: usize = 16;
/// What is sealed is filled up to a multiple of this, so that its length says little.
const GRADE: usize = 64;

/// What a handle stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// For whom it was made.
    pub caller: Binding,
    /// The connection.
    pub connection: String,
    /// The stream.
    pub stream: String,
    /// The record's key.
    pub key: String,
    /// Which part of it.
    pub part: RecordPart,
}

/// What an address is of, by its URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// A record, or a page of its fields.
    Record,
    /// A part of one field.
    Field,
}

/// Which part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPart {
    /// Its fields, from the beginning or from where a cursor goes on.
    Fields {
        /// The cursor.
        cursor: Option<String>,
    },
    /// Some characters of a field.
    Window(FieldRange),
    /// Some bytes of a binary field.
    Bytes {
        /// Which.
        extent: FieldRange,
        /// The resource server's cursor to them, which is bound to the bytes as they were; the
        /// first bytes have none.
        cursor: Option<String>,
    },
}

/// A part of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRange {
    /// The field.
    pub field: String,
    /// The beginning of the digest of its content, where it is known.
    pub digest: Option<[u8; DIGEST_BYTES]>,
    /// Where it begins.
    pub start: u64,
    /// How much it has at most.
    pub limit: u64,
}

/// The beginning of a digest, from what `digest` of an answer says, where that is a SHA-256.
/// Another server's digest of another kind cannot be compared with those that are made here.
pub fn parse_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let hex = text.strip_prefix("sha256:")?.get(..2 * DIGEST_BYTES)?;
    let mut digest = [0; DIGEST_BYTES];
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

impl Handle {
    /// The bytes to be sealed.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match &self.part {
            RecordPart::Fields { .. } => RECORD,
            RecordPart::Window(_) => WINDOW,
            RecordPart::Bytes { .. } => BYTES,
        };
        let mut bytes = bind(kind, self.caller);
        for part in [&self.connection, &self.stream, &self.key] {
            put_text(&mut bytes, part);
        }
        match &self.part {
            RecordPart::Fields { cursor } => {
                bytes.push(u8::from(cursor.is_some()));
                put_text(&mut bytes, cursor.as_deref().unwrap_or_default());
            }
            RecordPart::Window(extent) | RecordPart::Bytes { extent, .. } => {
                put_text(&mut bytes, &extent.field);
                bytes.push(u8::from(extent.digest.is_some()));
                bytes.extend(extent.digest.unwrap_or_default());
                bytes.extend(extent.start.to_be_bytes());
                bytes.extend(extent.limit.to_be_bytes());
            }
        }
        if let RecordPart::Bytes { cursor, .. } = &self.part {
            bytes.push(u8::from(cursor.is_some()));
            put_text(&mut bytes, cursor.as_deref().unwrap_or_default());
        }
        bytes.resize(bytes.len().next_multiple_of(GRADE), 0);
        bytes
    }

    /// Reads what was sealed. For whom it was made is looked at later, see [`Handle::check`].
    ///
    /// # Errors
    /// [`CursorProblem`]; a handle of another kind is a [`CursorProblem::Mismatch`].
    pub fn decode(bytes: &[u8], expected: HandleKind) -> Result<Self, CursorProblem> {
        let kind = *bytes.first().ok_or(CursorProblem::Malformed)?;
        if (kind == RECORD) != (expected == HandleKind::Record)
            || !matches!(kind, RECORD | WINDOW | BYTES)
        {
            return Err(CursorProblem::Mismatch);
        }
        let (caller, mut rest) = Binding::split(bytes.get(1..).unwrap_or_default())?;
        let mut text = || take_text(&mut rest);
        let (connection, stream, key) = (text()?, text()?, text()?);
        let part = if kind == RECORD {
            let has_cursor = take(&mut rest, 1)? == [1];
            let cursor = take_text(&mut rest)?;
            RecordPart::Fields { cursor: has_cursor.then_some(cursor) }
        } else {
            let field = take_text(&mut rest)?;
            let has_digest = take(&mut rest, 1)? == [1];
            let digest =
                take(&mut rest, DIGEST_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
            let mut length =
                || u64::try_from(number(&mut rest)?).map_err(|_| CursorProblem::Malformed);
            let extent = FieldRange {
                field,
                digest: has_digest.then_some(digest),
                start: length()?,
                limit: length()?,
            };
            if kind == WINDOW {
                RecordPart::Window(extent)
            } else {
                let has_cursor = take(&mut rest, 1)? == [1];
                let cursor = take_text(&mut rest)?;
                RecordPart::Bytes { extent, cursor: has_cursor.then_some(cursor) }
            }
        };
        Ok(Self { caller, connection, stream, key, part })
    }

    /// Whether it was made for this caller and, where it is of a field, for the content that the
    /// field has now.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`] or [`CursorProblem::Stale`].
    pub fn check(
        &self,
        caller: Binding,
        digest: Option<[u8; DIGEST_BYTES]>,
    ) -> Result<(), CursorProblem> {
        if self.caller != caller {
            return Err(CursorProblem::Mismatch);
        }
        match &self.part {
            RecordPart::Window(FieldRange { digest: Some(was), .. })
            | RecordPart::Bytes { extent: FieldRange { digest: Some(was), .. }, .. }
                if digest.is_some_and(|now| now != *was) =>
            {
                Err(CursorProblem::Stale)
            }
            _ => Ok(()),
        }
    }
}

/// What is known of a field's content, by which another content is told from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentVersion {
    /// The beginning of its digest.
    pub digest: Option<[u8; DIGEST_BYTES]>,
    /// Its size in scalar values.
    pub size: Option<u64>,
}

impl ContentVersion {
    /// Whether the two are certainly of different contents: by their digests, or where one has
    /// none, by their sizes.
    pub fn differs(&self, other: &Self) -> bool {
        match (self.digest.zip(other.digest), self.size.zip(other.size)) {
            (Some((one, two)), _) => one != two,
            (None, Some((one, two))) => one != two,
            (None, None) => false,
        }
    }
}

/// A place in a field, for where the server has no cursor that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetCursor {
    /// Where the window begins.
    pub start: u64,
    /// How much it has at most.
    pub limit: u64,
    /// The content that it is a place in.
    pub version: ContentVersion,
}

impl OffsetCursor {
    /// The bytes to be sealed.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = bind(OFFSET, binding);
        bytes.extend(self.start.to_be_bytes());
        bytes.extend(self.limit.to_be_bytes());
        let ContentVersion { digest, size } = self.version;
        bytes.push(u8::from(digest.is_some()));
        bytes.extend(digest.unwrap_or_default());
        bytes.push(u8::from(size.is_some()));
        bytes.extend(size.unwrap_or_default().to_be_bytes());
        bytes
    }

    /// Reads what was sealed, for the same field; none where it is a cursor of another kind.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`] where it is of another field.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Option<Self>, CursorProblem> {
        if bytes.first() != Some(&OFFSET) {
            return Ok(None);
        }
        let mut rest = bound(bytes, OFFSET, binding)?;
        let length =
            |rest: &mut &[u8]| u64::try_from(number(rest)?).map_err(|_| CursorProblem::Malformed);
        let (start, limit) = (length(&mut rest)?, length(&mut rest)?);
        let has_digest = take(&mut rest, 1)? == [1];
        let digest =
            take(&mut rest, DIGEST_BYTES)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        let has_size = take(&mut rest, 1)? == [1];
        let size = length(&mut rest)?;
        let version =
            ContentVersion { digest: has_digest.then_some(digest), size: has_size.then_some(size) };
        Ok(Some(Self { start, limit, version }))
    }
}

/// A place in a list that is made anew for each answer: how many of its items were told, of which
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipCursor {
    /// How many items come before it.
    pub skip: u64,
}

impl SkipCursor {
    /// The bytes to be sealed. `binding` is of the list itself, so that one that has changed is not
    /// gone on with.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = bind(LISTED, binding);
        bytes.extend(self.skip.to_be_bytes());
        bytes
    }

    /// Whether this is a place in such a list, of whichever, and no cursor of another kind.
    pub fn is_kind_of(bytes: &[u8]) -> bool {
        bytes.first() == Some(&LISTED)
    }

    /// Reads what was sealed, for the same list.
    ///
    /// # Errors
    /// [`CursorProblem`]; a list that has changed is [`CursorProblem::Mismatch`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = bound(bytes, LISTED, binding)?;
        Ok(Self { skip: u64::try_from(number(&mut rest)?).map_err(|_| CursorProblem::Malformed)? })
    }
}

/// A text of any length: a server of another make may have cursors of any.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn take_text(rest: &mut &[u8]) -> Result<String, CursorProblem> {
    let length = usize::try_from(number(rest)?).map_err(|_| CursorProblem::Malformed)?;
    let text = take(rest, length)?;
    str::from_utf8(text).map(str::to_owned).map_err(|_| CursorProblem::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent() -> impl Strategy<Value = FieldRange> {
        let digest = proptest::option::of(any::<[u8; 16]>());
        ("\\PC{1,40}", digest, 0..u64::MAX / 2, 0..u64::MAX / 2)
            .prop_map(|(field, digest, start, limit)| FieldRange { field, digest, start, limit })
    }

    fn part() -> impl Strategy<Value = RecordPart> {
        prop_oneof![
            proptest::option::of("[a-z]{0,50}").prop_map(|cursor| RecordPart::Fields { cursor }),
            extent().prop_map(RecordPart::Window),
            (extent(), proptest::option::of("[a-z]{0,50}"))
                .prop_map(|(extent, cursor)| RecordPart::Bytes { extent, cursor }),
        ]
    }

    proptest! {
        #[test]
        fn a_handle_comes_back(
            connection in "[a-z]{1,9}", stream in "[a-z]{1,9}", key in "(?s).{1,99}", part in part(), other in any::<[u8; 16]>(),
        ) {
            let (caller, nobody) = (Binding::new(["a"]), Binding::new(["b"]));
            let handle = Handle { caller, connection, stream, key, part };
            let bytes = handle.encode();
            prop_assert_eq!(bytes.len() % GRADE, 0);
            let (kind, wrong) = match handle.part {
                RecordPart::Fields { .. } => (HandleKind::Record, HandleKind::Field),
                _ => (HandleKind::Field, HandleKind::Record),
            };
            prop_assert_eq!(Handle::decode(&bytes, kind), Ok(handle.clone()));
            prop_assert_eq!(Handle::decode(&bytes, wrong), Err(CursorProblem::Mismatch));
            prop_assert_eq!(handle.check(nobody, None), Err(CursorProblem::Mismatch));
            prop_assert_eq!(handle.check(caller, None), Ok(()));
            if let RecordPart::Window(extent) | RecordPart::Bytes { extent, .. } = &handle.part && let Some(digest) = extent.digest {
                prop_assert_eq!(handle.check(caller, Some(digest)), Ok(()));
                prop_assert_eq!(handle.check(caller, Some(other)), Err(CursorProblem::Stale));
            }
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), is_record in any::<bool>()) {
            let kind = if is_record { HandleKind::Record } else { HandleKind::Field };
            let _ = Handle::decode(&bytes, kind);
            prop_assert!(OffsetCursor::decode(&bytes, Binding::new(["x"])).is_ok_and(|place| place.is_none()) || bytes.first() == Some(&OFFSET));
            prop_assert!(SkipCursor::decode(&bytes, Binding::new(["x"])).is_err());
        }

        #[test]
        fn places_come_back_for_the_same_list_and_no_other(
            start in 0..u64::MAX / 2, limit in 0..u64::MAX / 2, digest in proptest::option::of(any::<[u8; 16]>()),
            size in proptest::option::of(0..u64::MAX / 2),
        ) {
            let (own, other) = (Binding::new(["a"]), Binding::new(["b"]));
            let place = OffsetCursor { start, limit, version: ContentVersion { digest, size } };
            let bytes = place.encode(own);
            prop_assert_eq!(OffsetCursor::decode(&bytes, own), Ok(Some(place)));
            prop_assert_eq!(OffsetCursor::decode(&bytes, other), Err(CursorProblem::Mismatch));
            let listed = SkipCursor { skip: start }.encode(own);
            prop_assert_eq!(SkipCursor::decode(&listed, own), Ok(SkipCursor { skip: start }));
            prop_assert_eq!(SkipCursor::decode(&bytes, own), Err(CursorProblem::Mismatch));
            prop_assert_eq!(OffsetCursor::decode(&listed, own), Ok(None));
            prop_assert!(SkipCursor::is_kind_of(&listed) && !SkipCursor::is_kind_of(&bytes));
        }
    }

    #[test]
    fn no_text_is_shortened() {
        for length in [0, 65_535, 65_536, 200_000] {
            let part = RecordPart::Fields { cursor: Some("c".repeat(length)) };
            let (connection, stream, key) = (String::new(), "s".to_owned(), "é".repeat(length));
            let handle = Handle { caller: Binding::new(["a"]), connection, stream, key, part };
            assert_eq!(Handle::decode(&handle.encode(), HandleKind::Record), Ok(handle));
        }
    }

    #[test]
    fn contents_differ_by_digest_or_else_by_size() {
        let version = |digest: Option<u8>, size| ContentVersion {
            digest: digest.map(|byte| [byte; DIGEST_BYTES]),
            size,
        };
        for (one, two, differs) in [
            (version(Some(1), Some(9)), version(Some(2), Some(9)), true),
            (version(Some(1), Some(9)), version(Some(1), Some(8)), false),
            (version(None, Some(9)), version(Some(1), Some(8)), true),
            (version(None, Some(9)), version(Some(1), Some(9)), false),
            (version(None, None), version(Some(1), Some(9)), false),
        ] {
            assert_eq!(
                (one.differs(&two), two.differs(&one)),
                (differs, differs),
                "{one:?} {two:?}"
            );
        }
    }

    #[test]
    fn digests_are_read_as_they_are_told() {
        let hex = "00ff".repeat(16);
        assert_eq!(parse_digest(&format!("sha256:{hex}")).unwrap()[..2], [0, 255]);
        for bad in [
            "",
            "sha256:",
            "sha256:00",
            &hex,
            &format!("md5:{hex}"),
            &"zz".repeat(32),
            &"é".repeat(32),
        ] {
            assert_eq!(parse_digest(bad), None, "{bad}");
        }
    }
}
