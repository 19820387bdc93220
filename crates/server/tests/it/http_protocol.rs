//! Both lifecycles on one route, and what the protocol wants of each.

use serde_json::{Value, json};

use crate::support::{Ground, NOTHING, READ, Server, WORK, WRITE, call, initialize, meta, request};

#[tokio::test]
async fn the_handshake_agrees_on_a_version_and_names_the_server() {
    let server = Server::start().await;
    for (asked, agreed) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-06-18"),
        ("2025-03-26", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let reply = server.post(READ, &[], &initialize(asked, "test")).await;
        let result = &reply.json()["result"];
        assert_eq!(result["protocolVersion"], agreed, "{asked}");
        assert!(reply.header("mcp-session-id").is_some());
    }
    let reply = server.post(READ, &[], &initialize("2025-11-25", "test")).await.json();
    let result = &reply["result"];
    assert_eq!(result["serverInfo"]["name"], "stile");
    assert_eq!(result["serverInfo"]["title"], "Stile");
    assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        result["serverInfo"]["icons"][0]["src"]
            .as_str()
            .unwrap()
            .starts_with("data:image/svg+xml;base64,")
    );
    let capabilities = json!({
        "completions": {},
        "prompts": {},
        "resources": { "listChanged": true, "subscribe": true },
        "tools": { "listChanged": true },
    });
    assert_eq!(result["capabilities"], capabilities);
    assert!(result["instructions"].as_str().unwrap().len() <= 1_100);
}

#[tokio::test]
async fn a_session_creates_reads_edits_and_sees_a_conflict() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let create = call(1, "file.create", json!({ "path": "/notes/a.md", "content": "one\ntwo\n" }));
    let created = server.in_session(WRITE, &session, &create).await.json();
    let hash = created["result"]["structuredContent"]["hash"].clone();
    assert_eq!(created["result"]["content"].as_array().unwrap().len(), 1);
    assert_eq!(
        created["result"]["content"][0]["text"],
        created["result"]["structuredContent"].to_string()
    );
    assert_eq!(created["result"].get("resultType"), None, "an older client does not know it");
    let edit =
        json!({ "path": "/notes/a.md", "hash": hash, "lines": [1, 3], "old": "two", "new": "2" });
    let edited =
        server.in_session(WRITE, &session, &call(2, "text_replace", edit.clone())).await.json();
    assert_eq!(edited["result"]["isError"], false, "{edited}");
    let stale = server.in_session(WRITE, &session, &call(3, "text.replace", edit)).await.json();
    assert_eq!(stale["result"]["isError"], true);
    assert_eq!(stale["result"]["structuredContent"]["error"]["code"], "stale");
    let listed = server
        .in_session(WRITE, &session, &request(4, "resources/read", json!({ "uri": "list://" })))
        .await;
    let contents = &listed.json()["result"]["contents"][0];
    assert_eq!(contents["uri"], "list://", "the uri is the one that was asked for");
    assert_eq!(contents["mimeType"], "application/json");
    let page: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(page["entries"][0]["name"], "notes");
}

#[tokio::test]
async fn every_sessionless_request_stands_alone() {
    let server = Server::start().await;
    let discovered = server.sessionless(READ, "server/discover", json!({})).await;
    assert_eq!(discovered.status, 200);
    assert_eq!(discovered.header("mcp-session-id"), None);
    let result = &discovered.json()["result"];
    assert_eq!(result["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    let create = json!({ "name": "file.create", "arguments": { "path": "/a.md", "content": "x" } });
    let created = server.sessionless(WRITE, "tools/call", create).await;
    assert!(created.header("content-type").unwrap().starts_with("application/json"));
    let result = &created.json()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"]["path"], "/a.md");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "stile");
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "list:///" })),
    ] {
        let reply = server.sessionless(READ, method, params).await;
        let result = &reply.json()["result"];
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"]),
            (&json!(0), &json!("private")),
            "{method} {reply:?}"
        );
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "stile",
            "{method}"
        );
    }
}

