//! Finds the encoding of a file of text, and decodes the file to UTF-8 while it is read.
//!
//! UTF-8 is read as it is. UTF-16 and the encodings with one byte for each character are decoded
//! piece by piece, so that a file of any size is read as a stream; encodings with several bytes for
//! a character, such as Shift-JIS, line by line, since in none of them a line break is a part of a
//! character.

use std::fmt;
use std::io::{self, BufRead, Read};

use mail_parser::decoders::charsets::map::charset_decoder;
use stile_domain::text_encoding::{self, TextEncoding};

/// How much of a file, in bytes, shows its encoding by its letters.
const MAX_SAMPLE_BYTES: usize = 256 * 1024;
/// How many bytes are decoded at once.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest line that is decoded as a whole, in bytes. A longer one can have a character that is
/// replaced.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// The encodings with several bytes for a character that are read.
const SEVERAL_BYTES: [&str; 6] = ["shift_jis", "euc-jp", "euc-kr", "gbk", "gb18030", "big5"];

/// An encoding that a file of text can have.
#[derive(Clone, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8,
    /// UTF-16 with the lower byte first.
    Utf16Le,
    /// UTF-16 with the higher byte first.
    Utf16Be,
    /// An encoding with one byte for each character: its name, and the character of each byte.
    SingleByte(String, Box<[char]>),
    /// An encoding with several bytes for a character, by its name.
    SeveralBytes(String),
}

impl fmt::Debug for Encoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Encoding {
    /// Returns the encoding with this name, such as `windows-1252`; `None` if it is unknown, or if
    /// it is not read here.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "utf-8" | "utf8" => return Some(Self::Utf8),
            "utf-16" | "utf-16le" | "utf16" => return Some(Self::Utf16Le),
            "utf-16be" => return Some(Self::Utf16Be),
            _ => {}
        }
        let known = TextEncoding::named(&name).map(|encoding| encoding.to_string());
        if let Some(known) = known.filter(|known| SEVERAL_BYTES.contains(&known.as_str())) {
            return Some(Self::SeveralBytes(known));
        }
        let decode = charset_decoder(name.as_bytes())?;
        let mut characters = Vec::with_capacity(256);
        for byte in 0..=u8::MAX {
            let text = decode(&[byte]);
            let mut text = text.chars();
            match (text.next(), text.next()) {
                (Some(only), None) => characters.push(only),
                _ => return None,
            }
        }
        // Of an encoding with several bytes for a character, many bytes alone have no meaning.
        let unknown = characters.iter().filter(|&&character| character == '\u{fffd}').count();
        (unknown < 64).then(|| Self::SingleByte(name, characters.into()))
    }

    /// Returns the name of the encoding.
    pub fn name(&self) -> &str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::SingleByte(name, _) | Self::SeveralBytes(name) => name,
        }
    }

    /// Returns the encoding that a byte order mark names.
    pub fn marked(beginning: &[u8]) -> Option<Self> {
        match beginning {
            [0xff, 0xfe, ..] => Some(Self::Utf16Le),
            [0xfe, 0xff, ..] => Some(Self::Utf16Be),
            [0xef, 0xbb, 0xbf, ..] => Some(Self::Utf8),
            _ => None,
        }
    }

    /// Finds the encoding of a file from all of its bytes: a byte order mark, else UTF-16 if every
    /// second byte at the beginning is zero, else UTF-8 unless it has more faults than characters
    /// of several bytes, else what the letters of its first lines show, else windows-1252, which
    /// spreadsheets of Windows write.
    ///
    /// # Errors
    /// The reader failed.
    pub fn find(mut reader: impl BufRead) -> io::Result<Self> {
        let beginning = reader.fill_buf()?;
        if let Some(marked) = Self::marked(beginning) {
            return Ok(marked);
        }
        let zeros = |first: usize| {
            let bytes = beginning.iter().skip(first).step_by(2).take(100);
            bytes.clone().count() >= 4 && bytes.filter(|&&byte| byte != 0).count() == 0
        };
        if zeros(1) {
            return Ok(Self::Utf16Le);
        }
        if zeros(0) {
            return Ok(Self::Utf16Be);
        }
        let (mut characters, mut faults) = (0_u64, 0_u64);
        let mut sample = Vec::new();
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        loop {
            let read = reader.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            // A character that the piece cuts is judged with the next piece.
            let cut = if read == 0 { 0 } else { length_of_cut_character(&piece) };
            let whole = piece.len() - cut;
            if sample.len() < MAX_SAMPLE_BYTES {
                sample.extend_from_slice(piece.get(..whole).unwrap_or_default());
            }
            for chunk in piece.get(..whole).unwrap_or_default().utf8_chunks() {
                let is_wide = |character: &char| !character.is_ascii();
                characters += chunk.valid().chars().filter(is_wide).count() as u64;
                faults += u64::from(!chunk.invalid().is_empty());
            }
            piece.drain(..whole);
            if read == 0 {
                break;
            }
        }
        let is_utf8 = faults == 0 || (characters > 0 && characters >= faults);
        if is_utf8 {
            return Ok(Self::Utf8);
        }
        // The end of the sample can be in the middle of a character.
        let lines = sample
            .iter()
            .rposition(|&byte| byte == b'\n')
            .filter(|_| sample.len() >= MAX_SAMPLE_BYTES);
        let lines = lines.and_then(|end| sample.get(..=end)).unwrap_or(&sample);
        let recognised = text_encoding::recognise(lines);
        let shown = recognised.and_then(|text| Self::named(&text.encoding.to_string()));
        let shown = shown
            .filter(|encoding| matches!(encoding, Self::SingleByte(..) | Self::SeveralBytes(_)));
        // Before a number, this byte is a currency and no letter.
        let shown = shown.filter(|_| !has_pounds_alone(&sample));
        Ok(shown.or_else(|| Self::named("windows-1252")).unwrap_or(Self::Utf8))
    }
}

