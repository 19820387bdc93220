//! Zip files written byte by byte, so that a test can also write those that no program would.
//!
//! *Source*: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// An entry as it is written, true or not.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name of the entry, in any encoding.
    pub name: Vec<u8>,
    /// The data of the entry as stored in the archive.
    pub data: Vec<u8>,
    /// The compression: 0 is stored, 8 is deflated.
    pub method: u16,
    /// The general flags. Bit 0 marks an encrypted entry.
    pub flags: u16,
    /// The CRC-32 of the unpacked data.
    pub crc: u32,
    /// The size of the unpacked data in bytes, as the directory says.
    pub size: u32,
    /// The upper half is the mode of a Unix file.
    pub attributes: u32,
    /// The time and the date of MS-DOS. By default the first moment of 1980.
    pub modified: (u16, u16),
}

impl Member {
    /// Makes an entry without compression.
    pub fn stored(name: &str, data: &[u8]) -> Self {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let size = u32::try_from(data.len()).unwrap();
        Self {
            name: name.into(),
            data: data.to_vec(),
            method: 0,
            flags: 0,
            crc: crc.sum(),
            size,
            attributes: 0,
            modified: (0, 0x21),
        }
    }

    /// Makes an entry compressed with Deflate.
    pub fn deflated(name: &str, data: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        Self { data: encoder.finish().unwrap(), method: 8, ..Self::stored(name, data) }
    }

    /// Gives the entry the first moment of a day of this century as its time.
    #[must_use]
    pub fn on_day(self, year: u16, month: u16, day: u16) -> Self {
        Self { modified: (0, (year - 1980) << 9 | month << 5 | day), ..self }
    }
}

/// A zip archive to which a test adds entries.
#[derive(Debug, Default)]
pub struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Zip {
    /// Adds an entry at the end.
    #[must_use]
    pub fn with(mut self, member: &Member) -> Self {
        let at = u32::try_from(self.bytes.len()).unwrap();
        self.bytes.extend(b"PK\x03\x04\x14\x00");
        self.bytes.extend(common(member));
        self.bytes.extend(&member.name);
        self.bytes.extend(&member.data);
        self.entry(member, at);
        self
    }

    /// Adds an entry to the directory whose data stand elsewhere.
    pub fn entry(&mut self, member: &Member, at: u32) {
        self.directory.extend(b"PK\x01\x02\x14\x03\x14\x00");
        self.directory.extend(common(member));
        self.directory.extend([0; 6]);
        self.directory.extend(member.attributes.to_le_bytes());
        self.directory.extend(at.to_le_bytes());
        self.directory.extend(&member.name);
        self.count += 1;
    }

    /// Returns the bytes of the archive.
    pub fn finish(mut self) -> Vec<u8> {
        let (start, size) = (self.bytes.len(), self.directory.len());
        self.bytes.append(&mut self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        for _ in 0..2 {
            self.bytes.extend(self.count.to_le_bytes());
        }
        for number in [size, start] {
            self.bytes.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        self.bytes.extend([0; 2]);
        self.bytes
    }
}

/// Returns the part that both headers of an entry share: from the flags to the length of the extra
/// field.
fn common(member: &Member) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(member.flags.to_le_bytes());
    bytes.extend(member.method.to_le_bytes());
    bytes.extend(member.modified.0.to_le_bytes());
    bytes.extend(member.modified.1.to_le_bytes());
    bytes.extend(member.crc.to_le_bytes());
    bytes.extend(u32::try_from(member.data.len()).unwrap().to_le_bytes());
    bytes.extend(member.size.to_le_bytes());
    bytes.extend(u16::try_from(member.name.len()).unwrap().to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}
