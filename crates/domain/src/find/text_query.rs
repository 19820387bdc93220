//! What `text.search` looks for: a text or a regular expression, within one line.
//!
//! Regular expressions take linear time. The limits on the size of a compiled expression bound its
//! memory, so no pattern can stop the server.

use std::borrow::Cow;

use grep_matcher::{Match, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_automata::Input;
use regex_automata::meta::Regex;

/// The longest `q`, in Unicode scalar values.
pub const MAX_TEXT_QUERY_CHARS: usize = 1024;
/// The most memory for a compiled expression, in bytes.
const COMPILED_BYTES: usize = 1 << 20;
/// The most memory for the states that a search computes, in bytes.
const STATES_BYTES: usize = 8 << 20;
/// The deepest nesting of groups in an expression.
const MAX_NESTING: u32 = 50;

/// Which letters count as equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterCase {
    /// As [`LetterCase::Insensitive`] if the query has no capital letter, otherwise as
    /// [`LetterCase::Sensitive`].
    #[default]
    Smart,
    /// A capital letter differs from a small one.
    Sensitive,
    /// A capital letter equals the small one, by Unicode's simple folding.
    Insensitive,
}

/// How the text of a query is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuerySyntax {
    /// Character for character.
    #[default]
    Literal,
    /// As a regular expression of the `regex` crate.
    Regex,
}

/// The longest part of a line that a regular expression is tried on at once, in bytes. It takes up
/// to some thousand steps for each byte, and cannot be stopped meanwhile.
pub const PART_BYTES: usize = 256 << 10;
/// The longest match that is always found in a line that is tried in parts, in bytes.
pub const FOUND_IN_PARTS_BYTES: usize = 64 << 10;

/// A search of a line in parts that was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the search of the line was stopped")]
pub struct PartsStopped;

/// A compiled query, ready to search.
#[derive(Clone, Debug)]
pub struct TextQuery {
    matcher: RegexMatcher,
    /// The same expression, for the parts of a line. What follows a part decides whether a match
    /// ends there, and the searcher of lines has no such parts.
    parts: Regex,
    syntax: QuerySyntax,
}

/// Why a text is not a query. The message may repeat a part of a regular expression, which the
/// caller wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTextQuery {
    /// The text is empty or longer than [`MAX_TEXT_QUERY_CHARS`].
    #[error("`q` must be 1 to 1024 characters")]
    Length,
    /// The text contains a line break, and a search looks at one line at a time.
    #[error("`q` must not contain a line break: each line is searched by itself")]
    LineBreak,
    /// The regular expression has an error.
    #[error("`q` is not a regular expression: {what}, at character {column}")]
    Regex {
        /// What is wrong.
        what: String,
        /// The position of the error in `q`, in Unicode scalar values, from 1.
        column: usize,
    },
    /// The regular expression is too large when compiled.
    #[error(
        "`q` is too large as a regular expression: shorten it, or repeat less in it, as `\\w{{5}}` \
         instead of `\\w{{500}}`"
    )]
    Size,
}

