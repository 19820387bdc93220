//! The owner's page over HTTP: who gets in, what it says of clients, and what it takes back.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::client::{Http, McpClient as _};

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, fetch, form, form_to, forms_of, location, read_file, text_of,
};

/// Every page of the owner, with parameters that its content needs.
const PAGES: [&str; 11] = [
    "/owner/clients",
    "/owner/activity/call?call=1",
    "/owner/activity",
    "/owner/undo?since=2026-01-01T00:00",
    "/owner/files?path=%2Fwork",
    "/owner/file?path=%2Fwork%2Fplan.md",
    "/owner/connect",
    "/owner/grant",
    "/owner/records",
    "/owner/import",
    "/owner/health",
];
/// Every form of the owner's page that changes something.
const FORMS: [(&str, &str); 12] = [
    ("/owner/clients/edit", "id=x&line%3Awrite%3A%2F=on"),
    ("/owner/clients/take-away", "id=x&scope=read%3A%2F"),
    ("/owner/import/store", "upload=x"),
    ("/owner/import/forget", ""),
    ("/owner/grant", "connection=x&stream=y"),
    ("/owner/health/backup", ""),
    ("/owner/undo", "call=1"),
    ("/owner/file", "path=%2Fwork%2Fplan.md&version=1&over="),
    ("/owner/connect/token", "name=x&verb=write&folder=%2F"),
    ("/owner/clients/end", "id=x"),
    ("/owner/clients/narrow", "id=x"),
    ("/owner/clients/revoke-token", "jti=x"),
];

impl Place {
    /// Returns a client with a token that may change everything.
    fn agent(&self, name: &str) -> Http {
        let token = self.stile(&["token", "--scope", "write:/", "--client", name]);
        self.server.client(token.trim())
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.rig.root.join(name)).unwrap()
    }
}

/// Replaces the plan by a text of one line, as an agent does.
fn rewrite_plan(agent: &mut Http, old: &str, new: &str) {
    let hash = ContentHash::digest(format!("{old}\n").as_bytes()).to_string();
    let arguments = json!({
        "path": "/work/plan.md", "hash": hash, "lines": [1, 0], "old": old, "new": new,
    });
    agent.tool("text.replace", arguments).unwrap();
}

#[test]
fn owner_page_the_top_of_the_server_leads_in() {
    let place = Place::new();
    let reply = fetch("GET", &place.at("/"), &[("Accept", "text/html")], "");
    assert_eq!(reply.status, 200);
    assert!(text_of(&reply).contains("href=\"/owner\""), "{}", text_of(&reply));
    let mut visitor = Browser::default();
    let page = visitor.open(&place.at("/owner"));
    assert!(page.status == 200 && text_of(&page).contains("Sign in"), "{page:?}");
    // `page` is the word of the command for the same link.
    let printed = place.stile(&["page", "--address", &place.at("")]);
    let page = visitor.get(printed.lines().next().unwrap());
    let entered = visitor.submit(&place.url(), &page, &[]);
    assert_eq!(location(&entered), Some("/owner/clients"));
    assert!(text_of(&visitor.open(&place.at("/owner"))).contains("Who may do what"));
}

#[test]
fn owner_page_no_token_of_an_agent_opens_it_in_any_header_or_cookie() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let signed_in = client.tokens(&mut owner, "write:/");
    let secrets = [
        place.stile(&["token", "--owner", "--scope", "write:/"]).trim().to_owned(),
        signed_in["access_token"].as_str().unwrap().to_owned(),
        signed_in["refresh_token"].as_str().unwrap().to_owned(),
    ];
    for secret in secrets {
        let ways = [
            ("Authorization", format!("Bearer {secret}")),
            ("Authorization", format!("Basic {secret}")),
            ("Authorization", secret.clone()),
            ("Proxy-Authorization", format!("Bearer {secret}")),
            ("X-Api-Key", secret.clone()),
            ("X-Auth-Token", secret.clone()),
            ("Mcp-Session-Id", secret.clone()),
            ("Cookie", format!("stile={secret}")),
            ("Cookie", format!("__Host-stile={secret}")),
            ("Cookie", format!("stile-visitor={secret}; stile-waiting=%2Fowner")),
            ("Cookie", format!("stile=; stile={secret}")),
        ];
        for (name, value) in &ways {
            for path in PAGES {
                let reply = fetch("GET", &place.at(path), &[(name, value)], "");
                let to = location(&reply).unwrap_or_default();
                assert!(reply.status == 303 && to.starts_with("/sign-in?"), "{path} {name}");
            }
            for (path, fields) in FORMS {
                let headers = [
                    (*name, value.as_str()),
                    ("Content-Type", "application/x-www-form-urlencoded"),
                ];
                let body = format!("{fields}&csrf={secret}&access_token={secret}");
                assert_eq!(fetch("POST", &place.at(path), &headers, &body).status, 403, "{path}");
            }
        }
        let query = format!("{}?access_token={secret}&code={secret}", place.at("/owner/clients"));
        assert_eq!(fetch("GET", &query, &[], "").status, 303);
    }
    assert_eq!(place.text("work/plan.md"), "the plan\n");
}

