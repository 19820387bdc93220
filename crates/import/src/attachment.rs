//! Files that come with a row. The bytes are stored as a blob, and a field of the row refers to it.

use std::io::{self, Read};
use std::sync::Arc;

use serde_json::json;
use stile_domain::hash::{ContentHash, ContentHasher};
use stile_domain::records::blob::BlobId;
use stile_domain::records::problem::Problem;
use stile_domain::records::value::FieldValue;
use stile_store::archive::Archive;
use stile_store::records::{WriteBatch, WriteRefusal};

/// The field that holds the names and texts of a record's attachments.
pub const TEXT_FIELD: &str = "attachment_text";

/// A file that a row refers to.
#[derive(Debug)]
pub struct Attachment {
    /// The name of the blob that the bytes become.
    pub id: BlobId,
    size: u64,
    media_type: String,
    file_name: Option<String>,
    bytes: AttachmentBytes,
}

#[derive(Debug)]
enum AttachmentBytes {
    InMemory(Vec<u8>),
    /// The number of an entry.
    InArchive(Arc<Archive>, usize),
}

impl Attachment {
    /// Creates an attachment from bytes in memory.
    pub fn in_memory(bytes: Vec<u8>, media_type: String, file_name: Option<String>) -> Self {
        let id = BlobId::from_digest(*ContentHash::digest(&bytes).as_bytes());
        Self {
            id,
            size: bytes.len() as u64,
            media_type,
            file_name,
            bytes: AttachmentBytes::InMemory(bytes),
        }
    }

    /// Creates an attachment from an entry of an archive, with the blob's name and the length in
    /// bytes that its content has.
    pub fn from_entry(
        archive: &Arc<Archive>,
        number: usize,
        (id, size): (BlobId, u64),
        media_type: String,
        file_name: Option<String>,
    ) -> Self {
        Self {
            id,
            size,
            media_type,
            file_name,
            bytes: AttachmentBytes::InArchive(Arc::clone(archive), number),
        }
    }

    /// The media type of the bytes, in lower case and without parameters.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// The name of the file, if it has one.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// Returns how many of the bytes are in memory: all or none.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        match &self.bytes {
            AttachmentBytes::InMemory(bytes) => bytes.len(),
            AttachmentBytes::InArchive(..) => 0,
        }
    }

    /// Opens the bytes from the first on.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.bytes {
            AttachmentBytes::InMemory(bytes) => Box::new(bytes.as_slice()),
            AttachmentBytes::InArchive(archive, number) => entry(archive, *number)?,
        })
    }

    /// Stores the bytes as a blob, unless it is stored already.
    ///
    /// # Errors
    /// [`Problem`] if the database failed; [`WriteRefusal`] if the bytes cannot be stored.
    pub(crate) fn store(
        &self,
        batch: &mut WriteBatch<'_>,
    ) -> Result<Result<(), WriteRefusal>, Problem> {
        if batch.has_blob(&self.id)? {
            return Ok(Ok(()));
        }
        let Ok(mut source) = self.open() else { return Ok(Err(WriteRefusal::Unreadable)) };
        let put = batch.put_blob(&mut source)?;
        // The file is read twice. If it was changed in between, the row refers to another blob.
        Ok(put.and_then(|info| {
            if info.digest == *self.id.digest() { Ok(()) } else { Err(WriteRefusal::Unreadable) }
        }))
    }

    /// Returns a `blob_ref` with the name of the file.
    fn reference(&self) -> serde_json::Value {
        let id = self.id.to_string();
        let sha256 = id.strip_prefix("sha256-").unwrap_or_default();
        let mut reference = json!({
            "blob_id": id,
            "mime_type": self.media_type,
            "size_bytes": self.size,
            "sha256": sha256,
        });
        if let (Some(name), Some(members)) = (&self.file_name, reference.as_object_mut()) {
            members.insert("filename".to_owned(), name.as_str().into());
        }
        reference
    }

    /// Returns a list for a field: a reference to each attachment, then the name of each file that
    /// the export does not have. `None` if both are empty.
    pub fn references(attachments: &[Self], missing: &[String]) -> Option<FieldValue> {
        let missing = missing.iter().map(|name| json!({ "filename": name }));
        let references: Vec<_> = attachments.iter().map(Self::reference).chain(missing).collect();
        (!references.is_empty())
            .then(|| FieldValue::Json(serde_json::Value::from(references).to_string()))
    }
}

/// Reads an entry, and returns the name of the blob that it becomes and its length in bytes.
pub(crate) fn measure_entry(archive: &Archive, number: usize) -> io::Result<(BlobId, u64)> {
    let (digest, size) = digest_all(&mut *entry(archive, number)?)?;
    Ok((BlobId::from_digest(*digest.as_bytes()), size))
}

/// Reads to the end, and returns the digest and the number of the bytes.
pub(crate) fn digest_all(reader: &mut dyn Read) -> io::Result<(ContentHash, u64)> {
    let mut hasher = ContentHasher::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok((hasher.finish(), size));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
        size += count as u64;
    }
}

fn entry(archive: &Archive, number: usize) -> io::Result<Box<dyn Read>> {
    let entry = archive.entries().get(number).ok_or(io::ErrorKind::NotFound)?;
    Ok(Box::new(archive.read(entry)?))
}
