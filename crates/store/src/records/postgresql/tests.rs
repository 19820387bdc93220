//! Tests of the engine against a real server of PostgreSQL.

use stile_domain::permit::Principal;
use stile_domain::records::authority::{RecordsClaim, RecordsPermit};
use stile_domain::records::grant::{Grant, StatedTerms, StreamGrant};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::scope::Scopes;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::*;
use crate::cancellation::Cancellation;
use crate::postgresql::PgError;
use crate::postgresql::tests::open_as_servers_do;
use crate::records::sqlite::tests::{incoming, indexed, message, messages, permits};
use crate::records::{RecordQuery, Records, SortOrder};

/// A database with the tables of this version.
struct Hosted {
    records: Records,
    database: TestDatabase,
    folder: tempfile::TempDir,
}

/// Opens a new database. `None` if there is no PostgreSQL.
fn hosted(test: &str) -> Option<Hosted> {
    Some(open(PostgresServer::shared(test)?.database()))
}

fn open(database: TestDatabase) -> Hosted {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = open_as_servers_do(&database);
    let records = open_records(&state, &opened).unwrap();
    Hosted { records, database, folder }
}

fn open_records(state: &StateDir, database: &Database) -> Result<Records, RecordsError> {
    Records::open_at(state, database, &database.sole_tenant()?, Instant(0))
}

impl Hosted {
    /// Opens the same database, as another server would.
    fn other(&self) -> Result<Records, RecordsError> {
        let state = StateDir::open(self.folder.path()).unwrap();
        open_records(&state, &Database::open(&self.database.servers_address())?)
    }

    fn number_of_records(&self) -> String {
        self.database.run("SELECT count(*), max(id) FROM stile.records").trim().to_owned()
    }

    fn put(&self, key: &str, text: &str) -> Result<(), Problem> {
        put(&self.records, key, text)
    }

    fn keys(&self) -> Result<Vec<String>, Problem> {
        self.records.read(&permits().1, Instant(1), |view| {
            let sources = view.sources_of("messages", None)?;
            let query = RecordQuery {
                order: SortOrder::Ascending,
                after: None,
                conditions: &[],
                limit: 100,
            };
            let page = view.list(&sources, query)?;
            Ok(page.rows.into_iter().map(|row| row.key).collect())
        })
    }
}

fn put(records: &Records, key: &str, text: &str) -> Result<(), Problem> {
    records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        let key = RecordKey::parse(key).unwrap();
        batch.upsert(&target, incoming(&key, &message("2026-01-01", text))).map(drop)
    })
}

#[test]
fn records_are_stored_listed_and_found_by_key() {
    let Some(hosted) = hosted("records_are_stored_listed_and_found_by_key") else { return };
    hosted.put("b", "with \0 inside").unwrap();
    hosted.put("a", "two").unwrap();
    assert_eq!(hosted.keys().unwrap(), ["a", "b"]);
    let text = hosted.records.read(&permits().1, Instant(1), |view| {
        let sources = view.sources_of("messages", None)?;
        let rows = view.find_by_key(&sources, "b")?;
        let loaded = view.load_fields(&sources, &rows[0])?;
        let field = loaded.body().field("text").unwrap().unwrap();
        Ok(format!("{:?}", field.value))
    });
    assert_eq!(text.unwrap(), "Text(\"with \\0 inside\")");
}

#[test]
fn servers_that_start_at_once_make_one_schema_and_share_its_keys() {
    let test = "servers_that_start_at_once_make_one_schema_and_share_its_keys";
    let Some(server) = PostgresServer::shared(test) else { return };
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let all: Vec<Records> = std::thread::scope(|scope| {
        let open = || {
            let opened = Database::open(&database.address()).unwrap();
            open_records(&state, &opened).unwrap()
        };
        let opened: Vec<_> = (0..10).map(|_| scope.spawn(open)).collect();
        opened.into_iter().map(|opened| opened.join().unwrap()).collect()
    });
    for one in &all {
        let sealed = one.seal(b"x").unwrap();
        for other in &all {
            assert_eq!(other.unseal(&sealed).as_deref(), Some(&b"x"[..]));
        }
    }
}

