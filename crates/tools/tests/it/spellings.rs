//! Callers read the names of tools as their lists spell them, and content as it is stored.

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::tool_name::{ShownTools, Spelling};
use stile_tools::answer::Answer;
use stile_tools::definition::ToolGroup;
use stile_tools::space::{HISTORY_TOOLS, SpaceTools};
use stile_tools::toolset::{Caller, Toolset as _};

use crate::{Rig, caller};

/// A path and lines that look like sentences of the program.
const PATH: &str = "/file.create/Call `text.read` or `text_read`.md";
/// A path that is nearly the other.
const NEARLY: &str = "/file.create/Call `text.reed` or `text_read`.md";
/// A note that is not there.
const NO_NOTE: &str = "file.create/none.md";
const LINES: [&str; 4] = [
    "---",
    "Call `file.list`, `file_list`, file.create or file_create.",
    "twice: `text.replace`",
    "twice: `text.replace`",
];

fn content() -> String {
    LINES.join("\n")
}

/// Calls that are refused, that find nothing and that show content.
fn calls() -> Vec<(&'static str, Value)> {
    let (hash, other) = (ContentHash::digest(content().as_bytes()), ContentHash::digest(b"other"));
    let folder = "/file.create";
    vec![
        ("text.read", json!({ "path": PATH })),
        ("text.read", json!({ "path": folder })),
        ("text.read", json!({ "path": format!("{PATH}/x") })),
        ("text.read", json!({ "path": NEARLY })),
        ("text.read", json!({ "path": "../x" })),
        ("text.read", json!({ "path": PATH, "cursor": "x" })),
        ("text.read", json!({ "path": "/text.read.bin" })),
        (
            "text.replace",
            json!({ "path": PATH, "hash": hash, "lines": [1, 0], "old": "`file.copy`", "new": "" }),
        ),
        (
            "text.replace",
            json!({ "path": PATH, "hash": hash, "lines": [1, 0], "old": LINES[2], "new": "" }),
        ),
        (
            "text.replace",
            json!({ "path": PATH, "hash": other, "lines": [1, 0], "old": "x", "new": "" }),
        ),
        (
            "text.replace",
            json!({ "path": PATH, "hash": "text.read", "lines": [1, 0], "old": "x", "new": "" }),
        ),
        (
            "text.edit",
            json!({ "path": PATH, "hash": hash, "edits": [{ "old": "`file.copy`", "new": "" }] }),
        ),
        ("note.set_property", json!({ "path": PATH, "hash": hash, "name": "a", "value": "b" })),
        ("file.create", json!({ "path": PATH, "content": "x" })),
        ("file.remove", json!({ "path": PATH, "hash": other })),
        ("folder.remove", json!({ "path": folder })),
        ("folder.remove", json!({ "path": folder, "hash": hash })),
        ("folder.move", json!({ "path": folder, "hash": hash, "to": "file.move" })),
        ("file.list", json!({ "path": PATH })),
        ("file.list", json!({ "path": folder })),
        ("file.find", json!({ "pattern": "file.remove*" })),
        ("file.find", json!({ "pattern": "text.read" })),
        ("file.search", json!({ "q": "zebra" })),
        ("text.search", json!({ "q": "`file.list`" })),
        ("text.search", json!({ "q": "`file.remove`" })),
        ("note.find", json!({})),
        ("note.links", json!({ "path": "/text.read.bin" })),
        ("get_note_outline", json!({ "path": NO_NOTE })),
        ("file.read", json!({ "path": PATH, "nothing": "`text.read`" })),
        ("file.history", json!({ "path": PATH })),
        ("file.restore", json!({ "path": PATH, "version": "7", "hash": hash })),
    ]
}

async fn answer(
    rig: &Rig,
    names: impl Into<ShownTools>,
    (tool, arguments): &(&str, Value),
) -> Answer {
    let tools = rig.tools.clone().with_history_tools();
    let caller = Caller { names: names.into(), ..caller("read:/ write:/") };
    let tool = tools.find(tool).unwrap();
    tools.call(tool, arguments.clone(), &caller).await.unwrap()
}

