//! Checks that every answer passes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Called;
use serde_json::Value as Json;
use stile_domain::records::record_id::RecordId;
use stile_ladder::RECORD_TOOLS;
use stile_ladder::budget::MAX_ID_EXCESS;
use stile_records::operations::OPERATIONS;
use stile_tools::tool::ToolEntry;
use stile_tools::toolset::{ResourceBody, ResourceContent};

use super::lines::{self, Next};

const STRUCTURED: usize = 64 * 1024;
const PREVIEW_CHARS: usize = 512;
/// From this length on, in bytes, an identifier may make a text longer.
const OVERLONG_ID: usize = 1000;

/// The parameters of `/v1` that no tool has as an argument, but for `count`, which is a metric too.
static WORDS_OF_V1: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let inputs: Vec<_> = RECORD_TOOLS.iter().map(|tool| tool.definition().input).collect();
    let is_argument =
        |name: &str| inputs.iter().any(|input| input["properties"].get(name).is_some());
    let parameters = OPERATIONS.iter().flat_map(|operation| operation.parameters);
    parameters
        .map(|parameter| parameter.name)
        .filter(|name| *name != "count" && !is_argument(name))
        .collect()
});

/// The advertised output schemas by tool.
static SCHEMAS: LazyLock<BTreeMap<&'static str, Json>> = LazyLock::new(|| {
    RECORD_TOOLS
        .iter()
        .map(ToolEntry::definition)
        .map(|tool| (tool.name, (tool.output)().into()))
        .collect()
});

/// Checks the answer of a tool.
pub(super) fn answer(tool: &str, arguments: &Json, answer: &Called) {
    let Called { text, structured, failure, .. } = answer;
    let fits = stile_testkit::schema::check(&SCHEMAS[tool], structured);
    assert_eq!(fits, Ok(()), "{tool} {arguments}: {structured}");
    let size = structured.to_string().len();
    assert!(size <= STRUCTURED, "{tool} {arguments}: {size} bytes of structure");
    assert_eq!(failure.is_some(), structured.get("error").is_some());
    if failure.is_some() {
        assert!(text.len() <= 8192, "{tool}: {} bytes of an error", text.len());
        assert_eq!(serde_json::from_str::<Json>(text).unwrap(), *structured);
        let message = structured["error"]["message"].as_str().unwrap_or_default();
        // A wrong argument of the caller is named by the caller's own word.
        let is_told = |part: &&str| WORDS_OF_V1.contains(part) && arguments.get(*part).is_none();
        let of_v1 = message.split('`').find(is_told);
        assert_eq!(of_v1, None, "{tool} {arguments}: {message}");
        assert!(!message.contains("/v1"), "{tool} {arguments}: {message}");
        return;
    }
    let in_proportion = 4 * Json::from(text.as_str()).to_string().len() + 2048;
    assert!(
        size <= in_proportion,
        "{tool} {arguments}: {size} bytes of structure for {} of text",
        text.len(),
    );
    match text_budget(tool, arguments, text) {
        Some(most) => {
            assert!(text.len() <= most, "{tool} {arguments}: {} bytes of text: {text}", text.len())
        }
        None => assert_eq!(tool, "read_record_field"),
    }
    names_of(tool, structured);
    previews(tool, structured);
    match tool {
        "read_record_field" => {
            let window = lines::window(text);
            assert_eq!(window.text, structured["window"]["text"], "{arguments}");
            assert_eq!(window.header["id"], structured["record"]["id"]);
            assert_eq!(window.header["field_path"], structured["field"]["path"]);
        }
        "fetch" => document(text),
        _ => {
            let plain =
                lines::of(text).filter(|line| !line.starts_with("next:")).map(without_names);
            plain.for_each(|line| no_bytes(&line));
        }
    }
    if tool != "read_record_field" {
        for line in lines::of(text).filter(|line| line.starts_with("next:")) {
            assert!(Next::parse(line).is_some(), "{tool}: {line}");
        }
        if structured["metadata"]["encoding"].is_null() {
            no_bytes_in(structured, false);
        }
    }
    for link in &answer.links {
        assert!(link.uri.starts_with("pdpp://") && link.uri.len() < 8192, "{}", link.uri);
    }
}

/// Checks the content of a resource.
pub(super) fn content(content: &ResourceContent) {
    match &content.body {
        ResourceBody::Text(text)
            if content.mime_type == "application/json" && text.starts_with("{\"id\":") =>
        {
            assert!(text.len() <= 16_384, "{}", text.len());
            if serde_json::from_str::<Json>(text).is_ok_and(|json| json["metadata"].is_object()) {
                document(text);
            }
        }
        ResourceBody::Text(text) => assert!(text.chars().count() <= 16_384),
        ResourceBody::Base64(base64) => assert!(base64.len() <= (64 * 1024_usize).div_ceil(3) * 4),
    }
    assert!(Json::Object(content.meta.clone()).to_string().len() <= STRUCTURED);
}

/// Checks the text of `fetch`: one document.
fn document(text: &str) {
    let document: Json = serde_json::from_str(text).unwrap();
    name(&document["id"]);
    for step in document["next"].as_array().into_iter().flatten() {
        assert!(step["read"]["tool"].is_string(), "{step}");
        name(&step["read"]["args"]["id"]);
    }
    // Who reads the bytes of a field gets them.
    if document["metadata"]["encoding"].is_null() {
        no_bytes_in(&document, false);
    }
}

