//! Reads the text of an RTF document: what a reader sees, without tables of fonts, colours and
//! styles, pictures, headers and the instructions of fields.
//!
//! A document is ASCII with groups in braces. Other characters stand as bytes of a code page
//! (`\'e9`) or as numbers of UTF-16 (`\u233`), which are followed by a substitute for old readers.
//! *Source*: Rich Text Format Specification 1.9.1, the part "RTF Syntax".

use stile_domain::document::NoText;

use crate::charset::decode_text;

/// Groups whose text nobody sees. A group that begins with `\*` is one of them.
const UNSEEN: [&str; 17] = [
    "fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "header", "headerl", "headerr",
    "headerf", "footer", "footerl", "footerr", "footerf", "fldinst", "filetbl", "listtable",
];

/// Control words that stand for a character.
const CHARACTERS: [(&str, char); 14] = [
    ("par", '\n'),
    ("line", '\n'),
    ("row", '\n'),
    ("sect", '\n'),
    ("page", '\n'),
    ("tab", '\t'),
    ("cell", '\t'),
    ("emdash", '—'),
    ("endash", '–'),
    ("lquote", '‘'),
    ("rquote", '’'),
    ("ldblquote", '“'),
    ("rdblquote", '”'),
    ("bullet", '•'),
];

/// The code page of a document that names none.
const CODE_PAGE: u32 = 1252;
/// How long a number of a control word is at most, in digits.
const MOST_DIGITS: usize = 10;

/// Returns the text of a document, in time linear in its length.
pub(super) fn as_text(bytes: &[u8]) -> Result<String, NoText> {
    if !bytes.trim_ascii_start().starts_with(b"{\\rtf") {
        return Err(NoText::Damaged);
    }
    let mut reader = Reader { code_page: CODE_PAGE, ..Reader::default() };
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'\\' => reader.control(after),
            _ => {
                reader.byte(*first);
                after
            }
        };
    }
    reader.flush();
    Ok(reader.text)
}

/// What holds within a group.
#[derive(Clone, Copy)]
struct Group {
    is_unseen: bool,
    /// How many characters stand for one of UTF-16, for old readers.
    substitutes: usize,
}

impl Default for Group {
    fn default() -> Self {
        Self { is_unseen: false, substitutes: 1 }
    }
}

#[derive(Default)]
struct Reader {
    text: String,
    code_page: u32,
    /// Bytes of the code page that are not decoded yet: a character may have several.
    bytes: Vec<u8>,
    /// The first half of a character of UTF-16.
    surrogate: Option<u16>,
    group: Group,
    around: Vec<Group>,
    /// The characters that are left of a substitute.
    left: usize,
}

impl Reader {
    /// Takes a byte that belongs to no control word.
    fn byte(&mut self, byte: u8) {
        match byte {
            b'{' => {
                self.left = 0;
                self.around.push(self.group);
            }
            b'}' => {
                self.flush();
                self.left = 0;
                self.group = self.around.pop().unwrap_or_default();
            }
            b'\r' | b'\n' => {}
            byte => self.character(byte),
        }
    }

    /// Takes a byte of the text.
    fn character(&mut self, byte: u8) {
        if self.left > 0 {
            self.left -= 1;
        } else if !self.group.is_unseen {
            self.bytes.push(byte);
        }
    }

