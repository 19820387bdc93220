//! Tests of the verification: what was written verifies, and no change of it goes unnoticed.

use std::fs::FileTimes;

use stile_domain::history::past_change::ChangeNumber;

use super::anchors::NAME;
use super::tests::verify_all;
use super::*;
use crate::clock::wall_clock;

/// Returns a state with one file of ten lines, all of them synced, and the path of the file.
fn ten_lines() -> (tempfile::TempDir, StateDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    let journal = Journal::open(&state).unwrap();
    for n in 0..10 {
        let (tool, outcome) = (format!("tool{n}"), "ok".to_owned());
        journal.append(JournalLine { tool, outcome, ..JournalLine::default() }).unwrap();
    }
    drop(journal);
    let file = journal_files(&state).unwrap().remove(0);
    (folder, state, file)
}

fn line_of_tool(tool: &str) -> JournalLine {
    JournalLine { tool: tool.to_owned(), outcome: "ok".to_owned(), ..JournalLine::default() }
}

/// Verifies the journal after a change of the lines of its file, and returns the faults.
fn after(change: impl FnOnce(&mut Vec<String>)) -> Vec<(Option<u64>, FaultKind)> {
    let (_folder, state, file) = ten_lines();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    change(&mut lines);
    std::fs::write(&file, lines.concat()).unwrap();
    let found = verify_all(&state).unwrap();
    found.faults.into_iter().map(|fault| (fault.line, fault.kind)).collect()
}

#[test]
fn a_journal_that_nobody_changed_verifies() {
    let (_folder, state, _file) = ten_lines();
    let found = verify_all(&state).unwrap();
    assert_eq!((found.files, found.lines, found.faults), (1, 10, vec![]));
}

#[test]
fn an_altered_missing_moved_or_cut_line_is_found_where_it_is() {
    use stile_domain::journal_chain::BrokenLink;
    let altered = after(|lines| lines[4] = lines[4].replace("tool4", "tool5"));
    assert_eq!(altered, [(Some(5), FaultKind::Line(BrokenLink::Altered))]);
    let missing = after(|lines| drop(lines.remove(4)));
    assert_eq!(missing, [(Some(5), FaultKind::Line(BrokenLink::Missing { found: 6 }))]);
    let moved = after(|lines| {
        let line = lines.remove(2);
        lines.insert(6, line);
    });
    assert_eq!(moved, [(Some(3), FaultKind::Line(BrokenLink::Missing { found: 4 }))]);
    let repeated = after(|lines| lines.push(lines[3].clone()));
    assert_eq!(repeated, [(Some(11), FaultKind::Line(BrokenLink::Moved { found: 4 }))]);
    let cut = after(|lines| lines.truncate(7));
    assert_eq!(cut, [(Some(7), FaultKind::CutOff { missing: 3 })]);
    let emptied = after(Vec::clear);
    assert_eq!(emptied, [(Some(0), FaultKind::CutOff { missing: 10 })]);
}

#[test]
fn a_file_that_was_written_anew_is_not_the_one_that_was_synced() {
    let (_folder, state, file) = ten_lines();
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut chain = JournalChain::of_file(name);
    let mut forged = Vec::new();
    for _ in 0..10 {
        let (next, line) = chain.append(br#"{"at":"","tool":"forged","outcome":"ok"}"#);
        chain = next;
        forged.extend_from_slice(&[&line[..], b"\n"].concat());
    }
    std::fs::write(&file, forged).unwrap();
    let found = verify_all(&state).unwrap().faults;
    assert_eq!((found.len(), found[0].line, found[0].kind), (1, Some(10), FaultKind::Rewritten));
}

#[test]
fn a_file_that_was_removed_or_renamed_is_missing() {
    let (_folder, state, file) = ten_lines();
    std::fs::rename(&file, file.with_file_name("20200101T000000.000000Z-1-a.jsonl")).unwrap();
    let found = verify_all(&state).unwrap().faults;
    // The new name does not verify, and the old one is missing.
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].kind, FaultKind::FileMissing { lines: 10 });
}

