//! Paths of files as callers name them: from the root of the space, never from the machine's root.
//!
//! Only parsing makes a [`SpacePath`], and the text of a path is always canonical. So authorization
//! and the store always mean the same file. The check is textual. The store handles symbolic links,
//! devices and races, because it resolves the components beneath one directory handle.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inline_schema::inline_schema;
use crate::windows_names;

/// The prefix of the file names that Stile uses for its own files inside an edited folder.
///
/// Parsing refuses such a name, and no listing shows one.
pub const RESERVED_PREFIX: &str = ".stile-";

/// A canonical path in the space such as `/notes/a.md`; the root is `/`.
///
/// *Shape*: starts with `/`, components separated by one `/`, no component empty, `.` or `..`, no
/// backslash, no control character, no final `/` but the root's. Unicode is kept byte for byte.
/// *Units*: at most [`SpacePath::MAX_BYTES`] bytes of UTF-8, both as given and in canonical form;
/// each component at most [`SpacePath::MAX_COMPONENT_BYTES`] bytes. *Source*: MCP-025 to MCP-028,
/// AUTH-038.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpacePath(String);

/// Why a text is not a space path. The message never repeats the text, which may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// The text is empty.
    #[error("is empty; use `/` for the root of the space")]
    Empty,
    /// The text holds NUL or another control character (C0 or C1).
    #[error("contains a control character")]
    Control,
    /// The text is longer than [`SpacePath::MAX_BYTES`].
    #[error("is longer than 4096 bytes")]
    TooLong,
    /// A component is longer than [`SpacePath::MAX_COMPONENT_BYTES`].
    #[error("has a component longer than 255 bytes")]
    ComponentTooLong,
    /// The text holds a backslash.
    #[error("contains a backslash; separate components with `/`")]
    Backslash,
    /// The first component begins with a drive such as `C:`.
    #[error("begins with a drive prefix; name the file from the root of the space, with `/`")]
    Drive,
    /// The path begins with `/` where a relative path is required, as in the note tools.
    #[error("begins with `/`; name the file from the root of the space, without one")]
    Absolute,
    /// A `..` leads above the root, or a `..` occurs where none is allowed.
    #[error("leads out of the space with `..`")]
    AboveRoot,
    /// The path of a file ends in `/`, as only the path of a folder does.
    #[error(
        "ends in `/`, which names a folder. Leave the `/` out to name a file; a folder is made \
         with the first file in it, as in `plans/2025/notes.md`"
    )]
    Folder,
    /// A component begins with [`RESERVED_PREFIX`].
    #[error("uses the reserved prefix `.stile-`")]
    Reserved,
    /// On Windows: a component is [special](windows_names::is_special) there.
    #[error(
        "has a name that Windows reads as something else: no `<>:\"|?*`, no dot or space at the \
         end, and no device such as `NUL` or `COM1`"
    )]
    Windows,
}

impl SpacePath {
    /// The longest accepted path, in bytes.
    pub const MAX_BYTES: usize = 4096;
    /// The longest accepted component, in bytes.
    pub const MAX_COMPONENT_BYTES: usize = 255;

