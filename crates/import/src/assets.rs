//! Files that an export has beside its rows, found by the identifier with which a row names one.
//!
//! Services put the identifier before the name of the file (`file-AbC-photo.png`, `F123-plan.pdf`)
//! or make it the folder of the file (`F123/plan.pdf`). Only what is shaped as an identifier of the
//! service is one: the folder of an export may hold anything, and a message that names `taxes` must
//! not take `taxes.pdf` with it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use stile_domain::records::blob::BlobId;
use stile_store::archive::Archive;

use super::attachment::{Attachment, measured};

/// The most files of a message.
pub(super) const MAX_FILES: usize = 1000;

/// Media types by what the name of a file ends in.
const TYPES: &[(&str, &str)] = &[
    ("gif", "image/gif"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("m4a", "audio/mp4"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
];

/// How a service calls its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// `file-` or `file_`, and letters and digits.
    ChatGpt,
    /// `F`, and capital letters and digits.
    Slack,
}

impl Ids {
    fn is_one(self, id: &str) -> bool {
        let (own, fits): (_, fn(u8) -> bool) = match self {
            Self::ChatGpt => {
                (id.strip_prefix("file-").or_else(|| id.strip_prefix("file_")), |byte| {
                    byte.is_ascii_alphanumeric()
                })
            }
            Self::Slack => {
                (id.strip_prefix('F'), |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            }
        };
        own.is_some_and(|own| own.len() >= LEAST && own.bytes().all(fits))
    }
}

/// The fewest letters and digits of an identifier; services give more. No usual name of a file is
/// one.
const LEAST: usize = 8;

/// The files of an archive; none by default.
#[derive(Debug, Default)]
pub struct Assets {
    archive: Option<(Arc<Archive>, Ids)>,
    /// What an identifier is the beginning of, and the number of the entry; sorted.
    names: Vec<(String, usize)>,
    /// What is known of entries by their numbers: many messages may name one file, and it is read
    /// once for all.
    measured: RefCell<HashMap<usize, (BlobId, u64)>>,
}

impl Assets {
    /// Those below a folder of an archive, which is all of it where the folder is `""`.
    pub fn of(archive: &Arc<Archive>, root: &str, ids: Ids) -> Self {
        let mut names = Vec::new();
        for (number, entry) in archive.entries().iter().enumerate() {
            let Some(inner) = entry.name.strip_prefix(root) else { continue };
            let mut parts = inner.rsplit('/');
            let name = parts.next().unwrap_or_default();
            if let Some(folder) = parts.next() {
                names.push((format!("{folder}/{name}"), number));
            }
            names.push((name.to_owned(), number));
        }
        names.sort_unstable();
        Self { archive: Some((Arc::clone(archive), ids)), names, measured: RefCell::default() }
    }

    /// The file with this identifier, if it is one and its file came with the export.
    ///
    /// # Errors
    /// What reading it fails with.
    pub fn find(
        &self,
        id: &str,
        media_type: Option<&str>,
        file_name: Option<&str>,
    ) -> io::Result<Option<Attachment>> {
        let Some((archive, _)) = self.archive.as_ref().filter(|(_, ids)| ids.is_one(id)) else {
            return Ok(None);
        };
        let from = self.names.partition_point(|(name, _)| name.as_str() < id);
        let candidates = self.names.get(from..).unwrap_or_default().iter();
        let is_it = |name: &str| {
            name.strip_prefix(id)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
        };
        let begins =
            candidates.take_while(|(name, _)| name.starts_with(id)).find(|(name, _)| is_it(name));
        let Some((name, number)) = begins else { return Ok(None) };
        let name = name.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let known = TYPES
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(extension))
            .map(|(_, known)| *known);
        let media_type = media_type.and_then(stile_domain::records::blob::media_type);
        let media_type =
            media_type.unwrap_or_else(|| known.unwrap_or("application/octet-stream").to_owned());
        let file_name = file_name.unwrap_or(name).to_owned();
        let measured = self.measured(archive, *number)?;
        Ok(Some(Attachment::of_entry(archive, *number, measured, media_type, Some(file_name))))
    }

    fn measured(&self, archive: &Archive, number: usize) -> io::Result<(BlobId, u64)> {
        if let Some(known) = self.measured.borrow().get(&number) {
            return Ok(*known);
        }
        let measured = measured(archive, number)?;
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
    fn a_file_that_is_named_often_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        fs::write(
            &path,
            Zip::default().with(&Member::stored("F0BEDS001-plan.pdf", b"%PDF-")).finish(),
        )
        .unwrap();
        let assets = Assets::of(&Arc::new(Archive::open(&path).unwrap()), "", Ids::Slack);
        let first = assets.find("F0BEDS001", None, None).unwrap().unwrap();
        // Once it is cut short it could not be read again.
        fs::write(&path, b"").unwrap();
        let again = assets.find("F0BEDS001", None, Some("other")).unwrap().unwrap();
        assert_eq!(first.id, again.id);
    }
}
