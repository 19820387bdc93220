//! Zip files of XML parts, which Office documents and books are.
//!
//! Nothing that a document refers to is opened, and XML entities of a document's own are not
//! expanded.
//!
//! *Source*: ECMA-376, part 2; APPNOTE.TXT 6.3.10; Extensible Markup Language 1.0.

use std::io::{self, BufReader, Cursor, Read as _};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use stile_domain::document::NoText;
use zip::ZipArchive;

/// The most bytes of all unpacked parts of a document.
pub(super) const MAX_UNPACKED: u64 = 128 * 1024 * 1024;
/// The most slides, sheets or chapters that are read.
pub(super) const MAX_PARTS: usize = 2000;
/// The bytes of a title after which no more of it is read.
const MAX_TITLE_BYTES: usize = 1024;

/// A zip file of XML parts.
pub(super) struct Package<'b> {
    archive: ZipArchive<Cursor<&'b [u8]>>,
    unpacked: u64,
}

impl<'b> Package<'b> {
    pub(super) fn open(bytes: &'b [u8]) -> Result<Self, NoText> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| NoText::Damaged)?;
        Ok(Self { archive, unpacked: 0 })
    }

    /// Unpacks a part. `None` if the package has none of this name.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<Vec<u8>>, NoText> {
        let Some(number) = self.archive.index_for_name(name) else { return Ok(None) };
        let part = self.archive.by_index(number).map_err(|_| NoText::Damaged)?;
        let left = MAX_UNPACKED.saturating_sub(self.unpacked);
        let mut bytes = Vec::new();
        let read =
            part.take(left + 1).read_to_end(&mut bytes).map_err(|error| match error.kind() {
                io::ErrorKind::OutOfMemory => NoText::TooLarge,
                _ => NoText::Damaged,
            })?;
        self.unpacked += read as u64;
        if self.unpacked > MAX_UNPACKED { Err(NoText::TooLarge) } else { Ok(Some(bytes)) }
    }

    /// Reads what adds to the text of a document. Returns nothing if its parts are damaged or too
    /// large. They leave the other parts all that these may unpack.
    pub(super) fn optional<T: Default>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, NoText>,
    ) -> T {
        let unpacked = self.unpacked;
        let found = read(self).unwrap_or_default();
        self.unpacked = unpacked;
        found
    }

    /// Returns the title in a part with the properties of the document. `None` if there is none, or
    /// the part is damaged or too large.
    pub(super) fn title_in(&mut self, name: &str) -> Option<String> {
        self.optional(|package| match package.part(name)? {
            Some(part) => {
                let mut title = Title::default();
                read_xml(part, &mut |event| title.take(&event))?;
                Ok(title.found())
            }
            None => Ok(None),
        })
    }

    /// Returns the names of parts such as `ppt/slides/slide7.xml`, in the order of their numbers.
    pub(super) fn numbered(&self, prefix: &str) -> Vec<String> {
        let number = |name: &str| -> Option<u32> {
            name.strip_prefix(prefix)?.strip_suffix(".xml")?.parse().ok()
        };
        let names = self.archive.file_names();
        let names = names.filter_map(|name| name.ok().map(|name| name.into_owned()));
        let mut found: Vec<(u32, String)> =
            names.filter_map(|name| Some((number(&name)?, name))).collect();
        found.sort_unstable();
        found.into_iter().take(MAX_PARTS).map(|(_, name)| name).collect()
    }
}

/// A tag or a text of a part. Names of tags are without their namespace prefix.
pub(super) enum XmlEvent<'e> {
    Start(&'e str, &'e BytesStart<'e>),
    End(&'e str),
    Text(&'e str),
}

/// Reads a part until its end, or until `take` returns `false`.
pub(super) fn read_xml(
    part: Vec<u8>,
    take: &mut dyn FnMut(XmlEvent<'_>) -> bool,
) -> Result<(), NoText> {
    let mut reader = Reader::from_reader(BufReader::new(Cursor::new(part)));
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer).map_err(|_| NoText::Damaged)?;
        let goes_on = match &event {
            Event::Eof => return Ok(()),
            Event::Start(start) => take(XmlEvent::Start(start.local_name().as_ref(), start)),
            Event::Empty(start) => {
                let name = start.local_name();
                take(XmlEvent::Start(name.as_ref(), start)) && take(XmlEvent::End(name.as_ref()))
            }
            Event::End(end) => take(XmlEvent::End(end.local_name().as_ref())),
            Event::Text(text) => take(XmlEvent::Text(text)),
            Event::CData(text) => take(XmlEvent::Text(text)),
            Event::GeneralRef(name) => {
                let reference = format!("&{};", &**name);
                // An entity of the document's own is left out.
                let decoded = quick_xml::escape::unescape(&reference).unwrap_or_default();
                take(XmlEvent::Text(&decoded))
            }
            _ => true,
        };
        if !goes_on {
            return Ok(());
        }
    }
}

/// The first `title` of a part so far: that of the Dublin Core, which all these formats use.
#[derive(Default)]
pub(super) struct Title {
    text: String,
    is_open: bool,
    is_over: bool,
}

impl Title {
    /// Takes the next event of the part. Returns whether the title may go on.
    pub(super) fn take(&mut self, event: &XmlEvent<'_>) -> bool {
        match event {
            XmlEvent::Start("title", _) => self.is_open = !self.is_over,
            XmlEvent::End("title") if self.is_open => {
                (self.is_open, self.is_over) = (false, !self.text.trim().is_empty());
            }
            XmlEvent::Text(text) if self.is_open && self.text.len() <= MAX_TITLE_BYTES => {
                self.text.push_str(text);
            }
            _ => {}
        }
        !self.is_over
    }

    /// Returns the title; `None` if it is empty.
    pub(super) fn found(self) -> Option<String> {
        Some(self.text).filter(|text| !text.trim().is_empty())
    }
}

pub(super) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut all = start.attributes().flatten();
    let own = all.find(|own| own.key.local_name().as_ref() == name)?;
    Some(own.value.into_owned())
}

pub(super) fn unescaped_attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let value = attribute(start, name)?;
    quick_xml::escape::unescape(&value).ok().map(|value| value.into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// Makes a package of parts.
    pub(in super::super) fn package(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, part) in parts {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(part.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }
}
