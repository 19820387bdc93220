//! What each token is shown of the tools, word by word.

use serde_json::{Value, json};

use crate::support::{Ground, NOTHING, READ, Server, WRITE, initialize, request};
use stile_server::config::ToolNames;
use stile_tools::space::SpaceTools;

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
    insta::assert_snapshot!("tools_write", pretty(&tools(&server, WRITE).await));
}

#[tokio::test]
async fn a_read_token_lists_these_tools() {
    let server = Server::on(Ground::real(), |_| {}).await;
    insta::assert_snapshot!("tools_read", pretty(&tools(&server, READ).await));
}

#[tokio::test]
async fn a_token_without_scopes_lists_no_tools() {
    let server = Server::on(Ground::real(), |_| {}).await;
    assert_eq!(tools(&server, NOTHING).await, json!([]));
}

#[tokio::test]
async fn the_two_spellings_differ_only_in_the_names_of_tools_wherever_these_are_told() {
    let underscored = Server::on(Ground::real(), |_| {}).await;
    let dotted =
        Server::on(Ground::real(), |options| options.presentation.names = ToolNames::Dotted).await;
    for token in [WRITE, READ] {
        let [underscored, dotted] = [tools(&underscored, token).await, tools(&dotted, token).await]
            .map(|list| pretty(&list));
        let mut respelled = dotted.clone();
        for tool in SpaceTools::built_in().filter(|tool| tool.name.contains('.')) {
            let other = tool.name.replace('.', "_");
            assert!(!underscored.contains(tool.name), "{} in {underscored}", tool.name);
            assert!(!dotted.contains(&other), "{other} in {dotted}");
            respelled = respelled.replace(tool.name, &other);
        }
        assert_eq!(respelled, underscored);
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
    file_search
    folder_create
    folder_move
    folder_remove
    get_document_tree
    get_metadata_facets
    get_note_outline
    get_section_source
    note_find
    note_links
    note_set_property
    note_tags
    text_append
    text_edit
    text_gather
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
async fn only_a_client_that_takes_dots_is_shown_them() {
    let server = Server::on(Ground::real(), |_| {}).await;
    let spelled = |spelling: &str| -> Vec<String> {
        let readers = ["file.find", "file.list", "file.read", "file.search"].into_iter();
        let notes =
            ["get_document_tree", "get_metadata_facets", "get_note_outline", "get_section_source"];
        let more = ["note.find", "note.links", "note.tags", "text.gather", "text.read"];
        let all = readers.chain(notes).chain(more).chain(["text.search"]);
        all.map(|name| name.replace('.', spelling)).collect()
    };
    let (underscored, dotted) = (spelled("_"), spelled("."));
    let by_claim = |client: &str| format!("ann;{client};read:/;3600");
    assert_eq!(names(&tools(&server, &by_claim("Claude")).await), underscored);
    assert_eq!(names(&tools(&server, &by_claim("mcp-inspector")).await), dotted);

    for (client, wanted) in [("Anthropic", &underscored), ("mcp-inspector", &dotted)] {
        let opened = server.post(READ, &[], &initialize("2025-11-25", client)).await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let list = request(1, "tools/list", json!({}));
        let listed = server.in_session(READ, &session, &list).await.json();
        assert_eq!(&names(&listed["result"]["tools"]), wanted, "{client}");
    }

    let mut named = crate::support::meta();
    named["io.modelcontextprotocol/clientInfo"]["name"] = "mcp-inspector".into();
    let body = request(1, "tools/list", json!({ "_meta": named }));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let listed = server.post(READ, &headers, &body).await.json();
    assert_eq!(
        names(&listed["result"]["tools"]),
        underscored,
        "outside a session only authorization counts"
    );
}
