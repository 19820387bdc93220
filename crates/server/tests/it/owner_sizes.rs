//! Every page of the owner stays below 60 KB whatever names it has, leads on to what it left out,
//! and has no time that its reader's browser cannot show in their zone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::client::McpClient as _;

use crate::sign_in_kit::{Browser, Place, ScriptedClient, text_of};

/// The largest page, in bytes.
const MAX_PAGE: usize = 60_000;
/// How many names there are of each kind.
const NAMES: usize = 300;

/// Returns a name of 180 characters, most of which markup has to escape.
fn name(number: usize) -> String {
    let rest: String = "<&\"'é".chars().cycle().take(176).collect();
    format!("{number:03}<&\u{202e}{}", rest.get(2..).unwrap())
}

/// Returns a name that a stream or a connection can have, as long as one can be.
fn source_name(number: usize) -> String {
    format!("n{number:03}{}", "x".repeat(60))
}

/// Opens a page, and says that it is small enough.
fn open(place: &Place, owner: &mut Browser, path: &str) -> String {
    let reply = owner.get(&place.at(path));
    assert_eq!(reply.status, 200, "{path}: {}", text_of(&reply));
    assert!(reply.body.len() <= MAX_PAGE, "{path} has {} bytes", reply.body.len());
    let page = text_of(&reply);
    // A field that nobody sees has the name as it is.
    let shown = without(&page, "<input", ">");
    assert!(!shown.contains('\u{202e}'), "{path} shows a character that turns text");
    page
}

/// Returns a page without the parts between two texts.
fn without(page: &str, begin: &str, end: &str) -> String {
    let mut page = page.to_owned();
    while let Some(at) = page.find(begin) {
        let to = page[at..].find(end).unwrap() + at + end.len();
        page.replace_range(at..to, " ");
    }
    page
}

/// Follows the links of a list that goes on, and returns how many of the names its pages have.
fn names_of_all_pages(place: &Place, owner: &mut Browser, first: &str) -> usize {
    let (mut path, mut found) = (first.to_owned(), std::collections::BTreeSet::new());
    for _ in 0..NAMES {
        let page = open(place, owner, &path);
        for number in 0..NAMES {
            if page.contains(&format!("{number:03}&lt;&amp;")) {
                found.insert(number);
            }
        }
        let next = page.split("<nav class=\"paging\"").nth(1).and_then(|nav| {
            let nav = nav.split("</nav>").next()?;
            let link = nav.split("href=\"").nth(1)?.split('"').next()?;
            (nav.contains(" more<") || nav.contains("Earlier calls") || nav.contains(">More<"))
                .then(|| link.replace("&amp;", "&"))
        });
        match next {
            Some(next) if next != path => path = next,
            _ => break,
        }
    }
    found.len()
}

#[test]
fn owner_pages_of_three_hundred_long_names_stay_small_and_lead_to_all_of_them() {
    let place = Place::new();
    let folder = place.rig.root.join("work");
    for number in 0..NAMES {
        std::fs::write(folder.join(name(number)), "text\n").unwrap();
    }
    let token = place.stile(&["token", "--scope", "write:/", "--client", "mover"]);
    let mut agent = place.server.client(token.trim());
    // One call that changes them all, and one call for each.
    let listed = agent.tool("file.list", json!({ "path": "/work", "tree_hash": true })).unwrap();
    let moving = json!({ "path": "/work", "hash": listed["tree_hash"], "to": "/moved" });
    agent.tool("folder.move", moving).unwrap();
    assert!(place.rig.root.join("moved").join(name(299)).exists());
    for number in 0..NAMES {
        let create = json!({ "path": format!("/journal/{}", name(number)), "content": "new\n" });
        agent.tool("file.create", create).unwrap();
    }
    let mut owner = place.signed_in_browser();
    let pages = [
        "/owner/activity?days=7",
        "/owner/files?path=%2Fmoved",
        "/owner/undo?since=2026-01-01T00:00&client=mover",
        "/owner/activity/call?call=1",
    ];
    for path in pages {
        assert_eq!(names_of_all_pages(&place, &mut owner, path), NAMES, "{path}");
    }
    let page = open(&place, &mut owner, "/owner/activity/call?call=1");
    let one = page.split("&amp;change=").nth(1).unwrap().split('"').next().unwrap();
    open(&place, &mut owner, &format!("/owner/activity/call?call=1&change={one}"));
    open(&place, &mut owner, "/owner/activity/call?call=1&view=beside");
}

