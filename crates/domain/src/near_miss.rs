//! What keeps a text from being found that a reader would take for the same: a line break at the
//! end of a file, or a space of another kind.

use std::ops::Range;

use crate::lines::without_final_terminator;

/// Why a text does not occur that seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearMiss {
    /// The text ends in a line break, and the file would contain it without that.
    FinalBreak,
    /// The text would occur if all spaces were alike.
    Space {
        /// The line of the file with the space that differs, from 1.
        line: u64,
        /// The character of the file.
        found: char,
        /// The character of the text.
        sought: char,
    },
}

impl NearMiss {
    /// Finds out why `old` does not occur in a range of a text.
    pub(crate) fn find(text: &str, bounds: Range<usize>, old: &str) -> Option<Self> {
        let searched = text.get(bounds.clone())?;
        let bare = without_final_terminator(old);
        if bare.len() < old.len() && !bare.is_empty() && searched.ends_with(bare) {
            return Some(Self::FinalBreak);
        }
        if !old.chars().chain(searched.chars()).any(is_odd_space) {
            return None;
        }
        let alike = |text: &str| -> String {
            text.chars().map(|one| if is_odd_space(one) { ' ' } else { one }).collect()
        };
        let (alike_text, alike_old) = (alike(searched), alike(bare));
        let at = alike_text.find(&alike_old).filter(|_| !bare.is_empty())?;
        // Both texts have the same number of characters, and other numbers of bytes.
        let before = alike_text.get(..at)?.chars().count();
        let found = searched.chars().skip(before).zip(bare.chars());
        let (index, (found, sought)) =
            found.enumerate().find(|(_, (found, sought))| found != sought)?;
        let start = text.get(..bounds.start)?.chars();
        let lines = start.chain(searched.chars().take(before + index)).filter(|one| *one == '\n');
        Some(Self::Space { line: lines.count() as u64 + 1, found, sought })
    }

    /// Returns the advice for the argument `argument`, as a sentence.
    pub fn advice(self, argument: &str) -> String {
        match self {
            Self::FinalBreak => format!(
                "The file ends without a line break: leave out the one at the end of `{argument}`."
            ),
            Self::Space { line, found, sought } => format!(
                "Line {line} has {} where `{argument}` has {}.",
                name_of(found),
                name_of(sought)
            ),
        }
    }
}

/// Whether a character looks like a space, or like nothing, and is not the usual space.
fn is_odd_space(character: char) -> bool {
    character != ' '
        && !character.is_control()
        && (character.is_whitespace() || matches!(character, '\u{2060}' | '\u{feff}'))
}

/// Names a space.
fn name_of(character: char) -> String {
    let name = match character {
        ' ' => return "an ordinary space (U+0020)".to_owned(),
        '\u{a0}' => "a no-break space",
        '\u{202f}' => "a narrow no-break space",
        '\u{2060}' | '\u{feff}' => "an invisible no-break character",
        _ => "another kind of space",
    };
    format!("{name} (U+{:04X})", u32::from(character))
}
