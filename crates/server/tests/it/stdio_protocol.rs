//! MCP over a pair of pipes.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stile_server::mcp::handler::CallerSource;
use stile_server::mcp::presentation::Presentation;
use stile_server::service::Service;
use stile_server::stdio::{self, MAX_LINE_BYTES};
use stile_tools::toolset::Caller;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{
    Ground, PATIENCE, call, end_waits, initialize, meta, principal, request, waits_began,
};

struct Pipes {
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    served: JoinHandle<std::io::Result<()>>,
    _ground: Ground,
}

impl Pipes {
    fn start(scopes: &str) -> Self {
        let (their_input, input) = std::io::pipe().unwrap();
        let (output, their_output) = std::io::pipe().unwrap();
        let their_output =
            tokio::net::unix::pipe::Sender::from_owned_fd(their_output.into()).unwrap();
        let ground = Ground::new();
        let tools = ground.tools.clone();
        let caller = CallerSource::Fixed(Box::new(Caller::local(principal("local", None, scopes))));
        let served = tokio::spawn(stdio::serve_on(
            their_input,
            their_output,
            Service::of_space(tools),
            caller,
            Presentation::default(),
        ));
        Self { input: Some(input), output: BufReader::new(output), served, _ground: ground }
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, text: &str) {
        writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        tokio::task::block_in_place(|| self.output.read_line(&mut line)).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}"))
    }

    /// Asks, and returns the answer as it was written.
    fn ask_text(&mut self, message: &Value) -> String {
        self.send(message);
        let mut line = String::new();
        tokio::task::block_in_place(|| self.output.read_line(&mut line)).unwrap();
        line
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }

    fn open(&mut self) {
        assert!(self.ask(&initialize("2025-11-25", "test"))["result"].is_object());
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Ends the input and waits for the server to end; returns what else it said.
    async fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        timeout(PATIENCE, self.served).await.expect("the server goes on").unwrap().unwrap();
        self.output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_works_longer_than_a_second_tells_its_progress() {
    let mut pipes = Pipes::start("read:/");
    pipes.open();
    let mut body = call(1, "test.sleeps", json!({ "milliseconds": 2300 }));
    body["params"]["_meta"] = json!({ "progressToken": "t" });
    let mut told = Vec::new();
    let mut message = pipes.ask(&body);
    while message["method"] == "notifications/progress" {
        assert_eq!(message["params"]["progressToken"], "t");
        told.push(message["params"]["progress"].as_f64().unwrap());
        message = pipes.receive();
    }
    assert_eq!(message["result"]["structuredContent"]["done"], true, "{message}");
    assert!(told.len() >= 2 && told.is_sorted_by(|a, b| a < b), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn optional_members_that_are_null_are_as_if_absent_and_an_older_revision_gets_2025_06_18() {
    let mut pipes = Pipes::start("read:/");
    let client = json!({ "name": "x", "version": "1" });
    let params =
        json!({ "protocolVersion": "2024-11-05", "capabilities": null, "clientInfo": client });
    let opened = pipes.ask(&request(1, "initialize", params));
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18", "{opened}");
    let listed = pipes.ask(&request(2, "tools/list", json!({ "cursor": null })));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let refused = pipes.ask(&request(3, "initialize", json!({})));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_and_ends_with_its_input() {
    let mut pipes = Pipes::start("write:/");
    pipes.open();
    let created = pipes.ask(&call(1, "file.create", json!({ "path": "/a.md", "content": "x" })));
    assert_eq!(created["result"]["structuredContent"]["path"], "/a.md");
    let tools = pipes.ask(&request(2, "tools/list", json!({})));
    assert_eq!(tools["result"]["tools"][0]["name"], "file_append");
    assert_eq!(pipes.end().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_on_stdio_may_be_sessionless() {
    let mut pipes = Pipes::start("read:/");
    let discovered = pipes.ask(&request(1, "server/discover", json!({ "_meta": meta() })));
    assert_eq!(discovered["result"]["supportedVersions"][2], "2026-07-28");
    let tools = pipes.ask(&request(2, "tools/list", json!({ "_meta": meta() })));
    assert_eq!(tools["result"]["cacheScope"], "private");
    assert_eq!(tools["result"]["resultType"], "complete");
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_outside_the_scopes_is_a_tool_error() {
    let mut pipes = Pipes::start("read:/work/");
    pipes.open();
    let refused = pipes.ask(&call(1, "text.read", json!({ "path": "/private.md" })));
    assert_eq!(refused["result"]["isError"], true);
    assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "insufficient_scope");
    let refused = pipes.ask(&request(2, "resources/read", json!({ "uri": "list:///private" })));
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(refused["error"]["data"]["code"], "insufficient_scope");
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_not_messages_are_answered_and_the_session_continues() {
    let mut pipes = Pipes::start("read:/");
    for opened in [false, true] {
        for (line, code, id) in [
            ("{", -32700, Value::Null),
            ("nonsense", -32700, Value::Null),
            ("[]", -32600, Value::Null),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}"#, -32600, Value::Null),
            (r#"{"jsonrpc":"2.0","id":3}"#, -32600, json!(3)),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}"#, -32602, json!("a")),
        ] {
            pipes.send_text(line);
            let answer = pipes.receive();
            assert_eq!(answer["error"]["code"], code, "{line} {answer}");
            assert_eq!(answer.get("id").cloned().unwrap_or_default(), id, "{line}");
            assert!(answer.get("id").is_none_or(|id| !id.is_null()));
        }
        pipes.send_text("");
        pipes.send_text("  \r");
        if !opened {
            pipes.open();
        }
    }
    assert_eq!(pipes.ask(&request(9, "ping", json!({})))["id"], 9);
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_or_an_answer_that_comes_first_is_ignored() {
    let mut pipes = Pipes::start("read:/");
    pipes.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    pipes.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(pipes.ask(&request(1, "ping", json!({})))["result"], json!({}));
    assert_eq!(pipes.ask(&request(2, "tools/list", json!({})))["error"]["code"], -32602);
    pipes.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } }));
    let mut unknown = meta();
    unknown["io.modelcontextprotocol/protocolVersion"] = "2031-01-01".into();
    assert_eq!(
        pipes.ask(&request(3, "tools/list", json!({ "_meta": unknown })))["error"]["code"],
        -32022
    );
    pipes.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } }));
    pipes.open();
    assert_eq!(pipes.ask(&request(4, "ping", json!({})))["result"], json!({}));
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_too_long_is_refused_and_discarded() {
    let mut pipes = Pipes::start("read:/");
    pipes.open();
    let mut input = pipes.input.take().unwrap();
    let writer = std::thread::spawn(move || {
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..(2 * MAX_LINE_BYTES / piece.len()) {
            input.write_all(&piece).unwrap();
        }
        writeln!(input).unwrap();
        writeln!(input, "{}", request(1, "ping", json!({}))).unwrap();
        input
    });
    let refused = pipes.receive();
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused.get("id"), None);
    assert_eq!(pipes.receive()["id"], 1);
    pipes.input = Some(writer.join().unwrap());
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered_and_the_session_continues() {
    let mut pipes = Pipes::start("read:/");
    pipes.open();
    let answer = pipes.ask(&call(1, "test.panics", json!({})));
    assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "internal");
    assert_eq!(pipes.ask(&request(2, "ping", json!({})))["id"], 2);
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_gets_the_answer_of_the_sdk() {
    let mut pipes = Pipes::start("write:/");
    pipes.open();
    let text = "# A\n\n\u{e9} \"q\" \\ \u{1f680} \u{7}\u{2028}\n";
    for (path, content) in [("/a.md", text), ("/b.md", "b\n")] {
        pipes.ask(&call(1, "file.create", json!({ "path": path, "content": content })));
    }
    for (tool, arguments) in [
        ("text.read", json!({ "path": "/a.md" })),
        ("text_read", json!({ "path": "/b.md", "lines": [1, 1] })),
        ("file.list", json!({ "path": "/" })),
        ("file.read", json!({ "path": "/a.md" })),
        ("get_note_outline", json!({ "path": "a.md" })),
        ("get_section_source", json!({ "path": "nowhere.md" })),
        ("text.search", json!({ "q": "b" })),
        ("text.read", json!({ "path": "/nowhere.md" })),
        ("text.read", json!({ "path": "../x" })),
        ("text.read", json!({})),
        ("no.tool", json!({ "path": "/a.md" })),
        ("search", json!({ "q": "b" })),
    ] {
        for id in [json!(7), json!("a \"b\"")] {
            let mut request = call(7, tool, arguments.clone());
            request["id"] = id;
            let plain = pipes.ask_text(&request);
            // A request with `_meta` is left to the SDK.
            request["params"]["_meta"] = json!({});
            assert_eq!(plain, pipes.ask_text(&request), "{tool} {arguments}");
        }
    }
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_gets_no_answer_whoever_answers_calls() {
    for meta in [None, Some(json!({}))] {
        let mut pipes = Pipes::start("write:/");
        pipes.open();
        let mut slow = call(1, "test.sleeps", json!({ "milliseconds": 300 }));
        if let Some(meta) = meta {
            slow["params"]["_meta"] = meta;
        }
        pipes.send(&slow);
        pipes.send(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
        }));
        assert_eq!(pipes.ask(&request(2, "ping", json!({})))["id"], 2);
        assert_eq!(pipes.end().await, Vec::<Value>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_running_calls_with_one_id_are_both_answered() {
    let mut pipes = Pipes::start("write:/");
    pipes.open();
    pipes.send(&call(1, "test.sleeps", json!({ "milliseconds": 300 })));
    pipes.send(&call(1, "file.list", json!({ "path": "/" })));
    let answered = pipes.end().await;
    assert_eq!(answered.len(), 2, "{answered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_run_when_the_input_ends_are_answered() {
    let mut pipes = Pipes::start("write:/");
    pipes.open();
    let name = "the input ends";
    pipes.send(&call(1, "test.waits", json!({ "name": name })));
    waits_began(name, 1).await;
    pipes.send(&call(2, "file.create", json!({ "path": "/a.md", "content": "x" })));
    drop(pipes.input.take());
    assert_eq!(pipes.receive()["id"], 2);
    end_waits(name);
    let answered = pipes.end().await;
    assert_eq!(answered.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_and_read_as_resources() {
    let mut pipes = Pipes::start("write:/");
    pipes.open();
    pipes.ask(&call(1, "file.create", json!({ "path": "/a b.md", "content": "héron\n" })));
    let listed = pipes.ask(&request(2, "resources/list", json!({})));
    assert_eq!(listed["result"]["resources"][1]["uri"], "space:///a%20b.md", "{listed}");
    let read = pipes.ask(&request(3, "resources/read", json!({ "uri": "space:///a%20b.md" })));
    let content = &read["result"]["contents"][0];
    assert_eq!(
        (&content["text"], &content["mimeType"]),
        (&json!("héron\n"), &json!("text/markdown"))
    );
    pipes.end().await;
}

/// Each in the session of 2025-11-25 and without one.
#[tokio::test(flavor = "multi_thread")]
async fn templates_completions_pages_and_subscriptions_are_there_on_stdio_in_both_lifecycles() {
    let mut pipes = Pipes::start("read:/");
    let root = pipes._ground.root();
    std::fs::create_dir_all(root.join("work")).unwrap();
    for number in 0..120 {
        std::fs::write(root.join(format!("work/{number}.md")), "x").unwrap();
    }
    pipes.open();
    for own in [None, Some(meta())] {
        let params = |mut params: Value| {
            if let Some(own) = &own {
                params["_meta"] = own.clone();
            }
            params
        };
        let templates = pipes.ask(&request(1, "resources/templates/list", params(json!({}))));
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
        assert!(templates.iter().any(|template| template["uriTemplate"] == "space:///{+path}"));
        let begun = params(json!({
            "ref": { "type": "ref/resource", "uri": "space:///{+path}" },
            "argument": { "name": "path", "value": "/work/11" },
        }));
        let completed = pipes.ask(&request(2, "completion/complete", begun));
        let values = completed["result"]["completion"]["values"].as_array().unwrap();
        assert_eq!(values.len(), 11, "{completed}");
        let mut listed = std::collections::BTreeSet::new();
        let mut page = json!({});
        loop {
            let answer = pipes.ask(&request(3, "resources/list", params(page)));
            let resources = answer["result"]["resources"].as_array().unwrap();
            let of_files = resources.iter().filter(|it| it["uri"] != "list:///");
            let before = listed.len();
            listed.extend(of_files.map(|it| it["uri"].as_str().unwrap().to_owned()));
            assert!(listed.len() - before <= 100);
            match answer["result"]["nextCursor"].as_str() {
                Some(cursor) => page = json!({ "cursor": cursor }),
                None => break,
            }
        }
        assert_eq!(listed.len(), 120);
    }
    for uri in ["space:///work/1.md", "space:///work"] {
        let answer = pipes.ask(&request(4, "resources/subscribe", json!({ "uri": uri })));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    let wanted = json!({ "resourceSubscriptions": ["space:///work/1.md", "space:///work"] });
    pipes.send(&request(
        5,
        "subscriptions/listen",
        json!({ "notifications": wanted, "_meta": meta() }),
    ));
    let id = "io.modelcontextprotocol/subscriptionId";
    let mut first = 0;
    // What is listened to is told once at the beginning.
    while first < 2 {
        first += usize::from(pipes.receive()["method"] == "notifications/resources/updated");
    }
    std::fs::write(root.join("work/1.md"), "changed").unwrap();
    let mut told = std::collections::BTreeSet::new();
    while told.len() < 4 {
        let message = pipes.receive();
        let uri = message["params"]["uri"].as_str().unwrap().to_owned();
        told.insert((message["params"]["_meta"][id].is_null(), uri));
    }
    let uris = ["space:///work", "space:///work/1.md"].map(str::to_owned);
    let both = [false, true].map(|own| uris.clone().map(|uri| (own, uri)));
    assert!(told.iter().eq(both.iter().flatten()), "{told:?}");
    for own in [json!({ "uri": uris[0] }), json!({ "uri": uris[1] })] {
        pipes.ask(&request(6, "resources/unsubscribe", own));
    }
    pipes.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 },
    }));
    pipes.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_ends_at_once_is_not_a_failure() {
    let pipes = Pipes::start("read:/");
    assert_eq!(pipes.end().await, Vec::<Value>::new());
}

/// The parent goes away without a word, and somebody else still holds the other end of the input.
#[test]
fn the_process_ends_when_its_parent_does() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("space");
    stile_store::state::create_space_folder(&root).unwrap();
    let mut parent = Command::new("sh")
        .args([
            "-c",
            "exec 3<&0; \"$0\" stdio \"$1\" --state \"$2\" <&3 & wait",
            env!("CARGO_BIN_EXE_stile"),
        ])
        .args([&root, &folder.path().join("state")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = parent.stdin.take().unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    writeln!(input, "{}", request(1, "ping", json!({}))).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1"), "{line}");

    parent.kill().unwrap();
    parent.wait().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The process was the last that could write here.
        let _ = ended.send(output.read_line(&mut String::new()).unwrap());
    });
    assert_eq!(end.recv_timeout(PATIENCE), Ok(0), "the process outlives its parent");
    drop(input);
}
