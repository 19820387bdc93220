//! The names of fields, as far as a name says what a field holds.

use std::borrow::Cow;

/// Returns the letters and digits of a name in lower case, so that `Partner Name`, `partner_name`
/// and `partnerName` are one: `partnername`.
pub fn plain(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Cow::Borrowed(name);
    }
    let letters = name.chars().filter(|character| character.is_alphanumeric());
    Cow::Owned(letters.flat_map(char::to_lowercase).collect())
}

/// Returns the place of a name in a list of plain names with spaces between them.
pub fn rank(name: &str, names: &str) -> Option<usize> {
    let own = plain(name);
    names.split_whitespace().position(|known| known == own)
}
