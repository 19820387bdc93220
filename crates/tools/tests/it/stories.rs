//! What an agent does in a day, and what it is told when it goes wrong.

use crate::Called;
use futures::FutureExt as _;
use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::journal::JournalLine;
use stile_tools::toolset::{ResourceBody, ResourceContent, Toolset as _, UnknownTool};

use crate::{Rig, caller};

const ALL: &str = "write:/";

fn hash(answer: &Called) -> String {
    answer.structured.get("hash").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn code(answer: &Called) -> &str {
    answer.structured.pointer("/error/code").and_then(Value::as_str).unwrap_or("ok")
}

#[tokio::test]
async fn a_note_is_made_read_changed_and_removed() {
    let rig = Rig::new();
    let made = rig
        .call(ALL, "file.create", json!({ "path": "notes/a.md", "content": "# A\none\n" }))
        .await;
    assert_eq!(
        made.structured,
        json!({ "path": "/notes/a.md", "hash": ContentHash::digest(b"# A\none\n"), "size_bytes": 8, "total_lines": 2 })
    );
    assert_eq!(made.text, made.structured.to_string());

    let read = rig.call(ALL, "text.read", json!({ "path": "/notes/a.md", "lines": [2, 3] })).await;
    assert_eq!(
        read.structured,
        json!({ "path": "/notes/a.md", "content": "one\n", "hash": hash(&made), "size_bytes": 8, "total_lines": 2, "lines": [2, 3], "truncated": false })
    );
    assert_eq!(
        read.text,
        format!("/notes/a.md lines 2-2 of 2, 8 bytes, hash {}\none\n", hash(&made))
    );

    let edit = json!({ "path": "/notes/a.md", "hash": hash(&made), "lines": [1, 0], "old": "one", "new": "ONE\ntwo" });
    let changed = rig.call(ALL, "text_replace", edit.clone()).await;
    assert_eq!(changed.structured["total_lines"], 3);
    let inserted = json!({ "path": "/notes/a.md", "hash": hash(&changed), "line": 2, "anchor": "ONE", "content": "zero" });
    let changed = rig.call(ALL, "text.insert", inserted).await;
    let appended = json!({ "path": "/notes/a.md", "hash": hash(&changed), "content": "end" });
    let changed = rig.call(ALL, "text.append", appended).await;
    assert_eq!(rig.text("notes/a.md"), "# A\nzero\nONE\ntwo\nend");

    let stale = rig.call(ALL, "text.replace", edit).await;
    assert_eq!(code(&stale), "stale");
    assert!(
        !stale.text.contains(&hash(&changed)),
        "a stale refusal must not hand over the new hash"
    );

    let gone = rig
        .call(ALL, "file.remove", json!({ "path": "/notes/a.md", "hash": hash(&changed) }))
        .await;
    assert_eq!(gone.structured, json!({ "path": "/notes/a.md" }));
    let read = rig.call(ALL, "text.read", json!({ "path": "/notes/a.md" })).await;
    assert_eq!(code(&read), "not_found");
}

#[tokio::test]
async fn a_long_note_is_read_by_cursor_and_by_lines() {
    let rig = Rig::new();
    let text: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    rig.call(ALL, "file.create", json!({ "path": "long.md", "content": text })).await;
    for by in ["next_cursor", "next_lines"] {
        let (mut whole, mut next) = (String::new(), json!({ "path": "long.md" }));
        loop {
            let answer = rig.call(ALL, "text.read", next).await.structured;
            let content = answer["content"].as_str().unwrap();
            assert!(content.len() <= 64 * 1024);
            whole.push_str(content);
            if !answer["truncated"].as_bool().unwrap() {
                break;
            }
            let argument = by.trim_start_matches("next_");
            next = json!({ "path": "long.md", argument: answer[by] });
        }
        assert!(whole == text, "{by}");
    }
}

#[tokio::test]
async fn a_line_longer_than_an_answer_is_read_by_cursor() {
    let rig = Rig::new();
    let text = "é".repeat(100_000);
    rig.call(ALL, "file.create", json!({ "path": "line", "content": text })).await;
    let first = rig.call(ALL, "text.read", json!({ "path": "line" })).await.structured;
    assert_eq!((first["truncated"].as_bool(), first.get("next_lines")), (Some(true), None));
    let (mut whole, mut answer) = (first["content"].as_str().unwrap().to_owned(), first);
    while let Some(cursor) = answer.get("next_cursor") {
        answer = rig
            .call(ALL, "text.read", json!({ "path": "line", "cursor": cursor }))
            .await
            .structured;
        whole.push_str(answer["content"].as_str().unwrap());
    }
    assert!(whole == text);
}

#[tokio::test]
async fn a_read_begins_at_a_match() {
    let rig = Rig::new();
    let text = "# A\none\n# Water\nferns\n";
    rig.call(ALL, "file.create", json!({ "path": "a.md", "content": text })).await;
    let found =
        rig.call(ALL, "text.read", json!({ "path": "a.md", "q": "wAter" })).await.structured;
    assert_eq!((&found["match_line"], &found["content"]), (&json!(3), &json!("# Water\nferns\n")));
    let missing = rig.call(ALL, "text.read", json!({ "path": "a.md", "q": "mosses" })).await;
    assert_eq!(code(&missing), "no_match");
}

#[tokio::test]
async fn a_note_moves_and_the_links_to_it_follow() {
    let rig = Rig::new();
    let put = async |path: &str, content: &str| {
        rig.call(ALL, "file.create", json!({ "path": path, "content": content })).await
    };
    let note = put("plan.md", "# Plan\n").await;
    put("journal/day.md", "see [[plan|the plan]]\nand [it](../plan.md#One)\n").await;
    put("shared/index.md", "[it](../plan.md)\n").await;
    let claim = "write:/plan.md write:/journal/ write:/archive/ read:/shared/";
    let moving = |more: Value| {
        let to = "/archive/old plan.md";
        let mut arguments = json!({ "path": "/plan.md", "hash": hash(&note), "to": to });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let no_links = json!({ "dry_run": true, "rewrite_links": false });
    let wrong = rig.call(claim, "file.move", moving(no_links)).await;
    assert_eq!(code(&wrong), "invalid_argument");

    let dry = json!({ "dry_run": true });
    let plan = rig.call(claim, "file.move", moving(dry)).await;
    assert_eq!(
        plan.structured["links"],
        json!({
            "written": false, "notes": 1, "links": 2, "paths": ["/journal/day.md"],
            "changes": [
                { "path": "/journal/day.md", "line": 1, "old": "plan", "new": "old plan" },
                {
                    "path": "/journal/day.md", "line": 2, "old": "../plan.md",
                    "new": "../archive/old%20plan.md",
                },
            ],
            "left_notes": 1,
            "left": [{ "path": "/shared/index.md", "links": 1, "why": "insufficient_scope" }],
            "skipped": 0, "truncated": false,
        })
    );
    assert_eq!(rig.text("plan.md"), "# Plan\n");

    let done = rig.call(claim, "file.move", moving(json!({}))).await;
    let links = &done.structured["links"];
    assert_eq!(
        (&links["written"], &links["notes"], &links["links"]),
        (&json!(true), &1.into(), &2.into())
    );
    assert_eq!(done.structured["path"], "/archive/old plan.md");
    assert_eq!(hash(&done), hash(&note));
    assert_eq!(
        rig.text("journal/day.md"),
        "see [[old plan|the plan]]\nand [it](../archive/old%20plan.md#One)\n"
    );
    assert_eq!(rig.text("shared/index.md"), "[it](../plan.md)\n");
}

#[tokio::test]
async fn base64_creates_a_file_with_any_bytes() {
    let rig = Rig::new();
    let made = rig
        .call(ALL, "file.create", json!({ "path": "b", "content": "/9j/", "encoding": "base64" }))
        .await;
    assert_eq!(made.structured["size_bytes"], 3);
    assert_eq!(made.structured.get("total_lines"), None);
    let read = rig.call(ALL, "text.read", json!({ "path": "b" })).await;
    assert_eq!(code(&read), "not_text");
    assert_eq!(read.structured["error"]["hash"], made.structured["hash"]);
    for content in ["/9j", "é", "/9j/ ", "_9j_"] {
        let bad = rig
            .call(
                ALL,
                "file.create",
                json!({ "path": "c", "content": content, "encoding": "base64" }),
            )
            .await;
        assert_eq!(code(&bad), "invalid_argument", "{content}");
    }
}

#[tokio::test]
async fn scopes_are_checked_before_anything_is_looked_up() {
    let rig = Rig::new();
    rig.call(ALL, "file.create", json!({ "path": "private/a.md", "content": "secret" })).await;
    for path in ["/private/a.md", "/private/missing.md", "/work/../private/a.md"] {
        let refused = rig.call("read:/work/", "text.read", json!({ "path": path })).await;
        let same = rig.call("read:/work/", "text.read", json!({ "path": "/private/x" })).await;
        assert_eq!(code(&refused), "insufficient_scope");
        assert_eq!(refused.text.replace("a.md", "x").replace("missing.md", "x"), same.text);
    }
    let refused = rig
        .call(
            "read:/",
            "text.append",
            json!({ "path": "private/a.md", "hash": ContentHash::digest(b"secret"), "content": "x" }),
        )
        .await;
    assert_eq!(code(&refused), "insufficient_scope");
    assert_eq!(rig.text("private/a.md"), "secret");
}

#[tokio::test]
async fn wrong_arguments_are_explained_and_never_repeated() {
    let rig = Rig::new();
    let canary = "canary7f3a";
    let good = ContentHash::digest(b"");
    for (tool, arguments, expected) in [
        ("text.read", json!({}), "`path` is missing"),
        ("text.read", json!(null), "`path` is missing"),
        ("text.read", json!([canary]), "`arguments` must be an object"),
        ("file.remove", json!(["/a", good]), "`arguments` must be an object"),
        (
            "file.create",
            json!({ "path": "a", "content": "", "encoding": { "base64": null } }),
            "`encoding` must be one of",
        ),
        ("text.read", json!({ "path": 7 }), "`path` must be a string"),
        ("text.read", json!({ "path": { canary: canary } }), "`path` must be a string"),
        ("text.read", json!({ "path": "a", format!("{canary} text"): 1 }), "unknown argument"),
        (
            "text.read",
            json!({ "path": "a", "lines": canary }),
            "`lines` must be an array of two whole numbers",
        ),
        (
            "text.read",
            json!({ "path": "a", "lines": [1] }),
            "`lines` must be an array of two whole numbers",
        ),
        (
            "text.read",
            json!({ "path": "a", "lines": [1, 2.5] }),
            "`lines` must be an array of two whole numbers",
        ),
        (
            "text.read",
            json!({ "path": "a", "lines": [1, u64::MAX] }),
            "`lines` must be an array of two whole numbers",
        ),
        ("text.read", json!({ "path": "a", "q": "" }), "`q` must be"),
        ("text.read", json!({ "path": "a", "q": canary, "cursor": canary }), "exclude each other"),
        (
            "text.read",
            json!({ "path": "a", "lines": [1, 2], "cursor": canary }),
            "exclude each other",
        ),
        ("text.read", json!({ "path": "a", "cursor": canary }), "`cursor` is not one that"),
        ("text.read", json!({ "path": format!("{canary}\\a") }), "`path` contains a backslash"),
        ("text.read", json!({ "path": format!("../{canary}") }), "`path` leads out of the space"),
        ("file.remove", json!({ "path": "a", "hash": canary }), "`hash` must be the 64 lower-case"),
        ("file.create", json!({ "path": "a", "content": 1 }), "`content` must be a string"),
        (
            "file.create",
            json!({ "path": "a", "content": canary, "encoding": canary }),
            "`encoding` must be one of",
        ),
        (
            "text.insert",
            json!({ "path": "a", "hash": good, "line": "1", "anchor": "", "content": "" }),
            "`line` must be an integer",
        ),
    ] {
        let answer = rig.call(ALL, tool, arguments).await;
        assert!(answer.text.contains(expected), "{}", answer.text);
        assert!(
            !answer.text.contains(canary) && !answer.structured.to_string().contains(canary),
            "{}",
            answer.text
        );
        assert!(["invalid_argument", "invalid_path"].contains(&code(&answer)));
    }
}

#[tokio::test]
async fn an_unknown_tool_is_not_a_call() {
    let rig = Rig::new();
    assert_eq!(rig.tools.find("file.rename"), None);
    assert_eq!(rig.tools.call("file.rename", json!({}), &caller(ALL)).await, Err(UnknownTool));
}

fn text(content: ResourceContent) -> String {
    match content.body {
        ResourceBody::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_folder_is_listed_with_the_known_hashes() {
    let rig = Rig::new();
    rig.call(ALL, "file.create", json!({ "path": "notes/a b.md", "content": "x" })).await;
    let root = text(rig.tools.read_resource("list://", &caller("read:/")).await.unwrap());
    assert_eq!(
        root,
        r#"{"path":"/","entries":[{"name":"notes","type":"directory"}],"truncated":false}"#
    );
    let notes = text(rig.tools.read_resource("list:///notes", &caller("read:/")).await.unwrap());
    assert!(notes.contains(r#""name":"a b.md","type":"file","size_bytes":1"#), "{notes}");
    let refused = rig.tools.check_resource("list:///notes", &caller("read:/other/")).unwrap_err();
    assert_eq!(refused.code, "insufficient_scope");
    assert_eq!(rig.tools.find_resource("file:///etc/passwd"), None);
}

#[tokio::test]
async fn the_list_of_tools_follows_the_scopes() {
    let rig = Rig::new();
    let names = |claim: &str| {
        let caller = caller(claim);
        let listed = rig.tools.listed(&caller).now_or_never();
        let mut names = listed.expect("scopes alone decide about the tools of a space");
        names.sort_unstable();
        names
    };
    let notes =
        ["get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source"];
    let files = ["file.find", "file.list", "file.read", "file.search"];
    let more = ["note.find", "note.links", "note.tags", "text.gather", "text.read", "text.search"];
    let mut readers = [&files[..], &notes, &more].concat();
    readers.sort_unstable();
    assert_eq!(names("read:/notes/"), readers);
    let writers = [
        "file.append", "file.copy", "file.create", "file.move", "file.remove", "folder.create",
        "folder.move", "folder.remove", "note.set_property", "text.append", "text.edit",
        "text.insert", "text.replace",
    ];
    let mut all = [&readers[..], &writers].concat();
    all.sort_unstable();
    assert_eq!(names("write:/notes/"), all);
    assert_eq!(names("append:/logs/"), ["text.append"]);
    assert_eq!(names("read:/ deny:/"), Vec::<&str>::new());
    assert_eq!(names(""), Vec::<&str>::new());
}

#[tokio::test]
async fn every_call_leaves_one_line_without_content() {
    let rig = Rig::new();
    let made =
        rig.call(ALL, "file.create", json!({ "path": "a.md", "content": "canary7f3a" })).await;
    rig.call(ALL, "text.read", json!({ "path": "a.md" })).await;
    rig.call(
        ALL,
        "text.append",
        json!({ "path": "a.md", "hash": ContentHash::digest(b""), "content": "canary7f3a" }),
    )
    .await;
    rig.call("", "file.remove", json!({ "path": "a.md", "hash": hash(&made) })).await;
    rig.call(ALL, "text.read", json!({ "path": 7 })).await;
    let lines: Vec<JournalLine> = stile_store::journal::read_all(&rig.state_dir).unwrap().lines;
    let seen: Vec<_> =
        lines.iter().map(|line| (line.tool.as_str(), line.outcome.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("file.create", "ok"),
            ("text.read", "ok"),
            ("text.append", "stale"),
            ("file.remove", "insufficient_scope"),
            ("text.read", "invalid_argument")
        ]
    );
    assert_eq!(lines[0].after.map(|hash| hash.to_string()), Some(hash(&made)));
    assert_eq!(lines[1].before, lines[0].after);
    assert_eq!(
        (lines[0].subject.as_deref(), lines[0].token.as_deref(), lines[0].client.as_deref()),
        (Some("ann"), Some("t1"), Some("a test"))
    );
    assert!(!serde_json::to_string(&lines).unwrap().contains("canary"));
}

#[tokio::test]
async fn hits_and_edits_fit_their_schemas_with_and_without_what_may_be_left_out() {
    let rig = Rig::new();
    let text = "one\nneedle\ntwo\n";
    let made = rig.call(ALL, "file.create", json!({ "path": "a.md", "content": text })).await;
    for context in [0, 1] {
        let arguments = json!({ "q": "needle", "context": context });
        let found = rig.call(ALL, "text.search", arguments).await.structured;
        let around = json!(["one"]);
        assert_eq!(found["hits"][0].get("before"), (context == 1).then_some(&around));
    }
    let edits = json!([{ "old": "one", "new": "1" }]);
    let arguments = json!({ "path": "a.md", "hash": hash(&made), "edits": edits });
    let edited = rig.call(ALL, "text.edit", arguments).await.structured;
    assert!(edited["diff"].as_str().unwrap().contains("+1"));
}