#[test]
fn a_file_without_a_chain_is_an_alarm_whatever_its_name_and_its_age() {
    let line = "{\"at\":\"\",\"tool\":\"text.read\",\"outcome\":\"ok\"}\n";
    let names =
        ["20200101T000000.000000Z-1-a.jsonl", "29990101T000000.000000Z-1-a.jsonl", "x.jsonl"];
    for name in names {
        let (_folder, state, file) = ten_lines();
        std::fs::write(file.with_file_name(name), line).unwrap();
        assert_eq!(read_all(&state).unwrap().lines.len(), 11, "the reader takes it");
        let alarm = |place| JournalFault {
            file: name.to_owned(),
            line: Some(place),
            kind: FaultKind::Foreign,
        };
        let found = verify_all(&state).unwrap();
        assert_eq!((found.files, found.lines, found.faults), (2, 10, vec![alarm(1)]));
        // A later start does not take it for its own.
        let journal = Journal::open(&state).unwrap();
        journal.append(line_of_tool("later")).unwrap();
        drop(journal);
        assert_eq!(verify_all(&state).unwrap().faults, [alarm(1)]);
        // A look at the newest files alone reads no old one, and finds that it has no anchor.
        let [fault] = verify_newest(&state, 0).unwrap().faults.try_into().unwrap();
        assert_eq!((fault.file.as_str(), fault.kind), (name, FaultKind::Unanchored));
    }
}

#[test]
fn a_line_without_a_chain_value_is_found_before_and_after_lines_with_one() {
    use stile_domain::journal_chain::BrokenLink::Unchained;
    let line = "{\"at\":\"\",\"tool\":\"forged\",\"outcome\":\"ok\"}\n".to_owned();
    for (at, place) in [(0, 1), (10, 11)] {
        let found = after(|lines| lines.insert(at, line.clone()));
        assert_eq!(found, [(Some(place), FaultKind::Line(Unchained))]);
    }
}

#[test]
fn lines_from_before_calls_had_numbers_verify_beside_lines_with_them() {
    let (_folder, state, file) = ten_lines();
    // As a version that gave lines no `call` wrote the file, and its database.
    let name = "20200101T000000.000000Z-1-a.jsonl";
    make_anchors_old(&state);
    std::fs::write(
        file.with_file_name(name),
        "{\"at\":\"2020-01-01T00:00:00.000000Z\",\"subject\":\"ann\",\"client\":\"cursor\",\
         \"tool\":\"text.edit\",\"path\":\"/plan.md\",\"changed_lines\":3,\"outcome\":\"ok\",\"n\":1,\
         \"chain\":\"78ccf3936dca7bb79b5d8c04d4b9438fe1ebe44cc2ccdadea0685f59637042fc\"}\n",
    )
    .unwrap();
    let journal = Journal::open(&state).unwrap();
    let call = Some(ChangeNumber(42));
    journal.append(JournalLine { call, ..JournalLine::default() }).unwrap();
    drop(journal);
    let found = verify_all(&state).unwrap();
    assert_eq!((found.lines, found.faults), (12, vec![]));
    let lines = read_all(&state).unwrap().lines;
    assert_eq!((lines[0].call, lines[0].changed_lines), (None, Some(3)));
    assert_eq!(lines[11].call, call);
}

/// Writes a file as a process began it `age` ago, with a line of now for each tool.
pub(super) fn old_file(state: &StateDir, age: Duration, tools: &[&str]) -> PathBuf {
    let begun = Instant(now().0 - i64::try_from(age.as_micros()).unwrap());
    let name = format!("{}-1-a.{EXTENSION}", time_in_name(begun));
    let path = state.path().join(FOLDER).join(&name);
    let (mut chain, mut text) = (JournalChain::of_file(&name), Vec::new());
    for tool in tools {
        let line = JournalLine { at: timestamp(now()), ..line_of_tool(tool) };
        let (next, line) = chain.append(&serde_json::to_vec(&line).unwrap());
        chain = next;
        text.extend([&line[..], b"\n"].concat());
    }
    let mut anchors = Anchors::open(state.path(), Vec::new).unwrap();
    anchors.record(&[Anchor::new(&name, &chain)]).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    make_old(&path, age);
    path
}

