//! Finds files by what they say, for `file.search`: reads every file that the caller may see, and
//! ranks what they have of the question.
//!
//! A call reads a stated number of bytes. What it has not read by then is counted, and the next
//! call reads on. What was found of a question until then is kept in memory, by the path and the
//! state of each file, so that the next call ranks all that was read so far. The words of files are
//! kept too (`word_cache`), so that other questions need not read them again.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stile_domain::error::Refusal;
use stile_domain::facts::{FileFacts, FileStamp, UnixNanos};
use stile_domain::find::walk_cursor::{WalkCursor, WalkPosition};
use stile_domain::listing::EntryKind;
use stile_domain::notes::note_query::is_note;
use stile_domain::notes::{Note, NotePath, note_title};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};
use stile_domain::recall::evidence::{FileEvidence, Matcher};
use stile_domain::recall::excerpt::excerpts;
use stile_domain::recall::file_words::{FileKind, FileWords};
use stile_domain::recall::question::RecallQuestion;
use stile_domain::recall::ranking::{Statistics, rank};
use stile_domain::text_encoding::{DecodedText, may_be_text, recognise};

use crate::cancellation::Cancellation;

use super::left_out::{LeftOut, LeftOutReason, leave_out, leave_out_file};
use super::read::{facts_of, read_whole};
use super::recall_pages::{RecallBudget, RecallKind, RecallPage, RecallQuery, RecalledFile};
use super::tree::SLICE;
use super::walk::{Found, WalkOrder, Walker};
use super::word_cache::Generation;
use super::{Inner, os};

/// The largest file that is ranked, in bytes. A longer one is a log or a dump rather than a text
/// that a person remembers; `text.search` looks into it.
const MAX_RANKED_BYTES: u64 = 4 * 1024 * 1024;
/// How many bytes of a file decide whether it is text, before the rest is read.
const PROBE_BYTES: usize = 8 * 1024;
/// What a call may read, unless a test says otherwise.
pub(super) const CALL_BUDGET: RecallBudget = RecallBudget { bytes: 256 * 1024 * 1024, time: SLICE };
/// The questions that may be unfinished at once. The oldest begins anew after more.
const MOST_UNFINISHED: usize = 8;
/// The files of an unfinished question that are remembered.
const MOST_REMEMBERED: usize = 200_000;

/// What was found of a file in one state.
type Remembered = HashMap<SpacePath, (FileStamp, Outcome)>;

/// The questions that are not finished, the oldest first, each with what was found so far.
#[derive(Default)]
pub(super) struct UnfinishedQuestions(Mutex<VecDeque<(String, Remembered)>>);

impl UnfinishedQuestions {
    fn take(&self, key: &str) -> Remembered {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = questions.iter().position(|(known, _)| known == key);
        at.and_then(|at| questions.remove(at)).map(|(_, found)| found).unwrap_or_default()
    }

    fn put(&self, key: String, found: Remembered) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|(known, _)| *known != key);
        if questions.len() >= MOST_UNFINISHED {
            questions.pop_front();
        }
        questions.push_back((key, found));
    }
}

/// What became of a file.
#[derive(Clone)]
enum Outcome {
    Ranked(Arc<FileEvidence>),
    /// A phrase is missing, or a word occurs that must not.
    Unfit,
    LeftOut(LeftOutReason),
}

/// The files that a call looked at so far.
#[derive(Default)]
struct Looked {
    files: Vec<(SpacePath, FileEvidence)>,
    left_out: Vec<LeftOut>,
    remembered: Remembered,
    /// The last file that was read.
    last: Option<WalkPosition>,
    spent: u64,
    is_unfinished: bool,
}

impl Looked {
    fn take(&mut self, path: SpacePath, outcome: Outcome) {
        match outcome {
            Outcome::Ranked(evidence) => self.files.push((path, (*evidence).clone())),
            Outcome::Unfit => {}
            Outcome::LeftOut(why) => leave_out_file(&mut self.left_out, &path, why),
        }
    }
}

