//! White space, slugs and cuts, as JavaScript sees them.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// JavaScript's `\s`, which is also what its `trim` takes away: ECMA-262's WhiteSpace and
/// LineTerminator. Unlike Unicode's White_Space it has U+FEFF and does not have U+0085.
pub(super) fn is_white(character: char) -> bool {
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

/// JavaScript's `trim`.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_white)
}

/// JavaScript's `trimEnd`.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_white)
}

/// Composes (NFC), makes one space of each run of white space, and trims.
pub(super) fn normal(text: &str) -> String {
    let composed: Cow<'_, str> =
        if is_nfc(text) { text.into() } else { text.nfc().collect::<String>().into() };
    let mut normal = String::with_capacity(composed.len());
    for word in composed.split(is_white).filter(|word| !word.is_empty()) {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(word);
    }
    normal
}

/// Lower-case, everything but `a-z`, `0-9` and `-` made `-`, no two of them in a row and none at an
/// end.
///
/// A character of two UTF-16 code units would make two `-`, which become one again, so going by
/// characters comes to the same.
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

/// Cuts a text to `most` characters; whether anything was cut.
pub(super) fn cut(text: &mut String, most: usize) -> bool {
    if text.len() <= most {
        return false;
    }
    let Some((end, _)) = text.char_indices().nth(most) else { return false };
    text.truncate(end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_javascripts() {
        let white: Vec<u32> =
            (0..=0x10ffff).filter(|code| char::from_u32(*code).is_some_and(is_white)).collect();
        assert_eq!(white.len(), 25);
        assert!(white.contains(&0xfeff) && !white.contains(&0x85) && !white.contains(&0x200b));
        assert_eq!(trim("\u{feff}\u{a0} a\u{200b} \u{2029}"), "a\u{200b}");
    }

    #[test]
    fn text_is_composed_and_its_space_made_one() {
        assert_eq!(
            normal("  Cafe\u{301}\u{a0}\t\u{212b} \n x\u{200b}"),
            "Caf\u{e9} \u{c5} x\u{200b}"
        );
    }

    #[test]
    fn slugs_hold_ascii_alone() {
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
    fn a_cut_counts_characters() {
        let mut text = "\u{e9}".repeat(5);
        assert!(!cut(&mut text, 5));
        assert!(cut(&mut text, 3));
        assert_eq!(text, "\u{e9}\u{e9}\u{e9}");
    }
}
