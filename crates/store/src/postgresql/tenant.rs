//! The people who have rows of their own in a database.
//!
//! A person is the subject of an issuer of tokens. The table `tenants` finds people by a digest of
//! both, and has both for the operator's list. A deployment for one person has the sole tenant,
//! which belongs to no subject.

use std::sync::Arc;

use ring::digest::{Context, SHA256};

use super::connection::PgConnection;
use super::database::Database;
use super::error::{DatabaseError, PgError};
use super::params::params;
use crate::now;
use crate::read_limit::ReadLimit;

/// A person with rows of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    number: i64,
    id: Arc<str>,
    /// Whether the tenant belongs to no subject.
    is_sole: bool,
}

impl Tenant {
    /// Reads the columns `number`, `id` and whether no subject is there.
    pub(super) fn of_row(row: &tokio_postgres::Row) -> Result<Self, PgError> {
        let id = row.try_get::<_, &str>(1)?.into();
        Ok(Self { number: row.try_get(0)?, id, is_sole: row.try_get(2)? })
    }

    /// The number that the rows have. Only this database knows it.
    pub(crate) fn number(&self) -> i64 {
        self.number
    }

    /// Returns whose seals the tenant's cursors have. Those of the sole tenant name nobody, so that
    /// they go on after the records moved from a state folder to the database, or back.
    pub(crate) fn person_of_seals(&self) -> &str {
        if self.is_sole { "" } else { &self.id }
    }

    /// The identifier: 32 random hexadecimal digits, which say nothing about the person.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// How a command names a person who has rows of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonName {
    /// The subject, as an issuer of tokens names it.
    Subject {
        /// The issuer of the tokens.
        issuer: String,
        /// The subject of the tokens.
        subject: String,
    },
    /// The identifier of the tenant, which also names the folder of the person's space.
    Id(String),
}

/// What a tenant is found by.
enum Lookup<'a> {
    Sole,
    /// The issuer and the subject.
    Subject(&'a str, &'a str),
    Id(&'a str),
}

/// A tenant, and whether a copy of its rows is under way.
struct FoundTenant {
    tenant: Tenant,
    is_incomplete: bool,
}

impl FoundTenant {
    fn complete(self) -> Result<Tenant, DatabaseError> {
        if self.is_incomplete { Err(DatabaseError::HalfCopied) } else { Ok(self.tenant) }
    }
}

impl Database {
    /// Returns the owner of a database that has one person's rows. Makes the tenant on first use.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer, or the rows are not yet all copied.
    pub fn sole_tenant(&self) -> Result<Tenant, DatabaseError> {
        self.found_or_made(&Lookup::Sole)?.complete()
    }

    /// Returns the owner of a database that has one person's rows, also while these are copied.
    /// Makes the tenant on first use.
    pub(crate) fn sole_tenant_of_copy(&self) -> Result<Tenant, PgError> {
        Ok(self.found_or_made(&Lookup::Sole)?.tenant)
    }

