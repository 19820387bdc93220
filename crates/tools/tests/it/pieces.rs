//! Pieces of several files in one call, and edits where a heading says the place.

use crate::{Called, Rig};
use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;

const ALL: &str = "write:/";
const NOTE: &str = "# Plan\n\none\n\n## Next\n- two\n\n# Other\n## Next\n";

fn code(answer: &Called) -> &str {
    answer.structured.pointer("/error/code").and_then(Value::as_str).unwrap_or("ok")
}

fn note_rig() -> Rig {
    let rig = Rig::new();
    std::fs::write(rig.space.path().join("n.md"), NOTE).unwrap();
    rig
}

async fn change(rig: &Rig, tool: &str, arguments: Value) -> Called {
    let text = rig.text("n.md");
    let mut arguments = arguments;
    arguments["path"] = "/n.md".into();
    arguments["hash"] = json!(ContentHash::digest(text.as_bytes()));
    rig.call(ALL, tool, arguments).await
}

#[tokio::test]
async fn pieces_of_several_files_come_in_one_answer_each_as_text_read_gives_it() {
    let rig = note_rig();
    std::fs::write(rig.space.path().join("b.txt"), "b1\nb2\nb3\n").unwrap();
    let items = json!([
        { "path": "n.md", "section": "Plan > Next" },
        { "path": "b.txt", "lines": [2, 3] },
        { "path": "b.txt", "q": "B3" },
        { "path": "none.md" },
        { "path": ".env" },
    ]);
    let gathered = rig.call(ALL, "text.gather", json!({ "items": items.clone() })).await;
    let pieces = gathered.structured["pieces"].as_array().unwrap();
    for (item, piece) in items.as_array().unwrap().iter().zip(pieces).take(3) {
        let read = rig.call(ALL, "text.read", item.clone()).await;
        assert_eq!(*piece, read.structured, "{item}");
        assert!(gathered.text.contains(&read.text), "{}", gathered.text);
    }
    assert_eq!(pieces[3]["error"]["code"], "not_found");
    assert_eq!(pieces[4]["error"]["code"], "guarded");
    assert!(gathered.text.contains("/.env not read: "), "{}", gathered.text);
}

#[tokio::test]
async fn the_budget_of_one_answer_is_shared_and_each_piece_says_how_it_goes_on() {
    let rig = Rig::new();
    let line = "x".repeat(99) + "\n";
    std::fs::write(rig.space.path().join("long.txt"), line.repeat(2_000)).unwrap();
    std::fs::write(rig.space.path().join("short.txt"), line.repeat(3)).unwrap();
    let items = json!([{ "path": "long.txt" }, { "path": "short.txt" }, { "path": "long.txt" }]);
    let gathered = rig.call(ALL, "text.gather", json!({ "items": items })).await;
    let pieces = gathered.structured["pieces"].as_array().unwrap();
    let size = |piece: &Value| piece["content"].as_str().unwrap().len();
    let whole: usize = pieces.iter().map(size).sum();
    assert!((64 * 1024 - 200..=64 * 1024).contains(&whole), "{whole}");
    assert_eq!(size(&pieces[1]), 300);
    assert_eq!((&pieces[1]["truncated"], &pieces[0]["truncated"]), (&json!(false), &json!(true)));
    let cursor = &pieces[0]["next_cursor"];
    let next = rig.call(ALL, "text.read", json!({ "path": "long.txt", "cursor": cursor })).await;
    assert_eq!(next.structured["lines"][0], pieces[0]["lines"][1]);
}

#[tokio::test]
async fn a_piece_outside_of_the_scopes_makes_the_call_need_all_scopes_that_are_missing() {
    let rig = note_rig();
    let items = json!([{ "path": "a/x.md" }, { "path": "b/y.md" }, { "path": "n.md" }]);
    let denied = rig.call("read:/n.md", "text.gather", json!({ "items": items })).await;
    assert_eq!(code(&denied), "insufficient_scope");
    let needed = &denied.structured["error"]["required_scopes"];
    assert_eq!(*needed, json!(["read:/a/x.md", "read:/b/y.md"]));
    let many = json!(vec![json!({ "path": "n.md" }); 21]);
    assert_eq!(
        code(&rig.call(ALL, "text.gather", json!({ "items": many })).await),
        "invalid_argument"
    );
}

