//! Guesses the language of a passage by its function words, and stems words by it.
//!
//! A wrong guess costs little: a word matches itself in every language, and most regular endings
//! are cut alike. *Source*: the Snowball stemmers, <https://snowballstem.org>.

use std::sync::LazyLock;

use hashbrown::HashMap;
use rust_stemmers::{Algorithm, Stemmer};

use super::light::{DUTCH, ENGLISH, FRENCH, GERMAN, ITALIAN, PORTUGUESE, SPANISH};
use super::words::folded;

/// A language that has a stemmer here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    German,
    French,
    Spanish,
    Italian,
    Dutch,
    Portuguese,
    Russian,
}

/// A set of languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LanguageSet(u8);

/// How many function words show a language.
const FEWEST_WORDS: u16 = 2;

/// The function words, without accents, and the languages that have each.
static FUNCTION_WORDS: LazyLock<HashMap<String, LanguageSet>> = LazyLock::new(|| {
    let mut words: HashMap<String, LanguageSet> = HashMap::new();
    for (language, list) in [
        (Language::English, ENGLISH),
        (Language::German, GERMAN),
        (Language::French, FRENCH),
        (Language::Spanish, SPANISH),
        (Language::Italian, ITALIAN),
        (Language::Dutch, DUTCH),
        (Language::Portuguese, PORTUGUESE),
    ] {
        for word in list.split_whitespace() {
            let languages = words.entry(folded(word)).or_default();
            *languages = languages.with(language);
        }
    }
    words
});

impl LanguageSet {
    pub(super) fn with(self, language: Language) -> Self {
        Self(self.0 | 1 << language as u8)
    }

    pub(super) fn has(self, language: Language) -> bool {
        self.0 & 1 << language as u8 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Language {
    pub(super) const ALL: [Self; 8] = [
        Self::English,
        Self::German,
        Self::French,
        Self::Spanish,
        Self::Italian,
        Self::Dutch,
        Self::Portuguese,
        Self::Russian,
    ];

    fn algorithm(self) -> Algorithm {
        match self {
            Self::English => Algorithm::English,
            Self::German => Algorithm::German,
            Self::French => Algorithm::French,
            Self::Spanish => Algorithm::Spanish,
            Self::Italian => Algorithm::Italian,
            Self::Dutch => Algorithm::Dutch,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Russian => Algorithm::Russian,
        }
    }

    /// Returns the stem of a word in lower case, without accents. British and American spellings
    /// have one stem.
    pub(super) fn stem(self, word: &str) -> String {
        let stemmer = Stemmer::create(self.algorithm());
        let american = (self == Self::English).then(|| american(word)).flatten();
        folded(&stemmer.stem(american.as_deref().unwrap_or(word)))
    }
}

/// Returns the American spelling of a word with a British ending; `None` for another word.
fn american(word: &str) -> Option<String> {
    let endings = ["isations", "isation", "ising", "isers", "iser", "ised", "ises", "ise"];
    let more = ["ysing", "yser", "ysed", "yses", "yse", "ouring", "oured", "ours", "our"];
    let ending = endings.iter().chain(&more).find(|ending| word.ends_with(**ending))?;
    let start = word.strip_suffix(ending).filter(|start| start.len() > 2)?;
    let respelled = match ending.strip_prefix("our") {
        Some(rest) => format!("or{rest}"),
        None => ending.replacen('s', "z", 1),
    };
    Some(format!("{start}{respelled}"))
}

/// Returns the languages in which a word is a function word. `word` has no accents.
pub(super) fn languages_of(word: &str) -> LanguageSet {
    if word.chars().next().is_some_and(|first| ('а'..='я').contains(&first)) {
        return LanguageSet::default().with(Language::Russian);
    }
    FUNCTION_WORDS.get(word).copied().unwrap_or_default()
}

/// Counts the function words of each language.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LanguageCounts([u16; Language::ALL.len()]);

impl LanguageCounts {
    pub(super) fn add(&mut self, languages: LanguageSet) {
        if languages.is_empty() {
            return;
        }
        for (count, language) in self.0.iter_mut().zip(Language::ALL) {
            *count = count.saturating_add(u16::from(languages.has(language)));
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// Returns the language with the most function words, the first of those; `None` where none
    /// has enough.
    pub(super) fn guess(&self) -> Option<Language> {
        let most = *self.0.iter().max()?;
        let of_most = Language::ALL.into_iter().zip(self.0).find(|(_, count)| *count == most);
        of_most.filter(|_| most >= FEWEST_WORDS).map(|(language, _)| language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(text: &str) -> Option<Language> {
        let mut counts = LanguageCounts::default();
        text.split_whitespace().for_each(|word| counts.add(languages_of(&folded(word))));
        counts.guess()
    }

    #[test]
    fn function_words_show_the_language() {
        assert_eq!(guess("where the roof of the shed is leaking"), Some(Language::English));
        assert_eq!(guess("wo das dach und die rinne undicht sind"), Some(Language::German));
        assert_eq!(guess("où est la clé de la maison"), Some(Language::French));
        assert_eq!(guess("сад и огород"), Some(Language::Russian));
        assert_eq!(guess("garden plan"), None);
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (language, one, other) in [
            (Language::English, "gardens", "gardening"),
            (Language::English, "normalising", "normalized"),
            (Language::German, "häuser", "haus"),
            (Language::French, "mangée", "manger"),
        ] {
            assert_eq!(language.stem(one), language.stem(other), "{one} {other}");
        }
    }
}
