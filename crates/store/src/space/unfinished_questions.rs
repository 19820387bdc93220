//! What was found so far of the questions of `file.search` that a call did not finish.
//!
//! A call stops after a stated number of bytes, and the next call with the same question goes on
//! with what is here. The words of files are in `word_cache`, for all questions; here is what they
//! do not tell.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use stile_domain::facts::{FileStamp, Footprint};
use stile_domain::path::SpacePath;
use stile_domain::recall::evidence::FileEvidence;
use stile_domain::recall::packed_words::PackedWords;

use super::left_out::LeftOutReason;

/// The questions that may be unfinished at once. The oldest begins anew after more.
const MOST_UNFINISHED: usize = 8;
/// The memory for what was found of unfinished questions, in bytes. The oldest begins anew after
/// more; a question that needs more alone reads on, and reads files again.
const UNFINISHED_BYTES: usize = 64 * 1024 * 1024;
/// What a file of an unfinished question takes beside what was found, with its path.
const FILE_BYTES: usize = 256;

/// What was found of a file in one state, where the words that the space knows do not tell it.
pub(super) type Remembered = HashMap<SpacePath, (FileStamp, Outcome)>;

/// What became of a file.
#[derive(Clone)]
pub(super) enum Outcome {
    /// The words tell what the file has of the question.
    Words(Arc<PackedWords>),
    /// The words found no room, or the file changed a moment ago.
    Ranked(Arc<FileEvidence>),
    /// A phrase is missing, or a word occurs that must not.
    Unfit,
    LeftOut(LeftOutReason),
}

impl Footprint for Outcome {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Ranked(evidence) => evidence.heap_bytes(),
            // The words of a file of which the cache may have dropped them.
            Self::Words(words) => words.heap_bytes(),
            Self::Unfit | Self::LeftOut(_) => 0,
        }
    }
}

/// The questions that are not finished, the oldest first, each with what was found so far.
#[derive(Default)]
pub(super) struct UnfinishedQuestions(Mutex<VecDeque<Unfinished>>);

struct Unfinished {
    key: String,
    found: Remembered,
    bytes: usize,
}

impl UnfinishedQuestions {
    /// Forgets all that was found.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes out what was found for a question; nothing for a question that is not known.
    pub(super) fn take(&self, key: &str) -> Remembered {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = questions.iter().position(|known| known.key == key);
        at.and_then(|at| questions.remove(at)).map(|known| known.found).unwrap_or_default()
    }

    /// Keeps what was found for a question, as far as it has room.
    pub(super) fn put(&self, key: String, mut found: Remembered) {
        let (mut bytes, mut room) = (0, UNFINISHED_BYTES);
        found.retain(|path, (_, outcome)| {
            let size = FILE_BYTES + path.as_str().len() + outcome.heap_bytes();
            let fits = size <= room;
            if fits {
                (bytes, room) = (bytes + size, room - size);
            }
            fits
        });
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|known| known.key != key);
        let held = |questions: &VecDeque<Unfinished>| {
            questions.iter().map(|known| known.bytes).sum::<usize>()
        };
        while questions.len() >= MOST_UNFINISHED || held(&questions) > UNFINISHED_BYTES - bytes {
            questions.pop_front();
        }
        questions.push_back(Unfinished { key, found, bytes });
    }
}
