//! Splits a note into its front matter and its Markdown body.
//!
//! The front matter is the YAML at the head of a file, or a JSON object of a note that another
//! server sent. The rest of the module reads the values of either form.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use super::whitespace::trim_end;
use super::yaml::{self, FrontMatterScalar, FrontMatterValue, PlainDates};
use crate::lines::BOM;

pub(super) type FrontMatterMembers = Map<String, Json>;

/// A note, split into its front matter and its Markdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note<'a> {
    pub(super) front: Front<'a>,
    /// The text after the front matter, without white space at its end.
    pub(super) body: &'a str,
}

/// The front matter of a note, in its original form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Front<'a> {
    /// The note has no front matter.
    None,
    /// The YAML between the fences of a file.
    Yaml(&'a str),
    /// The members that another server sent.
    Json(&'a FrontMatterMembers),
}

impl<'a> Front<'a> {
    /// Returns the values of `keys` in the same order. All are `None` for invalid front matter.
    pub(super) fn values<const N: usize>(
        self,
        keys: [&str; N],
    ) -> [Option<FrontMatterValue<'a>>; N] {
        match self {
            Self::None => [const { None }; N],
            Self::Yaml(text) => yaml::values(text, keys),
            Self::Json(members) => {
                let has_merge = members.get(yaml::MERGE).is_some_and(yaml::is_unreadable);
                let merged = || has_merge.then_some(FrontMatterValue::Unreadable);
                keys.map(|key| value(members, key).or_else(merged))
            }
        }
    }
}

impl<'a> Note<'a> {
    /// Splits the text of a file at its fences: `---`, newline, YAML, newline, `---`, newline, at
    /// the very beginning of the file or after its byte order mark. A newline is LF or CRLF.
    pub fn parse(text: &'a str) -> Self {
        let (front, body) =
            fenced(text).map_or((Front::None, text), |(front, body)| (Front::Yaml(front), body));
        Self::new(front, body)
    }

    pub(super) fn new(front: Front<'a>, body: &'a str) -> Self {
        Self { front, body: trim_end(body) }
    }

    /// Returns the body without a byte order mark.
    pub(super) fn markdown(&self) -> &'a str {
        self.body.strip_prefix(BOM).unwrap_or(self.body)
    }
}

/// Returns the members of a file's front matter and the byte offset of its body.
///
/// Values keep their spelling in the source, as in [`super::portable::to_json`], and so does a date
/// without a time: whoever stores it must know that it is a day. For front matter that is absent,
/// invalid or not wholly readable, the members are empty and the body begins at 0, so no text is
/// lost.
pub fn parse_front_matter(text: &str) -> (FrontMatterMembers, usize) {
    let parsed = fenced(text).and_then(|(front, body)| {
        let front = yaml::members(front, PlainDates::Days).filter(|front| front.is_whole)?;
        Some((front.members, text.len() - body.len()))
    });
    parsed.unwrap_or_default()
}

/// Returns the byte offset of the text after the front matter; 0 without front matter.
pub(super) fn body_offset(text: &str) -> usize {
    fenced(text).map_or(0, |(_, body)| text.len() - body.len())
}

/// Returns a member as a facet needs it; `None` for null, an object, and an absent member.
fn value<'a>(members: &'a FrontMatterMembers, key: &str) -> Option<FrontMatterValue<'a>> {
    match members.get(key)? {
        unreadable if yaml::is_unreadable(unreadable) => Some(FrontMatterValue::Unreadable),
        Json::Array(items) => Some(FrontMatterValue::List {
            scalars: items.iter().filter_map(scalar).collect(),
            is_whole: !items.iter().any(yaml::is_unreadable),
        }),
        other => scalar(other).map(FrontMatterValue::Scalar),
    }
}

/// Returns a JSON scalar as text. No scalar is `plain`, because JSON has no dates: the other server
/// has converted each date to text.
fn scalar(value: &Json) -> Option<FrontMatterScalar<'_>> {
    let text = match value {
        Json::String(text) => Cow::Borrowed(text.as_str()),
        Json::Number(number) => Cow::Owned(number.to_string()),
        Json::Bool(truth) => Cow::Owned(truth.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    };
    Some(FrontMatterScalar { text, plain: false })
}

/// Returns the front matter between the fences and the text after them.
fn fenced(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
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
    fn invalid_front_matter_is_part_of_the_text() {
        for (text, members, body) in [
            (
                "---\na: [x, 007]\ndate: 2025-03-01\nupdated: 2025-03-01 7:00:00\n---\nbody\n",
                r#"{"a":["x","007"],"date":"2025-03-01","updated":"2025-03-01T07:00:00.000Z"}"#,
                "body\n",
            ),
            ("---\r\na: 1\r\n---\r\n", r#"{"a":1}"#, ""),
            ("---\na: 1\na: 2\n---\nbody", "{}", "---\na: 1\na: 2\n---\nbody"),
            ("---\na: [\n---\nbody", "{}", "---\na: [\n---\nbody"),
            ("---\na: &x 1\nb: *x\n---\nbody", "{}", "---\na: &x 1\nb: *x\n---\nbody"),
            ("---\n? [a]\n: b\n---\nbody", "{}", "---\n? [a]\n: b\n---\nbody"),
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
    fn fences_begin_the_text_and_are_closed() {
        for (text, front, body) in [
            ("---\na: 1\n---\nbody\n", Some("a: 1"), "body"),
            ("---\r\na: 1\r\n---\r\nbody", Some("a: 1"), "body"),
            ("---\n\n---\nbody", Some(""), "body"),
            ("---\n---\nbody", None, "---\n---\nbody"),
            ("---\na\n---", None, "---\na\n---"),
            ("---\na\n--- \nb", None, "---\na\n--- \nb"),
            ("---\na\n---x\n---\nb", Some("a\n---x"), "b"),
            (" ---\na\n---\nb", None, " ---\na\n---\nb"),
            ("\u{feff}---\na\n---\nb", Some("a"), "b"),
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
