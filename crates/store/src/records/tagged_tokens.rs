//! Tokens as the index has them: each behind the tag of its stream and field.
//!
//! The index of SQLite takes them as they are, since its tokenizer only splits at spaces.

/// The character between a tag and its token. No token contains this control character, and FTS5
/// takes it for a letter.
const TAG_END: char = '\u{80}';

/// Returns what precedes each token of a tagged field in the index.
pub(super) fn tag_prefix(tag: i64) -> String {
    format!("{tag}{TAG_END}")
}

/// The tokens of some texts, in order. The tags of the texts differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaggedTokens(String);

impl TaggedTokens {
    /// Makes room for the tokens of a text of so many bytes, with a prefix of usual length.
    pub(super) fn reserve(&mut self, text_bytes: usize) {
        self.0.reserve(2 * text_bytes);
    }

    /// Appends a token, with the prefix that [`tag_prefix`] returns.
    pub(super) fn push(&mut self, prefix: &str, token: &str) {
        for part in [prefix, token, " "] {
            self.0.push_str(part);
        }
    }

    /// Returns the tokens with their prefixes, and a space behind each.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes each tag and token to `take`, in order.
    pub(super) fn each<'t>(&'t self, mut take: impl FnMut(i64, &'t str)) {
        for tagged in self.0.split_terminator(' ') {
            if let Some((tag, token)) = tagged.split_once(TAG_END)
                && let Ok(tag) = tag.parse()
            {
                take(tag, token);
            }
        }
    }
}
