//! Cutting texts and queries into the tokens that search compares, once for every engine.
//!
//! A token is a maximal run of letters, marks and numbers, in simple case folding, decomposed, and
//! without the diacritics that Latin, Greek and Cyrillic letters carry: `cafe` finds `Café`, and
//! `елка` finds `ёлка`. Everything else separates, so that `ann@example.org` and `foo_bar` are
//! several tokens. In scripts that put no spaces between words, and among emoji, each character is
//! a token by itself, so that a phrase of them finds what stands inside a sentence; Hangul is
//! spaced and is cut into runs. There is no stemming, there are no stop words, and nothing is
//! folded that only looks alike (full-width letters stay what they are).
//!
//! No token holds white space, a control character or ASCII punctuation, so an index may be given
//! them joined by spaces. Cutting what was cut changes nothing.

mod characters;
mod parsed_query;
mod piece_tokenizer;
mod term_finder;

use std::borrow::Cow;

use unicode_normalization::char::{compose, decompose_canonical};

use self::characters::{Class, is_compatibility_ideograph, is_diacritic, is_voicing};
pub use self::parsed_query::{
    MAX_PHRASE_TOKENS, MAX_QUERY_SCALARS, MAX_TERMS, ParsedQuery, SearchTerm, matches,
};
pub use self::piece_tokenizer::{PieceTokenizer, last_token_boundary};
pub use self::term_finder::{TermFinder, find};
use crate::line_search::fold_case;

/// The longest token, in scalar values of its own text; a longer run is cut into several. Texts
/// that hold base64 or the like would otherwise put keys of any length into an index.
pub const MAX_TOKEN_SCALARS: usize = 64;

/// The longest place of a token, in scalar values of the original text. Marks and invisible
/// characters count there and not in the token; without an end to them a text that is nothing else
/// would be one token of any length.
pub const MAX_TOKEN_SPAN: u64 = 1024;

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchToken<'t> {
    /// What is compared: 1 to [`MAX_TOKEN_SCALARS`] scalar values. No character of the original is
    /// torn for that.
    pub text: Cow<'t, str>,
    /// Where it begins in the original text, in scalar values.
    pub start: u64,
    /// One past its last scalar value there.
    pub end: u64,
}

/// Cuts a text, in order and without overlaps.
pub fn tokens(text: &str) -> TokenIterator<'_> {
    TokenIterator { rest: text, at: 0 }
}

/// The tokens of a text.
#[derive(Clone, Debug)]
pub struct TokenIterator<'t> {
    rest: &'t str,
    /// Scalar values before the rest.
    at: u64,
}

impl<'t> Iterator for TokenIterator<'t> {
    type Item = SearchToken<'t>;

    fn next(&mut self) -> Option<SearchToken<'t>> {
        loop {
            let bytes = self.rest.as_bytes();
            let skipped = bytes
                .iter()
                .take_while(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric())
                .count();
            self.advance(skipped, skipped);
            // What follows is what most text is: a word of ASCII that nothing else touches.
            let bytes = self.rest.as_bytes();
            let run = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if run > 0 && (run > MAX_TOKEN_SCALARS || bytes.get(run).is_none_or(u8::is_ascii)) {
                return Some(self.ascii(run.min(MAX_TOKEN_SCALARS)));
            }
            if let Some(token) = self.any()? {
                return Some(token);
            }
        }
    }
}

impl<'t> TokenIterator<'t> {
    /// The token of a given number of ASCII letters and digits.
    fn ascii(&mut self, length: usize) -> SearchToken<'t> {
        let start = self.at;
        let text = self.advance(length, length);
        let is_folded = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let text =
            if is_folded { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
        SearchToken { text, start, end: self.at }
    }

