//! Looks at the files of a question, for `recall`: at the words that the space knows, and otherwise
//! into the file.
//!
//! One thread walks, and looks at the state of each file. Files whose words are not known are read
//! by that thread and by helpers, as in `text_search`. What was found does not depend on the number
//! of threads. Where the words of a file do not tell whether a phrase occurs, only that file is
//! read again.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use stile_domain::document::{DocumentKind, DocumentText, html_title};
use stile_domain::error::Refusal;
use stile_domain::facts::{FileFacts, FileStamp, UnixNanos};
use stile_domain::find::walk_cursor::WalkPosition;
use stile_domain::listing::EntryKind;
use stile_domain::notes::note_query::is_note;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};
use stile_domain::recall::evidence::{FileEvidence, Matcher};
use stile_domain::recall::file_words::{FileKind, WordReader};
use stile_domain::recall::packed_words::PackedWords;
use stile_domain::recall::table_matches::{TableMatches, TermVerdict};
use stile_domain::text_encoding::{DecodedText, may_be_text, recognise};

use crate::cancellation::Cancellation;

use super::document_texts::NoDocumentText;
use super::left_out::{LeftOut, LeftOutReason, leave_out, leave_out_file};
use super::lock::Turn;
use super::read::{facts_of, whole_utf_8};
use super::recall_pages::{RecallBudget, RecallKind, RecallQuery};
use super::shared_work::{EndOnDrop, FEW, SharedWork};
use super::unfinished_questions::{Outcome, Remembered};
use super::walk::{Found, WalkOrder, Walker};
use super::whole_file::read_whole;
use super::word_cache::{Generation, KnownContent};
use super::{Inner, os};

/// The largest file that is ranked, in bytes. A longer one is a log or a dump rather than a text
/// that a person remembers; `text.search` looks into it.
const MAX_RANKED_BYTES: u64 = 4 * 1024 * 1024;
/// How many bytes of a file decide whether it is text, before the rest is read.
const PROBE_BYTES: usize = 8 * 1024;
/// The files that wait to be read at most.
const QUEUE: usize = 64;

/// The files that a call looked at.
#[derive(Default)]
pub(super) struct Looked {
    /// What the files have of the question that may be ranked.
    pub(super) files: Vec<(SpacePath, FileEvidence)>,
    pub(super) left_out: Vec<LeftOut>,
    /// The files that a condition of the question leaves out.
    pub(super) unfit: Vec<LeftOut>,
    pub(super) remembered: Remembered,
    /// The last file that was looked at.
    pub(super) last: Option<WalkPosition>,
    pub(super) is_unfinished: bool,
}

/// A file that waits to be read.
struct Job {
    found: Found,
    /// The state of the file, and its words, where only the text is missing.
    known: Option<(FileStamp, Arc<PackedWords>)>,
}

/// What was read of a file; `None` if it is gone.
type ReadFile = Option<(FileStamp, Settled, Outcome)>;

/// Whether the state of a file had settled before it was read.
struct Settled(bool);

/// A look at files in progress.
struct Look<'a> {
    inner: &'a Inner,
    query: &'a RecallQuery,
    words: &'a Generation,
    /// What earlier calls of the same question found.
    known: Remembered,
    /// What the question has of the words that the space knows.
    matches: TableMatches<'a>,
    /// The files in their order, with what became of those that were looked at.
    files: Vec<(SpacePath, Option<Outcome>)>,
    looked: Looked,
    /// The bytes that were read, or will be.
    spent: u64,
    added: u64,
    taken: u64,
}

impl Inner {
    /// Looks at the files that the caller may see, and reads as many as the budget allows.
    pub(super) fn look(
        &self,
        permit: &Permit<Walk>,
        query: &RecallQuery,
        known: Remembered,
        budget: RecallBudget,
        cancellation: &Cancellation,
    ) -> Result<Looked, Refusal> {
        let walker = Walker::new(self, permit, WalkOrder::ByName, usize::MAX, None)?;
        let words = self.words.begin();
        let mut look = Look {
            inner: self,
            query,
            words: &words,
            known,
            matches: TableMatches::new(&query.question),
            files: Vec::new(),
            looked: Looked::default(),
            spent: 0,
            added: 0,
            taken: 0,
        };
        let work = SharedWork::new(|_| None);
        let deadline = Instant::now().checked_add(budget.time);
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&work);
            let mut helpers: Vec<Turn<'_>> = Vec::new();
            let words = &words;
            let goes_on = || match cancellation.is_cancelled() {
                true => Err(Refusal::Cancelled),
                false => Ok(()),
            };
            look.walk(permit, walker, budget, &work, &goes_on, &mut || {
                self.search_helpers.start_threads(scope, &mut helpers, || {
                    let mut reader = FileReader::new(self, query, words, deadline);
                    work.help(|job| reader.read(job));
                });
            })
        })?;
        Ok(look.finish())
    }
}

