//! Encodings of text beside UTF-8: which one bytes are in, and how to read and write it.
//!
//! A file is UTF-8 text if its bytes are valid UTF-8 and not UTF-16 in disguise ([`utf_8`]).
//! Otherwise the encoding is recognised: by a byte order mark, or by a guess that has to be valid
//! and plausible ([`recognise`]). A guess can be wrong, so an answer marks it, and a caller can
//! state the encoding instead.
//!
//! The encodings are those of the WHATWG Encoding Standard without the ones that keep a state
//! between characters (ISO-2022-JP) or that only browsers use (`replacement`, `x-user-defined`). So
//! the bytes of a text are the bytes of its parts, one after another.

use std::borrow::Cow;
use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

/// The largest file in another encoding than UTF-8 that is decoded, in bytes. The text may take
/// three times as much memory.
pub const MAX_DECODED_BYTES: u64 = 16 * 1024 * 1024;
/// The longest name of an encoding that a caller may state, in characters.
pub const MAX_ENCODING_NAME_CHARS: usize = 32;
/// The bytes by which an encoding is guessed.
const GUESSED_BYTES: usize = 64 * 1024;
/// The bytes by which UTF-16 without a byte order mark is recognised.
pub const UTF_16_HEAD: usize = 4 * 1024;
/// The fewest bytes of UTF-16 in disguise. Fewer may be short texts that zero bytes end.
const LEAST_DISGUISED: u64 = 8;
/// The byte order mark, as a character.
const MARK: char = '\u{feff}';

/// An encoding of text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextEncoding(&'static Encoding);

/// How the encoding of a text is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingSource {
    /// The caller named it.
    Stated,
    /// The text begins with a byte order mark.
    ByteOrderMark,
    /// It is valid and plausible. It may be another one.
    Guessed,
}

impl EncodingSource {
    /// Returns the word for answers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::ByteOrderMark => "byte_order_mark",
            Self::Guessed => "guessed",
        }
    }
}

/// A text that was decoded, without its byte order mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedText {
    /// The whole text, decoded.
    pub text: String,
    /// The encoding of the bytes.
    pub encoding: TextEncoding,
    /// How the encoding is known.
    pub source: EncodingSource,
    /// Whether the bytes begin with a byte order mark.
    pub has_mark: bool,
}

impl DecodedText {
    /// Decodes a whole text in an encoding that is known from `source`; `None` if any byte is
    /// invalid.
    pub fn of(bytes: &[u8], encoding: TextEncoding, source: EncodingSource) -> Option<Self> {
        let mut text = encoding.decode(bytes)?.into_owned();
        let has_mark = text.starts_with(MARK);
        if has_mark {
            text.remove(0);
        }
        Some(Self { text, encoding, source, has_mark })
    }
}

impl fmt::Display for TextEncoding {
    /// Writes the name in lower case, as a caller can state it: `windows-1252`, `utf-16le`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.name().to_ascii_lowercase())
    }
}

impl fmt::Debug for TextEncoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl TextEncoding {
    /// UTF-8, which needs no decoding.
    pub const UTF_8: Self = Self(encoding_rs::UTF_8);
    /// UTF-16 with the low byte first.
    pub const UTF_16LE: Self = Self(encoding_rs::UTF_16LE);
    /// UTF-16 with the high byte first.
    pub const UTF_16BE: Self = Self(encoding_rs::UTF_16BE);
    /// The usual encoding of Western European texts on Windows. It gives every byte a character.
    pub const WINDOWS_1252: Self = Self(encoding_rs::WINDOWS_1252);

    /// Returns the encoding with a name or label of the Encoding Standard, such as `shift_jis` or
    /// `latin1`, in any case; `None` for any other text and for the encodings that are left out.
    pub fn named(name: &str) -> Option<Self> {
        let left_out =
            [encoding_rs::ISO_2022_JP, encoding_rs::REPLACEMENT, encoding_rs::X_USER_DEFINED];
        let is_short = name.chars().count() <= MAX_ENCODING_NAME_CHARS;
        let found = is_short.then(|| Encoding::for_label(name.as_bytes())).flatten()?;
        (!left_out.contains(&found)).then_some(Self(found))
    }

