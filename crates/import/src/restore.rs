//! What [`super::export`] wrote, stored again: declarations, keys, times of ingest and their order.
//!
//! Into an empty database this gives the same records, so that exporting them gives the same bytes.
//! Where a stream is there already it must be declared in the same way; its records are then
//! changed as by any import.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::permit::Principal;
use stile_domain::records::authority::OwnerPermit;
use stile_domain::records::blob::{self, BlobId};
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_store::files::{self, TextFile};
use stile_store::records::{
    IncomingRecord, StreamedField, TargetStream, TextSource, UpsertOutcome, WriteBatch,
};

use crate::export::{BLOBS, RECORDS_FILE, TEXTS};
use crate::run::{BAD_SHOWN, BATCH_ROWS, BadRow, Progress, Report, Stopped, Watch, Why};
use stile_records::RecordService;
use stile_records::batch::BATCH_BYTES;
use stile_records::declarations::indexed_fields;
use stile_records::rows::json_lines::JsonLines;
use stile_records::rows::{DecodedRow, RowDecoder as _};

/// The most bytes of a line. A record that was taken in whole is longer here by its escapes.
const MAX_LINE_BYTES: usize = 512 << 20;

type Bad = (&'static str, String);

/// A line of an export.
enum Line {
    Stream { connection: SourceName, stream: SourceName, declaration: String },
    Record { connection: SourceName, stream: SourceName, record: Box<Record> },
}

struct Record {
    key: RecordKey,
    emitted: Instant,
    data: RecordFields,
    texts: Vec<(String, TextFile)>,
}

struct Restore<'a> {
    services: &'a RecordService,
    strict: bool,
    file: String,
    report: Report,
}

/// Stores an export: a folder, or the file `records.jsonl` in one. Blocks.
///
/// # Errors
/// [`Stopped`], which says what is stored nonetheless.
pub fn restore(
    services: &RecordService,
    caller: &Principal,
    from: &Path,
    strict: bool,
    watch: Watch<'_>,
) -> Result<Report, Box<Stopped>> {
    let file = if files::is_folder(from) { from.join(RECORDS_FILE) } else { from.to_owned() };
    let shown = file.display().to_string();
    let mut restore = Restore { services, strict, file: shown, report: Report::default() };
    let owner = match caller.gate().owner() {
        Ok(owner) => owner,
        Err(problem) => {
            return Err(Box::new(Stopped { why: problem.into(), report: Report::default() }));
        }
    };
    match restore.all(&owner, &file, watch) {
        Ok(()) => Ok(restore.report),
        Err(why) if strict => Err(Box::new(Stopped { why, report: Report::default() })),
        Err(why) => Err(Box::new(Stopped { why, report: restore.report })),
    }
}

