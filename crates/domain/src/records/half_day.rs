//! The words that say which half of the day a time on a clock of twelve hours is in.
//!
//! Chinese, Japanese and Korean write the word before the time: `下午 2:15`. Others write it behind:
//! `2:15 PM`, `2:15 μ.μ.`. A word of a shorter part of the day, such as `晚上`, admits the hours of
//! that part alone: what it means at other hours is not certain.

/// A half of the day, or a shorter part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfDay {
    /// From midnight to noon.
    Morning,
    /// From noon to midnight.
    Afternoon,
    /// About noon.
    Noon,
    /// From late in the afternoon to midnight.
    Evening,
}

use HalfDay::{Afternoon, Evening, Morning, Noon};

/// The words that stand before a time. No word is the beginning of a later one.
const BEFORE: [(&str, HalfDay); 22] = [
    ("上午", Morning),
    ("午前", Morning),
    ("오전", Morning),
    ("凌晨", Morning),
    ("早上", Morning),
    ("早晨", Morning),
    ("清晨", Morning),
    ("새벽", Morning),
    ("아침", Morning),
    ("下午", Afternoon),
    ("午后", Afternoon),
    ("午後", Afternoon),
    ("오후", Afternoon),
    ("中午", Noon),
    ("正午", Noon),
    ("낮", Noon),
    ("晚上", Evening),
    ("傍晚", Evening),
    ("夜晚", Evening),
    ("夜", Evening),
    ("저녁", Evening),
    ("밤", Evening),
];

/// The words that stand behind a time, without their points.
const BEHIND: [(&str, HalfDay); 12] = [
    ("am", Morning),
    ("pm", Afternoon),
    ("πμ", Morning),
    ("μμ", Afternoon),
    ("ص", Morning),
    ("م", Afternoon),
    ("قظ", Morning),
    ("بظ", Afternoon),
    ("sa", Morning),
    ("ch", Afternoon),
    ("öö", Morning),
    ("ös", Afternoon),
];

impl HalfDay {
    /// Removes a word at the beginning of a text that stands before a time.
    pub fn strip(text: &str) -> Option<(Self, &str)> {
        let (half, rest) = BEFORE
            .iter()
            .find_map(|(word, half)| text.strip_prefix(word).map(|rest| (*half, rest)))?;
        Some((half, rest.trim_start()))
    }

    /// Returns the half of the day that a text behind a time names, such as `p. m.`.
    pub fn behind(text: &str) -> Option<Self> {
        let letters: String =
            text.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
        let is_word = text.chars().all(|c| c.is_alphabetic() || c.is_whitespace() || c == '.');
        let is_short = text.chars().count() <= 6;
        let named = BEHIND.iter().find(|(word, _)| is_word && is_short && *word == letters);
        named.map(|(_, half)| *half)
    }

    /// Returns the hour of 24 for an hour as the clock shows it. Some clocks show 0 for 12, and
    /// some programs write the word beside an hour of 24. `None` if the hour is not in this part of
    /// the day.
    pub fn hour(self, shown: u32) -> Option<u32> {
        match (self, shown) {
            (Morning, 12) => Some(0),
            (Morning, 0..=11) => Some(shown),
            (Afternoon, 0..=11) | (Noon, 1..=3) | (Evening, 4..=11) => Some(shown + 12),
            (Afternoon, 12..=23) | (Noon, 11..=15) | (Evening, 16..=23) => Some(shown),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_admits_the_hours_of_its_part_of_the_day() {
        for (written, hour) in [
            ("上午 9", Some(9)),
            ("上午12", Some(0)),
            ("凌晨12", Some(0)),
            ("下午9", Some(21)),
            ("午後0", Some(12)),
            ("午前0", Some(0)),
            ("오후 12", Some(12)),
            ("오전 13", None),
            ("오후 14", Some(14)),
            ("中午12", Some(12)),
            ("中午1", Some(13)),
            ("中午9", None),
            ("晚上8", Some(20)),
            ("晚上12", None),
            ("밤 11", Some(23)),
        ] {
            let (half, rest) = HalfDay::strip(written).unwrap();
            assert_eq!(half.hour(rest.parse().unwrap()), hour, "{written}");
        }
        for (text, half) in [
            ("PM", Some(Afternoon)),
            ("a. m.", Some(Morning)),
            ("μ.μ.", Some(Afternoon)),
            ("CH", Some(Afternoon)),
            ("", None),
            ("pm then", None),
            ("pm -05", None),
        ] {
            assert_eq!(HalfDay::behind(text), half, "{text}");
        }
    }
}
