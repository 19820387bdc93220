//! Tests of declarations: accepted ones, refused ones, and the messages for the latter.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn messages() -> Json {
    json!({
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "sent_at": { "type": "string", "format": "date-time" },
                "seen_on": {
                    "anyOf": [{ "type": "string", "format": "date" }, { "type": "null" }]
                },
                "text": { "type": ["string", "null"], "description": "What was said." },
                "size": { "type": "integer" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "anything": true
            },
            "required": ["id"]
        },
        "primary_key": ["id"],
        "cursor_field": "sent_at",
        "consent_time_field": "sent_at",
        "semantics": "append_only",
        "views": [{ "id": "short", "fields": ["id"] }],
        "query": {
            "range_filters": { "sent_at": ["gte", "lt"], "size": ["gt"] },
            "search": { "lexical_fields": ["text", "anything"], "semantic_fields": [] },
            "aggregations": {
                "count": true, "sum": ["size"], "max": ["size", "sent_at"], "group_by": ["text"]
            },
            "expand": []
        }
    })
}

fn summary(field: &DeclaredField) -> String {
    let types: Vec<&str> = field.types.iter().map(JsonType::name).collect();
    let format = field.format.map_or(String::new(), |format| format!(" {}", format.name()));
    let mut flags = Vec::new();
    flags.extend(field.filterable.then_some("eq"));
    flags.extend(field.operators.iter().map(|operator| operator.name()));
    flags.extend(field.searchable.then_some("lex"));
    flags.extend(field.aggregations.iter().map(|kind| kind.name()));
    format!("{}: {}{format} [{}]\n", field.name, types.join("|"), flags.join(","))
}

