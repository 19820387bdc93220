//! Where the parser and the specification differ, by rule.
//!
//! The parser is `pulldown-cmark` without extensions. Each function here cites the section of CommonMark
//! 0.31.2 that it restores.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

/// The events of a Markdown text, in document order, with the bytes they come from.
pub(super) fn events(body: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(body, Options::empty()).into_offset_iter()
}

/// How many `#` close an ATX heading that the parser takes for text, since a tab stands before them.
///
/// *Source*: 4.2, "The optional closing sequence of #s must be preceded by spaces or tabs". Nothing but text
/// ends with `#`, so they are the end of the heading's text.
pub(super) fn unseen_closing(source: &str) -> usize {
    let line = source.trim_end_matches(['\r', '\n', ' ', '\t']);
    // A setext heading has an underline.
    if !line.starts_with('#') || line.contains(['\r', '\n']) {
        return 0;
    }
    let before = line.trim_end_matches('#');
    if before.ends_with('\t') { line.len() - before.len() } else { 0 }
}
