//! Amounts of statements, as records have them.

/// Returns an amount as a JSON number. The last of a point and a comma is the decimal mark, as OFX
/// lets banks choose.
pub(super) fn amount(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let mark = digits.rfind(['.', ',']);
    let (whole, part) = match mark {
        Some(at) => (digits.get(..at)?, digits.get(at + 1..)?),
        None => (digits, ""),
    };
    let whole: String =
        whole.chars().filter(|c| !matches!(c, '.' | ',' | ' ' | '\u{a0}')).collect();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(&whole) || !is_number(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if part.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_banks_write_them() {
        for (text, number) in [
            ("-12.34", "-12.34"),
            ("+5", "5"),
            ("1,204.20", "1204.20"),
            ("-1.204,20", "-1204.20"),
            ("0.50", "0.50"),
            (".5", "0.5"),
            ("007", "7"),
            (" 12,00 ", "12.00"),
        ] {
            assert_eq!(amount(text).as_deref(), Some(number), "{text}");
        }
        for text in ["", "-", ".", "1e5", "12a", "--1", "1-"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }
}
