//! What an attacker tries with the authorization server, and what comes of it.

use serde_json::{Value, json};
use stile_testkit::client::Reply;

use crate::sign_in_kit::{
    Browser, Place, REDIRECT, ScriptedClient, discover, fetch, form, form_of, location, parameter,
    read_file, text_of,
};

fn error_of(reply: &Reply) -> (u16, Value) {
    (reply.status, reply.json()["error"].clone())
}

fn access_of(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap()
}

fn origin(place: &Place) -> String {
    place.url().replace("/mcp", "")
}

#[test]
fn every_answer_names_the_issuer_so_that_a_client_cannot_mix_servers_up() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let issuer = client.server["issuer"].as_str().map(str::to_owned);
    let page = browser.open(&client.authorization_url(&[]));
    let denied = browser.submit(&place.url(), &page, &[("decision", "deny")]);
    let faulty = browser.get(&client.authorization_url(&[("scope", "read:/a/../b")]));
    for (reply, error) in [(denied, "access_denied"), (faulty, "invalid_scope")] {
        let answer = location(&reply).unwrap_or_else(|| panic!("{}", text_of(&reply)));
        assert!(answer.starts_with(REDIRECT), "{answer}");
        assert_eq!(parameter(answer, "error").as_deref(), Some(error));
        assert_eq!(parameter(answer, "state").as_deref(), Some("the state"));
        assert_eq!(parameter(answer, "iss"), issuer);
    }
    // `ScriptedClient::code` checks `iss` beside the code.
    client.code(&mut browser, "read:/", &[]);
}

#[test]
fn a_code_is_good_for_its_own_client_address_and_secret_only() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let id = ScriptedClient::connect(&place.url()).id;
    let other_client = ScriptedClient { id, ..ScriptedClient::connect(&place.url()) };
    let verifier = "another-verifier-that-is-long-enough-for-the-rule-of-the-standard".to_owned();
    let other_secret = ScriptedClient { id: client.id.clone(), verifier, ..again(&client) };
    let redirect = "https://client.example/other".to_owned();
    let other_address = ScriptedClient { redirect, ..again(&client) };
    for thief in [other_client, other_secret, other_address] {
        let code = client.code(&mut browser, "read:/", &[]);
        assert_eq!(error_of(&thief.redeem(&code)), (400, json!("invalid_grant")));
        // The attempt spent the code, so nobody can guess on.
        assert_eq!(error_of(&client.redeem(&code)), (400, json!("invalid_grant")));
    }
}

fn again(client: &ScriptedClient) -> ScriptedClient {
    ScriptedClient {
        url: client.url.clone(),
        server: client.server.clone(),
        id: client.id.clone(),
        redirect: client.redirect.clone(),
        verifier: client.verifier.clone(),
    }
}

#[test]
fn a_request_of_an_unknown_client_or_for_an_unknown_address_leads_nowhere() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    for changes in [
        [("client_id", "unknown")],
        [("client_id", "")],
        [("redirect_uri", "https://evil.example/callback")],
        [("redirect_uri", "https://client.example/callback/more")],
        [("redirect_uri", "https://client.example.evil.example/callback")],
        [("redirect_uri", "https://client.example/callback?a=b")],
        [("redirect_uri", "javascript:alert(1)")],
        [("redirect_uri", "//evil.example")],
    ] {
        let reply = owner.get(&client.authorization_url(&changes));
        assert_eq!((reply.status, location(&reply)), (400, None), "{changes:?}");
        assert!(!text_of(&reply).contains("href=\"https"), "{changes:?}");
    }
    // Anybody can register an address. A browser without a session is not sent there by itself.
    let mut stranger = Browser::default();
    let reply = stranger.get(&client.authorization_url(&[("response_type", "token")]));
    assert_eq!((reply.status, location(&reply)), (400, None));
    let reply = owner.get(&client.authorization_url(&[("response_type", "token")]));
    assert!(location(&reply).unwrap().starts_with(REDIRECT));
}

