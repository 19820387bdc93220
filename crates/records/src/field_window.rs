//! A window of one field: selected by the parameters of a request, read from the store, rendered
//! once as JSON.
//!
//! A window of a text counts Unicode scalar values. A window of a binary field counts bytes. The
//! rules of both are in [`stile_domain::records::selector`].

use serde_json::{Value as Json, json};
use stile_domain::base64;
use stile_domain::records::blob::{
    BlobReference, ReferenceFinder, blob_references, is_blob_reference,
};
use stile_domain::records::find::Needle;
use stile_domain::records::pieces::{self, CharRange};
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::request::GetFieldWindow;
use stile_domain::records::sealed_cursor::{Binding, WindowCursor, WindowUnit};
use stile_domain::records::selector::{ByteSelector, TextParameters, TextSelector, WindowBounds};
use stile_domain::records::stored_body::{BodyField, StoredValue};
use stile_store::records::{LoadedRecord, RecordSource, RecordsView};

use crate::field_bytes::FieldBytes;
use crate::field_text::{FieldText, format_digest, json_type};
use crate::inner_value::InnerValue;
use crate::media_types;

/// The window that a request asks for.
pub(crate) enum WindowSelector {
    /// Of characters; or, if the selector has a cursor and nothing else, of the unit of that
    /// cursor.
    Text(TextSelector),
    Bytes(ByteSelector),
}

impl WindowSelector {
    /// Takes the selector from a request.
    ///
    /// # Errors
    /// [`Problem::InvalidWindow`] if parameters exclude each other.
    pub(crate) fn of(request: &GetFieldWindow) -> Result<Self, Problem> {
        let (cursor, q) = (request.cursor.as_deref(), request.q.as_deref());
        let (offset, limit) = (request.offset_chars, request.limit_chars);
        let (before, after) = (request.before_chars, request.after_chars);
        let counts_chars = [offset, limit, before, after].iter().any(Option::is_some);
        let text_parameters =
            if counts_chars || q.is_some() { TextParameters::Sent } else { TextParameters::Absent };
        let (first, most) = (request.offset_bytes, request.limit_bytes);
        if let Some(bytes) = ByteSelector::new(cursor, first, most, text_parameters)? {
            return Ok(Self::Bytes(bytes));
        }
        TextSelector::new(cursor, offset, limit, q, before, after).map(Self::Text)
    }

    /// Returns the selector of bytes that a cursor alone stands for; `None` for any other selector.
    fn continued_in_bytes(&self, view: &RecordsView<'_>) -> Option<ByteSelector> {
        let Self::Text(TextSelector::After { cursor, limit: None }) = self else { return None };
        let opened = view.unseal(cursor).ok()?;
        (WindowUnit::of_cursor(&opened) == Some(WindowUnit::Bytes))
            .then(|| ByteSelector::After { cursor: cursor.clone(), limit: None })
    }
}

/// The field of one record, or the value within a field, that a window is read from.
pub(crate) struct WindowedField<'a> {
    pub(crate) source: &'a RecordSource,
    pub(crate) loaded: &'a LoadedRecord,
    /// The field of the record.
    pub(crate) outer: &'a BodyField<'a>,
    /// The value within the field, if the path leads into the field.
    pub(crate) inner: Option<&'a InnerValue>,
    /// The field, or the value within it, under the path that names it.
    pub(crate) entry: &'a BodyField<'a>,
    /// What cursors of this field are bound to.
    pub(crate) cursor_binding: Binding,
}

