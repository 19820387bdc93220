//! Pages of a directory listing, and the `list://` URIs that request them.
//!
//! Everything after `list://` is the path. Clients differ in the characters that they escape and in
//! the number of slashes. So [`parse_uri`] splits a URI by hand, percent-decodes once, and parses
//! the result like any other path. [`uri`] and [`next_page_uri`] always write `list:///` and
//! percent-encode every segment, which no URL parser changes.

use serde::Serialize;

use crate::hash::ContentHash;
use crate::path::{BadPath, SpacePath};
use crate::percent;

/// The file type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory. Directories come first in a listing.
    Directory,
    /// A regular file, which the file tools can read.
    File,
    /// A symbolic link. Stile never follows links.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl EntryKind {
    /// Returns the word for the file type in answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

/// One child of a listed directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListEntry {
    /// The name in the directory.
    pub name: String,
    /// The file type of the entry.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The size of a regular file, in bytes; absent for every other type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The hash of a regular file; absent where only a read of the file could tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<ContentHash>,
}

/// The position of an entry in a listing: directories first, then by name in code-point order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    is_file: bool,
    name: String,
}

impl ListPosition {
    /// Returns the position of an entry.
    pub fn new(kind: EntryKind, name: &str) -> Self {
        // UTF-8 sorts by bytes as Unicode sorts by code points.
        Self { is_file: kind != EntryKind::Directory, name: name.to_owned() }
    }

    /// Whether an entry comes after this position. Agrees with [`Ord`], without an allocation.
    pub fn is_before(&self, kind: EntryKind, name: &str) -> bool {
        (self.is_file, self.name.as_str()) < (kind != EntryKind::Directory, name)
    }
}

/// One page of a directory: the answer of `resources/read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListPage {
    /// The canonical path of the directory.
    pub path: SpacePath,
    /// The children, at most [`crate::limits::MAX_LIST_ENTRIES`].
    pub entries: Vec<ListEntry>,
    /// How many entries of the whole directory no page shows, since no path can hold their names;
    /// absent for 0. Counts only for a caller who may see the whole directory.
    #[serde(skip_serializing_if = "is_zero")]
    pub unnameable_entries: u64,
    /// Whether more entries follow this page.
    pub truncated: bool,
    /// The URI of the next page; absent for the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_uri: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The scheme of every listing URI.
pub const SCHEME: &str = "list://";
const AFTER: &str = "?after=";

/// Returns the URI of the first page of a directory.
pub fn uri(path: &SpacePath) -> String {
    format!("{SCHEME}/{}", encoded(path))
}

/// Writes a path as it stands in a URI: every segment percent-encoded, without a `/` in front.
pub(crate) fn encoded(path: &SpacePath) -> String {
    let segments: Vec<String> = path.components().map(percent::encode_component).collect();
    segments.join("/")
}

/// Parses a path as it stands in a URI, with or without a `/` in front.
pub(crate) fn decoded(text: &str) -> Result<SpacePath, BadUriPath> {
    let path = percent::decode(text).ok_or(BadUriPath::Encoding)?;
    Ok(if path.is_empty() { SpacePath::root() } else { SpacePath::parse(&path)? })
}

/// Returns the URI of the page after the entry at `last`.
pub fn next_page_uri(path: &SpacePath, last: &ListPosition) -> String {
    let mark = if last.is_file { 'f' } else { 'd' };
    format!("{}{AFTER}{mark}.{}", uri(path), percent::encode_component(&last.name))
}

/// A requested page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The directory to list.
    pub path: SpacePath,
    /// The position after which the page begins; `None` for the first page.
    pub after: Option<ListPosition>,
}

/// Why a text is not a listing URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadListUri {
    /// The URI has another scheme, so it names another resource.
    #[error("is not a `list://` URI")]
    Scheme,
    /// The URI has no space path.
    #[error(transparent)]
    Path(#[from] BadUriPath),
    /// The text after `?after=` does not come from [`next_page_uri`].
    #[error("continues after an entry that `next_uri` never names")]
    After,
}

