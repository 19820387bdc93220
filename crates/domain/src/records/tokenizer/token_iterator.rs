//! Cuts a whole text into tokens.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::{compose, decompose_canonical};

use super::characters::{CharacterClass, is_compatibility_ideograph, is_diacritic, is_voicing};
use crate::line_search::fold_case;

/// The longest token, in scalar values of its folded text. A longer run is cut into several tokens.
/// Texts that contain base64 would otherwise put keys of any length into an index.
pub const MAX_TOKEN_SCALARS: usize = 64;

/// The most scalar values of the original text that a token spans. Marks and invisible characters
/// count here but not in the token; a text of nothing else would otherwise be one token of any
/// length.
pub const MAX_TOKEN_SPAN: u64 = 1024;

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchToken<'t> {
    /// The folded text that search compares: 1 to [`MAX_TOKEN_SCALARS`] scalar values. The folded
    /// form of one character is never split.
    pub text: Cow<'t, str>,
    /// The position of the first scalar value in the original text.
    pub start: u64,
    /// One past the position of the last scalar value.
    pub end: u64,
}

/// Cuts a text into tokens, in order and without overlaps.
pub fn tokens(text: &str) -> TokenIterator<'_> {
    TokenIterator { rest: text, at: 0 }
}

/// Cuts a text into tokens as [`tokens`] does, each with the bytes of the text that it spans.
pub fn placed_tokens(text: &str) -> impl Iterator<Item = (SearchToken<'_>, Range<usize>)> {
    let mut rest = tokens(text);
    std::iter::from_fn(move || {
        if let Some(token) = rest.next_ascii() {
            let end = text.len() - rest.rest.len();
            let begin = end - token.text.len();
            return Some((token, begin..end));
        }
        let (before, at) = (rest.rest, rest.at);
        let token = rest.next()?;
        let read = before.get(..before.len() - rest.rest.len())?;
        let offset = text.len() - before.len();
        let byte = |position: u64| {
            let scalars = usize::try_from(position - at).unwrap_or(usize::MAX);
            let place = read.char_indices().nth(scalars);
            offset + place.map_or(read.len(), |(place, _)| place)
        };
        let range = byte(token.start)..byte(token.end);
        Some((token, range))
    })
}

/// An iterator over the tokens of a text.
#[derive(Clone, Debug)]
pub struct TokenIterator<'t> {
    pub(super) rest: &'t str,
    /// The scalar values before the rest.
    pub(super) at: u64,
}

impl<'t> Iterator for TokenIterator<'t> {
    type Item = SearchToken<'t>;

    fn next(&mut self) -> Option<SearchToken<'t>> {
        loop {
            if let Some(token) = self.next_ascii() {
                return Some(token);
            }
            if let Some(token) = self.next_token_or_separator()? {
                return Some(token);
            }
        }
    }
}

