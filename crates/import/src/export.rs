//! Exports records as files that a person can read and [`crate::restore`] stores again.
//!
//! *Shape*: `records.jsonl` has a line `{"object":"stream","connection","stream","declaration"}`
//! for each stream and then `{"object":"record","connection","stream","key","emitted_at","data"}`
//! for each record, in the order in which they were first ingested. A text of more than
//! [`TEXT_BYTES`] is `null` in `data` and has a file of its own, which the member `texts` names by
//! the field: `{"body":"texts/<sha256>.txt"}`. A blob that a record exposes is a file in `blobs`.
//! An export is one snapshot of the database, and the same records yield the same bytes.

use std::io::{self, Write};

use stile_domain::hash::hex;
use stile_domain::json::text::escaped;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_records::RecordService;
use stile_store::files::ExportFolder;
use stile_store::records::{LongValueRef, RecordRow, RecordSource, RecordsView};

/// The file with all records, without long texts and blobs.
pub(crate) const RECORDS_FILE: &str = "records.jsonl";
pub(crate) const TEXTS: &str = "texts";
pub(crate) const BLOBS: &str = "blobs";
/// Bytes of a blob that are in memory at once.
const BLOB_PART: u64 = 1 << 20;
/// The longest text in the line of its record, in bytes.
pub const TEXT_BYTES: u64 = 1 << 20;
/// Records whose keys are in memory at once.
const PAGE: usize = 256;

/// The records that an export includes. Everything by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportSelection<'a> {
    /// Only the streams of this connection.
    pub connection: Option<&'a str>,
    /// Only the streams with this name.
    pub stream: Option<&'a str>,
}

/// What an export has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// How many streams were written.
    pub streams: usize,
    /// How many records were written.
    pub records: u64,
}

/// How far an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportProgress {
    /// How many records were written.
    pub records: u64,
    /// How many records the export has.
    pub total: u64,
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database failed, the caller may not read, or the selected stream does not exist.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// A file cannot be written.
    #[error(
        "the export cannot be written: {0}; \
         the files that were written are incomplete and can be deleted"
    )]
    Io(#[from] io::Error),
}

