//! What a caller asks: words, phrases that must stand so, and what must not occur.
//!
//! A record search has a language of its own
//! ([`ParsedQuery`](crate::records::tokenizer::ParsedQuery)), in which all words must occur. Here
//! any of the words counts, and there are no prefixes and no fields.

use std::ops::Range;

use super::language::{Language, LanguageCounts, LanguageSet, languages_of};
use super::light::{are_light, is_chatter};
use super::similar::SoughtWord;
use super::word_shape::WordShape;
use super::words::{each_word, folded, spellings};
use crate::records::tokenizer::{SearchTerm, find, is_unspaced, tokens};

/// The longest question, in Unicode scalar values.
pub const MAX_QUESTION_CHARS: usize = 1024;
/// The most different words of a question. Further words are left out.
pub const MAX_QUESTION_WORDS: usize = 64;

/// How many letters at the end of a stem a stemmer may have replaced: `berries` has the stem
/// `berri`, which `berry` has too.
const REPLACED: usize = 3;

/// A question, parsed from the text of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallQuestion {
    words: Vec<QuestionWord>,
    /// The language in which the question is asked, where its function words show one.
    language: Option<Language>,
    /// What must stand so.
    phrases: Vec<SearchTerm>,
    /// What must not occur.
    excluded: Vec<SearchTerm>,
}

/// A word of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionWord {
    /// The word as the caller wrote it.
    pub spelled: String,
    /// Whether the word hardly counts, such as "the" or "remember".
    pub is_light: bool,
    /// Whether a light word may still be what somebody looks for, such as "file".
    pub(super) is_chatter: bool,
    /// Whether the word joins words between hyphens, which others write as one (`e-mail`, `email`).
    pub(super) is_joined: bool,
    spellings: Vec<String>,
    shapes: Vec<WordShape>,
    /// The stems of the spellings, by language.
    stems: Vec<(Language, String)>,
    sought: Option<SoughtWord>,
}

/// A word of a file that is one of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordMatch {
    /// The index of the word in the question.
    pub(super) word: u8,
    pub(super) grade: Grade,
}

/// How well a word of a file fits a word of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// It is the same word.
    Same,
    /// It has the same stem in these languages.
    Stem(LanguageSet),
    /// It is similar, in percent. That counts only where the word itself is nowhere.
    Similar(u8),
}

/// What a question wants of a phrase or a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermRule {
    MustOccur,
    MustNotOccur,
}

/// Why a text is not a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// The text is too long.
    #[error("`q` has {chars} characters, more than 1024: ask with the words that matter")]
    TooLong {
        /// The length in Unicode scalar values.
        chars: usize,
    },
    /// The text has no word that may occur.
    #[error("`q` must have at least one word to look for, beside those after a `-`")]
    NoWord,
}

impl RecallQuestion {
    /// Parses a question.
    ///
    /// # Errors
    /// Every [`BadQuestion`].
    pub fn parse(text: &str) -> Result<Self, BadQuestion> {
        let chars = text.chars().count();
        if chars > MAX_QUESTION_CHARS {
            return Err(BadQuestion::TooLong { chars });
        }
        let mut question =
            Self { words: Vec::new(), language: None, phrases: Vec::new(), excluded: Vec::new() };
        // The words, each with whether it is part of a phrase.
        let mut words: Vec<(String, String, bool)> = Vec::new();
        let mut joined: Vec<(String, String)> = Vec::new();
        for (part, is_phrase, is_excluded) in parts(text) {
            let term = search_term(part);
            if is_excluded {
                question.excluded.extend(term);
                continue;
            }
            if is_phrase {
                question.phrases.extend(term);
            }
            let mut all = String::new();
            each_word(part, |word, range: Range<usize>| {
                let spelled = part.get(range).unwrap_or_default().to_owned();
                all.push_str(&word);
                words.push((spelled, word.into_owned(), is_phrase));
            });
            if !is_phrase && part.trim_matches('-').contains('-') {
                joined.push((part.to_owned(), all));
            }
        }
        let plain: Vec<String> = words.iter().map(|(_, word, _)| folded(word)).collect();
        let mut languages = LanguageCounts::default();
        plain.iter().for_each(|word| languages.add(languages_of(word)));
        question.language = languages.guess();
        let mut light = are_light(&plain.iter().map(String::as_str).collect::<Vec<_>>());
        if light.iter().all(|is_light| *is_light) {
            light.fill(false);
        }
        for ((spelled, word, is_phrase), is_light) in words.into_iter().zip(light) {
            question.push(spelled, &word, is_light && !is_phrase, false);
        }
        for (spelled, word) in joined {
            question.push(spelled, &word, false, true);
        }
        if question.words.is_empty() { Err(BadQuestion::NoWord) } else { Ok(question) }
    }

