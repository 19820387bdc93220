//! How the names of tools are spelled to a caller.
//!
//! A tool's canonical name is a noun, a dot and a verb, such as `text.read`, or a name without a
//! dot, such as `search`. The interfaces of most models refuse dots, so most callers are shown
//! `text_read`. The program respells its own sentences before it puts anything into them, so that
//! nothing that a caller, a file or a note says is ever changed. A caller reads of no tool that its
//! list lacks.

use std::borrow::Cow;

/// The canonical names of all tools; the tests of the tools hold that none is missing.
#[rustfmt::skip]
const TOOLS: [&str; 35] = [
    "aggregate", "fetch", "file.append", "file.copy", "file.create", "file.find", "file.history",
    "file.list", "file.move", "file.read", "file.remove", "file.restore", "file.search",
    "folder.create", "folder.move", "folder.remove", "get_document_tree", "get_metadata_facets",
    "get_note_outline", "get_section_source", "note.find", "note.links", "note.set_property",
    "note.tags", "query_records", "read_record_field", "schema", "search", "text.append",
    "text.edit", "text.gather", "text.insert", "text.read", "text.replace", "text.search",
];

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

impl Spelling {
    /// Returns a text of the owner, such as a prompt, with the names of tools in this spelling,
    /// however the owner spelled them. A name is a whole word: `file.read.md`, `/text_read` and
    /// `{{text_read}}` are none. Every other word is as the owner wrote it.
    pub fn respelled(self, text: &str) -> Cow<'_, str> {
        let is_of_word = |c: char| c.is_alphanumeric() || "_./-{}".contains(c);
        let mut respelled = String::with_capacity(text.len());
        for piece in text.split_inclusive(|c| !is_of_word(c)) {
            // A sentence may end with a name.
            let word = piece.trim_end_matches(|c| !is_of_word(c)).trim_end_matches('.');
            let mut dotted = TOOLS.iter().filter(|name| name.contains('.'));
            let tool = dotted.find(|name| **name == word || Self::Underscored.name(name) == word);
            respelled.push_str(&tool.map_or(word.into(), |tool| self.name(tool)));
            respelled.push_str(piece.get(word.len()..).unwrap_or_default());
        }
        if respelled == text { text.into() } else { respelled.into() }
    }
}

/// Returns the parts of a text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns whether a text is a canonical name with a dot.
pub fn is_dotted_name(text: &str) -> bool {
    text.contains('.') && TOOLS.contains(&text)
}

/// The tools as one caller's list has them: which there are, and how their names are spelled.
///
/// A text for the caller names no other tool: a sentence that would do so is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownTools {
    spelling: Spelling,
    /// One bit for each of [`TOOLS`] that the caller is shown.
    shown: u64,
}

impl Default for ShownTools {
    fn default() -> Self {
        Spelling::default().into()
    }
}

/// All tools in one spelling.
impl From<Spelling> for ShownTools {
    fn from(spelling: Spelling) -> Self {
        Self { spelling, shown: u64::MAX }
    }
}

