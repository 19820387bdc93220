//! The refusals of the file and note tools, written for the agent that made the call. `owner_text`
//! has the words for the owner.
//!
//! Each message says in this order: what is wrong and in which argument, what is true now, and what
//! to call next. The texts of the variants say the first two, and `next_step` has the third, since
//! each caller is shown the names of tools in one of two spellings. A message never holds a path of
//! the machine or a secret. A message holds content only where a match failed: the searched lines,
//! for a caller who may read them. Codes are stable. Wording may change at any time.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::document::NoText;
use crate::guard::Guarded;
use crate::hash::ContentHash;
use crate::limits::{MAX_TREE_BYTES, MAX_TREE_ENTRIES};
use crate::path::{BadPath, SpacePath};
use crate::scope::Scope;
use crate::tool_name::ShownTools;

mod next_step;
pub mod owner_text;

/// One line of a file, quoted in a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineExcerpt {
    /// The line's number, from 1.
    pub line: u64,
    /// The content without its terminator, truncated to
    /// [`crate::limits::MAX_EXCERPT_LINE_CHARS`] characters.
    pub text: String,
}

/// Why a file in another encoding than UTF-8 cannot be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingFault {
    /// The bytes are invalid in the encoding that the caller stated.
    Invalid,
    /// The file has bytes that writing it back would change.
    Inexact,
    /// The encoding lacks a character of the new text.
    Lacking,
    /// Nobody could recognise the encoding of the new text.
    Unrecognisable,
    /// The encoding is guessed, and may write a character beyond ASCII wrong.
    Guessed,
    /// The caller adds to the file without having read it.
    Unread,
}

impl EncodingFault {
    fn about(self, path: &SpacePath, encoding: &str) -> String {
        match self {
            Self::Invalid => format!("the bytes of `{path}` are not valid {encoding}"),
            Self::Inexact => format!(
                "`{path}` is {encoding} text with bytes that writing it back would change, also \
                 where the edit leaves them alone"
            ),
            Self::Lacking => format!(
                "the new text has a character that {encoding}, the encoding of `{path}`, lacks"
            ),
            Self::Unrecognisable => format!(
                "with the new text, `{path}` would not be recognised as {encoding} any more"
            ),
            Self::Guessed => format!(
                "that `{path}` is {encoding} is only a guess, and the new text has characters \
                 beyond ASCII, which a wrong guess would damage"
            ),
            Self::Unread => format!(
                "`{path}` is {encoding} text, and to a file that was not read only UTF-8 is added"
            ),
        }
    }
}

