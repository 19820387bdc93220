-- The tables of a database on PostgreSQL but for those of tokens and sign-in, which state/tables.sql
-- has. postgresql/schema.rs says what the tables are for.
--
-- The tables that grow with what a person keeps are partitioned by a hash of the tenant. All rows of
-- a person are in one partition of each, so a statement plans and reads one of sixteen. Statements
-- name the parents alone.
CREATE TABLE tenants (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    -- The SHA-256 of the issuer, a zero byte, and the subject.
    subject bytea UNIQUE,
    -- The issuer and the subject, for the operator's list. No statement finds a person by them.
    issuer text,
    name text,
    -- In microseconds since 1970.
    made bigint NOT NULL,
    -- What the folder of the person's files is recognised by, once it was served. Another folder at
    -- its place is refused until the operator adopts it.
    folder text,
    -- 1 while a copy of the person's rows is under way, and 2 while one of a whole database is.
    -- Such a tenant cannot be opened, and in the second case no other.
    incomplete bigint NOT NULL DEFAULT 0
);
-- At most one tenant belongs to no subject.
CREATE UNIQUE INDEX tenants_sole ON tenants ((true)) WHERE subject IS NULL;
CREATE TABLE seals (
    id bytea PRIMARY KEY,
    secret bytea NOT NULL,
    made bigint NOT NULL
);
-- The numbers of the last record and the last change of each tenant, which history they count in,
-- and the time before which lines of the log may be gone, in microseconds since 1970.
CREATE TABLE history (
    tenant bigint PRIMARY KEY REFERENCES tenants (number),
    records bigint NOT NULL,
    changes bigint NOT NULL,
    lineage bytea NOT NULL,
    forgotten bigint NOT NULL
);
CREATE TABLE connections (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    name bytea NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);
CREATE TABLE streams (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    connection bigint NOT NULL,
    name bytea NOT NULL,
    declaration bytea NOT NULL,
    terms bytea NOT NULL,
    revision bigint NOT NULL,
    -- Why nobody sees the stream, as JSON: it was removed, or it holds records that were.
    removed bytea,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name, connection),
    FOREIGN KEY (tenant, connection) REFERENCES connections (tenant, id)
);
-- How many records streams have.
CREATE TABLE stream_counts (
    tenant bigint NOT NULL,
    stream bigint NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (tenant, stream),
    FOREIGN KEY (tenant, stream) REFERENCES streams (tenant, id) ON DELETE CASCADE
);
CREATE TABLE records (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    stream bigint NOT NULL,
    key bytea NOT NULL,
    emitted bigint NOT NULL,
    ord bytea,
    happened bigint,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, stream) REFERENCES streams (tenant, id)
) PARTITION BY HASH (tenant);
CREATE UNIQUE INDEX records_by_key ON records (tenant, stream, key);
-- Where PostgreSQL has no statistics yet, all indexes that begin with the same columns look alike.
-- Those with a condition serve only queries that have the same condition.
CREATE INDEX records_by_order ON records (tenant, stream, ord, key) WHERE ord IS NOT NULL;
CREATE INDEX records_without_order ON records (tenant, stream, key) WHERE ord IS NULL;
CREATE INDEX records_by_ingest ON records (tenant, stream, emitted)
    WHERE emitted > -9000000000000000000;
CREATE INDEX records_by_time ON records (tenant, stream, happened) WHERE happened IS NOT NULL;
CREATE TABLE pieces (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    text bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);
CREATE TABLE tags (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    stream bigint NOT NULL,
    field bytea NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, stream) REFERENCES streams (tenant, id)
);
CREATE UNIQUE INDEX tags_by_field ON tags (tenant, stream, sha256(field));
-- The index of words. A row of text_words has the words of a text, under the number of its piece;
-- short texts of a record share the row of the first of them. A row of word_blocks has postings of a
-- token in a field: the numbers of texts and the places in them, packed, in order. No number in the
-- block is less than its first one, nor in an earlier block greater. A token is bytes, so that those
-- with a prefix are a range. records/postgresql/postings.rs says how both are packed.
CREATE TABLE text_words (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    words bytea NOT NULL,
    PRIMARY KEY (tenant, number)
) PARTITION BY HASH (tenant);
CREATE TABLE word_blocks (
    tenant bigint NOT NULL,
    tag bigint NOT NULL,
    token bytea NOT NULL,
    first bigint NOT NULL,
    postings bytea NOT NULL,
    PRIMARY KEY (tenant, tag, token, first)
) PARTITION BY HASH (tenant);
CREATE TABLE grants (
    tenant bigint NOT NULL,
    id bytea NOT NULL,
    terms bytea NOT NULL,
    revoked bigint,
    bound bytea,
    PRIMARY KEY (tenant, id)
);
CREATE TABLE blobs (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    digest bytea NOT NULL,
    bytes bigint NOT NULL,
    put bigint,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, digest)
) PARTITION BY HASH (tenant);
CREATE INDEX blobs_by_put ON blobs (tenant, put) WHERE put IS NOT NULL;
CREATE TABLE blob_pieces (
    tenant bigint NOT NULL,
    id bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);
ALTER TABLE blob_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE blob_uses (
    tenant bigint NOT NULL,
    digest bytea NOT NULL,
    media_type bytea NOT NULL,
    record bigint NOT NULL,
    field bytea NOT NULL
) PARTITION BY HASH (tenant);
CREATE UNIQUE INDEX blob_uses_once
    ON blob_uses (tenant, digest, sha256(media_type), record, sha256(field));
