//! A database on PostgreSQL, which several servers share: how it is reached, its tables, and the
//! people who have rows in them.
//!
//! [`Database`] has four small pools of connections: for transactions that read one moment and
//! write nothing, for transactions that write, and two for tokens and sign-in. Whoever waits too
//! long for a connection, or whose connection is lost, gets an error that passes, and can send the
//! same request again. What the tables mean is decided where they are used, in
//! `records::postgresql` and in `state`.
//!
//! A [`Tenant`] is a person with rows of their own. Code that reads or writes such rows gets a
//! `TenantConnection`, which gives every statement the number of the tenant. A statement that does
//! not use the number does not compile.

mod access;
mod condition;
mod connection;
mod database;
mod error;
mod half_copied;
mod outage;
mod params;
mod people;
mod pool;
#[cfg(test)]
mod pool_tests;
mod pooler;
#[cfg(test)]
mod pooler_tests;
mod preparation;
mod roles;
mod schema;
mod seals;
mod settings;
mod tenant;
mod tenant_connection;
mod tenant_sql;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod tls_tests;
mod turns;

pub(crate) use access::Apart;
pub use condition::{DatabaseCondition, Writes};
pub(crate) use connection::{PgConnection, Values};
pub use database::Database;
pub use error::DatabaseError;
pub(crate) use error::PgError;
pub use outage::is_in_outage;
pub(crate) use outage::report as report_outage;
pub(crate) use params::params;
pub use people::{KnownPerson, TableRoom};
pub use pool::PoolUse;
pub use roles::DatabaseRole;
pub use tenant::{PersonName, Tenant};
pub(crate) use tenant_connection::TenantConnection;
pub(crate) use tenant_sql::{TenantSql, tenant_sql};
