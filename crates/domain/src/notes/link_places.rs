//! Finds where the path of a Markdown link is, and where a place of the readable body is in the
//! file.
//!
//! The parser reports where a link is, and what its destination means, but not where the
//! destination is. A place that is found wrongly does no harm: whoever changes a note parses it
//! again and compares.

use std::ops::Range;

/// Finds the path of an inline link, whose text ends at or after `text_end`, and which ends at
/// `link_end`. `None` for a link that is not inline.
pub(super) fn inline_path(body: &str, text_end: usize, link_end: usize) -> Option<Range<usize>> {
    let rest = body.get(text_end..link_end)?;
    let blank = rest.len() - rest.trim_start().len();
    rest.get(blank..)?.strip_prefix("](")?;
    path_at(body, text_end + blank + 2, link_end)
}

/// Finds the path of a definition such as `[label]: path`.
pub(super) fn defined_path(body: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let definition = body.get(span.clone())?;
    let mut at = definition.find('[')? + 1;
    loop {
        match definition.as_bytes().get(at)? {
            b'\\' => at += 2,
            b']' => break,
            _ => at += 1,
        }
    }
    definition.get(at..)?.strip_prefix("]:")?;
    path_at(body, span.start + at + 2, span.end)
}

/// Finds the path of the destination that begins after white space at `from`: all of it that is
/// before a `#`.
fn path_at(body: &str, from: usize, end: usize) -> Option<Range<usize>> {
    let rest = body.get(from..end)?;
    let start = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    let destination = rest.get(start..)?;
    let (start, path) = match destination.strip_prefix('<') {
        Some(inside) => (start + 1, inside.get(..bracketed_len(inside)?)?),
        None => (start, destination.get(..bare_len(destination))?),
    };
    let path = path.split('#').next().unwrap_or_default();
    Some(from + start..from + start + path.len())
}

/// Returns the length of what is before the closing `>`.
fn bracketed_len(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'>' if !is_escaped => return Some(at),
            b'\n' => return None,
            _ => is_escaped = byte == b'\\' && !is_escaped,
        }
    }
    None
}

/// Returns the length of a destination without brackets: up to white space or a `)` too many.
fn bare_len(destination: &str) -> usize {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (at, byte) in destination.bytes().enumerate() {
        match byte {
            _ if byte.is_ascii_whitespace() || byte.is_ascii_control() => return at,
            b'(' if !is_escaped => depth += 1,
            b')' if !is_escaped && depth == 0 => return at,
            b')' if !is_escaped => depth -= 1,
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    destination.len()
}

/// The places in the body of a file of what the parser read there.
pub(super) struct SourcePlaces<'a> {
    source: &'a str,
    readable: &'a str,
    /// Where each line begins in the readable body and in the file; `None` if the two are the same.
    lines: Option<Vec<(usize, usize)>>,
}

impl<'a> SourcePlaces<'a> {
    pub(super) fn new(source: &'a str, readable: &'a str) -> Self {
        let lines = (source != readable).then(|| {
            let starts = memchr::memchr_iter(b'\n', readable.as_bytes()).map(|at| at + 1);
            std::iter::once(0).chain(starts).zip(line_starts(source)).collect()
        });
        Self { source, readable, lines }
    }

    /// Returns where a part of one line is in the file; `None` if the file spells it differently.
    pub(super) fn in_source(&self, place: &Range<usize>) -> Option<Range<usize>> {
        let text = self.readable.get(place.clone())?;
        let Some(lines) = &self.lines else { return Some(place.clone()) };
        let number = lines.partition_point(|(start, _)| *start <= place.start).checked_sub(1)?;
        let (readable_start, source_start) = *lines.get(number)?;
        let line = |text: &'a str, start| -> Option<&'a str> {
            let rest: &'a str = text.get(start..)?;
            rest.split(['\r', '\n']).next()
        };
        let (readable, source) =
            (line(self.readable, readable_start)?, line(self.source, source_start)?);
        let column = place.start - readable_start;
        // What the parser reads differently is before the place or after it.
        let from_end = (source.len() + column).checked_sub(readable.len());
        let candidates = [Some(column), from_end].into_iter().flatten();
        candidates.map(|column| source_start + column).find_map(|start| {
            let found = start..start + place.len();
            let is_same = |one: &str, other: &str| one == other;
            let before = (readable.get(..column)?, self.source.get(source_start..start)?);
            let after = (
                readable.get(column + place.len()..)?,
                source.get(found.end.checked_sub(source_start)?..)?,
            );
            let fits = self.source.get(found.clone()) == Some(text)
                && (is_same(before.0, before.1) || is_same(after.0, after.1));
            fits.then_some(found)
        })
    }
}

/// Returns where each line begins, as Markdown ends lines.
fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let ends = text.bytes().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => text.as_bytes().get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1))
}

#[cfg(test)]
mod tests {
    use super::super::note_facts::NoteBody;

    /// Returns the paths of the links of a note, as the file spells them.
    fn paths(text: &str) -> Vec<Option<&str>> {
        let body = NoteBody::of(text).unwrap();
        let links = body.file_links(body.links());
        links.into_iter().map(|link| link.path.map(|place| &text[place])).collect()
    }

    #[test]
    fn the_path_of_each_kind_of_link_is_found() {
        for (text, expected) in [
            ("[[a]] ![[ b c #d|e]] [[f/a.md\\|x]]", &["a", "b c", "f/a.md"][..]),
            ("[t](a.md#One \"title\")", &["a.md"]),
            ("[t **s** `c`](<a b.md> 'x')", &["a b.md"]),
            ("[](a.md) ![i](\n  b.png)", &["a.md", "b.png"]),
            ("[t](a\\)(b).md) [t](a\\_b.md)", &["a\\)(b).md", "a\\_b.md"]),
            ("[![i](a.png)](b.md)", &["b.md", "a.png"]),
            ("[t][r] [r]\n\n[r]: <../a b.md#x> \"t\"\n", &["../a b.md", "../a b.md"]),
            ("[a\\]: b](c.md)", &["c.md"]),
            ("---\nk: 1\n---\r\n[t](a.md)\r\n[[b]]\r[[c]]\n", &["a.md", "b", "c"]),
            ("\u{feff}a\0b [[c]] d\0e [t](f.md)\n\t> [[g]]\n", &["f.md", "g"]),
            ("- \t> [[a]] b\0 [[c]] \0", &["a"]),
        ] {
            let found: Vec<&str> = paths(text).into_iter().flatten().collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
