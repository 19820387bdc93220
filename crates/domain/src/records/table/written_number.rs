//! Reads a number as people and spreadsheets write it: `-1.204,20 €`, `(1,204.20)`, `1'204.20-`.
//!
//! *Shape*: a sign before or behind the digits or around them as parentheses, a currency, digits
//! with marks between groups of three, a decimal mark and more digits, or none. `DR` behind a
//! number makes it negative and `CR` does not, as `S` and `H` behind one with two decimals. A code
//! such as `007` and a telephone number such as `+49 30` are not numbers.

/// The mark between the whole and the fraction of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecimalMark {
    /// `1,204.20`
    Point,
    /// `1.204,20`
    Comma,
}

/// The most digits of a number. A double rounds a longer one.
pub const MAX_DIGITS: usize = 15;

/// The most digits of a whole number with a plus. Telephone numbers have more.
const MAX_PLUS_DIGITS: usize = 6;

/// The signs and codes of currencies that may stand beside a number.
const CURRENCIES: &str = "R$ Rs. Rs ₨ TL lei Kč Ft 円 元 ₫ ₴ лв. лв руб. $ € £ ¥ ₹ ₽ ₩ ₺ ₪ ฿ kr zł Fr. EUR USD GBP CHF JPY SEK NOK DKK PLN CZK HUF \
                          CAD AUD NZD INR BRL RUB CNY TRY ZAR MXN SGD HKD KRW RON BGN ILS AED THB";

impl DecimalMark {
    /// Both marks, the point first.
    pub const ALL: [Self; 2] = [Self::Point, Self::Comma];

    /// Returns the character of the mark.
    pub fn character(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }

    /// Returns the mark that is this character.
    pub fn of(character: char) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.character() == character)
    }
}

/// Returns whether a text is a JSON number without an exponent and with at most [`MAX_DIGITS`]
/// digits: an optional `-`, then `0` or digits that do not begin with `0`, then optionally a point
/// and digits.
pub fn is_plain(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The point is not a digit.
    number.len() <= MAX_DIGITS + usize::from(number.contains('.'))
        && digits(whole)
        && digits(fraction)
        && (whole == "0" || !whole.starts_with('0'))
}

/// Returns the number as JSON spells it; `None` for a text that is not a number with this mark.
pub fn to_json(text: &str, mark: DecimalMark) -> Option<String> {
    let spelled = Spelled::of(text)?;
    let has_currency = spelled.currency.is_some();
    let (is_negative, has_plus, body) = spelled.split();
    let (whole, fraction) = match body.split_once(mark.character()) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (body, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = match (fraction, whole) {
        // The mark is at the end.
        (Some(""), whole) if is_digits(whole) => None,
        (fraction, _) => fraction,
    };
    let is_long = has_plus && fraction.is_none() && whole.len() > MAX_PLUS_DIGITS;
    if is_long || fraction.is_some_and(|fraction| !is_digits(fraction)) {
        return None;
    }
    let whole = match whole {
        "" => fraction.map(|_| "0".to_owned())?,
        whole => without_groups(whole, mark, fraction.is_some() || has_currency)?,
    };
    if whole.len() + fraction.map_or(0, str::len) > MAX_DIGITS {
        return None;
    }
    let sign = if is_negative { "-" } else { "" };
    Some(match fraction {
        Some(fraction) => format!("{sign}{whole}.{fraction}"),
        None => format!("{sign}{whole}"),
    })
}

/// Returns the currency that [`currency`] calls by this name.
pub fn currency_named(name: &str) -> Option<&'static str> {
    currency(&format!("1 {name}")).filter(|own| *own == name)
}

/// Returns the code of the currency beside a number, or its sign if that has no code.
pub fn currency(text: &str) -> Option<&'static str> {
    const CODES: [(&str, &str); 19] = [
        ("€", "EUR"),
        ("$", "USD"),
        ("£", "GBP"),
        ("₹", "INR"),
        ("₽", "RUB"),
        ("₩", "KRW"),
        ("zł", "PLN"),
        ("Fr.", "CHF"),
        ("R$", "BRL"),
        ("TL", "TRY"),
        ("lei", "RON"),
        ("Kč", "CZK"),
        ("Ft", "HUF"),
        ("Rs", "Rs."),
        ("₴", "UAH"),
        ("₫", "VND"),
        ("лв.", "BGN"),
        ("лв", "BGN"),
        ("руб.", "RUB"),
    ];
    let spelled = Spelled::of(text)?.currency?;
    Some(CODES.iter().find(|(sign, _)| *sign == spelled).map_or(spelled, |(_, code)| code))
}

/// Whether a word behind the number is its sign, as in `45.10 DR`.
pub fn has_side(text: &str) -> bool {
    Spelled::of(text).is_some_and(|spelled| spelled.has_side)
}

