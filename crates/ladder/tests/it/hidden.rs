//! Two databases that differ only in what a grant hides give a client of the ladder the same
//! answers.
//!
//! Sealed texts are compared by length, and used in both.

use serde_json::{Map, Value as Json, json};
use stile_domain::records::record_id::RecordId;
use stile_ladder::RECORD_TOOLS;
use stile_testkit::chance::{Chance, scaled, seed};
use stile_tools::tool::ToolEntry;
use stile_tools::toolset::ResourceContent;

use super::records::home::Home;
use super::records::model::{Grant, OPS, World};
use super::records::pair::Pair;
use super::records::{OperationRequest, client, draw, read_operations};
use super::{Client, with};

/// Converts a request of `/v1` to the equivalent tool call.
fn call(ask: &OperationRequest) -> Option<(&'static str, Json)> {
    let mut args = Map::new();
    for (name, value) in &ask.pairs {
        if let Some(field) = name.strip_prefix("filter[").and_then(|rest| rest.strip_suffix(']')) {
            let (field, condition) = match field.rsplit_once("][") {
                Some((field, op)) if OPS.contains(&op) => (field, json!({ op: value })),
                Some((field, "in")) => (field, json!([value, "a"])),
                Some((field, "exists")) => (field, json!({ "exists": value == "true" })),
                _ => (field, json!(value)),
            };
            let filter = args.entry("filter").or_insert_with(|| json!({}));
            // A request may also have a parameter `filter` without a field, which is no object.
            if !filter.is_object() {
                *filter = json!({});
            }
            filter[field] = condition;
            continue;
        }
        let number = value.parse::<u64>().ok().map(Json::from);
        if name == "group_by" {
            let fields = args.entry("group_by").or_insert_with(|| json!([]));
            fields.as_array_mut().unwrap().push(json!(value));
            continue;
        }
        args.insert(name.trim_end_matches("[]").to_owned(), number.unwrap_or_else(|| json!(value)));
    }
    for list in ["fields", "streams"] {
        if let Some(names) = args.get_mut(list) {
            *names = names.as_str().unwrap_or_default().split(',').collect();
        }
    }
    let tool = match ask.operation.id {
        "getSchema" => "schema",
        "search" => "search",
        "listRecords" => "query_records",
        "aggregateRecords" => "aggregate",
        "getRecord" => "fetch",
        "getFieldWindow" => "read_record_field",
        _ => return None,
    };
    let connection = args.get("connection_id").and_then(Json::as_str).map(str::to_owned);
    match tool {
        "query_records" | "aggregate" => {
            drop(args.insert("stream".to_owned(), ask.stream.clone().into()))
        }
        "fetch" | "read_record_field" => {
            let id = RecordId { connection, stream: ask.stream.clone(), key: ask.key.clone() };
            args.insert("id".to_owned(), id.to_string().into());
            args.remove("connection_id");
        }
        _ => {}
    }
    if let Some(field) = args.remove("field") {
        args.insert(
            if tool == "read_record_field" { "field_path" } else { "field" }.to_owned(),
            field,
        );
    }
    // Every other list is a short one.
    let is_list = matches!(tool, "search" | "query_records");
    if is_list && ask.pairs.len().is_multiple_of(2) {
        args.insert("detail".to_owned(), "list".into());
    }
    let definition = RECORD_TOOLS
        .iter()
        .map(ToolEntry::definition)
        .find(|definition| definition.name == tool)
        .unwrap();
    args.retain(|name, _| definition.input["properties"].get(name).is_some());
    Some((tool, Json::Object(args)))
}

/// Returns what a client sees, with each sealed text replaced by its length, and the sealed texts
/// with what precedes them.
fn observable(pair: &Pair, at: usize, seen: &str) -> (String, Vec<(bool, String)>) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let (mut plain, mut sealed, mut rest) = (String::new(), Vec::new(), seen);
    while let Some(start) = rest.find(is_part) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        plain += before;
        if word.len() > 40 && pair.stored[at].services.records.unseal(word).is_some() {
            let address = ["pdpp://record/", "pdpp://field-window/"]
                .into_iter()
                .find(|scheme| before.ends_with(scheme));
            sealed.push((address.is_some(), format!("{}{word}", address.unwrap_or_default())));
            plain += &format!("<{} characters>", word.len());
        } else {
            plain += word;
        }
        rest = after;
    }
    (plain + rest, sealed)
}

fn shown(answered: Result<ResourceContent, stile_tools::toolset::ResourceError>) -> String {
    match answered {
        Ok(content) => format!("{:?}", content),
        Err(error) => Json::Object(error.data).to_string(),
    }
}

#[test]
fn what_a_grant_hides_cannot_be_observed_on_the_ladder() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (mut answered, mut gone_on) = (0, 0);
    for _ in 0..scaled(12, 10_000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_same");
        let pair = Pair::new(&Home::chosen(), &mut chance, &world, &grant);
        let clients =
            [0, 1].map(|at| Client::new(&pair.stored[at].services, client("grt_same", "t1")));
        for operation in read_operations() {
            for _ in 0..10 {
                let about = if chance.happens(70) { &pair.world } else { &pair.twin };
                let Some((tool, args)) = call(&draw(&mut chance, about, Some(&grant), operation))
                else {
                    break;
                };
                let answered = [0, 1].map(|at| {
                    let answer = clients[at].call(tool, &args);
                    answered += usize::from(answer.failure.is_none());
                    observable(&pair, at, &format!("{answer:?}"))
                });
                assert_eq!(answered[0].0, answered[1].0, "{tool} {args}");
                let count = answered[0].1.len();
                assert_eq!(count, answered[1].1.len());
                for _ in 0..count.min(4) {
                    let which = chance.below(count);
                    let next = [0, 1].map(|at| {
                        let (is_address, text) = &answered[at].1[which];
                        let seen = match is_address {
                            true => shown(clients[at].read(text)),
                            false => {
                                let dropped = ["offset_chars", "q", "before_chars", "after_chars"];
                                let mut args = with(&args, json!({ "cursor": text }));
                                if tool == "read_record_field" {
                                    args.as_object_mut()
                                        .unwrap()
                                        .retain(|name, _| !dropped.contains(&name.as_str()));
                                }
                                format!("{:?}", clients[at].call(tool, &args))
                            }
                        };
                        observable(&pair, at, &seen).0
                    });
                    assert_eq!(next[0], next[1], "{tool} {args}");
                    gone_on += 1;
                }
            }
        }
    }
    println!("{answered} answers, {gone_on} times gone on");
    assert!(answered > 200 && gone_on > 60, "{answered} {gone_on}");
}
