//! No answer tells what a parent is that the scopes hide, and an append to an unread file tells
//! nothing but whether it was made.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_tools::space::SpaceTools;
use stile_tools::toolset::Toolset as _;

use crate::{Called, Rig, caller};

/// What stands at `/h`, which no scope of these tests covers. In all of them `/h/a` is missing.
const HIDDEN: [&str; 6] =
    ["nothing", "folder", "file", "link to file", "link to folder", "dangling"];

/// Makes the space anew.
fn plant(space: &Path, hidden: &str) {
    for entry in fs::read_dir(space).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    fs::write(space.join("own.md"), "own\n").unwrap();
    fs::write(space.join("file"), "").unwrap();
    fs::create_dir_all(space.join("elsewhere/a")).unwrap();
    fs::write(space.join("elsewhere/a/b.md"), "own\n").unwrap();
    let at = space.join("h");
    match hidden {
        "nothing" => {}
        "folder" => fs::create_dir(at).unwrap(),
        "file" => fs::write(at, "").unwrap(),
        "link to file" => symlink("file", at).unwrap(),
        "link to folder" => symlink("elsewhere", at).unwrap(),
        _ => symlink("gone", at).unwrap(),
    }
}

/// Returns calls of a tool on `/h/a/b.md`, and whether each makes it.
fn calls(tool: &str) -> Vec<(Value, bool)> {
    let (path, hash) = ("/h/a/b.md", ContentHash::digest(b"own\n"));
    let on_path = |more: Value| {
        let mut arguments = json!({ "path": path });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vec![(arguments, false)]
    };
    match tool {
        "file.list" | "file.read" | "text.read" | "note.links" | "note.tags" | "folder.remove" => {
            on_path(json!({}))
        }
        "text.gather" => vec![(json!({ "items": [{ "path": path }] }), false)],
        "get_note_outline" | "get_document_tree" | "get_metadata_facets" | "get_section_source" => {
            vec![(json!({ "path": "h/a/b.md" }), false)]
        }
        "file.find" => on_path(json!({ "pattern": "own" })),
        "file.search" | "text.search" => on_path(json!({ "q": "own" })),
        "note.find" => on_path(json!({ "tag": "own" })),
        "file.remove" => on_path(json!({ "hash": hash })),
        "file.append" => on_path(json!({ "hash": hash, "content": "x" })),
        "text.append" => on_path(json!({ "hash": hash, "content": "x" }))
            .into_iter()
            .chain([(json!({ "path": path, "content": "x", "create": true }), true)])
            .collect(),
        "text.edit" => on_path(json!({ "hash": hash, "edits": [{ "old": "own", "new": "x" }] }))
            .into_iter()
            .chain(on_path(
                json!({ "hash": hash, "edits": [{ "old": "own", "new": "x" }], "dry_run": true }),
            ))
            .collect(),
        "text.replace" => {
            on_path(json!({ "hash": hash, "lines": [1, 2], "old": "own", "new": "x" }))
        }
        "text.insert" => {
            on_path(json!({ "hash": hash, "line": 1, "anchor": "own", "content": "x" }))
        }
        "note.set_property" => on_path(json!({ "hash": hash, "name": "a", "value": "x" })),
        "file.create" => vec![(json!({ "path": path, "content": "x" }), true)],
        "folder.create" => vec![(json!({ "path": path }), true)],
        "file.move" | "file.copy" => vec![
            (json!({ "path": path, "hash": hash, "to": "/own2.md" }), false),
            (json!({ "path": "/own.md", "hash": hash, "to": path }), true),
        ],
        "folder.move" => vec![
            (json!({ "path": path, "hash": hash, "to": "/own2.md" }), false),
            (json!({ "path": "/own.md", "hash": hash, "to": path }), false),
        ],
        other => panic!("say how `{other}` is called on a path below a hidden parent"),
    }
}

fn is_refused(called: &Called) -> bool {
    ["/error", "/pieces/0/error"].iter().any(|at| called.structured.pointer(at).is_some())
}

