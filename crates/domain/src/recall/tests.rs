//! The ranking of small sets of files.

use proptest::prelude::*;

use super::evidence::{FileEvidence, MatchGrade, Matcher};
use super::excerpt::{Excerpt, MAX_PASSAGE_CHARS, MAX_PASSAGES, excerpts};
use super::file_words::{FileKind, FileWords, PassageWords, Weight};
use super::packed_words::{PackedWords, WordTable};
use super::question::RecallQuestion;
use super::ranking::{B, K1, Ranking, Statistics, rank};
use super::table_matches::{TableMatches, TermVerdict};
use super::words::{each_word, spellings};
use crate::lines::ResolvedLines;
use crate::path::SpacePath;

fn ranked(q: &str, files: &[(&str, &str)]) -> (RecallQuestion, Statistics, Ranking) {
    let question = RecallQuestion::parse(q).unwrap();
    let mut matcher = Matcher::new(&question);
    let files: Vec<(SpacePath, FileEvidence)> = files
        .iter()
        .map(|(path, text)| {
            let path = SpacePath::parse(path).unwrap();
            let evidence = matcher.gather(&path, &FileWords::of(text, FileKind::Note));
            (path, evidence)
        })
        .collect();
    let (statistics, ranking) = rank(&question, &files);
    (question, statistics, ranking)
}

fn order(q: &str, files: &[(&str, &str)]) -> Vec<String> {
    let (_, _, ranking) = ranked(q, files);
    ranking.order.into_iter().map(|(rank, _)| rank.path.to_string()).collect()
}

/// One word of a file that is one of the question, for the slow ranking.
struct Occurrence {
    word: usize,
    grade: u8,
    /// `None` for a word of the path.
    passage: Option<u32>,
    slot: u32,
    /// How much it counts in its passage and in every passage.
    counts: (f64, f64),
}

struct SlowFile {
    path: String,
    passages: Vec<f64>,
    /// Whether each passage is in another language than the question.
    foreign: Vec<bool>,
    found: Vec<Occurrence>,
}

