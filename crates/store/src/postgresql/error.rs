//! Maps errors of PostgreSQL to problems.

use std::io;

use rustls::CertificateError;
use stile_domain::records::problem::Problem;
use tokio_postgres::error::{Severity, SqlState};

use super::outage;

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PgError {
    /// The database or the connection to it failed.
    #[error("{}", describe(.0))]
    Database(#[from] tokio_postgres::Error),
    /// The database did not answer in time.
    #[error("the database does not answer")]
    NoAnswer,
    /// No connection is free, or a new one cannot be made.
    #[error("no connection to the database is free")]
    Busy,
    /// The connection broke during a commit: nobody knows whether the write was kept.
    #[error("the database did not say whether it kept a write")]
    Unknown,
    /// The read reached its limit.
    #[error("the read took too long")]
    LimitReached,
}

/// Why a database on PostgreSQL cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The address cannot be used. It may contain a password, so the message does not repeat it.
    #[error(
        "the address of the database is not of the form postgres://USER@HOST/DATABASE, or its TLS settings cannot be used"
    )]
    BadAddress,
    /// The file of `sslrootcert` cannot be read, or has no certificate.
    #[error("the file that sslrootcert in the address of the database names has no certificate")]
    NoRoots,
    /// The schema is another program's.
    #[error("the schema `stile` of the database is another program's; name another database")]
    Foreign,
    /// The tables of this version are not there, and the database takes no writes.
    #[error(
        "the database takes no writes (it is a standby, or `default_transaction_read_only` is on), \
         and the tables of this version are not all in it: let a server of this version connect to \
         the primary first; nothing was changed"
    )]
    TakesNoWrites,
    /// The database takes no writes, and something was to be stored.
    #[error(
        "the database takes no writes now (it is a standby, or `default_transaction_read_only` is \
         on); nothing was stored: run this again once it takes writes, or on the primary"
    )]
    NotWritten,
    /// A pooler forgets prepared statements between two transactions.
    #[error(
        "the address of the database leads to a pooler of connections, such as PgBouncer, that \
         forgets prepared statements between two transactions: set `pool_mode = session` for this \
         database, or `max_prepared_statements` in PgBouncer 1.21 or newer, or name PostgreSQL \
         itself in the address; nothing was changed"
    )]
    ForgetfulPooler,
    /// The tables of this version are not there, and the role of the address may not make them.
    #[error(
        "the tables of this version are not in the database, or the role in its address may not \
         use them, and it may not make them: run `stile database prepare --servers-role ROLE` with \
         the address of the role that owns the database; nothing was changed"
    )]
    NotPrepared,
    /// A role cannot be that of the servers.
    #[error("the role `{role}` cannot be the one of the servers: {reason}")]
    NoServersRole {
        /// The role that was named.
        role: String,
        /// What is wrong with it, and what to do.
        reason: &'static str,
    },
    /// A newer version of Stile made the tables.
    #[error("a newer stile made the tables of the database; use that version")]
    Newer,
    /// The system gives no random bytes, so there is no key to seal cursors with.
    #[error("the system gives no random numbers, so no cursor can be sealed")]
    Random,
    /// The database is the target of a copy that has not come to its end.
    #[error(
        "a copy of these records into the database is under way and not complete; run the same \
         `stile migrate-store` again, which goes on where it stopped"
    )]
    HalfCopied,
    /// The database cannot be reached, or does not answer.
    #[error("cannot use the database on PostgreSQL: {reason}")]
    Failed {
        /// The error of the database, without values.
        reason: String,
    },
}

impl From<PgError> for DatabaseError {
    fn from(error: PgError) -> Self {
        match error.is_read_only() {
            true => Self::NotWritten,
            false => Self::Failed { reason: error.to_string() },
        }
    }
}

impl PgError {
    /// Returns whether another transaction was in the way, so that this one can run again.
    pub(crate) fn is_conflict(&self) -> bool {
        const CODES: [SqlState; 2] =
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        match self {
            Self::Database(error) => error.code().is_some_and(|code| CODES.contains(code)),
            _ => false,
        }
    }