impl TextQuery {
    /// Compiles a query.
    ///
    /// # Errors
    /// Every [`BadTextQuery`].
    pub fn parse(text: &str, syntax: QuerySyntax, case: LetterCase) -> Result<Self, BadTextQuery> {
        if text.is_empty() || text.chars().count() > MAX_TEXT_QUERY_CHARS {
            return Err(BadTextQuery::Length);
        }
        if text.contains(['\n', '\r']) {
            return Err(BadTextQuery::LineBreak);
        }
        if syntax == QuerySyntax::Regex {
            check(text)?;
        }
        let is_insensitive = match case {
            LetterCase::Sensitive => false,
            LetterCase::Insensitive => true,
            // `\S` and `\W` are capital letters of the syntax, not of the text.
            LetterCase::Smart => !has_capital(text, syntax),
        };
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(syntax == QuerySyntax::Literal)
            .case_insensitive(is_insensitive)
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(STATES_BYTES)
            .nest_limit(MAX_NESTING)
            .multi_line(true)
            // A `\r` before the `\n` belongs to the terminator, so `$` is before it.
            .crlf(true)
            .build(text)
            .map_err(|error| match error.kind() {
                grep_regex::ErrorKind::NotAllowed(_) | grep_regex::ErrorKind::Banned(_) => {
                    BadTextQuery::LineBreak
                }
                _ => BadTextQuery::Size,
            })?;
        let expression = match syntax {
            QuerySyntax::Literal => Cow::Owned(regex_syntax::escape(text)),
            QuerySyntax::Regex => Cow::Borrowed(text),
        };
        let parts = Regex::builder()
            .syntax(
                regex_automata::util::syntax::Config::new()
                    .case_insensitive(is_insensitive)
                    .nest_limit(MAX_NESTING)
                    .multi_line(true)
                    .crlf(true)
                    .utf8(false),
            )
            .configure(
                Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(COMPILED_BYTES))
                    .hybrid_cache_capacity(STATES_BYTES),
            )
            .build(&expression)
            .map_err(|_| BadTextQuery::Size)?;
        Ok(Self { matcher, parts, syntax })
    }

    /// Returns the compiled form, for a searcher of lines.
    pub fn matcher(&self) -> &RegexMatcher {
        &self.matcher
    }

    /// Returns how the text of the query was read.
    pub fn syntax(&self) -> QuerySyntax {
        self.syntax
    }

    /// Returns the byte offset of the first match in a line that is too long to be tried at once.
    /// Tries parts of [`PART_BYTES`], and asks `goes_on` before each. Finds every match that is at
    /// most [`FOUND_IN_PARTS_BYTES`] long, and perhaps longer ones.
    ///
    /// # Errors
    /// [`PartsStopped`] if `goes_on` says no.
    pub fn find_in_parts(
        &self,
        line: &[u8],
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Option<usize>, PartsStopped> {
        let mut begin = 0;
        loop {
            if !goes_on() {
                return Err(PartsStopped);
            }
            let end = line.len().min(begin + PART_BYTES);
            let is_last = end == line.len();
            let input = Input::new(line).span(begin..end).earliest(true);
            if let Some(found) = self.parts.find(input) {
                return Ok(Some(found.start()));
            }
            if is_last {
                return Ok(None);
            }
            begin = end - FOUND_IN_PARTS_BYTES;
        }
    }

    /// Returns the byte offset of the first match in a line.
    pub fn find(&self, line: &[u8]) -> Option<usize> {
        self.matcher.find(line).ok().flatten().map(|found: Match| found.start())
    }
}

/// Checks the syntax of an expression, for an error that says where.
fn check(text: &str) -> Result<(), BadTextQuery> {
    let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_NESTING).utf8(false).build();
    let (what, column) = match parser.parse(text) {
        Ok(_) => return Ok(()),
        Err(regex_syntax::Error::Parse(error)) => {
            (error.kind().to_string(), error.span().start.column)
        }
        Err(regex_syntax::Error::Translate(error)) => {
            (error.kind().to_string(), error.span().start.column)
        }
        Err(_) => return Err(BadTextQuery::Size),
    };
    Err(BadTextQuery::Regex { what, column })
}