/// Returns the most bytes of a text; `None` for a window, whose length its limit bounds.
fn text_budget(tool: &str, arguments: &Json, text: &str) -> Option<usize> {
    match tool {
        "search" | "query_records" => {
            let shown = text
                .lines()
                .find_map(|line| line.split(' ').find_map(|word| word.split_once("id=")));
            let least = if arguments["changes_since"].is_string() { 500 } else { OVERLONG_ID };
            let overlong = shown.is_some_and(|(_, id)| id.len() > least);
            let budget = if arguments["detail"] == "list" { 16_384 } else { 1800 };
            Some(budget + if overlong { MAX_ID_EXCESS } else { 0 })
        }
        "fetch" => Some(16_384),
        "schema" | "aggregate" => Some(8192),
        _ => None,
    }
}

/// Checks that an identifier names a record and has its canonical spelling, or is an address.
fn name(id: &Json) {
    let id = id.as_str().unwrap_or_else(|| panic!("no identifier: {id}"));
    if id.starts_with("pdpp://field-window/") {
        return;
    }
    assert_eq!(RecordId::parse(id).unwrap().to_string(), id);
}

fn names_of(tool: &str, structured: &Json) {
    let each = |list: &Json| list.as_array().cloned().unwrap_or_default();
    match tool {
        "search" => each(&structured["results"]).iter().for_each(|hit| name(&hit["id"])),
        "query_records" => {
            each(&structured["data"]["data"]).iter().for_each(|row| name(&row["id"]))
        }
        "fetch" => name(&structured["id"]),
        "read_record_field" => name(&structured["record"]["id"]),
        _ => {}
    }
    let ladder = &structured["content_ladder"];
    for entry in each(&ladder["entries"]).iter().chain(&each(&ladder["more_fields"])) {
        name(&entry["id"]);
        name(&entry["read"]["args"]["id"]);
        assert!(entry["resource"]["uri"].is_string(), "{entry}");
    }
}

/// Checks the length of previews.
fn previews(tool: &str, structured: &Json) {
    let short = |value: &Json| {
        let chars = value
            .as_str()
            .map_or_else(|| value.to_string().chars().count(), |text| text.chars().count());
        assert!(chars <= PREVIEW_CHARS, "{tool}: a preview of {chars} characters");
    };
    let fields = |fields: &Json| {
        fields.as_object().into_iter().flatten().for_each(|(_, value)| short(value))
    };
    let each = |list: &Json| list.as_array().cloned().unwrap_or_default();
    match tool {
        "query_records" => {
            each(&structured["data"]["data"]).iter().for_each(|row| fields(&row["data"]))
        }
        "search" => {
            for hit in each(&structured["results"]) {
                short(&hit["snippet"]);
                each(&hit["match_windows"])
                    .iter()
                    .for_each(|window| short(&window["preview_text"]));
            }
        }
        "fetch" if !structured["metadata"]["encoding"].is_null() => {}
        "fetch" => match structured["metadata"].get("fields") {
            Some(others) => fields(others),
            None => fields(&serde_json::from_str(structured["text"].as_str().unwrap()).unwrap()),
        },
        _ => {}
    }
}

/// Removes identifiers and cursors, which are never truncated, from a line.
fn without_names(line: &str) -> String {
    let kept = line
        .split(' ')
        .filter(|word| !word.contains("id=") && !word.starts_with("next_changes_since="));
    kept.collect::<Vec<_>>().join(" ")
}

/// Members that are names or sealed, unless they are fields of a record.
const NAMES: [&str; 12] = [
    "id", "url", "uri", "record_id", "cursor", "next_cursor", "next_changes_since", "field_path",
    "path", "resource", "read", "more_fields",
];

/// Checks that a structure has no base64. `of_record` says whether its members are fields of a
/// record.
fn no_bytes_in(value: &Json, of_record: bool) {
    match value {
        Json::String(text) => no_bytes(text),
        Json::Array(items) => items.iter().for_each(|item| no_bytes_in(item, of_record)),
        Json::Object(members) => {
            for (name, value) in members {
                let is_row = members.contains_key("object") && name == "data" && value.is_object();
                if of_record || !NAMES.contains(&name.as_str()) {
                    no_bytes_in(value, of_record || is_row || name == "fields");
                }
            }
        }
        _ => {}
    }
}

/// Checks that a text has no long run of base64, with escaped line ends or without.
fn no_bytes(text: &str) {
    let is_of_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let is_mixed = |run: &str| {
        let kinds = run.bytes().collect::<std::collections::BTreeSet<u8>>().len();
        let has = |of: fn(&u8) -> bool| run.as_bytes().iter().any(of);
        let has_cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
        kinds >= 16 && has_cases && has(u8::is_ascii_digit)
    };
    let mut text = text.to_owned();
    while text.contains("\\\\") {
        text = text.replace("\\\\", "\\");
    }
    let text = text.replace("\\/", "/").replace("\\r", "").replace("\\n", "\n").replace('\r', "");
    for run in text.split(|c: char| !is_of_base64(c) && c != '\n') {
        let lines: Vec<&str> = run.split('\n').collect();
        lines.iter().for_each(|line| assert!(line.len() < 256 || !is_mixed(line), "bytes: {line}"));
        for wrapped in lines.chunk_by(|one, other| one.len() == other.len()) {
            let is_line = |line: &&str| line.len() >= 40 && is_mixed(line);
            let letters = wrapped.iter().map(|line| line.len()).sum::<usize>();
            assert!(letters < 256 || !wrapped.iter().all(is_line), "bytes in lines: {wrapped:?}");
        }
    }
}
