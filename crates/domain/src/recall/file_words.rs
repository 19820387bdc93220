//! The words of one file, in passages.
//!
//! A passage is a run of whole slots. A slot is a line, or a part of a long line. A passage ends
//! before a heading where it is long enough, and where it has some two hundred words. The language
//! of a passage is guessed by its function words. A word of a title or of a heading counts more
//! than a word of the text below.

use std::borrow::Cow;
use std::collections::HashMap;

use super::language::{Language, LanguageCounts, LanguageSet, languages_of};
use super::words::{each_word, folded};
use crate::notes::FrontFences;

/// The words after which a passage ends.
const PASSAGE_WORDS: u32 = 180;
/// The words after which a heading begins a new passage.
const SECTION_WORDS: u32 = 50;
/// The words after which a slot ends.
const SLOT_WORDS: u32 = 24;

/// What kind of file a text is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A Markdown note.
    Note,
    /// Any other text.
    Text,
}

/// The words of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileWords {
    /// The different words, in the order of their first place.
    pub(super) words: Vec<FileWord>,
    pub(super) passages: Vec<PassageWords>,
}

/// A word of a file and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileWord {
    pub(super) text: Box<str>,
    pub(super) places: Vec<WordPlace>,
}

/// A place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordPlace {
    pub(super) slot: u32,
    pub(super) weight: Weight,
}

/// How much a place counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// In the text.
    Body = 1,
    /// In a heading, for its passage.
    Heading = 2,
    /// In the title, an alias or a tag, for every passage of the file.
    Name = 3,
}

/// How long a passage is, and its language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassageWords {
    pub(super) first_slot: u32,
    pub(super) words: u32,
    pub(super) language: Option<Language>,
}

impl FileWords {
    /// Finds the words of a text.
    pub fn of(text: &str, kind: FileKind) -> Self {
        let text = text.strip_prefix(crate::lines::BOM).unwrap_or(text);
        let mut reader = Reader::default();
        let mut marks = LineMarks::new(text, kind);
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let mark = marks.next(line, lines.peek().copied());
            reader.read_line(mark);
        }
        reader.finish()
    }
}

/// A line, as far as its words count.
struct MarkedLine<'t> {
    text: &'t str,
    weight: Weight,
    begins_section: bool,
}

/// Reads words into slots and passages.
#[derive(Default)]
struct Reader<'t> {
    words: Vec<ReadWord<'t>>,
    by_text: HashMap<Cow<'t, str>, usize>,
    /// How many slots there are.
    slots: u32,
    passages: Vec<PassageWords>,
    languages: Vec<LanguageCounts>,
    slot_words: u32,
}

struct ReadWord<'t> {
    text: Cow<'t, str>,
    places: Vec<WordPlace>,
    languages: LanguageSet,
}

impl<'t> Reader<'t> {
    fn read_line(&mut self, line: MarkedLine<'t>) {
        let long_enough = if line.begins_section { SECTION_WORDS } else { PASSAGE_WORDS };
        if self.passages.last().is_some_and(|passage| passage.words >= long_enough) {
            self.begin_passage();
        }
        self.slot_words = 0;
        let weight = line.weight;
        each_word(line.text, |word, _| self.read_word(word, weight));
    }

    fn begin_passage(&mut self) {
        self.passages.push(PassageWords { first_slot: self.slots, ..PassageWords::default() });
        self.languages.push(LanguageCounts::default());
    }

    fn read_word(&mut self, word: Cow<'t, str>, weight: Weight) {
        if self.slot_words == SLOT_WORDS {
            self.slot_words = 0;
            if self.passages.last().is_some_and(|passage| passage.words >= PASSAGE_WORDS) {
                self.begin_passage();
            }
        }
        if self.passages.is_empty() {
            self.begin_passage();
        }
        if self.slot_words == 0 {
            self.slots += 1;
        }
        self.slot_words += 1;
        let slot = self.slots.saturating_sub(1);
        let index = match self.by_text.get(&word) {
            Some(index) => *index,
            None => {
                let index = self.words.len();
                self.by_text.insert(word.clone(), index);
                let languages = if word.is_ascii() {
                    languages_of(&word)
                } else {
                    languages_of(&folded(&word))
                };
                self.words.push(ReadWord { text: word, places: Vec::new(), languages });
                index
            }
        };
        let Some(read) = self.words.get_mut(index) else { return };
        read.places.push(WordPlace { slot, weight });
        if let Some(passage) = self.passages.last_mut() {
            passage.words += 1;
        }
        if let Some(languages) = self.languages.last_mut() {
            languages.add(read.languages);
        }
    }

    fn finish(self) -> FileWords {
        let Self { words, mut passages, languages, .. } = self;
        // A passage that no word came for.
        passages.pop_if(|last| last.words == 0);
        let mut all = LanguageCounts::default();
        languages.iter().for_each(|counts| all.add_all(counts));
        for (passage, counts) in passages.iter_mut().zip(&languages) {
            passage.language = counts.guess().or_else(|| all.guess());
        }
        let words = words.into_iter();
        let words = words.map(|word| FileWord { text: word.text.into(), places: word.places });
        FileWords { words: words.collect(), passages }
    }
}

/// Tells how much the words of each line count.
struct LineMarks {
    kind: FileKind,
    /// The bytes of the front matter that are left, with its fences.
    front_left: usize,
    /// How much the words of the property count whose value is read.
    property: Weight,
    /// Whether the lines are in a block of code.
    in_code: bool,
    has_heading: bool,
}

