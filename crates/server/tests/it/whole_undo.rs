//! The exit code of an undo: 0 only if everything was taken back. What is left is named each time,
//! in the plan, in its JSON and after the undo.

use serde_json::{Value, json};
use stile_testkit::client::McpClient as _;

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
    assert!(said.contains("the history has no such change"), "{said}");
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
