//! Tests of inferred declarations, and of the bounds on an inference's memory.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::records::row;

fn inference(rows: &[&str]) -> Inference {
    let mut inference = Inference::new();
    for text in rows {
        inference.observe(&row::parse(text.as_bytes()).unwrap().fields);
    }
    inference
}

fn inferred(rows: &[&str]) -> InferredDeclaration {
    inference(rows).finish(KeyChoice::Infer).unwrap()
}

fn key(rows: &[&str]) -> Vec<String> {
    inferred(rows).declaration.primary_key().to_vec()
}

fn cursor(rows: &[&str]) -> Option<String> {
    inferred(rows).declaration.cursor_field().map(str::to_owned)
}

#[test]
fn a_chat_gets_the_declaration_a_person_would_write() {
    let InferredDeclaration { declaration, reasons } = inferred(&[
        r#"{"id":"m1","sent_at":"2025-03-01T08:00:00Z","sender":"Ada","text":"Hello",
            "length":5,"edited":false,"reply_to":null,"reactions":[]}"#,
        r#"{"id":"m2","sent_at":"2025-03-01 08:01","sender":"Bo","text":"Hi",
            "length":2.5,"edited":true,"reply_to":"m1","reactions":[1]}"#,
        r#"{"id":"m3","sent_at":null,"sender":"Ada","text":"2025-03-01",
            "length":10,"edited":true,"day":"2025-03-01"}"#,
    ]);
    insta::assert_snapshot!(reasons.join("\n"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&declaration.to_json()).unwrap());
}

#[test]
fn no_rows_give_an_empty_declaration() {
    let InferredDeclaration { declaration, reasons } = inferred(&[]);
    assert!(declaration.fields().is_empty() && declaration.primary_key().is_empty());
    insta::assert_snapshot!(reasons.join("\n"));
}

