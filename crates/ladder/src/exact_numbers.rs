//! Checks whether the numbers of a JSON text survive parsing. A double rounds some of them.

use serde_json::Number;
use stile_domain::records::decimal::Decimal;

/// Returns whether each number of a JSON text keeps its decimal value when this program reads and
/// writes it. The spelling may change. Digits in strings and names do not count.
pub(super) fn numbers_are_exact(json: &str) -> bool {
    numbers(json).all(is_kept)
}

fn is_kept(written: &str) -> bool {
    /// Every number with at most so many digits is exact as a double.
    const DIGITS: usize = 15;
    if written.len() <= DIGITS && !written.contains(['e', 'E']) {
        return true;
    }
    let Ok(kept) = written.parse::<Number>() else { return false };
    let kept = kept.to_string();
    Decimal::parse(written).is_some_and(|written| Decimal::parse(&kept) == Some(written))
}

/// Returns the numbers of a JSON text as they are written.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            rest = rest.get(rest.find(|c: char| matches!(c, '"' | '-' | '0'..='9'))?..)?;
            if let Some(text) = rest.strip_prefix('"') {
                rest = after_text(text)?;
                continue;
            }
            let is_of_number = |c: char| matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-');
            let (number, after) =
                rest.split_at_checked(rest.find(|c| !is_of_number(c)).unwrap_or(rest.len()))?;
            rest = after;
            return Some(number);
        }
    })
}

/// Returns what follows a JSON string whose opening quote was already consumed.
fn after_text(json: &str) -> Option<&str> {
    let mut is_escaped = false;
    let is_end = |byte: u8| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    };
    let end = json.bytes().position(is_end)?;
    json.get(end + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_exact_in_any_spelling_of_its_value() {
        let exact = [
            "0", "-0", "-0.0", "12.50", "1E2", "1e2", "100", "1.5e+1", "0e400", "9007199254740993",
            "2.50e-3",
        ];
        for number in exact {
            assert!(numbers_are_exact(number), "{number}");
        }
        let others = [
            "9007199254740993.0", "1e400", "0.30000000000000001", "1e-400",
            "9007199254740993000001", "5e-324000",
        ];
        for number in others {
            assert!(!numbers_are_exact(number), "{number}");
            assert!(!numbers_are_exact(&format!("{{\"a\":[1,{{\"b\":{number}}}]}}")), "{number}");
        }
    }

    #[test]
    fn digits_in_strings_are_not_numbers() {
        for json in [
            r#"{"total":{"price":12.50,"currency":"EUR"}}"#,
            r#"{"e":["1e400","\"1e400","\\",-0.10,"9007199254740993.0\\\"",true,false,null]}"#,
            "[]",
            "\"\"",
        ] {
            assert!(numbers_are_exact(json), "{json}");
        }
        assert!(
            !numbers_are_exact(r#"{"\\":1e400}"#)
                && !numbers_are_exact(r#"["\"", "\\", 1e-400 , 1]"#)
        );
    }

    #[test]
    fn long_numbers_take_linear_time() {
        let long = "9".repeat(1 << 20);
        for number in [
            format!("0.{long}"),
            format!("1e{long}"),
            format!("[{}1]", "0.1234567890123456e1,".repeat(1 << 15)),
        ] {
            numbers_are_exact(&number);
        }
    }

    proptest! {
        #[test]
        fn an_exact_number_is_written_with_the_same_value(mantissa in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,12})?", exponent in "([eE][+-]?[0-9]{1,3})?") {
            let written = mantissa + &exponent;
            let kept = written.parse::<Number>().map(|number| number.to_string());
            let is_same = kept.is_ok_and(|kept| Decimal::parse(&kept) == Decimal::parse(&written));
            prop_assert_eq!(numbers_are_exact(&written), is_same);
        }
    }
}