/// Returns the text and the structure of an answer without the path and the lines, which are
/// content.
fn without_content(answer: &Answer) -> String {
    let mut said = format!("{}\n{}", answer.text, answer.to_tree());
    let paths =
        [PATH, NEARLY, PATH.trim_start_matches('/'), "/file.create", "text.read.bin", NO_NOTE];
    for content in paths.into_iter().chain(LINES) {
        said = said.replace(content, "…");
    }
    said
}

fn dotted_names() -> Vec<&'static str> {
    let tools = SpaceTools::built_in().chain(HISTORY_TOOLS).map(|tool| tool.name);
    tools.filter(|name| name.contains('.')).collect()
}

#[tokio::test]
async fn answers_spell_tools_as_the_list_does_and_repeat_content_byte_for_byte() {
    let rig = Rig::new();
    plant(&rig);
    let mut told = 0;
    for call in calls() {
        let dotted = answer(&rig, Spelling::Dotted, &call).await;
        let underscored = answer(&rig, Spelling::Underscored, &call).await;
        for content in LINES.into_iter().chain([PATH]) {
            assert_eq!(
                underscored.text.matches(content).count(),
                dotted.text.matches(content).count(),
                "{call:?}: {}",
                underscored.text
            );
        }
        let [dotted, underscored] = [&dotted, &underscored].map(without_content);
        let mut respelled = dotted.clone();
        for name in dotted_names() {
            let other = name.replace('.', "_");
            assert!(!underscored.contains(name), "{call:?}: {underscored}");
            assert!(!dotted.contains(&other), "{call:?}: {dotted}");
            told += dotted.matches(name).count();
            respelled = respelled.replace(name, &other);
        }
        assert_eq!(respelled, underscored, "{call:?}");
    }
    assert!(told > 20, "the calls are answered with names of tools: {told}");
    let read = answer(&rig, Spelling::Underscored, &("text.read", json!({ "path": PATH }))).await;
    assert_eq!(read.to_tree()["content"], content());
}

/// Plants a note, a folder and a file of bytes whose names and content look like tools.
fn plant(rig: &Rig) {
    let space = rig.space.path();
    std::fs::create_dir(space.join("file.create")).unwrap();
    std::fs::write(space.join(PATH.trim_start_matches('/')), content()).unwrap();
    std::fs::write(space.join("text.read.bin"), b"\xff\xfe\x00").unwrap();
}

#[tokio::test]
async fn a_caller_reads_of_no_tool_that_its_list_lacks() {
    let rig = Rig::new();
    plant(&rig);
    let tools = rig.tools.clone().with_history_tools();
    let all = tools.definitions();
    let in_group = |name: &str, group| all.iter().any(|it| it.name == name && it.group == group);
    let reader = caller("read:/");
    let dotted = ShownTools::from(Spelling::Dotted);
    let lists = [
        ("readers", dotted.only(|name| tools.may_show(name, &reader))),
        ("files", dotted.only(|name| in_group(name, ToolGroup::Files))),
        ("find", dotted.only(|name| in_group(name, ToolGroup::Find))),
        ("notes", dotted.only(|name| in_group(name, ToolGroup::Notes))),
    ];
    for (list, shown) in lists {
        assert!(all.iter().any(|tool| shown.has(tool.name)), "{list}");
        let lacks: Vec<_> = all.iter().map(|it| it.name).filter(|it| !shown.has(it)).collect();
        let names_none = |said: &str| {
            let told = lacks.iter().find(|name| said.contains(&format!("`{name}`")));
            assert_eq!(told, None, "{list}: {said}");
        };
        for call in calls() {
            names_none(&without_content(&answer(&rig, shown, &call).await));
        }
        names_none(&tools.instructions(&Caller { names: shown, ..caller("read:/ write:/") }));
    }
}

#[tokio::test]
async fn instructions_and_refusals_of_scopes_spell_tools_as_the_list_does() {
    let rig = Rig::new();
    for (names, shown, hidden) in [
        (Spelling::Dotted, "`file.list`", "file_list"),
        (Spelling::Underscored, "`file_list`", "file.list"),
    ] {
        let caller = Caller { names: names.into(), ..caller("read:/") };
        let instructions = rig.tools.instructions(&caller);
        assert!(instructions.contains(shown) && !instructions.contains(hidden), "{instructions}");
        let error = rig.tools.read_resource("list:///none", &caller).await.unwrap_err();
        assert!(error.message.contains(shown) && !error.message.contains(hidden), "{error:?}");
    }
}
