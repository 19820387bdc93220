//! Words of a text, also of one that comes in parts, queries for them, and texts that are looked
//! for in pieces.
//!
//! An input is two lines: what is looked for, and, after the first line break, the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stile_domain::line_search::fold_case;
use stile_domain::records::find::{Needle, NeedleFinder};
use stile_domain::records::pieces::{self, CharRange};
use stile_domain::records::tokenizer::{
    MAX_PHRASE_TOKENS, MAX_TERMS, MAX_TOKEN_SCALARS, MAX_TOKEN_SPAN, ParsedQuery, PieceTokenizer,
    SearchTerm, SearchToken, find, last_token_boundary, matches, tokens,
};

fuzz_target!(|input: &[u8]| {
    let input = String::from_utf8_lossy(input);
    let (wanted, text) = input.split_once('\n').unwrap_or((&input, ""));
    tokens_stand_in_the_text(text);
    parts_have_the_tokens_of_the_whole(wanted, text);
    a_query_is_bounded(wanted, text);
    a_text_is_found_whatever_the_pieces(wanted, text);
});

fn tokens_stand_in_the_text(text: &str) {
    let (mut end, total) = (0, pieces::count(text));
    for token in tokens(text) {
        assert!(end <= token.start && token.start < token.end && token.end <= total, "{token:?}");
        assert!((1..=MAX_TOKEN_SCALARS).contains(&token.text.chars().count()), "{token:?}");
        assert!(token.end - token.start <= MAX_TOKEN_SPAN, "{token:?}");
        end = token.end;
    }
}

fn parts_have_the_tokens_of_the_whole(wanted: &str, text: &str) {
    let place = |token: &SearchToken<'_>| (token.text.to_string(), token.start, token.end);
    let whole: Vec<_> = tokens(text).map(|token| place(&token)).collect();
    let characters: Vec<char> = text.chars().collect();
    let cut = |characters: &[char], at: u64, size: usize| {
        let (mut stream, mut all) = (PieceTokenizer::starting_at(at), Vec::new());
        let mut take = |token: SearchToken<'_>| -> Result<(), ()> {
            all.push(place(&token));
            Ok(())
        };
        for part in characters.chunks(size) {
            stream.feed(&part.iter().collect::<String>(), &mut take).expect("nothing is refused");
        }
        stream.finish(&mut take).expect("nothing is refused");
        all
    };
    for size in [1, 3, 64] {
        assert_eq!(cut(&characters, 0, size), whole, "in parts of {size}");
    }
    // From a place in the middle on, it is cut as from the beginning.
    let middle = pieces::byte_offset(text, characters.len() as u64 / 2);
    if let Some(at) = last_token_boundary(&text[..middle]) {
        let start = pieces::count(&text[..at]);
        let rest: Vec<_> = whole.iter().filter(|(_, from, _)| *from >= start).cloned().collect();
        assert_eq!(cut(&characters[start as usize..], start, 7), rest);
    }
    for term in ParsedQuery::parse(wanted).terms {
        let alone = ParsedQuery { terms: vec![term.clone()], ..ParsedQuery::default() };
        assert_eq!(find(&term.term, text).is_some(), matches(&[text], &alone), "{term:?}");
    }
}

fn a_query_is_bounded(wanted: &str, text: &str) {
    let query = ParsedQuery::parse(wanted);
    assert!(query.terms.len() <= MAX_TERMS);
    for term in &query.terms {
        if let SearchTerm::Phrase(tokens) = &term.term {
            assert!((2..=MAX_PHRASE_TOKENS).contains(&tokens.len()));
        }
    }
    let found = matches(&[text], &query);
    assert_eq!(matches(&["", text], &query), found, "an empty text adds nothing");
    // What a text consists of is found in it.
    if let Some(token) = tokens(text).next() {
        let slice = pieces::slice(text, token.start, token.end);
        let query = ParsedQuery::parse(slice);
        assert!(
            query.terms.is_empty() || !query.excluded.is_empty() || matches(&[slice], &query),
            "{slice:?}"
        );
    }
}

fn a_text_is_found_whatever_the_pieces(wanted: &str, text: &str) {
    let Some(needle) = Needle::new(wanted) else { return };
    let folded = |text: &str| -> Vec<char> { text.chars().map(fold_case).collect() };
    let (slow, text_folded) = (folded(wanted), folded(text));
    let start = text_folded.windows(slow.len()).position(|window| window == slow);
    let expected = start.map(|at| CharRange { start: at as u64, end: (at + slow.len()) as u64 });
    let characters: Vec<char> = text.chars().collect();
    for size in [1, 2, 5, 1000] {
        let mut finder = NeedleFinder::new(&needle);
        let found = characters
            .chunks(size)
            .find_map(|chunk| finder.feed(&chunk.iter().collect::<String>()));
        assert_eq!(found, expected, "in pieces of {size}");
    }
}
