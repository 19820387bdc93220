//! Why a command failed, and how each error of the layers beneath is said at the command line.

use std::io;

use stile_domain::error::Refusal;
use stile_domain::records::problem::Problem;
use stile_domain::shortened_id::NotOneId;
use stile_domain::unseen::shown_lines;
use stile_import::sync::SyncError;
use stile_records::administration::DeclareError;
use stile_store::history::HistoryError;
use stile_store::person_folder::StandingError;
use stile_store::postgresql::DatabaseError;
use stile_store::records::RecordsError;
use stile_store::state::StateError;
use stile_store::state_backup::BackupError;
use stile_store::store_copy::CopyError;

use crate::auth::{MintError, StdioRefusal};
use crate::config::ConfigError;
use crate::known_clients::NotOneClient;
use crate::owner_files::OwnerFilesError;
use crate::owner_imports::UnknownInput;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not parse, or help or the version was asked for.
    Arguments(clap::Error),
    /// The usage or a setting is wrong; the message says what to change.
    Usage(String),
    /// The command failed at run time.
    Failed(String),
    /// The command failed; `text` is printed unchanged.
    Verbatim { text: String, code: u8 },
    /// Whoever read the output has seen enough, as `head` has after some lines.
    ReaderLeft,
}

impl Failure {
    /// Returns the text for standard error and the exit code. The code is 0 for help and the
    /// version, whose text goes to standard output.
    pub(crate) fn report(&self) -> (String, u8) {
        match self {
            Self::Arguments(error) => (error.to_string(), if error.use_stderr() { 2 } else { 0 }),
            Self::Usage(message) => (format!("error: {}\n", shown_lines(message)), 2),
            Self::Failed(message) => (format!("error: {}\n", shown_lines(message)), 1),
            Self::Verbatim { text, code } => (format!("{text}\n"), *code),
            Self::ReaderLeft => (String::new(), 0),
        }
    }
}

/// Makes failures of errors: of the usage where an error matches the pattern, else at run time.
macro_rules! failures {
    ($($error:ty: {$($usage:pat)?})*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                match error {
                    $($usage => Self::Usage(error.to_string()),)?
                    _ => Self::Failed(error.to_string()),
                }
            }
        }
    )*};
}

failures! {
    BackupError: { BackupError::NotEmpty { .. } }
    CopyError: { CopyError::NoRecords
        | CopyError::NotEmpty
        | CopyError::SameStore
        | CopyError::OtherSource
        | CopyError::SeveralPeople
        | CopyError::NoPerson(_)
        | CopyError::NoDatabase }
    DatabaseError: {}
    HistoryError: {}
    RecordsError: {}
    StandingError: { StandingError::OfAnother(_) }
    UnknownInput: { UnknownInput::Format { .. } }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        match &error {
            StateError::Overlap { .. } => Self::Usage(error.to_string()),
            StateError::Io { error: refused, .. }
                if matches!(
                    refused.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Self::Failed(format!("{error}; --state or STILE_STATE names another folder"))
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<NotOneId> for Failure {
    fn from(error: NotOneId) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<NotOneClient> for Failure {
    fn from(error: NotOneClient) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderLeft,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<Problem> for Failure {
    /// Words the problem for the command line. The problem's own words name request parameters.
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::StreamNotFound { stream, connection } => {
                let connection = connection
                    .map(|name| format!(" of the connection `{name}`"))
                    .unwrap_or_default();
                Self::Usage(format!(
                    "there is no stream `{stream}`{connection}; `stile streams` lists all streams"
                ))
            }
            Problem::AmbiguousConnection { connections } => Self::Usage(format!(
                "several connections have this: {}; name one of them with --connection",
                connections.join(", ")
            )),
            Problem::InvalidRequest { message, .. } => Self::Usage(message),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<DeclareError> for Failure {
    fn from(error: DeclareError) -> Self {
        match error {
            DeclareError::Problem(problem) => problem.into(),
            DeclareError::Invalid(_) | DeclareError::KeyChange { .. } => {
                Self::Usage(error.to_string())
            }
        }
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Problem(problem) => problem.into(),
            SyncError::OtherKey { .. }
            | SyncError::AppendOnly
            | SyncError::WouldRemoveAll { .. } => Self::Usage(error.to_string()),
            SyncError::Folder(_) | SyncError::Import(_) | SyncError::Stopped => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<MintError> for Failure {
    fn from(error: MintError) -> Self {
        match error {
            MintError::State(error) => error.into(),
            refused => Self::Usage(refused.to_string()),
        }
    }
}

impl From<StdioRefusal> for Failure {
    fn from(refusal: StdioRefusal) -> Self {
        match refusal {
            StdioRefusal::Ended { .. } => Self::Failed(refusal.to_string()),
            StdioRefusal::State(error) => error.into(),
        }
    }
}

impl From<OwnerFilesError> for Failure {
    fn from(error: OwnerFilesError) -> Self {
        match error {
            OwnerFilesError::History(error) => error.into(),
            OwnerFilesError::Refused(refusal) => (*refusal).into(),
            OwnerFilesError::Client(error) => error.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoVersion { path, why } => Self::Failed(format!("{path}: {why}")),
            refusal => Self::Failed(refusal.owner_text()),
        }
    }
}
