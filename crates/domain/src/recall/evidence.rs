//! How often a file has each word of a question, and which of these words are close together.

use std::collections::{BTreeMap, HashMap};

use super::file_words::{FileWords, PassageWords, Weight, WordPlace};
use super::language::Language;
use super::packed_words::PackedWords;
use super::question::{Grade, RecallQuestion, WordMatch};
use super::table_matches::TableMatches;
use super::words::each_word;
use crate::facts::Footprint;
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

impl FileEvidence {
    /// Returns the words of the question that the name or the title of the file has. A folder does
    /// not name its files, and a stem may be that of another word: `compiling` and `compiler`.
    pub(super) fn named(&self) -> impl Iterator<Item = &TermCount> {
        let of_file = NAME_COUNT.min(TITLE_COUNT);
        let is_named =
            move |term: &&TermCount| term.grade == MatchGrade::SAME && term.count >= of_file;
        self.names.iter().filter(is_named)
    }
}

impl Footprint for FileEvidence {
    fn heap_bytes(&self) -> usize {
        let of = |counts: &Vec<TermCount>| counts.capacity() * size_of::<TermCount>();
        let passages = self
            .best
            .iter()
            .map(|passage| of(&passage.counts) + passage.slots.capacity() * size_of::<SlotMatch>());
        let best = self.best.capacity() * size_of::<PassageEvidence>();
        of(&self.counts) + of(&self.names) + best + passages.sum::<usize>()
    }
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
    /// Whether the passage is in another language than the question.
    pub(super) is_foreign: bool,
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

/// Finds the words of a question in files, and remembers what it found of each word.
pub struct Matcher<'q> {
    question: &'q RecallQuestion,
    known: HashMap<Box<str>, Box<[WordMatch]>>,
    /// The folder of the last file, and what its names have of the question.
    folder: (String, Counts),
}

impl<'q> Matcher<'q> {
    /// Begins with a question.
    pub fn new(question: &'q RecallQuestion) -> Self {
        Self { question, known: HashMap::new(), folder: Default::default() }
    }

    /// Returns the words of the question that a word of a file is.
    pub(super) fn matches(&mut self, word: &str) -> &[WordMatch] {
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
        let names = self.names(path);
        let mut found: Vec<(WordMatch, &[WordPlace])> = Vec::new();
        for (word, places) in file.words() {
            let matches = self.matches(word.text).iter();
            found.extend(matches.map(|matched| (*matched, places)));
        }
        let question = self.question;
        let mut gathered = Gathered::new(&file.passages, names);
        let is_heavy = |(matched, _): &(WordMatch, _)| question.is_heavy(matched.word);
        if gathered.has_heavy_name(question) || found.iter().any(is_heavy) {
            for (matched, places) in found {
                gathered.add(matched, places, !question.is_heavy(matched.word));
            }
        } else {
            found.iter().for_each(|(matched, _)| gathered.mark(*matched));
        }
        gathered.finish(question)
    }

    /// Gathers what a packed file has of the question, as [`Matcher::gather`] does. `table` has
    /// learned the words of the file.
    pub fn gather_packed(
        &mut self,
        path: &SpacePath,
        file: &PackedWords,
        table: &TableMatches<'q>,
    ) -> FileEvidence {
        let question = self.question;
        let mut gathered = Gathered::new(file.passages(), self.names(path));
        if gathered.has_heavy_name(question) || table.has_heavy(file) {
            file.each_word(|number, places| {
                let matches = table.of_word(number);
                let places = if matches.is_empty() { Vec::new() } else { places.to_vec() };
                for matched in matches {
                    gathered.add(*matched, &places, !question.is_heavy(matched.word));
                }
            });
        } else {
            for number in file.numbers() {
                table.of_word(*number).iter().for_each(|matched| gathered.mark(*matched));
            }
        }
        gathered.finish(question)
    }

    /// Returns what the name of a file and the names of its folders have of the question.
    fn names(&mut self, path: &SpacePath) -> Counts {
        let (folder, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
        if self.folder.0 != folder {
            let mut counts = Counts::new();
            for part in folder.split('/') {
                self.add_name(part, FOLDER_COUNT, &mut counts);
            }
            self.folder = (folder.to_owned(), counts);
        }
        let mut counts = self.folder.1.clone();
        let name = name.strip_suffix(".md").unwrap_or(name);
        self.add_name(name, NAME_COUNT, &mut counts);
        counts
    }

    fn add_name(&mut self, name: &str, count: f32, names: &mut Counts) {
        each_word(name, |word, _| {
            for found in self.matches(&word) {
                if let Some(grade) = MatchGrade::of(found.grade, None) {
                    *names.entry((found.word, grade)).or_default() += count;
                }
            }
        });
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
    fn new(passage_words: &'f [PassageWords], names: Counts) -> Self {
        Self { passage_words, counts: Counts::new(), names, passages: BTreeMap::new() }
    }

    fn has_heavy_name(&self, question: &RecallQuestion) -> bool {
        self.names.keys().any(|(word, _)| question.is_heavy(*word))
    }

    /// Marks that a light word occurs, in a file that has no other word of the question. No score
    /// depends on more: it is only counted how many files have the word.
    fn mark(&mut self, found: WordMatch) {
        if let Some(grade) = MatchGrade::of(found.grade, None) {
            self.counts.insert((found.word, grade), 1.0);
        }
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

    fn finish(self, question: &RecallQuestion) -> FileEvidence {
        let all = self.passage_words;
        let mut best: Vec<PassageEvidence> = Vec::new();
        for (index, (counts, mut slots)) in self.passages {
            slots.sort_unstable();
            slots.dedup();
            slots.truncate(MOST_PLACES);
            let passage = usize::try_from(index).ok().and_then(|at| all.get(at));
            let words = passage.map_or(0, |passage| passage.words);
            let language = passage.and_then(|passage| passage.language);
            let is_foreign = question.is_foreign(language);
            let counts = listed(counts);
            best.push(PassageEvidence { index, words, is_foreign, counts, slots });
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
