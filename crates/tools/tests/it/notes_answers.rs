//! The answers of the note tools: their fields, their errors, and the scopes that decide.

use crate::Called;
use serde_json::{Value, json};
use stile_domain::notes::Note;
use stile_domain::notes::NotePath;

use crate::Rig;

pub(crate) const NOTE_TOOLS: [&str; 4] =
    ["get_note_outline", "get_document_tree", "get_metadata_facets", "get_section_source"];
pub(crate) const READ: &str = "read:/";

impl Rig {
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let file = self.space.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    pub(crate) async fn note(&self, tool: &str, path: &str) -> Called {
        self.call(READ, tool, json!({ "path": path })).await
    }
}

pub(crate) fn told(message: &str) -> Value {
    json!({ "error": message, "code": "RUNTIME_ERROR" })
}

const NOTE: &str = "---\ntitle: Garden\nproject: Home\ntags: [Ferns, Soil]\ndate: 2026-05-24\n---\n\
                    # Ferns\n\nWater them.\n\n## Soil\n\n# Mosses\n";

#[test]
fn the_tool_name_and_the_required_path_are_documented() {
    for name in NOTE_TOOLS {
        let tool = crate::definition(name);
        let input = tool.input;
        assert_eq!(input["required"], json!(["path"]));
        assert_eq!(input["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["path"]);
        assert_eq!(input["additionalProperties"], false);
        assert!(tool.read_only && tool.idempotent && !tool.destructive);
        let said = tool.description;
        assert!(said.contains("source material") && said.contains("not instructions"), "{said}");
        let page = include_str!("../../../../docs/tools.md");
        assert!(page.contains(&format!("## `{name}`")), "{name}");
    }
}

#[tokio::test]
async fn the_fields_are_those_of_section_source_v0() {
    let rig = Rig::new();
    rig.put("inbox/garden.md", NOTE);
    let answer = rig.note("get_section_source", "inbox/garden.md").await;
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answer.structured), ["schema", "path", "title", "sections", "truncated"]);
    assert_eq!(
        answer.structured["sections"][0],
        json!({
            "section_id": "inbox-garden-md:h1-ferns-0001",
            "heading_id": "h1-ferns-0001",
            "level": 1,
            "heading_path": ["Ferns"],
            "heading_text": "Ferns",
            "child_section_ids": ["inbox-garden-md:h2-soil-0002"],
            "body_available": true,
            "body_returned": false,
            "snippet_returned": false
        })
    );
    let tool = crate::definition("get_section_source");
    let output = (tool.output)();
    let success = &output["anyOf"][0];
    assert_eq!(keys(&success["properties"]), keys(&answer.structured));
    let section = &success["properties"]["sections"]["items"];
    assert_eq!(keys(&section["properties"]), keys(&answer.structured["sections"][0]));
    assert_eq!(section["additionalProperties"], false);
}

