//! The texts of documents: taken out by a reader, and kept by the state of each file, as facts are.
//!
//! A text is kept in memory alone, compressed and within a bound. A document whose text is not kept
//! any more is read again. A call that must end soon leaves a document to a thread of its own, and
//! a later call finds the text.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::document::{
    DocumentKind, DocumentReader, DocumentText, MAX_DOCUMENT_BYTES, NoText,
};
use stile_domain::facts::{FileStamp, Footprint, StampCache};
use stile_domain::path::SpacePath;

use super::left_out::LeftOutReason;
use super::lock::Turnstile;
use super::os;
use super::whole_file::{HEAD, read_whole};

/// The memory for texts, compressed, in bytes.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// How many documents of a space are read at once.
const READ_AT_ONCE: usize = 2;
/// How long a document waits until others have been read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many documents of a space are read, or wait to be read, for calls that may have ended.
const MOST_LEFT: usize = 8;
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
    /// The text will be known later.
    Late,
}

impl NoDocumentText {
    /// Returns why a search does not look into the document.
    pub(super) fn left_out(self) -> LeftOutReason {
        match self {
            Self::Late => LeftOutReason::NotFinished,
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
    /// The documents that threads of their own read.
    left: Mutex<HashSet<FileStamp>>,
    /// Signalled when such a thread ends.
    ended: Condvar,
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
    title: Option<String>,
}

impl Footprint for Kept {
    fn heap_bytes(&self) -> usize {
        let bytes = |it: &Packed| {
            let title = it.title.as_ref().map_or(0, String::capacity);
            it.bytes.capacity() + it.parts.capacity() * size_of::<u64>() + title
        };
        self.text.as_ref().map_or(0, bytes)
    }
}

impl Packed {
    fn of(document: &DocumentText) -> io::Result<Self> {
        let bytes = zstd::bulk::compress(document.text.as_bytes(), LEVEL)?;
        let (parts, title) = (document.part_lines().to_vec(), document.title.clone());
        Ok(Self { bytes, parts, title })
    }

    fn unpack(&self) -> io::Result<DocumentText> {
        let bytes = zstd::bulk::decompress(&self.bytes, MAX_TEXT_BYTES)?;
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(DocumentText::with_parts(text, self.parts.clone()).titled(self.title.clone()))
    }
}

impl DocumentTexts {
    pub(super) fn new(reader: Option<Arc<dyn DocumentReader>>) -> Self {
        let kept = Mutex::new(StampCache::new(KEPT_BYTES));
        let turns = Turnstile::new(READ_AT_ONCE);
        Self { reader, kept, turns, left: Mutex::default(), ended: Condvar::new() }
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
        if let Some(known) = self.known(stamp, kind)? {
            return Ok(known);
        }
        if stamp.size > MAX_DOCUMENT_BYTES {
            return Ok(Err(NoDocumentText::Of(NoText::TooLarge)));
        }
        let Some(_turn) = self.turns.enter(Instant::now() + PATIENCE) else {
            return Ok(Err(NoDocumentText::Busy));
        };
        // Another call may have read it meanwhile.
        if let Some(known) = self.known(stamp, kind)? {
            return Ok(known);
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

    /// Returns the text of a document as [`DocumentTexts::read`] does, if it is there before a
    /// deadline. Otherwise a thread goes on reading, and the answer is [`NoDocumentText::Late`].
    pub(super) fn read_by(
        self: &Arc<Self>,
        file: &File,
        stamp: FileStamp,
        kind: DocumentKind,
        deadline: Instant,
    ) -> io::Result<Result<DocumentText, NoDocumentText>> {
        if let Some(known) = self.known(stamp, kind)? {
            return Ok(known);
        }
        if self.begin(stamp) {
            let (own, copy) = (LeftDocument { texts: Arc::clone(self), stamp }, file.try_clone()?);
            let read = move || {
                let _ = own.texts.read(&copy, stamp, kind);
            };
            if std::thread::Builder::new().spawn(read).is_err() {
                return self.read(file, stamp, kind);
            }
        }
        let mut left = self.left();
        while left.contains(&stamp) {
            let time = deadline.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Ok(Err(NoDocumentText::Late));
            }
            left = self.ended.wait_timeout(left, time).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(left);
        Ok(self.known(stamp, kind)?.unwrap_or(Err(NoDocumentText::Late)))
    }

    /// Forgets all texts.
    pub(super) fn forget(&self) {
        *self.kept() = StampCache::new(KEPT_BYTES);
    }

    /// Marks a document as being read by a thread of its own. Returns `false` where one reads it,
    /// or where too many are being read.
    fn begin(&self, stamp: FileStamp) -> bool {
        let mut left = self.left();
        left.len() < MOST_LEFT && left.insert(stamp)
    }

    fn left(&self) -> std::sync::MutexGuard<'_, HashSet<FileStamp>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is kept of a document.
    fn known(
        &self,
        stamp: FileStamp,
        kind: DocumentKind,
    ) -> io::Result<Option<Result<DocumentText, NoDocumentText>>> {
        let kept = self.kept().get(&stamp).filter(|kept| kept.kind == kind);
        Ok(match kept.as_deref().map(|kept| &kept.text) {
            None => None,
            Some(Ok(packed)) => Some(Ok(packed.unpack()?)),
            Some(Err(why)) => Some(Err(NoDocumentText::Of(*why))),
        })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, StampCache<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A document that a thread of its own reads; it is none any more once this is dropped.
struct LeftDocument {
    texts: Arc<DocumentTexts>,
    stamp: FileStamp,
}

impl Drop for LeftDocument {
    fn drop(&mut self) {
        self.texts.left().remove(&self.stamp);
        self.texts.ended.notify_all();
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

    /// Waits until a test lets it read.
    #[derive(Debug, Default)]
    struct Waiting(Mutex<bool>, Condvar);

    impl DocumentReader for Waiting {
        fn text(&self, _: DocumentKind, _: &[u8]) -> Result<DocumentText, NoText> {
            let _free = self.1.wait_while(self.0.lock().unwrap(), |is_free| !*is_free).unwrap();
            Ok(DocumentText::with_parts("moss".to_owned(), vec![1]))
        }
    }

    #[test]
    fn a_document_that_is_late_is_known_to_a_later_call() {
        let folder = tempfile::tempdir().unwrap();
        let reader = Arc::new(Waiting::default());
        let own = Arc::clone(&reader) as Arc<dyn DocumentReader>;
        let texts = Arc::new(DocumentTexts::new(Some(own)));
        let name = folder.path().join("a.pdf");
        std::fs::write(&name, "%PDF-").unwrap();
        let file = File::open(&name).unwrap();
        let stamp = os::status(&file).unwrap().stamp;
        while !stamp.settled_at(os::now()) {
            std::hint::spin_loop();
        }
        let by = |deadline| texts.read_by(&file, stamp, DocumentKind::Pdf, deadline).unwrap();
        assert_eq!(by(Instant::now()), Err(NoDocumentText::Late));
        assert_eq!(by(Instant::now()), Err(NoDocumentText::Late));
        *reader.0.lock().unwrap() = true;
        reader.1.notify_all();
        let text = by(Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(text.text, "moss");
        assert!(texts.left().is_empty());
    }

    #[test]
    fn a_text_is_unpacked_as_it_was() {
        let document = DocumentText::with_parts("[page 1]\nmoss\n".repeat(1000), vec![1, 3]);
        let document = document.titled(Some("Moss".to_owned()));
        let packed = Packed::of(&document).unwrap();
        assert!(packed.bytes.len() < 1000);
        assert_eq!(packed.unpack().unwrap(), document);
    }
}
