//! The data types that an engine takes and returns.
//!
//! Neither the engine nor the view of a caller owns these types, so that both can use them without
//! using each other. What a caller may see of a stream comes with every question as part of its
//! [`RecordSource`].

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use stile_domain::records::blob::{MAX_BYTES, PIECE_BYTES};
use stile_domain::records::filter::Condition;
use stile_domain::records::grant::{Grant, StreamGrant};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::stored_body::{BodyField, RecordBody};
use stile_domain::records::value::RecordFields;
use stile_domain::records::visible_time::VisibleTime;

use crate::postgresql::DatabaseError;

/// The table in which a copy from the other engine writes how far it is. A database with this table
/// is not complete.
pub(crate) const PROGRESS_TABLE: &str = "copy_progress";

/// Why the database cannot be opened or copied. The message says what the owner can do.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file system refused an operation.
    #[error("cannot {doing} {}: {error}", .path.display())]
    Io {
        /// The operation, as an infinitive.
        doing: &'static str,
        /// The file that the operation was for.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file is another program's database, or is damaged.
    #[error("{} is not a database of records, or is damaged; restore it from a backup (`stile backup` makes them), \
             or move it away and import again", .path.display())]
    Damaged {
        /// The file of the database.
        path: PathBuf,
    },
    /// A newer version of Stile made the database.
    #[error("{} was made by a newer stile; use that version, or name another state folder with --state", .path.display())]
    Newer {
        /// The file of the database.
        path: PathBuf,
    },
    /// The engine failed.
    #[error("cannot {doing} the records: {error}")]
    Database {
        /// The operation, as an infinitive.
        doing: &'static str,
        /// The error of SQLite.
        error: rusqlite::Error,
    },
    /// Another process writes for long, such as an import.
    #[error(
        "another process writes the records, such as `stile import`; nothing was changed; try \
         again when it has ended"
    )]
    Busy,
    /// A database on PostgreSQL cannot be used.
    #[error(transparent)]
    Hosted(#[from] DatabaseError),
    /// The server of PostgreSQL makes its own copies.
    #[error("cannot copy records on PostgreSQL; use pg_dump or the base backups of PostgreSQL")]
    CopiedByServer,
    /// The database is the target of a copy that has not come to its end.
    #[error(
        "a copy into this database is under way and not complete; run the same \
         `stile migrate-store` again, which goes on where it stopped"
    )]
    HalfCopied,
    /// The system gives no random bytes, so there is no key to seal cursors with.
    #[error("the system gives no random numbers, so no cursor can be sealed")]
    Random,
}

/// A stream as the engine stores it.
pub(super) struct StreamRow {
    pub(super) id: i64,
    pub(super) connection: SourceName,
    pub(super) stream: SourceName,
    pub(super) declaration: Arc<str>,
    /// How often the stream was declared.
    pub(super) revision: i64,
    pub(super) indexed: Arc<IndexedFields>,
}

/// A grant as the engine stores it.
pub(super) struct GrantRow {
    pub(super) id: String,
    /// The grant as JSON.
    pub(super) json: String,
    pub(super) revoked: Option<Instant>,
    /// The token that a grant for a single token is bound to.
    pub(super) bound: Option<String>,
}

/// A stream as it was declared.
pub(super) struct StreamDeclaration {
    pub(super) id: i64,
    /// The owner's declaration, as JSON.
    pub(super) declaration: String,
    /// The indexed fields, as JSON.
    pub(super) indexed: String,
}

/// A blob that was stored long ago.
pub(super) struct OldBlob {
    pub(super) blob: i64,
    pub(super) digest: [u8; 32],
    pub(super) bytes: i64,
}

/// One connection's stream, and what the caller may see of it.
#[derive(Clone, Debug)]
pub struct RecordSource {
    pub(super) id: i64,
    pub(super) connection: SourceName,
    pub(super) stream: SourceName,
    pub(super) declaration: Arc<str>,
    pub(super) revision: i64,
    pub(super) indexed: Arc<IndexedFields>,
    pub(super) visibility: Visibility,
}

impl RecordSource {
    /// The connection that the records come from.
    pub fn connection(&self) -> &SourceName {
        &self.connection
    }

