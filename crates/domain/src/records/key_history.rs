//! Which keys changed for a caller between two moments.
//!
//! A moment is a [`SyncPoint`]: how many changes and how many records the database had. The store
//! keeps the state of a record before each change, so the states of a key since a moment are the
//! kept states and the present one. A key changed if two neighbouring states differ *for the
//! caller*: in the fields the caller may see, or in whether the caller may see the record at all.
//! Comparing only the first and the last state is not enough, because a reader who broke off a
//! session may know a state in between.

use std::collections::BTreeSet;

use super::identifiers::MAX_KEY_BYTES;
use super::instant::{Instant, MICROS_A_DAY};
use super::problem::CursorProblem;
use super::sealed_cursor::{
    Binding, header, put_padded, strip_header, take_array, take_i64, take_padded,
};
use super::stored_body::{DamagedBody, RecordBody};

/// How long the store keeps past states, in microseconds: 30 days.
pub const PAST_KEPT: i64 = 30 * MICROS_A_DAY;

/// How far ahead of the present a moment may be, in microseconds: a day, since clocks are set.
pub const MARGIN: i64 = MICROS_A_DAY;

const SYNC: u8 = 16;
const CHANGES: u8 = 17;

/// A moment of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// The history that the numbers count in. A database restored from a backup begins another.
    pub lineage: [u8; 16],
    /// The number of the last change.
    pub version: i64,
    /// The number of the last record.
    pub record: i64,
    /// The time of the moment.
    pub at: Instant,
}

impl SyncPoint {
    /// Encodes the bytes to seal, with which a client later asks what has changed since.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(SYNC, binding);
        self.put(&mut bytes);
        bytes
    }

    /// Decodes an unsealed moment, for the same reader of the same stream.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        Self::take(&mut strip_header(bytes, SYNC, binding)?)
    }

    /// Whether fewer changes or fewer records precede this moment than another of its history.
    fn is_before(&self, other: &Self) -> bool {
        self.version < other.version || self.record < other.record
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.lineage);
        for number in [self.version, self.record, self.at.0] {
            bytes.extend(number.to_be_bytes());
        }
    }

    fn take(rest: &mut &[u8]) -> Result<Self, CursorProblem> {
        let lineage = take_array(rest)?;
        let (version, record) = (take_i64(rest)?, take_i64(rest)?);
        Ok(Self { lineage, version, record, at: Instant(take_i64(rest)?) })
    }
}

/// The changes that the pages of one session report: those after `since` and up to `until`.
///
/// The first page of a session fixes both moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRange {
    /// The moment after which changes are reported.
    pub since: SyncPoint,
    /// The moment of the last change that is reported.
    pub until: SyncPoint,
}

impl ChangeRange {
    /// Returns the range that reports every record that exists at a moment.
    pub fn from_beginning(until: SyncPoint) -> Self {
        Self { since: SyncPoint { record: 0, ..until }, until }
    }

    /// Whether the store may have dropped states that the range needs.
    ///
    /// `now` is the present moment; states from before `forgotten` may be gone. In a sound database
    /// the result depends only on clocks and on which history the range belongs to.
    pub fn is_expired(&self, now: &SyncPoint, forgotten: Instant) -> bool {
        let Self { since, until } = self;
        let is_other = since.lineage != now.lineage || until.lineage != now.lineage;
        let is_ahead = until.is_before(since) || now.is_before(until);
        let (oldest, newest) =
            (now.at.0.saturating_sub(PAST_KEPT), now.at.0.saturating_add(MARGIN));
        is_other || is_ahead || since.at < forgotten || !(oldest..=newest).contains(&since.at.0)
    }
}

/// The last key of a page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesCursor {
    /// The range that the session's pages report.
    pub session: ChangeRange,
    /// The database's number of the connection's stream.
    pub stream: i64,
    /// The key of the record in its stream.
    pub key: String,
}

