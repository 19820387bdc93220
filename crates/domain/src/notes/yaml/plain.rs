//! Detects YAML that is so plain that it is valid for certain, so that a second parse is saved.
//!
//! `serde-saphyr` decides whether front matter is valid, but costs another parse: for a note of
//! some kilobytes a tenth of the whole time. Nearly every front matter is a mapping of words to
//! scalars, lists and such mappings, which is always valid. [`WatchedEvents`] looks for anything
//! else while the events pass. A plain text must be valid. Any other text may be valid, and
//! `serde-saphyr` decides.

use std::borrow::Cow;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, StrInput};

use super::super::limits::MAX_FRONT_MATTER_BYTES;

/// The deepest valid front matter. The limit also bounds the recursion of the code that
/// reads nested values.
pub(super) const MAX_DEPTH: usize = 16;
/// The most keys, values, lists and mappings of valid front matter. Each is at most two events.
pub(super) const MAX_NODES: usize = 5_000;

/// The events of a YAML text up to a syntax error, watched for anything that is not plain.
pub(super) struct WatchedEvents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Whether every event so far was plain.
    plain: bool,
    begun: bool,
    /// The open lists and mappings, outermost first.
    open: Vec<Open>,
    /// The keys of all open mappings, outermost mapping first.
    keys: Vec<Cow<'a, str>>,
    nodes: usize,
    bytes: usize,
}

enum Open {
    List,
    Mapping {
        /// The number of keys of the mappings around this one.
        before: usize,
        /// Whether the next node is a key.
        key: bool,
    },
}

/// The most open keys of a plain text, because each key is compared with all others of its mapping.
const MAX_KEYS: usize = 64;

impl<'a> WatchedEvents<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            plain: true,
            begun: false,
            open: Vec::new(),
            keys: Vec::new(),
            nodes: 0,
            bytes: 0,
        }
    }

    /// Reads the remaining events. Returns whether the text is plain: a mapping within the budget
    /// that is valid for certain.
    pub(super) fn plain(mut self) -> bool {
        while self.plain && self.next().is_some() {}
        self.plain && self.begun
    }

    fn watch(&mut self, event: &Event<'a>) -> bool {
        match event {
            Event::StreamStart
            | Event::DocumentStart(false, None)
            | Event::DocumentEnd
            | Event::StreamEnd => true,
            // A scalar without an anchor and without a tag.
            Event::Scalar(text, style, 0, None) => {
                // An escape may be shorter than its character, so the length of the YAML is not a
                // bound.
                self.bytes += text.len();
                let Some(before) = self.node() else {
                    return !self.open.is_empty() && is_value(text, *style);
                };
                let new = !self.keys.iter().skip(before).any(|other| other == text);
                self.keys.push(text.clone());
                new && is_word(text)
            }
            Event::SequenceStart(_, 0, None) => !self.open.is_empty() && self.start(Open::List),
            Event::MappingStart(_, 0, None) => {
                // No second mapping may begin at the root, as in another document.
                let first = !std::mem::replace(&mut self.begun, true);
                first == self.open.is_empty()
                    && self.start(Open::Mapping { before: self.keys.len(), key: true })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open::Mapping { before, .. }) = self.open.pop() {
                    self.keys.truncate(before);
                }
                true
            }
            // Aliases. Comments are off.
            _ => false,
        }
    }

    /// Begins a list or a mapping. Returns whether it is a value, because a plain key is a scalar.
    fn start(&mut self, container: Open) -> bool {
        let value = self.node().is_none();
        self.open.push(container);
        value
    }

    /// Counts a node. For a key, returns the number of keys of the mappings around its own mapping.
    fn node(&mut self) -> Option<usize> {
        self.nodes += 1;
        let Some(Open::Mapping { before, key }) = self.open.last_mut() else { return None };
        *key = !*key;
        (!*key).then_some(*before)
    }

    fn within_budget(&self) -> bool {
        self.nodes <= MAX_NODES
            && self.bytes <= MAX_FRONT_MATTER_BYTES
            && self.open.len() <= MAX_DEPTH
            && self.keys.len() <= MAX_KEYS
    }
}

impl<'a> Iterator for WatchedEvents<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        match self.parser.next()? {
            Ok((event, _)) => {
                self.plain = self.plain && self.watch(&event) && self.within_budget();
                Some(event)
            }
            Err(_) => {
                self.plain = false;
                None
            }
        }
    }
}

/// Whether two such keys are different whenever their texts are. Numbers are not (`1`, `0x1`), and
/// `<<` is a merge and not a key.
fn is_word(key: &str) -> bool {
    key.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Whether a value is valid for certain. `serde-saphyr` refuses a number beyond the range of a
/// double.
fn is_value(text: &str, style: ScalarStyle) -> bool {
    style != ScalarStyle::Plain
        || !(text.trim_start_matches(['+', '-']).starts_with('.')
            || text.parse::<f64>().is_ok_and(|number| !number.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> bool {
        WatchedEvents::new(text).plain()
    }

    #[test]
    fn usual_front_matter_is_plain() {
        for text in [
            "title: A note\ntags: [one, two]",
            "title: \"A: note\" # with a comment\r\ndate: 2025-03-01\r\n",
            "tags:\n  - one\n  - 'two'\naliases:\n- x\nempty:\nnumber: -1.5e3\nflag: yes\n",
            "author: {name: x, url: y}\nmore:\n  name: z\n  deep: [{name: x}, {name: y}]\n\
             name: u\n",
            "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n'quoted key': 1\nna\u{ef}ve: x\n",
            "title: one that\n  goes on\nescaped: \"\\u263a\"\n",
        ] {
            assert!(plain(text), "{text}");
        }
    }

    #[test]
    fn yaml_that_may_be_invalid_is_not_plain() {
        let keys: String = (0..=MAX_KEYS).map(|number| format!("k{number}: 1\n")).collect();
        let nodes = format!("a: [{}]", "x,".repeat(MAX_NODES - 2));
        let depth = format!("a: {}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let bytes = format!("a: \"{}\"", "\\L".repeat(MAX_FRONT_MATTER_BYTES / 3 + 1));
        for text in [
            "", "a", "- a: 1", "a: [1", "a: 1\na: 2", "a: 1\n'a': 2", "c: {a: 1, a: 2}",
            "c: [{a: 1, a: 2}]", "a: {b: 1}\na: 2", "1: a\n0x1: b", "~: a\nnull: b", "a: .inf",
            "a: -.nan", "a: [1e999]", "a: &x 1", "a: &x 1\nb: *x", "a: !!str 1", "a: !!binary x",
            "<<: {a: 1}", "? [a]\n: b", "? {a: b}\n: c", "--- \na: 1", "%YAML 1.2\n---\na: 1",
            "a: 1\n...\nb: 1", "a: 1\n---\nb: 1", "a: 1\n...\n- b", &keys, &nodes, &depth, &bytes,
        ] {
            assert!(!plain(text), "{}", &text[..text.len().min(40)]);
        }
    }
}
