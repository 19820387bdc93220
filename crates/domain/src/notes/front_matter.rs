//! Where a note's front matter ends and its body begins.

use super::white::trim_end;

/// A note's text, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note<'a> {
    /// What stands between the fences; `None` where there are none.
    pub(super) front: Option<&'a str>,
    /// What is Markdown, without white space at its end and without a byte order mark.
    pub(super) body: &'a str,
}

/// Splits a text at its fences: `---`, newline, YAML, newline, `---`, newline, at the very beginning. A
/// newline is LF or CRLF.
pub(super) fn split(text: &str) -> Note<'_> {
    let (front, body) = fenced(text).map_or((None, text), |(front, body)| (Some(front), body));
    let body = trim_end(body);
    Note { front, body: body.strip_prefix('\u{feff}').unwrap_or(body) }
}

fn fenced(text: &str) -> Option<(&str, &str)> {
    let rest = newline(text.strip_prefix("---")?)?;
    let mut from = 0;
    loop {
        let found = from + memchr::memmem::find(rest.get(from..)?.as_bytes(), b"\n---")?;
        let after = found + "\n---".len();
        if let Some(body) = newline(rest.get(after..)?) {
            let front = rest.get(..found)?;
            return Some((front.strip_suffix('\r').unwrap_or(front), body));
        }
        from = found + 1;
    }
}

fn newline(text: &str) -> Option<&str> {
    text.strip_prefix('\n').or_else(|| text.strip_prefix("\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_stand_at_the_very_beginning_and_are_closed() {
        for (text, front, body) in [
            ("---\na: 1\n---\nbody\n", Some("a: 1"), "body"),
            ("---\r\na: 1\r\n---\r\nbody", Some("a: 1"), "body"),
            ("---\n\n---\nbody", Some(""), "body"),
            ("---\n---\nbody", None, "---\n---\nbody"),
            ("---\na\n---", None, "---\na\n---"),
            ("---\na\n--- \nb", None, "---\na\n--- \nb"),
            ("---\na\n---x\n---\nb", Some("a\n---x"), "b"),
            (" ---\na\n---\nb", None, " ---\na\n---\nb"),
            ("\u{feff}---\na\n---\nb", None, "---\na\n---\nb"),
            ("---\na\n---\n\u{feff}b\u{a0}\n", Some("a"), "b"),
            ("----\na\n---\nb", None, "----\na\n---\nb"),
            ("", None, ""),
            ("---\n", None, "---"),
        ] {
            assert_eq!(split(text), Note { front, body }, "{text:?}");
        }
    }
}
