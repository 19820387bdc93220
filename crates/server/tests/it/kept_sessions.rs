//! Sessions that outlive the process that opened them, and what ends them for good.

use serde_json::{Value, json};
use stile_testkit::client::Reply;
use stile_testkit::hosted::{Lifecycle, Peer, message_of};
use stile_testkit::process::{Rig, Server};

use crate::list_changes::{BOTH, next, stream_of, two_methods};
use crate::sign_in_kit::{Browser, Place, ScriptedClient, form_to};
use crate::support::Client;

const REVISION: Lifecycle = Lifecycle::Session("2025-11-25");

/// Sends `tools/list` in a session on a connection of its own.
fn list(server: &Server, token: &str, session: &str) -> Reply {
    let mut peer = Peer::new(server.address, token, REVISION);
    peer.session = Some(session.to_owned());
    peer.post("tools/list", json!({})).unwrap()
}

fn open(server: &Server, token: &str) -> String {
    Peer::open(server, token, REVISION).session.unwrap()
}

fn is_served(reply: &Reply) -> bool {
    reply.status == 200 && message_of(reply)["result"]["tools"].is_array()
}

fn rig(folder: &tempfile::TempDir) -> Rig {
    Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"))
}

#[test]
fn a_session_is_good_after_a_stop_and_after_a_kill_for_its_caller_and_none_else() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let token = rig.token(&["read:/"], &["--client", "editor"]);
    let same_name = rig.token(&["read:/"], &["--client", "editor"]);
    let mut server = rig.serve(&[]);
    let session = open(&server, &token);
    for is_killed in [true, false, true] {
        if is_killed {
            server.kill();
        } else {
            assert!(server.stop().0.success());
        }
        server = rig.serve(&[]);
        assert_eq!(list(&server, &same_name, &session).status, 404, "another token");
        assert!(is_served(&list(&server, &token, &session)));
        let never = "00000000-0000-4000-8000-000000000000";
        assert_eq!(list(&server, &token, never).status, 404);
    }
}

/// A client chooses its own name, and any other one may have the same.
#[test]
fn a_session_is_good_for_its_client_and_for_no_other_one_of_its_name() {
    let place = Place::new();
    let mut browser = place.signed_in_browser();
    let mut sign_in = |client: &ScriptedClient, scope: &str| {
        let tokens = client.tokens(&mut browser, scope);
        tokens["access_token"].as_str().unwrap().to_owned()
    };
    let [client, other] = [(); 2].map(|()| ScriptedClient::connect(&place.url()));
    let token = sign_in(&client, "read:/work/");
    let of_other = sign_in(&other, "read:/work/");
    let pasted = place.rig.token(&["read:/work/"], &["--client", "Editor"]);
    let session = open(&place.server, &token);
    for stranger in [&of_other, &pasted] {
        assert_eq!(list(&place.server, stranger, &session).status, 404);
        for method in ["GET", "DELETE"] {
            let reply = peer_at(&place.server, stranger, &session).bodiless(method).unwrap();
            assert_eq!(reply.status, 404, "{method}");
        }
    }
    assert!(is_served(&list(&place.server, &token, &session)));
    // The same client asked for more, in the middle of its session.
    let more = sign_in(&client, "read:/work/ read:/journal/");
    assert!(is_served(&list(&place.server, &more, &session)));
}

/// The lists may have changed while nobody served the client.
#[tokio::test]
async fn a_session_that_goes_on_after_a_restart_is_told_once_that_its_lists_may_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let token = rig.token(&["read:/"], &[]);
    let server = rig.serve(&[]);
    let session = open(&server, &token);
    assert!(is_served(&list(&server, &token, &session)));
    server.kill();
    let server = rig.serve(&[]);
    let connection = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut stream = stream_of(Client::new(connection), &token, &session).await;
    assert_eq!(two_methods(&mut stream).await, BOTH);
}

/// The TypeScript SDK 1.32 and the Python SDK 2.3 (legacy) go on with the id after an idle hour.
#[test]
fn a_session_that_left_the_memory_is_good_again() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let token = rig.token(&["read:/"], &[]);
    let server = rig.serve(&["--session-idle-seconds", "1"]);
    let session = open(&server, &token);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(is_served(&list(&server, &token, &session)));
}

