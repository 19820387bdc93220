//! Cursors with which the next call of a walk goes on where the last one stopped.
//!
//! A cursor names the last path that was looked at, so a file that came or went in between shifts
//! nothing: each file that was there throughout is visited exactly once. A cursor is bound to the
//! query by a digest. It gives no access, since every path is authorized again.

use serde::{Deserialize, Serialize};

use crate::base64;
use crate::hash::ContentHash;
use crate::path::SpacePath;

/// The last path that a walk has looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkPosition {
    /// Where the part of the walk began that the path is in.
    #[serde(rename = "s")]
    pub start: SpacePath,
    /// The path, at or below `start`.
    #[serde(rename = "p")]
    pub path: SpacePath,
    /// Whether a folder had this path.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_folder: bool,
}

impl WalkPosition {
    /// Whether a walk in the order of names looks at `self` after `other`.
    pub fn is_after(&self, other: &Self) -> bool {
        let by_start = self.start.cmp(&other.start);
        by_start.then_with(|| self.path.components().cmp(other.path.components())).is_gt()
    }

    /// Whether the position is in a walk of `folder`, as all are that a server wrote.
    pub fn is_below(&self, folder: &SpacePath) -> bool {
        folder.covers(&self.start) && self.start.covers(&self.path)
    }
}

/// A match by its rank: the better score first, then by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchRank {
    /// How well the file fits; more is better.
    #[serde(rename = "r")]
    pub score: u64,
    /// The path of the match.
    #[serde(rename = "p")]
    pub path: SpacePath,
}

impl MatchRank {
    /// Whether this match is shown before `other`.
    pub fn is_before(&self, other: &Self) -> bool {
        (other.score, &self.path) < (self.score, &other.path)
    }
}

/// Where a walk goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkCursor {
    /// The last path that was looked at, all of it unless `line` says otherwise; `None` at the
    /// beginning of the walk.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<WalkPosition>,
    /// The last line of the file at `after` that was shown; 0 if the file is done.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub line: u64,
    /// Where the part of the walk ends whose matches are shown best first.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<WalkPosition>,
    /// The last match of that part that was shown.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<MatchRank>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a text is not the cursor of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWalkCursor {
    /// The text is not a cursor of this server, or was changed on the way.
    #[error("`cursor` must be a `next_cursor` of this tool, exactly as it was returned")]
    Malformed,
    /// The cursor belongs to other arguments.
    #[error("`cursor` must be sent with the same other arguments as in the call that returned it")]
    Mismatch,
}

const VERSION: u8 = 1;
const DIGEST_BYTES: usize = 8;
const CHECK_BYTES: usize = 8;
/// The longest cursor, in characters: three paths of 4,096 bytes, escaped and encoded.
pub const MAX_WALK_CURSOR_CHARS: usize = 64 * 1024;

impl WalkCursor {
    /// Returns the text that a caller sends back. `query` is all that the walk looks for, in any
    /// form that is the same for the same arguments.
    pub fn encode(&self, query: &str) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(digest::<DIGEST_BYTES>(query.as_bytes()));
        bytes.extend(serde_json::to_vec(self).unwrap_or_default());
        let check = digest::<CHECK_BYTES>(&bytes);
        bytes.extend(check);
        base64::url_safe(bytes)
    }

    /// Parses the text that [`WalkCursor::encode`] returned for the same query.
    ///
    /// # Errors
    /// Every [`BadWalkCursor`].
    pub fn decode(text: &str, query: &str) -> Result<Self, BadWalkCursor> {
        use BadWalkCursor::{Malformed, Mismatch};
        if text.len() > MAX_WALK_CURSOR_CHARS {
            return Err(Malformed);
        }
        let bytes = base64::from_url_safe(text).ok_or(Malformed)?;
        let body = bytes.len().checked_sub(CHECK_BYTES).ok_or(Malformed)?;
        let (body, check) = bytes.split_at_checked(body).ok_or(Malformed)?;
        if check != digest::<CHECK_BYTES>(body) {
            return Err(Malformed);
        }
        let (VERSION, rest) =
            body.split_first().map(|(first, rest)| (*first, rest)).ok_or(Malformed)?
        else {
            return Err(Malformed);
        };
        let (bound, json) = rest.split_at_checked(DIGEST_BYTES).ok_or(Malformed)?;
        if bound != digest::<DIGEST_BYTES>(query.as_bytes()) {
            return Err(Mismatch);
        }
        serde_json::from_slice(json).map_err(|_| Malformed)
    }
}

fn digest<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.iter_mut().zip(ContentHash::digest(bytes).as_bytes()).for_each(|(to, from)| *to = *from);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path() -> impl Strategy<Value = SpacePath> {
        "(/[a-c\"é]{1,3}){0,3}".prop_filter_map("a path", |text| {
            SpacePath::parse(if text.is_empty() { "/" } else { &text }).ok()
        })
    }

    fn position() -> impl Strategy<Value = WalkPosition> {
        (path(), path(), any::<bool>()).prop_map(|(start, path, is_folder)| WalkPosition {
            start,
            path,
            is_folder,
        })
    }

    fn cursor() -> impl Strategy<Value = WalkCursor> {
        let rank = (any::<u64>(), path()).prop_map(|(score, path)| MatchRank { score, path });
        use proptest::option::of;
        (of(position()), 0u64..3, of(position()), of(rank))
            .prop_map(|(after, line, until, rank)| WalkCursor { after, line, until, rank })
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(cursor in cursor(), query in "\\PC{0,5}") {
            let text = cursor.encode(&query);
            prop_assert_eq!(WalkCursor::decode(&text, &query), Ok(cursor));
            let other = WalkCursor::decode(&text, &format!("{query}x"));
            prop_assert_eq!(other, Err(BadWalkCursor::Mismatch));
        }

        #[test]
        fn a_cursor_with_a_changed_character_is_malformed(
            cursor in cursor(), at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_-]"
        ) {
            let text = cursor.encode("q");
            let at = at.index(text.len());
            let mut changed = text.clone();
            changed.replace_range(at..=at, &to);
            if changed != text {
                prop_assert_eq!(WalkCursor::decode(&changed, "q"), Err(BadWalkCursor::Malformed));
            }
        }

        #[test]
        fn arbitrary_text_is_malformed_and_never_panics(text in "\\PC{0,140}") {
            prop_assert_eq!(WalkCursor::decode(&text, ""), Err(BadWalkCursor::Malformed));
        }

        #[test]
        fn ranks_are_ordered_by_score_and_then_by_path(
            one in (0u64..3, path()), other in (0u64..3, path())
        ) {
            let rank = |(score, path): &(u64, SpacePath)| {
                MatchRank { score: *score, path: path.clone() }
            };
            let order = |(score, path): &(u64, SpacePath)| (u64::MAX - score, path.clone());
            let expected = order(&one) < order(&other);
            prop_assert_eq!(rank(&one).is_before(&rank(&other)), expected);
        }
    }
}
