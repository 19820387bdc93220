//! The tables, and the migration of older databases.
//!
//! The tables are those of the SQLite engine, in a schema of their own, with two differences. All
//! texts are bytes, since PostgreSQL's texts cannot hold U+0000 and compare by language. And
//! `tokens` is a plain table with one row for each token of a piece, since a `tsvector` has an
//! upper size and forgets positions. A name that may be long is indexed by its SHA-256.
//!
//! Each row belongs to a tenant. `tenant` is the first column of every primary key, unique key,
//! index and reference, so that the tables can be partitioned by tenant, and numbers count within a
//! tenant. Row-level security hides the rows of all tenants but the one that a transaction names.
//! The owner of the tables is no exception, so a migration that changes rows must first lift that
//! (`NO FORCE ROW LEVEL SECURITY`).
//!
//! `history` has one row for each tenant. A writer locks the row, so one transaction writes at a
//! time for a tenant, and takes the numbers of records and changes from the row. So numbers grow in
//! the order of commits, which cursors and the list of changes rely on and which sequences do not
//! promise.

use super::connection::PgConnection;
use super::error::PgError;
use super::params::params;

/// The schema that has the tables.
const SCHEMA: &str = "stile";

/// The number of the lock that a migration holds: `Stir`, as in the SQLite engine.
const LOCK: i64 = 0x5374_6972;

/// Each item migrates the schema from the version that is its index. Items are never edited; a
/// change of the schema adds one.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE tenants (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL UNIQUE,
        -- The SHA-256 of the issuer, a zero byte, and the subject.
        subject bytea UNIQUE,
        -- In microseconds since 1970.
        made bigint NOT NULL
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
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, name, connection),
        FOREIGN KEY (tenant, connection) REFERENCES connections (tenant, id)
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
    );
    CREATE UNIQUE INDEX records_by_key ON records (tenant, stream, key);
    -- Where PostgreSQL has no statistics yet, all indexes that begin with the same columns look alike.
    -- Those with a condition serve only queries that have the same condition.
    CREATE INDEX records_by_order ON records (tenant, stream, ord, key) WHERE ord IS NOT NULL;
    CREATE INDEX records_without_order ON records (tenant, stream, key) WHERE ord IS NULL;
    CREATE INDEX records_by_time ON records (tenant, stream, happened) WHERE happened IS NOT NULL;
    CREATE TABLE pieces (
        tenant bigint NOT NULL,
        id bigint NOT NULL,
        text bytea NOT NULL,
        PRIMARY KEY (tenant, id)
    );
    CREATE TABLE tags (
        tenant bigint NOT NULL,
        id bigint NOT NULL,
        stream bigint NOT NULL,
        field bytea NOT NULL,
        PRIMARY KEY (tenant, id),
        FOREIGN KEY (tenant, stream) REFERENCES streams (tenant, id)
    );
    CREATE UNIQUE INDEX tags_by_field ON tags (tenant, stream, sha256(field));
    CREATE TABLE tokens (
        tenant bigint NOT NULL,
        tag bigint NOT NULL,
        token bytea NOT NULL,
        number bigint NOT NULL,
        positions int4[] NOT NULL,
        PRIMARY KEY (tenant, tag, token, number)
    );
    CREATE INDEX tokens_by_piece ON tokens (tenant, number);
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
    );
    CREATE INDEX blobs_by_put ON blobs (tenant, put) WHERE put IS NOT NULL;
    CREATE TABLE blob_pieces (
        tenant bigint NOT NULL,
        id bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (tenant, id)
    );
    ALTER TABLE blob_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
    CREATE TABLE blob_uses (
        tenant bigint NOT NULL,
        digest bytea NOT NULL,
        media_type bytea NOT NULL,
        record bigint NOT NULL,
        field bytea NOT NULL
    );
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
    );
    CREATE INDEX changes_by_key ON changes (tenant, stream, key, version);
    CREATE INDEX changes_by_time ON changes (tenant, at);
    -- The query in the policy runs once for each statement, not once for each row.
    DO $$
    DECLARE
        name text;
    BEGIN
        FOREACH name IN ARRAY ARRAY['history', 'connections', 'streams', 'records', 'pieces', 'tags',
            'tokens', 'grants', 'blobs', 'blob_pieces', 'blob_uses', 'changes']
        LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = '
                '(SELECT nullif(current_setting(''stile.tenant'', true), '''')::bigint))', name);
        END LOOP;
    END
    $$;
",
    ACCESS,
    JOURNAL,
    FIELD_VALUES,
    FENCE,
    PERSON_COPIES,
    "ALTER TABLE stile_access.refresh_tokens ADD COLUMN parent bytea;",
];

/// The lines of the journals of all servers, and how far each file of them was copied.
const JOURNAL: &str = "
    CREATE TABLE stile_access.journal_files (
        file text COLLATE \"C\" PRIMARY KEY,
        lines bigint NOT NULL,
        bytes bigint NOT NULL,
        -- The chain value of the last line; none where an older version wrote it.
        chain bytea,
        -- When the last line was written, as the line has it.
        last text COLLATE \"C\" NOT NULL,
        -- 1 if the lines were removed because of their age.
        retired bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE stile_access.journal_lines (
        file text COLLATE \"C\" NOT NULL,
        n bigint NOT NULL,
        at text COLLATE \"C\" NOT NULL,
        line bytea NOT NULL,
        PRIMARY KEY (file, n)
    );
    CREATE INDEX journal_lines_by_time ON stile_access.journal_lines (at, file, n);
";

/// The index by value, as the SQLite engine has it.
const FIELD_VALUES: &str = "
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
    );
    DO $$
    DECLARE
        name text;
    BEGIN
        FOREACH name IN ARRAY ARRAY['field_indexes', 'field_runs', 'field_values']
        LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
            EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
            EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = '
                '(SELECT nullif(current_setting(''stile.tenant'', true), '''')::bigint))', name);
        END LOOP;
    END
    $$;
