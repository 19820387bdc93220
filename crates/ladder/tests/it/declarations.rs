//! Full declarations: the text and the structure each lead to the end of a declaration of any
//! length.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Called;
use serde_json::{Map, Value as Json, json};
use stile_domain::records::request::ReadRequest;
use stile_ladder::budget::Budgets;

use super::foreign::{Foreign, client};
use super::records::owner;
use super::{Client, lines, with};

/// Reads all pages of a declaration, by the text or by the structure.
fn pages(client: &Client, in_text: bool) -> Vec<Called> {
    let mut asked = Some(json!({ "stream": "notes", "detail": "full" }));
    let page = || {
        let args = asked.take()?;
        let answer = client.good("schema", &args);
        let cursor = answer.structured["next_cursor"]
            .as_str()
            .map(|cursor| with(&args, json!({ "cursor": cursor })));
        asked = if in_text { lines::next_arguments(&answer.text, &args) } else { cursor };
        Some(answer)
    };
    std::iter::from_fn(page).collect()
}

/// Collects the schemas of all fields, from the text or from the structure.
fn schemas(client: &Client, in_text: bool) -> Map<String, Json> {
    let mut all = Map::new();
    for answer in pages(client, in_text) {
        if !in_text {
            all.extend(answer.structured["streams"][0]["schemas"].as_object().unwrap().clone());
            continue;
        }
        for line in lines::of(&answer.text).filter(|line| line.starts_with("  ")) {
            let (name, rest) = lines::json_at_start(line.trim_start()).unwrap();
            let (_, schema) = rest.split_once(" schema=").unwrap();
            all.insert(name.as_str().unwrap().to_owned(), serde_json::from_str(schema).unwrap());
        }
    }
    all
}

#[test]
fn a_long_declaration_is_shown_field_by_field() {
    let schema = |at: usize| json!({ "type": "string", "description": format!("What field {at} means. {}", "x ".repeat(300)) });
    let name = |at: usize| format!("field_{at}");
    let all: Map<String, Json> = (0..80).map(|at| (name(at), schema(at))).collect();
    let compact: Map<String, Json> =
        all.keys().map(|name| (name.clone(), "t=string".into())).collect();
    let of = |stream: Json| {
        json!({ "connectors": [{ "connector_id": "chat", "streams": [stream] }] }).to_string()
    };
    let capabilities: Map<String, Json> =
        all.iter().map(|(name, schema)| (name.clone(), json!({ "schema": schema }))).collect();
    let by_capability = json!({ "name": "notes", "views": [{ "id": "short" }], "field_capabilities": capabilities });
    let by_schema =
        json!({ "name": "notes", "views": [{ "id": "short" }], "schema": { "properties": all } });
    for full in [by_capability, by_schema] {
        let (full, compact) =
            (of(full), of(json!({ "name": "notes", "field_capabilities": compact })));
        let client = client(move |ask| match ask.parameter("detail").is_some() {
            true => full.clone(),
            false => compact.clone(),
        });
        for in_text in [true, false] {
            assert_eq!(schemas(&client, in_text), all, "{in_text}");
        }
        let first = client.good("schema", &json!({ "stream": "notes", "detail": "full" }));
        assert!(
            first.text.contains(
                "full, but for its fields: {\"name\":\"notes\",\"views\":[{\"id\":\"short\"}]}"
            ),
            "{}",
            first.text
        );
        let rest = json!({ "name": "notes", "views": [{ "id": "short" }] });
        assert_eq!(
            first.structured["full_but_fields"].as_object().unwrap().get("views"),
            rest.get("views")
        );
    }
}

/// Collects the parts of the declaration's JSON; empty if it is shown in another form.
fn parts(client: &Client, in_text: bool) -> String {
    let (mut all, mut count) = (String::new(), 0);
    for answer in pages(client, in_text) {
        if !in_text {
            for part in answer.structured["full_parts"].as_array().into_iter().flatten() {
                count += 1;
                assert_eq!(part["part"], count);
                all += part["json"].as_str().unwrap();
            }
            continue;
        }
        for part in lines::of(&answer.text).filter_map(|line| line.strip_prefix("full, part ")) {
            count += 1;
            let (number, json) = part.split_once(": ").unwrap();
            assert!(number.starts_with(&format!("{count} of ")), "{number}");
            all += serde_json::from_str::<Json>(json).unwrap().as_str().unwrap();
        }
    }
    all
}