    /// Returns whether the database ended the connection with this error. After any other error of
    /// the database the connection goes on.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Database(error) => error.as_db_error().is_none_or(|error| {
                matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
            }),
            _ => true,
        }
    }

    /// Returns whether the database cannot be reached or has no connection, whatever is asked.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::NoAnswer | Self::Busy => true,
            Self::Unknown | Self::LimitReached => false,
            Self::Database(error) => match error.code() {
                Some(code) => is_of_connection(code),
                None => error.is_closed() || is_io(error),
            },
        }
    }

    /// Returns whether the database takes no writes: it is a standby, or its settings say so.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Database(error) => error.code().is_some_and(is_read_only),
            _ => false,
        }
    }

    /// Returns whether the same request may pass a second later.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::NoAnswer | Self::Busy => true,
            Self::Unknown | Self::LimitReached => false,
            Self::Database(error) => match error.code() {
                Some(code) => passes(code) || *code == SqlState::QUERY_CANCELED,
                None => error.is_closed() || is_io(error),
            },
        }
    }
}

/// Describes an error of the database with its causes, without the values of a statement and
/// without the names in a certificate.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(reason) = certificate_problem(error) {
        return format!("the database cannot be trusted: {reason}");
    }
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text.push_str(": ");
                text.push_str(&error.to_string());
                cause = error.source();
            }
            text
        }
    }
}

/// Returns why the certificate of the database was refused, if it was.
fn certificate_problem(error: &tokio_postgres::Error) -> Option<&'static str> {
    let error: &io::Error = std::error::Error::source(error)?.downcast_ref()?;
    let rustls::Error::InvalidCertificate(error) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "this machine does not trust the authority of its certificate (`SSL_CERT_FILE` may \
             name a file with the authorities to trust)"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name than the host in the address"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        _ => "its certificate cannot be used",
    })
}

impl From<PgError> for Problem {
    /// Maps an error of the database to a problem. Whatever may have passed a second later is
    /// [`Problem::Busy`], so that the client sends the request again. Logs an unexpected error with
    /// an incident number.
    fn from(error: PgError) -> Self {
        let error = match error {
            PgError::LimitReached => return Self::QueryTooBroad,
            PgError::Busy => return Self::Busy,
            PgError::Unknown => {
                tracing::error!("the database did not say whether it kept a write");
                return Self::MayBeStored;
            }
            PgError::NoAnswer => {
                outage::report(&"it does not answer in time");
                return Self::Busy;
            }
            PgError::Database(error) => error,
        };
        let Some(code) = error.code() else {
            if error.is_closed() || is_io(&error) {
                outage::report(&"a connection is lost");
                return Self::Busy;
            }
            let incident = crate::new_incident();
            tracing::error!(incident, "unexpected answer of the database");
            return Self::Internal { incident };
        };
        match *code {
            SqlState::QUERY_CANCELED => return Self::QueryTooBroad,
            SqlState::DISK_FULL => return Self::Full,
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => return Self::Corrupt,
            _ => {}
        }
        if is_read_only(code) {
            return Self::TakesNoWrites;
        }
        if is_of_connection(code) {
            outage::report(&describe(&error));
            return Self::Busy;
        }
        if passes(code) {
            tracing::debug!(code = code.code(), "the database cannot answer now");
            return Self::Busy;
        }
        let incident = crate::new_incident();
        tracing::error!(incident, code = code.code(), "unexpected error of the database");
        Self::Internal { incident }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<io::Error>())
}

/// Returns whether an error passes without a change of the request: the database restarts, fails
/// over or has no connection left, or another transaction was in the way.
fn passes(code: &SqlState) -> bool {
    const CODES: [SqlState; 5] = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::OUT_OF_MEMORY,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    CODES.contains(code) || is_of_connection(code) || is_read_only(code)
}

/// Returns whether an error says that the database takes no writes.
fn is_read_only(code: &SqlState) -> bool {
    // A standby says the second of a transaction that sees no other one, and nothing else does.
    [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::FEATURE_NOT_SUPPORTED].contains(code)
}

/// Returns whether an error is about the connection, or all connections, and not about a statement.
fn is_of_connection(code: &SqlState) -> bool {
    const CODES: [SqlState; 4] = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    // Class 08 is about connections.
    CODES.contains(code) || code.code().starts_with("08")
}
