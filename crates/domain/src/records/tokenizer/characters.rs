//! What a character does to the token beside it.
//!
//! Letters and numbers are as the standard library knows them, marks as the normalization tables
//! do. The scripts that are written without spaces, and emoji, are whole blocks of Unicode 17 here,
//! unassigned places included: what is not there yet will be of the same kind.

use unicode_normalization::char::is_combining_mark;

/// What a character does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It belongs to the token of its neighbours.
    Joins,
    /// It is a token by itself.
    Alone,
    /// It has no meaning inside a token and does not end it.
    Ignored,
    /// It ends a token.
    Separates,
}

impl Class {
    /// That of one character.
    pub(super) fn of(one: char) -> Self {
        if one.is_ascii() {
            return if one.is_ascii_alphanumeric() { Self::Joins } else { Self::Separates };
        }
        if is_emoji(one) {
            return Self::Alone;
        }
        if one.is_alphanumeric() || is_combining_mark(one) {
            return if is_unspaced(one) { Self::Alone } else { Self::Joins };
        }
        // Soft hyphen, joiners, word joiner, and the mark of byte order.
        match one {
            '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => Self::Ignored,
            _ => Self::Separates,
        }
    }
}

fn is_emoji(one: char) -> bool {
    matches!(one, '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

fn is_unspaced(one: char) -> bool {
    matches!(one,
        // Thai and Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        // Radicals, what stands for an ideograph, kana, Bopomofo, ideographs.
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3031}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

/// An ideograph that is only another spelling of one, and decomposes to it.
pub(super) fn is_compatibility_ideograph(one: char) -> bool {
    matches!(one, '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

/// The marks that make another kana of one.
pub(super) fn is_voicing(one: char) -> bool {
    matches!(one, '\u{3099}' | '\u{309a}')
}

/// A mark that a reader may leave out: those for Latin, Greek and Cyrillic, and variation
/// selectors. The vowels and points of other scripts stay.
pub(super) fn is_diacritic(one: char) -> bool {
    matches!(one,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{e0100}'..='\u{e01ef}')
}
