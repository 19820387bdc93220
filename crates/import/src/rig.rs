//! A database of records for the tests, with short ways to import into it and to read from it.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_records::RecordService;
use stile_records::operation_declaration::{OperationCall, OperationHandler};
use stile_records::operations::Operation;
use stile_records::request_target::RequestTarget;
use stile_store::records::Records;
use stile_store::state::StateDir;

use crate::importer::{ImportTarget, Importer};
use crate::importers::{self, IMPORTERS};
use crate::input::ImportInput;
use crate::reading::ReadingOptions;
use crate::report::{BadRowPolicy, ImportProgress, ImportReport, StoppedImport};
use crate::run::Import;

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) services: RecordService,
}

pub(crate) fn rig() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let services = RecordService::new(Records::open(&state, Instant(0)).unwrap());
    Rig { folder, services }
}

#[expect(clippy::disallowed_methods, reason = "a test is its own owner")]
pub(crate) fn owner() -> Principal {
    Principal::assert_verified("ann", Some("token"), None, Scopes::none(), RecordsClaim::Owner)
}

/// The connection `c` and the stream `s`, into which the tests import.
pub(crate) fn target() -> ImportTarget {
    ImportTarget {
        connection: SourceName::parse("c").unwrap(),
        stream: SourceName::parse("s").unwrap(),
    }
}

/// A file or folder with the importer that recognises it.
pub(crate) fn recognised(path: &Path) -> ImportInput {
    let importer: &'static Importer = importers::recognise(IMPORTERS, path).unwrap().unwrap();
    ImportInput::whole(path.to_owned(), importer)
}

/// How many rows were added, changed, unchanged and bad.
pub(crate) fn counts(report: &ImportReport) -> (u64, u64, u64, u64) {
    (report.added, report.changed, report.unchanged, report.bad_rows)
}

impl Rig {
    /// Writes a file below the rig's folder.
    #[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file that was changed at a time, in seconds and milliseconds since 1970.
    #[expect(clippy::disallowed_types, reason = "a test sets the times of its files")]
    pub(crate) fn write_dated(&self, name: &str, content: &str, (seconds, millis): (u64, u32)) {
        let path = self.write(name, content);
        let time = std::time::Duration::new(seconds, millis * 1_000_000);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + time).unwrap();
    }

    /// Imports into the connection `c` and the stream `s`.
    pub(crate) fn import(
        &self,
        inputs: &[ImportInput],
        key: &[&str],
        bad_rows: BadRowPolicy,
        mut on_progress: impl FnMut(ImportProgress),
    ) -> Result<ImportReport, Box<StoppedImport>> {
        let reading = ReadingOptions::default();
        self.import_with(inputs, key, (bad_rows, &reading), &mut on_progress)
    }

    /// Imports files that are read as the owner says.
    pub(crate) fn import_as(
        &self,
        inputs: &[ImportInput],
        reading: &ReadingOptions,
    ) -> Result<ImportReport, Box<StoppedImport>> {
        self.import_with(inputs, &[], (BadRowPolicy::Skip, reading), &mut |_| ())
    }

    fn import_with(
        &self,
        inputs: &[ImportInput],
        key: &[&str],
        (bad_rows, reading): (BadRowPolicy, &ReadingOptions),
        on_progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<ImportReport, Box<StoppedImport>> {
        let key: Vec<String> = key.iter().map(|&name| name.to_owned()).collect();
        let (target, owner) = (target(), owner());
        let import = Import { key: &key, reading, bad_rows, ..self.of(&target, &owner) };
        import.run(inputs, on_progress)
    }

    /// Imports into another stream.
    pub(crate) fn import_into(
        &self,
        target: &ImportTarget,
        inputs: &[ImportInput],
        bad_rows: BadRowPolicy,
    ) -> Result<ImportReport, Box<StoppedImport>> {
        let owner = owner();
        Import { bad_rows, ..self.of(target, &owner) }.run(inputs, &mut |_| ())
    }

    fn of<'a>(&'a self, target: &'a ImportTarget, caller: &'a Principal) -> Import<'a> {
        static READING: std::sync::LazyLock<ReadingOptions> =
            std::sync::LazyLock::new(ReadingOptions::default);
        Import {
            services: &self.services,
            caller,
            target,
            key: &[],
            reading: &READING,
            bad_rows: BadRowPolicy::Skip,
            now: Instant(7),
            text_reader: None,
            on_rejected: None,
        }
    }

    /// Calls a reading operation of `/v1` as the owner.
    pub(crate) fn get(
        &self,
        operation: Operation,
        stream: &str,
        key: &str,
        pairs: &[(&str, &str)],
    ) -> Json {
        let mut out = String::new();
        let call =
            operation.declaration().read_call(RequestTarget::new(stream, key, pairs)).unwrap();
        self.services.answer(&owner(), Instant(1), &call, &mut out).unwrap();
        serde_json::from_str(&out).unwrap()
    }

    pub(crate) fn record(&self, key: &str) -> Json {
        self.get(Operation::GetRecord, "s", key, &[])["data"].clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let list = self.get(Operation::ListRecords, "s", "", &[("limit", "100"), ("order", "asc")]);
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn streams(&self) -> Vec<Json> {
        self.get(Operation::ListStreams, "", "", &[])["data"].as_array().unwrap().clone()
    }

    /// Stores lines of JSON at a moment.
    pub(crate) fn ingest(
        &self,
        now: Instant,
        connection: &str,
        stream: &str,
        body: &mut dyn BufRead,
    ) -> Json {
        let target = RequestTarget::new(stream, "", &[("connection_id", connection)]);
        self.store(now, Operation::IngestRecords, target, body)
    }

    fn store(
        &self,
        now: Instant,
        operation: Operation,
        target: RequestTarget,
        body: &mut dyn BufRead,
    ) -> Json {
        let operation = operation.declaration();
        let OperationHandler::Store(handler) = operation.handler else { panic!("{operation:?}") };
        let call = OperationCall { operation, handler, target };
        self.services.store(&owner(), now, &call, body).unwrap()
    }

    pub(crate) fn put_blob(&self, bytes: &[u8]) -> String {
        let answer = self.store(
            Instant(1),
            Operation::PutBlob,
            RequestTarget::new("", "", &[]),
            &mut &bytes[..],
        );
        answer["blob_id"].as_str().unwrap().to_owned()
    }

    /// All bytes of a blob; `None` if no record refers to it.
    pub(crate) fn blob_bytes(&self, id: &str) -> Option<Vec<u8>> {
        let operation = Operation::GetBlob.declaration();
        let OperationHandler::Blob(handler) = operation.handler else { panic!("{operation:?}") };
        let call = OperationCall { operation, handler, target: RequestTarget::new("", id, &[]) };
        self.services.blob_part(&owner(), Instant(1), &call, 0, u64::MAX).ok()
    }
}
