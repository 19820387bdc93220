//! The text of one document: its form, its bound, and why there may be none.

/// The most bytes of one document's text. The rest is left out.
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Why a document has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoText {
    /// The document is damaged, encrypted, or not what its type says.
    #[error("the document is damaged or encrypted")]
    Damaged,
    /// The document is too large, or reading it takes too much memory or time.
    #[error("the document is too large")]
    TooLarge,
}

/// Returns a text with line feeds alone, without other control characters and without more than one
/// empty line in a row, cut to [`MAX_TEXT_BYTES`].
pub(super) fn tidy(text: &str) -> String {
    let mut tidied = String::new();
    let mut breaks = 0;
    for line in text.split(['\n', '\u{b}', '\u{c}']) {
        let line = line.trim_end();
        breaks += 1;
        if line.is_empty() {
            continue;
        }
        if !tidied.is_empty() {
            tidied.push_str(if breaks > 1 { "\n\n" } else { "\n" });
        }
        breaks = 0;
        tidied.extend(line.chars().filter(|c| !c.is_control() || *c == '\t'));
        if tidied.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    tidied.truncate(prefix(&tidied, MAX_TEXT_BYTES).len());
    tidied
}

/// Returns the longest beginning of a text of at most `bytes` bytes.
pub(super) fn prefix(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_tidied() {
        assert_eq!(tidy("\r\n a\u{0}b \t\r\n\r\n\n\nc\u{c}d\r\n"), " ab\n\nc\nd");
        assert_eq!(tidy(&"é\n".repeat(MAX_TEXT_BYTES)).len(), MAX_TEXT_BYTES - 1);
    }
}