#[test]
fn what_a_request_lacks_is_an_error_of_the_standard() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    for (changes, error) in [
        (("code_challenge", ""), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ""), "invalid_request"),
        (("resource", "https://other.example/mcp"), "invalid_target"),
        (("response_mode", "fragment"), "invalid_request"),
        (("scope", "admin"), "invalid_scope"),
        (("authorization_details", "{}"), "invalid_authorization_details"),
        (("authorization_details", "[{\"type\":\"payment\"}]"), "invalid_authorization_details"),
    ] {
        let reply = owner.get(&client.authorization_url(&[changes]));
        let answer = location(&reply).unwrap_or_else(|| panic!("{}", text_of(&reply)));
        assert_eq!(parameter(answer, "error").as_deref(), Some(error), "{changes:?}");
    }
    let url = client.authorization_url(&[]);
    let repeated = owner.get(&format!("{url}&client_id={}", client.id));
    assert_eq!((repeated.status, location(&repeated)), (400, None));
    for (fields, error) in [
        (vec![("grant_type", "password")], "unsupported_grant_type"),
        (vec![], "invalid_request"),
        (vec![("grant_type", "authorization_code")], "invalid_request"),
        (vec![("grant_type", "refresh_token"), ("refresh_token", "x")], "invalid_grant"),
        (
            vec![("grant_type", "refresh_token"), ("resource", "https://a.example")],
            "invalid_target",
        ),
    ] {
        let fields: Vec<(&str, &str)> =
            fields.into_iter().chain([("client_id", client.id.as_str())]).collect();
        let reply = client.post("token_endpoint", &fields);
        assert_eq!(error_of(&reply), (400, json!(error)), "{fields:?}");
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
    let unknown = [("grant_type", "refresh_token"), ("client_id", "gone"), ("refresh_token", "x")];
    let reply = client.post("token_endpoint", &unknown);
    assert_eq!(error_of(&reply), (401, json!("invalid_client")));
}

#[test]
fn no_page_shows_inside_of_another_and_one_page_leads_to_the_client() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let consent = browser.open(&client.authorization_url(&[]));
    let refused = browser.get(&client.authorization_url(&[("client_id", "unknown")]));
    let sign_in = Browser::default().get(&format!("{}/sign-in", origin(&place)));
    for page in [&consent, &refused, &sign_in] {
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        // The one script, on the page of consent, is a file of this server.
        let is_consent = std::ptr::eq(page, &consent);
        assert_eq!(policy.contains("script-src 'self';"), is_consent, "{policy}");
        let html = text_of(page);
        let own = html.matches("<script src=\"/pages/page.js\" defer></script>").count();
        assert_eq!((own, html.matches("<script").count()), (usize::from(is_consent), own));
        let target = "form-action 'self' https://client.example;";
        assert_eq!(policy.contains(target), is_consent, "{policy}");
    }
}

#[test]
fn a_form_of_another_site_decides_nothing() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let mut other = place.signed_in_browser();
    let page = browser.open(&client.authorization_url(&[("scope", "read:/")]));
    let mut fields = form_of(&page).fields;
    fields.push(("decision".to_owned(), "approve".to_owned()));
    let of_other = other.open(&client.authorization_url(&[("scope", "read:/")]));
    let csrf_of =
        |page: &Reply| form_of(page).fields.into_iter().find(|(name, _)| name == "csrf").unwrap().1;
    let cookie = format!("{}={}", browser.cookies[0].0, browser.cookies[0].1);
    let own = origin(&place);
    let url = format!("{own}/consent");
    let send = |csrf: &str, origin: &str, site: &str, cookie: &str| {
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), if name == "csrf" { csrf } else { value }))
            .collect();
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Origin", origin),
            ("Sec-Fetch-Site", site),
            ("Cookie", cookie),
        ];
        fetch("POST", &url, &headers, &form(&fields))
    };
    let right = csrf_of(&page);
    for (csrf, origin, site, cookie) in [
        ("", own.as_str(), "same-origin", cookie.as_str()),
        (&csrf_of(&of_other), &own, "same-origin", &cookie),
        (&right, "https://evil.example", "cross-site", &cookie),
        (&right, "null", "cross-site", &cookie),
        (&right, &own, "cross-site", &cookie),
        (&right, &own, "same-site", &cookie),
        (&right, &own, "same-origin", ""),
    ] {
        let reply = send(csrf, origin, site, cookie);
        assert_eq!((reply.status, location(&reply)), (403, None), "{origin} {site} {cookie}");
    }
    // The request still waits, and the owner's own form decides it, once.
    let answer = send(&right, &own, "same-origin", &cookie);
    assert!(parameter(location(&answer).unwrap(), "code").is_some());
    let again = send(&right, &own, "same-origin", &cookie);
    assert_eq!((again.status, location(&again)), (409, None));
}

