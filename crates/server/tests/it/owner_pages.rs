//! The owner's pages over HTTP: passwords, passkeys, sessions, and who may do what.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use stile_testkit::authenticator::{Authenticator, Ceremony, PasskeyAlgorithm};
use stile_testkit::client::Reply;

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, fetch, form, form_to, location, read_file, text_of,
};

const PASSWORD: &str = "correct horse battery";
/// The pages that only a signed-in browser sees.
const OWNER_PAGES: [&str; 11] = [
    "/owner/clients", "/owner/clients/edit", "/owner/activity", "/owner/activity/call",
    "/owner/files", "/owner/connect", "/owner/grant", "/owner/records", "/owner/import",
    "/owner/health", "/owner/account",
];
/// Where the forms of a signed-in browser go.
const OWNER_FORMS: [&str; 20] = [
    "/owner/clients/edit",
    "/owner/clients/take-away",
    "/owner/import",
    "/owner/import/store",
    "/owner/import/forget",
    "/owner/grant",
    "/owner/health/backup",
    "/owner/account/sessions/end-one",
    "/owner/undo",
    "/owner/file",
    "/owner/connect/token",
    "/owner/clients/end",
    "/owner/clients/narrow",
    "/owner/clients/revoke-token",
    "/owner/clients/revoke-grant",
    "/owner/account/passkeys",
    "/owner/account/passkeys/remove",
    "/owner/account/password",
    "/owner/account/sessions/end",
    "/sign-out",
];

impl Place {
    fn set_password(&self) {
        let mut command = self.rig.command(&["owner", "password"]);
        command.arg("--state").arg(&self.rig.state);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!String::from_utf8_lossy(&output.stdout).contains(PASSWORD));
    }

    fn sign_in(&self, browser: &mut Browser, password: &str) -> Reply {
        browser.post(&self.at("/sign-in/password"), &[("password", password)])
    }
}

fn session(browser: &Browser) -> Option<&str> {
    let found = browser.cookies.iter().find(|(name, _)| name == "stile");
    found.map(|(_, secret)| secret.as_str())
}

fn csrf(page: &Reply) -> String {
    let form = form_to(page, "/sign-out");
    form.fields.into_iter().find(|(name, _)| name == "csrf").unwrap().1
}