#[tokio::test]
async fn a_session_id_on_a_sessionless_request_is_ignored() {
    let server = Server::start().await;
    let body = request(1, "tools/list", json!({ "_meta": meta() }));
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
        ("mcp-session-id", "bogus"),
    ];
    assert_eq!(server.post(READ, &headers, &body).await.status, 200);
    let mut client = server.connect().await;
    assert_eq!(
        client
            .get("/mcp", READ, &[headers[0], headers[2], ("accept", "text/event-stream")])
            .await
            .status,
        405
    );
    assert_eq!(client.delete(READ, &[headers[0], headers[2]]).await.status, 405);
}

#[tokio::test]
async fn headers_that_contradict_the_message_are_refused() {
    let server = Server::start().await;
    let body = request(
        1,
        "tools/call",
        json!({ "name": "text.read", "arguments": { "path": "/a" }, "_meta": meta() }),
    );
    for headers in [
        vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/list"),
            ("mcp-name", "text.read"),
        ],
        vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "file.create"),
        ],
        vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")],
        vec![
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "text.read"),
        ],
        vec![("mcp-method", "tools/call"), ("mcp-name", "text.read")],
    ] {
        let reply = server.post(READ, &headers, &body).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (400, &json!(-32020)),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn wrong_parameters_are_invalid_and_unknown_methods_are_not_found() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    for (method, params, code) in [
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({ "name": 7 }), -32602),
        ("tools/call", json!({ "name": "text.read", "arguments": [] }), -32602),
        ("resources/read", json!({ "uri": {} }), -32602),
        ("resources/read", json!({}), -32602),
        ("prompts/get", json!({ "name": "x" }), -32602),
        ("prompts/get", json!({ "name": {} }), -32602),
        ("prompts/list", json!({ "cursor": "x" }), -32602),
        ("logging/setLevel", json!({ "level": "info" }), -32601),
        ("tools/list", json!({ "cursor": "x" }), -32602),
        ("tools/list", json!({ "cursor": "" }), -32602),
        ("tools/list", json!({ "cursor": 7 }), -32602),
        ("completion/complete", json!({}), -32602),
        ("tools/burn", json!({}), -32601),
        ("resources/subscribe", json!({}), -32602),
        ("subscriptions/listen", json!({ "notifications": {} }), -32601),
        ("server/discover", json!([]), -32602),
    ] {
        let body = request(1, method, params.clone());
        let reply = server.in_session(READ, &session, &body).await;
        assert_eq!(reply.json()["error"]["code"], code, "{method} {params} {reply:?}");
        assert_eq!(reply.json()["id"], 1);
    }
    let unknown = server.sessionless(READ, "tools/burn", json!({})).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!(-32601)));
    let misfit = server.sessionless(READ, "resources/templates/list", json!({ "cursor": 7 })).await;
    assert_eq!(misfit.json()["error"]["code"], -32602, "{misfit:?}");
    for method in ["logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"] {
        let reply =
            server.sessionless(READ, method, json!({ "level": "info", "notifications": {} })).await;
        assert_eq!(reply.json()["error"]["code"], -32601, "{method} {reply:?}");
    }
}

#[tokio::test]
async fn an_agent_learns_where_its_token_lets_it_begin() {
    let server = Server::start().await;
    let expected = [
        (READ, "`file_list` shows what is there. Today is "),
        (WORK, "Your token opens these, and nothing beside them: list:///work."),
        (NOTHING, "Your token opens no file for reading."),
        ("ann;-;append:/logs/;3600", "Your token opens no file for reading."),
        ("ann;-;append:/logs/;3600", "Add only, to files that are there: /logs/. `text_append` "),
    ];
    for (token, sentence) in expected {
        let legacy = server.post(token, &[], &initialize("2025-11-25", "test")).await.json();
        let modern = server.sessionless(token, "server/discover", json!({})).await.json();
        for reply in [legacy, modern] {
            let instructions = reply["result"]["instructions"].as_str().unwrap();
            assert!(instructions.contains(sentence), "{instructions}");
            assert!(!instructions.contains("list:///."));
        }
    }
}