#[tokio::test]
async fn each_file_of_a_gathering_call_has_its_line_in_the_journal() {
    let rig = note_rig();
    let items = json!([{ "path": "n.md" }, { "path": "none.md" }]);
    rig.call(ALL, "text.gather", json!({ "items": items })).await;
    let lines: Vec<JournalLine> = stile_store::journal::read_all(&rig.state_dir).unwrap().lines;
    let lines: Vec<_> = lines
        .iter()
        .map(|line| (line.path.as_ref().unwrap().as_str(), line.outcome.as_str(), line.before))
        .collect();
    let hash = ContentHash::digest(NOTE.as_bytes());
    assert_eq!(lines, [("/n.md", "ok", Some(hash)), ("/none.md", "not_found", None)]);
}

#[tokio::test]
async fn an_edit_looks_within_a_section() {
    let rig = note_rig();
    let edits = json!([{ "old": "two", "new": "2", "section": "Plan > Next" }]);
    assert_eq!(code(&change(&rig, "text.edit", json!({ "edits": edits })).await), "ok");
    let edits = json!([{ "old": "one", "new": "1", "section": "Next" }]);
    let refused = change(&rig, "text.edit", json!({ "edits": edits })).await;
    assert_eq!(code(&refused), "ambiguous_match");
    assert_eq!(refused.structured["error"]["matches"], json!([5, 9]));
    assert_eq!(refused.structured["error"]["argument"], "edits[0].section");
    let edits = json!([{ "old": "one", "new": "1", "section": "Other" }]);
    assert_eq!(code(&change(&rig, "text.edit", json!({ "edits": edits })).await), "no_match");
    let edits = json!([{ "old": "one", "new": "1", "section": "Nowhere" }]);
    let refused = change(&rig, "text.edit", json!({ "edits": edits })).await;
    assert_eq!(refused.structured["error"]["headings"], json!([1, 5, 8, 9]));
    assert!(!refused.text.contains("Other"), "a refusal names no heading: {}", refused.text);
    assert_eq!(rig.text("n.md"), NOTE.replace("two", "2"));
}

#[tokio::test]
async fn a_section_gets_another_body_or_more_lines() {
    let rig = note_rig();
    let done = change(&rig, "text.replace", json!({ "section": "Other > Next", "new": "x" })).await;
    assert_eq!(code(&done), "ok");
    let insert = json!({ "section": "Plan > Next", "at": "end", "content": "- three" });
    assert_eq!(code(&change(&rig, "text.insert", insert).await), "ok");
    let narrow = json!({ "section": "# Plan", "old": "one", "new": "1" });
    assert_eq!(code(&change(&rig, "text.replace", narrow).await), "ok");
    let expected = "# Plan\n\n1\n\n## Next\n- two\n- three\n\n# Other\n## Next\nx\n";
    assert_eq!(rig.text("n.md"), expected);
    for (tool, wrong) in [
        ("text.replace", json!({ "new": "x" })),
        ("text.replace", json!({ "lines": [1, 0], "new": "x" })),
        ("text.replace", json!({ "lines": [1, 0], "section": "Plan", "old": "1", "new": "x" })),
        ("text.insert", json!({ "content": "x" })),
        ("text.insert", json!({ "line": 1, "content": "x" })),
        ("text.insert", json!({ "section": "Plan", "content": "x" })),
        ("text.insert", json!({ "section": "Plan", "at": "end", "line": 1, "content": "x" })),
    ] {
        assert_eq!(code(&change(&rig, tool, wrong.clone()).await), "invalid_argument", "{wrong}");
    }
    assert_eq!(rig.text("n.md"), expected);
}

#[tokio::test]
async fn an_append_makes_the_file_where_the_caller_says_so_and_may_write() {
    let rig = Rig::new();
    let line = |more: Value| {
        let mut arguments = json!({ "path": "log/day.md", "content": "- one\n" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let create = json!({ "create": true });
    assert_eq!(code(&rig.call(ALL, "text.append", line(json!({}))).await), "invalid_argument");
    let append_only = rig.call("append:/log/", "text.append", line(create.clone())).await;
    assert_eq!(code(&append_only), "insufficient_scope");
    assert!(!rig.space.path().join("log").exists());
    let made = rig.call(ALL, "text.append", line(create.clone())).await;
    assert_eq!((code(&made), rig.text("log/day.md").as_str()), ("ok", "- one\n"));
    let again = rig.call(ALL, "text.append", line(create)).await;
    assert_eq!(code(&again), "already_exists");
    let hash = &made.structured["hash"];
    let more = rig.call(ALL, "text.append", line(json!({ "create": true, "hash": hash }))).await;
    assert_eq!((code(&more), rig.text("log/day.md").as_str()), ("ok", "- one\n- one\n"));
    std::fs::remove_file(rig.space.path().join("log/day.md")).unwrap();
    let anew = rig.call(ALL, "text.append", line(json!({ "create": true, "hash": hash }))).await;
    assert_eq!((code(&anew), rig.text("log/day.md").as_str()), ("ok", "- one\n"));
}