impl Look<'_> {
    /// Walks through the folders, and has all files looked at.
    fn walk(
        &mut self,
        permit: &Permit<Walk>,
        mut walker: Walker<'_>,
        budget: RecallBudget,
        work: &SharedWork<Job, ReadFile>,
        goes_on: &dyn Fn() -> Result<(), Refusal>,
        start_helpers: &mut dyn FnMut(),
    ) -> Result<(), Refusal> {
        let deadline = Instant::now().checked_add(budget.time);
        let [after, before] =
            self.query.modified.map(|bound| bound.map(|bound| bound.at(os::now())));
        let has_time = |time: UnixNanos| {
            after.is_none_or(|after| after <= time) && before.is_none_or(|before| time <= before)
        };
        let mut reader = FileReader::new(self.inner, self.query, self.words, deadline);
        let mut last = None;
        while let Some(found) = walker.next() {
            goes_on()?;
            if found.kind != EntryKind::File || !permit.may_read(&found.path) {
                continue;
            }
            if !has_kind(self.query, found.name()) {
                leave_out_file(&mut self.looked.unfit, &found.path, LeftOutReason::Kinds);
                continue;
            }
            let is_late =
                last.is_some() && deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if self.looked.is_unfinished && is_late {
                let unread = self.looked.left_out.iter_mut();
                let unread = unread.filter(|left| left.why == LeftOutReason::NotFinished);
                unread.for_each(|left| left.is_at_least = true);
                break;
            }
            let status = found.status(self.inner).filter(|it| it.kind == EntryKind::File);
            let Some(stamp) = status.map(|it| it.stamp) else { continue };
            if !has_time(stamp.modified) {
                leave_out_file(&mut self.looked.unfit, &found.path, LeftOutReason::Modified);
                continue;
            }
            let (outcome, known) = self.known(&found, stamp);
            if outcome.is_none() {
                let is_spent = self.spent > 0 && self.spent + stamp.size > budget.bytes;
                self.looked.is_unfinished |= is_late || is_spent;
                if self.looked.is_unfinished {
                    let why = LeftOutReason::NotFinished;
                    leave_out_file(&mut self.looked.left_out, &found.path, why);
                    continue;
                }
            }
            last = Some((Arc::clone(found.start()), self.files.len()));
            self.files.push((found.path.clone(), outcome.clone()));
            if outcome.is_none() {
                self.spent += stamp.size;
                self.added += 1;
                work.add(self.files.len() as u64 - 1, Job { found, known });
                if self.added == FEW {
                    start_helpers();
                }
                self.take_read(work);
                if self.added - self.taken >= QUEUE as u64 {
                    self.read_one(&mut reader, work);
                }
            }
        }
        while self.added > self.taken {
            goes_on()?;
            self.read_one(&mut reader, work);
            self.take_read(work);
        }
        if let Some(left) = walker.take_unnameable() {
            leave_out(&mut self.looked.left_out, left);
        }
        let last = last.and_then(|(start, at)| Some((start, self.files.get(at)?.0.clone())));
        self.looked.last = last.map(|(start, path)| WalkPosition {
            start: (*start).clone(),
            path,
            is_folder: false,
        });
        Ok(())
    }

    /// Returns what is known of a file in exactly this state: what became of it, or else its words,
    /// where only the text is missing.
    fn known(
        &mut self,
        found: &Found,
        stamp: FileStamp,
    ) -> (Option<Outcome>, Option<(FileStamp, Arc<PackedWords>)>) {
        let before = self.known.remove(&found.path).filter(|(known, _)| *known == stamp);
        if let Some((stamp, outcome)) = before {
            self.looked.remembered.insert(found.path.clone(), (stamp, outcome.clone()));
            return (Some(outcome), None);
        }
        match self.words.get(stamp, kind_of(found.name())) {
            None => (None, None),
            Some(KnownContent::LeftOut(why)) => (Some(Outcome::LeftOut(why)), None),
            Some(KnownContent::Words(words)) if self.query.question.needs_text() => {
                self.matches.learn(&self.words.table());
                match self.matches.verdict(&words, found.name()) {
                    TermVerdict::Fits => (Some(Outcome::Words(words)), None),
                    TermVerdict::Unfit => (Some(Outcome::Unfit), None),
                    TermVerdict::NeedsText => (None, Some((stamp, words))),
                }
            }
            Some(KnownContent::Words(words)) => (Some(Outcome::Words(words)), None),
        }
    }

    /// Reads the next file that waits, or waits for helpers that read the last ones.
    fn read_one(&mut self, reader: &mut FileReader<'_>, work: &SharedWork<Job, ReadFile>) {
        let mut shared = work.lock();
        if let Some((number, job)) = shared.jobs.pop_front() {
            drop(shared);
            work.put(number, reader.read(&job));
        } else if shared.outcomes.is_empty() {
            work.wait(shared);
        }
    }

    /// Takes what was read so far.
    fn take_read(&mut self, work: &SharedWork<Job, ReadFile>) {
        let outcomes = std::mem::take(&mut work.lock().outcomes);
        for (number, read) in outcomes {
            self.taken += 1;
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some((path, outcome)) = self.files.get_mut(at) else { continue };
            let Some((stamp, Settled(is_settled), found)) = read else { continue };
            *outcome = Some(found.clone());
            if matches!(found, Outcome::LeftOut(LeftOutReason::NotFinished)) {
                self.looked.is_unfinished = true;
                continue;
            }
            let is_kept = matches!(found, Outcome::Words(_) | Outcome::LeftOut(_));
            let is_kept = is_kept && !self.query.question.needs_text();
            if !is_kept && is_settled {
                self.looked.remembered.insert(path.clone(), (stamp, found));
            }
        }
    }

    /// Gathers what the files have of the question.
    fn finish(mut self) -> Looked {
        self.matches.learn(&self.words.table());
        let mut matcher = Matcher::new(&self.query.question);
        for (path, outcome) in self.files {
            match outcome {
                Some(Outcome::Words(words)) => {
                    let evidence = matcher.gather_packed(&path, &words, &self.matches);
                    self.looked.files.push((path, evidence));
                }
                Some(Outcome::Ranked(evidence)) => {
                    self.looked.files.push((path, (*evidence).clone()));
                }
                Some(Outcome::LeftOut(why)) => {
                    leave_out_file(&mut self.looked.left_out, &path, why);
                }
                Some(Outcome::Unfit) => {
                    leave_out_file(&mut self.looked.unfit, &path, LeftOutReason::Terms);
                }
                None => {}
            }
        }
        self.looked
    }
}

