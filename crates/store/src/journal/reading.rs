//! Reads the journal: merges the files of all processes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use stile_domain::journal::JournalLine;

use crate::state::StateDir;

/// The folder of the journal in the state folder.
pub(super) const FOLDER: &str = "journal";
/// How the names of its files end.
pub(super) const EXTENSION: &str = "jsonl";

/// The lines of all processes.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All lines, ordered by time. Lines of one file keep their order.
    pub lines: Vec<JournalLine>,
    /// How many lines could not be parsed. Last lines that a kill or a full disk cut do not count.
    pub damaged: usize,
}

/// Reads the lines of all processes into memory. A journal that was never written to is empty.
pub fn read_all(state: &StateDir) -> io::Result<JournalContents> {
    let entries = match std::fs::read_dir(state.path().join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(JournalContents::default());
        }
        entries => entries?,
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    let mut merged = JournalContents::default();
    for path in paths {
        read_file(&path, &mut merged)?;
    }
    merged.lines.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(merged)
}

pub(super) fn read_file(path: &Path, merged: &mut JournalContents) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        let whole = bytes.last() == Some(&b'\n');
        match serde_json::from_slice(&bytes) {
            Ok(line) if whole => merged.lines.push(line),
            _ => merged.damaged += usize::from(whole),
        }
        bytes.clear();
    }
    Ok(())
}