    /// Returns the root of the space, `/`.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Parses a path as a caller writes it, and makes it canonical.
    ///
    /// # Errors
    /// Every [`BadPath`] except [`BadPath::Absolute`] and [`BadPath::Folder`].
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        if text.is_empty() {
            return Err(BadPath::Empty);
        }
        if text.chars().any(char::is_control) {
            return Err(BadPath::Control);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(BadPath::TooLong);
        }
        if text.contains('\\') {
            return Err(BadPath::Backslash);
        }
        let mut kept: Vec<&str> = Vec::new();
        let mut first = true;
        for part in text.split('/') {
            if part.is_empty() || part == "." {
                continue;
            }
            if part.len() > Self::MAX_COMPONENT_BYTES {
                return Err(BadPath::ComponentTooLong);
            }
            if std::mem::take(&mut first) && is_drive(part) {
                return Err(BadPath::Drive);
            }
            if part == ".." {
                kept.pop().ok_or(BadPath::AboveRoot)?;
            } else if part.starts_with(RESERVED_PREFIX) {
                return Err(BadPath::Reserved);
            } else if cfg!(windows) && windows_names::is_special(part) {
                return Err(BadPath::Windows);
            } else {
                kept.push(part);
            }
        }
        // `x/../C:/y` must not smuggle a drive into the first component.
        if kept.first().is_some_and(|part| is_drive(part)) {
            return Err(BadPath::Drive);
        }
        let canonical = format!("/{}", kept.join("/"));
        // The leading slash may add one byte, and the canonical text must parse again.
        if canonical.len() > Self::MAX_BYTES {
            return Err(BadPath::TooLong);
        }
        Ok(Self(canonical))
    }

    /// Returns the path of a direct child; `None` for a name that no path can hold.
    pub fn child(&self, name: &str) -> Option<Self> {
        let above = if self.is_root() { "" } else { &self.0 };
        self.can_hold(name).then(|| Self([above, "/", name].concat()))
    }

    /// Whether a path can end in `name` below this folder, as [`SpacePath::parse`] decides.
    /// Allocates nothing, because a listing checks every name.
    pub fn can_hold(&self, name: &str) -> bool {
        let length = self.0.len() + name.len() + usize::from(!self.is_root());
        !name.is_empty()
            && name != "."
            && name != ".."
            && name.len() <= Self::MAX_COMPONENT_BYTES
            && length <= Self::MAX_BYTES
            && !name.starts_with(RESERVED_PREFIX)
            && !(cfg!(windows) && windows_names::is_special(name))
            && !(self.is_root() && is_drive(name))
            && if name.is_ascii() {
                !name.bytes().any(|byte| byte.is_ascii_control() || byte == b'/' || byte == b'\\')
            } else {
                !name.chars().any(|character| {
                    character.is_control() || character == '/' || character == '\\'
                })
            }
    }

    /// Returns the canonical text, which begins with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root of the space.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// Returns the components from the root down; the root has no component.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// Returns the parent folder and the name of the file; `None` for the root.
    pub fn split(&self) -> Option<(Self, &str)> {
        if self.is_root() {
            return None;
        }
        let (folder, name) = self.0.rsplit_once('/')?;
        Some((if folder.is_empty() { Self::root() } else { Self(folder.to_owned()) }, name))
    }

    /// Whether `other` is this path or lies below it.
    ///
    /// Compares whole components: `/notes` covers `/notes/a.md` but not `/notes-old/a.md`.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_root() {
            return true;
        }
        match other.0.strip_prefix(&self.0) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// Returns where this path is after what has the path `from` has moved to `to`; `None` for a
    /// path that does not move, and for one that would be too long.
    pub fn relocated(&self, from: &Self, to: &Self) -> Option<Self> {
        if from.is_root() || !from.covers(self) {
            return None;
        }
        let rest = self.0.get(from.0.len()..)?;
        let above = if to.is_root() { "" } else { to.as_str() };
        let is_short = above.len() + rest.len() <= Self::MAX_BYTES;
        is_short.then(|| Self([above, rest].concat())).filter(|path| !path.0.is_empty())
    }

    /// Whether `other` is a direct child of this directory.
    pub fn is_parent_of(&self, other: &Self) -> bool {
        other.split().is_some_and(|(folder, _)| folder == *self)
    }
}

/// The path of a file, as a caller writes it: a [`SpacePath`] whose text does not end as only the
/// path of a folder does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FilePath(SpacePath);

impl FilePath {
    /// Parses the path of a file.
    ///
    /// # Errors
    /// The errors of [`SpacePath::parse`], and [`BadPath::Folder`] if the last component is empty,
    /// `.` or `..`.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let path = SpacePath::parse(text)?;
        let last = text.rsplit('/').next().unwrap_or_default();
        // The root is refused as what it is, where it is opened.
        if matches!(last, "" | "." | "..") && !path.is_root() {
            return Err(BadPath::Folder);
        }
        Ok(Self(path))
    }
}

impl std::ops::Deref for FilePath {
    type Target = SpacePath;
    fn deref(&self) -> &SpacePath {
        &self.0
    }
}

impl From<FilePath> for SpacePath {
    fn from(path: FilePath) -> Self {
        path.0
    }
}

impl TryFrom<String> for FilePath {
    type Error = BadPath;
    fn try_from(text: String) -> Result<Self, BadPath> {
        Self::parse(&text)
    }
}

inline_schema!(FilePath, { "type": "string" });

/// Whether a component begins with a drive. Some platforms read `C:` and `c:name` as a drive.
fn is_drive(part: &str) -> bool {
    let mut bytes = part.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic()) && bytes.next() == Some(b':')
}