#[test]
fn owner_page_forms_of_other_sites_and_rebound_names_do_nothing() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let page = owner.get(&place.at("/owner/connect"));
    let csrf = &form_to(&page, "/owner/connect/token").fields[0].1.clone();
    let (_, secret) = owner.cookies.iter().find(|(name, _)| name == "stile").unwrap();
    let cookie = format!("stile={secret}");
    let urlencoded = ("Content-Type", "application/x-www-form-urlencoded");
    for (path, fields) in FORMS {
        for site in ["cross-site", "same-site"] {
            let headers = [("Cookie", cookie.as_str()), urlencoded, ("Sec-Fetch-Site", site)];
            let body = format!("{fields}&csrf={csrf}");
            assert_eq!(
                fetch("POST", &place.at(path), &headers, &body).status,
                403,
                "{path} {site}"
            );
        }
        // A page of another site knows no token, and a browser names the site.
        for headers in [
            vec![("Cookie", cookie.as_str()), urlencoded],
            vec![("Cookie", cookie.as_str()), urlencoded, ("Origin", "https://evil.example")],
        ] {
            assert_eq!(fetch("POST", &place.at(path), &headers, fields).status, 403, "{path}");
        }
    }
    // A name that an attacker lets point to this machine.
    for path in PAGES {
        let address = place.server.address;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: evil.example:{}\r\nCookie: {cookie}\r\n\r\n",
            address.port()
        );
        let reply = Http::new(address, "").send(head.as_bytes()).unwrap();
        assert!((400..500).contains(&reply.status), "{path}: {}", reply.status);
        assert!(!text_of(&reply).contains("plan.md"), "{path}");
    }
    assert_eq!(place.stile(&["token", "list", "--json"]).trim(), "[]");
}

#[test]
fn owner_page_tells_what_each_client_saw_and_changed() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    agent.tool("text.read", json!({ "path": "/journal/day.md" })).unwrap();
    agent.tool("file.search", json!({ "q": "plan" })).unwrap();
    rewrite_plan(&mut agent, "the plan", "another plan");
    // A client that starts Stile by itself is there like others.
    let mut helper = place.rig.stdio(&["--client", "helper"]);
    helper.tool("text.read", json!({ "path": "/work/plan.md" })).unwrap();
    helper.finish().unwrap();

    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    let of = |name: &str| {
        let (_, rest) = page.split_once(&format!("<bdi>{name}</bdi>")).unwrap();
        rest.split("class=\"client\"").next().unwrap().to_owned()
    };
    let cursor = of("cursor");
    for said in [
        "May change all files.",
        "read 1 file in /journal and searched files once",
        "changed 1 file in /work",
        "End the access of cursor",
        "What it has read already stays with it",
    ] {
        assert!(cursor.contains(said), "{said}: {cursor}");
    }
    let helper = of("helper");
    assert!(helper.contains("read 1 file in /work") && !helper.contains("changed 1"), "{helper}");

    // What it did as sentences, and filtered.
    let activity = |owner: &mut Browser, query: &str| {
        text_of(&owner.get(&place.at(&format!("/owner/activity?{query}"))))
    };
    let all = activity(&mut owner, "");
    assert!(all.contains("cursor changed 1 line of /work/plan.md (call 1)"), "{all}");
    assert!(all.contains("helper read /work/plan.md"), "{all}");
    for (query, shown, hidden) in [
        ("client=helper", "helper read", "cursor changed"),
        ("path=%2Fjournal", "cursor read /journal/day.md", "helper read"),
        ("tool=text.replace", "cursor changed", "cursor read"),
        ("outcome=refused", "Nobody called anything", "cursor read"),
        ("day=2026-01-01", "Nobody called anything", "cursor read"),
        ("days=x&before=y", "cursor read", "<script>"),
        ("day=nonsense", "The day cannot be read", "cursor read"),
        ("path=%FF", "The address of the page cannot be read", "cursor read"),
    ] {
        let page = activity(&mut owner, query);
        assert!(page.contains(shown) && !page.contains(hidden), "{query}: {page}");
    }
}

