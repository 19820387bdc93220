//! What was ended is not banned, and what an approval allows counts at each request.

use serde_json::{Value, json};

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, discover, fetch, location, parameter, read_file, text_of,
};

fn access_of(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap()
}

/// Returns what the page that asks the owner says, and fails if there is no such page.
fn asked(client: &ScriptedClient, browser: &mut Browser) -> String {
    let page = browser.open(&client.authorization_url(&[("scope", "read:/work/")]));
    assert_eq!(page.status, 200, "{}", text_of(&page));
    let words = text_of(&page);
    assert!(words.contains("asks for access"), "{words}");
    words
}

#[test]
fn a_client_that_was_ended_loses_all_and_asks_the_owner_again() {
    let place = Place::new();
    let added = place.stile(&[
        "client",
        "add",
        "--name",
        "By hand",
        "--redirect",
        crate::sign_in_kit::REDIRECT,
    ]);
    let by_hand =
        ScriptedClient { id: added.trim().to_owned(), ..ScriptedClient::connect(&place.url()) };
    let mut browser = place.signed_in_browser();
    for client in [ScriptedClient::connect(&place.url()), by_hand] {
        for how in [client.id.as_str(), "--all"] {
            let tokens = client.tokens(&mut browser, "read:/work/ read:/journal/");
            place.stile(&["client", "end", how]);
            assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 401);
            let refused = client.refresh(tokens["refresh_token"].as_str().unwrap());
            assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
            let list = place.stile(&["client", "list"]);
            assert!(list.contains("ended"), "{list}");
            // The page proposes what is asked for, and nothing of what was allowed before.
            let words = asked(&client, &mut browser);
            assert!(!words.contains("Now it may") && !words.contains("as before"), "{words}");
        }
        let again = client.tokens(&mut browser, "read:/work/");
        assert_eq!(read_file(&place, access_of(&again), "/work/plan.md").0, 200);
        let shown = place.stile(&["client", "show", &client.id]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["state"], &shown["ended"]), (&json!("allowed"), &Value::Null));
    }
}

#[test]
fn a_registration_stores_nothing_and_outlives_a_restart_a_restored_backup_and_strangers() {
    let place = Place::new();
    let archive = place.rig.state.with_file_name("backup.zip");
    let archive = archive.to_str().unwrap();
    let mut browser = place.signed_in_browser();
    assert!(!place.text_at(&mut browser, "/owner/health").contains("brought back"));
    place.stile(&["backup", archive]);
    let client = ScriptedClient::connect(&place.url());
    for _ in 0..30 {
        ScriptedClient::connect(&place.url());
    }
    assert_eq!(place.stile(&["client", "list", "--json"]).trim(), "[]");

    let rig = place.rig.clone();
    let place = place.restarted_after(|| {
        let mut command = rig.command(&["restore-backup", archive, "--replace", "--state"]);
        assert!(command.arg(&rig.state).output().unwrap().status.success());
    });
    let client = ScriptedClient { server: discover(&place.url()), url: place.url(), ..client };
    let mut browser = place.signed_in_browser();
    // The pages say what the terminal said to whoever brought the state back.
    for page in ["/owner/clients", "/owner/health"] {
        let words = place.text_at(&mut browser, page);
        assert!(words.contains("what you ended after that is valid again"), "{page}: {words}");
    }
    let tokens = client.tokens(&mut browser, "read:/work/");
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 200);
    // A list shows the beginning of the identifier, which is enough to name the client.
    let list = place.stile(&["client", "list"]);
    let short = list.lines().last().unwrap().split_whitespace().next().unwrap();
    assert!(short.len() < 30 && client.id.starts_with(short.trim_end_matches('…')), "{list}");
    place.stile(&["client", "end", short]);
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 401);
}

#[test]
fn an_identifier_under_another_key_is_unknown_so_that_its_client_registers_anew() {
    let (place, other) = (Place::new(), Place::new());
    let id = ScriptedClient::connect(&other.url()).id;
    let client = ScriptedClient { id, ..ScriptedClient::connect(&place.url()) };
    let page = place.signed_in_browser().open(&client.authorization_url(&[]));
    assert_eq!(page.status, 400);
    assert!(text_of(&page).contains("not known here"), "{}", text_of(&page));
    let refused = client.refresh("any");
    assert_eq!((refused.status, &refused.json()["error"]), (401, &json!("invalid_client")));
}

#[test]
fn what_is_unticked_or_added_at_a_later_request_counts_for_every_token_of_the_client() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let first = client.tokens(&mut browser, "write:/");
    let stranger = ScriptedClient::connect(&place.url()).tokens(&mut browser, "read:/journal/");
    let create = |path: &str| {
        let arguments = json!({ "path": path, "content": "x\n" });
        let call = json!({ "name": "file.create", "arguments": arguments });
        place.server.client(access_of(&first)).post("tools/call", call).unwrap().status
    };
    assert_eq!(create("/journal/one.md"), 200);

    // The owner takes writing away, and leaves reading one folder.
    client.code(&mut browser, "read:/work/", &[("line:write:/", "")]);
    assert_eq!(create("/journal/two.md"), 403);
    assert_eq!(read_file(&place, access_of(&first), "/journal/day.md").0, 403);
    assert_eq!(read_file(&place, access_of(&first), "/work/plan.md").0, 200);
    let renewed = client.refresh(first["refresh_token"].as_str().unwrap()).json();
    assert_eq!(renewed["scope"], "read:/work/");

    // The owner gives it back, which counts at once and for this client alone.
    client.code(&mut browser, "write:/journal/", &[]);
    assert_eq!(create("/journal/three.md"), 200);
    assert_eq!(read_file(&place, access_of(&stranger), "/work/plan.md").0, 403);
    assert_eq!(read_file(&place, access_of(&stranger), "/journal/day.md").0, 200);
}

