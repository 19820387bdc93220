//! Reads JSON that arrives in pieces, and reports its parts in order.
//!
//! The values that the store keeps are valid JSON, so the lexer checks nothing. It holds no more
//! than the kinds of the open arrays and objects, at most one escape, and no text.

use std::mem;

/// A part of a JSON text. Names and texts come decoded, in one or more parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonEvent<'t> {
    /// An array or an object begins.
    Begin(Container),
    /// The innermost array or object ends.
    End,
    /// A part of a member's name.
    Name(&'t str),
    NameEnd,
    /// A part of a text.
    Text(&'t str),
    TextEnd,
    /// A part of a number, `true`, `false` or `null`.
    Scalar(&'t str),
    ScalarEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Array,
    Object,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    Name,
    Text,
    Scalar,
}

/// Reads JSON in pieces. A piece may end anywhere between two characters.
#[derive(Debug, Default)]
pub(crate) struct JsonLexer {
    open: Vec<Container>,
    /// Whether the next text is the name of a member.
    expects_name: bool,
    within: Within,
    escape: Option<Escape>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

/// An escape of which the backslash was read.
#[derive(Clone, Copy, Debug, Default)]
struct Escape {
    /// How many hexadecimal digits were read after `u`, and their value.
    digits: Option<(u8, u16)>,
}

impl JsonLexer {
    /// Reads the next piece. `report` gets each part and the offset in the piece at which the part
    /// ends, in bytes.
    pub(crate) fn feed(&mut self, piece: &str, report: &mut dyn FnMut(JsonEvent<'_>, usize)) {
        let mut at = 0;
        let mut run = 0;
        while let Some(&byte) = piece.as_bytes().get(at) {
            match self.within {
                Within::Nothing => {
                    run = at;
                    if self.between(byte, at + 1, report) {
                        run = at + 1;
                    }
                    // The first byte of a scalar is a part of it.
                    at += 1;
                }
                Within::Scalar
                    if matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t') =>
                {
                    self.flush(piece, run..at, report);
                    self.within = Within::Nothing;
                    report(JsonEvent::ScalarEnd, at);
                }
                Within::Scalar => at += 1,
                Within::Name | Within::Text => {
                    if let Some(escape) = self.escape.take() {
                        if let Some(decoded) = self.unescape(escape, byte) {
                            let mut utf8 = [0; 4];
                            self.report_part(decoded.encode_utf8(&mut utf8), at + 1, report);
                        }
                        run = at + 1;
                    } else if byte == b'\\' {
                        self.flush(piece, run..at, report);
                        self.escape = Some(Escape::default());
                    } else if byte == b'"' {
                        self.flush(piece, run..at, report);
                        let ended = match mem::take(&mut self.within) {
                            Within::Name => JsonEvent::NameEnd,
                            _ => JsonEvent::TextEnd,
                        };
                        report(ended, at + 1);
                    }
                    at += 1;
                }
            }
        }
        if self.escape.is_none() && self.within != Within::Nothing {
            self.flush(piece, run..at, report);
        }
    }

    /// Ends the JSON. Reports the end of a number that nothing follows.
    pub(crate) fn finish(&mut self, report: &mut dyn FnMut(JsonEvent<'_>, usize)) {
        if mem::take(&mut self.within) == Within::Scalar {
            report(JsonEvent::ScalarEnd, 0);
        }
    }

    /// Reads a byte outside of names, texts and scalars. Returns whether the next part begins after
    /// the byte, not with it.
    fn between(
        &mut self,
        byte: u8,
        end: usize,
        report: &mut dyn FnMut(JsonEvent<'_>, usize),
    ) -> bool {
        match byte {
            b'{' | b'[' => {
                let kind = if byte == b'{' { Container::Object } else { Container::Array };
                self.open.push(kind);
                self.expects_name = kind == Container::Object;
                report(JsonEvent::Begin(kind), end);
            }
            b'}' | b']' => {
                self.open.pop();
                self.expects_name = false;
                report(JsonEvent::End, end);
            }
            b',' => self.expects_name = self.open.last() == Some(&Container::Object),
            b':' => self.expects_name = false,
            b'"' => self.within = if self.expects_name { Within::Name } else { Within::Text },
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                self.within = Within::Scalar;
                return false;
            }
        }
        true
    }

    fn flush(
        &self,
        piece: &str,
        range: std::ops::Range<usize>,
        report: &mut dyn FnMut(JsonEvent<'_>, usize),
    ) {
        let end = range.end;
        let part = piece.get(range).unwrap_or_default();
        if !part.is_empty() {
            self.report_part(part, end, report);
        }
    }

    fn report_part(&self, part: &str, end: usize, report: &mut dyn FnMut(JsonEvent<'_>, usize)) {
        match self.within {
            Within::Name => report(JsonEvent::Name(part), end),
            Within::Text => report(JsonEvent::Text(part), end),
            Within::Scalar => report(JsonEvent::Scalar(part), end),
            Within::Nothing => {}
        }
    }

    /// Reads the next byte of an escape. Returns the character once it is whole.
    fn unescape(&mut self, escape: Escape, byte: u8) -> Option<char> {
        let Some((count, value)) = escape.digits else {
            return Some(match byte {
                b'u' => {
                    self.escape = Some(Escape { digits: Some((0, 0)) });
                    return None;
                }
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                other => char::from(other),
            });
        };
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        let value = value << 4 | u16::try_from(digit).unwrap_or_default();
        if count < 3 {
            self.escape = Some(Escape { digits: Some((count + 1, value)) });
            return None;
        }
        match (self.high.take(), value) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(value);
                None
            }
            (Some(high), _) => {
                let pair = char::decode_utf16([high, value]).next().and_then(Result::ok);
                Some(pair.unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            (None, _) => Some(char::from_u32(value.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}
