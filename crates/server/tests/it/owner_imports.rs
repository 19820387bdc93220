//! Records on the owner's page: an import of a file that was sent, a grant that was chosen, and a
//! backup.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use stile_testkit::client::Reply;
use stile_testkit::zip::{Member, Zip};

use crate::records_imports::takeout;
use crate::sign_in_kit::{Browser, Place, fetch, form_to, location, text_of};

/// An account of which each row has a date, and one row is broken.
const ACCOUNT: &str = "id,booked,amount,iban\n\
                       1,2026-01-15,4.50,XX00 1234\n\
                       2,2026-02-20,7.25,XX00 5678\n\
                       3,2026-03-25,9.00,XX00 9999\n";

impl Place {
    /// Returns how many files wait in the state folder.
    fn waiting_files(&self) -> usize {
        let Ok(processes) = std::fs::read_dir(self.rig.state.join("uploads")) else { return 0 };
        let folders = processes.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        folders.map(|folder| folder.read_dir().unwrap().count()).sum()
    }
}

fn csrf(page: &Reply) -> String {
    let form = form_to(page, "/sign-out");
    form.fields.into_iter().find(|(name, _)| name == "csrf").unwrap().1
}

/// Sends a file with the form of the page.
fn send_file(browser: &mut Browser, place: &Place, name: &str, content: &str) -> Reply {
    let csrf = csrf(&browser.get(&place.at("/owner/import")));
    browser.send_file(&place.at("/owner/import"), &[("csrf", &csrf)], (name, content))
}

/// Returns words of the terminal as the page shows them: a name between backticks stands out.
fn as_shown(words: &str) -> String {
    let words = words.replace('"', "&quot;");
    let parts = words.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("<code><bdi>{part}</bdi></code>"),
    });
    parts.collect()
}

/// Loads the page of the import until it has ended.
fn ended_import(browser: &mut Browser, place: &Place) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let page = text_of(&browser.get(&place.at("/owner/import")));
        if !page.contains("data-progress") {
            return page;
        }
        assert!(Instant::now() < until, "{page}");
        std::thread::yield_now();
    }
}

/// Stores the account as the stream `rows` of `bank`.
fn store_account(browser: &mut Browser, place: &Place) {
    assert_eq!(send_file(browser, place, "bank.csv", ACCOUNT).status, 303);
    let page = browser.get(&place.at("/owner/import?connection=bank&stream=rows"));
    assert_eq!(place.send(browser, &page, "/owner/import/store", &[]).status, 303);
    let ended = ended_import(browser, place);
    assert!(ended.contains("3 new rows."), "{ended}");
}

#[test]
fn owner_import_a_file_is_shown_as_it_will_be_stored_and_then_stored() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let sent = send_file(&mut owner, &place, "Bank 2026.csv", ACCOUNT);
    assert_eq!((sent.status, location(&sent)), (303, Some("/owner/import")), "{sent:?}");
    assert_eq!(place.waiting_files(), 1);
    // The preview stores nothing, and proposes names.
    let page = text_of(&owner.get(&place.at("/owner/import")));
    assert!(page.contains("Bank 2026.csv") && page.contains("XX00 1234"), "{page}");
    assert!(page.contains("value=\"bank-2026\"") && page.contains("value=\"records\""), "{page}");
    assert!(
        page.contains(&as_shown("`id` is the key")),
        "what each field becomes, and why: {page}"
    );
    let state = place.rig.state.display().to_string();
    assert!(!page.contains(&state), "no path of the machine: {page}");
    assert_eq!(place.stile(&["streams", "--json"]).trim(), "[]");

    // The same words as those of the command.
    let file = place.rig.state.parent().unwrap().join("Bank 2026.csv");
    std::fs::write(&file, ACCOUNT).unwrap();
    let arguments = ["import", "--preview", "--connection", "bank", "--stream", "rows"];
    let mut command = place.rig.command(&arguments);
    let output = command.arg("--state").arg(&place.rig.state).arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = told.lines().find(|line| line.contains("`id` is the key")).unwrap().trim();
    assert!(page.contains(&as_shown(reason)), "{reason} in {page}");

    let page = owner.get(&place.at("/owner/import?connection=bank&stream=rows"));
    let stored = place.send(&mut owner, &page, "/owner/import/store", &[]);
    assert_eq!(stored.status, 303, "{}", text_of(&stored));
    let ended = ended_import(&mut owner, &place);
    assert!(ended.contains("3 new rows."), "{ended}");
    assert_eq!(place.waiting_files(), 0, "an imported file is removed");
    let streams: Value = serde_json::from_str(&place.stile(&["streams", "--json"])).unwrap();
    assert_eq!(streams[0]["stream"], "rows", "{streams}");
    // Another file begins anew, and the same rows are not stored twice.
    let page = owner.get(&place.at("/owner/import"));
    assert_eq!(place.send(&mut owner, &page, "/owner/import/forget", &[]).status, 303);
    send_file(&mut owner, &place, "again.csv", ACCOUNT);
    let page = owner.get(&place.at("/owner/import?connection=bank&stream=rows"));
    assert!(text_of(&page).contains("is there already"), "{}", text_of(&page));
    place.send(&mut owner, &page, "/owner/import/store", &[]);
    let ended = ended_import(&mut owner, &place);
    assert!(ended.contains("3 as before"), "{ended}");
}

