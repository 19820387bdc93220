//! What `file.find` looks for: a glob, or parts of a name.
//!
//! A pattern with one of `* ? [ {` is a glob. A glob with a `/` is matched against the path below
//! the folder that is searched, any other against the name alone. Every other pattern is fuzzy: its
//! words must each occur in the path, their letters in order but not side by side, and better
//! matches come first. A pattern without a capital letter ignores case.
//!
//! A glob that is exactly the name or the path of a file finds that file too: `Card [XYZ].md`.
//! Accents are compared composed: some systems store names decomposed, and nobody sees it.

use std::borrow::Cow;

use globset::{Glob, GlobBuilder, GlobMatcher};
use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use unicode_normalization::UnicodeNormalization as _;

/// The longest pattern, in Unicode scalar values.
pub const MAX_PATTERN_CHARS: usize = 256;
/// What a match within the name counts more than one that needs its folders, too.
const NAME_BONUS: u32 = 1 << 16;

/// A compiled pattern for names.
#[derive(Clone, Debug)]
pub enum NamePattern {
    /// A glob.
    Glob(NameGlob),
    /// The parts of a name.
    Fuzzy(FuzzyName),
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// The text is empty or longer than [`MAX_PATTERN_CHARS`].
    #[error("must be 1 to 256 characters")]
    Length,
    /// The glob has an error.
    #[error("is not a glob: {what}, at character {column}")]
    Glob {
        /// What is wrong.
        what: String,
        /// The position of the error, in Unicode scalar values, from 1.
        column: usize,
    },
}

impl NamePattern {
    /// Returns the name that the pattern asks for, as far as it spells one: without wildcards and
    /// folders.
    pub fn spelled_name(&self) -> &str {
        match self {
            Self::Glob(glob) => &glob.spelled,
            Self::Fuzzy(fuzzy) => &fuzzy.spelled,
        }
    }

    /// Compiles a pattern.
    ///
    /// # Errors
    /// Every [`BadPattern`].
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let text = &*composed(text);
        if text.contains(['*', '?', '[', '{']) {
            NameGlob::parse(text).map(Self::Glob)
        } else {
            check_length(text)?;
            Ok(Self::Fuzzy(FuzzyName::new(text)))
        }
    }
}

/// Returns a text with its accents composed.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { text.into() } else { text.nfc().collect::<String>().into() }
}

fn check_length(text: &str) -> Result<(), BadPattern> {
    match text.chars().count() {
        1..=MAX_PATTERN_CHARS => Ok(()),
        _ => Err(BadPattern::Length),
    }
}

/// A glob for names, or for paths if it contains a `/`.
#[derive(Clone, Debug)]
pub struct NameGlob {
    glob: GlobMatcher,
    is_for_paths: bool,
    /// The glob as a name or a path, without a `/` in front.
    literal: String,
    spelled: String,
}

impl NameGlob {
    /// Compiles a glob. `*` and `?` do not match `/`; `**` does.
    ///
    /// # Errors
    /// Every [`BadPattern`].
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        check_length(text)?;
        let is_for_paths = text.contains('/');
        let literal = text.trim_start_matches('/').to_owned();
        let glob: Glob = GlobBuilder::new(&literal)
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(!text.chars().any(char::is_uppercase))
            .empty_alternates(true)
            .build()
            .map_err(|error| BadPattern::Glob {
                what: error.kind().to_string(),
                column: error_column(text, error.kind()),
            })?;
        let spelled = last_part(text).replace(['*', '?', '[', ']', '{', '}'], "");
        Ok(Self { glob: glob.compile_matcher(), is_for_paths, literal, spelled })
    }

    /// Whether the glob matches a file. `path` is the path below the folder that is searched,
    /// without a `/` in front, and `name` its last component.
    pub fn is_match(&self, path: &str, name: &str) -> bool {
        let text = composed(if self.is_for_paths { path } else { name });
        self.literal == *text || self.glob.is_match(&*text)
    }
}

/// Returns what follows the last `/`.
fn last_part(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or_default()
}

/// Returns the position of the character that an error is about, from 1. Other errors are about the
/// whole glob.
fn error_column(text: &str, kind: &globset::ErrorKind) -> usize {
    use globset::ErrorKind::{
        DanglingEscape, InvalidRange, UnclosedAlternates, UnclosedClass, UnopenedAlternates,
    };
    if let InvalidRange(first, last) = kind {
        let before = text.split(&format!("{first}-{last}")).next().unwrap_or_default();
        return before.chars().count() + 1;
    }
    let mut open = Vec::new();
    let mut characters = text.chars().zip(1..).peekable();
    while let Some((character, column)) = characters.next() {
        match character {
            '\\' => {
                let escaped = characters.next();
                if escaped.is_none() && *kind == DanglingEscape {
                    return column;
                }
            }
            '[' => {
                characters.next_if(|(next, _)| matches!(next, '!' | '^'));
                // A `]` in the first place belongs to the class.
                characters.next();
                let is_closed = characters.by_ref().any(|(next, _)| next == ']');
                if !is_closed && *kind == UnclosedClass {
                    return column;
                }
            }
            '{' => open.push(column),
            '}' if open.pop().is_none() && *kind == UnopenedAlternates => return column,
            _ => {}
        }
    }
    if *kind == UnclosedAlternates { open.last().copied().unwrap_or(1) } else { 1 }
}

