//! The index by value of a stream: which records it covers, and how its rows are kept.
//!
//! The index of a stream is in runs. A run covers some records that follow one another in the
//! stream, and has the value keys of each field of these records, in order, each with the numbers
//! of the records that have the value: [`BLOCK_KEYS`] keys in a row. New records are the tail,
//! which has no run. When the tail is long enough, a writer turns it into the next run. Runs are
//! never merged, so each row is written once, beside the rows of the same run.

use stile_domain::records::problem::Problem;
use stile_domain::varint;

/// The keys of a row. A lookup reads up to so many more than it needs.
pub(super) const BLOCK_KEYS: usize = 16;
/// The records of a run, and so of the tail that becomes one.
pub(super) const RUN_RECORDS: u32 = 2048;

/// The state of the index of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldIndex {
    /// The fields of the index. A row has the position of its field in this list. `None` if nobody
    /// has looked at the declaration yet.
    pub(super) fields: Option<Vec<String>>,
    /// The last record of the last run. All records of the stream up to it are in runs.
    pub(super) covered: i64,
    /// How many records are in runs.
    pub(super) indexed: i64,
    /// How many records follow.
    pub(super) tail: i64,
}

/// The index of a stream as a reader uses it.
pub(super) struct FieldRuns {
    pub(super) index: FieldIndex,
    /// The runs, in order. The number of a run is that of its first record.
    pub(super) runs: Vec<i64>,
}

/// The place of a row of the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldValueKey {
    pub(super) run: i64,
    /// The position of the field among the fields of the index.
    pub(super) field: i64,
    /// The least value key that the row may have. The next row of the field begins after its keys.
    pub(super) value: Vec<u8>,
}

/// A row of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldValueRow {
    pub(super) key: FieldValueKey,
    /// Value keys with the numbers of their records, packed.
    pub(super) entries: Vec<u8>,
}

/// Adds a value key and the numbers of its records, in ascending order, to a row of a run: the
/// length of the key, the key, the number of records, and the distance of each record from the one
/// before, of the first from the run. Numbers are LEB128.
pub(super) fn pack(run: i64, key: &[u8], records: &[i64], row: &mut Vec<u8>) {
    varint::push(row, key.len() as u64);
    row.extend_from_slice(key);
    varint::push(row, records.len() as u64);
    let mut before = run;
    for record in records {
        varint::push(row, record.wrapping_sub(before) as u64);
        before = *record;
    }
}

/// Passes each value key of a row and each of its records to `take`.
///
/// # Errors
/// [`Problem::Corrupt`] if the bytes are not what [`pack`] makes.
pub(super) fn unpack(
    run: i64,
    mut row: &[u8],
    mut take: impl FnMut(&[u8], i64),
) -> Result<(), Problem> {
    while !row.is_empty() {
        let length = usize::try_from(number(&mut row)?).map_err(|_| Problem::Corrupt)?;
        let (key, rest) = row.split_at_checked(length).ok_or(Problem::Corrupt)?;
        row = rest;
        let mut record = run;
        for _ in 0..number(&mut row)? {
            record = record.wrapping_add(number(&mut row)? as i64);
            take(key, record);
        }
    }
    Ok(())
}

fn number(bytes: &mut &[u8]) -> Result<u64, Problem> {
    varint::take(bytes).ok_or(Problem::Corrupt)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packed_row_is_unpacked_as_it_was(
            run in 1..1_i64 << 31,
            keys in proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>(), 0..14),
                proptest::collection::btree_set(0..1_i64 << 32, 1..9),
                0..20,
            ),
        ) {
            let (mut row, mut expected) = (Vec::new(), Vec::new());
            for (key, distances) in keys {
                let records: Vec<i64> = distances.into_iter().map(|far| run + far).collect();
                pack(run, &key, &records, &mut row);
                expected.extend(records.into_iter().map(|record| (key.clone(), record)));
            }
            let mut unpacked = Vec::new();
            unpack(run, &row, |key, record| unpacked.push((key.to_vec(), record))).unwrap();
            prop_assert_eq!(unpacked, expected);
        }

        #[test]
        fn damaged_bytes_cause_an_error_or_few_records(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut records = 0;
            let _ = unpack(1, &bytes, |_, _| records += 1);
            prop_assert!(records <= bytes.len());
        }
    }
}
