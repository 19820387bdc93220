//! The parser of search queries. Every text is a valid query.
//!
//! Words are cut like texts. All words must occur, in any order and in any text of a record. A word
//! of several tokens (`ann@example.org`, `foo_bar`, `日本語`) is a phrase, and so is the content of
//! two quotation marks, straight or curly: its tokens must follow each other in one text. A `*`
//! right after a word makes a prefix of the word's last token. The tokens before it are searched
//! for separately, which finds no less. (A character that is a token by itself needs no star.)
//! Other stars, and a quotation mark without its partner, count as white space.
//!
//! One hyphen right before a word, a prefix or a quotation mark, and after white space or at the
//! beginning, excludes the records in which that occurs. Other hyphens separate words. Within
//! quotation marks a hyphen excludes nothing. A star behind several excluded tokens has no effect.
//!
//! A name and a colon right before a word, a prefix or a quotation mark ask for an occurrence in
//! the field of that name, if the caller of the parser knows such a field. Otherwise the name and
//! what follows are a phrase.

use std::fmt;

use super::characters::CharacterClass;
use super::token_iterator::tokens;

/// The scalar values of a query that are read. The rest is ignored.
pub const MAX_QUERY_SCALARS: usize = 1024;
/// The most terms of a search. Further terms are dropped, which finds more records.
pub const MAX_TERMS: usize = 64;
/// The most tokens of a phrase. A longer phrase is split into several.
pub const MAX_PHRASE_TOKENS: usize = 32;

/// A parsed query. All its terms must occur.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedQuery {
    /// The terms, all different. Empty if the query contains nothing to search for.
    pub terms: Vec<QueryTerm>,
    /// The terms of which none may occur, all different.
    pub excluded: Vec<QueryTerm>,
    /// The number of terms that were dropped.
    pub left_out: usize,
}

/// A part of a query, and where it is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// The only field in which an occurrence counts. `None` if any counts.
    pub field: Option<String>,
    /// What is looked for.
    pub term: SearchTerm,
}

impl QueryTerm {
    /// Whether an occurrence in a field counts.
    pub fn is_for(&self, field: &str) -> bool {
        self.field.as_deref().is_none_or(|own| own == field)
    }
}

impl fmt::Display for QueryTerm {
    /// Writes the term as a query that finds the same.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(formatter, "{field}:{}", self.term),
            None => self.term.fmt(formatter),
        }
    }
}

/// What a part of a query looks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SearchTerm {
    /// This token.
    Word(String),
    /// These 2 to [`MAX_PHRASE_TOKENS`] tokens, one right after the other in one text.
    Phrase(Vec<String>),
    /// A token that begins with this text.
    Prefix(String),
}

impl fmt::Display for SearchTerm {
    /// Writes the term as a query that finds the same.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => formatter.write_str(word),
            Self::Phrase(tokens) => write!(formatter, "\"{}\"", tokens.join(" ")),
            Self::Prefix(prefix) => write!(formatter, "{prefix}*"),
        }
    }
}

impl ParsedQuery {
    /// Parses a query that names no field. Every text is a query.
    pub fn parse(text: &str) -> Self {
        Self::parse_with_fields(text, &|_| false)
    }

    /// Parses a query. `is_field` knows the names of the fields that may stand before a colon.
    pub fn parse_with_fields(text: &str, is_field: &dyn Fn(&str) -> bool) -> Self {
        let end = text.char_indices().nth(MAX_QUERY_SCALARS).map_or(text.len(), |(at, _)| at);
        let text = text.get(..end).unwrap_or(text);
        let segments: Vec<&str> = text.split(['"', '“', '”', '„']).collect();
        let mut query = Self::default();
        let mut place = Place::default();
        for (nth, segment) in segments.iter().enumerate() {
            if nth % 2 == 1 && nth + 1 < segments.len() {
                query.push_phrase(cut(segment), &place);
                place = Place::default();
                continue;
            }
            // What stands right before a quotation mark may say how its content counts.
            let last = segment.rsplit(char::is_whitespace).next().unwrap_or_default();
            let (before, rest) = Place::parse(last, is_field);
            let is_quoted_next = nth + 2 < segments.len();
            let is_for_phrase = is_quoted_next && rest.is_empty() && !last.is_empty();
            let own = if is_for_phrase { segment.len() - last.len() } else { segment.len() };
            for word in segment.get(..own).unwrap_or_default().split_whitespace() {
                let (place, word) = Place::parse(word, is_field);
                query.push_word(word, &place);
            }
            place = if is_for_phrase { before } else { Place::default() };
        }
        query
    }

