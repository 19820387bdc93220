//! The tables, and the migration of older databases.
//!
//! `records` has the fields of a record without its long values. `pieces` has the long values,
//! under numbers that [`stile_domain::records::pieces`] makes. `tokens` is the index of search
//! tokens: one row for each piece of a long text, under the same number, and one for all short
//! texts of a record, under the number of the first. A row of an earlier version has one short
//! text, under its own number. The domain cuts texts into tokens, and the tokenizer of the table
//! only splits at spaces. Before each token is the number of its stream and field in `tags`, so
//! that a search reads the lists of granted fields only. `field_values` is the index by value,
//! which `field_index` describes.

use rusqlite::{Connection, TransactionBehavior};

/// `Stir`: tells our databases from those of other programs.
pub(super) const APPLICATION: i32 = 0x5374_6972;

/// Each item migrates the schema from the version that is its index. Items are never edited; a
/// change of the schema adds one.
pub(super) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE connections (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE streams (
        id INTEGER PRIMARY KEY,
        connection INTEGER NOT NULL REFERENCES connections (id),
        name TEXT NOT NULL,
        declaration TEXT NOT NULL,
        terms TEXT NOT NULL,
        revision INTEGER NOT NULL,
        UNIQUE (name, connection)
    ) STRICT;
    CREATE TABLE records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL REFERENCES streams (id),
        key BLOB NOT NULL,
        emitted INTEGER NOT NULL,
        ord BLOB,
        happened INTEGER,
        body BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX records_by_key ON records (stream, key);
    CREATE INDEX records_by_order ON records (stream, ord, key, happened);
    CREATE INDEX records_by_time ON records (stream, happened, emitted);
    CREATE TABLE pieces (
        id INTEGER PRIMARY KEY,
        text BLOB NOT NULL
    ) STRICT;
    CREATE TABLE tags (
        id INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL REFERENCES streams (id),
        field TEXT NOT NULL,
        UNIQUE (stream, field)
    ) STRICT;
    CREATE VIRTUAL TABLE tokens USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
    CREATE TABLE grants (
        id TEXT PRIMARY KEY NOT NULL,
        terms TEXT NOT NULL,
        revoked INTEGER,
        bound TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE seals (
        id BLOB PRIMARY KEY NOT NULL,
        secret BLOB NOT NULL,
        made INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE blobs (
        id INTEGER PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE blob_pieces (
        id INTEGER PRIMARY KEY,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE blob_uses (
        digest BLOB NOT NULL,
        media_type TEXT NOT NULL,
        record INTEGER NOT NULL,
        field TEXT NOT NULL,
        PRIMARY KEY (digest, media_type, record, field)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blob_uses_by_record ON blob_uses (record);
",
    "
    CREATE TABLE changes (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL REFERENCES streams (id),
        key BLOB NOT NULL,
        at INTEGER NOT NULL,
        record INTEGER NOT NULL,
        emitted INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX changes_by_key ON changes (stream, key, version);
    CREATE INDEX changes_by_time ON changes (at);
",
    "
    -- Tokens of a batch are gathered in memory, 16 MiB of them, and written as one list of lists. At the usual 1 MiB a
    -- batch of texts writes many, which are then merged for longer than writing them took.
    INSERT INTO tokens (tokens, rank) VALUES ('hashsize', 16777216);
",
    "
    -- One row. Which history the numbers of changes and records count in: none in a backup, so that each database
    -- that is made from one draws its own.
    CREATE TABLE history (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        lineage BLOB
    ) STRICT;
    INSERT INTO history (id) VALUES (1);
",
    "
    -- When a blob was last put; none where that is known to be long ago.
    ALTER TABLE blobs ADD COLUMN put INTEGER;
    UPDATE blobs SET put = unixepoch() * 1000000;
    CREATE INDEX blobs_by_put ON blobs (put) WHERE put IS NOT NULL;
",
    "
    -- Lines of the log from before this, in microseconds since 1970, may be gone.
    ALTER TABLE history ADD COLUMN forgotten INTEGER NOT NULL DEFAULT -9000000000000000000;
",
    "
    -- Texts that looked like base64 were kept from searches. Records up to this number have none of those any more;
    -- null where no record has.
    ALTER TABLE history ADD COLUMN guessed_from INTEGER;
    UPDATE history SET guessed_from = 0 WHERE EXISTS (SELECT 1 FROM records);
",
    "
    -- Each entry ends with the number of its record.
    CREATE INDEX records_by_number ON records (stream);
    -- The index by value of a stream: its fields as a JSON list, null where nobody has looked at the declaration;
    -- the last record that is in a run; how many are, and how many records follow.
    CREATE TABLE field_indexes (
        stream INTEGER PRIMARY KEY,
        fields TEXT,
        covered INTEGER NOT NULL,
        indexed INTEGER NOT NULL,
        tail INTEGER NOT NULL
    ) STRICT;
    -- A run has the number of its first record.
    CREATE TABLE field_runs (
        stream INTEGER NOT NULL,
        run INTEGER NOT NULL,
        records INTEGER NOT NULL,
        PRIMARY KEY (stream, run)
    ) STRICT, WITHOUT ROWID;
    -- Values of a field, from the first one on, with the records of a run that have them.
    CREATE TABLE field_values (
        run INTEGER NOT NULL,
        field INTEGER NOT NULL,
        value BLOB NOT NULL,
        entries BLOB NOT NULL,
        PRIMARY KEY (run, field, value)
    ) STRICT, WITHOUT ROWID;
",
    "
    -- The short texts of a record that is stored from now on share a row of tokens. An earlier version would leave
    -- the row of replaced texts, so it must not write to such a database. Rows from before stay as they are.
",
];

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Migration {
    /// The database has the schema of this version.
    Done,
    /// The database is another program's.
    Foreign,
    /// A newer version of Stile made the database.
    Newer,
}

/// Returns the number of the schema of an older database of ours; `None` for any other database.
pub(super) fn outdated(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version")?;
    let is_ours = number("application_id")? == i64::from(APPLICATION);
    Ok((is_ours && (1..MIGRATIONS.len() as i64).contains(&version)).then_some(version))
}

/// Migrates a database to the schema of this version.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<Migration> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 =
        transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (tables > 0 || version > 0) {
        return Ok(Migration::Foreign);
    }
    let from = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(pending) = MIGRATIONS.get(from..) else { return Ok(Migration::Newer) };
    if pending.is_empty() {
        return Ok(Migration::Done);
    }
    for migration in pending {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(Migration::Done)
}
