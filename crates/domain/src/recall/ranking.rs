//! Orders files by what they have of a question, best first.
//!
//! The score is BM25 ([`K1`], [`B`]) of the best passage, with the words that name the file counted
//! into each passage. To that come a share for words of the question that stand near each other in
//! the passage, a share that grows with how much of the question the passage has, a share of the
//! BM25 of the whole file, and a share for words of the question that the name or the title of the
//! file has in the same form. The weight of a word is its inverse frequency among the files that
//! were read for the caller; a light word weighs little. A passage in another language than the
//! question counts a little less, so that of two translations of a page the one that the caller
//! reads comes first.
//! A word that is in none of them counts by the most similar words instead, and a file that has
//! only such words comes after all others. Ties are broken by path.
//!
//! *Source*: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
//! 2009.

use super::evidence::{FileEvidence, MatchGrade, PassageEvidence, TermCount};
use super::question::RecallQuestion;
use crate::find::walk_cursor::MatchRank;
use crate::path::SpacePath;

/// How soon more occurrences of a word stop to count.
pub const K1: f64 = 1.2;
/// How much the length of a passage counts. Passages are of similar length already.
pub const B: f64 = 0.5;

/// What a function word weighs.
const LIGHT: f64 = 0.05;
/// What a word of chatter weighs, which may be a word of what is looked for.
const CHATTER: f64 = 0.2;
/// What a word weighs that has only the stem of the word of the question.
const STEM: f64 = 0.8;
/// What similar words weigh at most, for a word that is nowhere.
const SIMILAR: f64 = 0.6;
/// Words count that are nearly as similar as the most similar one, in percent of its similarity.
const NEARLY: u32 = 85;
/// The share of words that stand near each other.
const NEAR: f64 = 0.5;
/// The share of what a passage has of the question, for a passage that has all of it.
const COVERAGE: f64 = 0.3;
/// How much of its weight a word of the question adds that the name or the title of the file has.
const NAMED: f64 = 0.8;
/// The share of a passage in another language than the question.
const FOREIGN: f64 = 0.8;
/// The share of the whole file.
const WHOLE: f64 = 0.5;
/// How many slots count as near.
const NEAR_SLOTS: u32 = 2;
/// The number of steps of a score.
const STEPS: f64 = 1e6;
/// The bit of a score that a file has with a word of the question itself.
const EXACT: u64 = 1 << 62;

/// What is known of all files that were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    words: Vec<WordStatistics>,
    /// The weight of all words of the question.
    asked: f64,
    /// The mean length of a passage, in words.
    passage_words: f64,
    /// The mean length of a file, in words.
    file_words: f64,
}

/// What is known of one word of the question.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WordStatistics {
    /// How much the word weighs.
    weight: f64,
    /// The least similarity that counts; `None` where only the word itself does.
    similar: Option<MatchGrade>,
    is_nowhere: bool,
}

/// Files in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// The files that have a word of the question, best first, each with its index.
    pub order: Vec<(MatchRank, usize)>,
    /// The words of the question that occur, as the caller wrote them, without light words.
    pub matched: Vec<String>,
    /// The words of the question that are nowhere.
    pub nowhere: Vec<String>,
}