#[test]
fn owner_page_takes_back_what_its_plan_showed_and_no_more() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    rewrite_plan(&mut agent, "the plan", "another plan");
    let create = json!({ "path": "/work/new.md", "content": "new\n" });
    agent.tool("file.create", create).unwrap();
    let mut owner = place.signed_in_browser();
    let address = "/owner/undo?client=cursor&since=2026-01-01T00:00";
    let plan = owner.get(&place.at(address));
    let words = text_of(&plan);
    assert!(words.contains("Restore") && words.contains("/work/plan.md"), "{words}");
    assert!(words.contains("Remove") && words.contains("/work/new.md"), "{words}");

    // Somebody changes a file after the plan was shown: the new plan is shown, and nothing done.
    std::fs::write(place.rig.root.join("work/new.md"), "mine now\n").unwrap();
    let changed = place.send(&mut owner, &plan, "/owner/undo", &[]);
    let words = text_of(&changed);
    assert!(words.contains("nothing was done") && words.contains("was changed since"), "{words}");
    assert_eq!(place.text("work/plan.md"), "another plan\n");

    let done = text_of(&place.send(&mut owner, &changed, "/owner/undo", &[]));
    assert!(done.contains("one step done") && done.contains("Take this undo back"), "{done}");
    assert_eq!(place.text("work/plan.md"), "the plan\n");
    assert_eq!(place.text("work/new.md"), "mine now\n");
    // What was left is named again, as strongly as a step that failed.
    let left = done.split("What was not taken back").nth(1).unwrap();
    assert!(left.contains("<li class=\"bad\">") && left.contains("/work/new.md"), "{done}");
    // Of a day that is over, what was changed then.
    let past = "/owner/undo?since=2026-01-01T00:00&until=2026-01-02T00:00";
    let none = text_of(&owner.get(&place.at(past)));
    assert!(
        none.contains(">2026-01-02 00:00 UTC</time>") && none.contains("no such change"),
        "{none}"
    );
    // One call, and an undo of everything that was ever done is not offered.
    let one = text_of(&owner.get(&place.at("/owner/undo?call=1")));
    assert!(one.contains("what call 1 changed"), "{one}");
    for refused in ["/owner/undo", "/owner/undo?client=cursor", "/owner/undo?call=x"] {
        assert_eq!(owner.get(&place.at(refused)).status, 409, "{refused}");
    }
}

#[test]
fn owner_page_names_the_files_of_changes_that_no_history_has() {
    let place = Place::with(&["--history-bytes", "4000"]);
    let mut agent = place.agent("cursor");
    for number in 0..20 {
        let create = json!({ "path": format!("/work/{number}.md"), "content": "new\n" });
        agent.tool("file.create", create).unwrap();
    }
    let mut owner = place.signed_in_browser();
    let plan = owner.get(&place.at("/owner/undo?since=2026-01-01T00:00"));
    let done = place.send(&mut owner, &plan, "/owner/undo", &[]);
    for (page, heading) in [(&plan, "What will not be taken back"), (&done, "What was not taken")] {
        let words = text_of(page);
        let named = words.split(heading).nth(1).unwrap_or_else(|| panic!("{words}"));
        assert!(named.contains("cursor") && named.contains("/work/19.md"), "{words}");
    }
}

