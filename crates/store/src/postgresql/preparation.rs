//! How a database is prepared for servers, and what their role may do there.

use super::connection::PgConnection;
use super::database::Database;
use super::error::DatabaseError;
use super::roles::{self, DatabaseRole};
use super::schema;
use super::settings::Settings;
use crate::read_limit::ReadLimit;

impl Database {
    /// Returns what the role of the address may do.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database does not answer.
    pub fn role(&self) -> Result<DatabaseRole, DatabaseError> {
        let connection = self.begin_read(&ReadLimit::none())?;
        let role = roles::role_of(&connection);
        connection.end("ROLLBACK");
        Ok(role?)
    }

    /// Makes the tables, or migrates them to this version, as the role of the address, and lets
    /// another role read and write their rows. What that role was granted on the tables before is
    /// taken back. The same call can be made again.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database cannot be reached, the tables are another program's or a
    /// newer version's, or the other role is none for servers.
    pub fn prepare(address: &str, servers_role: &str) -> Result<(), DatabaseError> {
        let connection = PgConnection::open(&Settings::parse(address)?)?;
        schema::migrate(&connection)?.done()?;
        roles::grant(&connection, servers_role)
    }
}
