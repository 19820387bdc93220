//! A client that knows the address of `/mcp` and nothing else gets what the owner approves.

use serde_json::json;

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, fetch, form_to, location, parameter, read_file, text_of,
};

#[test]
fn a_client_that_knows_only_the_address_works_with_what_the_owner_approves() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());

    // A browser that nobody has signed in is asked to, and comes back to the request.
    let mut browser = Browser::default();
    let asked = client.authorization_url(&[("scope", "read:/work/ read:/journal/ write:/work/")]);
    let page = browser.open(&asked);
    assert!(text_of(&page).contains("stile sign-in"), "{}", text_of(&page));
    let code = parameter(&place.link(), "code").unwrap();
    let returned = browser.submit(&place.url(), &page, &[("code", &code)]);
    let consent = location(&returned).unwrap().to_owned();
    let page = browser.get(&place.url().replace("/mcp", &consent));
    let words = text_of(&page);
    for expected in ["Editor", "client.example", "the files in /work and below"] {
        assert!(words.contains(expected), "{expected} is not on the page: {words}");
    }

    // The owner leaves two of the three lines.
    let removed = [("line:read:/journal/", ""), ("decision", "approve")];
    let answer = browser.submit(&place.url(), &page, &removed);
    let answer = location(&answer).unwrap();
    let code = parameter(answer, "code").unwrap();
    let tokens = client.redeem(&code).json();
    assert_eq!(tokens["scope"], "read:/work/ write:/work/");
    assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(86_400)));
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    assert_eq!(read_file(&place, access, "/journal/day.md").0, 403);

    // The client renews its token, and gives it back.
    let renewed = client.refresh(tokens["refresh_token"].as_str().unwrap()).json();
    assert_eq!(renewed["scope"], "read:/work/ write:/work/");
    let access = renewed["access_token"].as_str().unwrap();
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    let refresh = renewed["refresh_token"].as_str().unwrap();
    assert_eq!(client.revoke(refresh).status, 200);
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 401);
    let refused = client.refresh(refresh);
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
}

#[test]
fn the_paths_that_clients_probe_have_the_metadata() {
    let place = Place::new();
    let origin = place.url().replace("/mcp", "");
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
    ] {
        let metadata = fetch("GET", &format!("{origin}{path}"), &[], "").json();
        assert_eq!(metadata["issuer"], json!(origin), "{path}");
        assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(metadata["token_endpoint_auth_methods_supported"], json!(["none"]));
    }
}

#[test]
fn the_owner_narrows_a_line_to_a_folder_and_to_reading_and_adds_what_nobody_asked_for() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let code = client.code(&mut browser, "write:/", &[("folder:write:/", "/work")]);
    assert_eq!(client.redeem(&code).json()["scope"], "write:/work/");
    // The page lists what the client has now, so the second line is what is asked for anew.
    let narrowed = [("line:write:/work/", ""), ("verb:read:/", ""), ("folder:read:/", "/journal")];
    let code = client.code(&mut browser, "read:/", &narrowed);
    assert_eq!(client.redeem(&code).json()["scope"], "read:/journal/");

    let other = ScriptedClient::connect(&place.url());
    let read_only = [("verb:write:/", "read"), ("folder:write:/", "/journal")];
    let code = other.code(&mut browser, "write:/", &read_only);
    assert_eq!(other.redeem(&code).json()["scope"], "read:/journal/");
    // A form that would widen a line removes it.
    let third = ScriptedClient::connect(&place.url());
    let page = browser.open(&third.authorization_url(&[("scope", "read:/work/")]));
    let widened = [("folder:read:/work/", "/"), ("decision", "approve")];
    let answer = browser.submit(&place.url(), &page, &widened);
    let error = parameter(location(&answer).unwrap(), "error");
    assert_eq!(error.as_deref(), Some("access_denied"));
    // Changing files is offered to the owner and not proposed.
    let page = browser.open(&third.authorization_url(&[("scope", "")]));
    assert!(text_of(&page).contains("it did not ask for this"), "{}", text_of(&page));
    let added = [("line:write:/", "on"), ("folder:write:/", "/journal"), ("decision", "approve")];
    let answer = browser.submit(&place.url(), &page, &added);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    assert_eq!(third.redeem(&code).json()["scope"], "read:/ write:/journal/");
}

#[test]
fn a_step_up_shows_what_the_client_has_and_keeps_it() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let tokens = client.tokens(&mut browser, "read:/");
    let access = tokens["access_token"].as_str().unwrap();
    let create = json!({
        "name": "file.create",
        "arguments": { "path": "/journal/new.md", "content": "x\n" },
    });
    let refused = place.server.client(access).post("tools/call", create.clone()).unwrap();
    assert_eq!(refused.status, 403);
    let challenge = refused.header("www-authenticate").unwrap().to_owned();
    assert!(challenge.contains("error_description="), "{challenge}");
    let (_, scope) = challenge.split_once(" scope=\"").unwrap();
    let scope = scope.split_once('"').unwrap().0;

    let page = browser.open(&client.authorization_url(&[("scope", scope)]));
    let words = text_of(&page);
    assert!(words.contains("Now it may") && words.contains("as before"), "{words}");
    let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    assert_eq!(tokens["scope"], format!("read:/ {scope}"));
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(place.server.client(access).post("tools/call", create).unwrap().status, 200);
}

