//! The members of a list, as conditions and groups look at them.
//!
//! A list is kept as its compact JSON. Its members are compared like fields of their own, if they
//! are texts, numbers or booleans. Other members are passed over.

use super::stored_body::StoredValue;
use crate::json::pieces::{JsonEvent, JsonLexer};

/// Passes each member of a list to `take`: `None` for one that is a list or an object. Passes
/// nothing if the JSON is no list.
pub fn each_member(json: &str, take: &mut dyn FnMut(Option<StoredValue<'_>>)) {
    if !json.starts_with('[') {
        return;
    }
    let (mut depth, mut held) = (0, String::new());
    let mut report = |event: JsonEvent<'_>, _: usize| match event {
        JsonEvent::Begin(_) => {
            depth += 1;
            if depth == 2 {
                take(None);
            }
        }
        JsonEvent::End => depth -= 1,
        JsonEvent::Text(part) | JsonEvent::Scalar(part) if depth == 1 => held.push_str(part),
        JsonEvent::TextEnd if depth == 1 => {
            take(Some(StoredValue::Text(&held)));
            held.clear();
        }
        JsonEvent::ScalarEnd if depth == 1 => {
            take(Some(match held.as_str() {
                "null" => StoredValue::Null,
                "true" => StoredValue::Bool(true),
                "false" => StoredValue::Bool(false),
                digits => StoredValue::Number(digits),
            }));
            held.clear();
        }
        _ => {}
    };
    let mut lexer = JsonLexer::default();
    lexer.feed(json, &mut report);
    lexer.finish(&mut report);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_decoded_and_nested_ones_are_passed_over() {
        let members = |json: &str| {
            let mut all = Vec::new();
            each_member(json, &mut |member| all.push(format!("{member:?}")));
            all
        };
        assert_eq!(
            members(r#"["a\nb","\u00e4",1.50,true,null,["x"],{"y":"z"},"end"]"#),
            [
                "Some(Text(\"a\\nb\"))", "Some(Text(\"ä\"))", "Some(Number(\"1.50\"))",
                "Some(Bool(true))", "Some(Null)", "None", "None", "Some(Text(\"end\"))",
            ]
        );
        for json in ["[]", "{\"a\":1}", "7", ""] {
            assert!(members(json).is_empty(), "{json}");
        }
    }
}