impl LineMarks {
    fn new(text: &str, kind: FileKind) -> Self {
        let front = match kind {
            FileKind::Note => FrontFences::find(text).map_or(0, |fences| fences.body),
            FileKind::Text => 0,
        };
        let property = Weight::Body;
        Self { kind, front_left: front, property, in_code: false, has_heading: false }
    }

    fn next<'t>(&mut self, line: &'t str, following: Option<&str>) -> MarkedLine<'t> {
        let body = MarkedLine { text: line, weight: Weight::Body, begins_section: false };
        if self.kind == FileKind::Text {
            return body;
        }
        if self.front_left > 0 {
            self.front_left = self.front_left.saturating_sub(line.len() + 1);
            return self.property_line(line);
        }
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            self.in_code = !self.in_code;
            return body;
        }
        match heading_level(line, following) {
            Some(level) if !self.in_code => {
                let is_title = level == 1 && !self.has_heading;
                self.has_heading = true;
                let weight = if is_title { Weight::Name } else { Weight::Heading };
                MarkedLine { text: line, weight, begins_section: true }
            }
            _ => body,
        }
    }

    /// Reads a line of the front matter. A value may go on over lines that are indented or items.
    fn property_line<'t>(&mut self, line: &'t str) -> MarkedLine<'t> {
        let mut text = line;
        if let Some((name, value)) = line.split_once(':')
            && !line.starts_with([' ', '\t', '-', '#'])
        {
            let names_file = ["title", "alias", "aliases", "tag", "tags"];
            let is_name = names_file.iter().any(|one| name.trim().eq_ignore_ascii_case(one));
            self.property = if is_name { Weight::Name } else { Weight::Body };
            // The name of a property that names the file says nothing of the file.
            if is_name {
                text = value;
            }
        }
        MarkedLine { text, weight: self.property, begins_section: false }
    }
}

/// Returns the level of a heading, by its `#` or by the line below it; `None` for another line.
fn heading_level(line: &str, following: Option<&str>) -> Option<usize> {
    let text = line.trim_start_matches(' ');
    if line.len() - text.len() > 3 {
        return None;
    }
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    if level > 0 {
        let rest = text.get(level..).unwrap_or_default();
        let is_heading = level <= 6 && (rest.trim().is_empty() || rest.starts_with([' ', '\t']));
        return is_heading.then_some(level);
    }
    let below = following?.trim_end();
    let is_text = text.chars().next().is_some_and(char::is_alphanumeric);
    match below.bytes().next().filter(|_| is_text && below.len() >= 3)? {
        b'=' if below.bytes().all(|byte| byte == b'=') => Some(1),
        b'-' if below.bytes().all(|byte| byte == b'-') => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(words: &FileWords, text: &str) -> Vec<(u32, Weight)> {
        let found = words.words.iter().find(|word| &*word.text == text).unwrap();
        found.places.iter().map(|place| (place.slot, place.weight)).collect()
    }

    #[test]
    fn what_names_a_file_or_a_section_counts_more() {
        let text = "---\ntitle: Shed\ntags:\n  - roof\nauthor: Ann\n---\n# Water\n\n## Pipes\ncopper\n\
                    ```\n# comment\n```\nLast\n====\nshed\n";
        let words = FileWords::of(text, FileKind::Note);
        assert_eq!(places(&words, "shed"), [(0, Weight::Name), (8, Weight::Body)]);
        assert_eq!(places(&words, "roof")[0].1, Weight::Name);
        assert_eq!(places(&words, "ann")[0].1, Weight::Body);
        assert_eq!(places(&words, "water")[0].1, Weight::Name);
        assert_eq!(places(&words, "pipes")[0].1, Weight::Heading);
        assert_eq!(places(&words, "comment")[0].1, Weight::Body);
        assert_eq!(places(&words, "last")[0].1, Weight::Heading);
        let words = FileWords::of("# Water", FileKind::Text);
        assert_eq!(places(&words, "water")[0].1, Weight::Body);
    }

    #[test]
    fn long_texts_have_passages_and_long_lines_have_slots() {
        let words = FileWords::of(&"word ".repeat(1000), FileKind::Text);
        assert_eq!(words.passages.len(), 6);
        assert!(words.passages.iter().all(|passage| passage.words <= PASSAGE_WORDS + SLOT_WORDS));
        assert_eq!(words.passages.iter().map(|passage| passage.words).sum::<u32>(), 1000);
        assert_eq!(places(&words, "word").last().unwrap().0, 41);
        let exact = format!("{}\n\n", "word ".repeat(180));
        assert_eq!(FileWords::of(&exact, FileKind::Text).passages.len(), 1);
        let section = format!("{}\n# Next\nx", "word ".repeat(60));
        assert_eq!(FileWords::of(&section, FileKind::Note).passages.len(), 2);
        assert_eq!(FileWords::of("", FileKind::Note), FileWords::default());
    }

    #[test]
    fn each_passage_has_its_language() {
        let english = "the roof of the shed is old and it has to be mended\n".repeat(20);
        let german = "das dach ist alt und die rinne muss noch repariert werden\n".repeat(20);
        let words = FileWords::of(&format!("{english}{german}"), FileKind::Text);
        let languages: Vec<_> = words.passages.iter().map(|passage| passage.language).collect();
        assert_eq!(languages.first(), Some(&Some(Language::English)));
        assert_eq!(languages.last(), Some(&Some(Language::German)));
    }
}