#[test]
fn owner_page_an_undo_of_everybody_leaves_what_the_owner_took_back() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    rewrite_plan(&mut agent, "the plan", "another plan");
    let hash = ContentHash::digest(b"another plan\n").to_string();
    let moved = json!({ "path": "/work/plan.md", "hash": hash, "to": "/work/moved.md" });
    agent.tool("file.move", moved).unwrap();
    let mut owner = place.signed_in_browser();
    let of_cursor = place.at("/owner/undo?client=cursor&since=2026-01-01T00:00");
    let plan = owner.get(&of_cursor);
    place.send(&mut owner, &plan, "/owner/undo", &[]);
    assert_eq!(place.text("work/plan.md"), "the plan\n");
    // The changes are back, and so is the name: nobody brings them again.
    let everybody = text_of(&owner.get(&place.at("/owner/undo?since=2026-01-01T00:00")));
    assert!(!everybody.contains("Restore") && !everybody.contains("Move "), "{everybody}");
    assert_eq!(place.text("work/plan.md"), "the plan\n");
    assert!(!place.rig.root.join("work/moved.md").exists());
}

#[test]
fn owner_page_files_with_long_names_are_told_apart_wherever_they_are_named() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    let long = "r".repeat(240);
    let paths = ["one", "two"].map(|end| format!("/work/{long}{end}.md"));
    for path in &paths {
        agent.tool("file.create", json!({ "path": path, "content": "x\n" })).unwrap();
    }
    let mut owner = place.signed_in_browser();
    for (path, of) in [
        ("/owner/undo?client=cursor&since=2026-01-01T00:00", 2),
        ("/owner/files", 2),
        ("/owner/files?path=/work", 2),
        ("/owner/activity", 2),
        ("/owner/undo?call=1", 1),
        (&format!("/owner/file?path={}", paths[0]), 1),
    ] {
        let page = text_of(&owner.get(&place.at(path)));
        for end in ["one.md", "two.md"].iter().take(of) {
            let is_end = |text: &str| text.trim_start_matches('r').starts_with(end);
            assert!(page.split('…').skip(1).any(is_end), "{path} {end} {page}");
        }
    }
}

#[test]
fn owner_page_accesses_of_one_name_are_said_to_share_their_numbers() {
    let place = Place::new();
    for name in ["cursor", "cursor", "editor"] {
        place.agent(name);
    }
    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    assert_eq!(page.matches("2 accesses have this name.").count(), 2, "{page}");
    let beyond = text_of(&owner.get(&place.at("/owner/clients?page=99")));
    assert!(beyond.contains("There is no such page") && !beyond.contains("no client"), "{beyond}");
}

#[test]
fn owner_page_a_token_without_a_client_is_taken_back_by_the_name_that_its_client_says() {
    let place = Place::new();
    let token = place.stile(&["token", "--scope", "write:/", "--user", "bob"]);
    let mut agent = place.server.client(token.trim());
    rewrite_plan(&mut agent, "the plan", "another plan");
    let mut owner = place.signed_in_browser();
    let by_name = "/owner/undo?client=testkit+(self-named)&since=2026-01-01T00:00";
    let plan = text_of(&owner.get(&place.at(by_name)));
    assert!(plan.contains("Restore") && plan.contains("/work/plan.md"), "{plan}");
}

#[test]
fn owner_page_a_filter_means_what_it_says() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    agent.tool("text.read", json!({ "path": "/work/plan.md" })).unwrap();
    let mut owner = place.signed_in_browser();
    let mut page = |query: &str| owner.get(&place.at(&format!("/owner/activity?{query}")));
    // A week ends at its day, and clients show the tools with an underscore.
    let week = text_of(&page("days=7&tool=text_read"));
    assert!(week.contains("days up to") && week.contains("cursor read"), "{week}");
    let none = text_of(&page("tool=text_edit"));
    assert!(!none.contains("cursor read"), "{none}");
    assert_eq!(page("path=..").status, 409);
    assert_eq!(owner.get(&place.at("/owner/file?path=%2Fnowhere.md")).status, 404);
}