    /// Decodes a whole text with its byte order mark; `None` if any byte is invalid.
    pub fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        self.0.decode_without_bom_handling_and_without_replacement(bytes)
    }

    /// Encodes a text; `None` if the encoding lacks any of its characters.
    pub fn encode(self, text: &str) -> Option<Cow<'_, [u8]>> {
        let units = || text.encode_utf16();
        if self == Self::UTF_16LE {
            return Some(units().flat_map(u16::to_le_bytes).collect::<Vec<u8>>().into());
        }
        if self == Self::UTF_16BE {
            return Some(units().flat_map(u16::to_be_bytes).collect::<Vec<u8>>().into());
        }
        let (bytes, _, is_lossy) = self.0.encode(text);
        (!is_lossy).then_some(bytes)
    }

    /// Whether the text of `bytes` encodes to exactly the same bytes.
    pub fn is_exact(self, bytes: &[u8], text: &str) -> bool {
        self.encode(text).is_some_and(|encoded| *encoded == *bytes)
    }
}

/// Returns the text of a whole file in UTF-8: of bytes that are valid, and that are not UTF-16 in
/// disguise ([`is_disguised_utf_16`]).
pub fn utf_8(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!is_disguised_utf_16(bytes, bytes.len() as u64)).then_some(text)
}

/// Whether a file is UTF-16 without a byte order mark, although its bytes may be valid UTF-8: ASCII
/// text in UTF-16 has a zero in every other place. `head` is the first [`UTF_16_HEAD`] bytes of the
/// file, or more; `size` is the size of the whole file.
pub fn is_disguised_utf_16(head: &[u8], size: u64) -> bool {
    let head = head.get(..UTF_16_HEAD).unwrap_or(head);
    // Usual text has no zero, which a search for one finds out fastest.
    size >= LEAST_DISGUISED
        && size.is_multiple_of(2)
        && memchr::memchr(0, head).is_some()
        && utf_16_without_mark(head).is_some()
}

/// Returns the text of bytes: in UTF-8, or in the encoding that is recognised, without its byte
/// order mark; `None` if the bytes are not text.
pub fn text_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    match utf_8(bytes) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => recognise(bytes).map(|decoded| Cow::Owned(decoded.text)),
    }
}

/// Whether a file that begins with these bytes may be text, by which a search decides whether to
/// read the rest. `head` may end within a character.
pub fn may_be_text(head: &[u8]) -> bool {
    match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) if error.error_len().is_none() => true,
        Err(_) => {
            byte_order_mark(head).is_some() || utf_16_without_mark(head).is_some() || {
                !head.iter().any(|byte| is_control_byte(*byte))
            }
        }
    }
}

/// Recognises the encoding of bytes that are not UTF-8 ([`utf_8`]), and decodes them; `None` if
/// they are not text.
///
/// A byte order mark of UTF-16 decides. Without one, UTF-16 is recognised by zero bytes in every
/// other place, and other encodings by how often their characters and pairs of characters occur in
/// the languages that they are for. A text with control characters is not plausible, and neither is
/// one that is mostly UTF-8, with a few bytes that are not.
pub fn recognise(bytes: &[u8]) -> Option<DecodedText> {
    if let Some(encoding) = byte_order_mark(bytes) {
        let decoded = DecodedText::of(bytes, encoding, EncodingSource::ByteOrderMark)?;
        return (!decoded.text.contains('\0')).then_some(decoded);
    }
    let encoding = match utf_16_without_mark(bytes.get(..UTF_16_HEAD).unwrap_or(bytes)) {
        Some(encoding) => encoding,
        None if bytes.iter().any(|byte| is_control_byte(*byte)) || is_broken_utf_8(bytes) => {
            return None;
        }
        None => guess(bytes)?,
    };
    DecodedText::of(bytes, encoding, EncodingSource::Guessed)
        .filter(|decoded| is_plausible(&decoded.text))
}

fn byte_order_mark(bytes: &[u8]) -> Option<TextEncoding> {
    match bytes {
        [0xff, 0xfe, ..] => Some(TextEncoding::UTF_16LE),
        [0xfe, 0xff, ..] => Some(TextEncoding::UTF_16BE),
        _ => None,
    }
}

/// Returns the order of UTF-16 in which at least half of the characters are below U+0100, with none
/// that has a zero in the other place.
fn utf_16_without_mark(head: &[u8]) -> Option<TextEncoding> {
    let (pairs, _) = head.as_chunks::<2>();
    let zeros = |at: fn(&[u8; 2]) -> u8| pairs.iter().filter(|pair| at(pair) == 0).count();
    match (zeros(|[first, _]| *first), zeros(|[_, second]| *second)) {
        (0, second) if 2 * second > pairs.len() => Some(TextEncoding::UTF_16LE),
        (first, 0) if 2 * first > pairs.len() => Some(TextEncoding::UTF_16BE),
        _ => None,
    }
}