impl Inner {
    /// Finds the files that fit a question best, for `file.search`. `key` is the same for the same
    /// arguments, and tells unfinished questions apart.
    pub(super) fn recall(
        &self,
        permit: &Permit<Walk>,
        (key, query): (&str, &RecallQuery),
        cursor: WalkCursor,
        budget: RecallBudget,
        cancellation: &Cancellation,
    ) -> Result<RecallPage, Refusal> {
        let looked = self.look(permit, (key, query), budget, cancellation)?;
        let Looked { files, left_out, remembered, last, is_unfinished, .. } = looked;
        if is_unfinished {
            self.unfinished.put(key.to_owned(), remembered);
        }
        let (statistics, ranking) = rank(&query.question, &files);
        let shown = cursor.rank.as_ref();
        let mut rest = ranking
            .order
            .iter()
            .map(|(rank, _)| rank)
            .skip_while(|rank| shown.is_some_and(|shown| !shown.is_before(rank)));
        let page: Vec<_> = rest.by_ref().take(query.limit).collect();
        let has_more = rest.next().is_some();
        let next = if is_unfinished {
            Some(WalkCursor { after: last, rank: cursor.rank.clone(), ..WalkCursor::default() })
        } else {
            let last = page.last().filter(|_| has_more);
            last.map(|rank| WalkCursor { rank: Some((*rank).clone()), ..WalkCursor::default() })
        };
        let results = page.iter().filter_map(|rank| {
            self.recalled(&rank.path, &query.question, &statistics).ok().flatten()
        });
        let results = results.collect();
        let total = ranking.order.len() as u64;
        let (matched, nowhere) = (ranking.matched, ranking.nowhere);
        Ok(RecallPage { results, matched, nowhere, total, left_out, next })
    }

    /// Reads the files that the caller may see, as many as the budget allows.
    fn look(
        &self,
        permit: &Permit<Walk>,
        (key, query): (&str, &RecallQuery),
        budget: RecallBudget,
        cancellation: &Cancellation,
    ) -> Result<Looked, Refusal> {
        let deadline = Instant::now() + budget.time;
        let [after, before] = query.modified.map(|bound| bound.map(|bound| bound.at(os::now())));
        let has_time = |time: UnixNanos| {
            after.is_none_or(|after| after <= time) && before.is_none_or(|before| time <= before)
        };
        let mut walker = Walker::new(self, permit, WalkOrder::ByName, usize::MAX, None)?;
        let mut known = self.unfinished.take(key);
        let mut matcher = Matcher::new(&query.question);
        let (words, needs_text) = (self.words.begin(), query.question.needs_text());
        let mut looked = Looked::default();
        while let Some(found) = walker.next() {
            if cancellation.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            let is_wanted = found.kind == EntryKind::File && has_kind(query, found.name());
            if !is_wanted || !permit.may_read(&found.path) {
                continue;
            }
            let is_late = looked.last.is_some() && Instant::now() >= deadline;
            if looked.is_unfinished && is_late {
                let unread = looked.left_out.iter_mut();
                let mut unread = unread.filter(|left| left.why == LeftOutReason::NotFinished);
                unread.by_ref().for_each(|left| left.is_at_least = true);
                break;
            }
            let Some(status) = found.status(self).filter(|it| it.kind == EntryKind::File) else {
                continue;
            };
            if !has_time(status.stamp.modified) {
                continue;
            }
            let position = found.position();
            let before = known.remove(&found.path).filter(|(stamp, _)| *stamp == status.stamp);
            if let Some((stamp, outcome)) = before {
                looked.remembered.insert(found.path.clone(), (stamp, outcome.clone()));
                looked.take(found.path, outcome);
                looked.last = Some(position);
                continue;
            }
            let kind = kind_of(found.name());
            let cached = if needs_text { None } else { words.get(status.stamp, kind) };
            if let Some(cached) = cached {
                let evidence = matcher.gather_packed(&found.path, &cached, &words.table());
                looked.files.push((found.path, evidence));
                looked.last = Some(position);
                continue;
            }
            let is_spent = looked.spent > 0 && looked.spent + status.stamp.size > budget.bytes;
            looked.is_unfinished |= is_late || is_spent;
            if looked.is_unfinished {
                leave_out_file(&mut looked.left_out, &found.path, LeftOutReason::NotFinished);
                continue;
            }
            let began = os::now();
            let Some((stamp, outcome)) = self.look_into(&found, &mut matcher, query, &words) else {
                continue;
            };
            looked.spent += stamp.size;
            if stamp.settled_at(began) && looked.remembered.len() < MOST_REMEMBERED {
                looked.remembered.insert(found.path.clone(), (stamp, outcome.clone()));
            }
            looked.take(found.path, outcome);
            looked.last = Some(position);
        }
        if let Some(left) = walker.take_unnameable() {
            leave_out(&mut looked.left_out, left);
        }
        Ok(looked)
    }

