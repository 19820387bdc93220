//! Every ceiling of the file tools, in one place, with the reason for its default.

/// Ceilings that an operator may change; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// The most content that one `text.read` answers with. 64 KiB is some 16,000 tokens: more
    /// floods an agent's context, less makes a long note tedious.
    pub read_budget: usize,
    /// The largest file that a change may leave behind. An edit holds the old and the new text in
    /// memory.
    pub file_size: u64,
    /// The largest file that is read at all. It is hashed whole the first time.
    pub read_size: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { read_budget: 64 * 1024, file_size: 64 * 1024 * 1024, read_size: 1024 * 1024 * 1024 }
    }
}

/// Entries in one page of a listing.
pub const MAX_LIST_ENTRIES: usize = 200;
/// The longest `q`, in Unicode scalar values.
pub const MAX_QUERY_CHARS: usize = 1024;
/// Lines that a failed match shows at most.
pub const MAX_EXCERPT_LINES: usize = 20;
/// Characters of each line that a failed match shows at most.
pub const MAX_EXCERPT_LINE_CHARS: usize = 200;
/// Line numbers that an ambiguous match names at most.
pub const MAX_LISTED_MATCHES: usize = 20;