    /// Reads on by one token or one separator, whatever comes. None at the end of the text.
    fn any(&mut self) -> Option<Option<SearchToken<'t>>> {
        let first = self.rest.chars().next()?;
        Some(match Class::of(first) {
            Class::Separates | Class::Ignored => {
                self.advance(first.len_utf8(), 1);
                None
            }
            Class::Alone => Some(self.alone(first)),
            Class::Joins => self.run(),
        })
    }

    /// A character that is a token by itself.
    fn alone(&mut self, first: char) -> SearchToken<'t> {
        let start = self.at;
        let original = self.advance(first.len_utf8(), 1);
        // A voicing mark makes another letter of a kana, so it is part of it however it is written.
        let voicing = self.rest.chars().next().filter(|next| is_voicing(*next));
        let voiced = voicing.and_then(|mark| compose(first, mark).map(|voiced| (mark, voiced)));
        let text = if let Some((mark, voiced)) = voiced {
            self.advance(mark.len_utf8(), 1);
            Cow::Owned(voiced.to_string())
        } else if is_compatibility_ideograph(first) {
            let mut text = String::new();
            decompose_canonical(first, |part| text.push(part));
            Cow::Owned(text)
        } else {
            Cow::Borrowed(original)
        };
        SearchToken { text, start, end: self.at }
    }

    /// A run of characters that join, up to the longest token; none where they are all diacritics.
    fn run(&mut self) -> Option<SearchToken<'t>> {
        let (mut text, mut scalars) = (String::new(), 0);
        let (mut start, mut end) = (None, self.at);
        let (mut read_bytes, mut read) = (0, 0);
        for character in self.rest.chars() {
            if start.is_some_and(|start| self.at + read as u64 - start >= MAX_TOKEN_SPAN) {
                break;
            }
            match Class::of(character) {
                Class::Joins => {
                    let before = text.len();
                    let added = push_folded(&mut text, character);
                    if scalars > 0 && added > 0 && scalars + added > MAX_TOKEN_SCALARS {
                        text.truncate(before);
                        break;
                    }
                    scalars += added;
                    if scalars > 0 && start.is_none() {
                        start = Some(self.at + read as u64);
                    }
                    end = self.at + read as u64 + 1;
                }
                Class::Ignored => {}
                Class::Alone | Class::Separates => break,
            }
            read_bytes += character.len_utf8();
            read += 1;
        }
        self.advance(read_bytes, read);
        start.map(|start| SearchToken { text: Cow::Owned(text), start, end })
    }

    fn advance(&mut self, bytes: usize, scalars: usize) -> &'t str {
        let (read, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.at += scalars as u64;
        read
    }
}

