//! Tests of mounts inside a space: refused unless the owner named them.

#![expect(clippy::disallowed_methods, reason = "a test is its own verified caller")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::error::Refusal;
use stile_domain::limits::FileLimits;
use stile_domain::line_search::LineQuery;
use stile_domain::lines::LineRange;
use stile_domain::listing::EntryKind;
use stile_domain::path::SpacePath;
use stile_domain::permit::{List, Principal};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;

use super::names::{ChangeKind, Owner, TemporaryName};
use super::tests::{Rig, hash, path};
use super::{ReadAs, SearchIgnore, Space, SpaceOptions, WindowStart, os};

fn code<T>(outcome: Result<T, Refusal>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(refusal) => refusal.code().0,
    }
}

/// Returns a folder at the root of this machine at which another file system is mounted.
fn mounted_folder() -> Option<&'static str> {
    let device = fs::metadata("/").unwrap().dev();
    let is_mounted = |name: &&str| {
        fs::symlink_metadata(Path::new("/").join(name))
            .is_ok_and(|found| found.is_dir() && found.dev() != device)
    };
    ["proc", "sys", "dev"].into_iter().find(is_mounted)
}

/// Opens this machine's root to read, and lists a folder.
fn list_machine(folder: &str, mounts: Vec<SpacePath>) -> &'static str {
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts,
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_secs(5),
        events: Arc::new(|_| {}),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let space = Space::open_ambient_to_read(Path::new("/"), options).unwrap();
    let scopes = Scopes::from_claim("read:/");
    let caller = Principal::assert_verified("test", None, None, scopes, RecordsClaim::None);
    let permit = caller.gate().permit::<List>(&path(folder)).unwrap();
    code(space.made_inner().list(&permit, None))
}

#[test]
fn a_mount_is_entered_only_if_the_owner_names_it() {
    let Some(name) = mounted_folder() else {
        println!("skipped: this machine has no mount at its root");
        return;
    };
    assert_eq!(list_machine(name, Vec::new()), "mount_refused");
    assert_eq!(list_machine(name, vec![path("other")]), "mount_refused");
    assert_eq!(list_machine(name, vec![path(name)]), "ok");
    assert_eq!(list_machine(name, vec![path(name), path(&format!("{name}/x")), path("/")]), "ok");
    assert_eq!(list_machine("/", Vec::new()), "ok");
}

#[test]
fn the_walk_for_other_systems_enters_no_mount() {
    let Some(name) = mounted_folder() else {
        println!("skipped: this machine has no mount at its root");
        return;
    };
    let root = os::open_root(Path::new("/")).unwrap();
    let flags = rustix::fs::OFlags::RDONLY;
    let error = os::walk_beneath(&root, name, flags).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::XDEV.raw_os_error()));
    assert!(os::walk_beneath(&root, ".", flags).is_ok());
    assert!(os::open_mount(&root, name).is_ok());
}

/// Marks the process of a test that runs in a mount namespace of its own.
const INSIDE: &str = "STILE_TEST_MOUNT_NAMESPACE";

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Runs a test again in a mount namespace of its own, and returns whether this is that run.
#[cfg(target_os = "linux")]
fn is_inside_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = ["--map-root-user", "--mount", "--propagation", "private"];
    let probe = "mount -t tmpfs none /mnt && umount /mnt";
    let able = Command::new("unshare").args(unshare).args(["sh", "-c", probe]).output();
    match able {
        Ok(output) if output.status.success() => {}
        reason => {
            println!("skipped: this machine lets no test mount anything: {reason:?}");
            return false;
        }
    }
    let inner = Command::new("unshare")
        .args(unshare)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && text.contains("1 passed"), "{inner:?}");
    false
}