#[test]
fn a_session_keeps_the_spelling_of_its_client_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let token = rig.token(&["read:/"], &[]);
    let server = rig.serve(&[]);
    let mut sessions = Vec::new();
    for (client, first) in [("mcp-inspector", "file.list"), ("editor", "file_list")] {
        let mut peer = Peer::new(server.address, &token, REVISION);
        let opened = peer.post(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": client, "version": "1" },
            }),
        );
        let session = opened.unwrap().header("mcp-session-id").unwrap().to_owned();
        sessions.push((session, first));
    }
    let spelled = |server: &Server, session: &str, first: &str| {
        let tools = message_of(&list(server, &token, session))["result"]["tools"].clone();
        tools.as_array().unwrap().iter().any(|tool| tool["name"] == first)
    };
    assert!(sessions.iter().all(|(session, first)| spelled(&server, session, first)));
    server.kill();
    let server = rig.serve(&[]);
    assert!(sessions.iter().all(|(session, first)| spelled(&server, session, first)));
}

#[test]
fn a_deleted_session_stays_ended_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let token = rig.token(&["read:/"], &[]);
    let server = rig.serve(&[]);
    let mut peer = Peer::open(&server, &token, REVISION);
    let session = peer.session.clone().unwrap();
    assert_eq!(peer.bodiless("DELETE").unwrap().status, 204);
    assert_eq!(list(&server, &token, &session).status, 404);
    server.kill();
    let server = rig.serve(&[]);
    assert_eq!(list(&server, &token, &session).status, 404);
    assert_eq!(peer_at(&server, &token, &session).bodiless("DELETE").unwrap().status, 404);
}

fn peer_at(server: &Server, token: &str, session: &str) -> Peer {
    let mut peer = Peer::new(server.address, token, REVISION);
    peer.session = Some(session.to_owned());
    peer
}

#[test]
fn a_session_ends_with_the_token_that_opened_it() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let tokens = [(); 2].map(|()| rig.token(&["read:/"], &["--client", "editor"]));
    let server = rig.serve(&[]);
    let [first, second] = [&tokens[0], &tokens[1]].map(|token| open(&server, token));
    let listed = rig.command(&["token", "list", "--json", "--state"]).arg(&rig.state).output();
    let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
    let jti = listed[0]["jti"].as_str().unwrap().to_owned();
    let mut revoke = rig.command(&["token", "revoke", &jti, "--state"]);
    assert!(revoke.arg(&rig.state).output().unwrap().status.success());
    // One of the two tokens is revoked: the other one has its own session only.
    let statuses: Vec<Vec<u16>> = tokens
        .iter()
        .map(|token| [&first, &second].map(|session| list(&server, token, session).status).into())
        .collect();
    let (of_first_revoked, of_second_revoked) =
        (vec![vec![401, 401], vec![404, 200]], vec![vec![200, 404], vec![401, 401]]);
    assert!(statuses == of_first_revoked || statuses == of_second_revoked, "{statuses:?}");
}

/// Takes a right away from the only client, on the owner's page.
fn narrow(place: &Place, browser: &mut Browser, right: &str) {
    let url = |path: &str| place.url().replace("/mcp", path);
    let page = browser.get(&url("/owner/clients"));
    let form = form_to(&page, "/owner/clients/narrow");
    let kept = form.fields.iter().filter(|(_, value)| value != right);
    let kept: Vec<(&str, &str)> =
        kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(browser.post(&url("/owner/clients/narrow"), &kept).status, 303);
}

#[test]
fn a_session_ends_where_its_approval_is_narrowed_and_with_the_approval() {
    let place = Place::new();
    let mut browser = place.signed_in_browser();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut browser, "read:/work/ read:/journal/ offline_access");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (access, refresh) = (text(&tokens["access_token"]), text(&tokens["refresh_token"]));
    let session = open(&place.server, &access);
    assert!(is_served(&list(&place.server, &access, &session)));
    let renewed = client.refresh(&refresh).json();
    let (access, refresh) = (text(&renewed["access_token"]), text(&renewed["refresh_token"]));
    assert!(is_served(&list(&place.server, &access, &session)), "a renewed token");

    narrow(&place, &mut browser, "read:/journal/");
    let renewed = client.refresh(&refresh).json();
    let access = text(&renewed["access_token"]);
    assert_eq!(list(&place.server, &access, &session).status, 404);

    let session = open(&place.server, &access);
    place.stile(&["client", "end", &client.id]);
    assert_eq!(list(&place.server, &access, &session).status, 401);
}

