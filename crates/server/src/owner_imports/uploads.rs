//! Files that were sent to the owner's page, and the imports that begin there.
//!
//! A file belongs to the session that sent it, and no other session sees it. Files that were sent
//! together take their turns: the page shows the first, and goes on to the next when the owner is
//! done with it. An export with several kinds of data takes a turn for each of its parts. A file is
//! gone after an hour, when others take its place, when its import is done,
//! or when the server stops. All files count against one bound, of which no person takes all. An
//! import works in a thread of its own, which ends with the process: each batch of an import is
//! whole, and sending the file again goes on behind it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Moment};

use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_import::collections::{self, DividedExport, SkippedFiles};
use stile_import::importer::ImportTarget;
use stile_import::importers::IMPORTERS;
use stile_import::input::ImportInput;
use stile_import::reading::ReadingOptions;
use stile_import::report::{
    BadRowPolicy, ImportError, ImportProgress, ImportReport, StoppedImport,
};
use stile_import::run::{Import, ImportPreview};
use stile_records::RecordService;
use stile_store::staged_uploads::{IncomingFile, StagedFile, UploadFolder};
use stile_store::state::SecretDigest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{PREVIEW_ROWS, UnknownInput, input, stream_of, text_reader, words};
use crate::fair_share::{FairShare, Neighbour, Resource, Share, ShareUsedUp};

/// The largest file that the page takes, in bytes.
pub const MAX_UPLOAD_BYTES: u64 = 256 << 20;
/// The bytes of all files together.
const ALL_BYTES: usize = 1 << 30;
/// How long a file waits.
pub const UPLOAD_LIFE: Duration = Duration::from_secs(60 * 60);
/// Connections on which a file is being sent.
const CONNECTIONS: usize = 16;
/// Imports that run at once.
const RUNNING: usize = 4;
/// How many ended imports of a person are shown.
const KEPT_IMPORTS: usize = 5;
/// How many rows that could not be stored are kept of each.
const KEPT_BAD_ROWS: usize = 20;

/// The files of one session, in the order in which they take their turns.
type Turns = VecDeque<Arc<Upload>>;

/// The files of all sessions.
pub struct Uploads {
    folder: UploadFolder,
    bytes: Arc<FairShare>,
    connections: Arc<FairShare>,
    running: Arc<Semaphore>,
    staged: Mutex<HashMap<SecretDigest, Turns>>,
    ended: Arc<EndedImports>,
}

/// The last imports of each person since the server started, the latest first.
#[derive(Debug, Default)]
struct EndedImports(Mutex<HashMap<String, VecDeque<Arc<EndedImport>>>>);

impl EndedImports {
    fn add(&self, subject: &str, ended: Arc<EndedImport>) {
        let mut all = lock(&self.0);
        let own = all.entry(subject.to_owned()).or_default();
        own.push_front(ended);
        own.truncate(KEPT_IMPORTS);
    }
}

impl Uploads {
    /// Keeps files in a folder.
    pub fn new(folder: UploadFolder) -> Arc<Self> {
        let shared =
            |resource, capacity| FairShare::new(resource, capacity, 0, Duration::from_secs(0));
        Arc::new(Self {
            folder,
            bytes: shared(Resource::UploadBytes, ALL_BYTES),
            connections: shared(Resource::Connections, CONNECTIONS),
            running: Arc::new(Semaphore::new(RUNNING)),
            staged: Mutex::default(),
            ended: Arc::default(),
        })
    }