#[test]
fn a_key_is_a_unique_scalar_in_every_row() {
    assert_eq!(key(&[r#"{"user_id":1,"id":2}"#, r#"{"user_id":2,"id":3}"#]), ["id"]);
    assert_eq!(key(&[r#"{"user_id":1,"id":2}"#, r#"{"user_id":2,"id":2}"#]), ["user_id"]);
    assert_eq!(key(&[r#"{"ID":1}"#, r#"{"ID":"2"}"#]), ["ID"]);
    assert_eq!(key(&[r#"{"messageId":1}"#]), ["messageId"]);
    for rows in [
        [r#"{"id":1}"#, r#"{"id":"1"}"#],
        [r#"{"id":1}"#, r#"{"x":1}"#],
        [r#"{"x":1}"#, r#"{"id":1}"#],
        [r#"{"id":1}"#, r#"{"id":null}"#],
        [r#"{"id":1}"#, r#"{"id":[2]}"#],
        [r#"{"id":"a"}"#, r#"{"id":""}"#],
        [r#"{"name":"a"}"#, r#"{"name":"b"}"#],
    ] {
        assert!(key(&rows).is_empty(), "{rows:?}");
    }
    assert!(key(&[r#"{"id":1}"#, r#"{"x":1}"#, r#"{"id":2}"#]).is_empty());
}

#[test]
fn the_owner_chooses_the_key() {
    let rows = [r#"{"id":1,"tags":[],"n":1}"#];
    let chosen = |names: &[&str]| {
        inference(&rows)
            .finish(KeyChoice::Given(names.iter().map(|&name| name.to_owned()).collect()))
    };
    assert_eq!(chosen(&["n", "id"]).unwrap().declaration.primary_key(), ["n", "id"]);
    assert_eq!(chosen(&["later"]).unwrap().declaration.primary_key(), ["later"]);
    assert!(chosen(&[]).unwrap().declaration.primary_key().is_empty());
    assert_eq!(chosen(&["tags"]).unwrap_err().member, "primary_key");
    assert_eq!(chosen(&["id", "id"]).unwrap_err().member, "primary_key");
}

#[test]
fn records_are_ordered_by_a_usual_name_or_else_the_first_date() {
    let day = "2025-03-01";
    let row = |names: &[&str]| {
        let members: Vec<String> =
            names.iter().map(|name| format!("\"{name}\":\"{day}\"")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(cursor(&[&row(&["updated_at", "Created-At"])]).as_deref(), Some("Created-At"));
    assert_eq!(cursor(&[&row(&["wedding", "birthday"])]).as_deref(), Some("wedding"));
    assert_eq!(
        cursor(&[&row(&["date", "birthday"]), &row(&["birthday"])]).as_deref(),
        Some("birthday")
    );
    assert_eq!(cursor(&[&row(&["date"]), r#"{"date":"soon"}"#]), None);
    assert_eq!(cursor(&[&row(&["date"]), r#"{"date":7}"#]), None);
    assert_eq!(cursor(&[r#"{"date":20250301}"#]), None);
}

#[test]
fn memory_does_not_grow_with_the_rows() {
    let mut inference = Inference::new();
    let fields = |names: usize| {
        (0..names).map(|at| (format!("f{at}"), FieldValue::Null)).collect::<RecordFields>()
    };
    inference.observe(&fields(MAX_FIELDS + 1));
    assert_eq!(inference.seen.len(), MAX_FIELDS);
    let inferred = inference.finish(KeyChoice::Infer).unwrap();
    assert!(inferred.reasons.iter().any(|line| line.contains("4096")));

    let mut inference = Inference::new();
    let long = |at: usize| format!("{at:04}{}", "\u{1}".repeat(500));
    inference
        .observe(&(0..MAX_FIELDS).map(|at| (long(at), FieldValue::Text("x".into()))).collect());
    assert!(inference.seen.len() < 32);
    assert!(inference.finish(KeyChoice::Infer).is_ok());

    let mut inference = Inference::new();
    for at in 0..MAX_KEY_ROWS + 10 {
        inference.observe(&vec![("id".to_owned(), FieldValue::Number(at.to_string().into()))]);
    }
    assert_eq!(inference.seen[0].key.as_ref().unwrap().len() as u64, MAX_KEY_ROWS);
    assert_eq!(inference.finish(KeyChoice::Infer).unwrap().declaration.primary_key(), ["id"]);
}

#[test]
fn a_few_values_that_differ_do_not_take_a_field_its_sums_and_its_dates() {
    let infer = |rows: usize, odd: &str| {
        let mut inference = Inference::new();
        for at in 0..rows {
            let is_odd = at + 1 == rows;
            let number = FieldValue::Number(format!("{at}.5").into());
            let date = format!("2026-01-{:02}", at + 1);
            let text = || FieldValue::Text(odd.to_owned());
            inference.observe(&vec![
                ("amount".to_owned(), if is_odd { text() } else { number }),
                ("day".to_owned(), if is_odd { text() } else { FieldValue::Text(date) }),
            ]);
        }
        inference.finish(KeyChoice::Infer).unwrap()
    };
    let InferredDeclaration { declaration, reasons } = infer(25, "n/a");
    assert_eq!(declaration.cursor_field(), Some("day"));
    assert!(!declaration.field("amount").unwrap().types.contains(JsonType::String));
    let reasons = reasons.join("\n");
    assert!(reasons.contains("`amount`, `day` also has values that do not fit"), "{reasons}");
    assert!(reasons.contains("nearly every value is a date"), "{reasons}");
    // Of a few values, each counts.
    let few = infer(5, "n/a").declaration;
    assert!(few.cursor_field().is_none());
    assert!(few.field("amount").unwrap().types.contains(JsonType::String));
}

proptest! {
    #[test]
    fn the_declaration_allows_every_value_in_the_rows(rows in vec(btree_map(
        prop::sample::select(vec!["id", "date", "x", "user_id", "y\"\n"]),
        prop::sample::select(vec![
            "null", "true", "1", "1.5", r#""a""#, r#""2025-03-01""#, r#""2025-03-01T08:00Z""#,
            "[]", "{}",
        ]),
        0..5,
    ), 0..8)) {
        let mut inference = Inference::new();
        for row in &rows {
            let value = |json: &str| row::compact(json.as_bytes()).unwrap().0;
            let fields = row.iter().map(|(name, json)| ((*name).to_owned(), value(json)));
            inference.observe(&fields.collect());
        }
        let inferred = inference.finish(KeyChoice::Infer).unwrap();
        let InferredDeclaration { declaration, reasons } = inferred;
        prop_assert!(declaration.required().is_empty());
        prop_assert_eq!(declaration.cursor_field(), declaration.consent_time_field());
        prop_assert!(reasons.iter().all(|line| !line.contains('\n')));
        for row in &rows {
            for (name, json) in row {
                let types = declaration.field(name).unwrap().types;
                let kind = kind(&row::compact(json.as_bytes()).unwrap().0);
                prop_assert!(
                    types.contains(kind)
                        || (kind == JsonType::Integer && types.contains(JsonType::Number)),
                );
            }
        }
    }
}
