//! Names that some file system takes for one, however they are written.
//!
//! What takes a right away, or guards a name, must hold for every spelling that leads to the same
//! file.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Whether some file system takes two names for one: they differ in case, in how their characters
/// are composed, or in characters that the file system ignores.
///
/// HFS+ ignores the characters of [`is_ignored`], and Windows and SMB servers the dots and spaces
/// at the end of a name. `ß`, `ẞ` and `ss` count as one, since file systems differ about them.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    folded_name(one) == folded_name(other)
}

/// Returns the form of a name that all names have which some file system takes for it.
pub(crate) fn folded_name(name: &str) -> Cow<'_, str> {
    let name = without_ignored_end(name);
    match name.is_ascii() {
        true if !name.bytes().any(|byte| byte.is_ascii_uppercase()) => name.into(),
        true => name.to_ascii_lowercase().into(),
        false => folded(name).into(),
    }
}

/// Returns a name without the dots and spaces at its end; a name of nothing else as it is.
fn without_ignored_end(name: &str) -> &str {
    match name.trim_end_matches(['.', ' ']) {
        "" => name,
        shorter => shorter,
    }
}

/// Folds the case and the composition of a name. `ẞ` has no capital form, and its small form `ß`
/// has the capital form `SS`: so the small form comes first.
fn folded(name: &str) -> String {
    let seen = name.chars().filter(|character| !is_ignored(*character));
    let lower = seen.nfd().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd().collect()
}

/// Whether a file system ignores a character in names: HFS+ does so for the joiners, the marks of
/// direction, and the others of Unicode's `Default_Ignorable_Code_Point`.
fn is_ignored(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
