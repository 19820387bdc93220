//! Restores what [`crate::export`] wrote: declarations, and records with their keys, times and
//! order of ingest.
//!
//! An export that is restored into an empty database and exported again yields the same bytes. A
//! stream that exists must have the same declaration; its records are updated as by any import.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stile_domain::hash::ContentHash;
use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::blob::{self, BlobId};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::batch::BATCH_BYTES;
use stile_records::declarations::indexed_fields;
use stile_records::rows::json_lines::JsonLines;
use stile_records::rows::{DecodedRow, RowDecoder as _};
use stile_store::files::{self, TextFile};
use stile_store::records::{
    IncomingRecord, StreamedField, TargetStream, TextSource, UpsertOutcome, WriteBatch,
};

use crate::attachment::digest_all;
use crate::export::{BLOBS, RECORDS_FILE, TEXTS};
use crate::importer::UnusableRow;
use crate::report::{
    BadRow, BadRowPolicy, ImportError, ImportProgress, ImportReport, OnProgress, StoppedImport,
};
use crate::transaction;

/// The most bytes of a line. Escapes make a record longer here than it was when it was ingested.
const MAX_LINE_BYTES: usize = 512 << 20;

enum ExportLine {
    Stream { connection: SourceName, stream: SourceName, declaration: String },
    Record { connection: SourceName, stream: SourceName, record: Box<ExportedRecord> },
}

struct ExportedRecord {
    key: RecordKey,
    emitted: Instant,
    data: RecordFields,
    texts: Vec<(String, TextFile)>,
}

struct Restore<'a> {
    services: &'a RecordService,
    /// The path of `records.jsonl`, as a person reads it.
    file: String,
    report: ImportReport,
}

/// Restores an export: a folder, or the file `records.jsonl` in it. Blocks.
///
/// # Errors
/// [`StoppedImport`], which reports the records that are stored nonetheless.
pub fn restore(
    services: &RecordService,
    caller: &Principal,
    from: &Path,
    bad_rows: BadRowPolicy,
    on_progress: OnProgress<'_>,
) -> Result<ImportReport, Box<StoppedImport>> {
    let path = if files::is_folder(from) { from.join(RECORDS_FILE) } else { from.to_owned() };
    let file = path.display().to_string();
    let mut restore = Restore { services, file, report: ImportReport::default() };
    let stop = StoppedImport::before_any_row;
    let owner = caller.gate().owner().map_err(|problem| stop(problem.into()))?;
    match restore.restore_file(&owner, &path, bad_rows, on_progress) {
        Ok(()) => Ok(restore.report),
        Err(error) if bad_rows == BadRowPolicy::StoreNothing => Err(stop(error)),
        Err(error) => Err(Box::new(StoppedImport { error, report: restore.report })),
    }
}

