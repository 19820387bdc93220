//! What several targets need as an oracle.

use std::collections::HashSet;

/// What a JSON text looks like, however wrong it is elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How many arrays and objects stand in each other at most.
    pub depth: usize,
    /// Whether an object has two members of one name, which may be spelled with escapes.
    pub repeats: bool,
}

impl Shape {
    /// Looks for brackets, and for strings where a name belongs. It does not care whether the rest
    /// is JSON.
    pub fn of(text: &[u8]) -> Self {
        let mut shape = Self::default();
        // The names of each open object; an array has none.
        let mut open: Vec<Option<HashSet<String>>> = Vec::new();
        let mut name_is_next = false;
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let mut end = at + 1;
            match byte {
                b'{' | b'[' => {
                    open.push((*byte == b'{').then(HashSet::new));
                    shape.depth = shape.depth.max(open.len());
                    name_is_next = *byte == b'{';
                }
                b'}' | b']' => {
                    open.pop();
                    name_is_next = false;
                }
                b',' => name_is_next = matches!(open.last(), Some(Some(_))),
                b'"' => {
                    while text.get(end).is_some_and(|byte| *byte != b'"') {
                        end += if text[end] == b'\\' { 2 } else { 1 };
                    }
                    end = (end + 1).min(text.len());
                    if std::mem::take(&mut name_is_next)
                        && let Some(Some(names)) = open.last_mut()
                        && let Ok(name) = serde_json::from_slice(&text[at..end])
                    {
                        shape.repeats |= !names.insert(name);
                    }
                }
                _ => {}
            }
            at = end;
        }
        shape
    }
}