/// Appends what is compared of one character, and says how many scalar values that is.
fn push_folded(text: &mut String, character: char) -> usize {
    if character.is_ascii() {
        text.push(character.to_ascii_lowercase());
        return 1;
    }
    let mut added = 0;
    decompose_canonical(character, |part| {
        if !is_diacritic(part) && (part.is_ascii_alphanumeric() || !part.is_ascii()) {
            text.push(fold_case(part));
            added += 1;
        }
    });
    added
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization as _;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text).map(|token| token.text.into_owned()).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(texts(text), expected, "{text}");
    }

    #[test]
    fn words_are_runs_without_case_and_diacritics() {
        check("The Café, naïve; ÅNGSTRÖM!", &["the", "cafe", "naive", "angstrom"]);
        check("Ёлка и йод ΆΣΜΑ", &["елка", "и", "иод", "ασμα"]);
        check("İstanbul STRAẞE 300\u{212a} ﬁn", &["istanbul", "straße", "300k", "ﬁn"]);
        check("", &[]);
        check(" \u{301} \u{fe0f}", &[]);
    }

    #[test]
    fn punctuation_separates_wherever_it_stands() {
        check("ann.o'neil@example.org", &["ann", "o", "neil", "example", "org"]);
        check("foo_bar::Baz-2 x+y", &["foo", "bar", "baz", "2", "x", "y"]);
        check("https://a.example/q?x=1#top", &["https", "a", "example", "q", "x", "1", "top"]);
        check("«été»…日本、語", &["ete", "日", "本", "語"]);
        check("co\u{ad}operate می\u{200c}خواهم", &["cooperate", "میخواهم"]);
    }

    #[test]
    fn scripts_without_spaces_are_cut_into_characters() {
        check("abc中文ひカー", &["abc", "中", "文", "ひ", "カ", "ー"]);
        check("กำลังx", &["ก", "ำ", "ล", "ั", "ง", "x"]);
        check("か\u{3099}がか", &["が", "が", "か"]);
        check("\u{f900}", &["豈"]);
        assert_eq!(texts("한국어 문서").len(), 2);
    }

    #[test]
    fn each_emoji_can_be_found() {
        check("ok👍🏽❤️x", &["ok", "👍", "🏽", "❤", "x"]);
        check("👩\u{200d}💻 1\u{fe0f}\u{20e3}", &["👩", "💻", "1"]);
    }

    #[test]
    fn positions_are_those_of_the_original() {
        let found: Vec<_> =
            tokens("é🙂 ÉTÉ\u{301}, x").map(|token| (token.start, token.end)).collect();
        assert_eq!(found, [(0, 1), (1, 2), (3, 7), (9, 10)]);
    }

    #[test]
    fn a_long_run_is_cut() {
        let lengths =
            |text: &str| texts(text).iter().map(|token| token.chars().count()).collect::<Vec<_>>();
        assert_eq!(lengths(&"a".repeat(64)), [64]);
        assert_eq!(lengths(&"a".repeat(130)), [64, 64, 2]);
        assert_eq!(lengths(&"é".repeat(130)), [64, 64, 2]);
        assert_eq!(lengths(&("a".repeat(70) + "é")), [64, 7]);
        assert_eq!(lengths(&("a".repeat(64) + "\u{301}")), [64]);
        // Three scalar values a syllable, and none is torn.
        assert_eq!(lengths(&"한".repeat(40)), [63, 57]);
    }

    #[test]
    fn every_character_keeps_the_laws() {
        for character in (0..0x11_0000).filter_map(char::from_u32) {
            let cut = texts(&character.to_string());
            assert!(cut.len() <= 1);
            assert_eq!(texts(&cut.join(" ")), cut, "{character:?}");
            assert!(cut.iter().all(|token| is_clean(token)), "{character:?}");
        }
    }

    fn is_clean(token: &str) -> bool {
        let fits = |one: char| {
            one.is_ascii_alphanumeric()
                || !(one.is_ascii() || one.is_whitespace() || one.is_control())
        };
        !token.is_empty() && token.chars().all(fits)
    }

    /// The slow twin: without the quick way through ASCII.
    fn slowly(text: &str) -> Vec<SearchToken<'_>> {
        let mut rest = tokens(text);
        let mut all = Vec::new();
        while let Some(token) = rest.any() {
            all.extend(token);
        }
        all
    }

    fn some_text() -> impl Strategy<Value = String> {
        let few = "[a-cA-Z0-9_. éÉe\u{301}ſKİßж中語かが\u{3099}กั한🙂👍\u{fe0f}\u{200d}\u{ad}\u{5b0}א\u{0}\n]{0,150}";
        prop_oneof![few, "\\PC{0,60}", "[a-z ]{0,200}", "[aé]{0,300}"]
    }

    proptest! {
        #[test]
        fn the_quick_way_finds_what_the_slow_one_does(text in some_text()) {
            prop_assert_eq!(tokens(&text).collect::<Vec<_>>(), slowly(&text));
        }

        #[test]
        fn tokens_are_clean_and_cut_no_further(text in some_text()) {
            let cut = texts(&text);
            prop_assert!(cut.iter().all(|token| is_clean(token) && token.chars().count() <= MAX_TOKEN_SCALARS));
            prop_assert_eq!(texts(&cut.join(" ")), cut);
        }

        #[test]
        fn each_token_is_what_its_place_holds(text in some_text()) {
            let scalars: Vec<char> = text.chars().collect();
            let mut before = 0;
            for token in tokens(&text) {
                prop_assert!(before <= token.start && token.start < token.end);
                before = token.end;
                let place: String = scalars[token.start as usize..token.end as usize].iter().collect();
                prop_assert_eq!(texts(&place), [token.text.into_owned()]);
            }
        }

        #[test]
        fn composed_and_decomposed_text_is_the_same(text in "[a-z éÉÜñйЁάがかパ한국豈]{0,80}") {
            let decomposed: String = text.nfd().collect();
            let composed: String = text.nfc().collect();
            prop_assert_eq!(texts(&decomposed), texts(&text));
            prop_assert_eq!(texts(&composed), texts(&text));
        }
    }
}
