//! Two clients that chose the same name: the owner tells them apart, and takes back what one did.

use serde_json::json;
use stile_testkit::hosted::{Lifecycle, Peer};

use crate::sign_in_kit::{Browser, Place, ScriptedClient};

/// Two clients of one name that each made a file, at `/work/0.md` and `/work/1.md`.
struct Twins {
    place: Place,
    browser: Browser,
    clients: [ScriptedClient; 2],
}

impl Twins {
    fn new() -> Self {
        let place = Place::new();
        let mut browser = place.signed_in_browser();
        let clients = [(); 2].map(|()| ScriptedClient::connect(&place.url()));
        for (number, client) in clients.iter().enumerate() {
            let tokens = client.tokens(&mut browser, "write:/work/");
            let token = tokens["access_token"].as_str().unwrap();
            create(&place, token, &format!("/work/{number}.md"));
        }
        Self { place, browser, clients }
    }

    /// Runs a command. Returns its exit code and all that it printed.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = self.place.rig.command(arguments);
        let output = command.arg("--state").arg(&self.place.rig.state).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
    }

    fn has(&self, number: usize) -> bool {
        self.place.rig.root.join(format!("work/{number}.md")).exists()
    }

    /// Returns the identifiers as `client list` shows them.
    fn short_ids(&self) -> [String; 2] {
        [0, 1].map(|number| format!("{}…", &self.clients[number].id[..20]))
    }
}

fn create(place: &Place, token: &str, path: &str) {
    let mut peer = Peer::open(&place.server, token, Lifecycle::Session("2025-11-25"));
    let made = peer.call("file.create", &json!({ "path": path, "content": "x\n" }));
    assert_eq!(made["isError"], false, "{made}");
}

#[test]
fn a_name_of_two_clients_is_refused_with_what_tells_them_apart_and_nothing_is_done() {
    let twins = Twins::new();
    for command in [&["undo", "--yes"][..], &["history"], &["audit"]] {
        let (code, said) = twins.run(&[command, &["--client", "Editor"]].concat());
        assert_eq!(code, 2, "{command:?}: {said}");
        for id in twins.short_ids() {
            assert!(said.contains(&format!("{id} (since 2")), "{command:?}: {said}");
        }
    }
    assert!(twins.has(0) && twins.has(1));
    // Of a time in which one of them changed something, the name means that one.
    let (code, said) = twins.run(&["history", "/work/1.md", "--client", "Editor"]);
    assert!(code == 0 && said.contains("/work/1.md"), "{said}");
}

#[test]
fn a_client_is_found_by_its_identifier_whole_or_as_a_list_shows_it() {
    let twins = Twins::new();
    let [first, second] = twins.short_ids();
    let (_, listed) = twins.run(&["client", "list"]);
    assert!(listed.contains(&first) && listed.contains(&second), "{listed}");
    for id in [&first, &twins.clients[0].id, &twins.clients[0].id[..20]] {
        for command in ["history", "audit"] {
            let (code, said) = twins.run(&[command, "--client", id]);
            assert!(code == 0 && said.contains("/work/0.md"), "{command} {id}: {said}");
            assert!(!said.contains("/work/1.md"), "{command} {id}: {said}");
        }
    }
    let (code, said) = twins.run(&["undo", "--client", &first, "--yes"]);
    assert!(code == 0, "{said}");
    assert_eq!([twins.has(0), twins.has(1)], [false, true]);
    let (code, said) = twins.run(&["undo", "--client", "nobody"]);
    assert!(code == 2 && said.contains("clients with changes: Editor"), "{said}");
    let (code, said) = twins.run(&["history", "--client", "nobody"]);
    assert!(code == 2 && said.contains("clients with changes: Editor"), "{said}");
}

/// The owner gave both tokens their name, so they are one client.
#[test]
fn tokens_that_the_owner_gave_one_name_are_one_client_and_another_one_of_that_name_is_none_of_it() {
    let mut twins = Twins::new();
    let tokens = [(); 2].map(|()| twins.place.rig.token(&["write:/"], &["--client", "Notes"]));
    for (number, token) in tokens.iter().enumerate() {
        create(&twins.place, token, &format!("/work/notes {number}.md"));
    }
    let (code, said) = twins.run(&["undo", "--client", "Notes"]);
    assert!(code == 0 && said.contains("notes 0.md") && said.contains("notes 1.md"), "{said}");
    let named = json!({ "client_name": "Notes", "redirect_uris": [crate::sign_in_kit::REDIRECT] });
    let other = ScriptedClient::connect_as(&twins.place.url(), &named);
    let other = other.tokens(&mut twins.browser, "write:/work/");
    create(&twins.place, other["access_token"].as_str().unwrap(), "/work/other.md");
    let (code, said) = twins.run(&["undo", "--client", "Notes"]);
    assert!(code == 2 && said.matches("(since 2").count() == 3, "{said}");
}

#[test]
fn the_page_tells_two_clients_of_one_name_apart_and_takes_back_what_one_of_them_changed() {
    let mut twins = Twins::new();
    let page = twins.browser.get(&twins.place.at("/owner/clients"));
    let page = String::from_utf8(page.body).unwrap();
    assert_eq!(page.matches(" Allowed <time").count(), 2, "{page}");
    let links = page.split("href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    let links: Vec<String> = links
        .filter(|link| link.starts_with("/owner/undo?client="))
        .map(|link| link.replace("&amp;", "&"))
        .collect();
    assert_eq!(links.len(), 2, "{links:?}");
    let plans: Vec<String> =
        links.iter().map(|link| twins.place.text_at(&mut twins.browser, link)).collect();
    for number in ["/work/0.md", "/work/1.md"] {
        let of = plans.iter().filter(|plan| plan.contains(number)).count();
        assert_eq!(of, 1, "{plans:?}");
    }
    let by_name = "/owner/undo?client=Editor&since=2026-01-01T00:00:00Z";
    let refused = twins.place.text_at(&mut twins.browser, by_name);
    assert!(refused.contains("Several clients are called Editor"), "{refused}");
    assert!(!refused.contains("--client"), "{refused}");
    let activity = links[0].replace("/owner/undo", "/owner/activity");
    let activity = twins.place.text_at(&mut twins.browser, &activity);
    let shown = ["/work/0.md", "/work/1.md"].map(|path| activity.contains(path));
    assert!(shown == [true, false] || shown == [false, true], "{activity}");
}
