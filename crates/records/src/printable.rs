//! Names from outside, made fit for one line of a terminal or of an error message.

/// Returns the first 64 characters of a name, with `?` in place of each control character.
pub(crate) fn printable(name: &str) -> String {
    const MAX_CHARS: usize = 64;
    let visible = |character: char| if character.is_control() { '?' } else { character };
    name.chars().take(MAX_CHARS).map(visible).collect()
}