#[tokio::test]
async fn a_token_that_only_adds_is_told_of_nothing_but_adding() {
    let server = Server::start().await;
    let adds = "ann;-;append:/logs/;3600";
    std::fs::create_dir_all(server.root().join("logs")).unwrap();
    std::fs::write(server.root().join("logs/a.md"), "a\n").unwrap();
    let told = server.sessionless(adds, "server/discover", json!({})).await.json();
    let told = told["result"]["instructions"].as_str().unwrap().to_owned();
    for other in ["Read a file", "text_read", "file_list", "stale", "Find:", "Read:"] {
        assert!(!told.contains(other), "{other}: {told}");
    }
    let nothing = stile_domain::hash::ContentHash::digest(b"").to_string();
    let call = |name: &str, arguments: Value| {
        let (server, params) = (&server, json!({ "name": name, "arguments": arguments }));
        async move { server.sessionless(adds, "tools/call", params).await }
    };
    let how =
        format!("call `text_append` with `size_bytes` 0 and the `hash` of nothing, `{nothing}`");
    for (name, arguments) in [
        ("text.append", json!({ "path": "/logs/a.md", "content": "b\n", "hash": nothing })),
        ("text.read", json!({ "path": "/logs/a.md" })),
    ] {
        let refused = call(name, arguments).await;
        assert!(refused.status == 403 && refused.body.contains(&how), "{refused:?}");
    }
    let elsewhere = json!({ "path": "/a.md", "content": "b\n", "hash": nothing, "size_bytes": 0 });
    let refused = call("text.append", elsewhere).await;
    assert!(refused.status == 403 && !refused.body.contains("call `"), "{refused:?}");
    assert!(told.contains(&nothing), "{told}");
    let added = json!({
        "path": "/logs/a.md", "content": "b\n", "hash": nothing, "size_bytes": 0,
    });
    assert_eq!(call("text.append", added).await.json()["result"]["isError"], false);
    let both = "ann;-;append:/logs/_write:/work/;3600";
    let told = server.sessionless(both, "server/discover", json!({})).await.body;
    assert!(told.contains("Add only, to files that are there: /logs/.") && told.contains("stale"));
}

