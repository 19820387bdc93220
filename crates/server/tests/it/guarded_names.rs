//! What nobody means to share or to let be changed, as agents with wide scopes meet it.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Server, WRITE};

/// The same rights as `WRITE`, with the guard lifted in one folder.
const LIFTED: &str = "ann;-;write:/_unguard:/home;3600";
/// A scope that lifts a guard and allows nothing.
const LIFT_ALONE: &str = "ann;-;unguard:/;3600";
const SECRET: &str = "canary-4711";

async fn server() -> Server {
    let server = Server::start().await;
    let root = server.root();
    for (path, text) in [
        ("home/.env", SECRET),
        ("home/.ssh/config.md", SECRET),
        ("home/.git/config", "plain-0815"),
        ("home/plan.md", "plain-0815\n"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    server
}

async fn call(server: &Server, token: &str, tool: &str, arguments: Value) -> (u16, Value) {
    let params = json!({ "name": tool, "arguments": arguments });
    let reply = server.sessionless(token, "tools/call", params).await;
    (reply.status, reply.json()["result"].clone())
}

fn code(answer: &Value) -> &str {
    answer["structuredContent"]["error"]["code"].as_str().unwrap_or("none")
}

#[tokio::test]
async fn a_guarded_path_is_a_tool_error_for_each_tool_that_names_it() {
    let server = server().await;
    let (secret, running) = ("/home/.ENV", "/home/.git/hooks");
    let hash = "0".repeat(64);
    for (tool, arguments) in [
        ("text_read", json!({ "path": secret })),
        ("file_read", json!({ "path": "/home/.ssh/config.md" })),
        ("file_create", json!({ "path": secret, "content": "x" })),
        ("file_create", json!({ "path": running, "content": "x" })),
        ("file_append", json!({ "path": running, "content": "x", "hash": hash })),
        ("file_copy", json!({ "path": "/home/plan.md", "hash": hash, "to": running })),
        ("file_copy", json!({ "path": "/home/.env", "hash": hash, "to": "/home/plain.txt" })),
        ("file_move", json!({ "path": "/home/plan.md", "hash": hash, "to": secret })),
        ("folder_create", json!({ "path": "/home/.vscode" })),
        ("folder_remove", json!({ "path": "/home/.ssh" })),
        ("folder_move", json!({ "path": "/home/.ssh", "hash": hash, "to": "/home/keys" })),
        ("folder_move", json!({ "path": "/home/notes", "hash": hash, "to": "/home/.vscode" })),
    ] {
        let (status, answer) = call(&server, WRITE, tool, arguments.clone()).await;
        assert_eq!((status, code(&answer)), (200, "guarded"), "{tool} {arguments}: {answer}");
        assert_eq!(answer["isError"], true, "{tool} {arguments}");
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("--unguard /home/"), "{text}");
    }
    assert!(!server.root().join("home/.git/hooks").exists());
    let (status, read) =
        call(&server, WRITE, "text_read", json!({ "path": "/home/.git/config" })).await;
    assert_eq!(status, 200);
    assert!(read.to_string().contains("plain-0815"), "what only runs may be read: {read}");
}

#[tokio::test]
async fn the_guard_is_lifted_for_a_path_and_only_beside_a_right() {
    let server = server().await;
    let read = json!({ "path": "/home/.env" });
    let (_, answer) = call(&server, LIFTED, "text_read", read.clone()).await;
    assert!(answer.to_string().contains(SECRET), "{answer}");
    let create = json!({ "path": "/.env", "content": "x" });
    assert_eq!(code(&call(&server, LIFTED, "file_create", create).await.1), "guarded");
    let (status, _) = call(&server, LIFT_ALONE, "text_read", read).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn a_guarded_file_is_listed_and_nothing_of_its_content_shows() {
    let server = server().await;
    let (_, listed) = call(&server, WRITE, "file_list", json!({ "path": "/home" })).await;
    assert!(listed.to_string().contains(".env"), "{listed}");
    let search = json!({ "q": SECRET });
    let mut answers = Vec::new();
    for are_there in [true, false] {
        if !are_there {
            fs::remove_file(server.root().join("home/.env")).unwrap();
            fs::remove_dir_all(server.root().join("home/.ssh")).unwrap();
        }
        for tool in ["text_search", "file_search"] {
            answers.push(call(&server, WRITE, tool, search.clone()).await);
        }
    }
    assert_eq!(answers[..2], answers[2..], "a search cannot tell a guarded file from none");
}

#[tokio::test]
async fn a_guarded_file_is_no_resource() {
    let server = server().await;
    let listed = server.sessionless(WRITE, "resources/list", json!({})).await.json();
    assert!(!listed.to_string().contains(".env"), "{listed}");
    assert!(listed.to_string().contains("plan.md"), "{listed}");
    let read = json!({ "uri": "space:///home/.env" });
    let reply = server.sessionless(WRITE, "resources/read", read).await;
    let answer = reply.json();
    assert_eq!(reply.status, 200, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("guarded"), "{answer}");
}

#[tokio::test]
async fn no_completion_offers_a_guarded_name_unless_it_is_lifted() {
    let server = server().await;
    let ask = |reference: Value, begun: &str| json!({ "ref": reference, "argument": { "name": "path", "value": begun } });
    let resource = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
    let prompt = json!({ "type": "ref/prompt", "name": "file-this-note" });
    for (reference, begun) in [
        (resource("space:///{+path}"), "home/"),
        (resource("space:///{+path}"), "home/.s"),
        (resource("space:///{+path}"), "home/.ssh/"),
        (resource("list://{+path}"), "/home/."),
        (prompt, "home/"),
    ] {
        let params = ask(reference, begun);
        for (token, is_offered) in [(WRITE, false), (LIFTED, true)] {
            let reply = server.sessionless(token, "completion/complete", params.clone()).await;
            let values = reply.json()["result"]["completion"]["values"].to_string();
            let is_there = [".env", ".ssh"].iter().any(|name| values.contains(name));
            assert_eq!(is_there, is_offered, "{params} {values}");
        }
    }
}
