//! Records on the owner's pages: which of them a client sees, decided when it asks, later, and with
//! a token; which it saw; and the page that shows what there is.

use serde_json::{Value, json};
use stile_testkit::client::McpClient as _;

use crate::sign_in_kit::{
    Browser, Place, ScriptedClient, fetch, form_to, location, parameter, text_of,
};

const MAIL: &str = "\
{\"id\":\"a\",\"subject\":\"first\",\"body\":\"secret one\",\"sent_at\":\"2026-01-05T00:00:00Z\"}
{\"id\":\"b\",\"subject\":\"second\",\"body\":\"secret two\",\"sent_at\":\"2026-02-05T00:00:00Z\"}
";
const ACCOUNT: &str = "{\"id\":\"x\",\"amount\":4,\"iban\":\"XX00\"}\n";

fn place() -> Place {
    let place = Place::new();
    place.import("mail", "messages", MAIL);
    place.import("bank", "rows", ACCOUNT);
    place
}

/// Reads the records of a stream with a token.
fn records(place: &Place, access: &str, stream: &str) -> (u16, String) {
    let bearer = format!("Bearer {access}");
    let url = place.at(&format!("/v1/streams/{stream}/records"));
    let reply = fetch("GET", &url, &[("Authorization", &bearer)], "");
    (reply.status, text_of(&reply))
}

/// Returns the grants that count.
fn grants(place: &Place) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&place.stile(&["grant", "list", "--json"])).unwrap();
    let all = listed.as_array().unwrap().clone();
    all.into_iter().filter(|grant| grant["status"] == "active").collect()
}

/// Returns the address of the page that changes the one approval.
fn edit_page(place: &Place, owner: &mut Browser) -> String {
    let clients = place.text_at(owner, "/owner/clients");
    let (_, rest) = clients.split_once("/owner/clients/edit?id=").unwrap();
    place.at(&format!("/owner/clients/edit?id={}", rest.split('"').next().unwrap()))
}

#[test]
fn owner_records_are_added_to_a_request_that_asks_for_files_alone_and_changed_later() {
    let place = place();
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let page = owner.open(&client.authorization_url(&[("scope", "read:/work/")]));
    let words = text_of(&page);
    assert!(words.contains("It did not ask for records"), "{words}");
    assert!(words.contains(">messages of mail, 2 records<"), "{words}");
    // Nobody allows fields that they did not see: the page comes again, and nothing is decided.
    let added = [("more-records", "mail/messages"), ("decision", "approve")];
    let page = place.send(&mut owner, &page, "/consent", &added);
    assert_eq!(page.status, 200, "{page:?}");
    let words = text_of(&page);
    assert!(words.contains("It would see nothing of this."), "the least first: {words}");
    assert!(words.contains("name=\"field-0-body\"") && !words.contains("mail/messages"), "{words}");
    // The sample follows the choice, and decides nothing.
    let chosen = [("field-0-subject", "on"), ("since-0", "2026-02-01T00:00")];
    let shown = [&chosen[..], &[("do", "show")]].concat();
    let shown = text_of(&place.send(&mut owner, &page, "/consent", &shown));
    let (_, seen) = shown.split_once("It will see").unwrap();
    let (seen, hidden) = seen.split_once("It will not see").unwrap();
    assert!(seen.contains("second") && hidden.contains("secret two"), "{shown}");
    assert!(!shown.contains("secret one"), "it is of another time: {shown}");
    assert!(grants(&place).is_empty());
    // A time that cannot be read allows nothing.
    let unreadable = [chosen[0], ("since-0", "yesterday"), ("decision", "approve")];
    let again = place.send(&mut owner, &page, "/consent", &unreadable);
    assert!(again.status == 200 && text_of(&again).contains("The time cannot be read"));

    let approve = [&chosen[..], &[("decision", "approve")]].concat();
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let access = tokens["access_token"].as_str().unwrap();
    let (status, text) = records(&place, access, "messages");
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("second") && !text.contains("first") && !text.contains("secret"),
        "{text}"
    );
    assert_eq!(records(&place, access, "rows").0, 403);

    // Later the same form widens fields, takes the time away, and adds another stream.
    let edit = edit_page(&place, &mut owner);
    let page = owner.get(&edit);
    let words = text_of(&page);
    let fields = form_to(&page, "/owner/clients/edit").fields;
    let has = |name: &str, value: &str| fields.contains(&(name.to_owned(), value.to_owned()));
    assert!(has("stream-0", "messages") && has("since-0", "2026-02-01T00:00"), "{fields:?}");
    assert!(has("field-0-subject", "on") && !has("field-0-body", "on"), "{fields:?}");
    assert!(words.contains("It may see subject of messages from mail, since"), "{words}");
    let before = grants(&place);
    // A form that nobody changed makes no other grant.
    place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(grants(&place), before);
    let more = [("more-records", "bank/rows"), ("do", "save")];
    let page = place.send(&mut owner, &page, "/owner/clients/edit", &more);
    assert_eq!(page.status, 200, "the fields are shown first");
    let wider = [("field-0-body", "on"), ("since-0", ""), ("field-1-amount", "on"), ("do", "save")];
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &wider);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    let (_, text) = records(&place, access, "messages");
    assert!(text.contains("secret one") && text.contains("secret two"), "{text}");
    let (_, rows) = records(&place, access, "rows");
    assert!(rows.contains("\"amount\":4") && !rows.contains("XX00"), "{rows}");
    let now = grants(&place);
    assert_eq!(now.len(), 1, "the grant in whose place this one is has ended: {now:?}");
    assert_ne!(now[0]["id"], before[0]["id"]);

    // A stream that is unticked is gone, and the files stay.
    let page = owner.get(&edit);
    let none = [("stream-0", ""), ("stream-1", ""), ("do", "save")];
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &none);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"));
    assert_eq!(records(&place, access, "messages").0, 403);
    assert!(grants(&place).is_empty());
    assert_eq!(crate::sign_in_kit::read_file(&place, access, "/work/plan.md").0, 200);
}