fn has_capital(text: &str, syntax: QuerySyntax) -> bool {
    let mut is_escaped = false;
    text.chars().any(|character| {
        let counts = !(std::mem::take(&mut is_escaped) && syntax == QuerySyntax::Regex);
        is_escaped = character == '\\' && counts;
        counts && character.is_uppercase()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finds(text: &str, syntax: QuerySyntax, line: &str) -> Option<usize> {
        TextQuery::parse(text, syntax, LetterCase::Smart).unwrap().find(line.as_bytes())
    }

    #[test]
    fn a_query_without_capitals_ignores_case() {
        use QuerySyntax::{Literal, Regex};
        assert_eq!(finds("fern", Literal, "Two Ferns"), Some(4));
        assert_eq!(finds("Fern", Literal, "two ferns"), None);
        assert_eq!(finds("é.", Literal, "É.x É."), Some(0));
        assert_eq!(finds(r"\Sern", Regex, "Two FERNS"), Some(4));
        assert_eq!(finds("a.c", Literal, "abc a.c"), Some(4));
        assert_eq!(finds("a.c$", Regex, "abc a.c"), Some(4));
        assert_eq!(finds("a.c$", Regex, "abc\r\n"), Some(0));
    }

    #[test]
    fn a_bad_expression_says_where() {
        let error = |text: &str| {
            TextQuery::parse(text, QuerySyntax::Regex, LetterCase::Smart).unwrap_err().to_string()
        };
        insta::assert_snapshot!(
            ["", "a(b", "é[z-a]", "a\\nb", "\\p{Nope}", "(?:\\w{900}){900}", "a\nb", "*"]
                .map(error).join("\n"),
            @r"
        `q` must be 1 to 1024 characters
        `q` is not a regular expression: unclosed group, at character 2
        `q` is not a regular expression: invalid character class range, the start must be <= the end, at character 3
        `q` must not contain a line break: each line is searched by itself
        `q` is not a regular expression: Unicode property not found, at character 1
        `q` is too large as a regular expression: shorten it, or repeat less in it, as `\w{5}` instead of `\w{500}`
        `q` must not contain a line break: each line is searched by itself
        `q` is not a regular expression: repetition operator missing expression, at character 1
        "
        );
    }

    #[test]
    fn a_match_in_a_long_line_is_found_wherever_it_is() {
        let found = |q: &str, line: &str| {
            let query = TextQuery::parse(q, QuerySyntax::Regex, LetterCase::Smart).unwrap();
            let mut parts = 0;
            let found = query.find_in_parts(line.as_bytes(), || {
                parts += 1;
                parts < 100
            });
            found.unwrap()
        };
        let long = |before: usize, text: &str, after: usize| {
            "é".repeat(before / 2) + text + &"é".repeat(after / 2)
        };
        for before in [0, PART_BYTES - 6, PART_BYTES - 2, PART_BYTES + 2] {
            let line = long(before, "needle", PART_BYTES);
            assert_eq!(found("need+le", &line), Some(before), "{before}");
            assert_eq!(found("needle.*", &line), Some(before), "{before}");
            assert_eq!(found("^.*needle", &long(100, "needle", before + 9)), Some(0), "{before}");
            assert_eq!(found(r"needle\b", &line), None, "{before}");
            assert_eq!(found(r"\bneedle", &line), (before == 0).then_some(0), "{before}");
            assert_eq!(found("needle$", &line), None, "{before}");
            assert_eq!(found("needle$", &long(before, "needle\r\n", 0)), Some(before), "{before}");
            assert_eq!(found("^needle", &line), (before == 0).then_some(0), "{before}");
            assert_eq!(found("é$", &line), Some(line.len() - 2), "{before}");
        }
        let longest = long(FOUND_IN_PARTS_BYTES - 4, "x", 0);
        for before in [PART_BYTES - 10, PART_BYTES - FOUND_IN_PARTS_BYTES - 2, PART_BYTES] {
            let line = long(before, &format!("b{longest}b"), PART_BYTES);
            assert_eq!(found("b[éx]+b", &line), Some(before), "{before}");
        }
    }

    #[test]
    fn a_search_in_parts_stops_when_it_is_told() {
        let query = TextQuery::parse("x", QuerySyntax::Regex, LetterCase::Smart).unwrap();
        let line = "y".repeat(3 * PART_BYTES);
        let mut parts = 0;
        let stopped = query.find_in_parts(line.as_bytes(), || {
            parts += 1;
            parts < 3
        });
        assert_eq!((stopped, parts), (Err(PartsStopped), 3));
    }

    proptest! {
        #[test]
        fn a_literal_query_finds_what_the_line_contains(
            line in "[abB.*é( ]{0,20}", text in "[abB.*é( ]{1,3}",
        ) {
            let (syntax, case) = (QuerySyntax::Literal, LetterCase::Sensitive);
            let query = TextQuery::parse(&text, syntax, case).unwrap();
            prop_assert_eq!(query.find(line.as_bytes()), line.find(&text));
        }

        #[test]
        fn arbitrary_expressions_never_panic(text in "(\\PC|[\\[\\](){}*+?|^$\\\\]){0,30}") {
            let _ = TextQuery::parse(&text, QuerySyntax::Regex, LetterCase::Smart);
        }
    }
}
