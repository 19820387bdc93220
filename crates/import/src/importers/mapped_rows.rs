//! Rows of JSON that an importer turns into records of its own fields.

use std::io;
use std::sync::Arc;

use stile_records::rows::{DecodedRow, RowDecoder};

use crate::importer::{ImportRow, ImportRows, LocatedRow, UnusableRow};
use crate::json_object::JsonObject;
use crate::source::InputPath;

/// What a row becomes: a record, nothing, or a reason why it cannot be used.
pub(super) type MappedRow = Result<Option<ImportRow>, UnusableRow>;

/// The rows of a decoder, each mapped.
struct MappedRows<D, M> {
    file: Arc<str>,
    decoder: D,
    map: M,
}

/// Reads the rows of a decoder, and turns each into a record.
pub(super) fn open<D: RowDecoder + 'static>(
    path: &InputPath,
    decoder: D,
    map: impl FnMut(JsonObject) -> MappedRow + 'static,
) -> Box<dyn ImportRows> {
    Box::new(MappedRows { file: path.display().to_string().into(), decoder, map })
}

impl<D: RowDecoder, M: FnMut(JsonObject) -> MappedRow> ImportRows for MappedRows<D, M> {
    fn next(&mut self) -> io::Result<Option<LocatedRow>> {
        loop {
            let Some(DecodedRow { line, row }) = self.decoder.next()? else { return Ok(None) };
            let mapped = match row {
                Ok(row) => (self.map)(JsonObject(row.fields))
                    .map(|mapped| mapped.map(|own| ImportRow { replaced: row.replaced, ..own })),
                Err(bad) => Err(bad.into()),
            };
            if let Some(row) = mapped.transpose() {
                return Ok(Some(LocatedRow { file: Arc::clone(&self.file), line, row }));
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.decoder.consumed()
    }
}
