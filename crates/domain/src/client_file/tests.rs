//! Tests of the editors: each keeps every byte of the text but those of the entry.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SERVERS: &[&str] = &["mcpServers", "stile"];

fn entry() -> Value {
    json!({ "url": "http://127.0.0.1:9999/mcp", "headers": { "Authorization": "Bearer t" } })
}

/// Adds the entry, checks that a second time changes nothing, removes it again, and returns the
/// text with the entry. The last text must be the first.
fn there_and_back(format: FileFormat, text: &str, path: &[&str]) -> String {
    let with = set(format, text, path, &entry()).unwrap();
    assert_eq!(find(format, &with, path).unwrap(), Some(entry()));
    assert_eq!(set(format, &with, path, &entry()).unwrap(), with);
    let other = json!({ "command": "stile", "args": ["stdio", "/a b"] });
    let replaced = set(format, &with, path, &other).unwrap();
    assert_eq!(find(format, &replaced, path).unwrap(), Some(other));
    assert_eq!(set(format, &replaced, path, &entry()).unwrap(), with, "replaced and put back");
    assert_eq!(remove(format, &with, path).unwrap(), text);
    with
}

#[test]
fn an_entry_is_added_to_json_with_comments() {
    let text = "// Mine.\n{\n\t\"theme\": \"dark\", // keep\n\t\"mcpServers\": {\n\t\t/* the first */\n\
                \t\t\"git\": { \"command\": \"g\" } // behind\n\t},\n}\n";
    insta::assert_snapshot!(there_and_back(FileFormat::Json, text, SERVERS), @r#"
    // Mine.
    {
    	"theme": "dark", // keep
    	"mcpServers": {
    		/* the first */
    		"git": { "command": "g" }, // behind
    		"stile": {
    			"url": "http://127.0.0.1:9999/mcp",
    			"headers": {
    				"Authorization": "Bearer t"
    			}
    		}
    	},
    }
    "#);
}

#[test]
fn json_files_of_every_form_get_their_bytes_back() {
    for text in [
        "{\"mcpServers\":{\"a\":{\"url\":\"u\"}}}",
        "{\r\n  \"mcpServers\": {\r\n    \"a\": 1\r\n  }\r\n}\r\n",
        "{\n    \"mcpServers\": {\n        \"a\": 1,\n    },\n    \"b\": [1, 2,],\n}",
        "\u{feff}{\n  \"mcpServers\": {\n    \"a\": \"\\\"}//\"\n  }\n}\n",
        "{ \"mcpServers\": { \"a\": 1 /* } */\n } }\n",
        "{\n  \"mcpServers\": { \"a\": 1 }, // one line\n}\n",
        "{\n  \"mcpServers\": { \"a\": 1, }\n}\n",
    ] {
        there_and_back(FileFormat::Json, text, SERVERS);
    }
}

#[test]
fn a_missing_table_is_made() {
    for text in [
        "", "{}", "{\n}\n", "{\n  \"a\": 1\n}\n", "{\"a\":1}", "{ \"a\": 1 }\n",
        "{ // nothing\n}\n", "{\n  \"mcpServers\": {}\n}\n", "{\"mcpServers\":{}}",
    ] {
        let with = set(FileFormat::Json, text, SERVERS, &entry()).unwrap();
        assert_eq!(find(FileFormat::Json, &with, SERVERS).unwrap(), Some(entry()), "{with}");
        let without = remove(FileFormat::Json, &with, SERVERS).unwrap();
        assert_eq!(find(FileFormat::Json, &without, &["mcpServers"]).unwrap(), Some(json!({})));
    }
    insta::assert_snapshot!(set(FileFormat::Json, "{\"a\":1}", SERVERS, &json!({"b": 2})).unwrap(),
        @r#"{"a":1,"mcpServers":{"stile":{"b":2}}}"#);
}

#[test]
fn the_first_and_a_middle_entry_are_removed_alone() {
    for (text, without) in [
        ("{\n  \"stile\": 1,\n  \"a\": 2\n}", "{\n  \"a\": 2\n}"),
        (
            "{\n  \"a\": 2,\n  // why\n  \"stile\": 1,\n  \"b\": 3\n}",
            "{\n  \"a\": 2,\n  // why\n  \"b\": 3\n}",
        ),
        ("{\"a\":2,\"stile\":1}", "{\"a\":2}"),
    ] {
        assert_eq!(remove(FileFormat::Json, text, &["stile"]).unwrap(), without);
    }
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    for (format, text, line) in [
        (FileFormat::Json, "{\n  \"a\": 1\n  \"b\": 2\n}", 3),
        (FileFormat::Json, "{\n\"a\": [1, 2\n", 3),
        (FileFormat::Json, "{\n\"a\": /* open", 2),
        (FileFormat::Json, "{} {}", 1),
        (FileFormat::Json, "{\"a\": tru}", 1),
        (FileFormat::Toml, "a = 1\nb = \n", 2),
        (FileFormat::Yaml, "a: 1\nb: [1\n", 2),
    ] {
        let error = set(format, text, SERVERS, &entry()).unwrap_err();
        let Syntax { line: found, .. } = error else { panic!("{text}: {error}") };
        assert_eq!(found, line, "{text}");
    }
    use CannotEdit::Syntax;
    let error = set(FileFormat::Json, "{\"mcpServers\": []}", SERVERS, &entry()).unwrap_err();
    assert_eq!(error, CannotEdit::NotATable { name: "mcpServers".to_owned() });
    let error = set(FileFormat::Json, "{\"a\": 1, \"a\": 2}", SERVERS, &entry()).unwrap_err();
    assert_eq!(error, CannotEdit::Twice { name: "a".to_owned() });
    let deep = "[".repeat(5000);
    assert!(set(FileFormat::Json, &deep, SERVERS, &entry()).is_err());
}

#[test]
fn an_entry_is_a_table_of_its_own_in_toml() {
    let text = "# Mine.\nmodel = \"o\" # keep\n\n[mcp_servers.git]\ncommand = \"g\"\n\n\
                [mcp_servers.git.env]\nA = \"1\"\n";
    let path = &["mcp_servers", "stile"];
    insta::assert_snapshot!(there_and_back(FileFormat::Toml, text, path), @r#"
    # Mine.
    model = "o" # keep

    [mcp_servers.git]
    command = "g"

    [mcp_servers.git.env]
    A = "1"

    [mcp_servers.stile]
    url = "http://127.0.0.1:9999/mcp"
    headers = { Authorization = "Bearer t" }
    "#);
    there_and_back(FileFormat::Toml, "", path);
    there_and_back(FileFormat::Toml, "a = 1\r\n", path);
    let between = "[mcp_servers.stile]\nurl = \"u\"\n# of the next\n[other]\na = 1\n";
    let removed = remove(FileFormat::Toml, between, path).unwrap();
    assert_eq!(removed, "# of the next\n[other]\na = 1\n");
    // A table in one line cannot be added to by a header.
    let inline = "mcp_servers = { git = { command = \"g\" } }\n";
    assert_eq!(set(FileFormat::Toml, inline, path, &entry()), Err(CannotEdit::NotAlone));
    // A header inside a multi-line text does not begin a table.
    let text = "a = \"\"\"\n[mcp_servers.stile]\n\"\"\"\n";
    there_and_back_or_refused(FileFormat::Toml, text, path);
}

fn there_and_back_or_refused(format: FileFormat, text: &str, path: &[&str]) {
    match set(format, text, path, &entry()) {
        Ok(with) => assert_eq!(find(format, &with, path).unwrap(), Some(entry())),
        Err(error) => assert_eq!(error, CannotEdit::NotAlone),
    }
}

#[test]
fn an_entry_is_an_indented_block_in_yaml() {
    let text = "# Mine.\nGOOSE_MODE: auto # keep\nextensions:\n    developer:\n        \
                enabled: true\n        type: builtin\n\n# next\nOTHER: 1\n";
    let path = &["extensions", "stile"];
    insta::assert_snapshot!(there_and_back(FileFormat::Yaml, text, path), @r#"
    # Mine.
    GOOSE_MODE: auto # keep
    extensions:
        developer:
            enabled: true
            type: builtin
        stile:
          url: "http://127.0.0.1:9999/mcp"
          headers:
            Authorization: "Bearer t"

    # next
    OTHER: 1
    "#);
    there_and_back(FileFormat::Yaml, "", path);
    there_and_back(FileFormat::Yaml, "A: 1\n", path);
    there_and_back(FileFormat::Yaml, "extensions:\n  a:\n    b: 1\n", path);
    for refused in ["extensions: {}\n", "extensions: {a: {b: 1}}\n", "extensions: [1]\n"] {
        assert!(set(FileFormat::Yaml, refused, path, &entry()).is_err(), "{refused}");
    }
    for odd in [
        "a: |\n  extensions:\n    x: 1\nextensions:\n  y:\n    z: |\n      stile:\n",
        "---\nextensions:\n  a: &x\n    b: 1\n  c: *x\n",
        "A: 1\n...\n",
    ] {
        there_and_back_or_refused(FileFormat::Yaml, odd, path);
    }
}

/// Random JSON with comments, as text, of which `mcpServers` may be a part.
fn document() -> impl Strategy<Value = String> {
    let blank = prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("\n\t".to_owned()),
        Just(" /* } \" */ ".to_owned()),
        Just("// ], é\n".to_owned()),
        Just("\r\n  ".to_owned()),
    ];
    let scalar = prop_oneof![
        Just("1".to_owned()),
        Just("-2.5e3".to_owned()),
        Just("null".to_owned()),
        Just("\"a\\\"b\\\\\"".to_owned()),
        Just("\"// é }\"".to_owned()),
        Just("true".to_owned()),
    ];
    let value = scalar.prop_recursive(3, 24, 4, |inner| {
        let member = ("[a-e]", inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec(member, 0..4).prop_map(|members| {
                let texts: Vec<String> =
                    members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", texts.join(",\n  "))
            }),
        ]
    });
    let members = prop::collection::vec(("[a-d]|mcpServers|stile", value, blank.clone()), 0..5);
    (members, blank.clone(), blank, any::<bool>()).prop_map(|(members, before, after, comma)| {
        let texts: Vec<String> = members
            .iter()
            .map(|(key, value, blank)| format!("{blank}\"{key}\"{blank}:{value}{blank}"))
            .collect();
        let comma = if comma && !texts.is_empty() { "," } else { "" };
        format!("{before}{{{}{comma}{after}}}{after}", texts.join(","))
    })
}

/// Returns whether all characters of `part` occur in `whole` in their order.
fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut whole = whole.chars();
    part.chars().all(|wanted| whole.any(|c| c == wanted))
}

proptest! {
    #[test]
    fn adding_and_removing_keeps_every_other_byte(text in document()) {
        for path in [&["stile"][..], SERVERS, &["a", "b", "stile"]] {
            let Ok(before) = find(FileFormat::Json, &text, path) else { continue };
            let Ok(with) = set(FileFormat::Json, &text, path, &entry()) else { continue };
            prop_assert_eq!(find(FileFormat::Json, &with, path).unwrap(), Some(entry()));
            if before.is_none() {
                prop_assert!(is_subsequence(&text, &with), "{} became {}", text, with);
                let without = remove(FileFormat::Json, &with, path).unwrap();
                let had_siblings = find(FileFormat::Json, &text, &path[..path.len() - 1])
                    .unwrap()
                    .is_some_and(|table| table.as_object().is_some_and(|table| !table.is_empty()));
                if had_siblings {
                    prop_assert_eq!(&without, &text);
                }
            }
        }
    }

    #[test]
    fn no_text_makes_an_editor_fail_otherwise_than_by_a_refusal(text in "[\\[\\]{}:,\"a\\\\ \n#/*='\\-|&]{0,40}") {
        for format in [FileFormat::Json, FileFormat::Toml, FileFormat::Yaml] {
            let path = &["a", "aa"];
            if let Ok(with) = set(format, &text, path, &entry()) {
                prop_assert_eq!(find(format, &with, path).unwrap(), Some(entry()));
                if let Ok(without) = remove(format, &with, path) {
                    prop_assert_eq!(find(format, &without, path).unwrap(), None);
                }
            }
        }
    }
}