#[test]
fn owner_import_of_several_files_takes_one_after_the_other() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let url = place.at("/owner/import");
    let own = csrf(&owner.get(&url));
    let files = [("one.csv", ACCOUNT), ("two.csv", ACCOUNT), ("three.csv", ACCOUNT)];
    let sent = owner.send_files(&url, &[("csrf", &own)], &files);
    assert_eq!((sent.status, location(&sent)), (303, Some("/owner/import")), "{sent:?}");
    assert_eq!(place.waiting_files(), 3);
    let page = owner.get(&place.at("/owner/import?connection=bank&stream=rows"));
    let (first, then) = text_of(&page)
        .split_once("id=\"next\"")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert!(first.contains("one.csv") && !first.contains("two.csv"), "{first}");
    assert!(then.contains("two.csv") && then.contains("three.csv"), "{then}");
    assert_eq!(place.send(&mut owner, &page, "/owner/import/store", &[]).status, 303);
    let ended = ended_import(&mut owner, &place);
    assert!(ended.contains("3 new rows") && ended.contains("Go on to the next file"), "{ended}");

    let forget = |owner: &mut Browser, which: &str| {
        let page = owner.get(&url);
        let sent = place.send(owner, &page, "/owner/import/forget", &[("which", which)]);
        assert_eq!(sent.status, 303);
        text_of(&owner.get(&url))
    };
    let second = forget(&mut owner, "this");
    assert!(second.contains("<strong><bdi>two.csv</bdi>"), "{second}");
    let none = forget(&mut owner, "all");
    let (_, last) = none.split_once("The last imports on this page").unwrap();
    assert!(last.contains("one.csv") && last.contains("3 new rows"), "{last}");
    assert!(none.contains("Send and look") && place.waiting_files() == 0, "{none}");
}

#[test]
fn owner_import_of_an_export_with_several_kinds_takes_one_part_after_the_other() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let url = place.at("/owner/import");
    let own = csrf(&owner.get(&url));
    let files = [("takeout-1-001.zip", takeout())];
    assert_eq!(owner.send_files(&url, &[("csrf", &own)], &files).status, 303);
    for (part, says, next) in [("events", "Dentist", Some("mail")), ("mail", "ferns", None)] {
        let page = owner.get(&place.at("/owner/import?connection=google"));
        let shown = text_of(&page);
        assert!(shown.contains(says) && shown.contains(&format!("value=\"{part}\"")), "{shown}");
        let left_out = shown.contains("left out: Takeout/Fotos");
        assert_eq!(left_out, next.is_some(), "with the first part alone: {shown}");
        let then = shown.split_once("id=\"next\"").map(|(_, then)| then);
        assert_eq!(then.is_some_and(|then| then.contains("mail")), next.is_some(), "{shown}");
        assert_eq!(place.send(&mut owner, &page, "/owner/import/store", &[]).status, 303);
        let ended = ended_import(&mut owner, &place);
        assert!(ended.contains("1 new row."), "{ended}");
        assert_eq!(place.waiting_files(), usize::from(next.is_some()), "all parts need the file");
        let page = owner.get(&url);
        assert_eq!(place.send(&mut owner, &page, "/owner/import/forget", &[]).status, 303);
    }
    let pictures = Zip::default().with(&Member::stored("Takeout/Fotos/a.jpg", b"x")).finish();
    let own = csrf(&owner.get(&url));
    let sent = owner.send_files(&url, &[("csrf", &own)], &[("takeout.zip", pictures)]);
    assert_eq!(sent.status, 303);
    let shown = text_of(&owner.get(&url));
    assert!(shown.contains("Nothing in the export can be imported"), "{shown}");
}

