//! What changed for a caller between two moments, told of each key by the states that it went
//! through.
//!
//! A moment is a [`SyncPoint`]: how many changes and how many records there had been. The store keeps
//! the state of a record before each change of it, so the states of a key from a mark on are those
//! that were kept and the one that there is. A key is told of where any two neighbours among them
//! differ *for the caller*: in the fields that they may see, or in whether they may see the record
//! at all. The first and the last being equal is not enough, for a reader that broke off a session
//! may know one in between.

use std::collections::BTreeSet;

use super::identifiers::MAX_KEY_BYTES;
use super::instant::Instant;
use super::problem::CursorProblem;
use super::sealed_cursor::{self, Binding};
use super::stored_body::{DamagedBody, RecordBody};

/// For how long it is known what changed, in microseconds: 30 days.
pub const KEPT: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// What is allowed for clocks that are set, in microseconds: a day.
pub const MARGIN: i64 = 24 * 60 * 60 * 1_000_000;

const SYNC: u8 = 16;
const CHANGES: u8 = 17;

/// A moment of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// Which history the numbers count in. A database that was restored from a backup begins
    /// another.
    pub lineage: [u8; 16],
    /// The number of the last change.
    pub version: i64,
    /// The number of the last record.
    pub record: i64,
    /// When it was.
    pub at: Instant,
}

impl SyncPoint {
    /// The bytes to be sealed, for a client to ask later what has changed since.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = sealed_cursor::bind(SYNC, binding);
        self.put(&mut bytes);
        bytes
    }

    /// Reads what was sealed, for the same reader of the same stream.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        Self::read(&mut sealed_cursor::bound(bytes, SYNC, binding)?)
    }

    /// Whether it counts less than another one of its history.
    fn is_before(&self, other: &Self) -> bool {
        self.version < other.version || self.record < other.record
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.lineage);
        for number in [self.version, self.record, self.at.0] {
            bytes.extend(number.to_be_bytes());
        }
    }

    fn read(rest: &mut &[u8]) -> Result<Self, CursorProblem> {
        let lineage =
            sealed_cursor::take(rest, 16)?.try_into().map_err(|_| CursorProblem::Malformed)?;
        let (version, record) = (sealed_cursor::number(rest)?, sealed_cursor::number(rest)?);
        Ok(Self { lineage, version, record, at: Instant(sealed_cursor::number(rest)?) })
    }
}

/// What a session of pages tells of: what changed after the first mark, up to the second. Both are
/// fixed with its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRange {
    /// After this.
    pub since: SyncPoint,
    /// Up to this.
    pub until: SyncPoint,
}

impl ChangeRange {
    /// Everything that there is at a mark.
    pub fn from_beginning(until: SyncPoint) -> Self {
        Self { since: SyncPoint { record: 0, ..until }, until }
    }

    /// Whether something that it tells of may be forgotten, as seen from the mark that there is
    /// now, where lines of the log from before a time may be gone. That depends on clocks and on
    /// which history it is of, and in a sound database on nothing else.
    pub fn is_expired(&self, now: &SyncPoint, forgotten: Instant) -> bool {
        let Self { since, until } = self;
        let is_other = since.lineage != now.lineage || until.lineage != now.lineage;
        let is_ahead = until.is_before(since) || now.is_before(until);
        let (oldest, newest) = (now.at.0.saturating_sub(KEPT), now.at.0.saturating_add(MARGIN));
        is_other || is_ahead || since.at < forgotten || !(oldest..=newest).contains(&since.at.0)
    }
}

/// The last key of a page of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesCursor {
    /// The session.
    pub session: ChangeRange,
    /// The number of the key's connection's stream.
    pub stream: i64,
    /// The key.
    pub key: String,
}

impl ChangesCursor {
    /// The bytes to be sealed; all have one length.
    pub fn encode(&self, binding: Binding) -> Vec<u8> {
        let mut bytes = sealed_cursor::bind(CHANGES, binding);
        self.session.since.put(&mut bytes);
        self.session.until.put(&mut bytes);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend((self.key.len() as u16).to_be_bytes());
        sealed_cursor::padded(&mut bytes, self.key.as_bytes(), MAX_KEY_BYTES);
        bytes
    }

    /// Reads what was sealed, for the same read.
    ///
    /// # Errors
    /// [`CursorProblem`].
    pub fn decode(bytes: &[u8], binding: Binding) -> Result<Self, CursorProblem> {
        let mut rest = sealed_cursor::bound(bytes, CHANGES, binding)?;
        let session =
            ChangeRange { since: SyncPoint::read(&mut rest)?, until: SyncPoint::read(&mut rest)? };
        let stream = sealed_cursor::number(&mut rest)?;
        let length = sealed_cursor::take(&mut rest, 2)?
            .try_into()
            .map(u16::from_be_bytes)
            .map_err(|_| CursorProblem::Malformed)?;
        let key = sealed_cursor::take(&mut rest, MAX_KEY_BYTES)?
            .get(..usize::from(length))
            .ok_or(CursorProblem::Malformed)?;
        let key = String::from_utf8(key.to_vec()).map_err(|_| CursorProblem::Malformed)?;
        Ok(Self { session, stream, key })
    }