/// Returns whether all bytes of a text beyond ASCII are `£` of Windows-1252, each beside a number.
fn has_pounds_alone(sample: &[u8]) -> bool {
    const POUND: u8 = 0xa3;
    let is_of_number = |byte: Option<&u8>| byte.is_some_and(|it| matches!(it, b'0'..=b'9' | b'.'));
    let mut wide = sample.iter().enumerate().filter(|(_, byte)| !byte.is_ascii()).peekable();
    wide.peek().is_some()
        && wide.all(|(at, byte)| {
            let before = at.checked_sub(1).and_then(|at| sample.get(at));
            *byte == POUND && (is_of_number(sample.get(at + 1)) || is_of_number(before))
        })
}

/// Returns how many bytes at the end may be the beginning of a character.
fn length_of_cut_character(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|&byte| byte >= 0xc0);
    let needed = |byte: u8| match byte {
        0xf0.. => 4,
        0xe0.. => 3,
        _ => 2,
    };
    lead.filter(|&behind| {
        let at = bytes.len() - 1 - behind;
        bytes.get(at).is_some_and(|&byte| behind + 1 < needed(byte))
    })
    .map_or(0, |behind| behind + 1)
}

/// A reader that returns the text of another in UTF-8.
pub struct Transcoder<R> {
    reader: R,
    encoding: Encoding,
    /// Decoded text, and how much of it was consumed.
    decoded: Vec<u8>,
    used: usize,
    /// Bytes that are not decoded yet: less than one character.
    rest: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Transcoder<R> {
    /// Decodes a reader from its first byte.
    pub fn new(reader: R, encoding: Encoding) -> Self {
        Self { reader, encoding, decoded: Vec::new(), used: 0, rest: Vec::new(), is_over: false }
    }

    /// Decodes the next piece, so that `decoded` is empty at the end of the file only.
    fn decode(&mut self) -> io::Result<()> {
        self.decoded.clear();
        self.used = 0;
        while self.decoded.is_empty() && !self.is_over {
            let mut bytes = std::mem::take(&mut self.rest);
            let read = self.reader.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut bytes)?;
            self.is_over = read == 0;
            match &self.encoding {
                Encoding::Utf8 => self.decoded = bytes,
                Encoding::SingleByte(_, characters) => {
                    let character = |byte: &u8| characters.get(usize::from(*byte)).copied();
                    let text: String = bytes.iter().filter_map(character).collect();
                    self.decoded = text.into_bytes();
                }
                Encoding::SeveralBytes(name) => {
                    let end = match bytes.iter().rposition(|&byte| byte == b'\n') {
                        Some(at) if !self.is_over => at + 1,
                        None if !self.is_over && bytes.len() < MAX_LINE_BYTES => 0,
                        _ => bytes.len(),
                    };
                    self.rest = bytes.split_off(end);
                    if let Some(decode) = charset_decoder(name.as_bytes()) {
                        self.decoded = decode(&bytes).into_bytes();
                    }
                }
                Encoding::Utf16Le => self.decode_units(&bytes, u16::from_le_bytes),
                Encoding::Utf16Be => self.decode_units(&bytes, u16::from_be_bytes),
            }
        }
        Ok(())
    }

    fn decode_units(&mut self, bytes: &[u8], unit: fn([u8; 2]) -> u16) {
        let (pairs, odd) = bytes.as_chunks::<2>();
        let units = pairs.iter().map(|&pair| unit(pair));
        let is_cut = |unit: u16| (0xd800..0xdc00).contains(&unit) && !self.is_over;
        let cut = units.clone().next_back().is_some_and(is_cut);
        let count = pairs.len() - usize::from(cut);
        let text: String = char::decode_utf16(units.take(count))
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        self.decoded = text.into_bytes();
        if !self.is_over {
            self.rest = [bytes.get(count * 2..pairs.len() * 2).unwrap_or_default(), odd].concat();
        }
    }
}