    /// Takes room for files of so many bytes together.
    ///
    /// # Errors
    /// [`ShareUsedUp`], if the other files leave too little.
    pub fn room(&self, sender: &Neighbour, bytes: u64) -> Result<Share, ShareUsedUp> {
        self.sweep(Moment::now());
        self.bytes.try_take(sender, usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the places of connections on which a file is being sent.
    pub fn connections(&self) -> &Arc<FairShare> {
        &self.connections
    }

    /// Begins a file with this name. Blocks.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn begin(&self, name: &str) -> io::Result<IncomingFile> {
        self.folder.begin(name)
    }

    /// Gives a session files, in the place of those that it had. Blocks: an export with several
    /// kinds of data is looked into.
    pub fn put(self: &Arc<Self>, session: SecretDigest, files: Vec<StagedFile>, room: Share) {
        let (room, until) = (Arc::new(room), Moment::now() + UPLOAD_LIFE);
        let turns = turns_of(files).into_iter();
        let turns =
            turns.map(|turn| Arc::new(Upload::new(turn, Arc::clone(&room), until))).collect();
        let replaced = self.lock().insert(session, turns);
        // Files are removed without the lock.
        drop(replaced);
        let all = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(UPLOAD_LIFE).await;
            if let Some(all) = all.upgrade() {
                all.sweep(Moment::now());
            }
        });
    }

    /// Returns the file of a session whose turn it is.
    pub fn of(&self, session: &SecretDigest) -> Option<Arc<Upload>> {
        self.all_of(session).into_iter().next()
    }

    /// Returns the files of a session, in the order of their turns.
    pub fn all_of(&self, session: &SecretDigest) -> Vec<Arc<Upload>> {
        self.sweep(Moment::now());
        self.lock().get(session).into_iter().flatten().cloned().collect()
    }

    /// Forgets the file of a session whose turn it is, so that it is the next one's. An import of
    /// it goes on.
    pub fn forget(&self, session: &SecretDigest) {
        let first = self.lock().get_mut(session).and_then(VecDeque::pop_front);
        drop(first);
    }

    /// Forgets all files of a session. An import of one goes on.
    pub fn forget_all(&self, session: &SecretDigest) {
        let all = self.lock().remove(session);
        drop(all);
    }

    /// Imports the file of a session with another thread.
    ///
    /// # Errors
    /// Why it does not begin, as a sentence.
    pub fn start(
        &self,
        upload: &Arc<Upload>,
        owned: (RecordService, Principal),
        order: ImportOrder,
        now: Instant,
    ) -> Result<(), String> {
        let place = Arc::clone(&self.running).try_acquire_owned();
        let place =
            place.map_err(|_| "Other imports run. Try again when one is done.".to_owned())?;
        upload.start(owned, order, now, (place, Arc::clone(&self.ended)))
    }

    /// Returns the last imports of a person since the server started, the latest first.
    pub fn ended_of(&self, subject: &str) -> Vec<Arc<EndedImport>> {
        lock(&self.ended.0).get(subject).into_iter().flatten().cloned().collect()
    }

    /// Forgets the files whose time has passed.
    fn sweep(&self, now: Moment) {
        let ended = |upload: &Arc<Upload>| upload.until <= now && !upload.is_running();
        let mut gone = Vec::new();
        self.lock().retain(|_, turns| {
            let (ended, left): (Turns, Turns) = turns.drain(..).partition(ended);
            gone.extend(ended);
            *turns = left;
            !turns.is_empty()
        });
        // Files are removed without the lock.
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SecretDigest, Turns>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the owner says about an import.
#[derive(Clone, Debug)]
pub struct ImportOrder {
    /// The stream that the rows become records of.
    pub target: ImportTarget,
    /// How the file is read.
    pub reading: ReadingOptions,
}

impl ImportOrder {
    fn is_same(&self, other: &Self) -> bool {
        self.target.connection == other.target.connection
            && self.target.stream == other.target.stream
            && self.reading == other.reading
    }
}

/// An import that has ended.
#[derive(Debug)]
pub struct EndedImport {
    /// The name of the file.
    pub file: String,
    /// When the import began.
    pub at: Instant,
    /// The first rows that could not be stored, each with its place and the reason.
    pub bad: Vec<String>,
    /// The stream that the rows became records of.
    pub target: ImportTarget,
    /// What was stored, also if the import stopped.
    pub report: ImportReport,
    /// Why it stopped, as a sentence.
    pub error: Option<String>,
}

/// How far the import of a file is.
#[derive(Clone, Debug)]
pub enum Stage {
    /// The owner has not decided.
    Waiting,
    /// It runs.
    Running(ImportProgress),
    /// It has ended.
    Ended(Arc<EndedImport>),
}

/// What a preview shows, or why there is none.
pub type Previewed = Arc<Result<ImportPreview, String>>;

/// What takes one turn: a file, or a part of an export.
struct Turn {
    /// The file, or all files of the export.
    files: Vec<Arc<StagedFile>>,
    part: Option<UploadedPart>,
}

/// A part of an export that was sent.
struct UploadedPart {
    /// The stream that is proposed for its rows.
    stream: String,
    /// Empty if nothing in the export can be imported.
    inputs: Vec<ImportInput>,
    /// What is left out of the export, for the first part of it.
    left_out: Vec<String>,
}

/// Returns the turns of files that were sent together: one for each file, or one for each part of
/// an export that is all of them, or one of them.
fn turns_of(files: Vec<StagedFile>) -> Vec<Turn> {
    let files: Vec<Arc<StagedFile>> = files.into_iter().map(Arc::new).collect();
    if let Some(turns) = parts_of(&files) {
        return turns;
    }
    let turns = files.into_iter().flat_map(|file| {
        let alone = [file];
        parts_of(&alone).unwrap_or_else(|| {
            let [file] = alone;
            vec![Turn { files: vec![file], part: None }]
        })
    });
    turns.collect()
}

/// Returns the turns of an export that these files are; `None` if they are none.
fn parts_of(files: &[Arc<StagedFile>]) -> Option<Vec<Turn>> {
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    // What cannot be read is reported when the file is looked at.
    let DividedExport { collection, parts, skipped, .. } =
        collections::divide(&paths, None).ok()??;
    let mut left_out: Vec<String> = skipped.iter().map(SkippedFiles::described).collect();
    if !left_out.is_empty() {
        left_out.push(collection.advice.to_owned());
    }
    let turn = |stream: String, inputs, left_out| {
        let part = UploadedPart { stream, inputs, left_out };
        Turn { files: files.to_vec(), part: Some(part) }
    };
    if parts.is_empty() {
        return Some(vec![turn(String::new(), Vec::new(), left_out)]);
    }
    let turns =
        parts.into_iter().map(|part| turn(part.stream, part.inputs, std::mem::take(&mut left_out)));
    Some(turns.collect())
}

/// A file that was sent, or a part of an export that was.
pub struct Upload {
    /// A name that no other file has.
    pub number: String,
    /// The size of the file, or of all files of the export, in bytes.
    pub bytes: u64,
    path: PathBuf,
    /// Empty once it is imported.
    files: Mutex<Vec<Arc<StagedFile>>>,
    /// The paths of all files, with the names that stand for them.
    names: Vec<(PathBuf, String)>,
    part: Option<UploadedPart>,
    until: Moment,
    stage: Mutex<Stage>,
    /// The last preview, with what it is a preview of.
    previewed: Mutex<Option<(ImportOrder, Previewed)>>,
    /// The room of all files that were sent together.
    _room: Arc<Share>,
}

impl Upload {
    fn new(Turn { files, part }: Turn, room: Arc<Share>, until: Moment) -> Self {
        let names = files.iter().map(|file| (file.path().to_owned(), name_of(file.path())));
        let names: Vec<(PathBuf, String)> = names.collect();
        Self {
            number: uuid::Uuid::new_v4().simple().to_string(),
            bytes: files.iter().map(|file| file.bytes()).sum(),
            path: names.first().map(|(path, _)| path.clone()).unwrap_or_default(),
            files: Mutex::new(files),
            names,
            part,
            until,
            stage: Mutex::new(Stage::Waiting),
            previewed: Mutex::default(),
            _room: room,
        }
    }

    /// The name of the file, without any folder.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |(_, name)| name)
    }

    /// Returns the stream that is proposed for the rows; `None` if the format proposes none.
    pub fn proposed_stream(&self) -> Option<String> {
        match &self.part {
            Some(part) => Some(part.stream.clone()).filter(|stream| !stream.is_empty()),
            None => self.inputs().ok().and_then(|inputs| stream_of(&inputs)).map(str::to_owned),
        }
    }

    /// Returns the part of an export that this is, by the name of its stream.
    pub fn part(&self) -> Option<&str> {
        let part = self.part.as_ref().filter(|part| !part.inputs.is_empty());
        part.map(|part| part.stream.as_str())
    }

    /// Returns a sentence about the file with its name in place of its path on the machine.
    pub fn without_path(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (path, name)| {
            text.replace(&*path.to_string_lossy(), name)
        })
    }

    /// How far its import is.
    pub fn stage(&self) -> Stage {
        lock(&self.stage).clone()
    }

    fn is_running(&self) -> bool {
        matches!(*lock(&self.stage), Stage::Running(_))
    }

    /// Returns what is read: the files of a part of an export, or the file with the importer that
    /// recognises it.
    ///
    /// # Errors
    /// The reason, as a sentence.
    fn inputs(&self) -> Result<Vec<ImportInput>, String> {
        if let Some(part) = &self.part {
            if part.inputs.is_empty() {
                let left_out = part.left_out.join(". ");
                return Err(format!("Nothing in the export can be imported. {left_out}."));
            }
            return Ok(part.inputs.clone());
        }
        let path = self.path.to_str().unwrap_or_default();
        input(IMPORTERS, path, None).map(|input| vec![input]).map_err(|unknown| match unknown {
            UnknownInput::Read { error, .. } => format!("The file cannot be read: {error}."),
            UnknownInput::Format { found, .. } => {
                format!("Stile does not recognise the format of the file: {found}.")
            }
        })
    }

    /// Returns what an import would store. The last answer is kept.
    pub fn preview(
        &self,
        (services, caller): (&RecordService, &Principal),
        order: &ImportOrder,
        now: Instant,
    ) -> Previewed {
        // Whoever loads the page twice waits for the first answer.
        let mut kept = lock(&self.previewed);
        if let Some((_, previewed)) = kept.as_ref().filter(|(of, _)| of.is_same(order)) {
            return Arc::clone(previewed);
        }
        let previewed = self.inputs().and_then(|inputs| {
            let import = import((services, caller), order, now);
            let previewed = import.preview(&inputs, PREVIEW_ROWS, &mut |_| ());
            let mut previewed = previewed.map_err(|error| self.without_path(&told(&error)))?;
            let left_out = self.part.iter().flat_map(|part| part.left_out.iter().cloned());
            previewed.report.read_as.extend(left_out);
            Ok(previewed)
        });
        let previewed = Arc::new(previewed);
        *kept = Some((order.clone(), Arc::clone(&previewed)));
        previewed
    }

    fn start(
        self: &Arc<Self>,
        (services, caller): (RecordService, Principal),
        order: ImportOrder,
        now: Instant,
        (place, all_ended): (OwnedSemaphorePermit, Arc<EndedImports>),
    ) -> Result<(), String> {
        let inputs = self.inputs()?;
        {
            let mut stage = lock(&self.stage);
            if !matches!(*stage, Stage::Waiting) {
                return Err("The import of this file has begun already.".to_owned());
            }
            *stage = Stage::Running(ImportProgress { storing: false, bytes: 0, total: self.bytes });
        }
        let upload = Arc::clone(self);
        let work = move || {
            let run = || upload.run((&services, &caller), &order, &inputs, now);
            // A bug in an importer ends this import and is told.
            let ran = std::panic::catch_unwind(AssertUnwindSafe(run));
            let ended = ran.unwrap_or_else(|_| {
                let error = "The import failed. Its batches before that are stored.".to_owned();
                upload.ended(&order, now, (ImportReport::default(), Some(error)))
            });
            if ended.error.is_none() {
                lock(&upload.files).clear();
            }
            let ended = Arc::new(ended);
            all_ended.add(caller.subject(), Arc::clone(&ended));
            *lock(&upload.stage) = Stage::Ended(ended);
            drop(place);
        };
        std::thread::Builder::new().name("page import".to_owned()).spawn(work).map(drop).map_err(
            |error| {
                *lock(&self.stage) = Stage::Waiting;
                format!("The import could not begin: {error}.")
            },
        )
    }

    fn run(
        &self,
        owned: (&RecordService, &Principal),
        order: &ImportOrder,
        inputs: &[ImportInput],
        now: Instant,
    ) -> EndedImport {
        let reader = text_reader().ok();
        let import = Import { text_reader: reader.as_ref(), ..import(owned, order, now) };
        let imported = import.run(inputs, &mut |progress| {
            *lock(&self.stage) = Stage::Running(progress);
        });
        let ended = match imported {
            Ok(report) => (report, None),
            Err(stopped) => {
                let StoppedImport { error, report } = *stopped;
                (report, Some(self.without_path(&told(&error))))
            }
        };
        self.ended(order, now, ended)
    }

    fn ended(
        &self,
        order: &ImportOrder,
        at: Instant,
        (report, error): (ImportReport, Option<String>),
    ) -> EndedImport {
        let bad = report.bad.iter().take(KEPT_BAD_ROWS);
        EndedImport {
            file: self.name().to_owned(),
            at,
            bad: bad.map(|bad| self.without_path(&words::bad_row(bad))).collect(),
            target: order.target.clone(),
            report,
            error,
        }
    }
}