#[test]
fn a_code_that_is_used_again_ends_what_was_issued_from_it() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let code = client.code(&mut place.signed_in_browser(), "read:/", &[]);
    let tokens = client.redeem(&code).json();
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 200);
    assert_eq!(error_of(&client.redeem(&code)), (400, json!("invalid_grant")));
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 401);
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(error_of(&client.refresh(refresh)), (400, json!("invalid_grant")));
}

#[test]
fn two_refreshes_at_once_are_forgiven_until_both_are_used_and_no_other_client_refreshes() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let tokens = client.tokens(&mut place.signed_in_browser(), "read:/");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    let thief = ScriptedClient::connect(&place.url());
    assert_eq!(error_of(&thief.refresh(refresh)), (400, json!("invalid_grant")));
    let (one, other) = (client.refresh(refresh).json(), client.refresh(refresh).json());
    for tokens in [&one, &other] {
        assert_eq!(read_file(&place, access_of(tokens), "/work/plan.md").0, 200);
    }
    assert_ne!(one["refresh_token"], other["refresh_token"]);
    // A thief cannot end it either, and learns nothing.
    assert_eq!(thief.revoke(one["refresh_token"].as_str().unwrap()).status, 200);
    assert_eq!(thief.revoke(access_of(&one)).status, 200);
    assert_eq!(thief.revoke("nothing").status, 200);
    assert_eq!(read_file(&place, access_of(&one), "/work/plan.md").0, 200);
    // A client can give one access token back and keep the others.
    assert_eq!(client.revoke(access_of(&one)).status, 200);
    assert_eq!(read_file(&place, access_of(&one), "/work/plan.md").0, 401);
    assert_eq!(read_file(&place, access_of(&other), "/work/plan.md").0, 200);
    // One of the two may have been stolen. From the next use on, one of them goes on alone.
    let next = client.refresh(one["refresh_token"].as_str().unwrap());
    assert_eq!(next.status, 200, "{next:?}");
    assert_eq!(read_file(&place, access_of(&other), "/work/plan.md").0, 401);
    assert_eq!(read_file(&place, access_of(&next.json()), "/work/plan.md").0, 200);
    let second = client.refresh(other["refresh_token"].as_str().unwrap());
    assert_eq!(error_of(&second), (400, json!("invalid_grant")));
    assert_eq!(read_file(&place, access_of(&next.json()), "/work/plan.md").0, 401);
}

#[test]
fn a_token_opens_no_page_and_a_session_opens_nothing_else() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let tokens = client.tokens(&mut browser, "write:/");
    let (access, refresh) = (access_of(&tokens), tokens["refresh_token"].as_str().unwrap());
    let owners = place.rig.token(&["write:/"], &["--owner"]);
    let page = browser.get(&client.authorization_url(&[]));
    let consent = format!("{}{}", origin(&place), location(&page).unwrap());
    for token in [access, refresh, &owners] {
        let bearer = format!("Bearer {token}");
        let cookie = format!("stile={token}");
        for headers in [[("Authorization", bearer.as_str())], [("Cookie", cookie.as_str())]] {
            let reply = fetch("GET", &consent, &headers, "");
            assert!(location(&reply).unwrap().starts_with("/sign-in?"), "{reply:?}");
        }
    }
    let (name, secret) = browser.cookies[0].clone();
    let cookie = format!("{name}={secret}");
    let url = place.url();
    for target in [url.clone(), url.replace("/mcp", "/v1/streams")] {
        assert_eq!(fetch("GET", &target, &[("Cookie", &cookie)], "").status, 401);
        let bearer = format!("Bearer {secret}");
        assert_eq!(fetch("GET", &target, &[("Authorization", &bearer)], "").status, 401);
    }
    assert_eq!(read_file(&place, refresh, "/work/plan.md").0, 401);
    // Signing out ends the session on the server, too.
    let signed_in = browser.open(&format!("{}/sign-in", origin(&place)));
    assert_eq!(browser.submit(&place.url(), &signed_in, &[]).status, 303);
    let reply = fetch("GET", &consent, &[("Cookie", &cookie)], "");
    assert!(location(&reply).unwrap().starts_with("/sign-in?"), "{reply:?}");
}

