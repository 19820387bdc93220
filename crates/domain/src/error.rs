//! Why a call was refused, told to the one reader who has to act on it: the agent.
//!
//! Each message says what is wrong and in which argument, what is true now, and what to call next,
//! in that order. It never holds a path of the machine, a secret, or content, but for the lines
//! that a failed match shows to a caller who may read them. Codes are stable; wording is free.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::hash::ContentHash;
use crate::path::{BadPath, SpacePath};
use crate::scope::Scope;

/// A line of a file, shown in a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineExcerpt {
    /// 1-based.
    pub line: u64,
    /// Its content without the terminator, cut to [`crate::limits::MAX_EXCERPT_LINE_CHARS`] characters.
    pub text: String,
}

/// Who must act before the same call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The agent corrects its call.
    Agent,
    /// The user widens a grant or changes a file's permissions.
    User,
    /// Nobody: it passes with time.
    Time,
    /// Whoever runs the server.
    Operator,
}

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The argument is no space path.
    #[error(
        "`{argument}` {why}. Nothing was read or written. Name files from the root of the space, as in `/notes/a.md`; read the resource `list:///` to see what is there."
    )]
    InvalidPath {
        /// The argument as the caller wrote its name.
        argument: &'static str,
        /// What is wrong with it.
        why: BadPath,
    },
    /// A line range or a line number that selects nothing.
    #[error("`{argument}` selects no line: the file has {total_lines} line{}. Nothing was written. Lines count from 1, negative numbers from the end, and the end of a range is exclusive, with 0 for \"to the end\".", if *.total_lines == 1 {""} else {"s"})]
    InvalidRange {
        /// The argument as the caller wrote its name.
        argument: &'static str,
        /// How many lines the file has.
        total_lines: u64,
    },
    /// An argument of the wrong type, a missing or an unknown one, or two that exclude each other.
    #[error("{what}. Nothing was read or written; correct the argument and call again.")]
    InvalidArgument {
        /// A clause that names the argument and what it must be, without repeating its value.
        what: String,
    },
    /// Nothing is there.
    #[error(
        "there is no `{path}`. Nothing was written. Read the resource `{list}` to see what its folder holds; `file.create` makes a new file."
    )]
    NotFound {
        /// What was asked for.
        path: SpacePath,
        /// The listing of the folder that would hold it.
        list: String,
    },
    /// Something is there already.
    #[error(
        "`{path}` exists already, and `file.create` never overwrites. Nothing was written. Call `text.read` on it and change it with `text.replace`, or choose another name."
    )]
    AlreadyExists {
        /// What was to be made.
        path: SpacePath,
    },
    /// A directory, FIFO, socket or device.
    #[error(
        "`{path}` is not a regular file. Nothing was read or written. If it is a directory, read the resource `{list}`."
    )]
    NotAFile {
        /// What was asked for.
        path: SpacePath,
        /// Its own listing, were it a directory.
        list: String,
    },
    /// A component, or the thing listed, is no directory.
    #[error(
        "`{path}` is not a directory, or leads through something that is none. Nothing was written. Call `text.read` if it is a file."
    )]
    NotADirectory {
        /// What was asked for.
        path: SpacePath,
    },
    /// A symbolic link stands in the way.
    #[error(
        "`{path}` is a symbolic link or leads through one, and links are never followed. Nothing was read or written. Name the file by its own path in the space."
    )]
    SymlinkRefused {
        /// What was asked for.
        path: SpacePath,
    },
    /// The file has several names.
    #[error(
        "`{path}` has more than one name (hard links), so changing it here would part it from the others. Nothing was written. Ask the user to make a separate copy."
    )]
    HardLinked {
        /// What was asked for.
        path: SpacePath,
    },
    /// The operating system refused, or the file's metadata could not be kept.
    #[error(
        "the system does not let the server do that to `{path}`, or its owner, mode or attributes could not be kept. Nothing was written. Retrying will not help: ask the user to check the file's permissions."
    )]
    NotPermitted {
        /// What was asked for.
        path: SpacePath,
    },
    /// Too many callers, or another program holds the folder.
    #[error(
        "`{path}` is busy: others are changing that folder. Nothing was written. Wait a moment and send the same call again."
    )]
    Busy {
        /// What was asked for.
        path: SpacePath,
    },
    /// Not UTF-8.
    #[error(
        "`{path}` is not UTF-8 text ({size_bytes} bytes, hash {hash}). Nothing was written, and its bytes are not shown. `file.remove` takes this hash; text tools cannot be used on it."
    )]
    NotText {
        /// What was asked for.
        path: SpacePath,
        /// Its size.
        size_bytes: u64,
        /// Its hash.
        hash: ContentHash,
    },
    /// The hash, or a cursor's, is not that of the file as it is. The current one is withheld on
    /// purpose: only reading again may yield a new base.
    #[error(
        "`{path}` has changed since you read it: `{argument}` is not of its current bytes. Nothing was written. Call `text.read` on it again, redo the change on the text that is there now, and send the hash that it returns."
    )]
    Stale {
        /// What was asked for.
        path: SpacePath,
        /// `hash` or `cursor`.
        argument: &'static str,
    },
    /// The text to match is not where it was said to be.
    #[error("`{argument}` does not stand in `{path}` as whole lines {place}; compare every character, spaces included. Nothing was written.{hint} {}", shown(.lines))]
    NoMatch {
        /// What was asked for.
        path: SpacePath,
        /// `old` or `anchor`.
        argument: &'static str,
        /// Where it was looked for, such as `in lines 3 to 9`.
        place: String,
        /// What else helps, beginning with a space, or nothing.
        hint: String,
        /// What stands there now.
        lines: Vec<LineExcerpt>,
        /// 1-based lines where it stands instead.
        elsewhere: Vec<u64>,
    },
    /// No line contains the text that a read was to begin at.
    #[error("no line of `{path}` from {first} to {last} contains `q`, upper or lower case alike; the file has {total_lines} line{}. Nothing was written. Try fewer words, a wider `lines`, or read without `q`.", if *.total_lines == 1 {""} else {"s"})]
    NoSuchText {
        /// What was asked for.
        path: SpacePath,
        /// The first line that was searched, from 1.
        first: u64,
        /// The last line that was searched.
        last: u64,
        /// How many lines the file has.
        total_lines: u64,
    },
    /// The text to match stands there more than once.
    #[error("`old` stands {} times in those lines of `{path}`, beginning at lines {}. Nothing was written. Narrow `lines` to the one you mean, or add neighbouring lines to `old`.", counted(.matches, *.more), list(.matches))]
    AmbiguousMatch {
        /// What was asked for.
        path: SpacePath,
        /// The 1-based first line of each match, at most [`crate::limits::MAX_LISTED_MATCHES`].
        matches: Vec<u64>,
        /// Whether there are more than those.
        more: bool,
    },
    /// Over a limit.
    #[error(
        "`{path}` is or would be larger than {limit_bytes} bytes. Nothing was written. {advice}"
    )]
    TooLarge {
        /// What was asked for.
        path: SpacePath,
        /// The limit that applies.
        limit_bytes: u64,
        /// What to do instead.
        advice: &'static str,
    },
    /// No space left, or over a quota.
    #[error(
        "the disk that holds the space is full. `{path}` is as it was. Tell the user; the same call works once there is room."
    )]
    NoSpace {
        /// What was asked for.
        path: SpacePath,
    },
    /// An error after the change took place.
    #[error(
        "the change to `{path}` may or may not have been made: an error came after the point of no return. Call `text.read` to see what is there now before you do anything else."
    )]
    UnknownOutcome {
        /// What was asked for.
        path: SpacePath,
    },
    /// The scopes do not allow it. Decided before anything is looked up.
    #[error("this needs the scope {}, and your token grants {}. Nothing was looked up or written. Retrying will not help: carry on without it, or ask the user for a token with that scope.", spaced(.needed), all_of(.granted))]
    InsufficientScope {
        /// All that the call needs.
        needed: Vec<Scope>,
        /// All that the caller has.
        granted: Vec<Scope>,
    },
    /// The server failed.
    #[error(
        "the server failed (incident {incident}). Before repeating a change, call `text.read` to see whether it happened; if it fails again, give the user that number."
    )]
    Internal {
        /// Names the line in the server's log.
        incident: u64,
    },
}

