//! What the owner decides about access on the pages: folder by folder, when a client asks and
//! later, the command that connects a client, and what the pages warn of.

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::client::{McpClient as _, Reply};

use crate::sign_in_kit::{
    Browser, Place, REDIRECT, ScriptedClient, form_to, location, parameter, read_file, text_of,
};

/// Returns the row of a folder in the tree of a page.
fn tree_row(page: &Reply, folder: &str) -> String {
    let html = text_of(page);
    let (_, rest) = html.split_once(&format!("<bdi>{folder}/</bdi>")).unwrap();
    rest.split("</li>").next().unwrap().to_owned()
}

#[test]
fn owner_access_is_decided_folder_by_folder_when_a_client_asks_and_later() {
    let place = Place::new();
    std::fs::create_dir(place.rig.root.join("private")).unwrap();
    std::fs::write(place.rig.root.join("private/diary.md"), "mine\n").unwrap();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let page = owner.open(&client.authorization_url(&[("scope", "write:/")]));
    let words = text_of(&page);
    let folder = place.rig.root.file_name().unwrap().to_str().unwrap();
    assert!(words.contains(&format!("the folder <strong><bdi>{folder}</bdi></strong>")), "{words}");
    assert!(words.contains(&format!("<strong>{}</strong>", place.server.address)), "{words}");
    assert!(tree_row(&page, "/private").contains("reads and changes"), "{words}");

    // The sentence follows the choice, and narrower choices stand first.
    let narrower = [("verb:write:/", "read"), ("folder:write:/", "/work"), ("do", "show")];
    let narrowed = text_of(&place.send(&mut owner, &page, "/consent", &narrower));
    assert!(narrowed.contains(">read the files in /work and below</span>"), "{narrowed}");
    assert!(words.contains(">read, change, make and remove all files</span>"), "{words}");
    assert!(words.find("\"read\">read only").unwrap() < words.find(">read and change").unwrap());
    assert!(words.find(">only in /work").unwrap() < words.find(">all of it").unwrap());

    // The page shows what a choice opens, and decides nothing by that.
    let chosen = [("tree:/private", "nothing"), ("tree:/journal", "read")];
    let shown = [chosen[0], chosen[1], ("do", "show")];
    let shown = place.send(&mut owner, &page, "/consent", &shown);
    assert!(tree_row(&shown, "/private").contains("sees nothing"), "{}", text_of(&shown));
    assert!(tree_row(&shown, "/journal").contains(">reads<"), "{}", text_of(&shown));
    let approve = [chosen[0], chosen[1], ("decision", "approve")];
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let access = tokens["access_token"].as_str().unwrap().to_owned();
    let mut agent = place.server.client(&access);
    let scope = tokens["scope"].as_str().unwrap();
    assert!(scope.contains("deny:/private") && !scope.contains("write:/private"), "{scope}");
    assert_eq!(read_file(&place, &access, "/private/diary.md").0, 403);
    assert_eq!(read_file(&place, &access, "/journal/day.md").0, 200);
    let create = |path: &str| json!({ "path": path, "content": "new\n" });
    agent.tool("file.create", create("/work/new.md")).unwrap();
    agent.tool("file.create", create("/journal/new.md")).unwrap_err();

    // The same choices later: what was shut is opened, and what was open is shut.
    let clients = text_of(&owner.get(&place.at("/owner/clients")));
    let (_, rest) = clients.split_once("/owner/clients/edit?id=").unwrap();
    let edit = place.at(&format!("/owner/clients/edit?id={}", rest.split('"').next().unwrap()));
    let page = owner.get(&edit);
    assert!(tree_row(&page, "/private").contains("value=\"nothing\" selected"), "as it is now");
    let words = text_of(&page);
    assert!(words.contains("it may not do this now") && !words.contains("did not ask"), "{words}");
    let changes = [("tree:/private", "read"), ("tree:/work", "nothing"), ("do", "save")];
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &changes);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    assert_eq!(read_file(&place, &access, "/private/diary.md").0, 200);
    assert_eq!(read_file(&place, &access, "/work/plan.md").0, 403);
    assert_eq!(owner.get(&place.at("/owner/clients/edit?id=unknown")).status, 404);
    // Nothing ticked ends it.
    let page = owner.get(&edit);
    let lines: Vec<(String, String)> = form_to(&page, "/owner/clients/edit").fields;
    let none: Vec<(&str, &str)> = lines
        .iter()
        .filter(|(name, _)| name.starts_with("line:"))
        .map(|(name, _)| (name.as_str(), ""))
        .chain([("do", "save")])
        .collect();
    let ended = place.send(&mut owner, &page, "/owner/clients/edit", &none);
    assert_eq!(location(&ended), Some("/owner/clients?done=ended"));
    assert_eq!(read_file(&place, &access, "/journal/day.md").0, 401);
}

