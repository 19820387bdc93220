//! What changed, as one caller saw it.

use stile_domain::records::filter::record_time;
use stile_domain::records::instant::Instant;
use stile_domain::records::key_history::{
    ChangeRange, KeyChange, KeyHistory, RecordState, SyncPoint,
};
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::RecordBody;

use super::{RecordRow, RecordSource, RecordsView};

/// Keys that are looked at at once.
const PAGE: usize = 256;

/// A key of which something changed.
#[derive(Clone, Debug)]
pub enum RecordChange {
    /// The record that the caller sees under it now.
    Present(RecordRow),
    /// The caller saw a record and sees none any more.
    Deleted {
        /// Which of the sources it was from.
        source: usize,
        /// The key.
        key: String,
        /// When the record was first ingested.
        emitted: Instant,
        /// When it left their sight.
        deleted: Instant,
    },
}

impl RecordChange {
    /// Which of the sources it is about, and which key.
    pub fn source_and_key(&self) -> (usize, &str) {
        match self {
            Self::Present(row) => (row.source, &row.key),
            Self::Deleted { source, key, .. } => (*source, key),
        }
    }
}

impl RecordsView<'_> {
    /// This moment.
    ///
    /// # Errors
    /// What the database says.
    pub fn mark(&self) -> Result<SyncPoint, Problem> {
        self.snapshot.mark(self.now)
    }

    /// Whether something that a session tells of may be forgotten; [`ChangeRange::is_expired`].
    ///
    /// # Errors
    /// What the database says.
    pub fn is_expired(&self, session: &ChangeRange) -> Result<bool, Problem> {
        Ok(session.is_expired(&self.mark()?, self.snapshot.forgotten()?))
    }

    /// What changed in a session, by source and key, after a place in that order. Says whether
    /// there is more.
    ///
    /// # Errors
    /// What the database says.
    pub fn changes(
        &self,
        sources: &[RecordSource],
        session: &ChangeRange,
        after: Option<(usize, &str)>,
        limit: usize,
    ) -> Result<(Vec<RecordChange>, bool), Problem> {
        let mut found = Vec::new();
        let (first, mut key) =
            after.map_or((0, None), |(source, key)| (source, Some(key.to_owned())));
        for (at, source) in sources.iter().enumerate().skip(first) {
            loop {
                let keys = self.snapshot.changed_keys(source, session, key.as_deref(), PAGE)?;
                for key in &keys {
                    found.extend(self.change(at, source, session, key)?);
                    if found.len() > limit {
                        found.truncate(limit);
                        return Ok((found, true));
                    }
                }
                key = keys.into_iter().next_back();
                if key.is_none() {
                    break;
                }
            }
        }
        Ok((found, false))
    }

    fn change(
        &self,
        at: usize,
        source: &RecordSource,
        session: &ChangeRange,
        key: &str,
    ) -> Result<Option<RecordChange>, Problem> {
        let mut history = KeyHistory::new(*session, source.fields());
        let mut now = None;
        self.snapshot.states(source, key, &session.since, &mut |row| {
            let is_seen = source.sees(RecordBody::new(&row.body))?;
            let seen = is_seen.then_some(row.body.as_slice());
            if row.ended.is_none() {
                now = Some((row.record, row.emitted));
            }
            let state =
                RecordState { ended: row.ended, number: row.record, emitted: row.emitted, seen };
            history.push(state).map_err(|_| Problem::Corrupt)
        })?;
        let change = match now {
            Some(_) => history.finish(),
            None => history.finish_deleted().map_err(|_| Problem::Corrupt)?,
        };
        Ok(match (change, now) {
            (KeyChange::Unchanged, _) | (KeyChange::Changed, None) => None,
            (KeyChange::Removed { deleted, emitted }, _) => {
                Some(RecordChange::Deleted { source: at, key: key.to_owned(), emitted, deleted })
            }
            (KeyChange::Changed, Some((record, emitted))) => {
                Some(RecordChange::Present(RecordRow {
                    record,
                    source: at,
                    key: key.to_owned(),
                    emitted,
                    order: None,
                }))
            }
        })
    }
}

impl RecordSource {
    /// Whether the caller may see a record with this body, if the grant names its key. What a query
    /// asks of the records that there are, asked of one that there was.
    fn sees(&self, body: RecordBody<'_>) -> Result<bool, Problem> {
        let Some(time) = &self.sight.time else { return Ok(true) };
        let Some(field) = time.field.as_ref().or(self.terms.time_field.as_ref()) else {
            return Ok(false);
        };
        let happened = record_time(body, field).map_err(|_| Problem::Corrupt)?;
        Ok(happened.is_some_and(|happened| {
            time.since.is_none_or(|since| since <= happened)
                && time.until.is_none_or(|until| happened < until)
        }))
    }
}
