//! How often a file has each word of a question, and which of these words are close together.

use std::collections::{BTreeMap, HashMap};

use super::file_words::{FileWords, PassageWords, Weight, WordPlace};
use super::language::Language;
use super::packed_words::{PackedWords, WordTable};
use super::question::{Grade, RecallQuestion, WordMatch};
use super::words::each_word;
use crate::path::SpacePath;

/// The most passages of a file that are ranked: those with the most words of the question.
const MOST_PASSAGES: usize = 8;
/// The most places of a passage at which nearness is measured.
const MOST_PLACES: usize = 48;
/// The words whose matches are remembered at most.
const MOST_KNOWN: usize = 200_000;

/// How much a word of a heading counts in its passage.
const HEADING_COUNT: f32 = 2.0;
/// How much a word of the title, an alias or a tag counts.
const TITLE_COUNT: f32 = 1.5;
/// How much a word of the name of the file counts.
const NAME_COUNT: f32 = 1.5;
/// How much a word of the names of its folders counts.
const FOLDER_COUNT: f32 = 0.3;

/// What a file has of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileEvidence {
    /// How many words the file has.
    pub(super) words: u32,
    /// How many passages the file has.
    pub(super) passages: u32,
    /// The words in the whole text.
    pub(super) counts: Vec<TermCount>,
    /// The words in what names the file.
    pub(super) names: Vec<TermCount>,
    /// The passages that may be the best, in order.
    pub(super) best: Vec<PassageEvidence>,
}

/// How often a word of the question occurs, in one grade.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TermCount {
    pub(super) word: u8,
    pub(super) grade: MatchGrade,
    pub(super) count: f32,
}

/// A grade of a match as a number: the same word, the same stem, or the similarity in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatchGrade(pub(super) u8);

/// A slot, and the word of the question in it with its grade.
pub(super) type SlotMatch = (u32, u8, MatchGrade);

/// What a passage has of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PassageEvidence {
    pub(super) index: u32,
    pub(super) words: u32,
    pub(super) counts: Vec<TermCount>,
    /// The slots with words that are not light, in order.
    pub(super) slots: Vec<SlotMatch>,
}

impl MatchGrade {
    pub(super) const SAME: Self = Self(255);
    const STEM: Self = Self(254);

    /// Returns the grade in a passage of a language; `None` where the stems of other languages
    /// agree alone.
    pub(super) fn of(grade: Grade, language: Option<Language>) -> Option<Self> {
        match grade {
            Grade::Same => Some(Self::SAME),
            Grade::Stem(languages) => {
                language.is_none_or(|language| languages.has(language)).then_some(Self::STEM)
            }
            Grade::Similar(percent) => Some(Self(percent)),
        }
    }

    /// Whether the word itself occurs, in some form.
    pub(super) fn is_exact(self) -> bool {
        self >= Self::STEM
    }
}

/// Finds the words of a question, and remembers what it found of each word.
pub struct Matcher<'q> {
    question: &'q RecallQuestion,
    known: HashMap<Box<str>, Box<[WordMatch]>>,
    /// What is known of the words of a table, by their number: nothing yet, or an index into
    /// `of_table` and one more.
    by_number: Vec<u32>,
    of_table: Vec<Box<[WordMatch]>>,
}

impl<'q> Matcher<'q> {
    /// Begins with a question.
    pub fn new(question: &'q RecallQuestion) -> Self {
        // The first entry is for the many words without a match.
        let of_table = vec![Box::default()];
        Self { question, known: HashMap::new(), by_number: Vec::new(), of_table }
    }

    fn matches(&mut self, word: &str) -> &[WordMatch] {
        if !self.known.contains_key(word) {
            if self.known.len() >= MOST_KNOWN {
                self.known.clear();
            }
            self.known.insert(word.into(), self.question.matches(word).into());
        }
        self.known.get(word).map(|matches| &**matches).unwrap_or_default()
    }

    /// Gathers what a file has of the question.
    pub fn gather(&mut self, path: &SpacePath, file: &FileWords) -> FileEvidence {
        let mut gathered = Gathered::new(&file.passages);
        let question = self.question;
        for word in &file.words {
            for found in self.matches(&word.text) {
                let asked = question.words().get(usize::from(found.word));
                gathered.add(*found, &word.places, asked.is_some_and(|asked| asked.is_light));
            }
        }
        self.add_path(path, &mut gathered.names);
        gathered.finish()
    }

    /// Gathers what a packed file has of the question, as [`Matcher::gather`] does. All calls must
    /// be with the same table.
    pub fn gather_packed(
        &mut self,
        path: &SpacePath,
        file: &PackedWords,
        table: &WordTable,
    ) -> FileEvidence {
        let mut gathered = Gathered::new(file.passages());
        let question = self.question;
        file.each_word(|number, places| {
            for found in self.matches_of_table(number, table) {
                let asked = question.words().get(usize::from(found.word));
                let is_light = asked.is_some_and(|asked| asked.is_light);
                gathered.add(*found, &places.to_vec(), is_light);
            }
        });
        self.add_path(path, &mut gathered.names);
        gathered.finish()
    }

