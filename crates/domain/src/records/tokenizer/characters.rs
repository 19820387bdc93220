//! How each character affects the token beside it.
//!
//! Letters and numbers are classified by the standard library, marks by the normalization tables.
//! Scripts without spaces, and emoji, are listed as whole blocks of Unicode 17, including
//! unassigned code points, which will be of the same kind once assigned.

use unicode_normalization::char::is_combining_mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterClass {
    /// The character joins the token of its neighbours.
    Joins,
    /// The character is a token by itself.
    Alone,
    /// The character has no meaning inside a token and does not end it.
    Ignored,
    /// The character ends a token.
    Separates,
}

impl CharacterClass {
    pub(super) fn new(one: char) -> Self {
        if one.is_ascii() {
            return if one.is_ascii_alphanumeric() { Self::Joins } else { Self::Separates };
        }
        if is_emoji(one) {
            return Self::Alone;
        }
        if one.is_alphanumeric() || is_combining_mark(one) {
            return if is_unspaced(one) { Self::Alone } else { Self::Joins };
        }
        // Soft hyphen, joiners, word joiner, and the byte order mark.
        match one {
            '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => Self::Ignored,
            _ => Self::Separates,
        }
    }
}

fn is_emoji(one: char) -> bool {
    matches!(one,
        '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character is of a script that has no spaces between words.
pub(crate) fn is_unspaced(one: char) -> bool {
    matches!(one,
        // Thai and Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        // Radicals, ideographic marks, kana, Bopomofo, ideographs.
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}'
        | '\u{3031}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character is an ideograph that decomposes to another one.
pub(super) fn is_compatibility_ideograph(one: char) -> bool {
    matches!(one, '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

/// Whether a character is a mark that changes a kana into another.
pub(super) fn is_voicing(one: char) -> bool {
    matches!(one, '\u{3099}' | '\u{309a}')
}

/// Whether a character is a mark that a reader may omit: the marks of Latin, Greek and Cyrillic,
/// and variation selectors. The vowels and points of other scripts are kept.
pub(super) fn is_diacritic(one: char) -> bool {
    matches!(one,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{e0100}'..='\u{e01ef}')
}
