//! Reads a date, or a date and time, as people and banks write it.
//!
//! *Shape*: `05.01.2026`, `1/26/2026`, `5 Jan 2026`, `Jan 5, 2026`, `2026/01/05`, with the name of
//! the weekday before it or not, and behind it a time of day such as `9:05`, `21:05:30.5` or `9:05
//! PM` and a zone such as `+0000`, `-05:00` or `UTC`. With points the day is first. A year of two
//! digits lies between 1970 and 2069.

use crate::records::instant::Instant;

/// The order of the day and the month, both numbers, before the year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DateOrder {
    /// `26/01/2026`
    DayFirst,
    /// `01/26/2026`
    MonthFirst,
}

impl DateOrder {
    /// Both orders, the day first.
    pub const ALL: [Self; 2] = [Self::DayFirst, Self::MonthFirst];

    /// Returns the name, as the owner writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::DayFirst => "day-first",
            Self::MonthFirst => "month-first",
        }
    }

    /// Returns the order with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }
}

/// The first letters of the months in English, German, French, Spanish, Italian, Portuguese and
/// Dutch.
const MONTHS: [&str; 12] = [
    "jan ene gen", "feb fév fev", "mar mär mrz maa", "apr avr abr", "may mai mag mei",
    "jun juin giu", "jul juil lug", "aug aoû ago", "sep set", "oct okt out ott", "nov",
    "dec dez déc dic",
];

/// Returns a date such as `2026-01-05`, or a date and time of RFC 3339. A text that is one already
/// stays as it is. `None` for any other text, and for a day that does not exist.
pub fn to_rfc3339(text: &str, order: DateOrder) -> Option<String> {
    let text = text.trim();
    if Instant::parse(text).is_some() {
        return Some(text.to_owned());
    }
    let (date, rest) = date(without_weekday(text), order)?;
    let rest = rest.strip_prefix(',').unwrap_or(rest);
    let time = match rest.trim() {
        "" => String::new(),
        clock => time(rest.strip_prefix(['T', ' ']).map(|_| clock.trim_start_matches('T'))?)?,
    };
    let spelled = format!("{date}{time}");
    Instant::parse(&spelled).map(|_| spelled)
}

/// Returns a date that is written as eight digits, `20260105`. `None` for another text, and for a
/// year outside 1950 to 2099: such digits are another number.
pub fn compact_to_rfc3339(text: &str) -> Option<String> {
    let is_digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (year, rest) = text.split_at_checked(4).filter(|_| is_digits)?;
    let (month, day) = rest.split_at_checked(2)?;
    let spelled = format!("{year}-{month}-{day}");
    let is_likely = ("1950".."2100").contains(&year);
    Instant::parse(&spelled).filter(|_| is_likely).map(|_| spelled)
}

/// Removes a name of letters before a number, as in `Mon, 5 Jan 2026` and `Mo 05.01.2026`.
fn without_weekday(text: &str) -> &str {
    let letters = text.find(|character: char| !character.is_alphabetic()).unwrap_or(text.len());
    let (name, rest) = text.split_at(letters);
    let rest = rest.trim_start_matches([',', '.']).trim_start();
    let is_weekday = (2..=10).contains(&name.chars().count()) && month(name).is_none();
    if is_weekday && rest.starts_with(|first: char| first.is_ascii_digit()) { rest } else { text }
}

/// Reads a date at the beginning, and returns what follows it.
fn date(text: &str, order: DateOrder) -> Option<(String, &str)> {
    let (first, rest) = word(text)?;
    let separator = rest.chars().next()?;
    let (second, rest) = word(skip(rest))?;
    let (third, rest) = word(skip(rest))?;
    let number = |word: &str| -> Option<u32> {
        let fits = word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| fits)
    };
    let short = |word: &str| number(word).filter(|_| word.len() <= 2);
    let (year, month, day) = match (month(first), month(second)) {
        (Some(month), _) => (year(third)?, month, short(second)?),
        (None, Some(month)) => (year(third)?, month, short(first)?),
        (None, None) if first.len() == 4 => (number(first)?, short(second)?, short(third)?),
        (None, None) => {
            let (one, two) = (short(first)?, short(second)?);
            if !matches!(separator, '.' | '/' | '-') {
                return None;
            }
            match order {
                DateOrder::MonthFirst if separator != '.' => (year(third)?, one, two),
                _ => (year(third)?, two, one),
            }
        }
    };
    Some((format!("{year:04}-{month:02}-{day:02}"), rest))
}

/// Returns the letters or digits at the beginning, and what follows them.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_digit = text.starts_with(|first: char| first.is_ascii_digit());
    let ends = |character: char| match is_digit {
        true => !character.is_ascii_digit(),
        false => !character.is_alphabetic(),
    };
    let length = text.find(ends).unwrap_or(text.len());
    (length > 0).then(|| text.split_at(length))
}

/// Skips what separates the parts of a date: at most a point or a comma, and a space or another
/// separator.
fn skip(text: &str) -> &str {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some('.' | ','), Some(' ')) => text.get(2..).unwrap_or_default(),
        (Some('.' | '/' | '-' | ' '), _) => text.get(1..).unwrap_or_default(),
        _ => "",
    }
}

