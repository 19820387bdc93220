//! Who is shown the content ladder, who is refused, and what is written down of it, over HTTP and
//! stdio.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stile_testkit::client::{McpClient, Reply};
use stile_testkit::hosted::{AUDIENCE, Hosted, LIFECYCLES, Lifecycle, Peer};
use stile_testkit::issuer::Alg;
use stile_testkit::process::{Piped, Rig};
use stile_testkit::schema;

use crate::gateway_kit::metrics;
use crate::records_kit::Kit;

/// The tools about records, as they are listed.
const LADDER: [&str; 6] =
    ["aggregate", "fetch", "query_records", "read_record_field", "schema", "search"];
/// The tools that read files alone.
const FILE_READERS: [&str; 7] = [
    "file_find", "file_list", "file_read", "file_search", "text_gather", "text_read", "text_search",
];
const NOTE_READERS: [&str; 7] = [
    "get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source",
    "note_find", "note_links", "note_tags",
];
const WRITERS: [&str; 13] = [
    "file_append", "file_copy", "file_create", "file_move", "file_remove", "folder_create",
    "folder_move", "folder_remove", "note_set_property", "text_append", "text_edit", "text_insert",
    "text_replace",
];
const TEMPLATES: [&str; 2] = ["pdpp://field-window/{handle}", "pdpp://record/{handle}"];
const FILE_TEMPLATES: [&str; 2] = ["list://{+path}", "space:///{+path}"];
/// Under which the list of a grant's token stays.
const MOST_LISTED: usize = 16 * 1024;

fn rows() -> Vec<Value> {
    let long =
        "Nothing of note. ".repeat(900) + "The heron was here. " + &"And so on. ".repeat(900);
    vec![
        json!({ "data": { "id": "m1", "sent_at": "2026-01-05T10:00:00Z", "author": "ann", "body": "Water the ferns." } }),
        json!({ "data": { "id": "m2", "sent_at": "2026-02-05T10:00:00Z", "author": "bob", "body": long } }),
    ]
}

fn kit() -> Kit {
    let kit = Kit::new();
    kit.ingest("messages", "chat", &rows());
    kit
}

/// The same with more flags.
fn kit_with(flags: &[&str]) -> Kit {
    let kit = Kit::with(flags);
    kit.ingest("messages", "chat", &rows());
    kit
}

const GRANT: &[&str] = &["--stream", "messages"];

/// What a caller is shown: the tools, and the templates of resources.
#[derive(Debug, PartialEq)]
struct Shown {
    tools: BTreeSet<String>,
    templates: BTreeSet<String>,
}

fn shown(caller: &mut dyn McpClient) -> Shown {
    let mut listed = |method: &str, pointer: &str, name: &str| {
        let answer = caller.request(method, json!({})).unwrap();
        let items =
            answer.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{answer}"));
        let names: Vec<String> =
            items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect();
        assert!(names.is_sorted() || method != "tools/list", "{names:?}");
        names.into_iter().collect()
    };
    let listing: BTreeSet<String> = listed("resources/list", "/result/resources", "uri");
    assert!(
        listing.iter().all(|uri| uri.starts_with("list:///") || uri.starts_with("space:///")),
        "no address of a record is listed: {listing:?}"
    );
    Shown {
        tools: listed("tools/list", "/result/tools", "name"),
        templates: listed("resources/templates/list", "/result/resourceTemplates", "uriTemplate"),
    }
}

fn expected(tools: &[&[&str]], templates: &[&[&str]]) -> Shown {
    let set = |lists: &[&[&str]]| lists.concat().into_iter().map(str::to_owned).collect();
    Shown { tools: set(tools), templates: set(templates) }
}