/// Guesses an encoding whose characters take one or two bytes.
fn guess(bytes: &[u8]) -> Option<TextEncoding> {
    // A few bytes without any of ASCII are no evidence.
    if !bytes.iter().any(u8::is_ascii) {
        return None;
    }
    let first = bytes.iter().position(|byte| !byte.is_ascii())?;
    let start = first.saturating_sub(GUESSED_BYTES / 16);
    let rest = bytes.get(start..)?;
    let part = rest.get(..GUESSED_BYTES).unwrap_or(rest);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(part, part.len() == rest.len());
    TextEncoding::named(detector.guess(None, Utf8Detection::Deny).name())
}

/// Whether bytes have more characters of UTF-8 beyond ASCII than places that are invalid in UTF-8.
fn is_broken_utf_8(bytes: &[u8]) -> bool {
    let (mut valid, mut invalid) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        valid += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    valid > invalid
}

/// Whether a byte below 0x80 is a control character that texts do not have: all but tab, the line
/// ends, the page break and the escape of coloured logs.
fn is_control_byte(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0x1b)
}

/// Whether a text has no control character and no private character, and consists of letters and
/// ASCII for the most part.
fn is_plausible(text: &str) -> bool {
    let (mut all, mut usual) = (0_usize, 0_usize);
    for character in text.chars() {
        let is_control = match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => is_control_byte(byte),
            _ => character.is_control(),
        };
        if is_control || matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{fffd}'..='\u{ffff}') {
            return false;
        }
        all += 1;
        usual += usize::from(character.is_ascii() || character.is_alphanumeric());
    }
    5 * usual >= 4 * all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 12] = [
        "utf-8", "utf-16le", "utf-16be", "windows-1252", "iso-8859-2", "iso-8859-15",
        "windows-1251", "koi8-r", "shift_jis", "gbk", "euc-kr", "gb18030",
    ];

    fn encoding(name: &str) -> TextEncoding {
        TextEncoding::named(name).unwrap()
    }

    #[test]
    fn labels_name_encodings_and_stateful_ones_are_left_out() {
        for name in NAMES {
            assert_eq!(encoding(name).to_string(), name);
        }
        let labels = ["latin1", "ISO-8859-1", "Shift-JIS", "gb2312", "ks_c_5601-1987", "utf-16"];
        let named = labels.map(|label| encoding(label).to_string());
        let expected = ["windows-1252", "windows-1252", "shift_jis", "gbk", "euc-kr", "utf-16le"];
        assert_eq!(named, expected);
        for label in ["", "iso-2022-jp", "replacement", "x-user-defined", "utf-7", "rot13"] {
            assert_eq!(TextEncoding::named(label), None, "{label}");
        }
        assert_eq!(TextEncoding::named(&" ".repeat(40)), None);
    }

    /// Texts as people have them, each with the encoding that it is recognised in.
    #[test]
    fn the_encodings_of_usual_texts_are_recognised() {
        let german = "Grüße aus Köln. Die Straße ist für Fußgänger geöffnet.\r\n";
        let russian = "Сегодня мы обсуждали план работ на следующую неделю.\n";
        let japanese = "今日は天気がいいので、庭の手入れをしました。\n";
        let chinese = "今天我们讨论了下周的工作计划，大家都同意。\n";
        let korean = "오늘은 날씨가 좋아서 정원을 손질했습니다.\n";
        for (text, name) in [
            ("needle café\n", "windows-1252"),
            (german, "windows-1252"),
            (russian, "windows-1251"),
            (russian, "koi8-u"),
            ("Příliš žluťoučký kůň úpěl ďábelské ódy.\n", "windows-1250"),
            (japanese, "shift_jis"),
            (japanese, "euc-jp"),
            (chinese, "gbk"),
            (korean, "euc-kr"),
            (german, "utf-16le"),
            (german, "utf-16be"),
        ] {
            let bytes = encoding(name).encode(text).unwrap();
            let decoded = recognise(&bytes);
            let found = decoded.as_ref().map(|it| (it.text.as_str(), it.encoding.to_string()));
            assert_eq!(found, Some((text, name.to_owned())));
            assert_eq!(decoded.unwrap().source, EncodingSource::Guessed);
            assert!(may_be_text(&bytes));
        }
        for name in ["utf-16le", "utf-16be"] {
            let text = format!("\u{feff}{japanese}");
            let decoded = recognise(&encoding(name).encode(&text).unwrap()).unwrap();
            let found = (decoded.text.as_str(), decoded.encoding.to_string());
            assert_eq!(found, (japanese, name.to_owned()));
            assert_eq!((decoded.source, decoded.has_mark), (EncodingSource::ByteOrderMark, true));
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_in_no_encoding() {
        for bytes in [
            &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..],
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01",
            b"\xff\xd8\xff",
            b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nstream\n\x01\x02\xff",
            b"PK\x03\x04\x14\0\x08\0",
            b"\x7fELF\x02\x01\x01\0\xff",
            // UTF-16 with half a pair, and with an odd byte.
            b"\xff\xfe\x00\xd8a\0",
            b"\xff\xfea",
            // UTF-32.
            b"\xff\xfe\0\0a\0\0\0",
        ] {
            assert_eq!(recognise(bytes), None, "{bytes:?}");
        }
    }

    /// ASCII text in UTF-16 is valid UTF-8, with a zero in every other place.
    #[test]
    fn utf_16_in_disguise_is_not_utf_8_and_text_with_zeros_is() {
        let text = "Hello, moss and fern\n";
        for name in ["utf-16le", "utf-16be"] {
            let bytes = encoding(name).encode(text).unwrap();
            assert!(std::str::from_utf8(&bytes).is_ok() && utf_8(&bytes).is_none());
            let decoded = recognise(&bytes).unwrap();
            assert_eq!((decoded.text.as_str(), decoded.encoding.to_string()), (text, name.into()));
            assert_eq!(text_of(&bytes).as_deref(), Some(text));
        }
        for zeros in
            ["a\0b\0c\0", "a\0b\0c\0d\0e", "x\n\0\n\0moss", "moss\0fern\0", "\0\0\0\0\0\0\0\0"]
        {
            assert_eq!(utf_8(zeros.as_bytes()), Some(zeros), "{zeros:?}");
        }
    }

    #[test]
    fn a_text_that_is_mostly_utf_8_is_not_taken_for_another_encoding() {
        let text = "Grüße, schöne Straße\n".repeat(3);
        let mut bytes = text.into_bytes();
        bytes.push(0xe9);
        assert_eq!(recognise(&bytes), None);
        let mut bytes = TextEncoding::WINDOWS_1252.encode("Grüße aus Köln\n").unwrap().into_owned();
        bytes.extend("é\n".bytes());
        assert!(recognise(&bytes).is_some());
    }

    proptest! {
        /// What is not valid UTF-8 and is recognised has the text that its encoding gives.
        #[test]
        fn recognised_bytes_are_valid_in_their_encoding(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), 0x20u8..0x7f, 0xc0u8..0xff], 0..60
            )
        ) {
            if let Some(decoded) = recognise(&bytes) {
                let mark = if decoded.has_mark { "\u{feff}" } else { "" };
                let text = decoded.encoding.decode(&bytes);
                prop_assert_eq!(text, Some(format!("{mark}{}", decoded.text).into()));
                prop_assert!(may_be_text(&bytes));
            }
        }

        /// Encoded texts decode to themselves, and the bytes of a text are those of its parts: an
        /// edit leaves the bytes around it as they are.
        #[test]
        fn a_text_is_encoded_part_by_part(
            name in prop::sample::select(NAMES.to_vec()),
            parts in prop::collection::vec("[a-zà-ÿа-яあ-ん一-丁가-갛€\n]{0,6}", 3),
        ) {
            let encoding = encoding(name);
            let encoded: Option<Vec<_>> = parts.iter().map(|part| encoding.encode(part)).collect();
            let whole = encoding.encode(&parts.concat()).map(Cow::into_owned);
            prop_assert_eq!(encoded.map(|parts| parts.concat()), whole.clone());
            if let Some(bytes) = whole {
                prop_assert_eq!(encoding.decode(&bytes), Some(parts.concat().into()));
                prop_assert!(encoding.is_exact(&bytes, &parts.concat()));
            }
        }

        /// A byte of windows-1252 is a character, so that writing back is always exact.
        #[test]
        fn windows_1252_holds_all_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let text = TextEncoding::WINDOWS_1252.decode(&bytes).unwrap().into_owned();
            prop_assert!(TextEncoding::WINDOWS_1252.is_exact(&bytes, &text));
        }
    }
}