/// Reads one file after another.
struct FileReader<'a> {
    inner: &'a Inner,
    query: &'a RecallQuery,
    words: &'a Generation,
    matcher: Matcher<'a>,
    word_reader: WordReader,
    /// When the text of a document has to be known; `None` if the reader waits for each.
    deadline: Option<Instant>,
}

impl<'a> FileReader<'a> {
    fn new(
        inner: &'a Inner,
        query: &'a RecallQuery,
        words: &'a Generation,
        deadline: Option<Instant>,
    ) -> Self {
        let (matcher, word_reader) = (Matcher::new(&query.question), WordReader::default());
        Self { inner, query, words, matcher, word_reader, deadline }
    }

    fn read(&mut self, job: &Job) -> ReadFile {
        let began = os::now();
        let file = job.found.open(self.inner).ok()?;
        let status = os::status(&file).ok().filter(|status| status.kind == EntryKind::File)?;
        let outcome = self.look_into(job, &file, status.stamp, began)?;
        Some((status.stamp, Settled(status.stamp.settled_at(began)), outcome))
    }

    /// Looks into a file that had this stamp when it was opened.
    fn look_into(
        &mut self,
        Job { found, known }: &Job,
        file: &File,
        stamp: FileStamp,
        began: UnixNanos,
    ) -> Option<Outcome> {
        let kind = kind_of(found.name());
        let is_unchanged = || os::status(file).is_ok_and(|status| status.stamp == stamp);
        let ranked = match self.inner.ranked_text(&found.path, file, stamp, self.deadline).ok()? {
            Ok(ranked) => ranked,
            Err(why) => {
                if why != LeftOutReason::NotFinished && is_unchanged() {
                    self.words.insert_left_out((stamp, kind), why, began);
                }
                return Some(Outcome::LeftOut(why));
            }
        };
        let question = &self.query.question;
        let RankedText { text, title, .. } = ranked;
        let title = title.as_deref();
        let shown = [&*text, found.name(), title.unwrap_or_default()];
        if question.needs_text() && !question.allows(&shown) {
            return Some(Outcome::Unfit);
        }
        if let Some((_, words)) = known.as_ref().filter(|(known, _)| *known == stamp) {
            return Some(Outcome::Words(Arc::clone(words)));
        }
        let words = self.word_reader.read_titled(title, &text, kind);
        let kept = is_unchanged().then(|| self.words.insert((stamp, kind), &words, began));
        Some(match kept.flatten() {
            Some(kept) => Outcome::Words(kept),
            None => Outcome::Ranked(Arc::new(self.matcher.gather(&found.path, &words))),
        })
    }
}