/// The one text block, the structure and whether it is an error.
fn told(answer: &Value) -> (String, Value, bool) {
    let result = &answer["result"];
    assert!(result.is_object(), "{answer}");
    let texts: Vec<&str> = result["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    assert_eq!(texts.len(), 1, "{answer}");
    (texts[0].to_owned(), result["structuredContent"].clone(), result["isError"] == true)
}

fn call(caller: &mut dyn McpClient, tool: &str, arguments: Value) -> Value {
    caller.request("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap()
}

/// The code of a call that is refused as a tool error.
fn refused(caller: &mut dyn McpClient, tool: &str, arguments: Value) -> String {
    let (text, structured, is_error) = told(&call(caller, tool, arguments));
    assert!(is_error, "{structured}");
    assert_eq!(text, structured.to_string(), "who has the text alone has the code");
    structured["error"]["code"].as_str().unwrap().to_owned()
}

/// What a call that succeeds says.
fn answered(caller: &mut dyn McpClient, tool: &str, arguments: Value) -> Value {
    let (_, structured, is_error) = told(&call(caller, tool, arguments));
    assert!(!is_error, "{structured}");
    structured
}

/// An address that a search gives to a caller who may see the record.
fn window_uri(caller: &mut dyn McpClient) -> String {
    let found = answered(caller, "search", json!({ "q": "heron" }));
    found["content_ladder"]["entries"][0]["resource"]["uri"].as_str().unwrap().to_owned()
}

fn peers<'a>(kit: &'a Kit, token: &'a str) -> impl Iterator<Item = Peer> + 'a {
    LIFECYCLES.into_iter().map(move |lifecycle| Peer::open(&kit.server, token, lifecycle))
}

/// Another space beside the same state, so that two processes serve one each.
fn beside(kit: &Kit) -> Rig {
    let rig = Rig { root: kit.folder.path().join("another-space"), ..kit.rig.clone() };
    std::fs::create_dir_all(&rig.root).unwrap();
    rig
}

#[test]
fn a_token_sees_only_the_tools_that_it_is_for() {
    let kit = kit();
    let grant = kit.client(GRANT).0;
    let mint = |scopes: &[&str], more: &[&str]| kit.rig.token(scopes, more);
    let cases = [
        (mint(&["read:/"], &[]), expected(&[&FILE_READERS, &NOTE_READERS], &[&FILE_TEMPLATES])),
        (mint(&[], &["--grant", &grant]), expected(&[&LADDER], &[&TEMPLATES])),
        (mint(&[], &["--owner"]), expected(&[&LADDER], &[&TEMPLATES])),
        (
            mint(&["read:/x/"], &["--grant", &grant]),
            expected(&[&LADDER, &FILE_READERS, &NOTE_READERS], &[&TEMPLATES, &FILE_TEMPLATES]),
        ),
        (
            mint(&["write:/"], &["--owner"]),
            expected(
                &[&LADDER, &FILE_READERS, &NOTE_READERS, &WRITERS],
                &[&TEMPLATES, &FILE_TEMPLATES],
            ),
        ),
    ];
    for (token, expected) in &cases {
        for mut peer in peers(&kit, token) {
            assert_eq!(shown(&mut peer), *expected);
        }
    }
}

#[test]
fn a_token_of_an_identity_provider_sees_only_the_tools_that_it_is_for() {
    let hosted = Hosted::new(env!("CARGO_BIN_EXE_stile"));
    let rig = hosted.rig("origin");
    let run = |arguments: &[&str]| {
        let ran = rig.command(arguments).arg("--state").arg(&rig.state).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let rows = hosted.file("rows.jsonl", "{\"id\":\"a\",\"body\":\"heron\",\"secret\":\"x\"}");
    run(&["import", &rows, "--connection", "c", "--stream", "s"]);
    let grant = run(&[
        "grant", "create", "--client", "x", "--stream", "s", "--field", "id", "--field", "body",
    ]);
    let server = hosted.origin(&rig, &[]);
    let mint = || hosted.issuer.mint("ann", AUDIENCE);
    let nothing = || expected(&[], &[]);
    for (mint, expected) in [
        (mint(), nothing()),
        (mint().claim("records", "owner"), nothing()),
        (mint().scope("read:/"), expected(&[&FILE_READERS], &[&FILE_TEMPLATES])),
        (mint().claim("grant", grant.clone()), expected(&[&LADDER], &[&TEMPLATES])),
        (
            mint().scope("read:/").claim("grant", grant.clone()),
            expected(&[&LADDER, &FILE_READERS], &[&TEMPLATES, &FILE_TEMPLATES]),
        ),
    ] {
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::open(&server, &mint.clone().token(Alg::Es256), lifecycle);
            assert_eq!(shown(&mut peer), expected);
            if expected.tools.contains("search") {
                let found = answered(&mut peer, "search", json!({ "q": "heron" }));
                assert_eq!(found["results"][0]["id"], "c/s:a");
                let record = answered(&mut peer, "fetch", json!({ "id": "c/s:a" }));
                assert!(!record.to_string().contains("secret"), "{record}");
            } else {
                assert_forbidden(
                    &mut peer,
                    "tools/call",
                    json!({ "name": "search", "arguments": { "q": "heron" } }),
                );
            }
        }
    }
}

/// How many files of a state folder are of a database.
fn databases(rig: &Rig) -> usize {
    let names = std::fs::read_dir(&rig.state).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().contains("records")).count()
}

#[test]
fn the_local_user_sees_record_tools_if_there_are_records() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    let files = || expected(&[&FILE_READERS, &NOTE_READERS, &WRITERS], &[&FILE_TEMPLATES]);
    assert_eq!(shown(&mut rig.stdio(&[])), files(), "nothing was ever imported");
    assert_eq!(databases(&rig), 0, "and no database is made for that");

    let kit = kit();
    assert_ne!(databases(&kit.rig), 0);
    let (grant, rig) = (kit.client(GRANT).0, beside(&kit));
    let all = || {
        expected(&[&LADDER, &FILE_READERS, &NOTE_READERS, &WRITERS], &[&TEMPLATES, &FILE_TEMPLATES])
    };
    assert_eq!(shown(&mut rig.stdio(&[])), files(), "a client sees no records by default");
    assert_eq!(shown(&mut rig.stdio(&["--owner"])), all());
    assert_eq!(shown(&mut rig.stdio(&["--grant", &grant])), all());
    let narrow = expected(&[&LADDER, &FILE_READERS, &NOTE_READERS], &[&TEMPLATES, &FILE_TEMPLATES]);
    assert_eq!(shown(&mut rig.stdio(&["--grant", &grant, "--scope", "read:/x/"])), narrow);
}