#[test]
fn servers_that_write_at_once_number_records_without_a_gap() {
    let test = "servers_that_write_at_once_number_records_without_a_gap";
    let Some(hosted) = hosted(test) else { return };
    let other = hosted.other().unwrap();
    std::thread::scope(|scope| {
        for (at, records) in [&hosted.records, &other, &other].into_iter().enumerate() {
            scope.spawn(move || {
                for key in 0..10 {
                    put(records, &format!("{at}-{key}"), "text").unwrap();
                    put(records, "the same", &format!("{at} {key}")).unwrap();
                }
            });
        }
    });
    assert_eq!(hosted.number_of_records(), "31|31");
    assert_eq!(hosted.database.run("SELECT records, changes FROM stile.history").trim(), "31|29");
    hosted.records.check(&permits().0).unwrap();
}

#[test]
fn a_write_that_fails_leaves_nothing_and_uses_no_number() {
    let Some(hosted) = hosted("a_write_that_fails_leaves_nothing_and_uses_no_number") else {
        return;
    };
    hosted.put("a", "one").unwrap();
    let failed = hosted.records.write(&permits().0, |batch| {
        let target = messages(batch, &indexed())?;
        let key = RecordKey::parse("b").unwrap();
        batch.upsert(&target, incoming(&key, &message("2026-01-01", "two")))?;
        Err::<(), _>(Problem::Full)
    });
    assert_eq!(failed, Err(Problem::Full));
    assert_eq!(hosted.keys().unwrap(), ["a"]);
    hosted.put("c", "three").unwrap();
    assert_eq!(hosted.number_of_records(), "2|2");
}

#[test]
fn a_database_that_was_gone_is_found_again() {
    let test = "a_database_that_was_gone_is_found_again";
    let Some(server) = PostgresServer::own(test) else { return };
    let hosted = open(server.database());
    hosted.put("a", "one").unwrap();
    assert_eq!(hosted.keys().unwrap(), ["a"]);
    server.stop();
    for _ in 0..3 {
        assert_eq!(hosted.put("b", "two"), Err(Problem::NotStored));
        assert_eq!(hosted.keys(), Err(Problem::Busy));
    }
    server.start();
    assert_eq!(hosted.keys().unwrap(), ["a"], "what was acknowledged is there");
    hosted.put("b", "two").unwrap();
    assert_eq!(hosted.keys().unwrap(), ["a", "b"]);
}

#[test]
fn a_database_that_only_reads_answers_reads_and_refuses_writes_until_it_is_promoted() {
    let test = "a_database_that_only_reads_answers_reads_and_refuses_writes_until_it_is_promoted";
    let Some(server) = PostgresServer::own(test) else { return };
    let hosted = open(server.database());
    hosted.put("a", "one").unwrap();
    server.stop();
    server.make_replica();
    server.start();
    // A connection of before is lost.
    let _ = hosted.keys();
    for _ in 0..3 {
        assert_eq!(hosted.keys().unwrap(), ["a"]);
        assert_eq!(hosted.put("b", "two"), Err(Problem::TakesNoWrites));
    }
    assert_eq!(hosted.database.run("SELECT pg_promote()").trim(), "t");
    hosted.put("b", "two").unwrap();
    assert_eq!(hosted.keys().unwrap(), ["a", "b"]);
}

#[test]
fn a_read_ends_at_its_limit_and_when_nobody_waits_for_it() {
    let test = "a_read_ends_at_its_limit_and_when_nobody_waits_for_it";
    let Some(hosted) = hosted(test) else { return };
    hosted.put("a", "one").unwrap();
    let database = Database::open(&hosted.database.address()).unwrap();
    let read = |limit: &ReadLimit| {
        hosted.records.read_within(limit, &permits().1, Instant(1), |view| {
            view.find_by_key(&view.sources_of("messages", None)?, "a").map(|rows| rows.len())
        })
    };
    let locked = database.change_access(|connection| {
        connection.batch("LOCK TABLE stile.records IN ACCESS EXCLUSIVE MODE")?;
        let short = ReadLimit::new(Duration::from_millis(200), Cancellation::default());
        assert_eq!(read(&short), Err(Problem::QueryTooBroad));
        let cancellation = Cancellation::default();
        let long = ReadLimit::new(Duration::from_secs(50), cancellation.clone());
        std::thread::scope(|scope| {
            let read = scope.spawn(|| read(&long));
            cancellation.cancel();
            assert_eq!(read.join().unwrap(), Err(Problem::QueryTooBroad));
        });
        Ok::<(), PgError>(())
    });
    locked.unwrap();
    assert_eq!(read(&ReadLimit::none()), Ok(1));
}