/// Whether a query looks into a file with a name.
fn has_kind(query: &RecallQuery, name: &str) -> bool {
    let kind = match kind_of(name) {
        FileKind::Note => RecallKind::Note,
        FileKind::Text if DocumentKind::of_name(name).is_some() => RecallKind::Document,
        FileKind::Text => RecallKind::Text,
    };
    query.kinds.is_empty() || query.kinds.contains(&kind)
}

/// Returns the kind of a file by its name.
pub(super) fn kind_of(name: &str) -> FileKind {
    if is_note(name) { FileKind::Note } else { FileKind::Text }
}

/// The text of a file that is ranked.
pub(super) struct RankedText {
    pub(super) text: String,
    /// The title of a document or of a page of HTML.
    pub(super) title: Option<String>,
    /// The facts of the bytes, if they are not UTF-8.
    pub(super) facts: Option<Arc<FileFacts>>,
    /// The document whose text it is, without the text.
    pub(super) document: Option<DocumentText>,
}

impl Inner {
    /// Reads the text of a file, or returns why it is not ranked. A document whose text is not
    /// known by the deadline is not finished.
    pub(super) fn ranked_text(
        &self,
        path: &SpacePath,
        file: &File,
        stamp: FileStamp,
        deadline: Option<Instant>,
    ) -> io::Result<Result<RankedText, LeftOutReason>> {
        if DocumentKind::of_name(path.as_str()).is_some()
            && let Some(kind) = self.documents.kind(path, file)?
        {
            let Some(facts) = self.facts_of_file(file, stamp)? else {
                return Ok(Err(LeftOutReason::Unreadable));
            };
            if facts.lines.is_none() || kind.is_never_text(path) {
                let read = match deadline {
                    Some(deadline) => self.documents.read_by(file, stamp, kind, deadline)?,
                    None => self.documents.read(file, stamp, kind)?,
                };
                return Ok(read.map_err(NoDocumentText::left_out).map(|mut document| RankedText {
                    text: std::mem::take(&mut document.text),
                    title: document.title.take(),
                    facts: Some(facts),
                    document: Some(document),
                }));
            }
        }
        let is_page = DocumentKind::of_marked_up_text(path) == Some(DocumentKind::Html);
        let plain = plain_text(file, stamp)?;
        Ok(plain.map(|ranked| {
            let title = is_page.then(|| html_title(&ranked.text)).flatten();
            RankedText { title, ..ranked }
        }))
    }
}

fn plain_text(file: &File, stamp: FileStamp) -> io::Result<Result<RankedText, LeftOutReason>> {
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
    Ok(match whole_utf_8(bytes) {
        Ok(text) => Ok(RankedText { text, title: None, facts: None, document: None }),
        Err(bytes) => {
            let ranked = |decoded: DecodedText| RankedText {
                text: decoded.text,
                title: None,
                facts: Some(Arc::new(facts_of(&bytes))),
                document: None,
            };
            recognise(&bytes).map(ranked).ok_or(LeftOutReason::NotText)
        }
    })
}
