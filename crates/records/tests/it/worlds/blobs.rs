//! Blobs, for the worlds of the model and the oracle: which there are, what is asked of them, what
//! is answered.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ring::digest;
use serde_json::json;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::FieldValue;
use stile_records::RecordService;
use stile_records::operation_declaration::{BlobHandler, OperationCall};
use stile_testkit::chance::Chance;

use super::json::J;
use super::model::{Rec, pick, some};
use super::oracle::Refusal;
use super::places;

/// Bytes that are stored in every world, with their names.
pub(crate) static BLOBS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let long = (0..150_000u32).map(|at| (at.wrapping_mul(31) >> 4) as u8).collect();
    [Vec::new(), b"one".to_vec(), b"two".to_vec(), long]
        .into_iter()
        .map(|bytes| (name_of(&bytes), bytes))
        .collect()
});

fn hex(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(crate) fn name_of(bytes: &[u8]) -> String {
    format!("sha256-{}", hex(bytes))
}

/// What may stand for a name of a blob.
fn name(chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => name_of(b"never stored"),
        1 => pick(chance, &["b1", "sha256-", "", "sha256-00", "../x"]).to_owned(),
        2 => some(chance, &BLOBS).0.to_uppercase(),
        _ => some(chance, &BLOBS).0,
    }
}

/// A value that names a blob, or looks as if it did.
pub(crate) fn value(chance: &mut Chance) -> String {
    let one = |chance: &mut Chance| {
        let mut one = json!({ "blob_id": name(chance) });
        let kind = pick(
            chance,
            &["image/png", "Image/PNG;x=1", "text/html", "text/html", "no type", "a/b\r\nc"],
        );
        match chance.below(4) {
            0 => {}
            1 => one["mime_type"] = json!(7),
            _ => one["mime_type"] = json!(kind),
        }
        one
    };
    match chance.below(8) {
        0 => json!([1, one(chance), null, one(chance)]),
        4 => json!({ "a/~": [[{ "": one(chance), "é": 1.5 }]], "n": [one(chance), "b\"" ] }),
        5 => {
            let mut outer = one(chance);
            outer["like"] = json!([one(chance), one(chance)]);
            outer
        }
        1 => json!([one(chance), "x".repeat(1100)]),
        2 => json!({ "deeper": one(chance) }),
        3 => json!([[one(chance)]]),
        _ => one(chance),
    }
    .to_string()
}

/// The name in a request's path.
pub(crate) fn draw(chance: &mut Chance) -> String {
    name(chance)
}

/// Asks for all of a blob, in parts, and tells it as JSON.
pub(crate) fn send(
    services: &RecordService,
    caller: &Principal,
    now: Instant,
    call: &OperationCall<BlobHandler>,
) -> Result<String, Problem> {
    let head = services.blob_head(caller, now, call)?;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < head.bytes {
        bytes.extend(services.blob_part(caller, now, call, bytes.len() as u64, 65_537)?);
    }
    assert_eq!(services.blob_part(caller, now, call, head.bytes, 7)?, b"");
    Ok(told(&bytes, &head.media_type, head.is_safe_inline))
}

fn told(bytes: &[u8], media_type: &str, shown: bool) -> String {
    json!({ "bytes": bytes.len(), "sha256": hex(bytes), "type": media_type, "shown": shown })
        .to_string()
}

/// What is answered where these records are seen, each with what says which of its fields are.
pub(crate) fn answer<'a>(
    wanted: &str,
    records: impl Iterator<Item = (&'a Rec, &'a dyn Fn(&str) -> bool)>,
) -> Result<J, Refusal> {
    let mut kinds = BTreeSet::new();
    for (record, is_seen) in records {
        for (_, value) in record.fields.iter().filter(|(name, _)| is_seen(name)) {
            let FieldValue::Json(text) = value else { continue };
            for placed in places::all(text) {
                let one = J::parse(placed.json);
                if one.get("blob_id").text() == Some(wanted) {
                    let kind = one.get("mime_type").text().unwrap_or_default();
                    kinds.insert(kind.to_ascii_lowercase());
                }
            }
        }
    }
    let bytes = BLOBS.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| bytes);
    let Some(bytes) = bytes.filter(|_| !kinds.is_empty()) else {
        return Err(("blob_not_found", 404));
    };
    let kinds: BTreeSet<&str> = kinds
        .iter()
        .map(|kind| match kind.as_str() {
            "image/png" | "image/png;x=1" => "image/png",
            "text/html" => "text/html",
            _ => "",
        })
        .collect();
    Ok(J::parse(&match kinds.into_iter().collect::<Vec<_>>()[..] {
        ["image/png"] => told(bytes, "image/png", true),
        ["text/html"] => told(bytes, "text/html", false),
        _ => told(bytes, "application/octet-stream", false),
    }))
}
