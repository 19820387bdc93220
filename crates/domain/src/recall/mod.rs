//! Finding files by what they say, in words that a person remembers, best first.
//!
//! A [`question`] has words, phrases and words that must not occur. The words of a file
//! ([`file_words`]) lie in passages of a few hundred words, and [`packed_words`] keeps them in
//! little memory; [`table_matches`] has those that are of the question. What a file has of a
//! question is its [`evidence`]; [`ranking`] orders files by the evidence of all files that the
//! caller may read, and by nothing else. [`excerpt`] chooses the passages that an answer shows.
//!
//! `words` cuts and folds, `language` guesses the language of a passage and stems by it, `light`
//! has the words that hardly count, `similar` finds words for one that is nowhere, and `word_shape`
//! tells most words apart without a look at their letters.

pub mod evidence;
pub mod excerpt;
pub mod file_words;
mod language;
mod light;
pub mod packed_words;
pub mod question;
pub mod ranking;
mod similar;
pub mod table_matches;
mod word_shape;
mod words;

#[cfg(test)]
mod tests;