#[tokio::test]
async fn body_returned_and_snippet_returned_are_always_false() {
    let rig = Rig::new();
    rig.put("a.md", NOTE);
    let answer = rig.note("get_section_source", "a.md").await.structured;
    let sections = answer["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 3);
    for section in sections {
        assert_eq!(
            (&section["body_returned"], &section["snippet_returned"]),
            (&json!(false), &json!(false))
        );
    }
    let tool = crate::definition("get_section_source");
    let schema =
        (tool.output)()["anyOf"][0]["properties"]["sections"]["items"]["properties"].clone();
    assert_eq!(
        (&schema["body_returned"]["const"], &schema["snippet_returned"]["const"]),
        (&json!(false), &json!(false))
    );
}

#[tokio::test]
async fn a_note_tool_answers_what_the_domain_derives_from_the_note() {
    let rig = Rig::new();
    rig.put("inbox/garden.md", NOTE);
    let path = NotePath::parse("inbox/garden.md").unwrap();
    let texts = [
        serde_json::to_string(
            &stile_domain::notes::note_outline(&path, Note::parse(NOTE)).unwrap(),
        ),
        serde_json::to_string(
            &stile_domain::notes::document_tree(&path, Note::parse(NOTE)).unwrap(),
        ),
        serde_json::to_string(
            &stile_domain::notes::metadata_facets(&path, Note::parse(NOTE)).unwrap(),
        ),
        serde_json::to_string(
            &stile_domain::notes::section_source(&path, Note::parse(NOTE)).unwrap(),
        ),
    ];
    for (tool, expected) in NOTE_TOOLS.into_iter().zip(texts) {
        for spelling in
            ["inbox/garden.md", " inbox//garden.md\n", "inbox\\garden.md", "./inbox/./garden.md/"]
        {
            let answer = rig.note(tool, spelling).await;
            assert_eq!(
                &answer.text,
                expected.as_ref().unwrap(),
                "one compact line in the order of the fields"
            );
            assert_eq!(answer.structured.to_string(), answer.text);
            assert_eq!(answer.failure, None);
        }
    }
}

#[tokio::test]
async fn the_answer_has_unescaped_unicode() {
    let rig = Rig::new();
    rig.put("\u{65e5}\u{672c}.md", "# \u{898b}\u{51fa}\u{3057}\n");
    let answer = rig.note("get_note_outline", "\u{65e5}\u{672c}.md").await;
    assert!(
        answer.text.contains("\u{898b}\u{51fa}\u{3057}") && !answer.text.contains("\\u"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn unsafe_paths_get_the_same_refusal_and_are_never_repeated() {
    let rig = Rig::new();
    rig.put("a.md", NOTE);
    let long = "canary7f3a".repeat(500);
    for path in [
        "", " ", ".", "/", "/a.md", "\\a.md", "../canary7f3a.md", "x/../a.md", "x\\..\\a.md",
        "C:\\canary7f3a.md", "c:/a.md", "canary7f3a\0.md", "canary7f3a\u{1b}.md",
        ".stile-canary7f3a", &long,
    ] {
        for tool in NOTE_TOOLS {
            let answer = rig.note(tool, path).await;
            assert_eq!(answer.structured, told("Invalid path"), "{path:?}");
            assert_eq!(answer.text, r#"{"error":"Invalid path","code":"RUNTIME_ERROR"}"#);
            assert!(answer.failure.is_some());
        }
    }
    for (arguments, message) in [
        (json!({}), "Invalid path"),
        (json!(null), "Invalid path"),
        (json!({ "path": 7 }), "Invalid path"),
        (json!({ "path": null }), "Invalid path"),
        (json!({ "path": ["a.md"] }), "Invalid path"),
        (json!({ "path": "a.md", "canary7f3a": 1 }), "Invalid arguments"),
        (json!({ "paths": ["a.md"] }), "Invalid arguments"),
        (json!({ "path": "a.md", "snippet": true }), "Invalid arguments"),
        (json!("canary7f3a"), "Invalid arguments"),
    ] {
        for tool in NOTE_TOOLS {
            assert_eq!(
                rig.call(READ, tool, arguments.clone()).await.structured,
                told(message),
                "{arguments}"
            );
        }
    }
}

#[tokio::test]
async fn an_unreadable_note_is_not_found() {
    let rig = Rig::new();
    rig.put("folder/a.md", NOTE);
    rig.put("binary.md", b"# \xff\n");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("folder/a.md", rig.space.path().join("link.md")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", rig.space.path().join("out.md")).unwrap();
        std::os::unix::fs::symlink("/etc", rig.space.path().join("etc")).unwrap();
        let path = rig.space.path().join("fifo.md");
        std::process::Command::new("mkfifo").arg(path).status().unwrap();
    }
    let mut paths = vec!["missing.md", "folder", "folder/a.md/b.md", "nowhere/a.md", "binary.md"];
    if cfg!(unix) {
        paths.extend(["link.md", "out.md", "etc/hostname", "fifo.md"]);
    }
    for path in paths {
        for tool in NOTE_TOOLS {
            assert_eq!(
                rig.note(tool, path).await.structured,
                told(&format!("Note not found: {path}")),
                "{tool}"
            );
        }
    }
    let answer = rig.note("get_note_outline", "./nowhere\\\\b.md").await;
    assert_eq!(
        answer.structured,
        told("Note not found: nowhere/b.md"),
        "the path is told normalised"
    );
}

#[tokio::test]
async fn scopes_decide_as_for_text_read() {
    let rig = Rig::new();
    rig.put("private/a.md", NOTE);
    for path in ["private/a.md", "private/missing.md"] {
        for tool in NOTE_TOOLS {
            let refused = rig.call("read:/work/", tool, json!({ "path": path })).await;
            let read = rig.call("read:/work/", "text.read", json!({ "path": path })).await;
            assert_eq!(refused, read, "the refusal for scopes is the same everywhere");
            assert_eq!(refused.structured["error"]["code"], "insufficient_scope");
            let allowed =
                rig.call("read:/private/a.md", tool, json!({ "path": "private/a.md" })).await;
            assert_eq!(allowed.failure, None);
        }
    }
}
