//! The structure of 1,372 notes, equal as JSON and in the order of the fields.

use serde::Deserialize;
use stile_domain::notes::path::NotePath;
use stile_domain::notes::{document_tree, metadata_facets, note_outline, section_source};

#[derive(Deserialize)]
struct Case {
    markdown: String,
    path: String,
    outline: serde_json::Value,
    tree: serde_json::Value,
    section_source: serde_json::Value,
    facets: serde_json::Value,
}

/// Compares as text, since the order of fields counts.
fn differences(case: &Case) -> Vec<String> {
    let path = NotePath::parse(&case.path).unwrap();
    let text = &case.markdown;
    let ours = [
        (serde_json::to_string(&note_outline(&path, text).unwrap()), &case.outline),
        (serde_json::to_string(&document_tree(&path, text).unwrap()), &case.tree),
        (serde_json::to_string(&section_source(&path, text).unwrap()), &case.section_source),
        (serde_json::to_string(&metadata_facets(&path, text).unwrap()), &case.facets),
    ];
    ours.into_iter()
        .map(|(ours, expected)| (ours.unwrap(), expected.to_string()))
        .filter(|(ours, expected)| ours != expected)
        .map(|(ours, expected)| format!("{text:?}\n  ours     {ours}\n  expected {expected}\n"))
        .collect()
}

fn check(file: &str, expected: usize) {
    let cases: Vec<Case> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), expected);
    let differences: Vec<String> = cases.iter().flat_map(differences).collect();
    assert!(differences.is_empty(), "{} of {expected} differ:\n{}", differences.len(), differences.concat());
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