    fn push(&mut self, spelled: String, word: &str, is_light: bool, is_joined: bool) {
        let spellings = spellings(word);
        let is_known = self.words.iter().any(|known| known.spellings == spellings);
        if is_known || self.words.len() == MAX_QUESTION_WORDS {
            return;
        }
        let is_unspaced = word.chars().any(is_unspaced);
        let stems = if is_light || is_unspaced { Vec::new() } else { stems_of(word, &spellings) };
        let sought = spellings.first().filter(|_| !is_light && !is_unspaced);
        let sought = sought.and_then(|spelling| SoughtWord::new(spelling));
        let shapes = spellings.iter().map(|spelling| WordShape::of(spelling)).collect();
        let is_chatter = spellings.first().is_some_and(|spelling| is_chatter(spelling));
        self.words.push(QuestionWord {
            spelled,
            is_light,
            is_chatter,
            is_joined,
            spellings,
            shapes,
            stems,
            sought,
        });
    }

    /// The words in the order of the question, each once.
    pub fn words(&self) -> &[QuestionWord] {
        &self.words
    }

    /// Whether a passage of a language is in another language than the question, as far as both
    /// are known.
    pub(super) fn is_foreign(&self, passage: Option<Language>) -> bool {
        self.language.zip(passage).is_some_and(|(own, other)| own != other)
    }

    /// Whether the words of a file do not tell if the file fits, so that its text is needed.
    pub fn needs_text(&self) -> bool {
        !self.phrases.is_empty() || !self.excluded.is_empty()
    }

    /// Whether a file with these texts has all phrases and nothing that must not occur.
    pub fn allows(&self, texts: &[&str]) -> bool {
        let occurs = |term: &SearchTerm| texts.iter().any(|text| find(term, text).is_some());
        self.phrases.iter().all(occurs) && !self.excluded.iter().any(occurs)
    }

    /// Returns the words of the question that a word of a file is. The word is one of those that a
    /// file is made of.
    pub fn matches(&self, word: &str) -> Vec<WordMatch> {
        let spellings = spellings(word);
        let shapes: Vec<WordShape> =
            spellings.iter().map(|spelling| WordShape::of(spelling)).collect();
        let mut stems = None;
        let mut matches = Vec::new();
        for (index, asked) in (0u8..).zip(&self.words) {
            if !shapes.iter().any(|shape| asked.may_be(shape)) {
                continue;
            }
            let grade = asked.grade(word, (&spellings, &shapes), &mut stems);
            matches.extend(grade.map(|grade| WordMatch { word: index, grade }));
        }
        matches
    }

    /// Whether the word of the question with an index is not light.
    pub(super) fn is_heavy(&self, word: u8) -> bool {
        self.words.get(usize::from(word)).is_some_and(|word| !word.is_light)
    }

    /// Whether a word with a spelling of this shape may be one of the question.
    pub(super) fn may_have(&self, shape: &WordShape) -> bool {
        self.words.iter().any(|asked| asked.may_be(shape))
    }

    /// The phrases, and then what must not occur.
    pub(super) fn terms(&self) -> impl Iterator<Item = (&SearchTerm, TermRule)> {
        let phrases = self.phrases.iter().map(|term| (term, TermRule::MustOccur));
        phrases.chain(self.excluded.iter().map(|term| (term, TermRule::MustNotOccur)))
    }
}

