//! Every answer keeps to its budget, with values as long as possible. [`super::checks`] asserts it
//! for every answer.

use futures::future::BoxFuture;
use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::request::ReadRequest;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_ladder::budget::Budgets;
use stile_ladder::port::{ErrorResponse, RecordServer};
use stile_ladder::{Ladder, SchemaStyle};
use stile_server::stored_records::StoredRecords as Port;
use stile_testkit::chance::Chance;
use stile_tools::toolset::Toolset as _;

use super::records::blobs::BLOBS;
use super::records::model::{NOW, Stored, World};
use super::records::owner;
use super::walker::{CLASSES, Walker};
use super::worlds::{self, VisibleRecords, text};
use super::{Called, Client, of_field, with};

/// Makes a name of the greatest length, unique by number.
fn long_name(at: usize) -> String {
    format!("{at:04}{}", "\u{1}\"".repeat(254))
}

fn world(records: Vec<(String, RecordFields)>) -> (World, Stored) {
    let world = World { sources: vec![worlds::stream("a-mail", "notes", records)] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    (world, stored)
}

/// Calls every tool for a stream and its records.
fn ask(client: &Client, ids: impl Iterator<Item = String>, q: &str) {
    for limit in [1, 25, 100] {
        client.good("query_records", &json!({ "stream": "notes", "limit": limit }));
        client.good("search", &json!({ "q": q, "limit": limit }));
    }
    client.good("schema", &json!({}));
    client.good("schema", &json!({ "stream": "notes" }));
    client.good("schema", &json!({ "stream": "notes", "detail": "full" }));
    for id in ids.take(4) {
        client.good("fetch", &json!({ "id": id }));
    }
}

#[test]
fn a_record_of_a_hundred_thousand_fields_keeps_to_the_budgets() {
    let fields =
        (0..100_000).map(|at| (format!("f{at}"), FieldValue::Number("1e1".into()))).collect();
    let (_, stored) = world(vec![("k".repeat(512), fields)]);
    let client = Client::new(&stored.services, owner());
    let id = format!("a-mail/notes:{}", "k".repeat(512));
    ask(&client, [id.clone()].into_iter(), "f");
    // Reads from the middle of the field.
    let mut args = json!({ "id": id });
    for _ in 0..5 {
        let answered = client.good("fetch", &args).structured;
        args = answered["content_ladder"]["more_fields"][0]["read"]["args"].clone();
    }
}

#[test]
fn a_field_of_eight_megabytes_keeps_to_the_budgets() {
    for unit in ["\u{1}", "word "] {
        let long = unit.repeat(8 * 1024 * 1024 / unit.len());
        let chars = long.chars().count();
        let (_, stored) = world(vec![("k".to_owned(), vec![("text".to_owned(), text(long))])]);
        let client = Client::new(&stored.services, owner());
        ask(&client, ["a-mail/notes:k".to_owned()].into_iter(), "word");
        for start in [0, chars / 2, chars - 1, chars] {
            let args = with(
                &of_field("a-mail/notes:k", "text"),
                json!({ "offset_chars": start, "limit_chars": 16_384 }),
            );
            client.good("read_record_field", &args);
        }
    }
}

#[test]
fn the_longest_escaped_names_and_keys_keep_to_the_budgets() {
    let keys = ["\u{1}".repeat(512), "\"".repeat(512), "中".repeat(170)];
    let records = keys.iter().map(|key| {
        let fields =
            (0..40).map(|at| (long_name(at), text("\u{1}".repeat(300 + 100 * at)))).collect();
        (key.clone(), fields)
    });
    let (world, stored) = world(records.collect());
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    ask(&client, visible.ids().map(str::to_owned), "x");
    let longest = visible.ids().next().unwrap().to_owned();
    for class in CLASSES {
        let walker = Walker { client: &client, visible: &visible, class };
        walker.record(&longest);
        assert_eq!(walker.list("query_records", &json!({ "stream": "notes" })).len(), keys.len());
    }
    let args = with(
        &of_field(&longest, &long_name(39)),
        json!({ "q": "\u{1}".repeat(1024), "limit_chars": 16_384 }),
    );
    client.good("read_record_field", &args);
}

#[test]
fn the_longest_key_stands_at_most_once_beside_its_identifier() {
    let reference = format!("{{\"blob_id\":\"{}\"}}", BLOBS[0].0);
    let list =
        |items: usize| FieldValue::Json(format!("[{}]", vec![reference.as_str(); items].join(",")));
    let key = "\u{1}".repeat(512);
    let fields = vec![
        ("few".to_owned(), list(3)),
        ("many".to_owned(), list(20)),
        ("body".to_owned(), text("\u{2}".repeat(2_000))),
    ];
    let (world, stored) = world(vec![(key.clone(), fields)]);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    let id = visible.ids().next().unwrap();
    let escaped = Json::from(key).to_string();
    let keys = |called: Called| called.structured.to_string().matches(&escaped).count();
    for class in CLASSES {
        Walker { client: &client, visible: &visible, class }.record(id);
    }
    for field in ["few", "many", "body"] {
        assert_eq!(keys(client.good("fetch", &json!({ "id": id, "fields": [field] }))), 0);
        for limit in [1, 80, 320, 640] {
            let args = with(&of_field(id, field), json!({ "limit_chars": limit }));
            let called = client.good("read_record_field", &args);
            let window = &called.structured["window"];
            // Eight references of 83 characters fit.
            let is_short = window["end_chars"].as_u64().unwrap() < limit;
            assert!(!is_short || window["complete"] == true, "{field} {limit}");
            assert_eq!(keys(called), 1);
        }
    }
    assert!(keys(client.good("query_records", &json!({ "stream": "notes" }))) <= 1);
}

#[test]
fn many_truncated_fields_keep_to_the_budgets() {
    let value = |at: usize| match at % 4 {
        0 => FieldValue::Number("1E400".into()),
        1 => text(worlds::base64_of(192)),
        2 => FieldValue::Json("{\"blob_id\":\"\",\"mime_type\":\"\"}".to_owned()),
        _ => text("x".repeat(513)),
    };
    let fields = (0..400).map(|at| (format!("{at}"), value(at))).collect();
    let (world, stored) = world(vec![("\u{1}".repeat(512), fields)]);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    let id = visible.ids().next().unwrap();
    ask(&client, [id.to_owned()].into_iter(), "x");
    for class in CLASSES {
        Walker { client: &client, visible: &visible, class }.record(id);
    }
}

#[test]
fn the_deepest_arrays_keep_to_the_budgets() {
    let fields = [1, 31, 32, 33, 64, 100, 126].map(|deep| {
        (format!("{deep}"), FieldValue::Json(format!("{}{}", "[".repeat(deep), "]".repeat(deep))))
    });
    let (world, stored) = world(vec![("k".to_owned(), fields.to_vec())]);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    ask(&client, ["a-mail/notes:k".to_owned()].into_iter(), "x");
    for class in CLASSES {
        Walker { client: &client, visible: &visible, class }.record("a-mail/notes:k");
    }
}

#[test]
fn hits_with_excerpts_of_control_characters_keep_to_the_budgets() {
    let long = || text(format!("{} needle {}", "\u{1}".repeat(200), "\u{2}".repeat(2000)));
    let records = (0..110).map(|at| {
        let fields = ["title", "body", "third", "fourth"].map(|name| (name.to_owned(), long()));
        (format!("{at:03}{}", "\u{1}".repeat(300)), fields.to_vec())
    });
    let (world, stored) = world(records.collect());
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    ask(&client, visible.ids().map(str::to_owned), "needle");
    let walker = Walker { client: &client, visible: &visible, class: CLASSES[0] };
    assert_eq!(walker.list("search", &json!({ "q": "needle", "limit": 5 })).len(), 110);
}

#[test]
fn groups_with_long_keys_keep_to_the_budgets() {
    for unit in ["\u{1}", "中", "QUJD+/09", "\u{2028}"] {
        let records = (0..100).map(|at| {
            let long: String =
                format!("{at:03}").chars().chain(unit.chars().cycle()).take(900).collect();
            (format!("{at}"), vec![("long".to_owned(), text(long))])
        });
        let (_, stored) = world(records.collect());
        let client = Client::new(&stored.services, owner());
        let args =
            json!({ "stream": "notes", "metric": "count", "group_by": "long", "limit": 100 });
        let answered = client.good("aggregate", &args);
        let groups = answered.structured["groups"].as_array().unwrap().len();
        assert_eq!(groups as u64 + answered.structured["groups_left_out"].as_u64().unwrap(), 100);
        assert!(answered.text.len() <= 1800, "{}", answered.text.len());
        assert!(answered.text.contains(" of them in the structured answer"), "{}", answered.text);
    }
}

#[test]
fn many_streams_with_long_keys_keep_to_the_budgets() {
    let mut sources: Vec<_> = (0..500)
        .map(|at| worlds::stream("a-mail", &format!("{at:03}{}", "s".repeat(61)), Vec::new()))
        .collect();
    let names: Vec<String> = (0..30).map(long_name).collect();
    sources[0].decl.fields = names.iter().map(|name| worlds::text_field(name)).collect();
    sources[0].decl.key = names.clone();
    let world = World { sources };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    for args in [
        json!({}),
        json!({ "stream": world.sources[0].stream }),
        json!({ "stream": world.sources[0].stream, "detail": "full" }),
    ] {
        let mut next = Some(args);
        while let Some(args) = next {
            let answered = client.good("schema", &args).structured;
            next = answered["next_cursor"]
                .as_str()
                .map(|cursor| with(&args, json!({ "cursor": cursor })));
        }
    }
}

/// A resource server that fails the test if it is asked.
struct Unreachable;

impl RecordServer for Unreachable {
    fn send<'a>(
        &'a self,
        _: &'a Principal,
        _: ReadRequest,
    ) -> BoxFuture<'a, Result<String, ErrorResponse>> {
        unimplemented!("the definitions ask nothing")
    }

    fn seal(&self, _: &[u8]) -> Result<String, ErrorResponse> {
        unimplemented!("the definitions seal nothing")
    }

    fn unseal(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn the_list_of_tools_is_shorter_than_16_kib() {
    for style in [SchemaStyle::Portable, SchemaStyle::Strict] {
        let ladder = Ladder::new(Unreachable).with_schema_style(style);
        let tools: Vec<Json> = ladder
            .definitions()
            .into_iter()
            .map(|tool| {
                json!({
                    "name": tool.name, "title": tool.title, "description": tool.description, "inputSchema": tool.input,
                    "outputSchema": (tool.output)(),
                    "annotations": {
                        "readOnlyHint": tool.read_only, "destructiveHint": tool.destructive,
                        "idempotentHint": tool.idempotent, "openWorldHint": false,
                    },
                })
            })
            .collect();
        let size = json!({ "tools": tools }).to_string().len();
        assert!(size < 16_384, "{size} bytes");
        println!("{size} bytes");
    }
}

/// However small the budget, an error is about the arguments.
#[test]
fn a_window_has_a_character_under_the_smallest_budget() {
    let (_, stored) =
        world(vec![("k".to_owned(), vec![("text".to_owned(), text("x".repeat(1551)))])]);
    let budgets = Budgets { structured: 1024, ..Budgets::default() };
    let client =
        Client::within(budgets, Port::new(stored.services.clone(), || Instant(NOW)), owner());
    let mut args = of_field("a-mail/notes:k", "text");
    for at in 0..3 {
        let window = client.raw("read_record_field", &args).unwrap().structured["window"].clone();
        assert_eq!((&window["start_chars"], &window["text"]), (&json!(at), &json!("x")));
        args["cursor"] = window["next_cursor"].clone();
    }
}

/// All budgets that an operator may set keep answers below the absolute limit.
#[test]
fn no_allowed_budget_makes_an_answer_too_large() {
    let most = Budgets {
        text: Budgets::MOST_BYTES,
        preview_chars: Budgets::MOST_PREVIEW_CHARS,
        structured: Budgets::MOST_BYTES,
        document: Budgets::MOST_BYTES / 2,
        ..Budgets::default()
    };
    let least = Budgets {
        text: 1024,
        preview_chars: Budgets::MOST_PREVIEW_CHARS,
        structured: Budgets::LEAST_STRUCTURED,
        document: 1024,
        ..Budgets::default()
    };
    let units = ["\u{1}", "\"", "中", "a b "];
    let records = (0..110).map(|at| {
        let unit = units[at % units.len()];
        let key: String =
            format!("{at:03}").chars().chain(unit.chars().cycle()).take(500 / unit.len()).collect();
        let fields = (0..40)
            .map(|at| (long_name(at), text(format!("needle {}", unit.repeat(100 + 100 * at)))));
        let fields = fields.chain([("text".to_owned(), text(unit.repeat(20_000)))]).collect();
        (key, fields)
    });
    let (world, stored) = world(records.collect());
    let visible = VisibleRecords::of(&world, None);
    for budgets in [most, least] {
        let client =
            Client::within(budgets, Port::new(stored.services.clone(), || Instant(NOW)), owner());
        let mut calls = vec![
            ("query_records", json!({ "stream": "notes", "limit": 100 })),
            (
                "query_records",
                json!({ "stream": "notes", "limit": 100, "changes_since": "beginning" }),
            ),
            ("search", json!({ "q": "needle", "limit": 100 })),
            ("schema", json!({ "stream": "notes", "detail": "full" })),
        ];
        for id in visible.ids().take(4) {
            calls.push(("fetch", json!({ "id": id })));
            calls.push((
                "read_record_field",
                with(&of_field(id, "text"), json!({ "limit_chars": 16_384 })),
            ));
        }
        for (tool, args) in calls {
            let answer =
                client.raw(tool, &args).unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
            let size = answer.structured.to_string().len();
            assert!(size <= budgets.structured, "{tool} {args}: {size} of {}", budgets.structured);
        }
    }
    // The smallest structure has room for a typical field of a list.
    let usual = Budgets { preview_chars: 512, ..least };
    let client =
        Client::within(usual, Port::new(stored.services.clone(), || Instant(NOW)), owner());
    let listed = client
        .raw("query_records", &json!({ "stream": "notes", "fields": ["text"] }))
        .unwrap()
        .structured;
    assert!(listed["data"]["data"][0]["data"]["text"].is_string(), "{listed}");
}

/// Follows a list to its end. Returns its identifiers, the number of calls and the bytes of text.
fn walked(client: &Client, tool: &str, args: &Json) -> (Vec<String>, usize, usize) {
    let (mut ids, mut calls, mut bytes) = (Vec::new(), 0, 0);
    let mut next = Some(args.clone());
    while let Some(args) = next {
        let answered = client.good(tool, &args);
        (calls, bytes) = (calls + 1, bytes + answered.text.len());
        let shown =
            answered.text.lines().filter_map(|line| line.split_once(". id=")?.1.split(' ').next());
        ids.extend(shown.map(str::to_owned));
        let more = answered.text.lines().last().filter(|line| line.contains("\"cursor\""));
        next = more.map(|line| {
            let (_, args) = line.split_once('{').unwrap();
            serde_json::from_str(&format!("{{{args}")).unwrap()
        });
    }
    (ids, calls, bytes)
}

#[test]
fn a_short_list_has_a_hundred_records_in_a_call() {
    let records = (0..219).map(|at| {
        let fields = [
            ("title", format!("Message {at} about the boiler")),
            ("text", format!("{at} {}", "and what it costs ".repeat(30))),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), text(value)));
        (format!("{at:03}"), fields.to_vec())
    });
    let (_, stored) = world(records.collect());
    let client = Client::new(&stored.services, owner());
    for (tool, args) in [
        ("search", json!({ "q": "boiler", "limit": 100 })),
        ("query_records", json!({ "stream": "notes", "limit": 100, "fields": ["title"] })),
    ] {
        let (all, many, _) = walked(&client, tool, &args);
        let short = with(&args, json!({ "detail": "list" }));
        let (ids, calls, bytes) = walked(&client, tool, &short);
        assert_eq!(ids, all, "{tool}");
        assert_eq!((ids.len(), calls), (219, 3), "{tool}");
        assert!(many > 10 && bytes < 219 * 160, "{tool}: {many} calls, {bytes} bytes");
        if tool == "search" {
            let said = client.good(tool, &args).text;
            assert!(said.lines().next().unwrap().contains("`detail` `list`"), "{said}");
        }
        let first = client.good(tool, &short);
        let of = if tool == "search" {
            &first.structured["results"]
        } else {
            &first.structured["data"]["data"]
        };
        assert!(of.as_array().unwrap().len() > 50, "{tool}");
    }
}