#[test]
fn owner_records_of_one_name_from_several_connections_are_chosen_by_connection() {
    let place = place();
    place.import("work-mail", "messages", MAIL);
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let page = owner.open(&client.authorization_url(&[("scope", "read:/work/")]));
    let added = [("more-records", "work-mail/messages"), ("do", "show")];
    let page = place.send(&mut owner, &page, "/consent", &added);
    let fields = form_to(&page, "/consent").fields;
    let from: Vec<&str> =
        fields.iter().filter_map(|(name, _)| name.strip_prefix("from-0-")).collect();
    assert_eq!(from, ["work-mail"], "only what was added is ticked");
    let approve = [("field-0-subject", "on"), ("decision", "approve")];
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let (_, text) = records(&place, tokens["access_token"].as_str().unwrap(), "messages");
    assert!(text.contains("work-mail") && !text.contains("\"mail\""), "{text}");
}

#[test]
fn owner_records_are_chosen_with_a_token_beside_a_folder() {
    let place = place();
    let mut owner = place.signed_in_browser();
    let page = owner.get(&place.at("/owner/connect"));
    let added = [("more-records", "mail/messages"), ("name", "reader"), ("folder", "/work")];
    let page = place.send(&mut owner, &page, "/owner/connect/token", &added);
    let words = text_of(&page);
    assert!(words.contains("see some of <strong><bdi>messages</bdi>"), "{words}");
    assert!(words.contains("value=\"reader\""), "what was typed stays: {words}");
    assert_eq!(place.stile(&["token", "list", "--json"]).trim(), "[]");
    let choice = [("field-0-subject", "on"), ("do", "make")];
    let made = text_of(&place.send(&mut owner, &page, "/owner/connect/token", &choice));
    let (said, rest) = made.split_once("id=\"made-token\"").unwrap_or_else(|| panic!("{made}"));
    assert!(said.contains("may read the files in /work and below"), "{said}");
    assert!(said.contains("may see subject of messages from mail"), "{said}");
    let token = rest.split(['>', '<']).nth(1).unwrap();
    let (_, text) = records(&place, token, "messages");
    assert!(text.contains("second") && !text.contains("secret"), "{text}");
    assert_eq!(crate::sign_in_kit::read_file(&place, token, "/work/plan.md").0, 200);
    assert_eq!(crate::sign_in_kit::read_file(&place, token, "/journal/day.md").0, 403);
    // Without files, and without anything.
    let nothing = [("verb", "nothing"), ("stream-0", ""), ("do", "make")];
    let refused = place.send(&mut owner, &page, "/owner/connect/token", &nothing);
    assert_eq!(refused.status, 409, "{}", text_of(&refused));
    // A form makes one token, so the page is shown anew.
    let page = place.send(&mut owner, &page, "/owner/connect/token", &[("do", "show")]);
    let records_alone =
        [("verb", "nothing"), ("field-0-subject", "on"), ("do", "make"), ("name", "mail alone")];
    let made = text_of(&place.send(&mut owner, &page, "/owner/connect/token", &records_alone));
    assert!(made.contains("mail alone") && !made.contains("may read"), "{made}");
}

