//! The Markdown parser, and repairs of the rules where the parser differs from CommonMark 0.31.2.
//!
//! The parser is `pulldown-cmark` without extensions, but for the footnotes of links. Each repair
//! cites the section of the specification that it restores.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The elements whose HTML block ends at an end tag, in lower case (4.6, kind 1).
const RAW_ELEMENTS: [&str; 4] = ["pre", "script", "style", "textarea"];
/// How many HTML blocks of a note are repaired. Each costs another pass of the parser.
const MAX_ENDED_BLOCKS: usize = 32;

/// Returns the events of a [`readable`] text in document order, with their byte ranges.
pub(super) fn events(body: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(body, Options::empty()).into_offset_iter()
}

/// The events of a [`readable`] text, with the places of the definitions of its references.
pub(super) struct EventsAndDefinitions<'a>(pulldown_cmark::OffsetIter<'a>);

/// Returns the events of a [`readable`] text, as [`events`] does, but with footnotes. Without them
/// the text of a footnote such as `[^1]: [[a]]` would be the destination of a reference.
pub(super) fn events_and_definitions(body: &str) -> EventsAndDefinitions<'_> {
    EventsAndDefinitions(Parser::new_ext(body, Options::ENABLE_FOOTNOTES).into_offset_iter())
}

impl EventsAndDefinitions<'_> {
    /// Returns where the definitions of references are.
    pub(super) fn definitions(&self) -> Vec<Range<usize>> {
        self.0.reference_definitions().iter().map(|(_, found)| found.span.clone()).collect()
    }

    /// Returns where a reference is defined, by its label.
    pub(super) fn definition(&self, label: &str) -> Option<Range<usize>> {
        self.0.reference_definitions().get(label).map(|found| found.span.clone())
    }
}

