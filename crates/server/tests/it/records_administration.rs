//! The owner's programs over HTTP: declarations, grants, tokens of grants, and introspection.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use stile_testkit::client::Reply;
use stile_testkit::process::Rig;

use crate::records_kit::{Kit, refusal};

const JSON: &str = "Content-Type: application/json\r\n";

fn filled() -> Kit {
    let kit = Kit::new();
    for connection in ["chat", "work"] {
        let row = json!({ "data": {
            "id": "m1", "sent_at": "2026-01-05T10:00:00Z", "body": "the heron", "mood": "calm",
        } });
        kit.ingest("messages", connection, &[row]);
    }
    kit
}

impl Kit {
    fn post(&self, target: &str, token: &str, body: &Value) -> Reply {
        self.send("POST", target, token, JSON, &body.to_string())
    }

    fn made(&self, target: &str, body: &Value) -> Value {
        let reply = self.post(target, &self.owner, body);
        assert_eq!(reply.status, 201, "{target}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    fn delete(&self, target: &str) -> u16 {
        self.send("DELETE", target, &self.owner, "", "").status
    }
}

fn grant_of_bodies() -> Value {
    json!({
        "client": { "client_id": "Reader" }, "purpose_description": "to sum up",
        "streams": [{ "name": "messages", "connection_ids": ["chat"], "fields": ["body"] }],
    })
}

/// Every text in a folder.
fn texts(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = files.filter_map(|path| std::fs::read(path).ok());
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[test]
fn an_owners_program_makes_a_grant_and_a_token_and_takes_both_back() {
    let kit = filled();
    let grant = kit.made("/v1/grants", &grant_of_bodies());
    let id = grant["id"].as_str().unwrap();
    assert_eq!((&grant["object"], &grant["status"]), (&json!("grant"), &json!("active")));
    assert_eq!(grant["grant"]["streams"][0]["fields"], json!(["body"]));
    assert_eq!(kit.json(&format!("/v1/grants/{id}"), &kit.owner)["grant"], grant["grant"]);
    // The command line shows the same grant, and shows what it makes over HTTP.
    let shown: Value = serde_json::from_str(&kit.said(&["grant", "show", id])).unwrap();
    assert_eq!(shown["grant"], grant["grant"]);
    let (other, _) = kit.client(&["--stream", "messages"]);
    let page = kit.json("/v1/grants?limit=1", &kit.owner);
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(id), &json!(true)));
    let next = page["links"]["next"].as_str().unwrap();
    let page = kit.json(next, &kit.owner);
    assert_eq!((&page["data"][0]["id"], &page["has_more"]), (&json!(other), &json!(false)));

    let tokens = format!("/v1/grants/{id}/tokens");
    let [first, second] = [json!({ "client": "cursor", "expires_in": 60 }), json!({})]
        .map(|order| kit.made(&tokens, &order));
    assert_eq!((&first["expires_in"], &second["expires_in"]), (&json!(60), &json!(2_592_000)));
    let bearer = |token: &Value| token["access_token"].as_str().unwrap().to_owned();
    let read = |token: &Value| kit.get("/v1/streams/messages/records", &bearer(token));
    for token in [&first, &second] {
        let rows = read(token).json();
        assert_eq!(rows["data"].as_array().map(Vec::len), Some(1), "{rows}");
        assert_eq!(rows["data"][0]["data"], json!({ "body": "the heron" }));
    }
    // A token is revoked by its own grant only, and at once.
    let jti = |token: &Value| token["jti"].as_str().unwrap().to_owned();
    let elsewhere = kit.send(
        "DELETE",
        &format!("/v1/grants/{other}/tokens/{}", jti(&first)),
        &kit.owner,
        "",
        "",
    );
    assert_eq!(refusal(&elsewhere), (404, "not_found".to_owned()));
    assert_eq!(read(&first).status, 200);
    for _ in 0..2 {
        assert_eq!(kit.delete(&format!("{tokens}/{}", jti(&first))), 204);
    }
    assert_eq!((read(&first).status, read(&second).status), (401, 200));
    for _ in 0..2 {
        assert_eq!(kit.delete(&format!("/v1/grants/{id}")), 204);
    }
    assert_eq!(refusal(&read(&second)), (403, "grant_revoked".to_owned()));
    assert_eq!(kit.json(&format!("/v1/grants/{id}"), &kit.owner)["status"], "revoked");
    let late = kit.post(&tokens, &kit.owner, &json!({}));
    assert_eq!(refusal(&late), (400, "invalid_request".to_owned()));

