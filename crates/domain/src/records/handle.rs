//! The state of a resource address: the record, or the part of a field, that the address names.
//!
//! The bytes of a handle are sealed like those of a cursor, so a client can neither read, forge nor
//! change a handle. A handle grants no access: the server first asks for the record under the
//! sender's own grant. Only then does the server check that the handle was issued to that caller
//! and that the content is unchanged.

use super::problem::CursorProblem;
use super::sealed_cursor::{Binding, header, strip_header, take, take_array, take_u64};
use crate::hash;
use crate::varint;

// 64 to 66 were longer handles of earlier versions.
const OFFSET: u8 = 67;
const SKIP: u8 = 68;
const RECORD: u8 = 69;
const WINDOW: u8 = 70;
const BYTES: u8 = 71;
const DIGEST_BYTES: usize = 16;
/// The bytes of a handle are padded to a multiple of this, so that their length reveals little.
const PADDED_TO: usize = 16;

/// What a resource address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The caller the handle was issued to; compared after the read is authorised.
    pub caller: Binding,
    /// The name of the connection.
    pub connection: String,
    /// The name of the stream.
    pub stream: String,
    /// The key of the record in its stream.
    pub key: String,
    /// The part of the record.
    pub part: RecordPart,
}

/// Which of the two kinds of resource an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// A record, or a page of its fields.
    Record,
    /// A part of one field.
    Field,
}

/// The part of a record that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPart {
    /// The fields, from the first one or from a cursor on.
    Fields {
        /// The `fields_cursor` to continue from; absent for the first fields.
        cursor: Option<String>,
    },
    /// Some characters of a field.
    Window(FieldRange),
    /// Some bytes of a binary field.
    Bytes {
        /// The range, in bytes.
        extent: FieldRange,
        /// The resource server's cursor for the range, which is bound to the content at that time.
        /// Absent for the first bytes.
        cursor: Option<String>,
    },
}

/// A range of one field's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRange {
    /// The name of the field.
    pub field: String,
    /// The first 16 bytes of the SHA-256 of the content; absent if the digest was unknown.
    pub digest: Option<[u8; DIGEST_BYTES]>,
    /// The offset of the range.
    pub start: u64,
    /// The most characters or bytes of the range.
    pub limit: u64,
}

/// Parses the first 16 bytes of a digest written `sha256:` and hexadecimal digits.
///
/// Returns `None` for a digest of another kind, which another server may send: digests made here
/// cannot be compared with such a digest.
pub fn parse_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    hash::from_hex(text.strip_prefix("sha256:")?.get(..2 * DIGEST_BYTES)?)
}

impl Handle {
    /// Encodes the bytes to seal.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match &self.part {
            RecordPart::Fields { .. } => RECORD,
            RecordPart::Window(_) => WINDOW,
            RecordPart::Bytes { .. } => BYTES,
        };
        let mut bytes = header(kind, self.caller);
        for name in [&self.connection, &self.stream, &self.key] {
            put_text(&mut bytes, name);
        }
        if let RecordPart::Window(range) | RecordPart::Bytes { extent: range, .. } = &self.part {
            put_text(&mut bytes, &range.field);
            put_digest(&mut bytes, range.digest);
            varint::push(&mut bytes, range.start);
            varint::push(&mut bytes, range.limit);
        }
        if let RecordPart::Fields { cursor } | RecordPart::Bytes { cursor, .. } = &self.part {
            bytes.push(u8::from(cursor.is_some()));
            put_text(&mut bytes, cursor.as_deref().unwrap_or_default());
        }
        bytes.resize(bytes.len().next_multiple_of(PADDED_TO), 0);
        bytes
    }

    /// Decodes an unsealed handle. [`Handle::check`] later compares the caller.
    ///
    /// # Errors
    /// [`CursorProblem`]; a handle of another kind is a [`CursorProblem::Mismatch`].
    pub fn decode(bytes: &[u8], expected: HandleKind) -> Result<Self, CursorProblem> {
        let mut rest = bytes;
        let [kind] = take_array(&mut rest)?;
        let fits = match expected {
            HandleKind::Record => kind == RECORD,
            HandleKind::Field => matches!(kind, WINDOW | BYTES),
        };
        if !fits {
            return Err(CursorProblem::Mismatch);
        }
        let caller = Binding::take(&mut rest)?;
        let mut text = || take_text(&mut rest);
        let (connection, stream, key) = (text()?, text()?, text()?);
        let part = match kind {
            RECORD => RecordPart::Fields { cursor: take_optional_text(&mut rest)? },
            WINDOW => RecordPart::Window(take_range(&mut rest)?),
            _ => {
                let extent = take_range(&mut rest)?;
                RecordPart::Bytes { extent, cursor: take_optional_text(&mut rest)? }
            }
        };
        Ok(Self { caller, connection, stream, key, part })
    }

    /// Checks that the handle was issued to this caller, and that a field still has the content
    /// that the handle was made for. An unknown digest counts as unchanged.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`] for another caller, [`CursorProblem::Stale`] for other content.
    pub fn check(
        &self,
        caller: Binding,
        digest: Option<[u8; DIGEST_BYTES]>,
    ) -> Result<(), CursorProblem> {
        if self.caller != caller {
            return Err(CursorProblem::Mismatch);
        }
        match &self.part {
            RecordPart::Window(range) | RecordPart::Bytes { extent: range, .. }
                if range.digest.zip(digest).is_some_and(|(was, now)| was != now) =>
            {
                Err(CursorProblem::Stale)
            }
            _ => Ok(()),
        }
    }
}