impl WindowedField<'_> {
    /// Returns the text of the value.
    fn text(&self) -> Result<FieldText<'_>, Problem> {
        match (self.inner, self.entry.value) {
            (Some(inner), StoredValue::LongText(_) | StoredValue::LongJson(_)) => {
                let outer = FieldText::load(self.loaded, self.outer)?.long();
                Ok(FieldText::within(inner, outer.ok_or(Problem::Corrupt)?))
            }
            _ => FieldText::load(self.loaded, self.entry),
        }
    }

    /// Returns the reference to bytes that the value is itself, among whatever other members.
    fn own_reference(&self, view: &RecordsView<'_>) -> Result<Option<BlobReference>, Problem> {
        let of_whole = |reference: &BlobReference| reference.pointer.is_empty();
        match self.entry.value {
            // The value itself ends last.
            StoredValue::Json(json) => Ok(blob_references(json).pop().filter(of_whole)),
            StoredValue::LongJson(_) if view.names_blobs(self.loaded, self.outer.name)? => {
                let (mut finder, mut own) = (ReferenceFinder::default(), None);
                self.text()?.pieces(view, &mut |piece| {
                    finder.feed(piece, &mut |found| {
                        own = BlobReference::of(found).filter(of_whole);
                    });
                    true
                })?;
                Ok(own)
            }
            _ => Ok(None),
        }
    }

    /// Returns the units in which the value can be read, for a request of this kind.
    fn units(
        &self,
        view: &RecordsView<'_>,
        selector: &WindowSelector,
    ) -> Result<WindowUnits, Problem> {
        let asks_for_bytes = match selector {
            WindowSelector::Bytes(_) => true,
            WindowSelector::Text(_) => selector.continued_in_bytes(view).is_some(),
        };
        Ok(match self.entry.value {
            StoredValue::Json(json) if is_blob_reference(json) => WindowUnits::Bytes,
            // To know it of a long value, all of it is read.
            StoredValue::Json(_) | StoredValue::LongJson(_)
                if asks_for_bytes && self.own_reference(view)?.is_some() =>
            {
                WindowUnits::Both
            }
            _ if self.entry.binary => WindowUnits::Bytes,
            _ => WindowUnits::Chars,
        })
    }

    /// Returns the references to bytes that end within these characters of the value's JSON. So
    /// each one ends in exactly one of the windows that make the whole.
    fn references(
        &self,
        view: &RecordsView<'_>,
        text: &FieldText<'_>,
        bounds: WindowBounds,
    ) -> Result<Vec<BlobReference>, Problem> {
        let mut all = Vec::new();
        if text.is_text || !view.names_blobs(self.loaded, self.outer.name)? {
            return Ok(all);
        }
        let (mut finder, mut read) = (ReferenceFinder::default(), 0);
        text.pieces(view, &mut |piece| {
            finder.feed(piece, &mut |found| {
                let ends_here = bounds.start < found.end_chars && found.end_chars <= bounds.end;
                all.extend(BlobReference::of(found).filter(|_| ends_here));
            });
            read += pieces::count(piece);
            read < bounds.end
        })?;
        Ok(all)
    }

    /// Checks that the selector has no cursor of this field's text, for a field that is bytes now.
    ///
    /// # Errors
    /// [`CursorProblem::Stale`], since the field was a text when the cursor was made.
    fn check_no_text_cursor(
        &self,
        view: &RecordsView<'_>,
        selector: &TextSelector,
    ) -> Result<(), Problem> {
        let TextSelector::After { cursor, .. } = selector else { return Ok(()) };
        let no_text = [0; 32];
        let of_text = view.unseal(cursor).is_ok_and(|opened| {
            let unit = WindowUnit::Chars;
            WindowUnit::of_cursor(&opened) == Some(unit)
                && WindowCursor::decode(&opened, unit, self.cursor_binding, &no_text).err()
                    == Some(CursorProblem::Stale)
        });
        if of_text { Err(Problem::InvalidCursor(CursorProblem::Stale)) } else { Ok(()) }
    }
}

pub(crate) struct FieldWindow {
    path: String,
    json_type: &'static str,
    bounds: WindowBounds,
    next_cursor: Option<String>,
    previous_cursor: Option<String>,
    content: WindowContent,
}

enum WindowContent {
    Text {
        text: String,
        is_text: bool,
        /// The digest of the whole text.
        digest: [u8; 32],
        /// The range of `q`.
        found: Option<CharRange>,
        /// The references to bytes that end in the window.
        references: Vec<BlobReference>,
    },
    Bytes {
        bytes: Vec<u8>,
        media_type: String,
        /// The digest of the whole blob; `None` for bytes that a base64 text encodes.
        blob_digest: Option<[u8; 32]>,
    },
}

