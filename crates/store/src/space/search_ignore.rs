//! What no walk enters, finds or searches: rules in git's syntax, from the owner alone.
//!
//! The rules are a setting of the server. A rule file inside the space would be one that an agent
//! can write, and with it hide files from other agents.

use std::collections::HashSet;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use stile_domain::path::SpacePath;

/// What is left out unless the owner says otherwise: the insides of tools, never a person's notes.
/// Separated by commas.
pub const SEARCH_IGNORE: &str = ".git,.hg,.svn,.jj,node_modules,target,__pycache__,.venv,.cache,\
    .obsidian,.trash,.idea,.DS_Store";

/// Rules of git's ignore files, compiled.
#[derive(Clone, Debug)]
pub struct SearchIgnore {
    rules: Vec<String>,
    compiled: Gitignore,
    /// The rules, if each is a name that is left out wherever it is.
    names: Option<HashSet<Box<str>>>,
}

impl PartialEq for SearchIgnore {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for SearchIgnore {}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is not a pattern of git's ignore files: {why}")]
pub struct BadIgnoreRule {
    /// The rule, as the owner wrote it.
    rule: String,
    why: String,
}

impl SearchIgnore {
    /// Compiles rules, of which a later one wins over an earlier one.
    ///
    /// # Errors
    /// [`BadIgnoreRule`] for the first that is not a rule.
    pub fn parse<'r>(rules: impl IntoIterator<Item = &'r str>) -> Result<Self, BadIgnoreRule> {
        let mut builder = GitignoreBuilder::new("");
        let mut kept = Vec::new();
        for rule in rules {
            kept.push(rule.to_owned());
            let bad = |error: ignore::Error| BadIgnoreRule {
                rule: rule.to_owned(),
                why: error.to_string(),
            };
            builder.add_line(None, rule).map_err(bad)?;
        }
        let compiled = builder
            .build()
            .map_err(|error| BadIgnoreRule { rule: String::new(), why: error.to_string() })?;
        let is_name = |rule: &String| {
            let mut bytes = rule.bytes();
            !rule.is_empty()
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        let names = kept.iter().all(is_name);
        let names = names.then(|| kept.iter().map(|name| name.as_str().into()).collect());
        Ok(Self { rules: kept, compiled, names })
    }

    /// Returns rules that leave out nothing.
    pub fn nothing() -> Self {
        Self { rules: Vec::new(), compiled: Gitignore::empty(), names: Some(HashSet::new()) }
    }

    /// Returns the rules as the owner wrote them.
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// Whether the rules leave out an entry, whose parents they do not leave out.
    pub(super) fn leaves_out(&self, path: &SpacePath, is_folder: bool) -> bool {
        match &self.names {
            Some(names) => {
                path.as_str().rsplit('/').next().is_some_and(|name| names.contains(name))
            }
            None => self.leaves_out_by_pattern(path, is_folder),
        }
    }

    fn leaves_out_by_pattern(&self, path: &SpacePath, is_folder: bool) -> bool {
        self.compiled.matched(relative(path), is_folder).is_ignore()
    }

    /// Whether the rules leave out an entry or one of its parents.
    pub(super) fn leaves_out_below(&self, path: &SpacePath, is_folder: bool) -> bool {
        !path.is_root()
            && self.compiled.matched_path_or_any_parents(relative(path), is_folder).is_ignore()
    }
}

impl Default for SearchIgnore {
    fn default() -> Self {
        Self::parse(SEARCH_IGNORE.split(',')).unwrap_or_else(|_| Self {
            rules: Vec::new(),
            compiled: Gitignore::empty(),
            names: None,
        })
    }
}

fn relative(path: &SpacePath) -> &str {
    path.as_str().trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_those_of_git_and_a_later_one_wins() {
        let rules = SearchIgnore::parse(["*.log", "!keep.log", "/build/", "a/**/b", "# note", ""]);
        let rules = rules.unwrap();
        let is_left_out =
            |path: &str, is_folder| rules.leaves_out(&SpacePath::parse(path).unwrap(), is_folder);
        assert!(is_left_out("/x/y.log", false) && !is_left_out("/x/keep.log", false));
        assert!(is_left_out("/build", true) && !is_left_out("/build", false));
        assert!(!is_left_out("/x/build", true) && is_left_out("/a/x/y/b", true));
        assert!(!is_left_out("/# note", false));
        assert!(rules.leaves_out_below(&SpacePath::parse("/build/x/y").unwrap(), true));
        assert!(!rules.leaves_out_below(&SpacePath::root(), true));
    }

    proptest! {
        #[test]
        fn names_alone_leave_out_what_their_patterns_do(
            rules in proptest::collection::vec("(\\.?[ab]{1,2}|a-b|c_)", 0..4),
            paths in proptest::collection::vec("(/\\.?[abAc_-]{1,3}){1,3}", 1..20),
            is_folder in any::<bool>(),
        ) {
            let rules = SearchIgnore::parse(rules.iter().map(String::as_str)).unwrap();
            prop_assert!(rules.names.is_some());
            for path in paths {
                let Ok(path) = SpacePath::parse(&path) else { continue };
                let slow = rules.leaves_out_by_pattern(&path, is_folder);
                prop_assert_eq!(rules.leaves_out(&path, is_folder), slow, "{}", path);
            }
        }
    }

    #[test]
    fn the_defaults_leave_out_folders_of_tools_at_any_depth() {
        let rules = SearchIgnore::default();
        for name in SEARCH_IGNORE.split(',') {
            assert!(rules.leaves_out(&SpacePath::parse(&format!("/a/{name}")).unwrap(), true));
        }
        assert!(!rules.leaves_out(&SpacePath::parse("/.github").unwrap(), true));
        assert!(SearchIgnore::parse(["{a"]).is_err());
    }
}
