//! Clients that hold a token which the owner pasted: how they are listed and ended.

use serde_json::{Value, json};
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::process::Server;

use crate::sign_in_kit::{Place, ScriptedClient, text_of};

const REVISION: Lifecycle = Lifecycle::Session("2025-11-25");

/// Opens a session under the name that a client gives itself.
fn open(server: &Server, token: &str, name: &str) -> Peer {
    let mut peer = Peer::new(server.address, token, REVISION);
    let who = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": name, "version": "1" },
    });
    let opened = peer.post("initialize", who).unwrap();
    assert_eq!(opened.status, 200);
    peer.session = opened.header("mcp-session-id").map(str::to_owned);
    peer
}

#[test]
fn a_client_with_a_pasted_token_is_listed_with_its_last_use_and_ended_by_its_name() {
    let place = Place::new();
    let named = place.rig.token(&["read:/"], &["--client", "pasted-client"]);
    let unnamed = place.rig.token(&["read:/"], &[]);
    for token in [&named, &unnamed] {
        let mut peer = open(&place.server, token, "goose");
        let listed = message_of(&peer.post("tools/list", json!({})).unwrap());
        assert!(listed["result"]["tools"].is_array(), "{listed}");
    }
    let mut browser = place.signed_in_browser();
    let page = text_of(&browser.get(&place.url().replace("/mcp", "/owner/clients")));
    let own_name = "goose (self-named)";
    assert!(page.contains("pasted-client") && page.contains(own_name), "{page}");
    // A stop writes the uses at once.
    let place = place.restarted_after(|| ());

    let list = || -> Vec<Value> {
        serde_json::from_str(&place.stile(&["client", "list", "--json"])).unwrap()
    };
    let of = |name: &str| list().into_iter().find(|row| row["name"] == name);
    for name in ["pasted-client", own_name] {
        let row = of(name).unwrap_or_else(|| panic!("{name}: {:?}", list()));
        assert_eq!((&row["kind"], &row["state"]), (&json!("token"), &json!("allowed")));
        assert!(row["last_used"].is_string(), "{row}");
        assert_eq!(row["rights"][0], "may read all files", "{row}");
    }

    let said = place.stile(&["client", "end", "pasted-client"]);
    assert!(said.starts_with("pasted-client ("), "{said}");
    assert!(said.contains("(ended: 1 token, 1 session)"), "{said}");
    assert!(said.contains("A new token of `stile token` lets it in again"), "{said}");
    let refused = Peer::new(place.server.address, &named, REVISION).initialize().unwrap();
    assert_eq!(refused.status, 401);
    assert_eq!(of("pasted-client").unwrap()["state"], "ended");
    let served = Peer::new(place.server.address, &unnamed, REVISION).initialize().unwrap();
    assert_eq!(served.status, 200, "another client is not concerned");
}

#[test]
fn the_end_of_a_client_says_what_ended_and_what_stays() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut place.signed_in_browser(), "read:/work/");
    let access = tokens["access_token"].as_str().unwrap();
    open(&place.server, access, "goose");
    let said = place.stile(&["client", "end", "Editor"]);
    assert!(said.starts_with("Editor (") && said.contains("has ended"), "{said}");
    assert!(said.contains("with what you allowed: read:/work/"), "{said}");
    assert!(said.contains("(ended: 1 approval, 1 token, 1 session)"), "{said}");
    assert!(said.contains("Its registration stays: it may ask you again"), "{said}");
    let refused = Peer::new(place.server.address, access, REVISION).initialize().unwrap();
    assert_eq!(refused.status, 401);
}

/// Revision 2026-07-28 has no sessions: each request says who its client is.
#[test]
fn a_client_without_a_session_is_listed_and_ended_under_the_name_that_it_gives_itself() {
    let place = Place::new();
    let token = place.rig.token(&["read:/"], &[]);
    let mut peer = Peer::new(place.server.address, &token, Lifecycle::Sessionless);
    assert_eq!(peer.post("tools/list", json!({})).unwrap().status, 200);
    let list = || -> Vec<Value> {
        serde_json::from_str(&place.stile(&["client", "list", "--json"])).unwrap()
    };
    let own_name = "testkit (self-named)";
    let began = std::time::Instant::now();
    while list().iter().all(|row| row["name"] != own_name) {
        assert!(began.elapsed() < crate::support::PATIENCE, "{:?}", list());
    }
    let mut browser = place.signed_in_browser();
    let page = text_of(&browser.get(&place.url().replace("/mcp", "/owner/clients")));
    assert!(page.contains(own_name), "{page}");
    let said = place.stile(&["client", "end", "testkit"]);
    assert!(said.starts_with(own_name), "{said}");
    assert_eq!(peer.post("tools/list", json!({})).unwrap().status, 401);
    let ended = list().into_iter().find(|row| row["name"] == own_name).unwrap();
    assert_eq!(ended["state"], "ended", "it is known by its name still");
}
