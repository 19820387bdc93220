//! Appends to a file that stays the same file: what other programs do meanwhile, full disks, faults
//! at each call, and what a start makes of an append that was interrupted.

use std::fs::OpenOptions;
use std::io::Write as _;

use super::*;

const ERRORS: [i32; 2] = [5, 28];

fn grown(base: &str) -> Base {
    Base::Prefix { hash: hash(base), size: base.len() as u64 }
}

/// Opens a file as a service opens its log.
fn log(rig: &Rig, name: &str) -> fs::File {
    OpenOptions::new().append(true).open(rig.file(name)).unwrap()
}

/// Saves a file as most editors do: a new file gets its name.
fn save(at: &Path, text: &str) {
    let new = at.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, at).unwrap();
}

#[test]
fn an_append_goes_to_the_same_file_behind_which_a_service_writes_on() {
    let rig = Rig::new();
    rig.put("a.log", "one\n");
    let (mut service, inode) = (log(&rig, "a.log"), fs::metadata(rig.file("a.log")).unwrap().ino());
    let edited = rig.append("a.log", "one\n", "two\n").unwrap();
    assert_eq!((edited.hash, edited.size_bytes, edited.total_lines), (hash("one\ntwo\n"), 8, 2));
    service.write_all(b"three\n").unwrap();
    rig.append_with("a.log", Base::Unread, "four").unwrap();
    rig.append_with("a.log", grown("one\n"), "five").unwrap();
    assert_eq!(rig.text("a.log"), "one\ntwo\nthree\nfour\nfive");
    assert_eq!(fs::metadata(rig.file("a.log")).unwrap().ino(), inode);
    assert!(rig.hidden().is_empty() && rig.copies().is_empty());
    assert_eq!(code(rig.append("a.log", "one\n", "x")), "stale");
    fs::hard_link(rig.file("a.log"), rig.file("b.log")).unwrap();
    assert_eq!(code(rig.append_with("a.log", Base::Unread, "x")), "hard_linked");
}

#[test]
fn an_append_is_written_once_between_two_syncs() {
    use fault::Call::{Open, Sync, Write};
    let rig = Rig::new();
    rig.put("a.log", "one\n");
    rig.append("a.log", "one\n", "two\n").unwrap();
    fault::calls();
    rig.append("a.log", "one\ntwo\n", "three\n").unwrap();
    let calls: Vec<_> = fault::calls().into_iter().filter(|call| *call != Open).collect();
    // The intent, the file and its folder, and the cleared intent.
    assert_eq!(calls, [Write, Sync, Write, Sync, Sync, Write, Sync]);
}

#[test]
fn a_line_that_a_service_adds_in_the_same_instant_stays() {
    let rig = Rig::new();
    rig.put("a.log", "one\n");
    let mut service = log(&rig, "a.log");
    fault::on_swap(move || service.write_all(b"service\n").unwrap());
    assert_eq!(code(rig.append("a.log", "one\n", "two\n")), "stale");
    assert_eq!(rig.text("a.log"), "one\nservice\n");
    let mut service = log(&rig, "a.log");
    fault::on_swap(move || service.write_all(b"more\n").unwrap());
    let edited = rig.append_with("a.log", grown("one\n"), "two\n").unwrap();
    assert_eq!(rig.text("a.log"), "one\nservice\nmore\ntwo\n");
    assert_eq!(edited.hash, hash("one\nservice\nmore\ntwo\n"));
    // Behind the append.
    let mut service = log(&rig, "a.log");
    fault::on_check(move || service.write_all(b"last\n").unwrap());
    let edited = rig.append("a.log", "one\nservice\nmore\ntwo\n", "three\n").unwrap();
    assert_eq!(rig.text("a.log"), "one\nservice\nmore\ntwo\nthree\nlast\n");
    assert_eq!(edited.hash, hash("one\nservice\nmore\ntwo\nthree\n"));
}

#[test]
fn a_save_in_the_same_instant_is_kept_and_the_append_is_made_again() {
    type Arm = fn(Box<dyn FnOnce()>);
    let before: Arm = |act| fault::on_swap(act);
    let after: Arm = |act| fault::on_check(act);
    type Save = fn(&Path, &str);
    let in_place: Save = |at, text| fs::write(at, text).unwrap();
    for (arm, save, name) in [
        (before, save as Save, "before, by a rename"),
        (after, save as Save, "after, by a rename"),
        (before, in_place, "before, in place"),
        (after, in_place, "after, in place"),
    ] {
        let saving = |text: &'static str| {
            let rig = Rig::new();
            rig.put("a.md", "one\n");
            let at = rig.file("a.md");
            arm(Box::new(move || save(&at, text)));
            rig
        };
        let rig = saving("one\nsaved by an editor\n");
        rig.append_with("a.md", grown("one\n"), "two\n").unwrap();
        assert_eq!(rig.text("a.md"), "one\nsaved by an editor\ntwo\n", "{name}");
        assert_eq!(rig.visible(), ["a.md"], "{name}");
        let rig = saving("other\n");
        assert_eq!(code(rig.append_with("a.md", grown("one\n"), "two\n")), "stale", "{name}");
        assert_eq!(rig.text("a.md"), "other\n", "{name}");
        let rig = saving("saved by an editor\n");
        assert_eq!(code(rig.append("a.md", "one\n", "two\n")), "stale", "{name}");
        assert_eq!(rig.text("a.md"), "saved by an editor\n", "{name}");
        let rig = saving("saved");
        rig.append_with("a.md", Base::Unread, "two\n").unwrap();
        assert_eq!(rig.text("a.md"), "saved\ntwo\n", "{name}");
    }
}

