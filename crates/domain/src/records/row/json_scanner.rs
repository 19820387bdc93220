//! The scanner that parses a row: one pass over JSON, from left to right.
//!
//! The scanner works on valid UTF-8, copies plain stretches of strings whole, and writes nested
//! values straight in their compact form. Every method leaves the scanner after what it took and
//! the white space that follows, so no method looks back.

use std::ops::Range;

use super::row_error::{MAX_DEPTH, MAX_NUMBER_CHARS, RowError, RowFault};
use crate::json::text::push_escaped;
use crate::records::value::FieldValue;

/// A text and the position up to which it has been read.
pub(super) struct JsonScanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    replaced: u64,
}

/// How to append a character that a string contains escaped.
type AppendChar = fn(&mut String, char);

impl<'a> JsonScanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RowError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|bad| RowFault::InvalidUtf8.at(bad.valid_up_to()))?;
        Ok(Self { text, bytes, at: 0, replaced: 0 })
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn replaced(&self) -> u64 {
        self.replaced
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, what: &'static str) -> RowError {
        RowFault::InvalidJson(what).at(self.at)
    }

    pub(super) fn white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes the byte `wanted`, if it is next, and the white space after it.
    pub(super) fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += 1;
            self.white_space();
        }
        found
    }

    pub(super) fn end(&self) -> Result<(), RowError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.wrong("something follows the value"))
        }
    }

    /// Whether another item follows. Takes the comma, or the byte that closes the array or object.
    pub(super) fn next_item_follows(&mut self, close: u8) -> Result<bool, RowError> {
        if self.take(b',') {
            return Ok(true);
        }
        if self.take(close) {
            return Ok(false);
        }
        Err(self.wrong(if close == b'}' {
            "a `,` or a `}` is missing"
        } else {
            "a `,` or a `]` is missing"
        }))
    }

    pub(super) fn colon(&mut self) -> Result<(), RowError> {
        if self.take(b':') { Ok(()) } else { Err(self.wrong("a `:` is missing")) }
    }

    /// Reads and decodes the name of a member.
    pub(super) fn name(&mut self) -> Result<String, RowError> {
        let mut name = String::new();
        self.quoted(&mut name, String::push)?;
        Ok(name)
    }

    /// Reads the value of a field. `depth` counts the arrays and objects around the value.
    pub(super) fn value(&mut self, depth: usize) -> Result<FieldValue, RowError> {
        Ok(match self.peek() {
            Some(b'"') => {
                let mut text = String::new();
                self.quoted(&mut text, String::push)?;
                FieldValue::Text(text)
            }
            Some(b'{' | b'[') => {
                let mut json = String::new();
                self.nested(&mut json, depth)?;
                FieldValue::Json(json)
            }
            Some(b't') => self.word("true").map(|_| FieldValue::Bool(true))?,
            Some(b'f') => self.word("false").map(|_| FieldValue::Bool(false))?,
            Some(b'n') => self.word("null").map(|_| FieldValue::Null)?,
            _ => FieldValue::Number(self.number()?.into()),
        })
    }

    /// Appends the next value in its compact form.
    fn nested(&mut self, out: &mut String, depth: usize) -> Result<(), RowError> {
        match self.peek() {
            Some(b'"') => return self.requoted_string(out),
            Some(b'{') => self.object(out, depth + 1)?,
            Some(b'[') => self.array(out, depth + 1)?,
            Some(b't') => out.push_str(self.word("true")?),
            Some(b'f') => out.push_str(self.word("false")?),
            Some(b'n') => out.push_str(self.word("null")?),
            _ => out.push_str(self.number()?),
        }
        Ok(())
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), RowError> {
        self.check_depth(depth)?;
        self.take(b'[');
        out.push('[');
        let mut more = !self.take(b']');
        while more {
            self.nested(out, depth)?;
            more = self.next_item_follows(b']')?;
            if more {
                out.push(',');
            }
        }
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<(), RowError> {
        self.check_depth(depth)?;
        self.take(b'{');
        out.push('{');
        // The position of each name in `out` and in the text. Names are equal if their compact
        // forms are.
        let mut names: Vec<(Range<usize>, usize)> = Vec::new();
        let mut more = !self.take(b'}');
        while more {
            let (from, at) = (out.len(), self.at);
            self.requoted_string(out)?;
            names.push((from..out.len(), at));
            self.colon()?;
            out.push(':');
            self.nested(out, depth)?;
            more = self.next_item_follows(b'}')?;
            if more {
                out.push(',');
            }
        }
        out.push('}');
        let name_of = |index: usize| {
            names.get(index).and_then(|(name, _)| out.get(name.clone())).unwrap_or_default()
        };
        match repeated(names.len(), name_of) {
            None => Ok(()),
            Some(index) => {
                let name = name_of(index).trim_start_matches('"');
                let name = name.strip_suffix('"').unwrap_or(name);
                Err(RowFault::duplicate(name).at(names.get(index).map_or(0, |(_, at)| *at)))
            }
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), RowError> {
        if depth > MAX_DEPTH { Err(RowFault::TooDeep.at(self.at)) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str) -> Result<&'static str, RowError> {
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            return Err(self.wrong("a value is missing or misspelt"));
        }
        self.at += word.len();
        self.white_space();
        Ok(word)
    }

    /// Reads a number in its original spelling.
    fn number(&mut self) -> Result<&'a str, RowError> {
        let from = self.at;
        self.skip(b'-');
        if !self.skip(b'0') {
            self.digits(from)?;
        }
        if self.skip(b'.') {
            self.digits(from)?;
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'+') || self.skip(b'-');
            self.digits(from)?;
        }
        if self.at - from > MAX_NUMBER_CHARS {
            return Err(RowFault::NumberTooLong.at(from));
        }
        let number = self.text.get(from..self.at).unwrap_or_default();
        self.white_space();
        Ok(number)
    }

    /// Reads at least one digit of the number that began at `from`.
    fn digits(&mut self, from: usize) -> Result<(), RowError> {
        let first = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at > first {
            true => Ok(()),
            false if first == from => Err(self.wrong("a value is missing or misspelt")),
            false => Err(self.wrong("a digit is missing in a number")),
        }
    }

    fn skip(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Appends the next string, quoted and with new escapes.
    fn requoted_string(&mut self, out: &mut String) -> Result<(), RowError> {
        out.push('"');
        self.quoted(out, push_escaped)?;
        out.push('"');
        Ok(())
    }

    /// Appends the content of the next string; `put` appends each escaped character.
    fn quoted(&mut self, out: &mut String, put: AppendChar) -> Result<(), RowError> {
        let from = self.at;
        if !self.skip(b'"') {
            return Err(self.wrong("a name in quotes is missing"));
        }
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(RowFault::InvalidJson("a string is not closed").at(from));
            };
            let plain = self.text.get(self.at..self.at + length).unwrap_or_default();
            // No early exit, so that the loop can be vectorized.
            if plain.bytes().fold(false, |any, byte| any | (byte < b' ')) {
                let offset = plain.bytes().position(|byte| byte < b' ').unwrap_or_default();
                return Err(RowFault::InvalidJson(
                    "a control character in a string is not escaped",
                )
                .at(self.at + offset));
            }
            out.push_str(plain);
            self.at += length;
            if self.skip(b'"') {
                self.white_space();
                return Ok(());
            }
            let character = self.escape()?;
            put(out, character);
        }
    }

    fn escape(&mut self) -> Result<char, RowError> {
        let from = self.at;
        self.at += 1;
        let kind = self.peek();
        self.at += 1;
        Ok(match kind {
            Some(mark @ (b'"' | b'\\' | b'/')) => char::from(mark),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(from),
            _ => return Err(RowFault::InvalidJson("a `\\` begins no escape").at(from)),
        })
    }

    /// Reads the character of a `\u` escape that began at `from`, and with it the second escape of
    /// a surrogate pair.
    fn unicode(&mut self, from: usize) -> Result<char, RowError> {
        let bad = RowFault::InvalidJson("a `\\u` needs four hexadecimal digits").at(from);
        let Some(unit) = self.unit(self.at) else { return Err(bad) };
        self.at += 4;
        if let 0xd800..=0xdbff = unit
            && self.bytes.get(self.at..self.at + 2) == Some(b"\\u")
            && let Some(low @ 0xdc00..=0xdfff) = self.unit(self.at + 2)
        {
            self.at += 6;
            let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(unit).unwrap_or_else(|| {
            self.replaced += 1;
            char::REPLACEMENT_CHARACTER
        }))
    }

    /// Reads four hexadecimal digits at a position.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at.checked_add(4)?)?;
        digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
    }
}

/// Returns the index of the second of two equal names among `count`.
///
/// Few names are compared with each other. Many are sorted, which needs memory for indexes only,
/// while a set would hold the names a second time.
pub(super) fn repeated<'a>(count: usize, name_of: impl Fn(usize) -> &'a str) -> Option<usize> {
    const FEW: usize = 16;
    if count <= FEW {
        return (1..count)
            .find(|&later| (0..later).any(|earlier| name_of(earlier) == name_of(later)));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by_key(|&index| (name_of(index), index));
    order.windows(2).find_map(|pair| match pair {
        &[earlier, later] if name_of(earlier) == name_of(later) => Some(later),
        _ => None,
    })
}
