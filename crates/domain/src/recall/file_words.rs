//! The words of one file, in passages.
//!
//! A passage is a run of whole slots. A slot is a line, or a part of a long line. A passage ends
//! before a heading where it is long enough, and where it has some two hundred words. The language
//! of a passage is guessed by its function words. A word of a title or of a heading counts more
//! than a word of the text below.

use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use hashbrown::{DefaultHashBuilder, HashTable};

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
///
/// The letters of all words are one text, and their places one list, so that a file takes a few
/// allocations whatever its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileWords {
    /// The different words one after another, in the order of their first place.
    letters: WordLetters,
    /// The places of all words, word by word.
    places: Vec<WordPlace>,
    /// Where the places of each word end.
    place_ends: Vec<u32>,
    /// The hash of each word.
    hashes: Vec<u64>,
    pub(super) passages: Vec<PassageWords>,
}

/// Words one after another in one text. Each has a number, from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordLetters {
    text: String,
    ends: Vec<u32>,
}

impl WordLetters {
    /// The number of words.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the word with a number; the empty word for one that there is not.
    pub(super) fn get(&self, number: usize) -> &str {
        let end_of = |at: usize| self.ends.get(at).map(|end| *end as usize);
        let begin = number.checked_sub(1).map_or(Some(0), end_of);
        let bytes = begin.zip(end_of(number)).map(|(begin, end)| begin..end);
        bytes.and_then(|bytes| self.text.get(bytes)).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a word and returns its number; `None` if the text would be too long.
    fn push(&mut self, word: &str) -> Option<u32> {
        let number = u32::try_from(self.count()).ok()?;
        let end = u32::try_from(self.text.len() + word.len()).ok()?;
        self.text.push_str(word);
        self.ends.push(end);
        Some(number)
    }
}

/// Hashes words, in all tables alike. Its seed is another one in each process, so that nobody can
/// write words which share a hash.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// A word with its hash.
#[derive(Clone, Copy)]
pub(super) struct HashedWord<'w> {
    pub(super) text: &'w str,
    hash: u64,
}

impl<'w> HashedWord<'w> {
    fn new(text: &'w str) -> Self {
        Self { text, hash: HASHER.hash_one(text) }
    }
}

/// Finds the numbers of words by their letters.
#[derive(Clone, Debug, Default)]
pub(super) struct WordIndex(HashTable<IndexedWord>);

/// A word of an index. Most words are compared by what stands here, without a look at the letters
/// elsewhere.
#[derive(Clone, Copy, Debug)]
struct IndexedWord {
    number: u32,
    /// The length in bytes, and 255 for all longer words.
    length: u8,
    begin: [u8; Self::BEGIN],
}

impl IndexedWord {
    /// The bytes of a word that stand in the index.
    const BEGIN: usize = 11;

    fn new(word: &str, number: u32) -> Self {
        let mut begin = [0; Self::BEGIN];
        begin.iter_mut().zip(word.bytes()).for_each(|(own, byte)| *own = byte);
        Self { number, length: u8::try_from(word.len()).unwrap_or(u8::MAX), begin }
    }

    /// Whether this is `word`, which `other` was made of.
    fn is(&self, other: &Self, word: &str, letters: &WordLetters) -> bool {
        let is_alike = self.length == other.length && self.begin == other.begin;
        is_alike && (word.len() <= Self::BEGIN || letters.get(self.number as usize) == word)
    }
}

impl WordIndex {
    /// Returns the number of a word of these.
    pub(super) fn get(&self, word: HashedWord<'_>, letters: &WordLetters) -> Option<u32> {
        let sought = IndexedWord::new(word.text, 0);
        let found = self.0.find(word.hash, |known| known.is(&sought, word.text, letters));
        found.map(|known| known.number)
    }

    /// Adds a word that there is not yet, and returns its number; `None` if there is no room.
    pub(super) fn push(&mut self, word: HashedWord<'_>, letters: &mut WordLetters) -> Option<u32> {
        let number = letters.push(word.text)?;
        let hash_of = |known: &IndexedWord| HASHER.hash_one(letters.get(known.number as usize));
        self.0.insert_unique(word.hash, IndexedWord::new(word.text, number), hash_of);
        Some(number)
    }
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
        WordReader::default().read(text, kind)
    }

    /// How many different words the file has.
    pub(super) fn count(&self) -> usize {
        self.letters.count()
    }

    /// The different words with their places, in the order of their first place.
    pub(super) fn words(&self) -> impl Iterator<Item = (HashedWord<'_>, &[WordPlace])> {
        let mut begin = 0;
        let ends = self.place_ends.iter().zip(&self.hashes);
        ends.enumerate().map(move |(number, (end, hash))| {
            let end = *end as usize;
            let places = self.places.get(begin..end).unwrap_or_default();
            begin = end;
            (HashedWord { text: self.letters.get(number), hash: *hash }, places)
        })
    }
}

/// A line, as far as its words count.
struct MarkedLine<'t> {
    text: &'t str,
    weight: Weight,
    begins_section: bool,
}

