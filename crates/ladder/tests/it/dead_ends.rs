//! No dead ends: each kind of client reads everything, and uses nothing but what it is shown.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::operations::Operation;
use stile_testkit::chance::{Chance, scaled};

use super::Client;
use super::lines::{self, Next};
use super::records::json::J;
use super::records::model::{Grant, Stored, World, pick, some};
use super::records::oracle::{Answer, Oracle, Who};
use super::records::{OperationRequest, client, owner, words};
use super::walker::{CLASSES, Class, Walker, Way};
use super::worlds::{self, VisibleRecords, hostile, text};

/// Returns the records that a search must find, by a slow oracle. `None` if it must be refused.
fn found(world: &World, grant: Option<&Grant>, q: &str) -> Option<BTreeSet<String>> {
    let who = grant.map_or(Who::Owner, Who::Client);
    let ask = OperationRequest {
        operation: Operation::Search.declaration(),
        stream: String::new(),
        key: String::new(),
        pairs: vec![("q".into(), q.into())],
    };
    let Ok(Answer::List(list)) = (Oracle { world, who }).answer(&ask) else { return None };
    let name = |hit: &J, name: &str| hit.get(name).text().unwrap().to_owned();
    let ids = list.rows.iter().map(|hit| {
        let id = stile_domain::records::record_id::RecordId {
            connection: Some(name(hit, "connection_id")),
            stream: name(hit, "stream"),
            key: name(hit, "record_key"),
        };
        id.to_string()
    });
    Some(ids.collect())
}

