//! Where a note's front matter ends and its body begins.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use super::whitespace::trim_end;
use super::yaml::{self, Scalar, Value};

/// The members of a front matter.
pub(super) type FrontMatterMembers = Map<String, Json>;

/// A note, taken apart: what is said about it, and its Markdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note<'a> {
    pub(super) front: Front<'a>,
    /// What follows it, without white space at its end.
    pub(super) body: &'a str,
}

/// Front matter, in the form in which it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Front<'a> {
    /// There is none.
    None,
    /// What stands between the fences of a file.
    Yaml(&'a str),
    /// What another server made of it.
    Json(&'a FrontMatterMembers),
}

impl<'a> Front<'a> {
    /// The values of `keys`, in their order. All are `None` where the front matter does not count.
    pub(super) fn values<const N: usize>(self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        match self {
            Self::None => [const { None }; N],
            Self::Yaml(text) => yaml::values(text, keys),
            Self::Json(members) => keys.map(|key| value(members, key)),
        }
    }
}

impl<'a> Note<'a> {
    /// Splits the text of a file at its fences: `---`, newline, YAML, newline, `---`, newline, at
    /// the very beginning. A newline is LF or CRLF.
    pub fn parse(text: &'a str) -> Self {
        let (front, body) =
            fenced(text).map_or((Front::None, text), |(front, body)| (Front::Yaml(front), body));
        Self::new(front, body)
    }

    pub(super) fn new(front: Front<'a>, body: &'a str) -> Self {
        Self { front, body: trim_end(body) }
    }

    /// What is Markdown: the body without a byte order mark.
    pub(super) fn markdown(&self) -> &'a str {
        self.body.strip_prefix('\u{feff}').unwrap_or(self.body)
    }
}

/// The members of a file's front matter, and where in the text its body begins, in bytes.
///
/// Values are told as their source spells them ([`portable::portable`]). Where there is no front
/// matter, or it does not count, there are no members and the body begins at 0, so that none of the
/// text is lost.
pub fn parse_front_matter(text: &str) -> (FrontMatterMembers, usize) {
    let counted = fenced(text)
        .and_then(|(front, body)| Some((yaml::members(front)?, text.len() - body.len())));
    counted.unwrap_or_default()
}

/// A value of the front matter, as far as a facet can be made of it.
fn value<'a>(members: &'a FrontMatterMembers, key: &str) -> Option<Value<'a>> {
    match members.get(key)? {
        Json::Array(items) => Some(Value::List(items.iter().filter_map(scalar).collect())),
        other => scalar(other).map(Value::Scalar),
    }
}

/// JSON has no dates, so none is `plain`: whoever wrote it has told a moment as text.
fn scalar(value: &Json) -> Option<Scalar<'_>> {
    let text = match value {
        Json::String(text) => Cow::Borrowed(text.as_str()),
        Json::Number(number) => Cow::Owned(number.to_string()),
        Json::Bool(truth) => Cow::Owned(truth.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    };
    Some(Scalar { text, plain: false })
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
    fn front_matter_that_does_not_count_is_text() {
        for (text, members, body) in [
            (
                "---\nb: 1\na: [x, 007]\ndate: 2025-03-01\n---\nbody\n",
                r#"{"b":1,"a":["x","007"],"date":"2025-03-01T00:00:00.000Z"}"#,
                "body\n",
            ),
            ("---\r\na: 1\r\n---\r\n", r#"{"a":1}"#, ""),
            ("---\na: 1\na: 2\n---\nbody", "{}", "---\na: 1\na: 2\n---\nbody"),
            ("---\na: [\n---\nbody", "{}", "---\na: [\n---\nbody"),
            ("body", "{}", "body"),
        ] {
            let (found, at) = parse_front_matter(text);
            assert_eq!(
                (serde_json::Value::Object(found).to_string().as_str(), &text[at..]),
                (members, body)
            );
        }
    }

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
            ("\u{feff}---\na\n---\nb", None, "\u{feff}---\na\n---\nb"),
            ("---\na\n---\n\u{feff}b\u{a0}\n", Some("a"), "\u{feff}b"),
            ("----\na\n---\nb", None, "----\na\n---\nb"),
            ("", None, ""),
            ("---\n", None, "---"),
        ] {
            let front = front.map_or(Front::None, Front::Yaml);
            let note = Note::parse(text);
            assert_eq!(note, Note { front, body }, "{text:?}");
            assert!(!note.markdown().starts_with('\u{feff}'), "{text:?}");
        }
    }
}