#[test]
fn owner_records_that_a_client_saw_are_told_by_stream_and_connection() {
    let place = place();
    let grant = place.stile(&["grant", "create", "--client", "x", "--stream", "messages"]);
    let token = ["token", "--grant", grant.trim(), "--client", "reader"];
    let token = place.stile(&token);
    let mut agent = place.server.client(token.trim());
    agent.tool("query_records", json!({ "stream": "messages" })).unwrap();
    agent.tool("schema", json!({})).unwrap();
    assert_eq!(records(&place, token.trim(), "messages").0, 200);
    let mut owner = place.signed_in_browser();
    let page = place.text_at(&mut owner, "/owner/clients");
    assert!(
        page.contains("It was shown 4 messages of mail and asked about records once."),
        "{page}"
    );
    let activity = place.text_at(&mut owner, "/owner/activity");
    assert!(activity.contains("reader listed records: 2 messages of mail"), "{activity}");
    let (_, file) = std::fs::read_dir(place.rig.state.join("journal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (0, std::fs::read_to_string(path).unwrap_or_default()))
        .next()
        .unwrap();
    assert!(!file.contains("secret") && !file.contains("first"), "no content: {file}");
}

#[test]
fn owner_records_have_a_page_with_sizes_and_the_last_imports() {
    let place = Place::new();
    let mut owner = place.signed_in_browser();
    let empty = place.text_at(&mut owner, "/owner/records");
    assert!(
        empty.contains("There are no records yet") && empty.contains("/owner/import"),
        "{empty}"
    );
    place.import("mail", "messages", MAIL);
    let page = place.text_at(&mut owner, "/owner/records");
    for part in
        ["messages", "mail", "2 records in one stream", "connection=mail&amp;stream=messages"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let sent = [(
        "csrf",
        form_to(&owner.get(&place.at("/owner/import")), "/sign-out").fields[0].1.clone(),
    )];
    let sent: Vec<(&str, &str)> =
        sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let rows = "{\"id\":\"a\",\"amount\":1}\n{\"id\":\"b\",\"amount\":2}\n{\"id\":\"c\",\n";
    owner.send_file(&place.at("/owner/import"), &sent, ("odd.jsonl", rows));
    let preview = owner.get(&place.at("/owner/import"));
    let words = text_of(&preview);
    let (choices, button) =
        (words.find("Where they go, and how they are read"), words.find("Store all rows"));
    assert!(choices.unwrap() < button.unwrap(), "the choices stand above the button: {words}");
    place.send(&mut owner, &preview, "/owner/import/store", &[]);
    while place.text_at(&mut owner, "/owner/import").contains("data-progress") {
        std::thread::yield_now();
    }
    let page = place.text_at(&mut owner, "/owner/records");
    assert!(page.contains("odd.jsonl") && page.contains("1 not stored"), "{page}");
    assert!(page.contains("Rows that could not be stored"), "{page}");
}

/// The largest page, in bytes.
const MAX_PAGE: usize = 60_000;

/// Returns a long name of a field.
fn field(number: usize) -> String {
    format!("f{number:03}{}", "x".repeat(96))
}

/// Imports one row with many fields whose names are long.
fn import_wide(place: &Place, fields: usize) {
    let row: serde_json::Map<String, Value> =
        (0..fields).map(|number| (field(number), json!("v"))).collect();
    let mut row = Value::Object(row);
    row["id"] = json!("a");
    place.import("wide", "rows", &format!("{row}\n"));
}

/// Asks for streams, and returns the page that the owner sees.
fn ask(
    client: &ScriptedClient,
    owner: &mut Browser,
    streams: &Value,
) -> stile_testkit::client::Reply {
    let details = json!([{ "type": "https://pdpp.dev/data-access", "streams": streams }]);
    let asked = [("scope", ""), ("authorization_details", &*details.to_string())];
    let page = owner.open(&client.authorization_url(&asked));
    assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
    page
}

/// Returns the fields of each stream that a token shows.
fn fields_of(tokens: &Value) -> Vec<usize> {
    let streams = tokens["authorization_details"][0]["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream["fields"].as_array().unwrap().len()).collect()
}

#[test]
fn owner_records_of_many_fields_are_chosen_page_by_page_and_what_is_ticked_stays() {
    let place = Place::new();
    import_wide(&place, 300);
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let mut page = owner.open(&client.authorization_url(&[("scope", "read:/work/")]));
    page =
        place.send(&mut owner, &page, "/consent", &[("more-records", "wide/rows"), ("do", "show")]);
    let mut ticked = Vec::new();
    let mut turns = 0;
    // One field of each page of the form is ticked.
    loop {
        assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
        let words = text_of(&page);
        let names = form_to(&page, "/consent").names;
        let first = names.iter().find(|name| name.starts_with("field-0-")).unwrap().clone();
        ticked.push(first.clone());
        let next = words.split("name=\"open-fields-0\" value=\"").skip(1);
        let next = next.map(|rest| rest.split_once('"').unwrap());
        let next = next.filter(|(_, rest)| rest.contains("The next fields")).last();
        let Some((next, _)) = next else { break };
        turns += 1;
        let turn = [(first.as_str(), "on"), ("open-fields-0", next), ("do", "")];
        page = place.send(&mut owner, &page, "/consent", &turn);
        assert_eq!(page.status, 200, "{page:?}");
        // The page says what was ticked before, and that it stays.
        let words = text_of(&page);
        let said = words.split("may see ").nth(1).unwrap().split(" of rows").next().unwrap();
        assert_eq!(said.split(", ").count(), turns, "{said}");
        assert!(words.contains("stays as it is") || words.contains("stay as they are"), "{words}");
    }
    assert!(turns >= 2, "the form has several pages");
    let last = ticked.last().unwrap().clone();
    let approve = [(last.as_str(), "on"), ("decision", "approve")];
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let granted = tokens["authorization_details"][0]["streams"][0]["fields"].clone();
    let expected: Vec<&str> = ticked.iter().map(|name| &name["field-0-".len()..]).collect();
    assert_eq!(granted, json!(expected));

    // A form that nobody changed takes nothing away, whatever it has no room for.
    let edit = edit_page(&place, &mut owner);
    let before = grants(&place);
    let page = owner.get(&edit);
    assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    assert_eq!(grants(&place), before);
}

#[test]
fn owner_records_that_are_asked_for_are_granted_as_the_page_says() {
    let place = Place::new();
    import_wide(&place, 300);
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let fields: Vec<String> = (0..121).map(field).chain(["id".to_owned()]).collect();
    let streams = json!([{ "name": "rows", "fields": fields }]);
    let page = ask(&client, &mut owner, &streams);
    let words = text_of(&page);
    assert!(words.contains(" and 110 more fields of rows"), "{words}");
    assert!(words.contains(" of 122."), "{words}");
    let answer = place.send(&mut owner, &page, "/consent", &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    assert_eq!(fields_of(&client.redeem(&code).json()), [122]);
    // Saving it untouched keeps them all.
    let edit = edit_page(&place, &mut owner);
    let before = grants(&place);
    let page = owner.get(&edit);
    assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
    place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(grants(&place), before);
    // What a page has is of the fields that there were.
    let mut fields = form_to(&page, "/owner/clients/edit").fields;
    let carried = fields.iter_mut().find(|(name, _)| name == "fields-0").unwrap();
    carried.1.replace_range(..4, "0000");
    fields.push(("do".to_owned(), "save".to_owned()));
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let refused = owner.post(&place.at("/owner/clients/edit"), &fields);
    assert_eq!(refused.status, 409);
    assert!(text_of(&refused).contains("changed meanwhile"), "{}", text_of(&refused));
    assert_eq!(grants(&place), before);
}

#[test]
fn owner_records_of_thirty_two_streams_are_all_on_the_page_and_are_granted() {
    let place = Place::new();
    for number in 0..32 {
        let row = json!({ "id": "a", "subject": "x".repeat(300), "body": "<".repeat(3000),
            "sent_at": "2026-01-05T00:00:00Z", "from": "a", "to": "b", "cc": "c", "thread": "t" });
        place.import("mail", &format!("mail{number:02}"), &format!("{row}\n"));
    }
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    for count in [6, 32] {
        let streams: Vec<Value> =
            (0..count).map(|number| json!({ "name": format!("mail{number:02}") })).collect();
        let page = ask(&client, &mut owner, &json!(streams));
        let words = text_of(&page);
        assert!(!words.contains("not fit"), "{count}: {words}");
        for number in 0..count {
            assert!(words.contains(&format!("of mail{number:02} from mail")), "{words}");
        }
        // A stream that is closed is opened by its button, and decides nothing.
        let last = format!("open-fields-{}", count - 1);
        let opened = place.send(&mut owner, &page, "/consent", &[(&last, "0")]);
        assert_eq!(opened.status, 200);
        assert!(opened.body.len() <= MAX_PAGE, "the page has {} bytes", opened.body.len());
        let words = text_of(&opened);
        assert!(words.contains(&format!("name=\"field-{}-subject\"", count - 1)), "{words}");
        let less = format!("field-{}-subject", count - 1);
        let approve = [(less.as_str(), ""), ("decision", "approve")];
        let answer = place.send(&mut owner, &opened, "/consent", &approve);
        let code = parameter(location(&answer).unwrap(), "code").unwrap();
        let mut expected = vec![8; count];
        expected[count - 1] = 7;
        assert_eq!(fields_of(&client.redeem(&code).json()), expected);
    }
    let clients = place.text_at(&mut owner, "/owner/clients");
    let (_, rest) = clients.split_once("/owner/clients/edit?id=").unwrap();
    let edit = place.at(&format!("/owner/clients/edit?id={}", rest.split('"').next().unwrap()));
    let before = grants(&place);
    let page = owner.get(&edit);
    assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
    place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(grants(&place), before);
}

/// Returns a name of a stream as long as one can be.
fn long_stream(number: usize) -> String {
    format!("s{number:02}{}", "x".repeat(61))
}

/// Returns the streams that a page shows, each by its number.
fn shown_streams(page: &stile_testkit::client::Reply) -> Vec<usize> {
    let words = text_of(page);
    let all = words.split("id=\"stream-of-").skip(1);
    all.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

/// Returns the number on the button that leads to the next streams.
fn next_streams(page: &stile_testkit::client::Reply) -> Option<String> {
    let words = text_of(page);
    let mut buttons = words.split("name=\"open-streams\" value=\"").skip(1);
    buttons.find_map(|rest| {
        let (number, rest) = rest.split_once('"').unwrap();
        let name = rest.split('<').next().unwrap();
        name.contains("The next streams").then(|| number.to_owned())
    })
}

#[test]
fn owner_records_of_more_streams_than_a_page_has_room_for_are_chosen_page_by_page() {
    let place = Place::new();
    for number in 0..32 {
        let mut row = json!({ "id": "a", "body": "text", "sent_at": "2026-01-05T00:00:00Z" });
        for more in 0..9 {
            row[field(more)] = "v".repeat(300).into();
        }
        place.import(&"c".repeat(64), &long_stream(number), &format!("{row}\n"));
    }
    // The choices about files take most of the page.
    for number in 0..120 {
        let folder = format!("{number:03}{}", "<".repeat(180));
        std::fs::create_dir(place.rig.root.join(folder)).unwrap();
    }
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let streams: Vec<Value> = (0..32).map(|at| json!({ "name": long_stream(at) })).collect();
    let details = json!([{ "type": "https://pdpp.dev/data-access", "streams": streams }]);
    let details = details.to_string();
    let asked = [("scope", "read:/"), ("authorization_details", &*details)];
    let ask = |owner: &mut Browser| owner.open(&client.authorization_url(&asked));
    let tokens = |answer: &stile_testkit::client::Reply| {
        let code = parameter(location(answer).unwrap(), "code").unwrap();
        client.redeem(&code).json()
    };
    let names = |tokens: &Value| -> Vec<String> {
        let streams = tokens["authorization_details"][0]["streams"].as_array().unwrap();
        streams.iter().map(|stream| stream["name"].as_str().unwrap().to_owned()).collect()
    };

    // Any stream can be added: the list goes on where it has no room for all.
    let mut page = owner.open(&client.authorization_url(&[("scope", "read:/")]));
    let mut listed = std::collections::BTreeSet::new();
    loop {
        let words = text_of(&page);
        let options = words.split("<option value=\"").skip(1);
        let known = (0..32).map(long_stream).collect::<Vec<_>>();
        let option = |rest: &str| {
            known.iter().position(|name| rest.split('"').next().unwrap().ends_with(name))
        };
        listed.extend(options.filter_map(option));
        let mut buttons = words.split("name=\"open-more\" value=\"").skip(1);
        let next = buttons.find(|rest| rest.contains("The next of the list"));
        let Some(next) = next.map(|rest| rest.split('"').next().unwrap().to_owned()) else { break };
        page = place.send(&mut owner, &page, "/consent", &[("open-more", &next)]);
        assert_eq!(page.status, 200, "{page:?}");
    }
    assert_eq!(listed, (0..32).collect());

    // What no page has shown is not granted, and the page says so.
    let page = ask(&mut owner);
    let shown = shown_streams(&page);
    assert!(shown.len() < 32 && shown[0] == 0, "{shown:?}");
    let left = format!(
        "{} streams were not shown yet, and it would see nothing of them.",
        32 - shown.len()
    );
    assert!(text_of(&page).contains(&left), "{left}: {}", text_of(&page));
    // Who looks at what a choice means sees the same streams, and the one with the choice.
    let field = format!("field-{}-body", shown.last().unwrap());
    let open = format!("open-fields-{}", shown.last().unwrap());
    let mut opened = place.send(&mut owner, &page, "/consent", &[(&open, "0")]);
    let now = shown_streams(&opened);
    for ticked in ["on", "", "on"] {
        let look = [(&*field, ticked), ("do", "show")];
        opened = place.send(&mut owner, &opened, "/consent", &look);
        assert_eq!(shown_streams(&opened), now);
        assert!(text_of(&opened).contains(&format!("name=\"{field}\"")), "it stays open");
    }
    let answer = place.send(&mut owner, &page, "/consent", &[("decision", "approve")]);
    let expected: Vec<String> = shown.iter().map(|at| long_stream(*at)).collect();
    assert_eq!(names(&tokens(&answer)), expected);

    // One stream of each page is unticked, and stays so on the pages that follow.
    let mut page = ask(&mut owner);
    let (mut unticked, mut seen) = (Vec::new(), Vec::new());
    loop {
        assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
        let shown = shown_streams(&page);
        assert!(!shown.is_empty());
        let first = format!("stream-{}", shown[0]);
        unticked.push(long_stream(shown[0]));
        // A stream of any page can be opened, and only what is opened moves no other stream.
        let last = format!("open-fields-{}", shown.last().unwrap());
        let opened = place.send(&mut owner, &page, "/consent", &[(&last, "0")]);
        assert!(opened.body.len() <= MAX_PAGE, "the page has {} bytes", opened.body.len());
        let field = format!("name=\"field-{}-body\"", shown.last().unwrap());
        assert!(text_of(&opened).contains(&field), "{}", text_of(&opened));
        seen.extend(shown);
        let Some(next) = next_streams(&page) else {
            let approve = [(first.as_str(), ""), ("decision", "approve")];
            page = place.send(&mut owner, &page, "/consent", &approve);
            break;
        };
        let turn = [(first.as_str(), ""), ("open-streams", &*next)];
        page = place.send(&mut owner, &page, "/consent", &turn);
        assert_eq!(page.status, 200, "{page:?}");
    }
    assert_eq!(seen, (0..32).collect::<Vec<_>>(), "each is shown on one page");
    assert!(unticked.len() > 1);
    let granted = names(&tokens(&page));
    let expected: Vec<String> =
        (0..32).map(long_stream).filter(|name| !unticked.contains(name)).collect();
    assert_eq!(granted, expected);

    // Later one of the first page is taken away, and all others stay.
    let clients = place.text_at(&mut owner, "/owner/clients");
    let ids = clients.split("/owner/clients/edit?id=").skip(1);
    let ids: Vec<&str> = ids.map(|rest| rest.split('"').next().unwrap()).collect();
    let pages = ids.iter().map(|id| owner.get(&place.at(&format!("/owner/clients/edit?id={id}"))));
    // The other approval is the one of the first page alone.
    let found = pages.filter_map(|page| next_streams(&page).map(|next| (page, next))).last();
    let (mut page, next) = found.unwrap();
    let first = format!("stream-{}", shown_streams(&page)[0]);
    let turn = [(first.as_str(), ""), ("open-streams", &*next)];
    page = place.send(&mut owner, &page, "/owner/clients/edit", &turn);
    assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    let all = grants(&place);
    let streams = |grant: &Value| grant["grant"]["streams"].as_array().unwrap().len();
    assert!(all.iter().any(|grant| streams(grant) == expected.len() - 1), "{all:?}");

    // A stream that the owner adds is shown, and is still there where a page does not show it.
    let mut page = owner.get(&place.at("/owner/grant?connection=none&stream=none"));
    assert_eq!(page.status, 404);
    let first = format!("/owner/grant?connection={}&stream={}", "c".repeat(64), long_stream(0));
    page = owner.get(&place.at(&first));
    for number in 1..32 {
        let more = format!("{}/{}", "c".repeat(64), long_stream(number));
        let body = format!("field-{}-body", number - 1);
        let add = [(&*body, "on"), ("more-records", &*more)];
        page = place.send(&mut owner, &page, "/owner/grant", &add);
        assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
        assert!(shown_streams(&page).contains(&number), "{number}: {}", text_of(&page));
        let body = format!("name=\"field-{number}-body\"");
        assert!(text_of(&page).contains(&body), "it is open: {}", text_of(&page));
    }
    let make = [("field-31-body", "on"), ("client", "budget"), ("do", "make")];
    let made = place.send(&mut owner, &page, "/owner/grant", &make);
    assert!(text_of(&made).contains("The token is made"), "{}", text_of(&made));
    assert!(grants(&place).iter().any(|grant| streams(grant) == 32));
}

#[test]
fn owner_records_of_an_older_page_are_not_put_in_the_place_of_others() {
    let place = Place::new();
    let row = json!({ "id": "a", "booked": "x", "iban": "XX00", "note": "n" });
    for stream in ["pay_a", "pay_b"] {
        place.import("bank", stream, &format!("{row}\n"));
    }
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let asked = json!([{ "name": "pay_a" }, { "name": "pay_b", "fields": ["id", "booked"] }]);
    let page = ask(&client, &mut owner, &asked);
    let answer = place.send(&mut owner, &page, "/consent", &[("decision", "approve")]);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let access = tokens["access_token"].as_str().unwrap();
    let edit = edit_page(&place, &mut owner);
    let older = owner.get(&edit);
    let none = [("stream-0", ""), ("do", "save")];
    let saved = place.send(&mut owner, &older, "/owner/clients/edit", &none);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    assert_eq!(records(&place, access, "pay_a").0, 403);
    let before = grants(&place);
    for changed in [&[][..], &[("stream-1", "")]] {
        let sent = [changed, &[("do", "save")]].concat();
        let again = place.send(&mut owner, &older, "/owner/clients/edit", &sent);
        assert_eq!(location(&again), None, "{changed:?}");
        let words = text_of(&again);
        assert!(words.contains("changed since the page was shown"), "{words}");
        assert_eq!(grants(&place), before, "{changed:?}");
    }
    // Who only looks is told too, and goes on with what is true now.
    let now = place.send(&mut owner, &older, "/owner/clients/edit", &[("do", "show")]);
    let words = text_of(&now);
    assert!(now.status == 200 && words.contains("changed since you opened this page"), "{words}");
    assert!(!words.contains("pay_a</bdi>") && words.contains("pay_b</bdi>"), "{words}");
    let saved = place.send(&mut owner, &now, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(location(&saved), Some("/owner/clients?done=changed"), "{}", text_of(&saved));
    assert_eq!(grants(&place), before);
    let (_, text) = records(&place, access, "pay_b");
    assert!(text.contains("booked") && !text.contains("XX00"), "{text}");
}

#[test]
fn owner_records_with_days_are_limited_by_days_whatever_the_zone_of_the_reader() {
    let place = Place::new();
    let rows = ["2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01"];
    let rows = rows.map(|day| format!("{}\n", json!({ "id": day, "booked": day })));
    place.import("bank", "rows", &rows.concat());
    let declared = place.stile(&["streams", "--json"]);
    assert!(declared.contains("\"time_field\":\"booked\"") || declared.contains("\"booked\""));
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let page = ask(&client, &mut owner, &json!([{ "name": "rows" }]));
    let words = text_of(&page);
    // A script shifts times, and no days.
    assert!(words.contains("<input type=\"date\" id=\"since-0\""), "{words}");
    assert!(!words.contains("data-utc"), "{words}");
    let times = [("since-0", "2026-01-01"), ("until-0", "2026-02-01")];
    let shown = [&times[..], &[("do", "show")]].concat();
    let words = text_of(&place.send(&mut owner, &page, "/consent", &shown));
    let day = |day: &str| format!("<time class=\"date\" datetime=\"{day}\">{day}</time>");
    let said = format!(", since {}, before {}.", day("2026-01-01"), day("2026-02-01"));
    assert!(words.contains(&said), "{words}");
    let approve = [&times[..], &[("decision", "approve")]].concat();
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let (_, seen) = records(&place, tokens["access_token"].as_str().unwrap(), "rows");
    assert!(seen.contains("2026-01-01") && seen.contains("2026-01-31"), "{seen}");
    assert!(!seen.contains("2025-12-31") && !seen.contains("2026-02-01"), "{seen}");
    // The list of clients says the days, and the form for later has them.
    let clients = place.text_at(&mut owner, "/owner/clients");
    assert!(clients.contains(&format!("since {} (UTC)", day("2026-01-01"))), "{clients}");
    let edit = edit_page(&place, &mut owner);
    let page = owner.get(&edit);
    let fields = form_to(&page, "/owner/clients/edit").fields;
    assert!(fields.contains(&("since-0".to_owned(), "2026-01-01".to_owned())), "{fields:?}");
    let before = grants(&place);
    place.send(&mut owner, &page, "/owner/clients/edit", &[("do", "save")]);
    assert_eq!(grants(&place), before);
}

#[test]
fn owner_records_of_a_time_that_ends_before_it_begins_are_refused_and_nothing_is_decided() {
    let place = Place::new();
    let rows = ["2026-01-01", "2026-01-31"];
    let rows = rows.map(|day| format!("{}\n", json!({ "id": day, "booked": day })));
    place.import("bank", "rows", &rows.concat());
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let details =
        json!([{ "type": "https://pdpp.dev/data-access", "streams": [{ "name": "rows" }] }]);
    let asked = [("scope", "read:/work/"), ("authorization_details", &*details.to_string())];
    let mut page = owner.open(&client.authorization_url(&asked));
    for (since, until) in [("2026-02-01", "2026-01-01"), ("2026-01-01", "2026-01-01")] {
        for button in [("do", "show"), ("decision", "approve")] {
            let times = [("since-0", since), ("until-0", until), button];
            page = place.send(&mut owner, &page, "/consent", &times);
            assert_eq!(page.status, 200, "{page:?}");
            let words = text_of(&page);
            assert!(words.contains("“Only before” is not after “Only since” in"), "{words}");
            assert!(!words.contains("It <strong>may see") && !words.contains("may see id"));
            // What was chosen stays in the form.
            let fields = form_to(&page, "/consent").fields;
            assert!(fields.contains(&("until-0".to_owned(), until.to_owned())), "{fields:?}");
            assert!(fields.contains(&("stream-0".to_owned(), "rows".to_owned())), "{fields:?}");
        }
    }
    assert!(grants(&place).is_empty());
    let times = [("since-0", "2026-01-01"), ("until-0", "2026-01-02"), ("decision", "approve")];
    let answer = place.send(&mut owner, &page, "/consent", &times);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let access = tokens["access_token"].as_str().unwrap();
    let (_, seen) = records(&place, access, "rows");
    assert!(seen.contains("2026-01-01") && !seen.contains("2026-01-31"), "{seen}");
    // The page that changes it later refuses the same.
    let edit = edit_page(&place, &mut owner);
    let page = owner.get(&edit);
    let times = [("since-0", "2026-01-02"), ("until-0", "2026-01-02"), ("do", "save")];
    let saved = place.send(&mut owner, &page, "/owner/clients/edit", &times);
    assert_eq!(saved.status, 409, "{saved:?}");
    assert!(text_of(&saved).contains("ends at or before it begins"), "{}", text_of(&saved));
}

#[test]
fn owner_records_of_more_places_than_a_page_has_room_for_are_chosen_page_by_page() {
    let place = Place::new();
    let connection = |number: usize| format!("c{number:02}{}", "x".repeat(58));
    for number in 0..40 {
        place.import(&connection(number), "rows", "{\"id\":\"a\"}\n");
    }
    // Other streams leave it less room.
    let mut streams = vec![json!({ "name": "rows" })];
    for number in 0..8 {
        let name = format!("other{number}");
        place.import("bank", &name, "{\"id\":\"a\"}\n");
        streams.push(json!({ "name": name }));
    }
    let client = ScriptedClient::connect(&place.url());
    let mut owner = place.signed_in_browser();
    let mut page = ask(&client, &mut owner, &json!(streams));
    let (mut seen, mut ticked) = (Vec::new(), Vec::new());
    let button = "name=\"open-places-0\" value=\"";
    loop {
        assert!(page.body.len() <= MAX_PAGE, "the page has {} bytes", page.body.len());
        let names = form_to(&page, "/consent").names;
        let here = names.iter().filter_map(|name| name.strip_prefix("from-0-"));
        let here: Vec<String> = here.map(str::to_owned).collect();
        assert!(!here.is_empty() && here.len() < 40, "{here:?}");
        ticked.push(here[0].clone());
        seen.extend(here);
        let words = text_of(&page);
        let next = words.split(button).skip(1).map(|rest| rest.split_once('"').unwrap());
        let next = next.filter(|(_, rest)| rest.contains("The next places")).last();
        let Some((next, _)) = next else { break };
        let first = format!("from-0-{}", ticked.last().unwrap());
        let turn = [(first.as_str(), "on"), ("open-places-0", next), ("do", "")];
        page = place.send(&mut owner, &page, "/consent", &turn);
        assert_eq!(page.status, 200, "{page:?}");
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, (0..40).map(connection).collect::<Vec<_>>());
    assert!(ticked.len() > 1 && text_of(&page).contains(button), "a button leads back");
    let last = format!("from-0-{}", ticked.last().unwrap());
    let approve = [(last.as_str(), "on"), ("decision", "approve")];
    let answer = place.send(&mut owner, &page, "/consent", &approve);
    let code = parameter(location(&answer).unwrap(), "code").unwrap();
    let tokens = client.redeem(&code).json();
    let granted = &tokens["authorization_details"][0]["streams"][0]["instance_ids"];
    assert_eq!(*granted, json!(ticked), "{tokens}");
}

#[test]
fn owner_records_of_fields_with_names_of_another_alphabet_are_chosen_like_others() {
    let place = Place::new();
    // In a form each of these letters takes nine bytes, and in the page three.
    let row: serde_json::Map<String, Value> =
        (0..300).map(|number| (format!("{number:03}{}", "欄".repeat(40)), json!("v"))).collect();
    let mut row = Value::Object(row);
    row["id"] = json!("a");
    place.import("wide", "rows", &format!("{row}\n"));
    let mut owner = place.signed_in_browser();
    let page = owner.get(&place.at("/owner/grant?connection=wide&stream=rows"));
    let names = form_to(&page, "/owner/grant").names;
    let mut changes: Vec<(&str, &str)> = names
        .iter()
        .filter(|name| name.starts_with("field-0-"))
        .map(|name| (name.as_str(), "on"))
        .collect();
    let count = changes.len();
    changes.extend([("client", "reader"), ("do", "make")]);
    let made = place.send(&mut owner, &page, "/owner/grant", &changes);
    let words = text_of(&made);
    assert!(words.contains("id=\"made-token\""), "{words}");
    assert!(words.contains(&format!(" and {} more fields of rows", count - 12)), "{words}");
}