#[test]
fn an_editor_that_read_the_append_and_saves_it_has_it_once() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let at = rig.file("a.md");
    fault::on_check(move || {
        let text = fs::read_to_string(&at).unwrap();
        save(&at, &format!("{text}three\n"));
    });
    let edited = rig.append_with("a.md", grown("one\n"), "two\n").unwrap();
    assert_eq!(rig.text("a.md"), "one\ntwo\nthree\n");
    assert_eq!(edited.hash, hash("one\ntwo\nthree\n"));
}

#[test]
fn a_short_write_on_a_full_disk_is_taken_back() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    fault::write_at_most(2);
    assert_eq!(code(rig.append("a.md", "one\n", "two\n")), "no_space");
    assert_eq!(rig.text("a.md"), "one\n");
    rig.append("a.md", "one\n", "two\n").unwrap();
    assert_eq!(rig.text("a.md"), "one\ntwo\n");
}

#[test]
fn a_fault_at_any_call_leaves_an_append_whole_or_absent() {
    for errno in ERRORS {
        for after in 0.. {
            let rig = Rig::new();
            rig.put("a.md", "one\n");
            fault::arm(after, errno);
            let outcome = rig.append("a.md", "one\n", "two\n");
            let untouched = fault::disarm();
            match outcome {
                Ok(_) if untouched => break,
                Ok(_) | Err(Refusal::UnknownOutcome { .. }) => {
                    assert_eq!(rig.text("a.md"), "one\ntwo\n", "{after}");
                }
                Err(_) => assert_eq!(rig.text("a.md"), "one\n", "{after}"),
            }
            let text = rig.text("a.md");
            rig.append("a.md", &text, "three\n").unwrap();
            assert_eq!(rig.text("a.md"), format!("{text}three\n"));
            assert!(after < 50, "every number of calls failed");
        }
    }
}

/// Leaves what a process leaves that is killed after an append of `two\n` to `a.md` had written
/// `written`, and starts again. Returns the rig and the outcomes in the journal.
fn restarted(before: &str, written: &str, act: impl FnOnce(&Path)) -> (Rig, Vec<&'static str>) {
    let appends = tempfile::tempdir().unwrap();
    let options = || (FileLimits::default(), Vec::new(), Duration::from_secs(20));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.md"), before).unwrap();
    let (rig, _) = Rig::recovering(folder, options(), None, appends.path());
    let (at, slots) = (rig.file("a.md"), appends.path().to_owned());
    let copy = tempfile::tempdir().unwrap();
    let kept = copy.path().to_owned();
    fault::on_swap(move || {
        // The slots as they are when the append is about to be written.
        for slot in fs::read_dir(slots).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&slot, kept.join(slot.file_name().unwrap())).unwrap();
        }
    });
    rig.append("a.md", before, "two\n").unwrap();
    fs::write(at, format!("{before}{written}")).unwrap();
    let Rig { folder, space, .. } = rig;
    drop(space);
    act(&folder.path().join("a.md"));
    let (rig, _) = Rig::recovering(folder, options(), None, copy.path());
    assert_eq!(fs::read_dir(copy.path()).unwrap().count(), 0, "no slot is left");
    let outcome = |line: &JournalLine| if line.outcome == "cut" { "cut" } else { "left" };
    let outcomes = rig.events.lock().unwrap().iter().map(outcome).collect();
    (rig, outcomes)
}

#[test]
fn a_start_cuts_off_our_unfinished_bytes_at_the_very_end_alone() {
    let nothing = |_: &Path| {};
    for (written, after, outcomes) in [
        ("", "one\n", &[][..]),
        ("t", "one\n", &["cut"]),
        ("two", "one\n", &["cut"]),
        ("\0\0\0\0", "one\n", &["cut"]),
        ("two\n", "one\ntwo\n", &[]),
        ("two\nservice\n", "one\ntwo\nservice\n", &[]),
        ("service\ntwo\n", "one\nservice\ntwo\n", &[]),
        ("tservice\n", "one\ntservice\n", &["left"]),
        ("service\n", "one\nservice\n", &[]),
    ] {
        let (rig, said) = restarted("one\n", written, nothing);
        assert_eq!((rig.text("a.md").as_str(), &*said), (after, outcomes), "{written:?}");
    }
    // Another file, which its program made of what it read.
    let (rig, said) = restarted("one\n", "tw", |at| save(at, "one\ntw"));
    assert_eq!((rig.text("a.md"), said.len()), ("one\ntw".to_owned(), 0));
    // Written long after the append.
    let later = |at: &Path| {
        let file = OpenOptions::new().append(true).open(at).unwrap();
        let time = file.metadata().unwrap().modified().unwrap() + Duration::from_secs(3600);
        file.set_modified(time).unwrap();
    };
    let (rig, said) = restarted("one\n", "tw", later);
    assert_eq!((rig.text("a.md").as_str(), said), ("one\ntw", vec!["left"]));
    let (rig, _) = restarted("one\n", "tw", |at| fs::remove_file(at).unwrap());
    assert!(rig.visible().is_empty());
}

#[test]
fn a_start_leaves_the_appends_of_a_living_process_and_of_another_space() {
    let appends = tempfile::tempdir().unwrap();
    let options = || (FileLimits::default(), Vec::new(), Duration::from_secs(20));
    let open = || {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.md"), "one\n").unwrap();
        Rig::recovering(folder, options(), None, appends.path()).0
    };
    let (one, other) = (open(), open());
    one.append("a.md", "one\n", "two\n").unwrap();
    other.append("a.md", "one\n", "two\n").unwrap();
    assert_eq!(fs::read_dir(appends.path()).unwrap().count(), 2);
    let third = open();
    assert_eq!(fs::read_dir(appends.path()).unwrap().count(), 2);
    drop((one, other, third));
    assert_eq!(fs::read_dir(appends.path()).unwrap().count(), 0);
}
