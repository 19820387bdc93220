//! The members of front matter, and where in its text each of them is.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use super::super::yaml;

/// A part of a value, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Scalar { text: String, is_plain: bool },
    Alias,
    ListStart,
    MappingStart,
    End,
}

/// A scalar of a value as the front matter has it.
#[derive(Clone, Debug)]
pub(super) struct OldScalar {
    pub(super) text: String,
    pub(super) is_plain: bool,
    /// Where it is, with its quotes.
    pub(super) place: std::ops::Range<usize>,
}

/// How the value of an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Scalar,
    BlockScalar,
    Flow,
    Block,
}

/// A member of the front matter and where it is.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line_start: usize,
    pub(super) column: usize,
    pub(super) key_end: usize,
    /// Where the value begins and ends.
    pub(super) value: std::ops::Range<usize>,
    pub(super) form: Form,
    /// Whether the key or the value has an anchor or a tag, or the value has an alias in it.
    pub(super) is_marked: bool,
    /// Where the quoted scalars of the value are, in which no comment can be.
    pub(super) quoted: Vec<std::ops::Range<usize>>,
    /// The scalars of the value: itself, or the items of a list. Empty if anything else is in it.
    pub(super) scalars: Vec<OldScalar>,
    pub(super) nodes: Vec<Node>,
}

impl Entry {
    /// Whether a byte of the front matter is in a quoted scalar of the value.
    pub(super) fn is_quoted(&self, at: usize) -> bool {
        self.quoted.iter().any(|quoted| quoted.contains(&at))
    }

    /// Returns what stands before the first item of a list of lines.
    pub(super) fn item_head<'f>(&self, front: &'f str) -> Option<&'f str> {
        let first = self.scalars.first().filter(|_| self.form == Form::Block)?;
        let before = front.get(..first.place.start)?;
        let head = before.get(before.rfind('\n').map_or(0, |newline| newline + 1)..)?;
        let is_head = head.trim_start_matches(' ').strip_prefix('-')?.trim_matches(' ').is_empty();
        (is_head && head.ends_with(' ')).then_some(head)
    }
}

/// The front matter, member by member.
pub(super) struct Mapping {
    pub(super) entries: Vec<Entry>,
}

impl Mapping {
    /// Parses front matter; `None` unless it is one valid mapping with scalar keys, or has nothing
    /// but comments.
    pub(super) fn parse(front: &str) -> Option<Self> {
        let is_blank =
            front.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if is_blank {
            return Some(Self { entries: Vec::new() });
        }
        if !yaml::is_valid(front) {
            return None;
        }
        let mut events = Parser::new_from_str(front).filter_map(Result::ok);
        events.find(|(event, _)| matches!(event, Event::MappingStart(..)))?;
        let mut entries = Vec::new();
        loop {
            let (key, key_span, is_key_marked) = match events.next()? {
                (Event::MappingEnd, _) => return Some(Self { entries }),
                (Event::Scalar(key, _, anchor, tag), span) => {
                    (key.into_owned(), span, anchor != 0 || tag.is_some())
                }
                _ => return None,
            };
            let entry = Self::entry(front, key, key_span, is_key_marked, &mut events)?;
            entries.push(entry);
        }
    }

    fn entry<'a>(
        front: &str,
        key: String,
        key_span: Span,
        is_key_marked: bool,
        events: &mut impl Iterator<Item = (Event<'a>, Span)>,
    ) -> Option<Entry> {
        let (mut nodes, mut depth, mut is_marked) = (Vec::new(), 0usize, is_key_marked);
        let (mut start, mut form, mut quoted) = (None, Form::Scalar, Vec::new());
        let mut scalars = Vec::new();
        let end = loop {
            let (event, span) = events.next()?;
            if start.is_none() {
                let from = span.start.byte_offset()?;
                start = Some(from);
                form = match &event {
                    Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => {
                        Form::BlockScalar
                    }
                    Event::SequenceStart(..) | Event::MappingStart(..) => {
                        let is_flow =
                            front.get(from..).is_some_and(|rest| rest.starts_with(['[', '{']));
                        if is_flow { Form::Flow } else { Form::Block }
                    }
                    _ => Form::Scalar,
                };
            }
            match event {
                Event::Scalar(text, style, anchor, tag) => {
                    is_marked |= anchor != 0 || tag.is_some();
                    let is_plain = style == ScalarStyle::Plain;
                    let place = span.start.byte_offset()?..span.end.byte_offset()?;
                    if matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) {
                        quoted.push(place.clone());
                    }
                    scalars.push(OldScalar { text: text.to_string(), is_plain, place });
                    nodes.push(Node::Scalar { text: text.into_owned(), is_plain });
                }
                Event::SequenceStart(_, anchor, tag) => {
                    (is_marked, depth) = (is_marked || anchor != 0 || tag.is_some(), depth + 1);
                    nodes.push(Node::ListStart);
                }
                Event::MappingStart(_, anchor, tag) => {
                    (is_marked, depth) = (is_marked || anchor != 0 || tag.is_some(), depth + 1);
                    nodes.push(Node::MappingStart);
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    depth = depth.saturating_sub(1);
                    nodes.push(Node::End);
                }
                Event::Alias(_) | Event::UnresolvedAlias(_) => {
                    is_marked = true;
                    nodes.push(Node::Alias);
                }
                _ => continue,
            }
            if depth == 0 {
                break span.end.byte_offset()?;
            }
        };
        let is_simple = match nodes.as_slice() {
            [Node::ListStart, items @ .., Node::End] => {
                items.iter().all(|node| matches!(node, Node::Scalar { .. }))
            }
            nodes => nodes.len() == 1,
        };
        if !is_simple {
            scalars.clear();
        }
        let at = key_span.start.byte_offset()?;
        let line_start = front.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1);
        Some(Entry {
            key,
            line_start,
            column: at - line_start,
            key_end: key_span.end.byte_offset()?,
            value: start?..end,
            form,
            is_marked,
            quoted,
            scalars,
            nodes,
        })
    }

    pub(super) fn plain_entries(&self) -> Vec<(String, Vec<Node>)> {
        self.entries.iter().map(|entry| (entry.key.clone(), entry.nodes.clone())).collect()
    }
}