";

/// Refuses records from servers that began under an older schema and still run: they do not know
/// the index by value. Each write of records or changes updates `history`. A later schema that
/// older servers must not write to replaces the function with one that asks for its number.
const FENCE: &str = "
    CREATE FUNCTION refuse_older_servers() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF coalesce(nullif(current_setting('stile.schema', true), ''), '0')::bigint < 5 THEN
            RAISE EXCEPTION 'a newer stile made the tables, and this server is older'
                USING ERRCODE = 'read_only_sql_transaction';
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER refuse_older_servers BEFORE UPDATE ON history
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_older_servers();
";

/// How far the copies of single people into this database are. A tenant whose rows are not yet all
/// there cannot be opened.
const PERSON_COPIES: &str = "
    ALTER TABLE tenants ADD COLUMN incomplete bigint NOT NULL DEFAULT 0;
    CREATE TABLE person_copies (
        tenant bigint NOT NULL,
        name bytea NOT NULL,
        last bytea,
        done bigint NOT NULL,
        PRIMARY KEY (tenant, name)
    );
    ALTER TABLE person_copies ENABLE ROW LEVEL SECURITY;
    ALTER TABLE person_copies FORCE ROW LEVEL SECURITY;
    CREATE POLICY own_tenant ON person_copies USING (tenant =
        (SELECT nullif(current_setting('stile.tenant', true), '')::bigint));
";

/// Tells the database under which schema this server writes.
pub(super) fn announcement() -> String {
    format!("SET LOCAL stile.schema = '{}'; ", MIGRATIONS.len())
}

