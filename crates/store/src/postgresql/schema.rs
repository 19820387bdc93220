//! The tables, and the migration of older databases.
//!
//! The tables are those of the SQLite engine, in a schema of their own, with two differences. All
//! texts are bytes, since PostgreSQL's texts cannot hold U+0000 and compare by language. And the
//! index of words is in blocks of postings, since a `tsvector` has an upper size and forgets
//! positions. A name that may be long is indexed by its SHA-256.
//!
//! Each row belongs to a tenant. `tenant` is the first column of every primary key, unique key,
//! index and reference, and numbers count within a tenant. The large tables are partitioned by a
//! hash of it. Row-level security hides the rows of all tenants but the one that a transaction
//! names. The owner of the tables is no exception, so a migration that changes rows must first lift
//! that (`NO FORCE ROW LEVEL SECURITY`).
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

/// Waits for the lock that a migration holds until its transaction ends: `Stir`, as in the SQLite
/// engine.
pub(super) const LOCKED: &str = "SELECT pg_advisory_xact_lock(1400138098);";

/// The tables of records, tenants and journals.
const TABLES: &str = include_str!("schema.sql");

/// The tables of keys, tokens and sign-in, in the words of SQLite.
const ACCESS: &str = include_str!("../state/tables.sql");

/// Each item changes the schema of the version that is its index and one more. Items are never
/// edited; a change of the schema adds one.
const CHANGES: &[&str] = &[];

/// Returns the statements that make all tables.
fn creation() -> String {
    let access = ACCESS
        .replace(" STRICT, WITHOUT ROWID;", ";")
        .replace(" STRICT;", ";")
        .replace(" INTEGER", " bigint")
        .replace(" BLOB", " bytea");
    format!(
        "CREATE SCHEMA stile_access; SET LOCAL search_path = stile_access, pg_catalog; {access} \
         SET LOCAL search_path = stile, pg_catalog; {TABLES}"
    )
}

/// Returns the SQL that sets under which schema this server writes.
pub(super) fn announcement() -> String {
    format!("SET LOCAL stile.schema = '{}'; ", 1 + CHANGES.len())
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migration {
    /// The database has the schema of this version.
    Done,
    /// The schema is another program's.
    Foreign,
    /// A newer version of Stile made the schema.
    Newer,
    /// The schema is not of this version, and the role of the connection may not change it.
    NotAllowed,
}

/// Migrates a database to the schema of this version. Servers that start at once wait for each
/// other.
pub(crate) fn migrate(connection: &PgConnection) -> Result<Migration, PgError> {
    migrate_by(connection, CHANGES)
}

/// Makes the tables, or makes those changes that they do not have yet.
pub(super) fn migrate_by(
    connection: &PgConnection,
    changes: &[&str],
) -> Result<Migration, PgError> {
    connection.batch("BEGIN")?;
    connection.batch(LOCKED)?;
    let migration = migrate_locked(connection, changes)?;
    connection.batch(if migration == Migration::Done { "COMMIT" } else { "ROLLBACK" })?;
    Ok(migration)
}

fn migrate_locked(connection: &PgConnection, changes: &[&str]) -> Result<Migration, PgError> {
    let found = connection.one(
        "SELECT coalesce(bool_or(c.relname = 'schema_version'), false), count(c.oid) > 0, \
         coalesce(bool_and(has_schema_privilege(n.oid, 'USAGE')), false), \
         coalesce(bool_and(pg_has_role(n.nspowner, 'MEMBER')), false), \
         has_database_privilege(current_database(), 'CREATE') \
         FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1",
        params![SCHEMA],
    )?;
    let found = found.ok_or(PgError::NoAnswer)?;
    let (is_ours, has_tables): (bool, bool) = (found.try_get(0)?, found.try_get(1)?);
    let (may_use, owns): (bool, bool) = (found.try_get(2)?, found.try_get(3)?);
    let may_create: bool = found.try_get(4)?;
    let version: i64 = if is_ours {
        if !may_use {
            return Ok(Migration::NotAllowed);
        }
        match connection.one("SELECT version FROM stile.schema_version", &[])? {
            Some(row) => row.try_get(0)?,
            None => return Ok(Migration::Foreign),
        }
    } else if has_tables {
        return Ok(Migration::Foreign);
    } else if !may_create {
        return Ok(Migration::NotAllowed);
    } else {
        connection.batch(
            "CREATE SCHEMA IF NOT EXISTS stile; \
             CREATE TABLE stile.schema_version (id bigint PRIMARY KEY CHECK (id = 1), version bigint NOT NULL); \
             INSERT INTO stile.schema_version (id, version) VALUES (1, 1)",
        )?;
        connection.batch(&creation())?;
        1
    };
    let made = usize::try_from(version - 1).unwrap_or(usize::MAX);
    let Some(pending) = changes.get(made..) else { return Ok(Migration::Newer) };
    if pending.is_empty() {
        return Ok(Migration::Done);
    }
    if !owns {
        return Ok(Migration::NotAllowed);
    }
    connection.batch(&format!("SET LOCAL search_path = stile, pg_catalog; {}", announcement()))?;
    pending.iter().try_for_each(|change| connection.batch(change))?;
    let pending = i64::try_from(pending.len()).unwrap_or(i64::MAX);
    connection.rows("UPDATE stile.schema_version SET version = version + $1", params![pending])?;
    Ok(Migration::Done)
}