    fn push_word(&mut self, word: &str, place: &Place) {
        let stem = word.trim_end_matches('*');
        let mut all = cut(stem);
        // A star after punctuation does not concern the token before it.
        let touches = |last: char| matches!(CharacterClass::new(last), CharacterClass::Joins);
        let ends_joining = |text: &str| text.chars().next_back().is_some_and(touches);
        // `語` with a mark above joins, but its token, which has lost the mark, needs no star.
        let is_prefix = stem.len() < word.len()
            && ends_joining(stem)
            && all.last().is_some_and(|token| ends_joining(token));
        match (is_prefix, place.role) {
            // To exclude each part by itself would exclude more than the whole.
            (true, Role::Excluded) if all.len() > 1 => self.push_phrase(all, place),
            (true, _) => {
                let prefix = all.pop();
                self.push_phrase(all, place);
                prefix.into_iter().for_each(|prefix| self.push(SearchTerm::Prefix(prefix), place));
            }
            (false, _) => self.push_phrase(all, place),
        }
    }

    fn push_phrase(&mut self, tokens: Vec<String>, place: &Place) {
        for part in tokens.chunks(MAX_PHRASE_TOKENS) {
            match part {
                [word] => self.push(SearchTerm::Word(word.clone()), place),
                _ => self.push(SearchTerm::Phrase(part.to_vec()), place),
            }
            // To exclude the other parts by themselves would exclude more than the whole.
            if place.role == Role::Excluded {
                break;
            }
        }
    }

    fn push(&mut self, term: SearchTerm, place: &Place) {
        let count = self.terms.len() + self.excluded.len();
        let terms = match place.role {
            Role::Required => &mut self.terms,
            Role::Excluded => &mut self.excluded,
        };
        let term = QueryTerm { field: place.field.clone(), term };
        if terms.contains(&term) {
            return;
        }
        if count < MAX_TERMS {
            terms.push(term);
        } else {
            self.left_out += 1;
        }
    }
}

/// How a word or a phrase counts: whether it must occur, and where.
#[derive(Default)]
struct Place {
    role: Role,
    field: Option<String>,
}

impl Place {
    /// Splits a word into how it counts and the word itself.
    fn parse<'w>(word: &'w str, is_field: &dyn Fn(&str) -> bool) -> (Self, &'w str) {
        let (word, role) = match word.strip_prefix('-') {
            Some(rest) if !rest.starts_with('-') => (rest, Role::Excluded),
            _ => (word, Role::Required),
        };
        let ends = word.match_indices(':').map(|(at, _)| at).rev();
        let named =
            ends.filter_map(|at| word.split_at_checked(at)).find(|(name, _)| is_field(name));
        match named {
            Some((name, rest)) => {
                let field = Some(name.to_owned());
                (Self { role, field }, rest.strip_prefix(':').unwrap_or(rest))
            }
            None => (Self { role, field: None }, word),
        }
    }
}

/// What a term of a query asks for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    /// The term must occur.
    #[default]
    Required,
    /// The term must not occur.
    Excluded,
}

fn cut(text: &str) -> Vec<String> {
    tokens(text).map(|token| token.text.into_owned()).collect()
}