/// Reads events of the calls that come, until one has `words`. Returns what was read.
fn follow(place: &Place, browser: &Browser, path: &str, words: &str) -> String {
    let mut stream = TcpStream::connect(place.server.address).unwrap();
    let cookies = browser.cookies.iter().map(|(name, value)| format!("{name}={value}"));
    let cookies = cookies.collect::<Vec<_>>().join("; ");
    let host = place.server.address;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut read, mut piece) = (String::new(), [0; 4096]);
    while !read.contains(words) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "it ended: {read}");
        read.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    read
}

#[test]
fn owner_page_tells_of_calls_as_they_come() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let page = owner.get(&place.at("/owner/activity"));
    let live = tags(&text_of(&page))
        .into_iter()
        .find_map(|tag| value(tag, "data-live"))
        .map(str::to_owned);
    let live = live.unwrap().replace("&amp;", "&");
    // What came between the page and the first look is told, too.
    let mut agent = place.agent("editor");
    agent.tool("text.read", json!({ "path": "/work/plan.md" })).unwrap();
    let told = follow(&place, &owner, &live, "editor read");
    assert!(told.contains("text/event-stream") && told.contains("event: calls"), "{told}");
    assert!(told.contains("/work/plan.md"), "{told}");
    agent.tool("text.read", json!({ "path": "/none.md" })).unwrap();
    let other = follow(&place, &owner, &format!("{live}&outcome=refused"), "/none.md");
    assert!(!other.contains("/work/plan.md"), "the filter holds: {other}");

    // Nobody else follows, and no more than some pages at once.
    let token = place.stile(&["token", "--scope", "write:/"]);
    let bearer = format!("Bearer {}", token.trim());
    assert_eq!(fetch("GET", &place.at(&live), &[("Authorization", &bearer)], "").status, 403);
    let yesterday = owner.get(&place.at("/owner/activity?day=2026-01-01"));
    assert!(!text_of(&yesterday).contains("data-live"), "an earlier day gets no calls");
}

#[test]
fn owner_page_is_installed_as_an_application() {
    let place = Place::new();
    let page = fetch("GET", &place.at("/sign-in"), &[], "");
    let html = text_of(&page);
    let linked = |kind: &str| {
        let tag = tags(&html).into_iter().find(|tag| value(tag, "rel") == Some(kind));
        fetch("GET", &place.at(value(tag.unwrap(), "href").unwrap()), &[], "")
    };
    let manifest: Value = serde_json::from_str(&text_of(&linked("manifest"))).unwrap();
    assert_eq!(manifest["display"], "standalone");
    let icon = fetch("GET", &place.at(manifest["icons"][0]["src"].as_str().unwrap()), &[], "");
    assert_eq!(icon.header("content-type"), Some("image/svg+xml"));
    assert_eq!(linked("icon").status, 200);
    let start = fetch("GET", &place.at(manifest["start_url"].as_str().unwrap()), &[], "");
    assert_eq!(location(&start), Some("/owner/clients"), "{start:?}");
}

#[test]
fn owner_page_shows_versions_and_gives_one_back() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    rewrite_plan(&mut agent, "the plan", "<b>another</b> plan");
    let mut owner = place.signed_in_browser();
    let folder = text_of(&owner.get(&place.at("/owner/files")));
    assert!(folder.contains("path=%2Fwork\"") && folder.contains("path=%2Fjournal\""), "{folder}");
    let page = owner.get(&place.at("/owner/file?path=%2Fwork%2Fplan.md"));
    let words = text_of(&page);
    assert!(words.contains("<del>-the plan</del>"), "{words}");
    assert!(words.contains("<ins>+&lt;b&gt;another&lt;/b&gt; plan</ins>"), "{words}");

    // The version that the owner saw is what is replaced.
    std::fs::write(place.rig.root.join("work/plan.md"), "mine\n").unwrap();
    assert_eq!(place.send(&mut owner, &page, "/owner/file", &[]).status, 409);
    assert_eq!(place.text("work/plan.md"), "mine\n");
    let page = owner.get(&place.at("/owner/file?path=%2Fwork%2Fplan.md&version=1"));
    let restored = place.send(&mut owner, &page, "/owner/file", &[]);
    assert_eq!(restored.status, 303, "{}", text_of(&restored));
    assert_eq!(place.text("work/plan.md"), "the plan\n");
    let page = text_of(&owner.get(&place.at(location(&restored).unwrap())));
    assert!(page.contains("has that version again"), "{page}");
}

