//! What finding compares: globs, parts of names, queries of lines, and rules of what is left out.
//!
//! An input is text: a pattern, a path and a line, with line breaks between them. Further lines are
//! rules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::find::hit_line::{HitLine, MAX_HIT_CHARS};
use stile_domain::find::name_pattern::{MAX_PATTERN_CHARS, NamePattern};
use stile_domain::find::text_query::{LetterCase, MAX_TEXT_QUERY_CHARS, QuerySyntax, TextQuery};
use stile_store::space::SearchIgnore;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let mut lines = input.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let (pattern, path, line) = (next(), next(), next());
    a_pattern_is_tried_on_any_path(pattern, path);
    a_literal_query_finds_what_a_line_contains(pattern, line);
    an_expression_finds_a_place_in_the_line(pattern, line);
    rules_are_kept_as_they_were_written(&lines.collect::<Vec<_>>());
});

fn a_pattern_is_tried_on_any_path(pattern: &str, path: &str) {
    let name = path.rsplit('/').next().unwrap_or_default();
    let chars = pattern.chars().count();
    match NamePattern::parse(pattern) {
        Err(error) => {
            let is_glob = pattern.contains(['*', '?', '[', '{']);
            assert!(is_glob || chars == 0 || chars > MAX_PATTERN_CHARS, "{error}");
        }
        Ok(NamePattern::Glob(glob)) => {
            let found = glob.is_match(path, name);
            assert_eq!(glob.is_match(path, name), found);
            // A star alone is for every name, and a name finds itself whatever brackets it has.
            assert!(found || pattern != "*" && pattern != name);
        }
        Ok(NamePattern::Fuzzy(mut fuzzy)) => {
            let score = fuzzy.score(path, name);
            assert_eq!(fuzzy.score(path, name), score, "what was compared before changes nothing");
            // Whatever fits a name fits better than what needs its folders.
            let of_name = fuzzy.score(name, name);
            assert!(of_name.is_none() || of_name == score);
        }
    }
}

fn a_literal_query_finds_what_a_line_contains(text: &str, line: &str) {
    let chars = text.chars().count();
    let is_valid = (1..=MAX_TEXT_QUERY_CHARS).contains(&chars) && !text.contains('\r');
    let query = TextQuery::parse(text, QuerySyntax::Literal, LetterCase::Sensitive);
    assert_eq!(query.is_ok(), is_valid);
    let Ok(query) = query else { return };
    assert_eq!(query.find(line.as_bytes()), line.find(text));
    for case in [LetterCase::Smart, LetterCase::Insensitive] {
        let query = TextQuery::parse(text, QuerySyntax::Literal, case).expect("it parsed before");
        let finds = query.find(line.as_bytes()).is_some();
        assert!(finds || !line.contains(text), "{text:?} in {line:?}");
    }
}

fn an_expression_finds_a_place_in_the_line(text: &str, line: &str) {
    let line = line.trim_end_matches('\r');
    for case in [LetterCase::Smart, LetterCase::Sensitive] {
        let Ok(query) = TextQuery::parse(text, QuerySyntax::Regex, case) else { return };
        let Some(at) = query.find(line.as_bytes()) else { continue };
        assert!(at <= line.len());
        let hit = HitLine::new(line, at);
        assert!(hit.text.chars().count() <= MAX_HIT_CHARS && line.contains(&hit.text));
        assert!(hit.column as usize <= line.chars().count() + 1);
    }
}

fn rules_are_kept_as_they_were_written(rules: &[&str]) {
    match SearchIgnore::parse(rules.iter().copied()) {
        Ok(parsed) => assert_eq!(parsed.rules(), rules),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