/// Why the path in a URI is not a space path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUriPath {
    /// A percent-escape is malformed, or the decoded path is not UTF-8.
    #[error("is not percent-encoded UTF-8")]
    Encoding,
    /// The decoded path is not a space path.
    #[error(transparent)]
    Path(#[from] BadPath),
}

/// Parses a listing URI.
///
/// # Errors
/// Every [`BadListUri`].
pub fn parse_uri(uri: &str) -> Result<ListRequest, BadListUri> {
    let rest = uri.strip_prefix(SCHEME).ok_or(BadListUri::Scheme)?;
    let (path, after) = match rest.rsplit_once(AFTER) {
        Some((path, after)) => (path, Some(after)),
        None => (rest, None),
    };
    let path = decoded(path)?;
    let after = after
        .map(|after| {
            let (mark, name) = after.split_once('.').ok_or(BadListUri::After)?;
            let is_file = match mark {
                "d" => false,
                "f" => true,
                _ => return Err(BadListUri::After),
            };
            let name = percent::decode(name)
                .filter(|name| path.child(name).is_some())
                .ok_or(BadListUri::After)?;
            Ok(ListPosition { is_file, name })
        })
        .transpose()?;
    Ok(ListRequest { path, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(uri: &str) -> Result<String, BadListUri> {
        parse_uri(uri).map(|request| request.path.to_string())
    }

    #[test]
    fn every_spelling_of_a_uri_names_the_same_path() {
        let bad = |why: BadPath| Err(BadListUri::Path(why.into()));
        assert_eq!(path("list://"), Ok("/".into()));
        assert_eq!(path("list:///"), Ok("/".into()));
        assert_eq!(path("list://a/b"), Ok("/a/b".into()));
        assert_eq!(path("list:///a/b/"), Ok("/a/b".into()));
        assert_eq!(path("list://a%2Fb"), Ok("/a/b".into()));
        assert_eq!(path("list:///My Folder/%C3%A9"), Ok("/My Folder/é".into()));
        assert_eq!(path("list:///a?b#c"), Ok("/a?b#c".into()));
        assert_eq!(path("list:///a%252e"), Ok("/a%2e".into()));
        assert_eq!(path("list:///a/%2e%2e/%2e%2e"), bad(BadPath::AboveRoot));
        assert_eq!(path("list:///a%00"), bad(BadPath::Control));
        assert_eq!(path("list:///%ff"), Err(BadListUri::Path(BadUriPath::Encoding)));
        assert_eq!(path("list:///%4"), Err(BadListUri::Path(BadUriPath::Encoding)));
        assert_eq!(path("file:///etc"), Err(BadListUri::Scheme));
        assert_eq!(parse_uri("list:///a?after=x"), Err(BadListUri::After));
        assert_eq!(parse_uri("list:///a?after=f.a%2Fb"), Err(BadListUri::After));
    }

    fn kind(is_directory: bool) -> EntryKind {
        if is_directory { EntryKind::Directory } else { EntryKind::File }
    }

    proptest! {
        #[test]
        fn a_position_is_before_every_entry_that_sorts_after_it(
            one in "\\PC{0,3}", other in "\\PC{0,3}", kinds in 0..4
        ) {
            let (first, second) = (kind(kinds & 1 == 0), kind(kinds & 2 == 0));
            let position = ListPosition::new(first, &one);
            let expected = position < ListPosition::new(second, &other);
            prop_assert_eq!(position.is_before(second, &other), expected);
        }

        #[test]
        fn parsing_undoes_formatting_of_a_uri(
            parts in proptest::collection::vec("\\PC{1,6}", 0..4),
            name in "\\PC{1,8}",
            is_directory in any::<bool>(),
        ) {
            if let Ok(path) = SpacePath::parse(&format!("/{}", parts.join("/"))) {
                let first = ListRequest { path: path.clone(), after: None };
                prop_assert_eq!(parse_uri(&uri(&path)).unwrap(), first);
                if path.child(&name).is_some() {
                    let after = ListPosition::new(kind(is_directory), &name);
                    let link = next_page_uri(&path, &after);
                    prop_assert!(link.is_ascii());
                    let next = ListRequest { path, after: Some(after) };
                    prop_assert_eq!(parse_uri(&link).unwrap(), next);
                }
            }
        }
    }
}
