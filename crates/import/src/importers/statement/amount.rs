//! Amounts and dates of statements, as records have them.

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

/// Returns the date with which a text such as `20260105120000[-5:EST]` or `2026-01-05T12:00:00`
/// begins.
pub(super) fn date(text: &str) -> Option<String> {
    let mut digits = text.trim().bytes().filter(|byte| *byte != b'-').take(8);
    let date: Vec<u8> = digits.by_ref().collect();
    let date = String::from_utf8(date).ok().filter(|date| date.len() == 8)?;
    let number = |range: std::ops::Range<usize>| date.get(range)?.parse::<u32>().ok();
    let is_date = (1..=12).contains(&number(4..6)?) && (1..=31).contains(&number(6..8)?);
    (is_date && number(0..4).is_some())
        .then(|| format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_dates_are_read_as_banks_write_them() {
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
        for text in ["20260105", "20260105120000.000[-5:EST]", "2026-01-05", "2026-01-05T10:00:00"]
        {
            assert_eq!(date(text).as_deref(), Some("2026-01-05"), "{text}");
        }
        for text in ["", "2026", "20261305", "20260100", "januar05", "é0260105"] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
