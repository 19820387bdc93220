//! Windows of a binary field: the bytes that a base64 text means, or those of the blob that a field
//! names.
//!
//! Four characters of base64 are three bytes, so that the place of a byte is found by division and
//! the characters that hold a window are all that is read.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::{Value as Json, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::blob::{self, BlobId};
use stile_domain::records::problem::Problem;
use stile_domain::records::sealed_cursor::{WindowCursor, WindowUnit};
use stile_domain::records::selector::{ByteSelector, WindowBounds};
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::{Blob, LoadedRecord, RecordSource};

use super::Reading;
use super::blobs::UNKNOWN_TYPE;
use super::render::digest_text;
use super::window::{Content, Place, type_of};

/// Whatever [`stile_domain::records::stored_body::is_base64`] takes for base64, after its other alphabet
/// is replaced.
const ANY: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a field, wherever they are.
enum Bytes<'a> {
    /// In a text of so many characters.
    Base64 { text: Content<'a>, chars: u64 },
    /// In a blob.
    Blob { id: BlobId, blob: Blob, media_type: String },
}

/// The members `field` and `window` of a window of a field that is binary.
///
/// # Errors
/// [`Problem::BlobNotFound`], [`Problem::InvalidCursor`]; what the database says.
pub(super) fn window(
    reading: Reading<'_>,
    place: Place<'_>,
    (loaded, entry): (&LoadedRecord, &BodyField<'_>),
    selector: &ByteSelector,
) -> Result<(Json, Json), Problem> {
    let bytes = Bytes::of(reading, place.source, loaded, entry)?;
    let (total, digest) = (bytes.count(reading)?, bytes.digest());
    let span = match selector {
        ByteSelector::At { start, limit } => WindowBounds::from_offset(*start, *limit, total),
        ByteSelector::After { cursor, limit } => {
            let at = WindowCursor::decode(
                &reading.view.unseal(cursor)?,
                WindowUnit::Bytes,
                place.binding,
                &digest,
            );
            let at = at.map_err(Problem::InvalidCursor)?;
            WindowBounds::from_offset(at.start, limit.unwrap_or(at.limit), total)
        }
    };
    let (next, previous) = (span.next(), span.previous());
    let sealed = |next| place.sealed(reading, WindowUnit::Bytes, &digest, next);
    let window = json!({
        "base64": STANDARD.encode(bytes.read(reading, span)?),
        "total_bytes": total,
        "start_bytes": span.start,
        "end_bytes": span.end,
        "limit_bytes": span.limit,
        "complete": span.is_complete(),
        "has_more": next.is_some(),
        "next_offset_bytes": next.map(|(start, _)| start),
        "previous_offset_bytes": previous.map(|(start, _)| start),
        "next_cursor": sealed(next)?,
        "previous_cursor": sealed(previous)?,
    });
    let mut field = json!({
        "path": place.field, "type": type_of(entry), "text_like": false, "mime_type": bytes.media_type(), "size_bytes": total,
    });
    if let Some(field) = field.as_object_mut() {
        match &bytes {
            Bytes::Base64 { .. } => field.insert("encoding".to_owned(), "base64".into()),
            Bytes::Blob { id, .. } => {
                field.insert("digest".to_owned(), digest_text(id.digest()).into())
            }
        };
    }
    Ok((field, window))
}

impl<'a> Bytes<'a> {
    /// The bytes of a field that is binary.
    fn of(
        reading: Reading<'_>,
        source: &RecordSource,
        loaded: &LoadedRecord,
        entry: &BodyField<'a>,
    ) -> Result<Self, Problem> {
        let StoredValue::Json(json) = entry.value else {
            let (text, _) = Content::of(loaded, entry)?;
            let (chars, _) = text.measure();
            return Ok(Self::Base64 { text, chars });
        };
        let reference = blob::blob_references(json).pop().ok_or(Problem::BlobNotFound)?;
        // Through the records that expose it, of which this one is one.
        let blob = reading
            .view
            .blob(std::slice::from_ref(source), &reference.id)?
            .ok_or(Problem::BlobNotFound)?;
        let media_type = reference.media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        Ok(Self::Blob { id: reference.id, blob, media_type })
    }

    /// How many there are. Of a base64 text the end says it, where there is padding.
    fn count(&self, reading: Reading<'_>) -> Result<u64, Problem> {
        match self {
            Self::Blob { blob, .. } => Ok(blob.bytes),
            Self::Base64 { text, chars } => {
                let end = text.text(reading, chars.saturating_sub(2), *chars)?;
                let padding = end.bytes().filter(|byte| *byte == b'=').count() as u64;
                Ok((chars / 4 * 3).saturating_sub(padding))
            }
        }
    }

    /// What is another one where they are others: of the text, or of the blob's name, which is no
    /// base64.
    fn digest(&self) -> [u8; 32] {
        match self {
            Self::Blob { id, .. } => *ContentHash::digest(id.to_string().as_bytes()).as_bytes(),
            Self::Base64 { text, .. } => text.measure().1,
        }
    }

    fn media_type(&self) -> &str {
        match self {
            Self::Blob { media_type, .. } => media_type,
            Self::Base64 { .. } => UNKNOWN_TYPE,
        }
    }

    fn read(&self, reading: Reading<'_>, span: WindowBounds) -> Result<Vec<u8>, Problem> {
        let length = span.end.saturating_sub(span.start);
        match self {
            Self::Blob { blob, .. } => reading.view.blob_bytes(blob, span.start, length),
            Self::Base64 { text, .. } => {
                let groups = text.text(reading, span.start / 3 * 4, span.end.div_ceil(3) * 4)?;
                let groups: String = groups
                    .chars()
                    .map(|letter| match letter {
                        '-' => '+',
                        '_' => '/',
                        other => other,
                    })
                    .collect();
                let bytes = ANY.decode(groups).map_err(|_| Problem::Corrupt)?;
                let before = usize::try_from(span.start % 3).unwrap_or_default();
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Ok(bytes.into_iter().skip(before).take(length).collect())
            }
        }
    }
}