#[test]
fn owner_access_to_a_folder_that_is_typed_is_decided_whatever_the_tree_shows() {
    let place = Place::new();
    std::fs::create_dir(place.rig.root.join("work/plans")).unwrap();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    for (typed, scope) in [
        ("/work/plans", "read:/ deny:/work/plans"),
        ("work/plans/", "read:/ deny:/work/plans"),
        ("journal", "read:/ deny:/journal"),
    ] {
        let page = owner.open(&client.authorization_url(&[("scope", "read:/")]));
        assert!(text_of(&page).contains("name=\"tree:/work/plans\""), "the tree shows it");
        let named = [("named-folder", typed), ("named-choice", "nothing")];
        let shown = [&named[..], &[("do", "show")]].concat();
        let shown = place.send(&mut owner, &page, "/consent", &shown);
        let folder = format!("/{}", typed.trim_matches('/'));
        assert!(tree_row(&shown, &folder).contains("sees nothing"), "{}", text_of(&shown));
        // Where the row says something else, nobody knows which one is meant.
        let (row, allow) = (format!("tree:{folder}"), ("decision", "approve"));
        let differs = [named[0], named[1], (row.as_str(), "change"), allow];
        let again = place.send(&mut owner, &page, "/consent", &differs);
        assert_eq!(again.status, 200, "nothing is decided");
        assert!(text_of(&again).contains("says something else of that folder"));
        let answer = place.send(&mut owner, &page, "/consent", &[named[0], named[1], allow]);
        let code = parameter(location(&answer).unwrap(), "code").unwrap();
        assert_eq!(client.redeem(&code).json()["scope"], scope, "{typed}");
        place.stile(&["client", "end", "--all"]);
    }
    client.tokens(&mut owner, "read:/");
    let clients = text_of(&owner.get(&place.at("/owner/clients")));
    let (_, rest) = clients.split_once("/owner/clients/edit?id=").unwrap();
    let edit = place.at(&format!("/owner/clients/edit?id={}", rest.split('"').next().unwrap()));
    let page = owner.get(&edit);
    let named = [("named-folder", "/journal"), ("named-choice", "nothing"), ("do", "save")];
    place.send(&mut owner, &page, "/owner/clients/edit", &named);
    let page = owner.get(&edit);
    assert!(tree_row(&page, "/journal").contains("value=\"nothing\" selected"));
}

#[test]
fn owner_access_one_right_is_taken_away_and_the_others_stay() {
    let place = Place::new();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let tokens = client.tokens(&mut owner, "write:/work/ read:/journal/");
    let access = tokens["access_token"].as_str().unwrap();
    let clients = text_of(&owner.get(&place.at("/owner/clients")));
    let (_, rest) = clients.split_once("/owner/clients/edit?id=").unwrap();
    let id = rest.split('"').next().unwrap();
    let page = owner.get(&place.at("/owner/clients"));
    let csrf = form_to(&page, "/sign-out").fields[0].1.clone();
    let mut take = |scope: &str, instead: &str| {
        let fields = [("csrf", csrf.as_str()), ("id", id), ("scope", scope), ("instead", instead)];
        let taken = owner.post(&place.at("/owner/clients/take-away"), &fields);
        location(&taken).unwrap().rsplit('=').next().unwrap().to_owned()
    };
    assert_eq!(take("write:/elsewhere/", ""), "gone");
    assert_eq!(take("write:/work/", "read"), "narrowed");
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    let mut agent = place.server.client(access);
    let create = json!({ "path": "/work/new.md", "content": "new\n" });
    agent.tool("file.create", create).unwrap_err();
    assert_eq!(take("read:/work/", ""), "narrowed");
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 403);
    assert_eq!(read_file(&place, access, "/journal/day.md").0, 200);
    assert_eq!(take("read:/journal/", ""), "ended");
}