#[test]
fn a_link_of_the_terminal_works_once_and_not_by_being_looked_at() {
    let place = Place::new();
    let link = place.link();
    let (mut one, mut other) = (Browser::default(), Browser::default());
    let page = one.get(&link);
    assert_eq!((page.status, one.cookies.len()), (200, 0));
    assert_eq!(one.submit(&place.url(), &other.get(&link), &[]).status, 303);
    assert_eq!(one.cookies.len(), 1);
    let again = other.submit(&place.url(), &page, &[]);
    assert_eq!((again.status, other.cookies.len()), (403, 0));
    let guessed = other.submit(&place.url(), &page, &[("code", "guess")]);
    assert_eq!((guessed.status, other.cookies.len()), (403, 0));
}

#[test]
fn registrations_are_bounded_for_each_address() {
    let place = Place::new();
    let url = format!("{}/oauth/register", origin(&place));
    let body = json!({ "redirect_uris": [REDIRECT] }).to_string();
    let statuses: Vec<u16> = (0..80).map(|_| fetch("POST", &url, &[], &body).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let refused = fetch("POST", &url, &[], &"x".repeat(100_000));
    assert_eq!(refused.status, 400);
}

#[test]
fn a_database_of_a_backup_brings_back_no_more_than_it_had() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let old = client.tokens(&mut browser, "read:/work/");
    // The database and its write-ahead log, which has what was committed last.
    let backup = ["stile.db", "stile.db-wal"].map(|name| {
        let path = place.rig.state.join(name);
        (path.clone(), std::fs::read(path).unwrap())
    });
    // After the backup, the client gets more and all of it is ended.
    let more = client.tokens(&mut browser, "write:/");
    place.stile(&["client", "end", &client.id]);
    assert_eq!(read_file(&place, access_of(&more), "/work/plan.md").0, 401);

    let place = place.restarted_after(|| {
        backup.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    });
    let client = ScriptedClient { server: discover(&place.url()), url: place.url(), ..client };
    assert_eq!(read_file(&place, access_of(&more), "/work/plan.md").0, 401);
    let refused = client.refresh(more["refresh_token"].as_str().unwrap());
    assert_eq!(error_of(&refused), (400, json!("invalid_grant")));
    // What was valid then is valid again, and no more, until the owner ends it.
    let back = client.refresh(old["refresh_token"].as_str().unwrap()).json();
    assert_eq!(back["scope"], "read:/work/");
    assert_eq!(read_file(&place, access_of(&back), "/work/plan.md").0, 200);
    assert_eq!(read_file(&place, access_of(&back), "/journal/day.md").0, 403);
    place.stile(&["client", "end", "--all"]);
    assert_eq!(read_file(&place, access_of(&back), "/work/plan.md").0, 401);
    let refused = client.refresh(back["refresh_token"].as_str().unwrap());
    assert_eq!(error_of(&refused), (400, json!("invalid_grant")));
}

#[test]
fn a_restored_backup_has_no_session_and_says_that_what_was_ended_is_back() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut browser = place.signed_in_browser();
    let tokens = client.tokens(&mut browser, "read:/work/");
    let archive = place.rig.state.with_file_name("backup.zip");
    let archive = archive.to_str().unwrap();
    place.stile(&["backup", archive]);
    place.stile(&["client", "end", &client.id]);

    let mut said = String::new();
    let rig = place.rig.clone();
    let place = place.restarted_after(|| {
        let mut command = rig.command(&["restore-backup", archive, "--replace", "--state"]);
        let output = command.arg(&rig.state).output().unwrap();
        said = String::from_utf8(output.stdout).unwrap();
    });
    assert!(said.contains("what you ended after that is valid again"), "{said}");
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 200);
    let page = browser.open(&format!("{}/owner/clients", origin(&place)));
    assert!(text_of(&page).contains("Sign in"), "{}", text_of(&page));
    place.stile(&["client", "end", "--all"]);
    assert_eq!(read_file(&place, access_of(&tokens), "/work/plan.md").0, 401);
}
