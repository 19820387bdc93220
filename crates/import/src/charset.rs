//! Decodes bytes as text.

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;
use stile_domain::text_encoding::TextEncoding;

/// Decodes bytes as text. Without a known charset the text is UTF-8, or windows-1252 if the bytes
/// are not UTF-8.
pub(crate) fn decode_text<'b>(bytes: &'b [u8], charset: Option<&str>) -> Cow<'b, str> {
    let is_utf8 = |name: &&str| {
        !["utf-8", "utf8", "us-ascii", "ascii"].iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let named = charset.filter(is_utf8).and_then(|name| charset_decoder(name.as_bytes()));
    if let Some(decode) = named {
        return Cow::Owned(decode(bytes));
    }
    let decoded = || TextEncoding::WINDOWS_1252.decode(bytes);
    std::str::from_utf8(bytes)
        .ok()
        .map(Cow::Borrowed)
        .or_else(decoded)
        .unwrap_or_else(|| String::from_utf8_lossy(bytes))
}