impl Restore<'_> {
    fn all(&mut self, owner: &OwnerPermit, file: &Path, watch: Watch<'_>) -> Result<(), Why> {
        let unreadable = |shown: &str, error| Why::Read { file: shown.to_owned(), error };
        let source = files::open(file).map_err(|error| unreadable(&self.file, error))?;
        let total = source.bytes;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let mut lines = JsonLines::with_max_row_bytes(source.reader, MAX_LINE_BYTES);
        if self.strict {
            return self.in_one(owner, &mut lines, &folder);
        }
        loop {
            let begun = lines.consumed();
            let mut batch = Vec::new();
            while batch.len() < BATCH_ROWS && lines.consumed() - begun < BATCH_BYTES {
                let next = lines.next().map_err(|error| unreadable(&self.file, error))?;
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
            watch(Progress { storing: true, bytes: lines.consumed(), total });
        }
    }

    fn in_one(
        &mut self,
        owner: &OwnerPermit,
        lines: &mut JsonLines<impl io::BufRead>,
        folder: &Path,
    ) -> Result<(), Why> {
        let mut ours = None;
        let services = self.services;
        let stored = services.records.write(owner, |batch| {
            let mut targets = HashMap::new();
            loop {
                match lines.next() {
                    Ok(None) => return Ok(()),
                    Ok(Some(line)) => self.store(batch, &mut targets, line, folder)?,
                    Err(error) => ours = Some(Why::Read { file: self.file.clone(), error }),
                }
                ours = ours.take().or_else(|| self.report.bad.pop().map(Why::BadRow));
                if ours.is_some() {
                    return Err(Problem::NotFound);
                }
            }
        });
        match ours {
            Some(why) => Err(why),
            None => Ok(stored?),
        }
    }

    fn store(
        &mut self,
        batch: &mut WriteBatch<'_>,
        targets: &mut HashMap<(SourceName, SourceName), TargetStream>,
        decoded: DecodedRow,
        folder: &Path,
    ) -> Result<(), Problem> {
        let line = decoded.line;
        let read = decoded
            .row
            .map_err(|bad| (bad.code(), bad.to_string()))
            .and_then(|row| read(row.fields, folder));
        let stored = match read {
            Err(bad) => Err(bad),
            Ok(Line::Stream { connection, stream, declaration }) => {
                declare(batch, connection, stream, &declaration)?
            }
            Ok(Line::Record { connection, stream, record }) => {
                let place = (connection, stream);
                if !targets.contains_key(&place)
                    && let Some(target) = batch.target(&place.0, &place.1)?
                {
                    targets.insert(place.clone(), target);
                }
                match targets.get(&place) {
                    Some(target) => match put_blobs(batch, &record.data, folder)? {
                        Ok(()) => upsert(batch, target, *record)?.map(Some),
                        Err(bad) => Err(bad),
                    },
                    None => Err((
                        "unknown_stream",
                        format!("no line before it declares the stream `{}`", place.1),
                    )),
                }
            }
        };
        match stored {
            Ok(None | Some(UpsertOutcome::Refused(_))) => {}
            Ok(Some(UpsertOutcome::Added)) => self.report.added += 1,
            Ok(Some(UpsertOutcome::Changed)) => self.report.changed += 1,
            Ok(Some(UpsertOutcome::Unchanged)) => self.report.same += 1,
            Err((code, reason)) => {
                self.report.bad_rows += 1;
                if self.report.bad.len() < BAD_SHOWN {
                    self.report.bad.push(BadRow { file: self.file.clone(), line, code, reason });
                }
            }
        }
        Ok(())
    }
}

fn declare(
    batch: &mut WriteBatch<'_>,
    connection: SourceName,
    stream: SourceName,
    declaration: &str,
) -> Result<Result<Option<UpsertOutcome>, Bad>, Problem> {
    let json = serde_json::from_str(declaration).unwrap_or_default();
    let parsed = match Declaration::parse_stored(&json) {
        Ok(parsed) => parsed,
        Err(bad) => return Ok(Err(("invalid_declaration", bad.to_string()))),
    };
    Ok(match batch.target(&connection, &stream)? {
        Some(target) if target.declaration == declaration => Ok(None),
        Some(_) => {
            let reason = format!(
                "the stream `{stream}` of `{connection}` is there and declared differently; its records are taken as far as their keys go"
            );
            Err(("declared_differently", reason))
        }
        None => batch
            .declare(&connection, &stream, declaration, &indexed_fields(&parsed))
            .map(|_| Ok(None))?,
    })
}

fn upsert(
    batch: &mut WriteBatch<'_>,
    target: &TargetStream,
    record: Record,
) -> Result<Result<UpsertOutcome, Bad>, Problem> {
    let Record { key, emitted, mut data, mut texts } = record;
    if let Err(error) = check(&texts) {
        return Ok(Err(("unreadable_text", error.to_string())));
    }
    // The order of lists follows from this field, and is made from what is held in memory.
    if let Some(at) =
        texts.iter().position(|(name, _)| target.terms.cursor_field.as_ref() == Some(name))
    {
        let (name, mut file) = texts.swap_remove(at);
        let mut text = String::new();
        if let Err(error) = file.open().and_then(|mut reader| reader.read_to_string(&mut text)) {
            return Ok(Err(("unreadable_text", error.to_string())));
        }
        data.iter_mut()
            .filter(|(field, _)| *field == name)
            .for_each(|(_, value)| *value = FieldValue::Text(text.clone()));
    }
    let long = texts
        .iter_mut()
        .map(|(name, file)| StreamedField { name, text: file as &mut dyn TextSource });
    let incoming = IncomingRecord { key: &key, emitted, fields: &data, streamed: long.collect() };
    Ok(match batch.upsert(target, incoming)? {
        UpsertOutcome::Refused(why) => Err(("not_stored", why.to_string())),
        stored => Ok(stored),
    })
}