/// Gives a file the time of its last change so long ago.
fn make_old(path: &Path, age: Duration) {
    let times = FileTimes::new().set_modified(wall_clock() - age);
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn files_are_removed_for_their_age_and_that_is_no_fault() {
    let (_folder, state, young) = ten_lines();
    let [kept, gone] = [29, 31].map(|days| old_file(&state, days * DAY, &["a"]));
    let options = JournalOptions { keep: Some(30 * DAY), shared: None };
    drop(Journal::open_as(&state, options.clone()).unwrap());
    assert!(kept.exists() && !gone.exists());
    let found = verify_all(&state).unwrap();
    assert_eq!((found.files, found.retired, found.faults), (2, 1, vec![]));
    // Nobody has a file removed by making it look old.
    make_old(&young, 100 * DAY);
    drop(Journal::open_as(&state, options).unwrap());
    assert!(young.exists());
}

#[test]
fn a_file_that_somebody_put_there_is_not_removed_for_its_age() {
    let (_folder, state, file) = ten_lines();
    let put = file.with_file_name("20200101T000000.000000Z-1-a.jsonl");
    std::fs::write(&put, "{\"at\":\"\",\"tool\":\"text.read\",\"outcome\":\"ok\"}\n").unwrap();
    make_old(&put, 100 * DAY);
    let options = JournalOptions { keep: Some(30 * DAY), shared: None };
    drop(Journal::open_as(&state, options).unwrap());
    assert_eq!(verify_all(&state).unwrap().faults[0].kind, FaultKind::Foreign);
}

/// Returns what a file would be with one more line, which goes on with its chain.
fn with_forged_line(file: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(file).unwrap();
    let chain = JournalChain::stated_by(text.lines().last().unwrap().as_bytes()).unwrap();
    let (_, line) = chain.append(b"{\"at\":\"\",\"tool\":\"forged\",\"outcome\":\"ok\"}");
    [text.as_bytes(), &line, b"\n"].concat()
}

#[test]
fn a_line_that_somebody_adds_to_a_finished_file_is_found() {
    let added = after_change(|_, file| std::fs::write(file, with_forged_line(file)).unwrap());
    assert_eq!(added, [vec![FaultKind::Added { added: 1 }], vec![FaultKind::Added { added: 1 }]]);
    // A file that is followed by another one is finished, too.
    let (_folder, state, _) = ten_lines();
    let journal = Journal::open(&state).unwrap();
    journal.append(line_of_tool("a")).unwrap();
    let full = journal_files(&state).unwrap().remove(1);
    journal.shared.lock().current.as_mut().unwrap().begun = Instant(0);
    journal.append(line_of_tool("b")).unwrap();
    journal.sync();
    std::fs::write(&full, with_forged_line(&full)).unwrap();
    assert_eq!(verify_all(&state).unwrap().faults[0].kind, FaultKind::Added { added: 1 });
}

#[test]
fn the_file_of_a_killed_process_is_finished_at_the_next_start_and_that_of_a_living_one_is_not() {
    let (folder, state, _) = ten_lines();
    let living = Journal::open(&state).unwrap();
    living.append(line_of_tool("a")).unwrap();
    living.sync();
    // What a kill leaves is what is there at this moment, without the lock of the process.
    let killed = StateDir::open(&folder.path().join("killed")).unwrap();
    std::fs::create_dir(killed.path().join(FOLDER)).unwrap();
    for place in ["", FOLDER] {
        for entry in std::fs::read_dir(state.path().join(place)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let to = killed.path().join(place).join(entry.file_name());
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    for (state, is_finished) in [(&killed, true), (&state, false)] {
        let later = Journal::open(state).unwrap();
        later.append(line_of_tool("b")).unwrap();
        drop(later);
        let file = &journal_files(state).unwrap()[1];
        let name = file.file_name().unwrap().to_str().unwrap();
        let unfinished = Anchors::open(state.path(), Vec::new).unwrap().unfinished().unwrap();
        assert_eq!(unfinished.iter().any(|anchor| anchor.file == name), !is_finished, "{name}");
    }
    let file = &journal_files(&killed).unwrap()[1];
    std::fs::write(file, with_forged_line(file)).unwrap();
    assert_eq!(verify_all(&killed).unwrap().faults[0].kind, FaultKind::Added { added: 1 });
    living.append(line_of_tool("c")).unwrap();
    drop(living);
    let found = verify_all(&state).unwrap();
    assert_eq!((found.lines, found.faults), (13, vec![]));
}

#[test]
fn a_long_or_old_file_is_followed_by_a_new_one() {
    let (_folder, state, _file) = ten_lines();
    let journal = Journal::open(&state).unwrap();
    let append = |tool: &str| {
        let (tool, outcome) = (tool.to_owned(), "ok".to_owned());
        journal.append(JournalLine { tool, outcome, ..JournalLine::default() }).unwrap();
        journal_files(&state).unwrap().len()
    };
    let current = |change: fn(&mut Current)| {
        change(journal.shared.lock().current.as_mut().unwrap());
    };
    assert_eq!((append("a"), append("b")), (2, 2));
    current(|current| current.begun = Instant(0));
    assert_eq!(append("c"), 3);
    current(|current| {
        let written = std::mem::replace(&mut current.written, MAX_FILE_BYTES - 1);
        assert!(!current.is_full());
        current.written = MAX_FILE_BYTES;
        assert!(current.is_full());
        current.written = written;
    });
    drop(journal);
    assert_eq!(verify_all(&state).unwrap().lines, 13);
}

#[test]
fn the_newest_files_are_verified_up_to_a_bound_and_missing_ones_are_found_beyond() {
    let (_folder, state, oldest) = ten_lines();
    let append = |lines: usize| {
        let journal = Journal::open(&state).unwrap();
        for _ in 0..lines {
            journal.append(line_of_tool("b")).unwrap();
        }
    };
    append(1);
    append(2);
    let files = journal_files(&state).unwrap();
    let length = |path: &PathBuf| path.metadata().unwrap().len();
    let newest: u64 = files[1..].iter().map(length).sum();
    let text = std::fs::read_to_string(&oldest).unwrap();
    std::fs::write(&oldest, text.replace("tool3", "tool4")).unwrap();
    let within = |bytes| {
        let found = verify_newest(&state, bytes).unwrap();
        (found.files, found.lines, found.unread, found.faults.len())
    };
    assert_eq!(within(newest), (2, 3, 1, 0));
    assert_eq!(within(newest - 1), (1, 2, 2, 0));
    assert_eq!(within(0), (0, 0, 3, 0));
    assert_eq!(within(newest + length(&oldest)), (3, 6, 0, 1));
    std::fs::remove_file(&oldest).unwrap();
    assert_eq!(within(newest), (2, 3, 0, 1), "a missing file shows without being read");
    let mut read = 0;
    let place = JournalPlace::new(state, None);
    place.verify(&mut |bytes| read += bytes).unwrap();
    assert_eq!(read, place.bytes().unwrap());
}

/// Makes the database of anchors as the version before this one left it.
fn make_anchors_old(state: &StateDir) {
    std::fs::remove_file(state.path().join(anchor_key::NAME)).unwrap();
    let database = rusqlite::Connection::open(state.path().join(NAME)).unwrap();
    database
        .execute_batch(
            "DROP TABLE ledger;
             CREATE TABLE old (file TEXT PRIMARY KEY NOT NULL, lines INTEGER NOT NULL,
                 chain BLOB NOT NULL, retired INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
             INSERT INTO old SELECT file, lines, chain, retired FROM anchors;
             DROP TABLE anchors;
             ALTER TABLE old RENAME TO anchors;
             PRAGMA user_version = 1;",
        )
        .unwrap();
}

/// Returns the faults after a change of the state folder, and again after the next start.
fn after_change(change: impl FnOnce(&StateDir, &Path)) -> [Vec<FaultKind>; 2] {
    let (_folder, state, file) = ten_lines();
    change(&state, &file);
    let faults = || {
        let found = verify_all(&state).unwrap();
        found.faults.into_iter().map(|fault| fault.kind).collect::<Vec<_>>()
    };
    let before = faults();
    let journal = Journal::open(&state).unwrap();
    journal.append(line_of_tool("later")).unwrap();
    drop(journal);
    [before, faults()]
}

fn cut_half(file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let half: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
    std::fs::write(file, half).unwrap();
}

fn remove_database(state: &StateDir) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(state.path().join(format!("{NAME}{end}")));
    }
}

fn change_database(state: &StateDir, sql: &str) {
    rusqlite::Connection::open(state.path().join(NAME)).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn lines_that_were_cut_off_after_the_database_was_removed_are_an_alarm_for_good() {
    use FaultKind::{AnchorsMadeAnew, AnchorsMissing, Unanchored};
    let cut = after_change(|state, file| {
        remove_database(state);
        cut_half(file);
    });
    assert_eq!(cut, [vec![AnchorsMissing, Unanchored], vec![AnchorsMadeAnew, Unanchored]]);
    let gone = after_change(|state, file| {
        remove_database(state);
        std::fs::remove_file(file).unwrap();
    });
    assert_eq!(gone, [vec![AnchorsMissing], vec![AnchorsMadeAnew]]);
    let keyless = after_change(|state, file| {
        remove_database(state);
        std::fs::remove_file(state.path().join(anchor_key::NAME)).unwrap();
        cut_half(file);
    });
    assert_eq!(keyless, [vec![Unanchored], vec![Unanchored]]);
}

#[test]
fn an_anchor_that_was_changed_or_taken_out_is_found() {
    use FaultKind::{AnchorChanged, AnchorsChanged, AnchorsRemoved, KeyMissing, Unanchored};
    let lowered = after_change(|state, file| {
        cut_half(file);
        change_database(state, "UPDATE anchors SET lines = 5");
    });
    assert_eq!(lowered, [vec![AnchorChanged], vec![AnchorChanged]]);
    let retired = after_change(|state, file| {
        std::fs::remove_file(file).unwrap();
        change_database(state, "UPDATE anchors SET retired = 1");
    });
    assert_eq!(retired, [vec![AnchorChanged], vec![AnchorChanged]]);
    let taken = after_change(|state, file| {
        std::fs::remove_file(file).unwrap();
        change_database(state, "DELETE FROM anchors");
    });
    let missing = AnchorsRemoved { missing: 1 };
    assert_eq!(taken, [vec![missing], vec![missing]]);
    let counted = after_change(|state, file| {
        std::fs::remove_file(file).unwrap();
        change_database(state, "DELETE FROM anchors; UPDATE ledger SET files = 0");
    });
    assert_eq!(counted, [vec![AnchorsChanged], vec![AnchorsChanged]]);
    let [keyless, _] = after_change(|state, _| {
        std::fs::remove_file(state.path().join(anchor_key::NAME)).unwrap();
    });
    assert_eq!(keyless, [KeyMissing, AnchorChanged]);
    let added = after_change(|_, file| {
        let name = "29990101T000000.000000Z-1-a.jsonl";
        let (_, mut line) = JournalChain::of_file(name).append(b"{\"tool\":\"forged\"}");
        line.push(b'\n');
        std::fs::write(file.with_file_name(name), line).unwrap();
    });
    assert_eq!(added, [vec![Unanchored], vec![Unanchored]]);
}

#[test]
fn lines_that_the_owner_did_not_remove_are_found_missing() {
    let (_folder, state, file) = ten_lines();
    let place = JournalPlace::new(state.clone(), None);
    let is_meant = |line: &JournalLine| ["tool3", "tool4"].contains(&line.tool.as_str());
    let expected = RemovedLines { lines: 2, files: 1, unchained: 0 };
    assert_eq!(place.plan_removal(&is_meant).unwrap(), expected);
    let length = file.metadata().unwrap().len();
    assert_eq!(place.remove(&is_meant).unwrap(), expected);
    assert_eq!(file.metadata().unwrap().len(), length);
    assert_eq!(place.remove(&is_meant).unwrap(), RemovedLines::default());
    let found = verify_all(&state).unwrap();
    assert_eq!((found.lines, found.removed, found.faults), (8, 2, vec![]));
    let contents = read_all(&state).unwrap();
    assert_eq!((contents.lines.len(), contents.damaged), (8, 0));
    // Somebody else does as the owner did.
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.contains("tool7")).unwrap();
    let left = String::from_utf8(JournalChain::remove(line.as_bytes()).unwrap()).unwrap();
    std::fs::write(&file, text.replace(line, &left)).unwrap();
    let faults = verify_all(&state).unwrap().faults;
    assert_eq!((faults.len(), faults[0].kind), (1, FaultKind::Removed { found: 3, known: 2 }));
}

#[test]
fn a_state_of_the_version_before_goes_on_with_a_key() {
    let old = after_change(|state, _| make_anchors_old(state));
    assert_eq!(old, [vec![], vec![]]);
    // A file that the version before had not anchored yet when it was killed.
    let young = after_change(|state, _| {
        make_anchors_old(state);
        change_database(state, "DELETE FROM anchors");
    });
    assert_eq!(young, [vec![FaultKind::Unanchored], vec![]]);
    let (_folder, state, file) = ten_lines();
    make_anchors_old(&state);
    cut_half(&file);
    drop(Journal::open(&state).unwrap());
    assert_eq!(verify_all(&state).unwrap().faults[0].kind, FaultKind::CutOff { missing: 5 });
}

#[test]
fn without_its_database_the_journal_goes_on() {
    let (_folder, state, _file) = ten_lines();
    std::fs::remove_file(state.path().join(NAME)).unwrap();
    std::fs::create_dir(state.path().join(NAME)).unwrap();
    let journal = Journal::open(&state).unwrap();
    let line = JournalLine { tool: "a".to_owned(), ..JournalLine::default() };
    journal.append(line).unwrap();
    journal.sync();
    assert!(verify_all(&state).is_err());
    assert_eq!(read_all(&state).unwrap().lines.len(), 11);
}
