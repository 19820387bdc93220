//! The texts of documents: taken out by a reader, and kept by the state of each file, as facts are.
//!
//! A text is kept in memory alone, compressed and within a bound. A document whose text is not kept
//! any more is read again.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::document::{DocumentKind, DocumentReader, DocumentText, NoText};
use stile_domain::facts::{FileStamp, Footprint, StampCache};
use stile_domain::path::SpacePath;

use super::left_out::LeftOutReason;
use super::lock::Turnstile;
use super::os;
use super::whole_file::{HEAD, read_whole};

/// The largest document that is read, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The memory for texts, compressed, in bytes.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// How many documents of a space are read at once.
const READ_AT_ONCE: usize = 2;
/// How long a document waits until others have been read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How hard a text is compressed, and how much of it is to be there at most. A reader gives less.
const LEVEL: i32 = 1;
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Why a document has no text now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDocumentText {
    /// The reader took none out of it.
    Of(NoText),
    /// Other documents are being read, or the file changes.
    Busy,
}

impl NoDocumentText {
    /// Returns why a search does not look into the document.
    pub(super) fn left_out(self) -> LeftOutReason {
        match self {
            Self::Busy | Self::Of(NoText::NotNow) => LeftOutReason::Unreadable,
            Self::Of(NoText::Damaged) => LeftOutReason::NotText,
            Self::Of(NoText::TooLarge) => LeftOutReason::TooLong,
        }
    }
}

/// The texts of the documents of a space.
pub(super) struct DocumentTexts {
    reader: Option<Arc<dyn DocumentReader>>,
    kept: Mutex<StampCache<Kept>>,
    turns: Turnstile,
}

/// A text that is kept, or why there is none.
struct Kept {
    kind: DocumentKind,
    text: Result<Packed, NoText>,
}

/// A compressed text.
struct Packed {
    bytes: Vec<u8>,
    parts: Vec<u64>,
}

impl Footprint for Kept {
    fn heap_bytes(&self) -> usize {
        let bytes = |it: &Packed| it.bytes.capacity() + it.parts.capacity() * size_of::<u64>();
        self.text.as_ref().map_or(0, bytes)
    }
}

impl Packed {
    fn of(document: &DocumentText) -> io::Result<Self> {
        let bytes = zstd::bulk::compress(document.text.as_bytes(), LEVEL)?;
        Ok(Self { bytes, parts: document.part_lines().to_vec() })
    }

    fn unpack(&self) -> io::Result<DocumentText> {
        let bytes = zstd::bulk::decompress(&self.bytes, MAX_TEXT_BYTES)?;
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(DocumentText::with_parts(text, self.parts.clone()))
    }
}

impl DocumentTexts {
    pub(super) fn new(reader: Option<Arc<dyn DocumentReader>>) -> Self {
        let kept = Mutex::new(StampCache::new(KEPT_BYTES));
        Self { reader, kept, turns: Turnstile::new(READ_AT_ONCE) }
    }

    /// Returns which kind of document a file is that is not UTF-8. `None` for what is no document,
    /// and if the space has no reader.
    pub(super) fn kind(&self, path: &SpacePath, file: &File) -> io::Result<Option<DocumentKind>> {
        if self.reader.is_none() {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        let read = os::read_at(file, &mut head, 0)?;
        Ok(DocumentKind::of_file(path, head.get(..read).unwrap_or_default()))
    }

    /// Whether the space has a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the text of a document in the state of `stamp`.
    pub(super) fn read(
        &self,
        file: &File,
        stamp: FileStamp,
        kind: DocumentKind,
    ) -> io::Result<Result<DocumentText, NoDocumentText>> {
        let Some(reader) = &self.reader else { return Ok(Err(NoDocumentText::Busy)) };
        let known = || self.kept().get(&stamp).filter(|kept| kept.kind == kind);
        let unpacked = |kept: &Kept| match &kept.text {
            Ok(packed) => Ok(Ok(packed.unpack()?)),
            Err(why) => Ok(Err(NoDocumentText::Of(*why))),
        };
        if let Some(kept) = known() {
            return unpacked(&kept);
        }
        if stamp.size > MAX_DOCUMENT_BYTES {
            return Ok(Err(NoDocumentText::Of(NoText::TooLarge)));
        }
        let Some(_turn) = self.turns.enter(Instant::now() + PATIENCE) else {
            return Ok(Err(NoDocumentText::Busy));
        };
        // Another call may have read it meanwhile.
        if let Some(kept) = known() {
            return unpacked(&kept);
        }
        let began = os::now();
        let Some(bytes) = read_whole(file, stamp.size, MAX_DOCUMENT_BYTES)? else {
            return Ok(Err(NoDocumentText::Busy));
        };
        if os::status(file)?.stamp != stamp {
            return Ok(Err(NoDocumentText::Busy));
        }
        let text = reader.text(kind, &bytes);
        if text == Err(NoText::NotNow) {
            return Ok(Err(NoDocumentText::Busy));
        }
        let packed = match &text {
            Ok(document) => Ok(Packed::of(document)?),
            Err(why) => Err(*why),
        };
        self.kept().insert(stamp, &Arc::new(Kept { kind, text: packed }), began);
        Ok(text.map_err(NoDocumentText::Of))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, StampCache<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Takes the bytes themselves for a text, and counts how often it is asked.
    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl DocumentReader for Counting {
        fn text(&self, _: DocumentKind, bytes: &[u8]) -> Result<DocumentText, NoText> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if bytes == b"busy" {
                return Err(NoText::NotNow);
            }
            let text = std::str::from_utf8(bytes).map_err(|_| NoText::Damaged)?;
            Ok(DocumentText::with_parts(text.to_owned(), vec![1]))
        }
    }

    #[test]
    fn a_document_is_read_once_in_each_of_its_states() {
        let folder = tempfile::tempdir().unwrap();
        let reader = Arc::new(Counting::default());
        let texts = DocumentTexts::new(Some(Arc::clone(&reader) as Arc<dyn DocumentReader>));
        let name = folder.path().join("a.pdf");
        let read = |bytes: &[u8]| {
            std::fs::write(&name, bytes).unwrap();
            let file = File::open(&name).unwrap();
            let stamp = os::status(&file).unwrap().stamp;
            // A text is kept once another write would change the stamp.
            while !stamp.settled_at(os::now()) {
                std::hint::spin_loop();
            }
            let first = texts.read(&file, stamp, DocumentKind::Pdf).unwrap();
            assert_eq!(texts.read(&file, stamp, DocumentKind::Pdf).unwrap(), first);
            first
        };
        let moss = DocumentText::with_parts("moss".to_owned(), vec![1]);
        assert_eq!(read(b"moss"), Ok(moss));
        assert_eq!(read(&[0xff]), Err(NoDocumentText::Of(NoText::Damaged)));
        assert_eq!(reader.0.load(Ordering::Relaxed), 2);
        // That no reader can be started says nothing of the document, and is not remembered.
        assert_eq!(read(b"busy"), Err(NoDocumentText::Busy));
        assert_eq!(reader.0.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_text_is_unpacked_as_it_was() {
        let document = DocumentText::with_parts("[page 1]\nmoss\n".repeat(1000), vec![1, 3]);
        let packed = Packed::of(&document).unwrap();
        assert!(packed.bytes.len() < 1000);
        assert_eq!(packed.unpack().unwrap(), document);
    }
}