#[test]
fn owner_pages_of_a_file_with_many_changes_stay_small() {
    let place = Place::new();
    let scopes = ["--scope", "write:/", "--scope", "append:/"];
    let client: String = name(0).chars().take(50).collect();
    let token = [&["token", "--client", &client], &scopes[..]].concat();
    let token = place.stile(&token);
    let mut agent = place.server.client(token.trim());
    let path = format!("/work/{}", name(1));
    agent.tool("file.create", json!({ "path": path, "content": "" })).unwrap();
    let mut text = String::new();
    for _ in 0..NAMES {
        let line = "<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<\n";
        let hash = ContentHash::digest(text.as_bytes()).to_string();
        let append =
            json!({ "path": path, "hash": hash, "size_bytes": text.len(), "content": line });
        agent.tool("text.append", append).unwrap();
        text.push_str(line);
    }
    assert_eq!(std::fs::read_to_string(place.rig.root.join(&path[1..])).unwrap(), text);
    let mut owner = place.signed_in_browser();
    let query = stile_domain::percent::encode_component(&path);
    let page = open(&place, &mut owner, &format!("/owner/file?path={query}"));
    assert!(page.contains(" more</a>"), "{page}");
    for more in ["&view=beside", "&from=290", "&version=before:1"] {
        open(&place, &mut owner, &format!("/owner/file?path={query}{more}"));
    }
}

#[test]
fn owner_pages_of_many_clients_streams_and_grants_stay_small() {
    let place = Place::new();
    for number in 0..40 {
        let fields: Vec<String> =
            (0..40).map(|field| format!("\"{field}{}\":\"<<<<<\"", "f".repeat(160))).collect();
        let row = format!("{{\"id\":\"a\",{}}}\n", fields.join(","));
        place.import(&source_name(number), &source_name(number + 100), &row);
    }
    for number in 0..40 {
        let client = format!("{number:03}{}", "<&>".repeat(30));
        let stream = source_name(number + 100);
        let grant = place.stile(&["grant", "create", "--client", &client, "--stream", &stream]);
        let scopes = ["--scope", "read:/work/<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<", "--scope", "read:/x"];
        let token = ["token", "--grant", grant.trim(), "--client", &client];
        place.stile(&[&token[..], &scopes].concat());
    }
    let mut owner = place.signed_in_browser();
    let first = format!("connection={}&stream={}", source_name(0), source_name(100));
    for path in [
        "/owner/clients".to_owned(),
        "/owner/clients?page=1".to_owned(),
        "/owner/clients?from=20".to_owned(),
        "/owner/clients?show=worth-a-look".to_owned(),
        "/owner/grant".to_owned(),
        format!("/owner/grant?{first}"),
        "/owner/records".to_owned(),
        "/owner/records?from=20".to_owned(),
        "/owner/connect".to_owned(),
        "/owner/health".to_owned(),
    ] {
        open(&place, &mut owner, &path);
    }
    let client = ScriptedClient::connect(&place.url());
    let page = owner.open(&client.authorization_url(&[("scope", "write:/")]));
    assert!(page.body.len() <= MAX_PAGE, "consent has {} bytes", page.body.len());
    let streams = (0..3).map(|at| (format!("stream-{at}"), source_name(at + 100)));
    let streams: Vec<(String, String)> = streams.collect();
    let mut chosen: Vec<(&str, &str)> =
        streams.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    chosen.push(("do", "show"));
    let page = place.send(&mut owner, &page, "/consent", &chosen);
    assert!(page.body.len() <= MAX_PAGE, "consent has {} bytes", page.body.len());
}

#[test]
fn owner_pages_name_files_that_no_client_can_reach_and_say_what_to_do() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"caf\xe9 <b>.txt");
    std::fs::write(place.rig.root.join("work").join(odd), "x").unwrap();
    let mut owner = place.signed_in_browser();
    let page = open(&place, &mut owner, "/owner/files?path=%2Fwork");
    assert!(page.contains("caf\\xe9 &lt;b&gt;.txt"), "{page}");
    assert!(page.contains("not UTF-8") && page.contains("rename it"), "{page}");
    let other = open(&place, &mut owner, "/owner/files?path=%2Fjournal");
    assert!(!other.contains("not UTF-8"), "{other}");
}

