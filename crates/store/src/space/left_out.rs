//! Files that a search did not look into, counted by reason.

use stile_domain::path::SpacePath;

/// Files that were not looked into for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Why the files were not looked into.
    pub why: LeftOutReason,
    /// How many files there are.
    pub count: u64,
    /// Whether there may be more.
    pub is_at_least: bool,
    /// The first of them, in the order of the walk. The folder of a name that no path can hold.
    pub first: SpacePath,
}

/// Why a file was not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutReason {
    /// The file is not text.
    NotText,
    /// The file or a line is too long, or an expression takes too long on the file.
    TooLong,
    /// The file changes at this moment, or the system does not let the server read it.
    Unreadable,
    /// No path can hold the name of the file, so no call can name it.
    NoPath,
    /// The call has read as much as it may.
    NotFinished,
    /// A phrase of the question is missing, or a word occurs that must not.
    Terms,
    /// The caller asked for other kinds of files.
    Kinds,
    /// The caller asked for files that were changed at other times.
    Modified,
}

/// Counts files that were left out, in the order of the reasons.
pub(super) fn leave_out(all: &mut Vec<LeftOut>, left: LeftOut) {
    match all.binary_search_by_key(&left.why, |known| known.why) {
        Ok(at) => {
            if let Some(known) = all.get_mut(at) {
                known.count += left.count;
                known.is_at_least |= left.is_at_least;
            }
        }
        Err(at) => all.insert(at, left),
    }
}

/// Counts one file that was left out.
pub(super) fn leave_out_file(all: &mut Vec<LeftOut>, path: &SpacePath, why: LeftOutReason) {
    leave_out(all, LeftOut { why, count: 1, is_at_least: false, first: path.clone() });
}
