//! What a directory holds, a page at a time, and the `list://` URIs that ask for it.
//!
//! Everything after `list://` is the path: clients differ in what they escape and how many slashes
//! they write, so a URI is taken apart by hand, percent-decoded once and then parsed like any path.
//! Links made here are always `list:///` with every segment percent-encoded, which no URL parser
//! changes.

use schemars::JsonSchema;
use serde::Serialize;

use crate::hash::ContentHash;
use crate::path::{BadPath, SpacePath};
use crate::percent;

/// What kind of thing an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory; these come first.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, which is never followed.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// One child of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListEntry {
    /// Its name in the directory.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The size of a regular file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The hash of a regular file, where it is known without reading the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<ContentHash>,
}

/// The place of an entry in the order of a listing: directories first, then by name in code-point
/// order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    is_file: bool,
    name: String,
}

impl ListPosition {
    /// Where an entry stands.
    pub fn new(kind: EntryKind, name: &str) -> Self {
        // UTF-8 sorts by bytes as Unicode sorts by code points.
        Self { is_file: kind != EntryKind::Directory, name: name.to_owned() }
    }

    /// Whether an entry comes after this place; what [`Ord`] says of [`ListPosition::new`] it.
    pub fn is_before(&self, kind: EntryKind, name: &str) -> bool {
        (self.is_file, self.name.as_str()) < (kind != EntryKind::Directory, name)
    }
}

/// A page of a directory, as `resources/read` answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListPage {
    /// The canonical path of the directory.
    pub path: SpacePath,
    /// At most [`crate::limits::MAX_LIST_ENTRIES`] immediate children.
    pub entries: Vec<ListEntry>,
    /// Whether there are more.
    pub truncated: bool,
    /// Where they continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_uri: Option<String>,
}

/// The scheme with which every listing URI begins.
pub const SCHEME: &str = "list://";
const AFTER: &str = "?after=";

/// The URI of a directory's first page.
pub fn uri(path: &SpacePath) -> String {
    let segments: Vec<String> = path.components().map(percent::encode_component).collect();
    format!("{SCHEME}/{}", segments.join("/"))
}

/// The URI of the page that follows an entry.
pub fn next_page_uri(path: &SpacePath, last: &ListPosition) -> String {
    let mark = if last.is_file { 'f' } else { 'd' };
    format!("{}{AFTER}{mark}.{}", uri(path), percent::encode_component(&last.name))
}

/// A listing that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Which directory.
    pub path: SpacePath,
    /// Only what comes after this place.
    pub after: Option<ListPosition>,
}

/// Why a URI asks for no listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadListUri {
    /// Another scheme: not this resource at all.
    #[error("is not a `list://` URI")]
    Scheme,
    /// An escape that is none, or decodes to something that is not UTF-8.
    #[error("is not percent-encoded UTF-8")]
    Encoding,
    /// The decoded path is no space path.
    #[error(transparent)]
    Path(#[from] BadPath),
    /// What follows `?after=` was not made here.
    #[error("continues after an entry that `next_uri` never names")]
    After,
}

/// Reads a listing URI.
///
/// # Errors
/// [`BadListUri`].
pub fn parse_uri(uri: &str) -> Result<ListRequest, BadListUri> {
    let rest = uri.strip_prefix(SCHEME).ok_or(BadListUri::Scheme)?;
    let (path, after) = match rest.rsplit_once(AFTER) {
        Some((path, after)) => (path, Some(after)),
        None => (rest, None),
    };
    let path = percent::decode(path).ok_or(BadListUri::Encoding)?;
    let path = if path.is_empty() { SpacePath::root() } else { SpacePath::parse(&path)? };
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
    fn clients_may_write_a_uri_in_their_own_ways() {
        assert_eq!(path("list://"), Ok("/".into()));
        assert_eq!(path("list:///"), Ok("/".into()));
        assert_eq!(path("list://a/b"), Ok("/a/b".into()));
        assert_eq!(path("list:///a/b/"), Ok("/a/b".into()));
        assert_eq!(path("list://a%2Fb"), Ok("/a/b".into()));
        assert_eq!(path("list:///My Folder/%C3%A9"), Ok("/My Folder/é".into()));
        assert_eq!(path("list:///a?b#c"), Ok("/a?b#c".into()));
        assert_eq!(path("list:///a%252e"), Ok("/a%2e".into()));
        assert_eq!(path("list:///a/%2e%2e/%2e%2e"), Err(BadListUri::Path(BadPath::AboveRoot)));
        assert_eq!(path("list:///a%00"), Err(BadListUri::Path(BadPath::Control)));
        assert_eq!(path("list:///%ff"), Err(BadListUri::Encoding));
        assert_eq!(path("list:///%4"), Err(BadListUri::Encoding));
        assert_eq!(path("file:///etc"), Err(BadListUri::Scheme));
        assert_eq!(parse_uri("list:///a?after=x"), Err(BadListUri::After));
        assert_eq!(parse_uri("list:///a?after=f.a%2Fb"), Err(BadListUri::After));
    }

    proptest! {
        #[test]
        fn a_place_is_before_what_sorts_after_it(one in "\\PC{0,3}", other in "\\PC{0,3}", kinds in 0..4) {
            let kind = |is_directory| if is_directory { EntryKind::Directory } else { EntryKind::File };
            let (first, second) = (kind(kinds & 1 == 0), kind(kinds & 2 == 0));
            let place = ListPosition::new(first, &one);
            prop_assert_eq!(place.is_before(second, &other), place < ListPosition::new(second, &other));
        }

        #[test]
        fn reading_a_link_gives_what_it_was_made_from(
            parts in proptest::collection::vec("\\PC{1,6}", 0..4), name in "\\PC{1,8}", is_directory in any::<bool>()
        ) {
            if let Ok(path) = SpacePath::parse(&format!("/{}", parts.join("/"))) {
                prop_assert_eq!(parse_uri(&uri(&path)).unwrap(), ListRequest { path: path.clone(), after: None });
                if path.child(&name).is_some() {
                    let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
                    let after = ListPosition::new(kind, &name);
                    let link = next_page_uri(&path, &after);
                    prop_assert!(link.is_ascii());
                    prop_assert_eq!(parse_uri(&link).unwrap(), ListRequest { path, after: Some(after) });
                }
            }
        }
    }
}