#[test]
fn owner_page_a_browser_is_told_in_a_page_that_there_is_none() {
    let place = Place::new();
    let at = place.at("/owner/nosuch");
    let page = fetch("GET", &at, &[("Accept", "text/html,*/*;q=0.8")], "");
    let words = text_of(&page);
    assert_eq!(page.status, 404, "{words}");
    assert!(page.header("content-type").unwrap().starts_with("text/html"), "{words}");
    assert!(words.contains("There is no such page</h1>"), "{words}");
    assert!(words.contains("href=\"/owner\""), "it leads back: {words}");
    let program = fetch("GET", &at, &[], "");
    assert_eq!((program.status, &program.json()["error"]), (404, &json!("not_found")));
}

#[test]
fn owner_page_makes_a_token_that_may_what_was_chosen() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let page = owner.get(&place.at("/owner/connect"));
    assert!(text_of(&page).contains(&place.url()), "{}", text_of(&page));
    let fields = [("name", "<i>editor</i>"), ("folder", "/work"), ("verb", "read")];
    let made = place.send(&mut owner, &page, "/owner/connect/token", &fields);
    let words = text_of(&made);
    let (_, rest) = words.split_once("id=\"made-token\"").unwrap();
    // A form that is sent again, as after a reload, makes no second token.
    let again = place.send(&mut owner, &page, "/owner/connect/token", &fields);
    assert_eq!(again.status, 409, "{}", text_of(&again));
    let token = rest.split(['>', '<']).nth(1).unwrap();
    assert_eq!(read_file(&place, token, "/work/plan.md").0, 200);
    assert_eq!(read_file(&place, token, "/journal/day.md").0, 403);
    assert!(words.contains("&lt;i&gt;editor") && !words.contains("<i>"), "{words}");
    let listed: Value = serde_json::from_str(&place.stile(&["token", "list", "--json"])).unwrap();
    assert_eq!(listed[0]["scopes"], "read:/work/", "{listed}");
    for wrong in [("name", ""), ("folder", "/../x"), ("never", "secrets/*")] {
        let refused = place.send(&mut owner, &page, "/owner/connect/token", &[fields[0], wrong]);
        assert_eq!(refused.status, 409, "{wrong:?}");
    }
}

#[test]
fn owner_page_names_what_waits_and_leads_to_it() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut stranger = Browser::default();
    stranger.get(&client.authorization_url(&[("scope", "read:/work/")]));
    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    let (_, waiting) = page.split_once("Waiting for you").unwrap();
    let (_, link) = waiting.split_once("href=\"/consent?request=").unwrap();
    let handle = link.split('"').next().unwrap();
    let consent = owner.get(&place.at(&format!("/consent?request={handle}")));
    let words = text_of(&consent);
    assert!(words.contains("Editor asks for access"), "{words}");
    // The folders with what would open of each.
    let row = |folder: &str| {
        let (_, row) = words.split_once(&format!("<bdi>{folder}/</bdi>")).unwrap();
        row.split("</li>").next().unwrap()
    };
    assert!(row("/work").contains(">reads<"), "{words}");
    assert!(row("/journal").contains(">sees nothing<"), "{words}");
    let denied = owner.submit(&place.url(), &consent, &[("decision", "deny")]);
    assert_eq!(denied.status, 303);
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    assert!(!page.contains("Waiting for you"), "{page}");
}

/// Returns the tags of a page.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).filter_map(|rest| rest.split('>').next()).collect()
}