/// Calls every function at a folder `folder` that has `a.md` with `one`. Returns the codes of
/// reading, listing, editing, creating and removing.
#[cfg(target_os = "linux")]
fn outcomes(rig: &Rig, folder: &str) -> [&'static str; 7] {
    let file = |name: &str| format!("{folder}/{name}");
    let old = file("a.md");
    let query =
        WindowStart::Match { range: LineRange::ALL, query: LineQuery::new("one", 100).unwrap() };
    [
        code(rig.read(&old, 0, 0)),
        code(rig.inner().read(&path(&old), &query, ReadAs::Recognised)),
        code(rig.list(folder, "read:/")),
        code(rig.replace(&old, "one\n", "one", "two")),
        code(rig.inner().create(&path(&file("new.md")), b"one\n")),
        code(rig.inner().create(&path(&file("deep/er/new.md")), b"one\n")),
        code(rig.inner().remove(&path(&file("gone.md")), hash("one\n"))),
    ]
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_read_or_changed_through_a_mount_that_is_not_named() {
    if !is_inside_namespace(
        "space::mount_tests::nothing_is_read_or_changed_through_a_mount_that_is_not_named",
    ) {
        return;
    }
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["tmp", "same", "plain"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("mounted.md"), "covered\n").unwrap();
    let source = outside.path().to_str().unwrap();
    fs::write(outside.path().join("file"), "one\n").unwrap();
    run("mount", &["-t", "tmpfs", "none", &at("tmp")]);
    // The same device, which no comparison of device numbers shows.
    run("mount", &["--bind", source, &at("same")]);
    run("mount", &["--bind", &format!("{source}/file"), &at("mounted.md")]);
    fs::create_dir(at("tmp/nested")).unwrap();
    run("mount", &["-t", "tmpfs", "none", &at("tmp/nested")]);
    let left = TemporaryName::new(
        &Owner::new(7, 0),
        1,
        ChangeKind::Create,
        None,
        Some(&hash("x")),
        "left.md",
    )
    .to_string();
    let folders = ["tmp", "same", "tmp/nested", "plain"];
    for name in folders {
        for file in ["a.md", "gone.md"] {
            fs::write(at(&format!("{name}/{file}")), "one\n").unwrap();
        }
        fs::write(at(&format!("{name}/{left}")), "x").unwrap();
    }

    let rig = Rig::on(folder, FileLimits::default());
    let at = |name: &str| rig.file(name).to_str().unwrap().to_owned();
    assert!(outcomes(&rig, "plain").iter().all(|code| *code == "ok"));
    let refused = ["mount_refused"; 7];
    for name in ["tmp", "same", "tmp/nested"] {
        let before = fs::read_dir(at(name)).unwrap().count();
        assert_eq!(outcomes(&rig, name), refused, "{name}");
        assert_eq!(rig.text(&format!("{name}/a.md")), "one\n");
        assert_eq!(fs::read_dir(at(name)).unwrap().count(), before);
        assert!(has_left_in(&rig, name, &left), "the cleaner entered {name}");
    }
    assert!(!has_left_in(&rig, "plain", &left));
    assert_eq!(code(rig.read("mounted.md", 0, 0)), "mount_refused");
    assert_eq!(code(rig.replace("mounted.md", "one\n", "one", "two")), "mount_refused");
    assert_eq!(code(rig.inner().remove(&path("mounted.md"), hash("one\n"))), "mount_refused");
    let shown = rig.list("/", "read:/").unwrap();
    let kinds = ["same", "tmp", "mounted.md"]
        .map(|name| shown.iter().find(|(shown, _)| shown == name).unwrap().1);
    assert_eq!(kinds, [EntryKind::Directory, EntryKind::Directory, EntryKind::Other]);
    rig.inner().keeper.close();
    let Rig { folder, .. } = rig;

    let rig = Rig::with_mounts(folder, FileLimits::default(), vec![path("same"), path("tmp")]);
    for name in ["tmp", "same"] {
        assert!(!has_left_in(&rig, name, &left), "the cleaner did not enter {name}");
        assert!(outcomes(&rig, name).iter().all(|code| *code == "ok"), "{name}");
        assert_eq!(rig.text(&format!("{name}/a.md")), "two\n");
        assert_eq!(rig.text(&format!("{name}/deep/er/new.md")), "one\n");
    }
    assert_eq!(outcomes(&rig, "tmp/nested"), refused);
    rig.inner().keeper.close();
    let Rig { folder, .. } = rig;

    let mounts = vec![path("tmp/nested"), path("tmp")];
    let rig = Rig::with_mounts(folder, FileLimits::default(), mounts);
    assert!(outcomes(&rig, "tmp/nested").iter().all(|code| *code == "ok"));
    rig.inner().keeper.close();
    for name in ["tmp/nested", "tmp", "same", "mounted.md"] {
        run("umount", &["-l", rig.file(name).to_str().unwrap()]);
    }
    assert_eq!(rig.text("mounted.md"), "covered\n");
}

#[cfg(target_os = "linux")]
fn has_left_in(rig: &Rig, folder: &str, name: &str) -> bool {
    rig.file(folder).join(name).exists()
}
