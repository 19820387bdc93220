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