/// A subject that opens very many sessions at once gets some that no state has.
#[test]
fn every_session_ends_with_its_approval_and_where_it_is_narrowed_however_many_were_opened() {
    let place = Place::with(&["--sessions-per-subject", "400"]);
    let mut browser = place.signed_in_browser();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut browser, "read:/work/ read:/journal/ offline_access");
    let access = tokens["access_token"].as_str().unwrap().to_owned();
    let (many, half): (Vec<String>, _) =
        ((0..160).map(|_| open(&place.server, &access)).collect(), 80);
    // The last ones are above the rate at which sessions are kept.
    assert!(many.iter().rev().take(3).all(|one| is_served(&list(&place.server, &access, one))));
    narrow(&place, &mut browser, "read:/journal/");
    let statuses: Vec<u16> =
        many.iter().map(|session| list(&place.server, &access, session).status).collect();
    assert!(statuses.iter().all(|status| *status == 404), "{statuses:?}");

    let many: Vec<String> = (0..half).map(|_| open(&place.server, &access)).collect();
    place.stile(&["client", "end", &client.id]);
    let tokens = client.tokens(&mut browser, "read:/work/ read:/journal/");
    let access = tokens["access_token"].as_str().unwrap();
    let statuses: Vec<u16> =
        many.iter().map(|session| list(&place.server, access, session).status).collect();
    assert!(statuses.iter().all(|status| *status == 404), "allowed again: {statuses:?}");
}

#[test]
fn a_client_of_many_sessions_takes_none_of_one_that_has_few_also_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let [token, busy] = [(); 2].map(|()| rig.token(&["read:/"], &["--client", "editor"]));
    let more = ["--sessions-per-subject", "4"];
    let server = rig.serve(&more);
    let [first, second] = [(); 2].map(|()| open(&server, &token));
    for _ in 0..3 {
        open(&server, &busy);
    }
    server.kill();
    let server = rig.serve(&more);
    open(&server, &busy);
    let statuses = |server: &Server, sessions: &[&String]| -> Vec<u16> {
        sessions.iter().map(|session| list(server, &token, session).status).collect()
    };
    assert_eq!(statuses(&server, &[&first, &second]), [200, 200], "another client of the user");
    let third = open(&server, &token);
    assert_eq!(statuses(&server, &[&first, &second, &third]), [404, 200, 200]);
}

/// A client that lists what there is before it listens again does not learn from the list that
/// nobody tells it of what it subscribed to.
/// More sessions in a burst than are kept: the later ones are in memory only, and take their places
/// from the earlier ones all the same.
#[test]
fn a_burst_of_sessions_leaves_a_user_no_more_than_others_have() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    let server = rig.serve(&[]);
    let token = rig.token(&["read:/"], &["--client", "editor"]);
    let sessions: Vec<String> = (0..200).map(|_| open(&server, &token)).collect();
    let served = sessions.iter().filter(|id| is_served(&list(&server, &token, id))).count();
    assert_eq!(served, 64);
}

#[tokio::test]
async fn a_session_that_lost_its_subscriptions_is_told_when_it_listens_again() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(&folder);
    std::fs::create_dir_all(&rig.root).unwrap();
    std::fs::write(rig.root.join("plan.md"), "plan\n").unwrap();
    let token = rig.token(&["read:/"], &[]);
    let server = rig.serve(&[]);
    let mut peer = Peer::open(&server, &token, REVISION);
    let session = peer.session.clone().unwrap();
    let watch = json!({ "uri": "space:///plan.md" });
    let watched = |reply: &Reply| message_of(reply)["result"].is_object();
    assert!(watched(&peer.post("resources/subscribe", watch.clone()).unwrap()));
    server.kill();
    let server = rig.serve(&[]);
    let mut peer = peer_at(&server, &token, &session);
    for method in ["tools/list", "resources/list"] {
        assert_eq!(peer.post(method, json!({})).unwrap().status, 200);
    }
    let listen = async || {
        let connection = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream_of(Client::new(connection), &token, &session).await
    };
    let told = next(&mut listen().await).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed");
    // Until it does something about it, and not again after that.
    let told = next(&mut listen().await).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed");
    assert!(watched(&peer.post("resources/subscribe", watch).unwrap()));
    let mut stream = listen().await;
    std::fs::write(rig.root.join("plan.md"), "changed\n").unwrap();
    let told = next(&mut stream).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
}