impl ChangesCursor {
    /// Encodes the bytes to seal. All have the same length.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = header(CHANGES, binding);
        self.session.since.put(&mut bytes);
        self.session.until.put(&mut bytes);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend((self.key.len() as u16).to_be_bytes());
        put_padded(&mut bytes, self.key.as_bytes(), MAX_KEY_BYTES);
        bytes
    }

    /// Decodes an unsealed cursor of the same read.
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = strip_header(bytes, CHANGES, binding)?;
        let session =
            ChangeRange { since: SyncPoint::take(&mut rest)?, until: SyncPoint::take(&mut rest)? };
        let stream = take_i64(&mut rest)?;
        let length = usize::from(u16::from_be_bytes(take_array(&mut rest)?));
        let key = take_padded(&mut rest, length, MAX_KEY_BYTES)?.to_vec();
        let key = String::from_utf8(key).map_err(|_| CursorProblem::Malformed)?;
        Ok(Self { session, stream, key })
    }

    /// Whether an unsealed cursor is of this kind, for whichever caller.
    pub fn is_kind_of(bytes: &[u8]) -> bool {
        bytes.first() == Some(&CHANGES)
    }
}

/// One state of a key.
#[derive(Clone, Copy, Debug)]
pub struct RecordState<'s> {
    /// The number and the time of the change that ended the state; absent for the present state.
    pub ended: Option<(i64, Instant)>,
    /// The database's number of the record.
    pub number: i64,
    /// When the record was first ingested.
    pub emitted: Instant,
    /// The record's digested body; absent if the caller could not see the record.
    pub seen: Option<&'s [u8]>,
}

/// The states of one key, from the oldest on.
///
/// Two things count: a logged change within the session that the caller could see, and a new record
/// that the caller sees now. A change that the caller could not see decides nothing, although such
/// a change makes the store look at the key.
#[derive(Debug)]
pub struct KeyHistory<'f> {
    session: ChangeRange,
    fields: Option<&'f BTreeSet<String>>,
    changed: bool,
    last: Option<LastState>,
    left: Option<(Instant, Instant)>,
}

/// How a key changed for the caller in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// The caller saw no change. The page leaves the key out.
    Unchanged,
    /// The record is new to the caller, or its content changed for the caller.
    Changed,
    /// The caller could see a record under the key and cannot see one now.
    Removed {
        /// When the caller could last see the record.
        deleted: Instant,
        /// When the record was first ingested.
        emitted: Instant,
    },
}

#[derive(Debug)]
struct LastState {
    number: i64,
    emitted: Instant,
    ended: Option<(i64, Instant)>,
    seen: Option<Vec<u8>>,
}

impl<'f> KeyHistory<'f> {
    /// Begins the history of a key for a caller who may see these fields; `None` means all fields.
    pub fn new(session: ChangeRange, fields: Option<&'f BTreeSet<String>>) -> Self {
        Self { session, fields, changed: false, last: None, left: None }
    }

    /// Adds the next state, which is later than those before.
    pub fn push(&mut self, state: RecordState<'_>) -> Result<(), DamagedBody> {
        let next = self
            .last
            .as_ref()
            .is_some_and(|last| last.number == state.number)
            .then_some(state.seen)
            .flatten();
        self.judge_last(next)?;
        let seen = state.seen.map(<[u8]>::to_vec);
        self.last = Some(LastState {
            number: state.number,
            emitted: state.emitted,
            ended: state.ended,
            seen,
        });
        Ok(())
    }

    /// Returns how the key changed, for a key that has no record now.
    pub fn finish_deleted(mut self) -> Result<KeyChange, DamagedBody> {
        self.judge_last(None)?;
        Ok(self.finish())
    }

    /// Returns how the key changed, for a key whose last state is that of its record now.
    pub fn finish(self) -> KeyChange {
        let ChangeRange { since, until } = self.session;
        let seen = self.last.filter(|last| last.seen.is_some());
        let is_new = seen
            .as_ref()
            .is_some_and(|last| since.record < last.number && last.number <= until.record);
        match self.left {
            _ if !self.changed && !is_new => KeyChange::Unchanged,
            Some((deleted, emitted)) if seen.is_none() => KeyChange::Removed { deleted, emitted },
            _ => KeyChange::Changed,
        }
    }

