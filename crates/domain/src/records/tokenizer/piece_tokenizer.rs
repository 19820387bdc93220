//! Cuts a text that comes in pieces into the tokens of the whole text.
//!
//! Tokens may cross the ends of pieces. Cutting may also begin in the middle of a text.

use super::characters::{CharacterClass, is_voicing};
use super::token_iterator::{SearchToken, tokens};
use crate::records::pieces;

/// A tokenizer for a text in pieces. Holds no more than one piece and one token.
#[derive(Debug, Default)]
pub struct PieceTokenizer {
    /// The end of the text so far, from the first token that may be incomplete.
    held: String,
    /// The scalar values before that.
    before: u64,
}

impl PieceTokenizer {
    /// Begins at a position of a text, in scalar values: 0, or a position from
    /// [`last_token_boundary`].
    pub fn starting_at(position: u64) -> Self {
        Self { held: String::new(), before: position }
    }

    /// Reads the next piece and passes each complete token to `take`, with its range in the whole
    /// text.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn feed<E>(
        &mut self,
        part: &str,
        take: impl FnMut(SearchToken<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.held.push_str(part);
        self.cut(false, take)
    }

    /// Passes the remaining tokens to `take` at the end of the text.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn finish<E>(
        mut self,
        take: impl FnMut(SearchToken<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.cut(true, take)
    }

    fn cut<E>(
        &mut self,
        all: bool,
        mut take: impl FnMut(SearchToken<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        let mut tokens = tokens(&held);
        let mut kept = None;
        while let Some(token) = tokens.next() {
            // A token that reaches the end may continue in the next piece. It is cut again then,
            // from its beginning.
            if !all && tokens.rest.is_empty() {
                kept = Some(token.start);
                break;
            }
            take(SearchToken {
                start: self.before + token.start,
                end: self.before + token.end,
                ..token
            })?;
        }
        let kept = kept.unwrap_or(tokens.at);
        self.before += kept;
        self.held = held.get(pieces::byte_offset(&held, kept)..).unwrap_or_default().to_owned();
        Ok(())
    }
}

/// Returns the last byte offset at which a text can be split without changing a token, if there is
/// one.
pub fn last_token_boundary(text: &str) -> Option<usize> {
    text.char_indices().rev().find(|(_, one)| ends_a_token(*one)).map(|(at, _)| at)
}

/// Whether a token that precedes this character always ends there.
fn ends_a_token(one: char) -> bool {
    match CharacterClass::new(one) {
        CharacterClass::Separates => true,
        CharacterClass::Alone => !is_voicing(one),
        CharacterClass::Joins | CharacterClass::Ignored => false,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::super::token_iterator::MAX_TOKEN_SPAN;
    use super::*;

    fn owned(token: &SearchToken<'_>) -> (String, u64, u64) {
        (token.text.to_string(), token.start, token.end)
    }

    fn some_text() -> impl Strategy<Value = String> {
        let few = "([a-c]{1,70}|[ .,]|é|e\u{301}|\u{ad}{1,3}|\u{200d}|\u{fe0f}|\
                   か\u{3099}|\u{3099}|語|ก|🙂|한{1,30}){0,40}";
        prop_oneof![few, "(a|\u{ad}|\u{301}){0,60}", "\\PC{0,60}"]
    }

    fn streamed(parts: impl IntoIterator<Item = String>, at: u64) -> Vec<(String, u64, u64)> {
        let (mut stream, mut all) = (PieceTokenizer::starting_at(at), Vec::new());
        let mut take = |token: SearchToken<'_>| -> Result<(), Infallible> {
            all.push(owned(&token));
            Ok(())
        };
        for part in parts {
            stream.feed(&part, &mut take).unwrap();
        }
        stream.finish(&mut take).unwrap();
        all
    }

    proptest! {
        #[test]
        fn pieces_have_the_tokens_of_the_whole_text(
            text in some_text(),
            cuts in proptest::collection::vec(0usize..300, 0..6),
        ) {
            let whole: Vec<_> = tokens(&text).map(|token| owned(&token)).collect();
            let mut parts = Vec::new();
            let mut rest = text.as_str();
            for cut in cuts {
                let (part, after) = rest.split_at(pieces::byte_offset(rest, cut as u64 % 40));
                parts.push(part.to_owned());
                rest = after;
            }
            parts.push(rest.to_owned());
            prop_assert_eq!(streamed(parts, 0), whole.clone());
            prop_assert_eq!(streamed(text.chars().map(String::from), 0), whole);
        }

        #[test]
        fn a_text_split_at_a_token_boundary_has_the_same_tokens(
            text in some_text(),
            end in 0usize..200,
        ) {
            let whole: Vec<_> = tokens(&text).map(|token| owned(&token)).collect();
            let head = &text[..pieces::byte_offset(&text, end as u64)];
            if let Some(at) = last_token_boundary(head) {
                let position = pieces::count(&text[..at]);
                let mut cut: Vec<_> = tokens(&text[..at]).map(|token| owned(&token)).collect();
                cut.extend(streamed([text[at..].to_owned()], position));
                prop_assert_eq!(cut, whole);
            }
        }
    }

    #[test]
    fn endless_marks_do_not_make_an_endless_token() {
        for mark in ["\u{ad}", "\u{301}", "a\u{301}"] {
            let text = format!("a{}b", mark.repeat(5000));
            let whole: Vec<_> = tokens(&text).map(|token| owned(&token)).collect();
            assert!(whole.iter().all(|(_, start, end)| end - start <= MAX_TOKEN_SPAN), "{mark:?}");
            let parts: Vec<String> = text
                .chars()
                .collect::<Vec<_>>()
                .chunks(700)
                .map(|part| part.iter().collect())
                .collect();
            assert_eq!(streamed(parts, 0), whole, "{mark:?}");
        }
    }
}