/// Who must act before the same call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The agent corrects its call.
    Agent,
    /// The user widens a grant or changes a file's permissions.
    User,
    /// Nobody. The same call may succeed later.
    Time,
    /// The operator repairs the server.
    Operator,
}

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The argument is not a space path.
    #[error(
        "`{argument}` {why}. Nothing was read or written. Name files from the root of the space, \
         as in `/notes/a.md`."
    )]
    InvalidPath {
        /// The argument's name, as the caller wrote it.
        argument: Cow<'static, str>,
        /// What is wrong with the path.
        why: BadPath,
    },
    /// A line range or a line number selects nothing.
    #[error(
        "`{argument}` selects no line: the file has {total_lines} line{}. Nothing was written. \
         Lines count from 1, negative numbers from the end, and the end of a range is exclusive, \
         with 0 for \"to the end\".",
        if *.total_lines == 1 {""} else {"s"}
    )]
    InvalidRange {
        /// The argument's name, as the caller wrote it.
        argument: Cow<'static, str>,
        /// The number of lines in the file.
        total_lines: u64,
    },
    /// An argument has the wrong type, is missing or unknown, or excludes another one.
    #[error("{what}. Nothing was read or written; correct the argument and call again.")]
    InvalidArgument {
        /// A clause that names the argument and what the argument must be, without its value.
        what: String,
    },
    /// The path names nothing.
    #[error("there is no `{path}`. Nothing was written.{}", close_names(.near))]
    NotFound {
        /// The path that the call named.
        path: SpacePath,
        /// The listing URI of the folder that would hold the file.
        list: String,
        /// Files or folders with names close to the one that is missing, all of which the caller
        /// may read.
        near: Vec<SpacePath>,
    },
    /// The path to be created exists already.
    #[error("`{path}` exists already, and nothing is ever overwritten. Nothing was written.")]
    AlreadyExists {
        /// The path that was to be created.
        path: SpacePath,
    },
    /// The folder to be removed holds something, and the call has no hash of that.
    #[error(
        "`{path}` is not empty, and a folder that holds something is removed only with its \
         `hash`. Nothing was removed."
    )]
    FolderNotEmpty {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The path names a directory, FIFO, socket or device.
    #[error("`{path}` is not a regular file. Nothing was read or written.")]
    NotAFile {
        /// The path that the call named.
        path: SpacePath,
        /// The listing URI of the path, for the case that it is a directory.
        list: String,
    },
    /// A component of the path, or the path to be listed, is not a directory.
    #[error(
        "`{path}` is not a directory, or leads through something that is not one. Nothing was \
         written."
    )]
    NotADirectory {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The path is a symbolic link or leads through one.
    #[error(
        "`{path}` is a symbolic link or leads through one, and links are never followed. Nothing \
         was read or written. Name the file by its own path in the space."
    )]
    SymlinkRefused {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The path is a mount point or leads through one, and the owner did not name the mount.
    #[error(
        "`{path}` is on another file system that is mounted inside the space, or leads through \
         one. Nothing was read or written. Retrying will not help: work elsewhere, or ask the \
         user to name the mount point in the server's setting `mounts`."
    )]
    MountRefused {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The file has more than one hard link.
    #[error(
        "`{path}` has more than one name (hard links), so a change here would separate it from \
         the others. Nothing was written. Ask the user to make a separate copy."
    )]
    HardLinked {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The operating system refused, or the file's metadata could not be preserved.
    #[error(
        "the system does not let the server do that to `{path}`, or its owner, mode or attributes \
         could not be kept. Nothing was written. Retrying will not help: ask the user to check \
         the file's permissions."
    )]
    NotPermitted {
        /// The path that the call named.
        path: SpacePath,
    },
    /// Nothing can be appended to the path, for a caller who may not read it and so must not learn
    /// why.
    #[error(
        "nothing can be appended to `{path}`: there is no file of this name, or none that can be \
         appended to. Your token does not let you learn which. Nothing was written. Retrying will \
         not help: ask the user to look at it, or to make the file."
    )]
    NotAppendable {
        /// The path that the call named.
        path: SpacePath,
    },
    /// Nobody has permission to write to the file or to its folder, which is how people protect
    /// files. The server could replace the file nevertheless.
    #[error(
        "`{path}` is protected: nobody may write to {}. Nothing was written. Retrying will not \
         help: ask the user to allow writing to it.",
        if *.is_folder { "its folder" } else { "the file" }
    )]
    ReadOnly {
        /// The path that the call named.
        path: SpacePath,
        /// Whether the folder of the file is protected.
        is_folder: bool,
    },
    /// The folder that is served was moved or replaced, so a change would be lost with the old one.
    #[error(
        "the folder of this space is not where it was: it was moved, unmounted or replaced. \
         Nothing was read or written. Ask the user to put it back, or to restart the server."
    )]
    RootMoved,
    /// The folder at the place of the space is another one, which its operator has not adopted.
    #[error(
        "the folder of this space is another one than before, as after a restore from a backup. \
         Nothing was read or written. Ask the user: whoever runs the server says that it is the \
         same with `stile space adopt`."
    )]
    RootReplaced,
    /// The folder that was served is gone: nothing is at its place.
    #[error(
        "the folder of this space is missing: it was served before and is not there now, and no \
         empty one takes its place. Nothing was read or written. Ask the user: whoever runs the \
         server puts it back."
    )]
    RootMissing,
    /// The caller cancelled the call or hung up before anything was changed.
    #[error("the call was cancelled. Nothing was written.")]
    Cancelled,
    /// Too many callers change the folder, or another program locks it.
    #[error(
        "`{path}` is busy: {}. Nothing was written. {}",
        if *.is_locked_by_other {
            "a program that is not this server holds a lock on that folder"
        } else {
            "others are changing that folder"
        },
        if *.is_locked_by_other {
            "Send the same call again later. If that fails too, tell the user that the folder is \
             locked; the server's log names the process."
        } else {
            "Wait a moment and send the same call again."
        }
    )]
    Busy {
        /// The path that the call named.
        path: SpacePath,
        /// Whether another program than this server is known to hold the lock of the folder.
        is_locked_by_other: bool,
    },
    /// The file is not UTF-8.
    #[error(
        "`{path}` is not UTF-8 text ({size_bytes} bytes, hash {hash}). Nothing was written, and \
         its bytes are not shown."
    )]
    NotText {
        /// The path that the call named.
        path: SpacePath,
        /// The size of the file, in bytes.
        size_bytes: u64,
        /// The hash of the file.
        hash: ContentHash,
    },
    /// A document has no text, or none that can be read.
    #[error(
        "`{path}` is a document ({size_bytes} bytes, hash {hash}) without a text: {why}. Nothing was written."
    )]
    NoDocumentText {
        /// The path that the call named.
        path: SpacePath,
        /// The size of the file, in bytes.
        size_bytes: u64,
        /// The hash of the file.
        hash: ContentHash,
        /// What kept the reader from a text.
        why: NoText,
    },
    /// A change of a document, whose text is only extracted.
    #[error(
        "`{path}` is a document: its text is taken out of its bytes ({size_bytes} bytes, hash \
         {hash}) and cannot be changed here. Nothing was written."
    )]
    UnchangeableDocument {
        /// The path that the call named.
        path: SpacePath,
        /// The size of the file, in bytes.
        size_bytes: u64,
        /// The hash of the file.
        hash: ContentHash,
    },
    /// The sent hash, or the cursor's hash, differs from the hash of the file.
    ///
    /// The message withholds the current hash on purpose: a caller must read the file to get it.
    #[error(
        "`{path}` has changed since you read it: `{argument}` does not match its current bytes. \
         Nothing was written."
    )]
    Stale {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that carried the hash: `hash` or `cursor`.
        argument: &'static str,
    },
    /// The sent hash differs from the hash of the folder and all that it holds.
    #[error(
        "`{path}` is not what `hash` was made of: something in it has changed since. Nothing was \
         written."
    )]
    StaleFolder {
        /// The path that the call named.
        path: SpacePath,
    },
    /// A file in another encoding than UTF-8 cannot be read or changed so.
    #[error("{why_encoding}. Nothing was written.", why_encoding = why.about(path, encoding))]
    BadEncoding {
        /// The path that the call named.
        path: SpacePath,
        /// The name of the encoding.
        encoding: String,
        /// What is wrong.
        why: EncodingFault,
    },
    /// The text to match does not occur in the searched lines.
    #[error(
        "`{argument}` does not occur in `{path}` {place}; compare every character, spaces \
         included. Nothing was written.{hint} {}",
        quoted(.lines)
    )]
    NoMatch {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that holds the text: `old` or `anchor`.
        argument: Cow<'static, str>,
        /// The searched lines in words, such as `as whole lines in lines 3 to 9`.
        place: String,
        /// Further advice that begins with a space, or the empty string.
        hint: String,
        /// The searched lines as they are now.
        lines: Vec<LineExcerpt>,
        /// The 1-based lines where the text occurs instead.
        elsewhere: Vec<u64>,
    },
    /// A property of a note cannot be set by a tool.
    #[error("`{name}` of `{path}` was not changed: {why}. Nothing was written.")]
    UnsafeFrontMatter {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that names the property.
        name: &'static str,
        /// Why not, as a clause.
        why: &'static str,
        /// The first line to be edited, from 1.
        first: u64,
        /// The last line to be edited.
        last: u64,
        /// These lines as they are now.
        lines: Vec<LineExcerpt>,
    },
    /// No searched line contains the text `q`.
    #[error(
        "no line of `{path}` from {first} to {last} contains `q`, ignoring case; the file has \
         {total_lines} line{}. Nothing was written. Try fewer words, a wider `lines`, or read \
         without `q`.",
        if *.total_lines == 1 {""} else {"s"}
    )]
    NoSuchText {
        /// The path that the call named.
        path: SpacePath,
        /// The first line that was searched, from 1.
        first: u64,
        /// The last line that was searched, from 1.
        last: u64,
        /// The number of lines in the file.
        total_lines: u64,
    },
    /// The note has no section with this id or heading.
    #[error(
        "no section of `{path}` has the id or the heading that `{argument}` names{}. Nothing was \
         written.",
        headings_at(.headings)
    )]
    NoSuchSection {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that names the section.
        argument: Cow<'static, str>,
        /// The lines of the note's first headings, from 1.
        headings: Vec<u64>,
    },
    /// Several sections of the note have this heading.
    #[error(
        "`{argument}` names {} sections of `{path}`, with their headings at lines {}. Nothing was \
         written.",
        counted(.headings, *.more), list(.headings)
    )]
    AmbiguousSection {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that names the section.
        argument: Cow<'static, str>,
        /// The lines of their headings, from 1, at most [`crate::limits::MAX_LISTED_MATCHES`].
        headings: Vec<u64>,
        /// Whether more sections have it.
        more: bool,
    },
    /// The text to match occurs more than once in the searched lines.
    #[error(
        "`{argument}` occurs {} times in those lines of `{path}`, beginning at lines {}. Nothing \
         was written. {advice}",
        counted(.matches, *.more), list(.matches)
    )]
    AmbiguousMatch {
        /// The path that the call named.
        path: SpacePath,
        /// The argument that holds the text.
        argument: Cow<'static, str>,
        /// What to do instead.
        advice: &'static str,
        /// The 1-based first line of each match, at most [`crate::limits::MAX_LISTED_MATCHES`].
        matches: Vec<u64>,
        /// Whether there are more matches than `matches` lists.
        more: bool,
    },
    /// The file is larger than a limit, or would become so.
    #[error("`{path}` is or would be larger than {limit_bytes} bytes. Nothing was written.")]
    TooLarge {
        /// The path that the call named.
        path: SpacePath,
        /// The limit that applies, in bytes.
        limit_bytes: u64,
        /// What to do instead.
        advice: &'static str,
    },
    /// A folder holds more than one call hashes, moves or removes.
    #[error(
        "`{path}` holds more than {MAX_TREE_ENTRIES} files and folders, or more than \
         {MAX_TREE_BYTES} bytes to be hashed, which is too much for one call. Nothing was written."
    )]
    FolderTooLarge {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The disk is full, or a quota is used up.
    #[error(
        "the disk that holds the space is full. `{path}` is as it was. Tell the user; the same \
         call works once there is room."
    )]
    NoSpace {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The version before the change could not be kept in the history, which the owner insists on.
    #[error(
        "the version of `{path}` before the change could not be kept, and the user wants no change \
         without that. Nothing was changed. Reading works. Tell the user; the same call works once \
         the history has room."
    )]
    NotKept {
        /// The path that the call named.
        path: SpacePath,
    },
    /// Something in the folder to be removed could not be kept in the history.
    #[error(
        "`{path}` could not be kept in the history, and a folder is removed only if everything in \
         it is kept. Nothing was removed."
    )]
    FolderNotKept {
        /// What could not be kept: the folder, or a path in it.
        path: SpacePath,
    },
    /// The history cannot give a version of a file.
    #[error("{why}. Nothing was changed.")]
    NoVersion {
        /// The path that the call named.
        path: SpacePath,
        /// What is wrong with the version.
        why: String,
    },
    /// The disk with the journal is full, so a change could not be journaled.
    #[error(
        "the disk that holds the server's journal is full. Nothing was changed. Reading works. \
         Tell the user; the same call works once there is room."
    )]
    JournalFull,
    /// An error occurred after the change may have been made.
    #[error(
        "the change to `{path}` may or may not have been made: an error came after the point of \
         no return."
    )]
    UnknownOutcome {
        /// The path that the call named.
        path: SpacePath,
    },
    /// The caller's scopes do not cover the call. Decided before anything is looked up.
    #[error(
        "this needs the scope {}, and your token grants {}. Nothing was looked up or written. \
         Retrying will not help: carry on without it, or ask the user for a token with that \
         scope.",
        scope_list(.needed), granted_scopes(.granted)
    )]
    InsufficientScope {
        /// Every scope that the call needs.
        needed: Vec<Scope>,
        /// Every scope that the caller has.
        granted: Vec<Scope>,
    },
    /// The scopes cover the call, and the name is guarded. Decided before anything is looked up.
    #[error(
        "`{path}` is guarded: {}. Nothing was looked up or written. No scope of yours helps; only \
         the owner can lift this, with `--unguard {path}` where a token is made or a client is \
         allowed.",
        why_guarded(*.guarded)
    )]
    Guarded {
        /// The path that the call named.
        path: SpacePath,
        /// What is guarded about it.
        guarded: Guarded,
    },
    /// The server failed for a reason that is not the caller's.
    #[error("the server failed (incident {incident}).")]
    Internal {
        /// The number that the server's log repeats.
        incident: u64,
    },
}