impl ShownTools {
    /// Returns these tools without those whose canonical names `is_listed` refuses.
    #[must_use]
    pub fn only(self, is_listed: impl Fn(&'static str) -> bool) -> Self {
        let listed = TOOLS.iter().enumerate().filter(|(_, name)| is_listed(name));
        let listed = listed.fold(0, |bits, (place, _)| bits | 1 << place);
        Self { shown: self.shown & listed, ..self }
    }

    /// Returns how the names are spelled.
    pub fn spelling(self) -> Spelling {
        self.spelling
    }

    /// Returns whether the caller is shown a tool. `canonical` is its canonical name.
    pub fn has(self, canonical: &str) -> bool {
        let place = TOOLS.iter().position(|name| *name == canonical);
        place.is_some_and(|place| self.shown >> place & 1 == 1)
    }

    /// Returns whether the caller is shown a tool that `is_wanted` takes by its canonical name.
    pub fn has_any(self, is_wanted: impl Fn(&'static str) -> bool) -> bool {
        TOOLS.iter().any(|name| self.has(name) && is_wanted(name))
    }

    /// Returns whether the caller is shown all tools that a text of the program names by their
    /// canonical names.
    pub fn have_all_in(self, text: &str) -> bool {
        quoted(text).all(|name| !TOOLS.contains(&name) || self.has(name))
    }

    /// Returns the name of a tool as the list spells it.
    pub fn name(self, canonical: &str) -> Cow<'_, str> {
        self.spelling.name(canonical)
    }

    /// Returns the sentences of a text of the program that name no tool which the caller is not
    /// shown, with all names as the list spells them. The text has canonical names between
    /// backticks. It is `'static`, and so holds no content.
    pub fn sentence(self, sentences: &'static str) -> Cow<'static, str> {
        self.declaration(sentences)
    }

    /// Returns the first of two texts that names no tool which the caller is not shown, as
    /// [`Self::sentence`] does.
    pub fn either(self, text: &'static str, other: &'static str) -> Cow<'static, str> {
        self.sentence(if self.have_all_in(text) { text } else { other })
    }

    /// As [`Self::sentence`], for the description of a tool, an argument or a resource, which the
    /// program itself declares. Never for a text that may hold content.
    pub fn declaration(self, description: &str) -> Cow<'_, str> {
        if self.have_all_in(description) {
            return self.spelling.declaration(description);
        }
        let mut last = ' ';
        let ends_sentence = |next: char| std::mem::replace(&mut last, next) == '.' && next <= ' ';
        let sentences = description.split_inclusive(ends_sentence);
        let told: String = sentences.filter(|sentence| self.have_all_in(sentence)).collect();
        self.spelling.declaration(told.trim_end()).into_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_backticks_are_respelled_and_nothing_else() {
        let sentence = "Call `text.read`, or `file.list` on `/text.read`; text.read `a.md` `fetch`";
        assert_eq!(
            Spelling::Underscored.declaration(sentence),
            "Call `text_read`, or `file_list` on `/text.read`; text.read `a.md` `fetch`"
        );
        assert_eq!(Spelling::Dotted.declaration(sentence), sentence);
    }

    #[test]
    fn a_name_is_spelled_with_or_without_its_dot() {
        assert_eq!(Spelling::Dotted.name("note.set_property"), "note.set_property");
        assert_eq!(Spelling::Underscored.name("note.set_property"), "note_set_property");
        assert_eq!(Spelling::Underscored.name("read_record_field"), "read_record_field");
        assert_eq!(Spelling::default(), Spelling::Underscored);
    }

    #[test]
    fn a_text_of_the_owner_names_tools_in_the_spelling_of_the_caller() {
        let text =
            "text.read, `file_list`; file.read. Not /a/file.read, file.read.md or {{text_read}}";
        assert_eq!(
            Spelling::Underscored.respelled(text),
            "text_read, `file_list`; file_read. Not /a/file.read, file.read.md or {{text_read}}"
        );
        assert_eq!(
            Spelling::Dotted.respelled(text),
            "text.read, `file.list`; file.read. Not /a/file.read, file.read.md or {{text_read}}"
        );
        let other = "Say `fetch` and schréib.";
        assert!(matches!(Spelling::Dotted.respelled(other), Cow::Borrowed(_)));
    }

    #[test]
    fn a_sentence_that_names_a_tool_which_is_not_shown_is_left_out() {
        let read = |name: &str| name != "file.create";
        let shown = ShownTools::default().only(read);
        let sentences = "Call `file.list`. `file.create` makes `a file`. Or\n`text.read` it.";
        assert_eq!(shown.sentence(sentences), "Call `file_list`. Or\n`text_read` it.");
        assert_eq!(shown.sentence("`file.create` makes it."), "");
        assert_eq!(shown.either("Call `file.create`.", "Ask."), "Ask.");
        assert_eq!(shown.either("Call `file.list`.", "Ask."), "Call `file_list`.");
        let none = shown.only(|_| false);
        assert_eq!(none.sentence("Say `yes`. Or `search`."), "Say `yes`.");
        assert!(shown.has("file.list") && !shown.has("file.create") && !none.has("file.list"));
        assert_eq!(ShownTools::from(Spelling::Dotted).sentence(sentences), sentences);
    }
}
