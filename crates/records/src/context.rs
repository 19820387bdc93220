//! What the function of an operation works with: the store as its caller may use it.
//!
//! [`super::service`] makes a context only after the permits were granted.

use stile_domain::records::authority::{OwnerPermit, RecordsPermit};
use stile_domain::records::identifiers::SourceName;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_store::records::{RecordRow, RecordSource, Records, RecordsView};

use crate::connections::{connection_names, only_source};
use crate::declarations::DeclarationCache;
use crate::token_issuer::TokenIssuer;

/// One moment of the store, limited to what the caller may see.
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    /// The records that the caller may see.
    pub view: &'a RecordsView<'a>,
    /// The declarations of their streams.
    pub declarations: &'a DeclarationCache,
}

impl ReadContext<'_> {
    /// Finds the record with this key.
    ///
    /// # Errors
    /// [`Problem::NotFound`]; [`Problem::AmbiguousConnection`] if several sources have the key.
    pub(crate) fn find_record(
        &self,
        sources: &[RecordSource],
        key: &str,
    ) -> Result<RecordRow, Problem> {
        let mut rows = self.view.find_by_key(sources, key)?;
        if rows.len() > 1 {
            let having = rows.iter().filter_map(|row| sources.get(row.source));
            return Err(Problem::AmbiguousConnection { connections: connection_names(having) });
        }
        rows.pop().ok_or(Problem::NotFound)
    }

    /// Opens and decodes the cursor that a request sends; `None` if it sends none.
    pub(crate) fn decode_cursor<T>(
        &self,
        cursor: Option<&str>,
        decode: impl FnOnce(&[u8]) -> Result<T, CursorProblem>,
    ) -> Result<Option<T>, Problem> {
        let Some(cursor) = cursor else { return Ok(None) };
        decode(&self.view.unseal(cursor)?).map(Some).map_err(Problem::InvalidCursor)
    }
}

/// The whole store, for an operation of the owner.
#[derive(Clone, Copy)]
pub struct OwnerContext<'a> {
    /// The database of the records.
    pub records: &'a Records,
    /// The declarations of its streams.
    pub declarations: &'a DeclarationCache,
    /// The permit to write.
    pub owner: &'a OwnerPermit,
    /// The permit to read.
    pub reader: &'a RecordsPermit,
    /// The owner's name, as the token says.
    pub subject: &'a str,
    /// What makes tokens; `None` where an identity provider makes them.
    pub tokens: Option<&'a dyn TokenIssuer>,
    /// When the request was received. Grants and change logs are judged by this time.
    pub now: Instant,
}

impl OwnerContext<'_> {
    /// Returns what makes tokens.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] where this server makes none.
    pub(crate) fn tokens(&self) -> Result<&dyn TokenIssuer, Problem> {
        let message = "an identity provider makes the tokens of this server; nothing was changed";
        self.tokens.ok_or_else(|| Problem::InvalidRequest { param: None, message: message.into() })
    }

    /// Returns the connection that a request writes to: the one that it names, or the one that has
    /// the stream.
    ///
    /// # Errors
    /// [`Problem::InvalidRequest`] for a malformed name, or if it names none of a new stream;
    /// [`Problem::AmbiguousConnection`].
    pub(crate) fn target_connection(
        &self,
        stream: &SourceName,
        requested: Option<&str>,
    ) -> Result<SourceName, Problem> {
        if let Some(requested) = requested {
            return SourceName::parse(requested)
                .map_err(|bad| Problem::invalid("connection_id", bad.to_string()));
        }
        self.read(|read| match read.view.sources_of(stream.as_str(), None) {
            Ok(sources) => only_source(&sources).map(|source| source.connection().clone()),
            Err(Problem::StreamNotFound { .. }) => {
                let message = format!(
                    "there is no stream `{stream}` yet; send `connection_id` to declare it in that connection"
                );
                Problem::refuse("connection_id", message)
            }
            Err(problem) => Err(problem),
        })
    }

    /// Runs a function on one moment of the store.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(ReadContext<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.records.read(self.reader, self.now, |view| {
            read(ReadContext { view, declarations: self.declarations })
        })
    }
}
