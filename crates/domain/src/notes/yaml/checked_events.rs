//! The events of a YAML text, checked while they pass.
//!
//! A text is valid front matter if it is one document, a mapping, within the budget, and no mapping
//! in it has a key twice. What a value means does not matter: a number beyond the range of a double
//! is valid, and so is a value with an anchor or a tag.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_saphyr::granit_parser::{Event, Parser, StrInput};

use super::super::limits::MAX_FRONT_MATTER_BYTES;

/// The deepest valid front matter. The limit also bounds the recursion of the code that
/// reads nested values.
pub(super) const MAX_DEPTH: usize = 16;
/// The most keys, values, lists, mappings and aliases of valid front matter.
pub(super) const MAX_NODES: usize = 5_000;

/// The events of a YAML text up to a fault.
pub(super) struct CheckedEvents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Whether every event so far was valid.
    valid: bool,
    /// Whether the mapping at the root has begun.
    begun: bool,
    documents: usize,
    /// The open lists and mappings, outermost first.
    open: Vec<Open<'a>>,
    nodes: usize,
    bytes: usize,
}

enum Open<'a> {
    List,
    Mapping {
        /// The keys so far that are scalars.
        keys: HashSet<Cow<'a, str>>,
        /// Whether the next node is a key.
        key: bool,
    },
}

impl<'a> CheckedEvents<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            valid: true,
            begun: false,
            documents: 0,
            open: Vec::new(),
            nodes: 0,
            bytes: 0,
        }
    }

    /// Reads the remaining events. Returns whether the whole text is valid front matter.
    pub(super) fn finish(mut self) -> bool {
        while self.valid && self.next().is_some() {}
        self.valid && self.begun
    }

    fn check(&mut self, event: &Event<'a>) -> bool {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                self.documents == 1
            }
            Event::Scalar(text, ..) => {
                // An escape may be shorter than its character, so the length of the YAML is not a
                // bound.
                self.bytes += text.len();
                self.node(Some(text))
            }
            Event::Alias(_) => self.node(None),
            Event::SequenceStart(..) => {
                let is_inside = self.node(None);
                self.open.push(Open::List);
                is_inside
            }
            Event::MappingStart(..) => {
                let is_root = !std::mem::replace(&mut self.begun, true);
                let is_inside = self.node(None);
                self.open.push(Open::Mapping { keys: HashSet::new(), key: true });
                is_root || is_inside
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                true
            }
            _ => true,
        }
    }

    /// Counts a node. Returns whether the node is inside a list or a mapping, and is not a key that
    /// its mapping has already.
    fn node(&mut self, scalar: Option<&Cow<'a, str>>) -> bool {
        self.nodes += 1;
        let (keys, key) = match self.open.last_mut() {
            None => return false,
            Some(Open::List) => return true,
            Some(Open::Mapping { keys, key }) => (keys, key),
        };
        let is_key = std::mem::replace(key, !*key);
        !is_key || scalar.is_none_or(|text| keys.insert(text.clone()))
    }

    fn within_budget(&self) -> bool {
        self.nodes <= MAX_NODES
            && self.bytes <= MAX_FRONT_MATTER_BYTES
            && self.open.len() <= MAX_DEPTH
    }
}

impl<'a> Iterator for CheckedEvents<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        if !self.valid {
            return None;
        }
        match self.parser.next()? {
            Ok((event, _)) => {
                self.valid = self.check(&event) && self.within_budget();
                self.valid.then_some(event)
            }
            Err(_) => {
                self.valid = false;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn is_valid(text: &str) -> bool {
        CheckedEvents::new(text).finish()
    }

    #[test]
    fn front_matter_that_people_write_is_valid() {
        for text in [
            "title: A note\ntags: [one, two]",
            "title: \"A: note\" # with a comment\r\ndate: 2025-03-01\r\n",
            "tags:\n  - one\n  - 'two'\naliases:\n- x\nempty:\nnumber: -1.5e3\nflag: yes\n",
            "author: {name: x, url: y}\nmore:\n  name: z\n  deep: [{name: x}, {name: y}]\n\
             name: u\n",
            "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n'quoted key': 1\nna\u{ef}ve: x\n",
            "commit: 12e4567\nsize: .nan\nmore: -.Inf\nbig: 1e999",
            "? [a, b]\n: c\n? {a: b}\n: {b: a}\na: 3",
            "a: &x 1\nb: *x\nc: !!binary YQ==\nd: !local y\n<<: {e: 1}",
            "1: a\n0x1: b\n~: c\nnull: d",
        ] {
            assert!(is_valid(text), "{text}");
        }
    }

    #[test]
    fn anything_but_one_mapping_within_the_budget_is_invalid() {
        let nodes = format!("a: [{}]", "x,".repeat(MAX_NODES - 2));
        let depth = format!("a: {}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let bytes = format!("a: \"{}\"", "\\L".repeat(MAX_FRONT_MATTER_BYTES / 3 + 1));
        for text in [
            "", "a", "- a: 1", "a: [1", "a: 1\na: 2", "a: 1\n'a': 2", "c: {a: 1, a: 2}",
            "c: [{a: 1, a: 2}]", "a: *x", "a: 1\n---\nb: 1", "a: 1\n...\n- b", "a: @", "[a, b]",
            &nodes, &depth, &bytes,
        ] {
            assert!(!is_valid(text), "{}", &text[..text.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic_or_run_on(pieces in vec(
            prop::sample::select(vec![
                "a", "b", ": ", ":", "- ", "? ", "[", "]", "{", "}", ", ", "\n", "\n  ", "'", "\"",
                "&x ", "*x", "!!str ", "|", ">", "# c", "%", "---\n", "...\n", "<<", "~", "1e999",
                "\\", "\u{feff}", "\u{85}", "\t",
            ]), 0..24)
        ) {
            let text = pieces.concat();
            prop_assert!(CheckedEvents::new(&text).count() <= 8 * text.len() + 8);
        }
    }
}
