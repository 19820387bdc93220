//! Finds files by what they say, for `file.search`: looks at every file that the caller may see
//! (`recall_reads`), and ranks what they have of the question.
//!
//! A call reads a stated number of bytes. What it has not read by then is counted, and the next
//! call reads on. The words of the files that it has read are kept (`word_cache`), so that neither
//! the next call nor another question reads them again. What they do not tell is kept for each
//! question that is not finished, within a bound (`unfinished_questions`).

use std::io;
use std::sync::Arc;

use stile_domain::error::Refusal;
use stile_domain::find::walk_cursor::WalkCursor;
use stile_domain::listing::EntryKind;
use stile_domain::notes::{Note, NotePath, note_title};
use stile_domain::path::SpacePath;
use stile_domain::permit::{Permit, Walk};
use stile_domain::recall::excerpt::{Excerpt, excerpts};
use stile_domain::recall::file_words::FileKind;
use stile_domain::recall::question::RecallQuestion;
use stile_domain::recall::ranking::{Statistics, rank};

use crate::cancellation::Cancellation;

use super::left_out::leave_out;
use super::read::facts_of;
use super::recall_pages::{RecallBudget, RecallPage, RecallQuery, RecalledFile, RecalledPassage};
use super::recall_reads::{Looked, RankedText, kind_of};
use super::tree::SLICE;
use super::{Inner, os};

/// What a call may read, unless a test says otherwise.
pub(super) const CALL_BUDGET: RecallBudget = RecallBudget { bytes: 256 * 1024 * 1024, time: SLICE };
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
        let known = self.unfinished.take(key);
        let looked = self.look(permit, query, known, budget, cancellation)?;
        let Looked { files, mut left_out, unfit, remembered, last, is_unfinished } = looked;
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
        if total == 0 && !is_unfinished {
            // The answer says which condition left nothing.
            unfit.into_iter().for_each(|unfit| leave_out(&mut left_out, unfit));
        }
        // Files that a phrase, a kind or a time leaves out may have the words.
        let all_counted = !query.question.needs_text()
            && query.kinds.is_empty()
            && query.modified.iter().all(Option::is_none);
        let nowhere = if all_counted { ranking.nowhere } else { Vec::new() };
        let matched = ranking.matched;
        Ok(RecallPage { results, matched, nowhere, total, left_out, next })
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
        let ranked = self.ranked_text(path, &file, status.stamp, None)?;
        let Ok(RankedText { text, title, facts, document }) = ranked else { return Ok(None) };
        let known = self.memory().get(&status.stamp);
        let facts = match known {
            Some(facts) => facts,
            None => {
                let facts = facts.unwrap_or_else(|| Arc::new(facts_of(text.as_bytes())));
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
            FileKind::Text => title,
        };
        let passages = excerpts(&text, question, statistics).into_iter();
        let passage = |excerpt: Excerpt| {
            let page = document.as_ref().and_then(|it| it.part_of(excerpt.lines.start));
            RecalledPassage { excerpt, page }
        };
        Ok(Some(RecalledFile {
            path: path.clone(),
            title: title.unwrap_or_else(|| name.to_owned()),
            modified: status.stamp.modified,
            hash: facts.hash,
            passages: passages.map(passage).collect(),
        }))
    }
}
