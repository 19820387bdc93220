//! Which form of an answer a client gets that is known by its name, and that all others get both.

use serde_json::{Value, json};
use stile_testkit::client::Stdio;
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::process::Rig;

use crate::support::request;

const FILE: (&str, &str) = ("text_read", "/a.md");
const NOTE: (&str, &str) = ("get_note_outline", "a.md");

/// What a client is sent: whether tools have an output schema, and which forms answers have.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    schemas: [bool; 2],
    texts: [bool; 2],
    structures: [bool; 2],
}

const BOTH: [bool; 2] = [true, true];
/// Of the tool for a note alone, which gives both forms to everybody.
const OF_NOTES: [bool; 2] = [false, true];

fn rig(folder: &tempfile::TempDir) -> Rig {
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    std::fs::write(rig.root.join("a.md"), "# One\n").unwrap();
    rig
}

fn sent(list: &Value, answers: [&Value; 2]) -> Sent {
    let has_schema = |name: &str| {
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["outputSchema"].is_object()
    };
    Sent {
        schemas: [FILE.0, NOTE.0].map(has_schema),
        texts: answers.map(|answer| !answer["result"]["content"].as_array().unwrap().is_empty()),
        structures: answers.map(|answer| answer["result"]["structuredContent"].is_object()),
    }
}

/// Sends a request of a session, and returns its answer.
fn ask(client: &mut Stdio, method: &str, params: Value) -> Value {
    client.send(request(7, method, params).to_string().as_bytes()).unwrap();
    client.receive().unwrap()
}

fn opened(rig: &Rig, name: &str, version: &str, more: &[&str]) -> Stdio {
    let mut client = rig.stdio(more);
    let opening = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": name, "version": version },
    });
    assert!(ask(&mut client, "initialize", opening)["result"].is_object());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.send(initialized.to_string().as_bytes()).unwrap();
    client
}

fn sent_over_stdio(rig: &Rig, name: &str, version: &str, more: &[&str]) -> Sent {
    let mut client = opened(rig, name, version, more);
    let list = ask(&mut client, "tools/list", json!({}));
    let [file, note] = [FILE, NOTE].map(|(tool, path)| {
        let call = json!({ "name": tool, "arguments": { "path": path } });
        ask(&mut client, "tools/call", call)
    });
    sent(&list, [&file, &note])
}

#[test]
fn a_client_gets_the_form_that_it_shows_of_files_and_both_of_notes() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let both = || Sent { schemas: BOTH, texts: BOTH, structures: BOTH };
    let structured = || Sent { texts: OF_NOTES, ..both() };
    let text = || Sent { schemas: OF_NOTES, structures: OF_NOTES, ..both() };
    for (name, version, more, expected) in [
        ("claude-code", "2.1.332", &[][..], structured()),
        ("claude-code", "2.1.45", &[], both()),
        ("gemini-cli-mcp-client", "0.61.0", &[], text()),
        ("opencode", "1.18.33", &[], text()),
        ("opencode", "1.18.33", &["--answers", "both"], both()),
        ("codex-mcp-client", "0.171.0", &[], both()),
        ("nobody-knows-me", "1", &[], both()),
    ] {
        assert_eq!(
            sent_over_stdio(&rig, name, version, more),
            expected,
            "{name} {version} {more:?}"
        );
    }
}

#[test]
fn a_failure_has_its_text_for_a_client_that_shows_structured_content() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let mut client = opened(&rig, "claude-code", "2.1.332", &[]);
    let call = json!({ "name": "text_read", "arguments": { "path": "/nowhere.md" } });
    let refused = ask(&mut client, "tools/call", call);
    assert_eq!(refused["result"]["isError"], json!(true));
    assert!(refused["result"]["content"][0]["text"].is_string(), "{refused}");
    assert!(refused["result"]["structuredContent"]["error"].is_object(), "{refused}");
}

#[test]
fn over_http_everybody_is_sent_both_forms_outside_of_a_known_session() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let server = rig.serve(&[]);
    let token = rig.token(&["read:/"], &[]);
    for lifecycle in [Lifecycle::Session("2025-11-25"), Lifecycle::Sessionless] {
        let mut peer = Peer::open(&server, &token, lifecycle);
        let list = message_of(&peer.post("tools/list", json!({})).unwrap());
        let [file, note] = [FILE, NOTE].map(|(tool, path)| {
            let call = json!({ "name": tool, "arguments": { "path": path } });
            message_of(&peer.post("tools/call", call).unwrap())
        });
        assert_eq!(
            sent(&list, [&file, &note]),
            Sent { schemas: BOTH, texts: BOTH, structures: BOTH }
        );
    }
}