#[test]
fn who_goes_back_to_a_decided_request_is_told_that_it_was_decided() {
    let place = Place::new();
    let mut browser = place.signed_in_browser();
    for decision in ["approve", "deny"] {
        let client = ScriptedClient::connect(&place.url());
        let page = browser.open(&client.authorization_url(&[("scope", "read:/")]));
        let handle = form_to(&page, "/consent").fields;
        let handle = &handle.iter().find(|(name, _)| name == "request").unwrap().1;
        let decide = [("decision", decision)];
        assert!(location(&browser.submit(&place.url(), &page, &decide)).is_some());
        let tapped = browser.submit(&place.url(), &page, &decide);
        let back = browser.get(&place.at(&format!("/consent?request={handle}")));
        for again in [tapped, back] {
            let words = text_of(&again);
            assert_eq!((again.status, location(&again)), (409, None), "{words}");
            assert!(words.contains("You have allowed or refused this already."), "{words}");
            assert!(words.contains("/owner/clients") && !words.contains("ten minutes"), "{words}");
        }
    }
    let unknown = text_of(&browser.get(&place.at("/consent?request=unknown")));
    assert!(unknown.contains("<p>The request has waited for more than ten minutes.<"), "{unknown}");
}

#[test]
fn a_client_that_names_itself_as_the_owner_is_named_gets_a_mark() {
    let place = Place::new();
    let register = place.at("/oauth/register");
    for name in ["you, on your page", "You, at the terminal", "\u{ff45}verybody", "you\u{200b}"] {
        let metadata = json!({ "client_name": name, "redirect_uris": ["http://127.0.0.1/back"] });
        let headers = [("Content-Type", "application/json")];
        let answer = fetch("POST", &register, &headers, &metadata.to_string());
        let shown = answer.json()["client_name"].as_str().unwrap().to_owned();
        assert!(shown.ends_with(" (client)"), "{name} {shown}");
    }
}

#[test]
fn a_request_can_be_pushed_before() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let url = client.authorization_url(&[("scope", "read:/")]);
    let (endpoint, query) = url.split_once('?').unwrap();
    let push = client.server["pushed_authorization_request_endpoint"].as_str().unwrap();
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let pushed = fetch("POST", push, &headers, query);
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let reference = pushed.json()["request_uri"].as_str().unwrap().to_owned();
    let at = |id: &str| {
        let fields = [("client_id", id), ("request_uri", reference.as_str())];
        format!("{endpoint}?{}", crate::sign_in_kit::form(&fields))
    };
    assert_eq!(browser.open(&at("another")).status, 400);
    let page = browser.open(&at(&client.id));
    let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    assert_eq!(client.redeem(&code).status, 200);
    assert_eq!(browser.open(&at(&client.id)).status, 400, "a reference is good for one decision");
    let faulty = query.replace("S256", "plain");
    assert_eq!(fetch("POST", push, &headers, &faulty).status, 400);
}

#[test]
fn the_owners_servers_learn_what_a_token_is_good_for() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut place.signed_in_browser(), "read:/work/");
    let access = tokens["access_token"].as_str().unwrap();
    let endpoint = client.server["introspection_endpoint"].as_str().unwrap();
    let ask = |bearer: &str, token: &str| {
        let bearer = format!("Bearer {bearer}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        fetch("POST", endpoint, &headers, &crate::sign_in_kit::form(&[("token", token)]))
    };
    assert_eq!(ask(access, access).status, 401);
    let owners = place.rig.token(&[], &["--owner"]);
    let told = ask(&owners, access).json();
    assert_eq!((&told["active"], &told["scope"]), (&json!(true), &json!("read:/work/")));
    assert_eq!(told["client_id"], client.id);
    client.revoke(tokens["refresh_token"].as_str().unwrap());
    assert_eq!(ask(&owners, access).json(), json!({ "active": false }));
}

#[test]
fn a_client_is_listed_shown_added_and_ended_by_command() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut place.signed_in_browser(), "read:/work/");
    let access = tokens["access_token"].as_str().unwrap();
    let list = place.stile(&["client", "list"]);
    assert!(list.contains("Editor") && list.contains("read:/work/"), "{list}");
    let shown: serde_json::Value =
        serde_json::from_str(&place.stile(&["client", "show", &client.id])).unwrap();
    assert_eq!(shown["authorizations"][0]["scopes"], "read:/work/");
    let approval = shown["authorizations"][0]["id"].as_str().unwrap();
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    place.stile(&["client", "end", approval]);
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 401);
    let refused = client.refresh(tokens["refresh_token"].as_str().unwrap());
    assert_eq!(refused.json()["error"], "invalid_grant");

    place.stile(&["client", "end", &client.id]);
    let refused = client.refresh("any");
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    let redirect = "http://127.0.0.1/callback";
    let added = place.stile(&["client", "add", "--name", "By hand", "--redirect", redirect]);
    let redirect = "http://127.0.0.1:54321/callback".to_owned();
    let by_hand = ScriptedClient { id: added.trim().to_owned(), redirect, ..client };
    let mut browser = place.signed_in_browser();
    let page = browser.open(&by_hand.authorization_url(&[]));
    assert!(text_of(&page).contains("stays on this computer"), "{}", text_of(&page));
    by_hand.tokens(&mut browser, "read:/");
}