impl fmt::Display for SpacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SpacePath {
    type Error = BadPath;
    fn try_from(text: String) -> Result<Self, BadPath> {
        Self::parse(&text)
    }
}

impl From<SpacePath> for String {
    fn from(path: SpacePath) -> Self {
        path.0
    }
}

inline_schema!(SpacePath, { "type": "string" });

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<String, BadPath> {
        SpacePath::parse(text).map(String::from)
    }

    #[test]
    fn a_path_moves_with_the_folder_that_it_is_in() {
        let path = |text: &str| SpacePath::parse(text).unwrap();
        let moved = |it: &str, from: &str, to: &str| path(it).relocated(&path(from), &path(to));
        for (it, from, to, expected) in [
            ("/a", "/a", "/b", Some("/b")),
            ("/a/b/c.md", "/a/b", "/d/e/f", Some("/d/e/f/c.md")),
            ("/a/b", "/a", "/", Some("/b")),
            ("/ab/c", "/a", "/d", None),
            ("/a", "/a/b", "/d", None),
            ("/a", "/", "/d", None),
        ] {
            assert_eq!(moved(it, from, to), expected.map(path), "{it} {from} {to}");
        }
        let long = path(format!("/a/{}", "b/".repeat(2000)).trim_end_matches('/'));
        assert_eq!(long.relocated(&path("/a"), &path(&format!("/{}", "c".repeat(200)))), None);
    }

    #[test]
    fn a_leading_slash_is_optional() {
        assert_eq!(parsed("notes/a.md"), parsed("/notes/a.md"));
        assert_eq!(parsed("notes//./a.md/"), Ok("/notes/a.md".into()));
        assert_eq!(parsed("/"), Ok("/".into()));
        assert_eq!(parsed("."), Ok("/".into()));
    }

    #[test]
    fn the_path_of_a_file_does_not_end_like_that_of_a_folder() {
        for text in ["plans/2025/", "/a//", "a/.", "a/b/.."] {
            assert_eq!(FilePath::parse(text), Err(BadPath::Folder), "{text}");
        }
        assert_eq!(FilePath::parse("a/../b").map(SpacePath::from), SpacePath::parse("/b"));
        assert_eq!(FilePath::parse("/").map(SpacePath::from), Ok(SpacePath::root()));
    }

    #[test]
    fn dots_are_resolved_but_never_above_the_root() {
        assert_eq!(parsed("a/../b"), Ok("/b".into()));
        assert_eq!(parsed("a/.."), Ok("/".into()));
        assert_eq!(parsed(".."), Err(BadPath::AboveRoot));
        assert_eq!(parsed("a/../../a"), Err(BadPath::AboveRoot));
        assert_eq!(parsed("/../etc/passwd"), Err(BadPath::AboveRoot));
        assert_eq!(parsed("a/..."), Ok("/a/...".into()));
    }

    #[test]
    fn malformed_paths_are_refused() {
        assert_eq!(parsed(""), Err(BadPath::Empty));
        assert_eq!(parsed("a\0b"), Err(BadPath::Control));
        assert_eq!(parsed("a\u{85}b"), Err(BadPath::Control));
        assert_eq!(parsed("a\\b"), Err(BadPath::Backslash));
        assert_eq!(parsed("C:/Windows"), Err(BadPath::Drive));
        assert_eq!(parsed("/c:"), Err(BadPath::Drive));
        assert_eq!(parsed("x/../C:/y"), Err(BadPath::Drive));
        assert_eq!(parsed("notes/C:"), Ok("/notes/C:".into()));
        assert_eq!(parsed(".stile-x"), Err(BadPath::Reserved));
        assert_eq!(parsed("a/.stile-/b"), Err(BadPath::Reserved));
        assert_eq!(parsed(&"a".repeat(256)), Err(BadPath::ComponentTooLong));
        assert_eq!(parsed(&"a/".repeat(2049)), Err(BadPath::TooLong));
        assert_eq!(parsed(&"a/".repeat(2048)), Ok("/a".repeat(2048)));
        let canonical = vec!["c".repeat(250); 16].join("/") + "/" + &"e".repeat(80);
        assert_eq!((canonical.len(), parsed(&canonical)), (4096, Err(BadPath::TooLong)));
        assert_eq!(parsed(&"a".repeat(255)).map(|path| path.len()), Ok(256));
    }

    #[test]
    fn covers_compares_whole_components() {
        let notes = SpacePath::parse("notes").unwrap();
        for (path, covered) in [
            ("notes", true),
            ("notes/a", true),
            ("notes-old/a", false),
            ("Notes/a", false),
            ("/", false),
        ] {
            assert_eq!(notes.covers(&SpacePath::parse(path).unwrap()), covered, "{path}");
        }
        assert!(SpacePath::root().covers(&notes));
    }

    /// Parses slowly and in the obvious way.
    fn oracle(text: &str) -> Option<Vec<String>> {
        if text.is_empty()
            || text.len() > 4096
            || text.contains('\\')
            || text.chars().any(char::is_control)
        {
            return None;
        }
        let mut stack: Vec<String> = Vec::new();
        for (index, part) in
            text.split('/').filter(|part| !part.is_empty() && *part != ".").enumerate()
        {
            let drive = |part: &str| {
                part.len() > 1
                    && part.as_bytes()[1] == b':'
                    && part.as_bytes()[0].is_ascii_alphabetic()
            };
            if part.len() > 255 || (index == 0 && drive(part)) || part.starts_with(".stile-") {
                return None;
            }
            if part == ".." {
                stack.pop()?;
            } else {
                stack.push(part.to_owned());
            }
        }
        if stack.first().is_some_and(|part| {
            part.len() > 1 && part.as_bytes()[1] == b':' && part.as_bytes()[0].is_ascii_alphabetic()
        }) {
            return None;
        }
        Some(stack)
    }

    #[test]
    fn a_path_is_displayed_as_its_canonical_text() {
        for text in ["/", "/a b/c.md"] {
            assert_eq!(SpacePath::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn only_a_single_component_names_a_child() {
        for folder in ["/", "/a"] {
            let folder = SpacePath::parse(folder).unwrap();
            for name in ["", ".", "..", "/", "/a", "a/", "a/b"] {
                assert_eq!(folder.child(name), None, "{name:?} in {folder}");
                assert!(!folder.can_hold(name), "{name:?} in {folder}");
            }
        }
    }

    #[test]
    fn the_path_of_a_child_has_at_most_as_many_bytes_as_any_path() {
        let folder = SpacePath::parse(&"/b".repeat(2046)).unwrap();
        let left = SpacePath::MAX_BYTES - folder.as_str().len() - "/".len();
        for (length, fits) in [(left, true), (left + 1, false)] {
            let name = "x".repeat(length);
            assert_eq!(folder.can_hold(&name), fits, "{length}");
            assert_eq!(folder.child(&name).is_some(), fits, "{length}");
        }
    }

    proptest! {
        #[test]
        fn can_hold_agrees_with_child(
            folder in prop_oneof![
                Just("/".to_owned()),
                Just("/a".to_owned()),
                Just("/b".repeat(2046)),
                Just(format!("/{}", "c/".repeat(2040))),
            ],
            name in prop_oneof![
                "(/|\\.|\\.\\.|a|C:|\\\\|é|\\.stile-|\u{1}|\u{85}){0,4}",
                "\\PC{0,12}",
                "x{250,260}",
            ],
        ) {
            let folder = SpacePath::parse(&folder).unwrap();
            let is_one_component = !matches!(&*name, "" | "." | "..") && !name.contains('/');
            let joined = format!("{}/{name}", folder.as_str().trim_end_matches('/'));
            let parsed = SpacePath::parse(&joined).ok().filter(|_| is_one_component);
            prop_assert_eq!(folder.can_hold(&name), parsed.is_some());
            prop_assert_eq!(folder.child(&name), parsed);
        }

        #[test]
        fn parsing_agrees_with_the_oracle_and_is_idempotent(
            text in prop_oneof![
                "(/|\\.|\\.\\.|a|b|C:|\\\\|é|\\.stile-|\u{1}){0,12}",
                "\\PC{0,40}",
            ]
        ) {
            match (SpacePath::parse(&text), oracle(&text)) {
                (Ok(path), Some(parts)) => {
                    prop_assert!(path.components().eq(parts));
                    prop_assert_eq!(SpacePath::parse(path.as_str()).unwrap(), path.clone());
                    let mut joined = std::path::PathBuf::from("/root");
                    joined.extend(path.components());
                    prop_assert!(joined.starts_with("/root"));
                    prop_assert!(!path.as_str().split('/').any(|part| part == ".."));
                }
                (Err(_), None) => {}
                (ours, theirs) => prop_assert!(false, "{:?} against {:?}", ours, theirs),
            }
        }
    }
}
