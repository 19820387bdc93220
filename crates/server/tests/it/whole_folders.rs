//! Folders that move or go come back whole with one undo: with links, pipes, names that no path can
//! hold, empty folders and their modes. What does not come back is named, and the exit code is 1.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stile_testkit::client::{Http, McpClient as _};

use crate::old_versions::{Stage, hash};

const UNDO: [&str; 4] = ["undo", "--client", "cursor", "--yes"];

/// Everything below a folder: kinds, modes, texts and where links lead.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(within) = folders.pop() {
        for entry in fs::read_dir(within).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = entry.symlink_metadata().unwrap();
            let (kind, mode) = (metadata.file_type(), metadata.permissions().mode());
            let what = if kind.is_symlink() {
                format!("link to {}", fs::read_link(&entry).unwrap().display())
            } else if kind.is_dir() {
                folders.push(entry.clone());
                format!("folder {mode:o}")
            } else if kind.is_fifo() {
                format!("pipe {mode:o}")
            } else {
                format!("file {mode:o} {}", fs::read_to_string(&entry).unwrap())
            };
            found.insert(entry.strip_prefix(folder).unwrap().to_owned(), what);
        }
    }
    found
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Plants a folder with all that it may hold, one with a link alone, and one with folders alone.
fn plant(stage: &Stage) {
    let root = &stage.rig.root;
    for folder in ["w/p/deep/er", "w/p/empty", "only", "folders/in/folders"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    stage.put("w/p/a.md", "one\n");
    stage.put("w/p/deep/b.md", "two\n");
    symlink("a.md", root.join("w/p/link")).unwrap();
    symlink("nowhere", root.join("w/p/deep/er/dangling")).unwrap();
    symlink("../w/p/a.md", root.join("only/link")).unwrap();
    stage.put("w/p/back\\slash.md", "no path holds this\n");
    fs::write(root.join("w/p/deep").join(OsStr::from_bytes(b"caf\xe9 %41.md")), "latin\n").unwrap();
    let made = Command::new("mkfifo").arg(root.join("w/p/pipe")).status().unwrap();
    assert!(made.success());
    for (folder, mode) in
        [("w/p/deep/er", 0o700), ("w/p/empty", 0o750), ("folders/in", 0o710), ("w/p", 0o700)]
    {
        set_mode(&root.join(folder), mode);
    }
}

fn tree_hash(agent: &mut Http, path: &str) -> Value {
    agent.tool("file.list", json!({ "path": path, "tree_hash": true })).unwrap()["tree_hash"]
        .clone()
}

fn move_folder(agent: &mut Http, path: &str, to: &str) {
    let hash = tree_hash(agent, path);
    let moved = agent.tool("folder.move", json!({ "path": path, "hash": hash, "to": to }));
    assert!(moved.unwrap().get("error").is_none(), "{path} {to}");
}

fn remove_folder(agent: &mut Http, path: &str) {
    let hash = tree_hash(agent, path);
    let removed = agent.tool("folder.remove", json!({ "path": path, "hash": hash }));
    assert!(removed.unwrap().get("error").is_none(), "{path}");
}

#[test]
fn a_folder_that_moved_comes_back_with_all_that_it_held() {
    let stage = Stage::new(&[]);
    plant(&stage);
    let before = tree(&stage.rig.root);
    let mut agent = stage.client("cursor");
    move_folder(&mut agent, "/w/p", "/far/q");
    move_folder(&mut agent, "/only", "/away");
    move_folder(&mut agent, "/folders", "/gone");
    move_folder(&mut agent, "/far", "/farther");
    let listed = stage.owner(&["history"]);
    for line in [
        "moved folder /w/p to /far/q",
        "moved folder /w/p/empty to /far/q/empty",
        "created folder /far",
        "moved folder /only to /away",
        "moved folder /folders to /gone",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    let moved = tree(&stage.rig.root);
    let plan = stage.owner(&UNDO[..3]);
    assert!(plan.contains("bring back /only, a folder that is /away now, with 1 beside its files"));
    assert!(plan.contains("remove     /away, a folder that was made"), "{plan}");
    assert_eq!(tree(&stage.rig.root), moved, "a plan changes nothing");
    let undone = stage.owner(&UNDO);
    assert_eq!(tree(&stage.rig.root), before, "{undone}");
    assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"));
    // The undo is taken back, and made again.
    let (_, call) = undone.split_once("`stile undo ").unwrap();
    let call = call.split('`').next().unwrap();
    let back = stage.owner(&["undo", call, "--yes"]);
    assert_eq!(tree(&stage.rig.root), moved, "{back}");
    let again = stage.owner(&UNDO);
    assert_eq!(tree(&stage.rig.root), before, "{again}");
}

#[test]
fn the_move_of_a_folder_without_files_has_a_number_that_takes_it_back() {
    let stage = Stage::new(&[]);
    plant(&stage);
    let before = tree(&stage.rig.root);
    let mut agent = stage.client("cursor");
    move_folder(&mut agent, "/only", "/away");
    let call = stage.changes()[0]["call"].to_string();
    assert_eq!(stage.changes()[0]["kind"], "folder_moved");
    stage.owner(&["undo", &call, "--yes"]);
    assert_eq!(tree(&stage.rig.root), before);
}

#[test]
fn empty_folders_that_were_removed_come_back_with_their_modes() {
    let stage = Stage::new(&[]);
    plant(&stage);
    for name in ["link", "pipe", "back\\slash.md", "deep/er/dangling"] {
        fs::remove_file(stage.rig.root.join("w/p").join(name)).unwrap();
    }
    fs::remove_file(stage.rig.root.join("w/p/deep").join(OsStr::from_bytes(b"caf\xe9 %41.md")))
        .unwrap();
    let before = tree(&stage.rig.root);
    let mut agent = stage.client("cursor");
    agent.tool("folder.remove", json!({ "path": "/folders/in/folders" })).unwrap();
    remove_folder(&mut agent, "/folders");
    remove_folder(&mut agent, "/w/p");
    // What the agent makes goes, also where it has the path of what was there.
    agent.tool("file.create", json!({ "path": "/folders", "content": "mine\n" })).unwrap();
    agent.tool("folder.create", json!({ "path": "/new/er" })).unwrap();
    let one = json!({ "path": "/w/p/deep/b.md/c.md", "content": "mine\n" });
    agent.tool("file.create", one).unwrap();
    let undone = stage.owner(&UNDO);
    assert_eq!(tree(&stage.rig.root), before, "{undone}");
    assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"));
}

#[test]
fn what_was_put_into_a_moved_folder_or_taken_out_of_it_is_named_in_the_plan() {
    let stage = Stage::new(&[]);
    plant(&stage);
    let mut agent = stage.client("cursor");
    move_folder(&mut agent, "/w/p", "/far");
    stage.put("far/mine.md", "typed by hand\n");
    fs::remove_file(stage.rig.root.join("far/link")).unwrap();
    symlink("elsewhere", stage.rig.root.join("far/link")).unwrap();
    for arguments in [&UNDO[..3], &UNDO] {
        let output = stage.stile(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("/far stays, since it holds /far/link and 1 more"), "{error}");
        assert!(error.contains("/far does not hold all any more that it held"), "{error}");
    }
    let root = &stage.rig.root;
    let left = tree(&root.join("far"));
    assert_eq!(left.keys().collect::<Vec<_>>(), [Path::new("link"), Path::new("mine.md")]);
    assert!(root.join("w/p/pipe").exists() && root.join("w/p/back\\slash.md").exists());
    assert_eq!(stage.text("w/p/a.md").as_deref(), Some("one\n"));
}

#[test]
fn a_folder_of_somebody_at_the_old_path_takes_what_comes_back_and_nothing_is_replaced() {
    let stage = Stage::new(&[]);
    plant(&stage);
    let mut agent = stage.client("cursor");
    move_folder(&mut agent, "/only", "/away");
    fs::create_dir(stage.rig.root.join("only")).unwrap();
    symlink("mine", stage.rig.root.join("only/link")).unwrap();
    let output = stage.stile(&UNDO);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/away cannot go back to /only, since there is another"), "{error}");
    let link = |name: &str| fs::read_link(stage.rig.root.join(name)).unwrap();
    assert_eq!((link("only/link"), link("away/link")), ("mine".into(), "../w/p/a.md".into()));
    fs::remove_file(stage.rig.root.join("only/link")).unwrap();
    stage.owner(&UNDO);
    assert_eq!(link("only/link"), Path::new("../w/p/a.md"));
    assert!(!stage.rig.root.join("away").exists());
}

#[test]
fn two_agents_that_move_one_folder_in_turn_are_taken_back_in_turn() {
    let stage = Stage::new(&[]);
    plant(&stage);
    let before = tree(&stage.rig.root);
    let (mut cursor, mut codex) = (stage.client("cursor"), stage.client("codex"));
    move_folder(&mut cursor, "/w/p", "/one");
    move_folder(&mut codex, "/one", "/two/three");
    let edit = json!({
        "path": "/two/three/a.md", "hash": hash("one\n"), "lines": [1, 0], "old": "one",
        "new": "other",
    });
    codex.tool("text.replace", edit).unwrap();
    let refused = stage.stile(&UNDO);
    assert_eq!(refused.status.code(), Some(1), "the folder is not where cursor put it");
    stage.owner(&["undo", "--client", "codex", "--yes"]);
    stage.owner(&UNDO);
    assert_eq!(tree(&stage.rig.root), before);
}