#[tokio::test]
async fn no_answer_of_any_tool_tells_what_a_hidden_parent_is() {
    let (rig, below) = (Rig::new(), ["write:/h/a/b.md", "write:/h/a/"]);
    for tool in SpaceTools::built_in() {
        for (arguments, makes) in calls(tool.name) {
            for claim in below {
                let claim = format!("{claim} write:/own.md write:/own2.md");
                let mut answers = Vec::new();
                for hidden in HIDDEN {
                    plant(rig.space.path(), hidden);
                    let called = rig.call(&claim, tool.name, arguments.clone()).await;
                    // What can be made shows that nothing stands in the way, and no more.
                    let is_free = makes && matches!(hidden, "nothing" | "folder");
                    assert_eq!(!is_free, is_refused(&called), "{hidden} {arguments} {called:?}");
                    answers.push((is_free, hidden, called));
                }
                for (is_free, hidden, called) in &answers {
                    let first = answers.iter().find(|(other, ..)| other == is_free).unwrap();
                    assert_eq!(first.2, *called, "{} {arguments}: {hidden}", tool.name);
                }
            }
        }
    }
}

#[tokio::test]
async fn no_listing_tells_what_a_hidden_parent_is() {
    let mut answers = Vec::new();
    for hidden in HIDDEN {
        let rig = Rig::new();
        plant(rig.space.path(), hidden);
        let read = rig.tools.read_resource("list:///h/a", &caller("read:/h/a/")).await;
        answers.push(format!("{:?}", read.unwrap_err()));
    }
    assert!(answers[0].contains("not_found"), "{}", answers[0]);
    for answer in &answers {
        assert_eq!(answers[0], *answer);
    }
}

/// Appends to `/logs/a.log` without having read it.
async fn append_unread(rig: &Rig, claim: &str) -> Called {
    let arguments = json!({
        "path": "/logs/a.log", "hash": ContentHash::digest(b""), "size_bytes": 0, "content": "x\n",
    });
    rig.call(claim, "text.append", arguments).await
}

#[tokio::test]
async fn an_append_to_an_unread_file_tells_only_whether_it_was_made() {
    let mut answers = Vec::new();
    let things = [
        "no folder", "no file", "file", "folder", "link", "latin", "hard link", "protected",
        "large", "folder is a file", "folder is a link",
    ];
    for thing in things {
        let rig = Rig::new();
        let (space, folder) = (rig.space.path(), rig.space.path().join("logs"));
        let log = folder.join("a.log");
        fs::write(space.join("other"), "secret\n").unwrap();
        match thing {
            "no folder" => {}
            "folder is a file" => fs::write(&folder, "").unwrap(),
            "folder is a link" => symlink("other", &folder).unwrap(),
            _ => fs::create_dir(&folder).unwrap(),
        }
        match thing {
            "file" => fs::write(&log, "secret\n").unwrap(),
            "folder" => fs::create_dir(&log).unwrap(),
            "link" => symlink("../other", &log).unwrap(),
            "latin" => fs::write(&log, b"secret \xe9").unwrap(),
            "hard link" => fs::hard_link(space.join("other"), &log).unwrap(),
            "protected" => {
                fs::write(&log, "").unwrap();
                let mut permissions = log.metadata().unwrap().permissions();
                permissions.set_readonly(true);
                fs::set_permissions(&log, permissions).unwrap();
            }
            "large" => fs::write(&log, vec![0; 64 << 20]).unwrap(),
            _ => {}
        }
        let appended = append_unread(&rig, "append:/logs/").await;
        if thing == "file" {
            assert_eq!(appended.structured, json!({ "path": "/logs/a.log" }));
            assert_eq!(rig.text("logs/a.log"), "secret\nx\n");
        } else {
            assert_eq!(appended.structured["error"]["code"], "not_permitted", "{thing}");
            answers.push((thing, appended));
        }
    }
    for (thing, answer) in &answers {
        assert_eq!(answers[0].1, *answer, "{thing}");
    }
}

#[tokio::test]
async fn an_append_says_why_not_to_a_caller_who_may_read_the_file() {
    let rig = Rig::new();
    fs::create_dir(rig.space.path().join("logs")).unwrap();
    let missing = append_unread(&rig, "append:/logs/ read:/logs/").await;
    assert_eq!(missing.structured["error"]["code"], "not_found");
}