/// Returns the import of an order, as `stile import` makes it.
fn import<'a>(
    (services, caller): (&'a RecordService, &'a Principal),
    order: &'a ImportOrder,
    now: Instant,
) -> Import<'a> {
    Import {
        services,
        caller,
        target: &order.target,
        key: &[],
        reading: &order.reading,
        bad_rows: BadRowPolicy::Skip,
        now,
        text_reader: None,
        on_rejected: None,
    }
}

/// Says why an import stops, for a person without a command line.
fn told(error: &ImportError) -> String {
    match error {
        ImportError::OpenDates { dates, .. } => {
            let described = dates.described().replace('`', "");
            let (first, rest) = described.split_at(1);
            format!("{}{rest}. Choose one below.", first.to_uppercase())
        }
        ImportError::OtherKey { declared } => format!(
            "The key of this stream is {declared}, and cannot change while it has records. Choose \
             another stream."
        ),
        other => format!("{other}."),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
}

/// Returns a name for a connection that the name of a file proposes: `bank-2026` for
/// `Bank 2026.csv`.
pub fn proposed_connection(file_name: &str) -> String {
    let stem = Path::new(file_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let kept = |character: char| match character.to_ascii_lowercase() {
        lower @ ('a'..='z' | '0'..='9' | '_') => lower,
        _ => '-',
    };
    let name: String = stem.chars().map(kept).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    let mut name = parts.join("-");
    name.truncate(40);
    if name.is_empty() { "imported".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use stile_domain::records::identifiers::SourceName;
    use stile_store::state::StateDir;

    use super::*;

    fn sender(name: &str) -> Neighbour {
        Neighbour::stranger(name, name)
    }

    fn staged(uploads: &Arc<Uploads>, session: SecretDigest, name: &str) {
        let mut incoming = uploads.begin(name).unwrap();
        incoming.write(b"a,b\n1,2\n").unwrap();
        let room = uploads.room(&sender(name), 8).unwrap();
        uploads.put(session, vec![incoming.finish().unwrap()], room);
    }

    #[tokio::test]
    async fn a_file_is_one_session_s_and_is_gone_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let uploads = Uploads::new(UploadFolder::open(&state).unwrap());
        staged(&uploads, [1; 32], "one.csv");
        staged(&uploads, [2; 32], "two.csv");
        let name = |session| uploads.of(&session).map(|upload| upload.name().to_owned());
        assert_eq!(name([1; 32]).as_deref(), Some("one.csv"));
        assert_eq!(name([3; 32]), None);
        let path = uploads.of(&[1; 32]).unwrap().path.clone();
        // Another file takes its place.
        staged(&uploads, [1; 32], "three.csv");
        assert!(!path.exists());
        uploads.sweep(Moment::now() + UPLOAD_LIFE);
        assert_eq!((name([1; 32]), name([2; 32])), (None, None));
    }

    #[tokio::test]
    async fn files_that_were_sent_together_take_their_turns_and_share_their_room() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let uploads = Uploads::new(UploadFolder::open(&state).unwrap());
        let all = MAX_UPLOAD_BYTES;
        let room = uploads.room(&sender("ann"), all).unwrap();
        let file = |name: &str| uploads.begin(name).unwrap().finish().unwrap();
        uploads.put([1; 32], vec![file("one.csv"), file("two.csv"), file("three.csv")], room);
        let names = || {
            let all = uploads.all_of(&[1; 32]);
            all.iter().map(|upload| upload.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["one.csv", "two.csv", "three.csv"]);
        uploads.forget(&[1; 32]);
        assert_eq!(uploads.of(&[1; 32]).unwrap().name(), "two.csv");
        uploads.forget(&[2; 32]);
        uploads.forget_all(&[1; 32]);
        assert_eq!(names(), [""; 0]);
        // The room is free again once the last of them is gone.
        let held: Vec<Share> =
            std::iter::from_fn(|| uploads.room(&sender("ann"), all).ok()).collect();
        assert!(!held.is_empty());
    }

    #[test]
    fn all_files_count_against_one_bound() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let uploads = Uploads::new(UploadFolder::open(&state).unwrap());
        let mut held = Vec::new();
        let mut refused = 0;
        for number in 0..20 {
            match uploads.room(&sender("ann"), MAX_UPLOAD_BYTES) {
                Ok(room) => held.push(room),
                Err(_) => refused += number.min(1),
            }
        }
        assert!(held.len() <= 3 && refused > 0, "{}", held.len());
        assert!(uploads.room(&sender("bob"), MAX_UPLOAD_BYTES).is_ok(), "another person has room");
    }

    #[test]
    fn the_name_of_a_file_proposes_a_connection() {
        for (file, expected) in
            [("Bank 2026.csv", "bank-2026"), ("é.csv", "imported"), ("_x.json", "_x")]
        {
            assert_eq!(proposed_connection(file), expected);
        }
        let long = proposed_connection(&format!("-{}", "a b".repeat(100)));
        assert!(SourceName::parse(&long).is_ok(), "{long}");
    }
}
