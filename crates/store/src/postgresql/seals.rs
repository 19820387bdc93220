//! The keys that seal cursors, which all servers and tenants of a database share.

use stile_domain::records::instant::Instant;
use tokio_postgres::Row;

use super::connection::PgConnection;
use super::database::Database;
use super::error::{DatabaseError, PgError};
use super::half_copied::is_half_copied;
use super::params::params;
use super::tenant::Tenant;
use crate::seal::{SealKey, Seals};

impl Database {
    /// Returns what seals cursors of a tenant and opens no other tenant's. Reads the keys once, and
    /// makes the first one if there is none.
    pub(crate) fn seals_of(&self, tenant: &Tenant, now: Instant) -> Result<Seals, DatabaseError> {
        let seals = match self.cached_seals().get() {
            Some(seals) => seals,
            None => {
                let seals = self.read_seals(now)?;
                self.cached_seals().get_or_init(|| seals)
            }
        };
        Ok(seals.bound_to(tenant.person_of_seals()))
    }

    fn read_seals(&self, now: Instant) -> Result<Seals, DatabaseError> {
        let connection = self.begin_write()?;
        if is_half_copied(&connection)? {
            connection.end("ROLLBACK");
            return Err(DatabaseError::HalfCopied);
        }
        let keys = read_or_make(&connection, now)?;
        connection.commit()?;
        let keys = keys.ok_or(DatabaseError::Random)?;
        Seals::new(keys).map_err(|_| DatabaseError::Random)
    }
}

/// Returns the keys, the newest first. `None` if the system gives no random bytes.
fn read_or_make(connection: &PgConnection, now: Instant) -> Result<Option<Vec<SealKey>>, PgError> {
    let select = "SELECT id, secret FROM seals ORDER BY made DESC";
    let mut rows = connection.rows(select, &[])?;
    if rows.is_empty() {
        connection.batch("LOCK TABLE seals IN EXCLUSIVE MODE")?;
        rows = connection.rows(select, &[])?;
    }
    if rows.is_empty() {
        let Ok(key) = SealKey::make() else { return Ok(None) };
        let insert = "INSERT INTO seals (id, secret, made) VALUES ($1, $2, $3)";
        connection.rows(insert, params![&key.id[..], &key.secret[..], now.0])?;
        rows = connection.rows(select, &[])?;
    }
    let key = |row: &Row| -> Option<SealKey> {
        let id = row.try_get::<_, &[u8]>(0).ok()?.try_into().ok()?;
        Some(SealKey { id, secret: row.try_get::<_, &[u8]>(1).ok()?.try_into().ok()? })
    };
    Ok(Some(rows.iter().filter_map(key).collect()))
}