impl<'t> TokenIterator<'t> {
    /// Passes over ASCII characters that separate, and takes the common case: a word of ASCII
    /// before an ASCII character or the end.
    fn next_ascii(&mut self) -> Option<SearchToken<'t>> {
        let bytes = self.rest.as_bytes();
        let separates = |byte: &&u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
        let skipped = bytes.iter().take_while(separates).count();
        self.advance(skipped, skipped);
        let bytes = self.rest.as_bytes();
        // A longer run is cut, so nothing beyond one more byte decides.
        let longest = bytes.iter().take(MAX_TOKEN_SCALARS + 1);
        let run = longest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let is_ascii = run > MAX_TOKEN_SCALARS || bytes.get(run).is_none_or(u8::is_ascii);
        (run > 0 && is_ascii).then(|| self.ascii(run.min(MAX_TOKEN_SCALARS)))
    }

    /// Takes a token of `length` ASCII letters and digits.
    fn ascii(&mut self, length: usize) -> SearchToken<'t> {
        let start = self.at;
        let text = self.advance(length, length);
        let is_folded = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let text =
            if is_folded { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
        SearchToken { text, start, end: self.at }
    }

    /// Reads one token or one separator. Returns `None` at the end of the text.
    fn next_token_or_separator(&mut self) -> Option<Option<SearchToken<'t>>> {
        let first = self.rest.chars().next()?;
        Some(match CharacterClass::new(first) {
            CharacterClass::Separates | CharacterClass::Ignored => {
                self.advance(first.len_utf8(), 1);
                None
            }
            CharacterClass::Alone => Some(self.single_character(first)),
            CharacterClass::Joins => self.run(),
        })
    }

    /// Takes a character that is a token by itself.
    fn single_character(&mut self, first: char) -> SearchToken<'t> {
        let start = self.at;
        let original = self.advance(first.len_utf8(), 1);
        // A voicing mark changes a kana into another letter, so it belongs to the token.
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

    /// Takes a run of characters, up to the longest token. Returns `None` if all are diacritics.
    fn run(&mut self) -> Option<SearchToken<'t>> {
        let (mut text, mut scalars) = (String::new(), 0);
        let (mut start, mut end) = (None, self.at);
        let (mut read_bytes, mut read) = (0, 0);
        for character in self.rest.chars() {
            if start.is_some_and(|start| self.at + read as u64 - start >= MAX_TOKEN_SPAN) {
                break;
            }
            match CharacterClass::new(character) {
                CharacterClass::Joins => {
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
                CharacterClass::Ignored => {}
                CharacterClass::Alone | CharacterClass::Separates => break,
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

/// Appends the folded form of one character. Returns its length in scalar values.
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
    fn words_ignore_case_and_diacritics() {
        check("The Café, naïve; ÅNGSTRÖM!", &["the", "cafe", "naive", "angstrom"]);
        check("Ёлка и йод ΆΣΜΑ", &["елка", "и", "иод", "ασμα"]);
        check("İstanbul STRAẞE 300\u{212a} ﬁn", &["istanbul", "straße", "300k", "ﬁn"]);
        check("", &[]);
        check(" \u{301} \u{fe0f}", &[]);
    }

    #[test]
    fn punctuation_separates_tokens() {
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
    fn each_emoji_is_a_token() {
        check("ok👍🏽❤️x", &["ok", "👍", "🏽", "❤", "x"]);
        check("👩\u{200d}💻 1\u{fe0f}\u{20e3}", &["👩", "💻", "1"]);
    }

    #[test]
    fn positions_refer_to_the_original_text() {
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
        // A syllable has three scalar values and is never split.
        assert_eq!(lengths(&"한".repeat(40)), [63, 57]);
    }

    #[test]
    fn every_character_gives_at_most_one_clean_token() {
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

    /// The slow reference, without the fast path for ASCII.
    fn slow_tokens(text: &str) -> Vec<SearchToken<'_>> {
        let mut rest = tokens(text);
        let mut all = Vec::new();
        while let Some(token) = rest.next_token_or_separator() {
            all.extend(token);
        }
        all
    }

    fn some_text() -> impl Strategy<Value = String> {
        let few = "[a-cA-Z0-9_. éÉe\u{301}ſKİßж中語かが\u{3099}กั한🙂👍\
                   \u{fe0f}\u{200d}\u{ad}\u{5b0}א\u{0}\n]{0,150}";
        prop_oneof![few, "\\PC{0,60}", "[a-z ]{0,200}", "[aé]{0,300}"]
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_slow_one(text in some_text()) {
            prop_assert_eq!(tokens(&text).collect::<Vec<_>>(), slow_tokens(&text));
        }

        #[test]
        fn tokens_are_clean_and_cutting_them_changes_nothing(text in some_text()) {
            let cut = texts(&text);
            prop_assert!(
                cut.iter().all(|token| is_clean(token)
                    && token.chars().count() <= MAX_TOKEN_SCALARS),
            );
            prop_assert_eq!(texts(&cut.join(" ")), cut);
        }

        #[test]
        fn each_token_matches_its_range_of_the_text(text in some_text()) {
            let scalars: Vec<char> = text.chars().collect();
            let mut before = 0;
            for token in tokens(&text) {
                prop_assert!(before <= token.start && token.start < token.end);
                before = token.end;
                let range = token.start as usize..token.end as usize;
                let part: String = scalars[range].iter().collect();
                prop_assert_eq!(texts(&part), [token.text.into_owned()]);
            }
        }

        #[test]
        fn the_bytes_of_a_token_are_those_of_its_characters(text in some_text()) {
            let placed: Vec<_> = placed_tokens(&text).collect();
            prop_assert_eq!(placed.len(), tokens(&text).count());
            let scalars: Vec<char> = text.chars().collect();
            for (token, bytes) in placed {
                let range = token.start as usize..token.end as usize;
                let part: String = scalars[range].iter().collect();
                prop_assert_eq!(&text[bytes], part);
            }
        }

        #[test]
        fn composed_and_decomposed_text_has_the_same_tokens(text in "[a-z éÉÜñйЁάがかパ한국豈]{0,80}") {
            let decomposed: String = text.nfd().collect();
            let composed: String = text.nfc().collect();
            prop_assert_eq!(texts(&decomposed), texts(&text));
            prop_assert_eq!(texts(&composed), texts(&text));
        }
    }
}
