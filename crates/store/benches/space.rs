//! Compares a window and an edit with the system calls that they need at least.
//!
//! Measures twenty lines in the middle of 50 MB, read for the first time and again; a durable edit
//! of one line of 1 MB; and pages of a folder of 10,000 files. The files have numbered
//! lines, so nothing is random. The same run measures the bare system calls.
//!
//! The numbers do not show how a cold disk performs: the page cache is warm, and the disk may be a
//! virtual one whose sync is cheap.
//!
//! 2026-11-24, two cores, medians of two runs: an edit of 1 MB whose old version is kept takes 1.09
//! and 1.34 times the bare steps with one more write and sync, and one of a small file 0.5 times.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark is its own verified caller"
)]

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::edit;
use stile_domain::hash::ContentHash;
use stile_domain::limits::{FileLimits, MAX_LIST_ENTRIES};
use stile_domain::lines::LineRange;
use stile_domain::listing::{EntryKind, ListPosition};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, List, Principal, Read};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::history::{History, HistoryLimits, HistorySettings, UnkeptChange};
use stile_store::space::{NewText, ReadAs, SearchIgnore, Space, SpaceOptions, WindowStart};
use stile_store::state::StateDir;
use stile_testkit::bench::{Plan, compare, timed};

fn main() {
    let plan = Plan::from_arguments();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let principal = Principal::assert_verified(
        "bench",
        None,
        None,
        Scopes::from_claim("write:/"),
        RecordsClaim::None,
    );
    let options = || SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_secs(10),
        events: Arc::new(|_| {}),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let open = || Space::open_ambient(folder.path(), options()).unwrap().0;

    // Numbered lines of 50 bytes: a million of them.
    let big: String = (0..1_000_000).map(|line| format!("{line:>48}.\n")).collect();
    fs::write(folder.path().join("big"), &big).unwrap();
    let big_path = SpacePath::parse("big").unwrap();
    let read = |space: &Space| {
        let permit = principal.gate().permit::<Read>(&big_path).unwrap();
        let from = WindowStart::Range(LineRange(500_000, 500_020));
        runtime.block_on(space.read(permit, from, ReadAs::Recognised)).unwrap().content.len()
    };
    std::thread::sleep(Duration::from_millis(50));
    compare(
        "20 lines in the middle of 50 MB, first time",
        plan.rounds(15),
        || {
            let space = open();
            timed(|| read(&space))
        },
        "read and hash 50 MB by hand",
        || timed(|| ContentHash::digest(&fs::read(folder.path().join("big")).unwrap())),
    );
    let space = open();
    read(&space);
    compare(
        "20 lines in the middle of 50 MB, again",
        plan.rounds(2000),
        || timed(|| read(&space)),
        "open, seek, read 1000 bytes by hand",
        || {
            timed(|| {
                let mut file = fs::File::open(folder.path().join("big")).unwrap();
                file.seek(SeekFrom::Start(499_999 * 50)).unwrap();
                let mut bytes = [0; 1000];
                file.read_exact(&mut bytes).unwrap();
                bytes.len()
            })
        },
    );

    let edits =
        Edits { plan: &plan, folder: folder.path(), principal: &principal, runtime: &runtime };
    edits.compare(&space, "durable edit of one line of 1 MB", 20_000);
    runtime.block_on(space.close());
    // With a history, whose every version is a new one. The hand may sync once more.
    let state_folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(state_folder.path()).unwrap();
    let limits = HistoryLimits { days: 30, bytes: 1 << 30 };
    let settings = HistorySettings { limits, unkept: UnkeptChange::IsRefused };
    let history = History::open(&state, folder.path(), settings).unwrap();
    let (kept, _) =
        Space::open_ambient_with(folder.path(), options(), Some(Arc::new(history))).unwrap();
    edits.compare(&kept, "the same, and the old version is kept", 20_000);
    edits.compare(&kept, "a small file, and the old version is kept", 80);
    runtime.block_on(kept.close());

    let crowd = folder.path().join("crowd");
    fs::create_dir(&crowd).unwrap();
    for number in 0..10_000 {
        fs::write(crowd.join(format!("{number:05}.md")), "x").unwrap();
    }
    let crowd_path = SpacePath::parse("crowd").unwrap();
    compare(
        "a page of 10,000 files after the first",
        plan.rounds(100),
        || {
            let permit = principal.gate().permit::<List>(&crowd_path).unwrap();
            let after = ListPosition::new(EntryKind::File, "05000.md");
            timed(|| runtime.block_on(space.list(permit, Some(after))).unwrap())
        },
        "ask for the attributes of as many files by hand",
        || {
            timed(|| {
                (5001..5001 + MAX_LIST_ENTRIES)
                    .map(|number| {
                        fs::metadata(crowd.join(format!("{number:05}.md"))).unwrap().len()
                    })
                    .sum::<u64>()
            })
        },
    );
    compare(
        "first page of 10,000 files that change",
        plan.rounds(100),
        || {
            fs::write(crowd.join("new"), "x").unwrap();
            fs::remove_file(crowd.join("new")).unwrap();
            let permit = principal.gate().permit::<List>(&crowd_path).unwrap();
            timed(|| runtime.block_on(space.list(permit, None)).unwrap())
        },
        "read the folder's names by hand",
        || timed(|| fs::read_dir(&crowd).unwrap().map(|entry| entry.unwrap().file_name()).max()),
    );
}

