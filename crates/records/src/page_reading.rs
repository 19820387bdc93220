//! Reads what a page of records needs at once, before the page is written record by record.
//!
//! The answers are the same without it. A database on another machine answers each question after a
//! round trip, and a page would otherwise take several for each record.

use std::ops::Range;

use stile_domain::base64::encoded_text::{HEAD_CHARS, TAIL_CHARS};
use stile_domain::records::pieces::PIECE_CHARS;
use stile_domain::records::problem::Problem;
use stile_domain::records::relevance::naming_rank;
use stile_store::records::{LongValueRef, RecordHit, RecordRow, RecordSource};

use crate::context::ReadContext;
use crate::field_page::PreviewLimits;
use crate::record_json::RecordOptions;
use crate::value_preview::may_be_encoded;

/// A longer value that is written whole is read when it is written.
const MOST_WHOLE: u64 = 4 * PIECE_CHARS;

/// No entry in `previews` is shorter, in bytes.
const LEAST_PREVIEW: u64 = 64;
/// The records of a page that are read at once, with their texts.
const AT_ONCE: usize = 25;
/// The most records that are read at once where little of each is shown.
const MOST_AT_ONCE: usize = 100;
/// How much of so many records is read at once, in bytes of JSON.
const BYTES_AT_ONCE: usize = 32 << 10;

/// Returns how many records of a page are read at once.
pub(crate) fn records_at_once(limits: &PreviewLimits) -> usize {
    let bytes = limits.record_bytes().unwrap_or(usize::MAX).max(1);
    (BYTES_AT_ONCE / bytes).clamp(AT_ONCE, MOST_AT_ONCE)
}

/// A record of a page, with its sources and how much of it is written.
pub(crate) type PageRecord<'r> = (&'r [RecordSource], &'r RecordRow, RecordOptions<'r>);

/// Reads the fields of a page's records, and the parts of their long values that will be written.
pub(crate) fn read_page(
    context: ReadContext<'_>,
    records: &[PageRecord<'_>],
) -> Result<(), Problem> {
    let view = context.view;
    view.read_ahead(records.iter().map(|(sources, row, _)| (*sources, *row)))?;
    let mut parts = Vec::new();
    let mut ends = Vec::new();
    for (sources, row, options) in records {
        let loaded = view.load_fields(sources, row)?;
        let most = options.limits.record_bytes().map_or(u64::MAX, |bytes| bytes as u64);
        // The least that is written of the values so far.
        let mut written = 0;
        for entry in loaded.body().entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            let is_selected = options.fields.is_none_or(|fields| fields.contains(entry.name));
            let Some(long) = loaded.long_value(&entry).filter(|_| is_selected) else { continue };
            // A record that is cut at a size shows no further value. The first that does not fit is
            // read, since its length decides that.
            if written > most {
                break;
            }
            let size = long.value.chars;
            let shown = options.limits.value_chars.map_or(size, |chars| chars.min(size));
            written += match (entry.binary, shown < size) {
                (true, _) => LEAST_PREVIEW,
                (false, true) => shown + LEAST_PREVIEW,
                (false, false) => shown,
            };
            let part = match options.limits.value_chars {
                // The padding at the end says how many bytes there are.
                Some(_) if entry.binary => size.saturating_sub(2)..size,
                Some(chars) => {
                    ends.push(long);
                    0..chars.max(HEAD_CHARS.min(size))
                }
                None if size <= MOST_WHOLE => 0..size,
                None => continue,
            };
            parts.push((long, part));
        }
    }
    view.read_ahead_texts(parts)?;
    view.read_ahead_texts(ends.into_iter().filter_map(|long| encoded_end(context, long)))
}

/// Returns the end of a long value, if the value's beginning was read ahead and may be encoded
/// bytes.
fn encoded_end(context: ReadContext<'_>, long: LongValueRef) -> Option<(LongValueRef, Range<u64>)> {
    let head = context.view.beginning_read_ahead(long)?;
    let size = long.value.chars;
    may_be_encoded(&head).then(|| (long, size.saturating_sub(TAIL_CHARS)..size))
}

/// Reads the parts of long values that the hits of a search show: the beginnings of fields that
/// name a record, and the excerpts.
pub(crate) fn read_hits(
    context: ReadContext<'_>,
    hits: &[RecordHit],
    title_chars: u64,
    excerpt: impl Fn(u64) -> Range<u64>,
) -> Result<(), Problem> {
    let mut parts = Vec::new();
    for hit in hits {
        for entry in hit.fields.body().entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            let Some(long) = hit.fields.long_value(&entry).filter(|_| !entry.binary) else {
                continue;
            };
            if naming_rank(entry.name).is_some() {
                parts.push((long, 0..title_chars));
            }
            let own = hit.matches.iter().filter(|found| found.field == entry.name);
            let starts = own.map(|found| found.position.map_or(0, |position| position.start));
            parts.extend(starts.map(|at| (long, excerpt(at))));
        }
    }
    context.view.read_ahead_texts(parts)
}