fn month(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    let is_name = |name: &str| word.starts_with(name);
    let at = MONTHS.iter().position(|names| names.split(' ').any(is_name))?;
    u32::try_from(at + 1).ok().filter(|_| word.chars().count() <= 10)
}

fn year(word: &str) -> Option<u32> {
    let is_digits = word.bytes().all(|byte| byte.is_ascii_digit());
    match (word.len(), word.parse().ok().filter(|_| is_digits)?) {
        (4, year) => Some(year),
        (2, year @ 0..=69) => Some(2000 + year),
        (2, year) => Some(1900 + year),
        _ => None,
    }
}

/// Reads a time of day with its zone, and returns it as RFC 3339 has it behind a date.
fn time(text: &str) -> Option<String> {
    let clock = text.find(|character: char| !matches!(character, '0'..='9' | ':' | '.' | ','));
    let (clock, rest) = text.split_at(clock.unwrap_or(text.len()));
    let mut parts = clock.split(':');
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| matches!(part.len(), 1 | 2));
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = parts.next().unwrap_or("0").replace(',', ".");
    let (second, fraction) = seconds.split_once('.').unwrap_or((&seconds, ""));
    if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let second = number(second)?;
    let rest = rest.trim();
    let half = rest.get(..2).map(str::to_ascii_lowercase);
    let (hour, rest) = match (half.as_deref(), hour) {
        (Some("am"), 1..=11) | (Some("pm"), 12) => (hour, rest.get(2..)?),
        (Some("am"), 12) => (0, rest.get(2..)?),
        (Some("pm"), 1..=11) => (hour + 12, rest.get(2..)?),
        (Some("am" | "pm"), _) => return None,
        _ => (hour, rest),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let zone = zone(rest.trim())?;
    Some(format!("T{hour:02}:{minute:02}:{second:02}{point}{fraction}{zone}"))
}

fn zone(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['+', '-']).map(|digits| digits.replace(':', ""));
    match (text, digits) {
        ("", _) => Some(String::new()),
        ("Z" | "z" | "UTC" | "GMT", _) => Some("Z".to_owned()),
        (_, Some(digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let sign = text.get(..1)?;
            match (digits.len(), digits.split_at_checked(2)?) {
                (2, (hours, _)) => Some(format!("{sign}{hours}:00")),
                (4, (hours, minutes)) => Some(format!("{sign}{hours}:{minutes}")),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_read_in_each_spelling() {
        let both = |text: &str| DateOrder::ALL.map(|order| to_rfc3339(text, order));
        for (text, day_first, month_first) in [
            ("05.01.2026", "2026-01-05", "2026-01-05"),
            ("5.1.26", "2026-01-05", "2026-01-05"),
            ("05/01/2026", "2026-01-05", "2026-05-01"),
            ("5-1-99", "1999-01-05", "1999-05-01"),
            ("26/01/2026", "2026-01-26", ""),
            ("01/26/2026", "", "2026-01-26"),
            ("2026/01/05", "2026-01-05", "2026-01-05"),
            ("5 Jan 2026", "2026-01-05", "2026-01-05"),
            ("05-JAN-26", "2026-01-05", "2026-01-05"),
            ("5. März 2026", "2026-03-05", "2026-03-05"),
            ("Jan 5, 2026", "2026-01-05", "2026-01-05"),
            ("Mon, 5 Jan 2026", "2026-01-05", "2026-01-05"),
            ("Mo 05.01.2026", "2026-01-05", "2026-01-05"),
            ("2026-01-05", "2026-01-05", "2026-01-05"),
            ("2026-01-05T12:34:56Z", "2026-01-05T12:34:56Z", "2026-01-05T12:34:56Z"),
            ("2026-01-05 12:34:56 +0000", "2026-01-05T12:34:56+00:00", "2026-01-05T12:34:56+00:00"),
            ("05.01.2026 9:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("05.01.2026, 21:05:30,5 UTC", "2026-01-05T21:05:30.5Z", "2026-01-05T21:05:30.5Z"),
            ("1/26/2026 12:05 AM", "", "2026-01-26T00:05:00"),
            ("1/26/2026 9:05:01 pm -05", "", "2026-01-26T21:05:01-05:00"),
            ("31.02.2026", "", ""),
            ("5.1", "", ""),
            ("1.2.3", "", ""),
            ("1 2 2026", "", ""),
            ("10.0.0.1", "", ""),
            ("May 5, 2026 was fine", "", ""),
            ("05.01.2026 25:00", "", ""),
            ("Room 5 Jan 2026", "2026-01-05", "2026-01-05"),
            ("", "", ""),
        ] {
            let expected = [day_first, month_first];
            let expected = expected.map(|date| Some(date.to_owned()).filter(|_| !date.is_empty()));
            assert_eq!(both(text), expected, "{text}");
        }
        assert_eq!(compact_to_rfc3339("20260105").as_deref(), Some("2026-01-05"));
        for text in ["20261305", "12345678", "2026010", "2026-1-5"] {
            assert_eq!(compact_to_rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_result_is_an_instant(text in "[0-9./ :,a-zé+-]{0,24}") {
            for order in DateOrder::ALL {
                if let Some(spelled) = to_rfc3339(&text, order) {
                    prop_assert!(Instant::parse(&spelled).is_some(), "{spelled}");
                }
            }
        }
    }
}
