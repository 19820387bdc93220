//! Where a file lives, as a caller may name it: from the root of the space, never from the
//! machine's.
//!
//! A [`SpacePath`] can only be made by parsing, and its text is already canonical, so authorization
//! and the store always speak of the same file. The check is textual; symlinks, devices and races
//! are settled by the store, which resolves the components beneath one directory handle.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The prefix of file names that Stile keeps for itself inside an edited folder.
///
/// Such names are refused from callers, never listed and never watched.
pub const RESERVED_PREFIX: &str = ".stile-";

/// A canonical path in the space such as `/notes/a.md`; the root is `/`.
///
/// *Shape*: starts with `/`, components separated by one `/`, no component empty, `.` or `..`, no
/// backslash, no control character, no final `/` but the root's. Unicode is kept byte for byte.
/// *Units*: at most [`SpacePath::MAX_BYTES`] bytes of UTF-8, as given and as it stands here, each
/// component at most [`SpacePath::MAX_COMPONENT_BYTES`]. *Source*: MCP-025 to MCP-028, AUTH-038.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpacePath(String);

/// Why a text is not a space path. It never repeats the text, which may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Nothing was given.
    #[error("is empty; use `/` for the root of the space")]
    Empty,
    /// NUL or another control character, C1 included.
    #[error("contains a control character")]
    Control,
    /// More than [`SpacePath::MAX_BYTES`] bytes.
    #[error("is longer than 4096 bytes")]
    TooLong,
    /// A component of more than [`SpacePath::MAX_COMPONENT_BYTES`] bytes.
    #[error("has a component longer than 255 bytes")]
    ComponentTooLong,
    /// A backslash anywhere.
    #[error("contains a backslash; separate components with `/`")]
    Backslash,
    /// A first component such as `C:`.
    #[error("begins with a drive prefix; name the file from the root of the space, with `/`")]
    Drive,
    /// A leading `/` where a path must be relative.
    #[error("begins with `/`; name the file from the root of the space, without one")]
    Absolute,
    /// `..` past the root.
    #[error("leads out of the space with `..`")]
    AboveRoot,
    /// A component that begins with [`RESERVED_PREFIX`].
    #[error("uses the reserved prefix `.stile-`")]
    Reserved,
}

impl SpacePath {
    /// The longest path text that is accepted, in bytes.
    pub const MAX_BYTES: usize = 4096;
    /// The longest component that is accepted, in bytes.
    pub const MAX_COMPONENT_BYTES: usize = 255;

    /// The root of the space.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Parses a path as a caller gives it. The only way in.
    ///
    /// # Errors
    /// [`BadPath`], in the order in which its variants are checked.
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
            } else {
                kept.push(part);
            }
        }
        // `x/../C:/y` must not smuggle a drive into first place.
        if kept.first().is_some_and(|part| is_drive(part)) {
            return Err(BadPath::Drive);
        }
        let canonical = format!("/{}", kept.join("/"));
        // The slash in front may be one byte more than was given, and what is answered must parse
        // again.
        if canonical.len() > Self::MAX_BYTES {
            return Err(BadPath::TooLong);
        }
        Ok(Self(canonical))
    }

    /// The path of a direct child, or `None` where no path can express that name.
    pub fn child(&self, name: &str) -> Option<Self> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return None;
        }
        let text = if self.is_root() { format!("/{name}") } else { format!("{}/{name}", self.0) };
        Self::parse(&text).ok()
    }

    /// Whether [`SpacePath::child`] would be a path, without making it: a listing asks this of
    /// every name.
    pub fn can_hold(&self, name: &str) -> bool {
        let length = self.0.len() + name.len() + usize::from(!self.is_root());
        !name.is_empty()
            && name != "."
            && name != ".."
            && name.len() <= Self::MAX_COMPONENT_BYTES
            && length <= Self::MAX_BYTES
            && !name.starts_with(RESERVED_PREFIX)
            && !(self.is_root() && is_drive(name))
            && if name.is_ascii() {
                !name.bytes().any(|byte| byte.is_ascii_control() || byte == b'/' || byte == b'\\')
            } else {
                !name.chars().any(|character| {
                    character.is_control() || character == '/' || character == '\\'
                })
            }
    }

    /// The canonical text, beginning with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root of the space.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The components from the root down; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The folder that holds it and its name in there; `None` for the root.
    pub fn split(&self) -> Option<(Self, &str)> {
        if self.is_root() {
            return None;
        }
        let (folder, name) = self.0.rsplit_once('/')?;
        Some((if folder.is_empty() { Self::root() } else { Self(folder.to_owned()) }, name))
    }

    /// By whole components: `/notes` covers itself and `/notes/a.md`, but not `/notes-old/a.md`.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is_root() {
            return true;
        }
        match other.0.strip_prefix(&self.0) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// Whether `other` is a direct child of this directory.
    pub fn is_parent_of(&self, other: &Self) -> bool {
        other.split().is_some_and(|(folder, _)| folder == *self)
    }
}

/// `C:` and `c:anything` mean a drive on one platform, so they mean nothing here.
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

impl JsonSchema for SpacePath {
    fn schema_name() -> Cow<'static, str> {
        "SpacePath".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": 4096 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<String, BadPath> {
        SpacePath::parse(text).map(String::from)
    }

    #[test]
    fn a_leading_slash_changes_nothing() {
        assert_eq!(parsed("notes/a.md"), parsed("/notes/a.md"));
        assert_eq!(parsed("notes//./a.md/"), Ok("/notes/a.md".into()));
        assert_eq!(parsed("/"), Ok("/".into()));
        assert_eq!(parsed("."), Ok("/".into()));
    }

    #[test]
    fn dots_are_resolved_and_never_past_the_root() {
        assert_eq!(parsed("a/../b"), Ok("/b".into()));
        assert_eq!(parsed("a/.."), Ok("/".into()));
        assert_eq!(parsed(".."), Err(BadPath::AboveRoot));
        assert_eq!(parsed("a/../../a"), Err(BadPath::AboveRoot));
        assert_eq!(parsed("/../etc/passwd"), Err(BadPath::AboveRoot));
        assert_eq!(parsed("a/..."), Ok("/a/...".into()));
    }

    #[test]
    fn what_is_not_a_posix_path_of_the_space_is_refused() {
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
    fn cover_goes_by_whole_components() {
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

    /// The slow, obvious reading of the contract's table.
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

    proptest! {
        #[test]
        fn what_a_folder_can_hold_is_what_makes_a_child(
            folder in prop_oneof![Just("/".to_owned()), Just("/a".to_owned()), Just("/b".repeat(2046)), Just(format!("/{}", "c/".repeat(2040)))],
            name in prop_oneof!["(/|\\.|\\.\\.|a|C:|\\\\|é|\\.stile-|\u{1}|\u{85}){0,4}", "\\PC{0,12}", "x{250,260}"],
        ) {
            let folder = SpacePath::parse(&folder).unwrap();
            prop_assert_eq!(folder.can_hold(&name), folder.child(&name).is_some());
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
                    prop_assert_eq!(path.components().map(str::to_owned).collect::<Vec<_>>(), parts);
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
