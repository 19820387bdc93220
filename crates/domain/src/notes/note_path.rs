//! Paths of notes as callers of the note tools write them: relative to the root of the space,
//! without a leading `/`.

use serde::{Deserialize, Serialize};

use super::whitespace::trim;
use crate::inline_schema::inline_schema;
use crate::path::{BadPath, SpacePath};

/// A note's path such as `inbox/one.md`, canonical, relative, and never outside the space.
///
/// *Shape*: a [`SpacePath`] that is not the root, written without its leading `/`. Parsing trims
/// the text, turns backslashes into `/`, and drops empty components. Unlike a space path, a note
/// path may not begin with `/` and may not hold `..`, not even one that stays inside the space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NotePath(SpacePath);

impl NotePath {
    /// Parses a path as a caller writes it, and makes it canonical.
    ///
    /// # Errors
    /// Every [`BadPath`] except [`BadPath::Backslash`].
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let text = trim(text).replace('\\', "/");
        if text.starts_with('/') {
            return Err(BadPath::Absolute);
        }
        if text.split('/').any(|part| part == "..") {
            return Err(BadPath::AboveRoot);
        }
        let path = SpacePath::parse(&text)?;
        if path.is_root() { Err(BadPath::Empty) } else { Ok(Self(path)) }
    }

    /// Returns the note path of a file; `None` for the root of the space.
    pub fn of(path: &SpacePath) -> Option<Self> {
        (!path.is_root()).then(|| Self(path.clone()))
    }

    /// Returns the same path as a space path, for permits and the store.
    pub fn space_path(&self) -> &SpacePath {
        &self.0
    }

    /// Returns the canonical text, without a leading `/`.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_start_matches('/')
    }

    /// Returns the folder, `None` for the root of the space, and the file name.
    pub(super) fn split(&self) -> (Option<&str>, &str) {
        self.as_str()
            .rsplit_once('/')
            .map_or((None, self.as_str()), |(folder, name)| (Some(folder), name))
    }
}

impl TryFrom<String> for NotePath {
    type Error = BadPath;
    fn try_from(text: String) -> Result<Self, BadPath> {
        Self::parse(&text)
    }
}

impl From<NotePath> for String {
    fn from(path: NotePath) -> Self {
        path.as_str().to_owned()
    }
}

inline_schema!(NotePath, { "type": "string", "minLength": 1, "maxLength": 4096 });

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absolute_paths_and_paths_out_of_the_space_are_refused() {
        for (text, expected) in [
            ("inbox/one.md", Ok("inbox/one.md")),
            (" \u{feff}inbox\\one.md\n", Ok("inbox/one.md")),
            ("a//./b.md/", Ok("a/b.md")),
            ("wait...what.md", Ok("wait...what.md")),
            ("..a/b..md", Ok("..a/b..md")),
            ("", Err(BadPath::Empty)),
            (" \t", Err(BadPath::Empty)),
            (".", Err(BadPath::Empty)),
            ("./", Err(BadPath::Empty)),
            ("/a.md", Err(BadPath::Absolute)),
            ("\\a.md", Err(BadPath::Absolute)),
            (" /a.md", Err(BadPath::Absolute)),
            ("\\\\server\\share", Err(BadPath::Absolute)),
            ("..", Err(BadPath::AboveRoot)),
            ("a/../b.md", Err(BadPath::AboveRoot)),
            ("a\\..\\b.md", Err(BadPath::AboveRoot)),
            ("C:\\notes\\a.md", Err(BadPath::Drive)),
            ("c:a.md", Err(BadPath::Drive)),
            ("./C:/a.md", Err(BadPath::Drive)),
            ("a\0.md", Err(BadPath::Control)),
            ("a/.stile-x", Err(BadPath::Reserved)),
        ] {
            assert_eq!(
                NotePath::parse(text).as_ref().map(NotePath::as_str),
                expected.as_ref().map(|text| *text),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_note_path_is_a_space_path_and_parses_to_itself(
            text in "(/|\\.|\\.\\.|a|C:|\\\\| |\u{e9}|\u{feff}|\\.stile-){0,10}"
        ) {
            if let Ok(path) = NotePath::parse(&text) {
                // `a /` names the file `a `. Only its slash keeps trimming from removing the space.
                if trim(path.as_str()) == path.as_str() {
                    prop_assert_eq!(NotePath::parse(path.as_str()), Ok(path.clone()));
                }
                prop_assert_eq!(&SpacePath::parse(path.as_str()).unwrap(), path.space_path());
                prop_assert!(path.as_str().split('/').all(|part| !["", ".", ".."].contains(&part)));
            }
        }
    }
}
