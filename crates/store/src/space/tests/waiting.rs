//! Changes wait for locks without a thread, in turn, until they are cancelled.

use super::*;

#[test]
fn a_folder_that_another_process_locked_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        search_ignore: SearchIgnore::default(),
        lock_wait: Duration::from_millis(30),
        events: Arc::new(|_| {}),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    fs::write(folder.path().join("a.md"), "one\n").unwrap();
    let other = os::open_root(folder.path()).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let edit = || {
        let plan = Box::new(|text: &str| Ok(text.to_owned() + &edit::addition(text, "two\n")));
        OnThisThread(&space).edit(&path("a.md"), hash("one\n"), ["", ""], plan)
    };
    assert_eq!(code(edit()), "busy");
    drop(other);
    edit().unwrap();
}

/// A space, its folder, and a runtime with one thread that may block.
fn space_with_one_thread(
    lock_wait: Duration,
) -> (tokio::runtime::Runtime, tempfile::TempDir, Space) {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        search_ignore: SearchIgnore::default(),
        lock_wait,
        events: Arc::new(|_| {}),
        appends_folder: None,
        cleared: None,
        documents: None,
    };
    let (space, _) = Space::open_ambient(folder.path(), options).unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).enable_time().build();
    (runtime.unwrap(), folder, space)
}

/// Creates files, one after the other, by tasks of their own.
fn create_files(space: &Space, names: &[String]) -> Vec<JoinHandle<Result<CreatedFile, Refusal>>> {
    let principal = principal("write:/");
    let permits = names.iter().map(|name| principal.gate().permit(&path(name)).unwrap());
    permits
        .map(|permit| {
            let space = space.clone();
            tokio::spawn(async move { space.create(permit, b"text\n".to_vec()).await })
        })
        .collect()
}

#[test]
fn a_change_that_waits_for_a_folder_holds_no_thread() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    for name in ["locked", "free"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let other = os::open_root(&folder.path().join("locked")).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let names: Vec<_> = (0..20).map(|n| format!("/locked/{n}.md")).collect();
    runtime.block_on(async {
        let waiting = create_files(&space, &names);
        let began = Instant::now();
        for n in 0..50 {
            let [done] = create_files(&space, &[format!("/free/{n}.md")]).try_into().unwrap();
            done.await.unwrap().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        drop(other);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    });
    assert_eq!(fs::read_dir(folder.path().join("locked")).unwrap().count(), names.len());
}

#[test]
fn a_change_that_waits_ends_when_it_is_cancelled() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    let other = os::open_root(folder.path()).unwrap();
    assert!(os::try_lock(&other).unwrap());
    let cancellation = Cancellation::default();
    let names = ["/a.md", "/new/b.md"].map(str::to_owned);
    runtime.block_on(async {
        let waiting = create_files(&space.until(cancellation.clone()), &names[..1]);
        tokio::time::sleep(Duration::from_millis(30)).await;
        cancellation.cancel();
        for waiting in waiting {
            assert_eq!(code(waiting.await.unwrap()), "cancelled");
        }
        drop(other);
        let [next] = create_files(&space, &names[1..]).try_into().unwrap();
        next.await.unwrap().unwrap();
    });
    assert!(!folder.path().join("a.md").exists());
}

#[test]
fn a_folder_that_was_made_for_a_file_is_removed_if_the_file_could_not_be_made() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_secs(60));
    drop(space.cancellation.on_drop());
    runtime.block_on(async {
        let [refused] = create_files(&space, &["/new/b.md".to_owned()]).try_into().unwrap();
        assert_eq!(code(refused.await.unwrap()), "cancelled");
    });
    assert!(!folder.path().join("new").exists());
}

#[test]
fn changes_of_a_folder_take_turns_in_the_order_in_which_they_came() {
    let folders = Arc::new(Folders::default());
    let folder = tempfile::tempdir().unwrap();
    let open = || os::open_root(folder.path());
    let first = folders.try_lock(open, &Cell::new(None)).unwrap();
    let mut waiting: Vec<_> =
        std::iter::repeat_with(|| match folders.try_lock(open, &Cell::new(None)) {
            Err(LockError::Wait(Wait::Turn(turn))) => turn,
            other => panic!("{other:?}"),
        })
        .take(4)
        .collect();
    // The second change has gone, so its turn passes on.
    drop(waiting.remove(1));
    drop(first);
    for mut next in waiting {
        let turn = next.try_recv().unwrap();
        drop(folders.try_lock(open, &Cell::new(Some(turn))).unwrap());
    }
    folders.try_lock(open, &Cell::new(None)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_another_program_locked_is_reported_as_locked() {
    let (runtime, folder, space) = space_with_one_thread(Duration::from_millis(50));
    let mut program = std::process::Command::new("flock")
        .arg(folder.path())
        .args(["sh", "-c", "echo locked; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut report = [0; 7];
    program.stdout.take().unwrap().read_exact(&mut report).unwrap();
    let create = || {
        runtime.block_on(async {
            let [created] = create_files(&space, &["/a.md".to_owned()]).try_into().unwrap();
            created.await.unwrap()
        })
    };
    let refused = create().unwrap_err();
    assert_eq!(refused, Refusal::Busy { path: path("/a.md"), is_locked_by_other: true });
    drop(program.stdin.take());
    program.wait().unwrap();
    create().unwrap();
}

#[test]
fn a_change_that_is_cancelled_while_it_waits_writes_nothing() {
    let rig = Rig::new();
    rig.put("a.md", "one\n");
    drop(rig.space.cancellation.on_drop());
    assert_eq!(code(rig.replace("a.md", "one\n", "one", "two")), "cancelled");
    assert_eq!(code(rig.inner().create(&path("b.md"), b"x")), "cancelled");
    assert_eq!(code(rig.inner().remove(&path("a.md"), hash("one\n"))), "cancelled");
    assert_eq!((rig.text("a.md"), rig.file("b.md").exists()), ("one\n".to_owned(), false));
}

#[test]
fn from_a_mebibyte_on_two_files_are_changed_at_once_and_smaller_ones_at_any_time() {
    const MEBIBYTE: usize = 1024 * 1024;
    let (runtime, folder, space) = space_with_one_thread(Duration::from_millis(200));
    drop(runtime);
    let inner = space.made_inner();
    for (name, bytes) in [("large", MEBIBYTE), ("small", MEBIBYTE - 1)] {
        fs::write(folder.path().join(name), "x".repeat(bytes)).unwrap();
    }
    let change = |name: &str| {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        let plan = Box::new(|text: &str| Ok(text.to_owned() + &edit::addition(text, "y")));
        OnThisThread(&space).edit(&path(name), hash(&text), ["", ""], plan)
    };
    let first = inner.large_changes.try_enter().unwrap();
    let second = inner.large_changes.try_enter().unwrap();
    assert!(inner.large_changes.try_enter().is_none());
    assert_eq!(code(change("large")), "busy");
    change("small").unwrap();
    drop(second);
    // A change gives its turn back.
    change("large").unwrap();
    change("large").unwrap();
    drop(first);
}
