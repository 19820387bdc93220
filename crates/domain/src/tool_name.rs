//! How the names of tools are spelled to a caller.
//!
//! A tool's canonical name is a noun, a dot and a verb, such as `text.read`, or a name without a
//! dot, such as `search`. The interfaces of most models refuse dots, so most callers are shown
//! `text_read`. The program respells its own sentences before it puts anything into them, so that
//! nothing that a caller, a file or a note says is ever changed.

use std::borrow::Cow;

/// What the tools with a dot in their names work on, as the first half of the name says.
const NOUNS: [&str; 4] = ["file", "folder", "note", "text"];

/// How tool lists, and all texts that name a tool, spell the names for one caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// `text.read`, the canonical name.
    Dotted,
    /// `text_read`, which the interface of every model takes.
    #[default]
    Underscored,
}

impl Spelling {
    /// Returns the name of a tool in this spelling.
    pub fn name(self, canonical: &str) -> Cow<'_, str> {
        match self {
            Self::Dotted => canonical.into(),
            Self::Underscored => canonical.replace('.', "_").into(),
        }
    }

    /// Returns a sentence of the program with the tools that it names in this spelling. The
    /// sentence has canonical names between backticks. It is `'static`, and so holds no content.
    pub fn sentence(self, sentence: &'static str) -> Cow<'static, str> {
        self.declaration(sentence)
    }

    /// Returns the description of a tool, an argument or a resource, which the program itself
    /// declares, with the tools that it names in this spelling.
    ///
    /// Never for a text that may hold content.
    pub fn declaration(self, description: &str) -> Cow<'_, str> {
        if self == Self::Dotted || !quoted(description).any(is_dotted_name) {
            return description.into();
        }
        let mut respelled = String::with_capacity(description.len());
        for (index, part) in description.split('`').enumerate() {
            if index > 0 {
                respelled.push('`');
            }
            let is_name = index % 2 == 1 && is_dotted_name(part);
            respelled.push_str(&if is_name { self.name(part) } else { part.into() });
        }
        respelled.into()
    }
}

/// Returns the parts of a text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns whether a text has the form of a canonical name with a dot.
pub fn is_dotted_name(text: &str) -> bool {
    text.split_once('.').is_some_and(|(noun, verb)| {
        let is_word = !verb.is_empty() && verb.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        NOUNS.contains(&noun) && is_word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_backticks_are_respelled_and_nothing_else() {
        let sentence = "Call `text.read`, or `file.list` on `/text.read`; text.read `a.md` `fetch`";
        assert_eq!(
            Spelling::Underscored.sentence(sentence),
            "Call `text_read`, or `file_list` on `/text.read`; text.read `a.md` `fetch`"
        );
        assert_eq!(Spelling::Dotted.sentence(sentence), sentence);
    }

    #[test]
    fn a_name_is_spelled_with_or_without_its_dot() {
        assert_eq!(Spelling::Dotted.name("note.set_property"), "note.set_property");
        assert_eq!(Spelling::Underscored.name("note.set_property"), "note_set_property");
        assert_eq!(Spelling::Underscored.name("read_record_field"), "read_record_field");
        assert_eq!(Spelling::default(), Spelling::Underscored);
    }
}
