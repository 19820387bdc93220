//! Reads a date, or a date and time, as people and banks write it.
//!
//! *Shape*: `05.01.2026`, `1/26/2026`, `5 Jan 2026`, `Jan 5, 2026`, `5 de enero de 2026`,
//! `2026年1月5日`, `2026. 1. 5.`, `2026/01/05`, with the name of the weekday before it or not, and
//! behind it a time of day such as `9:05`, `21:05:30.5`, `9:05 PM`, `下午 9:05` or `오후 9:05`, and a
//! zone such as `+0000`, `-05:00`, `UTC`, `CET` or `Europe/Zurich`. An abbreviation that several
//! zones have, such as `CST`, is left out, so the time stays that of the place. With points the day
//! is first. A year of two digits lies between 1970 and 2069.

use std::borrow::Cow;

use crate::records::half_day::HalfDay;
use crate::records::instant::Instant;
use crate::records::zone::Zone;

/// The order of the day, the month and the year, all numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DateOrder {
    /// `26/01/2026`
    DayFirst,
    /// `01/26/2026`
    MonthFirst,
    /// `26-01-26` with the year in front. A year of four digits in front is so in every order.
    YearFirst,
}

impl DateOrder {
    /// All orders, the day first.
    pub const ALL: [Self; 3] = [Self::DayFirst, Self::MonthFirst, Self::YearFirst];

