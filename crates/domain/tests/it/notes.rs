//! Compares the answers for 1,372 notes with stored answers, byte by byte.
//!
//! Each note is read from its file text and from the JSON that travels between servers.

use serde::Deserialize;
use stile_domain::notes::portable::{PortableNote, to_json};
use stile_domain::notes::{
    Note, NotePath, document_tree, metadata_facets, note_outline, section_source,
};

#[derive(Deserialize)]
struct Case {
    markdown: String,
    path: String,
    outline: serde_json::Value,
    tree: serde_json::Value,
    section_source: serde_json::Value,
    facets: serde_json::Value,
}

/// Returns the differences between our answers and the expected ones. Compares text, because the
/// order of the fields matters.
fn differences(case: &Case, note: Note<'_>) -> Vec<String> {
    let path = NotePath::parse(&case.path).unwrap();
    let ours = [
        (serde_json::to_string(&note_outline(&path, note).unwrap()), &case.outline),
        (serde_json::to_string(&document_tree(&path, note).unwrap()), &case.tree),
        (serde_json::to_string(&section_source(&path, note).unwrap()), &case.section_source),
        (serde_json::to_string(&metadata_facets(&path, note).unwrap()), &case.facets),
    ];
    ours.into_iter()
        .map(|(ours, expected)| (ours.unwrap(), expected.to_string()))
        .filter(|(ours, expected)| ours != expected)
        .map(|(ours, expected)| {
            format!("{:?}\n  ours     {ours}\n  expected {expected}\n", case.markdown)
        })
        .collect()
}

/// Checks each note of a file, and the same note after a round trip through JSON.
fn check(file: &str, expected: usize) {
    let cases: Vec<Case> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), expected);
    let mut differing = Vec::new();
    for case in &cases {
        differing.extend(differences(case, Note::parse(&case.markdown)));
        let sent = to_json(&NotePath::parse(&case.path).unwrap(), &case.markdown);
        let received = PortableNote::parse(sent.as_bytes()).unwrap();
        differing.extend(differences(case, received.as_note()));
    }
    assert!(
        differing.is_empty(),
        "{} of {expected} differ:\n{}",
        differing.len(),
        differing.concat()
    );
}

#[test]
fn handmade_notes_have_their_structure() {
    check(include_str!("../fixtures/notes/edge.jsonl"), 68);
}

#[test]
fn examples_of_commonmark_have_their_structure() {
    check(include_str!("../fixtures/notes/commonmark.jsonl"), 652);
}

#[test]
fn examples_of_commonmark_in_a_section_have_their_structure() {
    check(include_str!("../fixtures/notes/commonmark-as-body.jsonl"), 652);
}