#[test]
fn owner_import_takes_no_file_without_the_token_of_its_form_and_shows_it_to_one_session() {
    let place = Place::new();
    let (mut owner, mut other) = (place.signed_in_browser(), place.signed_in_browser());
    let url = place.at("/owner/import");
    let foreign = csrf(&other.get(&url));
    let file = ("bank.csv", ACCOUNT);
    for fields in [vec![], vec![("csrf", "x")], vec![("csrf", foreign.as_str())]] {
        assert_eq!(owner.send_file(&url, &fields, file).status, 403, "{fields:?}");
    }
    // Without a session, and with the token of an agent in its place.
    let own = csrf(&owner.get(&url));
    let mut visitor = Browser::default();
    assert_eq!(visitor.send_file(&url, &[("csrf", &own)], file).status, 403);
    let token = place.stile(&["token", "--owner", "--scope", "write:/"]);
    let mut agent = Browser { cookies: vec![("stile".to_owned(), token.trim().to_owned())] };
    assert_eq!(agent.send_file(&url, &[("csrf", &own)], file).status, 403);
    assert_eq!(place.waiting_files(), 0, "nothing was stored");

    assert_eq!(owner.send_file(&url, &[("csrf", &own)], file).status, 303);
    let seen = text_of(&other.get(&url));
    assert!(!seen.contains("bank.csv") && seen.contains("Send and look"), "{seen}");
    // A form of the other session stores nothing either.
    let page = owner.get(&url);
    let upload = form_to(&page, "/owner/import/store").fields;
    let upload = upload.iter().find(|(name, _)| name == "upload").unwrap().1.clone();
    let fields = [("csrf", foreign.as_str()), ("upload", upload.as_str())];
    assert_eq!(other.post(&place.at("/owner/import/store"), &fields).status, 409);
    // What is no file of a known format is said, and what is no file at all.
    send_file(&mut owner, &place, "photo.bin", "\u{1}\u{2}\u{3}");
    let page = text_of(&owner.get(&url));
    assert!(page.contains("does not recognise") && !page.contains("Store all rows"), "{page}");
    assert_eq!(send_file(&mut owner, &place, "", "").status, 400);
    // A restart removes what waits.
    let place = place.restarted_after(|| ());
    assert_eq!(place.waiting_files(), 0);
}

#[test]
fn owner_import_says_that_a_file_has_no_rows_and_offers_to_leave_it_out() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let no_rows = "The file has no rows, so there is nothing to store.";
    for (content, words) in
        [("", no_rows), ("id,amount\n", no_rows), ("\0\0\0\0", "No row of the file can be stored.")]
    {
        send_file(&mut owner, &place, "empty.csv", content);
        let page = text_of(&owner.get(&place.at("/owner/import")));
        assert!(page.contains("Leave this file out"), "{content:?} {page}");
        for wrong in ["is there already", "Store all rows"] {
            assert!(!page.contains(wrong), "{content:?} {page}");
        }
        assert!(page.contains(words), "{content:?} {page}");
    }
    // A name in the wrong form is named as its label is, and the form keeps it.
    send_file(&mut owner, &place, "bank.csv", ACCOUNT);
    let page = text_of(&owner.get(&place.at("/owner/import?connection=My+bank&stream=rows")));
    assert!(page.contains("“Where the rows come from” is written in another way"), "{page}");
    assert!(page.contains("value=\"My bank\""), "{page}");
}

