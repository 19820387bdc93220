//! The `space://` URIs of files, and of the parts in which a long file is read.
//!
//! Everything after `space://` is the path, as in the URIs of [`crate::listing`]. The only query is
//! `?after=` with the cursor at which the last part ended. [`uri`] and [`next_part_uri`] always
//! write `space:///` and percent-encode every segment, which no URL parser changes.

use crate::file_cursor::{BadFileCursor, FileCursor};
use crate::listing::{self, BadUriPath};
use crate::path::SpacePath;

/// The scheme of the URI of every file.
pub const SCHEME: &str = "space://";
const AFTER: &str = "?after=";

/// Returns the URI of a file or folder.
pub fn uri(path: &SpacePath) -> String {
    format!("{SCHEME}/{}", listing::encoded(path))
}

/// Returns the URI of the part of a file that begins at `cursor`.
pub fn next_part_uri(path: &SpacePath, cursor: &FileCursor) -> String {
    format!("{}{AFTER}{}", uri(path), cursor.encode(path))
}

/// A requested part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePartRequest {
    /// The path of the file.
    pub path: SpacePath,
    /// Where the part begins; `None` for the beginning of the file.
    pub after: Option<FileCursor>,
}

/// Why a text is not the URI of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFileUri {
    /// The URI has another scheme, so it names another resource.
    #[error("is not a `space://` URI")]
    Scheme,
    /// The URI has no space path.
    #[error(transparent)]
    Path(#[from] BadUriPath),
    /// The text after `?after=` does not come from [`next_part_uri`] for the same path.
    #[error("continues where no `next_uri` of this file begins")]
    After(#[from] BadFileCursor),
}

/// Parses the URI of a file or of a part of one.
///
/// # Errors
/// Every [`BadFileUri`].
pub fn parse_uri(uri: &str) -> Result<FilePartRequest, BadFileUri> {
    let rest = uri.strip_prefix(SCHEME).ok_or(BadFileUri::Scheme)?;
    let (path, after) = match rest.rsplit_once(AFTER) {
        Some((path, after)) => (path, Some(after)),
        None => (rest, None),
    };
    let path = listing::decoded(path)?;
    let after = after.map(|after| FileCursor::decode(after, &path)).transpose()?;
    Ok(FilePartRequest { path, after })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ContentHash;
    use crate::path::BadPath;
    use proptest::prelude::*;

    fn path(uri: &str) -> Result<String, BadFileUri> {
        parse_uri(uri).map(|request| request.path.to_string())
    }

    #[test]
    fn a_uri_is_decoded_once_and_then_parsed_as_a_path() {
        let bad = |why: BadPath| Err(BadFileUri::Path(why.into()));
        assert_eq!(path("space:///"), Ok("/".into()));
        assert_eq!(path("space://a/b.md"), Ok("/a/b.md".into()));
        assert_eq!(path("space:////a//b.md"), Ok("/a/b.md".into()));
        assert_eq!(path("space:///My Folder/%C3%A9.md"), Ok("/My Folder/é.md".into()));
        assert_eq!(path("space:///a%252e?b#c"), Ok("/a%2e?b#c".into()));
        assert_eq!(path("space:///a/%2e%2e/%2e%2e"), bad(BadPath::AboveRoot));
        assert_eq!(path("space:///a%00"), bad(BadPath::Control));
        assert_eq!(path("space:///%ff"), Err(BadFileUri::Path(BadUriPath::Encoding)));
        assert_eq!(path("list:///a"), Err(BadFileUri::Scheme));
        assert_eq!(path("space:///a?after=x"), Err(BadFileUri::After(BadFileCursor::Malformed)));
    }

    #[test]
    fn the_address_of_a_part_is_good_for_its_own_file_alone() {
        let cursor = FileCursor { hash: ContentHash::digest(b"x"), offset: 7, line: 2, end: 9 };
        let [one, other] = ["/a b.md", "/b.md"].map(|path| SpacePath::parse(path).unwrap());
        let of_one = next_part_uri(&one, &cursor);
        let of_other = of_one.replace("/a%20b.md", "/b.md");
        assert_eq!(parse_uri(&of_one).unwrap().after, Some(cursor));
        assert_eq!(parse_uri(&of_other), Err(BadFileUri::After(BadFileCursor::Mismatch)));
        assert_eq!(parse_uri(&uri(&other)).unwrap().after, None);
    }

    proptest! {
        #[test]
        fn parsing_undoes_formatting_of_a_uri(
            parts in proptest::collection::vec("\\PC{1,6}", 0..4), offset in any::<u64>(),
        ) {
            if let Ok(path) = SpacePath::parse(&format!("/{}", parts.join("/"))) {
                let whole = FilePartRequest { path: path.clone(), after: None };
                prop_assert_eq!(parse_uri(&uri(&path)).unwrap(), whole);
                let cursor =
                    FileCursor { hash: ContentHash::digest(b""), offset, line: 1, end: 1 };
                let link = next_part_uri(&path, &cursor);
                prop_assert!(link.is_ascii());
                let next = FilePartRequest { path, after: Some(cursor) };
                prop_assert_eq!(parse_uri(&link).unwrap(), next);
            }
        }
    }
}