#[test]
fn owner_access_a_command_is_made_by_choosing_and_a_narrower_token_takes_the_place_of_one() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let command = "connect?connects=cursor&verb=read&folder=%2Fwork&never=%2Fwork%2Fmy+keys";
    let page = text_of(&owner.get(&place.at(&format!("/owner/{command}"))));
    let shown = "stile connect cursor --scope read:/work/ --deny '/work/my keys' --write";
    assert!(page.contains(&shown.replace('\'', "&#39;")) || page.contains(shown), "{page}");
    // Several paths stand on lines of their own, and a folder that is typed is the one that counts.
    let several = "&another-folder=work/plans/&never=%2Fprivate%0D%0A%2Falpha";
    let page = text_of(&owner.get(
        &place.at(&format!("/owner/{command}&{several}").replace("&never=%2Fwork%2Fmy+keys", "")),
    ));
    let shown = "stile connect cursor --scope read:/work/plans/ --deny /private --deny /alpha";
    assert!(page.contains(shown), "{page}");
    for comma in ["%2Fprivate,+%2Falpha", "%2Fprivate,%2Falpha"] {
        let path = format!("/owner/connect?connects=cursor&never={comma}");
        let page = text_of(&owner.get(&place.at(&path)));
        assert!(page.contains("on a line of its own") && !page.contains("--deny"), "{page}");
    }
    let bad = text_of(&owner.get(&place.at("/owner/connect?connects=cursor&never=..")));
    assert!(bad.contains("role=\"alert\"") && !bad.contains("--write</code></p>"), "{bad}");

    let token = place.stile(&["token", "--scope", "write:/", "--client", "editor"]);
    let jti = place.stile(&["token", "list", "--json"]);
    let jti: Value = serde_json::from_str(&jti).unwrap();
    let jti = jti[0]["jti"].as_str().or(jti[0]["id"].as_str()).unwrap().to_owned();
    assert_eq!(read_file(&place, token.trim(), "/work/plan.md").0, 200);
    let page = owner.get(&place.at(&format!("/owner/connect?replaces={jti}")));
    assert!(text_of(&page).contains("revoked in the same step"), "{}", text_of(&page));
    let fields = [("verb", "read"), ("folder", "/journal"), ("replaces", jti.as_str())];
    let made = text_of(&place.send(&mut owner, &page, "/owner/connect/token", &fields));
    let (_, rest) = made.split_once("id=\"made-token\"").unwrap_or_else(|| panic!("{made}"));
    let narrower = rest.split(['>', '<']).nth(1).unwrap();
    assert_eq!(read_file(&place, token.trim(), "/work/plan.md").0, 401, "the old one is revoked");
    assert_eq!(read_file(&place, narrower, "/journal/day.md").0, 200);
    assert_eq!(read_file(&place, narrower, "/work/plan.md").0, 403);
    assert_eq!(owner.get(&place.at(&format!("/owner/connect?replaces={jti}"))).status, 404);
}

/// Returns the row of the one token that counts, as the command lists it.
fn listed_token(place: &Place) -> Value {
    let listed: Value = serde_json::from_str(&place.stile(&["token", "list", "--json"])).unwrap();
    let counts = |token: &&Value| token["revoked"].is_null();
    let counting: Vec<&Value> = listed.as_array().unwrap().iter().filter(counts).collect();
    assert_eq!(counting.len(), 1, "{listed}");
    counting[0].clone()
}

