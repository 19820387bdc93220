//! With `--agent-undo`, a client sees its own changes. A move whose source its scopes hide by now
//! shows the end that they do not hide, and nothing of the other one.

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::client::McpClient as _;

use crate::sign_in_kit::{Place, ScriptedClient, form_to};

#[test]
fn nothing_of_a_source_that_the_scopes_hide_by_now_shows_in_the_history_of_a_client() {
    let place = Place::with(&["--agent-undo"]);
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let tokens = client.tokens(&mut owner, "write:/work/ write:/journal/");
    let mut agent = place.server.client(tokens["access_token"].as_str().unwrap());
    let hash = |text: &str| ContentHash::digest(text.as_bytes()).to_string();
    let moving =
        json!({ "path": "/journal/day.md", "hash": hash("a day\n"), "to": "/work/came.md" });
    agent.tool("file.move", moving).unwrap();
    agent
        .tool("file.create", json!({ "path": "/journal/in/deep.md", "content": "deep\n" }))
        .unwrap();
    let listed =
        agent.tool("file.list", json!({ "path": "/journal/in", "tree_hash": true })).unwrap();
    let moving = json!({ "path": "/journal/in", "hash": listed["tree_hash"], "to": "/work/out" });
    agent.tool("folder.move", moving).unwrap();
    let calls = [
        ("file.history", json!({})),
        ("file.history", json!({ "path": "/work/came.md" })),
        ("file.history", json!({ "path": "/work/out/deep.md" })),
        ("file.history", json!({ "path": "/work/out" })),
        (
            "file.restore",
            json!({ "path": "/work/came.md", "version": "1", "hash": hash("a day\n") }),
        ),
        ("file.restore", json!({ "path": "/work/gone.md", "version": "1" })),
    ];
    let mut told = || {
        let told = calls.clone().map(|(tool, arguments)| {
            let call = json!({ "name": tool.replace('.', "_"), "arguments": arguments });
            agent.request("tools/call", call).unwrap().to_string()
        });
        told.concat()
    };
    let all = told();
    assert!(all.contains("/journal/day.md") && all.contains("/work/came.md"), "{all}");
    let page = owner.get(&place.at("/owner/clients"));
    let form = form_to(&page, "/owner/clients/narrow");
    let kept = form.fields.iter().filter(|(_, value)| value != "write:/journal/");
    let kept: Vec<_> = kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(owner.post(&place.at("/owner/clients/narrow"), &kept).status, 303);
    let seen = told();
    assert!(seen.contains("/work/came.md") && seen.contains("/work/out"), "{seen}");
    for hidden in ["journal", "day.md", "/in/", "\"in\""] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
}