impl Restore<'_> {
    fn restore_file(
        &mut self,
        owner: &OwnerPermit,
        path: &Path,
        bad_rows: BadRowPolicy,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ImportError> {
        let source = files::open(path).map_err(|error| self.unreadable(error))?;
        let total = source.bytes;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let mut lines = JsonLines::with_max_row_bytes(source.reader, MAX_LINE_BYTES);
        if bad_rows == BadRowPolicy::StoreNothing {
            return self.store_in_one(owner, &mut lines, &folder);
        }
        let load = self.services.records.bulk_load(owner)?;
        loop {
            let begun = lines.consumed();
            let mut batch = Vec::new();
            while batch.len() < load.batch_records() && lines.consumed() - begun < BATCH_BYTES {
                let next = lines.next().map_err(|error| self.unreadable(error))?;
                let Some(decoded) = next else { break };
                batch.push(decoded);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let before = self.report.clone();
            let services = self.services;
            let stored = services.records.write(owner, |writer| {
                let mut targets = HashMap::new();
                batch
                    .into_iter()
                    .try_for_each(|line| self.store(writer, &mut targets, line, &folder))
            });
            if let Err(problem) = stored {
                self.report = before;
                return Err(problem.into());
            }
            on_progress(ImportProgress { storing: true, bytes: lines.consumed(), total });
        }
    }

    fn unreadable(&self, error: io::Error) -> ImportError {
        ImportError::Read { file: self.file.clone(), error }
    }

    fn store_in_one(
        &mut self,
        owner: &OwnerPermit,
        lines: &mut JsonLines<impl io::BufRead>,
        folder: &Path,
    ) -> Result<(), ImportError> {
        let services = self.services;
        transaction::write(&services.records, owner, |batch| {
            let mut targets = HashMap::new();
            loop {
                match lines.next() {
                    Ok(None) => return Ok(Ok(())),
                    Ok(Some(line)) => self.store(batch, &mut targets, line, folder)?,
                    Err(error) => return Ok(Err(self.unreadable(error))),
                }
                if let Some(bad) = self.report.bad.pop() {
                    return Ok(Err(ImportError::BadRow(bad)));
                }
            }
        })
    }

    fn store(
        &mut self,
        batch: &mut WriteBatch<'_>,
        targets: &mut HashMap<(SourceName, SourceName), TargetStream>,
        decoded: DecodedRow,
        folder: &Path,
    ) -> Result<(), Problem> {
        let line = decoded.line;
        let parsed =
            decoded.row.map_err(UnusableRow::from).and_then(|row| parse_line(row.fields, folder));
        let stored = match parsed {
            Err(bad) => Err(bad),
            Ok(ExportLine::Stream { connection, stream, declaration }) => {
                declare(batch, connection, stream, &declaration)?
            }
            Ok(ExportLine::Record { connection, stream, record }) => {
                let source = (connection, stream);
                if !targets.contains_key(&source)
                    && let Some(target) = batch.target(&source.0, &source.1)?
                {
                    targets.insert(source.clone(), target);
                }
                match targets.get(&source) {
                    Some(target) => match put_blobs(batch, &record.data, folder)? {
                        Ok(()) => upsert(batch, target, *record)?
                            .and_then(|outcome| self.report.count(outcome)),
                        Err(bad) => Err(bad),
                    },
                    None => Err(UnusableRow::new(
                        "unknown_stream",
                        format!("no line before it declares the stream `{}`", source.1),
                    )),
                }
            }
        };
        if let Err(bad) = stored {
            self.report.add_bad_row(BadRow::new(&self.file, line, bad));
        }
        Ok(())
    }
}

/// Declares a stream, unless it exists with the same declaration.
fn declare(
    batch: &mut WriteBatch<'_>,
    connection: SourceName,
    stream: SourceName,
    declaration: &str,
) -> Result<Result<(), UnusableRow>, Problem> {
    let json = serde_json::from_str(declaration).unwrap_or_default();
    let parsed = match Declaration::parse_stored(&json) {
        Ok(parsed) => parsed,
        Err(bad) => return Ok(Err(UnusableRow::new("invalid_declaration", bad))),
    };
    Ok(match batch.target(&connection, &stream)? {
        Some(target) if target.declaration == declaration => Ok(()),
        Some(_) => {
            let reason = format!(
                "the stream `{stream}` of `{connection}` exists and is declared differently; \
                 its declaration stays, and its records are restored by their keys"
            );
            Err(UnusableRow::new("declared_differently", reason))
        }
        None => batch
            .declare(&connection, &stream, declaration, &indexed_fields(&parsed))
            .map(|_| Ok(()))?,
    })
}

fn upsert(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    record: ExportedRecord,
) -> Result<Result<UpsertOutcome, UnusableRow>, Problem> {
    let ExportedRecord { key, emitted, mut data, mut texts } = record;
    let unreadable = |error: io::Error| Ok(Err(UnusableRow::new("unreadable_text", error)));
    if let Err(error) = check_digests(&texts) {
        return unreadable(error);
    }
    // The order of lists is computed from this field, which must be in memory for that.
    if let Some(at) =
        texts.iter().position(|(name, _)| target.indexed.cursor_field.as_ref() == Some(name))
    {
        let (name, mut file) = texts.swap_remove(at);
        let mut text = String::new();
        if let Err(error) = file.open().and_then(|mut reader| reader.read_to_string(&mut text)) {
            return unreadable(error);
        }
        data.iter_mut()
            .filter(|(field, _)| *field == name)
            .for_each(|(_, value)| *value = FieldValue::Text(text.clone()));
    }
    let long = texts
        .iter_mut()
        .map(|(name, file)| StreamedField { name, text: file as &mut dyn TextSource });
    let incoming = IncomingRecord { key: &key, emitted, fields: &data, streamed: long.collect() };
    batch.upsert(target, incoming).map(Ok)
}

/// Stores the blobs that a record refers to, if they were exported.
fn put_blobs(
    batch: &mut WriteBatch<'_>,
    data: &RecordFields,
    folder: &Path,
) -> Result<Result<(), UnusableRow>, Problem> {
    let values = data.iter().filter_map(|(_, value)| match value {
        FieldValue::Json(json) => Some(blob::blob_references(json)),
        _ => None,
    });
    for id in values.flatten().map(|reference| reference.id) {
        let path = folder.join(BLOBS).join(id.to_string());
        if batch.has_blob(&id)? {
            continue;
        }
        let bad = |reason: String| Ok(Err(UnusableRow::new("unreadable_blob", reason)));
        let mut source = match files::open(&path) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return bad(error.to_string()),
        };
        match digest_of(&path) {
            Ok(digest) if BlobId::from_digest(*digest.as_bytes()) == id => {}
            Ok(_) => return bad("the blob is not the one that was exported".to_owned()),
            Err(error) => return bad(error.to_string()),
        }
        if let Err(refused) = batch.put_blob(&mut source.reader)? {
            return bad(refused.to_string());
        }
    }
    Ok(Ok(()))
}