/// What is known about the content of a field, to tell whether the content changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentVersion {
    /// The first 16 bytes of the content's SHA-256, if known.
    pub digest: Option<[u8; DIGEST_BYTES]>,
    /// The content's length in Unicode scalar values, if known.
    pub size: Option<u64>,
}

impl ContentVersion {
    /// Whether the contents certainly differ. Compares digests, or sizes if a digest is unknown.
    pub fn differs(&self, other: &Self) -> bool {
        match (self.digest.zip(other.digest), self.size.zip(other.size)) {
            (Some((one, two)), _) => one != two,
            (None, Some((one, two))) => one != two,
            (None, None) => false,
        }
    }
}

/// An offset in a field, for a position that no cursor of the resource server leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetCursor {
    /// The offset at which the window begins, in Unicode scalar values.
    pub start: u64,
    /// The most characters of the window.
    pub limit: u64,
    /// The content that the offset is counted in.
    pub version: ContentVersion,
}

impl OffsetCursor {
    /// Encodes the bytes to seal.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(OFFSET, binding);
        bytes.extend(self.start.to_be_bytes());
        bytes.extend(self.limit.to_be_bytes());
        let ContentVersion { digest, size } = self.version;
        put_digest(&mut bytes, digest);
        bytes.push(u8::from(size.is_some()));
        bytes.extend(size.unwrap_or_default().to_be_bytes());
        bytes
    }

    /// Decodes an unsealed cursor of the same field; `None` for a cursor of another kind.
    ///
    /// # Errors
    /// [`CursorProblem::Mismatch`] for an offset cursor of another field.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Option<Self>, CursorProblem> {
        if bytes.first() != Some(&OFFSET) {
            return Ok(None);
        }
        let mut rest = strip_header(bytes, OFFSET, binding)?;
        let (start, limit) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let digest = take_digest(&mut rest)?;
        let has_size = take(&mut rest, 1)? == [1];
        let size = take_u64(&mut rest)?;
        let version = ContentVersion { digest, size: has_size.then_some(size) };
        Ok(Some(Self { start, limit, version }))
    }
}

/// A position in a list that the server builds anew for each response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipCursor {
    /// The number of items before the position.
    pub skip: u64,
}

impl SkipCursor {
    /// Encodes the bytes to seal. `binding` is a digest of the list itself, so that a list that has
    /// changed is not continued.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(SKIP, binding);
        bytes.extend(self.skip.to_be_bytes());
        bytes
    }

    /// Whether an unsealed cursor is of this kind, for whichever list.
    pub fn is_kind_of(bytes: &[u8]) -> bool {
        bytes.first() == Some(&SKIP)
    }

    /// Decodes an unsealed cursor of the same list.
    ///
    /// # Errors
    /// [`CursorProblem`]; a list that has changed is a [`CursorProblem::Mismatch`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, SKIP, binding)?;
        Ok(Self { skip: take_u64(&mut rest)? })
    }
}

/// Appends a text of any length, since another server's cursors may have any length.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    varint::push(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

fn take_number(rest: &mut &[u8]) -> Result<u64, CursorProblem> {
    varint::take(rest).ok_or(CursorProblem::Malformed)
}

fn take_text(rest: &mut &[u8]) -> Result<String, CursorProblem> {
    let length = usize::try_from(take_number(rest)?).map_err(|_| CursorProblem::Malformed)?;
    let text = take(rest, length)?;
    str::from_utf8(text).map(str::to_owned).map_err(|_| CursorProblem::Malformed)
}

fn take_optional_text(rest: &mut &[u8]) -> Result<Option<String>, CursorProblem> {
    let is_there = take(rest, 1)? == [1];
    Ok(Some(take_text(rest)?).filter(|_| is_there))
}

