//! What a note store answers: no bytes of it are more than a note or no note.
//!
//! An input is the body of an answer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use stile_domain::notes::NotePath;
use stile_domain::notes::portable::PortableNote;
use stile_domain::notes::{MAX_ANSWER_BYTES, MAX_FACET_CHARS, MAX_TEXT_CHARS};
use stile_domain::notes::{document_tree, metadata_facets, note_outline, section_source};

fuzz_target!(|input: &[u8]| {
    let whole = serde_json::from_slice::<Value>(input).ok();
    let Ok(note) = PortableNote::parse(input) else {
        // Nothing that has a body and whose front matter may be one is refused, but for names that
        // come twice and for the list of a struct's fields, which JSON's reader takes for one.
        let refused = whole.filter(Value::is_object).is_none_or(|whole| {
            let front = &whole["frontmatter"];
            !whole["body"].is_string()
                || front.is_number()
                || front.is_boolean()
                || front.is_array()
                || twice(input)
        });
        assert!(refused, "{}", String::from_utf8_lossy(input));
        return;
    };
    let path = NotePath::parse("inbox/one.md").expect("a path");
    let note = note.as_note();
    let outline =
        serde_json::to_value(note_outline(&path, note).expect("a small note")).expect("JSON");
    let facets =
        serde_json::to_value(metadata_facets(&path, note).expect("a small note")).expect("JSON");
    let tree =
        serde_json::to_value(document_tree(&path, note).expect("a small note")).expect("JSON");
    let sections =
        serde_json::to_value(section_source(&path, note).expect("a small note")).expect("JSON");
    for answer in [&outline, &facets, &tree, &sections] {
        assert!(answer.to_string().len() <= MAX_ANSWER_BYTES);
        // Never what the store calls it.
        assert_eq!(answer["path"], "inbox/one.md");
    }
    assert!(outline["title"].as_str().is_none_or(|title| title.chars().count() <= MAX_TEXT_CHARS));
    assert!(
        facets["facets"]["project"]
            .as_str()
            .is_none_or(|text| text.chars().count() <= MAX_FACET_CHARS)
    );
});

/// Whether `body` or `frontmatter` may be there twice, in any spelling.
fn twice(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    text.contains("\\u")
        || ["body", "frontmatter"].iter().any(|name| text.matches(name).count() > 1)
}