/// Asserts that a request is refused by HTTP for what its token is.
fn assert_forbidden(peer: &mut Peer, method: &str, params: Value) {
    let reply: Reply = peer.post(method, params).unwrap();
    let body = reply.json();
    assert_eq!(reply.status, 403, "{body}");
    assert_eq!(
        (&body["error"]["code"], &body["error"]["data"]["code"]),
        (&json!(-31403), &json!("insufficient_scope"))
    );
    assert!(body["id"].is_u64(), "{body}");
    assert!(reply.header("www-authenticate").unwrap().contains("error=\"insufficient_scope\""));
}

#[test]
fn a_call_without_a_claim_ends_before_any_record_is_read() {
    let kit = kit();
    let files = kit.rig.token(&["write:/"], &[]);
    let uri = window_uri(&mut Peer::open(&kit.server, &kit.owner, Lifecycle::Sessionless));
    let before = lines(&kit).len();
    for mut peer in peers(&kit, &files) {
        for tool in LADDER {
            for arguments in
                [json!({}), json!({ "q": "heron" }), json!({ "id": "chat/messages:m1", "x": [] })]
            {
                assert_forbidden(
                    &mut peer,
                    "tools/call",
                    json!({ "name": tool, "arguments": arguments }),
                );
            }
        }
        for uri in [uri.as_str(), "pdpp://record/x", "pdpp://field-window/", "pdpp://record/"] {
            assert_forbidden(&mut peer, "resources/read", json!({ "uri": uri }));
        }
        // What it is for still works.
        let path = format!("/{}.md", peer.session.as_deref().unwrap_or("none"));
        answered(&mut peer, "file.create", json!({ "path": path, "content": "x" }));
    }
    let lines = lines(&kit).split_off(before);
    let denied: Vec<&Value> =
        lines.iter().filter(|line| line["outcome"] == "insufficient_scope").collect();
    assert_eq!(denied.len(), LIFECYCLES.len() * (LADDER.len() * 3 + 4), "one line for each");
    assert_eq!(lines.len(), denied.len() + LIFECYCLES.len(), "{lines:?}");
}

