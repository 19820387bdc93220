-- The tables of the history. What each client keeps is counted, so that bulk of one client takes no
-- room from the others. The class of a version is a rule of domain::history::retention.

CREATE TABLE spaces (
    space INTEGER PRIMARY KEY,
    folder TEXT UNIQUE NOT NULL,
    path TEXT NOT NULL
) STRICT;
CREATE TABLE changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    space INTEGER NOT NULL,
    call INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    destination TEXT,
    before BLOB,
    size_before INTEGER NOT NULL,
    after BLOB,
    version INTEGER,
    tool TEXT NOT NULL,
    subject TEXT NOT NULL,
    client TEXT,
    token TEXT,
    mode INTEGER,
    attributes TEXT,
    -- Whose room the version before takes, and whether the same client wrote that version.
    share TEXT NOT NULL,
    is_later INTEGER NOT NULL,
    is_bulk INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- The first change that an undo took back with this one.
    takes_back INTEGER
) STRICT;
-- Each question of `reading.rs` is answered by one of these, so that it reads what it finds and not
-- what the history keeps.
CREATE INDEX changes_by_path ON changes (space, path);
CREATE INDEX changes_by_destination ON changes (space, destination)
    WHERE destination IS NOT NULL;
CREATE INDEX changes_by_author ON changes (space, coalesce(client, subject), at);
CREATE INDEX changes_by_share ON changes (space, share);
CREATE INDEX changes_by_time ON changes (space, at);
CREATE INDEX changes_by_tool ON changes (space, tool);
CREATE INDEX changes_of_call ON changes (call);
CREATE INDEX appends_by_before ON changes (before) WHERE kind = 'appended';
CREATE INDEX appends_by_after ON changes (after) WHERE kind = 'appended';
CREATE INDEX changes_by_version ON changes (version) WHERE version IS NOT NULL;
CREATE TABLE versions (
    version INTEGER PRIMARY KEY,
    hash BLOB UNIQUE NOT NULL,
    size INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    file TEXT,
    -- The share that the version counts for, whether it is a first version, and the last change
    -- that needs it.
    share TEXT NOT NULL,
    is_first INTEGER NOT NULL,
    last_change INTEGER NOT NULL DEFAULT 0,
    last_path TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX versions_by_file ON versions (file) WHERE file IS NOT NULL;
CREATE INDEX laters ON versions (last_change) WHERE is_first = 0;
CREATE INDEX laters_of_file ON versions (last_path, share, last_change) WHERE is_first = 0;
CREATE TABLE contents (
    version INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE held (
    name TEXT PRIMARY KEY NOT NULL,
    path TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE settings (
    name TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What folders were like before calls removed or moved them or gave them another mode, and where a
-- moved one went.
CREATE TABLE folders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    space INTEGER NOT NULL,
    path TEXT NOT NULL,
    mode INTEGER NOT NULL,
    destination TEXT,
    -- 0 for a call that changed no file.
    call INTEGER NOT NULL,
    at INTEGER NOT NULL,
    tool TEXT NOT NULL,
    subject TEXT NOT NULL,
    client TEXT,
    share TEXT NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX folders_by_path ON folders (space, path);
CREATE INDEX folders_by_author ON folders (space, coalesce(client, subject), at);
CREATE INDEX folders_by_time ON folders (space, at);
CREATE INDEX folders_of_call ON folders (call);

-- Room for a version that is being written to a file.
CREATE TABLE reservations (
    file TEXT PRIMARY KEY NOT NULL,
    share TEXT NOT NULL,
    is_first INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Changes that were made without a row, since there was no room for one.
CREATE TABLE unrecorded (
    space INTEGER NOT NULL,
    share TEXT NOT NULL,
    -- The client, or the user where the token names none.
    client TEXT NOT NULL,
    changes INTEGER NOT NULL,
    -- The files of the first of them, as a JSON array.
    paths TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (space, share)
) STRICT, WITHOUT ROWID;

-- The bytes of each share. The triggers keep them.
CREATE TABLE shares (
    share TEXT PRIMARY KEY NOT NULL,
    firsts INTEGER NOT NULL DEFAULT 0,
    -- Of these, the rows that tell of what the client itself made.
    bulk_rows INTEGER NOT NULL DEFAULT 0,
    laters INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TRIGGER changes_in AFTER INSERT ON changes BEGIN
    INSERT OR IGNORE INTO shares (share) VALUES (new.share);
    UPDATE shares SET
        firsts = firsts + new.bytes,
        bulk_rows = bulk_rows + CASE WHEN new.is_bulk THEN new.bytes ELSE 0 END
        WHERE share = new.share;
END;
CREATE TRIGGER changes_out AFTER DELETE ON changes BEGIN
    UPDATE shares SET
        firsts = firsts - old.bytes,
        bulk_rows = bulk_rows - CASE WHEN old.is_bulk THEN old.bytes ELSE 0 END
        WHERE share = old.share;
END;
CREATE TRIGGER folders_in AFTER INSERT ON folders BEGIN
    INSERT OR IGNORE INTO shares (share) VALUES (new.share);
    UPDATE shares SET firsts = firsts + new.bytes WHERE share = new.share;
END;
CREATE TRIGGER folders_out AFTER DELETE ON folders BEGIN
    UPDATE shares SET firsts = firsts - old.bytes WHERE share = old.share;
END;
CREATE TRIGGER versions_in AFTER INSERT ON versions BEGIN
    INSERT OR IGNORE INTO shares (share) VALUES (new.share);
    UPDATE shares SET
        firsts = firsts + CASE WHEN new.is_first THEN new.stored ELSE 0 END,
        laters = laters + CASE WHEN new.is_first THEN 0 ELSE new.stored END
        WHERE share = new.share;
END;
CREATE TRIGGER versions_out AFTER DELETE ON versions BEGIN
    UPDATE shares SET
        firsts = firsts - CASE WHEN old.is_first THEN old.stored ELSE 0 END,
        laters = laters - CASE WHEN old.is_first THEN 0 ELSE old.stored END
        WHERE share = old.share;
END;
CREATE TRIGGER versions_changed AFTER UPDATE OF share, is_first ON versions BEGIN
    UPDATE shares SET
        firsts = firsts - CASE WHEN old.is_first THEN old.stored ELSE 0 END,
        laters = laters - CASE WHEN old.is_first THEN 0 ELSE old.stored END
        WHERE share = old.share;
    INSERT OR IGNORE INTO shares (share) VALUES (new.share);
    UPDATE shares SET
        firsts = firsts + CASE WHEN new.is_first THEN new.stored ELSE 0 END,
        laters = laters + CASE WHEN new.is_first THEN 0 ELSE new.stored END
        WHERE share = new.share;
END;
