//! Reads fields of the records that a stream has already, for rows that are compared with them.

use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_store::records::{LoadedRecord, RecordsView};

use crate::importer::ImportTarget;
use crate::report::ImportError;

/// How many records are read at once.
const AT_ONCE: usize = 256;

/// Calls `each` with the key and the short texts and lists of every record of a stream, of these
/// fields alone.
///
/// # Errors
/// The error of the database, and [`Problem::InsufficientScope`] for a caller who is not the owner.
pub(crate) fn each(
    services: &RecordService,
    caller: &Principal,
    target: &ImportTarget,
    names: &[&str],
    each: &mut dyn FnMut(&str, RecordFields),
) -> Result<(), ImportError> {
    let permit = caller.gate().records()?;
    services.records.read(&permit, Instant(0), |view| {
        each_record(view, target, &mut |key, loaded| {
            let mut fields = RecordFields::new();
            for name in names {
                let value = match loaded.body().field(name) {
                    Ok(Some(entry)) => match entry.value {
                        StoredValue::Text(text) => FieldValue::Text(text.to_owned()),
                        StoredValue::Json(json) => FieldValue::Json(json.to_owned()),
                        _ => continue,
                    },
                    _ => continue,
                };
                fields.push(((*name).to_owned(), value));
            }
            each(key, fields);
            true
        })
    })?;
    Ok(())
}

/// Calls `each` with the key and the fields of every record of a stream, as long as it returns
/// `true`.
///
/// # Errors
/// As for [`each`].
pub(crate) fn each_record(
    view: &RecordsView<'_>,
    target: &ImportTarget,
    each: &mut dyn FnMut(&str, &LoadedRecord) -> bool,
) -> Result<(), Problem> {
    let mut sources = view.sources()?;
    sources.retain(|own| *own.stream() == target.stream && *own.connection() == target.connection);
    let mut last = None;
    loop {
        let rows = view.in_ingest_order(&sources, last.as_ref(), AT_ONCE)?;
        view.read_ahead(rows.iter().map(|row| (sources.as_slice(), row)))?;
        for row in &rows {
            if !each(&row.key, &view.load_fields(&sources, row)?) {
                return Ok(());
            }
        }
        match rows.into_iter().next_back() {
            Some(row) => last = Some(row),
            None => return Ok(()),
        }
    }
}
