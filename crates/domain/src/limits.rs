//! The limits of the file tools, each with the reason for its default.

/// The limits that an operator may change; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// The most content in one answer of `text.read`. The default of 64 KiB is some 16,000 tokens.
    /// More floods an agent's context, and less takes many calls for a long note.
    pub read_budget: usize,
    /// The largest file that a change may produce. An edit holds the old and the new text in
    /// memory.
    pub file_size: u64,
    /// The largest file that can be read. The first read hashes the whole file.
    pub read_size: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { read_budget: 64 * 1024, file_size: 64 * 1024 * 1024, read_size: 1024 * 1024 * 1024 }
    }
}

/// The most entries in one page of a listing.
pub const MAX_LIST_ENTRIES: usize = 200;
/// The longest `q` of `text.read`, in Unicode scalar values.
pub const MAX_QUERY_CHARS: usize = 1024;
/// The most lines that the refusal of a failed match quotes.
pub const MAX_EXCERPT_LINES: usize = 20;
/// The most characters of each quoted line, in Unicode scalar values.
pub const MAX_EXCERPT_LINE_CHARS: usize = 200;
/// The most line numbers that a failed or ambiguous match lists.
pub const MAX_LISTED_MATCHES: usize = 20;
