//! Guesses where base64 begins within a text, so that a preview shows a text only up to its first
//! encoded bytes. The guess decides what a preview looks like and nothing else: the whole text is
//! read like any other.

use super::encoded_text::CharacterSet;
use super::is_letter;
use crate::hash::hex_byte;

/// A run of at least so many characters of the base64 alphabet counts as encoded bytes, if it is as
/// mixed as encoded bytes are.
const BASE64_RUN: usize = 256;
/// The shortest line that counts as wrapped base64. Usual lengths are 64 and 76.
const LINE: usize = 40;

/// Returns the text before the first base64, or the whole text.
pub fn before_base64(text: &str) -> &str {
    base64_start(text).and_then(|at| text.get(..at)).unwrap_or(text)
}

/// Returns where base64 begins: a long run of its alphabet, or lines of equal length, as mail wraps
/// them.
pub fn base64_start(text: &str) -> Option<usize> {
    if text.len() < BASE64_RUN {
        return None;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = run_from(bytes, at, BASE64_RUN) {
        let rest = bytes.get(start..).unwrap_or_default();
        let end = rest.iter().position(|byte| !is_of_base64(*byte)).unwrap_or(rest.len());
        if CharacterSet::of(rest.get(..end).unwrap_or_default()).is_mixed() {
            return Some(start);
        }
        at = start + end;
    }
    // Without escapes, a line is a run, and most texts have no run this long.
    let may_be_wrapped = bytes.contains(&b'\\') || run_from(bytes, 0, LINE).is_some();
    if may_be_wrapped { wrapped_at(text) } else { None }
}

/// Returns where the first run of `letters` characters of the alphabet begins. `from` is not within
/// a run.
fn run_from(bytes: &[u8], from: usize, letters: usize) -> Option<usize> {
    let mut start = from;
    // Looks at the last byte of a possible run first: most texts have a space near it, which skips
    // the most.
    loop {
        let run = bytes.get(start..start.checked_add(letters)?)?;
        match run.iter().rposition(|byte| !is_of_base64(*byte)) {
            Some(space) => start += space + 1,
            None => return Some(start),
        }
    }
}

/// Returns where wrapped base64 begins: lines of equal length that together are long enough. In
/// JSON text, line ends and some letters are escaped.
fn wrapped_at(text: &str) -> Option<usize> {
    let (mut lines, mut run, mut rest) = (Lines::default(), Run::default(), text.as_bytes());
    while !rest.is_empty() {
        let (unit, length) = Unit::first(rest);
        match unit {
            Unit::Letter(letter) => run.push(text.len() - rest.len(), letter),
            Unit::End => lines.push(std::mem::take(&mut run)),
            Unit::Other => {
                lines.push(std::mem::take(&mut run));
                lines = Lines { found: lines.found, ..Lines::default() };
            }
        }
        if lines.found.is_some() {
            return lines.found;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    lines.push(run);
    lines.found
}

/// A part of a text, as the search for wrapped base64 distinguishes them.
enum Unit {
    /// A character of the base64 alphabet.
    Letter(u8),
    End,
    Other,
}

impl Unit {
    /// Returns the first unit of a text, and its length in bytes. JSON within JSON escapes an
    /// escape again.
    fn first(text: &[u8]) -> (Self, usize) {
        let escapes = text.iter().take_while(|byte| **byte == b'\\').count();
        let after = text.get(escapes..).unwrap_or_default();
        let unit = |byte: u8| match byte {
            b'\n' | b'\r' => Self::End,
            _ if is_of_base64(byte) => Self::Letter(byte),
            _ => Self::Other,
        };
        match (escapes, after) {
            (0, [byte, ..]) => (unit(*byte), 1),
            (_, [b'n' | b'r', ..]) => (Self::End, escapes + 1),
            (_, [b'/', ..]) => (Self::Letter(b'/'), escapes + 1),
            (_, [b'u', b'0', b'0', high, low, ..]) => {
                (hex_byte(*high, *low).map_or(Self::Other, unit), escapes + 5)
            }
            _ => (Self::Other, escapes.max(1)),
        }
    }
}

/// Consecutive characters of the base64 alphabet.
#[derive(Default)]
struct Run {
    start: usize,
    letters: usize,
    seen: CharacterSet,
}

impl Run {
    fn push(&mut self, at: usize, letter: u8) {
        if self.letters == 0 {
            self.start = at;
        }
        self.letters += 1;
        self.seen.insert(letter);
    }

    fn has(&self, letters: usize) -> bool {
        self.letters >= letters && self.seen.is_mixed()
    }
}

/// Consecutive lines of equal length.
#[derive(Default)]
struct Lines {
    start: usize,
    width: usize,
    letters: usize,
    /// Where base64 begins, once there is enough of it.
    found: Option<usize>,
}

impl Lines {
    /// Adds a line. An empty run, as between CR and LF, changes nothing.
    fn push(&mut self, run: Run) {
        if run.letters == 0 {
            return;
        }
        if run.has(BASE64_RUN) {
            self.found = Some(run.start);
            return;
        }
        // The last line may be shorter.
        let is_next = run.letters <= self.width;
        let (start, letters) = if is_next {
            (self.start, self.letters + run.letters)
        } else {
            (run.start, run.letters)
        };
        if is_next && letters >= BASE64_RUN {
            self.found = Some(start);
        }
        let is_line = run.has(LINE);
        (self.start, self.width, self.letters) = match is_line {
            true if run.letters == self.width => (start, run.letters, letters),
            true => (run.start, run.letters, run.letters),
            false => (0, 0, 0),
        };
    }
}

fn is_of_base64(byte: u8) -> bool {
    is_letter(byte) || byte == b'='
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_with_and_without_line_breaks() {
        let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0";
        let wrapped = format!("see below\n{}\nend", [line; 5].join("\r\n"));
        assert_eq!(before_base64(&wrapped), "see below\n");
        assert_eq!(before_base64(&format!("see {} end", line.repeat(4))), "see ");
        for text in [
            "a\n".repeat(400),
            "one two three four five six seven\n".repeat(40),
            format!("{line}\n{line}"),
            "GATTACA".repeat(200),
            "0123456789abcdef".repeat(40),
            format!("{}\n", "0123456789abcdef".repeat(4)).repeat(20),
            "31415926535897932384626433832795".repeat(20),
            "/srv/photos/2026/holiday".repeat(30),
            "Donaudampfschifffahrtsgesellschaftskapitän".repeat(9),
        ] {
            assert_eq!(before_base64(&text), text);
        }
    }

    #[test]
    fn base64_is_found_despite_json_escapes() {
        let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0";
        for width in [40, 41, 64, 76] {
            let lines: Vec<&str> =
                std::iter::repeat_n(&line[..width], 256 / width).chain([&line[..32]]).collect();
            for end in ["\\n", "\\r\\n", "\\\\r\\\\n", "\\u000A", "\n", "\r\n"] {
                let object = format!("{{\"name\":\"a.png\",\"held\":\"{}\"}}", lines.join(end));
                assert_eq!(
                    before_base64(&object),
                    "{\"name\":\"a.png\",\"held\":\"",
                    "{width} {end}"
                );
            }
            let list = format!("[\"{}\"]", lines.join("\",\""));
            assert_eq!(before_base64(&list), list, "texts of their own");
            let few = format!("\"{}\"", lines[lines.len() / 2..].join("\\n"));
            assert_eq!(before_base64(&few), few);
        }
        for slash in ["\\/", "\\u002F", "\\u002b"] {
            let object = format!("{{\"held\":\"{}\"}}", format!("{line}{slash}").repeat(4));
            assert_eq!(before_base64(&object), "{\"held\":\"", "{slash}");
        }
        for text in
            ["\\é".repeat(400), "\\".repeat(1000), "a\\u00".repeat(200), "\\n\\n".repeat(300)]
        {
            assert_eq!(before_base64(&text), text);
        }
    }
}
