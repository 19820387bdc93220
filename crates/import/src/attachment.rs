//! What comes with a row and is kept as a blob: its reference, which goes into the row, and where
//! its bytes are.

use std::io::{self, Read};
use std::sync::Arc;

use serde_json::json;
use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::FieldValue;
use stile_store::archive::Archive;
use stile_store::records::{WriteBatch, WriteRefusal};

/// Bytes that a row refers to.
#[derive(Debug)]
pub struct Attachment {
    /// What they will be called.
    pub id: BlobId,
    size: u64,
    media_type: String,
    file_name: Option<String>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Held(Vec<u8>),
    /// The entry of an archive with this number.
    Entry(Arc<Archive>, usize),
}

impl Attachment {
    /// Bytes in memory.
    pub fn of(bytes: Vec<u8>, media_type: String, file_name: Option<String>) -> Self {
        let id = BlobId::from_digest(*ContentHash::digest(&bytes).as_bytes());
        Self { id, size: bytes.len() as u64, media_type, file_name, bytes: Bytes::Held(bytes) }
    }

    /// An entry of an archive whose bytes are called so.
    pub fn of_entry(
        archive: &Arc<Archive>,
        number: usize,
        (id, size): (BlobId, u64),
        media_type: String,
        file_name: Option<String>,
    ) -> Self {
        Self { id, size, media_type, file_name, bytes: Bytes::Entry(Arc::clone(archive), number) }
    }

    /// Begins to read the bytes.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.bytes {
            Bytes::Held(bytes) => Box::new(bytes.as_slice()),
            Bytes::Entry(archive, number) => entry(archive, *number)?,
        })
    }

    /// Stores the bytes, unless they are there.
    ///
    /// # Errors
    /// What the database says; the inner one is why they cannot be stored.
    pub(super) fn keep(
        &self,
        batch: &mut WriteBatch<'_>,
    ) -> Result<Result<(), WriteRefusal>, Problem> {
        if batch.has_blob(&self.id)? {
            return Ok(Ok(()));
        }
        let Ok(mut source) = self.open() else { return Ok(Err(WriteRefusal::Unreadable)) };
        let put = batch.put_blob(&mut source)?;
        // What was changed between the two times that it was read is another blob than the row
        // says.
        Ok(put.and_then(|info| {
            if info.digest == *self.id.digest() { Ok(()) } else { Err(WriteRefusal::Unreadable) }
        }))
    }

    /// The reference that stands in the row: a `blob_ref` and the name of the file.
    fn reference(&self) -> serde_json::Value {
        let id = self.id.to_string();
        let sha256 = id.strip_prefix("sha256-").unwrap_or_default();
        let mut reference = json!({ "blob_id": id, "mime_type": self.media_type, "size_bytes": self.size, "sha256": sha256 });
        if let (Some(name), Some(members)) = (&self.file_name, reference.as_object_mut()) {
            members.insert("filename".to_owned(), name.as_str().into());
        }
        reference
    }

    /// The references to some attachments, as the value of a field, and behind them the names of
    /// files that did not come along. None where there are neither.
    pub fn references(attachments: &[Self], missing: &[String]) -> Option<FieldValue> {
        let missing = missing.iter().map(|name| json!({ "filename": name }));
        let references: Vec<_> = attachments.iter().map(Self::reference).chain(missing).collect();
        (!references.is_empty())
            .then(|| FieldValue::Json(serde_json::Value::from(references).to_string()))
    }
}

/// What the bytes of an entry are called, and how many there are. Reads it.
///
/// # Errors
/// What reading it fails with.
pub(super) fn measured(archive: &Archive, number: usize) -> io::Result<(BlobId, u64)> {
    let mut hasher = ContentHasher::default();
    let mut reader = entry(archive, number)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok((BlobId::from_digest(*hasher.finish().as_bytes()), size));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        size += count as u64;
    }
}

fn entry(archive: &Archive, number: usize) -> io::Result<Box<dyn Read>> {
    let entry = archive.entries().get(number).ok_or(io::ErrorKind::NotFound)?;
    Ok(Box::new(archive.read(entry)?))
}
