//! Tests of connections that are lost, that fall silent, and of writes that are cancelled.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stile_testkit::postgres::{PostgresServer, TestDatabase};
use stile_testkit::silencer::Silencer;

use super::connection::PgConnection;
use super::database::Database;
use super::error::PgError;
use super::pool::ANSWERS_WITHIN;
use super::settings::Settings;
use crate::read_limit::ReadLimit;

/// Longer than a machine with much to do needs for a new connection, and much shorter than the
/// minute that a statement may take.
const SLACK: Duration = Duration::from_secs(10);

/// A database behind a relay that can fall silent.
fn behind_a_relay(test: &str) -> Option<(TestDatabase, Silencer, Database)> {
    let server = PostgresServer::on_network(test, None)?;
    let database = server.database();
    let silencer = Silencer::before(server.address());
    let host = format!("127.0.0.1:{}", silencer.address.port());
    let opened = Database::open(&database.network_address(&host, "sslmode=disable")).unwrap();
    Some((database, silencer, opened))
}

/// Uses a connection of each pool.
fn use_all(database: &Database) -> Result<(), PgError> {
    database.begin_read(&ReadLimit::none())?.end("ROLLBACK");
    database.begin_write()?.commit()?;
    database.read_access(|connection| connection.batch("SELECT 1"))?;
    database.change_access(|connection| connection.batch("SELECT 1"))
}

#[test]
fn connections_that_fell_silent_cost_one_request_a_moment_and_no_further_one() {
    let test = "connections_that_fell_silent_cost_one_request_a_moment_and_no_further_one";
    let Some((_database, silencer, opened)) = behind_a_relay(test) else { return };
    use_all(&opened).unwrap();
    let open = |opened: &Database| opened.pools().map(|pool| (pool.open, pool.idle));
    assert_eq!(open(&opened), [(1, 1); 4], "one of each pool");
    silencer.fall_silent();
    let began = Instant::now();
    use_all(&opened).unwrap();
    let took = began.elapsed();
    assert!(took >= ANSWERS_WITHIN, "the first was asked: {took:?}");
    assert!(took < ANSWERS_WITHIN + SLACK, "{took:?}");
    assert_eq!(open(&opened), [(1, 1); 4], "all were replaced");
    // None but the first was asked: the doubt about it holds for all.
    silencer.fall_silent();
    let began = Instant::now();
    opened.read_access(|connection| connection.batch("SELECT 1")).unwrap();
    assert!(began.elapsed() >= ANSWERS_WITHIN);
    opened.close_worn_connections();
    assert_eq!(open(&opened).map(|(_, idle)| idle), [0, 0, 1, 0]);
}

#[test]
fn a_connection_is_used_for_half_an_hour_and_no_two_end_at_once() {
    let test = "a_connection_is_used_for_half_an_hour_and_no_two_end_at_once";
    let Some(postgres) = PostgresServer::shared(test) else { return };
    let database = postgres.database();
    let settings = Settings::parse(&database.address()).unwrap();
    let minute = Duration::from_secs(60);
    let mut ends = BTreeSet::new();
    for _ in 0..8 {
        let connection = PgConnection::open(&settings).unwrap();
        let now = Instant::now();
        assert!(!connection.is_worn(now + 29 * minute) && connection.is_worn(now + 36 * minute));
        let seconds = (1740..2160).find(|it| connection.is_worn(now + Duration::from_secs(*it)));
        ends.insert(seconds.unwrap());
    }
    assert!(ends.len() > 1, "{ends:?}");
}

#[test]
fn an_idle_connection_that_the_database_ended_is_replaced_without_an_error() {
    let test = "an_idle_connection_that_the_database_ended_is_replaced_without_an_error";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let opened = Database::open(&database.address()).unwrap();
    for _ in 0..20 {
        use_all(&opened).unwrap();
        database.run(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
             WHERE application_name = 'stile'",
        );
        use_all(&opened).unwrap();
    }
}

#[test]
fn a_statement_of_a_silent_database_ends_and_a_commit_says_that_nobody_knows() {
    let test = "a_statement_of_a_silent_database_ends_and_a_commit_says_that_nobody_knows";
    let Some((database, silencer, opened)) = behind_a_relay(test) else { return };
    let writing = opened.begin_write().unwrap();
    writing.batch("CREATE TABLE kept (a int)").unwrap();
    silencer.fall_silent();
    writing.set_limit(ReadLimit::new(Duration::from_millis(300), <_>::default()));
    assert!(matches!(writing.commit(), Err(PgError::Unknown)));
    use_all(&opened).unwrap();
    drop(database);
}