#[tokio::test]
async fn paths_of_folders_are_completed_within_the_scopes() {
    let ground = Ground::real();
    let root = ground.root();
    let server = Server::on(ground, |_| {}).await;
    for folder in ["work/plans/old", "work/people", "private/deep", "work/plan b"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("work/plans.md"), "x").unwrap();
    let session = server.open(READ).await;
    let ask = |begun: &str| {
        json!({
            "ref": { "type": "ref/resource", "uri": "list://{+path}" },
            "argument": { "name": "path", "value": begun }
        })
    };
    for (token, begun, values) in [
        (READ, "", json!(["/private", "/work"])),
        (READ, "/w", json!(["/work"])),
        (READ, "w", json!(["/work"])),
        (READ, "/work/pl", json!(["/work/plan b", "/work/plans"])),
        (READ, "/work/plans/", json!(["/work/plans/old"])),
        (READ, "/none/x", json!([])),
        (READ, "/../x", json!([])),
        (WORK, "/work/p", json!(["/work/people", "/work/plan b", "/work/plans"])),
        // Nothing outside of the scopes, not even that it is there.
        (WORK, "/", json!([])),
        (WORK, "/private/", json!([])),
        (NOTHING, "/work/", json!([])),
    ] {
        let found = server.sessionless(token, "completion/complete", ask(begun)).await.json();
        let completion = json!({ "values": values, "hasMore": false });
        assert_eq!(found["result"]["completion"], completion, "{token} {begun}");
        if token == READ {
            let body = request(1, "completion/complete", ask(begun));
            let found = server.in_session(READ, &session, &body).await.json();
            assert_eq!(found["result"]["completion"], completion, "{begun}");
        }
    }
    for index in 0..150 {
        std::fs::create_dir(root.join(format!("work/people/{index:03}"))).unwrap();
    }
    let many = server.sessionless(READ, "completion/complete", ask("/work/people/")).await.json();
    let completion = &many["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&completion["values"][99], &completion["hasMore"]),
        (&json!("/work/people/099"), &json!(true))
    );
    let other = json!({
        "ref": { "type": "ref/prompt", "name": "x" },
        "argument": { "name": "a", "value": "" }
    });
    let refused = server.sessionless(READ, "completion/complete", other).await.json();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn resources_are_listed_to_readers_and_missing_ones_reported_per_lifecycle() {
    let server = Server::start().await;
    let listed = server.sessionless(READ, "resources/list", json!({})).await.json();
    assert_eq!(listed["result"]["resources"][0]["uri"], "list:///");
    let listed = server.sessionless(WORK, "resources/list", json!({})).await.json();
    let begin = listed["result"]["resources"][0]["uri"].as_str().unwrap();
    assert_eq!(begin, "list:///work", "the root is not theirs");
    assert_eq!(listed["result"]["resources"].as_array().unwrap().len(), 1);
    let templates = server.sessionless(WORK, "resources/templates/list", json!({})).await.json();
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "list://{+path}");

    let session = server.open(READ).await;
    for (uri, code) in [("list:///absent", "not_found"), ("test://nowhere", "not_found")] {
        let read = request(1, "resources/read", json!({ "uri": uri }));
        let legacy = server.in_session(READ, &session, &read).await.json();
        assert_eq!(legacy["error"]["code"], -32002, "{legacy}");
        let modern = server.sessionless(READ, "resources/read", json!({ "uri": uri })).await.json();
        assert_eq!(modern["error"]["code"], -32602, "{modern}");
        for error in [&legacy["error"], &modern["error"]] {
            assert_eq!(
                (&error["data"]["uri"], &error["data"]["code"]),
                (&json!(uri), &json!(code))
            );
        }
    }
    let broken = request(1, "resources/read", json!({ "uri": "list:///a%00" }));
    let broken = server.in_session(READ, &session, &broken).await.json();
    assert_eq!(
        (&broken["error"]["code"], &broken["error"]["data"]["code"]),
        (&json!(-32602), &json!("invalid_path"))
    );
}

#[tokio::test]
async fn a_panic_of_a_handler_is_an_internal_error_and_the_server_continues() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    for reply in [
        server.in_session(READ, &session, &call(1, "test.panics", json!({}))).await,
        server
            .sessionless(READ, "tools/call", json!({ "name": "test.panics", "arguments": {} }))
            .await,
    ] {
        let error = &reply.json()["result"]["structuredContent"]["error"];
        assert_eq!(error["code"], "internal", "{reply:?}");
        assert!(error["incident"].is_u64());
        assert!(!reply.body.contains("content of a note"));
    }
    assert_eq!(
        server.in_session(READ, &session, &request(2, "ping", json!({}))).await.json()["result"],
        json!({})
    );
}

#[tokio::test]
async fn a_client_must_accept_both_kinds_of_answer() {
    let server = Server::start().await;
    let body = initialize("2025-11-25", "test");
    for accept in ["application/json", "text/event-stream", "text/html", ""] {
        let refused = server.post(READ, &[("accept", accept)], &body).await;
        assert_eq!((refused.status, &refused.json()["id"]), (406, &json!(0)), "{accept}");
    }
    assert_eq!(server.post(READ, &[("content-type", "text/plain")], &body).await.status, 415);
    assert_eq!(
        server
            .post(READ, &[("mcp-protocol-version", "1999-01-01")], &request(1, "ping", json!({})))
            .await
            .status,
        400
    );
}
