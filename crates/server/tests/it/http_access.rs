//! The table of `access.md`, row by row.

use serde_json::json;

use crate::support::{Client, NOTHING, READ, Server, WORK, WRITE, call, request};

#[tokio::test]
async fn a_request_without_a_token_is_answered_with_a_challenge() {
    let server = Server::start().await;
    let host = format!("localhost:{}", server.address.port());
    let metadata =
        format!("resource_metadata=\"http://{host}/.well-known/oauth-protected-resource/mcp\"");
    let list = request(1, "tools/list", json!({}));
    let missing = server.post("", &[("host", &host)], &list).await;
    assert_eq!(missing.status, 401);
    let metadata = format!("scope=\"read:/\", {metadata}");
    assert_eq!(missing.header("www-authenticate"), Some(format!("Bearer {metadata}").as_str()));
    for (token, why) in
        [("nonsense", "the token is not valid here"), ("ann;-;write:/;0", "the token has expired")]
    {
        let invalid = server.post(token, &[("host", &host)], &list).await;
        assert_eq!(invalid.status, 401);
        let expected =
            format!("Bearer error=\"invalid_token\", error_description=\"{why}\", {metadata}");
        assert_eq!(invalid.header("www-authenticate"), Some(expected.as_str()));
        assert!(invalid.json()["message"].as_str().unwrap().starts_with(why));
    }
    for method in ["GET", "DELETE", "PUT"] {
        let mut client = server.connect().await;
        client.send(format!("{}\r\n", Client::head(method, "/mcp", "", &[]))).await;
        assert_eq!(client.reply().await.status, 401, "{method}");
    }
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_call_and_any_other_may_not() {
    let server = Server::with(|options| {
        options.allowed_origins = vec!["https://app.example.org".to_owned()];
    })
    .await;
    let preflight = [
        ("origin", "https://app.example.org"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let ask = async |headers: &[(&str, &str)]| {
        let mut client = server.connect().await;
        client.send(format!("{}\r\n", Client::head("OPTIONS", "/mcp", "", headers))).await;
        client.reply().await
    };
    let allowed = ask(&preflight).await;
    assert_eq!(allowed.status, 204);
    let origin = Some("https://app.example.org");
    assert_eq!(allowed.header("access-control-allow-origin"), origin);
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("authorization"));
    let page = [("origin", "https://app.example.org")];
    let called = server.connect().await.get("/health", "", &page).await;
    assert_eq!((called.status, called.header("access-control-allow-origin")), (200, origin));
    let challenged = server.post("", &page, &request(1, "ping", json!({}))).await;
    assert_eq!(
        (challenged.status, challenged.header("access-control-allow-origin")),
        (401, origin)
    );
    let foreign = ask(&[("origin", "https://evil.example"), preflight[1]]).await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn a_token_in_the_query_is_ignored() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let body = request(1, "ping", json!({})).to_string();
    let head = Client::head(
        "POST",
        &format!("/mcp?access_token={WRITE}"),
        "",
        &[("content-type", "application/json")],
    );
    client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    let reply = client.reply().await;
    assert_eq!(reply.status, 401);
    assert!(!reply.header("www-authenticate").unwrap().contains("invalid_token"));
}

#[tokio::test]
async fn a_configured_public_url_names_the_server() {
    let server =
        Server::with(|options| options.public_url = Some("https://notes.example.org/".to_owned()))
            .await;
    let host = [("host", "notes.example.org")];
    let refused = server.post("", &host, &json!({})).await;
    let challenge = refused.header("www-authenticate").unwrap();
    assert_eq!(
        challenge,
        "Bearer scope=\"read:/\", resource_metadata=\"https://notes.example.org/.well-known/oauth-protected-resource/mcp\""
    );
    let metadata =
        server.connect().await.get("/.well-known/oauth-protected-resource/mcp", "", &host).await;
    assert_eq!(metadata.json()["resource"], "https://notes.example.org/mcp");
}

#[tokio::test]
async fn a_call_outside_the_scopes_is_403_in_both_lifecycles_and_keeps_the_session() {
    let server = Server::start().await;
    let session = server.open(WORK).await;
    let arguments = json!({ "path": "/private/a b.md" });
    let sessionless = json!({ "name": "text.read", "arguments": arguments });
    for reply in [
        server.in_session(WORK, &session, &call(1, "text.read", arguments.clone())).await,
        server.in_session(WORK, &session, &call(1, "text_read", arguments.clone())).await,
        server.sessionless(WORK, "tools/call", sessionless).await,
    ] {
        assert_eq!(reply.status, 403, "{reply:?}");
        assert_eq!(
            reply.header("www-authenticate"),
            Some(
                "Bearer error=\"insufficient_scope\", error_description=\"the token does not \
                 cover this call, which needs all of these scopes\", scope=\"read:/private/a%20b.md\", \
                 resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\""
            )
        );
        let body = reply.json();
        assert_eq!(body["id"], 1);
        assert_eq!(body["error"]["code"], -31403);
        assert_eq!(
            body["error"]["data"],
            json!({ "code": "insufficient_scope", "requiredScopes": ["read:/private/a%20b.md"] })
        );
        assert!(body["error"]["message"].as_str().unwrap().contains("`read:/work/`"));
    }
    let after = server.in_session(WORK, &session, &request(2, "ping", json!({}))).await;
    assert_eq!((after.status, after.json()["result"].clone()), (200, json!({})));
}

#[tokio::test]
async fn a_write_without_a_write_scope_changes_nothing() {
    let server = Server::start().await;
    let session = server.open(READ).await;
    let create = call(1, "file.create", json!({ "path": "/a.md", "content": "x" }));
    let refused = server.in_session(READ, &session, &create).await;
    assert_eq!(refused.status, 403);
    assert!(refused.header("www-authenticate").unwrap().contains("scope=\"write:/a.md\""));
    let read = server
        .in_session(READ, &session, &call(2, "text.read", json!({ "path": "/a.md" })))
        .await
        .json();
    assert_eq!(read["result"]["structuredContent"]["error"]["code"], "not_found");
}

#[tokio::test]
async fn a_resource_outside_the_scopes_is_403_whether_it_exists_or_not() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let create = call(1, "file.create", json!({ "path": "/private/a.md", "content": "x" }));
    assert_eq!(
        server.in_session(WRITE, &session, &create).await.json()["result"]["isError"],
        false
    );
    let session = server.open(WORK).await;
    let mut answers = Vec::new();
    for uri in ["list:///private", "list:///absent1"] {
        let reply = server
            .in_session(WORK, &session, &request(1, "resources/read", json!({ "uri": uri })))
            .await;
        assert_eq!(reply.status, 403);
        assert_eq!(
            server.sessionless(WORK, "resources/read", json!({ "uri": uri })).await.status,
            403
        );
        answers.push(reply.body.replace("private", "absent1"));
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn arguments_that_do_not_parse_are_the_tools_own_error_for_every_caller() {
    let server = Server::start().await;
    for token in [WRITE, READ, NOTHING] {
        let session = server.open(token).await;
        let reply =
            server.in_session(token, &session, &call(1, "file.create", json!({ "path": 7 }))).await;
        assert_eq!(reply.status, 200, "{token}");
        let result = &reply.json()["result"];
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["error"]["code"], "invalid_argument");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_unknown_tool_is_invalid_params() {
    let server = Server::start().await;
    let session = server.open(WRITE).await;
    let reply = server.in_session(WRITE, &session, &call(1, "file.burn", json!({}))).await;
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (200, json!(-32602)));
    let reply = server.sessionless(WRITE, "tools/call", json!({ "name": "file.burn" })).await;
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (200, json!(-32602)));
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_on_every_route() {
    let server = Server::start().await;
    for target in ["/mcp", "/health", "/.well-known/oauth-protected-resource", "/nothing"] {
        for headers in [
            [("host", "evil.example"), ("x-a", "b")],
            [("host", "localhost"), ("origin", "http://evil.example")],
        ] {
            let reply = server.connect().await.get(target, WRITE, &headers).await;
            assert_eq!(reply.status, 403, "{target} {headers:?}");
        }
    }
    let own = server
        .connect()
        .await
        .get("/health", "", &[("origin", &format!("http://localhost:{}", server.address.port()))])
        .await;
    assert_eq!(own.status, 200);
}

#[tokio::test]
async fn health_and_metadata_need_no_token_and_say_little() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let health = client.get("/health", "", &[]).await;
    assert_eq!(health.json(), json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }));
    // Each names exactly the resource that was asked for.
    for (path, resource) in [
        ("/.well-known/oauth-protected-resource", "http://127.0.0.1:9"),
        ("/.well-known/oauth-protected-resource/mcp", "http://127.0.0.1:9/mcp"),
    ] {
        let metadata = client.get(path, "", &[("host", "127.0.0.1:9")]).await;
        assert_eq!(
            metadata.json(),
            json!({
                "resource": resource,
                "resource_name": "Stile",
                "scopes_supported": ["read:/"],
                "bearer_methods_supported": ["header"],
            })
        );
    }
    assert_eq!(client.get("/mcp/mcp", WRITE, &[]).await.status, 404);
}
