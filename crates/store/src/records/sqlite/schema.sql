-- The tables of records. records/sqlite/schema.rs says what they are for.
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
    -- Why nobody sees the stream, as JSON: it was removed, or it holds records that were.
    removed TEXT,
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
-- The latest record of a stream is its last entry.
CREATE INDEX records_by_ingest ON records (stream, emitted);
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
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    -- When the blob was last put; none where that is known to be long ago.
    put INTEGER
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
CREATE INDEX blobs_by_put ON blobs (put) WHERE put IS NOT NULL;
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
-- Tokens of a batch are gathered in memory, 16 MiB of them, and written as one list of lists. At the usual 1 MiB a
-- batch of texts writes many, which are then merged for longer than writing them took.
INSERT INTO tokens (tokens, rank) VALUES ('hashsize', 16777216);
-- One row. Which history the numbers of changes and records count in: none in a backup, so that each database
-- that is made from one draws its own.
CREATE TABLE history (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    lineage BLOB,
    -- Lines of the log from before this, in microseconds since 1970, may be gone.
    forgotten INTEGER NOT NULL DEFAULT -9000000000000000000
) STRICT;
INSERT INTO history (id) VALUES (1);
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