/// Refuses texts that were changed since the export: their files are named by their digests.
fn check_digests(texts: &[(String, TextFile)]) -> io::Result<()> {
    for (_, file) in texts {
        if file.path.file_stem().and_then(|stem| stem.to_str())
            != Some(&digest_of(&file.path)?.to_string())
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the text is not the one that was exported",
            ));
        }
    }
    Ok(())
}

fn digest_of(path: &Path) -> io::Result<ContentHash> {
    Ok(digest_all(&mut files::open(path)?.reader)?.0)
}

fn parse_line(fields: RecordFields, folder: &Path) -> Result<ExportLine, UnusableRow> {
    let not_an_export = |reason: String| UnusableRow::new("not_an_export", reason);
    let mut members: HashMap<String, FieldValue> = fields.into_iter().collect();
    let mut text = |name: &str| match members.remove(name) {
        Some(FieldValue::Text(text) | FieldValue::Json(text)) => Ok(text),
        _ => Err(not_an_export(format!("this is not a line of an export: it has no `{name}`"))),
    };
    let name =
        |text: String| SourceName::parse(&text).map_err(|bad| not_an_export(bad.to_string()));
    let object = text("object")?;
    let (connection, stream) = (name(text("connection")?)?, name(text("stream")?)?);
    match object.as_str() {
        "stream" => {
            Ok(ExportLine::Stream { connection, stream, declaration: text("declaration")? })
        }
        "record" => {
            let key =
                RecordKey::parse(&text("key")?).map_err(|bad| not_an_export(bad.to_string()))?;
            let emitted = Instant::parse(&text("emitted_at")?)
                .ok_or_else(|| not_an_export("`emitted_at` is not a time".to_owned()))?;
            let mut data = parse_members(&text("data")?)?;
            blob::add_fetch_urls(&mut data);
            let texts = match members.remove("texts") {
                None => Vec::new(),
                Some(texts) => text_files(parse_members(&texts.to_json())?, folder)?,
            };
            Ok(ExportLine::Record {
                connection,
                stream,
                record: Box::new(ExportedRecord { key, emitted, data, texts }),
            })
        }
        _ => Err(not_an_export(
            "this is not a line of an export: `object` is neither `stream` nor `record`".to_owned(),
        )),
    }
}

fn parse_members(json: &str) -> Result<RecordFields, UnusableRow> {
    row::parse(json.as_bytes())
        .map(|row| row.fields)
        .map_err(|bad| UnusableRow::new(bad.fault.code(), bad.fault))
}

