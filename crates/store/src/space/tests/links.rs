//! Links and other kinds of files lead nowhere.

use super::*;

#[test]
fn links_are_not_followed_and_hard_links_not_separated() {
    let rig = Rig::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "canary").unwrap();
    symlink(outside.path(), rig.file("door")).unwrap();
    symlink("real.md", rig.file("alias.md")).unwrap();
    symlink("loop", rig.file("loop")).unwrap();
    rig.put("real.md", "text\n");
    fs::hard_link(rig.file("real.md"), rig.file("twin.md")).unwrap();
    for name in ["door/secret", "alias.md", "loop", "loop/x"] {
        assert_eq!(code(rig.read(name, 0, 0)), "symlink_refused", "{name}");
        assert_eq!(code(rig.replace(name, "canary", "canary", "x")), "symlink_refused", "{name}");
        assert_eq!(
            code(rig.inner().remove(&path(name), hash("canary"))),
            "symlink_refused",
            "{name}"
        );
    }
    assert_eq!(code(rig.inner().create(&path("door/new"), b"x")), "symlink_refused");
    assert_eq!(code(rig.inner().create(&path("alias.md"), b"x")), "already_exists");
    assert_eq!(code(rig.list("door", "read:/")), "symlink_refused");
    assert_eq!(rig.read("real.md", 0, 0).unwrap().content, "text\n");
    assert_eq!(code(rig.replace("real.md", "text\n", "text", "x")), "hard_linked");
    assert_eq!(code(rig.inner().remove(&path("real.md"), hash("text\n"))), "hard_linked");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn the_walk_for_other_systems_follows_no_link() {
    let rig = Rig::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(rig.file("a/b")).unwrap();
    rig.put("a/b/c", "text");
    symlink(outside.path(), rig.file("a/door")).unwrap();
    let root = &rig.inner().root;
    let flags = rustix::fs::OFlags::RDONLY;
    assert!(os::walk_beneath(root, "a/b/c", flags).is_ok());
    for (name, errno) in [
        ("a/door/x", rustix::io::Errno::LOOP),
        ("a/door", rustix::io::Errno::LOOP),
        ("a/x/c", rustix::io::Errno::NOENT),
    ] {
        let error = os::walk_beneath(root, name, flags).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{name}");
    }
}

/// Runs the race of `tests/containment.rs`, which cannot turn off `openat2`.
#[test]
fn the_walk_reads_nothing_outside_while_folders_and_files_become_links() {
    use std::io::Read as _;
    let folder = tempfile::tempdir().unwrap();
    let at = |part: &str| folder.path().join(part);
    for part in ["space/swapped", "space/plain", "outside"] {
        fs::create_dir_all(at(part)).unwrap();
    }
    for (file, text) in [
        ("space/swapped/file.md", "inside"),
        ("space/plain/file.md", "inside"),
        ("outside/file.md", "out"),
    ] {
        fs::write(at(file), text).unwrap();
    }
    symlink("../outside", at("space/other")).unwrap();
    symlink(at("outside/file.md"), at("space/plain/other.md")).unwrap();
    let root = os::open_root(&at("space")).unwrap();
    let folders = Swapper::start(&at("space"), "swapped", "other");
    let files = Swapper::start(&at("space/plain"), "file.md", "other.md");
    let (mut opened, mut tried, goal) = (0, 0, scaled_long(5_000, 200_000, 1_000_000));
    let deadline = Instant::now() + Duration::from_secs(scaled_long(600, 600, 4 * 3600) as u64);
    // This many opens take milliseconds, in which the other threads may not have run.
    let enough = |opened: usize, tried: usize| {
        let swaps = folders.swaps() + files.swaps();
        tried >= goal && opened.min(tried - opened) > goal / 50 && swaps > goal as u64 / 10
    };
    for path in ["swapped/file.md", "plain/file.md"].iter().cycle() {
        if enough(opened, tried) || Instant::now() > deadline {
            break;
        }
        tried += 1;
        if let Ok(file) = os::walk_beneath(&root, path, rustix::fs::OFlags::RDONLY) {
            let mut text = String::new();
            fs::File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{path} was read outside");
            opened += 1;
        }
    }
    assert!(enough(opened, tried), "{opened} of {tried} were opened");
}

#[test]
fn other_kinds_of_files_are_refused_at_once() {
    let rig = Rig::new();
    fs::create_dir(rig.file("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.file("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.file("socket")).unwrap();
    for name in ["folder", "pipe", "socket", "/"] {
        assert_eq!(code(rig.read(name, 0, 0)), "not_a_file", "{name}");
        assert_eq!(code(rig.replace(name, "", "x", "y")), "not_a_file", "{name}");
        assert_eq!(code(rig.inner().remove(&path(name), hash(""))), "not_a_file", "{name}");
    }
    assert_eq!(code(rig.list("pipe", "read:/")), "not_a_directory");
    rig.put("plain", "");
    assert_eq!(code(rig.read("plain/below", 0, 0)), "not_a_directory");
}
