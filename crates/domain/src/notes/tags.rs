//! Tags of notes, as Obsidian counts them: in the front matter and in the text.

use std::ops::Range;

use super::note_property::NoteProperty;

/// A tag to find, without `#` and in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedTag(String);

impl WantedTag {
    /// Parses a tag, with or without `#`; `None` for a text that no tag can be.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('#').unwrap_or(text);
        let (tag, rest) = leading_tag(text)?;
        rest.is_empty().then_some(Self(tag))
    }

    /// Whether one of the tags of a note is this tag, or is nested in it as `a/b` is in `a`.
    pub fn is_among(&self, tags: &[Box<str>]) -> bool {
        tags.iter().any(|tag| {
            let rest = tag.strip_prefix(self.0.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Returns the tags of the properties `tags` and `tag`: the items of a list, or a text with spaces
/// or commas between them.
pub(super) fn front_matter_tags(properties: &[NoteProperty]) -> impl Iterator<Item = Box<str>> {
    properties
        .iter()
        .filter(|property| ["tags", "tag"].iter().any(|n| property.name.eq_ignore_ascii_case(n)))
        .flat_map(|property| &property.values)
        .flat_map(|value| value.split(|c: char| c == ',' || c.is_whitespace()))
        .filter_map(|text| WantedTag::parse(text).map(|WantedTag(tag)| tag.into()))
}

/// Returns the tags in a text. `excluded` are the places that have none, in order: code, HTML and
/// links.
pub(super) fn inline_tags(body: &str, excluded: &[Range<usize>]) -> Vec<Box<str>> {
    let mut tags = Vec::new();
    let mut excluded = excluded.iter().peekable();
    for at in memchr::memchr_iter(b'#', body.as_bytes()) {
        while excluded.next_if(|range| range.end <= at).is_some() {}
        if excluded.peek().is_some_and(|range| range.contains(&at)) {
            continue;
        }
        let before = body.get(..at).and_then(|before| before.chars().next_back());
        if before.is_some_and(|before| !before.is_whitespace()) {
            continue;
        }
        tags.extend(body.get(at + 1..).and_then(leading_tag).map(|(tag, _)| tag.into()));
    }
    tags
}

/// Returns the tag at the beginning of a text, in lower case, and the text after the tag.
fn leading_tag(text: &str) -> Option<(String, &str)> {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    let length = text.find(|c| !is_inside(c)).unwrap_or(text.len());
    let (tag, rest) = text.split_at_checked(length)?;
    let tag = tag.trim_matches('/');
    tag.contains(|c: char| !c.is_numeric() && c != '/').then(|| (tag.to_lowercase(), rest))
}

#[cfg(test)]
mod tests {
    use super::super::note_facts::NoteFacts;
    use super::*;

    fn tags(text: &str) -> Vec<String> {
        NoteFacts::of(text).unwrap().tags.iter().map(|tag| tag.to_string()).collect()
    }

    #[test]
    fn the_front_matter_has_tags_as_a_list_or_a_text() {
        for (front, expected) in [
            ("tags: [a, B/c]", &["a", "b/c"][..]),
            ("tags:\n  - a\n  - '#b'", &["a", "b"]),
            ("tag: a", &["a"]),
            ("Tags: a, b c", &["a", "b", "c"]),
            ("tags: [2024, y2024]", &["y2024"]),
            ("tags:\nother: [a]", &[]),
            ("tags: {a: b}", &[]),
            ("tags: [a", &[]),
        ] {
            assert_eq!(tags(&format!("---\n{front}\n---\nx")), expected, "{front}");
        }
    }

    #[test]
    fn an_inline_tag_follows_white_space_or_begins_a_line() {
        for (text, expected) in [
            ("#a and #b", &["a", "b"][..]),
            ("- #a\n> #b\n# Title #c", &["a", "b", "c"]),
            ("x#a (#b) ##c \\#d &#35; # e", &[]),
            ("#a, #b. #c!", &["a", "b", "c"]),
        ] {
            assert_eq!(tags(text), expected, "{text}");
        }
    }

    #[test]
    fn a_tag_has_letters_digits_underscores_hyphens_and_slashes() {
        for (text, expected) in [
            ("#to-do_1/x", &["to-do_1/x"][..]),
            ("#\u{e9}t\u{e9} #\u{4e2d}\u{6587}", &["\u{e9}t\u{e9}", "\u{4e2d}\u{6587}"]),
            ("#a+b #c:d", &["a", "c"]),
            ("#a/ #/", &["a"]),
        ] {
            assert_eq!(tags(text), expected, "{text}");
        }
    }

    #[test]
    fn a_tag_has_something_beside_digits() {
        assert_eq!(tags("#1984 #y1984 #1984y #1/2 #_ #-"), ["-", "1984y", "_", "y1984"]);
    }

    #[test]
    fn no_tag_is_in_code_html_or_a_link() {
        for text in [
            "`#a`", "    #a", "```\n#a\n```", "<!-- #a -->", "<div>\n#a\n</div>",
            "x <b title='x #a'>", "[x #a](y)", "[x](y \"t #a\")", "[[x #a]]", "![x #a](y)",
            "[x]: <#a> 'x #b'", "[x]: y 'x #b'",
        ] {
            assert_eq!(tags(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(tags("`x` #a [x](y) #b"), ["a", "b"]);
    }

    #[test]
    fn a_nested_tag_is_found_by_its_parents_in_any_case() {
        let found = |wanted: &str, text: &str| {
            let facts = NoteFacts::of(text).unwrap();
            WantedTag::parse(wanted).unwrap().is_among(&facts.tags)
        };
        assert!(found("a", "#a/b") && found("#A/B", "#a/b") && found("a", "#A"));
        assert!(!found("a", "#ab") && !found("a/b", "#a") && !found("b", "#a/b"));
        for wrong in ["", "#", "a b", "1", "a#b", "/"] {
            assert_eq!(WantedTag::parse(wrong), None, "{wrong}");
        }
    }
}