impl QuestionWord {
    /// Whether a word with a spelling of this shape may be this one. Every word for which
    /// [`QuestionWord::grade`] returns a grade has such a spelling.
    fn may_be(&self, shape: &WordShape) -> bool {
        let is_same = |own: &WordShape| own.may_be(shape);
        let begins_alike = |own: &WordShape| own.begins_as(shape);
        self.shapes.iter().any(is_same)
            || !self.stems.is_empty() && self.shapes.iter().any(begins_alike)
            || self.sought.as_ref().is_some_and(|sought| sought.may_be_similar(shape))
            || shape.is_unspaced && self.shapes.iter().any(|own| own.is_unspaced)
    }

    fn grade(
        &self,
        word: &str,
        (spellings, shapes): (&[String], &[WordShape]),
        stems: &mut Option<Vec<(Language, String)>>,
    ) -> Option<Grade> {
        if self.spellings.iter().any(|own| spellings.contains(own)) || self.is_part_of(word) {
            return Some(Grade::Same);
        }
        if self.may_have_stem_of(spellings, shapes) {
            let stems = stems.get_or_insert_with(|| stems_of(word, spellings));
            let shared = self.stems.iter().filter(|stem| stems.contains(stem));
            let languages =
                shared.fold(LanguageSet::default(), |set, (language, _)| set.with(*language));
            if !languages.is_empty() {
                return Some(Grade::Stem(languages));
            }
        }
        let sought = self.sought.as_ref()?;
        let similarity = shapes.first().filter(|shape| sought.may_be_similar(shape));
        let similarity = similarity.and_then(|_| sought.similarity(spellings.first()?))?;
        Some(Grade::Similar(similarity))
    }

    /// Whether another word begins as a stem of this one does, but for the last letters, which a
    /// stemmer may have replaced. Only then are the stems of the other word looked for.
    fn may_have_stem_of(&self, spellings: &[String], shapes: &[WordShape]) -> bool {
        let begins_alike = |own: &WordShape| shapes.iter().any(|other| own.begins_as(other));
        let has_begin_of = |(_, stem): &(Language, String)| {
            let end = stem.char_indices().rev().nth(REPLACED - 1).map_or(0, |(end, _)| end);
            let begin = stem.get(..end).unwrap_or_default();
            spellings.iter().any(|spelling| spelling.starts_with(begin))
        };
        self.shapes.iter().any(begins_alike) && self.stems.iter().any(has_begin_of)
    }

    /// Whether the word is one character of a script without spaces, and in a pair of a text.
    fn is_part_of(&self, word: &str) -> bool {
        let mut own = self.spelled.chars();
        let is_one = own.next().is_some_and(is_unspaced) && own.next().is_none();
        is_one && word.contains(self.spelled.as_str())
    }
}

/// Returns the stems of a word in each language. A caller may leave accents out, so the spelling
/// without them is stemmed too.
fn stems_of(word: &str, spellings: &[String]) -> Vec<(Language, String)> {
    let mut stems = Vec::new();
    for language in Language::ALL {
        for form in std::iter::once(word).chain(spellings.iter().map(String::as_str)) {
            let stem = (language, language.stem(form));
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        }
    }
    stems
}

/// Returns the parts of a question between white space or quotation marks, each with whether it
/// must stand so and whether it must not occur.
fn parts(text: &str) -> Vec<(&str, bool, bool)> {
    let segments: Vec<&str> = text.split(['"', '“', '”', '„']).collect();
    let mut parts = Vec::new();
    let mut is_excluded = false;
    for (nth, segment) in segments.iter().enumerate() {
        // A quotation mark without its partner is white space.
        if nth % 2 == 1 && nth + 1 < segments.len() {
            parts.push((*segment, true, is_excluded));
            is_excluded = false;
            continue;
        }
        is_excluded = false;
        for word in segment.split_whitespace() {
            match word.strip_prefix('-') {
                // A hyphen right before a quotation mark excludes the phrase.
                Some("") => is_excluded = segment.ends_with('-') && nth + 2 < segments.len(),
                Some(excluded) if !excluded.starts_with('-') => parts.push((excluded, false, true)),
                _ => parts.push((word, false, false)),
            }
        }
    }
    parts
}

