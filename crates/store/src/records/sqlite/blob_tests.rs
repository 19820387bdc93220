//! Tests of blobs: stored once, readable in parts, removed with the last record that uses them.

use std::io::{self, Read};

use proptest::prelude::*;
use stile_domain::records::blob::{BlobId, PIECE_BYTES};
use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::tests::{Rig, incoming, indexed, messages, name, permits, rig};
use super::*;
use crate::records::{UpsertOutcome, WriteRefusal};

const DAY: i64 = 86_400 * 1_000_000;

/// Bytes that differ from piece to piece.
fn bytes(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 7) as u8).collect()
}

fn put(rig: &Rig, bytes: &[u8]) -> BlobId {
    put_at(rig, 0, bytes)
}

fn put_at(rig: &Rig, now: i64, bytes: &[u8]) -> BlobId {
    let put =
        rig.records.write_at(&permits().0, Instant(now), |batch| batch.put_blob(&mut &bytes[..]));
    let info = put.unwrap().unwrap();
    assert_eq!(info.bytes, bytes.len() as u64);
    BlobId::parse(&info.id).unwrap()
}

fn names(ids: &[(BlobId, &str)]) -> RecordFields {
    let named: Vec<String> = ids
        .iter()
        .map(|(id, kind)| format!("{{\"blob_id\":\"{id}\",\"mime_type\":\"{kind}\"}}"))
        .collect();
    vec![("files".to_owned(), FieldValue::Json(format!("[{}]", named.join(","))))]
}

/// Stores or deletes a record two days after [`put`], when unused blobs may be removed.
fn write(rig: &Rig, key: &str, fields: Option<&RecordFields>) {
    write_at(rig, 2 * DAY, key, fields);
}

fn write_at(rig: &Rig, now: i64, key: &str, fields: Option<&RecordFields>) {
    let done = rig.records.write_at(&permits().0, Instant(now), |batch| {
        let target = messages(batch, &indexed())?;
        let key = RecordKey::parse(key).unwrap();
        match fields {
            Some(fields) => {
                let incoming = incoming(&key, fields);
                batch.upsert(&target, incoming).map(drop)
            }
            None => batch.delete(&target, key.as_str()).map(drop),
        }
    });
    done.unwrap();
}

/// Reads the media type and all bytes of a blob, as the owner.
fn read(rig: &Rig, id: BlobId) -> Option<(Option<String>, Vec<u8>)> {
    let read = rig.records.read(&permits().1, Instant(1), |view| {
        let blob = view.blob(&view.sources()?, &id)?;
        blob.map(|blob| Ok((blob.media_type.clone(), view.blob_bytes(&blob, 0, u64::MAX)?)))
            .transpose()
    });
    read.unwrap()
}

#[test]
fn the_same_bytes_are_stored_once() {
    let rig = rig();
    for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 77] {
        let bytes = bytes(length, length);
        let id = put(&rig, &bytes);
        let (blobs, pieces) = (rig.count("blobs"), rig.count("blob_pieces"));
        assert_eq!(put(&rig, &bytes), id);
        assert_eq!((rig.count("blobs"), rig.count("blob_pieces")), (blobs, pieces), "{length}");
        assert_eq!(read(&rig, id), None, "no caller sees a blob that no record exposes");
        write(&rig, &format!("k{length}"), Some(&names(&[(id, "text/plain")])));
        assert_eq!(read(&rig, id), Some((Some("text/plain".to_owned()), bytes)));
    }
}

#[test]
fn a_blob_is_removed_with_the_last_record_that_uses_it() {
    let rig = rig();
    let (a, b) = (put(&rig, &bytes(1, 200_000)), put(&rig, &bytes(2, 10)));
    write(&rig, "one", Some(&names(&[(a, "image/png"), (b, "image/png"), (a, "image/png")])));
    write(&rig, "two", Some(&names(&[(a, "image/png")])));
    write(&rig, "one", None);
    assert!(read(&rig, a).is_some() && read(&rig, b).is_none());
    assert_eq!(rig.count("blobs"), 1);
    write(&rig, "two", Some(&names(&[(b, "image/png")])));
    assert_eq!(
        (rig.count("blobs"), rig.count("blob_pieces")),
        (0, 0),
        "and when that record changes"
    );
    assert_eq!(read(&rig, b), None, "a record may name a blob that is not stored");
    assert_eq!(put(&rig, &bytes(2, 10)), b);
    assert_eq!(read(&rig, b).unwrap().1, bytes(2, 10), "and the blob may be stored later");
    write(&rig, "two", Some(&vec![]));
    assert_eq!((rig.count("blobs"), rig.count("blob_uses")), (0, 0));
}