impl<R: BufRead> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), available.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Transcoder<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.encoding == Encoding::Utf8 {
            return self.reader.fill_buf();
        }
        if self.used >= self.decoded.len() {
            self.decode()?;
        }
        Ok(self.decoded.get(self.used..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        if self.encoding == Encoding::Utf8 {
            self.reader.consume(count);
        } else {
            self.used += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn decoded(bytes: &[u8], size: usize, encoding: Encoding) -> String {
        let mut text = String::new();
        let reader = BufReader::with_capacity(size, bytes);
        Transcoder::new(reader, encoding).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_encoding_is_found_from_all_bytes() {
        let long = "a".repeat(PIECE_BYTES - 1);
        for (bytes, expected) in [
            (b"a,b".to_vec(), "utf-8"),
            (Vec::new(), "utf-8"),
            ("Bäckerei".as_bytes().to_vec(), "utf-8"),
            (format!("{long}ü{long}").into_bytes(), "utf-8"),
            ([long.as_bytes(), b"\xfc", long.as_bytes()].concat(), "windows-1252"),
            (["Bäckerei ".as_bytes(), b"\xff"].concat(), "utf-8"),
            (b"B\xe4ckerei".to_vec(), "windows-1252"),
            (b"paid in,\xa31.50\npaid out,-\xa32\n".to_vec(), "windows-1252"),
            (utf16("\u{feff}date", u16::to_le_bytes), "utf-16le"),
            (utf16("\u{feff}date", u16::to_be_bytes), "utf-16be"),
            (utf16("date,amount", u16::to_le_bytes), "utf-16le"),
            (utf16("date,amount", u16::to_be_bytes), "utf-16be"),
        ] {
            assert_eq!(Encoding::find(bytes.as_slice()).unwrap().name(), expected);
        }
    }

    #[test]
    fn encodings_have_names_and_are_read_whatever_the_size_of_the_buffer() {
        for name in
            ["windows-1252", "ISO-8859-1", "iso-8859-15", "windows-1250", "koi8-r", "UTF-16"]
        {
            assert!(Encoding::named(name).is_some(), "{name}");
        }
        for name in ["iso-2022-jp", "utf-7", "no-such", ""] {
            assert!(Encoding::named(name).is_none(), "{name}");
        }
        let table =
            "取引日,摘要,出金,入金\n2026年1月15日,家賃,80000,\n2026年1月25日,給与,,300000\n";
        for (name, text) in [
            ("shift_jis", table),
            ("euc-jp", table),
            (
                "euc-kr",
                "거래일시,적요,출금액,입금액\n2026-01-15,월세,1200000,\n2026-01-31,급여,,3000500",
            ),
            ("gbk", "交易日期,摘要,支出,收入\n2026-01-15,房租,1200,\n2026-01-31,工资,,3000\n"),
            ("big5", "交易日期,摘要,支出,收入\n2026-01-15,房租,1200,\n2026-01-31,薪資,,3000\n"),
        ] {
            let bytes = TextEncoding::named(name).unwrap().encode(text).unwrap().into_owned();
            assert_eq!(Encoding::find(bytes.as_slice()).unwrap().name(), name);
            for size in [1, 7, 4096] {
                assert_eq!(decoded(&bytes, size, Encoding::named(name).unwrap()), text, "{name}");
            }
        }
        let windows = Encoding::named("windows-1252").unwrap();
        assert_eq!(decoded(b"B\xe4ckerei \x80", 2, windows), "Bäckerei €");
    }

    proptest! {
        #[test]
        fn utf16_is_read_back_whatever_the_size_of_the_buffer(text in ".{0,40}", size in 1..9_usize) {
            let le = utf16(&text, u16::to_le_bytes);
            prop_assert_eq!(decoded(&le, size, Encoding::Utf16Le), text.clone());
            let be = utf16(&text, u16::to_be_bytes);
            prop_assert_eq!(decoded(&be, size, Encoding::Utf16Be), text);
        }

        #[test]
        fn any_bytes_have_an_encoding_that_reads_them(
            bytes in prop::collection::vec(any::<u8>(), 0..60), size in 1..9_usize,
        ) {
            let encoding = Encoding::find(bytes.as_slice()).unwrap();
            let mut read = Vec::new();
            let reader = BufReader::with_capacity(size, bytes.as_slice());
            Transcoder::new(reader, encoding).read_to_end(&mut read).unwrap();
        }
    }
}
