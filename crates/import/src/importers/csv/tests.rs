//! Tests of the decoder of CSV.

use std::io::BufReader;

use proptest::prelude::*;

use stile_records::rows::KEPT_BYTES;

use super::*;
use crate::decoder_properties::{decode_all, render_rows};

fn decoded(text: impl AsRef<[u8]>, size: usize) -> Vec<DecodedRow> {
    let text = text.as_ref();
    let form = CsvForm::find_in(&|| Ok(text), &CsvOptions::default(), &CsvOptions::default(), None)
        .unwrap();
    decode_all(CsvDecoder::new(BufReader::with_capacity(size, text), &form))
}

fn as_written(text: &str) -> FieldValue {
    cell(text, ColumnReading::AsWritten, None)
}

#[test]
fn cells_are_text_unless_they_are_numbers_or_booleans() {
    for number in ["0", "-0", "7", "-12.50", "0.5", "123456789012345", "12345678901234.5"] {
        assert_eq!(as_written(number), FieldValue::Number(number.into()), "{number}");
    }
    let texts = "007|+1|1.|.5|1e5|1,5|--1|-|1234567890123456|0x1f| 1|True|NaN|1.2.3|00|-01|٣|1_0";
    for text in texts.split('|') {
        assert_eq!(as_written(text), FieldValue::Text(text.into()), "{text}");
    }
    assert_eq!(
        [as_written("true"), as_written("false")],
        [FieldValue::Bool(true), FieldValue::Bool(false)]
    );
}

#[test]
fn a_bad_row_is_reported_and_the_others_are_read() {
    let text = b"\xef\xbb\xbf\nid;name;note\r\n1;Ada;\"one\ntwo \"\"2\"\"\"\r\n\r\n\
        2;Bo\n3;Cy;a;b;c\n4;\xff;x\r5;\"a\";\xc3\r\
        6;\"long, longer, longest\";\n;;\n007;\"Di\"x;;\n\
        8;x;\"end";
    for size in [1, 3, 4096] {
        let rows = decode_all(CsvDecoder::with_max_row_bytes(
            BufReader::with_capacity(size, text.as_slice()),
            &CsvForm::as_written(b';'),
            26,
        ));
        insta::allow_duplicates! { insta::assert_snapshot!(render_rows(&rows)) };
    }
}

#[test]
fn the_header_decides_the_delimiter_or_is_refused() {
    let mut lines = String::new();
    let columns =
        |count: usize| (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
    for text in [
        "", "\n\r\n", "a", "a\n1", "a,b\n1,2", "a;b\n1,5;2", "a\tb\n1,5\t2", "\"a;b;c\",d\nx,y",
        "a,,b\n", "a,b,a\n", "a,\"b", "a\0,b", "a,b\r1,2\r3,4", "a,b\n\"", "\"a\nb\",c\n1,2",
    ] {
        lines += &format!("{text:?}\n{}", render_rows(&decoded(text, 2)));
    }
    lines += &render_rows(&decoded(b"a,\xff\n1,2", 2));
    lines += &render_rows(&decoded(columns(10_001), 4096));
    lines += &render_rows(&decoded(columns(20_001), 4096));
    insta::assert_snapshot!(lines);
    let large = decode_all(CsvDecoder::with_max_row_bytes(
        "a,b,long,longer\n1,2,3,4".as_bytes(),
        &CsvForm::as_written(b','),
        8,
    ));
    assert!(matches!(
        large.as_slice(),
        [DecodedRow { row: Err(RowDecodeError::Header { column: 4, .. }), .. }]
    ));
    let wide = columns(10_000);
    assert_eq!(decoded(format!("{wide}\n{}\n{wide},x,{wide}", wide.to_uppercase()), 4096).len(), 2);
}

#[test]
fn a_quote_that_is_never_closed_does_not_keep_the_file_in_memory() {
    let text = format!("a,b\n1,\"{}", "x,y\n".repeat(100_000));
    let form = CsvForm::as_written(b',');
    let mut csv = CsvDecoder::with_max_row_bytes(text.as_bytes(), &form, 1000);
    let decoded = csv.next().unwrap().unwrap();
    assert_eq!((decoded.line, decoded.row), (2, Err(RowDecodeError::UnclosedQuote)));
    assert!(csv.records.cells.capacity() <= KEPT_BYTES);
    assert_eq!(csv.consumed(), text.len() as u64);
}

fn written(cell: &str, delimiter: char, quoted: bool) -> String {
    if quoted || cell.is_empty() || cell.contains([delimiter, '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

proptest! {
    #[test]
    fn written_rows_are_read_back(
        names in prop::collection::btree_set(
            "[a-z\",;é]([a-z\",;\n\té]{0,2}[a-z\",;é])?", 1..5,
        ),
        rows in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![
                    "[a-c\"',;\t\r\n 0-9.é-]{0,6}",
                    "-?[0-9]{1,20}",
                    "true|false",
                ],
                5,
            ),
            0..6,
        ),
        delimiter in prop::sample::select(b",;\t|".to_vec()),
        size in 1..40_usize,
        quoted in any::<bool>(),
        crlf in any::<bool>(),
        mark in any::<bool>(),
    ) {
        let between = char::from(delimiter);
        let line = |cells: &mut dyn Iterator<Item = &String>| {
            let cells: Vec<_> = cells.map(|cell| written(cell, between, quoted)).collect();
            cells.join(&between.to_string())
        };
        let mut lines = vec![line(&mut names.iter())];
        lines.extend(rows.iter().map(|row| line(&mut row.iter().take(names.len()))));
        let lines = lines.join(if crlf { "\r\n" } else { "\n" });
        let text = (if mark { "\u{feff}" } else { "" }).to_owned() + &lines;
        let reader = BufReader::with_capacity(size, text.as_bytes());
        let decoded = decode_all(CsvDecoder::new(reader, &CsvForm::as_written(delimiter)));
        let expected = rows.iter().map(|row| {
            let cells = names.iter().zip(row).filter(|(_, text)| !text.is_empty());
            cells.map(|(name, text)| (name.clone(), as_written(text))).collect()
        });
        // A row of empty cells says nothing.
        let expected: Vec<RecordFields> =
            expected.filter(|row: &RecordFields| !row.is_empty()).collect();
        let found: Vec<RecordFields> =
            decoded.into_iter().map(|decoded| decoded.row.unwrap().fields).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_size_of_the_buffer_does_not_change_the_rows(
        pieces in prop::collection::vec(prop::sample::select(vec![
            &b"a"[..], b"b", b"\"", b",", b";", b"\r", b"\n", b"\r\n", b"\xff", b"\xef", b"1",
            b"\xef\xbb\xbf",
        ]), 0..40),
        size in 1..20_usize, max_bytes in 1..40_usize,
    ) {
        let bytes = pieces.concat();
        let decode = |reader: BufReader<&[u8]>| {
            let form = CsvForm::as_written(b',');
            decode_all(CsvDecoder::with_max_row_bytes(reader, &form, max_bytes))
        };
        let whole = decode(BufReader::new(bytes.as_slice()));
        prop_assert_eq!(whole, decode(BufReader::with_capacity(size, bytes.as_slice())));
    }
}