    /// Reads one file; `None` if it is gone.
    fn look_into(
        &self,
        found: &Found,
        matcher: &mut Matcher<'_>,
        query: &RecallQuery,
        cache: &Generation,
    ) -> Option<(FileStamp, Outcome)> {
        let began = os::now();
        let file = found.open(self).ok()?;
        let status = os::status(&file).ok().filter(|status| status.kind == EntryKind::File)?;
        let stamp = status.stamp;
        let RankedText { text, .. } = match ranked_text(&file, stamp).ok()? {
            Ok(ranked) => ranked,
            Err(why) => return Some((stamp, Outcome::LeftOut(why))),
        };
        if query.question.needs_text() && !query.question.allows(&[&text, found.name()]) {
            return Some((stamp, Outcome::Unfit));
        }
        let kind = kind_of(found.name());
        let words = FileWords::of(&text, kind);
        let evidence = Arc::new(matcher.gather(&found.path, &words));
        if os::status(&file).ok()?.stamp == stamp {
            cache.insert((stamp, kind), &words, began);
        }
        Some((stamp, Outcome::Ranked(evidence)))
    }

    /// Returns a file as an answer shows it; `None` if it is not text any more.
    fn recalled(
        &self,
        path: &SpacePath,
        question: &RecallQuestion,
        statistics: &Statistics,
    ) -> io::Result<Option<RecalledFile>> {
        let file = self.root.open_file(path)?;
        let status = os::status(&file)?;
        if status.kind != EntryKind::File {
            return Ok(None);
        }
        let began = os::now();
        let Ok(RankedText { text, decoded }) = ranked_text(&file, status.stamp)? else {
            return Ok(None);
        };
        let known = self.memory().get(&status.stamp);
        let facts = match known {
            Some(facts) => facts,
            None => {
                let facts = Arc::new(decoded.unwrap_or_else(|| facts_of(text.as_bytes())));
                if os::status(&file)?.stamp == status.stamp {
                    self.memory().insert(status.stamp, &facts, began);
                }
                facts
            }
        };
        let name = path.as_str().rsplit('/').next().unwrap_or_default();
        let title = match kind_of(name) {
            FileKind::Note => {
                NotePath::of(path).and_then(|path| note_title(&path, Note::parse(&text)))
            }
            FileKind::Text => None,
        };
        Ok(Some(RecalledFile {
            path: path.clone(),
            title: title.unwrap_or_else(|| name.to_owned()),
            modified: status.stamp.modified,
            hash: facts.hash,
            passages: excerpts(&text, question, statistics),
        }))
    }
}

/// Whether a query looks into a file with a name.
fn has_kind(query: &RecallQuery, name: &str) -> bool {
    let kind = match kind_of(name) {
        FileKind::Note => RecallKind::Note,
        FileKind::Text => RecallKind::Text,
    };
    query.kinds.is_empty() || query.kinds.contains(&kind)
}

/// Returns the kind of a file by its name.
fn kind_of(name: &str) -> FileKind {
    if is_note(name) { FileKind::Note } else { FileKind::Text }
}

/// The text of a file that is ranked.
struct RankedText {
    text: String,
    /// The facts of the bytes, if they are not UTF-8 and were decoded.
    decoded: Option<FileFacts>,
}

/// Reads the text of a file, or returns why it is not ranked.
fn ranked_text(file: &File, stamp: FileStamp) -> io::Result<Result<RankedText, LeftOutReason>> {
    let is_long = stamp.size > MAX_RANKED_BYTES;
    if is_long || stamp.size > PROBE_BYTES as u64 {
        let mut probe = [0; PROBE_BYTES];
        let read = os::read_at(file, &mut probe, 0)?;
        if !may_be_text(probe.get(..read).unwrap_or_default()) {
            return Ok(Err(LeftOutReason::NotText));
        }
    }
    if is_long {
        return Ok(Err(LeftOutReason::TooLong));
    }
    let Some(bytes) = read_whole(file, stamp.size, MAX_RANKED_BYTES)? else {
        return Ok(Err(LeftOutReason::TooLong));
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Ok(RankedText { text, decoded: None }),
        Err(error) => {
            let bytes = error.as_bytes();
            let ranked = |decoded: DecodedText| RankedText {
                text: decoded.text,
                decoded: Some(facts_of(bytes)),
            };
            recognise(bytes).map(ranked).ok_or(LeftOutReason::NotText)
        }
    })
}