    /// Whether opened bytes are of such a place, whoever it is for.
    pub fn is_kind_of(bytes: &[u8]) -> bool {
        bytes.first() == Some(&CHANGES)
    }
}

/// A state of a key.
#[derive(Clone, Copy, Debug)]
pub struct RecordState<'s> {
    /// The number of the change that ended it; none of the one that there is.
    pub ended: Option<(i64, Instant)>,
    /// The number of the record.
    pub number: i64,
    /// When that was first ingested.
    pub emitted: Instant,
    /// Its body, with digests for values, where the caller could see the record.
    pub seen: Option<&'s [u8]>,
}

/// The states of one key, put together from the oldest on.
///
/// What counts is a change that the log has within the session and the caller saw, and a new record
/// that they see now. So a change that they did not see, which puts a key among those that are
/// looked at, decides nothing.
#[derive(Debug)]
pub struct KeyHistory<'f> {
    session: ChangeRange,
    fields: Option<&'f BTreeSet<String>>,
    changed: bool,
    last: Option<Last>,
    left: Option<(Instant, Instant)>,
}

/// How a key changed for the caller in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Not at all. The key is left out of the page.
    Unchanged,
    /// The caller may see a new record or other content under the key, or saw such in between.
    Changed,
    /// The caller could see a record under the key and cannot see one now.
    Removed {
        /// When the caller last could.
        deleted: Instant,
        /// When that record was first ingested.
        emitted: Instant,
    },
}

#[derive(Debug)]
struct Last {
    number: i64,
    emitted: Instant,
    ended: Option<(i64, Instant)>,
    seen: Option<Vec<u8>>,
}

impl<'f> KeyHistory<'f> {
    /// Of a key in a session, for somebody who may see these fields; none means all.
    pub fn new(session: ChangeRange, fields: Option<&'f BTreeSet<String>>) -> Self {
        Self { session, fields, changed: false, last: None, left: None }
    }

    /// The next state after those before.
    ///
    /// # Errors
    /// [`DamagedBody`].
    pub fn push(&mut self, state: RecordState<'_>) -> Result<(), DamagedBody> {
        let next = self
            .last
            .as_ref()
            .is_some_and(|last| last.number == state.number)
            .then_some(state.seen)
            .flatten();
        self.pass(next)?;
        let seen = state.seen.map(<[u8]>::to_vec);
        self.last =
            Some(Last { number: state.number, emitted: state.emitted, ended: state.ended, seen });
        Ok(())
    }

