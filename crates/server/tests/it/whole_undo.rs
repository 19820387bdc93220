//! The exit code of an undo: 0 only if everything was taken back. What is left is named each time,
//! in the plan, in its JSON and after the undo.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::{Value, json};
use stile_testkit::chance::Chance;
use stile_testkit::client::{Http, McpClient as _};

use crate::old_versions::{Stage, hash, replace};

const UNDO: [&str; 5] = ["undo", "--client", "cursor", "--since", "1h"];

/// Runs an undo as a plan, as a plan in JSON and with `--yes`. Each must end with exit code 1.
/// Returns the plan in JSON, and what the three say is left.
fn fails_three_times(stage: &Stage, undo: &[&str]) -> (Value, [String; 3]) {
    let mut plan = Value::Null;
    let left = [&[][..], &["--json"], &["--yes"]].map(|more| {
        let output = stage.stile(&[undo, more].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{undo:?} {more:?}: {error}");
        if more == ["--json"] {
            plan = serde_json::from_slice(&output.stdout).unwrap();
        }
        error
    });
    (plan, left)
}

#[test]
fn an_undo_that_leaves_a_file_that_somebody_changed_names_it_and_fails() {
    for (saved, reason) in [
        (Some("typed by hand\n"), "/a.md was changed since"),
        (None, "/a.md is not there any more"),
    ] {
        let stage = Stage::new(&[]);
        stage.put("a.md", "one\n");
        let mut agent = stage.client("cursor");
        replace(&mut agent, "/a.md", "one", "two");
        replace(&mut agent, "/a.md", "two", "three");
        match saved {
            Some(text) => stage.put("a.md", text),
            None => std::fs::remove_file(stage.rig.root.join("a.md")).unwrap(),
        }
        for undo in [&UNDO[..], &["undo", "--since", "1h"], &["undo", "2"]] {
            let (plan, left) = fails_three_times(&stage, undo);
            assert_eq!(plan["left"][0]["path"], "/a.md");
            for error in left {
                // Several changes of one file are left for one reason.
                assert_eq!(error.matches(reason).count(), 1, "{undo:?}: {error}");
            }
        }
        assert_eq!(stage.text("a.md").as_deref(), saved);
    }
}

#[test]
fn a_copy_of_a_protected_file_goes_again() {
    let stage = Stage::new(&[]);
    stage.put("o.md", "one\n");
    let protect = |name: &str| {
        std::fs::set_permissions(stage.rig.root.join(name), Permissions::from_mode(0o444)).unwrap();
    };
    protect("o.md");
    let copy = json!({ "path": "/o.md", "hash": hash("one\n"), "to": "/c.md" });
    stage.client("cursor").tool("file.copy", copy).unwrap();
    protect("c.md");
    let undone = stage.stile(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(undone.status.code(), Some(0));
    assert_eq!((stage.text("c.md"), stage.text("o.md").as_deref()), (None, Some("one\n")));
}

/// What an undo keeps of what it removes does not push out the version that it brings back.
#[test]
fn an_undo_that_needs_room_brings_back_first() {
    let mut chance = Chance::of(5);
    let mut noise = |letters: usize| noise(&mut chance, letters);
    for removed_first in [true, false] {
        let stage = Stage::new(&["--history-bytes", "100KiB", "--history", "keep"]);
        let own = noise(120_000);
        stage.put("own.md", &own);
        let mut agent = stage.client("cursor");
        let more = noise(40_000);
        let append = json!({ "path": "/own.md", "hash": hash(&own), "content": more });
        agent.tool("file.append", append).unwrap();
        let create = json!({ "path": "/c.md", "content": noise(80_000) });
        let remove = json!({ "path": "/own.md", "hash": hash(&format!("{own}{more}")) });
        let mut rest = [("file.create", create), ("file.remove", remove)];
        if removed_first {
            rest.reverse();
        }
        for (tool, arguments) in rest {
            agent.tool(tool, arguments).unwrap();
        }
        stage.stile(&[&UNDO[..], &["--yes"]].concat());
        assert!(stage.text("own.md").as_ref() == Some(&own), "{removed_first}");
        assert_eq!(stage.text("c.md"), None);
    }
}

/// Returns random letters, which the history cannot make small.
fn noise(chance: &mut Chance, letters: usize) -> String {
    std::iter::repeat_with(|| char::from(b"0123456789abcdef"[chance.below(16)]))
        .take(letters)
        .collect()
}

/// What one step keeps must not push out what another step gives back, whatever room there is.
#[test]
fn an_undo_does_what_its_plan_says_and_says_what_of_it_cannot_be_taken_back() {
    let stage = Stage::new(&["--history-bytes", "100KiB", "--history", "keep"]);
    let mut chance = Chance::of(7);
    let [own, later, other] = [60_000, 60_000, 160_000].map(|letters| noise(&mut chance, letters));
    let mut agent = stage.client("cursor");
    agent.tool("file.create", json!({ "path": "/own.md", "content": own })).unwrap();
    let edit = json!({
        "path": "/own.md", "hash": hash(&own), "lines": [1, 0], "old": own, "new": later,
    });
    let create = json!({ "path": "/a.md", "content": other });
    agent.tool("file.create", create).unwrap();
    agent.tool("text.replace", edit).unwrap();
    let since = stage.changes()[1]["at"].as_str().unwrap().to_owned();
    let undo = ["undo", "--client", "cursor", "--since", &since];
    let plan = stage.stile(&[&undo[..], &["--json"]].concat());
    let lacking: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let made = stage.stile(&[&undo[..], &["--yes"]].concat());
    let told = String::from_utf8([made.stdout, made.stderr].concat()).unwrap();
    assert_eq!(plan.status.code(), made.status.code(), "{told}");
    assert_eq!(lacking["not_kept"], json!(["/a.md"]), "{told}");
    assert!(
        told.contains("takes this back, except for what the history has no room for."),
        "{told}"
    );
    assert!(stage.text("own.md").as_ref() == Some(&own), "{told}");
    assert_eq!(stage.text("a.md"), None);
}

#[test]
fn two_files_whose_names_look_the_same_both_come_back_and_are_told_apart() {
    let (composed, decomposed) = ("caf\u{e9}.md", "cafe\u{301}.md");
    let stage = Stage::new(&[]);
    stage.put(composed, "one\n");
    stage.put(decomposed, "two\n");
    if stage.text(composed).as_deref() != Some("one\n") {
        return;
    }
    let mut agent = stage.client("cursor");
    for (name, text) in [(composed, "one\n"), (decomposed, "two\n")] {
        let removal = json!({ "path": format!("/{name}"), "hash": hash(text) });
        agent.tool("file.remove", removal).unwrap();
    }
    let plan = stage.owner(&UNDO);
    assert!(plan.contains("/caf\u{e9}.md") && plan.contains("/cafe\\u{301}.md"), "{plan}");
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    let back = || [composed, decomposed].map(|name| stage.text(name));
    assert_eq!(back(), [Some("one\n".to_owned()), Some("two\n".to_owned())]);
    // One of both moves away, and goes back beside the other.
    let moving = json!({ "path": format!("/{decomposed}"), "hash": hash("two\n"), "to": "/x.md" });
    agent.tool("file.move", moving).unwrap();
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(back(), [Some("one\n".to_owned()), Some("two\n".to_owned())]);
}

#[test]
fn an_undo_that_finds_another_file_in_the_way_of_a_move_names_it_and_fails() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    let moving = json!({ "path": "/a.md", "hash": hash("one\n"), "to": "/b.md" });
    stage.client("cursor").tool("file.move", moving).unwrap();
    stage.put("a.md", "typed by hand\n");
    let (_, left) = fails_three_times(&stage, &UNDO);
    for error in left {
        assert!(error.contains("/b.md cannot go back to /a.md, since there is another"), "{error}");
    }
    // With the other file out of the way nothing is left, and the same command succeeds.
    std::fs::remove_file(stage.rig.root.join("a.md")).unwrap();
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(stage.text("a.md").as_deref(), Some("one\n"));
    assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"));
}

/// The version of before the edit is one of the path in between, where another file is by now.
#[test]
fn an_edit_at_a_path_in_between_is_taken_back_where_the_file_is() {
    for at_first_path in [None, Some("by hand\n")] {
        let stage = Stage::new(&[]);
        stage.put("a.md", "one\n");
        std::fs::set_permissions(stage.rig.root.join("a.md"), Permissions::from_mode(0o600))
            .unwrap();
        let mut agent = stage.client("cursor");
        let mut go = |path: &str, text: &str, to: &str| {
            let arguments = json!({ "path": path, "hash": hash(text), "to": to });
            agent.tool("file.move", arguments).unwrap();
        };
        go("/a.md", "one\n", "/b.md");
        replace(&mut stage.client("cursor"), "/b.md", "one", "two");
        go("/b.md", "two\n", "/c.md");
        stage.put("b.md", "typed by hand\n");
        if let Some(text) = at_first_path {
            stage.put("a.md", text);
        }
        let plan = stage.stile(&[&UNDO[..], &["--json"]].concat());
        let made = stage.stile(&[&UNDO[..], &["--yes"]].concat());
        let told = String::from_utf8([made.stdout, made.stderr].concat()).unwrap();
        assert_eq!(plan.status.code(), made.status.code(), "{told}");
        let name = if at_first_path.is_none() { "a.md" } else { "c.md" };
        assert_eq!(stage.text(name).as_deref(), Some("one\n"), "{told}");
        assert_eq!(mode(&stage, name), 0o600, "{told}");
        assert_eq!(stage.text("b.md").as_deref(), Some("typed by hand\n"));
    }
}

#[test]
fn changes_that_no_history_has_are_named_whoever_the_undo_is_about() {
    let stage = Stage::new(&["--history-bytes", "4000"]);
    let mut agent = stage.client("cursor");
    for number in 0..20 {
        let create = json!({ "path": format!("/{number}.md"), "content": "new\n" });
        agent.tool("file.create", create).unwrap();
    }
    let recorded = stage.changes().len();
    let first = stage.changes()[recorded - 1]["call"].to_string();
    for undo in [&["undo", &first][..], &["undo", "--since", "1h"], &UNDO] {
        let plan = stage.stile(&[undo, &["--json"]].concat());
        let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
        let gap = &plan["unrecorded"][0];
        assert_eq!((&gap["client"], &gap["changes"]), (&json!("cursor"), &json!(20 - recorded)));
        assert!(gap["paths"].as_array().unwrap().contains(&json!("/19.md")), "{plan}");
        let output = stage.stile(undo);
        let error = String::from_utf8(output.stderr).unwrap();
        let is_named = error.contains("changes by cursor between") && error.contains("/19.md");
        assert!(is_named && output.status.code() == Some(1), "{undo:?}: {error}");
    }
    let (_, left) = fails_three_times(&stage, &UNDO);
    assert!(left.iter().all(|error| error.contains("/19.md")), "{left:?}");
    let other = ["undo", "--client", "codex", "--since", "1h", "--json"];
    let said = String::from_utf8(stage.stile(&other).stderr).unwrap();
    assert!(said.contains("the history has no changes by codex"), "{said}");
}

#[test]
fn an_undo_that_needs_a_folder_at_the_path_of_a_file_gives_the_file_back() {
    let stage = Stage::new(&[]);
    stage.put("n.md", "one\n");
    let mut agent = stage.client("cursor");
    agent.tool("file.remove", json!({ "path": "/n.md", "hash": hash("one\n") })).unwrap();
    agent.tool("file.create", json!({ "path": "/n.md/a", "content": "new\n" })).unwrap();
    let list = json!({ "path": "/n.md", "tree_hash": true });
    let tree_hash = agent.tool("file.list", list).unwrap()["tree_hash"].clone();
    let moving = json!({ "path": "/n.md", "hash": tree_hash, "to": "/z" });
    agent.tool("folder.move", moving).unwrap();
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(stage.text("n.md").as_deref(), Some("one\n"));
    assert!(!stage.rig.root.join("z").exists());
    assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"));
}

#[test]
fn undos_of_two_clients_that_changed_a_file_in_turn_end_with_nothing_left() {
    let stage = Stage::new(&[]);
    stage.put("f.md", "1\n");
    let mut clients = [stage.client("cursor"), stage.client("codex")];
    for (at, client) in [0, 1, 0, 1].into_iter().enumerate() {
        let (old, new) = ((at + 1).to_string(), (at + 2).to_string());
        replace(&mut clients[client], "/f.md", &old, &new);
    }
    let undo = |client| ["undo", "--client", client, "--since", "1h", "--yes"];
    for client in ["codex", "cursor"] {
        assert_eq!(stage.stile(&undo(client)).status.code(), Some(1), "an older change is left");
    }
    for client in ["codex", "cursor"] {
        stage.owner(&undo(client));
    }
    assert_eq!(stage.text("f.md").as_deref(), Some("1\n"));
    for client in ["codex", "cursor"] {
        assert!(stage.owner(&undo(client)).ends_with("Nothing is to be done.\n"));
    }
}

#[test]
fn an_undo_gives_a_file_back_although_the_history_lacks_versions_in_between() {
    let stage = Stage::new(&["--history-bytes", "1MiB"]);
    stage.put("n.md", "precious\n");
    let mut agent = stage.client("cursor");
    let mut text = "precious\n".to_owned();
    let (mut path, mut to) = ("/n.md", "/n2.md");
    for round in 0..8 {
        // Random digits, so that the history cannot make them small.
        let more: String = (0..3200).map(|line| hash(&format!("{round} {line}")) + "\n").collect();
        let append = json!({ "path": path, "hash": hash(&text), "content": more });
        agent.tool("text.append", append).unwrap();
        text.push_str(&more);
        agent.tool("file.move", json!({ "path": path, "hash": hash(&text), "to": to })).unwrap();
        (path, to) = (to, path);
    }
    stage.stile(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(stage.text("n.md").as_deref(), Some("precious\n"));
}

fn mode(stage: &Stage, name: &str) -> u32 {
    stage.rig.root.join(name).metadata().unwrap().permissions().mode() & 0o777
}

/// Makes a folder with a file.
fn folder(stage: &Stage, name: &str, mode: u32) {
    let folder = stage.rig.root.join(name);
    std::fs::create_dir(&folder).unwrap();
    stage.put(&format!("{name}/f.md"), &format!("of {name}\n"));
    std::fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
}

fn tree_hash(agent: &mut Http, path: &str) -> Value {
    let listed = agent.tool("file.list", json!({ "path": path, "tree_hash": true })).unwrap();
    listed["tree_hash"].clone()
}

/// Moves a folder, or removes it if there is no `to`.
fn take_away(agent: &mut Http, path: &str, to: Option<&str>) {
    let hash = tree_hash(agent, path);
    let done = match to {
        Some(to) => agent.tool("folder.move", json!({ "path": path, "hash": hash, "to": to })),
        None => agent.tool("folder.remove", json!({ "path": path, "hash": hash })),
    };
    assert!(done.as_ref().is_ok_and(|done| done.get("error").is_none()), "{done:?}");
}

#[test]
fn a_folder_comes_back_with_its_own_mode_whatever_an_agent_put_in_its_place() {
    type Attack = fn(&mut Http);
    let attacks: [(&str, Attack); 5] = [
        ("moved away", |agent| {
            take_away(agent, "/a", Some("/x"));
            take_away(agent, "/b", Some("/a"));
        }),
        ("removed", |agent| {
            take_away(agent, "/a", None);
            take_away(agent, "/b", Some("/a"));
        }),
        ("the other one moved on", |agent| {
            take_away(agent, "/a", Some("/x"));
            take_away(agent, "/b", Some("/a"));
            take_away(agent, "/a", Some("/c"));
        }),
        ("emptied, removed, and made again", |agent| {
            let file = json!({ "path": "/a/f.md", "hash": hash("of a\n") });
            agent.tool("file.remove", file).unwrap();
            agent.tool("folder.remove", json!({ "path": "/a" })).unwrap();
            agent.tool("folder.create", json!({ "path": "/new" })).unwrap();
            take_away(agent, "/new", Some("/a"));
        }),
        ("made again with the same file", |agent| {
            let file = json!({ "path": "/a/f.md", "hash": hash("of a\n") });
            agent.tool("file.remove", file).unwrap();
            agent.tool("folder.remove", json!({ "path": "/a" })).unwrap();
            take_away(agent, "/b", Some("/a"));
            let file = json!({ "path": "/a/f.md", "hash": hash("of b\n") });
            agent.tool("file.remove", file).unwrap();
            agent.tool("file.create", json!({ "path": "/a/f.md", "content": "of a\n" })).unwrap();
        }),
    ];
    for (what, attack) in attacks {
        let stage = Stage::new(&[]);
        folder(&stage, "a", 0o700);
        folder(&stage, "b", 0o755);
        attack(&mut stage.client("cursor"));
        let undone = stage.owner(&[&UNDO[..], &["--yes"]].concat());
        let modes = (mode(&stage, "a"), mode(&stage, "b"));
        assert_eq!(modes, (0o700, 0o755), "{what}: {undone}");
        for name in ["a", "b"] {
            let text = stage.text(&format!("{name}/f.md"));
            assert_eq!(text, Some(format!("of {name}\n")), "{what}: {undone}");
        }
        assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"), "{what}");
    }
}

#[test]
fn the_mode_of_a_folder_goes_back_and_forth_with_an_undo_and_its_undo() {
    let stage = Stage::new(&[]);
    folder(&stage, "a", 0o700);
    folder(&stage, "b", 0o755);
    let mut agent = stage.client("cursor");
    take_away(&mut agent, "/a", Some("/x"));
    take_away(&mut agent, "/b", Some("/a"));
    let plan = stage.owner(&UNDO);
    // The other folder goes, and the first one is made again.
    assert!(plan.contains("remove     /a, a folder that was made"), "{plan}");
    let undone = stage.owner(&[&UNDO[..], &["--yes"]].concat());
    let (_, call) = undone.split_once("`stile undo ").unwrap();
    let call = call.split('`').next().unwrap();
    assert_eq!(mode(&stage, "a"), 0o700);
    stage.owner(&["undo", call, "--yes"]);
    assert_eq!((mode(&stage, "a"), stage.text("a/f.md").as_deref()), (0o755, Some("of b\n")));
}

#[test]
fn a_mode_that_somebody_gave_a_folder_since_stays_and_is_named() {
    let stage = Stage::new(&[]);
    folder(&stage, "a", 0o700);
    take_away(&mut stage.client("cursor"), "/a", None);
    std::fs::create_dir(stage.rig.root.join("a")).unwrap();
    let own = Permissions::from_mode(0o711);
    std::fs::set_permissions(stage.rig.root.join("a"), own).unwrap();
    let (plan, left) = fails_three_times(&stage, &UNDO);
    assert_eq!(plan["left"][0]["path"], "/a");
    for error in left {
        assert!(error.contains("/a is a folder with another mode than it had"), "{error}");
    }
    assert_eq!((mode(&stage, "a"), stage.text("a/f.md").as_deref()), (0o711, Some("of a\n")));
}

#[test]
fn a_folder_whose_mode_the_history_had_no_room_for_is_named() {
    let stage = Stage::new(&["--history-bytes", "4000"]);
    folder(&stage, "a", 0o700);
    folder(&stage, "b", 0o755);
    let mut agent = stage.client("cursor");
    for number in 0..20 {
        let name = format!("/{number}");
        agent.tool("folder.create", json!({ "path": name })).unwrap();
        agent.tool("folder.remove", json!({ "path": name })).unwrap();
    }
    take_away(&mut agent, "/a", Some("/x"));
    take_away(&mut agent, "/b", Some("/a"));
    let output = stage.stile(&[&UNDO[..], &["--yes"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/a"), "{error}");
}

#[test]
fn a_file_that_an_agent_made_again_with_the_same_content_comes_back_with_its_mode() {
    let stage = Stage::new(&[]);
    stage.put("secret.md", "one\n");
    let secret = stage.rig.root.join("secret.md");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let mut agent = stage.client("cursor");
    agent.tool("file.remove", json!({ "path": "/secret.md", "hash": hash("one\n") })).unwrap();
    agent.tool("file.create", json!({ "path": "/secret.md", "content": "one\n" })).unwrap();
    assert_eq!(mode(&stage, "secret.md"), 0o644);
    // One version of one file, by its owner's own command.
    let restored = stage.owner(&["restore", "secret.md@1"]);
    assert!(restored.starts_with("restore /secret.md as before change 1"), "{restored}");
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    assert_eq!(mode(&stage, "secret.md"), 0o600);
    assert_eq!(stage.text("secret.md").as_deref(), Some("one\n"));
    assert!(stage.owner(&UNDO).ends_with("Nothing is to be done.\n"));
    stage.owner(&["undo", "3", "--yes"]);
    assert_eq!(mode(&stage, "secret.md"), 0o644);
}

#[test]
fn undos_of_two_clients_that_made_and_removed_a_file_by_turns_come_to_an_end() {
    for order in [["one", "other"], ["other", "one"]] {
        let stage = Stage::new(&[]);
        let (mut one, mut other) = (stage.client("one"), stage.client("other"));
        for text in ["1\n", "2\n"] {
            one.tool("file.create", json!({ "path": "/f.md", "content": text })).unwrap();
            let removal = json!({ "path": "/f.md", "hash": hash(text) });
            other.tool("file.remove", removal).unwrap();
        }
        for client in [order, order, order].concat() {
            stage.stile(&["undo", "--client", client, "--yes"]);
        }
        assert_eq!(stage.text("f.md"), None);
        for client in order {
            let plan = stage.owner(&["undo", "--client", client]);
            assert_eq!(plan, "Nothing is to be done.\n", "{client}");
        }
    }
}

/// The server may need more rights to work in a folder than the folder has.
#[test]
fn a_folder_whose_owner_lacks_rights_comes_back_as_it_was() {
    for odd in [0o300, 0o077] {
        let stage = Stage::new(&[]);
        for name in ["a", "b", "b/c"] {
            folder(&stage, name, 0o755);
        }
        std::fs::remove_file(stage.rig.root.join("a/f.md")).unwrap();
        for name in ["a", "b/c"] {
            let mode = Permissions::from_mode(odd);
            std::fs::set_permissions(stage.rig.root.join(name), mode).unwrap();
        }
        // Only the super-user gets into such folders.
        if std::fs::read_dir(stage.rig.root.join("a")).is_err() {
            return;
        }
        let first = all(&stage);
        let mut agent = stage.client("cursor");
        take_away(&mut agent, "/a", None);
        take_away(&mut agent, "/b", Some("/e"));
        for _ in 0..2 {
            let told = stage.owner(&[&UNDO[..], &["--yes"]].concat());
            assert_eq!(all(&stage), first, "{odd:o}: {told}");
        }
    }
}

/// What a person protected since is named by the plan, and no step of it fails.
#[test]
fn what_may_not_be_written_any_more_is_named_by_the_plan() {
    let stage = Stage::new(&[]);
    let root = &stage.rig.root;
    for name in ["a.md", "h.md", "m.md", "free.md"] {
        stage.put(name, "one\n");
    }
    folder(&stage, "d", 0o755);
    folder(&stage, "e", 0o755);
    let mut agent = stage.client("cursor");
    for name in ["/a.md", "/h.md", "/free.md"] {
        replace(&mut agent, name, "one", "two");
    }
    let moving = json!({ "path": "/m.md", "hash": hash("one\n"), "to": "/n.md" });
    agent.tool("file.move", moving).unwrap();
    agent.tool("file.remove", json!({ "path": "/d/f.md", "hash": hash("of d\n") })).unwrap();
    agent.tool("file.create", json!({ "path": "/e/new.md", "content": "new\n" })).unwrap();
    let protect = |name: &str, mode| {
        std::fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("a.md", 0o444), ("n.md", 0o444), ("d", 0o555), ("e", 0o555)] {
        protect(name, mode);
    }
    std::fs::hard_link(root.join("h.md"), root.join("other name")).unwrap();
    let (plan, left) = fails_three_times(&stage, &UNDO);
    assert_eq!(plan["steps"].as_array().unwrap().len(), 1, "{plan}");
    for error in left {
        for line in [
            "/a.md cannot come back, since it is protected against writing",
            "/h.md cannot come back, since the file has several names (hard links)",
            "/n.md cannot go back to /m.md, since it is protected against writing",
            "/d/f.md cannot come back, since its folder is protected against writing",
            "/e/new.md stays, since its folder is protected against writing",
        ] {
            assert!(error.lines().any(|it| it == line), "{line} in {error}");
        }
    }
    assert_eq!(stage.text("free.md").as_deref(), Some("one\n"));
    for (name, mode) in [("a.md", 0o644), ("n.md", 0o644), ("d", 0o755), ("e", 0o755)] {
        protect(name, mode);
    }
    std::fs::remove_file(root.join("other name")).unwrap();
    stage.owner(&[&UNDO[..], &["--yes"]].concat());
    for (name, text) in [("a.md", "one\n"), ("h.md", "one\n"), ("m.md", "one\n")] {
        assert_eq!(stage.text(name).as_deref(), Some(text));
    }
    assert_eq!((stage.text("d/f.md").as_deref(), stage.text("e/new.md")), (Some("of d\n"), None));
}

/// Everything of a space: the text of files and the mode of all.
fn all(stage: &Stage) -> BTreeMap<PathBuf, (u32, Option<String>)> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![stage.rig.root.clone()]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            let text = std::fs::read_to_string(&path).ok();
            if text.is_none() {
                folders.push(path.clone());
            }
            found.insert(path, (mode, text));
        }
    }
    found.retain(|path, _| !path.to_string_lossy().contains(".stile-"));
    found
}

/// Two undos that both end with exit code 0 must not lose what one of two clients took away and the
/// other one put back: the undo of the second takes it away again.
#[test]
fn what_another_client_put_back_is_named_and_comes_back_with_the_next_undo() {
    fn go(client: &mut Http, path: &str, text: &str, to: &str) {
        let arguments = json!({ "path": path, "hash": hash(text), "to": to });
        client.tool("file.move", arguments).unwrap();
    }
    fn remove(client: &mut Http, path: &str, text: &str) {
        client.tool("file.remove", json!({ "path": path, "hash": hash(text) })).unwrap();
    }
    fn create(client: &mut Http, path: &str, text: &str) {
        client.tool("file.create", json!({ "path": path, "content": text })).unwrap();
    }
    type Game = fn(&mut Http, &mut Http);
    let games: [(&str, Game); 9] = [
        ("removed", |one, other| {
            remove(one, "/f.md", "mine\n");
            create(other, "/f.md", "mine\n");
        }),
        ("removed twice", |one, other| {
            remove(one, "/f.md", "mine\n");
            create(other, "/f.md", "mine\n");
            remove(one, "/f.md", "mine\n");
        }),
        ("removed, and changed again", |one, other| {
            remove(one, "/f.md", "mine\n");
            create(other, "/f.md", "mine\n");
            replace(one, "/f.md", "mine", "new");
        }),
        ("edited", |one, other| {
            replace(one, "/f.md", "mine", "new");
            replace(other, "/f.md", "new", "mine");
        }),
        ("moved", |one, other| {
            go(one, "/f.md", "mine\n", "/g.md");
            go(other, "/g.md", "mine\n", "/f.md");
        }),
        ("removed, and another file is moved there", |one, other| {
            create(other, "/h.md", "mine\n");
            remove(one, "/f.md", "mine\n");
            go(other, "/h.md", "mine\n", "/f.md");
        }),
        ("a folder is moved", |one, other| {
            take_away(one, "/d", Some("/e"));
            take_away(other, "/e", Some("/d"));
        }),
        ("an empty folder is removed", |one, other| {
            take_away(one, "/b", None);
            other.tool("folder.create", json!({ "path": "/b" })).unwrap();
        }),
        ("an empty folder is moved", |one, other| {
            take_away(one, "/b", Some("/c"));
            take_away(other, "/c", Some("/b"));
        }),
    ];
    for ((game, play), order) in
        games.iter().flat_map(|game| [["one", "other"], ["other", "one"]].map(|it| (game, it)))
    {
        let stage = Stage::new(&[]);
        stage.put("f.md", "mine\n");
        let private = Permissions::from_mode(0o600);
        std::fs::set_permissions(stage.rig.root.join("f.md"), private).unwrap();
        folder(&stage, "d", 0o750);
        std::fs::create_dir(stage.rig.root.join("b")).unwrap();
        let first = all(&stage);
        play(&mut stage.client("one"), &mut stage.client("other"));
        let undo = |client| stage.stile(&["undo", "--client", client, "--yes"]);
        let told: Vec<_> = order.into_iter().map(undo).collect();
        let is_back = all(&stage) == first;
        let is_named = told.iter().any(|told| told.status.code() == Some(1));
        assert!(is_back || is_named, "{game} {order:?}: {told:?}");
        let again: Vec<_> = order.into_iter().map(undo).collect();
        assert_eq!(all(&stage), first, "{game} {order:?}: {told:?} {again:?}");
        for client in order {
            let plan = stage.stile(&["undo", "--client", client]);
            let told = String::from_utf8_lossy(&plan.stdout);
            assert_eq!(told, "Nothing is to be done.\n", "{game} {order:?} {client}");
            assert!(plan.status.success(), "{game} {order:?} {client}: {plan:?}");
        }
    }
}

#[test]
fn an_undo_that_was_killed_between_a_record_and_its_step_goes_on() {
    let stage = Stage::new(&[]);
    let mut agent = stage.client("cursor");
    for name in ["a.md", "b.md"] {
        stage.put(name, "one\n");
        replace(&mut agent, &format!("/{name}"), "one", "two");
    }
    stage.put("gone.md", "one\n");
    let removal = json!({ "path": "/gone.md", "hash": hash("one\n") });
    agent.tool("file.remove", removal).unwrap();
    let undo = [&UNDO[..], &["--yes"]].concat();
    assert!(stage.stile(&undo).status.success());
    // What a killed undo leaves: the record of its last step without the step, and its beginning.
    let history = Connection::open(stage.rig.state.join("history/history.db")).unwrap();
    let begin = "INSERT INTO settings (name, value) VALUES ('undo after 3', 3)";
    history.execute(begin, []).unwrap();
    let last = "SELECT path FROM changes ORDER BY number DESC LIMIT 1";
    let last: String = history.query_row(last, [], |row| row.get(0)).unwrap();
    let path = stage.rig.root.join(last.trim_start_matches('/'));
    match last.as_str() {
        "/gone.md" => std::fs::remove_file(&path).unwrap(),
        _ => std::fs::write(&path, "two\n").unwrap(),
    }
    let again = stage.stile(&undo);
    let told = String::from_utf8(again.stdout).unwrap();
    assert!(again.status.success() && told.contains("1 of 1 done"), "{told}");
    for name in ["a.md", "b.md", "gone.md"] {
        assert_eq!(stage.text(name).as_deref(), Some("one\n"), "{name}");
    }
    let told = String::from_utf8(stage.stile(&undo).stdout).unwrap();
    assert!(told.contains("Nothing is to be done"), "{told}");
    // Of an undo that ended nothing is doubted: what a person does after it stays.
    std::fs::write(stage.rig.root.join("a.md"), "two\n").unwrap();
    let told = String::from_utf8(stage.stile(&undo).stdout).unwrap();
    assert!(told.contains("Nothing is to be done"), "{told}");
}

#[test]
fn a_folder_that_a_killed_undo_made_gets_its_mode_from_the_next_one() {
    let stage = Stage::new(&[]);
    folder(&stage, "e", 0o750);
    stage.put("e/a.md", "one\n");
    take_away(&mut stage.client("cursor"), "/e", Some("/q"));
    let undo = [&UNDO[..], &["--yes"]].concat();
    assert!(stage.stile(&undo).status.success());
    assert_eq!(mode(&stage, "e"), 0o750);
    // What is left of an undo that was killed after it had made the folder.
    let history = Connection::open(stage.rig.state.join("history/history.db")).unwrap();
    let begun = "SELECT max(number) FROM changes WHERE tool <> 'undo'";
    let begun: i64 = history.query_row(begun, [], |row| row.get(0)).unwrap();
    let begin = "INSERT INTO settings (name, value) VALUES ('undo after ' || ?1, ?1)";
    history.execute(begin, [begun]).unwrap();
    let made = stage.rig.root.join("e");
    std::fs::set_permissions(&made, Permissions::from_mode(0o700)).unwrap();
    let told = String::from_utf8(stage.stile(&undo).stdout).unwrap();
    assert!(told.contains("set mode"), "{told}");
    assert_eq!(mode(&stage, "e"), 0o750);
    // Once that undo has ended, a folder that a person closes stays closed.
    std::fs::set_permissions(&made, Permissions::from_mode(0o700)).unwrap();
    let told = String::from_utf8(stage.stile(&undo).stdout).unwrap();
    assert!(told.contains("Nothing is to be done"), "{told}");
}

#[test]
fn what_a_person_wrote_into_a_clients_file_comes_back_though_the_client_removed_it() {
    let stage = Stage::new(&[]);
    let mut agent = stage.client("cursor");
    agent.tool("file.create", json!({ "path": "/x.md", "content": "agent\n" })).unwrap();
    stage.put("x.md", "mine\n");
    agent.tool("file.remove", json!({ "path": "/x.md", "hash": hash("mine\n") })).unwrap();
    let output = stage.stile(&[&UNDO[..], &["--yes"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stage.text("x.md").as_deref(), Some("mine\n"), "{error}");
    assert!(
        output.status.code() == Some(1) && error.contains("/x.md was changed since"),
        "{error}"
    );
}

#[test]
fn folders_that_one_client_removed_and_another_made_again_are_as_before() {
    let stage = Stage::new(&[]);
    folder(&stage, "e", 0o755);
    stage.put("e/a.md", "one\n");
    take_away(&mut stage.client("one"), "/e", None);
    stage.client("other").tool("folder.create", json!({ "path": "/e" })).unwrap();
    for client in ["one", "one", "other", "one"] {
        let output = stage.stile(&["undo", "--client", client, "--yes"]);
        assert!(output.status.success(), "{client}: {output:?}");
        assert_eq!(stage.text("e/a.md").as_deref(), Some("one\n"));
    }
}

#[test]
fn a_file_that_a_person_removed_after_an_undo_does_not_come_back_with_the_next_one() {
    let stage = Stage::new(&[]);
    stage.put("f.md", "mine\n");
    let removal = json!({ "path": "/f.md", "hash": hash("mine\n") });
    stage.client("cursor").tool("file.remove", removal).unwrap();
    stage.owner(&["undo", "--client", "cursor", "--yes"]);
    std::fs::remove_file(stage.rig.root.join("f.md")).unwrap();
    assert_eq!(stage.owner(&["undo", "--client", "cursor"]), "Nothing is to be done.\n");
}

#[test]
fn an_undo_of_a_client_needs_no_time_and_says_what_it_did_not_find() {
    let stage = Stage::new(&[]);
    let fails = |undo: &[&str], code: i32, said: &str| {
        let output = stage.stile(undo);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && error.contains(said), "{undo:?}: {error}");
    };
    fails(&["undo", "--client", "cursor"], 1, "the history has no changes yet");
    stage.put("a.md", "one\n");
    replace(&mut stage.client("cursor"), "/a.md", "one", "two");
    stage.put("b.md", "one\n");
    replace(&mut stage.client("codex"), "/b.md", "one", "two");
    let unknown = "the history has no changes by curser; clients with changes: codex, cursor";
    fails(&["undo", "--client", "curser"], 2, unknown);
    fails(&["undo", "--client", "curser", "--since", "1h"], 2, unknown);
    let quiet = "the history has no change by cursor in that time; its changes are from ";
    fails(&["undo", "--client", "cursor", "--until", "2020-01-01"], 1, quiet);
    let elsewhere = "the history has no change of /b.md by cursor; its changes";
    fails(&["undo", "--client", "cursor", "--path", "b.md"], 1, elsewhere);
    let turned = ["undo", "--client", "cursor", "--since", "1h", "--until", "2020-01-01"];
    fails(&turned, 2, "--until must be later than --since");
    fails(&["undo", "99"], 2, "the history has no call 99");
    fails(&["undo", "--since", "2020-01-01", "--until", "2020-01-02"], 1, "no change in that time");
    fails(&["undo", "--until", "1h"], 2, "");
    assert!(stage.owner(&["undo", "--client", "cursor"]).contains("Add --yes"));
    stage.owner(&["undo", "--client", "cursor", "--yes"]);
    assert_eq!(stage.text("a.md").as_deref(), Some("one\n"));
    assert_eq!(stage.text("b.md").as_deref(), Some("two\n"));
}

/// Checks that the owner reads nothing that is meant for agents.
fn is_for_the_owner(told: &str) {
    for word in ["Call ", "call again", "text.read", "file.list", "the user", "`hash`", "space://"]
    {
        assert!(!told.contains(word), "{word}: {told}");
    }
}

#[test]
fn what_fails_is_said_in_the_words_of_the_owner() {
    let stage = Stage::new(&[]);
    stage.put("a.md", "one\n");
    stage.put("b.md", "one\n");
    let mut agent = stage.client("cursor");
    replace(&mut agent, "/a.md", "one", "two");
    replace(&mut agent, "/b.md", "one", "two");
    // A second name, and a file that nobody may write to.
    let (file, link) = (stage.rig.root.join("a.md"), stage.rig.root.join("link.md"));
    std::fs::hard_link(file, link).unwrap();
    let closed = Permissions::from_mode(0o444);
    std::fs::set_permissions(stage.rig.root.join("b.md"), closed).unwrap();
    let undo = ["undo", "--client", "cursor", "--yes"];
    for command in [&undo[..], &["restore", "a.md", "--yes"], &["restore", "b.md", "--yes"]] {
        let output = stage.stile(command);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
        is_for_the_owner(&told);
        // The plan of an undo knows it before.
        let [linked, protected] = match command[0] {
            "undo" => ["the file has several names (hard links)", "protected against writing"],
            _ => ["has more than one name (hard links)", "the system does not let Stile change"],
        };
        if command[1] != "b.md" {
            assert!(told.contains("/a.md") && told.contains(linked), "{told}");
        }
        if command[1] != "a.md" {
            assert!(told.contains("/b.md") && told.contains(protected), "{told}");
        }
    }
    for command in [&["show", "a.md@77"][..], &["show", "no.md@1"], &["diff", "a.md", "@77"]] {
        let told = String::from_utf8(stage.stile(command).stderr).unwrap();
        is_for_the_owner(&told);
        assert!(told.starts_with("error: "), "{told}");
    }
}

#[test]
fn two_undos_at_once_take_back_all_and_say_what_the_other_did_in_the_owners_words() {
    let stage = Stage::new(&[]);
    let mut agent = stage.client("cursor");
    for number in 0..40 {
        stage.put(&format!("{number}.md"), "one\n");
        replace(&mut agent, &format!("/{number}.md"), "one", "two");
    }
    let undos = [(), ()].map(|()| {
        let mut command = stage.rig.command(&["undo", "--client", "cursor", "--yes"]);
        command.arg("--root").arg(&stage.rig.root).arg("--state").arg(&stage.rig.state);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for undo in undos {
        let output = undo.wait_with_output().unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        is_for_the_owner(&told);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{told}");
    }
    for number in 0..40 {
        assert_eq!(stage.text(&format!("{number}.md")).as_deref(), Some("one\n"), "{number}");
    }
    let last = stage.owner(&["undo", "--client", "cursor"]);
    assert!(last.ends_with("Nothing is to be done.\n"), "{last}");
}