#[test]
fn owner_access_a_client_that_called_nothing_is_not_used_yet_and_comes_last() {
    let place = Place::new();
    let token = place.stile(&["token", "--scope", "read:/", "--client", "reader"]);
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    assert_eq!(read_file(&place, token.trim(), "/work/plan.md").0, 200);
    let tokens = client.tokens(&mut owner, "read:/work/");
    // Redeeming the code and a refresh token is no use.
    let refreshed = client.refresh(tokens["refresh_token"].as_str().unwrap()).json();
    let row = |owner: &mut Browser, name: &str| {
        let page = text_of(&owner.get(&place.at("/owner/clients")));
        let (before, row) = page.split_once(&format!("<bdi>{name}</bdi>")).unwrap();
        (before.len(), row.split("</details>").next().unwrap().to_owned())
    };
    let (editor, words) = row(&mut owner, "Editor");
    assert!(words.contains("not used yet") && !words.contains("Last used"), "{words}");
    assert!(row(&mut owner, "reader").0 < editor, "what was used comes first");
    // The command says the same.
    let last_used = || {
        let shown = place.stile(&["client", "show", &client.id]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["authorizations"][0]["last_used"].clone()
    };
    assert_eq!(last_used(), Value::Null);
    let access = refreshed["access_token"].as_str().unwrap();
    assert_eq!(read_file(&place, access, "/work/plan.md").0, 200);
    let (_, words) = row(&mut owner, "Editor");
    assert!(words.contains("Last used") && !words.contains("not used yet"), "{words}");
}

#[test]
fn owner_access_a_token_in_the_place_of_another_may_never_more() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let scopes = ["--scope", "read:/journal/", "--scope", "append:/log/", "--deny", "/journal/x"];
    place.stile(&[&["token", "--expires", "1d", "--client", "diary"], &scopes[..]].concat());
    let old = listed_token(&place);
    assert_eq!(old["scopes"], "read:/journal/ append:/log/ deny:/journal/x", "{old}");
    let jti = old["jti"].as_str().unwrap();
    let page = owner.get(&place.at(&format!("/owner/connect?replaces={jti}")));
    let wider = [
        [("folder", "/"), ("verb", "read")],
        [("folder", "/work"), ("verb", "read")],
        [("folder", "/journal"), ("verb", "write")],
        [("folder", "/journal"), ("duration", "7d")],
        [("folder", ""), ("verb", "")],
    ];
    for changes in wider {
        let refused = place.send(&mut owner, &page, "/owner/connect/token", &changes);
        let words = text_of(&refused);
        assert_eq!(refused.status, 409, "{changes:?}: {words}");
        assert!(words.contains("may not do more than the one in whose place"), "{words}");
        assert_eq!(listed_token(&place), old, "nothing was made, and the old one counts");
    }
    // A form that nobody changes makes the same token again.
    place.send(&mut owner, &page, "/owner/connect/token", &[]);
    let same = listed_token(&place);
    assert_ne!(same["jti"], old["jti"]);
    for member in ["scopes", "user", "client", "expires"] {
        assert_eq!(same[member], old[member], "{member}");
    }
    let jti = same["jti"].as_str().unwrap();
    let page = owner.get(&place.at(&format!("/owner/connect?replaces={jti}")));
    let less = [("keep-0", ""), ("never", "/journal/y")];
    place.send(&mut owner, &page, "/owner/connect/token", &less);
    assert_eq!(listed_token(&place)["scopes"], "read:/journal/ deny:/journal/x deny:/journal/y");
}

/// Imports one row of an account.
fn import_account(place: &Place) {
    place.import("bank", "transactions", "{\"id\":\"a\",\"amount\":4,\"iban\":\"XX00\"}\n");
}

#[test]
fn owner_access_a_purpose_has_at_most_300_characters_on_the_form_for_a_grant_and_its_token() {
    let place = Place::new();
    import_account(&place);
    let mut owner = place.signed_in_browser();
    for (client, letters) in [("whole", 300), ("long", 301)] {
        let page = owner.get(&place.at("/owner/grant?connection=bank&stream=transactions"));
        let (purpose, field) = ("é".repeat(letters), ("field-0-amount", "on"));
        let fields = [("client", client), ("purpose", &*purpose), field, ("do", "make")];
        let made = place.send(&mut owner, &page, "/owner/grant", &fields);
        assert!(text_of(&made).contains("id=\"made-token\""), "{}", text_of(&made));
    }
    let grants = place.stile(&["grant", "list", "--json"]);
    assert_eq!(grants.matches(&format!("\"{}\"", "é".repeat(300))).count(), 2, "{grants}");
    assert!(!grants.contains(&"é".repeat(301)), "{grants}");
}

