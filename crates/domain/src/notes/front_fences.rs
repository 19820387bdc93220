//! Where the front matter of a file is, for finding and changing its properties.
//!
//! The four note tools read front matter by the contract of their own (`front_matter`). Here the
//! closing fence may also be the end of the file, and the front matter may be empty.

/// The byte offsets of the front matter in a text without a byte order mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrontFences {
    /// Where the first line of YAML begins.
    pub(crate) start: usize,
    /// Where the closing fence begins.
    pub(crate) end: usize,
    /// Where the text after the closing fence begins.
    pub(crate) body: usize,
}

impl FrontFences {
    /// Finds the fences: a line `---` at the very beginning, and the next line `---`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let start = text.split_inclusive('\n').next().filter(|line| is_fence(line))?.len();
        let mut at = start;
        for line in text.get(start..)?.split_inclusive('\n') {
            if is_fence(line) {
                return Some(Self { start, end: at, body: at + line.len() });
            }
            at += line.len();
        }
        None
    }

    /// Returns the YAML between the fences.
    pub(crate) fn front<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Whether a line is a fence. White space after it does not matter.
pub(crate) fn is_fence(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_may_be_empty_and_may_end_the_file() {
        for (text, front, body) in [
            ("---\na: 1\n---\nx", "a: 1\n", "x"),
            ("---\r\na: 1\r\n---\r\nx", "a: 1\r\n", "x"),
            ("---\n---\nx", "", "x"),
            ("--- \na: 1\n---", "a: 1\n", ""),
            ("---\na: |\n  x\n ---\n---\n", "a: |\n  x\n ---\n", ""),
        ] {
            let found = FrontFences::find(text).unwrap();
            assert_eq!((found.front(text), &text[found.body..]), (front, body), "{text:?}");
        }
        for text in ["", "x", "----\na\n---\n", "---\na: 1\n", " ---\n---\n", "---a\n---\n"] {
            assert_eq!(FrontFences::find(text), None, "{text:?}");
        }
    }
}
