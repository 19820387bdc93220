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
    let mut edit = json!({ "path": "letter.txt", "hash": hash, "edits": edits });
    // A guess may be wrong, so it does not decide how the new letter is written.
    let refused = rig.call(ALL, "text.edit", edit.clone()).await;
    assert_eq!(code(&refused), "bad_encoding");
    assert!(
        refused.text.contains("windows-1252 is only a guess")
            && refused.text.contains("`encoding`"),
        "{}",
        refused.text
    );
    edit["encoding"] = "windows-1252".into();
    assert_eq!(rig.call(ALL, "text.edit", edit).await.structured.get("error"), None);
    let bytes = std::fs::read(rig.space.path().join("letter.txt")).unwrap();
    assert_eq!(bytes, b"Liebe Gr\xfc\xdfe aus K\xf6ln.\nEs ist fr\xfch hier.\n");
}

/// A text that is read in a stated encoding is written in that encoding by every tool, and never in
/// the one that would be guessed.
#[tokio::test]
async fn a_change_is_written_in_the_encoding_that_was_stated() {
    let rig = Rig::new();
    let text = "Preis 5 \u{20ac} für Öl\nund mehr\n";
    let read = || std::fs::read(rig.space.path().join("a")).unwrap();
    let bytes = |text: &str| {
        let encoding = TextEncoding::named("iso-8859-15").unwrap();
        encoding.encode(text).unwrap().into_owned()
    };
    let more = "\u{20ac}uro";
    for (tool, arguments, after) in [
        (
            "text.edit",
            json!({ "edits": [{ "old": "mehr", "new": more }] }),
            text.replace("mehr", more),
        ),
        (
            "text.replace",
            json!({ "lines": [2, 3], "old": "und mehr", "new": more }),
            text.replace("und mehr", more),
        ),
        (
            "text.insert",
            json!({ "line": 2, "anchor": "und mehr", "content": more }),
            text.replace("und mehr", &format!("{more}\nund mehr")),
        ),
        ("text.append", json!({ "content": more }), format!("{text}{more}")),
    ] {
        put(&rig, "a", "iso-8859-15", text);
        let shown = json!({ "path": "a", "encoding": "iso-8859-15" });
        let shown = rig.call(ALL, "text.read", shown).await;
        assert_eq!(shown.structured["content"], text);
        let mut arguments = arguments;
        arguments["path"] = "a".into();
        arguments["hash"] = shown.structured["hash"].clone();
        let refused = rig.call(ALL, tool, arguments.clone()).await;
        assert_eq!((code(&refused), read()), ("bad_encoding", bytes(text)), "{tool}");
        arguments["encoding"] = "utf-8".into();
        let refused = rig.call(ALL, tool, arguments.clone()).await;
        assert_eq!((code(&refused), read()), ("bad_encoding", bytes(text)), "{tool}");
        arguments["encoding"] = "iso-8859-15".into();
        let changed = rig.call(ALL, tool, arguments).await;
        assert_eq!((code(&changed), read()), ("ok", bytes(&after)), "{tool}");
    }
    let new =
        json!({ "path": "a2", "content": "5 \u{20ac}", "create": true, "encoding": "iso-8859-15" });
    assert_eq!(code(&rig.call(ALL, "text.append", new.clone()).await), "ok");
    assert_eq!(std::fs::read(rig.space.path().join("a2")).unwrap(), b"5 \xa4");
    let mut lacking = new;
    (lacking["path"], lacking["content"]) = ("a3".into(), "\u{4eca}".into());
    assert_eq!(code(&rig.call(ALL, "text.append", lacking).await), "bad_encoding");
    assert!(!rig.space.path().join("a3").exists());
}

/// The mark belongs to the file and not to its text: it is not shown, and it stays.
#[tokio::test]
async fn a_byte_order_mark_is_not_shown_and_stays() {
    let rig = Rig::new();
    put(&rig, "a.md", "utf-16le", "\u{feff}# Plan\none\n");
    for encoding in [Value::Null, json!("utf-16le")] {
        let read = json!({ "path": "a.md", "encoding": encoding });
        let read = rig.call(ALL, "text.read", read).await.structured;
        assert!(read["content"].as_str().unwrap().starts_with("# "), "{read}");
        let old = if encoding.is_null() { "# Plan" } else { "# Über" };
        let edit = json!({
            "path": "a.md", "hash": read["hash"], "encoding": encoding,
            "lines": [1, 2], "old": old, "new": "# Über",
        });
        assert_eq!(code(&rig.call(ALL, "text.replace", edit).await), "ok");
    }
    let bytes = std::fs::read(rig.space.path().join("a.md")).unwrap();
    let text = TextEncoding::UTF_16LE.decode(&bytes).unwrap().into_owned();
    assert_eq!(text, "\u{feff}# Über\none\n");
}

/// Who may read learns why nothing can be added; who may not learns nothing of the encoding.
#[tokio::test]
async fn an_unread_append_to_another_encoding_tells_its_reason_to_readers_alone() {
    let rig = Rig::new();
    put(&rig, "log", "utf-16le", "\u{feff}a\nb\n");
    let nothing = stile_domain::hash::ContentHash::digest(b"").to_string();
    let append = json!({ "path": "log", "hash": nothing, "size_bytes": 0, "content": "x\n" });
    let told = rig.call("read:/ append:/", "text.append", append.clone()).await;
    assert_eq!(code(&told), "bad_encoding");
    assert!(
        told.text.contains("is utf-16le text, and to a file that was not read"),
        "{}",
        told.text
    );
    let hidden = rig.call("append:/", "text.append", append.clone()).await;
    assert_eq!(code(&hidden), "not_permitted");
    assert!(!hidden.text.contains("utf"), "{}", hidden.text);
    let mut stated = append;
    stated["encoding"] = "utf-16le".into();
    let refused = rig.call("append:/", "text.append", stated).await;
    assert_eq!(code(&refused), "invalid_argument");
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
