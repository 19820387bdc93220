//! Arguments of every wrong shape, for every tool: each refusal names the argument.

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;

use crate::{Called, Rig};

const ALL: &str = "write:/";

fn code(answer: &Called) -> &str {
    answer.structured.pointer("/error/code").and_then(Value::as_str).unwrap_or("ok")
}

/// Returns a value that fits a schema.
fn sample(schema: &Value) -> Value {
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("string") if schema.get("pattern").is_some() => {
            ContentHash::digest(b"x").to_string().into()
        }
        Some("string") => "a.md".into(),
        Some("integer") => 1.into(),
        Some("boolean") => true.into(),
        Some("array") if schema["items"]["type"] == "integer" => json!([1, 2]),
        Some("array") => json!([sample(&schema["items"])]),
        Some("object") => with_required(schema),
        // A value of several types.
        _ => "a".into(),
    }
}

/// Returns an object with the members that a schema requires.
fn with_required(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let members = required.map(|name| {
        let name = name.as_str().unwrap();
        (name.to_owned(), sample(&schema["properties"][name]))
    });
    Value::Object(members.collect())
}

/// Returns what is wrong for most schemas: a value of each type, and one that nearly fits. Few,
/// since each call writes a line of the journal.
fn wrong_values() -> [Value; 6] {
    [json!(true), json!(-7), json!("../x.md"), json!([1]), json!([{ "old": 1 }]), json!({ "x": 1 })]
}

/// Returns the arguments of a schema one by one, and the members of each, with pointers to them.
fn places(schema: &Value, name: &str, pointer: &str, found: &mut Vec<(String, String)>) {
    for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
        let name = if name.is_empty() { property.clone() } else { format!("{name}.{property}") };
        let pointer = format!("{pointer}/{property}");
        found.push((name.clone(), pointer.clone()));
        places(schema, &name, &pointer, found);
        if schema["items"]["properties"].is_object() {
            places(&schema["items"], &format!("{name}[0]"), &format!("{pointer}/0"), found);
        }
    }
}

#[tokio::test]
async fn every_refusal_of_an_argument_names_it() {
    let rig = Rig::new();
    let mut refused = 0;
    for tool in crate::definitions() {
        // The contract of the note tools fixes two messages for all wrong arguments.
        if !tool.name.contains('.') {
            continue;
        }
        let schema = Value::Object(tool.input.clone());
        let mut found = Vec::new();
        places(&schema, "", "", &mut found);
        for (name, pointer) in found {
            for wrong in wrong_values() {
                let mut arguments = with_required(&schema);
                if tool.name == "note.find" {
                    // One of three arguments must be given.
                    arguments["tag"] = "a".into();
                }
                let top = name.split(['.', '[']).next().unwrap();
                arguments[top] = sample(&schema["properties"][top]);
                let (parent, member) = pointer.rsplit_once('/').unwrap();
                arguments.pointer_mut(parent).unwrap()[member] = wrong.clone();
                // What fits is refused for its scope, so that nothing is done.
                let answer = rig.call("read:/none/", tool.name, arguments).await;
                let is_told = ["invalid_argument", "invalid_path"].contains(&code(&answer));
                refused += usize::from(is_told);
                let shown = wrong.to_string().chars().take(40).collect::<String>();
                assert!(
                    !is_told || answer.text.contains(&format!("`{name}")),
                    "{} {name} {shown}: {}",
                    tool.name,
                    answer.text
                );
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

#[tokio::test]
async fn a_wrong_name_and_the_right_one_are_named() {
    let rig = Rig::new();
    let edits = |edits: Value| {
        ("text.edit", json!({ "path": "a", "hash": ContentHash::digest(b""), "edits": edits }))
    };
    let moved = |to: &str| {
        ("file.move", json!({ "path": "a", "hash": ContentHash::digest(b""), "to": to }))
    };
    let found = |property: Value| ("note.find", json!({ "property": property }));
    let mut texts = Vec::new();
    for (tool, arguments) in [
        edits(json!([{ "old_string": "one", "new_string": "1" }])),
        edits(json!([{ "oldText": "one", "newText": "1" }])),
        edits(json!([{ "search": "one", "replace": "1" }])),
        edits(json!([{ "old": "one", "new": "1", "replace_all": true }])),
        edits(json!([{ "old": "one", "new": "1" }, { "old": "one" }])),
        edits(json!([{ "old": "one", "new": null }])),
        edits(json!([{ "old": "one", "new": "1", "lines": "1-2" }])),
        edits(json!([{ "old": "one", "new": "1", "all": "true" }])),
        edits(json!([{ "old": "one", "new": "1", "xyz": "true" }])),
        edits(json!([{ "lines": [1, 2], "content": "1" }])),
        edits(json!([{ "old": "one", "new": "1", "a whole sentence": "true" }])),
        edits(json!([{ "old": "one", "new": "1", "x".repeat(33): "true" }])),
        edits(json!({ "old": "one", "new": "1" })),
        edits(json!("[{\"old\":\"one\",\"new\":\"1\"}]")),
        edits(json!(["one"])),
        moved("../x.md"),
        moved("b\\c.md"),
        moved("Q: what.md"),
        moved("x/"),
        moved(""),
        found(json!({ "name": "prio", "value": 1 })),
        found(json!("status")),
        found(json!({ "status": "x" })),
        ("text.read", json!({ "file_path": "a" })),
        ("text.read", json!({ "path": "a", "filePath": "b" })),
    ] {
        let answer = rig.call(ALL, tool, arguments).await;
        texts.push(format!("{} {}", code(&answer), answer.text));
    }
    insta::assert_snapshot!(texts.join("\n"));
}
