//! The changes between two moments, as one caller could see them.

use stile_domain::records::filter::record_time;
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{
    ChangeRange, KeyChange, KeyHistory, RecordState, SyncPoint,
};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::RecordsView;
use crate::records::model::{RecordRow, RecordSource, StoredState};

/// The most keys that one query reads.
const PAGE: usize = 256;

/// The change of one key.
#[derive(Clone, Debug)]
pub enum RecordChange {
    /// The record that the key has now.
    Present(RecordRow),
    /// The caller could see a record, and now sees none.
    Deleted {
        /// The index of the record's source among the sources of the query.
        source: usize,
        /// The key that the record had.
        key: String,
        /// When the record was first ingested.
        emitted: Instant,
        /// When the record stopped being visible.
        deleted: Instant,
    },
}

impl RecordChange {
    /// The index of the source, and the key that changed.
    pub fn source_and_key(&self) -> (usize, &str) {
        match self {
            Self::Present(row) => (row.source, &row.key),
            Self::Deleted { source, key, .. } => (*source, key),
        }
    }
}

impl RecordsView<'_> {
    /// Returns a point from which a later request can ask for changes.
    pub fn sync_point(&self) -> Result<SyncPoint, Problem> {
        self.snapshot.sync_point(self.now)
    }

    /// Returns whether changes of the session may be missing from the log;
    /// [`ChangeRange::is_expired`].
    pub fn is_expired(&self, session: &ChangeRange) -> Result<bool, Problem> {
        Ok(session.is_expired(&self.sync_point()?, self.snapshot.log_start()?))
    }

    /// Returns one page of the changes of a session, ordered by source and key, after the source
    /// and key of `after`; and whether more changes follow.
    pub fn changes(
        &self,
        sources: &[RecordSource],
        session: &ChangeRange,
        after: Option<(usize, &str)>,
        limit: usize,
    ) -> Result<(Vec<RecordChange>, bool), Problem> {
        let mut found = Vec::new();
        let mut page = PAGE.min(limit.saturating_add(1));
        let (first, mut key) =
            after.map_or((0, None), |(source, key)| (source, Some(key.to_owned())));
        for (at, source) in sources.iter().enumerate().skip(first) {
            loop {
                let keys = self.snapshot.changed_keys(source, session, key.as_deref(), page)?;
                found.extend(self.changes_of_keys(at, source, session, &keys)?);
                if found.len() > limit {
                    found.truncate(limit);
                    return Ok((found, true));
                }
                page = PAGE.min(2 * page);
                key = keys.into_iter().next_back();
                if key.is_none() {
                    break;
                }
            }
        }
        Ok((found, false))
    }

    /// Returns the changes of some keys, in the order of the keys.
    fn changes_of_keys(
        &self,
        at: usize,
        source: &RecordSource,
        session: &ChangeRange,
        keys: &[String],
    ) -> Result<Vec<RecordChange>, Problem> {
        /// The history of a key, and the number of the record that the key has now.
        type State<'k> = (KeyHistory<'k>, Option<(i64, Instant)>);
        let begin = || -> State<'_> { (KeyHistory::new(*session, source.fields()), None) };
        let mut histories: Vec<State<'_>> = keys.iter().map(|_| begin()).collect();
        self.snapshot.states_of_keys(source, keys, &session.since, &mut |key, state| {
            let Some((history, now)) = histories.get_mut(key) else { return Ok(()) };
            let is_visible = source.shows(RecordBody::new(&state.body))?;
            let seen = is_visible.then_some(state.body.as_slice());
            if state.ended.is_none() {
                *now = Some((state.record, state.emitted));
            }
            let StoredState { ended, record: number, emitted, .. } = state;
            let state = RecordState { ended, number, emitted, seen };
            history.push(state).map_err(|_| Problem::Corrupt)
        })?;
        let mut changes = Vec::new();
        for (key, (history, now)) in keys.iter().zip(histories) {
            let change = match now {
                Some(_) => history.finish(),
                None => history.finish_deleted().map_err(|_| Problem::Corrupt)?,
            };
            changes.extend(match (change, now) {
                (KeyChange::Unchanged, _) | (KeyChange::Changed, None) => None,
                (KeyChange::Removed { deleted, emitted }, _) => {
                    let key = key.to_owned();
                    Some(RecordChange::Deleted { source: at, key, emitted, deleted })
                }
                (KeyChange::Changed, Some((number, emitted))) => {
                    Some(RecordChange::Present(RecordRow {
                        number,
                        source: at,
                        key: key.to_owned(),
                        emitted,
                        order_key: None,
                    }))
                }
            });
        }
        Ok(changes)
    }
}

impl RecordSource {
    /// Returns whether the caller may see a past record with this body, if the grant names its key.
    /// Queries decide the same for present records.
    fn shows(&self, body: RecordBody<'_>) -> Result<bool, Problem> {
        let Some(time) = &self.visibility.time else { return Ok(true) };
        let Some(field) = time.field.as_ref().or(self.indexed.time_field.as_ref()) else {
            return Ok(false);
        };
        let happened = record_time(body, field).map_err(|_| Problem::Corrupt)?;
        Ok(time.visible.shows(happened))
    }
}
