//! Removes all records of a stream, some of them in each transaction.
//!
//! SQLite keeps what a transaction changes beside the database until the commit. For a million
//! records there may not be room for that.

use stile_domain::records::problem::Problem;

use super::WriteBatch;
use crate::records::model::{LastRecord, TargetStream};

/// The most records that one transaction removes.
const PAGE: i64 = 500;
/// The rows after which a transaction ends. The rows of its last record may exceed them.
const ROWS: u64 = 5000;

impl WriteBatch<'_> {
    /// Returns the last record of a stream. `None` if the stream is empty.
    pub fn last_record(&self, target: &TargetStream) -> Result<Option<LastRecord>, Problem> {
        Ok(self.rows.last_record(target.id)?.map(LastRecord))
    }

    /// Removes some records of a stream, none of them newer than `last`. Returns whether there may
    /// be more to remove.
    pub fn remove_up_to(
        &mut self,
        target: &TargetStream,
        LastRecord(last): LastRecord,
    ) -> Result<bool, Problem> {
        let mut removed = 0;
        for record in self.rows.records_up_to(target.id, last, PAGE)? {
            removed += self.remove(target, record, &self.rows.body(record)?)?;
            if removed >= ROWS {
                break;
            }
        }
        Ok(removed > 0)
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::records::identifiers::RecordKey;
    use stile_domain::records::indexed_fields::IndexedFields;
    use stile_domain::records::value::FieldValue;

    use super::*;
    use crate::records::sqlite::tests::{Rig, incoming, name, permits, rig};

    fn put(rig: &Rig, stream: &str, keys: std::ops::Range<u32>) {
        let searchable = ["text".to_owned(), "long".to_owned()].into();
        let indexed = IndexedFields { searchable, ..IndexedFields::default() };
        let written = rig.records.write(&permits().0, |batch| {
            let target = match batch.target(&name("mail"), &name(stream))? {
                Some(target) => target,
                None => batch.declare(&name("mail"), &name(stream), "{}", &indexed)?,
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
                batch.upsert(&target, incoming(&key, &fields))?;
            }
            Ok(())
        });
        written.unwrap();
    }

    fn counts(rig: &Rig) -> Vec<i64> {
        ["records", "pieces", "tokens", "streams"].map(|table| rig.count(table)).to_vec()
    }

    #[test]
    fn emptying_a_stream_takes_bounded_steps_and_leaves_other_records() {
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
            // A record that is stored meanwhile stays.
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
            "the records are gone, and the stream remains"
        );
        assert_eq!(rig.records.write(&owner, |batch| batch.last_record(&target(batch)?)), Ok(None));
    }
}