    /// Returns how the key changed, for a key that has no record now.
    ///
    /// # Errors
    /// [`DamagedBody`].
    pub fn finish_deleted(mut self) -> Result<KeyChange, DamagedBody> {
        self.pass(None)?;
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

    /// The change that ended the last state and left this of its record to be seen.
    fn pass(&mut self, next: Option<&[u8]>) -> Result<(), DamagedBody> {
        let Some(Last { emitted, ended, seen, .. }) = self.last.take() else { return Ok(()) };
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

    fn mark(version: i64, record: i64) -> SyncPoint {
        SyncPoint { lineage: [0; 16], version, record, at: Instant(version * 10) }
    }

    /// The change that ended a state, the number of its record, and what was seen and not seen of
    /// that.
    type Told<'t> = (Option<i64>, i64, Option<(&'t str, &'t str)>);

    fn told(session: ChangeRange, states: &[Told<'_>]) -> Option<Option<i64>> {
        let fields = BTreeSet::from(["text".to_owned()]);
        let mut history = KeyHistory::new(session, Some(&fields));
        let mut there = false;
        for (version, number, seen) in states {
            let seen = seen.map(|(text, hidden)| body(text, hidden));
            let ended = version.map(|version| (version, Instant(version * 10)));
            there = ended.is_none();
            history
                .push(RecordState {
                    ended,
                    number: *number,
                    emitted: Instant(0),
                    seen: seen.as_deref(),
                })
                .unwrap();
        }
        match if there { history.finish() } else { history.finish_deleted().unwrap() } {
            KeyChange::Unchanged => None,
            KeyChange::Changed => Some(None),
            KeyChange::Removed { deleted, .. } => Some(Some(deleted.0 / 10)),
        }
    }

    #[test]
    fn a_key_is_told_of_where_the_caller_saw_it_change() {
        let session = ChangeRange { since: mark(5, 3), until: mark(9, 6) };
        let (a, b) = (Some(("a", "x")), Some(("b", "x")));
        assert_eq!(
            told(session, &[(Some(6), 2, a), (None, 2, Some(("a", "longer")))]),
            None,
            "a hidden field"
        );
        assert_eq!(told(session, &[(Some(6), 2, a), (None, 2, b)]), Some(None));
        assert_eq!(
            told(session, &[(Some(6), 2, a), (Some(7), 2, b), (None, 2, a)]),
            Some(None),
            "and back"
        );
        assert_eq!(told(session, &[(None, 5, a)]), Some(None), "new");
        assert_eq!(told(session, &[(None, 7, a)]), None, "newer than the session");
        assert_eq!(told(session, &[(Some(6), 2, a)]), Some(Some(6)), "gone");
        assert_eq!(told(session, &[(Some(6), 2, None)]), None, "a hidden record that is gone");
        assert_eq!(told(session, &[(Some(6), 2, a), (None, 2, None)]), Some(Some(6)), "hidden");
        assert_eq!(told(session, &[(Some(6), 2, None), (None, 2, a)]), Some(None), "shown");
        assert_eq!(
            told(session, &[(Some(10), 2, a), (None, 2, b)]),
            None,
            "later than the session"
        );
        assert_eq!(
            told(session, &[(Some(6), 2, a), (Some(11), 2, b)]),
            Some(Some(11)),
            "changed, then gone"
        );
        assert_eq!(told(session, &[(Some(6), 5, a)]), Some(Some(6)), "came and went");
        assert_eq!(told(session, &[(Some(6), 2, a), (None, 5, a)]), Some(None), "went and came");
        assert_eq!(
            told(session, &[(Some(6), 2, a), (None, 7, a)]),
            Some(None),
            "went, and came later"
        );
        assert_eq!(told(session, &[(Some(10), 2, a), (None, 7, a)]), None, "went later, and came");
        let hidden = (Some(6), 5, Some(("a", "other")));
        assert_eq!(
            told(session, &[hidden, (None, 5, a)]),
            Some(None),
            "new, and changed where it is hidden"
        );
        assert_eq!(told(session, &[hidden, (Some(11), 5, a)]), None, "the same, and gone later");
        assert_eq!(
            told(session, &[hidden, (Some(11), 5, a), (None, 7, a)]),
            None,
            "the same, and came again"
        );
    }

    #[test]
    fn a_session_is_of_one_history_and_counts_for_thirty_days() {
        let now = SyncPoint { at: Instant(KEPT + 50), ..mark(9, 6) };
        let session = |since, until| ChangeRange { since, until };
        let forgotten = Instant(i64::MIN);
        let later = SyncPoint { at: Instant(now.at.0 + MARGIN + 1), ..mark(5, 3) };
        assert!(
            session(later, mark(9, 6)).is_expired(&now, forgotten),
            "by a clock that was ahead"
        );
        assert!(session(mark(5, 3), mark(9, 6)).is_expired(&now, Instant(51)), "lines are gone");
        assert!(
            !session(mark(5, 3), mark(9, 6)).is_expired(&now, forgotten)
                && !ChangeRange::from_beginning(now).is_expired(&now, forgotten)
        );
        assert!(session(mark(4, 3), mark(9, 6)).is_expired(&now, forgotten), "too old");
        let other = |mark| SyncPoint { lineage: [1; 16], ..mark };
        assert!(
            session(other(mark(5, 3)), mark(9, 6)).is_expired(&now, forgotten),
            "another history"
        );
        assert!(session(mark(5, 3), other(mark(9, 6))).is_expired(&now, forgotten));
        for since in [mark(10, 3), mark(5, 7)] {
            assert!(
                session(since, mark(9, 6)).is_expired(&now, forgotten),
                "numbers that were not reached yet"
            );
        }
        assert!(session(mark(5, 3), mark(10, 6)).is_expired(&now, forgotten));
    }

    proptest! {
        #[test]
        fn places_come_back_for_the_same_read_alone(numbers in any::<[i64; 7]>(), lineage in any::<[u8; 16]>(), key in "\\PC{1,120}") {
            let [a, b, c, d, e, f, stream] = numbers;
            let session = ChangeRange {
                since: SyncPoint { lineage, version: a, record: b, at: Instant(c) },
                until: SyncPoint { lineage, version: d, record: e, at: Instant(f) },
            };
            let (binding, other) = (Binding::new(["a"]), Binding::new(["b"]));
            let place = ChangesCursor { session, stream, key };
            let (page, sync) = (place.encode(binding), session.until.encode(binding));
            prop_assert_eq!((page.len(), sync.len()), (17 + 80 + 8 + 2 + 512, 17 + 40));
            prop_assert!(ChangesCursor::is_kind_of(&page) && !ChangesCursor::is_kind_of(&sync));
            prop_assert_eq!(ChangesCursor::decode(&page, binding), Ok(place));
            prop_assert_eq!(SyncPoint::decode(&sync, binding), Ok(session.until));
            prop_assert_eq!(ChangesCursor::decode(&page, other), Err(CursorProblem::Mismatch));
            prop_assert_eq!(SyncPoint::decode(&page, binding), Err(CursorProblem::Mismatch));
            prop_assert_eq!(ChangesCursor::decode(&sync, binding), Err(CursorProblem::Mismatch));
            prop_assert!(ChangesCursor::decode(&page[..50], binding).is_err());
        }
    }
}
