//! What clients are told about the tools, and what some clients cannot take.

use serde_json::Value;
use stile_domain::tool_name::{Spelling, is_dotted_name};
use stile_tools::toolset::Toolset as _;

fn walk(value: &Value, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(object) => {
            for (keyword, value) in object {
                see(keyword, value);
                walk(value, see);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        _ => {}
    }
}

#[test]
fn schemas_are_flat_closed_and_plain() {
    for tool in crate::definitions() {
        let input = tool.input.clone();
        assert_eq!(input.get("additionalProperties"), Some(&Value::Bool(false)), "{}", tool.name);
        for keyword in ["oneOf", "anyOf", "allOf"] {
            assert!(!input.contains_key(keyword), "{}", tool.name);
        }
        for schema in [input.clone(), (tool.output)()] {
            walk(&schema.into(), &mut |keyword, value| {
                // A note has a `title` and a file a `type`, which are properties and then schemas.
                let is_keyword = !(["title", "type"].contains(&keyword) && value.is_object());
                assert!(
                    !is_keyword
                        || !["$ref", "$defs", "$schema", "format", "title", "nullable"]
                            .contains(&keyword),
                    "{}: {keyword}",
                    tool.name
                );
                assert!(
                    !is_keyword || keyword != "type" || value.is_string(),
                    "{}: a union of types",
                    tool.name
                );
            });
        }
        for (name, property) in input.get("properties").and_then(Value::as_object).unwrap() {
            assert!(property.get("description").is_some(), "{}.{name} is not described", tool.name);
        }
        assert!(tool.description.len() > 60, "{}", tool.name);
        assert_eq!((tool.output)().get("type"), Some(&Value::from("object")));
    }
}

#[test]
fn clients_accept_the_names_of_all_tools() {
    for tool in crate::definitions() {
        assert!(
            tool.name.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_')),
            "{}",
            tool.name
        );
        let other = Spelling::Underscored.name(tool.name);
        assert_eq!(crate::Rig::new().tools.find(&other), Some(tool.name));
        assert_eq!(is_dotted_name(tool.name), tool.name.contains('.'), "{}", tool.name);
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        assert!(other.len() <= 64 && other.bytes().all(is_taken), "{other}");
    }
}

#[test]
fn hints_follow_from_permits() {
    let readers: Vec<_> =
        crate::definitions().iter().filter(|tool| tool.read_only).map(|tool| tool.name).collect();
    let notes =
        ["get_note_outline", "get_document_tree", "get_metadata_facets", "get_section_source"];
    let files = [
        "file.list", "file.find", "file.search", "text.search", "file.read", "text.read",
        "text.gather", "note.find", "note.links", "note.tags",
    ];
    assert_eq!(readers, [&files[..], &notes].concat());
    assert!(crate::definitions().iter().all(|tool| !(tool.read_only && tool.destructive)));
}
