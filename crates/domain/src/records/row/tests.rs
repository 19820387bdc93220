//! Tests of the row parser, with `serde_json` as the slow and trusted reference.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

fn parse_text(text: &str) -> Result<ParsedRow, RowError> {
    parse(text.as_bytes())
}

fn fault(text: &str) -> RowFault {
    parse_text(text).unwrap_err().fault
}

#[test]
fn fields_keep_their_original_spelling() {
    let row = parse_text(
        " {\"a\" : \"x\\u0000\\ud83d\\ude00\\/\", \"n\": -0.10e+5, \"t\":true,\"f\":false,\
         \"z\":null,\n \"o\": { \"k\" : [ 1.0 , \"\\u001f\\u0041\\\"\" , { } , [ ] ] } }\r\n",
    )
    .unwrap();
    let expected: RecordFields = [
        ("a", FieldValue::Text("x\0😀/".into())),
        ("n", FieldValue::Number("-0.10e+5".into())),
        ("t", FieldValue::Bool(true)),
        ("f", FieldValue::Bool(false)),
        ("z", FieldValue::Null),
        ("o", FieldValue::Json(r#"{"k":[1.0,"\u001fA\"",{},[]]}"#.into())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(row, ParsedRow { fields: expected, replaced: 0 });
}

#[test]
fn half_of_a_surrogate_pair_is_replaced_and_counted() {
    let row = parse_text(r#"{"a":"\ud800x\udc00","b":["\ud83d\ud83d\ude00"],"c\udfff":"\uD83D"}"#)
        .unwrap();
    assert_eq!(row.replaced, 5);
    assert_eq!(
        to_json(&row.fields),
        "{\"a\":\"\u{fffd}x\u{fffd}\",\"b\":[\"\u{fffd}😀\"],\"c\u{fffd}\":\"\u{fffd}\"}"
    );
}

#[test]
fn a_refused_row_reports_the_error_and_its_offset() {
    let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse_text(&deep(127)).is_ok());
    assert_eq!(fault(&deep(128)), RowFault::TooDeep);
    assert_eq!(fault(&deep(1_000_000)), RowFault::TooDeep);
    assert!(parse_text(&format!("{{\"a\":{}}}", "1".repeat(4096))).is_ok());
    assert_eq!(fault(&format!("{{\"a\":{}}}", "1".repeat(4097))), RowFault::NumberTooLong);
    assert_eq!(fault(&format!("{{\"a\":[{}]}}", "1".repeat(4097))), RowFault::NumberTooLong);
    for other in ["[]", "1", "\"x\"", "null", " [{\"a\":1}] "] {
        assert_eq!(fault(other), RowFault::NotAnObject, "{other}");
    }
    for name in [String::new(), "x".repeat(513), "\\u0000".to_owned()] {
        assert_eq!(fault(&format!("{{\"{name}\":1}}")), RowFault::BadFieldName);
        assert!(parse_text(&format!("{{\"a\":{{\"{name}\":1}}}}")).is_ok());
    }
    assert_eq!(parse(b"{\"a\":\"\xff\"}").unwrap_err(), RowFault::InvalidUtf8.at(6));
    assert_eq!(parse_text("{\"a\":1,}").unwrap_err().at, 7);
    assert_eq!(
        parse_text("{\"a\":\"one\ntwo\"}").unwrap_err().to_string(),
        "it is not valid JSON: a control character in a string is not escaped \
         (at byte 9 of the row)"
    );
}

#[test]
fn a_name_that_occurs_twice_is_refused_at_any_depth() {
    let twice = |text: &str| match parse_text(text).unwrap_err() {
        RowError { at, fault: RowFault::DuplicateKey { name } } => (at, name),
        other => panic!("{other}"),
    };
    assert_eq!(twice(r#"{"a":1,"\u0061":2}"#), (7, "a".to_owned()));
    assert_eq!(twice(r#"{"a":[{"b":1,"c":2,"b":3}]}"#), (19, "b".to_owned()));
    let many: String = (0..1000).map(|index| format!("\"k{index}\":1,")).collect();
    assert!(parse_text(&format!("{{{many}\"x\":1}}")).is_ok());
    assert_eq!(twice(&format!("{{{many}\"k7\":1}}")), (1 + many.len(), "k7".to_owned()));
    assert_eq!(twice(&format!("{{\"o\":{{{many}\"k7\":1}}}}")).1, "k7");
    let long = "\\n".to_owned() + &"ä".repeat(100);
    assert_eq!(
        twice(&format!("{{\"{long}\":1,\"{long}\":1}}")).1,
        format!("\\u{{a}}{}…{}", "ä".repeat(30), "ä".repeat(32))
    );
}

#[test]
fn invalid_json_is_refused() {
    for text in [
        "", " ", "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1 \"b\":2}", "{\"a\":1}}",
        "{\"a\":1} x", "{a:1}", "{'a':1}", "{\"a\":01}", "{\"a\":+1}", "{\"a\":.5}", "{\"a\":1.}",
        "{\"a\":1e}", "{\"a\":-}", "{\"a\":NaN}", "{\"a\":tru}", "{\"a\":truex}",
        "{\"a\":\"\\x\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\\ud800\\u12\"}", "{\"a\":\"x}",
        "{\"a\":\"\\\"}", "{,}", "{\"a\":[1,]}", "{\"a\":[,1]}", "{\"a\":[1 2]}", "{\"a\":[1}",
        "\u{feff}{}", "{\"a\"\u{a0}:1}", "{\"a\":\"\t\"}", "{} {}", "{\"a\":1e+}",
        "{\"a\":\"\\u+123\"}", "nul", "[1",
    ] {
        assert!(matches!(fault(text), RowFault::InvalidJson(_)), "{text}");
        assert!(serde_json::from_str::<Json>(text).is_err(), "{text}");
    }
}

fn json() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    scalar.prop_recursive(6, 64, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..24).prop_map(Json::from),
            prop::collection::btree_map(text(), inner, 0..24)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[\0-\x1f\"\\\\/a-z😀é]{0,12}", any::<String>()]
}

fn fields() -> impl Strategy<Value = RecordFields> {
    let name = text().prop_filter("a field's", |name| identifiers::is_field_name(name));
    prop::collection::btree_map(name, json(), 0..24).prop_map(|members| {
        let value = |json: Json| compact(json.to_string().as_bytes()).unwrap().0;
        members.into_iter().map(|(name, json)| (name, value(json))).collect()
    })
}

/// Generates bytes that are often nearly JSON.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"a\":", "\\", "\\u", "d83d", "\\ude00",
        "00", "1", "-", ".", "e", "0", "true", "false", "null", " ", "\n", "\u{1}", "é", "\"\\n\"",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..64),
        (json(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(json, at, byte)| {
            let mut bytes = format!("{{\"a\":{json}}}").into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
    ]
}

proptest! {
    #[test]
    fn values_agree_with_serde_json(json in json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{json:#}") } else { json.to_string() };
        let (value, replaced) = compact(text.as_bytes()).unwrap();
        prop_assert_eq!(replaced, 0);
        prop_assert_eq!(value.to_json(), json.to_string());
        if let Json::String(text) = &json {
            prop_assert_eq!(value, FieldValue::Text(text.clone()));
        }
    }

    #[test]
    fn formatted_fields_are_parsed_again(fields in fields()) {
        let json = to_json(&fields);
        prop_assert_eq!(parse(json.as_bytes()).unwrap(), ParsedRow { fields, replaced: 0 });
    }

    #[test]
    fn json_that_serde_json_refuses_is_refused(bytes in nearly()) {
        match (compact(&bytes), serde_json::from_slice::<Json>(&bytes)) {
            (Ok((value, 0)), Ok(json)) => {
                prop_assert_eq!(serde_json::from_str::<Json>(&value.to_json()).unwrap(), json);
            }
            // A number may be too large for a double.
            (Ok((_, replaced)), Err(error)) => {
                prop_assert!(
                    replaced > 0 || error.to_string().contains("number out of range"),
                    "{}",
                    error,
                );
            }
            (Ok(_), Ok(_)) => prop_assert!(false, "serde_json reads half of a surrogate pair"),
            (Err(bad), Ok(_)) => prop_assert_eq!(bad.fault.code(), "duplicate_key"),
            (Err(_), Err(_)) => {}
        }
        let _ = parse(&bytes);
    }
}