fn value<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
fn owner_page_every_control_has_a_label_and_every_page_is_small() {
    let place = Place::new();
    let mut agent = place.agent("cursor");
    for number in 0..120 {
        let content = format!("{number}\n");
        let path = format!("/work/{number}-{}.md", "long".repeat(30));
        agent.tool("file.create", json!({ "path": path, "content": content })).unwrap();
        place.stile(&["token", "--scope", "read:/", "--client", &format!("client {number}")]);
    }
    let mut owner = place.signed_in_browser();
    for path in PAGES.into_iter().chain(["/owner/account"]) {
        let page = owner.get(&place.at(path));
        let html = text_of(&page);
        assert_eq!(page.status, 200, "{path}: {html}");
        assert!(html.len() < 60_000, "{path}: {} bytes", html.len());
        let mut ids = BTreeSet::new();
        for id in tags(&html).into_iter().filter_map(|tag| value(tag, "id")) {
            assert!(ids.insert(id), "{path}: the id {id} occurs twice");
        }
        let labelled: BTreeSet<&str> = tags(&html)
            .iter()
            .filter(|tag| tag.starts_with("label"))
            .filter_map(|tag| value(tag, "for"))
            .collect();
        assert!(labelled.iter().all(|id| ids.contains(id)), "{path}: {labelled:?}");
        let mut in_label = false;
        for tag in tags(&html) {
            let kind = tag.split(' ').next().unwrap();
            match kind {
                "label" => in_label = true,
                "/label" => in_label = false,
                "input" | "select" | "textarea" => {
                    let is_hidden =
                        value(tag, "type") == Some("hidden") || tag.ends_with(" hidden");
                    let has_label = value(tag, "id").is_some_and(|id| labelled.contains(id));
                    assert!(is_hidden || in_label || has_label, "{path}: <{tag}> has no label");
                }
                _ => {}
            }
        }
        assert_eq!(html.matches("<h1").count(), 1, "{path}");
        for form in forms_of(&page).iter().filter(|form| form.action != "/owner/clients") {
            let searches = ["/owner/activity", "/owner/undo", "/owner/connect#command"];
            let is_search = searches.contains(&form.action.as_str());
            assert!(form.names.contains("csrf") || is_search, "{path}: {form:?}");
        }
    }
    // All clients are found, some pages on.
    let second = text_of(&owner.get(&place.at("/owner/clients?page=1")));
    assert!(second.contains("Used later") && second.contains("Used earlier"), "{second}");
    let found = text_of(&owner.get(&place.at("/owner/clients?q=CLIENT+77")));
    assert!(found.contains("<bdi>client 77</bdi>") && !found.contains("client 78"), "{found}");
}

#[test]
fn owner_page_hostile_names_are_text_on_every_page() {
    let place = Place::new();
    let names = ["<img src=x onerror=alert(1)>.md", "safe\u{202e}dm.exe", "'\"&amp;.md"];
    for name in names {
        std::fs::write(place.rig.root.join("work").join(name), "text\n").unwrap();
    }
    let hostile = "<script>alert(1)</script>\u{202e}";
    let mut agent = place.agent("<script>alert(1)</script>");
    for name in names {
        agent.tool("text.read", json!({ "path": format!("/work/{name}") })).unwrap();
    }
    let mut owner = place.signed_in_browser();
    let encoded = form(&[("client", hostile), ("q", hostile), ("path", "/work/<img src=x>")]);
    let file = form(&[("path", &format!("/work/{}", names[0]))]);
    let pages = PAGES.map(str::to_owned).into_iter().chain([
        format!("/owner/clients?{encoded}"),
        format!("/owner/activity?{encoded}"),
        format!("/owner/undo?since=2026-01-01T00:00&{}", form(&[("client", hostile)])),
        format!("/owner/file?{file}"),
        format!("/owner/files?{}", form(&[("path", "/work/<b>")])),
        format!("/owner/file?{}", form(&[("path", "/work/<b>"), ("version", "<b>")])),
    ]);
    for path in pages {
        let page = text_of(&owner.get(&place.at(&path)));
        // What a form sends back is what it is, and nobody sees it.
        let mut seen = page.split(" value=\"").map(|part| match part.split_once('"') {
            Some((_, rest)) if !page.starts_with(part) => rest,
            _ => part,
        });
        assert!(seen.all(|part| !part.contains('\u{202e}')), "{path}: {page}");
        for forbidden in ["<script>", "<img", "<b>", "onerror=alert(1)>.md"] {
            assert!(!page.contains(forbidden), "{path} has {forbidden}: {page}");
        }
    }
    let activity = text_of(&owner.get(&place.at("/owner/activity")));
    assert!(activity.contains("safe\\u{202e}dm.exe"), "{activity}");
}