#[test]
fn owner_import_refuses_a_file_that_is_too_large_before_it_arrives() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let csrf = csrf(&owner.get(&place.at("/owner/import")));
    let cookie = format!("{}={}", owner.cookies[0].0, owner.cookies[0].1);
    let mut stream = TcpStream::connect(place.server.address).unwrap();
    let head = format!(
        "POST /owner/import HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\nContent-Disposition: \
         form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n",
        place.server.address,
        300_u64 << 20
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let mut piece = [0; 4096];
    while !answer.contains("256 MB") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(place.waiting_files(), 0);
}

#[test]
fn owner_grant_is_made_by_choosing_and_shows_what_the_client_will_see() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    store_account(&mut owner, &place);
    let streams = text_of(&owner.get(&place.at("/owner/grant")));
    assert!(streams.contains("/owner/grant?connection=bank&amp;stream=rows"), "{streams}");
    let page = owner.get(&place.at("/owner/grant?connection=bank&stream=rows"));
    let chosen = [
        ("field-0-amount", "on"),
        ("field-0-booked", "on"),
        ("client", "<i>budget"),
        ("do", "show"),
    ];
    let shown = place.send(&mut owner, &page, "/owner/grant", &chosen);
    let html = text_of(&shown);
    let (_, after) = html.split_once("It will see").unwrap_or_else(|| panic!("{html}"));
    let (seen, hidden) = after.split_once("It will not see").unwrap();
    assert!(seen.contains("9") && seen.contains("2026-03-25"), "{seen}");
    assert!(!seen.contains("XX00") && hidden.contains("XX00 9999"), "{hidden}");
    assert!(html.contains("amount, booked") && !html.contains("<i>"), "{html}");
    assert_eq!(place.stile(&["grant", "list", "--json"]).trim(), "[]", "showing makes none");

    let make = [chosen[0], chosen[1], chosen[2], ("do", "make"), ("duration", "7d")];
    let made = place.send(&mut owner, &page, "/owner/grant", &make);
    let html = text_of(&made);
    let (_, rest) = html.split_once("id=\"made-token\"").unwrap_or_else(|| panic!("{html}"));
    let token = rest.split(['>', '<']).nth(1).unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let read = |path: &str| fetch("GET", &place.at(path), &[("Authorization", &bearer)], "");
    let records = read("/v1/streams/rows/records").json();
    assert_eq!(records["data"].as_array().unwrap().len(), 3, "{records}");
    assert!(records["data"][0]["data"].get("amount").is_some(), "{records}");
    assert!(!records.to_string().contains("XX00"), "{records}");

    // The browser sends the form again, as after a reload: no second grant is made.
    let again = place.send(&mut owner, &page, "/owner/grant", &make);
    assert_eq!(again.status, 409, "{}", text_of(&again));
    assert!(text_of(&again).contains("This form was sent before"), "{}", text_of(&again));

    // The list of grants says the same sentence, and revokes it.
    let clients = owner.get(&place.at("/owner/clients"));
    let html = text_of(&clients);
    assert!(html.contains("May see amount, booked") && !html.contains("<i>"), "{html}");
    let revoked = place.send(&mut owner, &clients, "/owner/clients/revoke-grant", &[]);
    assert_eq!(location(&revoked), Some("/owner/clients?done=grant-revoked"));
    assert_eq!(read("/v1/streams/rows/records").status, 403);
}

#[test]
fn owner_grant_names_a_client_and_a_stream_that_is_there() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    store_account(&mut owner, &place);
    let page = owner.get(&place.at("/owner/grant?connection=bank&stream=rows"));
    for (wrong, status) in
        [(("client", " "), 409), (("since-0", "yesterday"), 409), (("stream-0", "secrets"), 409)]
    {
        let fields = [("field-0-amount", "on"), ("client", "budget"), ("do", "make"), wrong];
        let wrong = fields[3];
        let fields: Vec<(&str, &str)> =
            fields.into_iter().filter(|(name, _)| *name != wrong.0).chain([wrong]).collect();
        let refused = place.send(&mut owner, &page, "/owner/grant", &fields);
        assert_eq!(refused.status, status, "{wrong:?}");
    }
    for absent in ["connection=bank&stream=secrets", "connection=elsewhere&stream=rows"] {
        let page = owner.get(&place.at(&format!("/owner/grant?{absent}")));
        assert_eq!(page.status, 404, "{absent}");
    }
    let of_nothing = [("client", "budget"), ("do", "make")];
    let refused = place.send(&mut owner, &page, "/owner/grant", &of_nothing);
    assert!(text_of(&refused).contains("at least one field"), "{}", text_of(&refused));
    assert_eq!(place.stile(&["grant", "list", "--json"]).trim(), "[]");
}

