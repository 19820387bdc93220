//! Splits a list in a response into its items, without parsing them.
//!
//! A page shows some of the items that it asked for. Only those are parsed, so finding where the
//! others end must cost little: strings, which most of a response consists of, are skipped in large
//! steps. Each port returns valid JSON, so the items are not checked here.

use stile_domain::json::skipping::{Mark, ValueScanner};

/// A list in a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListItems<'a> {
    /// The items of the member `data`, as JSON.
    pub(super) items: Vec<&'a str>,
    /// The response as JSON, with an empty list as `data`.
    pub(super) envelope: String,
}

/// Splits a response. `None` if it is not an object with one list `data`.
pub(super) fn split(response: &str) -> Option<ListItems<'_>> {
    let bytes = response.as_bytes();
    let mut at = after(bytes, skip_space(bytes, 0), b'{')?;
    let mut list: Option<(usize, usize)> = None;
    let mut items = Vec::new();
    loop {
        at = skip_space(bytes, at);
        let name_end = end_of_string(bytes, at)?;
        let is_list = response.get(at..name_end)? == "\"data\"";
        at = skip_space(bytes, after(bytes, skip_space(bytes, name_end), b':')?);
        let end = if is_list {
            if list.is_some() {
                return None;
            }
            let end = split_array(response, at, &mut items)?;
            list = Some((at, end));
            skip_space(bytes, end)
        } else {
            end_of_value(bytes, at)?
        };
        match bytes.get(end)? {
            b',' => at = end + 1,
            b'}' => break,
            _ => return None,
        }
    }
    let (start, end) = list?;
    let envelope = format!("{}[]{}", response.get(..start)?, response.get(end..)?);
    Some(ListItems { items, envelope })
}

/// Adds the items of the array that begins at `start`. Returns where the array ends.
fn split_array<'a>(response: &'a str, start: usize, items: &mut Vec<&'a str>) -> Option<usize> {
    let bytes = response.as_bytes();
    let mut at = after(bytes, start, b'[')?;
    if bytes.get(skip_space(bytes, at))? == &b']' {
        return Some(skip_space(bytes, at) + 1);
    }
    loop {
        let end = end_of_value(bytes, at)?;
        let item = response.get(at..end)?.trim_matches(is_space);
        if item.is_empty() {
            return None;
        }
        items.push(item);
        match bytes.get(end)? {
            b',' => at = end + 1,
            b']' => return Some(end + 1),
            _ => return None,
        }
    }
}

/// Returns where the value that begins at `at` ends: at a comma or at a closing bracket.
fn end_of_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut scan = ValueScanner::default();
    loop {
        let (found, mark) = scan.next(bytes.get(at..)?)?;
        at += found;
        match mark {
            Mark::Outside(b',' | b'}' | b']') => return Some(at),
            Mark::Outside(_) | Mark::StringEnd | Mark::Closed => at += 1,
        }
    }
}

/// Returns where the string that begins at `at` ends: after its closing quote.
fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    after(bytes, at, b'"')?;
    let (found, _) = ValueScanner::default().next(bytes.get(at..)?)?;
    Some(at + found + 1)
}

/// Returns the place after a byte; `None` if another byte is there.
fn after(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*bytes.get(at)? == byte).then_some(at + 1)
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| is_space(char::from(**byte))).count()
}

/// Returns whether JSON allows a character between values (RFC 8259, section 2).
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<i64>().prop_map(Json::from),
            "(?s)[\"\\\\\\[\\]{},:a🙂\n]{0,9}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::hash_map("[\"\\\\{}a]{0,4}", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_items_are_those_that_a_parser_finds(
            items in proptest::collection::vec(any_json(), 0..5),
            before in any_json(),
            after in any_json(),
            is_pretty in any::<bool>(),
        ) {
            let list = serde_json::json!({ "a\"": before, "data": items, "meta": after });
            let text = if is_pretty { format!("{list:#}\n") } else { list.to_string() };
            let found = split(&text).unwrap();
            let parsed: Vec<Json> =
                found.items.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            prop_assert_eq!(parsed, items);
            let envelope: Json = serde_json::from_str(&found.envelope).unwrap();
            let expected = serde_json::json!({ "a\"": before, "data": [], "meta": after });
            prop_assert_eq!(envelope, expected);
        }

        #[test]
        fn any_text_is_split_or_refused(text in "(?s)[\"\\\\\\[\\]{},: data1]{0,40}") {
            if let Some(found) = split(&text) {
                prop_assert!(found.items.iter().all(|item| text.contains(item)));
            }
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "", "[]", "{}", "{\"data\":{}}", "{\"data\":null}", "{\"data\":[", "{\"data\":[1",
            "{\"data\":[1,]}", "{\"data\":[,1]}", "{\"data\":[1}}", "{\"data\":[],\"data\":[]}",
            "{\"a\":1", "{\"data\":[\"x]}", "null",
        ] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}