impl FieldWindow {
    /// Reads the window that the selector asks for.
    ///
    /// # Errors
    /// [`Problem::FieldNotBinary`], [`Problem::FieldNotText`], [`Problem::InvalidCursor`],
    /// [`Problem::QueryNotFound`], [`Problem::InvalidWindow`], [`Problem::BlobNotFound`]; what the
    /// database reports.
    pub(crate) fn read(
        view: &RecordsView<'_>,
        field: &WindowedField<'_>,
        selector: &WindowSelector,
    ) -> Result<Self, Problem> {
        let units = field.units(view, selector)?;
        let name = || field.entry.name.to_owned();
        match (units, selector) {
            (WindowUnits::Chars, WindowSelector::Bytes(_)) => {
                Err(Problem::FieldNotBinary { field: name() })
            }
            (WindowUnits::Chars, WindowSelector::Text(text)) => Self::read_text(view, field, text),
            (WindowUnits::Bytes | WindowUnits::Both, WindowSelector::Bytes(bytes)) => {
                Self::read_bytes(view, field, bytes)
            }
            (WindowUnits::Bytes | WindowUnits::Both, WindowSelector::Text(text)) => {
                match (selector.continued_in_bytes(view), units) {
                    (Some(bytes), _) => Self::read_bytes(view, field, &bytes),
                    (None, WindowUnits::Bytes) => {
                        field.check_no_text_cursor(view, text)?;
                        Err(Problem::FieldNotText { field: name() })
                    }
                    (None, _) => Self::read_text(view, field, text),
                }
            }
        }
    }

    fn read_text(
        view: &RecordsView<'_>,
        field: &WindowedField<'_>,
        selector: &TextSelector,
    ) -> Result<Self, Problem> {
        let source = field.text()?;
        let (total, digest) = (source.chars(), source.digest());
        let mut found = None;
        let bounds = match selector {
            TextSelector::At { start, limit } => WindowBounds::from_offset(*start, *limit, total),
            TextSelector::After { cursor, limit } => {
                let opened = view.unseal(cursor)?;
                let unit = WindowUnit::of_cursor(&opened).unwrap_or(WindowUnit::Chars);
                let cursor = WindowCursor::decode(&opened, unit, field.cursor_binding, &digest)
                    .map_err(Problem::InvalidCursor)?;
                // The field was binary when the cursor was made, so its value is another one now,
                // whatever its digest is.
                if unit == WindowUnit::Bytes {
                    return Err(Problem::InvalidCursor(CursorProblem::Stale));
                }
                WindowBounds::from_offset(cursor.start, limit.unwrap_or(cursor.limit), total)
            }
            TextSelector::Around { q, before, after, limit } => {
                let needle = Needle::new(q).ok_or(Problem::QueryNotFound)?;
                let range = source.find(view, &needle)?.ok_or(Problem::QueryNotFound)?;
                found = Some(range);
                WindowBounds::around(range.start, range.end, *before, *after, *limit, total)
                    .ok_or_else(|| Problem::InvalidWindow {
                        param: "limit_chars",
                        message: "`limit_chars` is less than what was found is long; send more, or leave it out".to_owned(),
                    })?
            }
        };
        let text = source.slice(view, bounds.start, bounds.end)?;
        let references = field.references(view, &source, bounds)?;
        let is_text = source.is_text;
        let content = WindowContent::Text { text, is_text, digest, found, references };
        Self::with_cursors(view, field, (WindowUnit::Chars, &digest), bounds, content)
    }

    fn read_bytes(
        view: &RecordsView<'_>,
        field: &WindowedField<'_>,
        selector: &ByteSelector,
    ) -> Result<Self, Problem> {
        let source = match field.entry.value {
            StoredValue::Json(_) | StoredValue::LongJson(_) => {
                let reference = field.own_reference(view)?.ok_or(Problem::BlobNotFound)?;
                FieldBytes::of_blob(view, field.source, reference)?
            }
            _ => FieldBytes::Base64(field.text()?),
        };
        let (total, digest) = (source.len(view)?, source.version_digest());
        let bounds = match selector {
            ByteSelector::At { start, limit } => WindowBounds::from_offset(*start, *limit, total),
            ByteSelector::After { cursor, limit } => {
                let opened = view.unseal(cursor)?;
                let cursor =
                    WindowCursor::decode(&opened, WindowUnit::Bytes, field.cursor_binding, &digest);
                let cursor = cursor.map_err(Problem::InvalidCursor)?;
                WindowBounds::from_offset(cursor.start, limit.unwrap_or(cursor.limit), total)
            }
        };
        let bytes = source.slice(view, bounds.start, bounds.end)?;
        let (media_type, blob_digest) = match source {
            FieldBytes::Base64(_) => (media_types::OCTET_STREAM.to_owned(), None),
            FieldBytes::Blob { id, media_type, .. } => (media_type, Some(*id.digest())),
        };
        let content = WindowContent::Bytes { bytes, media_type, blob_digest };
        Self::with_cursors(view, field, (WindowUnit::Bytes, &digest), bounds, content)
    }

