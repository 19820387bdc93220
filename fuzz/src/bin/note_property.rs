//! One property of a note is set or removed: it then has the value, and every other byte stays.
//!
//! An input can be typed: a name, a value and a note, with `|` between them. A value that begins
//! with `-` removes the property, and one with commas is a list.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::notes::note_facts::NoteFacts;
use stile_domain::notes::note_property::NoteProperty;
use stile_domain::notes::property_edit::{NewScalar, NewValue, set_property};

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let mut fields = input.splitn(3, '|');
    let mut field = || fields.next().unwrap_or_default();
    let (name, value, text) = (field(), field(), field());
    let scalar = |text: &str| NewScalar::Text(text.to_owned());
    let value = match value {
        removed if removed.starts_with('-') => None,
        list if list.contains(',') => Some(NewValue::List(list.split(',').map(scalar).collect())),
        one => Some(NewValue::Scalar(scalar(one))),
    };
    let Ok(new) = set_property(text, name, value.as_ref()) else { return };

    let wanted: Option<Vec<&str>> = value.as_ref().map(|value| {
        let scalars = match value {
            NewValue::Scalar(scalar) => std::slice::from_ref(scalar),
            NewValue::List(scalars) => scalars,
        };
        scalars.iter().map(text_of).collect()
    });
    let (old, now) = (properties(text), properties(&new));
    let found = now.iter().find(|property| *property.name == *name);
    let values = found.map(|found| found.values.iter().map(|value| &**value).collect::<Vec<_>>());
    assert_eq!(values, wanted, "{new:?}");
    let others = |of: &[NoteProperty]| -> Vec<NoteProperty> {
        of.iter().filter(|property| *property.name != *name).cloned().collect()
    };
    assert_eq!(others(&now), others(&old), "{new:?}");

    // The text below the front matter is the same, to the byte.
    let (old_body, new_body) = (body(text), body(&new));
    assert_eq!(old_body, new_body);
    // A second time changes nothing.
    let again = set_property(&new, name, value.as_ref());
    assert!(value.is_none() || again.is_ok_and(|again| again == new));
});

fn text_of(scalar: &NewScalar) -> &str {
    match scalar {
        NewScalar::Text(text) | NewScalar::Plain(text) => text,
    }
}

fn properties(text: &str) -> Vec<NoteProperty> {
    NoteFacts::of(text).expect("a small note").properties.into_vec()
}

/// Returns what follows the front matter, found line by line.
fn body(text: &str) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty());
    let mut lines = text.split_inclusive('\n');
    let mut at = match lines.next() {
        Some(first) if is_fence(first) => first.len(),
        _ => return text,
    };
    for line in lines {
        at += line.len();
        if is_fence(line) {
            return &text[at..];
        }
    }
    text
}