/// Reads words into slots and passages. It keeps its memory from one file to the next.
#[derive(Debug, Default)]
pub struct WordReader {
    letters: WordLetters,
    index: WordIndex,
    hashes: Vec<u64>,
    /// Of which languages each word is a function word.
    word_languages: Vec<LanguageSet>,
    /// Each place with the number of its word, in the order of the text.
    read: Vec<(u32, WordPlace)>,
    /// How many slots there are.
    slots: u32,
    passages: Vec<PassageWords>,
    languages: Vec<LanguageCounts>,
    slot_words: u32,
}

impl WordReader {
    /// Finds the words of a text.
    pub fn read(&mut self, text: &str, kind: FileKind) -> FileWords {
        let text = text.strip_prefix(crate::lines::BOM).unwrap_or(text);
        let mut marks = LineMarks::new(text, kind);
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let mark = marks.next(line, lines.peek().copied());
            self.read_line(mark);
        }
        self.finish()
    }

    /// Returns the words of a text whose title stands beside it, as that of a document does. The
    /// words of the title count as those of a note's title.
    pub fn read_titled(&mut self, title: Option<&str>, text: &str, kind: FileKind) -> FileWords {
        if let Some(text) = title {
            self.read_line(MarkedLine { text, weight: Weight::Name, begins_section: false });
        }
        self.read(text, kind)
    }

    fn read_line(&mut self, line: MarkedLine<'_>) {
        let long_enough = if line.begins_section { SECTION_WORDS } else { PASSAGE_WORDS };
        if self.passages.last().is_some_and(|passage| passage.words >= long_enough) {
            self.begin_passage();
        }
        self.slot_words = 0;
        let weight = line.weight;
        each_word(line.text, |word, _| self.read_word(&word, weight));
    }

    fn begin_passage(&mut self) {
        self.passages.push(PassageWords { first_slot: self.slots, ..PassageWords::default() });
        self.languages.push(LanguageCounts::default());
    }

    fn read_word(&mut self, word: &str, weight: Weight) {
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
        let Some(number) = self.number(HashedWord::new(word)) else { return };
        self.read.push((number, WordPlace { slot, weight }));
        if let Some(passage) = self.passages.last_mut() {
            passage.words += 1;
        }
        let of_word = self.word_languages.get(number as usize).copied().unwrap_or_default();
        if let Some(languages) = self.languages.last_mut() {
            languages.add(of_word);
        }
    }

    /// Returns the number of a word; `None` if there are too many.
    fn number(&mut self, word: HashedWord<'_>) -> Option<u32> {
        if let Some(number) = self.index.get(word, &self.letters) {
            return Some(number);
        }
        let number = self.index.push(word, &mut self.letters)?;
        self.hashes.push(word.hash);
        let is_ascii = word.text.is_ascii();
        self.word_languages.push(match is_ascii {
            true => languages_of(word.text),
            false => languages_of(&folded(word.text)),
        });
        Some(number)
    }

    /// Returns what was read, and forgets it.
    fn finish(&mut self) -> FileWords {
        let mut passages = std::mem::take(&mut self.passages);
        // A passage that no word came for.
        passages.pop_if(|last| last.words == 0);
        let mut all = LanguageCounts::default();
        self.languages.iter().for_each(|counts| all.add_all(counts));
        for (passage, counts) in passages.iter_mut().zip(&self.languages) {
            passage.language = counts.guess().or_else(|| all.guess());
        }
        let (places, place_ends) = by_word(&self.read, self.letters.count());
        let (letters, hashes) = (self.letters.clone(), self.hashes.clone());
        self.letters.clear();
        self.index.0.clear();
        self.hashes.clear();
        self.word_languages.clear();
        self.read.clear();
        self.languages.clear();
        (self.slots, self.slot_words) = (0, 0);
        FileWords { letters, places, place_ends, hashes, passages }
    }
}

/// Sorts places by the numbers of their words, of which there are `words`, and keeps the order of
/// the places of one word. Returns the places and where those of each word end.
fn by_word(read: &[(u32, WordPlace)], words: usize) -> (Vec<WordPlace>, Vec<u32>) {
    // The ends are counted first. Each begins where the places of its word do, and grows to its
    // end.
    let mut ends = vec![0u32; words];
    for (number, _) in read {
        if let Some(next) = ends.get_mut(*number as usize + 1) {
            *next += 1;
        }
    }
    let mut begin = 0;
    for end in &mut ends {
        begin += *end;
        *end = begin;
    }
    let unset = WordPlace { slot: 0, weight: Weight::Body };
    let mut places = vec![unset; read.len()];
    for (number, place) in read {
        let Some(next) = ends.get_mut(*number as usize) else { continue };
        if let Some(own) = places.get_mut(*next as usize) {
            *own = *place;
        }
        *next += 1;
    }
    (places, ends)
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
        let (_, places) = words.words().find(|(word, _)| word.text == text).unwrap();
        places.iter().map(|place| (place.slot, place.weight)).collect()
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
