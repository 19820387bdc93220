//! Cuts a text into words, and spells a word as it is compared.
//!
//! The words are those of [`tokenizer`](crate::records::tokenizer), with two differences. A word
//! keeps its accents, in lower case and in compatibility forms (NFKC), since stemmers need them.
//! In scripts without spaces two neighbours are a word, and a character alone only where it has no
//! neighbour.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

use crate::records::tokenizer::{is_unspaced, placed_tokens, tokens};

/// Calls `take` with each word of a text and with the bytes that the word spans, in order.
pub(super) fn each_word<'t>(text: &'t str, mut take: impl FnMut(Cow<'t, str>, Range<usize>)) {
    // The last character of a script without spaces, and whether a pair has it.
    let mut last: Option<(Cow<'t, str>, Range<usize>, bool)> = None;
    for (token, range) in placed_tokens(text) {
        let original = text.get(range.clone()).unwrap_or_default();
        let is_ascii = original.is_ascii();
        if is_ascii && last.is_none() {
            take(token.text, range);
            continue;
        }
        if !is_ascii && original.chars().next().is_some_and(is_unspaced) {
            let own = Cow::Owned(lower(original));
            let mut is_paired = false;
            if let Some((other, at, was_paired)) = last.take() {
                is_paired = at.end == range.start;
                if is_paired {
                    take(format!("{other}{own}").into(), at.start..range.end);
                } else if !was_paired {
                    take(other, at);
                }
            }
            last = Some((own, range, is_paired));
            continue;
        }
        if let Some((other, at, false)) = last.take() {
            take(other, at);
        }
        let word = if is_ascii { token.text } else { Cow::Owned(lower(original)) };
        take(word, range);
    }
    if let Some((other, at, false)) = last {
        take(other, at);
    }
}

/// Returns a word in lower case and compatibility form, without invisible characters.
fn lower(word: &str) -> String {
    let mut lower = String::with_capacity(word.len());
    for character in word.nfkc().flat_map(char::to_lowercase) {
        match character {
            '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => {}
            'ß' => lower.push_str("ss"),
            'æ' => lower.push_str("ae"),
            'œ' => lower.push_str("oe"),
            'ø' => lower.push('ö'),
            'ł' => lower.push('l'),
            'đ' | 'ð' => lower.push('d'),
            'þ' => lower.push_str("th"),
            'ı' => lower.push('i'),
            other => lower.push(other),
        }
    }
    lower
}

/// Returns the spellings under which a word of [`each_word`] is compared: without accents, and
/// where it has ä, ö or ü also with ae, oe and ue.
pub(super) fn spellings(word: &str) -> Vec<String> {
    if word.is_ascii() {
        return vec![word.to_owned()];
    }
    let plain = folded(word);
    if !word.contains(['ä', 'ö', 'ü']) {
        return vec![plain];
    }
    vec![plain, folded(&word.replace('ä', "ae").replace('ö', "oe").replace('ü', "ue"))]
}

/// Returns a word without accents; the word itself where nothing would be left.
pub(super) fn folded(word: &str) -> String {
    let folded: String = tokens(word).map(|token| token.text).collect();
    if folded.is_empty() { word.to_owned() } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word, range| {
            assert!(!text[range].is_empty());
            words.push(word.into_owned());
        });
        words
    }

    #[test]
    fn words_are_lower_case_in_compatibility_form_and_keep_accents() {
        assert_eq!(words("The Café, STRAẞE ﬁn"), ["the", "café", "strasse", "fin"]);
        assert_eq!(words("Ｆｕｌｌ ① Œuvre co\u{ad}op"), ["full", "1", "oeuvre", "coop"]);
        assert_eq!(words("e\u{301}te\u{301}"), ["été"]);
    }

    #[test]
    fn neighbours_of_a_script_without_spaces_are_a_word() {
        assert_eq!(words("日本語 の本、x"), ["日本", "本語", "の本", "x"]);
        assert_eq!(words("a日b"), ["a", "日", "b"]);
        assert_eq!(words("日"), ["日"]);
    }

    #[test]
    fn a_word_is_spelled_without_accents_and_with_two_letters_for_an_umlaut() {
        assert_eq!(spellings("müller"), ["muller", "mueller"]);
        assert_eq!(spellings("mueller"), ["mueller"]);
        assert_eq!(spellings("élan"), ["elan"]);
    }
}