/// Makes a response with one stream.
fn of_stream(stream: &str) -> String {
    format!("{{\"connectors\":[{{\"connector_id\":\"chat\",\"streams\":[{stream}]}}]}}")
}

/// Makes a client of a server with these two forms of a stream.
fn declaring(compact: &Json, full: &str) -> Client {
    let (compact, full) = (of_stream(&compact.to_string()), of_stream(full));
    client(move |ask| (if ask.parameter("detail").is_some() { &full } else { &compact }).clone())
}

/// Makes a schema of about `bytes` bytes.
fn long(unit: &str, bytes: usize) -> Json {
    json!({ "type": "string", "description": unit.repeat(bytes / unit.len()) })
}

/// The form in which an answer shows a declaration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    Whole,
    Lines,
    Parts,
}

#[test]
fn a_declaration_of_any_length_is_read_completely() {
    use Shown::{Lines, Parts, Whole};
    let views = |count: usize| {
        (0..count).map(|at| json!({ "id": format!("view {at}") })).collect::<Vec<_>>()
    };
    let fields = |schema: Json| json!({ "body": { "schema": schema } });
    let many: Map<String, Json> =
        (0..90).map(|at| (format!("f{at}"), json!({ "schema": long("x", 500) }))).collect();
    let words = |names: &Map<String, Json>| {
        names.keys().map(|name| (name.clone(), json!("eq"))).collect::<Map<_, _>>()
    };
    let declared = |views: Vec<Json>, fields: Json| json!({ "name": "notes", "views": views, "field_capabilities": fields });
    let one = json!({ "body": "t=string" });
    // Too long to be shown whole in a text, but short enough field by field.
    let few: Map<String, Json> =
        (0..20).map(|at| (format!("g{at}"), json!({ "schema": long("x", 200) }))).collect();
    let beside = |name: &str, own: Json| {
        few.clone().into_iter().chain([(name.to_owned(), own)]).collect::<Json>()
    };
    let listed =
        |flags: Json| words(&few).into_iter().chain([("body".to_owned(), flags)]).collect::<Json>();
    let plain = listed(json!("eq"));
    let asking = |query: Json| {
        let mut stream = declared(views(3), beside("body", json!({ "schema": {} })));
        stream["query"] = query;
        stream
    };
    let twice = |own: &str| {
        let mut stream = declared(views(3), beside("body", json!({ "schema": long("x", 5) })));
        stream["schema"] = json!({ "properties": { "body": long(own, 5) } });
        stream
    };
    for (what, compact, full, in_text, in_structure) in [
        ("short", &one, declared(views(3), fields(long("x", 5))), Whole, Whole),
        ("one long field", &one, declared(views(3), fields(long("x", 5_000))), Parts, Whole),
        (
            "a longer one",
            &one,
            declared(views(3), fields(long("\u{1}\"\\\u{2028}👩‍👧", 40_000))),
            Parts,
            Parts,
        ),
        ("many views", &one, declared(views(300), fields(long("x", 5))), Parts, Whole),
        ("more views", &one, declared(views(3_000), fields(long("x", 5))), Parts, Parts),
        ("many fields", &json!(words(&many)), declared(views(3), json!(many)), Lines, Lines),
        (
            "some fields",
            &plain,
            declared(views(3), beside("body", json!({ "schema": {} }))),
            Lines,
            Whole,
        ),
        ("no field", &plain, declared(views(3), beside("body", json!("x"))), Parts, Whole),
        (
            "more of a field",
            &plain,
            declared(views(3), beside("body", json!({ "semantics": "x" }))),
            Parts,
            Whole,
        ),
        (
            "what is not usable",
            &plain,
            declared(
                views(3),
                beside(
                    "body",
                    json!({ "schema": {}, "exact_filter":
            { "declared": true, "usable": false } }),
                ),
            ),
            Parts,
            Whole,
        ),
        (
            "a query that lines say",
            &plain,
            asking(json!({ "exact_filters": vec!["body"; 500] })),
            Lines,
            Whole,
        ),
        (
            "a query that says more",
            &plain,
            asking(json!({ "exact_filters": vec!["body"; 500], "x": 1 })),
            Parts,
            Whole,
        ),
        (
            "not listed",
            &json!(words(&few)),
            declared(views(3), beside("body", json!({}))),
            Parts,
            Whole,
        ),
        (
            "flags that are no words",
            &listed(json!({ "x": 1 })),
            declared(views(3), beside("body", json!({}))),
            Parts,
            Whole,
        ),
        ("one schema twice", &plain, twice("x"), Lines, Whole),
        ("two schemas of one field", &plain, twice("y"), Parts, Whole),
        (
            "definitions",
            &one,
            json!({ "name": "notes", "schema": { "$defs": long("x", 4_500), "properties": {} } }),
            Parts,
            Whole,
        ),
        (
            "by properties",
            &one,
            json!({ "name": "notes", "schema": { "properties": { "body": long("中", 9_000) } } }),
            Parts,
            Whole,
        ),
    ] {
        let (declared, full) = (&full, full.to_string());
        let client = declaring(&json!({ "name": "notes", "field_capabilities": compact }), &full);
        let first = client.good("schema", &json!({ "stream": "notes", "detail": "full" }));
        let shown = first.structured["full"]["connectors"][0]["streams"][0].to_string();
        for (is_text, is_whole, how) in
            [(true, first.text.contains(&full), in_text), (false, shown == full, in_structure)]
        {
            let answered = parts(&client, is_text);
            assert_eq!(is_whole, how == Whole, "{what}: {}", first.text);
            assert_eq!(answered, if how == Parts { full.as_str() } else { "" }, "{what}");
            if how == Lines {
                let own = declared["field_capabilities"].as_object().unwrap().iter();
                let own: Map<String, Json> =
                    own.map(|(name, own)| (name.clone(), own["schema"].clone())).collect();
                assert_eq!(schemas(&client, is_text), own, "{what}");
                let rest = if is_text {
                    first.text.clone()
                } else {
                    first.structured["full_but_fields"].to_string()
                };
                assert!(rest.contains("\"views\":[{\"id\":\"view 0\"}"), "{what}: {rest}");
            }
        }
        assert!(
            !first.text.contains("left out") && first.structured["full_left_out_bytes"].is_null(),
            "{what}"
        );
    }
}