    fn matches_of_table(&mut self, number: u32, table: &WordTable) -> &[WordMatch] {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        if self.by_number.len() <= at {
            self.by_number.resize(table.count().max(at.saturating_add(1)), 0);
        }
        let Some(known) = self.by_number.get_mut(at) else { return &[] };
        if *known == 0 {
            let matches = self.question.matches(table.word(number));
            *known = 1;
            if !matches.is_empty() {
                self.of_table.push(matches.into());
                *known = u32::try_from(self.of_table.len()).unwrap_or(1);
            }
        }
        let index = usize::try_from(*known - 1).unwrap_or(usize::MAX);
        self.of_table.get(index).map(|matches| &**matches).unwrap_or_default()
    }

    /// Adds the words of the name of a file and of its folders.
    fn add_path(&mut self, path: &SpacePath, names: &mut Counts) {
        let mut components: Vec<&str> = path.components().collect();
        let name = components.pop().unwrap_or_default();
        let name = name.strip_suffix(".md").unwrap_or(name);
        let folders = components.into_iter().map(|folder| (folder, FOLDER_COUNT));
        for (text, count) in folders.chain([(name, NAME_COUNT)]) {
            each_word(text, |word, _| {
                for found in self.matches(&word) {
                    if let Some(grade) = MatchGrade::of(found.grade, None) {
                        *names.entry((found.word, grade)).or_default() += count;
                    }
                }
            });
        }
    }
}

/// How often words occur, by word and grade.
type Counts = BTreeMap<(u8, MatchGrade), f32>;

fn listed(counts: Counts) -> Vec<TermCount> {
    let counts = counts.into_iter();
    counts.map(|((word, grade), count)| TermCount { word, grade, count }).collect()
}

/// What was found of one file so far.
struct Gathered<'f> {
    passage_words: &'f [PassageWords],
    counts: Counts,
    names: Counts,
    passages: BTreeMap<u32, (Counts, Vec<SlotMatch>)>,
}

impl<'f> Gathered<'f> {
    fn new(passage_words: &'f [PassageWords]) -> Self {
        let (counts, names) = (Counts::new(), Counts::new());
        Self { passage_words, counts, names, passages: BTreeMap::new() }
    }

    fn add(&mut self, found: WordMatch, places: &[WordPlace], is_light: bool) {
        for place in places {
            let of_passage = |passage: &PassageWords| passage.first_slot <= place.slot;
            let at = self.passage_words.partition_point(of_passage).saturating_sub(1);
            let language = self.passage_words.get(at).and_then(|passage| passage.language);
            let index = u32::try_from(at).unwrap_or(u32::MAX);
            let Some(grade) = MatchGrade::of(found.grade, language) else { continue };
            let key = (found.word, grade);
            let count = match place.weight {
                Weight::Body | Weight::Name => 1.0,
                Weight::Heading => HEADING_COUNT,
            };
            if place.weight == Weight::Name {
                *self.names.entry(key).or_default() += TITLE_COUNT;
            }
            *self.counts.entry(key).or_default() += count;
            let (counts, slots) = self.passages.entry(index).or_default();
            *counts.entry(key).or_default() += count;
            if !is_light {
                slots.push((place.slot, found.word, grade));
            }
        }
    }

    fn finish(self) -> FileEvidence {
        let all = self.passage_words;
        let mut best: Vec<PassageEvidence> = Vec::new();
        for (index, (counts, mut slots)) in self.passages {
            slots.sort_unstable();
            slots.dedup();
            slots.truncate(MOST_PLACES);
            let passage = usize::try_from(index).ok().and_then(|at| all.get(at));
            let words = passage.map_or(0, |passage| passage.words);
            best.push(PassageEvidence { index, words, counts: listed(counts), slots });
        }
        // Words that are not light come first, then exact ones, then how often they occur.
        if best.len() > MOST_PASSAGES {
            best.sort_by_key(|passage| (std::cmp::Reverse(richness(passage)), passage.index));
            best.truncate(MOST_PASSAGES);
            best.sort_by_key(|passage| passage.index);
        }
        FileEvidence {
            words: all.iter().map(|passage| passage.words).sum(),
            passages: u32::try_from(all.len()).unwrap_or(u32::MAX),
            counts: listed(self.counts),
            names: listed(self.names),
            best,
        }
    }
}

/// Returns how many different words a passage has that are not light: exact ones, then similar
/// ones, then places.
fn richness(passage: &PassageEvidence) -> (usize, usize, usize) {
    let different = |is_exact: bool| {
        let words = passage.slots.iter().filter(|(_, _, grade)| grade.is_exact() == is_exact);
        let mut words: Vec<u8> = words.map(|(_, word, _)| *word).collect();
        words.sort_unstable();
        words.dedup();
        words.len()
    };
    (different(true), different(false), passage.slots.len())
}