#[test]
fn tools_of_both_kinds_work_beside_each_other() {
    let kit = kit();
    let grant = kit.client(GRANT).0;
    let both = kit.rig.token(&["write:/notes/"], &["--grant", &grant]);
    let work = |caller: &mut dyn McpClient, name: &str| {
        let path = format!("/notes/{name}.md");
        answered(caller, "file.create", json!({ "path": path, "content": "# One\n\ntext\n" }));
        assert_eq!(
            answered(caller, "text.read", json!({ "path": path }))["content"],
            "# One\n\ntext\n"
        );
        assert_eq!(
            answered(caller, "search", json!({ "q": "ferns" }))["results"][0]["id"],
            "chat/messages:m1"
        );
        let uri = window_uri(caller);
        let read = caller.request("resources/read", json!({ "uri": uri })).unwrap();
        let content = &read["result"]["contents"][0];
        assert_eq!(content["uri"], json!(uri));
        assert!(content["text"].as_str().unwrap().starts_with("heron was here."), "{read}");
        let listed = caller.request("resources/read", json!({ "uri": "list:///notes" })).unwrap();
        assert!(
            listed["result"]["contents"][0]["text"].as_str().unwrap().contains(name),
            "{listed}"
        );
    };
    for (number, mut peer) in peers(&kit, &both).enumerate() {
        work(&mut peer, &format!("over-http-{number}"));
    }
    work(&mut beside(&kit).stdio(&["--grant", &grant]), "over-stdio");
}