    /// The name of the stream.
    pub fn stream(&self) -> &SourceName {
        &self.stream
    }

    /// The owner's declaration of the stream, as JSON.
    pub fn declaration(&self) -> &Arc<str> {
        &self.declaration
    }

    /// The number of the stream in the database, which cursors contain.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Identifies this declaration among all declarations that the database ever had.
    pub fn declaration_id(&self) -> (i64, i64) {
        (self.id, self.revision)
    }

    /// Whether a search of the caller looks into a field.
    pub fn searches(&self, field: &str) -> bool {
        let is_granted = self.fields().is_none_or(|fields| fields.contains(field));
        is_granted && self.indexed.searchable.contains(field)
    }

    /// The fields that the caller may see. `None` means all fields.
    pub fn fields(&self) -> Option<&BTreeSet<String>> {
        self.visibility.fields()
    }

    /// Returns those of some fields that the caller may see and a body has.
    pub(super) fn fields_of<'b>(
        &self,
        body: &'b [u8],
        fields: &[&str],
    ) -> Result<Vec<Option<BodyField<'b>>>, Problem> {
        let field = |name: &&str| match self.fields().is_none_or(|granted| granted.contains(*name))
        {
            true => RecordBody::new(body).field(name).map_err(|_| Problem::Corrupt),
            false => Ok(None),
        };
        fields.iter().map(field).collect()
    }

    /// The field that lists are ordered by. `None` if the caller may not see that field.
    pub fn ordered_by(&self) -> Option<&str> {
        let field = self.indexed.cursor_field.as_deref()?;
        self.fields().is_none_or(|fields| fields.contains(field)).then_some(field)
    }
}

/// What a caller may see of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Visibility {
    /// What a grant says of the stream. `None` means that all records are visible.
    pub(super) granted: Option<GrantedStream>,
    pub(super) time: Option<TimeFilter>,
}

/// One stream of a grant, without a copy of it.
#[derive(Clone, Debug)]
pub(super) struct GrantedStream {
    pub(super) grant: Arc<Grant>,
    /// The index of the stream in the grant.
    pub(super) index: usize,
}

impl Visibility {
    fn stream_grant(&self) -> Option<&StreamGrant> {
        self.granted.as_ref().and_then(|granted| granted.grant.streams.get(granted.index))
    }

    /// The fields that the caller may see. `None` means all fields.
    pub(super) fn fields(&self) -> Option<&BTreeSet<String>> {
        self.stream_grant().map(|granted| &granted.fields)
    }

    /// The keys that the caller may see. `None` means all keys.
    pub(super) fn keys(&self) -> Option<&BTreeSet<String>> {
        self.stream_grant()?.keys.as_ref()
    }

    /// Returns whether the caller may see the record with a key, if its time is visible.
    pub(super) fn shows_key(&self, key: &str) -> bool {
        self.keys().is_none_or(|keys| keys.contains(key))
    }
}

/// The time range of a grant, as a query needs it.
#[derive(Clone, Debug)]
pub(super) struct TimeFilter {
    /// The field with the time. `None` if the engine indexes the time of that field.
    pub(super) field: Option<String>,
    pub(super) visible: VisibleTime,
    /// Whether lists are ordered by the same time, so that a query can skip hidden records.
    pub(super) orders_lists: bool,
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The least value comes first.
    Ascending,
    /// The greatest value comes first.
    Descending,
}

/// The records of a source that a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanRange {
    /// Records with a value to order by, ordered by value and then key.
    Ordered,
    /// Records without such a value, ordered by key.
    WithoutOrder,
    /// All records, ordered by key.
    ByKey,
}

/// The position at which a scan of one source starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScanStart<'a> {
    Beginning,
    /// After the record with this order key and this key.
    AfterRecord(Option<&'a [u8]>, &'a str),
    /// After all records with this order key.
    AfterOrderKey(&'a [u8]),
    /// At the first record with this order key.
    AtOrderKey(&'a [u8]),
}

/// One page of the list of one source.
pub(super) struct Scan<'q> {
    pub(super) range: ScanRange,
    pub(super) order: SortOrder,
    pub(super) start: ScanStart<'q>,
    pub(super) conditions: &'q [Condition],
    pub(super) limit: usize,
}