fn why_guarded(guarded: Guarded) -> &'static str {
    match guarded {
        Guarded::Secret => "its name is that of a secret, which nobody reads or changes",
        Guarded::Running => "some program runs what is written there, so nobody changes it",
    }
}

fn scope_list(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(" ")
}

fn granted_scopes(scopes: &[Scope]) -> String {
    if scopes.is_empty() { "no path at all".to_owned() } else { scope_list(scopes) }
}

/// Returns a sentence that begins with a space, or the empty string.
fn close_names(near: &[SpacePath]) -> String {
    let names: Vec<String> = near.iter().map(|path| format!("`{path}`")).collect();
    match near.len() {
        0 => String::new(),
        1 => format!(" The closest name there is {}.", names.join(", ")),
        _ => format!(" The closest names there are {}.", names.join(", ")),
    }
}

fn list(lines: &[u64]) -> String {
    lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Says at which lines the headings of a note are.
fn headings_at(headings: &[u64]) -> String {
    match headings {
        [] => ", since it has no headings".to_owned(),
        lines => format!("; its headings are at lines {}", list(lines)),
    }
}

fn counted(matches: &[u64], more: bool) -> String {
    if more { format!("more than {}", matches.len()) } else { matches.len().to_string() }
}

fn quoted(lines: &[LineExcerpt]) -> String {
    if lines.is_empty() {
        return "There are no lines there now.".to_owned();
    }
    let mut text = "The lines there now:".to_owned();
    for line in lines {
        text.push_str(&format!("\n{}: {}", line.line, line.text));
    }
    text
}

impl Refusal {
    /// Returns the stable code and who must act.
    pub fn code(&self) -> (&'static str, Remedy) {
        match self {
            Self::InvalidPath { .. } => ("invalid_path", Remedy::Agent),
            Self::InvalidRange { .. } => ("invalid_range", Remedy::Agent),
            Self::InvalidArgument { .. } => ("invalid_argument", Remedy::Agent),
            Self::NotFound { .. } => ("not_found", Remedy::Agent),
            Self::AlreadyExists { .. } => ("already_exists", Remedy::Agent),
            Self::NotAFile { .. } => ("not_a_file", Remedy::Agent),
            Self::NotADirectory { .. } => ("not_a_directory", Remedy::Agent),
            Self::SymlinkRefused { .. } => ("symlink_refused", Remedy::Agent),
            Self::MountRefused { .. } => ("mount_refused", Remedy::User),
            Self::HardLinked { .. } => ("hard_linked", Remedy::User),
            Self::NotPermitted { .. } => ("not_permitted", Remedy::User),
            Self::ReadOnly { .. } | Self::NotAppendable { .. } => ("not_permitted", Remedy::User),
            Self::FolderNotEmpty { .. } => ("folder_not_empty", Remedy::Agent),
            Self::RootMoved | Self::RootReplaced | Self::RootMissing => {
                ("root_moved", Remedy::User)
            }
            Self::Cancelled => ("cancelled", Remedy::Agent),
            Self::Busy { .. } => ("busy", Remedy::Time),
            Self::NotText { .. }
            | Self::NoDocumentText { .. }
            | Self::UnchangeableDocument { .. } => ("not_text", Remedy::Agent),
            Self::BadEncoding { why: EncodingFault::Invalid | EncodingFault::Guessed, .. } => {
                ("bad_encoding", Remedy::Agent)
            }
            Self::BadEncoding { .. } => ("bad_encoding", Remedy::User),
            Self::Stale { .. } | Self::StaleFolder { .. } => ("stale", Remedy::Agent),
            Self::NoMatch { .. } | Self::NoSuchText { .. } | Self::NoSuchSection { .. } => {
                ("no_match", Remedy::Agent)
            }
            Self::AmbiguousMatch { .. } | Self::AmbiguousSection { .. } => {
                ("ambiguous_match", Remedy::Agent)
            }
            Self::UnsafeFrontMatter { .. } => ("unsafe_front_matter", Remedy::Agent),
            Self::TooLarge { .. } | Self::FolderTooLarge { .. } => ("too_large", Remedy::Agent),
            Self::NoSpace { .. } | Self::JournalFull => ("no_space", Remedy::User),
            Self::NotKept { .. } | Self::FolderNotKept { .. } => ("not_kept", Remedy::User),
            Self::NoVersion { .. } => ("no_version", Remedy::Agent),
            Self::UnknownOutcome { .. } => ("unknown_outcome", Remedy::Agent),
            Self::InsufficientScope { .. } => ("insufficient_scope", Remedy::User),
            Self::Guarded { .. } => ("guarded", Remedy::User),
            Self::Internal { .. } => ("internal", Remedy::Operator),
        }
    }

    /// Returns the `error` object of a structured answer: `code`, `message`, and the members that a
    /// program can use, such as `path` or `matches`. The message names only tools that `names` has.
    pub fn to_json(&self, names: impl Into<ShownTools>) -> Value {
        let mut error = Map::new();
        let mut set = |name: &str, value: Value| {
            error.insert(name.to_owned(), value);
        };
        set("code", self.code().0.into());
        set("message", self.message(names).into());
        match self {
            Self::InvalidPath { argument, .. } => {
                set("argument", (**argument).into());
            }
            Self::InvalidRange { argument, total_lines } => {
                set("argument", (**argument).into());
                set("total_lines", (*total_lines).into());
            }
            Self::NotFound { near, .. } if !near.is_empty() => {
                set("near", json!(near));
            }
            Self::NotText { size_bytes, hash, .. }
            | Self::NoDocumentText { size_bytes, hash, .. }
            | Self::UnchangeableDocument { size_bytes, hash, .. } => {
                set("size_bytes", (*size_bytes).into());
                set("hash", hash.to_string().into());
            }
            Self::BadEncoding { encoding, .. } => {
                set("encoding", encoding.as_str().into());
            }
            Self::NoMatch { argument, lines, elsewhere, .. } => {
                set("argument", (**argument).into());
                set("lines", json!(lines));
                if !elsewhere.is_empty() {
                    set("elsewhere", json!(elsewhere));
                }
            }
            Self::UnsafeFrontMatter { name, lines, .. } => {
                set("argument", (*name).into());
                set("lines", json!(lines));
            }
            Self::NoSuchText { total_lines, .. } => {
                set("argument", "q".into());
                set("total_lines", (*total_lines).into());
            }
            Self::NoSuchSection { argument, headings, .. } => {
                set("argument", (**argument).into());
                set("headings", json!(headings));
            }
            Self::AmbiguousSection { argument, headings, .. } => {
                set("argument", (**argument).into());
                set("matches", json!(headings));
            }
            Self::AmbiguousMatch { argument, matches, .. } => {
                set("argument", (**argument).into());
                set("matches", json!(matches));
            }
            Self::TooLarge { limit_bytes, .. } => {
                set("limit_bytes", (*limit_bytes).into());
            }
            Self::InsufficientScope { needed, .. } => {
                set(
                    "required_scopes",
                    needed.iter().map(|scope| Value::from(scope.to_string())).collect(),
                );
            }
            Self::Internal { incident } => {
                set("incident", (*incident).into());
            }
            _ => {}
        }
        if let Some(path) = self.path() {
            set("path", path.as_str().into());
        }
        Value::Object(error)
    }

    /// Returns the space path of the refusal; `None` for a variant without one.
    pub fn path(&self) -> Option<&SpacePath> {
        match self {
            Self::NotFound { path, .. }
            | Self::AlreadyExists { path }
            | Self::FolderNotEmpty { path }
            | Self::NotAFile { path, .. }
            | Self::NotADirectory { path }
            | Self::SymlinkRefused { path }
            | Self::MountRefused { path }
            | Self::HardLinked { path }
            | Self::NotPermitted { path }
            | Self::ReadOnly { path, .. }
            | Self::NotAppendable { path }
            | Self::Guarded { path, .. }
            | Self::Busy { path, .. }
            | Self::NotText { path, .. }
            | Self::NoDocumentText { path, .. }
            | Self::UnchangeableDocument { path, .. }
            | Self::BadEncoding { path, .. }
            | Self::Stale { path, .. }
            | Self::StaleFolder { path }
            | Self::FolderTooLarge { path }
            | Self::FolderNotKept { path }
            | Self::NoMatch { path, .. }
            | Self::UnsafeFrontMatter { path, .. }
            | Self::NoSuchText { path, .. }
            | Self::NoSuchSection { path, .. }
            | Self::AmbiguousSection { path, .. }
            | Self::AmbiguousMatch { path, .. }
            | Self::TooLarge { path, .. }
            | Self::NoSpace { path }
            | Self::NotKept { path }
            | Self::NoVersion { path, .. }
            | Self::UnknownOutcome { path } => Some(path),
            _ => None,
        }
    }

    /// Creates [`Refusal::NotFound`] with the listing of the folder that would hold `path`.
    pub fn not_found(path: &SpacePath) -> Self {
        let folder = path.split().map_or_else(SpacePath::root, |(folder, _)| folder);
        Self::NotFound { path: path.clone(), list: crate::listing::uri(&folder), near: Vec::new() }
    }

    /// Creates [`Refusal::NotAFile`] with the listing of `path`.
    pub fn not_a_file(path: &SpacePath) -> Self {
        Self::NotAFile { path: path.clone(), list: crate::listing::uri(path) }
    }

    /// Creates [`Refusal::InvalidArgument`]; `what` names the argument and what it must be.
    pub fn invalid_argument(what: impl Into<String>) -> Self {
        Self::InvalidArgument { what: what.into() }
    }
}