/// Stores the blobs that a record names, as far as they were exported.
fn put_blobs(
    batch: &mut WriteBatch<'_>,
    data: &RecordFields,
    folder: &Path,
) -> Result<Result<(), Bad>, Problem> {
    let values = data.iter().filter_map(|(_, value)| match value {
        FieldValue::Json(json) => Some(blob::blob_references(json)),
        _ => None,
    });
    for id in values.flatten().map(|reference| reference.id) {
        let path = folder.join(BLOBS).join(id.to_string());
        if batch.has_blob(&id)? {
            continue;
        }
        let bad = |error: String| Ok(Err(("unreadable_blob", error)));
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

/// Whether the texts are the ones that were exported: their files are named by their digests.
fn check(texts: &[(String, TextFile)]) -> io::Result<()> {
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
    let mut hasher = ContentHasher::default();
    let mut reader = files::open(path)?.reader;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

/// Reads a line.
fn read(fields: RecordFields, folder: &Path) -> Result<Line, Bad> {
    let mut members: HashMap<String, FieldValue> = fields.into_iter().collect();
    let mut text = |name: &str| match members.remove(name) {
        Some(FieldValue::Text(text) | FieldValue::Json(text)) => Ok(text),
        _ => Err(("not_an_export", format!("this is no line of an export: it has no `{name}`"))),
    };
    let name =
        |text: String| SourceName::parse(&text).map_err(|bad| ("not_an_export", bad.to_string()));
    let object = text("object")?;
    let (connection, stream) = (name(text("connection")?)?, name(text("stream")?)?);
    match object.as_str() {
        "stream" => Ok(Line::Stream { connection, stream, declaration: text("declaration")? }),
        "record" => {
            let key = RecordKey::parse(&text("key")?)
                .map_err(|bad| ("not_an_export", bad.to_string()))?;
            let emitted = Instant::parse(&text("emitted_at")?);
            let emitted =
                emitted.ok_or_else(|| ("not_an_export", "`emitted_at` is no time".to_owned()))?;
            let mut data = inner(&text("data")?)?;
            blob::add_fetch_urls(&mut data);
            let texts = match members.remove("texts") {
                None => Vec::new(),
                Some(texts) => texts_of(inner(&texts.to_json())?, folder)?,
            };
            Ok(Line::Record {
                connection,
                stream,
                record: Box::new(Record { key, emitted, data, texts }),
            })
        }
        _ => Err((
            "not_an_export",
            "this is no line of an export: `object` is neither `stream` nor `record`".to_owned(),
        )),
    }
}

fn inner(json: &str) -> Result<RecordFields, Bad> {
    row::parse(json.as_bytes())
        .map(|row| row.fields)
        .map_err(|bad| (bad.fault.code(), bad.fault.to_string()))
}

/// The files of texts. No other file of the machine can be named by a line.
fn texts_of(named: RecordFields, folder: &Path) -> Result<Vec<(String, TextFile)>, Bad> {
    let texts = named.into_iter().map(|(field, value)| {
        let digest = value
            .scalar_text()
            .and_then(|name| name.strip_prefix(TEXTS)?.strip_prefix('/')?.strip_suffix(".txt"));
        let plain = |digest: &&str| {
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let digest = digest.filter(plain);
        let digest = digest.ok_or_else(|| {
            ("not_an_export", "`texts` names a file that is none of an export".to_owned())
        })?;
        let path: PathBuf = folder.join(TEXTS).join(format!("{digest}.txt"));
        Ok((field, TextFile { path, from: 0 }))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stile_store::files::ExportFolder;

    use super::*;
    use crate::export::Selection;
    use crate::rig::{Rig, owner, rig};

    fn export(rig: &Rig, name: &str) -> PathBuf {
        let to = rig.folder.path().join(name);
        let folder = ExportFolder::create(&to).unwrap();
        crate::export::export(&rig.services, &owner(), Instant(1), Selection::default(), &folder)
            .unwrap();
        to
    }

    fn restore(from: &Path, strict: bool) -> (Rig, Report) {
        let rig = rig();
        let report = super::restore(&rig.services, &owner(), from, strict, &mut |_| ()).unwrap();
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
    fn an_export_restored_elsewhere_is_exported_as_the_same_bytes() {
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
        for strict in [false, true] {
            let (restored, report) = restore(&first, strict);
            assert_eq!((report.added, report.bad_rows), (7, 0), "{:?}", report.bad);
            let second = export(&restored, "two");
            let (first, second) = (bytes(&first), bytes(&second));
            assert_eq!(first.len(), 2, "one text, though two records have it");
            assert!(first == second);
            let ask = |rig: &Rig| {
                rig.ask(
                    stile_records::operations::Operation::GetRecord,
                    "messages",
                    "b",
                    &[("connection_id", "mail")],
                )
            };
            assert_eq!(
                ask(&rig).to_string(),
                ask(&restored).to_string(),
                "also the order of fields"
            );
        }
        let again =
            super::restore(&rig.services, &owner(), &first.join(RECORDS_FILE), false, &mut |_| ())
                .unwrap();
        assert_eq!((again.added, again.changed, again.same, again.bad_rows), (0, 0, 7, 0));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test breaks files")]
    fn blobs_lie_beside_the_records_and_come_back_with_them() {
        let rig = rig();
        let bytes_of = |seed: usize| {
            (0..200_000 + seed).map(|at| ((at * seed) >> 3) as u8).collect::<Vec<u8>>()
        };
        let names: Vec<String> = [1, 2, 3].map(|seed| rig.blob(&bytes_of(seed))).to_vec();
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
        assert_eq!(bytes(&first).len(), 3, "what no record names is not exported");
        for strict in [false, true] {
            let (restored, report) = restore(&first, strict);
            assert_eq!((report.added, report.bad_rows), (2, 0), "{:?}", report.bad);
            assert!(bytes(&first) == bytes(&export(&restored, "two")));
            assert_eq!(restored.blob_bytes(&names[1]), Some(bytes_of(2)));
            assert_eq!(restored.blob_bytes(&names[2]), None);
        }
        std::fs::write(first.join(BLOBS).join(&names[1]), "other").unwrap();
        let (restored, report) = restore(&first, false);
        assert_eq!((report.added, report.bad[0].code), (1, "unreadable_blob"));
        assert_eq!(restored.blob_bytes(&names[0]), Some(bytes_of(1)));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test breaks files")]
    fn a_line_that_is_none_of_an_export_is_told() {
        let rig = rig();
        let folder = rig.folder.path().join("x");
        std::fs::create_dir_all(folder.join("texts")).unwrap();
        let digest = "0".repeat(64);
        std::fs::write(folder.join(format!("texts/{digest}.txt")), "other").unwrap();
        let record = |texts: &str| {
            format!(
                "{{\"object\":\"record\",\"connection\":\"c\",\"stream\":\"s\",\"key\":\"k\",\"emitted_at\":\"2026-01-01\",\"data\":{{}},\"texts\":{texts}}}\n"
            )
        };
        let lines = [
            "{}\n".to_owned(),
            "{\"object\":\"stream\",\"connection\":\"c\",\"stream\":\"s\",\"declaration\":{}}\n".to_owned(),
            record("{}"),
            "{\"object\":\"stream\",\"connection\":\"c\",\"stream\":\"s\",\"declaration\":{\"schema\":{\"properties\":{}}}}\n".to_owned(),
            record("{\"a\":\"../../etc/passwd\"}"),
            record(&format!("{{\"a\":\"texts/{digest}.txt\"}}")),
            record(&format!("{{\"a\":\"texts/{}.txt\"}}", "1".repeat(64))),
        ];
        std::fs::write(folder.join(RECORDS_FILE), lines.concat()).unwrap();
        let (_, report) = restore(&folder, false);
        let told: Vec<(u64, &str)> = report.bad.iter().map(|bad| (bad.line, bad.code)).collect();
        assert_eq!(
            told,
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
        fn any_records_survive(rows in proptest::collection::vec(("[a-c]", "\\PC{0,20}", any::<Option<f64>>(), 0usize..4000), 1..12)) {
            let rig = rig();
            let lines: String = rows
                .iter()
                .map(|(id, text, number, length)| {
                    let number = number.filter(|number| number.is_finite());
                    serde_json::json!({ "k": id, "t": text, "n": number, "l": format!("{text}\0").repeat(*length / 10) }).to_string() + "\n"
                })
                .collect();
            ingest(&rig, "c", "s", &lines);
            let first = export(&rig, "one");
            let (restored, report) = restore(&first, false);
            prop_assert_eq!(report.bad_rows, 0);
            prop_assert!(bytes(&first) == bytes(&export(&restored, "two")));
        }
    }
}