/// A record that the caller may see, without its fields.
#[derive(Clone, Debug)]
pub struct RecordRow {
    pub(super) number: i64,
    /// The index of the record's source among the sources of the query.
    pub source: usize,
    /// The key of the record.
    pub key: String,
    /// When the record was first ingested.
    pub emitted: Instant,
    pub(super) order_key: Option<Vec<u8>>,
}

impl RecordRow {
    /// The record's number in the database. Numbers grow in the order of first ingest; a search
    /// cursor contains one.
    pub fn number(&self) -> i64 {
        self.number
    }
}

/// A state of a record, past or present.
pub(super) struct StoredState {
    /// The number and the time of the change that ended the state. `None` for the present state.
    pub(super) ended: Option<(i64, Instant)>,
    pub(super) record: i64,
    pub(super) emitted: Instant,
    /// The fields, with digests in place of all but short values.
    pub(super) body: Vec<u8>,
}

/// A stream that records are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStream {
    pub(super) id: i64,
    /// The owner's declaration of the stream, as JSON.
    pub declaration: String,
    /// The fields of the stream that are indexed.
    pub indexed: IndexedFields,
    /// The number that precedes the tokens of each searchable field in the index.
    pub(super) tags: HashMap<String, i64>,
}

/// A record that is to be stored.
pub struct IncomingRecord<'a> {
    /// The key, which replaces a stored record that has the same one.
    pub key: &'a RecordKey,
    /// When the record was made or ingested.
    pub emitted: Instant,
    /// The fields that are in memory.
    pub fields: &'a RecordFields,
    /// The fields whose texts are too long to be held in memory. A streamed field replaces a field
    /// of the same name in `fields`, at its position. The others follow.
    pub streamed: Vec<StreamedField<'a>>,
}

/// A field whose text is read from its source when it is stored.
pub struct StreamedField<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The source of the text.
    pub text: &'a mut dyn TextSource,
}

/// A text that can be read from its beginning, more than once.
pub trait TextSource {
    /// Opens the text at its beginning.
    ///
    /// # Errors
    /// The error of the system.
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>>;
}

/// The result of storing one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertOutcome {
    /// The record is new.
    Added,
    /// The record replaced one that differed.
    Changed,
    /// The same record was stored before.
    Unchanged,
    /// The record cannot be stored. Nothing of it was written.
    Refused(WriteRefusal),
}

/// Why a record or a blob cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteRefusal {
    /// The record has more long or searchable values than it can have.
    #[error("a record has at most 4,096 values of more than 1,024 bytes")]
    TooManyLong,
    /// A field has more text than it can hold.
    #[error("a field has at most 8,589,934,592 characters")]
    TooLong,
    /// A streamed text is not UTF-8.
    #[error("the text is not valid UTF-8; convert it first")]
    NotUtf8,
    /// A streamed text cannot be read, or changed between two reads.
    #[error("the text could not be read, or was changed meanwhile; import it again")]
    Unreadable,
    /// The database has used all numbers that it has for records.
    #[error("the database is full: it has had 2,147,483,647 records")]
    TooManyRecords,
    /// A blob has more bytes than it can have.
    #[error("a blob has at most 4,294,967,296 bytes")]
    BlobTooLarge,
}

/// The bits of the number of a blob's piece that count the pieces.
const BLOB_PIECE_BITS: u32 = 16;
const _: () = assert!(MAX_BYTES / PIECE_BYTES == 1 << BLOB_PIECE_BITS);

/// Returns the number of a piece of a blob. `None` if a blob has no such piece.
pub(super) fn blob_piece_number(blob: i64, piece: u64) -> Option<i64> {
    let piece = i64::try_from(piece).ok().filter(|piece| *piece < 1 << BLOB_PIECE_BITS)?;
    blob.checked_mul(1 << BLOB_PIECE_BITS)?.checked_add(piece)
}

/// A blob that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// The blob's identifier, as `BlobId` writes it.
    pub id: String,
    /// The size of the blob in bytes.
    pub bytes: u64,
    /// The SHA-256 of the bytes.
    pub digest: [u8; 32],
}

/// The last record that a stream had at some moment. Records that are ingested later follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRecord(pub(super) i64);
