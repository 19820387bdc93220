//! What another implementation's MCP adapter asks of a server of records, as it asks it: its
//! headers, its ways to write a list and a nested parameter. It reads the members that are checked
//! here and gives up where one is missing.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stile_testkit::client::Reply;

use super::records_kit::{Kit, refusal};

/// A server with two connections, and a token of a client that may see most of one stream.
struct Peer {
    kit: Kit,
    token: String,
}

const STREAM: &str = "/v1/streams/messages";

impl Peer {
    fn new() -> Self {
        let kit = Kit::new();
        let rows = |of: &str| -> Vec<Value> {
            (1..=12)
                .map(|at| {
                    json!({ "data": {
                        "id": format!("{of}{at}"), "sent_at": format!("2026-{at:02}-01T12:00:00Z"), "size": at * 10,
                        "author": if at % 3 == 0 { json!(null) } else { json!("ann") }, "body": "Ferns and frost. ".repeat(400),
                        "answers": format!("{of}{}", at / 2), "secret": "hidden",
                    } })
                })
                .collect()
        };
        kit.ingest("messages", "chat", &rows("m"));
        kit.ingest("messages", "mail", &rows("n"));
        let declare = |kit: &Kit| {
            let of = ["declare", "--connection", "chat", "--stream", "messages"];
            let mut declared: Value =
                serde_json::from_str(&kit.said(&[&of[..], &["--show"]].concat())).unwrap();
            declared["relationships"] = json!([
                { "name": "replies", "stream": "messages", "foreign_key": "answers", "cardinality": "has_many" },
                { "name": "parent", "stream": "messages", "foreign_key": "answers", "cardinality": "has_one" },
            ]);
            declared["query"]["expand"] =
                json!([{ "name": "replies", "max_limit": 5 }, { "name": "parent" }]);
            declared["views"] =
                json!([{ "id": "short", "label": "Short", "fields": ["id", "size"] }]);
            let file = kit.folder.path().join("declared.json");
            std::fs::write(&file, declared.to_string()).unwrap();
            kit.said(&[&of[..], &["--from", file.to_str().unwrap()]].concat());
        };
        declare(&kit);
        let fields = ["id", "sent_at", "size", "author", "body", "answers"];
        let fields: Vec<&str> = fields.iter().flat_map(|field| ["--field", field]).collect();
        let (_, token) = kit.client(&[&["--stream", "messages"], &fields[..]].concat());
        Self { kit, token }
    }

    /// Asks with the headers that the adapter sends, and checks what it needs of every answer.
    fn ask(&self, target: &str, token: &str) -> Reply {
        let headers = "Accept: application/json\r\nUser-Agent: @pdpp/mcp-server\r\n";
        let reply = self.kit.send("GET", target, token, headers, "");
        assert!(reply.header("content-type").unwrap().contains("application/json"), "{target}");
        let id = reply.header("x-request-id").expect("the adapter reads this name");
        assert!(!id.is_empty() && reply.header("request-id") == Some(id), "{target}");
        if reply.status >= 400 {
            let error = &reply.json()["error"];
            for member in ["type", "code", "message", "request_id"] {
                assert!(error[member].is_string(), "{target}: {error}");
            }
            assert_eq!(error["request_id"].as_str(), Some(id));
        }
        reply
    }

