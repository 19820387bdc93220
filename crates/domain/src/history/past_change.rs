//! One change of a file that a call made, as the history records it.

use std::fmt;

use crate::hash::ContentHash;
use crate::path::SpacePath;
use crate::permit::Principal;
use crate::records::instant::Instant;

/// The number of a change in a history. Later changes have greater numbers. The number of a call is
/// that of its first change.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct ChangeNumber(pub i64);

impl fmt::Display for ChangeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tool of the changes that an undo makes.
pub const UNDO: &str = "undo";

/// The tool of the changes that give a file an old version.
pub const RESTORE: &str = "restore";

/// What a change did to its file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastChangeKind {
    /// The file got other content.
    Replaced,
    /// Content was added to the end of the file.
    Appended,
    /// The file was created.
    Created,
    /// The file was removed.
    Removed,
    /// The file got another path.
    Moved,
    /// A folder was made.
    FolderCreated,
    /// A folder was removed. What it held has changes of its own.
    FolderRemoved,
    /// A folder got another path. Its files and the folders in it have changes of their own.
    FolderMoved,
    /// An undo moved what a folder held beside files to another folder.
    FolderMerged,
}

impl PastChangeKind {
    const ALL: [Self; 9] = [
        Self::Replaced,
        Self::Appended,
        Self::Created,
        Self::Removed,
        Self::Moved,
        Self::FolderCreated,
        Self::FolderRemoved,
        Self::FolderMoved,
        Self::FolderMerged,
    ];

    /// Returns the word that the history and its answers use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Appended => "appended",
            Self::Created => "created",
            Self::Removed => "removed",
            Self::Moved => "moved",
            Self::FolderCreated => "folder_created",
            Self::FolderRemoved => "folder_removed",
            Self::FolderMoved => "folder_moved",
            Self::FolderMerged => "folder_merged",
        }
    }

    /// Returns what an edit does that makes `new` of `old`.
    pub fn of_edit(old: &[u8], new: &[u8]) -> Self {
        match new.starts_with(old) && new.len() > old.len() {
            true => Self::Appended,
            false => Self::Replaced,
        }
    }

    /// Whether the change is one of a folder, which has no versions.
    pub fn is_of_folder(self) -> bool {
        matches!(
            self,
            Self::FolderCreated | Self::FolderRemoved | Self::FolderMoved | Self::FolderMerged
        )
    }

    /// Whether the change made a file or a folder.
    pub fn is_creation(self) -> bool {
        matches!(self, Self::Created | Self::FolderCreated)
    }

    /// Whether the change gave a file or a folder another path.
    pub fn is_move(self) -> bool {
        matches!(self, Self::Moved | Self::FolderMoved | Self::FolderMerged)
    }

    /// Returns what was done as a verb, the same for a file and a folder.
    pub fn verb(self) -> &'static str {
        let word = self.word();
        word.strip_prefix("folder_").unwrap_or(word)
    }

    /// Finds the kind with a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Who made a change, and with which tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The tool by its canonical name.
    pub tool: String,
    /// The user who called.
    pub subject: String,
    /// The client that the token was issued to; `None` where the token names none.
    pub client: Option<String>,
    /// The approval under which the token was issued, or the token's `jti`; `None` for the local
    /// user.
    pub token: Option<String>,
}

impl Author {
    /// Returns the author of what `principal` does with a tool.
    pub fn new(tool: &str, principal: &Principal) -> Self {
        Self {
            tool: tool.to_owned(),
            subject: principal.subject().to_owned(),
            client: principal.client().map(str::to_owned),
            token: principal.recognised_by().map(str::to_owned),
        }
    }

    /// Returns the name by which the owner knows the author: the client, or the user of a token
    /// that names no client.
    pub fn name(&self) -> &str {
        self.client.as_deref().unwrap_or(&self.subject)
    }

    /// Returns the name under which the history counts what the author keeps: its approval or its
    /// token, or else its client, or else the user. The name of a client counts only where there is
    /// no token: any client may register under any name.
    pub fn share(&self) -> String {
        match (&self.token, &self.client) {
            (Some(token), _) => Self::share_of(token),
            (None, Some(client)) => format!("client {client}"),
            (None, None) => format!("user {}", self.subject),
        }
    }

    /// Returns the name under which the history counts what is kept of a caller with this approval
    /// or token.
    pub fn share_of(token: &str) -> String {
        format!("token {token}")
    }

    /// Whether the owner made the change, to take something back or to give it back.
    pub fn is_of_owner(&self) -> bool {
        [UNDO, RESTORE].contains(&self.tool.as_str())
    }