fn slow_file(question: &RecallQuestion, path: &str, text: &str) -> SlowFile {
    let words = FileWords::of(text, FileKind::Note);
    let mut found = Vec::new();
    for (word, places) in words.words() {
        for place in places {
            let begun = words.passages.iter().filter(|passage| passage.first_slot <= place.slot);
            let passage = begun.count() as u32 - 1;
            let language = words.passages[passage as usize].language;
            for matched in question.matches(word.text) {
                let Some(grade) = MatchGrade::of(matched.grade, language) else { continue };
                let counts = match place.weight {
                    Weight::Body => (1.0, 0.0),
                    Weight::Heading => (2.0, 0.0),
                    Weight::Name => (1.0, 1.5),
                };
                let (word, grade) = (usize::from(matched.word), grade.0);
                let passage = Some(passage);
                found.push(Occurrence { word, grade, passage, slot: place.slot, counts });
            }
        }
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    for (number, part) in parts.iter().enumerate() {
        let is_name = number + 1 == parts.len();
        let (part, count) =
            if is_name { (part.trim_end_matches(".md"), 1.5) } else { (*part, 0.3) };
        each_word(part, |word, _| {
            for matched in question.matches(&word) {
                let grade = MatchGrade::of(matched.grade, None).unwrap().0;
                let word = usize::from(matched.word);
                let counts = (0.0, count);
                found.push(Occurrence { word, grade, passage: None, slot: 0, counts });
            }
        });
    }
    let passages = words.passages.iter().map(|passage| f64::from(passage.words)).collect();
    let language = |passage: &PassageWords| question.is_foreign(passage.language);
    let foreign = words.passages.iter().map(language).collect();
    SlowFile { path: path.to_owned(), passages, foreign, found }
}

/// Returns the files with their scores, by going over all occurrences for every number.
fn slow_scores(q: &str, files: &[(String, String)]) -> Vec<(bool, f64, String)> {
    let question = RecallQuestion::parse(q).unwrap();
    let files: Vec<SlowFile> =
        files.iter().map(|(path, text)| slow_file(&question, path, text)).collect();
    let count = question.words().len();
    let having = |word: usize, least: u8| {
        let has =
            |file: &&SlowFile| file.found.iter().any(|one| one.word == word && one.grade >= least);
        files.iter().filter(has).count()
    };
    let all = || files.iter().flat_map(|file| &file.found);
    let least: Vec<u8> = (0..count)
        .map(|word| {
            let most = all().filter(|one| one.word == word).map(|one| one.grade).max();
            match most.unwrap_or(0) {
                most if most >= 254 => 254,
                0 => 255,
                most => u8::try_from(u32::from(most) * 85 / 100).unwrap(),
            }
        })
        .collect();
    let weight = |word: usize| {
        let (n, df) = (files.len() as f64, having(word, least[word]) as f64);
        let asked = &question.words()[word];
        let light = match (asked.is_light, asked.is_chatter) {
            (true, true) => 0.2,
            (true, false) => 0.05,
            (false, _) => 1.0,
        };
        (1.0 + (n - df + 0.5) / (df + 0.5)).ln() * light
    };
    let share = |one: &Occurrence| match one.grade {
        255 => 1.0,
        254 => 0.8,
        grade if grade >= least[one.word] => 0.6 * f64::from(grade) / 100.0,
        _ => 0.0,
    };
    let lengths: f64 = files.iter().flat_map(|file| &file.passages).sum();
    let passages: usize = files.iter().map(|file| file.passages.len()).sum();
    let mean = |count: usize| (lengths / count.max(1) as f64).max(1.0);
    let bm25 = |length: f64, found: &dyn Fn(usize) -> f64| -> f64 {
        let norm = K1 * (1.0 - B + B * length);
        let each = (0..count).map(|word| (weight(word), found(word)));
        each.filter(|(_, tf)| *tf > 0.0).map(|(w, tf)| w * tf * (K1 + 1.0) / (tf + norm)).sum()
    };
    let asked: f64 = (0..count).map(weight).sum();
    let mut scores = Vec::new();
    for file in &files {
        let heavy = |one: &&Occurrence| !question.words()[one.word].is_light && share(one) > 0.0;
        if !file.found.iter().any(|one| heavy(&one)) {
            continue;
        }
        let named = |word: usize| -> f64 {
            file.found
                .iter()
                .filter(|one| one.word == word)
                .map(|one| one.counts.1 * share(one))
                .sum()
        };
        let mut best = bm25(1.0, &named);
        for (index, words) in file.passages.iter().enumerate() {
            let inside: Vec<_> =
                file.found.iter().filter(|one| one.passage == Some(index as u32)).collect();
            if inside.is_empty() {
                continue;
            }
            let own = |word: usize| -> f64 {
                inside
                    .iter()
                    .filter(|one| one.word == word)
                    .map(|one| one.counts.0 * share(one))
                    .sum()
            };
            let mut near: f64 = 0.0;
            for first in &inside {
                let together = (0..count).map(|word| {
                    let close = inside.iter().filter(|one| {
                        one.word == word
                            && !question.words()[word].is_light
                            && one.slot >= first.slot
                            && one.slot < first.slot + 2
                    });
                    close.map(|one| weight(word) * share(one)).fold(0.0, f64::max)
                });
                let together: Vec<f64> = together.collect();
                let most = together.iter().copied().fold(0.0, f64::max);
                near = near.max(together.iter().sum::<f64>() - most);
            }
            let best_of = |word: usize| {
                let of_word = inside.iter().filter(|one| one.word == word);
                of_word.map(|one| weight(word) * share(one)).fold(0.0, f64::max)
            };
            let covered: f64 = (0..count).map(best_of).sum();
            let value = bm25(words / mean(passages), &|word| own(word) + named(word))
                + 0.5 * near
                + 0.3 * covered * covered / asked.max(f64::MIN_POSITIVE);
            best = best.max(if file.foreign[index] { 0.8 * value } else { value });
        }
        let whole = bm25(file.passages.iter().sum::<f64>() / mean(files.len()), &|word| {
            let all = file.found.iter().filter(|one| one.word == word);
            all.map(|one| (one.counts.0 + one.counts.1) * share(one)).sum()
        });
        let is_exact = file.found.iter().any(|one| heavy(&one) && one.grade >= 254);
        let in_name = |word: &usize| {
            let same = file.found.iter().filter(|one| one.word == *word && one.grade == 255);
            same.map(|one| one.counts.1).sum::<f64>() > 1.49
        };
        let in_names: f64 = (0..count).filter(in_name).map(weight).sum();
        scores.push((is_exact, best + 0.5 * whole + 0.8 * in_names, file.path.clone()));
    }
    scores
}

#[test]
fn of_two_translations_the_one_in_the_language_of_the_question_comes_first() {
    let files = [
        ("/de/leiter.md", "Leiter und Widevine: das Protokoll für die Filme und der Schlüssel."),
        (
            "/fr/leiter.md",
            "Leiter avec Widevine : le protocole pour les films et la clé du coffre.",
        ),
    ];
    assert_eq!(order("le Widevine avec Leiter", &files), ["/fr/leiter.md", "/de/leiter.md"]);
    assert_eq!(order("das Widevine und Leiter", &files), ["/de/leiter.md", "/fr/leiter.md"]);
}

#[test]
fn more_words_and_rarer_words_count_more() {
    let files = [
        ("/a.md", "Susan came by."),
        ("/b.md", "Golf with Susan."),
        ("/c.md", "Susan and the garden."),
        ("/d.md", "Nothing."),
    ];
    assert_eq!(order("Susan golf", &files)[0], "/b.md");
    assert_eq!(order("golf garden susan", &files).len(), 3);
    assert_eq!(order("zebra", &files), Vec::<String>::new());
}

#[test]
fn words_that_name_a_file_count_more() {
    let files = [
        ("/a.md", "The roof of the shed and some other words about it."),
        ("/roof.md", "It leaks."),
        ("/b.md", "---\ntitle: Roof\n---\nIt leaks, the roof."),
    ];
    assert_eq!(order("roof", &files), ["/b.md", "/roof.md", "/a.md"]);
}

#[test]
fn a_name_that_is_asked_for_comes_before_a_text_that_repeats_the_word() {
    let repeated = "The transcription of it. ".repeat(8);
    let named = "# Transcription\n\nHere is the text of a film, for those who would read it.";
    let files = [("/a.md", repeated.as_str()), ("/b.md", named), ("/c.md", "A garden.")];
    assert_eq!(order("transcription", &files)[0], "/b.md");
    // A name that has only the stem of the word may be about something else.
    let repeated = "Compiling it takes a while. ".repeat(8);
    let named = "# The compiler\n\nThe compiler has ten parts. A compiler is a program.";
    let files = [("/a.md", named), ("/b.md", repeated.as_str()), ("/c.md", "A garden.")];
    assert_eq!(order("compiling", &files)[0], "/b.md");
}

#[test]
fn a_passage_with_more_of_the_question_comes_before_one_that_repeats_a_word() {
    let repeated = "copper ".repeat(30);
    let several = "copper\nOther words stand here in between.\npipe\nAnd more of them stand here \
                   too.\nsink";
    let other = "pipe and sink and roof";
    let files = [("/a.md", &*repeated), ("/b.md", several), ("/c.md", other), ("/d.md", other)];
    assert_eq!(order("copper pipe sink", &files)[0], "/b.md");
}

#[test]
fn words_that_stand_together_count_more_than_words_far_apart() {
    let filler = "Other words stand here in between.\n".repeat(12);
    let far = format!("copper\n{filler}pipe\n{filler}");
    let near = format!("{filler}copper pipe\n{filler}");
    assert_eq!(order("copper pipe", &[("/a.md", &far), ("/b.md", &near)])[0], "/b.md");
}

#[test]
fn a_word_that_is_nowhere_counts_by_similar_words_after_all_that_is_exact() {
    let files = [("/a.md", "The garden, the garden."), ("/b.md", "A plum."), ("/c.md", "Gardon")];
    let (_, _, ranking) = ranked("gadren plum", &files);
    assert_eq!(
        (&*ranking.matched, &*ranking.nowhere),
        (&["plum".into()][..], &["gadren".into()][..])
    );
    let paths: Vec<_> = ranking.order.iter().map(|(rank, _)| rank.path.as_str()).collect();
    assert_eq!(paths, ["/b.md", "/a.md"]);
    // Where the word itself occurs, similar ones do not count.
    assert_eq!(order("gardon", &files), ["/c.md"]);
}

#[test]
fn light_words_alone_find_nothing_and_break_ties() {
    let files =
        [("/a.md", "the roof"), ("/b.md", "roof and where it is"), ("/c.md", "where is the")];
    assert_eq!(order("where is the roof", &files).len(), 2);
}

#[test]
fn forms_accents_and_scripts_without_spaces_are_found() {
    let files = [
        ("/a.md", "Die Häuser und die Gärten sind alt."),
        ("/b.md", "Le café est fermé et la clé aussi."),
        ("/c.md", "日本語の本"),
    ];
    assert_eq!(order("Garten Haus", &files), ["/a.md"]);
    assert_eq!(order("haeuser", &files), ["/a.md"]);
    assert_eq!(order("cafe ferme", &files), ["/b.md"]);
    assert_eq!(order("日本語", &files), ["/c.md"]);
}

#[test]
fn ties_are_broken_by_path() {
    assert_eq!(order("x1", &[("/b.md", "x1"), ("/a.md", "x1")]), ["/a.md", "/b.md"]);
}

#[test]
fn an_excerpt_shows_what_was_found_and_its_lines() {
    let filler = "Other words stand here in between.\n\n".repeat(20);
    let text =
        format!("# Log\n\n{filler}The copper pipe\nunder the sink.\n\n{filler}A copper roof.\n");
    let (question, statistics, _) = ranked("copper pipe roof", &[("/a.md", &text)]);
    let found = excerpts(&text, &question, &statistics);
    assert_eq!(found[0].text, "The copper pipe under the sink.");
    assert_eq!((found[0].lines.start, found[0].lines.end), (43, 45));
    assert_eq!(found[1].text, "A copper roof.");
    let (question, statistics, _) = ranked("log", &[("/log.md", "\n\nFirst words.")]);
    assert_eq!(excerpts("\n\nFirst words.", &question, &statistics)[0].text, "First words.");
}

fn some_text() -> impl Strategy<Value = String> {
    let words = [
        "roof", "roofs", "rooof", "the", "und", "haus", "häuser", "x", "\n", "\n\n", "\n# roof",
        "\n## x\n", "Dach", "dachrinne", "rinne",
    ];
    let words = proptest::collection::vec(proptest::sample::select(words.to_vec()), 0..60);
    words.prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn the_ranking_is_that_of_a_slow_one(
        texts in proptest::collection::vec(("[a-d]{1,2}(/roof|/x)?(\\.md)?", some_text()), 1..6),
        q in proptest::collection::vec(
            proptest::sample::select(&["roof", "rof", "the", "haus", "x", "dachrinnen", "y"][..]), 1..5),
    ) {
        let mut files: Vec<(String, String)> =
            texts.into_iter().map(|(name, text)| (format!("/{name}"), text)).collect();
        files.sort();
        files.dedup_by(|one, other| one.0 == other.0);
        let q = q.join(" ");
        let borrowed: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (question, statistics, ranking) = ranked(&q, &borrowed);
        let slow = slow_scores(&q, &files);
        let (mut table, mut packed_matcher) = (WordTable::new(1 << 20), Matcher::new(&question));
        let mut matches = TableMatches::new(&question);
        prop_assert_eq!(ranking.order.len(), slow.len());
        for (rank, index) in &ranking.order {
            let (path, text) = borrowed[*index];
            prop_assert_eq!(path, rank.path.as_str());
            let (is_exact, value, _) = slow.iter().find(|(.., slow)| slow == path).unwrap();
            prop_assert_eq!(*is_exact, rank.score >= 1 << 62);
            let score = (rank.score & !(1 << 62)) as f64 / 1e6;
            prop_assert!((score - value).abs() < 1e-4, "{path} {score} {value}");
            let mut matcher = Matcher::new(&question);
            let path = SpacePath::parse(path).unwrap();
            let again = matcher.gather(&path, &FileWords::of(text, FileKind::Note));
            prop_assert_eq!(statistics.score(&question, &again), Some(rank.score));
            let words = FileWords::of(text, FileKind::Note);
            let packed = PackedWords::of(&words, &mut table).unwrap();
            matches.learn(&table);
            prop_assert_eq!(packed_matcher.gather_packed(&path, &packed, &matches), again);
        }
        let in_order = ranking.order.windows(2).all(|pair| pair[0].0.is_before(&pair[1].0));
        prop_assert!(in_order);
    }

    #[test]
    fn any_question_and_text_have_bounded_excerpts(
        q in "[a-cé日本 \"-]{1,12}", text in "[a-cé日本 \n#:-]{0,900}",
    ) {
        if RecallQuestion::parse(&q).is_ok() {
            let (question, statistics, _) = ranked(&q, &[("/a.md", &text)]);
            let found = excerpts(&text, &question, &statistics);
            prop_assert!(found.len() <= MAX_PASSAGES);
            let lines: Vec<&str> = text.split('\n').collect();
            for Excerpt { lines: ResolvedLines { start, end }, text } in found {
                prop_assert!(text.chars().count() <= MAX_PASSAGE_CHARS);
                prop_assert!(1 <= start && start < end && end <= lines.len() as u64 + 1);
                // The lines hold all that is shown.
                let held = lines[start as usize - 1..end as usize - 1].join(" ");
                let held = held.split_whitespace().collect::<Vec<_>>().join(" ");
                let shown = text.trim_matches('…').trim();
                prop_assert!(held.contains(shown), "{shown:?} in {held:?}");
            }
        }
    }

    #[test]
    fn the_words_of_a_file_tell_of_phrases_what_its_text_tells(
        q in "(\"?[abéßæǽﬁ日]{1,3} [abø]{1,2}\"?|-[abéœ日]{1,2}| |x){1,4}",
        text in "[abAéßæǽﬁœøØ日e\u{301} \n.]{0,40}", name in "[ab é]{0,4}",
    ) {
        let Ok(question) = RecallQuestion::parse(&q) else { return Ok(()) };
        let (mut table, mut matches) = (WordTable::new(1 << 20), TableMatches::new(&question));
        let words = FileWords::of(&text, FileKind::Text);
        let packed = PackedWords::of(&words, &mut table).unwrap();
        matches.learn(&table);
        let slow = question.allows(&[&text, &name]);
        match matches.verdict(&packed, &name) {
            TermVerdict::Fits => prop_assert!(slow),
            TermVerdict::Unfit => prop_assert!(!slow),
            TermVerdict::NeedsText => prop_assert!(question.needs_text()),
        }
    }
}

#[test]
fn a_token_in_ascii_is_a_spelling_of_its_word() {
    for character in (0..0x11_0000).filter_map(char::from_u32) {
        let text = format!("a{character}b");
        for token in crate::records::tokenizer::tokens(&text).filter(|one| one.text.is_ascii()) {
            let mut has = false;
            each_word(&text, |word, _| has |= spellings(&word).contains(&token.text.to_string()));
            assert!(has, "{text:?} {}", token.text);
        }
    }
}