fn put_digest(bytes: &mut Vec<u8>, digest: Option<[u8; DIGEST_BYTES]>) {
    bytes.push(u8::from(digest.is_some()));
    bytes.extend(digest.unwrap_or_default());
}

fn take_digest(rest: &mut &[u8]) -> Result<Option<[u8; DIGEST_BYTES]>, CursorProblem> {
    let is_there = take(rest, 1)? == [1];
    Ok(Some(take_array(rest)?).filter(|_| is_there))
}

fn take_range(rest: &mut &[u8]) -> Result<FieldRange, CursorProblem> {
    let (field, digest) = (take_text(rest)?, take_digest(rest)?);
    Ok(FieldRange { field, digest, start: take_number(rest)?, limit: take_number(rest)? })
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
        fn a_handle_is_decoded_for_its_kind_and_checked_for_its_caller(
            connection in "[a-z]{1,9}",
            stream in "[a-z]{1,9}",
            key in "(?s).{1,99}",
            part in part(),
            other in any::<[u8; 16]>(),
        ) {
            let (caller, nobody) = (Binding::new(["a"]), Binding::new(["b"]));
            let handle = Handle { caller, connection, stream, key, part };
            let bytes = handle.encode();
            prop_assert_eq!(bytes.len() % PADDED_TO, 0);
            let (kind, wrong) = match handle.part {
                RecordPart::Fields { .. } => (HandleKind::Record, HandleKind::Field),
                _ => (HandleKind::Field, HandleKind::Record),
            };
            prop_assert_eq!(Handle::decode(&bytes, kind), Ok(handle.clone()));
            prop_assert_eq!(Handle::decode(&bytes, wrong), Err(CursorProblem::Mismatch));
            prop_assert_eq!(handle.check(nobody, None), Err(CursorProblem::Mismatch));
            prop_assert_eq!(handle.check(caller, None), Ok(()));
            if let RecordPart::Window(extent) | RecordPart::Bytes { extent, .. } = &handle.part
                && let Some(digest) = extent.digest
            {
                prop_assert_eq!(handle.check(caller, Some(digest)), Ok(()));
                prop_assert_eq!(handle.check(caller, Some(other)), Err(CursorProblem::Stale));
            }
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            is_record in any::<bool>(),
        ) {
            let kind = if is_record { HandleKind::Record } else { HandleKind::Field };
            let _ = Handle::decode(&bytes, kind);
            prop_assert!(
                OffsetCursor::decode(&bytes, Binding::new(["x"])) == Ok(None)
                    || bytes.first() == Some(&OFFSET),
            );
            prop_assert!(SkipCursor::decode(&bytes, Binding::new(["x"])).is_err());
        }

        #[test]
        fn offset_and_skip_cursors_are_decoded_for_the_same_list_only(
            start in 0..u64::MAX / 2,
            limit in 0..u64::MAX / 2,
            digest in proptest::option::of(any::<[u8; 16]>()),
            size in proptest::option::of(0..u64::MAX / 2),
        ) {
            let (own, other) = (Binding::new(["a"]), Binding::new(["b"]));
            let cursor = OffsetCursor { start, limit, version: ContentVersion { digest, size } };
            let bytes = cursor.encode(own);
            prop_assert_eq!(OffsetCursor::decode(&bytes, own), Ok(Some(cursor)));
            prop_assert_eq!(OffsetCursor::decode(&bytes, other), Err(CursorProblem::Mismatch));
            let listed = SkipCursor { skip: start }.encode(own);
            prop_assert_eq!(SkipCursor::decode(&listed, own), Ok(SkipCursor { skip: start }));
            prop_assert_eq!(SkipCursor::decode(&bytes, own), Err(CursorProblem::Mismatch));
            prop_assert_eq!(OffsetCursor::decode(&listed, own), Ok(None));
            prop_assert!(SkipCursor::is_kind_of(&listed) && !SkipCursor::is_kind_of(&bytes));
        }
    }

    #[test]
    fn texts_of_any_length_survive() {
        for length in [0, 65_535, 65_536, 200_000] {
            let part = RecordPart::Fields { cursor: Some("c".repeat(length)) };
            let (connection, stream, key) = (String::new(), "s".to_owned(), "é".repeat(length));
            let handle = Handle { caller: Binding::new(["a"]), connection, stream, key, part };
            assert_eq!(Handle::decode(&handle.encode(), HandleKind::Record), Ok(handle));
        }
    }

    #[test]
    fn contents_are_compared_by_digest_or_else_by_size() {
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
    fn only_sha256_digests_are_parsed() {
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