/// Returns a number as JSON spells it with the other sign.
pub fn negated(json: &str) -> String {
    match json.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if json.bytes().all(|byte| matches!(byte, b'0' | b'.')) => json.to_owned(),
        None => format!("-{json}"),
    }
}

/// A text without its sign and currency.
struct Spelled<'t> {
    body: &'t str,
    minus_signs: usize,
    has_plus: bool,
    /// Whether a word behind the number is its sign.
    has_side: bool,
    currency: Option<&'static str>,
}

impl<'t> Spelled<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut spelled = Self {
            body: inner.unwrap_or(text).trim(),
            minus_signs: usize::from(inner.is_some()),
            has_plus: false,
            has_side: false,
            currency: None,
        };
        spelled.take_dash_for_no_cents();
        spelled.take_side();
        // A sign may stand before and behind the currency.
        for _ in 0..2 {
            spelled.take_sign();
            spelled.take_currency();
        }
        let is_digit = |character: char| character.is_ascii_digit();
        let is_number =
            spelled.body.starts_with(|first| is_digit(first) || first == '.' || first == ',')
                && spelled.body.ends_with(|last| is_digit(last) || last == '.' || last == ',')
                && spelled.minus_signs <= 1;
        is_number.then_some(spelled)
    }

    /// Takes the dash that the Swiss write in place of no cents, as in `5.–`.
    fn take_dash_for_no_cents(&mut self) {
        for dash in [".\u{2013}", ".\u{2014}", ".-", ".--", ",\u{2013}", ",\u{2014}", ",-", ",--"] {
            let Some(rest) = self.body.strip_suffix(dash) else { continue };
            if rest.ends_with(|last: char| last.is_ascii_digit()) {
                self.body = rest;
                return;
            }
        }
    }

    /// Takes the word for a side of an account, of which the first of each pair is negative.
    fn take_side(&mut self) {
        for (word, is_negative, needs_cents) in
            [("DR", true, false), ("CR", false, false), ("S", true, true), ("H", false, true)]
        {
            let Some(rest) = self.body.strip_suffix(word).map(str::trim_end) else { continue };
            let is_behind_digit = rest.ends_with(|last: char| last.is_ascii_digit());
            if is_behind_digit && (!needs_cents || has_cents(rest)) {
                (self.body, self.has_side) = (rest, true);
                self.minus_signs += usize::from(is_negative);
                return;
            }
        }
    }

    fn take_sign(&mut self) {
        let is_minus = |character: char| matches!(character, '-' | '\u{2212}');
        if let Some(rest) = self.body.strip_prefix(is_minus) {
            (self.body, self.minus_signs) = (rest.trim_start(), self.minus_signs + 1);
        } else if let Some(rest) = self.body.strip_suffix(is_minus) {
            (self.body, self.minus_signs) = (rest.trim_end(), self.minus_signs + 1);
        } else if let Some(rest) = self.body.strip_prefix('+') {
            (self.body, self.has_plus) = (rest.trim_start(), true);
        } else if let Some(rest) = self.body.strip_suffix('+').filter(|rest| has_cents(rest)) {
            // Without cents it is a word, such as `18+`.
            (self.body, self.has_plus) = (rest, true);
        }
    }

    fn take_currency(&mut self) {
        if self.currency.is_some() {
            return;
        }
        for currency in CURRENCIES.split(' ') {
            let rest = match (self.body.strip_prefix(currency), self.body.strip_suffix(currency)) {
                (Some(rest), _) => rest.trim_start(),
                (None, Some(rest)) => rest.trim_end(),
                (None, None) => continue,
            };
            (self.body, self.currency) = (rest, Some(currency));
            return;
        }
    }

    fn split(self) -> (bool, bool, &'t str) {
        (self.minus_signs == 1, self.has_plus, self.body)
    }
}

/// Whether a number ends in a mark and two digits.
fn has_cents(number: &str) -> bool {
    let digits = number.bytes().rev().take_while(u8::is_ascii_digit).count();
    let before = number.len().checked_sub(digits + 1).and_then(|at| number.get(at..=at));
    digits == 2 && matches!(before, Some("." | ","))
}