    fn get(&self, target: &str) -> Value {
        let reply = self.ask(target, &self.token);
        assert_eq!(reply.status, 200, "{target}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    fn refused(&self, target: &str) -> (u16, String) {
        refusal(&self.ask(target, &self.token))
    }
}

/// Whether a text is flags of the compact schema: its types, then what can be done with the field,
/// each once.
fn is_flags(flags: &str) -> bool {
    const TYPES: &[&str] = &["string", "number", "integer", "boolean", "array", "object", "null"];
    const KINDS: &[&str] = &["sum", "min", "max", "group_by", "group_by_time", "count_distinct"];
    let order = ["t", "eq", "r", "lex", "sem", "a"];
    let mut last = None;
    flags.split(',').all(|flag| {
        let (name, values) =
            flag.split_once('=').map_or((flag, None), |(name, values)| (name, Some(values)));
        let known = match name {
            "t" => TYPES,
            "r" => &["gte", "gt", "lte", "lt"],
            "a" => KINDS,
            _ => &[],
        };
        let fits = match values {
            Some(values) => {
                !known.is_empty() && values.split('|').all(|value| known.contains(&value))
            }
            None => known.is_empty(),
        };
        let at = order.iter().position(|own| *own == name);
        let later = at > last;
        last = at;
        fits && later
    }) && flags.starts_with("t=")
}

#[test]
fn the_schema_is_compact_or_describes_one_stream() {
    let peer = Peer::new();
    for target in
        ["/v1/schema?view=compact", "/v1/schema?view=compact&stream=messages&connection_id=chat"]
    {
        let schema = peer.get(target);
        assert_eq!((&schema["object"], &schema["detail"]), (&json!("schema"), &json!("compact")));
        assert_eq!(schema["bearer"]["token_kind"], "client");
        for connector in schema["connectors"].as_array().unwrap() {
            assert!(connector["granted_connections"][0]["connection_id"].is_string());
            for member in ["connector_id", "connector_key", "source", "stream_count"] {
                assert!(!connector[member].is_null(), "{member}");
            }
            let stream = &connector["streams"][0];
            assert_eq!(
                (&stream["name"], &stream["primary_key"]),
                (&json!("messages"), &json!(["id"]))
            );
            assert_eq!(
                (&stream["cursor_field"], &stream["expand_capabilities"]),
                (&json!("sent_at"), &json!([]))
            );
            let fields = stream["field_capabilities"].as_object().unwrap();
            assert!(fields.values().all(|flags| is_flags(flags.as_str().unwrap())), "{fields:?}");
            assert!(
                fields["size"]
                    .as_str()
                    .unwrap()
                    .starts_with("t=integer,eq,r=gte|gt|lte|lt,a=sum|min|max")
            );
            assert!(!fields.contains_key("secret"));
        }
    }
    let full = peer.get("/v1/schema?detail=full&stream=messages&connection_id=chat");
    let stream = &full["connectors"][0]["streams"][0];
    assert!(stream["schema"]["properties"]["body"].is_object());
    assert_eq!(
        stream["field_capabilities"]["size"]["aggregation"]["sum"],
        json!({ "declared": true, "usable": true })
    );
    assert_eq!(peer.refused("/v1/schema?detail=full").0, 400);
    let ambiguous = peer.ask("/v1/schema?detail=full&stream=messages", &peer.token);
    let error = &ambiguous.json()["error"];
    assert_eq!((ambiguous.status, &error["code"]), (409, &json!("ambiguous_schema_detail")));
    assert_eq!(
        error["available_connections"],
        json!([{ "connection_id": "chat" }, { "connection_id": "mail" }])
    );
    assert_eq!(error["retry_with"], "connection_id");
    assert_eq!(peer.refused(STREAM), (409, "ambiguous_connection".to_owned()));
    assert_eq!(peer.get(&format!("{STREAM}?connection_id=chat"))["object"], "stream_metadata");
}

#[test]
fn records_are_queried_with_repeated_and_nested_parameters() {
    let peer = Peer::new();
    let target = format!(
        "{STREAM}/records?limit=2&order=asc&fields=id&fields=size&filter%5Bauthor%5D=ann&filter%5Bsize%5D%5Bgte%5D=20&filter%5Bsize%5D%5Blt%5D=90&count=exact"
    );
    let mut page = peer.get(&target);
    assert_eq!(page["meta"]["count"], json!({ "kind": "exact", "value": 10 }));
    let mut seen = BTreeSet::new();
    loop {
        assert_eq!(page["object"], "list");
        assert!(
            page["has_more"].is_boolean()
                && page["meta"]["warnings"].is_array()
                && page["links"]["self"].is_string()
        );
        for record in page["data"].as_array().unwrap() {
            assert_eq!(
                (&record["object"], &record["stream"]),
                (&json!("record"), &json!("messages"))
            );
            assert!(record["connection_id"] == "chat" || record["connection_id"] == "mail");
            assert_eq!(record["connector_instance_id"], record["connection_id"]);
            assert!(record["emitted_at"].is_string() && record["data"].get("body").is_none());
            assert!(seen.insert(record["id"].as_str().unwrap().to_owned()));
        }
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        page = peer.get(&format!("{target}&cursor={cursor}"));
    }
    assert_eq!(seen.len(), 10);
    let sorted = peer.get(&format!("{STREAM}/records?sort=-sent_at&limit=1&connection_id=mail"));
    assert_eq!(sorted["data"][0]["id"], "n12");
    let clamped = peer.get(&format!("{STREAM}/records?limit=500"));
    assert_eq!(clamped["meta"]["warnings"][0]["code"], "limit_clamped");
    for (query, code) in [
        ("expand=replies", "invalid_request"),
        ("expand=replies&expand_limit%5Breplies%5D=3", "invalid_request"),
        ("view=short", "invalid_request"),
        ("sort=size", "invalid_sort"),
        ("nothing=1", "invalid_request"),
        ("cursor=x", "invalid_cursor"),
    ] {
        assert_eq!(
            peer.refused(&format!("{STREAM}/records?{query}")),
            (400, code.to_owned()),
            "{query}"
        );
    }
    assert_eq!(
        peer.refused(&format!("{STREAM}/records?fields=secret")),
        (403, "field_not_granted".to_owned())
    );
    assert_eq!(peer.refused("/v1/streams/other/records").0, 403);
}

#[test]
fn an_owner_expands_the_relationships_of_the_compact_schema() {
    let peer = Peer::new();
    let owner = peer.kit.owner.clone();
    let schema =
        peer.ask("/v1/schema?view=compact&stream=messages&connection_id=chat", &owner).json();
    let told = &schema["connectors"][0]["streams"][0]["expand_capabilities"];
    assert_eq!(
        (&told[0]["name"], &told[0]["usable"], &told[1]["cardinality"]),
        (&json!("replies"), &json!(true), &json!("has_one"))
    );
    let target = format!(
        "{STREAM}/records?connection_id=chat&filter%5Bid%5D=m3&expand=replies&expand=parent&expand_limit%5Breplies%5D=1&view=short"
    );
    let list = peer.ask(&target, &owner).json();
    let record = &list["data"][0];
    assert_eq!(record["data"], json!({ "id": "m3", "size": 30 }));
    let replies = &record["expanded"]["replies"];
    assert_eq!((&replies["object"], &replies["has_more"]), (&json!("list"), &json!(true)));
    assert_eq!(
        (&replies["data"][0]["id"], &record["expanded"]["parent"]["id"]),
        (&json!("m7"), &json!("m1"))
    );
    let one =
        peer.ask(&format!("{STREAM}/records/m1?connection_id=chat&expand=parent"), &owner).json();
    assert_eq!(one["expanded"], json!({ "parent": null }));
    let over =
        format!("{STREAM}/records?connection_id=chat&expand=replies&expand_limit%5Breplies%5D=6");
    assert_eq!(refusal(&peer.ask(&over, &owner)), (400, "invalid_expand".to_owned()));
}

#[test]
fn aggregates_have_every_member() {
    let peer = Peer::new();
    let ask = |query: &str| peer.get(&format!("{STREAM}/aggregate?{query}"));
    let members = [
        "object", "stream", "metric", "field", "filtered_record_count", "approximate", "group_by",
        "group_by_time", "granularity", "time_zone",
    ];
    for query in [
        "metric=count",
        "metric=sum&field=size",
        "metric=max&field=sent_at&connection_id=chat",
        "metric=count&group_by=author",
    ] {
        let told = ask(query);
        assert!(members.iter().all(|member| told.get(member).is_some()), "{told}");
        assert_eq!((&told["object"], &told["approximate"]), (&json!("aggregation"), &json!(false)));
    }
    assert_eq!(ask("metric=sum&field=size&connection_id=chat")["value"], 780);
    assert_eq!(ask("metric=max&field=sent_at")["value"], "2026-12-01T12:00:00Z");
    assert_eq!(ask("metric=count_distinct&field=author")["value"], 1);
    let groups = ask("metric=count&group_by=author&filter%5Bsize%5D%5Blte%5D=60&limit=1");
    assert_eq!(groups["groups"], json!([{ "key": "ann", "count": 8 }]));
    assert_eq!(
        (&groups["limit"], &groups["other_count"], &groups["filtered_record_count"]),
        (&json!(1), &json!(4), &json!(12))
    );
    let months =
        ask("metric=count&group_by_time=sent_at&granularity=quarter&time_zone=Europe%2FBerlin");
    assert_eq!(months["groups"][1], json!({ "key": "2026-04-01T00:00:00+02:00", "count": 6 }));
    let refused = |query: &str| peer.refused(&format!("{STREAM}/aggregate?{query}"));
    assert_eq!(refused("metric=sum&field=secret"), (403, "field_not_granted".to_owned()));
    assert_eq!(refused("metric=sum&field=author"), (400, "invalid_request".to_owned()));
    assert_eq!(refused("metric=count&field=size"), (400, "invalid_request".to_owned()));
}

#[test]
fn a_record_is_fetched_and_its_long_field_read_in_windows() {
    let peer = Peer::new();
    let record = peer.get(&format!("{STREAM}/records/m5?connection_id=chat&fields=id&fields=body"));
    assert_eq!(
        (&record["object"], &record["id"], &record["connection_id"]),
        (&json!("record"), &json!("m5"), &json!("chat"))
    );
    let body = record["data"]["body"].as_str().unwrap();
    let path = format!("{STREAM}/records/m5/field-window?connection_id=chat&field=body");
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let told = peer.get(&format!("{path}&offset_chars={offset}&limit_chars=4096"));
        assert_eq!(
            (&told["object"], &told["field"]["path"]),
            (&json!("field_window"), &json!("body"))
        );
        assert_eq!((&told["record_id"], &told["connection_id"]), (&json!("m5"), &json!("chat")));
        let window = &told["window"];
        for member in [
            "text", "total_chars", "start_chars", "end_chars", "limit_chars", "complete",
            "has_more", "next_offset_chars", "previous_offset_chars", "match_start_chars",
            "match_end_chars",
        ] {
            assert!(window.get(member).is_some(), "{member}");
        }
        text.push_str(window["text"].as_str().unwrap());
        match window["next_offset_chars"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(text, body);
    let found = peer.get(&format!("{path}&q=FROST&before_chars=4&after_chars=1&limit_chars=100"));
    assert_eq!(found["window"]["text"], "and frost.");
    assert_eq!(found["window"]["match_start_chars"], 10);
    for (query, status, code) in [
        ("field=secret", 403, "field_not_granted"),
        ("field=body&q=nowhere", 404, "query_not_found"),
        ("field=body&limit_chars=0", 400, "invalid_window"),
        ("field=", 400, "invalid_field_path"),
    ] {
        let target = format!("{STREAM}/records/m5/field-window?connection_id=chat&{query}");
        assert_eq!(peer.refused(&target), (status, code.to_owned()), "{query}");
    }
    assert_eq!(peer.refused(&format!("{STREAM}/records/none")), (404, "not_found".to_owned()));
}

#[test]
fn a_search_has_every_member_of_a_hit_and_leads_to_its_window() {
    let peer = Peer::new();
    let asked = |more: &str| peer.ask(&format!("/v1/search?q=frost{more}"), &peer.token).json();
    for streams in [
        "&streams=messages&streams=messages",
        "&streams=messages%2Cmessages",
        "&streams%5B%5D=messages",
        "",
    ] {
        let answer = asked(&format!("{streams}&limit=3"));
        assert_eq!(
            (&answer["object"], &answer["has_more"]),
            (&json!("list"), &json!(true)),
            "{streams}"
        );
        let hits = answer["data"].as_array().unwrap();
        assert_eq!(hits.len(), 3);
        for hit in hits {
            assert_eq!(hit["object"], "search_result");
            for member in [
                "stream", "record_key", "connection_id", "connector_id", "emitted_at", "record_url",
            ] {
                assert!(hit[member].is_string(), "{member}: {hit}");
            }
            assert_eq!(hit["matched_fields"], json!(["body"]));
            assert_eq!(hit["snippet"]["field"], "body");
            let excerpt = &hit["evidence_excerpts"][0];
            let told = (
                &excerpt["object"], &excerpt["field_path"], &excerpt["provenance"],
                &excerpt["truncated"],
            );
            assert_eq!(
                told,
                (&json!("evidence_excerpt"), &json!("body"), &json!("lexical_match"), &json!(true))
            );
            assert!(excerpt["preview_text"].as_str().unwrap().starts_with("Ferns and frost."));
            let read = &excerpt["read"];
            assert_eq!(
                (&read["object"], &read["method"]),
                (&json!("field_window_read"), &json!("GET"))
            );
            for member in ["stream", "record_id", "field", "connection_id"] {
                assert!(read[member].is_string(), "{member}: {read}");
            }
            let window = peer.ask(read["route"].as_str().unwrap(), &peer.token).json();
            assert!(window["window"]["text"].as_str().unwrap().starts_with("frost."));
            let record = peer.ask(hit["record_url"].as_str().unwrap(), &peer.token).json();
            assert_eq!(record["id"], hit["record_key"]);
        }
        for member in ["complete", "ranking_scope", "truncated"] {
            assert!(!answer["meta"]["recall"][member].is_null(), "{member}");
        }
        let cursor = answer["next_cursor"].as_str().unwrap();
        let next = asked(&format!("{streams}&limit=100&cursor={cursor}"));
        assert_eq!(
            (next["data"].as_array().unwrap().len(), &next["has_more"]),
            (21, &json!(false))
        );
        assert!(next.get("next_cursor").is_none());
    }
    assert_eq!(asked("&limit=500")["meta"]["warnings"][0]["code"], "limit_clamped");
    assert_eq!(asked("&connection_id=mail")["data"].as_array().unwrap().len(), 12);
    let refused = |target: &str| refusal(&peer.ask(target, &peer.token));
    assert_eq!(
        refused("/v1/search?q=x&streams=other"),
        (403, "grant_stream_not_allowed".to_owned())
    );
    assert_eq!(refused("/v1/search?q="), (400, "invalid_request".to_owned()));
    let page = peer.ask(&format!("{STREAM}/records?limit=1"), &peer.token).json();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(
        refused(&format!("/v1/search?q=frost&cursor={cursor}")),
        (400, "invalid_cursor".to_owned())
    );
}

#[test]
fn unknown_search_modes_are_not_found_and_an_invalid_token_is_challenged() {
    let peer = Peer::new();
    for mode in ["semantic", "hybrid"] {
        assert_eq!(
            peer.refused(&format!("/v1/search/{mode}?q=ferns&limit=5")),
            (404, "not_found".to_owned()),
            "{mode}"
        );
    }
    let reply = peer.ask("/v1/schema?view=compact", "not-a-token");
    assert_eq!(refusal(&reply), (401, "authentication_error".to_owned()));
    let told = reply.header("www-authenticate").unwrap();
    assert!(
        told.starts_with("Bearer ") && told.ends_with("/.well-known/oauth-protected-resource\""),
        "{told}"
    );
}

#[test]
fn an_owner_empties_a_stream_of_one_connection() {
    let peer = Peer::new();
    let delete = |target: &str, token: &str| peer.kit.send("DELETE", target, token, "", "");
    let all = format!("{STREAM}/records");
    assert_eq!(refusal(&delete(&all, &peer.token)), (403, "insufficient_scope".to_owned()));
    assert_eq!(refusal(&delete(&all, &peer.kit.owner)), (409, "ambiguous_connection".to_owned()));
    for _ in 0..2 {
        let reply = delete(&format!("{all}?connection_id=mail"), &peer.kit.owner);
        assert_eq!((reply.status, reply.body.len()), (204, 0));
    }
    assert_eq!(peer.get(&format!("{STREAM}/aggregate?metric=count"))["value"], 12);
    assert_eq!(peer.get(&format!("{STREAM}?connection_id=mail"))["object"], "stream_metadata");
}