#[test]
fn owner_access_a_grant_of_an_approval_has_the_clients_name_and_says_what_it_shows() {
    let place = Place::new();
    import_account(&place);
    let budget = json!({ "client_name": "Budget", "redirect_uris": [REDIRECT] });
    let client = ScriptedClient::connect_as(&place.url(), &budget);
    let mut owner = place.signed_in_browser();
    let details = json!([{
        "type": "https://pdpp.dev/data-access",
        "streams": [{ "name": "transactions", "fields": ["amount", "id"] }],
    }]);
    let asked = [("scope", ""), ("authorization_details", &*details.to_string())];
    let page = owner.open(&client.authorization_url(&asked));
    let answer = owner.submit(&place.url(), &page, &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    assert_eq!(client.redeem(&code).status, 200);
    let clients = text_of(&owner.get(&place.at("/owner/clients")));
    let (of_clients, of_grants) = clients.split_once("Grants on records").unwrap();
    let said = "May see amount, id of transactions from bank";
    let summary = format!("<span class=\"what\">{said}.");
    assert!(of_clients.contains(&summary), "{of_clients}");
    assert!(of_clients.contains(&format!("<li>{said}</li>")), "{of_clients}");
    assert!(!of_clients.contains("grt_"), "{of_clients}");
    assert!(of_grants.contains("<bdi>Budget</bdi>") && of_grants.contains(said), "{of_grants}");
    assert!(!of_grants.contains(&client.id), "{of_grants}");
}

#[test]
fn owner_access_a_token_that_sees_records_alone_is_narrowed_by_a_grant() {
    let place = Place::new();
    import_account(&place);
    let grant = ["grant", "create", "--client", "budget", "--stream", "transactions"];
    let id = place.stile(&[&grant[..], &["--field", "amount"]].concat());
    let id = id.trim();
    place.stile(&["token", "--grant", id, "--client", "budget"]);
    let old = listed_token(&place);
    let mut owner = place.signed_in_browser();
    let clients = text_of(&owner.get(&place.at("/owner/clients")));
    assert!(!clients.contains("?replaces="), "{clients}");
    assert!(clients.contains("Make a narrower grant"), "{clients}");
    let jti = old["jti"].as_str().unwrap();
    let page = owner.get(&place.at(&format!("/owner/connect?replaces={jti}")));
    assert!(text_of(&page).contains("A new grant says what a client sees"), "{}", text_of(&page));
    assert!(!text_of(&page).contains("/owner/connect/token"), "{}", text_of(&page));
    let csrf = form_to(&page, "/sign-out").fields[0].1.clone();
    let fields = [
        ("csrf", csrf.as_str()),
        ("replaces", jti),
        ("name", "budget"),
        ("verb", "read"),
        ("folder", "/"),
    ];
    let refused = owner.post(&place.at("/owner/connect/token"), &fields);
    assert_eq!(refused.status, 409, "{}", text_of(&refused));
    assert_eq!(listed_token(&place), old);
}

#[test]
fn owner_access_a_call_opens_to_what_it_changed_in_one_column_or_two() {
    let place = Place::new();
    let token = place.stile(&["token", "--scope", "write:/", "--client", "cursor"]);
    let mut agent = place.server.client(token.trim());
    let hash = ContentHash::digest(b"the plan\n").to_string();
    let edit = json!({
        "path": "/work/plan.md", "hash": hash, "lines": [1, 0], "old": "the plan",
        "new": "<b>another plan",
    });
    agent.tool("text.replace", edit).unwrap();
    agent.tool("file.create", json!({ "path": "/new.md", "content": "made\n" })).unwrap();
    let mut owner = place.signed_in_browser();
    let activity = text_of(&owner.get(&place.at("/owner/activity")));
    assert!(activity.contains("/owner/activity/call?call=1"), "{activity}");
    let inline = text_of(&owner.get(&place.at("/owner/activity/call?call=1")));
    for part in ["<del>-the plan</del>", "<ins>+&lt;b&gt;another plan</ins>", "undo?call=1"] {
        assert!(inline.contains(part), "{part}: {inline}");
    }
    // What the call did stays what it did when another call changes the file.
    let hash = ContentHash::digest(b"<b>another plan\n").to_string();
    agent.tool("file.remove", json!({ "path": "/work/plan.md", "hash": hash })).unwrap();
    let beside = text_of(&owner.get(&place.at("/owner/activity/call?call=1&view=beside")));
    assert!(beside.contains("<div><del>-the plan</del>"), "{beside}");
    let made = text_of(&owner.get(&place.at("/owner/activity/call?call=2")));
    assert!(made.contains("<ins>+made</ins>"), "{made}");
    for unknown in ["call=99", "call=x", ""] {
        let reply = owner.get(&place.at(&format!("/owner/activity/call?{unknown}")));
        assert_eq!(reply.status, 404, "{unknown}");
    }
    let file = "file?path=%2Fnew.md&view=beside";
    assert_eq!(owner.get(&place.at(&format!("/owner/{file}"))).status, 200);
}

#[test]
fn owner_access_home_warns_of_a_broken_chain_and_a_right_on_everything() {
    let place = Place::new();
    let token = place.stile(&["token", "--scope", "read:/", "--client", "reader"]);
    let mut agent = place.server.client(token.trim());
    agent.tool("text.read", json!({ "path": "/work/plan.md" })).unwrap();
    let mut place = place.restarted_after(|| ());
    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    assert!(page.contains("It may read all files.") && !page.contains("Chain:"), "{page}");
    let journal = place.rig.state.join("journal");
    place = place.restarted_after(|| {
        for file in journal.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.replace("/work/plan.md", "/work/blam.md")).unwrap();
        }
    });
    let mut owner = place.signed_in_browser();
    let page = text_of(&owner.get(&place.at("/owner/clients")));
    assert!(page.contains("Chain: the journal was changed in one place"), "{page}");
}