    /// Whether two authors are the same caller, whatever tools they used: the same user with the
    /// same approval or token. The name of a client counts only where neither has a token: any
    /// client may register under any name.
    pub fn is_same_caller(&self, other: &Self) -> bool {
        self.subject == other.subject
            && self.token == other.token
            && (self.token.is_some() || self.client == other.client)
    }
}

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastChange {
    /// The number of the change.
    pub number: ChangeNumber,
    /// The number of the call that made the change.
    pub call: ChangeNumber,
    /// When the change was recorded, just before it was made.
    pub at: Instant,
    /// What the change did.
    pub kind: PastChangeKind,
    /// The file; for a move, the path that the file had before.
    pub path: SpacePath,
    /// The path that a move gave the file.
    pub to: Option<SpacePath>,
    /// The version before the change; `None` for a creation.
    pub before: Option<ContentHash>,
    /// The size of the version before the change in bytes.
    pub size_before: u64,
    /// The version that the change made; `None` for a removal.
    pub after: Option<ContentHash>,
    /// Who made the change.
    pub author: Author,
    /// The first of the changes that an undo took back with this one; `None` for a change that no
    /// undo made.
    pub takes_back: Option<ChangeNumber>,
}

impl PastChange {
    /// Returns what the change did, in words for the owner, such as `moved folder /a to /b`.
    pub fn in_words(&self) -> String {
        let verb = self.kind.verb();
        let folder = if self.kind.is_of_folder() { "folder " } else { "" };
        match &self.to {
            Some(to) => format!("{verb} {folder}{} to {to}", self.path),
            None => format!("{verb} {folder}{}", self.path),
        }
    }

    /// Returns the change for a caller who sees only some paths. A move shows only a visible end.
    #[must_use]
    pub fn as_seen(self, may_see: impl Fn(&SpacePath) -> bool) -> Self {
        match self.to {
            Some(to) if !may_see(&self.path) => Self { path: to, to: None, ..self },
            to => Self { to: to.filter(may_see), ..self },
        }
    }

    /// Whether the change concerns this file, under its path before or after a move.
    pub fn concerns(&self, path: &SpacePath) -> bool {
        self.path == *path || self.to.as_ref() == Some(path)
    }

    /// Whether the change gave a path this version, or a folder for `None`.
    pub fn makes(&self, path: &SpacePath, version: Option<ContentHash>) -> bool {
        let is_there = self.to.as_ref().unwrap_or(&self.path) == path;
        is_there
            && match version {
                Some(_) => self.after == version && !self.kind.is_of_folder(),
                None => self.kind.is_of_folder() && self.kind != PastChangeKind::FolderRemoved,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_word() {
        for kind in PastChangeKind::ALL {
            assert_eq!(PastChangeKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(PastChangeKind::from_word("exchanged"), None);
    }

    #[test]
    fn callers_are_known_by_user_and_token_and_never_by_the_name_of_a_client() {
        let author = |subject: &str, client: Option<&str>, token: Option<&str>| Author {
            tool: "text.edit".to_owned(),
            subject: subject.to_owned(),
            client: client.map(str::to_owned),
            token: token.map(str::to_owned),
        };
        let ann = author("ann", Some("cursor"), Some("t1"));
        assert!(ann.is_same_caller(&author("ann", Some("cursor"), Some("t1"))));
        assert!(ann.is_same_caller(&author("ann", Some("a new name"), Some("t1"))));
        assert!(!ann.is_same_caller(&author("ann", Some("cursor"), Some("t2"))));
        assert!(!ann.is_same_caller(&author("ann", Some("cursor"), None)));
        assert!(!ann.is_same_caller(&author("bob", Some("cursor"), Some("t1"))));
        let local = author("ann", Some("command line"), None);
        assert!(local.is_same_caller(&author("ann", Some("command line"), None)));
        assert!(!local.is_same_caller(&author("ann", None, None)));
    }

    #[test]
    fn a_move_shows_no_end_that_is_hidden() {
        let path = |text: &str| SpacePath::parse(text).unwrap();
        let moved = PastChange {
            number: ChangeNumber(1),
            call: ChangeNumber(1),
            at: Instant(0),
            kind: PastChangeKind::Moved,
            path: path("/secret/a.md"),
            to: Some(path("/open/b.md")),
            before: None,
            size_before: 0,
            after: None,
            author: Author {
                tool: "file.move".to_owned(),
                subject: "ann".to_owned(),
                client: None,
                token: None,
            },
            takes_back: None,
        };
        let ends =
            |change: PastChange| (change.path.to_string(), change.to.map(|to| to.to_string()));
        let below =
            |folder: &'static str| move |seen: &SpacePath| seen.as_str().starts_with(folder);
        let all = ends(moved.clone().as_seen(|_| true));
        assert_eq!(all, ("/secret/a.md".to_owned(), Some("/open/b.md".to_owned())));
        let into = ends(moved.clone().as_seen(below("/open")));
        assert_eq!(into, ("/open/b.md".to_owned(), None));
        assert_eq!(ends(moved.as_seen(below("/secret"))), ("/secret/a.md".to_owned(), None));
    }
}