impl<'a> Iterator for EventsAndDefinitions<'a> {
    type Item = (Event<'a>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

/// Rewrites a text so that the parser reads it as the specification does. Most texts are borrowed.
///
/// - A NUL becomes U+FFFD (2.3).
/// - A lone carriage return becomes a line feed (2.1). The parser ignores a carriage return after
///   an HTML block in a list.
/// - A tab before `>` becomes spaces up to the next multiple of four (2.2), so that an indented `>`
///   is code and not a quote (5.1). The parser accepts any width for the tab.
/// - An HTML block that the end tag of another element ends gets its own end tag on that line (4.6,
///   kind 1: the end tag "need not match the start tag"). The parser waits for the block's own.
///   Only the first [`MAX_ENDED_BLOCKS`] are repaired.
///
/// No rewriting changes the number of lines.
pub(super) fn readable(body: &str) -> Cow<'_, str> {
    let mut body = Cow::Borrowed(body);
    if body.contains('\0') {
        body = body.replace('\0', "\u{fffd}").into();
    }
    if memchr::memchr(b'\r', body.as_bytes()).is_some() {
        body = body.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    if memchr::memchr(b'\t', body.as_bytes()).is_some()
        && body.split('\n').any(|line| quoted_after_tab(line).is_some())
    {
        body = body.split('\n').map(spaced).collect::<Vec<_>>().join("\n").into();
    }
    if has_different_raw_elements(&body) {
        for _ in 0..MAX_ENDED_BLOCKS {
            let Some((at, element)) = foreign_end(&body) else { break };
            body.to_mut().insert_str(at, &format!("</{element}>"));
        }
    }
    body
}

/// Whether a text has the start tag of one raw element and the end tag of another, or an end tag
/// with capital letters, which the parser does not know either. Most texts have not.
fn has_different_raw_elements(body: &str) -> bool {
    let (mut starts, mut ends, mut has_capitals) = ([false; 4], [false; 4], false);
    for at in memchr::memchr_iter(b'<', body.as_bytes()) {
        let tag = body.as_bytes().get(at + 1..).unwrap_or_default();
        let (tags, name) = match tag.strip_prefix(b"/") {
            Some(name) => (&mut ends, name),
            None => (&mut starts, tag),
        };
        for (element, found) in RAW_ELEMENTS.iter().zip(tags) {
            *found |= begins_with(name, element);
            has_capitals |= begins_with(name, element) && !name.starts_with(element.as_bytes());
        }
    }
    let starts = || (0..4).filter(|at| starts.get(*at) == Some(&true));
    let mut ends = (0..4).filter(|at| ends.get(*at) == Some(&true));
    has_capitals || ends.any(|end| starts().any(|start| start != end))
}

/// Returns the end of the first line at which an HTML block should end by the end tag of another
/// element, and the element of the block. The parser has read on there.
fn foreign_end(body: &str) -> Option<(usize, &'static str)> {
    let (mut element, mut is_first, mut ended_at) = (None, false, None);
    for (event, range) in events(body) {
        match event {
            Event::Start(Tag::HtmlBlock) => (element, is_first, ended_at) = (None, true, None),
            Event::End(TagEnd::HtmlBlock) => (element, ended_at) = (None, None),
            Event::Html(_) => {
                let line = body.get(range.clone()).unwrap_or_default();
                if std::mem::take(&mut is_first) {
                    element = raw_element(line);
                }
                let Some(element) = element else { continue };
                if let Some(at) = ended_at {
                    return Some((at, element));
                }
                if has_raw_end(line) {
                    ended_at = Some(range.start + line.trim_end_matches('\n').len());
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the element of a line that begins an HTML block of kind 1.
fn raw_element(line: &str) -> Option<&'static str> {
    let tag = line.trim_start_matches([' ', '\t']).strip_prefix('<')?.as_bytes();
    RAW_ELEMENTS.into_iter().find(|element| {
        begins_with(tag, element)
            && matches!(tag.get(element.len()), None | Some(b' ' | b'\t' | b'\n' | b'>'))
    })
}

/// Whether a line has the end tag of any element of [`RAW_ELEMENTS`].
fn has_raw_end(line: &str) -> bool {
    memchr::memmem::find_iter(line.as_bytes(), "</").any(|at| {
        let tag = line.as_bytes().get(at + 2..).unwrap_or_default();
        RAW_ELEMENTS
            .into_iter()
            .any(|element| begins_with(tag, element) && tag.get(element.len()) == Some(&b'>'))
    })
}

/// Whether a text begins with a name, in letters of either case.
fn begins_with(text: &[u8], name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns the white space before the `>` of a line, if a tab is in it.
fn quoted_after_tab(line: &str) -> Option<&str> {
    if !line.starts_with([' ', '\t']) {
        return None;
    }
    let rest = line.trim_start_matches([' ', '\t']);
    let before = line.get(..line.len() - rest.len())?;
    (rest.starts_with('>') && before.contains('\t')).then_some(before)
}

fn spaced(line: &str) -> Cow<'_, str> {
    let Some(before) = quoted_after_tab(line) else { return line.into() };
    let width = before
        .bytes()
        .fold(0, |width, byte| if byte == b'\t' { width / 4 * 4 + 4 } else { width + 1 });
    (" ".repeat(width) + line.trim_start_matches([' ', '\t'])).into()
}

/// Returns the offset and the length of the closing sequence of `#` in an ATX heading.
///
/// *Source*: 4.2, "The optional closing sequence of #s must be preceded by spaces or tabs and may
/// be followed by spaces or tabs only". The parser accepts only spaces. Where the parser takes the
/// sequence for text, that text is the last of the heading, because only text ends with `#`.
pub(super) fn closing(source: &str) -> Option<(usize, usize)> {
    let line = source.trim_end_matches(['\r', '\n', ' ', '\t']);
    // A setext heading has an underline.
    if !line.starts_with('#') || line.contains(['\r', '\n']) {
        return None;
    }
    let before = line.trim_end_matches('#');
    (before.len() < line.len() && before.ends_with([' ', '\t']))
        .then_some((before.len(), line.len() - before.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_html_block_ends_at_the_end_tag_of_any_raw_element() {
        let block = "<pre>\n# code\nx</script> y\n# One\n";
        assert_eq!(readable(block), "<pre>\n# code\nx</script> y</pre>\n# One\n");
        let quoted = "> <style\n> </STYLE>\n> # One\n";
        assert_eq!(readable(quoted), "> <style\n> </STYLE></style>\n> # One\n");
        for same in [
            "<pre>\n</script></pre>\n# One\n",
            "<pre>\n</script>",
            "    <pre>\n</script>\n# One\n",
            "<preface>\n</script>\n# One\n",
            "<pre>\n</script >\n# One\n",
            "a </script>\n# One\n",
        ] {
            assert!(matches!(readable(same), Cow::Borrowed(_)), "{same}");
        }
        let many = "<pre>\n</script>\n\n".repeat(MAX_ENDED_BLOCKS + 1) + "# Last\n";
        assert_eq!(readable(&many).matches("</pre>").count(), MAX_ENDED_BLOCKS);
    }
}