/// Reads a world as one caller, in each of the three ways.
fn walk(
    chance: &mut Chance,
    services: &RecordService,
    world: &World,
    grant: Option<&Grant>,
    q: &str,
) {
    let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
    let (client, visible) = (Client::new(services, caller), VisibleRecords::of(world, grant));
    let streams: BTreeSet<&str> =
        super::seen(world, grant).map(|source| source.stream.as_str()).collect();
    for class in CLASSES {
        let walker = Walker { client: &client, visible: &visible, class };
        for stream in &streams {
            let mut args = json!({ "stream": stream, "limit": some(chance, &[1, 3, 25, 100]) });
            if chance.happens(30) {
                args["order"] = "asc".into();
            }
            let ids: BTreeSet<String> = walker.list("query_records", &args).into_iter().collect();
            assert_eq!(ids, visible.of_stream(stream), "{class:?}");
            let args = json!({ "stream": stream, "changes_since": "beginning", "limit": some(chance, &[1, 25, 100]) });
            let ids: BTreeSet<String> = walker.list("query_records", &args).into_iter().collect();
            assert_eq!(ids, visible.of_stream(stream), "{class:?}, as changes");
        }
        let args = json!({ "q": q, "limit": some(chance, &[1, 3, 25, 100]) });
        if let Some(found) = found(world, grant, q) {
            let ids: BTreeSet<String> = walker.list("search", &args).into_iter().collect();
            assert_eq!(ids, found, "{class:?} {q}");
            walker.windows_of("search", &args);
        } else {
            client.refused("search", &args);
        }
        let ids: Vec<&str> = visible.ids().collect();
        for _ in 0..ids.len().min(3) {
            walker.record(some(chance, &ids));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(scaled(4, 2000)).unwrap(),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_kind_of_client_reads_everything_it_may_see(seed in any::<u64>()) {
        let mut chance = Chance::of(seed);
        let world = World::random(&mut chance);
        let mut grant = |at| Grant::random(&mut chance, &format!("grt_{at}"));
        let grants = [grant(0), grant(1)];
        let stored = Stored::new(&mut chance, &world, &grants);
        for grant in std::iter::once(None).chain(grants.iter().map(Some)) {
            let source = some(&mut chance, &world.sources);
            let q = words(&mut chance, source.records.values().next(), &|_| true);
            let q = if q.is_empty() { "a" } else { &q };
            walk(&mut chance, &stored.services, &world, grant, q);
        }
    }

    #[test]
    fn every_kind_of_client_reads_hostile_worlds_completely(seed in any::<u64>()) {
        let mut chance = Chance::of(seed);
        let most = some(&mut chance, &[20_000, 20_000, 20_000, 200_000]);
        let world = hostile(&mut chance, most);
        let records = world.sources.iter().flat_map(|source| source.records.values());
        let names: BTreeSet<&str> = records
            .flat_map(|record| record.fields.iter().map(|(name, _)| name.as_str()))
            .collect();
        let some_names: Vec<&str> =
            names.into_iter().filter(|_| chance.happens(60)).collect();
        let sources: Vec<_> = world.sources.iter().skip(1).collect();
        let mut grants = Vec::new();
        if !some_names.is_empty() {
            grants.push(worlds::grant("grt_some", &sources, &some_names));
        }
        let stored = Stored::new(&mut chance, &world, &grants);
        for grant in std::iter::once(None).chain(grants.iter().map(Some)) {
            let q = pick(&mut chance, &["word", "a", "中", "before", "next fetch", "x*"]);
            walk(&mut chance, &stored.services, &world, grant, q);
        }
    }
}

/// Makes a world with one record.
fn one(key: &str, fields: RecordFields) -> (World, Stored) {
    let world =
        World { sources: vec![worlds::stream("a-mail", "notes", vec![(key.to_owned(), fields)])] };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    (world, stored)
}

#[test]
fn a_record_of_three_thousand_fields_is_read_completely() {
    let fields = (0..3000).map(|at| (format!("field {at}"), text(format!("value {at}")))).collect();
    let (world, stored) = one("many", fields);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    for class in CLASSES {
        let walker = Walker { client: &client, visible: &visible, class };
        walker.record("a-mail/notes:many");
        walker.list("query_records", &json!({ "stream": "notes" }));
    }
}

#[test]
fn all_requested_fields_are_read_and_no_others() {
    let fields = (0..400)
        .map(|at| (format!("field {at}"), text(format!("value {at}").repeat(100))))
        .collect();
    let (world, stored) = one("many", fields);
    let (client, visible) =
        (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
    let id = "a-mail/notes:many";
    for count in [50, 300] {
        let only: Vec<String> = (0..count).map(|at| format!("field {at}")).collect();
        let set: BTreeSet<String> = only.iter().cloned().collect();
        let args = json!({ "id": id, "fields": only });
        let walker = |class| Walker { client: &client, visible: &visible, class };
        for (class, way) in
            [(Class::Text, Way::Text(args.clone())), (Class::Structured, Way::Structure(args))]
        {
            // If the names are too long to repeat, the call reads the whole record.
            walker(class).record_has(id, way, &set, count == 50);
        }
        let args = json!({ "stream": "notes", "fields": only });
        let listed = client.good("query_records", &args);
        let more = &listed.structured["content_ladder"]["more_fields"][0]["read"]["args"];
        // The row has room for some fields only, so the call reads all from the first one on.
        walker(Class::Structured).record_has(id, Way::Structure(more.clone()), &set, count == 50);
    }
}

#[test]
fn a_long_text_is_read_from_its_middle_to_both_ends() {
    for unit in ["word 中 ", "\u{1}", "👩‍👧", "\"", "\n"] {
        let long: String = unit.chars().cycle().take(200_000).collect();
        let (world, stored) =
            one("long", vec![("text".to_owned(), text(long)), ("t".to_owned(), FieldValue::Null)]);
        let (client, visible) =
            (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
        for class in CLASSES {
            let walker = Walker { client: &client, visible: &visible, class };
            walker.record("a-mail/notes:long");
        }
        // Reads again with the longest windows.
        let (mut read, mut args) = (
            String::new(),
            json!({ "id": "a-mail/notes:long", "field_path": "text", "limit_chars": 16_384 }),
        );
        loop {
            let window = client.good("read_record_field", &args).structured["window"].clone();
            read += window["text"].as_str().unwrap();
            let Some(cursor) = window["next_cursor"].as_str() else { break };
            args = json!({ "id": "a-mail/notes:long", "field_path": "text", "cursor": cursor, "limit_chars": 16_384 });
        }
        assert!(visible.field("a-mail/notes:long", "text").text() == Some(&read));
    }
}

#[test]
fn a_search_hit_leads_to_the_text_around_the_match() {
    for before in [0, 30, 80, 81, 5000] {
        let value = format!("{}needle {}", "中 ".repeat(before / 2), "after ".repeat(1000));
        let fields = vec![
            ("text".to_owned(), text(value.clone())),
            ("title".to_owned(), text(value.clone())),
        ];
        let (world, stored) = one("k", fields);
        let (client, visible) =
            (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
        let args = json!({ "q": "NEEDLE" });
        let answer = client.good("search", &args);
        let windows = answer.structured["results"][0]["match_windows"].as_array().unwrap().clone();
        assert_eq!(windows.len(), 2);
        for window in windows {
            let start = usize::try_from(window["start_chars"].as_u64().unwrap()).unwrap();
            let preview = window["preview_text"].as_str().unwrap();
            assert!(value.chars().skip(start).collect::<String>().starts_with(preview));
            assert_eq!(window["end_chars"], start + preview.chars().count());
            let read = client.good("read_record_field", &window["read"]["args"]).structured;
            assert!(
                read["window"]["text"].as_str().unwrap().starts_with("needle after"),
                "{before}: {window}"
            );
        }
        for class in CLASSES {
            Walker { client: &client, visible: &visible, class }.windows_of("search", &args);
        }
        answer.links.iter().for_each(|link| {
            Walker { client: &client, visible: &visible, class: CLASSES[2] }.follow(link)
        });
    }
}

#[test]
fn a_hit_in_a_short_text_says_how_much_is_missing() {
    for (before, after) in [
        (0, 10),
        (41, 60),
        (59, 38),
        (80, 5),
        (80, 100),
        (80, 230),
        (30, 190),
        (60, 200),
        (300, 10),
    ] {
        let value = format!("{} needle {}", "é".repeat(before), "z".repeat(after));
        let size = value.chars().count();
        let fields = [
            ("author".to_owned(), text("a needle at the front".to_owned())),
            ("body".to_owned(), text(value.clone())),
            ("notes".to_owned(), text(format!("another needle {}", "n ".repeat(400)))),
        ];
        for kept in [&fields[..], &fields[1..2], &fields[1..]] {
            let (world, stored) = one("k", kept.to_vec());
            let (client, visible) =
                (Client::new(&stored.services, owner()), VisibleRecords::of(&world, None));
            let args = json!({ "q": "needle" });
            for class in CLASSES {
                Walker { client: &client, visible: &visible, class }.windows_of("search", &args);
            }
            let said = client.good("search", &args).text;
            assert_eq!(said.contains("\"field_path\":\"notes\""), kept.len() > 1, "{said}");
            if kept.len() > 1 {
                continue;
            }
            if size <= 200 {
                assert!(
                    said.contains(&format!("{} complete", Json::from(value.as_str()))),
                    "{said}"
                );
            } else {
                let range = said.split_once("chars=").unwrap().1.split_once(' ').unwrap().0;
                let (start, end) = range.split_once("..").unwrap();
                let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
                let shown: String = value.chars().skip(start).take(end - start).collect();
                assert!(said.contains(&Json::from(shown).to_string()), "{said}");
                // If only the text lacks something, the next call begins at offset 0.
                assert_eq!(said.contains("\"offset_chars\":0} ("), size <= 320, "{said}");
            }
        }
    }
}

/// Lists all names that `schema` shows, from the texts and from the structures.
fn schema(client: &Client, args: &Json) -> [Vec<String>; 2] {
    let (mut said, mut asked) = (Vec::new(), Some(args.clone()));
    while let Some(args) = asked {
        let text = client.good("schema", &args).text;
        asked = None;
        for line in lines::of(&text).skip(1) {
            match Next::parse(line) {
                Some(next) => asked = next.args(&args),
                _ if line.starts_with("  ") => {
                    let (name, _) = lines::json_at_start(line.trim_start()).unwrap();
                    said.push(name.as_str().unwrap().to_owned());
                }
                _ if args.get("stream").is_some() => {}
                _ => {
                    let (name, rest) =
                        lines::json_at_start(line.strip_prefix("stream=").unwrap()).unwrap();
                    let connection =
                        rest.strip_prefix(" connection_id=").unwrap().split(' ').next().unwrap();
                    said.push(format!("{connection}/{}", name.as_str().unwrap()));
                }
            }
        }
    }
    let (mut answered, mut asked) = (Vec::new(), Some(args.clone()));
    while let Some(args) = asked {
        let structured = client.good("schema", &args).structured;
        for stream in structured["streams"].as_array().unwrap() {
            match args.get("stream") {
                Some(_) => answered.extend(stream["fields"].as_object().unwrap().keys().cloned()),
                None => {
                    let connection = stream["connections"][0]["connection_id"].as_str().unwrap();
                    answered.push(format!("{connection}/{}", stream["name"].as_str().unwrap()));
                }
            }
        }
        asked = structured["next_cursor"]
            .as_str()
            .map(|cursor| super::with(&args, json!({ "cursor": cursor })));
    }
    [said, answered]
}

#[test]
fn a_schema_is_listed_completely() {
    let fields: Vec<String> = (0..5000)
        .map(|at| format!("field {at:04}"))
        .chain(["\u{1}".repeat(512), "中".repeat(170)])
        .collect();
    let mut wide = worlds::stream("a-mail", "wide", Vec::new());
    wide.decl.fields = fields.iter().map(|name| worlds::text_field(name)).collect();
    let mut sources = vec![wide];
    sources
        .extend((0..500).map(|at| worlds::stream("Zeta", &format!("stream-{at:03}"), Vec::new())));
    let world = World { sources };
    let stored = Stored::new(&mut Chance::of(1), &world, &[]);
    let client = Client::new(&stored.services, owner());
    let streams: BTreeSet<String> = world
        .sources
        .iter()
        .map(|source| format!("{}/{}", source.connection, source.stream))
        .collect();
    for list in schema(&client, &json!({})) {
        assert_eq!(list.len(), streams.len());
        assert_eq!(list.into_iter().collect::<BTreeSet<_>>(), streams);
    }
    for list in schema(&client, &json!({ "stream": "wide" })) {
        assert_eq!(list.len(), fields.len());
        assert_eq!(list.into_iter().collect::<BTreeSet<_>>(), fields.iter().cloned().collect());
    }
}
