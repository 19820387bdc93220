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
/// The most matches in one page of found names.
pub const MAX_FOUND_NAMES: usize = 100;
/// The most hits in one page of a text search.
pub const MAX_HITS: usize = 100;
/// The lines of hits after which a page of a text search ends, in bytes, their context included.
pub const MAX_HIT_BYTES: usize = 32 * 1024;
/// The bytes of paths after which a page of a walk ends, however few entries it has.
pub const MAX_PAGE_PATH_BYTES: usize = 64 * 1024;
/// The deepest listing, in folders.
pub const MAX_LIST_DEPTH: usize = 8;
/// The most lines of context around a hit.
pub const MAX_CONTEXT_LINES: usize = 3;
/// The most bytes of a file in one answer of `file.read`.
pub const MAX_FILE_WINDOW: usize = 32 * 1024;
/// The largest image or sound that `file.read` returns whole, in bytes: a megabyte as base64.
pub const MAX_MEDIA_BYTES: u64 = 768 * 1024;
/// The most files and folders of a folder that is hashed, moved or removed in one call.
pub const MAX_TREE_ENTRIES: usize = 10_000;
/// The most bytes that one call hashes of a folder, without files that are known by their state.
pub const MAX_TREE_BYTES: u64 = 1024 * 1024 * 1024;
/// The most notes whose links one call of `file.move` or `folder.move` rewrites. Each is made
/// durable by itself.
pub const MAX_REWRITTEN_NOTES: usize = 100;
/// The most notes and links that the answer about rewritten links names.
pub const MAX_LISTED_REWRITES: usize = 20;
/// The most pieces in one call of `text.gather`.
pub const MAX_GATHERED: usize = 20;
/// The most edits in one call of `text.edit`.
pub const MAX_EDITS: usize = 64;
/// The most lines of the diff that `text.edit` returns.
pub const MAX_DIFF_LINES: usize = 200;
/// The most characters of each line of a diff, in Unicode scalar values.
pub const MAX_DIFF_LINE_CHARS: usize = 200;
