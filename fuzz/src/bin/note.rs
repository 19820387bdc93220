//! The structure of a note: four answers that agree, are bounded, and hold nothing that is not
//! theirs to tell.
//!
//! An input is a Markdown note.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::{PortableNote, to_json};
use stile_domain::notes::{MAX_ANSWER_BYTES, MAX_HEADINGS, MAX_TEXT_CHARS};
use stile_domain::notes::{Note, document_tree, metadata_facets, note_outline, section_source};

/// Stands in code and in comments of every note, and in no heading.
const BODY: &str = "qzxBODYxzq";

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    if input.contains(BODY) {
        return;
    }
    answers_agree(&input);
    // Whatever stands before it, a paragraph of its own after a blank line is body, unless
    // something that is open takes it in, and nothing of that kind is a heading either.
    answers_agree(&format!("{input}\n\n{BODY} {BODY}\n\n"));
});

fn answers_agree(text: &str) {
    let path = NotePath::parse("inbox/one.md").expect("a path");
    let [outline, tree, facets, sections] = answers(&path, Note::parse(text));
    // The same note after a journey to another server.
    let arrived = PortableNote::parse(to_json(&path, text).as_bytes()).expect("a note");
    assert_eq!(
        answers(&path, arrived.as_note()),
        [&outline, &tree, &facets, &sections].map(Value::clone)
    );
    for answer in [&outline, &tree, &facets, &sections] {
        let json = answer.to_string();
        assert!(json.len() <= MAX_ANSWER_BYTES);
        assert!(!json.contains(BODY), "{json}");
        assert_eq!(answer["path"], "inbox/one.md");
    }
    assert_eq!(outline["title"], sections["title"]);
    assert_eq!(outline["title"], tree["title"]);

    let headings = outline["headings"].as_array().expect("headings");
    let sections = sections["sections"].as_array().expect("sections");
    assert!(headings.len() <= MAX_HEADINGS);
    assert_eq!(headings.len(), sections.len());
    let mut flat = Vec::new();
    flatten(&tree["root"], 0, &mut flat);
    assert_eq!(flat.len(), headings.len());
    for (place, (heading, section)) in headings.iter().zip(sections).enumerate() {
        let id = heading["id"].as_str().expect("an id");
        assert!(id.ends_with(&format!("-{:04}", place + 1)) && id.is_ascii(), "{id}");
        assert!(heading["text"].as_str().expect("a text").chars().count() <= MAX_TEXT_CHARS);
        assert_eq!(
            (&section["heading_id"], &section["level"]),
            (&heading["id"], &heading["level"])
        );
        assert_eq!(section["heading_text"], heading["text"]);
        assert_eq!(
            (&section["body_returned"], &section["snippet_returned"]),
            (&false.into(), &false.into())
        );
        let (depth, node) = &flat[place];
        assert_eq!(node, id);
        assert_eq!(section["heading_path"].as_array().map(Vec::len), Some(*depth));
    }
}

fn answers(path: &NotePath, note: Note<'_>) -> [Value; 4] {
    [
        serde_json::to_value(note_outline(path, note).expect("a small note")).expect("JSON"),
        serde_json::to_value(document_tree(path, note).expect("a small note")).expect("JSON"),
        serde_json::to_value(metadata_facets(path, note).expect("a small note")).expect("JSON"),
        serde_json::to_value(section_source(path, note).expect("a small note")).expect("JSON"),
    ]
}

/// The nodes below one, in document order, with how deep they are.
fn flatten(node: &Value, depth: usize, into: &mut Vec<(usize, String)>) {
    for child in node["children"].as_array().into_iter().flatten() {
        into.push((depth + 1, child["id"].as_str().unwrap_or_default().to_owned()));
        flatten(child, depth + 1, into);
    }
}
