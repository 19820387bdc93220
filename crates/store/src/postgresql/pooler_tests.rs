//! Tests with PgBouncer between this program and PostgreSQL.

use stile_testkit::postgres::{PgBouncer, PostgresServer};

use super::*;
use crate::read_limit::ReadLimit;

/// Uses a database as servers do, so often that a pooler gives it several connections.
fn use_often(database: &Database) -> Result<(), PgError> {
    let tenant = database.sole_tenant().unwrap();
    for _ in 0..3 {
        let reading = database.read_of(&tenant, &ReadLimit::none())?;
        let writing = database.write_of(&tenant)?;
        let count = tenant_sql!("SELECT records FROM history WHERE tenant = $1");
        reading.rows(&count, &[])?;
        writing.rows(&count, &[])?;
        writing.commit()?;
        reading.roll_back();
    }
    Ok(())
}

#[test]
fn a_pooler_of_sessions_works_and_one_of_transactions_is_refused_by_name() {
    let test = "a_pooler_of_sessions_works_and_one_of_transactions_is_refused_by_name";
    let Some(server) = PostgresServer::on_network(test, None) else { return };
    let database = server.database();
    for (mode, works) in [("session", true), ("transaction", false), ("statement", false)] {
        let Some(pooler) = PgBouncer::before(test, &database, mode) else { return };
        // The second time the pooler's connections have statements of the first.
        for _ in 0..2 {
            let opened = Database::open(pooler.address());
            match (opened, works) {
                (Ok(opened), true) => use_often(&opened).unwrap(),
                (Err(error), false) => {
                    let said = error.to_string();
                    assert!(said.contains("PgBouncer"), "{mode}: {said}");
                }
                (opened, _) => panic!("{mode}: {:?}", opened.map(drop)),
            }
        }
    }
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'stile'";
    assert_eq!(database.run(tables).trim(), "1", "made through the pooler of sessions");
}
