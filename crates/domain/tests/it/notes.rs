//! The structure of 1,372 notes, equal as JSON and in the order of the fields.

use serde::Deserialize;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::{PortableNote, to_json};
use stile_domain::notes::{Note, document_tree, metadata_facets, note_outline, section_source};

#[derive(Deserialize)]
struct Case {
    markdown: String,
    path: String,
    outline: serde_json::Value,
    tree: serde_json::Value,
    section_source: serde_json::Value,
    facets: serde_json::Value,
}

/// What is wrong with the answers for a note, as text, since the order of fields counts.
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

/// Of the note in the file, and of the same note after a journey from one server to another.
fn check(file: &str, expected: usize) {
    let cases: Vec<Case> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), expected);
    let mut differing = Vec::new();
    for case in &cases {
        differing.extend(differences(case, Note::parse(&case.markdown)));
        let travelled = to_json(&NotePath::parse(&case.path).unwrap(), &case.markdown);
        let arrived = PortableNote::parse(travelled.as_bytes()).unwrap();
        differing.extend(differences(case, arrived.as_note()));
    }
    assert!(
        differing.is_empty(),
        "{} of {expected} differ:\n{}",
        differing.len(),
        differing.concat()
    );
}

#[test]
fn unit_the_notes_made_by_hand_have_their_structure() {
    check(include_str!("../fixtures/notes/edge.jsonl"), 68);
}

#[test]
fn unit_the_examples_of_commonmark_have_their_structure() {
    check(include_str!("../fixtures/notes/commonmark.jsonl"), 652);
}

#[test]
fn unit_the_examples_of_commonmark_as_a_body_have_their_structure() {
    check(include_str!("../fixtures/notes/commonmark-as-body.jsonl"), 652);
}