#[test]
fn an_unused_blob_stays_for_a_day_after_it_was_last_stored() {
    let rig = rig();
    let a = put_at(&rig, 0, &bytes(1, 10));
    write_at(&rig, 1, "one", Some(&names(&[(a, "image/png")])));
    write_at(&rig, 2 * DAY, "other", Some(&vec![]));
    put_at(&rig, 3 * DAY, &bytes(1, 10));
    write_at(&rig, 3 * DAY + 1, "one", None);
    write_at(&rig, 4 * DAY - 1, "two", Some(&names(&[(a, "image/png")])));
    assert!(read(&rig, a).is_some(), "an acknowledged blob is there for its record");
    write_at(&rig, 4 * DAY, "two", None);
    assert_eq!(rig.count("blobs"), 0, "a day later the blob is removed with its record");
    for number in 0..250_u64 {
        put_at(&rig, 5 * DAY, &number.to_be_bytes());
    }
    put_at(&rig, 900 * DAY, &bytes(1000, 30));
    write_at(&rig, 6 * DAY - 1, "three", Some(&vec![]));
    assert!(rig.count("blobs") > 100, "a clock that was once wrong removes nothing early");
    put_at(&rig, 5 * DAY, &bytes(1000, 40));
    for _ in 0..5 {
        write_at(&rig, 8 * DAY, "three", Some(&vec![]));
    }
    assert_eq!(
        (rig.count("blobs"), rig.count("blob_pieces")),
        (0, 0),
        "blobs that no record names are removed"
    );
}

#[test]
fn a_blob_stays_for_the_records_of_its_batch() {
    let rig = rig();
    let a = put(&rig, &bytes(1, 10));
    write(&rig, "one", Some(&names(&[(a, "image/png")])));
    let done = rig.records.write(&permits().0, |batch| {
        batch.put_blob(&mut &bytes(1, 10)[..])?.unwrap();
        let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
        batch.delete(&target, "one")?;
        let (key, fields) = (RecordKey::parse("two").unwrap(), names(&[(a, "image/png")]));
        batch.upsert(&target, incoming(&key, &fields))
    });
    assert_eq!(done, Ok(UpsertOutcome::Added));
    assert!(read(&rig, a).is_some());
}

#[test]
fn a_blob_has_a_media_type_if_all_records_agree() {
    let rig = rig();
    let a = put(&rig, b"x");
    let kind = |rig: &Rig| read(rig, a).unwrap().0;
    write(&rig, "one", Some(&names(&[(a, "Image/PNG; x=y")])));
    assert_eq!(kind(&rig).as_deref(), Some("image/png"));
    write(&rig, "two", Some(&names(&[(a, "text/html")])));
    assert_eq!(kind(&rig), None);
    write(&rig, "two", Some(&names(&[(a, "no type")])));
    assert_eq!(kind(&rig), None);
    write(&rig, "one", None);
    assert_eq!(kind(&rig), None);
}

/// A source of some bytes, and then an error.
struct Cut(u64);

impl Read for Cut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.min(buffer.len() as u64);
        self.0 -= count;
        if count == 0 { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(count as usize) }
    }
}

#[test]
fn a_blob_whose_source_fails_is_not_stored() {
    let rig = rig();
    let refused =
        rig.records.write(&permits().0, |batch| batch.put_blob(&mut Cut(3 * PIECE_BYTES)));
    assert_eq!(refused, Ok(Err(WriteRefusal::Unreadable)));
    assert_eq!((rig.count("blobs"), rig.count("blob_pieces")), (0, 0));
}

#[test]
fn a_blob_that_is_too_large_has_no_piece_number() {
    assert_eq!(crate::records::model::blob_piece_number(3, 0), Some(3 << 16));
    assert_eq!(crate::records::model::blob_piece_number(3, (1 << 16) - 1), Some((4 << 16) - 1));
    assert_eq!(crate::records::model::blob_piece_number(3, 1 << 16), None);
    assert_eq!(crate::records::model::blob_piece_number(i64::MAX, 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn reading_a_part_of_a_blob_returns_that_slice(
        length in prop_oneof![0..10u64, (PIECE_BYTES - 2)..(PIECE_BYTES + 3), 0..(4 * PIECE_BYTES)],
        parts in proptest::collection::vec((0..(4 * PIECE_BYTES), 0..(3 * PIECE_BYTES)), 1..12),
    ) {
        let rig = rig();
        let all = bytes(9, length);
        let id = put(&rig, &all);
        write(&rig, "k", Some(&names(&[(id, "a/b")])));
        let read = rig.records.read(&permits().1, Instant(1), |view| {
            let blob = view.blob(&view.sources()?, &id)?.ok_or(Problem::NotFound)?;
            let read = |&(start, limit): &(u64, u64)| view.blob_bytes(&blob, start, limit);
            parts.iter().map(read).collect::<Result<Vec<_>, _>>()
        });
        for ((start, limit), read) in parts.iter().zip(read.unwrap()) {
            let end = (start + limit).min(length);
            let slice = all.get(*start as usize..end as usize).unwrap_or_default();
            prop_assert!(read == slice, "{} {}", start, limit);
        }
    }
}
