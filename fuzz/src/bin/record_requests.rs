//! What a client of the records sends, and the grant that it is measured by.
//!
//! An input is a query (`limit=2&filter[a][gte]=x`, not percent-encoded), or a grant as JSON, or
//! the bytes of a cursor that our own key has sealed; it is taken for each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::records::grant::Grant;
use stile_domain::records::request::parameters::{
    AboveMax, FilterComparison, ParameterType, Parameters,
};
use stile_domain::records::sealed_cursor::{
    Binding, FieldNames, FieldsCursor, ListCursor, WindowCursor, WindowUnit,
};
use stile_records::operations::OPERATIONS;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let pairs: Vec<(String, String)> = text
        .split('&')
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    what_is_taken_was_declared(&pairs);
    if let Ok(grant) = Grant::parse(&text) {
        a_grant_says_what_it_allows(&grant);
    }
    a_place_is_what_was_sealed(input);
});

fn what_is_taken_was_declared(pairs: &[(String, String)]) {
    for operation in OPERATIONS {
        let parsed = match Parameters::parse(operation.parameters, pairs) {
            Ok(parsed) => parsed,
            Err(problem) => {
                assert_eq!(problem.code().1, 400);
                continue;
            }
        };
        for (key, value) in pairs {
            let base = key.split('[').next().unwrap_or_default();
            let parameter =
                operation.parameters.iter().find(|one| one.name == base).expect("it was declared");
            match parameter.kind {
                ParameterType::Text { max_bytes } => {
                    assert!(value.len() <= max_bytes && key == base);
                    assert_eq!(parsed.text(base), Some(value.as_str()));
                }
                ParameterType::OneOf(words) => {
                    assert!(words.contains(&value.as_str()) && key == base)
                }
                ParameterType::Integer { min, max, above_max, .. } => {
                    let given: u64 = value.parse().expect("it was taken for a number");
                    assert!(given >= min && (above_max == AboveMax::Clamped || given <= max));
                    assert_eq!(parsed.number(base), Some(given.min(max)));
                }
                ParameterType::Names => {
                    let names = parsed.names(base).expect("they were sent");
                    // With brackets it is one name, whatever is in it.
                    let sent: Vec<&str> =
                        if key == base { value.split(',').collect() } else { vec![value] };
                    assert!(sent.iter().all(|name| names.iter().any(|known| known == name)));
                }
                ParameterType::RepeatedName { max } => {
                    let names = parsed.names(base).expect("they were sent");
                    assert!(names.len() <= max && names.contains(value));
                }
                ParameterType::RelationLimits => {
                    let given = parsed
                        .relation_limits()
                        .iter()
                        .find(|(name, _)| format!("{base}[{name}]") == *key);
                    assert_eq!(
                        given.map(|(_, limit)| limit.to_string()).as_deref(),
                        Some(value.trim_start_matches('0'))
                    );
                }
                ParameterType::Conditions | ParameterType::Alternatives => {
                    let given = parsed
                        .conditions()
                        .iter()
                        .find(|given| given.param() == *key)
                        .expect("it was sent");
                    let (operator, has_value) = match &given.comparison {
                        FilterComparison::Is(own) => (String::new(), own == value),
                        FilterComparison::In(own) => ("[in]".to_owned(), own.contains(value)),
                        FilterComparison::Range(operator, own) => {
                            (format!("[{}]", operator.name()), own == value)
                        }
                        FilterComparison::Exists(wanted) => {
                            ("[exists]".to_owned(), wanted.to_string() == *value)
                        }
                    };
                    let number = given.alternative.map(|number| format!("[{number}]"));
                    let number = number.unwrap_or_default();
                    assert_eq!(format!("{base}{number}[{}]{operator}", given.field), *key);
                    assert!(has_value);
                }
            }
        }
    }
}

fn a_grant_says_what_it_allows(grant: &Grant) {
    let written = grant.to_json().expect("what was read can be written");
    assert_eq!(Grant::parse(&written).as_ref(), Ok(grant));
    assert!(!grant.streams.is_empty());
    for share in &grant.streams {
        assert!(!share.connections.is_empty() && !share.fields.is_empty());
        assert!(share.keys.as_ref().is_none_or(|keys| !keys.is_empty()));
        assert!(share.time.as_ref().is_none_or(|time| time.stated_bounds() != [None; 2]));
        assert_eq!(grant.streams.iter().find(|other| other.stream == share.stream), Some(share));
    }
}

fn a_place_is_what_was_sealed(input: &[u8]) {
    let (binding, other) = (Binding::new(["a"]), Binding::new(["b"]));
    let head = WindowCursor::new(WindowUnit::Chars, &[0; 32], 0, 0).encode(binding);
    let bound = [&[1u8][..], &head[1..17], input].concat();
    for bytes in [input, &bound] {
        if let Ok(place) = ListCursor::decode(bytes, binding) {
            assert_eq!(ListCursor::decode(&place.encode(binding), binding).as_ref(), Ok(&place));
            assert!(ListCursor::decode(bytes, other).is_err());
        }
    }
    let bound = [&head[..17], input].concat();
    if let Ok(place) = WindowCursor::decode(&bound, WindowUnit::Chars, binding, &[0; 32]) {
        assert_eq!(place.encode(binding), bound[..49]);
        assert!(WindowCursor::decode(&bound, WindowUnit::Chars, other, &[0; 32]).is_err());
    }
    let head = FieldNames::default().cursor().encode(binding);
    let bound = [&head[..17], input].concat();
    if let Ok(place) = FieldsCursor::decode(&bound, binding) {
        assert_eq!(place.encode(binding), bound[..41]);
        assert!(FieldsCursor::decode(&bound, other).is_err());
    }
}