#[test]
fn a_declaration_states_the_queries_each_field_allows() {
    let declaration = Declaration::parse(&messages()).unwrap();
    insta::assert_snapshot!(declaration.fields().iter().map(summary).collect::<String>(), @r"
    id: string [eq]
    sent_at: string date-time [eq,gte,lt,max]
    seen_on: string|null date [eq]
    text: string|null [eq,lex,group_by]
    size: integer [eq,gt,sum,max]
    tags: array [eq]
    anything: string|number|integer|boolean|array|object|null [lex]
    ");
    assert_eq!(declaration.to_json(), messages());
    assert_eq!(declaration.primary_key(), ["id"]);
    assert_eq!(declaration.required(), ["id"]);
    assert_eq!(declaration.cursor_field(), Some("sent_at"));
    assert_eq!(declaration.consent_time_field(), Some("sent_at"));
    assert_eq!(declaration.semantics(), Semantics::AppendOnly);
    assert_eq!(declaration.schema()["type"], "object");
    assert_eq!(declaration.member("views").unwrap()[0]["id"], "short");
    assert!(
        declaration
            .field("size")
            .is_some_and(|size| size.is_range_filterable() && size.is_aggregatable())
    );
    assert!(declaration.field("nothing").is_none());
}

#[test]
fn listed_exact_filters_replace_the_default() {
    let mut json = messages();
    json["query"]["exact_filters"] = json!(["size"]);
    let declaration = Declaration::parse(&json).unwrap();
    let filterable: Vec<_> = declaration
        .fields()
        .iter()
        .filter(|field| field.filterable)
        .map(|field| &field.name)
        .collect();
    assert_eq!(filterable, ["size"]);
}

#[test]
fn a_declaration_error_names_the_wrong_member() {
    let cases = [
        ("/primary_key", json!(["nothing"])),
        ("/primary_key", json!(["id", "id"])),
        ("/primary_key", json!(["tags"])),
        ("/primary_key", json!("id")),
        ("/primary_key", json!([1])),
        ("/cursor_field", json!("tags")),
        ("/cursor_field", json!(["id"])),
        ("/consent_time_field", json!("text")),
        ("/semantics", json!("both")),
        ("/schema", json!(null)),
        ("/schema/type", json!("array")),
        ("/schema/properties", json!([])),
        ("/schema/properties/text", json!("string")),
        ("/schema/properties/text", json!({ "type": "text" })),
        ("/schema/properties/text", json!({ "type": [] })),
        ("/schema/required", json!(["nothing"])),
        ("/query", json!([])),
        ("/query/search", json!([])),
        ("/query/search/lexical_fields", json!(["size"])),
        ("/query/exact_filters", json!(["anything"])),
        ("/query/range_filters", json!({ "text": ["gte"] })),
        ("/query/range_filters", json!({ "size": ["over"] })),
        ("/query/range_filters", json!({ "nothing": ["gte"] })),
        ("/query/range_filters", json!(["size"])),
        ("/query/aggregations", json!({ "sum": ["text"] })),
        ("/query/aggregations", json!({ "group_by_time": ["size"] })),
        ("/query/aggregations", json!(true)),
    ];
    let mut lines = String::new();
    for (pointer, value) in cases {
        let mut json = messages();
        json["query"]["exact_filters"] = json!([]);
        *json.pointer_mut(pointer).unwrap() = value;
        lines += &format!("{}\n", Declaration::parse(&json).unwrap_err());
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn a_declaration_is_bounded() {
    let properties = |count: usize| -> Json {
        (0..count).map(|at| (format!("f{at}"), json!({}))).collect::<Map<_, _>>().into()
    };
    let with =
        |properties: Json| Declaration::parse(&json!({ "schema": { "properties": properties } }));
    assert_eq!(with(properties(MAX_FIELDS)).unwrap().fields().len(), MAX_FIELDS);
    assert_eq!(
        with(properties(MAX_FIELDS + 1)).unwrap_err().fault,
        DeclarationFault::TooManyFields
    );
    assert_eq!(with(json!({ "": {} })).unwrap_err().fault, DeclarationFault::BadFieldName);
    let large = json!({ "schema": { "properties": {}, "description": "x".repeat(MAX_BYTES) } });
    assert_eq!(Declaration::parse(&large).unwrap_err().fault, DeclarationFault::TooLarge);
    assert!(
        Declaration::parse(&json!({ "schema": { "properties": {} } }))
            .unwrap()
            .primary_key()
            .is_empty()
    );
}

proptest! {
    #[test]
    fn any_json_in_any_member_is_accepted_unchanged_or_refused(
        member in prop::sample::select(vec![
            "/schema", "/schema/properties", "/schema/properties/id", "/schema/required",
            "/primary_key", "/query", "/cursor_field", "/consent_time_field", "/query/search",
            "/query/range_filters", "/query/aggregations/sum", "/query/aggregations",
        ]),
        value in prop::sample::select(vec![
            json!(null), json!(1), json!("id"), json!([]), json!({}), json!(["id"]), json!([[]]),
            json!({ "id": 1 }), json!(true),
        ]),
    ) {
        let mut json = messages();
        *json.pointer_mut(member).unwrap() = value;
        if let Ok(declaration) = Declaration::parse(&json) {
            prop_assert_eq!(declaration.to_json(), json);
        }
    }
}

fn related() -> Json {
    let mut json = messages();
    json["relationships"] = json!([
        {
            "name": "replies", "stream": "messages", "foreign_key": "answers",
            "cardinality": "has_many"
        },
        { "name": "author", "stream": "people", "foreign_key": "text", "cardinality": "has_one" },
        { "name": "files", "stream": "files", "foreign_key": "of", "cardinality": "has_many" },
    ]);
    json["query"]["expand"] =
        json!([{ "name": "replies", "default_limit": 3, "max_limit": 20 }, { "name": "author" }]);
    json
}

#[test]
fn only_relationships_that_the_query_lists_can_be_expanded() {
    let declaration = Declaration::parse(&related()).unwrap();
    let relations: Vec<(&str, &str, Option<ExpandLimits>)> = declaration
        .relations()
        .iter()
        .map(|relation| (relation.name.as_str(), relation.cardinality(), relation.many))
        .collect();
    assert_eq!(
        relations,
        [
            ("replies", "has_many", Some(ExpandLimits { default: 3, most: 20 })),
            ("author", "has_one", None)
        ]
    );
    assert_eq!(
        (declaration.view("short"), declaration.view("long")),
        (Some(&["id".to_owned()][..]), None)
    );
    for (expand, limits) in [
        (json!({}), (10, 50)),
        (json!({ "max_limit": 4 }), (4, 4)),
        (json!({ "default_limit": 30 }), (30, 50)),
    ] {
        let mut json = related();
        json["query"]["expand"] = json!([{ "name": "files" }]);
        json["query"]["expand"][0]
            .as_object_mut()
            .unwrap()
            .extend(expand.as_object().unwrap().clone());
        let (default, most) = limits;
        assert_eq!(
            Declaration::parse(&json).unwrap().relations()[0].many,
            Some(ExpandLimits { default, most })
        );
    }
}

#[test]
fn wrong_views_and_relationships_are_refused_but_dropped_when_stored() {
    let mut lines = Vec::new();
    for (pointer, wrong) in [
        ("/views", json!({})),
        ("/views", json!(["short"])),
        ("/views", json!([{ "fields": [] }])),
        ("/views", json!([{ "id": "", "fields": [] }])),
        ("/views", json!([{ "id": "a" }])),
        ("/views", json!([{ "id": "a", "fields": ["nothing"] }])),
        ("/views", json!([{ "id": "a", "fields": [] }, { "id": "a", "fields": [] }])),
        ("/relationships", json!("replies")),
        ("/relationships/0/name", json!("a,b")),
        ("/relationships/0/stream", json!("a/b")),
        ("/relationships/0/stream", json!(null)),
        ("/relationships/0/foreign_key", json!("")),
        ("/relationships/0/cardinality", json!("many")),
        ("/relationships/1/foreign_key", json!("nothing")),
        ("/relationships/1/foreign_key", json!("tags")),
        ("/relationships/1/name", json!("replies")),
        ("/query/expand", json!({ "name": "replies" })),
        ("/query/expand/0/name", json!("nobody")),
        ("/query/expand/1/name", json!("replies")),
        ("/query/expand/0/max_limit", json!(0)),
        ("/query/expand/0/max_limit", json!(101)),
        ("/query/expand/0/default_limit", json!(21)),
        ("/query/expand/0/default_limit", json!("3")),
    ] {
        let mut json = related();
        *json.pointer_mut(pointer).unwrap() = wrong.clone();
        lines.push(format!("{pointer} {wrong}: {}", Declaration::parse(&json).unwrap_err()));
        let stored = Declaration::parse_stored(&json).unwrap();
        assert!(stored.relations().is_empty() || stored.view("short").is_none());
        assert_eq!(stored.to_json(), json);
    }
    insta::assert_snapshot!(lines.join("\n"));
}
