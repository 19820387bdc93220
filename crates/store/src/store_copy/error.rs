//! Why a copy ended before its time.

use stile_domain::records::problem::Problem;

use crate::postgresql::{DatabaseError, PgError};
use crate::records::RecordsError;
use crate::state::StateError;

/// Why a copy ended. The message says what is in the target and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A database of records cannot be opened or copied.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A database on PostgreSQL cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Reading or writing records failed.
    #[error("{0}; what was copied is kept, and the same command goes on where this one stopped")]
    Problem(Problem),
    /// A database lacks a row that each has, or holds values of another kind.
    #[error("a database of the copy is damaged, or another program wrote to it")]
    Damaged,
    /// The source has no records.
    #[error("--from has no records; nothing was written")]
    NoRecords,
    /// The target has records of its own.
    #[error(
        "--to has records already, and nothing was written; \
         name an empty database or a new state folder"
    )]
    NotEmpty,
    /// The source and the target are the same database, or one is already a copy of the other.
    #[error("--to is the database of --from, or a complete copy of it; nothing was written")]
    SameStore,
    /// The target has a part of another database.
    #[error(
        "--to has a part of the records of another database, whose copy did not come to its end; \
         nothing was written: run that copy again, or name another target"
    )]
    OtherSource,
    /// A database on PostgreSQL has the rows of several people.
    #[error(
        "a database on PostgreSQL that has the records of several people is copied one person at \
         a time; nothing was written: name a person with --user or --person"
    )]
    SeveralPeople,
    /// A database on PostgreSQL has no rows of the person: that of the setting `--from` or `--to`.
    #[error(
        "the database of {0} knows no such person, and nothing was written; --user takes the \
         subject of their tokens (with --issuer if an identity provider issues them), and --person \
         the name of their folder in --spaces"
    )]
    NoPerson(&'static str),
    /// A person was named, and both ends are state folders.
    #[error(
        "--user and --person choose the rows of one person in a database on PostgreSQL, and \
         neither end is one; nothing was written: leave them out"
    )]
    NoDatabase,
    /// Another process copies into the same target.
    #[error("another command copies into the same target now; let that one come to its end")]
    Taken,
    /// The source was written to while it was copied.
    #[error(
        "the source was changed while it was copied{}; the target is not complete and cannot be \
         opened: stop what writes to the source, and run the same command again, which copies \
         what is new",
        in_tables(tables)
    )]
    SourceChanged {
        /// The tables that differ.
        tables: Vec<&'static str>,
    },
    /// The target has other rows than the source, which did not change.
    #[error(
        "the copy differs from its source{}; the target is not complete and cannot be opened: \
         run the same command again, which copies these tables anew, and check the disks if it \
         happens twice",
        in_tables(tables)
    )]
    Differs {
        /// The tables that differ.
        tables: Vec<&'static str>,
    },
}

fn in_tables(tables: &[&str]) -> String {
    if tables.is_empty() { String::new() } else { format!(" (tables: {})", tables.join(", ")) }
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Records(RecordsError::Database { doing: "copy", error })
    }
}

impl From<PgError> for CopyError {
    fn from(error: PgError) -> Self {
        Self::Database(error.into())
    }
}

impl From<Problem> for CopyError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}