    let journal = texts(&kit.rig.state.join("journal"));
    for operation in
        ["createGrant", "createGrantToken", "revokeGrantToken", "revokeGrant", "listGrants"]
    {
        assert!(journal.contains(&format!("\"v1.{operation}\"")), "{operation}: {journal}");
    }
    // The journal and the list of tokens hold no token.
    for token in [bearer(&first), bearer(&second)] {
        assert!(!journal.contains(&token) && !texts(&kit.rig.state).contains(&token));
    }
}

#[test]
fn a_token_of_a_grant_is_never_more_than_that() {
    let kit = filled();
    let grant = kit.made("/v1/grants", &grant_of_bodies());
    let tokens = format!("/v1/grants/{}/tokens", grant["id"].as_str().unwrap());
    for order in [
        json!({ "expires_in": 0 }),
        json!({ "expires_in": 366 * 24 * 60 * 60 + 1 }),
        json!({ "expires_in": -1 }),
        json!({ "expires_in": 1e30 }),
        json!({ "client": "a\nb" }),
        json!({ "client": "x".repeat(201) }),
        json!({ "owner": true }),
        json!({ "scope": "write:/" }),
        json!({ "user": "root" }),
        json!([]),
    ] {
        let refused = kit.post(&tokens, &kit.owner, &order);
        assert_eq!(refusal(&refused), (400, "invalid_request".to_owned()), "{order}");
    }
    let year = kit.made(&tokens, &json!({ "expires_in": 366 * 24 * 60 * 60 }));
    let token = year["access_token"].as_str().unwrap();
    assert_eq!(kit.get("/v1/grants", token).status, 403);
    assert_eq!(kit.post(&tokens, token, &json!({})).status, 403);
    let listed = kit.said(&["token", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let own = |entry: &&Value| entry["jti"] == year["jti"];
    let entry = listed.as_array().unwrap().iter().find(own).unwrap().clone();
    assert_eq!((&entry["owner"], &entry["scopes"]), (&json!(false), &json!("")));
    assert_eq!(entry["grant"], grant["id"]);
    // An owner's token cannot be revoked by this way, not even by its owner.
    let owners = listed.as_array().unwrap().iter().find(|entry| entry["owner"] == true).unwrap();
    let target = format!("{tokens}/{}", owners["jti"].as_str().unwrap());
    assert_eq!(kit.delete(&target), 404);
    assert_eq!(kit.get("/v1/grants", &kit.owner).status, 200);
}

#[test]
fn a_grant_that_is_not_understood_is_refused_and_nothing_is_made() {
    let kit = filled();
    let stream = json!([{ "name": "messages" }]);
    let client = json!({ "client_id": "c" });
    for (body, part) in [
        (json!({ "streams": stream }), "`client` is missing"),
        (json!({ "client": client, "streams": [{ "name": "mesages" }] }), "no stream `mesages`"),
        (json!({ "client": client, "streams": stream, "limit": 3 }), "unknown field `limit`"),
        (json!({ "client": client, "streams": stream, "type": "other" }), "`other`"),
        (
            json!({ "client": client, "streams": stream, "type": "https://pdpp.dev/data-access" }),
            "name those that it may read as `instance_ids`",
        ),
        (
            json!({ "client": client, "streams": [{ "name": "messages", "time_range": {} }] }),
            "state the first time",
        ),
        (json!({ "client": client, "streams": stream, "expires_at": "2020-01-01" }), "in the past"),
        (json!("x".repeat(9 << 20)), "has more than"),
    ] {
        let refused = kit.post("/v1/grants", &kit.owner, &body);
        assert_eq!(refusal(&refused), (400, "invalid_request".to_owned()), "{part}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(part), "{message}");
        assert!(message.contains("no grant was made") || message.contains("nothing was changed"));
        assert!(!message.contains("--"), "an option of the command line: {message}");
    }
    assert_eq!(kit.json("/v1/grants", &kit.owner)["data"], json!([]));
    for target in ["/v1/grants/grt_none", "/v1/grants/%2e%2e"] {
        assert_eq!(kit.refused(target, &kit.owner), (404, "not_found".to_owned()));
    }
    let of_none = kit.post("/v1/grants/grt_none/tokens", &kit.owner, &json!({}));
    assert_eq!(refusal(&of_none), (404, "not_found".to_owned()));
    let cursor = kit.refused("/v1/grants?cursor=grt_none", &kit.owner);
    assert_eq!(cursor, (400, "invalid_cursor".to_owned()));
}

#[test]
fn a_stream_is_declared_over_http_and_no_grant_becomes_broader() {
    let kit = filled();
    let target = "/v1/streams/messages/declaration?connection_id=chat";
    let (_, token) = kit.client(&["--stream", "messages"]);
    let several = kit.refused("/v1/streams/messages/declaration", &kit.owner);
    assert_eq!(several, (409, "ambiguous_connection".to_owned()));
    let mut declaration = kit.json(target, &kit.owner)["declaration"].take();
    let shown = ["declare", "--connection", "chat", "--stream", "messages", "--show"];
    assert_eq!(serde_json::from_str::<Value>(&kit.said(&shown)).unwrap(), declaration);
    let put =
        |target: &str, body: &Value| kit.send("PUT", target, &kit.owner, JSON, &body.to_string());
    declaration["schema"]["properties"]["late"] = json!({ "type": "string" });
    declaration["consent_time_field"] = Value::Null;
    let reply = put(target, &declaration);
    assert_eq!((reply.status, &reply.json()["is_new"]), (200, &json!(false)));
    assert_eq!(kit.json(target, &kit.owner)["declaration"], declaration);
    let answer = kit.json(target, &kit.owner);
    assert_eq!(put(target, &answer).status, 200, "the answer to GET can be sent back");
    let row = json!({ "data": { "id": "m2", "body": "b", "late": "hidden" } });
    kit.ingest("messages", "chat", &[row]);
    let seen = kit.json("/v1/streams/messages/records/m2", &token);
    assert_eq!(seen["data"], json!({ "id": "m2", "body": "b" }));
    for (target, body) in [
        (target, json!({ "schema": { "properties": {} }, "cursor_field": "x" })),
        (target, {
            let mut other = declaration.clone();
            other["primary_key"] = json!(["body"]);
            other
        }),
    ] {
        let refused = put(target, &body);
        assert_eq!(refusal(&refused), (400, "invalid_declaration".to_owned()));
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains("nothing was"));
    }
    assert_eq!(kit.json(target, &kit.owner)["declaration"], declaration);
    for elsewhere in [
        "/v1/streams/letters/declaration?connection_id=chat",
        "/v1/streams/messages/declaration?connection_id=post",
    ] {
        let refused = put(elsewhere, &answer);
        assert_eq!(refusal(&refused), (400, "invalid_request".to_owned()), "{elsewhere}");
    }
    let new = put("/v1/streams/letters/declaration?connection_id=post", &declaration);
    assert_eq!((new.status, &new.json()["is_new"]), (200, &json!(true)));
    let unnamed = put("/v1/streams/cards/declaration", &declaration);
    assert_eq!(refusal(&unnamed), (400, "invalid_request".to_owned()));
}

fn introspect(kit: &Kit, form: &str) -> Reply {
    const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
    kit.send("POST", "/v1/introspect", &kit.owner, FORM, form)
}

/// What introspection says of a token.
fn told_of(kit: &Kit, token: &str) -> Value {
    let reply = introspect(kit, &format!("token_type_hint=access_token&token={token}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.header("cache-control").unwrap().contains("no-store"));
    reply.json()
}

#[test]
fn introspection_says_what_a_valid_token_opens() {
    let kit = filled();
    let own = told_of(&kit, &kit.owner);
    let names = |told: &Value| told.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&own), ["active", "pdpp_token_kind", "subject_id", "exp"]);
    assert_eq!((&own["active"], &own["pdpp_token_kind"]), (&json!(true), &json!("owner")));
    let mut document = grant_of_bodies();
    let source = json!({ "kind": "connector", "id": "https://sources.example/own" });
    document["source"] = source.clone();
    document["purpose_code"] = "https://purposes.example/x".into();
    document["retention"] = json!({ "max_duration": "P6M", "on_expiry": "delete" });
    document["streams"][0]["time_constraint"] = json!({ "since": "2026-01-01" });
    document["streams"][0]["resources"] = json!(["m1"]);
    document["expires_at"] = "2099-01-01T00:00:00Z".into();
    let grant = kit.made("/v1/grants", &document);
    let id = grant["id"].as_str().unwrap();
    let token = kit.made(&format!("/v1/grants/{id}/tokens"), &json!({ "expires_in": 3600 }));
    let told = told_of(&kit, token["access_token"].as_str().unwrap());
    let claims = token["access_token"].as_str().unwrap().split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        told,
        json!({
            "active": true, "pdpp_token_kind": "client", "subject_id": own["subject_id"],
            "grant_id": id, "client_id": "Reader", "exp": claims["exp"],
            "authorization_details": [{
                "type": "https://pdpp.dev/data-access", "source": source,
                "purpose_code": "https://purposes.example/x", "purpose_description": "to sum up",
                "access_mode": "continuous",
                "retention": { "max_duration": "P6M", "on_expiry": "delete" },
                "streams": [{
                    "name": "messages", "instance_ids": ["chat"], "fields": ["body"],
                    "time_constraint": { "field": "sent_at", "since": "2026-01-01T00:00:00Z" },
                    "resources": ["m1"],
                }],
            }],
        })
    );
    // A server may keep the answer until `exp`, so a grant that ends first ends the answer.
    let (_, brief) = kit.client(&["--stream", "messages", "--expires", "1h"]);
    let told = told_of(&kit, &brief)["exp"].as_i64().unwrap();
    assert!(told <= claims["exp"].as_i64().unwrap() + 60, "{told}");
    // The details make the same grant again.
    let mut again = told_of(&kit, token["access_token"].as_str().unwrap());
    let mut again = again["authorization_details"][0].take();
    again["client"] = json!({ "client_id": "Reader" });
    let again = kit.made("/v1/grants", &again);
    assert_eq!(again["grant"]["streams"], grant["grant"]["streams"]);
}

#[test]
fn introspection_says_nothing_of_a_token_that_is_not_valid_here() {
    let kit = filled();
    let inactive = json!({ "active": false });
    let (grant, token) = kit.client(&["--stream", "messages"]);
    let elsewhere = Rig { state: kit.folder.path().join("elsewhere"), ..kit.rig.clone() };
    let beside = Rig { root: kit.folder.path().join("beside"), ..kit.rig.clone() };
    std::fs::create_dir(&beside.root).unwrap();
    let mut changed = token.clone();
    changed.replace_range(changed.len() - 8..changed.len() - 4, "AAAA");
    for other in [
        "nonsense".to_owned(),
        changed,
        elsewhere.token(&[], &["--owner"]),
        beside.token(&[], &["--owner"]),
        // It is for files, and opens no record.
        kit.rig.token(&["write:/"], &[]),
        "x".repeat(100_000),
    ] {
        assert_eq!(told_of(&kit, &other), inactive, "{other:.40}");
    }
    assert_eq!(told_of(&kit, &token)["active"], true);
    // A grant for a single token is bound by a read, and not by a question.
    let (single, first) = kit.client(&["--stream", "messages", "--single-use"]);
    let second = kit.rig.token(&[], &["--grant", &single]);
    for token in [&first, &second] {
        assert_eq!(told_of(&kit, token)["active"], true);
    }
    assert_eq!(kit.get("/v1/streams", &second).status, 200);
    assert_eq!(told_of(&kit, &first), inactive);
    assert_eq!(told_of(&kit, &second)["active"], true);
    // A revocation is seen by the next question, whoever made it.
    crate::program::revoke(&kit.rig, &second);
    assert_eq!(told_of(&kit, &second), inactive);
    kit.said(&["grant", "revoke", &grant]);
    assert_eq!(told_of(&kit, &token), inactive);
    for form in ["", "token=", "token_type_hint=x", "token=a&token=b", "token=%zz", "token=%ff"] {
        assert_eq!(refusal(&introspect(&kit, form)), (400, "invalid_request".to_owned()), "{form}");
    }
    let in_query = kit.send("POST", &format!("/v1/introspect?token={token}"), &kit.owner, "", "");
    assert_eq!(refusal(&in_query), (400, "invalid_request".to_owned()));
    assert!(!in_query.json().to_string().contains(&token));
}
