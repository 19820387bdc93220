//! Words of a text, queries for them, and texts that are looked for in pieces.
//!
//! An input is two lines: what is looked for, and, after the first line break, the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::records::find::{Finder, Found, Needle};
use stile_domain::records::pieces;
use stile_domain::records::tokens::{MAX_PHRASE_TOKENS, MAX_TERMS, MAX_TOKEN_SCALARS, Query, Term, matches, tokens};
use stile_domain::search::fold;

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let (wanted, text) = input.split_once('\n').unwrap_or((&input, ""));
    tokens_stand_in_the_text(text);
    a_query_is_bounded(wanted, text);
    a_text_is_found_whatever_the_pieces(wanted, text);
});

fn tokens_stand_in_the_text(text: &str) {
    let (mut end, total) = (0, pieces::count(text));
    for token in tokens(text) {
        assert!(end <= token.start && token.start < token.end && token.end <= total, "{token:?}");
        assert!((1..=MAX_TOKEN_SCALARS).contains(&token.text.chars().count()), "{token:?}");
        end = token.end;
    }
}

fn a_query_is_bounded(wanted: &str, text: &str) {
    let query = Query::parse(wanted);
    assert!(query.terms.len() <= MAX_TERMS);
    for term in &query.terms {
        if let Term::Phrase(tokens) = term {
            assert!((2..=MAX_PHRASE_TOKENS).contains(&tokens.len()));
        }
    }
    let found = matches(&[text], &query);
    assert_eq!(matches(&["", text], &query), found, "an empty text adds nothing");
    // What a text consists of is found in it.
    if let Some(token) = tokens(text).next() {
        let slice = pieces::slice(text, token.start, token.end);
        let query = Query::parse(slice);
        assert!(query.terms.is_empty() || matches(&[slice], &query), "{slice:?}");
    }
}

fn a_text_is_found_whatever_the_pieces(wanted: &str, text: &str) {
    let Some(needle) = Needle::new(wanted) else { return };
    let folded = |text: &str| -> Vec<char> { text.chars().map(fold).collect() };
    let (slow, text_folded) = (folded(wanted), folded(text));
    let start = text_folded.windows(slow.len()).position(|window| window == slow);
    let expected = start.map(|at| Found { start: at as u64, end: (at + slow.len()) as u64 });
    let characters: Vec<char> = text.chars().collect();
    for size in [1, 2, 5, 1000] {
        let mut finder = Finder::new(&needle);
        let found = characters.chunks(size).find_map(|chunk| finder.feed(&chunk.iter().collect::<String>()));
        assert_eq!(found, expected, "in pieces of {size}");
    }
}
