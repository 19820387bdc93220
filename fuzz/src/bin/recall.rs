//! Questions of `file.search`, and what is found of them in a text: packed words say what the words
//! themselves say, and a passage is a part of the text within its bound.
//!
//! An input can be typed: a question and a text, with `|` between them. A `~` is a line break.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use stile_domain::lines::count_lines;
use stile_domain::path::SpacePath;
use stile_domain::recall::evidence::Matcher;
use stile_domain::recall::excerpt::{MAX_PASSAGE_CHARS, MAX_PASSAGES, excerpts};
use stile_domain::recall::file_words::{FileKind, FileWords};
use stile_domain::recall::packed_words::{PackedWords, WordTable};
use stile_domain::recall::question::RecallQuestion;
use stile_domain::recall::ranking::rank;
use stile_domain::recall::table_matches::{TableMatches, TermVerdict};

fuzz_target!(|input: &[u8]| -> Corpus {
    let input = String::from_utf8_lossy(input).replace('~', "\n");
    let Some((question, text)) = input.split_once('|') else { return Corpus::Reject };
    let Ok(question) = RecallQuestion::parse(question) else { return Corpus::Keep };
    let path = SpacePath::parse("/garden/Übersicht 2026.md").expect("a path");
    let mut evidence = Vec::new();
    for kind in [FileKind::Note, FileKind::Text] {
        let words = FileWords::of(text, kind);
        let mut table = WordTable::new(1 << 20);
        let packed = PackedWords::of(&words, &mut table).expect("room for a short text");
        let (mut matcher, mut matches) = (Matcher::new(&question), TableMatches::new(&question));
        matches.learn(&table);
        let gathered = matcher.gather(&path, &words);
        assert_eq!(gathered, matcher.gather_packed(&path, &packed, &matches));
        let name = "Übersicht 2026.md";
        match matches.verdict(&packed, name) {
            TermVerdict::Fits => assert!(question.allows(&[text, name])),
            TermVerdict::Unfit => assert!(!question.allows(&[text, name])),
            TermVerdict::NeedsText => {}
        }
        evidence.push((path.clone(), gathered));
    }
    let (statistics, _) = rank(&question, &evidence);
    let passages = excerpts(text, &question, &statistics);
    assert!(passages.len() <= MAX_PASSAGES);
    for passage in passages {
        assert!(passage.text.chars().count() <= MAX_PASSAGE_CHARS);
        assert!(passage.lines.start >= 1 && passage.lines.end <= count_lines(text) + 1);
    }
    Corpus::Keep
});
