//! A client that knows the address of `/mcp` and nothing else gets what the owner approves.

use serde_json::json;

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, fetch, location, parameter, read_file, text_of,
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
    let link = place.stile(&["sign-in"]);
    let code = parameter(link.trim(), "code").unwrap();
    let returned = browser.submit(&place.url(), &page, &[("code", &code)]);
    let consent = location(&returned).unwrap().to_owned();
    let page = browser.get(&place.url().replace("/mcp", &consent));
    let words = text_of(&page);
    for expected in ["Editor", "client.example", "the files in /work and below"] {
        assert!(words.contains(expected), "{expected} is not on the page: {words}");
    }

    // The owner leaves two of the three lines.
    let removed = [("line-1", ""), ("decision", "approve")];
    let answer = browser.submit(&place.url(), &page, &removed);
    let answer = location(&answer).unwrap();
    let code = parameter(answer, "code").unwrap();
    let tokens = client.redeem(&code).json();
    assert_eq!(tokens["scope"], "read:/work/ write:/work/");
    assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(3600)));
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