#[test]
fn the_password_of_the_command_signs_in_and_no_other_does() {
    let place = Place::new();
    let mut browser = Browser::default();
    // What the owner does not have is not offered, and does not sign in.
    let offers_password = |page: &Reply| text_of(page).contains("/sign-in/password");
    assert!(!offers_password(&browser.get(&place.at("/sign-in"))));
    let none = place.sign_in(&mut browser, PASSWORD);
    place.set_password();
    assert!(offers_password(&browser.get(&place.at("/sign-in"))));
    let wrong = place.sign_in(&mut browser, "another horse battery");
    assert_eq!((none.status, wrong.status), (403, 403));
    assert_eq!(session(&browser), None);

    let right = place.sign_in(&mut browser, PASSWORD);
    assert_eq!((right.status, location(&right)), (303, Some("/owner/clients")));
    let cookie = right.header("set-cookie").unwrap();
    for part in ["stile=", "HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let page = browser.get(&place.at("/owner/clients"));
    assert!(page.status == 200 && text_of(&page).contains("Who may do what"));

    // A new password signs every browser out.
    place.set_password();
    assert_eq!(browser.get(&place.at("/owner/clients")).status, 303);
}

#[test]
fn a_password_is_set_on_the_page_by_who_knows_the_old_one() {
    let place = Place::new();
    let mut browser = place.signed_in_browser();
    let set = |browser: &mut Browser, current: &str, new: &str| {
        let page = browser.get(&place.at("/owner/account"));
        let csrf = csrf(&page);
        let fields = [("csrf", csrf.as_str()), ("current", current), ("new", new)];
        browser.post(&place.at("/owner/account/password"), &fields)
    };
    let short = set(&mut browser, "", "short");
    assert!(short.status == 403 && text_of(&short).contains("at least 12 characters"));
    let to_sign_in = Some("/sign-in?done=password-set");
    assert_eq!(location(&set(&mut browser, "", PASSWORD)), to_sign_in);
    let said = text_of(&browser.get(&place.at("/sign-in?done=password-set")));
    assert!(said.contains("The password is set"), "{said}");
    assert!(!text_of(&browser.get(&place.at("/sign-in"))).contains("The password is set"));
    // It signs all browsers out, and this one in again.
    assert_eq!(browser.get(&place.at("/owner/account")).status, 303);
    assert_eq!(place.sign_in(&mut browser, PASSWORD).status, 303);
    let other = "another horse battery";
    let refused = set(&mut browser, "a wrong guess, again", other);
    assert!(refused.status == 403 && text_of(&refused).contains("present password is wrong"));
    assert_eq!(location(&set(&mut browser, PASSWORD, other)), to_sign_in);
    assert_eq!(place.sign_in(&mut browser, PASSWORD).status, 403);
    assert_eq!(place.sign_in(&mut browser, other).status, 303);
    // Guesses on this page are delayed as those of the sign-in are.
    let delayed = (0..8).any(|_| {
        let refused = set(&mut browser, "a wrong guess, again", PASSWORD);
        text_of(&refused).contains("Try again in")
    });
    assert!(delayed);
}

#[test]
fn guesses_are_delayed_and_a_link_signs_in_all_the_same() {
    let place = Place::new();
    place.set_password();
    let mut browser = Browser::default();
    for _ in 0..5 {
        assert_eq!(place.sign_in(&mut browser, "a wrong guess, again").status, 403);
    }
    // Now even the right password has to wait.
    let delayed = place.sign_in(&mut browser, PASSWORD);
    assert_eq!(delayed.status, 429, "{}", text_of(&delayed));
    assert!(delayed.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(session(&browser), None);
    let owner = place.signed_in_browser();
    assert!(session(&owner).is_some());
}

#[test]
fn signing_in_makes_a_new_session_whatever_the_browser_had() {
    let place = Place::new();
    place.set_password();
    let planted = "planted-by-somebody-else";
    let mut browser = Browser { cookies: vec![("stile".to_owned(), planted.to_owned())] };
    assert_eq!(place.sign_in(&mut browser, PASSWORD).status, 303);
    let first = session(&browser).unwrap().to_owned();
    assert_ne!(first, planted);
    let mut attacker = Browser { cookies: vec![("stile".to_owned(), planted.to_owned())] };
    assert_eq!(attacker.get(&place.at("/owner/clients")).status, 303);
    // Signing out ends the session itself, and not only the cookie.
    let page = browser.get(&place.at("/owner/clients"));
    let out = browser.post(&place.at("/sign-out"), &[("csrf", &csrf(&page))]);
    assert_eq!(out.status, 303);
    let mut kept = Browser { cookies: vec![("stile".to_owned(), first)] };
    assert_eq!(kept.get(&place.at("/owner/clients")).status, 303);
}

#[test]
fn browsers_are_listed_in_words_with_their_address_and_each_is_ended() {
    let place = Place::new();
    let (mut here, mut there) = (place.signed_in_browser(), place.signed_in_browser());
    let account = place.at("/owner/account");
    let secret = session(&there).unwrap().to_owned();
    let cookie = format!("stile={secret}");
    let agent = "Mozilla/5.0 (Android 16; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0";
    let opened = fetch("GET", &account, &[("Cookie", &cookie), ("User-Agent", agent)], "");
    assert_eq!(opened.status, 200);
    let page = here.get(&account);
    let html = text_of(&page);
    assert!(html.contains("Firefox on Android") && html.contains("127.0.0.1"), "{html}");
    assert!(!html.contains("Mozilla") && !html.contains(&secret), "{html}");
    let listed: Value =
        serde_json::from_str(&place.stile(&["owner", "sessions", "--json"])).unwrap();
    let of_phone = |session: &&Value| session["browser"] == "Firefox on Android";
    let phone = listed.as_array().unwrap().iter().find(of_phone).unwrap();
    assert_eq!(phone["address"], "127.0.0.1", "{listed}");

    let form = form_to(&page, "/owner/account/sessions/end-one");
    let id = form.fields.iter().find(|(name, _)| name == "session").unwrap().1.clone();
    let fields = [("csrf", csrf(&page)), ("session", id)];
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let end = place.at("/owner/account/sessions/end-one");
    assert_eq!(location(&here.post(&end, &fields)), Some("/owner/account?done=signed-out"));
    assert_eq!(there.get(&account).status, 303, "the other browser is signed out");
    assert_eq!(here.get(&account).status, 200, "and this one is not");
    assert_eq!(location(&here.post(&end, &fields)), Some("/owner/account?done=gone"));
}

#[test]
fn a_token_opens_no_page_and_a_session_opens_nothing_but_pages() {
    let place = Place::new();
    let owners = place.stile(&["token", "--owner", "--scope", "write:/"]);
    let bearer = format!("Bearer {}", owners.trim());
    for path in OWNER_PAGES {
        let reply = fetch("GET", &place.at(path), &[("Authorization", &bearer)], "");
        assert_eq!(reply.status, 303, "{path}");
        assert!(location(&reply).unwrap().starts_with("/sign-in"), "{path}");
    }
    for path in OWNER_FORMS {
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let reply = fetch("POST", &place.at(path), &headers, "csrf=x");
        assert!(reply.status == 403 || location(&reply) == Some("/sign-in"), "{path}: {reply:?}");
    }
    let browser = place.signed_in_browser();
    let secret = session(&browser).unwrap();
    let cookie = format!("stile={secret}");
    for (headers, path) in [
        (vec![("Cookie", cookie.as_str())], "/mcp"),
        (vec![("Cookie", cookie.as_str())], "/v1/streams"),
        (vec![("Authorization", &format!("Bearer {secret}")[..])], "/mcp"),
    ] {
        let headers = [&headers[..], &[("Content-Type", "application/json")]].concat();
        let method = if path == "/mcp" { "POST" } else { "GET" };
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        let reply = fetch(method, &place.at(path), &headers, &body);
        assert_eq!(reply.status, 401, "{path}");
    }
}

#[test]
fn every_page_forbids_frames_caches_and_foreign_content() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let mut visitor = Browser::default();
    let consent = owner.get(&client.authorization_url(&[("scope", "read:/work/")]));
    let consent = owner.get(&place.at(location(&consent).unwrap()));
    let mut pages = vec![
        ("consent", consent),
        ("sign-in", visitor.get(&place.at("/sign-in"))),
        ("refused sign-in", place.sign_in(&mut visitor, "wrong, and long enough")),
        ("refused form", visitor.post(&place.at("/owner/clients/end"), &[])),
    ];
    pages.extend(OWNER_PAGES.map(|path| (path, owner.get(&place.at(path)))));
    for (name, page) in pages {
        let policy = page.header("content-security-policy").unwrap_or_else(|| panic!("{name}"));
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{name}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{name}: {policy}");
        for (header, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(page.header(header), Some(value), "{name}: {header}");
        }
        let html = text_of(&page);
        for forbidden in [" style=", "<style", " onclick=", "javascript:", "<script>"] {
            assert!(!html.contains(forbidden), "{name} has {forbidden}");
        }
    }
}

#[test]
fn a_form_that_is_not_from_a_page_of_the_session_changes_nothing() {
    let place = Place::new();
    let token = place.stile(&["token", "--scope", "read:/"]);
    let (mut owner, mut other) = (place.signed_in_browser(), place.signed_in_browser());
    let listed = place.stile(&["token", "list", "--json"]);
    let jti = serde_json::from_str::<Value>(&listed).unwrap()[0]["jti"].clone();
    let jti = jti.as_str().unwrap();
    let own = csrf(&owner.get(&place.at("/owner/clients")));
    let foreign = csrf(&other.get(&place.at("/owner/clients")));
    assert_ne!(own, foreign);
    let path = place.at("/owner/clients/revoke-token");
    for csrf in ["", "x", &foreign] {
        let reply = owner.post(&path, &[("jti", jti), ("csrf", csrf)]);
        assert_eq!(reply.status, 403, "{csrf}");
    }
    // A foreign page cannot know the token of the form; if it did, the browser would tell on it.
    let cookie = format!("stile={}", session(&owner).unwrap());
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 303)] {
        assert_eq!(read_file(&place, token.trim(), "/work/plan.md").0, 200, "{site}");
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Sec-Fetch-Site", site),
        ];
        let reply = fetch("POST", &path, &headers, &form(&[("jti", jti), ("csrf", &own)]));
        assert_eq!(reply.status, status, "{site}");
    }
    assert_eq!(read_file(&place, token.trim(), "/work/plan.md").0, 401);
    let again = owner.post(&path, &[("jti", jti), ("csrf", &own)]);
    assert_eq!(location(&again), Some("/owner/clients?done=revoked"));
    let unknown = owner.post(&path, &[("jti", "nobody"), ("csrf", &own)]);
    assert_eq!(location(&unknown), Some("/owner/clients?done=gone"));
}