/// `stile mcp` for the kit's server, with this token.
fn adapter(kit: &Kit, token: &str) -> Piped {
    let file = kit.folder.path().join("adapter-token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let provider = format!("http://{}", kit.server.address);
    let mut command = kit.rig.command(&["mcp", "--provider", &provider, "--token-file"]);
    command.arg(&file);
    Piped::start(command)
}

#[test]
fn an_adapter_has_only_the_ladder() {
    let kit = kit();
    let (_, token) = kit.client(GRANT);
    let piped = adapter(&kit, &token);
    let mut lane = piped.client();
    assert_eq!(shown(&mut lane), expected(&[&LADDER], &[&TEMPLATES]));
    let files = lane.request("resources/read", json!({ "uri": "list:///" })).unwrap();
    assert!(files["error"]["code"].is_i64(), "{files}");
    let error = call(&mut lane, "text.read", json!({ "path": "/x.md" }));
    assert_eq!(error["error"]["code"], -32602, "{error}");
    assert!(piped.stop().0.success());
}

#[test]
fn a_revocation_takes_effect_with_the_next_call() {
    for lifecycle in LIFECYCLES {
        let kit = kit();
        let (grant, token) = kit.client(GRANT);
        let mut peer = Peer::open(&kit.server, &token, lifecycle);
        let mut stdio = beside(&kit).stdio(&["--grant", &grant]);
        let piped = adapter(&kit, &token);
        let mut lane = piped.client();
        let callers: [&mut dyn McpClient; 3] = [&mut peer, &mut stdio, &mut lane];
        let uris: Vec<String> = callers.into_iter().map(window_uri).collect();
        kit.said(&["grant", "revoke", &grant]);
        let callers: [&mut dyn McpClient; 3] = [&mut peer, &mut stdio, &mut lane];
        for (caller, uri) in callers.into_iter().zip(uris) {
            for (tool, arguments) in [
                ("schema", json!({})),
                ("search", json!({ "q": "heron" })),
                ("query_records", json!({ "stream": "messages" })),
                ("aggregate", json!({ "stream": "messages", "metric": "count" })),
                ("fetch", json!({ "id": "chat/messages:m2" })),
                ("read_record_field", json!({ "id": "chat/messages:m2", "field_path": "body" })),
            ] {
                assert_eq!(refused(caller, tool, arguments), "grant_revoked", "{tool}");
            }
            let read = caller.request("resources/read", json!({ "uri": uri })).unwrap();
            assert_eq!(read["error"]["data"]["code"], "grant_revoked", "{read}");
        }
    }
}

/// The lines of the journal.
fn lines(kit: &Kit) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(kit.rig.state.join("journal"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_call_writes_one_line_with_the_tool_and_nothing_of_a_record() {
    let kit = kit();
    let canary = "CANARY-in-a-record";
    kit.ingest(
        "diary",
        "notebook",
        &[json!({ "data": { "id": canary, "body": format!("{canary} ").repeat(2000), canary: 1 } })],
    );
    let (_, token) = kit.client(&["--stream", "diary"]);
    let id = format!("notebook/diary:{canary}");
    let calls = [
        ("schema", json!({}), "ok"),
        ("search", json!({ "q": "CANARY*" }), "ok"),
        ("query_records", json!({ "stream": "diary", "fields": [canary] }), "ok"),
        ("aggregate", json!({ "stream": "diary", "metric": "count" }), "ok"),
        ("fetch", json!({ "id": id }), "ok"),
        ("read_record_field", json!({ "id": id, "field_path": "body", "q": canary }), "ok"),
        (
            "read_record_field",
            json!({ "id": id, "field_path": canary.repeat(2) }),
            "field_not_granted",
        ),
        ("fetch", json!({ "id": canary }), "invalid_id"),
        ("search", json!({ "q": canary, canary: canary }), "invalid_arguments"),
    ];
    for mut peer in peers(&kit, &token) {
        let before = lines(&kit).len();
        for (tool, arguments, _) in &calls {
            call(&mut peer, tool, arguments.clone());
        }
        let read =
            answered(&mut peer, "read_record_field", json!({ "id": id, "field_path": "body" }));
        let uri = read["resource"]["uri"].as_str().unwrap();
        peer.request("resources/read", json!({ "uri": uri })).unwrap();
        peer.request("resources/read", json!({ "uri": format!("pdpp://record/{canary}") }))
            .unwrap();
        let new = lines(&kit).split_off(before);
        let new: Vec<(&str, &str)> = new
            .iter()
            .map(|line| (line["tool"].as_str().unwrap(), line["outcome"].as_str().unwrap()))
            .collect();
        let mut wanted: Vec<(&str, &str)> =
            calls.iter().map(|(tool, _, outcome)| (*tool, *outcome)).collect();
        wanted.extend([
            ("read_record_field", "ok"),
            ("resource", "ok"),
            ("resource", "invalid_cursor"),
        ]);
        assert_eq!(new, wanted);
    }
    let journal = format!("{:?}", lines(&kit));
    let (_, log) = kit.server.stop();
    for said in [journal, String::from_utf8_lossy(&log).into_owned()] {
        assert!(!said.contains(canary), "{said}");
    }
}

/// Some clients put the whole list before each question, so each kind of token has a bound.
#[test]
fn every_list_of_tools_stays_within_its_bound() {
    let kit = kit();
    let (grant, _) = kit.client(GRANT);
    let mint = |scopes: &[&str], more: &[&str]| kit.rig.token(scopes, more);
    let strict = beside(&kit);
    // With all tools that a server can offer.
    let strict_server = strict.serve(&["--strict-schemas", "--agent-undo"]);
    let (reads, files, all) = (14 * 1024, 24 * 1024, 32 * 1024);
    for (server, token, most) in [
        (&kit.server, mint(&["read:/"], &[]), reads),
        (&kit.server, mint(&["write:/"], &[]), files),
        (&kit.server, mint(&[], &["--grant", &grant]), MOST_LISTED),
        (&kit.server, mint(&[], &["--owner"]), MOST_LISTED),
        (&kit.server, mint(&["write:/"], &["--grant", &grant]), all),
        (&kit.server, mint(&["write:/"], &["--owner"]), all),
        (&strict_server, strict.token(&["write:/"], &[]), files),
        (&strict_server, strict.token(&["write:/"], &["--owner"]), all),
    ] {
        for lifecycle in LIFECYCLES {
            let mut peer = Peer::open(server, &token, lifecycle);
            let reply = peer.post("tools/list", json!({})).unwrap();
            assert_eq!(reply.status, 200);
            println!("{} of {most} bytes", reply.body.len());
            assert!(reply.body.len() < most, "{} of {most} bytes", reply.body.len());
        }
    }
}

#[test]
fn the_tools_of_a_grant_are_listed_in_few_bytes() {
    let kit = kit();
    let (_, token) = kit.client(GRANT);
    let mut peer = Peer::open(&kit.server, &token, Lifecycle::Sessionless);
    let reply = peer.post("tools/list", json!({})).unwrap();
    assert!(reply.body.len() < MOST_LISTED, "{} bytes", reply.body.len());
    let tools = reply.json()["result"]["tools"].take();
    for tool in tools.as_array().unwrap() {
        let hints = &tool["annotations"];
        assert_eq!(
            (&hints["readOnlyHint"], &hints["destructiveHint"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(
            (&hints["idempotentHint"], &hints["openWorldHint"]),
            (&json!(true), &json!(false))
        );
        let input = &tool["inputSchema"];
        assert_eq!(
            (&input["type"], &input["additionalProperties"]),
            (&json!("object"), &json!(false))
        );
        assert!(
            ["oneOf", "anyOf", "allOf"].iter().all(|word| input.get(word).is_none()),
            "{input}"
        );
        assert_eq!(tool["outputSchema"]["type"], "object");
    }
    insta::assert_snapshot!("tools_grant", serde_json::to_string_pretty(&tools).unwrap());
}

#[test]
fn every_answer_fits_its_schema() {
    let kit = kit();
    let (grant, token) = kit.client(GRANT);
    let check = |caller: &mut dyn McpClient| {
        let listed = caller.request("tools/list", json!({})).unwrap();
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        for (tool, arguments) in [
            ("schema", json!({})),
            ("schema", json!({ "stream": "messages" })),
            ("search", json!({ "q": "heron" })),
            ("search", json!({ "q": "" })),
            ("query_records", json!({ "stream": "messages", "limit": 1 })),
            ("query_records", json!({ "stream": "none" })),
            ("aggregate", json!({ "stream": "messages", "metric": "count" })),
            ("aggregate", json!({ "stream": "messages", "metric": "sum" })),
            ("fetch", json!({ "id": "chat/messages:m2" })),
            ("fetch", json!({ "id": "chat/messages:none" })),
            ("read_record_field", json!({ "id": "chat/messages:m2", "field_path": "body" })),
            (
                "read_record_field",
                json!({ "id": "chat/messages:m2", "field_path": "body", "q": "x", "cursor": "y" }),
            ),
        ] {
            let schema = &tools.iter().find(|card| card["name"] == tool).unwrap()["outputSchema"];
            let (_, structured, is_error) = told(&call(caller, tool, arguments.clone()));
            assert_eq!(is_error, structured.get("error").is_some(), "{structured}");
            schema::check(schema, &structured)
                .unwrap_or_else(|misfit| panic!("{tool} {arguments}: {misfit}\n{structured}"));
        }
    };
    for mut peer in peers(&kit, &token) {
        check(&mut peer);
    }
    check(&mut beside(&kit).stdio(&["--grant", &grant]));
}

#[test]
fn calls_and_reads_are_counted_by_how_they_ended() {
    let kit = kit_with(&["--metrics-listen", "127.0.0.1:0"]);
    let mut peer = Peer::open(&kit.server, &kit.owner, Lifecycle::Sessionless);
    let uri = window_uri(&mut peer);
    answered(&mut peer, "schema", json!({}));
    refused(&mut peer, "fetch", json!({ "id": "chat/messages:none" }));
    peer.request("resources/read", json!({ "uri": uri })).unwrap();
    peer.request("resources/read", json!({ "uri": "pdpp://record/none" })).unwrap();
    let mut files =
        Peer::open(&kit.server, &kit.rig.token(&["read:/"], &[]), Lifecycle::Sessionless);
    assert_forbidden(&mut files, "tools/call", json!({ "name": "aggregate" }));
    assert_forbidden(&mut files, "resources/read", json!({ "uri": uri }));
    let text = String::from_utf8(metrics(&kit.server).body).unwrap();
    for (tool, outcome) in [
        ("search", "ok"),
        ("schema", "ok"),
        ("fetch", "refused"),
        ("aggregate", "insufficient_scope"),
        ("resource", "ok"),
        ("resource", "refused"),
        ("resource", "insufficient_scope"),
    ] {
        let line = format!(
            "stile_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\",upstream=\"none\"}} 1\n"
        );
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn a_call_that_is_too_long_is_refused_by_the_transport() {
    let kit = kit_with(&["--max-body-bytes", "100KiB"]);
    for mut peer in peers(&kit, &kit.owner) {
        let query = "x".repeat(110 * 1024);
        let reply = peer
            .post("tools/call", json!({ "name": "search", "arguments": { "q": query } }))
            .unwrap();
        assert_eq!(reply.status, 413);
    }
    assert!(lines(&kit).iter().all(|line| line["tool"] != "search"), "nothing was asked");
}