/// The parts of a name, with what it costs to compare them.
#[derive(Clone, Debug)]
pub struct FuzzyName {
    pattern: Pattern,
    matcher: Matcher,
    path: Vec<char>,
    name: Vec<char>,
    spelled: String,
}

impl FuzzyName {
    fn new(text: &str) -> Self {
        let fuzzy = AtomKind::Fuzzy;
        let pattern = Pattern::new(text, CaseMatching::Smart, Normalization::Smart, fuzzy);
        let matcher = Matcher::new(Config::DEFAULT.match_paths());
        let spelled = last_part(text).trim().to_owned();
        Self { pattern, matcher, path: Vec::new(), name: Vec::new(), spelled }
    }

    /// Returns how well a file fits, or `None` if it does not. The arguments are those of
    /// [`NameGlob::is_match`].
    pub fn score(&mut self, path: &str, name: &str) -> Option<u32> {
        let Self { pattern, matcher, path: path_chars, name: name_chars, .. } = self;
        if let Some(score) = pattern.score(Utf32Str::new(&composed(name), name_chars), matcher) {
            return Some(score.saturating_add(NAME_BONUS));
        }
        if path.len() == name.len() {
            return None;
        }
        pattern.score(Utf32Str::new(&composed(path), path_chars), matcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(text: &str, path: &str) -> bool {
        let NamePattern::Glob(glob) = NamePattern::parse(text).unwrap() else { panic!("{text}") };
        glob.is_match(path, path.rsplit('/').next().unwrap())
    }

    #[test]
    fn a_glob_with_a_slash_is_for_paths_and_others_for_names() {
        assert!(glob("*.md", "a/b/c.md") && glob("*.MD", "C.MD") && !glob("*.MD", "c.md"));
        assert!(glob("c?*", "a/C12") && glob("[ab].{md,txt}", "x/a.txt"));
        assert!(glob("a/*.md", "a/b.md") && glob("/a/*.md", "a/b.md"));
        assert!(!glob("a/*.md", "a/b/c.md") && glob("a/**/*.md", "a/b/c.md"));
        assert!(glob("**/b/**", "a/b/c.md") && glob("a\\*/*", "a*/b"));
    }

    #[test]
    fn a_glob_that_is_exactly_a_name_or_a_path_finds_it() {
        for name in ["Card [XYZ].md", "{draft} plan.md", "Movie (2020) [1080p].md", "[1080p]"] {
            assert!(glob(name, name) && glob(name, &format!("films/{name}")), "{name}");
            assert!(glob(&format!("/films/{name}"), &format!("films/{name}")), "{name}");
            assert!(!glob(&format!("other/{name}"), &format!("films/{name}")), "{name}");
        }
        assert!(glob("Card [XYZ].md", "Card X.md") && !glob("Card [XYZ].md", "Card [X].md"));
    }

    #[test]
    fn a_fuzzy_name_prefers_the_name_to_its_folders() {
        let mut fuzzy = FuzzyName::new("budget 24");
        let mut score = |path: &str| fuzzy.score(path, path.rsplit('/').next().unwrap());
        assert!(score("plans/Budget-2024.md") > score("budget/2024.md"));
        assert!(score("budget/2024.md").is_some() && score("budget/notes.md").is_none());
        assert!(FuzzyName::new("Bud").score("bud", "bud").is_none());
    }

    #[test]
    fn a_name_is_found_with_composed_and_decomposed_accents() {
        let (composed, decomposed) = ("Caf\u{e9}.md", "Cafe\u{301}.md");
        for (pattern, name) in [(composed, decomposed), (decomposed, composed)] {
            assert!(FuzzyName::new(&super::composed(pattern)).score(name, name).is_some());
            let glob_of = |text: &str| glob(text, name);
            assert!(glob_of(&format!("{}*", &pattern[..pattern.len() - 3])), "{pattern:?}");
        }
    }

    #[test]
    fn a_bad_glob_says_where() {
        let error = |text: &str| NamePattern::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                "", "é[a", "[a]b[c", "a{b,c", "a{b,{c}", "{a[{]", "a}b{", "x[b[z-a]", "*\\", "[!]",
            ]
            .map(error)
            .join("\n"),
            @r"
        must be 1 to 256 characters
        is not a glob: unclosed character class; missing ']', at character 2
        is not a glob: unclosed character class; missing ']', at character 5
        is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?), at character 2
        is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?), at character 2
        is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?), at character 1
        is not a glob: unopened alternate group; missing '{' (maybe escape '}' with '[}]'?), at character 2
        is not a glob: invalid range; 'z' > 'a', at character 5
        is not a glob: dangling '\', at character 2
        is not a glob: unclosed character class; missing ']', at character 1
        "
        );
    }

    proptest! {
        #[test]
        fn arbitrary_patterns_never_panic(text in "(\\PC|[\\[\\]{}*?,!^\\\\/-]){0,40}", path in "\\PC{1,20}") {
            match NamePattern::parse(&text) {
                Ok(NamePattern::Glob(glob)) => { glob.is_match(&path, &path); }
                Ok(NamePattern::Fuzzy(mut fuzzy)) => { fuzzy.score(&path, &path); }
                Err(_) => {}
            }
        }
    }
}
