//! Joins encoded words of a header that follow one another, before they are decoded.
//!
//! Many programs cut a long text into encoded words within a character. Neighbours in one charset
//! become one word here, so that the character is whole when it is decoded.
//!
//! *Source*: RFC 2047, sections 2 and 6.2.

use std::borrow::Cow;

use mail_parser::HeaderValue;
use mail_parser::decoders::base64::base64_decode;
use mail_parser::parsers::MessageStream;

use super::transfer_encoding::hexadecimal_byte;

/// Replaces each group of neighbours in one charset by one encoded word with the same bytes. The
/// white space between neighbours falls away.
pub(super) fn join(value: &[u8]) -> Cow<'_, [u8]> {
    let mut joined = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(begin) = memchr::memmem::find(value.get(at..).unwrap_or_default(), b"=?") {
        let begin = at + begin;
        let Some(first) = EncodedWord::parse(value, begin) else {
            at = begin + 2;
            continue;
        };
        let mut group = vec![first];
        while let Some(next) = group.last().and_then(|last| last.neighbour(value)) {
            group.push(next);
        }
        at = group.last().map_or(begin + 2, |last| last.end);
        if group.len() > 1 {
            joined.extend_from_slice(value.get(copied..begin).unwrap_or_default());
            joined.extend(one_word(&group));
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(value);
    }
    joined.extend_from_slice(value.get(copied..).unwrap_or_default());
    Cow::Owned(joined)
}

/// Returns the text of a line with encoded words decoded; `None` if it is empty.
pub(super) fn decoded(value: &[u8]) -> Option<String> {
    let mut value = join(value).into_owned();
    if !value.ends_with(b"\n") {
        value.push(b'\n');
    }
    match MessageStream::new(&value).parse_unstructured() {
        HeaderValue::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// An encoded word such as `=?utf-8?Q?Gr=C3=BC?=`.
#[derive(Clone, Copy)]
struct EncodedWord<'v> {
    charset: &'v [u8],
    is_base64: bool,
    text: &'v [u8],
    /// The offset behind the word.
    end: usize,
}

impl<'v> EncodedWord<'v> {
    /// Parses the word that begins at an offset.
    fn parse(value: &'v [u8], begin: usize) -> Option<Self> {
        let mut parts = value.get(begin + 2..)?.splitn(3, |&byte| byte == b'?');
        let (charset, encoding, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let is_base64 = encoding.eq_ignore_ascii_case(b"b");
        if !(is_base64 || encoding.eq_ignore_ascii_case(b"q")) || charset.is_empty() {
            return None;
        }
        let length = memchr::memmem::find(rest, b"?=")?;
        let text = rest.get(..length)?;
        let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n' | b'?');
        let is_charset = |byte: &u8| byte.is_ascii_graphic();
        (text.iter().all(is_text) && charset.iter().all(is_charset)).then_some(Self {
            charset,
            is_base64,
            text,
            end: begin + 2 + charset.len() + 1 + encoding.len() + 1 + length + 2,
        })
    }

    /// Returns the word in the same charset that only white space separates from this one.
    fn neighbour(&self, value: &'v [u8]) -> Option<Self> {
        let rest = value.get(self.end..)?;
        let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if !rest.get(spaces..)?.starts_with(b"=?") {
            return None;
        }
        let next = Self::parse(value, self.end + spaces)?;
        next.charset.eq_ignore_ascii_case(self.charset).then_some(next)
    }
}

/// Returns one encoded word with the bytes of all words of a group.
fn one_word(group: &[EncodedWord<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A few programs cut within the four digits of base64. Such digits are joined first.
    let mut digits = Vec::new();
    let decode_digits = |digits: &mut Vec<u8>, bytes: &mut Vec<u8>| {
        bytes.extend(base64_decode(digits).unwrap_or_default());
        digits.clear();
    };
    for word in group {
        if word.is_base64 {
            digits.extend_from_slice(word.text);
            if digits.len().is_multiple_of(4) || digits.ends_with(b"=") {
                decode_digits(&mut digits, &mut bytes);
            }
        } else {
            decode_digits(&mut digits, &mut bytes);
            add_bytes_of_q(word.text, &mut bytes);
        }
    }
    decode_digits(&mut digits, &mut bytes);
    let charset = group.first().map_or(&b"utf-8"[..], |word| word.charset);
    let mut word = [b"=?", charset, b"?Q?"].concat();
    bytes.iter().for_each(|byte| word.extend(format!("={byte:02X}").into_bytes()));
    word.extend_from_slice(b"?=");
    word
}

/// Decodes the encoding `Q` (RFC 2047, section 4.2).
fn add_bytes_of_q(text: &[u8], bytes: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let encoded = hexadecimal_byte(behind).filter(|_| byte == b'=');
        rest = if encoded.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
        bytes.push(encoded.unwrap_or(if byte == b'_' { b' ' } else { byte }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_one_charset_become_one_word() {
        for (value, expected) in [
            ("=?utf-8?Q?Gr=C3?=\r\n =?UTF-8?q?=BC_?= x", "=?utf-8?Q?=47=72=C3=BC=20?= x"),
            ("=?utf-8?B?0J8=?= =?utf-8?Q?a?=", "=?utf-8?Q?=D0=9F=61?="),
            ("=?utf-8?B?0J?= =?utf-8?B?8=?=", "=?utf-8?Q?=D0=9F?="),
            ("=?utf-8?Q?a?= =?koi8-r?Q?b?=", "=?utf-8?Q?a?= =?koi8-r?Q?b?="),
            ("=?utf-8?Q?a?= and =?utf-8?Q?b?=", "=?utf-8?Q?a?= and =?utf-8?Q?b?="),
            ("=? =?utf-8?X?a?= =?utf-8?Q?a =?", "=? =?utf-8?X?a?= =?utf-8?Q?a =?"),
            ("plain", "plain"),
        ] {
            assert_eq!(String::from_utf8_lossy(&join(value.as_bytes())), expected, "{value}");
        }
    }
}
