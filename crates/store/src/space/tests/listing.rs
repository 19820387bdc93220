//! Pages of folders.

use super::*;

#[test]
fn a_listing_is_ordered_and_hides_our_own_files() {
    let rig = Rig::new();
    for name in ["b", "a", "Z"] {
        fs::create_dir(rig.file(name)).unwrap();
    }
    for name in ["ä.md", ".dot", "a.md", "back\\slash"] {
        rig.put(name, "x");
    }
    rig.put(".stile-0000000000000000-0.alive", "");
    symlink("a.md", rig.file("link")).unwrap();
    let names = |claim: &str| {
        rig.list("/", claim).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("read:/"), ["Z", "a", "b", ".dot", "a.md", "link", "ä.md"]);
    assert_eq!(names("read:/*"), names("read:/"));
    assert_eq!(code(rig.list("/", "read:/a/")), "insufficient_scope");
    assert_eq!(code(rig.list("/missing", "read:/")), "not_found");
    assert_eq!(code(rig.list("/a.md", "read:/")), "not_a_directory");
}

#[test]
fn a_listing_counts_the_entries_that_no_path_can_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let rig = Rig::new();
    fs::create_dir_all(rig.file("work/sub")).unwrap();
    for name in ["line\nbreak", "back\\slash", "c1\u{85}control", ".stile-\u{1}", ".stile-x"] {
        rig.put(&format!("work/{name}"), "x");
    }
    rig.put("work/a.md", "x");
    rig.put("C:", "x");
    // A file system of UTF-8 names alone has no such name.
    let raw = std::ffi::OsStr::from_bytes(b"latin-\xe9");
    let has_raw = fs::write(rig.file("work").join(raw), "x").is_ok();
    let unnameable = |folder: &str, claim: &str| {
        let permit = principal(claim).gate().permit::<List>(&path(folder)).unwrap();
        rig.inner().list(&permit, None).unwrap().unnameable_entries
    };
    assert_eq!(unnameable("/work", "read:/"), 5 + u64::from(has_raw));
    assert_eq!(unnameable("/work", "read:/work/*"), 5 + u64::from(has_raw));
    assert_eq!(unnameable("/", "read:/"), 1);
    assert_eq!(unnameable("/work/sub", "read:/"), 0);
    assert_eq!(unnameable("/work/sub", "read:/work/* read:/work/sub/b"), 0);
    let permit = principal("read:/").gate().permit::<List>(&path("/work")).unwrap();
    let mut odd = vec![".stile-\u{1}", ".stile-x", "back\\slash", "c1\u{85}control", "line\nbreak"];
    if has_raw {
        odd.insert(4, "latin-\\xe9");
    }
    assert_eq!(rig.inner().odd_names(&permit, 9).unwrap(), odd, "the owner learns which");
    for number in 0..250 {
        rig.put(&format!("work/f{number:03}"), "x");
    }
    let permit = principal("read:/").gate().permit::<List>(&path("/work")).unwrap();
    let first = rig.inner().list(&permit, None).unwrap();
    let after = stile_domain::listing::parse_uri(&first.next_uri.unwrap()).unwrap().after;
    let last = rig.inner().list(&permit, after.as_ref()).unwrap();
    assert_eq!(
        (first.unnameable_entries, last.unnameable_entries),
        (5 + u64::from(has_raw), 5 + u64::from(has_raw))
    );
}

#[test]
fn a_listing_never_counts_unnameable_entries_that_scopes_hide() {
    let rig = Rig::new();
    fs::create_dir_all(rig.file("work/sub")).unwrap();
    rig.put("work/sub/b", "x");
    rig.put("work/sub/back\\slash", "x");
    let permit = principal("read:/work/* read:/work/sub/b")
        .gate()
        .permit::<List>(&path("/work/sub"))
        .unwrap();
    let page = rig.inner().list(&permit, None).unwrap();
    assert_eq!((page.entries.len(), page.unnameable_entries), (1, 0));
}

#[test]
fn pages_together_list_the_whole_folder() {
    let rig = Rig::new();
    for number in 0..450 {
        rig.put(&format!("f{number:03}"), "x");
    }
    for number in 0..30 {
        fs::create_dir(rig.file(&format!("d{number:02}"))).unwrap();
    }
    let principal = principal("read:/");
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let permit = principal.gate().permit::<List>(&path("/")).unwrap();
        let page = rig.inner().list(&permit, after.as_ref()).unwrap();
        assert_eq!(page.truncated, page.next_uri.is_some());
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        let Some(uri) = page.next_uri else { break };
        assert_eq!(names.len() % 200, 0);
        after = stile_domain::listing::parse_uri(&uri).unwrap().after;
    }
    assert_eq!(names.len(), 480);
    assert!(names[..30].is_sorted() && names[30..].is_sorted() && names[29].starts_with('d'));
}

/// Lists a folder page by page, and returns the names.
fn names_in_pages(rig: &Rig, folder: &str, principal: &Principal) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let permit = principal.gate().permit::<List>(&path(folder)).unwrap();
        let page = rig.inner().list(&permit, after.as_ref()).unwrap();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        let Some(uri) = page.next_uri else { return names };
        after = stile_domain::listing::parse_uri(&uri).unwrap().after;
    }
}

#[test]
fn remembered_names_are_those_that_the_folder_has() {
    let rig = Rig::new();
    let folder = rig.file("many");
    fs::create_dir(&folder).unwrap();
    let all = principal("read:/");
    let mut expected: Vec<String> = (0..900).map(|number| format!("f{number:04}")).collect();
    for name in &expected {
        fs::write(folder.join(name), "x").unwrap();
    }
    for round in 0..20 {
        assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
        // At the latest when the stamp has settled, the names come from memory.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
            let stamp =
                os::status(rig.inner().root.open_folder(&path("/many")).unwrap()).unwrap().stamp;
            if rig.inner().folder_names().get(&stamp).is_some() {
                break;
            }
            assert!(Instant::now() < deadline, "the names are not remembered");
        }
        assert_eq!(names_in_pages(&rig, "/many", &all), expected, "round {round}");
        let new = format!("g{round}");
        fs::rename(folder.join(&expected[round * 7 + 20]), folder.join(&new)).unwrap();
        expected.remove(round * 7 + 20);
        expected.push(new);
        expected.sort();
    }
}

/// Listings of a folder in memory, where the order of entries depends on what happened to them.
#[cfg(target_os = "linux")]
#[test]
fn a_listing_misses_no_file_that_others_replace_meanwhile() {
    const FILES: usize = 40;
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let rig = Rig::on(folder, FileLimits::default());
    let expected: Vec<String> = (0..FILES).map(|number| format!("f{number:02}")).collect();
    expected.iter().for_each(|name| rig.put(name, "x"));
    let root = rig.folder.path().to_owned();
    let stop = AtomicBool::new(false);
    let listings = scaled_long(3_000, 30_000, 300_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut displaced = VecDeque::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let temporary = root.join(format!(".stile-{number:0>150}"));
                fs::write(&temporary, "y").unwrap();
                let file = root.join(&expected[number * 7 % FILES]);
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &temporary,
                    rustix::fs::CWD,
                    &file,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                displaced.push_back(temporary);
                if displaced.len() > 30 {
                    fs::remove_file(displaced.pop_front().unwrap()).unwrap();
                }
            }
        });
        let all = principal("read:/");
        let missed = (0..listings).filter(|_| names_in_pages(&rig, "/", &all) != expected).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(missed, 0, "of {listings} listings");
    });
}
