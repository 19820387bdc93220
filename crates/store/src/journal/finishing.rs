//! Finishes the files of processes that were killed: their anchors say from then on how many lines
//! the files have in all.
//!
//! A process that ends finishes its file itself. After a kill, the lines of the last half second
//! may have no anchor yet, so the next process reads the file. A file that is locked is of a
//! process that lives.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use stile_domain::journal_chain::JournalChain;

use super::Shared;
use super::anchors::{Anchor, FilePhase};

impl Shared {
    /// Finishes the files of other processes that live no more. A file that is not as its anchor
    /// says stays as it is, and is found when the journal is verified.
    pub(super) fn finish_others(&self) {
        let mut unfinished = Vec::new();
        self.with_anchors(|anchors| {
            unfinished = anchors.unfinished()?;
            Ok(())
        });
        let ends = unfinished.iter().filter_map(|anchor| {
            // What cannot be read now is tried again at the next start.
            end_of_dead(&self.folder.join(&anchor.file), anchor).ok().flatten()
        });
        let ends: Vec<Anchor> = ends.collect();
        if !ends.is_empty() {
            self.with_anchors(|anchors| anchors.record(&ends));
        }
    }
}

/// Returns how far the file of a killed process came; `None` for one that is being written, that
/// has no line, or that does not go on from its anchor.
fn end_of_dead(path: &Path, anchor: &Anchor) -> io::Result<Option<Anchor>> {
    let file = File::open(path)?;
    if crate::platform::try_lock(&file).is_err() {
        return Ok(None);
    }
    let (mut chain, mut line) = (JournalChain::of_file(&anchor.file), Vec::new());
    let mut reader = BufReader::new(file);
    loop {
        if chain.lines() == anchor.lines && chain.head() != anchor.head {
            return Ok(None);
        }
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        chain = match chain.check(&line) {
            Ok(next) => next,
            Err(_) => return Ok(None),
        };
    }
    let is_whole = chain.lines() >= anchor.lines.max(1);
    let end = Anchor { phase: FilePhase::Finished, ..Anchor::new(&anchor.file, &chain) };
    Ok(is_whole.then_some(end))
}