#[test]
fn an_access_token_says_nothing_about_what_it_allows() {
    use base64::Engine as _;
    let place = Place::new();
    let tokens =
        ScriptedClient::connect(&place.url()).tokens(&mut place.signed_in_browser(), "read:/work/");
    let payload = access_of(&tokens).split('.').nth(1).unwrap();
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap();
    let claims: Value = serde_json::from_slice(&payload).unwrap();
    assert!(claims["approval"].is_string(), "{claims}");
    for absent in ["scope", "grant", "records"] {
        assert_eq!(claims.get(absent), None, "{claims}");
    }
}

#[test]
fn an_application_of_this_computer_registers_and_the_page_says_where_the_answer_goes() {
    let place = Place::new();
    let mut browser = place.signed_in_browser();
    for (redirect, words, target) in [
        ("com.raycast:/oauth?package_name=a", "the application on this computer", "com.raycast:"),
        ("warp://mcp/oauth2callback", "warp://mcp", "warp:"),
        ("http://127.0.0.1/callback", "a program on this computer", "http://127.0.0.1"),
        ("https://client.example/callback", "the web site", "https://client.example"),
    ] {
        let client = ScriptedClient::connect_as(
            &place.url(),
            &json!({ "client_name": "App", "redirect_uris": [redirect] }),
        );
        let page = browser.open(&client.authorization_url(&[("scope", "read:/")]));
        assert!(text_of(&page).contains(words), "{}", text_of(&page));
        // A browser follows the answer only to what the policy of the page names.
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains(&format!("form-action 'self' {target}")), "{policy}");
        client.tokens(&mut browser, "read:/");
    }
    let by_hand = |redirect: &str| {
        let mut command =
            place.rig.command(&["client", "add", "--name", "App", "--redirect", redirect]);
        command.arg("--state").arg(&place.rig.state).output().unwrap()
    };
    let added = by_hand("myapp://oauth/callback");
    let id = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    let redirect = "myapp://oauth/callback".to_owned();
    let client = ScriptedClient { id, redirect, ..ScriptedClient::connect(&place.url()) };
    client.tokens(&mut browser, "read:/");
    for never in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "blob:/a"] {
        assert!(!by_hand(never).status.success(), "{never}");
    }
}

#[test]
fn a_token_request_without_its_redirect_address_is_told_so() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let redeem = |code: &str, redirect: Option<&str>| {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("client_id", client.id.as_str()),
            ("code", code),
            ("code_verifier", client.verifier.as_str()),
        ];
        fields.extend(redirect.map(|redirect| ("redirect_uri", redirect)));
        let reply = client.post("token_endpoint", &fields);
        (reply.status, reply.json())
    };
    let (status, refused) = redeem(&client.code(&mut browser, "read:/", &[]), None);
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_request")));
    assert!(refused["error_description"].as_str().unwrap().contains("redirect_uri is missing"));
    let other = Some("https://client.example/other");
    let (status, refused) = redeem(&client.code(&mut browser, "read:/", &[]), other);
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_grant")));
    assert!(refused["error_description"].as_str().unwrap().contains("redirect_uri is not"));

    // A client with one address need not name it, and then need not repeat it.
    let page = browser.open(&client.authorization_url(&[("redirect_uri", "")]));
    let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    assert_eq!(redeem(&code, None).0, 200);
}

#[test]
fn the_link_of_the_terminal_leads_on_to_the_request_that_waits_in_this_browser() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = Browser::default();
    let page = browser.open(&client.authorization_url(&[("scope", "read:/work/")]));
    assert!(text_of(&page).contains("Link or code"), "{}", text_of(&page));
    // Another browser that signs in is not led to the request of this one.
    let mut other = Browser::default();
    let opened = other.get(&place.link());
    let signed_in = other.submit(&place.url(), &opened, &[]);
    assert_eq!(location(&signed_in), Some("/owner/clients"));

    let opened = browser.get(&place.link());
    let signed_in = browser.submit(&place.url(), &opened, &[]);
    let next = location(&signed_in).unwrap().to_owned();
    assert!(next.starts_with("/consent?request="), "{next}");
    let page = browser.get(&place.url().replace("/mcp", &next));
    assert!(text_of(&page).contains("asks for access"), "{}", text_of(&page));

    // The page takes the whole link as well.
    let mut pasting = Browser::default();
    let page = pasting.open(&place.url().replace("/mcp", "/sign-in"));
    assert_eq!(pasting.submit(&place.url(), &page, &[("code", &place.link())]).status, 303);
}

#[test]
fn a_flood_from_the_owners_own_address_keeps_neither_the_link_nor_a_request_out() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let url = place.url().replace("/mcp", "/sign-in");
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let guess = || fetch("POST", &url, &headers, "code=guess").status;
    let refused = (0..2000).any(|_| guess() == 429);
    assert!(refused, "the flood was not limited");
    let mut browser = place.signed_in_browser();
    let page = browser.open(&client.authorization_url(&[("scope", "read:/work/")]));
    assert_eq!(page.status, 200, "{}", text_of(&page));
    // Strangers at the same address ask until they push out what they can.
    for _ in 0..250 {
        client.post("pushed_authorization_request_endpoint", &[("client_id", &client.id)]);
        let stranger = client.authorization_url(&[("state", "other")]);
        fetch("GET", &stranger, &[], "");
    }
    let answer = browser.submit(&place.url(), &page, &[("decision", "approve")]);
    assert!(parameter(location(&answer).unwrap(), "code").is_some(), "{answer:?}");
}