/// Whether a record with these texts matches a query that names no field, decided by reading all of
/// them. Every engine must agree with this function. An empty query matches everything.
pub fn matches(texts: &[&str], query: &ParsedQuery) -> bool {
    let texts: Vec<Vec<String>> = texts.iter().map(|text| cut(text)).collect();
    let occurs = |term: &QueryTerm| {
        texts.iter().any(|text| match &term.term {
            SearchTerm::Word(word) => text.contains(word),
            SearchTerm::Phrase(phrase) => text.windows(phrase.len()).any(|window| window == phrase),
            SearchTerm::Prefix(prefix) => {
                text.iter().any(|token| token.starts_with(prefix.as_str()))
            }
        })
    };
    query.terms.iter().all(occurs) && !query.excluded.iter().any(occurs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(query: &str) -> String {
        let terms = ParsedQuery::parse(query).terms;
        terms.iter().map(QueryTerm::to_string).collect::<Vec<_>>().join(" + ")
    }

    #[test]
    fn words_phrases_and_prefixes_are_recognised() {
        insta::assert_snapshot!(summary("Water the Ferns"), @"water + the + ferns");
        insta::assert_snapshot!(
            summary(r#"garden "Water the  ferns!" moss*"#),
            @r#"garden + "water the ferns" + moss*"#
        );
        insta::assert_snapshot!(
            summary("ann@example.org foo_bar 日本語"),
            @r#""ann example org" + "foo bar" + "日 本 語""#
        );
        insta::assert_snapshot!(
            summary("foo_bar_ba* 日本* CAFÉ*"),
            @r#""foo bar" + ba* + "日 本" + cafe*"#
        );
        insta::assert_snapshot!(summary("“all wet” „und so“"), @r#""all wet" + "und so""#);
    }

    #[test]
    fn a_hyphen_before_a_word_or_a_phrase_excludes_it() {
        let parsed = |query: &str| {
            let ParsedQuery { terms, excluded, .. } = ParsedQuery::parse(query);
            let written = |terms: Vec<QueryTerm>| {
                terms.iter().map(QueryTerm::to_string).collect::<Vec<_>>().join(" + ")
            };
            format!("{} but not {}", written(terms), written(excluded))
        };
        insta::assert_snapshot!(
            parsed(r#"fern -moss -"on trees" -wet* -foo_ba* -"#),
            @r#"fern but not moss + "on trees" + wet* + "foo ba""#
        );
        insta::assert_snapshot!(
            parsed(r#"well-known --flag a - b "-quoted" x-"y z" -- –dash"#),
            @r#""well known" + flag + a + b + quoted + x + "y z" + dash but not "#
        );
        insta::assert_snapshot!(parsed("-only"), @" but not only");
        let finds =
            |query: &str| matches(&["Water the ferns", "on moss"], &ParsedQuery::parse(query));
        assert!(finds("ferns -tree") && finds("ferns -\"the moss\"") && finds("-tree*"));
        assert!(!finds("ferns -moss") && !finds("ferns -\"the ferns\"") && !finds("-mo*"));
    }

    #[test]
    fn a_known_name_and_a_colon_choose_a_field() {
        let parsed = |query: &str| {
            let known = |name: &str| ["subject", "a:b", "from"].contains(&name);
            let ParsedQuery { terms, excluded, .. } = ParsedQuery::parse_with_fields(query, &known);
            let written = |terms: Vec<QueryTerm>| {
                terms.iter().map(QueryTerm::to_string).collect::<Vec<_>>().join(" + ")
            };
            format!("{} but not {}", written(terms), written(excluded))
        };
        insta::assert_snapshot!(
            parsed(r#"subject:ferns from:"Ann B" subject:pru* -from:bob -subject:"no thanks""#),
            @r#"subject:ferns + from:"ann b" + subject:pru* but not from:bob + subject:"no thanks""#
        );
        insta::assert_snapshot!(
            parsed(r#"to:ann 12:30 http://x.org a:b:c subject: moss from: "x""#),
            @r#""to ann" + "12 30" + "http x org" + a:b:c + moss + x but not "#
        );
        insta::assert_snapshot!(parsed(r#"subject:foo_bar "subject:x""#), @r#"subject:"foo bar" + "subject x" but not "#);
    }

    #[test]
    fn stray_syntax_is_white_space() {
        for nothing in ["", "  ", "*", "\"", "\"\"", "\"*\"*", "AND* *"] {
            let terms = summary(nothing);
            assert!(matches!(terms.as_str(), "" | "and*"), "{nothing}: {terms}");
        }
        insta::assert_snapshot!(summary(r#"a "b c"#), @"a + b + c");
        insta::assert_snapshot!(summary(r#""a" "b c"* *d e-* f**"#), @r#"a + "b c" + d + e + f*"#);
        insta::assert_snapshot!(
            summary("x OR y NOT z: (w) ^2 NEAR/3"),
            @r#"x + or + y + not + z + w + 2 + "near 3""#
        );
        insta::assert_snapshot!(summary("again Again"), @"again");
        insta::assert_snapshot!(summary("語\u{20d0}*"), @"語");
    }

    #[test]
    fn a_query_is_bounded() {
        let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let query = ParsedQuery::parse(&numbers.join(" "));
        assert_eq!((query.terms.len(), query.left_out), (MAX_TERMS, 200 - MAX_TERMS));
        let phrase = ParsedQuery::parse(&format!("\"{}\"", numbers.join(" "))).terms;
        assert_eq!(phrase.len(), 7);
        assert!(summary(&("x ".repeat(512) + "y")) == "x");
    }

    #[test]
    fn terms_may_occur_in_different_texts_but_a_phrase_in_one() {
        let finds = |query: &str| {
            matches(&["Water the ferns.", "In May; 日本語の文"], &ParsedQuery::parse(query))
        };
        assert!(
            finds("may FERNS")
                && finds("\"the ferns\"")
                && finds("fer*")
                && finds("本語")
                && finds("")
        );
        assert!(!finds("may moss") && !finds("\"ferns in\"") && !finds("ern*") && !finds("語本"));
    }

    proptest! {
        #[test]
        fn every_text_is_a_bounded_query(text in "(\"|\\*| |_|a|é|語|\\PC){0,200}") {
            let query = ParsedQuery::parse(&text);
            prop_assert!(query.terms.len() <= MAX_TERMS);
            for term in &query.terms {
                let again = ParsedQuery::parse(&term.to_string()).terms;
                prop_assert_eq!(&again, std::slice::from_ref(term));
                if let SearchTerm::Phrase(tokens) = &term.term {
                    prop_assert!((2..=MAX_PHRASE_TOKENS).contains(&tokens.len()));
                }
            }
        }

        #[test]
        fn a_text_matches_its_own_words(
            text in "([a-zé]{1,5}[ _.,]|語|[ก-ฮ]|🙂){0,30}",
            skip in 0usize..20,
        ) {
            let part: String = text.split_inclusive(' ').skip(skip % 4).collect();
            prop_assert!(matches(&[&text], &ParsedQuery::parse(&part)));
            let quoted = format!("\"{part}\"");
            prop_assert!(matches(&[&text], &ParsedQuery::parse(&quoted)));
            let starred = part.replace(' ', "* ");
            prop_assert!(matches(&[&text], &ParsedQuery::parse(&starred)));
        }
    }
}