CREATE INDEX blob_uses_by_record ON blob_uses (tenant, record);
CREATE TABLE changes (
    tenant bigint NOT NULL,
    version bigint NOT NULL,
    stream bigint NOT NULL,
    key bytea NOT NULL,
    at bigint NOT NULL,
    record bigint NOT NULL,
    emitted bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, version),
    FOREIGN KEY (tenant, stream) REFERENCES streams (tenant, id)
) PARTITION BY HASH (tenant);
CREATE INDEX changes_by_key ON changes (tenant, stream, key, version);
CREATE INDEX changes_by_time ON changes (tenant, at);
-- Only queries that also ask for `id > 0` may use this index.
CREATE INDEX records_by_number ON records (tenant, stream, id) WHERE id > 0;
CREATE TABLE field_indexes (
    tenant bigint NOT NULL,
    stream bigint NOT NULL,
    fields bytea,
    covered bigint NOT NULL,
    indexed bigint NOT NULL,
    tail bigint NOT NULL,
    PRIMARY KEY (tenant, stream)
);
CREATE TABLE field_runs (
    tenant bigint NOT NULL,
    stream bigint NOT NULL,
    run bigint NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (tenant, stream, run)
);
CREATE TABLE field_values (
    tenant bigint NOT NULL,
    run bigint NOT NULL,
    field bigint NOT NULL,
    value bytea NOT NULL,
    entries bytea NOT NULL,
    PRIMARY KEY (tenant, run, field, value)
) PARTITION BY HASH (tenant);
-- How far the copies into this database are.
CREATE TABLE person_copies (
    tenant bigint NOT NULL,
    name bytea NOT NULL,
    last bytea,
    done bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
-- The partitions. Their number cannot be changed without a copy of all rows: 16 keep what a million
-- people have in tables that vacuum and a new index get through. One that grows too large can be
-- split alone, into two of 32.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['records', 'pieces', 'text_words', 'word_blocks', 'blobs',
        'blob_pieces', 'blob_uses', 'changes', 'field_values']
    LOOP
        FOR part IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I '
                'FOR VALUES WITH (MODULUS 16, REMAINDER %s)',
                name || '_' || to_char(part, 'FM00'), name, part);
        END LOOP;
    END LOOP;
END
$$;
-- Row-level security. PostgreSQL asks the policies of the table that a statement names, so those of
-- a parent say nothing about a statement that names a partition. Each partition has its own.
-- The query in the policy runs once for each statement, not once for each row.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
        WHERE c.relnamespace = 'stile'::regnamespace AND c.relkind IN ('r', 'p')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = '
            '(SELECT nullif(current_setting(''stile.tenant'', true), '''')::bigint))', name);
    END LOOP;
END
$$;
-- Counts the records of streams, so that no list of streams does.
CREATE FUNCTION count_records() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO stile.stream_counts AS known (tenant, stream, records)
            SELECT tenant, stream, count(*) FROM added GROUP BY tenant, stream
            ON CONFLICT (tenant, stream) DO UPDATE SET records = known.records + excluded.records;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE stile.stream_counts AS known SET records = known.records - gone.records
            FROM (SELECT tenant, stream, count(*) AS records FROM removed
                  GROUP BY tenant, stream) AS gone
            WHERE known.tenant = gone.tenant AND known.stream = gone.stream;
    ELSE
        -- Most updates leave records in their streams.
        INSERT INTO stile.stream_counts AS known (tenant, stream, records)
            SELECT tenant, stream, sum(sign) FROM (
                SELECT tenant, stream, 1 AS sign FROM added
                UNION ALL SELECT tenant, stream, -1 FROM removed) AS moved
            GROUP BY tenant, stream HAVING sum(sign) <> 0
            ON CONFLICT (tenant, stream) DO UPDATE SET records = known.records + excluded.records;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_added AFTER INSERT ON records REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_records();
CREATE TRIGGER count_removed AFTER DELETE ON records REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_records();
CREATE TRIGGER count_moved AFTER UPDATE ON records
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_records();
-- Refuses records from servers that began under an older schema and still run. Each write of records
-- or changes updates `history`. A later schema that older servers must not write to replaces the
-- function with one that asks for its number.
CREATE FUNCTION refuse_older_servers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(nullif(current_setting('stile.schema', true), ''), '0')::bigint < 1 THEN
        RAISE EXCEPTION 'a newer stile made the tables, and this server is older'
            USING ERRCODE = 'read_only_sql_transaction';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER refuse_older_servers BEFORE UPDATE ON history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_older_servers();
-- The key that signs tokens, which a state folder has in a file.
CREATE TABLE stile_access.token_key (
    "only" bigint PRIMARY KEY CHECK ("only" = 1),
    secret bytea NOT NULL,
    audience text NOT NULL
);
-- The lines of the journals of all servers, and how far each file of them was copied.
CREATE TABLE stile_access.journal_files (
    file text COLLATE "C" PRIMARY KEY,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    -- The chain value of the last line.
    chain bytea,
    -- When the last line was written, as the line has it.
    last text COLLATE "C" NOT NULL,
    -- 1 if the lines were removed because of their age.
    retired bigint NOT NULL DEFAULT 0,
    -- How many of the lines the owner removed.
    removed bigint NOT NULL DEFAULT 0
);
CREATE TABLE stile_access.journal_lines (
    file text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    at text COLLATE "C" NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (file, n)
);
CREATE INDEX journal_lines_by_time ON stile_access.journal_lines (at, file, n);
