//! Tags of notes, as Obsidian counts them: in the front matter and in the text.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

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

/// Returns the tag at the beginning of a text, in lower case with composed accents, and the text
/// after the tag.
fn leading_tag(text: &str) -> Option<(String, &str)> {
    let length = text.find(|c| !is_in_tags(c)).unwrap_or(text.len());
    let (tag, rest) = text.split_at_checked(length)?;
    let tag = tag.trim_matches('/');
    let is_tag = tag.contains(|c: char| !c.is_numeric() && c != '/');
    is_tag.then(|| (tag.nfc().flat_map(char::to_lowercase).collect(), rest))
}

/// Whether tags may have a character: letters with their marks, digits, `_`, `-`, `/`, emoji and
/// the joiners that some scripts and emoji have between characters.
fn is_in_tags(c: char) -> bool {
    let is_joiner = matches!(c, '\u{200c}' | '\u{200d}' | '\u{e0020}'..='\u{e007f}');
    let is_emoji = matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}');
    c.is_alphanumeric()
        || is_combining_mark(c)
        || is_joiner
        || is_emoji
        || matches!(c, '_' | '-' | '/')
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
    fn a_tag_keeps_the_marks_of_its_letters_and_emoji() {
        for tag in [
            "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            "\u{ba4}\u{bae}\u{bbf}\u{bb4}\u{bcd}",
            "\u{9ac}\u{9bf}\u{99c}\u{9cd}\u{99e}\u{9be}\u{9a8}",
            "\u{e44}\u{e17}\u{e22}",
            "\u{6a9}\u{200c}\u{645}",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}/\u{2764}\u{fe0f}",
        ] {
            assert_eq!(tags(&format!("#{tag}, x")), [tag], "{tag}");
            assert_eq!(tags(&format!("---\ntags:\n  - {tag}\n---\n")), [tag], "{tag}");
            assert!(WantedTag::parse(tag).is_some(), "{tag}");
        }
    }

    #[test]
    fn a_tag_is_the_same_with_composed_and_decomposed_accents() {
        for (one, other) in [("caf\u{e9}", "cafe\u{301}"), ("cafe\u{301}", "CAF\u{c9}")] {
            let facts = NoteFacts::of(&format!("#{one}/x")).unwrap();
            assert!(WantedTag::parse(other).unwrap().is_among(&facts.tags), "{one} {other}");
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