/// Exports the selected records to a folder. Blocks. Calls `on_progress` after every few records.
///
/// # Errors
/// [`ExportError`]. The folder then has no `records.jsonl`.
pub fn export(
    services: &RecordService,
    caller: &Principal,
    now: Instant,
    selection: ExportSelection<'_>,
    to: &ExportFolder,
    on_progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportSummary, ExportError> {
    let permit = caller.gate().records()?;
    // The closure can only return a problem of the database, so an error of a file is kept here.
    let mut write_error = None;
    let exported = services.records.read(&permit, now, |view| {
        let is_selected = |source: &RecordSource| {
            selection.connection.is_none_or(|name| source.connection().as_str() == name)
                && selection.stream.is_none_or(|name| source.stream().as_str() == name)
        };
        let sources: Vec<RecordSource> = view.sources()?.into_iter().filter(is_selected).collect();
        if sources.is_empty() && (selection.connection.is_some() || selection.stream.is_some()) {
            let stream = selection.stream.unwrap_or("*").to_owned();
            return Err(Problem::StreamNotFound {
                stream,
                connection: selection.connection.map(str::to_owned),
            });
        }
        match write_all(view, &sources, to, on_progress) {
            Ok(exported) => Ok(exported),
            Err(ExportError::Problem(problem)) => Err(problem),
            Err(ExportError::Io(error)) => {
                write_error = Some(error);
                Err(Problem::NotFound)
            }
        }
    });
    match write_error {
        Some(error) => Err(error.into()),
        None => Ok(exported?),
    }
}

fn write_all(
    view: &RecordsView<'_>,
    sources: &[RecordSource],
    to: &ExportFolder,
    on_progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportSummary, ExportError> {
    let exists = || io::Error::from(io::ErrorKind::AlreadyExists);
    let mut file = to.create_file(RECORDS_FILE)?.ok_or_else(exists)?;
    for source in sources {
        let (connection, stream, declaration) =
            (source.connection(), source.stream(), source.declaration());
        writeln!(
            file,
            "{{\"object\":\"stream\",\"connection\":\"{connection}\",\"stream\":\"{stream}\",\
             \"declaration\":{declaration}}}"
        )?;
    }
    let counts = sources.iter().map(|source| Ok(view.count(source)?.0));
    let total = counts.sum::<Result<u64, Problem>>()?;
    let mut records = 0;
    let mut after: Option<RecordRow> = None;
    loop {
        let rows = view.in_ingest_order(sources, after.as_ref(), PAGE)?;
        for row in &rows {
            write_record(view, sources, row, to, &mut file)?;
            write_blobs(view, sources, row, to)?;
            records += 1;
        }
        on_progress(ExportProgress { records, total });
        match rows.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    file.finish()?;
    Ok(ExportSummary { streams: sources.len(), records })
}

fn write_record(
    view: &RecordsView<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    to: &ExportFolder,
    file: &mut impl Write,
) -> Result<(), ExportError> {
    let source = sources.get(row.source).ok_or(Problem::Corrupt)?;
    let loaded = view.load_fields(sources, row)?;
    let (connection, stream) = (source.connection(), source.stream());
    let (key, emitted) = (escaped(&row.key), row.emitted.to_rfc3339());
    write!(
        file,
        "{{\"object\":\"record\",\"connection\":\"{connection}\",\"stream\":\"{stream}\",\
         \"key\":\"{key}\",\"emitted_at\":\"{emitted}\",\"data\":{{"
    )?;
    let mut texts = Vec::new();
    for (at, entry) in loaded.body().entries().enumerate() {
        let entry = entry.map_err(|_| Problem::Corrupt)?;
        write!(file, "{}\"{}\":", if at > 0 { "," } else { "" }, escaped(entry.name))?;
        let long = || loaded.long_value(&entry).ok_or(Problem::Corrupt);
        match entry.value {
            StoredValue::Null => file.write_all(b"null")?,
            StoredValue::Bool(value) => write!(file, "{value}")?,
            StoredValue::Number(digits) => file.write_all(digits.as_bytes())?,
            StoredValue::Text(text) => write!(file, "\"{}\"", escaped(text))?,
            StoredValue::Json(json) => file.write_all(json.as_bytes())?,
            StoredValue::LongJson(_) => write_long(view, long()?, file, |piece| piece.to_owned())?,
            // A value that is base64 stays in its line: restoring detects base64 by reading the
            // whole value, and a text in a file is not read for that.
            StoredValue::LongText(text) if text.bytes > TEXT_BYTES && !entry.binary => {
                file.write_all(b"null")?;
                texts.push(format!(
                    "\"{}\":\"{}\"",
                    escaped(entry.name),
                    write_text(view, long()?, to)?
                ));
            }
            StoredValue::LongText(_) => {
                file.write_all(b"\"")?;
                write_long(view, long()?, file, escaped)?;
                file.write_all(b"\"")?;
            }
        }
    }
    file.write_all(b"}")?;
    if !texts.is_empty() {
        write!(file, ",\"texts\":{{{}}}", texts.join(","))?;
    }
    Ok(file.write_all(b"}\n")?)
}

/// Writes a text to a file of its own, unless the file exists, and returns the name of the file.
fn write_text(
    view: &RecordsView<'_>,
    long: LongValueRef,
    to: &ExportFolder,
) -> Result<String, ExportError> {
    let name = format!("{TEXTS}/{}.txt", hex(&long.value.digest));
    if let Some(mut text) = to.create_file(&name)? {
        write_long(view, long, &mut text, |piece| piece.to_owned())?;
        text.finish()?;
    }
    Ok(name)
}

/// Writes the blobs of a record to files of their own, unless the files exist.
fn write_blobs(
    view: &RecordsView<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    to: &ExportFolder,
) -> Result<(), ExportError> {
    for id in view.blobs_of(row)? {
        // A record can refer to a blob that was never stored.
        let Some(blob) = view.blob(sources, &id)? else { continue };
        let Some(mut file) = to.create_file(&format!("{BLOBS}/{id}"))? else { continue };
        let mut at = 0;
        while at < blob.bytes {
            let part = view.blob_bytes(&blob, at, BLOB_PART)?;
            file.write_all(&part)?;
            at += part.len() as u64;
        }
        file.finish()?;
    }
    Ok(())
}

fn write_long(
    view: &RecordsView<'_>,
    long: LongValueRef,
    to: &mut impl Write,
    encode: impl Fn(&str) -> String,
) -> Result<(), ExportError> {
    let mut failed = None;
    view.long_pieces(long, |piece| {
        failed = to.write_all(encode(piece).as_bytes()).err();
        Ok(failed.is_none())
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}
