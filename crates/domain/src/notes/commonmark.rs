//! The Markdown parser, and repairs of the rules where the parser differs from CommonMark 0.31.2.
//!
//! The parser is `pulldown-cmark` without extensions. Each repair cites the section of the
//! specification that it restores.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

/// Returns the events of a [`readable`] text in document order, with their byte ranges.
pub(super) fn events(body: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(body, Options::empty()).into_offset_iter()
}

/// Rewrites a text so that the parser reads it as the specification does. Most texts are borrowed.
///
/// - A NUL becomes U+FFFD (2.3).
/// - A lone carriage return becomes a line feed (2.1). The parser ignores a carriage return after
///   an HTML block in a list.
/// - A tab before `>` becomes spaces up to the next multiple of four (2.2), so that an indented `>`
///   is code and not a quote (5.1). The parser accepts any width for the tab.
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
    body
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
