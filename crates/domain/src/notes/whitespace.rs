//! White space, slugs and truncation by the rules of JavaScript, in which the other readers of the
//! notes are written.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Whether JavaScript's `\s` matches the character, and `trim` removes it.
///
/// *Source*: ECMA-262, WhiteSpace and LineTerminator. Unlike Unicode's White_Space, the set has
/// U+FEFF and does not have U+0085.
pub(super) fn is_whitespace(character: char) -> bool {
    matches!(
        character,
        '\t'..='\r'
            | ' '
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

/// Trims both ends as JavaScript's `trim` does.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_whitespace)
}

/// Trims the end as JavaScript's `trimEnd` does.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_whitespace)
}

/// Composes a text (NFC), replaces each run of white space by one space, and trims.
pub(super) fn normalize(text: &str) -> String {
    let composed: Cow<'_, str> =
        if is_nfc(text) { text.into() } else { text.nfc().collect::<String>().into() };
    let mut normalized = String::with_capacity(composed.len());
    for word in composed.split(is_whitespace).filter(|word| !word.is_empty()) {
        if !normalized.is_empty() {
            normalized.push(' ');
        }
        normalized.push_str(word);
    }
    normalized
}

/// Returns the slug of a text: lower-case `a-z` and `0-9`, with one `-` for each run of other
/// characters between them.
///
/// JavaScript goes by UTF-16 code units. A character of two units is one run too, so the result is
/// the same.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for character in text.chars().flat_map(char::to_lowercase) {
        if matches!(character, 'a'..='z' | '0'..='9') {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    if slug.ends_with('-') {
        slug.pop();
    }
    slug
}

/// Truncates a text to `max_chars` scalar values. Returns whether the text was longer.
pub(super) fn truncate(text: &mut String, max_chars: usize) -> bool {
    if text.len() <= max_chars {
        return false;
    }
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return false };
    text.truncate(end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_that_of_javascript() {
        let white: Vec<u32> = (0..=0x10ffff)
            .filter(|code| char::from_u32(*code).is_some_and(is_whitespace))
            .collect();
        assert_eq!(white.len(), 25);
        assert!(white.contains(&0xfeff) && !white.contains(&0x85) && !white.contains(&0x200b));
        assert_eq!(trim("\u{feff}\u{a0} a\u{200b} \u{2029}"), "a\u{200b}");
    }

    #[test]
    fn normalizing_composes_and_collapses_white_space() {
        assert_eq!(
            normalize("  Cafe\u{301}\u{a0}\t\u{212b} \n x\u{200b}"),
            "Caf\u{e9} \u{c5} x\u{200b}"
        );
    }

    #[test]
    fn a_slug_holds_only_ascii() {
        for (text, expected) in [
            ("Hello, World!", "hello-world"),
            ("--a--B--", "a-b"),
            ("\u{130}stanbul \u{212a}", "i-stanbul-k"),
            ("\u{1f680} Launch", "launch"),
            ("\u{65e5}\u{672c}", ""),
            ("inbox/one.md", "inbox-one-md"),
        ] {
            assert_eq!(slug(text), expected);
        }
    }

    #[test]
    fn truncation_counts_characters() {
        let mut text = "\u{e9}".repeat(5);
        assert!(!truncate(&mut text, 5));
        assert!(truncate(&mut text, 3));
        assert_eq!(text, "\u{e9}\u{e9}\u{e9}");
    }
}
