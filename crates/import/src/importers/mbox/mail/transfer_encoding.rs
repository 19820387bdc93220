//! Undoes the transfer encoding of a part of a message.
//!
//! A decoder reads what it can: a `=` that encodes nothing stays as it is, and the rest of the text
//! is decoded all the same.
//!
//! *Source*: RFC 2045, sections 6.7 and 6.8.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;

/// Undoes the transfer encoding of a part. A body of another encoding, and one of base64 that is
/// not base64, are returned unchanged.
pub(super) fn undo<'b>(body: &'b [u8], encoding: &str) -> Cow<'b, [u8]> {
    if encoding.eq_ignore_ascii_case("base64") {
        // A decoder must ignore other characters (RFC 2045, section 6.8).
        let lenient = || {
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            base64_decode(&body.iter().copied().filter(fits).collect::<Vec<u8>>())
        };
        return base64_decode(body).or_else(lenient).map_or(Cow::Borrowed(body), Cow::Owned);
    }
    if encoding.eq_ignore_ascii_case("quoted-printable") {
        return Cow::Owned(quoted_printable(body));
    }
    Cow::Borrowed(body)
}

/// Decodes quoted-printable. A `=` before anything but two hexadecimal digits or the end of a line
/// stays.
fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = memchr::memchr(b'=', rest) {
        let (before, encoded) = rest.split_at(at);
        decoded.extend_from_slice(before);
        let behind = encoded.get(1..).unwrap_or_default();
        if let Some(byte) = hexadecimal_byte(behind) {
            decoded.push(byte);
            rest = behind.get(2..).unwrap_or_default();
        } else if let Some(length) = length_of_line_end(behind) {
            rest = behind.get(length..).unwrap_or_default();
        } else {
            decoded.push(b'=');
            rest = behind;
        }
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// Returns the byte that the two hexadecimal digits at the beginning name.
pub(super) fn hexadecimal_byte(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Returns the length of the spaces and the line end at the beginning; also at the end of the body.
fn length_of_line_end(text: &[u8]) -> Option<usize> {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match text.get(spaces..).unwrap_or_default() {
        [] => Some(spaces),
        [b'\r', b'\n', ..] => Some(spaces + 2),
        [b'\n', ..] => Some(spaces + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_that_encodes_nothing_stays_and_the_rest_is_decoded() {
        for (encoded, expected) in [
            ("Sch=C3=B6n", "Schön"),
            ("Sch=c3=b6n", "Schön"),
            ("<p style=\"x\">=C3=BC</p>", "<p style=\"x\">ü</p>"),
            ("Ver=\nmieter, Ver= \t\r\nmieter=", "Vermieter, Vermieter"),
            ("50=% off ==3D =3 =", "50=% off == =3 "),
            ("", ""),
        ] {
            let decoded = undo(encoded.as_bytes(), "Quoted-Printable").into_owned();
            assert_eq!(String::from_utf8(decoded).unwrap(), expected, "{encoded}");
        }
    }
}