#[test]
fn tables_of_another_program_or_a_newer_version_are_left_alone() {
    let test = "tables_of_another_program_or_a_newer_version_are_left_alone";
    let Some(hosted) = hosted(test) else { return };
    hosted.database.run("UPDATE stile.schema_version SET version = 1000");
    let error = hosted.other().map(drop).unwrap_err();
    assert!(error.to_string().contains("newer stile"), "{error}");
    assert_eq!(hosted.database.run("SELECT version FROM stile.schema_version").trim(), "1000");
    hosted.database.run("DROP TABLE stile.schema_version");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'stile'";
    let before = hosted.database.run(tables);
    let error = hosted.other().map(drop).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(hosted.database.run(tables), before);
}

#[test]
fn tenants_with_equal_records_have_their_own_numbers_and_cursors() {
    let test = "tenants_with_equal_records_have_their_own_numbers_and_cursors";
    let Some(server) = PostgresServer::shared(test) else { return };
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = Database::open(&database.address()).unwrap();
    let [ann, bob] = ["ann", "bob"].map(|subject| {
        let tenant = opened.tenant_of("https://issuer.example", subject).unwrap();
        Records::open_at(&state, &opened, &tenant, Instant(0)).unwrap()
    });
    for records in [&ann, &bob] {
        ["a", "b", "a"].iter().enumerate().for_each(|(at, key)| {
            put(records, key, &format!("text {at}")).unwrap();
        });
    }
    let numbers = "SELECT tenant, records, changes FROM stile.history ORDER BY tenant";
    assert_eq!(database.run(numbers), "1|2|1\n2|2|1\n");
    assert_eq!(database.run("SELECT DISTINCT id FROM stile.records ORDER BY id"), "1\n2\n");
    let sealed = ann.seal(b"x").unwrap();
    assert_eq!(ann.unseal(&sealed).as_deref(), Some(&b"x"[..]));
    assert_eq!(bob.unseal(&sealed), None);
    put(&ann, "c", "three").unwrap();
    assert_eq!(database.run(numbers), "1|3|1\n2|2|1\n");
    [&ann, &bob].iter().for_each(|records| records.check(&permits().0).unwrap());
}

#[test]
fn opening_the_records_of_a_person_asks_the_database_nothing() {
    let test = "opening_the_records_of_a_person_asks_the_database_nothing";
    let Some(server) = PostgresServer::shared(test) else { return };
    let database = server.database();
    database.log_statements();
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let opened = Database::open(&database.address()).unwrap();
    let tenants = ["ann", "bob"].map(|name| opened.tenant_of("https://a.example", name).unwrap());
    let open = |at: usize| {
        Records::open_at(&state, &opened, &tenants[at % 2], Instant(0)).unwrap();
    };
    open(0);
    let before = database.logged_statements();
    assert!(before > 0);
    (0..1000).for_each(open);
    assert_eq!(database.logged_statements(), before);
}

#[expect(clippy::disallowed_methods, reason = "a test is its own client")]
fn permit_of(token: &str, grant: &str) -> RecordsPermit {
    let claim = RecordsClaim::Grant(grant.into());
    let client = Principal::assert_verified("ann", Some(token), None, Scopes::none(), claim);
    client.gate().records().unwrap()
}

#[test]
fn of_the_tokens_of_a_grant_for_a_single_use_one_counts_at_all_servers() {
    let test = "of_the_tokens_of_a_grant_for_a_single_use_one_counts_at_all_servers";
    let Some(hosted) = hosted(test) else { return };
    hosted.put("a", "one").unwrap();
    let servers = [hosted.other().unwrap(), hosted.other().unwrap()];
    let name = |text: &str| SourceName::parse(text).unwrap();
    let granted = StreamGrant {
        stream: name("messages"),
        connections: [name("mail")].into(),
        fields: ["text".to_owned()].into(),
        time: None,
        keys: None,
    };
    let grant = Grant {
        client: "c".to_owned(),
        purpose: None,
        issued: Instant(0),
        expires: None,
        single_use: true,
        stated: StatedTerms::default(),
        streams: vec![granted],
    };
    for _ in 0..8 {
        let id = hosted.records.grant(&permits().0, &grant).unwrap().unwrap();
        let read = |at: usize| {
            let permit = permit_of(&format!("token-{at}"), &id);
            servers[at % 2].read(&permit, Instant(1), |view| view.sources()).is_ok()
        };
        let first: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || read(at))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(first.iter().filter(|passed| **passed).count(), 1, "{first:?}");
        let again: Vec<bool> = (0..4).map(read).collect();
        assert_eq!(again, first, "the same token counts from then on, and no other");
    }
}