impl Statistics {
    /// Counts over the evidence of all files that the caller may read.
    pub fn of<'e>(
        question: &RecallQuestion,
        files: impl Iterator<Item = &'e FileEvidence> + Clone,
    ) -> Self {
        let asked = question.words();
        let mut exact = vec![0u32; asked.len()];
        let mut most_similar = vec![0u8; asked.len()];
        let (mut count, mut passages, mut words) = (0u32, 0u64, 0u64);
        for file in files.clone() {
            count += 1;
            passages += u64::from(file.passages);
            words += u64::from(file.words);
            for word in 0..asked.len() {
                let grade = file.terms(word).map(|term| term.grade).max();
                let (Some(grade), Some(exact), Some(similar)) =
                    (grade, exact.get_mut(word), most_similar.get_mut(word))
                else {
                    continue;
                };
                if grade.is_exact() {
                    *exact += 1;
                } else {
                    *similar = grade.0.max(*similar);
                }
            }
        }
        let least: Vec<Option<MatchGrade>> = exact
            .iter()
            .zip(&most_similar)
            .map(|(exact, similar)| {
                let least = u32::from(*similar) * NEARLY / 100;
                let is_replaced = *exact == 0 && *similar > 0;
                is_replaced.then(|| MatchGrade(u8::try_from(least).unwrap_or(u8::MAX)))
            })
            .collect();
        let mut alike = vec![0u32; asked.len()];
        for file in files {
            for ((word, least), alike) in (0..).zip(&least).zip(&mut alike) {
                let Some(least) = least else { continue };
                *alike += u32::from(file.terms(word).any(|term| term.grade >= *least));
            }
        }
        let statistics = asked.iter().zip(exact).zip(least).zip(alike).map(
            |(((word, exact), similar), alike)| {
                let frequency = f64::from(if similar.is_some() { alike } else { exact });
                let files = f64::from(count);
                let inverse = (1.0 + (files - frequency + 0.5) / (frequency + 0.5)).ln();
                let share = match (word.is_light, word.is_chatter) {
                    (true, true) => CHATTER,
                    (true, false) => LIGHT,
                    (false, _) => 1.0,
                };
                WordStatistics { weight: inverse * share, similar, is_nowhere: exact == 0 }
            },
        );
        let mean = |of: u64| words as f64 / of.max(1) as f64;
        let statistics: Vec<WordStatistics> = statistics.collect();
        Self {
            asked: statistics.iter().map(|word| word.weight).sum(),
            words: statistics,
            passage_words: mean(passages).max(1.0),
            file_words: mean(u64::from(count)).max(1.0),
        }
    }

    /// Returns the score of a file; `None` if it has no word of the question that is not light.
    pub fn score(&self, question: &RecallQuestion, file: &FileEvidence) -> Option<u64> {
        let heavy = |term: &&TermCount| question.is_heavy(term.word);
        let all = || file.counts.iter().chain(&file.names).filter(heavy);
        if !all().any(|term| self.share(term.grade, term.word) > 0.0) {
            return None;
        }
        let is_exact = all().any(|term| term.grade.is_exact());
        let of_passages = file.best.iter().map(|passage| self.passage(file, passage));
        let best = of_passages.fold(self.names(file), f64::max);
        let length = f64::from(file.words) / self.file_words;
        let whole = self.bm25(length, &[&file.counts, &file.names]);
        let named: f64 = file.named().map(|term| self.weight(term.grade, term.word)).sum();
        let value = best + WHOLE * whole + NAMED * named;
        #[expect(clippy::cast_possible_truncation, reason = "a score is small")]
        #[expect(clippy::cast_sign_loss, reason = "a score is positive")]
        let steps = (value * STEPS) as u64;
        Some(steps.min(EXACT - 1) | if is_exact { EXACT } else { 0 })
    }

    /// Returns how much a match weighs; 0 for a similar word that does not count.
    pub(super) fn weight(&self, grade: MatchGrade, word: u8) -> f64 {
        let weight = self.words.get(usize::from(word)).map_or(0.0, |word| word.weight);
        weight * self.share(grade, word)
    }

    /// Returns the share of its word's weight that a match has.
    fn share(&self, grade: MatchGrade, word: u8) -> f64 {
        let similar = self.words.get(usize::from(word)).and_then(|word| word.similar);
        match similar {
            _ if grade == MatchGrade::SAME => 1.0,
            _ if grade.is_exact() => STEM,
            Some(least) if grade >= least => SIMILAR * f64::from(grade.0) / 100.0,
            _ => 0.0,
        }
    }

    fn passage(&self, file: &FileEvidence, passage: &PassageEvidence) -> f64 {
        let length = f64::from(passage.words) / self.passage_words;
        let found = self.bm25(length, &[&passage.counts, &file.names]);
        let share = if passage.is_foreign { FOREIGN } else { 1.0 };
        let covered = self.covered(&passage.counts);
        let coverage = COVERAGE * covered * covered / self.asked.max(f64::MIN_POSITIVE);
        share * (found + NEAR * self.nearness(passage) + coverage)
    }

    /// Returns the weight of the words that `counts` has, each once and in its best grade.
    fn covered(&self, counts: &[TermCount]) -> f64 {
        let of_word = counts.chunk_by(|one, next| one.word == next.word);
        let best = of_word.filter_map(|grades| grades.last());
        best.map(|term| self.weight(term.grade, term.word)).sum()
    }

    /// Returns what a file has by its names alone.
    fn names(&self, file: &FileEvidence) -> f64 {
        self.bm25(1.0, &[&file.names])
    }

    /// Returns the BM25 of a text with these words. `length` is its length by the mean.
    fn bm25(&self, length: f64, counts: &[&[TermCount]]) -> f64 {
        let mut frequencies = vec![0.0; self.words.len()];
        for term in counts.iter().copied().flatten() {
            if let Some(frequency) = frequencies.get_mut(usize::from(term.word)) {
                *frequency += f64::from(term.count) * self.share(term.grade, term.word);
            }
        }
        let norm = K1 * (1.0 - B + B * length);
        let weights = self.words.iter().map(|word| word.weight);
        let each = weights.zip(frequencies).filter(|(_, frequency)| *frequency > 0.0);
        each.map(|(weight, frequency)| weight * frequency * (K1 + 1.0) / (frequency + norm)).sum()
    }

    /// Returns the weight of the words that stand near each other, without the weightiest of them,
    /// at the place of the passage that has most of it.
    fn nearness(&self, passage: &PassageEvidence) -> f64 {
        let (mut most, mut near) = (0.0, vec![0.0f64; self.words.len()]);
        for (at, (first, _, _)) in passage.slots.iter().enumerate() {
            near.fill(0.0);
            let rest = passage.slots.get(at..).unwrap_or_default();
            for (_, word, grade) in rest.iter().take_while(|(slot, ..)| slot - first < NEAR_SLOTS) {
                if let Some(weight) = near.get_mut(usize::from(*word)) {
                    *weight = weight.max(self.weight(*grade, *word));
                }
            }
            let weightiest = near.iter().copied().fold(0.0, f64::max);
            most = f64::max(most, near.iter().sum::<f64>() - weightiest);
        }
        most
    }
}

