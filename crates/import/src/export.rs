//! Everything that is stored, as files that this program reads again and a person can read as well.
//!
//! *Shape*: `records.jsonl` has a line `{"object":"stream","connection","stream","declaration"}`
//! for each stream and then `{"object":"record","connection","stream","key","emitted_at","data"}`
//! for each record, in the order in which they were first ingested. A text of more than
//! [`TEXT_BYTES`] is `null` in `data` and lies in a file of its own, which the member `texts` names
//! by its field: `{"body":"texts/<sha256>.txt"}`. A blob that a record exposes lies in `blobs`
//! under its name.
//!
//! One moment of the database is exported, a record at a time. The same records give the same
//! bytes.

use std::io::{self, Write};

use stile_domain::hash::hex;
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::StoredValue;
use stile_store::files::ExportFolder;
use stile_store::records::{LongValueRef, RecordRow, RecordSource, RecordsView};

use stile_domain::json_string::escaped;
use stile_records::RecordService;

/// The file with everything but long texts.
pub const RECORDS_FILE: &str = "records.jsonl";
/// The folder with long texts.
pub(super) const TEXTS: &str = "texts";
/// The folder with blobs.
pub(super) const BLOBS: &str = "blobs";
/// Bytes of a blob that are held at once.
const BLOB_PART: u64 = 1 << 20;
/// The longest text in the line of its record, in bytes.
pub const TEXT_BYTES: u64 = 1 << 20;
/// Records whose keys are held at once.
const PAGE: usize = 256;

/// What is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// Of this connection only.
    pub connection: Option<&'a str>,
    /// Of this stream only.
    pub stream: Option<&'a str>,
}

/// How much was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Streams.
    pub streams: usize,
    /// Records.
    pub records: u64,
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database, or who asks.
    #[error("{0}")]
    Problem(#[from] Problem),
    /// The files cannot be written.
    #[error(
        "the export cannot be written: {0}; what is there of it is incomplete and can be deleted"
    )]
    Io(#[from] io::Error),
}

/// Writes what is selected to a folder. Blocks.
///
/// # Errors
/// [`ExportError`]; `records.jsonl` is then not there.
pub fn export(
    services: &RecordService,
    caller: &Principal,
    now: Instant,
    selection: Selection<'_>,
    to: &ExportFolder,
) -> Result<Exported, ExportError> {
    let permit = caller.gate().records()?;
    // The view can only say what the database says against it.
    let mut failed = None;
    let exported = services.records.read(&permit, now, |view| {
        let all = view.sources()?;
        let wanted = |source: &RecordSource| {
            selection.connection.is_none_or(|name| source.connection().as_str() == name)
                && selection.stream.is_none_or(|name| source.stream().as_str() == name)
        };
        let sources: Vec<RecordSource> = all.into_iter().filter(wanted).collect();
        if sources.is_empty() && (selection.connection.is_some() || selection.stream.is_some()) {
            let stream = selection.stream.unwrap_or("*").to_owned();
            return Err(Problem::StreamNotFound {
                stream,
                connection: selection.connection.map(str::to_owned),
            });
        }
        match write_all(view, &sources, to) {
            Ok(exported) => Ok(exported),
            Err(ExportError::Problem(problem)) => Err(problem),
            Err(ExportError::Io(error)) => {
                failed = Some(error);
                Err(Problem::NotFound)
            }
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(exported?),
    }
}

fn write_all(
    view: &RecordsView<'_>,
    sources: &[RecordSource],
    to: &ExportFolder,
) -> Result<Exported, ExportError> {
    let exists = || io::Error::from(io::ErrorKind::AlreadyExists);
    let mut file = to.create_file(RECORDS_FILE)?.ok_or_else(exists)?;
    for source in sources {
        let (connection, stream, declaration) =
            (source.connection(), source.stream(), source.declaration());
        writeln!(
            file,
            "{{\"object\":\"stream\",\"connection\":\"{connection}\",\"stream\":\"{stream}\",\"declaration\":{declaration}}}"
        )?;
    }
    let mut records = 0;
    let mut after: Option<RecordRow> = None;
    loop {
        let rows = view.in_ingest_order(sources, after.as_ref(), PAGE)?;
        for row in &rows {
            write_record(view, sources, row, to, &mut file)?;
            write_blobs(view, sources, row, to)?;
            records += 1;
        }
        match rows.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    file.finish()?;
    Ok(Exported { streams: sources.len(), records })
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
        "{{\"object\":\"record\",\"connection\":\"{connection}\",\"stream\":\"{stream}\",\"key\":\"{key}\",\"emitted_at\":\"{emitted}\",\"data\":{{"
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
            // Bytes in base64 are told by looking at all of them, which a text in a file is spared.
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

/// Puts a text in a file of its own, unless it is there, and says which.
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

/// Puts the blobs of a record in files of their own, unless they are there.
fn write_blobs(
    view: &RecordsView<'_>,
    sources: &[RecordSource],
    row: &RecordRow,
    to: &ExportFolder,
) -> Result<(), ExportError> {
    for id in view.blobs_of(row)? {
        // What a record names need not be here.
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
    spelled: impl Fn(&str) -> String,
) -> Result<(), ExportError> {
    let mut failed = None;
    view.long_pieces(long, |piece| {
        failed = to.write_all(spelled(piece).as_bytes()).err();
        Ok(failed.is_none())
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}
