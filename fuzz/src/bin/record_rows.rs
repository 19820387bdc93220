//! What the owner's files become: rows of JSON and CSV, and what is declared of them.
//!
//! An input is a file. It is read as one row, as an array, as CSV and as a declaration.

#![no_main]

use std::io::BufReader;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value as Json;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::infer::{Inference, KeyChoice};
use stile_domain::records::row::{self, MAX_DEPTH, RowFault};
use stile_domain::records::value::FieldValue;
use stile_fuzz::Shape;
use stile_import::charset::file_encoding::Transcoder;
use stile_import::importers::csv::CsvDecoder;
use stile_import::importers::csv::form::CsvForm;
use stile_import::importers::csv::options::CsvOptions;
use stile_import::importers::json_array::JsonArray;
use stile_records::rows::{DecodedRow, RowDecoder};

fuzz_target!(|input: &[u8]| {
    a_row_is_what_the_library_reads(input);
    let rows = the_buffer_does_not_matter(|size| {
        all(JsonArray::new(BufReader::with_capacity(size, input)))
    });
    an_array_has_its_elements(input, &rows);
    // A file whose dates stay open is read as it is written.
    let nothing = CsvOptions::default();
    let form = CsvForm::find_in(&|| Ok(input), &nothing, &nothing, None)
        .unwrap_or_else(|_| CsvForm::as_written(b','));
    let rows = the_buffer_does_not_matter(|size| {
        let reader = BufReader::with_capacity(size, input);
        all(CsvDecoder::new(Transcoder::new(reader, form.encoding.clone()), &form))
    });
    what_is_inferred_can_be_declared(&rows);
    if let Ok(json) = serde_json::from_slice::<Json>(input)
        && let Ok(declaration) = Declaration::parse(&json)
    {
        a_declaration_fits_together(&json, &declaration);
    }
});

fn a_row_is_what_the_library_reads(input: &[u8]) {
    let shape = Shape::of(input);
    match row::parse(input) {
        Ok(read) => {
            assert!(!shape.repeats && shape.depth <= MAX_DEPTH);
            let text = row::to_json(&read.fields);
            let again = row::parse(text.as_bytes()).expect("what was written can be read");
            assert_eq!((again.fields, again.replaced), (read.fields.clone(), 0));
            // The library reads half of a surrogate pair as an error, and goes less deep by one.
            if shape.depth < MAX_DEPTH - 1 {
                serde_json::from_str::<IgnoredAny>(&text).expect("it is JSON");
                if let Ok(Json::Object(members)) = serde_json::from_slice(input) {
                    assert_eq!(read.replaced, 0);
                    assert_eq!(members.len(), read.fields.len());
                    for ((name, json), (own, value)) in members.iter().zip(&read.fields) {
                        assert_eq!(name, own);
                        match value {
                            FieldValue::Text(text) => {
                                assert_eq!(json.as_str(), Some(text.as_str()))
                            }
                            FieldValue::Number(digits) => {
                                assert_eq!(
                                    serde_json::from_str::<Json>(digits).ok().as_ref(),
                                    Some(json)
                                )
                            }
                            other => {
                                assert_eq!(
                                    serde_json::from_str::<Json>(&other.to_json()).ok().as_ref(),
                                    Some(json)
                                )
                            }
                        }
                    }
                }
            }
        }
        Err(bad) => match (bad.fault, std::str::from_utf8(input)) {
            (RowFault::InvalidUtf8, text) => assert!(text.is_err()),
            (RowFault::InvalidJson(why), Ok(text)) => {
                assert!(
                    serde_json::from_str::<Json>(text).is_err(),
                    "{why} at {}: {text:?}",
                    bad.at
                );
            }
            // Names with different halves of surrogate pairs become one.
            (RowFault::DuplicateKey { .. }, Ok(text)) => {
                assert!(shape.repeats || text.contains("\\u"))
            }
            (RowFault::TooDeep, _) => assert!(shape.depth > MAX_DEPTH),
            _ => {}
        },
    }
}

fn all(mut decoder: impl RowDecoder) -> Vec<DecodedRow> {
    let mut rows = Vec::new();
    while let Some(decoded) = decoder.next().expect("a slice is read without an error") {
        let over = decoded.row.as_ref().is_err_and(|bad| bad.ends_the_file());
        rows.push(decoded);
        assert!(!over || decoder.next().expect("as above").is_none());
    }
    assert!(rows.windows(2).all(|pair| pair[0].line <= pair[1].line));
    rows
}

fn the_buffer_does_not_matter(read: impl Fn(usize) -> Vec<DecodedRow>) -> Vec<DecodedRow> {
    let whole = read(4096);
    for size in [1, 2, 7] {
        assert_eq!(read(size), whole, "with a buffer of {size}");
    }
    whole
}

fn an_array_has_its_elements(input: &[u8], rows: &[DecodedRow]) {
    let Ok(Json::Array(items)) = serde_json::from_slice::<Json>(input) else { return };
    assert_eq!(rows.len(), items.len());
    for (item, decoded) in items.iter().zip(rows) {
        assert!(item.is_object() || decoded.row.is_err());
    }
}

fn what_is_inferred_can_be_declared(rows: &[DecodedRow]) {
    let mut inference = Inference::new();
    rows.iter()
        .filter_map(|decoded| decoded.row.as_ref().ok())
        .for_each(|row| inference.observe(&row.fields));
    let inferred = inference.finish(KeyChoice::Infer).expect("what is inferred fits together");
    let declaration = inferred.declaration;
    a_declaration_fits_together(&declaration.to_json(), &declaration);
}

fn a_declaration_fits_together(json: &Json, declaration: &Declaration) {
    assert_eq!(declaration.to_json(), *json);
    assert_eq!(Declaration::parse(&declaration.to_json()).as_ref(), Ok(declaration));
    let lists = declaration.primary_key().iter().chain(declaration.required()).map(String::as_str);
    for name in lists.chain(declaration.cursor_field()).chain(declaration.consent_time_field()) {
        assert!(declaration.field(name).is_some(), "{name:?}");
    }
    if let Some(name) = declaration.consent_time_field() {
        assert!(declaration.field(name).is_some_and(|field| field.format.is_some()));
    }
}
