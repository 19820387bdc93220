//! What a caller says of the text that it writes into a file, by which the store encodes it.

use stile_domain::text_encoding::TextEncoding;

/// What a caller says of the text that an edit writes into a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewText {
    /// The encoding of the file, if the caller states it.
    pub encoding: Option<TextEncoding>,
    /// Whether all that is written is ASCII, which is the same bytes if a guess is wrong.
    pub is_ascii: bool,
}
