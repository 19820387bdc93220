//! Which tools a server offers, and what callers read of tools that they are not shown.

use serde_json::{Value, json};
use stile_testkit::client::McpClient;
use stile_testkit::hosted::{LIFECYCLES, Peer};

use crate::records_kit::Kit;

const ROW: &str =
    r#"{ "data": { "id": "m1", "sent_at": "2026-01-05T10:00:00Z", "body": "ferns" } }"#;

fn names(caller: &mut dyn McpClient) -> Vec<String> {
    let listed = caller.request("tools/list", json!({})).unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn call(caller: &mut dyn McpClient, tool: &str, arguments: Value) -> Value {
    caller.request("tools/call", json!({ "name": tool, "arguments": arguments })).unwrap()
}

/// Sends a request without a session to an address with a query.
fn post_to(kit: &Kit, token: &str, query: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "a test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(|name| format!("Mcp-Name: {name}\r\n"));
    let headers = format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{}",
        name.unwrap_or_default()
    );
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    kit.send("POST", &format!("/mcp{query}"), token, &headers, &body.to_string()).json()
}

#[test]
fn a_server_refuses_calls_of_the_tools_that_its_setting_leaves_out() {
    let kit = Kit::with(&["--tools", "find"]);
    let token = kit.rig.token(&["write:/"], &[]);
    for lifecycle in LIFECYCLES {
        let mut peer = Peer::open(&kit.server, &token, lifecycle);
        assert_eq!(names(&mut peer), ["file_find", "file_list", "file_search", "text_search"]);
        for tool in ["file.create", "file_create"] {
            let refused = call(&mut peer, tool, json!({ "path": "/a.md", "content": "x" }));
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        assert!(call(&mut peer, "file.list", json!({}))["result"]["isError"] == false);
    }
    assert!(!kit.rig.root.join("a.md").exists());
    let mut pipes = kit.rig.stdio(&["--tools", "find"]);
    let refused = call(&mut pipes, "file_create", json!({ "path": "/a.md", "content": "x" }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[test]
fn an_address_only_shortens_the_list() {
    let kit = Kit::new();
    let token = kit.rig.token(&["write:/"], &[]);
    let listed = |query: &str| {
        let listed = post_to(&kit, &token, query, "tools/list", json!({}));
        listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).len()
    };
    assert_eq!(listed("?tools=find&names=dotted"), 4);
    assert!(listed("") > 20);
    let create = json!({ "name": "file_create", "arguments": { "path": "/a.md", "content": "x" } });
    let made = post_to(&kit, &token, "?tools=find", "tools/call", create);
    assert_eq!(made["result"]["isError"], false, "{made}");
}

/// Panics if a text names a tool of `all` that is not in `listed`.
fn names_none_but(listed: &[String], all: &[String], said: &str) {
    for name in all.iter().filter(|name| !listed.contains(name)) {
        assert!(!said.contains(&format!("`{name}`")), "{name}: {said}");
    }
}

#[test]
fn a_caller_reads_of_no_tool_that_its_list_lacks() {
    let kit = Kit::with(&["--agent-undo"]);
    let writer = kit.rig.token(&["write:/", "read:/"], &[]);
    let reader = kit.rig.token(&["read:/"], &[]);
    let listed = |token: &str, query: &str| {
        let listed = post_to(&kit, token, query, "tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), listed.to_string())
    };
    let (all, _) = listed(&writer, "");
    let queries = ["", "?tools=files", "?tools=find", "?tools=notes"];
    for (token, query) in queries.into_iter().flat_map(|it| [(&writer, it), (&reader, it)]) {
        let (shown, texts) = listed(token, query);
        names_none_but(&shown, &all, &texts);
        let about = post_to(&kit, token, query, "server/discover", json!({}));
        assert!(about["result"]["instructions"].is_string(), "{about}");
        names_none_but(&shown, &all, &about.to_string());
        for tool in ["text_read", "file_list", "file_find", "text_search", "file_search"] {
            let arguments = json!({ "path": "/none.md", "q": "none", "pattern": "none" });
            let call = json!({ "name": tool, "arguments": arguments });
            let answer = post_to(&kit, token, query, "tools/call", call);
            names_none_but(&shown, &all, &answer["result"].to_string());
        }
    }
    let mut pipes = kit.rig.stdio(&["--tools", "find", "--scope", "read:/"]);
    let shown = names(&mut pipes);
    let missing = call(&mut pipes, "file_list", json!({ "path": "/none" }));
    names_none_but(&shown, &all, &missing.to_string());
}

#[test]
fn a_server_of_some_tools_names_no_other_one_and_describes_every_argument_or_none() {
    let everything = Kit::new();
    let whole = everything.rig.token(&["write:/"], &[]);
    let all = names(&mut Peer::open(&everything.server, &whole, LIFECYCLES[0]));
    for setting in ["notes", "files", "find"] {
        let kit = Kit::with(&["--tools", setting]);
        let token = kit.rig.token(&["write:/"], &[]);
        let by_address = format!("?tools={setting}");
        let listed = post_to(&kit, &token, "", "tools/list", json!({}));
        let texts = listed["result"]["tools"].to_string();
        let shown = names(&mut Peer::open(&kit.server, &token, LIFECYCLES[0]));
        names_none_but(&shown, &all, &texts);
        assert!(!texts.contains(r#""description":"""#), "{texts}");
        let shortened = post_to(&everything, &whole, &by_address, "tools/list", json!({}));
        assert_eq!(shortened["result"]["tools"], listed["result"]["tools"], "{setting}");
    }
}

#[test]
fn a_caller_reads_its_own_history_in_the_names_of_its_list() {
    let kit = Kit::with(&["--agent-undo"]);
    let token = kit.rig.token(&["write:/"], &[]);
    let call = |query: &str, tool: &str, arguments: Value| {
        let call = json!({ "name": tool, "arguments": arguments });
        post_to(&kit, &token, query, "tools/call", call)["result"].clone()
    };
    let made = call("", "file_create", json!({ "path": "/h.md", "content": "x\n" }));
    assert_eq!(made["isError"], false, "{made}");
    let path = json!({ "path": "/h.md" });
    for (query, tool) in [("", "file_create"), ("?names=dotted", "file.create")] {
        let told = call(query, "file_history", path.clone());
        assert_eq!(told["structuredContent"]["changes"][0]["tool"], tool, "{told}");
        let text = told["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!(r#""tool":"{tool}""#)), "{text}");
    }
    let told = call("?tools=find", "file_history", path);
    assert!(!told.to_string().contains("file_create"), "{told}");
}

#[test]
fn record_tools_are_listed_where_there_is_a_record_to_see() {
    let kit = Kit::new();
    let row: Value = serde_json::from_str(ROW).unwrap();
    kit.ingest("messages", "chat", &[row]);
    let see = |token: &str| {
        let mut peer = Peer::open(&kit.server, token, LIFECYCLES[0]);
        names(&mut peer).iter().any(|name| name == "search")
    };
    let owner = kit.owner.clone();
    let all = kit.client(&["--stream", "messages"]).1;
    let later = ["--stream", "messages", "--time-field", "sent_at", "--since", "2026-02-01"];
    let later = kit.client(&later).1;
    assert!(see(&owner) && see(&all));
    assert!(!see(&later), "the grant shows none of the records");
    kit.send("DELETE", "/v1/streams/messages/records/m1", &owner, "", "");
    assert!(!see(&owner) && !see(&all), "no record is left");
}

#[test]
fn a_search_without_hits_says_that_it_looks_in_records() {
    let kit = Kit::new();
    let row: Value = serde_json::from_str(ROW).unwrap();
    kit.ingest("messages", "chat", &[row]);
    let grant = kit.client(&["--stream", "messages"]).0;
    let mint = |scopes: &[&str]| kit.rig.token(scopes, &["--grant", &grant]);
    for (token, names_file_tools) in [(mint(&["read:/"]), true), (mint(&[]), false)] {
        let mut peer = Peer::open(&kit.server, &token, LIFECYCLES[0]);
        let found = call(&mut peer, "search", json!({ "q": "plan.md" }));
        let (text, data) =
            (&found["result"]["content"][0]["text"], &found["result"]["structuredContent"]["data"]);
        for said in [text, &data["note"]] {
            let said = said.as_str().unwrap_or_else(|| panic!("{found}"));
            assert!(said.contains("looks in records (mail, messages and the like)"), "{said}");
            assert_eq!(said.contains("`text_search`"), names_file_tools, "{said}");
            assert_eq!(said.contains("`file_find`"), names_file_tools, "{said}");
        }
        let found = call(&mut peer, "search", json!({ "q": "ferns" }));
        assert!(found["result"]["structuredContent"]["data"].get("note").is_none(), "{found}");
    }
}
