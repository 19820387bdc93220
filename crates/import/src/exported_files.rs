//! Finds the files that an export has beside its rows, by the identifiers that the rows have.
//!
//! A service puts the identifier before the name of the file (`file-AbC-photo.png`,
//! `F123-plan.pdf`) or names the folder of the file by it (`F123/plan.pdf`). An identifier must
//! have the shape that the service uses: the folder of an export may hold any other file, and a
//! message with the identifier `taxes` must not attach `taxes.pdf`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use stile_domain::records::blob::{self, BlobId};
use stile_store::archive::Archive;

use crate::attachment::{Attachment, measure_entry};

/// How many files a message may refer to.
pub(super) const MAX_FILES: usize = 1000;

const MEDIA_TYPES: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("aac", "audio/aac"),
    ("amr", "audio/amr"),
    ("gif", "image/gif"),
    ("heic", "image/heic"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("m4a", "audio/mp4"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("opus", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("txt", "text/plain"),
    ("vcf", "text/vcard"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
];

/// Returns the media type of a file by the end of its name.
pub(crate) fn media_type_of(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    MEDIA_TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(extension))
        .map_or("application/octet-stream", |(_, media_type)| *media_type)
}

/// Returns a file of an archive as an attachment, with the media type that its name says.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn attach(archive: &Arc<Archive>, number: usize) -> io::Result<Attachment> {
    let name = archive.entries().get(number).map_or("", |entry| entry.name.as_str());
    let name = name.rsplit('/').next().unwrap_or_default();
    let (measured, media_type) = (measure_entry(archive, number)?, media_type_of(name).to_owned());
    Ok(Attachment::from_entry(archive, number, measured, media_type, Some(name.to_owned())))
}

/// The fewest letters and digits behind the prefix of an identifier. Services use more, and a usual
/// file name has no such identifier.
const MIN_ID_BYTES: usize = 8;

/// The shape of the identifiers that a service gives its files.
#[derive(Clone, Copy, Debug)]
pub struct FileIdShape {
    /// How an identifier begins.
    pub prefixes: &'static [&'static str],
    /// Whether a byte may follow the prefix.
    pub is_id_byte: fn(u8) -> bool,
}

impl FileIdShape {
    fn fits(self, id: &str) -> bool {
        let rest = self.prefixes.iter().find_map(|prefix| id.strip_prefix(prefix));
        rest.is_some_and(|rest| rest.len() >= MIN_ID_BYTES && rest.bytes().all(self.is_id_byte))
    }
}

/// The files of an archive. Empty by default.
#[derive(Debug, Default)]
pub struct ExportedFiles {
    archive: Option<(Arc<Archive>, FileIdShape)>,
    /// Sorted texts that begin with an identifier, each with the number of its entry.
    names: Vec<(String, usize)>,
    /// The name and the length of entries by their numbers. Many messages may refer to one file,
    /// and it is read once for all.
    measured: RefCell<HashMap<usize, (BlobId, u64)>>,
}

impl ExportedFiles {
    /// Indexes the files below a folder of an archive; `""` is the whole archive.
    pub fn new(archive: &Arc<Archive>, folder: &str, shape: FileIdShape) -> Self {
        let mut names = Vec::new();
        for (number, entry) in archive.entries().iter().enumerate() {
            let Some(inner) = entry.name.strip_prefix(folder) else { continue };
            let mut parts = inner.rsplit('/');
            let name = parts.next().unwrap_or_default();
            if let Some(parent) = parts.next() {
                names.push((format!("{parent}/{name}"), number));
            }
            names.push((name.to_owned(), number));
        }
        names.sort_unstable();
        Self { archive: Some((Arc::clone(archive), shape)), names, measured: RefCell::default() }
    }

    /// Returns the file with this identifier; `None` if the export does not have it, or if `id`
    /// does not have the shape of an identifier.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find(
        &self,
        id: &str,
        media_type: Option<&str>,
        file_name: Option<&str>,
    ) -> io::Result<Option<Attachment>> {
        let Some((archive, _)) = self.archive.as_ref().filter(|(_, shape)| shape.fits(id)) else {
            return Ok(None);
        };
        let from = self.names.partition_point(|(name, _)| name.as_str() < id);
        let candidates = self.names.get(from..).unwrap_or_default().iter();
        let ends_there = |name: &str| {
            name.strip_prefix(id)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
        };
        let found = candidates
            .take_while(|(name, _)| name.starts_with(id))
            .find(|(name, _)| ends_there(name));
        let Some((name, number)) = found else { return Ok(None) };
        let name = name.rsplit('/').next().unwrap_or_default();
        let media_type =
            media_type.and_then(blob::media_type).unwrap_or_else(|| media_type_of(name).to_owned());
        let file_name = file_name.unwrap_or(name).to_owned();
        let measured = self.measure(archive, *number)?;
        Ok(Some(Attachment::from_entry(archive, *number, measured, media_type, Some(file_name))))
    }

    fn measure(&self, archive: &Archive, number: usize) -> io::Result<(BlobId, u64)> {
        if let Some(measured) = self.measured.borrow().get(&number) {
            return Ok(*measured);
        }
        let measured = measure_entry(archive, number)?;
        self.measured.borrow_mut().insert(number, measured);
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stile_testkit::zip::{Member, Zip};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
    fn a_file_that_many_messages_refer_to_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        fs::write(
            &path,
            Zip::default().with(&Member::stored("F0BEDS001-plan.pdf", b"%PDF-")).finish(),
        )
        .unwrap();
        let exported = ExportedFiles::new(
            &Arc::new(Archive::open(&path).unwrap()),
            "",
            FileIdShape { prefixes: &["F"], is_id_byte: |byte| byte.is_ascii_alphanumeric() },
        );
        let first = exported.find("F0BEDS001", None, None).unwrap().unwrap();
        // The file is empty now, so it could not be read again.
        fs::write(&path, b"").unwrap();
        let again = exported.find("F0BEDS001", None, Some("other")).unwrap().unwrap();
        assert_eq!(first.id, again.id);
    }
}