/// Loads Health until no backup is being made.
fn ended_backup(browser: &mut Browser, place: &Place) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let page = text_of(&browser.get(&place.at("/owner/health")));
        if !page.contains("data-progress") {
            return page;
        }
        assert!(Instant::now() < until, "{page}");
        std::thread::yield_now();
    }
}

#[test]
fn owner_backup_that_fails_says_so_on_health() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    // A file is where the folder of archives belongs.
    std::fs::write(place.rig.state.join("backups"), "").unwrap();
    let health = owner.get(&place.at("/owner/health"));
    place.send(&mut owner, &health, "/owner/health/backup", &[]);
    let ended = ended_backup(&mut owner, &place);
    assert!(ended.contains("The backup failed, and there is no archive of it"), "{ended}");
    assert!(ended.contains("none was made with this state"), "{ended}");
}

#[test]
fn owner_backup_is_made_on_the_page_and_brings_the_state_back() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    store_account(&mut owner, &place);
    send_file(&mut owner, &place, "waiting.csv", ACCOUNT);
    let health = owner.get(&place.at("/owner/health"));
    assert!(text_of(&health).contains("none was made with this state"), "{}", text_of(&health));
    for _ in 0..3 {
        let begun = place.send(&mut owner, &health, "/owner/health/backup", &[]);
        assert_eq!((begun.status, location(&begun)), (303, Some("/owner/health")));
        let ended = ended_backup(&mut owner, &place);
        assert!(ended.contains("The state is copied"), "{ended}");
        assert!(ended.contains("backups/stile-"), "where the archive is: {ended}");
    }
    let archives = place.rig.state.join("backups");
    let archives: Vec<_> = archives.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    assert!((1..=2).contains(&archives.len()), "{archives:?}");
    let page = text_of(&owner.get(&place.at("/owner/health")));
    assert!(page.contains("in the last 24 hours"), "{page}");

    let restored = place.rig.state.parent().unwrap().join("restored");
    let mut command = place.rig.command(&["restore-backup"]);
    command.arg(&archives[0]).arg("--state").arg(&restored);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!restored.join("backups").exists() && !restored.join("uploads").exists());
    let mut command = place.rig.command(&["streams", "--json"]);
    let listed = command.arg("--state").arg(&restored).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("\"rows\""), "{listed:?}");
}

#[test]
fn owner_import_stores_only_what_was_looked_at() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let rows = "id,amount\na,\"1,500\"\nb,\"2,500\"\n";
    assert_eq!(send_file(&mut owner, &place, "open.csv", rows).status, 303);
    let page = owner.get(&place.at("/owner/import?connection=bank&stream=rows"));
    // Another choice is shown first, and nothing is stored.
    let changed = [("decimal", "comma"), ("do", "store")];
    let sent = place.send(&mut owner, &page, "/owner/import/store", &changed);
    let preview = location(&sent).unwrap().to_owned();
    assert!(preview.contains("decimal=comma") && preview.contains("stream=rows"), "{preview}");
    assert_eq!(place.stile(&["streams", "--json"]).trim(), "[]");
    let page = owner.get(&place.at(&preview));
    let shown = text_of(&page);
    assert!(shown.contains("1.5") && shown.contains("nothing is stored yet"), "{shown}");
    let stored = place.send(&mut owner, &page, "/owner/import/store", &[("do", "store")]);
    assert_eq!(location(&stored), Some("/owner/import"), "{}", text_of(&stored));
    let ended = ended_import(&mut owner, &place);
    assert!(ended.contains("2 new rows."), "{ended}");
    let token = place.stile(&["token", "--owner"]);
    let url = place.url().replace("/mcp", "/v1/streams/rows/records");
    let bearer = format!("Bearer {}", token.trim());
    let listed = fetch("GET", &url, &[("authorization", bearer.as_str())], "");
    assert!(text_of(&listed).contains("\"amount\":1.5"), "{}", text_of(&listed));
}