#[test]
fn a_server_without_sign_in_names_no_authorization_server() {
    let place = Place::with(&["--sign-in=no"]);
    let origin = place.url().replace("/mcp", "");
    let metadata = "/.well-known/oauth-protected-resource/mcp";
    let resource = fetch("GET", &format!("{origin}{metadata}"), &[], "").json();
    assert!(resource.get("authorization_servers").is_none(), "{resource}");
    for path in ["/.well-known/oauth-authorization-server", "/oauth/authorize", "/sign-in"] {
        assert_eq!(fetch("GET", &format!("{origin}{path}"), &[], "").status, 404, "{path}");
    }
}

#[test]
fn a_request_for_records_becomes_a_grant_that_the_owner_narrowed() {
    let place = Place::new();
    let rows = place.rig.state.with_file_name("mail.jsonl");
    std::fs::write(
        &rows,
        "{\"id\":\"a\",\"subject\":\"first\",\"body\":\"secret\",\"sent_at\":\"2026-02-01T00:00:00Z\"}\n",
    )
    .unwrap();
    let import = ["import", rows.to_str().unwrap(), "--connection", "mail", "--stream", "messages"];
    place.stile(&[&import[..], &["--key", "id"]].concat());
    let resource = "/.well-known/oauth-protected-resource";
    let resource = fetch("GET", &place.url().replace("/mcp", resource), &[], "").json();
    let types = &resource["authorization_details_types_supported"];
    assert_eq!(types, &json!(["https://pdpp.dev/data-access"]), "{resource}");
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let details = json!([{
        "type": "https://pdpp.dev/data-access",
        "access_mode": "single_use",
        "purpose_description": "a summary of the month",
        "streams": [{ "name": "messages", "fields": ["id", "subject", "body"] }],
    }]);
    let asked = [("scope", ""), ("authorization_details", &*details.to_string())];
    let page = browser.open(&client.authorization_url(&asked));
    let words = text_of(&page);
    assert!(words.contains("a summary of the month"), "{words}");
    assert!(words.contains("field-0-subject") && !words.contains("field-0-sent_at"), "{words}");
    // The owner sees a record as the client would, and what the client does not see.
    let (_, sample) = words.split_once("It will see").unwrap();
    let (seen, hidden) = sample.split_once("It will not see").unwrap();
    assert!(seen.contains("<dd>first</dd>") && seen.contains("<dd>secret</dd>"), "{seen}");
    assert!(!seen.contains("2026-02-01") && hidden.contains("2026-02-01"), "{words}");
    let narrowed = [("field-0-body", ""), ("decision", "approve")];
    let answer = browser.submit(&place.url(), &page, &narrowed);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    assert!(tokens.get("refresh_token").is_none(), "a single use has no refresh token: {tokens}");
    let granted = &tokens["authorization_details"][0]["streams"][0]["fields"];
    assert_eq!(granted, &json!(["id", "subject"]), "{tokens}");
    let access = tokens["access_token"].as_str().unwrap();
    let bearer = format!("Bearer {access}");
    let url = place.url().replace("/mcp", "/v1/streams/messages/records");
    let records = text_of(&fetch("GET", &url, &[("Authorization", &bearer)], ""));
    assert!(records.contains("first") && !records.contains("secret"), "{records}");
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 403);
    // What nobody sees in a purpose or a path is written out, and a purpose has a length.
    let purposes =
        [("for \u{202e}gpj.nalp", true), (&*"x".repeat(300), true), (&*"x".repeat(301), false)];
    for (purpose, is_asked) in purposes {
        let details = details.to_string().replace("a summary of the month", purpose);
        let scope = if is_asked { "read:/work/a%E2%80%AEb" } else { "" };
        let asked = [("scope", scope), ("authorization_details", &*details)];
        let page = browser.open(&client.authorization_url(&asked));
        let words = text_of(&page);
        assert!(!words.contains('\u{202e}'), "{words}");
        if is_asked {
            assert!(words.contains("It says that this is for") && words.contains("a\\u{202e}b"));
        } else {
            let error = parameter(location(&page).unwrap(), "error");
            assert_eq!(error.as_deref(), Some("invalid_authorization_details"));
        }
    }
    // Nothing that exists here shows in an error before the owner has decided.
    let unknown = details.to_string().replace("messages", "letters");
    let asked = [("scope", ""), ("authorization_details", unknown.as_str())];
    let page = browser.open(&client.authorization_url(&asked));
    let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
    let answer = location(&answer).unwrap();
    assert_eq!(parameter(answer, "error").as_deref(), Some("access_denied"), "{answer}");
}
