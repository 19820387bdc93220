//! Removing all records of a stream, some in each transaction: what a transaction changes is kept
//! beside the database until it is done, and of a million records that would be more than there is
//! room for.

use rusqlite::params;
use stile_domain::records::problem::Problem;

use super::problem;
use super::write::{TargetStream, WriteBatch};

/// Records whose numbers are held at once.
const PAGE: i64 = 500;
/// Rows that one transaction removes, but for those of its last record.
const ROWS: u64 = 5000;

/// The last record that a stream had at some moment. Those that come later are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRecord(i64);

impl WriteBatch<'_> {
    /// The last record that a stream has, if it has any.
    ///
    /// # Errors
    /// What the database says.
    pub fn last_record(&self, target: &TargetStream) -> Result<Option<LastRecord>, Problem> {
        // The sign keeps SQLite from walking all records of the database.
        let text = "SELECT max(+id) FROM records WHERE stream = ?1";
        let last: Option<i64> =
            self.transaction.query_row(text, [target.row], |row| row.get(0)).map_err(problem)?;
        Ok(last.map(LastRecord))
    }

    /// Removes some records of a stream up to the last one that it had. Says whether there may be
    /// more of them.
    ///
    /// # Errors
    /// What the database says; the batch must then be given up.
    pub fn remove_up_to(
        &mut self,
        target: &TargetStream,
        LastRecord(last): LastRecord,
    ) -> Result<bool, Problem> {
        let mut removed = 0;
        for record in self.some_records(target, last)? {
            let mut query = self
                .transaction
                .prepare_cached("SELECT body FROM records WHERE id = ?1")
                .map_err(problem)?;
            let body: Vec<u8> = query.query_row([record], |row| row.get(0)).map_err(problem)?;
            removed += self.remove(record, &body)?;
            if removed >= ROWS {
                break;
            }
        }
        Ok(removed > 0)
    }

    fn some_records(&self, target: &TargetStream, last: i64) -> Result<Vec<i64>, Problem> {
        let text = "SELECT id FROM records WHERE stream = ?1 AND +id <= ?2 LIMIT ?3";
        let mut query = self.transaction.prepare_cached(text).map_err(problem)?;
        let rows = query.query_map(params![target.row, last, PAGE], |row| row.get(0));
        rows.and_then(Iterator::collect).map_err(problem)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::indexed_fields::IndexedFields;
    use stile_domain::records::instant::Instant;
    use stile_domain::records::value::FieldValue;

    use super::super::tests::{Rig, name, permits, rig};
    use super::super::{IncomingRecord, NAME};
    use super::*;

    fn put(rig: &Rig, stream: &str, keys: std::ops::Range<u32>) {
        let searchable = ["text".to_owned(), "long".to_owned()].into();
        let terms = IndexedFields { searchable, ..IndexedFields::default() };
        let written = rig.records.write(&permits().0, |batch| {
            let target = match batch.target(&name("mail"), &name(stream))? {
                Some(target) => target,
                None => batch.declare(&name("mail"), &name(stream), "{}", &terms)?,
            };
            for key in keys {
                let mut fields =
                    vec![("text".to_owned(), FieldValue::Text(format!("words {key}")))];
                if key % 100 == 0 {
                    fields.push((
                        "long".to_owned(),
                        FieldValue::Text("many long words ".repeat(9000)),
                    ));
                }
                let key = RecordKey::parse(&key.to_string()).unwrap();
                batch.upsert(
                    &target,
                    IncomingRecord {
                        key: &key,
                        emitted: Instant(0),
                        fields: &fields,
                        streamed: Vec::new(),
                    },
                )?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn counts(rig: &Rig) -> Vec<i64> {
        let connection = Connection::open(rig.folder.path().join(NAME)).unwrap();
        let count = |table| {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        };
        ["records", "pieces", "tokens", "streams"]
            .into_iter()
            .map(|table| count(table).unwrap())
            .collect()
    }

    #[test]
    fn a_stream_is_emptied_in_bounded_steps_of_what_it_had_and_of_nothing_else() {
        let rig = rig();
        put(&rig, "kept", 0..300);
        let kept = counts(&rig);
        put(&rig, "emptied", 0..1700);
        let owner = permits().0;
        let target = |batch: &WriteBatch<'_>| {
            batch.target(&name("mail"), &name("emptied")).map(Option::unwrap)
        };
        let last =
            rig.records.write(&owner, |batch| batch.last_record(&target(batch)?)).unwrap().unwrap();
        let mut steps = 0;
        let mut left = counts(&rig)[0];
        while rig.records.write(&owner, |batch| batch.remove_up_to(&target(batch)?, last)).unwrap()
        {
            let now = counts(&rig)[0];
            assert!(left - now <= PAGE);
            left = now;
            steps += 1;
            // What comes meanwhile stays.
            put(&rig, "emptied", 5000..5001);
        }
        assert!(steps >= 4, "{steps}");
        let after = counts(&rig);
        assert_eq!(after[0] - kept[0], 1);
        assert_eq!(
            rig.records.write(&owner, |batch| batch.delete(&target(batch)?, "5000")),
            Ok(true)
        );
        assert_eq!(
            counts(&rig),
            [kept[0], kept[1], kept[2], 2],
            "nothing of them is left, and the stream is"
        );
        assert_eq!(rig.records.write(&owner, |batch| batch.last_record(&target(batch)?)), Ok(None));
    }
}
