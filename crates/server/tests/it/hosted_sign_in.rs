//! People of an organisation sign in at its identity provider, and decide about clients by role.

use stile_testkit::client::Reply;
use stile_testkit::issuer::openid::CLIENT_ID;
use stile_testkit::issuer::{Alg, Issuer};

use crate::sign_in_kit::{Browser, Place, ScriptedClient, fetch, location, read_file, text_of};

const AUDIENCE: &str = "https://notes.example/mcp";

fn place(issuer: &Issuer) -> Place {
    Place::with(&[
        "--jwks",
        &issuer.jwks_url(),
        "--issuer",
        &issuer.url(),
        "--audience",
        AUDIENCE,
        "--sign-in-client",
        CLIENT_ID,
    ])
}

/// Follows the link of the sign-in page to the provider and back, and returns the page that was
/// wanted.
fn sign_in(place: &Place, browser: &mut Browser, page: &Reply) -> Reply {
    let html = text_of(page);
    let (_, rest) = html.split_once("href=\"/sign-in/provider").unwrap();
    let query = rest.split_once('"').unwrap().0.replace("&amp;", "&");
    let origin = place.url().replace("/mcp", "");
    let leads = browser.get(&format!("{origin}/sign-in/provider{query}"));
    let back = fetch("GET", location(&leads).unwrap(), &[], "");
    let callback = location(&back).unwrap().to_owned();
    // Another browser cannot finish what this one began.
    assert_eq!(Browser::default().get(&callback).status, 403);
    browser.open(&callback)
}

#[test]
fn the_role_of_a_person_decides_what_they_may_let_a_client_do() {
    let issuer = Issuer::start();
    let place = place(&issuer);
    let asked = [("scope", "read:/work/ write:/journal/")];
    for (role, granted) in [
        (None, "read:/work/"),
        (Some("viewer"), "read:/work/"),
        (Some("evaluator"), "read:/work/"),
        (Some("editor"), "read:/work/ write:/journal/"),
        (Some("admin"), "read:/work/ write:/journal/"),
    ] {
        issuer.openid().person("ann", role);
        let client = ScriptedClient::connect(&place.url());
        let mut browser = Browser::default();
        let page = browser.open(&client.authorization_url(&asked));
        let page = sign_in(&place, &mut browser, &page);
        assert!(text_of(&page).contains("Editor"), "{}", text_of(&page));
        let code = client.code(&mut browser, asked[0].1, &[]);
        let tokens = client.redeem(&code).json();
        let scopes: Vec<&str> = tokens["scope"].as_str().unwrap().split(' ').collect();
        let expected: Vec<&str> = granted.split(' ').collect();
        assert!(
            scopes.len() == expected.len() && expected.iter().all(|scope| scopes.contains(scope)),
            "{role:?}: {scopes:?}"
        );
        let access = tokens["access_token"].as_str().unwrap();
        assert_eq!(read_file(&place, access, "/work/plan.md").0, 200, "{role:?}");
    }
}

#[test]
fn people_see_and_end_their_own_and_administrators_all() {
    let issuer = Issuer::start();
    let place = place(&issuer);
    let origin = place.url().replace("/mcp", "");
    let signed_in = |subject: &str, role: &str| {
        issuer.openid().person(subject, Some(role));
        let mut browser = Browser::default();
        let page = browser.open(&format!("{origin}/owner/clients"));
        let page = sign_in(&place, &mut browser, &page);
        assert!(text_of(&page).contains("Who may do what"), "{}", text_of(&page));
        browser
    };
    let mut ann = signed_in("ann", "editor");
    let tokens = ScriptedClient::connect(&place.url()).tokens(&mut ann, "read:/work/");
    let access = tokens["access_token"].as_str().unwrap();
    let mut bob = signed_in("bob", "editor");
    let mut root = signed_in("root", "admin");
    let shows = |browser: &mut Browser| {
        text_of(&browser.get(&format!("{origin}/owner/clients"))).contains("End this access")
    };
    assert!(shows(&mut ann) && shows(&mut root) && !shows(&mut bob));
    // Nobody among several owns the files and the journal, not even who administers.
    for path in ["activity", "undo?call=1", "files", "file?path=%2Fa", "connect", "health"] {
        assert_eq!(root.get(&format!("{origin}/owner/{path}")).status, 404, "{path}");
    }
    // Neither a password nor a passkey opens a hosted server.
    let refused = bob.post(&format!("{origin}/sign-in/password"), &[("password", "x")]);
    assert_eq!(refused.status, 403);
    assert!(!text_of(&bob.get(&format!("{origin}/owner/account"))).contains("Passkeys"));

    let page = text_of(&ann.get(&format!("{origin}/owner/clients")));
    let (_, rest) = page.split_once("name=\"id\" value=\"").unwrap();
    let id = rest.split_once('"').unwrap().0;
    let end = |browser: &mut Browser| {
        let page = browser.get(&format!("{origin}/owner/account"));
        let html = text_of(&page);
        let (_, rest) = html.split_once("name=\"csrf\" value=\"").unwrap();
        let csrf = rest.split_once('"').unwrap().0.to_owned();
        let fields = [("id", id), ("csrf", csrf.as_str())];
        let reply = browser.post(&format!("{origin}/owner/clients/end"), &fields);
        location(&reply).unwrap().to_owned()
    };
    assert_eq!(end(&mut bob), "/owner/clients?done=gone");
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    assert_eq!(end(&mut root), "/owner/clients?done=ended");
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 401);
}

#[test]
fn tokens_of_the_provider_work_on_and_its_identity_tokens_do_not() {
    let issuer = Issuer::start();
    let place = place(&issuer);
    let token = issuer.mint("ann", AUDIENCE).scope("read:/").token(Alg::Es256);
    assert_eq!(read_file(&place, &token, "/work/plan.md").0, 200);
    let identity = issuer.mint("ann", CLIENT_ID).scope("read:/").token(Alg::Es256);
    assert_eq!(read_file(&place, &identity, "/work/plan.md").0, 401);
}
