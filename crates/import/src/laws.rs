//! What holds of every decoder, whatever the size of the reader's buffer.

use std::io::BufReader;

use proptest::prelude::*;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};

use super::json_array::JsonArray;
use stile_records::rows::json_lines::JsonLines;
use stile_records::rows::{DecodedRow, RowDecoder};

/// Everything that a decoder gives, after which it gives nothing more and has read it all.
pub(super) fn all(mut decoder: impl RowDecoder) -> Vec<DecodedRow> {
    let mut rows = Vec::new();
    while let Some(decoded) = decoder.next().unwrap() {
        let ends = decoded.row.as_ref().is_err_and(|bad| bad.ends_the_file());
        rows.push(decoded);
        assert!(!ends || decoder.next().unwrap().is_none());
    }
    assert_eq!(decoder.next().unwrap(), None);
    rows
}

/// A line for each row: where it begins, and what it holds or why it cannot be used.
pub(super) fn told(rows: &[DecodedRow]) -> String {
    let line = |decoded: &DecodedRow| match &decoded.row {
        Ok(row) => format!("{}: {}\n", decoded.line, row::to_json(&row.fields)),
        Err(bad) => format!("{}: {}: {bad}\n", decoded.line, bad.code()),
    };
    rows.iter().map(line).collect()
}

fn good(rows: Vec<DecodedRow>) -> Vec<RecordFields> {
    rows.into_iter().map(|decoded| decoded.row.unwrap().fields).collect()
}

fn rows() -> impl Strategy<Value = Vec<RecordFields>> {
    let text = || prop_oneof!["[\0-\x1f\"\\\\,;\t\r\n\\]\\[{}a-c é😀]{1,8}", any::<String>()];
    let value = prop_oneof![
        text().prop_map(FieldValue::Text),
        any::<i64>().prop_map(|number| FieldValue::Number(number.to_string().into())),
        Just(FieldValue::Null),
        any::<bool>().prop_map(FieldValue::Bool),
        text().prop_map(|text| FieldValue::Json(serde_json::json!({ "k": [text, 1] }).to_string())),
    ];
    let name = text()
        .prop_filter("a field's", |name| stile_domain::records::identifiers::is_field_name(name));
    let fields = prop::collection::btree_map(name, value, 0..4)
        .prop_map(|fields| fields.into_iter().collect());
    prop::collection::vec(fields, 0..6)
}

proptest! {
    #[test]
    fn json_lines_are_the_rows_that_were_written(rows in rows(), size in 1..40_usize, mark in any::<bool>(), crlf in any::<bool>(), last in any::<bool>()) {
        let newline = if crlf { "\r\n" } else { "\n" };
        let mut text = rows.iter().map(row::to_json).collect::<Vec<_>>().join(newline);
        text.insert_str(0, if mark { "\u{feff}" } else { "" });
        text.push_str(if last { newline } else { "" });
        let decoded = all(JsonLines::new(BufReader::with_capacity(size, text.as_bytes())));
        prop_assert!(decoded.iter().zip(1..).all(|(decoded, line)| decoded.line == line));
        prop_assert_eq!(good(decoded), rows);
    }

    #[test]
    fn a_json_array_is_the_rows_that_were_written(rows in rows(), size in 1..40_usize, mark in any::<bool>(), pretty in any::<bool>()) {
        let json: Vec<serde_json::Value> = rows.iter().map(|row| serde_json::from_str(&row::to_json(row)).unwrap()).collect();
        let mut text = if pretty { serde_json::to_string_pretty(&json).unwrap() } else { serde_json::to_string(&json).unwrap() };
        text.insert_str(0, if mark { "\u{feff}\n " } else { "" });
        let decoded = all(JsonArray::new(BufReader::with_capacity(size, text.as_bytes())));
        prop_assert_eq!(good(decoded), rows);
    }

    #[test]
    fn bytes_are_the_same_in_pieces_of_any_size(
        pieces in prop::collection::vec(prop::sample::select(vec![
            &b"{"[..], b"}", b"[", b"]", b",", b"\"", b"\n", b"\r", b"\\", b"a", b"{\"a\":1}", b"[{\"a\":1}", b" ", b"\xef\xbb\xbf", b"\xff", b";", b"a,b",
        ]), 0..30),
        size in 1..20_usize,
        most in 1..40_usize,
    ) {
        let bytes = pieces.concat();
        let whole = BufReader::with_capacity(1 << 12, bytes.as_slice());
        let parts = || BufReader::with_capacity(size, bytes.as_slice());
        let mut lines = JsonLines::with_max_row_bytes(parts(), most);
        while lines.next().unwrap().is_some() {}
        prop_assert_eq!(lines.consumed(), bytes.len() as u64);
        prop_assert_eq!(all(JsonLines::with_max_row_bytes(whole, most)), all(JsonLines::with_max_row_bytes(parts(), most)));
        let whole = BufReader::with_capacity(1 << 12, bytes.as_slice());
        prop_assert_eq!(all(JsonArray::with_most(whole, most)), all(JsonArray::with_most(parts(), most)));
    }
}

#[test]
fn lines_that_cannot_be_used_cost_themselves() {
    let text = "\n{\"a\":1}\n  \r\n{\"a\":2\n[1]\n{\"a\":1,\"a\":2}\n{\"a\":\"long, longer, longest\"}\r\n{\"b\":3}";
    for size in [1, 7, 4096] {
        let rows =
            all(JsonLines::with_max_row_bytes(BufReader::with_capacity(size, text.as_bytes()), 20));
        insta::allow_duplicates! { insta::assert_snapshot!(told(&rows)) };
    }
}

#[test]
fn elements_that_cannot_be_used_cost_themselves() {
    let text = " [\n{\"a\":1},\n{\"a\":[}], 7, \"x,]\",\n\n{\"a\":\"long, longer, longest\"},{\n\"b\":\"]\\\"\"}\n,tru ]\n";
    for size in [1, 7, 4096] {
        let rows = all(JsonArray::with_most(BufReader::with_capacity(size, text.as_bytes()), 20));
        insta::allow_duplicates! { insta::assert_snapshot!(told(&rows)) };
    }
}

#[test]
fn a_fault_between_elements_ends_the_file() {
    let mut lines = String::new();
    for text in [
        "",
        "  ",
        "{\"a\":1}",
        "x",
        "[",
        "[]",
        "[] ",
        "[]x",
        "[{}",
        "[{}\n{}]",
        "[{},",
        "[{},]",
        "[,{}]",
        "[{}]]",
        "[{\"a\":\n\"b",
        "[{},\n{\"a\":\"x}]",
    ] {
        lines += &format!("{text:?}\n{}", told(&all(JsonArray::new(text.as_bytes()))));
    }
    insta::assert_snapshot!(lines);
}