    /// Judges the change that ended the last state. `next` is what the caller sees of the same
    /// record after the change.
    fn judge_last(&mut self, next: Option<&[u8]>) -> Result<(), DamagedBody> {
        let Some(LastState { emitted, ended, seen, .. }) = self.last.take() else { return Ok(()) };
        let Some((version, at)) = ended else { return Ok(()) };
        let is_same = match (&seen, next) {
            (Some(seen), Some(next)) => {
                RecordBody::new(seen).is_same(RecordBody::new(next), self.fields)?
            }
            (seen, next) => seen.is_none() && next.is_none(),
        };
        self.changed |= !is_same && version <= self.session.until.version;
        if seen.is_some() && next.is_none() {
            self.left = Some((at, emitted));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::stored_body::{BodyField, BodyWriter, StoredValue};
    use proptest::prelude::*;

    fn body(text: &str, hidden: &str) -> Vec<u8> {
        let mut writer = BodyWriter::default();
        let slot = (hidden.len() > 2).then_some(7);
        writer.push(&BodyField {
            name: "hidden",
            slot: None,
            binary: false,
            value: StoredValue::Text(hidden),
        });
        writer.push(&BodyField {
            name: "text",
            slot,
            binary: false,
            value: StoredValue::Text(text),
        });
        writer.finish()
    }

    fn moment(version: i64, record: i64) -> SyncPoint {
        SyncPoint { lineage: [0; 16], version, record, at: Instant(version * 10) }
    }

    /// A state: the change that ended it, the number of its record, and the visible and the hidden
    /// text.
    type TestState<'t> = (Option<i64>, i64, Option<(&'t str, &'t str)>);

    fn change(session: ChangeRange, states: &[TestState<'_>]) -> Option<Option<i64>> {
        let fields = BTreeSet::from(["text".to_owned()]);
        let mut history = KeyHistory::new(session, Some(&fields));
        let mut exists = false;
        for (version, number, seen) in states {
            let seen = seen.map(|(text, hidden)| body(text, hidden));
            let ended = version.map(|version| (version, Instant(version * 10)));
            exists = ended.is_none();
            history
                .push(RecordState {
                    ended,
                    number: *number,
                    emitted: Instant(0),
                    seen: seen.as_deref(),
                })
                .unwrap();
        }
        match if exists { history.finish() } else { history.finish_deleted().unwrap() } {
            KeyChange::Unchanged => None,
            KeyChange::Changed => Some(None),
            KeyChange::Removed { deleted, .. } => Some(Some(deleted.0 / 10)),
        }
    }

    /// The states of a key, the expected change, and what the case is about.
    type Case<'t> = (&'t [TestState<'t>], Option<Option<i64>>, &'t str);

    #[test]
    fn a_key_is_reported_if_the_caller_saw_it_change() {
        let session = ChangeRange { since: moment(5, 3), until: moment(9, 6) };
        let (a, b) = (Some(("a", "x")), Some(("b", "x")));
        let hidden = (Some(6), 5, Some(("a", "other")));
        let cases: &[Case<'_>] = &[
            (&[(Some(6), 2, a), (None, 2, Some(("a", "longer")))], None, "a hidden field"),
            (&[(Some(6), 2, a), (None, 2, b)], Some(None), "changed"),
            (&[(Some(6), 2, a), (Some(7), 2, b), (None, 2, a)], Some(None), "and back"),
            (&[(None, 5, a)], Some(None), "new"),
            (&[(None, 7, a)], None, "newer than the session"),
            (&[(Some(6), 2, a)], Some(Some(6)), "gone"),
            (&[(Some(6), 2, None)], None, "a hidden record that is gone"),
            (&[(Some(6), 2, a), (None, 2, None)], Some(Some(6)), "hidden"),
            (&[(Some(6), 2, None), (None, 2, a)], Some(None), "shown"),
            (&[(Some(10), 2, a), (None, 2, b)], None, "later than the session"),
            (&[(Some(6), 2, a), (Some(11), 2, b)], Some(Some(11)), "changed, then gone"),
            (&[(Some(6), 5, a)], Some(Some(6)), "came and went"),
            (&[(Some(6), 2, a), (None, 5, a)], Some(None), "went and came"),
            (&[(Some(6), 2, a), (None, 7, a)], Some(None), "went, and came later"),
            (&[(Some(10), 2, a), (None, 7, a)], None, "went later, and came"),
            (&[hidden, (None, 5, a)], Some(None), "new, and changed where it is hidden"),
            (&[hidden, (Some(11), 5, a)], None, "the same, and gone later"),
            (&[hidden, (Some(11), 5, a), (None, 7, a)], None, "the same, and came again"),
        ];
        for (states, expected, case) in cases {
            assert_eq!(change(session, states), *expected, "{case}");
        }
    }

    #[test]
    fn a_range_expires_after_30_days_or_with_its_history() {
        let now = SyncPoint { at: Instant(PAST_KEPT + 50), ..moment(9, 6) };
        let session = |since, until| ChangeRange { since, until };
        let forgotten = Instant(i64::MIN);
        let later = SyncPoint { at: Instant(now.at.0 + MARGIN + 1), ..moment(5, 3) };
        assert!(
            session(later, moment(9, 6)).is_expired(&now, forgotten),
            "by a clock that was ahead"
        );
        assert!(
            session(moment(5, 3), moment(9, 6)).is_expired(&now, Instant(51)),
            "lines are gone"
        );
        assert!(
            !session(moment(5, 3), moment(9, 6)).is_expired(&now, forgotten)
                && !ChangeRange::from_beginning(now).is_expired(&now, forgotten)
        );
        assert!(session(moment(4, 3), moment(9, 6)).is_expired(&now, forgotten), "too old");
        let other = |point| SyncPoint { lineage: [1; 16], ..point };
        assert!(
            session(other(moment(5, 3)), moment(9, 6)).is_expired(&now, forgotten),
            "another history"
        );
        assert!(session(moment(5, 3), other(moment(9, 6))).is_expired(&now, forgotten));
        for since in [moment(10, 3), moment(5, 7)] {
            assert!(
                session(since, moment(9, 6)).is_expired(&now, forgotten),
                "numbers that were not reached yet"
            );
        }
        assert!(session(moment(5, 3), moment(10, 6)).is_expired(&now, forgotten));
    }

    proptest! {
        #[test]
        fn changes_cursors_are_decoded_for_the_same_read_only(
            numbers in any::<[i64; 7]>(),
            lineage in any::<[u8; 16]>(),
            key in "\\PC{1,120}",
        ) {
            let [a, b, c, d, e, f, stream] = numbers;
            let session = ChangeRange {
                since: SyncPoint { lineage, version: a, record: b, at: Instant(c) },
                until: SyncPoint { lineage, version: d, record: e, at: Instant(f) },
            };
            let (binding, other) = (Binding::new(["a"]), Binding::new(["b"]));
            let cursor = ChangesCursor { session, stream, key };
            let (page, sync) = (cursor.encode(binding), session.until.encode(binding));
            prop_assert_eq!((page.len(), sync.len()), (17 + 80 + 8 + 2 + 512, 17 + 40));
            prop_assert!(ChangesCursor::is_kind_of(&page) && !ChangesCursor::is_kind_of(&sync));
            prop_assert_eq!(ChangesCursor::decode(&page, binding), Ok(cursor));
            prop_assert_eq!(SyncPoint::decode(&sync, binding), Ok(session.until));
            prop_assert_eq!(ChangesCursor::decode(&page, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(SyncPoint::decode(&page, binding), Err(CursorProblem::Mismatch));
            prop_assert_eq!(ChangesCursor::decode(&sync, binding), Err(CursorProblem::Mismatch));
            prop_assert!(ChangesCursor::decode(&page[..50], binding).is_err());
        }
    }
}
