//! The two roles of a database: the owner of the tables, and the role of the servers.
//!
//! The owner makes the tables and may change them. The servers' role reads and writes their rows
//! and may do nothing else: it changes no table, policy or trigger, and names no partition. So
//! whatever goes wrong in a server, row-level security stays. One role may be both, which is said.

use super::connection::PgConnection;
use super::error::{DatabaseError, PgError};
use super::params::params;
use super::schema::{self, Migration};

/// What the role of a connection may do beyond reading and writing rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseRole {
    /// The role skips row-level security: it is a superuser or has `BYPASSRLS`.
    SkipsRowSecurity,
    /// The role may change the tables and the policies: it owns them, or may act as their owner.
    OwnsTables,
    /// The role reads and writes rows.
    OfServers,
}

impl DatabaseRole {
    /// Returns what servers with this role lack, and what to do. `None` if nothing.
    pub fn caution(self) -> Option<&'static str> {
        match self {
            Self::SkipsRowSecurity => Some(
                "the role in the address of the database is a superuser or has BYPASSRLS, so \
                 PostgreSQL does not check that each person's records stay apart; connect as a \
                 role that has neither",
            ),
            Self::OwnsTables => Some(
                "the role in the address of the database owns the tables, so a fault in a server \
                 could lift row-level security; give servers a role of their own with `stile \
                 database prepare --servers-role ROLE`",
            ),
            Self::OfServers => None,
        }
    }
}

/// Returns what the role of a connection may do.
pub(super) fn role_of(connection: &PgConnection) -> Result<DatabaseRole, PgError> {
    let text = "SELECT r.rolsuper OR r.rolbypassrls, EXISTS (SELECT FROM pg_namespace n \
                WHERE n.nspname IN ('stile', 'stile_access') \
                AND (pg_has_role(r.oid, n.nspowner, 'MEMBER') \
                OR has_schema_privilege(r.oid, n.oid, 'CREATE'))) \
                FROM pg_roles r WHERE r.rolname = current_user";
    let row = connection.one(text, &[])?.ok_or(PgError::NoAnswer)?;
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (true, _) => DatabaseRole::SkipsRowSecurity,
        (false, true) => DatabaseRole::OwnsTables,
        (false, false) => DatabaseRole::OfServers,
    })
}

impl Migration {
    /// Refuses a database whose tables cannot be used.
    pub(super) fn done(self) -> Result<(), DatabaseError> {
        match self {
            Self::Done => Ok(()),
            Self::Foreign => Err(DatabaseError::Foreign),
            Self::Newer => Err(DatabaseError::Newer),
            Self::NotAllowed => Err(DatabaseError::NotPrepared),
        }
    }
}

/// Lets a role read and write rows, and nothing else.
pub(super) fn grant(connection: &PgConnection, role: &str) -> Result<(), DatabaseError> {
    let refused = |reason| DatabaseError::NoServersRole { role: role.to_owned(), reason };
    let text = "SELECT r.rolsuper OR r.rolbypassrls, pg_has_role(r.oid, n.nspowner, 'MEMBER'), \
                quote_ident(r.rolname) FROM pg_roles r, pg_namespace n \
                WHERE r.rolname = $1 AND n.nspname = 'stile'";
    let row = connection.one(text, params![role])?;
    let row = row.ok_or_else(|| refused("PostgreSQL knows no such role; make it"))?;
    if row.try_get(0).map_err(PgError::from)? {
        return Err(refused(
            "it is a superuser or has BYPASSRLS, so row-level security would not hold for it; \
             name a role that has neither",
        ));
    }
    if row.try_get(1).map_err(PgError::from)? {
        return Err(refused(
            "it owns the tables, or is a member of the role that does; name a role of its own",
        ));
    }
    let quoted: &str = row.try_get(2).map_err(PgError::from)?;
    // Rights on a partition would lead around the policies of its parent.
    let text = "SELECT string_agg(format('%I.%I', n.nspname, c.relname), ', ') \
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname IN ('stile', 'stile_access') AND c.relkind IN ('r', 'p') \
                AND NOT c.relispartition AND c.relname <> 'schema_version'";
    let row = connection.one(text, &[])?.ok_or(PgError::NoAnswer)?;
    let tables: &str = row.try_get(0).map_err(PgError::from)?;
    connection.batch(&format!(
        "BEGIN; {} \
         REVOKE ALL ON SCHEMA stile, stile_access FROM {quoted}; \
         REVOKE ALL ON ALL TABLES IN SCHEMA stile, stile_access FROM {quoted}; \
         GRANT USAGE ON SCHEMA stile, stile_access TO {quoted}; \
         GRANT SELECT ON stile.schema_version TO {quoted}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {quoted}; \
         COMMIT",
        schema::LOCKED
    ))?;
    Ok(())
}
