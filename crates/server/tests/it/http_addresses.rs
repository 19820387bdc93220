//! The addresses that people type: with and without `/mcp`, with a slash, and in a browser.

use serde_json::{Value, json};

use crate::support::{Client, READ, Reply, Server, initialize, request};

const BROWSER: (&str, &str) =
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

/// Each address that a person gives to a client, and where its metadata is.
const ADDRESSES: [(&str, &str, &str); 6] = [
    ("/mcp", "/.well-known/oauth-protected-resource/mcp", "/mcp"),
    ("/mcp/", "/.well-known/oauth-protected-resource/mcp/", "/mcp/"),
    ("/", "/.well-known/oauth-protected-resource", ""),
    (
        "/mcp?names=dotted",
        "/.well-known/oauth-protected-resource/mcp?names=dotted",
        "/mcp?names=dotted",
    ),
    (
        "/mcp/?names=dotted",
        "/.well-known/oauth-protected-resource/mcp/?names=dotted",
        "/mcp/?names=dotted",
    ),
    ("/?names=dotted", "/.well-known/oauth-protected-resource/?names=dotted", "/?names=dotted"),
];

async fn post(
    server: &Server,
    path: &str,
    token: &str,
    more: &[(&str, &str)],
    body: &Value,
) -> Reply {
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ];
    headers.extend(more);
    let head = Client::head("POST", path, token, &headers);
    let body = body.to_string();
    let mut client = server.connect().await;
    client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    client.reply().await
}

/// The TypeScript SDK compares `resource` with the address that it was given.
#[tokio::test]
async fn each_address_is_the_endpoint_and_names_itself_in_its_metadata() {
    let server = Server::start().await;
    for (path, metadata, resource) in ADDRESSES {
        let begin = initialize("2025-11-25", "test");
        let refused = post(&server, path, "", &[], &begin).await;
        let challenge = refused.header("www-authenticate").unwrap();
        let named = format!("resource_metadata=\"http://localhost{metadata}\"");
        assert!(refused.status == 401 && challenge.contains(&named), "{path} {challenge}");
        let found = server.connect().await.get(metadata, "", &[]).await;
        assert_eq!(found.json()["resource"], format!("http://localhost{resource}"), "{path}");

        let opened = post(&server, path, READ, &[], &begin).await;
        let session = opened.header("mcp-session-id").unwrap();
        let id = ("mcp-session-id", session);
        let listed = post(&server, path, READ, &[id], &request(1, "tools/list", json!({}))).await;
        assert!(listed.json()["result"]["tools"].is_array(), "{path} {listed:?}");
        let mut stream = server.connect().await;
        let headers = [("accept", "text/event-stream"), id];
        stream.send(format!("{}\r\n", Client::head("GET", path, READ, &headers))).await;
        let head = stream.reply_head().await.unwrap();
        assert_eq!(head.header("content-type"), Some("text/event-stream"), "{path}");
        let mut client = server.connect().await;
        client.send(format!("{}\r\n", Client::head("DELETE", path, READ, &[id]))).await;
        assert_eq!(client.reply().await.status, 204, "{path}");
    }
    let metadata = "/.well-known/oauth-protected-resource";
    for rest in ["/", "?names=dotted"] {
        let found = server.connect().await.get(&format!("{metadata}{rest}"), "", &[]).await;
        assert_eq!(found.json()["resource"], format!("http://localhost{rest}"));
    }
}

/// Clients that were written for the transport of 2024-11-05 try `/sse`, and people type it.
#[tokio::test]
async fn an_address_with_nothing_behind_it_says_which_one_to_use() {
    let server = Server::start().await;
    for (method, path) in [("GET", "/sse"), ("POST", "/sse"), ("GET", "/mcp/sse"), ("GET", "/no")] {
        let mut client = server.connect().await;
        let headers = [("accept", "text/event-stream")];
        client.send(format!("{}\r\n", Client::head(method, path, "", &headers))).await;
        let reply = client.reply().await;
        assert_eq!((reply.status, &reply.json()["error"]), (404, &json!("not_found")), "{path}");
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("http://localhost/mcp (Streamable HTTP"), "{message}");
    }
}

#[tokio::test]
async fn a_browser_sees_what_this_is_and_a_client_never_gets_that_page() {
    let server = Server::start().await;
    for (path, ..) in ADDRESSES {
        let page = server.connect().await.get(path, "", &[BROWSER]).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert!(page.body.contains("http://localhost/mcp"), "{}", page.body);
        assert!(!page.body.contains("<script"));
        for accept in ["text/event-stream", "*/*", "application/json"] {
            let refused = server.connect().await.get(path, "", &[("accept", accept)]).await;
            assert_eq!(refused.status, 401, "{path} {accept}");
        }
        let posted = post(&server, path, "", &[BROWSER], &json!({})).await;
        assert_eq!(posted.status, 401, "{path}");
    }
    let style = server.connect().await.get("/pages/style.css", "", &[]).await;
    assert_eq!(style.header("content-type"), Some("text/css; charset=utf-8"));
}

/// `ssh -L 8080:localhost:9999` and `docker run -p 8080:9999`.
#[tokio::test]
async fn a_forwarded_port_is_the_origin_in_all_that_the_server_says() {
    let server = Server::start().await;
    let host = ("host", "localhost:8080");
    let page = server.connect().await.get("/", "", &[host, BROWSER]).await;
    assert!(page.body.contains("http://localhost:8080/mcp"), "{}", page.body);
    let metadata = "/.well-known/oauth-protected-resource/mcp";
    let found = server.connect().await.get(metadata, "", &[host]).await;
    assert_eq!(found.json()["resource"], "http://localhost:8080/mcp");
    let refused = server.connect().await.get("/mcp", "", &[host]).await;
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("\"http://localhost:8080/.well-known/"), "{challenge}");
    for (origin, status) in [("http://localhost:8080", 401), ("http://localhost:3000", 403)] {
        let from = server.connect().await.get("/mcp", "", &[host, ("origin", origin)]).await;
        assert_eq!(from.status, status, "{origin}");
    }
}
