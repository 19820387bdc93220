//! What a browser sends with the forms of the owner's page: names with values, times, and a form
//! with a file in pieces.
//!
//! An input is a form as it stands in an address, and also the body of a form with a file. Its
//! first byte says where that body is cut.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use stile_domain::form_upload::{BadUpload, FormEvent, FormUpload, MAX_FILES, safe_file_name};
use stile_domain::sign_in::browser_name::browser_name;
use stile_server::sign_in::parameters::{FormParameters, parse_time};

const BOUNDARY: &str = "--b";

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    a_parameter_has_one_value(&text);
    a_time_has_one_instant(&text);
    a_file_has_a_name_and_nothing_else(&text);
    a_browser_is_named_by_our_words(&text);
    let (cut, body) = input.split_first().map_or((0, input), |(cut, body)| (*cut as usize, body));
    pieces_make_the_same_form(body, cut);
    a_file_arrives_as_it_is(body, cut);
});

/// Each name is there once, and its value is what a decoder taken apart by hand makes of it.
fn a_parameter_has_one_value(text: &str) {
    let Ok(form) = FormParameters::parse(text) else { return };
    let mut seen = HashSet::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name), decoded(value));
        if value.is_empty() {
            continue;
        }
        assert!(name == "resource" || seen.insert(name.clone()), "{name} is there twice");
        assert!(form.all(&name).any(|found| found == value));
    }
}

/// Decodes a part of a form that was accepted.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = text.get(at + 1..at + 3).expect("two digits");
                out.push(u8::from_str_radix(digits, 16).expect("two digits"));
                at += 2;
            }
            byte => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8(out).expect("it was accepted")
}

fn a_time_has_one_instant(text: &str) {
    if let Some(time) = parse_time(text) {
        assert_eq!(parse_time(&time.to_rfc3339()), Some(time));
    }
}

fn a_file_has_a_name_and_nothing_else(text: &str) {
    let name = safe_file_name(text);
    assert!(!name.is_empty() && name.len() <= 120 && name != "." && name != "..");
    assert!(!name.contains(['/', '\\', ':', '\0']) && !name.chars().any(char::is_control));
}

fn a_browser_is_named_by_our_words(text: &str) {
    let name = browser_name(text);
    assert!(name.len() < 60 && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b' '));
}

/// Reads a body whole, or cut at a place. Bytes of the file that follow each other are one event.
fn read(body: &[u8], cut: usize) -> Result<Vec<FormEvent>, BadUpload> {
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let mut form = FormUpload::of_type(&content_type).expect("a boundary");
    let (first, second) = body.split_at(cut.min(body.len()));
    let mut all = Vec::new();
    for event in form.feed(first)?.into_iter().chain(form.feed(second)?) {
        match (all.last_mut(), event) {
            (Some(FormEvent::Bytes(bytes)), FormEvent::Bytes(more)) => bytes.extend(more),
            (_, event) => all.push(event),
        }
    }
    form.finish().map(|()| all)
}

fn pieces_make_the_same_form(body: &[u8], cut: usize) {
    let whole = read(body, body.len());
    assert_eq!(read(body, cut), whole);
    let Ok(events) = whole else { return };
    // Fields, then files, each whole, and nothing behind them.
    let first = events.iter().position(|event| matches!(event, FormEvent::File(_)));
    let first = first.expect("a form that ended has a file");
    assert!(events[..first].iter().all(|event| matches!(event, FormEvent::Field { .. })));
    let files: Vec<&[FormEvent]> =
        events[first..].split_inclusive(|event| *event == FormEvent::FileEnd).collect();
    assert!(files.len() <= MAX_FILES);
    for file in files {
        use FormEvent::{Bytes, File, FileEnd};
        assert!(matches!(file, [File(_), FileEnd] | [File(_), Bytes(_), FileEnd]));
    }
}

/// A form that a browser would make of a file gives the file back, if its boundary is not in it.
fn a_file_arrives_as_it_is(content: &[u8], cut: usize) {
    let delimiter = format!("\r\n--{BOUNDARY}");
    if content.windows(delimiter.len()).any(|window| window == delimiter.as_bytes()) {
        return;
    }
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nt\r\n--{BOUNDARY}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n"
    );
    let end = format!("\r\n--{BOUNDARY}--\r\n");
    let body = [head.as_bytes(), content, end.as_bytes()].concat();
    let mut expected = vec![
        FormEvent::Field { name: "csrf".to_owned(), value: "t".to_owned() },
        FormEvent::File("a.csv".to_owned()),
    ];
    if !content.is_empty() {
        expected.push(FormEvent::Bytes(content.to_vec()));
    }
    expected.push(FormEvent::FileEnd);
    assert_eq!(read(&body, cut), Ok(expected));
}