#[test]
fn a_client_is_narrowed_and_ended_on_the_page() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let tokens = client.tokens(&mut owner, "read:/work/ read:/journal/");
    let access = tokens["access_token"].as_str().unwrap();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(read_file(&place, access, "/journal/day.md").0, 200);

    let page = owner.get(&place.at("/owner/clients"));
    let words = text_of(&page);
    for expected in ["Editor", "client.example", "May read the files in /work and below"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    // The page knows that the client has just called.
    assert!(!words.contains("never"), "{words}");
    let form = form_to(&page, "/owner/clients/narrow");
    let kept: Vec<(&str, &str)> = form
        .fields
        .iter()
        .filter(|(_, value)| value != "read:/journal/")
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let narrowed = owner.post(&place.at("/owner/clients/narrow"), &kept);
    assert_eq!(location(&narrowed), Some("/owner/clients?done=narrowed"));
    // The same token allows less from the next call on, and so does the one that follows it.
    let renewed = client.refresh(refresh).json();
    assert_eq!(renewed["scope"], "read:/work/");
    for access in [access, renewed["access_token"].as_str().unwrap()] {
        assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
        assert_eq!(read_file(&place, access, "/journal/day.md").0, 403);
    }

    let page = owner.get(&place.at("/owner/clients"));
    let form = form_to(&page, "/owner/clients/end");
    let fields: Vec<(&str, &str)> =
        form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let ended = owner.post(&place.at("/owner/clients/end"), &fields);
    assert_eq!(location(&ended), Some("/owner/clients?done=ended"));
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 401);
    let refused = client.refresh(renewed["refresh_token"].as_str().unwrap());
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    let page = text_of(&owner.get(&place.at("/owner/clients?done=ended")));
    assert!(page.contains("You approved no client") && page.contains("The access is ended"));
}