/// Returns the files of texts. A line cannot name any other file of the machine.
fn text_files(named: RecordFields, folder: &Path) -> Result<Vec<(String, TextFile)>, UnusableRow> {
    let texts = named.into_iter().map(|(field, value)| {
        let digest = value
            .scalar_text()
            .and_then(|name| name.strip_prefix(TEXTS)?.strip_prefix('/')?.strip_suffix(".txt"));
        let is_digest = |digest: &&str| {
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let digest = digest.filter(is_digest).ok_or_else(|| {
            UnusableRow::new("not_an_export", "`texts` names a file that is not part of an export")
        })?;
        let path: PathBuf = folder.join(TEXTS).join(format!("{digest}.txt"));
        Ok((field, TextFile { path, from: 0 }))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stile_records::operations::Operation;
    use stile_store::files::ExportFolder;

    use super::*;
    use crate::export::ExportSelection;
    use crate::rig::{Rig, counts, owner, rig};

    fn export(rig: &Rig, name: &str) -> PathBuf {
        let to = rig.folder.path().join(name);
        let folder = ExportFolder::create(&to).unwrap();
        crate::export::export(
            &rig.services,
            &owner(),
            Instant(1),
            ExportSelection::default(),
            &folder,
            &mut |_| (),
        )
        .unwrap();
        to
    }

    fn restore(from: &Path, bad_rows: BadRowPolicy) -> (Rig, ImportReport) {
        let rig = rig();
        let report = super::restore(&rig.services, &owner(), from, bad_rows, &mut |_| ()).unwrap();
        (rig, report)
    }

    #[expect(clippy::disallowed_methods, reason = "a test looks into the files")]
    fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push((
                        path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(),
                        std::fs::read(&path).unwrap(),
                    )),
                }
            }
        }
        found.sort();
        found
    }

    fn ingest(rig: &Rig, connection: &str, stream: &str, body: &str) {
        let answer = rig.ingest(Instant(1_234_567), connection, stream, &mut body.as_bytes());
        assert_eq!(answer["records_rejected"], 0, "{answer}");
    }

    #[test]
    fn a_restored_export_is_exported_as_the_same_bytes() {
        let rig = rig();
        let big = "wörter 👩‍👧 \\u0000 \\n".repeat(80_000);
        ingest(
            &rig,
            "mail",
            "messages",
            &format!("{{\"id\":\"b\",\"text\":\"{big}\",\"n\":-0.10e+5}}\n{{\"id\":\"a\"}}"),
        );
        ingest(
            &rig,
            "mail",
            "notes",
            "{\"x\":[1,{\"y\":null}],\"z\\u0001\":true}\n{\"x\":[1]}\n{}",
        );
        let blob = "QUJDRGVmZ2g0NTY3".repeat(100_000);
        ingest(
            &rig,
            "other",
            "messages",
            &format!("{{\"id\":\"b\",\"raw\":\"{blob}\",\"last\":\"{big}\"}}"),
        );
        ingest(&rig, "mail", "messages", "{\"id\":\"0\",\"text\":\"later\"}");
        let first = export(&rig, "one");
        for bad_rows in [BadRowPolicy::Skip, BadRowPolicy::StoreNothing] {
            let (restored, report) = restore(&first, bad_rows);
            assert_eq!((report.added, report.bad_rows), (7, 0), "{:?}", report.bad);
            let second = export(&restored, "two");
            let (first, second) = (bytes(&first), bytes(&second));
            assert_eq!(first.len(), 3, "two texts, though two records have one of them");
            assert!(first == second);
            let record = |rig: &Rig| {
                rig.get(Operation::GetRecord, "messages", "b", &[("connection_id", "mail")])
                    .to_string()
            };
            assert_eq!(record(&rig), record(&restored), "also the order of fields");
        }
        let (file, skip) = (first.join(RECORDS_FILE), BadRowPolicy::Skip);
        let again = super::restore(&rig.services, &owner(), &file, skip, &mut |_| ()).unwrap();
        assert_eq!(counts(&again), (0, 0, 7, 0));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test breaks files")]
    fn blobs_are_exported_beside_the_records_and_restored_with_them() {
        let rig = rig();
        let bytes_of = |seed: usize| {
            (0..200_000 + seed).map(|at| ((at * seed) >> 3) as u8).collect::<Vec<u8>>()
        };
        let names: Vec<String> = [1, 2, 3].map(|seed| rig.put_blob(&bytes_of(seed))).to_vec();
        let named = |name: &str| format!("{{\"blob_id\":\"{name}\",\"mime_type\":\"image/png\"}}");
        let absent = BlobId::from_digest([7; 32]).to_string();
        let rows = [
            format!("{{\"id\":\"a\",\"file\":{}}}", named(&names[0])),
            format!(
                "{{\"id\":\"b\",\"files\":[{},{},{}]}}",
                named(&names[0]),
                named(&names[1]),
                named(&absent)
            ),
        ];
        ingest(&rig, "mail", "messages", &rows.join("\n"));
        let first = export(&rig, "one");
        assert_eq!(bytes(&first).len(), 3, "a blob that no record refers to is not exported");
        for bad_rows in [BadRowPolicy::Skip, BadRowPolicy::StoreNothing] {
            let (restored, report) = restore(&first, bad_rows);
            assert_eq!((report.added, report.bad_rows), (2, 0), "{:?}", report.bad);
            assert!(bytes(&first) == bytes(&export(&restored, "two")));
            assert_eq!(restored.blob_bytes(&names[1]), Some(bytes_of(2)));
            assert_eq!(restored.blob_bytes(&names[2]), None);
        }
        std::fs::write(first.join(BLOBS).join(&names[1]), "other").unwrap();
        let (restored, report) = restore(&first, BadRowPolicy::Skip);
        assert_eq!((report.added, report.bad[0].code), (1, "unreadable_blob"));
        assert_eq!(restored.blob_bytes(&names[0]), Some(bytes_of(1)));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test breaks files")]
    fn a_line_that_is_not_part_of_an_export_is_reported() {
        let rig = rig();
        let folder = rig.folder.path().join("x");
        std::fs::create_dir_all(folder.join("texts")).unwrap();
        let digest = "0".repeat(64);
        std::fs::write(folder.join(format!("texts/{digest}.txt")), "other").unwrap();
        let record = |texts: &str| {
            format!(
                "{{\"object\":\"record\",\"connection\":\"c\",\"stream\":\"s\",\"key\":\"k\",\
                 \"emitted_at\":\"2026-01-01\",\"data\":{{}},\"texts\":{texts}}}\n"
            )
        };
        let stream = |declaration: &str| {
            format!(
                "{{\"object\":\"stream\",\"connection\":\"c\",\"stream\":\"s\",\
                 \"declaration\":{declaration}}}\n"
            )
        };
        let lines = [
            "{}\n".to_owned(),
            stream("{}"),
            record("{}"),
            stream("{\"schema\":{\"properties\":{}}}"),
            record("{\"a\":\"../../etc/passwd\"}"),
            record(&format!("{{\"a\":\"texts/{digest}.txt\"}}")),
            record(&format!("{{\"a\":\"texts/{}.txt\"}}", "1".repeat(64))),
        ];
        std::fs::write(folder.join(RECORDS_FILE), lines.concat()).unwrap();
        let (_, report) = restore(&folder, BadRowPolicy::Skip);
        let codes: Vec<(u64, &str)> = report.bad.iter().map(|bad| (bad.line, bad.code)).collect();
        assert_eq!(
            codes,
            [
                (1, "not_an_export"),
                (2, "invalid_declaration"),
                (3, "unknown_stream"),
                (5, "not_an_export"),
                (6, "unreadable_text"),
                (7, "unreadable_text")
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_records_are_restored(
            rows in proptest::collection::vec(
                ("[a-c]", "\\PC{0,20}", any::<Option<f64>>(), 0usize..4000),
                1..12,
            ),
        ) {
            let rig = rig();
            let lines: String = rows
                .iter()
                .map(|(id, text, number, length)| {
                    let number = number.filter(|number| number.is_finite());
                    let long = format!("{text}\0").repeat(*length / 10);
                    serde_json::json!({ "k": id, "t": text, "n": number, "l": long }).to_string()
                        + "\n"
                })
                .collect();
            ingest(&rig, "c", "s", &lines);
            let first = export(&rig, "one");
            let (restored, report) = restore(&first, BadRowPolicy::Skip);
            prop_assert_eq!(report.bad_rows, 0);
            prop_assert!(bytes(&first) == bytes(&export(&restored, "two")));
        }
    }
}
