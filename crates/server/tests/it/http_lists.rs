//! What each token is shown of the tools, word by word.

use serde_json::{Value, json};

use crate::support::{Ground, NOTHING, READ, Server, WRITE, initialize, request};
use stile_server::config::ToolNames;

/// Under which any list must stay: some clients put all of it before each question.
const MOST_BYTES: usize = 24 * 1024;

async fn tools(server: &Server, token: &str) -> Value {
    let listed = server.sessionless(token, "tools/list", json!({})).await;
    assert!(listed.body.len() < MOST_BYTES, "{}", listed.body.len());
    assert_eq!(
        listed.body,
        server.sessionless(token, "tools/list", json!({})).await.body,
        "the list is stable"
    );
    listed.json()["result"]["tools"].clone()
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[tokio::test]
async fn a_write_token_lists_these_tools() {
    let server = Server::on(Ground::real(), |_| {}).await;
    insta::assert_snapshot!("tools_write_dotted", pretty(&tools(&server, WRITE).await));
}

#[tokio::test]
async fn a_read_token_lists_these_tools() {
    let server = Server::on(Ground::real(), |_| {}).await;
    insta::assert_snapshot!("tools_read_dotted", pretty(&tools(&server, READ).await));
}

#[tokio::test]
async fn a_token_without_scopes_lists_no_tools() {
    let server = Server::on(Ground::real(), |_| {}).await;
    assert_eq!(tools(&server, NOTHING).await, json!([]));
}

#[tokio::test]
async fn the_two_spellings_differ_only_in_the_names() {
    let dotted = Server::on(Ground::real(), |_| {}).await;
    let underscored =
        Server::on(Ground::real(), |options| options.presentation.names = ToolNames::Underscored)
            .await;
    for token in [WRITE, READ] {
        let mut respelled = tools(&dotted, token).await;
        for tool in respelled.as_array_mut().unwrap() {
            tool["name"] = tool["name"].as_str().unwrap().replace('.', "_").into();
        }
        assert_eq!(respelled, tools(&underscored, token).await);
    }
    let tools = tools(&underscored, WRITE).await;
    insta::assert_snapshot!(names(&tools).join("\n"), @r"
    file_append
    file_copy
    file_create
    file_find
    file_list
    file_move
    file_read
    file_remove
    folder_create
    folder_remove
    get_document_tree
    get_metadata_facets
    get_note_outline
    get_section_source
    note_find
    note_links
    note_set_property
    text_append
    text_edit
    text_insert
    text_read
    text_replace
    text_search
    ");
}

#[tokio::test]
async fn every_tool_states_all_hints_and_both_flat_schemas() {
    let server = Server::on(Ground::real(), |_| {}).await;
    for tool in tools(&server, WRITE).await.as_array().unwrap() {
        let hints = tool["annotations"].as_object().unwrap();
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{hint} of {tool}");
        }
        assert_eq!(hints["openWorldHint"], false);
        let input = &tool["inputSchema"];
        assert_eq!(
            (&input["type"], &input["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{tool}"
        );
        assert!(input.get("oneOf").is_none() && input.get("anyOf").is_none());
        assert_eq!(tool["outputSchema"]["type"], "object");
        for word in ["\"$ref\"", "\"$schema\"", "\"format\""] {
            assert!(!tool.to_string().contains(word), "{word} in {tool}");
        }
    }
}

#[tokio::test]
async fn a_client_that_refuses_dots_sees_underscores() {
    let server = Server::on(Ground::real(), |_| {}).await;
    let by_claim = tools(&server, "ann;Claude Desktop;read:/;3600").await;
    let spelled = |spelling: &str| -> Vec<String> {
        let readers = ["file.find", "file.list", "file.read"].into_iter();
        let notes =
            ["get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source"];
        let all =
            readers.chain(notes).chain(["note.find", "note.links", "text.read", "text.search"]);
        all.map(|name| name.replace('.', spelling)).collect()
    };
    let (underscored, dotted) = (spelled("_"), spelled("."));
    assert_eq!(names(&by_claim), underscored);

    let opened = server.post(READ, &[], &initialize("2025-11-25", "claude-ai")).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let listed =
        server.in_session(READ, &session, &request(1, "tools/list", json!({}))).await.json();
    assert_eq!(names(&listed["result"]["tools"]), underscored);

    let mut named = crate::support::meta();
    named["io.modelcontextprotocol/clientInfo"]["name"] = "claude-ai".into();
    let body = request(1, "tools/list", json!({ "_meta": named }));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let listed = server.post(READ, &headers, &body).await.json();
    assert_eq!(
        names(&listed["result"]["tools"]),
        dotted,
        "outside a session only authorization counts"
    );
}