#[test]
fn names_of_strangers_are_text_on_every_page() {
    let place = Place::new();
    place.stile(&["token", "--scope", "read:/", "--client", "<script>alert(1)</script>"]);
    place.stile(&["token", "--scope", "read:/", "--client", "safe\u{202e}exe.gpj"]);
    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients?done=%3Cscript%3E")));
    assert!(!page.contains("<script>"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains('\u{202e}'), "{page}");
}

#[test]
fn a_passkey_is_registered_and_signs_in_at_a_name_and_not_at_an_address() {
    let place = Place::new();
    let origin = format!("http://localhost:{}", place.server.address.port());
    let at = |path: &str| format!("{origin}{path}");
    let value = |html: &str, name: &str| {
        let (_, rest) = html.split_once(&format!("data-{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    // Browsers allow no passkey at an address.
    let page = text_of(&Browser::default().get(&place.at("/sign-in")));
    assert!(!page.contains("data-challenge") && !page.contains("<script"), "{page}");

    let mut owner = place.signed_in_browser();
    let page = owner.get(&at("/owner/account"));
    let html = text_of(&page);
    let mut authenticator = Authenticator::new(PasskeyAlgorithm::Es256, &value(&html, "owner"));
    let asked = Ceremony::registration(&value(&html, "challenge"), &origin, "localhost");
    let answer = authenticator.register(&asked);
    let csrf = csrf(&page);
    let fields = [
        ("csrf", csrf.as_str()),
        ("name", "<b>phone"),
        ("client_data", &answer.client_data),
        ("authenticator_data", &answer.authenticator_data),
    ];
    let registered = owner.post(&at("/owner/account/passkeys"), &fields);
    assert_eq!(location(&registered), Some("/owner/account?done=registered"), "{registered:?}");
    // The challenge of a registration is used up.
    assert_eq!(owner.post(&at("/owner/account/passkeys"), &fields).status, 403);
    assert!(text_of(&owner.get(&at("/owner/account"))).contains("&lt;b&gt;phone"));
    assert!(place.stile(&["owner", "passkeys"]).contains("localhost"));

    let mut visitor = Browser::default();
    let html = text_of(&visitor.get(&at("/sign-in?return_to=%2Fowner%2Faccount")));
    let asked = Ceremony::sign_in(&value(&html, "challenge"), &origin, "localhost");
    authenticator.counter += 1;
    let answer = authenticator.sign_in(&asked);
    let fields = [
        ("return_to", "/owner/account"),
        ("credential", &answer.credential),
        ("client_data", &answer.client_data),
        ("authenticator_data", &answer.authenticator_data),
        ("signature", &answer.signature),
        ("user_handle", &answer.user_handle),
    ];
    // The answer is for the browser that asked.
    let mut thief = Browser::default();
    thief.get(&at("/sign-in"));
    assert_eq!(thief.post(&at("/sign-in/passkey"), &fields).status, 403);
    let signed_in = visitor.post(&at("/sign-in/passkey"), &fields);
    assert_eq!(location(&signed_in), Some("/owner/account"), "{}", text_of(&signed_in));
    assert_eq!(visitor.get(&at("/owner/account")).status, 200);
    assert_eq!(visitor.post(&at("/sign-in/passkey"), &fields).status, 403);

    // A removed passkey signs in no longer, and is offered no more.
    let mut late = Browser::default();
    let html = text_of(&late.get(&at("/sign-in")));
    let listed = place.stile(&["owner", "passkeys"]);
    let id = listed.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    place.stile(&["owner", "remove-passkey", id]);
    assert!(!text_of(&Browser::default().get(&at("/sign-in"))).contains("data-challenge"));
    authenticator.counter += 1;
    let asked = Ceremony::sign_in(&value(&html, "challenge"), &origin, "localhost");
    let answer = authenticator.sign_in(&asked);
    let fields = [
        ("credential", answer.credential.as_str()),
        ("client_data", &answer.client_data),
        ("authenticator_data", &answer.authenticator_data),
        ("signature", &answer.signature),
        ("user_handle", &answer.user_handle),
    ];
    assert_eq!(late.post(&at("/sign-in/passkey"), &fields).status, 403);
    assert_eq!(session(&late), None);
}

#[test]
fn sessions_are_listed_and_ended_from_the_terminal_and_the_page() {
    let place = Place::new();
    let (mut one, mut two) = (place.signed_in_browser(), place.signed_in_browser());
    assert_eq!(place.stile(&["owner", "sessions"]).lines().count(), 3);
    let page = one.get(&place.at("/owner/account"));
    let html = text_of(&page);
    assert_eq!(html.matches("(this browser)").count(), 1, "{html}");
    assert_eq!(html.matches("Signed in</dt>").count(), 2, "{html}");
    let ended = one.post(&place.at("/owner/account/sessions/end"), &[("csrf", &csrf(&page))]);
    assert_eq!(location(&ended), Some("/sign-in"));
    for browser in [&mut one, &mut two] {
        assert_eq!(browser.get(&place.at("/owner/account")).status, 303);
    }
    let mut three = place.signed_in_browser();
    assert!(place.stile(&["owner", "sign-out"]).starts_with("1 browsers"));
    assert_eq!(three.get(&place.at("/owner/account")).status, 303);
}
