//! Tests of the decoders: written rows are read back, a bad row does not hide another, and the size
//! of the reader's buffer changes nothing.

use std::io::BufReader;

use proptest::prelude::*;
use stile_domain::records::row;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::rows::json_lines::JsonLines;
use stile_records::rows::{DecodedRow, RowDecoder};

use crate::importers::json_array::JsonArray;

/// Returns every row. Checks that no row follows the last, or one that ends the file.
pub(crate) fn decode_all(mut decoder: impl RowDecoder) -> Vec<DecodedRow> {
    let mut rows = Vec::new();
    while let Some(decoded) = decoder.next().unwrap() {
        let ends = decoded.row.as_ref().is_err_and(|bad| bad.ends_the_file());
        rows.push(decoded);
        assert!(!ends || decoder.next().unwrap().is_none());
    }
    assert_eq!(decoder.next().unwrap(), None);
    rows
}

/// Renders a line for each row: the line where it begins, then its fields or why it is bad.
pub(crate) fn render_rows(rows: &[DecodedRow]) -> String {
    let line = |decoded: &DecodedRow| match &decoded.row {
        Ok(row) => format!("{}: {}\n", decoded.line, row::to_json(&row.fields)),
        Err(bad) => format!("{}: {}: {bad}\n", decoded.line, bad.code()),
    };
    rows.iter().map(line).collect()
}

fn fields_of(rows: Vec<DecodedRow>) -> Vec<RecordFields> {
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
    fn written_json_lines_are_read_back(
        rows in rows(),
        size in 1..40_usize,
        mark in any::<bool>(),
        crlf in any::<bool>(),
        last in any::<bool>(),
    ) {
        let newline = if crlf { "\r\n" } else { "\n" };
        let mut text = rows.iter().map(row::to_json).collect::<Vec<_>>().join(newline);
        text.insert_str(0, if mark { "\u{feff}" } else { "" });
        text.push_str(if last { newline } else { "" });
        let decoded = decode_all(JsonLines::new(BufReader::with_capacity(size, text.as_bytes())));
        prop_assert!(decoded.iter().zip(1..).all(|(decoded, line)| decoded.line == line));
        prop_assert_eq!(fields_of(decoded), rows);
    }

    #[test]
    fn a_written_json_array_is_read_back(
        rows in rows(),
        size in 1..40_usize,
        mark in any::<bool>(),
        pretty in any::<bool>(),
    ) {
        let json: Vec<serde_json::Value> =
            rows.iter().map(|row| serde_json::from_str(&row::to_json(row)).unwrap()).collect();
        let json = serde_json::Value::from(json);
        let mut text = if pretty { format!("{json:#}") } else { json.to_string() };
        text.insert_str(0, if mark { "\u{feff}\n " } else { "" });
        let decoded = decode_all(JsonArray::new(BufReader::with_capacity(size, text.as_bytes())));
        prop_assert_eq!(fields_of(decoded), rows);
    }

    #[test]
    fn the_size_of_the_buffer_does_not_change_the_rows(
        pieces in prop::collection::vec(prop::sample::select(vec![
            &b"{"[..], b"}", b"[", b"]", b",", b"\"", b"\n", b"\r", b"\\", b"a", b"{\"a\":1}",
            b"[{\"a\":1}", b" ", b"\xef\xbb\xbf", b"\xff", b";", b"a,b",
        ]), 0..30),
        size in 1..20_usize,
        max_bytes in 1..40_usize,
    ) {
        let bytes = pieces.concat();
        let whole = BufReader::with_capacity(1 << 12, bytes.as_slice());
        let parts = || BufReader::with_capacity(size, bytes.as_slice());
        let mut lines = JsonLines::with_max_row_bytes(parts(), max_bytes);
        while lines.next().unwrap().is_some() {}
        prop_assert_eq!(lines.consumed(), bytes.len() as u64);
        prop_assert_eq!(
            decode_all(JsonLines::with_max_row_bytes(whole, max_bytes)),
            decode_all(JsonLines::with_max_row_bytes(parts(), max_bytes))
        );
        let whole = BufReader::with_capacity(1 << 12, bytes.as_slice());
        prop_assert_eq!(
            decode_all(JsonArray::with_max_row_bytes(whole, max_bytes)),
            decode_all(JsonArray::with_max_row_bytes(parts(), max_bytes))
        );
    }
}

#[test]
fn a_bad_line_is_reported_and_the_others_are_read() {
    let text = "\n{\"a\":1}\n  \r\n{\"a\":2\n[1]\n{\"a\":1,\"a\":2}\n\
        {\"a\":\"long, longer, longest\"}\r\n{\"b\":3}";
    for size in [1, 7, 4096] {
        let rows = decode_all(JsonLines::with_max_row_bytes(
            BufReader::with_capacity(size, text.as_bytes()),
            20,
        ));
        insta::allow_duplicates! { insta::assert_snapshot!(render_rows(&rows)) };
    }
}

#[test]
fn a_bad_element_is_reported_and_the_others_are_read() {
    let text = " [\n{\"a\":1},\n{\"a\":[}], 7, \"x,]\",\n\n\
        {\"a\":\"long, longer, longest\"},{\n\"b\":\"]\\\"\"}\n,tru ]\n";
    for size in [1, 7, 4096] {
        let rows = decode_all(JsonArray::with_max_row_bytes(
            BufReader::with_capacity(size, text.as_bytes()),
            20,
        ));
        insta::allow_duplicates! { insta::assert_snapshot!(render_rows(&rows)) };
    }
}

#[test]
fn a_fault_between_elements_ends_the_file() {
    let mut lines = String::new();
    for text in [
        "", "  ", "{\"a\":1}", "x", "[", "[]", "[] ", "[]x", "[{}", "[{}\n{}]", "[{},", "[{},]",
        "[,{}]", "[{}]]", "[{\"a\":\n\"b", "[{},\n{\"a\":\"x}]",
    ] {
        lines +=
            &format!("{text:?}\n{}", render_rows(&decode_all(JsonArray::new(text.as_bytes()))));
    }
    insta::assert_snapshot!(lines);
}