fn spaced(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(" ")
}

fn all_of(scopes: &[Scope]) -> String {
    if scopes.is_empty() { "no path at all".to_owned() } else { spaced(scopes) }
}

fn list(lines: &[u64]) -> String {
    lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn counted(matches: &[u64], more: bool) -> String {
    if more { format!("more than {}", matches.len()) } else { matches.len().to_string() }
}

fn shown(lines: &[LineExcerpt]) -> String {
    if lines.is_empty() {
        return "No line stands there now.".to_owned();
    }
    let mut text = "What stands there now:".to_owned();
    for line in lines {
        text.push_str(&format!("\n{}: {}", line.line, line.text));
    }
    text
}

impl Refusal {
    /// The stable code, and who must act.
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
            Self::HardLinked { .. } => ("hard_linked", Remedy::User),
            Self::NotPermitted { .. } => ("not_permitted", Remedy::User),
            Self::Busy { .. } => ("busy", Remedy::Time),
            Self::NotText { .. } => ("not_text", Remedy::Agent),
            Self::Stale { .. } => ("stale", Remedy::Agent),
            Self::NoMatch { .. } | Self::NoSuchText { .. } => ("no_match", Remedy::Agent),
            Self::AmbiguousMatch { .. } => ("ambiguous_match", Remedy::Agent),
            Self::TooLarge { .. } => ("too_large", Remedy::Agent),
            Self::NoSpace { .. } => ("no_space", Remedy::User),
            Self::UnknownOutcome { .. } => ("unknown_outcome", Remedy::Agent),
            Self::InsufficientScope { .. } => ("insufficient_scope", Remedy::User),
            Self::Internal { .. } => ("internal", Remedy::Operator),
        }
    }

    /// The `error` object of a structured answer: `code`, `message`, and what a program can use
    /// besides.
    pub fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.code().0.into());
        error.insert("message".to_owned(), self.to_string().into());
        match self {
            Self::InvalidPath { argument, .. } => {
                error.insert("argument".to_owned(), (*argument).into());
            }
            Self::InvalidRange { argument, total_lines } => {
                error.insert("argument".to_owned(), (*argument).into());
                error.insert("total_lines".to_owned(), (*total_lines).into());
            }
            Self::NotText { size_bytes, hash, .. } => {
                error.insert("size_bytes".to_owned(), (*size_bytes).into());
                error.insert("hash".to_owned(), hash.to_string().into());
            }
            Self::NoMatch { argument, lines, elsewhere, .. } => {
                error.insert("argument".to_owned(), (*argument).into());
                error.insert("lines".to_owned(), json!(lines));
                if !elsewhere.is_empty() {
                    error.insert("elsewhere".to_owned(), json!(elsewhere));
                }
            }
            Self::NoSuchText { total_lines, .. } => {
                error.insert("argument".to_owned(), "q".into());
                error.insert("total_lines".to_owned(), (*total_lines).into());
            }
            Self::AmbiguousMatch { matches, .. } => {
                error.insert("matches".to_owned(), json!(matches));
            }
            Self::TooLarge { limit_bytes, .. } => {
                error.insert("limit_bytes".to_owned(), (*limit_bytes).into());
            }
            Self::InsufficientScope { needed, .. } => {
                error.insert(
                    "required_scopes".to_owned(),
                    needed.iter().map(|scope| Value::from(scope.to_string())).collect(),
                );
            }
            Self::Internal { incident } => {
                error.insert("incident".to_owned(), (*incident).into());
            }
            _ => {}
        }
        if let Some(path) = self.path() {
            error.insert("path".to_owned(), path.as_str().into());
        }
        Value::Object(error)
    }

    /// The path that the refusal is about, where it names one.
    pub fn path(&self) -> Option<&SpacePath> {
        match self {
            Self::NotFound { path, .. }
            | Self::AlreadyExists { path }
            | Self::NotAFile { path, .. }
            | Self::NotADirectory { path }
            | Self::SymlinkRefused { path }
            | Self::HardLinked { path }
            | Self::NotPermitted { path }
            | Self::Busy { path }
            | Self::NotText { path, .. }
            | Self::Stale { path, .. }
            | Self::NoMatch { path, .. }
            | Self::NoSuchText { path, .. }
            | Self::AmbiguousMatch { path, .. }
            | Self::TooLarge { path, .. }
            | Self::NoSpace { path }
            | Self::UnknownOutcome { path } => Some(path),
            _ => None,
        }
    }

    /// Nothing is at `path`.
    pub fn not_found(path: &SpacePath) -> Self {
        let folder = path.split().map_or_else(SpacePath::root, |(folder, _)| folder);
        Self::NotFound { path: path.clone(), list: crate::listing::uri(&folder) }
    }

    /// What is at `path` is no regular file.
    pub fn not_a_file(path: &SpacePath) -> Self {
        Self::NotAFile { path: path.clone(), list: crate::listing::uri(path) }
    }

    /// An argument does not fit; `what` names it and says what it must be.
    pub fn invalid_argument(what: impl Into<String>) -> Self {
        Self::InvalidArgument { what: what.into() }
    }
}
