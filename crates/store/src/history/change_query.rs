//! Which changes of a history to find.

use stile_domain::history::past_change::{Author, ChangeNumber, PastChange};
use stile_domain::path::SpacePath;
use stile_domain::records::instant::Instant;

/// Which changes to find. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct ChangeQuery {
    /// Changes of this file, or of the files below this folder.
    pub path: Option<SpacePath>,
    /// Changes by tokens of this client.
    pub client: Option<String>,
    /// Changes by callers with one of these approvals or tokens.
    pub callers: Option<Vec<String>>,
    /// Changes by this caller.
    pub caller: Option<Author>,
    /// Changes with this tool, by its canonical name, or by this command of the owner.
    pub tool: Option<String>,
    /// Changes at this time or later.
    pub since: Option<Instant>,
    /// Changes before this time.
    pub until: Option<Instant>,
    /// Changes of this call.
    pub call: Option<ChangeNumber>,
    /// Changes with greater numbers.
    pub above: Option<ChangeNumber>,
    /// Changes with smaller numbers.
    pub below: Option<ChangeNumber>,
    /// At most this many changes, the latest.
    pub limit: Option<usize>,
}

impl ChangeQuery {
    /// Whether all changes are found, as far as the limit lets them.
    pub(super) fn is_of_all(&self) -> bool {
        let Self {
            path,
            client,
            callers,
            caller,
            tool,
            since,
            until,
            call,
            above,
            below,
            limit: _,
        } = self;
        let is_of_some = client.is_some() || callers.is_some() || caller.is_some();
        let is_of_time = since.is_some() || until.is_some();
        let is_of_numbers = call.is_some() || above.is_some() || below.is_some();
        !(path.is_some() || is_of_some || tool.is_some() || is_of_time || is_of_numbers)
    }
}

/// Changes in the order from the latest to the earliest.
pub type NewestFirst = Vec<PastChange>;

/// Somebody who made changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeAuthor {
    /// The name by which the owner knows the author.
    pub name: String,
    /// The approval or the token of the author; `None` for one without either.
    pub token: Option<String>,
}

/// A client with changes in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientChanges {
    /// The client that the tokens name, or the user where they name none.
    pub name: String,
    /// When the first change was made.
    pub first: Instant,
    /// When the last change was made.
    pub last: Instant,
}

/// Changes of a client that are not in the history, since there was no room for their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedChanges {
    /// The client that the tokens name, or the user where they name none.
    pub client: String,
    /// The name under which the history counts what is kept of the client.
    pub share: String,
    /// How many changes there were.
    pub changes: u64,
    /// The files and folders of some of them: first what others than the client made.
    pub names: Vec<UnrecordedName>,
    /// When the first of them was made.
    pub since: Instant,
    /// When the last of them was made.
    pub until: Instant,
}

/// A file or a folder that a change without a row concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedName {
    /// The path, of a move the one before.
    pub path: SpacePath,
    /// The path that a move gave it.
    pub to: Option<SpacePath>,
}

impl UnrecordedName {
    /// Returns the paths that the change concerned.
    pub fn paths(&self) -> impl Iterator<Item = &SpacePath> {
        std::iter::once(&self.path).chain(&self.to)
    }
}

impl UnrecordedChanges {
    /// Returns the paths of the changes, as far as they are known.
    pub fn paths(&self) -> impl Iterator<Item = &SpacePath> {
        self.names.iter().flat_map(UnrecordedName::paths)
    }

    /// Whether no other file was changed. Several changes of one file name the file once, so there
    /// may be others beyond the last name.
    pub fn names_all(&self) -> bool {
        self.changes <= self.names.len() as u64
    }
}