    /// Takes what follows a `\`, and returns what is left.
    fn control<'b>(&mut self, rest: &'b [u8]) -> &'b [u8] {
        let Some((first, after)) = rest.split_first() else { return rest };
        match first {
            b'\'' => {
                let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
                if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                    self.character(byte);
                }
                after.get(2..).unwrap_or_default()
            }
            b'*' => {
                self.group.is_unseen = true;
                after
            }
            b'\r' | b'\n' => {
                self.push('\n');
                after
            }
            b'~' => {
                self.push(' ');
                after
            }
            b'_' => {
                self.push('-');
                after
            }
            first if first.is_ascii_alphabetic() => self.word(rest),
            b'\\' | b'{' | b'}' => {
                self.character(*first);
                after
            }
            _ => after,
        }
    }

    /// Takes a control word with its number, and the one space that may end it.
    fn word<'b>(&mut self, rest: &'b [u8]) -> &'b [u8] {
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = rest.split_at_checked(letters).unwrap_or((rest, &[]));
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest.iter().skip(sign).take(MOST_DIGITS);
        let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
        let length = if digits > 0 { sign + digits } else { 0 };
        let (number, rest) = rest.split_at_checked(length).unwrap_or((&[], rest));
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        self.take(std::str::from_utf8(word).unwrap_or_default(), number, rest)
    }

    fn take<'b>(&mut self, word: &str, number: Option<i64>, rest: &'b [u8]) -> &'b [u8] {
        let count = usize::try_from(number.unwrap_or_default()).unwrap_or_default();
        match word {
            "u" => self.unit(number.unwrap_or_default()),
            "uc" => self.group.substitutes = count,
            "ansicpg" => self.code_page = u32::try_from(count).unwrap_or(CODE_PAGE),
            "bin" => return rest.get(count..).unwrap_or_default(),
            unseen if UNSEEN.contains(&unseen) => self.group.is_unseen = true,
            other => {
                if let Some((_, character)) = CHARACTERS.iter().find(|(name, _)| *name == other) {
                    self.push(*character);
                }
            }
        }
        rest
    }

    /// Takes a unit of UTF-16, which is written as a signed number.
    fn unit(&mut self, number: i64) {
        let Ok(unit) = u16::try_from(number.rem_euclid(1 << 16)) else { return };
        let first = self.surrogate.take();
        let units = first.into_iter().chain([unit]);
        match char::decode_utf16(units).next() {
            Some(Ok(character)) => self.push(character),
            _ if (0xd800..0xdc00).contains(&unit) => self.surrogate = Some(unit),
            _ => self.push(char::REPLACEMENT_CHARACTER),
        }
        self.left = self.group.substitutes;
    }

    fn push(&mut self, character: char) {
        self.flush();
        self.left = 0;
        if !self.group.is_unseen {
            self.text.push(character);
        }
    }

    /// Decodes the bytes that wait.
    fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_ascii() {
            self.text.extend(bytes.into_iter().map(char::from));
        } else {
            let code_page = format!("windows-{}", self.code_page);
            self.text.push_str(&decode_text(&bytes, Some(&code_page)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        as_text(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_document_shows_what_a_reader_sees() {
        let text = "{\\rtf1\\ansi\\ansicpg1252{\\fonttbl{\\f0 Times;}}{\\*\\generator x;}\r\n\
                    {\\info{\\title Hidden}}\\pard Caf\\'e9 {\\b bold} \\u8364?5\\par\r\n\
                    a\\tab b\\{c\\}\\line {\\field{\\*\\fldinst HYPERLINK x}{\\fldrslt link}}\\\n}";
        assert_eq!(read(text), "Café bold €5\na\tb{c}\nlink\n");
    }

    #[test]
    fn characters_come_from_the_code_page_and_from_utf_16() {
        assert_eq!(read("{\\rtf1\\ansicpg1251 \\'cf\\'f0\\'e8}"), "При");
        assert_eq!(read("{\\rtf1\\uc2\\u-10179??\\u-8704??x}"), "\u{1f600}x");
        assert_eq!(read("{\\rtf1\\uc0\\u233 x{\\uc1\\u233 ?}\\u233 y}"), "éxééy");
        assert_eq!(read("{\\rtf1 \\bin3 }}}x}"), "x");
    }

    #[test]
    fn what_is_not_rtf_is_damaged() {
        assert_eq!(as_text(b"hello"), Err(NoText::Damaged));
        assert_eq!(read("{\\rtf1 open {"), "open ");
    }

    proptest! {
        #[test]
        fn no_document_ends_the_reader(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [&b"{\\rtf"[..], &rest].concat();
            prop_assert!(as_text(&bytes).is_ok());
        }

        #[test]
        fn plain_words_are_kept(words in "[a-z ]{0,80}") {
            prop_assert_eq!(read(&format!("{{\\rtf1 {words}}}")), words);
        }
    }
}