/// Returns what a page says outside of the elements that have times, fields and contents of files.
fn said(page: &str) -> String {
    let parts = [
        ("<time", "</time>"),
        ("<textarea", "</textarea>"),
        ("<code", "</code>"),
        ("<dd>", "</dd>"),
        ("<input", ">"),
        ("<a href", ">"),
        ("<p class=\"copy\"", "</p>"),
        ("<p class=\"muted\" id=\"live\"", ">"),
    ];
    parts.iter().fold(page.to_owned(), |page, (begin, end)| without(&page, begin, end))
}

/// Returns a part of a text that reads like a day or a time of a clock.
fn bare_time(text: &str) -> Option<&str> {
    let is_like = |part: &[u8], shape: &str| {
        shape.bytes().zip(part).all(|(want, have)| match want {
            b'0' => have.is_ascii_digit(),
            want => want == *have,
        })
    };
    let bytes = text.as_bytes();
    let found = ["0000-00-00", "00:00"]
        .into_iter()
        .find_map(|shape| bytes.windows(shape.len()).position(|part| is_like(part, shape)));
    found.map(|at| text.get(at.saturating_sub(60)..).unwrap_or_default())
}

#[test]
fn owner_pages_have_no_time_that_the_browser_cannot_show_in_its_zone() {
    let place = Place::new();
    place.import("mail", "messages", "{\"id\":\"a\",\"sent_at\":\"2026-01-05T00:00:00Z\"}\n");
    let grant = ["grant", "create", "--client", "reader", "--stream", "messages"];
    let limits = ["--time-field", "sent_at", "--since", "2026-01-01T10:00:00Z", "--expires", "90d"];
    let grant = place.stile(&[&grant[..], &limits].concat());
    let token = ["token", "--scope", "write:/", "--client", "reader", "--grant", grant.trim()];
    let token = place.stile(&token);
    let mut agent = place.server.client(token.trim());
    agent.tool("file.create", json!({ "path": "/a.md", "content": "a\n" })).unwrap();
    let listed = place.stile(&["token", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let jti = listed[0]["jti"].as_str().unwrap().to_owned();
    let mut owner = place.signed_in_browser();
    for path in [
        "/owner/clients",
        "/owner/activity",
        "/owner/activity?day=2026-01-01&days=7",
        "/owner/activity/call?call=1",
        "/owner/undo?since=2026-01-01T00:00&until=2030-01-01T00:00",
        "/owner/undo?since=2026-01-01T00:00&client=reader",
        "/owner/files",
        "/owner/file?path=%2Fa.md",
        "/owner/records",
        "/owner/grant?connection=mail&stream=messages",
        "/owner/connect",
        &format!("/owner/connect?replaces={jti}"),
        "/owner/import",
        "/owner/health",
        "/owner/account",
    ] {
        let page = open(&place, &mut owner, path);
        let (_, main) = page.split_once("<main").unwrap();
        assert_eq!(bare_time(&said(main)), None, "{path}");
    }
    let page = owner.get(&place.at("/owner/connect"));
    let made = [("name", "another"), ("do", "make")];
    let made = text_of(&place.send(&mut owner, &page, "/owner/connect/token", &made));
    assert!(made.contains("id=\"made-token\""), "{made}");
    let (_, main) = made.split_once("<main").unwrap();
    assert_eq!(bare_time(&said(main)), None, "a token that was made");
    // The days of the activity begin with those of the reader, once their browser says when.
    let page = open(&place, &mut owner, "/owner/activity");
    assert!(page.contains("Days are days in UTC."), "{page}");
    owner.cookies.push(("stile-zone".to_owned(), "330".to_owned()));
    let page = open(&place, &mut owner, "/owner/activity?day=2026-03-02");
    assert!(page.contains("Days begin with yours (UTC+05:30)."), "{page}");
    assert!(page.contains("since=2026-03-01T18%3A30%3A00Z"), "the day that is taken back: {page}");
}