impl FileEvidence {
    /// Returns where the file has a word of the question, in its text or in what names it.
    fn terms(&self, word: usize) -> impl Iterator<Item = &TermCount> {
        let all = self.counts.iter().chain(&self.names);
        all.filter(move |term| usize::from(term.word) == word)
    }
}

/// Ranks files by their evidence. `files` are all files that the caller may read and that were
/// read, each path once.
pub fn rank(
    question: &RecallQuestion,
    files: &[(SpacePath, FileEvidence)],
) -> (Statistics, Ranking) {
    let statistics = Statistics::of(question, files.iter().map(|(_, evidence)| evidence));
    let mut order: Vec<(MatchRank, usize)> = files
        .iter()
        .enumerate()
        .filter_map(|(index, (path, evidence))| {
            let score = statistics.score(question, evidence)?;
            Some((MatchRank { score, path: path.clone() }, index))
        })
        .collect();
    order.sort_unstable_by(|(one, _), (other, _)| {
        (other.score, &one.path).cmp(&(one.score, &other.path))
    });
    let spelled = |is_nowhere: bool| {
        let words = question.words().iter().zip(&statistics.words);
        let asked = words.filter(|(word, known)| {
            let is_asked = !(word.is_light || word.is_joined && is_nowhere);
            is_asked && known.is_nowhere == is_nowhere
        });
        asked.map(|(word, _)| word.spelled.clone()).collect()
    };
    let (matched, nowhere) = (spelled(false), spelled(true));
    (statistics, Ranking { order, matched, nowhere })
}
