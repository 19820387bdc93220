//! The people who have rows of their own in a database.
//!
//! A person is the subject of an issuer of tokens. The table `tenants` has only a digest of both. A
//! deployment for one person has the sole tenant, which belongs to no subject.

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

impl Database {
    /// Returns the owner of a database that has one person's rows. Makes the tenant on first use.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn sole_tenant(&self) -> Result<Tenant, DatabaseError> {
        Ok(self.found_or_made(None)?)
    }

    /// Returns the tenant of a subject, as an issuer of tokens names it. Makes the tenant on first
    /// use. Two servers that make it at once get the same.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn tenant_of(&self, issuer: &str, subject: &str) -> Result<Tenant, DatabaseError> {
        Ok(self.found_or_made(Some(digest(issuer, subject)))?)
    }

    /// Returns the tenant of a subject. `None` if there is none yet.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn find_tenant(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<Tenant>, DatabaseError> {
        Ok(self.found(Some(digest(issuer, subject)))?)
    }

    fn found(&self, subject: Option<Vec<u8>>) -> Result<Option<Tenant>, PgError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let found = find(&connection, subject.as_deref());
        connection.end("ROLLBACK");
        found
    }

    fn found_or_made(&self, subject: Option<Vec<u8>>) -> Result<Tenant, PgError> {
        if let Some(tenant) = self.found(subject.clone())? {
            return Ok(tenant);
        }
        let connection = self.begin_write()?;
        match make(&connection, subject.as_deref()) {
            Ok(tenant) => connection.commit().map(|()| tenant),
            Err(error) => {
                connection.end("ROLLBACK");
                Err(error)
            }
        }
    }
}

/// The SHA-256 of the issuer, a zero byte, and the subject. No issuer has a zero byte.
fn digest(issuer: &str, subject: &str) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    [issuer.as_bytes(), b"\0", subject.as_bytes()].iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

fn find(connection: &PgConnection, subject: Option<&[u8]>) -> Result<Option<Tenant>, PgError> {
    let row = match subject {
        Some(subject) => {
            let text = "SELECT number, id FROM tenants WHERE subject = $1";
            connection.one(text, params![subject])?
        }
        None => connection.one("SELECT number, id FROM tenants WHERE subject IS NULL", &[])?,
    };
    let tenant = |row: tokio_postgres::Row| {
        let id = row.try_get::<_, &str>(1)?.into();
        Ok(Tenant { number: row.try_get(0)?, id, is_sole: subject.is_none() })
    };
    row.map(tenant).transpose()
}

/// Makes a tenant and the row of its history, unless another server was faster.
fn make(connection: &PgConnection, subject: Option<&[u8]>) -> Result<Tenant, PgError> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let text = "INSERT INTO tenants (id, subject, made) VALUES ($1, $2, $3) \
                ON CONFLICT DO NOTHING RETURNING number";
    if let Some(row) = connection.one(text, params![id, subject, now().0])? {
        let number: i64 = row.try_get(0)?;
        connection.batch(&format!("SELECT set_config('stile.tenant', '{number}', true)"))?;
        let text = "INSERT INTO history (tenant, records, changes, lineage, forgotten) \
                    VALUES ($1, 0, 0, uuid_send(gen_random_uuid()), -9000000000000000000)";
        connection.rows(text, params![number])?;
    }
    find(connection, subject)?.ok_or(PgError::NoAnswer)
}
