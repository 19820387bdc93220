//! Tests of writes that PostgreSQL cancels, ends or does not take: the answer says that nothing was
//! stored, and that is so.

use stile_domain::records::identifiers::RecordKey;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::Records;
use super::sqlite::tests::{incoming, indexed, message, messages, permits};
use crate::postgresql::{Database, DatabaseError, PgError, Writes, tenant_sql};
use crate::state::StateDir;

fn open(database: &TestDatabase, state: &StateDir) -> (Database, Records) {
    let opened = Database::open(&database.address()).unwrap();
    let tenant = opened.sole_tenant().unwrap();
    let records = Records::open_at(state, &opened, &tenant, Instant(0)).unwrap();
    (opened, records)
}

fn put(records: &Records, key: &str) -> Result<(), Problem> {
    records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        let key = RecordKey::parse(key).unwrap();
        batch.upsert(&target, incoming(&key, &message("2026-01-01", "text"))).map(drop)
    })
}

fn stored(database: &TestDatabase) -> String {
    database.run("SELECT count(*) FROM stile.records").trim().to_owned()
}

/// Sets whether new connections to the database take no writes.
fn set_read_only(database: &TestDatabase, value: &str) {
    database.run(&format!(
        "SET default_transaction_read_only = off; \
         DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {value}', \
         current_database()); END$$"
    ));
}

#[test]
fn a_write_that_is_cancelled_or_ended_says_that_nothing_was_stored() {
    let test = "a_write_that_is_cancelled_or_ended_says_that_nothing_was_stored";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (database, folder) = (server.database(), tempfile::tempdir().unwrap());
    let state = StateDir::open(folder.path()).unwrap();
    let (_, records) = open(&database, &state);
    put(&records, "first").unwrap();
    let other = Database::open(&database.address()).unwrap();
    let tenant = other.sole_tenant().unwrap();
    for end in ["pg_cancel_backend(pid)", "pg_terminate_backend(pid)"] {
        let holding = other.write_of(&tenant).unwrap();
        let lock = tenant_sql!("SELECT records FROM history WHERE tenant = $1 FOR UPDATE");
        holding.rows(&lock, &[]).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| put(&records, "second"));
            let ended = || {
                database.run(&format!(
                    "SELECT {end} FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ))
            };
            while ended().trim() != "t" {
                assert!(!waiting.is_finished(), "the write did not wait");
            }
            assert_eq!(waiting.join().unwrap(), Err(Problem::NotStored), "{end}");
        });
        holding.roll_back();
        assert_eq!(stored(&database), "1", "{end}");
    }
    assert_eq!(Problem::NotStored.code(), ("busy", 503));
    assert!(Problem::NotStored.to_string().contains("nothing of this batch was stored"));
    put(&records, "second").unwrap();
    assert_eq!(stored(&database), "2");
}

#[test]
fn a_database_that_is_read_only_by_default_is_obeyed_and_named() {
    let test = "a_database_that_is_read_only_by_default_is_obeyed_and_named";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (database, folder) = (server.database(), tempfile::tempdir().unwrap());
    let state = StateDir::open(folder.path()).unwrap();
    set_read_only(&database, "on");
    let refused = Database::open(&database.address()).map(drop);
    assert_eq!(refused, Err(DatabaseError::TakesNoWrites), "the tables cannot be made");
    set_read_only(&database, "off");
    let (opened, records) = open(&database, &state);
    put(&records, "first").unwrap();
    assert_eq!(opened.look().unwrap().writes, Writes::Taken);
    set_read_only(&database, "on");
    let (opened, records) = open(&database, &state);
    assert_eq!(opened.look().unwrap().writes, Writes::OffByDefault);
    let read =
        records.read(&permits().1, Instant(1), |view| Ok(view.sources_of("messages", None)?.len()));
    assert_eq!(read, Ok(1), "reads are answered");
    for _ in 0..2 {
        assert_eq!(put(&records, "second"), Err(Problem::TakesNoWrites));
    }
    let changed = opened.change_access(|it| it.execute("DELETE FROM short_lived", &[]));
    assert!(changed.is_err_and(|error: PgError| error.is_read_only()));
    assert_eq!(stored(&database), "1");
}