/// The tables of keys, tokens and sign-in, as `state` has them in SQLite.
const ACCESS: &str = "
    CREATE SCHEMA stile_access;
    CREATE TABLE stile_access.token_key (
        \"only\" bigint PRIMARY KEY CHECK (\"only\" = 1),
        secret bytea NOT NULL,
        audience text NOT NULL
    );
    CREATE TABLE stile_access.tokens (
        jti text PRIMARY KEY,
        subject text NOT NULL,
        client text,
        scopes text NOT NULL,
        issued bigint NOT NULL,
        expires bigint NOT NULL,
        revoked bigint,
        grant_id text,
        owner bigint NOT NULL DEFAULT 0,
        audience text,
        shown bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE stile_access.spaces (
        audience text PRIMARY KEY,
        folder text UNIQUE,
        path text
    );
    CREATE TABLE stile_access.clients (
        id text PRIMARY KEY,
        kind text NOT NULL,
        name text NOT NULL,
        redirects text NOT NULL,
        created bigint NOT NULL,
        used bigint,
        ended bigint
    );
    CREATE TABLE stile_access.authorizations (
        id text PRIMARY KEY,
        client text NOT NULL,
        client_name text NOT NULL,
        subject text NOT NULL,
        audience text NOT NULL,
        scopes text NOT NULL,
        grant_id text,
        single_use bigint NOT NULL,
        created bigint NOT NULL,
        expires bigint NOT NULL,
        used bigint,
        ended bigint
    );
    CREATE INDEX authorizations_of_clients ON stile_access.authorizations (client);
    CREATE TABLE stile_access.authorization_codes (
        digest bytea PRIMARY KEY,
        \"authorization\" text NOT NULL,
        redirect text,
        challenge text NOT NULL,
        created bigint NOT NULL,
        spent bigint
    );
    CREATE TABLE stile_access.refresh_tokens (
        digest bytea PRIMARY KEY,
        \"authorization\" text NOT NULL,
        created bigint NOT NULL,
        spent bigint
    );
    CREATE INDEX refresh_tokens_of_authorizations
        ON stile_access.refresh_tokens (\"authorization\");
    CREATE TABLE stile_access.authorization_tokens (
        jti text PRIMARY KEY,
        \"authorization\" text NOT NULL
    );
    CREATE INDEX tokens_of_authorizations
        ON stile_access.authorization_tokens (\"authorization\");
    CREATE TABLE stile_access.browser_sessions (
        digest bytea PRIMARY KEY,
        subject text NOT NULL,
        created bigint NOT NULL,
        used bigint NOT NULL,
        role text
    );
    CREATE TABLE stile_access.sign_in_links (
        digest bytea PRIMARY KEY,
        subject text NOT NULL,
        created bigint NOT NULL
    );
    CREATE TABLE stile_access.owner_password (
        \"only\" bigint PRIMARY KEY CHECK (\"only\" = 1),
        subject text NOT NULL,
        salt bytea NOT NULL,
        hash bytea NOT NULL,
        memory_kib bigint NOT NULL,
        passes bigint NOT NULL,
        changed bigint NOT NULL
    );
    CREATE TABLE stile_access.passkeys (
        credential bytea PRIMARY KEY,
        subject text NOT NULL,
        name text NOT NULL,
        domain text NOT NULL,
        public_key bytea NOT NULL,
        counter bigint NOT NULL,
        created bigint NOT NULL,
        last_used bigint
    );
    CREATE TABLE stile_access.short_lived (
        kind text NOT NULL,
        key text NOT NULL,
        owner text NOT NULL,
        value text NOT NULL,
        -- In microseconds since 1970.
        made bigint NOT NULL,
        -- In seconds since 1970.
        ends bigint NOT NULL,
        PRIMARY KEY (kind, key)
    );
    CREATE INDEX short_lived_of_owners ON stile_access.short_lived (kind, owner);
    CREATE INDEX short_lived_by_end ON stile_access.short_lived (ends);
    CREATE TABLE stile_access.token_uses (
        jti text PRIMARY KEY,
        used bigint NOT NULL
    );
";

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migration {
    /// The database has the schema of this version.
    Done,
    /// The schema is another program's.
    Foreign,
    /// A newer version of Stile made the schema.
    Newer,
}

/// Migrates a database to the schema of this version. Servers that start at once wait for each
/// other.
pub(crate) fn migrate(connection: &PgConnection) -> Result<Migration, PgError> {
    connection.batch("BEGIN")?;
    connection.rows("SELECT pg_advisory_xact_lock($1)", params![LOCK])?;
    let migration = migrate_locked(connection)?;
    connection.batch(if migration == Migration::Done { "COMMIT" } else { "ROLLBACK" })?;
    Ok(migration)
}

fn migrate_locked(connection: &PgConnection) -> Result<Migration, PgError> {
    let found = connection.one(
        "SELECT to_regclass($1 || '.schema_version')::text, \
         EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)",
        params![SCHEMA],
    )?;
    let (table, has_tables): (Option<String>, bool) = match &found {
        Some(row) => (row.try_get(0)?, row.try_get(1)?),
        None => (None, false),
    };
    let version = match table {
        Some(_) => {
            let row = connection.one("SELECT version FROM stile.schema_version", &[])?;
            row.map(|row| row.try_get::<_, i64>(0)).transpose()?
        }
        None => Some(0).filter(|_| !has_tables),
    };
    let Some(version) = version else { return Ok(Migration::Foreign) };
    let from = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(pending) = MIGRATIONS.get(from..) else { return Ok(Migration::Newer) };
    if pending.is_empty() {
        return Ok(Migration::Done);
    }
    apply(connection, version == 0, pending)?;
    Ok(Migration::Done)
}

/// Runs the next migrations.
fn apply(connection: &PgConnection, is_new: bool, pending: &[&str]) -> Result<(), PgError> {
    if is_new {
        connection.batch(
            "CREATE SCHEMA IF NOT EXISTS stile; \
             CREATE TABLE stile.schema_version (id bigint PRIMARY KEY CHECK (id = 1), version bigint NOT NULL); \
             INSERT INTO stile.schema_version (id, version) VALUES (1, 0)",
        )?;
    }
    connection.batch(&format!("SET LOCAL search_path = stile, pg_catalog; {}", announcement()))?;
    for migration in pending {
        connection.batch(migration)?;
    }
    let made = i64::try_from(pending.len()).unwrap_or(i64::MAX);
    connection.rows("UPDATE stile.schema_version SET version = version + $1", params![made])?;
    Ok(())
}

/// Makes the tables of an earlier version in the database at an address.
#[cfg(test)]
pub(crate) fn older_on_postgresql(address: &str, version: usize) {
    let settings = super::settings::Settings::parse(address).unwrap();
    let connection = PgConnection::open(&std::sync::Arc::new(settings)).unwrap();
    connection.batch("BEGIN").unwrap();
    apply(&connection, true, &MIGRATIONS[..version]).unwrap();
    connection.batch("COMMIT").unwrap();
}

/// Returns whether the user of a connection skips row-level security.
pub(crate) fn skips_row_security(connection: &PgConnection) -> Result<bool, PgError> {
    let text = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user";
    let row = connection.one(text, &[])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}