#[test]
fn what_is_not_a_field_is_shown_separately() {
    let fields: Map<String, Json> = (0..12).map(|at| (format!("f{at}"), long("x", 400))).collect();
    let compact: Map<String, Json> =
        fields.keys().map(|name| (name.clone(), json!("eq"))).collect();
    let full = json!({ "name": "notes", "primary_key": ["f1"], "schema": { "properties": fields, "required": ["f1"] } });
    let client =
        declaring(&json!({ "name": "notes", "field_capabilities": compact }), &full.to_string());
    let answered = client.good("schema", &json!({ "stream": "notes", "detail": "full" })).text;
    let rest = json!({ "name": "notes", "primary_key": ["f1"], "schema": { "required": ["f1"] } });
    assert!(answered.contains(&format!("full, but for its fields: {rest}")), "{answered}");
    assert_eq!(parts(&client, true), "");
}

#[test]
fn a_declaration_that_cannot_be_parsed_is_shown_as_sent() {
    let compact = json!({ "name": "notes", "field_capabilities": { "body": "eq" } });
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for odd in ["1e400", "0.12345678901234567890", &deep] {
        let full = format!(
            "{{ \"name\": \"notes\", \"field_capabilities\": {{ \"body\": {{ \"schema\": {{ \"maximum\": {odd} }} }} }} }}"
        );
        let client = declaring(&compact, &full);
        for in_text in [true, false] {
            let answered = parts(&client, in_text);
            assert_eq!(answered, full, "{odd}");
        }
    }
    let client = declaring(&compact, "{");
    assert_eq!(
        client.refused("schema", &json!({ "stream": "notes", "detail": "full" }))["code"],
        "provider_error"
    );
}

