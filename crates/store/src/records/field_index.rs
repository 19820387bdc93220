//! The index by value of a stream: which records it covers, and how its rows are kept.
//!
//! The index of a stream is in runs. A run covers some records that follow one another in the
//! stream, and has a row for each field and value key of these records, with the numbers of the
//! records that have the value. New records are the tail, which has no run. When the tail is long
//! enough, a writer turns it into the next run. Runs are never merged, so each row is written once,
//! beside the rows of the same run.

use stile_domain::records::problem::Problem;

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
    /// The value key, as the domain makes it.
    pub(super) value: Vec<u8>,
}

/// A row of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldValueRow {
    pub(super) key: FieldValueKey,
    /// The packed numbers of the records.
    pub(super) records: Vec<u8>,
}

/// Packs the numbers of some records, in ascending order: the distance of each from the one before
/// as a LEB128 number, and of the first from zero.
pub(super) fn pack(records: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let (mut packed, mut before) = (Vec::new(), 0);
    for record in records {
        let mut distance = (record - before) as u64;
        before = record;
        while distance >= 0x80 {
            packed.push((distance & 0x7f) as u8 | 0x80);
            distance >>= 7;
        }
        packed.push(distance as u8);
    }
    packed
}

/// Adds packed numbers of records to a list.
///
/// # Errors
/// [`Problem::Corrupt`] if the bytes are not what [`pack`] makes.
pub(super) fn unpack(packed: &[u8], records: &mut Vec<i64>) -> Result<(), Problem> {
    let (mut record, mut distance, mut shift) = (0_i64, 0_u64, 0);
    for byte in packed {
        distance |= u64::from(byte & 0x7f).checked_shl(shift).ok_or(Problem::Corrupt)?;
        shift += 7;
        if byte & 0x80 == 0 {
            let step = i64::try_from(distance).map_err(|_| Problem::Corrupt)?;
            record = record.checked_add(step).ok_or(Problem::Corrupt)?;
            records.push(record);
            (distance, shift) = (0, 0);
        }
    }
    if shift == 0 { Ok(()) } else { Err(Problem::Corrupt) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_numbers_are_unpacked_as_they_were(
            records in proptest::collection::btree_set(0..1_i64 << 40, 0..40),
        ) {
            let records: Vec<i64> = records.into_iter().collect();
            let mut unpacked = Vec::new();
            unpack(&pack(records.iter().copied()), &mut unpacked).unwrap();
            prop_assert_eq!(unpacked, records);
        }

        #[test]
        fn damaged_bytes_cause_an_error_or_numbers(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = unpack(&bytes, &mut Vec::new());
        }
    }
}
