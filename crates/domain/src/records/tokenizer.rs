//! Cuts texts and queries into the tokens that search compares, in the same way for every engine.
//!
//! A token is a maximal run of letters, marks and numbers, in simple case folding, decomposed, and
//! without the diacritics of Latin, Greek and Cyrillic letters: `cafe` finds `Café`, and `елка`
//! finds `ёлка`. All other characters separate tokens, so `ann@example.org` and `foo_bar` are
//! several tokens. In scripts without spaces between words, and among emoji, each character is a
//! token by itself, so that a phrase of them matches inside a sentence. Hangul has spaces and is
//! cut into runs. There is no stemming, there are no stop words, and characters that only look
//! alike stay different (full-width letters are not folded).
//!
//! No token contains white space, a control character or ASCII punctuation, so an index may receive
//! tokens joined by spaces. Cutting a token again changes nothing.

mod characters;
mod parsed_query;
mod piece_tokenizer;
mod term_finder;
mod token_iterator;

pub(crate) use self::characters::is_unspaced;
pub use self::parsed_query::{
    MAX_PHRASE_TOKENS, MAX_QUERY_SCALARS, MAX_TERMS, ParsedQuery, QueryTerm, SearchTerm, matches,
};
pub use self::piece_tokenizer::{PieceTokenizer, last_token_boundary};
pub use self::term_finder::{PlaceFinder, TermFinder, TermPlace, best_place, find};
pub use self::token_iterator::{
    MAX_TOKEN_SCALARS, MAX_TOKEN_SPAN, SearchToken, TokenIterator, placed_tokens, tokens,
};