#[test]
fn changes_outside_the_fields_invalidate_cursors_of_parts_only() {
    let all: Map<String, Json> =
        (0..40).map(|at| (format!("f{at}"), json!({ "schema": long("x", 300) }))).collect();
    let compact: Map<String, Json> = all.keys().map(|name| (name.clone(), json!("eq"))).collect();
    let compact = of_stream(&json!({ "name": "notes", "field_capabilities": compact }).to_string());
    let asked = AtomicUsize::new(0);
    let client = client(move |ask| {
        if ask.parameter("detail").is_none() {
            return compact.clone();
        }
        let at = asked.fetch_add(1, Ordering::Relaxed);
        let full = json!({ "name": "notes", "captured_at": at, "semantics": "x".repeat(40_000), "field_capabilities": all });
        of_stream(&full.to_string())
    });
    let args = json!({ "stream": "notes", "detail": "full" });
    let (mut next, mut fields, mut refused) = (Some(args), 0, None);
    while let Some(asked) = next.take() {
        let answer = client.call("schema", &asked);
        if answer.failure.is_some() {
            refused = Some(answer.structured["error"].clone());
            break;
        }
        fields += lines::of(&answer.text).filter(|line| line.starts_with("  \"f")).count();
        next = lines::next_arguments(&answer.text, &asked);
    }
    assert_eq!((fields, refused.unwrap()["reason"].as_str()), (40, Some("mismatch")));
}

#[test]
fn a_declaration_keeps_to_the_smallest_budgets() {
    let name = "k".repeat(500);
    let mut all: Map<String, Json> =
        (0..900).map(|at| (format!("field {at}"), json!("eq"))).collect();
    all.insert(name.clone(), json!("eq"));
    let compact = json!({ "name": "notes", "primary_key": [name], "cursor_field": name, "field_capabilities": all });
    let full = json!({ "name": "notes", "field_capabilities": { "field 0": { "schema": long("x", 16_200) } } });
    let (compact, full) = (of_stream(&compact.to_string()), of_stream(&full.to_string()));
    let answer = move |ask: &ReadRequest| {
        (if ask.parameter("detail").is_some() { &full } else { &compact }).clone()
    };
    let budgets = Budgets { structured: Budgets::LEAST_STRUCTURED, ..Budgets::default() };
    let client = Client::within(budgets, Foreign(answer), owner());
    for args in [json!({ "stream": "notes" }), json!({ "stream": "notes", "detail": "full" })] {
        let answer = client.good("schema", &args);
        assert!(
            answer.structured.to_string().len() <= Budgets::LEAST_STRUCTURED,
            "{}",
            answer.structured
        );
        assert!(answer.text.len() <= 8192);
    }
    assert!(parts(&client, false).contains(&"x".repeat(16_000)));
}

#[test]
fn the_declaration_is_that_of_the_requested_connection() {
    let of = |id: &str, own: &str| json!({ "connector_id": id, "streams": [{ "name": "notes", "semantics": own.repeat(40_000) }] });
    let client = client(move |ask| {
        let compact = json!({ "connector_id": "b", "streams": [{ "name": "notes", "field_capabilities": {} }] });
        let all = if ask.parameter("detail").is_some() {
            vec![of("a", "x"), of("b", "y")]
        } else {
            vec![compact]
        };
        json!({ "connectors": all }).to_string()
    });
    let answered: Json = serde_json::from_str(&parts(&client, true)).unwrap();
    assert_eq!(answered, json!({ "name": "notes", "semantics": "y".repeat(40_000) }));
}

#[test]
fn members_beside_a_declaration_do_not_stop_its_parts() {
    let asked = AtomicUsize::new(0);
    let full =
        json!({ "name": "notes", "semantics": "x".repeat(20_000), "field_capabilities": {} })
            .to_string();
    let sent = full.clone();
    let client = client(move |ask| {
        if ask.parameter("detail").is_none() {
            return of_stream(&json!({ "name": "notes", "field_capabilities": {} }).to_string());
        }
        let at = asked.fetch_add(1, Ordering::Relaxed);
        format!(
            "{{\"took\":{at}.12345678901234567890,{}",
            of_stream(&sent).strip_prefix('{').unwrap()
        )
    });
    for in_text in [true, false] {
        assert_eq!(parts(&client, in_text), full);
    }
}
