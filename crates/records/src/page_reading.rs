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
use crate::record_json::RecordOptions;
use crate::value_preview::may_be_encoded;

/// A longer value that is written whole is read when it is written.
const MOST_WHOLE: u64 = 4 * PIECE_CHARS;

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
        let mut left = options.limits.record_bytes().map_or(u64::MAX, |bytes| bytes as u64);
        for entry in loaded.body().entries() {
            let entry = entry.map_err(|_| Problem::Corrupt)?;
            let is_selected = options.fields.is_none_or(|fields| fields.contains(entry.name));
            let Some(long) = loaded.long_value(&entry).filter(|_| is_selected) else { continue };
            let size = long.value.chars;
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
            let length = part.end - part.start;
            parts.push((long, part));
            // A record that is cut at a size shows no further values.
            left = left.saturating_sub(length);
            if left == 0 {
                break;
            }
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
