//! Texts in other encodings and what is not text, as an agent meets them.

use serde_json::{Value, json};
use stile_domain::text_encoding::TextEncoding;

use crate::{Called, Rig};

const ALL: &str = "write:/";

fn code(answer: &Called) -> &str {
    answer.structured.pointer("/error/code").and_then(Value::as_str).unwrap_or("ok")
}

fn put(rig: &Rig, name: &str, encoding: &str, text: &str) {
    let bytes = TextEncoding::named(encoding).unwrap().encode(text).unwrap().into_owned();
    std::fs::write(rig.space.path().join(name), bytes).unwrap();
}

#[tokio::test]
async fn a_text_in_another_encoding_is_found_read_and_changed() {
    let rig = Rig::new();
    put(&rig, "letter.txt", "windows-1252", "Liebe Grüße aus Köln.\nEs ist schön hier.\n");
    let found = rig.call(ALL, "text.search", json!({ "q": "schön" })).await;
    assert_eq!(found.structured["hits"][0]["line"], 2);
    let ranked = rig.call(ALL, "file.search", json!({ "q": "Grüße Köln" })).await;
    assert_eq!(ranked.structured["results"][0]["path"], "/letter.txt");
    assert_eq!(ranked.structured["results"][0]["hash"], found.structured["hits"][0]["hash"]);
    let read = rig.call(ALL, "text.read", json!({ "path": "letter.txt", "q": "schön" })).await;
    assert_eq!(read.structured["content"], "Es ist schön hier.\n");
    assert_eq!(read.structured["encoding"], "windows-1252");
    assert_eq!(read.structured["encoding_source"], "guessed");
    assert!(read.text.contains(", encoding windows-1252 (guessed)"), "{}", read.text);
    let hash = read.structured["hash"].clone();
    let edits = json!([{ "old": "schön", "new": "früh" }]);
    let edit = json!({ "path": "letter.txt", "hash": hash, "edits": edits });
    assert_eq!(rig.call(ALL, "text.edit", edit).await.structured.get("error"), None);
    let bytes = std::fs::read(rig.space.path().join("letter.txt")).unwrap();
    assert_eq!(bytes, b"Liebe Gr\xfc\xdfe aus K\xf6ln.\nEs ist fr\xfch hier.\n");
}

#[tokio::test]
async fn a_cursor_goes_on_in_the_encoding_that_was_stated() {
    let rig = Rig::new();
    let text = "Привет, мир\n".repeat(6000);
    put(&rig, "a", "koi8-r", &text);
    let call = |more: Value| {
        let mut arguments = json!({ "path": "a" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rig.call(ALL, "text.read", arguments)
    };
    let (mut whole, mut more) = (String::new(), json!({ "encoding": "KOI8-R" }));
    let mut cursors = 0;
    loop {
        let read = call(more).await;
        whole += read.structured["content"].as_str().unwrap();
        assert_eq!(read.structured["encoding_source"], "stated");
        let Some(cursor) = read.structured.get("next_cursor") else { break };
        assert_eq!(code(&call(json!({ "cursor": cursor })).await), "invalid_argument");
        more = json!({ "cursor": cursor, "encoding": "koi8-r" });
        cursors += 1;
    }
    assert!(whole == text && cursors > 0);
    assert_eq!(code(&call(json!({ "encoding": "rot13" })).await), "invalid_argument");
    assert_eq!(code(&call(json!({ "encoding": "utf-8" })).await), "bad_encoding");
}

#[tokio::test]
async fn what_is_not_text_is_named_with_the_tool_that_reads_it() {
    let rig = Rig::new();
    std::fs::write(rig.space.path().join("a.png"), b"\x89PNG\0needle").unwrap();
    std::fs::write(rig.space.path().join("back\\slash"), "needle").unwrap();
    let read = rig.call(ALL, "text.read", json!({ "path": "a.png" })).await;
    assert_eq!(code(&read), "not_text");
    assert!(read.text.contains("`file_read` reads its bytes."), "{}", read.text);
    let found = rig.call(ALL, "text.search", json!({ "q": "needle" })).await;
    let left = json!([
        { "why": "not_text", "count": 1, "first": "/a.png" },
        { "why": "no_path", "count": 1, "first": "/" },
    ]);
    assert_eq!(
        (&found.structured["left_out"], &found.structured["files_skipped"]),
        (&left, &json!(2))
    );
    assert!(
        found.text.contains("not_text: 1, first /a.png\nno_path: 1, first /"),
        "{}",
        found.text
    );
    let folder = rig.space.path();
    std::fs::write(folder.join("note.md"), "x").unwrap();
    for (tool, arguments) in [
        ("file.list", json!({})),
        ("file.find", json!({ "pattern": "*" })),
        ("file.find", json!({ "pattern": "note" })),
        ("file.find", json!({ "pattern": "*", "order": "newest" })),
        ("note.find", json!({ "tag": "x" })),
        ("note.tags", json!({})),
        ("note.links", json!({ "path": "note.md" })),
    ] {
        let answer = rig.call(ALL, tool, arguments).await;
        assert_eq!(answer.structured["unnameable"], 1, "{tool}");
        assert!(answer.text.contains("Names that no path can hold: 1."), "{tool}");
    }
}
