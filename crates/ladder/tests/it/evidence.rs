//! What a search shows is evidence: titles and excerpts from the record, and for no hit which words
//! the caller's records have.

use serde_json::{Value as Json, json};
use stile_domain::records::value::FieldValue;
use stile_testkit::chance::Chance;

use super::Client;
use super::records::model::{FieldDecl, Stored, World};
use super::records::{client, owner};
use super::worlds::{self, text};

fn stored(records: &[(&str, &[(&str, &str)])]) -> (World, Stored) {
    let records = records.iter().map(|(key, fields)| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), text(*value)));
        ((*key).to_owned(), fields.collect())
    });
    let world = World { sources: vec![worlds::stream("a-mail", "notes", records.collect())] };
    let grant = worlds::grant("g", &[&world.sources[0]], &["body"]);
    let stored = Stored::new(&mut Chance::of(1), &world, &[grant]);
    (world, stored)
}

#[test]
fn a_title_is_a_field_or_the_beginning_of_the_text_and_never_the_time_of_import() {
    let (_, stored) = stored(&[
        ("named", &[("body", "ferns here"), ("subject", "About ferns")]),
        ("plain", &[("at", "2026-01-01T00:00:00Z"), ("body", "\n  Water the ferns.\nThen rest.")]),
        ("word", &[("body", "ferns")]),
    ]);
    let client = Client::new(&stored.services, owner());
    let hits = client.good("search", &json!({ "q": "ferns" })).structured;
    let hits = hits["results"].as_array().unwrap();
    let title = |key: &str| {
        let hit = hits.iter().find(|hit| hit["record_id"] == key).unwrap();
        hit["title"].as_str().unwrap().to_owned()
    };
    assert_eq!(title("named"), "About ferns");
    assert_eq!(title("plain"), "Water the ferns.");
    assert_eq!(title("word"), "notes");
    for hit in hits {
        let fetched = client.good("fetch", &json!({ "id": hit["id"] })).structured;
        assert_eq!(fetched["title"], hit["title"]);
    }
}

#[test]
fn a_search_without_hits_says_which_words_the_granted_records_have() {
    let (_, stored) = stored(&[
        ("a", &[("body", "water the ferns"), ("secret", "heron")]),
        ("b", &[("body", "water the moss"), ("secret", "heron")]),
    ]);
    let asked = json!({ "q": "ferns moss heron" });
    let answered = Client::new(&stored.services, client("g", "t")).good("search", &asked);
    let terms = json!([
        { "term": "ferns", "records": 1, "has_more": false },
        { "term": "moss", "records": 1, "has_more": false },
        { "term": "heron", "records": 0, "has_more": false },
    ]);
    assert_eq!(answered.structured["data"]["meta"]["terms"], terms);
    let line = "note: no record has all of these words: \"ferns\" in 1, \"moss\" in 1, \
                \"heron\" is in no searched field; try search {\"q\":\"ferns moss\"}";
    assert!(answered.text.contains(line), "{}", answered.text);
    let tried =
        Client::new(&stored.services, owner()).good("search", &json!({ "q": "ferns moss" }));
    assert!(tried.text.contains("try fewer or shorter words"), "{}", tried.text);
    let found = Client::new(&stored.services, owner()).good("search", &json!({ "q": "heron" }));
    assert_eq!(found.structured["data"]["meta"]["terms"], Json::Null);
}

#[test]
fn every_answer_about_words_says_which_granted_lists_and_objects_it_does_not_look_into() {
    let tags = FieldValue::Json(r#"["heron","moss"]"#.to_owned());
    let people = FieldValue::Json(r#"[{"name":"heron"}]"#.to_owned());
    let record = vec![
        ("body".to_owned(), text("ferns")),
        ("people".to_owned(), people),
        ("tags".to_owned(), tags),
    ];
    let mut source = worlds::stream("a-mail", "notes", vec![("a".to_owned(), record)]);
    let list = |name: &str, schema: Json| FieldDecl {
        name: name.to_owned(),
        schema,
        exact: false,
        ops: Vec::new(),
        lexical: false,
        aggregations: Vec::new(),
    };
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    for own in [list("tags", texts), list("people", json!({ "type": "array" }))] {
        let declared = source.decl.fields.iter_mut().find(|field| field.name == own.name);
        *declared.unwrap() = own;
    }
    let world = World { sources: vec![source] };
    let source = &world.sources[0];
    let grants = [
        worlds::grant("g", &[source], &["body", "tags", "people"]),
        worlds::grant("h", &[source], &["body"]),
    ];
    let stored = Stored::new(&mut Chance::of(1), &world, &grants);
    let ask = |grant: &str, tool: &str, asked: Json| {
        Client::new(&stored.services, client(grant, "t")).good(tool, &asked).text
    };
    for q in ["heron", "ferns"] {
        let count = json!({ "stream": "notes", "metric": "count", "q": q });
        let found = [("search", json!({ "q": q })), ("aggregate", count)];
        for (tool, asked) in found {
            let with = ask("g", tool, asked.clone());
            let left_out = "no search looks into the lists or objects of `people`, `tags`";
            assert!(with.contains(left_out), "{with}");
            let without = ask("h", tool, asked);
            let names = ["tags", "people", "looks into"];
            assert!(names.iter().all(|it| !without.contains(it)), "hidden fields: {without}");
        }
    }
    for grant in ["g", "h"] {
        let none = ask(grant, "search", json!({ "q": "heron" }));
        assert!(none.contains("\"heron\" is in no searched field"), "{none}");
    }
    let named = ask("g", "search", json!({ "q": "body:ferns" }));
    assert!(!named.contains("no search looks into"), "a term that names its field: {named}");
}

#[test]
fn a_search_that_excludes_every_record_says_so_and_names_one_that_excludes_none() {
    let (_, stored) = stored(&[("a", &[("body", "ferns and moss")])]);
    let client = Client::new(&stored.services, owner());
    let line = "note: no record has all of these words and none that `q` excludes: \"ferns\" in 1; \
                try search {\"q\":\"ferns\"}";
    let answered = client.good("search", &json!({ "q": "ferns -moss" }));
    assert!(answered.text.contains(line), "{}", answered.text);
    assert!(client.good("search", &json!({ "q": "ferns" })).text.contains("1 hit(s)"));
}

#[test]
fn an_excerpt_is_the_window_that_holds_most_of_the_words() {
    let far = "some other words. ".repeat(200);
    let near = format!("ferns alone. {far}In spring we water the ferns by the moss. {far}moss");
    let longest = format!("{near}{}", "and so on ".repeat(8000));
    let (_, stored) = stored(&[
        ("k", &[("a", "ferns"), ("body", near.as_str()), ("c", "moss and water")]),
        ("long", &[("body", longest.as_str())]),
    ]);
    let client = Client::new(&stored.services, owner());
    let hits = client.good("search", &json!({ "q": "ferns water moss" })).structured;
    for hit in hits["results"].as_array().unwrap() {
        let first = &hit["match_windows"][0];
        assert_eq!(first["field_path"], "body", "{hit}");
        let shown = first["preview_text"].as_str().unwrap();
        assert!(shown.contains("water the ferns by the moss"), "{}: {shown}", hit["id"]);
    }
    let all = hits["results"].as_array().unwrap();
    let k = all.iter().find(|hit| hit["record_id"] == "k").unwrap();
    let places: Vec<&Json> =
        k["match_windows"].as_array().unwrap().iter().map(|place| &place["field_path"]).collect();
    assert_eq!(places, ["body", "c", "a"], "the most words first");
}