/// Removes the marks between groups of digits. All marks are equal; the last group has three
/// digits, and each before it two or three, as in India. A plain space is a mark only in an amount:
/// a number with a fraction or a currency.
fn without_groups(whole: &str, mark: DecimalMark, is_amount: bool) -> Option<String> {
    let is_separator = |character: char| match character {
        '.' | ',' => character != mark.character(),
        ' ' => is_amount,
        '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}' | '\u{2009}' => true,
        _ => false,
    };
    let separator = whole.chars().find(|character| !character.is_ascii_digit());
    if separator.is_some_and(|separator| !is_separator(separator)) {
        return None;
    }
    let groups: Vec<&str> = match separator {
        Some(separator) => whole.split(separator).collect(),
        None => vec![whole],
    };
    let is_digits =
        |group: &&str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let fits = match groups.as_slice() {
        [first, middle @ .., last] => {
            (1..=3).contains(&first.len())
                && middle.iter().all(|group| matches!(group.len(), 2 | 3))
                && last.len() == 3
        }
        _ => true,
    };
    let digits = groups.concat();
    let has_code_zero = digits.len() > 1 && digits.starts_with('0');
    (fits && groups.iter().all(is_digits) && !has_code_zero).then_some(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_read_in_each_spelling_and_codes_are_not_numbers() {
        let both = |text: &str| DecimalMark::ALL.map(|mark| to_json(text, mark));
        for (text, point, comma) in [
            ("1204.20", Some("1204.20"), None),
            ("-1,204.20", Some("-1204.20"), None),
            ("-1.204,20", None, Some("-1204.20")),
            ("1.204", Some("1.204"), Some("1204")),
            ("1,204", Some("1204"), Some("1.204")),
            ("0,125", None, Some("0.125")),
            ("-4,20", None, Some("-4.20")),
            ("(1,204.20)", Some("-1204.20"), None),
            ("1.204,20-", None, Some("-1204.20")),
            ("1.204,20+", None, Some("1204.20")),
            ("18+", None, None),
            ("\u{2212}3", Some("-3"), Some("-3")),
            ("1'204.20", Some("1204.20"), None),
            ("1 204,20", None, Some("1204.20")),
            ("1\u{a0}204", Some("1204"), Some("1204")),
            ("12,34,567.00", Some("1234567.00"), None),
            ("€ -4.20", Some("-4.20"), None),
            ("-€4.20", Some("-4.20"), None),
            ("1.204,20 EUR", None, Some("1204.20")),
            ("+4.20", Some("4.20"), None),
            (".5", Some("0.5"), None),
            ("5.", Some("5"), None),
            ("5.\u{2013}", Some("5"), Some("5")),
            ("-1'204.\u{2013}", Some("-1204"), Some("-1204")),
            ("12,-", Some("12"), Some("12")),
            ("-1.204,20 TL", None, Some("-1204.20")),
            ("R$ 1.204,20", None, Some("1204.20")),
            ("-R$ 5,00", None, Some("-5.00")),
            ("Rs. 500.00", Some("500.00"), None),
            ("1,204円", Some("1204"), Some("1.204")),
            ("12,50 Kč", None, Some("12.50")),
            ("12,50 lei", None, Some("12.50")),
            ("-1 204 Ft", Some("-1204"), Some("-1204")),
            ("+12", Some("12"), Some("12")),
            ("45.10 DR", Some("-45.10"), None),
            ("45.10CR", Some("45.10"), None),
            ("1.234,56 S", None, Some("-1234.56")),
            ("42 S", None, None),
            ("0", Some("0"), Some("0")),
            ("1234567890123456", None, None),
            ("007", None, None),
            ("+49 30 123", None, None),
            ("+49301234", None, None),
            ("49 301 234", None, None),
            ("1.2.3", None, None),
            ("1,23,4", None, None),
            ("05.01.2026", None, None),
            ("12:30", None, None),
            ("(-4)", None, None),
            ("4 x", None, None),
            ("-", None, None),
            ("", None, None),
        ] {
            assert_eq!(both(text), [point, comma].map(|json| json.map(str::to_owned)), "{text}");
        }
        assert_eq!(currency("1.204,20 EUR"), Some("EUR"));
        assert_eq!(currency("-€4"), Some("EUR"));
        assert_eq!(currency("R$ 4"), Some("BRL"));
        assert_eq!(currency("4 TL"), Some("TRY"));
        assert_eq!(["4.5", "-4.5", "0.0"].map(negated), ["-4.5", "4.5", "0.0"]);
        assert_eq!(currency("4"), None);
    }

    proptest! {
        #[test]
        fn every_number_is_a_json_number_and_a_plain_one_stays_itself(
            text in "[-+(€ ]{0,2}[0-9.,' ]{1,18}[-) ]{0,1}",
        ) {
            for mark in DecimalMark::ALL {
                if let Some(json) = to_json(&text, mark) {
                    prop_assert!(is_plain(&json), "{json}");
                    prop_assert!(serde_json::from_str::<serde_json::Number>(&json).is_ok());
                }
            }
            if is_plain(&text) && !text.contains('.') {
                prop_assert_eq!(to_json(&text, DecimalMark::Comma), Some(text.clone()));
            }
            if is_plain(&text) {
                let whole = text.split('.').next().unwrap_or_default();
                let is_short = whole.trim_start_matches('-').len() <= 15;
                prop_assert!(!is_short || to_json(&text, DecimalMark::Point) == Some(text));
            }
        }
    }
}