    /// Returns the tenant of the one owner, if one was ever made.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn existing_sole_tenant(&self) -> Result<Option<Tenant>, DatabaseError> {
        Ok(self.found(&Lookup::Sole)?.map(|found| found.tenant))
    }

    /// Returns the tenant of a subject, as an issuer of tokens names it. Makes the tenant on first
    /// use. Two servers that make it at once get the same.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer, or the rows are not yet all copied.
    pub fn tenant_of(&self, issuer: &str, subject: &str) -> Result<Tenant, DatabaseError> {
        self.found_or_made(&Lookup::Subject(issuer, subject))?.complete()
    }

    /// Returns the tenant of a subject. `None` if there is none yet.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer, or the rows are not yet all copied.
    pub fn find_tenant(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<Tenant>, DatabaseError> {
        let found = self.found(&Lookup::Subject(issuer, subject))?;
        found.map(FoundTenant::complete).transpose()
    }

    /// Returns the tenant of the operator of servers that give each person a space. Makes the
    /// tenant on first use. No token has its subject, so it is served to nobody. It counts as a
    /// person's beside others, so that no command takes the database for one of a single person.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn operators_tenant(&self) -> Result<Tenant, DatabaseError> {
        self.found_or_made(&Lookup::Subject("", ""))?.complete()
    }

    /// Returns the tenant that a command names. `None` if there is none.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer, or the rows are not yet all copied.
    pub fn find_person(&self, person: &PersonName) -> Result<Option<Tenant>, DatabaseError> {
        self.found(&Lookup::of(person))?.map(FoundTenant::complete).transpose()
    }

    /// Returns whether each person has rows of their own here: a server gave people spaces, or a
    /// command made a person.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn has_people(&self) -> Result<bool, DatabaseError> {
        Ok(self.has_subjects()?)
    }

    /// Returns the tenant that a command names, also while its rows are copied. `None` if there is
    /// none.
    pub(crate) fn named_tenant(&self, person: &PersonName) -> Result<Option<Tenant>, PgError> {
        Ok(self.found(&Lookup::of(person))?.map(|found| found.tenant))
    }

    /// Returns the tenant that a command names, also while its rows are copied. Makes the tenant of
    /// a subject on first use. `None` for an identifier that no tenant has.
    pub(crate) fn named_or_made_tenant(
        &self,
        person: &PersonName,
    ) -> Result<Option<Tenant>, PgError> {
        match person {
            PersonName::Subject { .. } => Ok(Some(self.found_or_made(&Lookup::of(person))?.tenant)),
            PersonName::Id(_) => self.named_tenant(person),
        }
    }

    /// Returns whether the database has rows of people with a subject, beside the sole tenant.
    pub(crate) fn has_subjects(&self) -> Result<bool, PgError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let subject = "SELECT number FROM tenants WHERE subject IS NOT NULL LIMIT 1";
        let found = connection.one(subject, &[]);
        connection.end("ROLLBACK");
        Ok(found?.is_some())
    }

    fn found(&self, lookup: &Lookup<'_>) -> Result<Option<FoundTenant>, PgError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let found = find(&connection, lookup);
        connection.end("ROLLBACK");
        found
    }

    fn found_or_made(&self, lookup: &Lookup<'_>) -> Result<FoundTenant, PgError> {
        if let Some(found) = self.found(lookup)? {
            return Ok(found);
        }
        let connection = self.begin_write()?;
        match make(&connection, lookup) {
            Ok(made) => connection.commit().map(|()| made),
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }
}

impl<'a> Lookup<'a> {
    fn of(person: &'a PersonName) -> Self {
        match person {
            PersonName::Subject { issuer, subject } => Self::Subject(issuer, subject),
            PersonName::Id(id) => Self::Id(id),
        }
    }
}

/// The SHA-256 of the issuer, a zero byte, and the subject. No issuer has a zero byte.
pub(super) fn digest(issuer: &str, subject: &str) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    [issuer.as_bytes(), b"\0", subject.as_bytes()].iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

/// The digest of the operator. No token has an empty subject.
pub(super) fn operators_digest() -> Vec<u8> {
    digest("", "")
}

fn find(connection: &PgConnection, lookup: &Lookup<'_>) -> Result<Option<FoundTenant>, PgError> {
    let select = "SELECT number, id, subject IS NULL, incomplete <> 0 FROM tenants WHERE";
    let row = match lookup {
        Lookup::Sole => connection.one(&format!("{select} subject IS NULL"), &[])?,
        Lookup::Subject(issuer, subject) => {
            connection.one(&format!("{select} subject = $1"), params![digest(issuer, subject)])?
        }
        Lookup::Id(id) => connection.one(&format!("{select} id = $1"), params![id])?,
    };
    let found = |row: tokio_postgres::Row| {
        Ok(FoundTenant { tenant: Tenant::of_row(&row)?, is_incomplete: row.try_get(3)? })
    };
    row.map(found).transpose()
}

/// Makes a tenant and the row of its history, unless another server was faster.
fn make(connection: &PgConnection, lookup: &Lookup<'_>) -> Result<FoundTenant, PgError> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let named = match lookup {
        Lookup::Subject(issuer, subject) => Some((*issuer, *subject)),
        Lookup::Sole | Lookup::Id(_) => None,
    };
    let subject = named.map(|(issuer, subject)| digest(issuer, subject));
    // The operator has no name, and PostgreSQL takes no text with a zero byte.
    let named = named.filter(|(_, name)| !name.is_empty() && !name.contains('\0'));
    let (issuer, name) = named.unzip();
    let text = "INSERT INTO tenants (id, subject, made, issuer, name) \
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING number";
    if let Some(row) = connection.one(text, params![id, subject, now().0, issuer, name])? {
        let number: i64 = row.try_get(0)?;
        connection.batch(&format!("SELECT set_config('stile.tenant', '{number}', true)"))?;
        let text = "INSERT INTO history (tenant, records, changes, lineage, forgotten) \
                    VALUES ($1, 0, 0, uuid_send(gen_random_uuid()), -9000000000000000000)";
        connection.rows(text, params![number])?;
    }
    find(connection, lookup)?.ok_or(PgError::NoAnswer)
}
