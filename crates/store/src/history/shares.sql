-- What each client keeps, so that bulk of one client takes no room from the others.
-- The class of a version is a rule of domain::history::retention.

ALTER TABLE changes ADD COLUMN share TEXT NOT NULL DEFAULT '';
ALTER TABLE changes ADD COLUMN is_later INTEGER NOT NULL DEFAULT 0;
ALTER TABLE changes ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE changes SET
    share = CASE
        WHEN client IS NOT NULL THEN 'client ' || client
        WHEN token IS NOT NULL THEN 'token ' || token
        ELSE 'user ' || subject
    END,
    bytes = 300 + 2 * (length(CAST(path AS BLOB)) + length(CAST(coalesce(destination, '') AS BLOB)))
        + length(CAST(coalesce(attributes, '') AS BLOB));
UPDATE changes SET is_later = 1 WHERE before IS NOT NULL AND before = (
    SELECT earlier.after FROM changes AS earlier
    WHERE earlier.space = changes.space AND earlier.path = changes.path
        AND earlier.share = changes.share AND earlier.kind <> 'moved'
        AND earlier.number < changes.number
    ORDER BY earlier.number DESC LIMIT 1
);

-- The share that a version counts for, whether it is a first version, and the last change that
-- needs it.
ALTER TABLE versions ADD COLUMN share TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN is_first INTEGER NOT NULL DEFAULT 1;
ALTER TABLE versions ADD COLUMN last_change INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN last_path TEXT NOT NULL DEFAULT '';
UPDATE versions SET
    is_first = EXISTS (
        SELECT 1 FROM changes WHERE version = versions.version AND is_later = 0
    ),
    share = coalesce((
        SELECT share FROM changes WHERE version = versions.version ORDER BY is_later, number LIMIT 1
    ), ''),
    last_change = coalesce((
        SELECT number FROM changes WHERE version = versions.version ORDER BY number DESC LIMIT 1
    ), 0),
    last_path = coalesce((
        SELECT path FROM changes WHERE version = versions.version ORDER BY number DESC LIMIT 1
    ), '');
CREATE INDEX laters ON versions (last_change) WHERE is_first = 0;
CREATE INDEX laters_of_file ON versions (last_path, share, last_change) WHERE is_first = 0;

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
    client TEXT,
    changes INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (space, share)
) STRICT, WITHOUT ROWID;

-- The bytes of each share. The triggers keep them.
CREATE TABLE shares (
    share TEXT PRIMARY KEY NOT NULL,
    firsts INTEGER NOT NULL DEFAULT 0,
    laters INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO shares (share, firsts, laters)
    SELECT share, sum(firsts), sum(laters) FROM (
        SELECT share, bytes AS firsts, 0 AS laters FROM changes
        UNION ALL
        SELECT share, CASE WHEN is_first THEN stored ELSE 0 END,
            CASE WHEN is_first THEN 0 ELSE stored END FROM versions
    ) GROUP BY share;

CREATE TRIGGER changes_in AFTER INSERT ON changes BEGIN
    INSERT OR IGNORE INTO shares (share) VALUES (new.share);
    UPDATE shares SET firsts = firsts + new.bytes WHERE share = new.share;
END;
CREATE TRIGGER changes_out AFTER DELETE ON changes BEGIN
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