    /// Adds the cursors of the windows before and after this one, bound to the field's version.
    fn with_cursors(
        view: &RecordsView<'_>,
        field: &WindowedField<'_>,
        (unit, digest): (WindowUnit, &[u8; 32]),
        bounds: WindowBounds,
        content: WindowContent,
    ) -> Result<Self, Problem> {
        let seal = |(start, limit)| {
            let cursor = WindowCursor::new(unit, digest, start, limit);
            view.seal(&cursor.encode(field.cursor_binding))
        };
        Ok(Self {
            path: field.entry.name.to_owned(),
            json_type: json_type(field.entry),
            bounds,
            next_cursor: bounds.next().map(seal).transpose()?,
            previous_cursor: bounds.previous().map(seal).transpose()?,
            content,
        })
    }

    /// Renders the member `field`.
    pub(crate) fn field_json(&self) -> Json {
        let Self { path, json_type, bounds: WindowBounds { total, .. }, .. } = self;
        match &self.content {
            WindowContent::Text { is_text, digest, .. } => json!({
                "path": path,
                "type": json_type,
                "text_like": is_text,
                "mime_type": if *is_text { media_types::TEXT } else { media_types::JSON },
                "size_chars": total,
                "digest": format_digest(digest),
            }),
            WindowContent::Bytes { media_type, blob_digest: None, .. } => json!({
                "path": path, "type": json_type, "text_like": false, "mime_type": media_type,
                "size_bytes": total, "encoding": "base64",
            }),
            WindowContent::Bytes { media_type, blob_digest: Some(digest), .. } => json!({
                "path": path, "type": json_type, "text_like": false, "mime_type": media_type,
                "size_bytes": total, "digest": format_digest(digest),
            }),
        }
    }

    /// Renders a reference to bytes: the path of a field window that has them, and what the record
    /// says of them.
    fn reference_json(&self, found: &BlobReference) -> Json {
        let BlobReference { pointer, id, media_type, size_bytes, end_chars } = found;
        json!({
            "path": format!("{}{pointer}", self.path),
            "mime_type": media_type, "size_bytes": size_bytes,
            "digest": format_digest(id.digest()), "end_chars": end_chars,
        })
    }

    /// Renders the member `window`.
    pub(crate) fn window_json(&self) -> Json {
        let Self { bounds, next_cursor, previous_cursor, .. } = self;
        let next_offset = bounds.next().map(|(start, _)| start);
        let previous_offset = bounds.previous().map(|(start, _)| start);
        match &self.content {
            WindowContent::Text { text, found, references, .. } => {
                let mut json = json!({
                "text": text,
                "total_chars": bounds.total,
                "start_chars": bounds.start,
                "end_chars": bounds.end,
                "limit_chars": bounds.limit,
                "complete": bounds.is_complete(),
                "has_more": next_offset.is_some(),
                "next_offset_chars": next_offset,
                "previous_offset_chars": previous_offset,
                "match_start_chars": found.map(|found| found.start),
                "match_end_chars": found.map(|found| found.end),
                "next_cursor": next_cursor,
                "previous_cursor": previous_cursor,
                });
                if let (Some(members), false) = (json.as_object_mut(), references.is_empty()) {
                    let references = references.iter().map(|found| self.reference_json(found));
                    members.insert("references".to_owned(), references.collect());
                }
                json
            }
            WindowContent::Bytes { bytes, .. } => json!({
                "base64": base64::standard(bytes),
                "total_bytes": bounds.total,
                "start_bytes": bounds.start,
                "end_bytes": bounds.end,
                "limit_bytes": bounds.limit,
                "complete": bounds.is_complete(),
                "has_more": next_offset.is_some(),
                "next_offset_bytes": next_offset,
                "previous_offset_bytes": previous_offset,
                "next_cursor": next_cursor,
                "previous_cursor": previous_cursor,
            }),
        }
    }
}

/// The units in which a field can be read.
#[derive(Clone, Copy)]
enum WindowUnits {
    /// Characters.
    Chars,
    /// Bytes: the field is base64, or a reference to a blob and nothing else.
    Bytes,
    /// Both: the field is an object with a reference to a blob among other members.
    Both,
}