/// What the edits of a benchmark need.
struct Edits<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    principal: &'a Principal,
    runtime: &'a tokio::runtime::Runtime,
}

impl Edits<'_> {
    /// Compares edits of the middle line of a file of 52 bytes a line with the steps by hand.
    fn compare(&self, space: &Space, what: &str, lines: usize) {
        let note: String = (0..lines).map(|line| format!("{line:>51}\n")).collect();
        fs::write(self.folder.join("note"), &note).unwrap();
        fs::write(self.folder.join("hand"), &note).unwrap();
        let path = SpacePath::parse("note").unwrap();
        let (mut base, mut version) = (ContentHash::digest(note.as_bytes()), 0);
        let mut hand_version = 0;
        let floor = match space.history() {
            None => "read, hash, write, sync, rename, sync by hand",
            Some(_) => "the same by hand, and one more write and sync",
        };
        compare(
            what,
            self.plan.rounds(200),
            || {
                version += 1;
                let (old, new) = (
                    format!(
                        "{:>51}",
                        if version == 1 { lines / 2 } else { 1_000_000 + version - 1 }
                    ),
                    format!("{:>51}", 1_000_000 + version),
                );
                let permit = self.principal.gate().permit::<Edit>(&path).unwrap();
                let plan = move |text: &str| edit::replace(text, LineRange::ALL, &old, &new);
                timed(|| {
                    let new = NewText::default();
                    let edit = space.edit(permit, base, new, ["lines", "old"], plan);
                    base = self.runtime.block_on(edit).unwrap().hash;
                })
            },
            floor,
            || {
                hand_version += 1;
                timed(|| {
                    edit_by_hand(self.folder, hand_version, lines / 2);
                    if space.history().is_some() {
                        let mut log = fs::File::options()
                            .create(true)
                            .append(true)
                            .open(self.folder.join("log"))
                            .unwrap();
                        log.write_all(&[1; 64]).unwrap();
                        log.sync_all().unwrap();
                    }
                })
            },
        );
    }
}

/// Edits a file durably, without a lock, a check of the displaced file, or metadata.
fn edit_by_hand(folder: &Path, version: u64, line: usize) {
    let text = fs::read_to_string(folder.join("hand")).unwrap();
    let hash = ContentHash::digest(text.as_bytes());
    std::hint::black_box(hash);
    let at = line * 52;
    let new = format!("{}{version:>51}{}", &text.get(..at).unwrap(), text.get(at + 51..).unwrap());
    let mut file = fs::File::create(folder.join("hand.tmp")).unwrap();
    file.write_all(new.as_bytes()).unwrap();
    std::hint::black_box(ContentHash::digest(new.as_bytes()));
    file.sync_all().unwrap();
    fs::rename(folder.join("hand.tmp"), folder.join("hand")).unwrap();
    fs::File::open(folder).unwrap().sync_all().unwrap();
}