    /// Returns the name, as the owner writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::DayFirst => "day-first",
            Self::MonthFirst => "month-first",
            Self::YearFirst => "year-first",
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

/// Returns what [`to_rfc3339`] returns where nothing says whether the day or the month is first;
/// `None` for a text that is another date in each order, such as `5/3/2026`.
pub fn in_any_order(text: &str) -> Option<String> {
    match [DateOrder::DayFirst, DateOrder::MonthFirst].map(|order| to_rfc3339(text, order)) {
        [Some(one), Some(other)] => Some(one).filter(|one| *one == other),
        [one, other] => one.or(other),
    }
}

/// Returns a date such as `2026-01-05`, or a date and time of RFC 3339. A text that is one already
/// stays as it is. `None` for any other text, and for a day that does not exist.
pub fn to_rfc3339(text: &str, order: DateOrder) -> Option<String> {
    let text = text.trim();
    if Instant::parse(text).is_some() {
        return Some(text.to_owned());
    }
    let plain = without_words(without_weekday(text));
    let (date, rest) = date(&plain, order)?;
    let rest = without_weekday_behind(rest.strip_prefix([',', '.']).unwrap_or(rest));
    let (clock, zone) = match rest.trim() {
        "" => (String::new(), ""),
        clock => time(rest.strip_prefix(['T', ' ']).map(|_| clock.trim_start_matches('T'))?)?,
    };
    let local = format!("{date}{clock}");
    let spelled = match zone.contains('/') {
        true => Zone::named(zone)?.instant_of(&local)?.to_rfc3339(),
        false => format!("{local}{}", offset(zone)?),
    };
    Instant::parse(&spelled).map(|_| spelled)
}

/// Returns the abbreviation of a zone behind a time that says nothing, since several zones have it.
pub fn vague_zone(text: &str) -> Option<&str> {
    let zone = text.rsplit(' ').next()?;
    let is_behind_clock = text.contains(':') && text.len() > zone.len();
    (is_behind_clock && is_vague(zone)).then_some(zone)
}

/// Returns the first and the last number of a date of three numbers of at most two digits each,
/// between which no point stands: either can be the year.
pub fn outer_numbers(text: &str) -> Option<(u32, u32)> {
    let end = text.find([' ', ',', 'T']).unwrap_or(text.len());
    let mut parts = text.get(..end)?.split(['-', '/']);
    let number = |part: &str| {
        let is_short = (1..=2).contains(&part.len());
        part.parse().ok().filter(|_| is_short && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let (first, _, last) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    parts.next().is_none().then_some((first, last))
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

/// Removes the name of a weekday behind a date in Chinese, Japanese or Korean, as in `2026/1/5(月)`
/// and `2026-01-05 星期一 9:05`.
fn without_weekday_behind(rest: &str) -> &str {
    let name = rest.trim_start();
    let (opens, name) = match name.strip_prefix(['(', '（']) {
        Some(name) => (true, name),
        None => (false, name),
    };
    let named = ["星期", "周", "週"].into_iter().find_map(|word| name.strip_prefix(word));
    let mut letters = named.unwrap_or(name).chars();
    let is_day = letters
        .next()
        .is_some_and(|day| "日月火水木金土一二三四五六天월화수목금토일".contains(day));
    let behind = letters.as_str();
    let whole = ["曜日", "요일", "曜"].into_iter().find_map(|word| behind.strip_prefix(word));
    if !is_day || !opens && named.is_none() && whole.is_none() {
        return rest;
    }
    let behind = whole.unwrap_or(behind);
    if opens { behind.strip_prefix([')', '）']).unwrap_or(rest) } else { behind }
}

/// The marks behind the numbers of a date in Japanese and Chinese, and in Korean.
const MARKS: [[char; 3]; 2] = [['年', '月', '日'], ['년', '월', '일']];
/// Words between the parts of a date, as in `5 de enero de 2026`, and before a time of day.
const WORDS: [&str; 8] = [" de ", " del ", " um ", " at ", " à ", " alle ", " às ", " om "];

/// Removes what stands between the numbers of a date, and between a date and a time of day.
fn without_words(text: &str) -> Cow<'_, str> {
    let marks = MARKS.iter().find(|marks| text.contains(marks[0]));
    if let Some([year, month, day]) = marks {
        let parts: Vec<&str> = text.splitn(4, [*year, *month, *day]).map(str::trim).collect();
        return match parts.as_slice() {
            [year, month, day, ""] => format!("{year}-{month}-{day}").into(),
            [year, month, day, clock] => format!("{year}-{month}-{day} {clock}").into(),
            _ => text.into(),
        };
    }
    let begins_with_day = text.starts_with(|first: char| first.is_ascii_digit());
    if !begins_with_day || !WORDS.iter().any(|word| text.contains(word)) {
        return text.into();
    }
    WORDS.iter().fold(text.to_owned(), |text, word| text.replace(word, " ")).into()
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
                DateOrder::YearFirst if separator != '.' => {
                    let is_year = first.len() == 2 && second.len() == 2 && third.len() == 2;
                    (year(first).filter(|_| is_year)?, two, short(third)?)
                }
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

/// Reads a time of day, and returns it as RFC 3339 has it behind a date, with the text of its zone.
fn time(text: &str) -> Option<(String, &str)> {
    let (before, text) =
        HalfDay::strip(text).map_or((None, text), |(half, text)| (Some(half), text));
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
    let (hour, rest) = match (before, half_behind(rest)) {
        (Some(half), None) => (half.hour(hour)?, rest),
        (None, Some((half, rest))) => (half.hour(hour)?, rest),
        (None, None) => (hour, rest),
        (Some(_), Some(_)) => return None,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let clock = format!("T{hour:02}:{minute:02}:{second:02}{point}{fraction}");
    Some((clock, rest.trim().trim_start_matches("Uhr").trim_matches(['(', ')', '[', ']', ' '])))
}

/// Removes the half of the day at the beginning of what is behind a time: `PM -05` or `p. m.`.
fn half_behind(rest: &str) -> Option<(HalfDay, &str)> {
    let places = rest.char_indices().map(|(at, character)| at + character.len_utf8()).take(6);
    let ends = places.filter(|end| {
        rest.get(*end..)
            .is_some_and(|behind| !behind.starts_with(|it: char| it.is_alphabetic() || it == '.'))
    });
    ends.filter_map(|end| rest.split_at_checked(end))
        .filter_map(|(word, behind)| Some((HalfDay::behind(word)?, behind)))
        .last()
}

/// Abbreviations of zones that mean one offset.
const OFFSETS: [(&str, &str); 8] = [
    ("CET", "+01:00"),
    ("MEZ", "+01:00"),
    ("CEST", "+02:00"),
    ("MESZ", "+02:00"),
    ("WET", "+00:00"),
    ("WEST", "+01:00"),
    ("EET", "+02:00"),
    ("EEST", "+03:00"),
];

/// Whether a text is an abbreviation that several zones have.
fn is_vague(text: &str) -> bool {
    (3..=5).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase())
        && !matches!(text, "UTC" | "GMT")
        && OFFSETS.iter().all(|(name, _)| *name != text)
}

/// Returns the offset of a zone as RFC 3339 has it; empty if the zone is vague.
fn offset(text: &str) -> Option<String> {
    let known = OFFSETS.iter().find(|(name, _)| *name == text);
    if let Some((_, offset)) = known {
        return Some((*offset).to_owned());
    }
    if is_vague(text) {
        return Some(String::new());
    }
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
        let two = [DateOrder::DayFirst, DateOrder::MonthFirst];
        let both = |text: &str| two.map(|order| to_rfc3339(text, order));
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
            ("5 de enero de 2026 9:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("5 de março de 2026", "2026-03-05", "2026-03-05"),
            ("5. Januar 2026 um 09:05 Uhr", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("5 février 2026 à 09:05", "2026-02-05T09:05:00", "2026-02-05T09:05:00"),
            ("2026年1月5日 9:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("2026년 1월 5일", "2026-01-05", "2026-01-05"),
            ("2026년 1월 5일 오후 9:05", "2026-01-05T21:05:00", "2026-01-05T21:05:00"),
            ("2026. 1. 5.", "2026-01-05", "2026-01-05"),
            ("2026. 1. 5. 오전 12:05:30", "2026-01-05T00:05:30", "2026-01-05T00:05:30"),
            ("2026-01-05 월요일 오후 9:05", "2026-01-05T21:05:00", "2026-01-05T21:05:00"),
            ("2026年1月5日 下午9:05", "2026-01-05T21:05:00", "2026-01-05T21:05:00"),
            ("2026年1月5日下午9:05", "2026-01-05T21:05:00", "2026-01-05T21:05:00"),
            ("2026/1/5 上午 09:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("2026/1/5 凌晨12:05", "2026-01-05T00:05:00", "2026-01-05T00:05:00"),
            ("2026/1/5 中午12:05", "2026-01-05T12:05:00", "2026-01-05T12:05:00"),
            ("2026/1/5 晚上8:05", "2026-01-05T20:05:00", "2026-01-05T20:05:00"),
            ("2026-1-5 星期一 晚上12:05", "", ""),
            ("2026/01/05(月) 午後0:05", "2026-01-05T12:05:00", "2026-01-05T12:05:00"),
            ("2026年1月5日（月） 午前9:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("5/5/2026 9:05 p. m.", "2026-05-05T21:05:00", "2026-05-05T21:05:00"),
            ("05.01.2026 9:05 μ.μ.", "2026-01-05T21:05:00", "2026-01-05T21:05:00"),
            ("5 de enero de la tarde", "", ""),
            ("Mon, 5 Jan 2026", "2026-01-05", "2026-01-05"),
            ("Mo 05.01.2026", "2026-01-05", "2026-01-05"),
            ("2026-01-05", "2026-01-05", "2026-01-05"),
            ("2026-01-05T12:34:56Z", "2026-01-05T12:34:56Z", "2026-01-05T12:34:56Z"),
            ("2026-01-05 12:34:56 +0000", "2026-01-05T12:34:56+00:00", "2026-01-05T12:34:56+00:00"),
            ("05.01.2026 9:05", "2026-01-05T09:05:00", "2026-01-05T09:05:00"),
            ("05.01.2026, 21:05:30,5 UTC", "2026-01-05T21:05:30.5Z", "2026-01-05T21:05:30.5Z"),
            ("1/26/2026 12:05 AM", "", "2026-01-26T00:05:00"),
            ("1/26/2026 9:05:01 pm -05", "", "2026-01-26T21:05:01-05:00"),
            ("05.01.2026 9:05 CEST", "2026-01-05T09:05:00+02:00", "2026-01-05T09:05:00+02:00"),
            ("2026-07-05 09:05 Europe/Zurich", "2026-07-05T07:05:00Z", "2026-07-05T07:05:00Z"),
            ("2026-07-05 09:05 CST", "2026-07-05T09:05:00", "2026-07-05T09:05:00"),
            ("2026-07-05 09:05 Mars/Olympus", "", ""),
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
        let year_first = |text| to_rfc3339(text, DateOrder::YearFirst);
        assert_eq!(year_first("26-03-31").as_deref(), Some("2026-03-31"));
        assert_eq!(year_first("26.03.31"), to_rfc3339("26.03.31", DateOrder::DayFirst));
        for text in ["1/2/26", "26/01/2026", "01/26/26"] {
            assert_eq!(year_first(text), None, "{text}");
        }
        assert_eq!(vague_zone("2026-07-05 09:05 CST"), Some("CST"));
        assert_eq!((vague_zone("2026-07-05 09:05 CET"), vague_zone("9:05 am")), (None, None));
        assert_eq!((outer_numbers("26-03-31"), outer_numbers("26.03.31")), (Some((26, 31)), None));
        assert_eq!(compact_to_rfc3339("20260105").as_deref(), Some("2026-01-05"));
        for text in ["20261305", "12345678", "2026010", "2026-1-5"] {
            assert_eq!(compact_to_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_that_is_another_one_in_each_order_is_none() {
        for (text, date) in [
            ("5/3/2026", None),
            ("13/3/2026", Some("2026-03-13")),
            ("3/13/2026", Some("2026-03-13")),
            ("5/5/2026", Some("2026-05-05")),
            ("March 5, 2026", Some("2026-03-05")),
            ("soon", None),
        ] {
            assert_eq!(in_any_order(text).as_deref(), date, "{text}");
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
