//! A database on PostgreSQL, which several servers share: how it is reached, its tables, and the
//! people who have rows in them.
//!
//! [`Database`] has two small pools of connections: one for transactions that read one moment and
//! write nothing, and one for transactions that write. Whoever waits too long for a connection, or
//! whose connection is lost, gets an error that passes, and can send the same request again. What
//! the tables mean is decided where they are used, in `records::postgresql` and in `state`.
//!
//! A [`Tenant`] is a person with rows of their own. Code that reads or writes such rows gets a
//! [`TenantConnection`], which gives every statement the number of the tenant.

mod connection;
mod database;
mod error;
mod params;
mod pool;
mod schema;
mod seals;
mod settings;
mod tenant;
mod tenant_connection;
#[cfg(test)]
mod tests;
mod turns;

pub(crate) use connection::Values;
pub use database::Database;
pub use error::DatabaseError;
pub(crate) use error::PgError;
pub(crate) use params::params;
pub use tenant::Tenant;
pub(crate) use tenant_connection::TenantConnection;
