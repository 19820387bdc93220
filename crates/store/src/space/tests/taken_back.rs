//! A program that saves just before an edit, reads again, and saves once more: at each moment of
//! the edit, which may take its version back.

use super::*;

/// What the program does at one moment.
type Act = Box<dyn FnOnce()>;

/// Runs each act before the call of its number, and those that are left now. The numbers ascend.
fn at_moments(mut acts: VecDeque<(u32, Act)>, passed: u32) {
    if let Some((moment, act)) = acts.pop_front() {
        fault::on_call(moment - passed, move || {
            act();
            at_moments(acts, moment + 1);
        });
    }
}

/// Saves a file by a rename, or by writing to it as it is.
fn save(at: &Path, text: &str, by_rename: bool) {
    if by_rename {
        let new = at.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, at).unwrap();
    } else {
        fs::write(at, text).unwrap();
    }
}

/// Returns how many moments an edit has from its exchange on, if it is refused because of a save.
fn moments() -> u32 {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    let at = rig.file("a.md");
    fault::on_swap(move || {
        save(&at, "one\nfirst\n", true);
        fault::calls();
    });
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "agent")), "stale");
    u32::try_from(fault::calls().len()).unwrap() + 1
}

/// Lets a program save just before the exchange of an edit, read at the moment `reads` after it and
/// save what it read, with a line more, at the moment `saves`. Returns whether it saved twice.
fn edit_beside(rig: &Rig, by_rename: bool, (reads, saves): (u32, u32)) -> bool {
    rig.put("a.md", "one\n");
    let at = rig.file("a.md");
    let read = Arc::new(Mutex::new(None::<String>));
    let (seen, file) = (Arc::clone(&read), at.clone());
    let reading = move || *seen.lock().unwrap() = fs::read_to_string(file).ok();
    let (seen, file) = (Arc::clone(&read), at.clone());
    let saved = Arc::new(AtomicBool::new(false));
    let has_saved = Arc::clone(&saved);
    let saving = move || {
        if let Some(text) = seen.lock().unwrap().take() {
            save(&file, &format!("{text}second\n"), by_rename);
            has_saved.store(true, Ordering::Relaxed);
        }
    };
    let saving = Arc::new(saving);
    let at_once = Arc::clone(&saving);
    let acts: Vec<(u32, Act)> = if reads == saves {
        let both = move || {
            reading();
            at_once();
        };
        vec![(reads, Box::new(both))]
    } else {
        vec![(reads, Box::new(reading)), (saves, Box::new(move || at_once()))]
    };
    fault::on_swap(move || {
        save(&at, "one\nfirst\n", by_rename);
        at_moments(acts.into(), 0);
    });
    let _ = rig.replace("a.md", "one\n", "one", "agent");
    fault::on_call(u32::MAX, || {});
    // A moment after the edit.
    saving();
    saved.load(Ordering::Relaxed)
}

#[test]
fn each_save_of_a_program_that_reads_again_before_it_saves_is_in_a_file() {
    let count = moments();
    let mut edited = Vec::new();
    for by_rename in [true, false] {
        for reads in 0..count {
            for saves in reads..=count {
                let rig = Rig::new();
                let saved_twice = edit_beside(&rig, by_rename, (reads, saves));
                edited.push((rig, saved_twice, format!("{by_rename} {reads} {saves}")));
            }
        }
    }
    for (rig, saved_twice, name) in edited {
        rig.inner().keeper.close();
        let texts: Vec<String> = rig.visible().iter().map(|name| rig.text(name)).collect();
        let is_in = |line: &str| texts.iter().any(|text| text.contains(line));
        assert!(is_in("first"), "{name}: {texts:?}");
        assert!(is_in("second") || !saved_twice, "{name}: {texts:?}");
        assert!(rig.hidden().is_empty(), "{name}");
    }
}