/// Returns the words of a part as what must stand so; `None` if there are none.
fn search_term(part: &str) -> Option<SearchTerm> {
    let mut words: Vec<String> = tokens(part).map(|token| token.text.into_owned()).collect();
    match words.len() {
        0 => None,
        1 => words.pop().map(SearchTerm::Word),
        _ => Some(SearchTerm::Phrase(words)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> RecallQuestion {
        RecallQuestion::parse(text).unwrap()
    }

    fn spelled(question: &RecallQuestion) -> Vec<&str> {
        question.words.iter().map(|word| word.spelled.as_str()).collect()
    }

    fn best(question: &str, word: &str) -> Option<Grade> {
        parse(question).matches(word).first().map(|found| found.grade)
    }

    #[test]
    fn a_question_has_words_phrases_and_what_must_not_occur() {
        let question = parse("Susan's golf \"two words\" -draft -\"not this\" e-mail");
        let words = ["Susan", "s", "golf", "two", "words", "e", "mail", "e-mail"];
        assert_eq!(spelled(&question), words);
        assert_eq!((question.phrases.len(), question.excluded.len()), (1, 2));
        assert!(question.allows(&["Two\nwords"]));
        assert!(!question.allows(&["words two"]));
        assert!(!question.allows(&["two words", "a draft"]));
        assert!(!question.allows(&["two words, not this"]));
    }

    #[test]
    fn a_text_without_a_word_is_no_question() {
        assert_eq!(RecallQuestion::parse(" -a ?!"), Err(BadQuestion::NoWord));
        assert_eq!(RecallQuestion::parse(""), Err(BadQuestion::NoWord));
        let long = "a".repeat(1025);
        assert_eq!(RecallQuestion::parse(&long), Err(BadQuestion::TooLong { chars: 1025 }));
    }

    #[test]
    fn light_words_count_where_there_are_no_others() {
        assert!(parse("to be or not to be").words.iter().all(|word| !word.is_light));
        assert!(parse("where is the roof").words.iter().filter(|word| !word.is_light).count() == 1);
    }

    #[test]
    fn a_word_fits_in_any_spelling_by_its_stem_or_by_a_slip() {
        assert_eq!(best("Mueller", "müller"), Some(Grade::Same));
        assert_eq!(best("Müller", "mueller"), Some(Grade::Same));
        assert_eq!(best("cafe", "café"), Some(Grade::Same));
        assert_eq!(best("poet", "pot"), None);
        assert!(matches!(best("gardens", "gardening"), Some(Grade::Stem(_))));
        assert!(matches!(best("haeuser", "häusern"), Some(Grade::Stem(_))));
        assert!(matches!(best("gadren", "garden"), Some(Grade::Similar(_))));
        assert_eq!(best("日", "日本"), Some(Grade::Same));
        assert_eq!(best("日本", "本語"), None);
    }

    #[test]
    fn a_form_with_another_beginning_is_another_word() {
        assert!(matches!(best("cries", "cry"), Some(Grade::Stem(_))));
        assert!(matches!(best("walk", "walking"), Some(Grade::Stem(_))));
        assert_eq!(best("dying", "die"), None);
    }

    fn some_word() -> impl Strategy<Value = String> {
        let few = "[abeir]{1,7}(ing|s|ed|en|rinne)?";
        prop_oneof![few, "[a-zäöüéß]{1,10}", "[日本語a]{1,3}", "\\w{1,6}"]
    }

    proptest! {
        #[test]
        fn no_word_is_passed_over_by_its_shape(one in some_word(), other in some_word()) {
            let Ok(question) = RecallQuestion::parse(&one) else { return Ok(()) };
            each_word(&other, |word, _| {
                let spellings = spellings(&word);
                let shapes: Vec<_> = spellings.iter().map(|one| WordShape::of(one)).collect();
                let grade = |asked: &QuestionWord| {
                    asked.grade(&word, (&spellings, &shapes), &mut None)
                };
                let slow: Vec<_> = question.words.iter().filter_map(grade).collect();
                let fast = question.matches(&word);
                assert_eq!(fast.iter().map(|found| found.grade).collect::<Vec<_>>(), slow);
            });
        }
    }
}
