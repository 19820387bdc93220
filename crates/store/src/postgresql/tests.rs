//! Tests of the tenants, and of both fences between their rows.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};

use stile_testkit::postgres::{PostgresServer, SERVERS_ROLE, TestDatabase};

use super::connection::PgConnection;
use super::settings::Settings;
use super::*;
use crate::read_limit::ReadLimit;

const ISSUER: &str = "https://issuer.example";

/// The tables with a column `tenant`.
const TABLES: [&str; 18] = [
    "history", "connections", "streams", "records", "pieces", "tags", "text_words", "word_blocks",
    "grants", "blobs", "blob_pieces", "blob_uses", "changes", "field_indexes", "field_runs",
    "field_values", "person_copies", "stream_counts",
];

/// The tables that are partitioned.
const LARGE: [&str; 9] = [
    "blob_pieces", "blob_uses", "blobs", "changes", "field_values", "pieces", "records",
    "text_words", "word_blocks",
];

fn database(test: &str) -> Option<(TestDatabase, Database)> {
    let database = PostgresServer::shared(test)?.database();
    let opened = open_as_servers_do(&database);
    Some((database, opened))
}

/// Prepares a database as its owner does, and opens it with the role of the servers.
pub(crate) fn open_as_servers_do(database: &TestDatabase) -> Database {
    Database::prepare(&database.address(), SERVERS_ROLE).unwrap();
    Database::open(&database.servers_address()).unwrap()
}

/// Adds a row of a tenant to each table but `history`, which has one.
fn fill(database: &TestDatabase, tenant: &Tenant) {
    let number = tenant.number();
    database.run(&format!(
        r"SET search_path = stile, pg_catalog;
        INSERT INTO connections VALUES ({number}, 1, 'c');
        INSERT INTO streams VALUES ({number}, 1, 1, 's', '', '', 1);
        INSERT INTO records VALUES ({number}, 1, 1, 'k', 0, NULL, NULL, '');
        INSERT INTO pieces VALUES ({number}, 1, '');
        INSERT INTO tags VALUES ({number}, 1, 1, 'f');
        INSERT INTO text_words VALUES ({number}, 1, '');
        INSERT INTO word_blocks VALUES ({number}, 1, 't', 1, '');
        INSERT INTO grants VALUES ({number}, 'g', '', NULL, NULL);
        INSERT INTO blobs VALUES ({number}, 1, '', 0, 0);
        INSERT INTO blob_pieces VALUES ({number}, 1, '');
        INSERT INTO blob_uses VALUES ({number}, '', '', 1, 'f');
        INSERT INTO changes VALUES ({number}, 1, 1, 'k', 0, 1, 0, '');
        INSERT INTO field_indexes VALUES ({number}, 1, '[]', 1, 1, 0);
        INSERT INTO field_runs VALUES ({number}, 1, 1, 1);
        INSERT INTO field_values VALUES ({number}, 1, 0, 'v', 'r');
        INSERT INTO person_copies VALUES ({number}, 'records', NULL, 0);"
    ));
}

#[test]
fn a_subject_is_one_tenant_for_all_servers_and_nobody_else() {
    let test = "a_subject_is_one_tenant_for_all_servers_and_nobody_else";
    let Some((database, first)) = database(test) else { return };
    assert_eq!(first.find_tenant(ISSUER, "ann"), Ok(None));
    let servers: Vec<Database> =
        (0..4).map(|_| Database::open(&database.address()).unwrap()).collect();
    let make = |make: &(dyn Fn(&Database) -> Tenant + Sync)| -> Tenant {
        let made: Vec<Tenant> = std::thread::scope(|scope| {
            let made: Vec<_> =
                servers.iter().map(|server| scope.spawn(move || make(server))).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        assert!(made.iter().all(|tenant| *tenant == made[0]), "{made:?}");
        made.into_iter().next().unwrap()
    };
    let all = [
        make(&|server| server.sole_tenant().unwrap()),
        make(&|server| server.tenant_of(ISSUER, "ann").unwrap()),
        make(&|server| server.tenant_of(ISSUER, "bob").unwrap()),
        make(&|server| server.tenant_of("https://other.example", "ann").unwrap()),
        make(&|server| server.tenant_of("", "").unwrap()),
    ];
    let numbers: BTreeSet<i64> = all.iter().map(Tenant::number).collect();
    let ids: BTreeSet<&str> = all.iter().map(Tenant::id).collect();
    assert_eq!((numbers.len(), ids.len()), (all.len(), all.len()), "{all:?}");
    for id in ids {
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    assert_eq!(first.find_tenant(ISSUER, "ann"), Ok(Some(all[1].clone())));
    assert_eq!(first.find_tenant(ISSUER, "nobody"), Ok(None));
    let rows = database.run("SELECT * FROM stile.tenants");
    assert_eq!(rows.lines().count(), all.len());
    let named = first.people().unwrap().into_iter().map(|it| (it.issuer, it.name));
    let name = |issuer: &str, name: &str| (Some(issuer.to_owned()), Some(name.to_owned()));
    let other = name("https://other.example", "ann");
    assert_eq!(named.collect::<Vec<_>>(), [name(ISSUER, "ann"), name(ISSUER, "bob"), other]);
    assert_eq!(database.run("SELECT count(*) FROM stile.history").trim(), "5");
}

#[test]
fn every_table_with_rows_of_tenants_is_behind_both_fences() {
    let test = "every_table_with_rows_of_tenants_is_behind_both_fences";
    let Some((database, _)) = database(test) else { return };
    let found = database.run(
        "SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid \
         WHERE relnamespace = 'stile'::regnamespace AND relkind IN ('r', 'p') \
         AND NOT relispartition AND attname = 'tenant'",
    );
    let found: BTreeSet<&str> = found.lines().collect();
    assert_eq!(found, TABLES.into_iter().collect());
    // A partition asks its own policies where a statement names it, and not those of its parent.
    let open = database.run(
        "SELECT relname FROM pg_class c JOIN pg_attribute ON attrelid = c.oid \
         WHERE relnamespace = 'stile'::regnamespace AND relkind IN ('r', 'p') \
         AND attname = 'tenant' AND NOT (relrowsecurity AND relforcerowsecurity \
         AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polpermissive \
         AND polcmd = '*' AND polroles = '{0}' AND polwithcheck IS NULL))",
    );
    assert_eq!(open, "");
    // The first column of every index and every reference of these tables is the tenant.
    let first = "pg_get_indexdef(i.indexrelid, 1, true)";
    let others = database.run(&format!(
        "SELECT c.relname, {first} FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         JOIN pg_class t ON t.oid = i.indrelid \
         WHERE t.relnamespace = 'stile'::regnamespace AND t.relname IN ('{0}') \
         AND {first} <> 'tenant'; \
         SELECT conname FROM pg_constraint JOIN pg_class t ON t.oid = conrelid \
         JOIN pg_attribute ON attrelid = t.oid AND attnum = conkey[1] \
         WHERE contype = 'f' AND t.relnamespace = 'stile'::regnamespace \
         AND t.relname IN ('{0}') AND attname <> 'tenant'",
        TABLES.join("', '")
    ));
    assert_eq!(others, "");
}

#[test]
fn all_rows_of_a_tenant_are_in_one_of_sixteen_partitions_of_each_large_table() {
    let test = "all_rows_of_a_tenant_are_in_one_of_sixteen_partitions_of_each_large_table";
    let Some((database, opened)) = database(test) else { return };
    let partitions = "SELECT parent.relname, count(*), \
                      bool_and(child.relname = parent.relname || '_' || to_char(part, 'FM00')) \
                      FROM pg_inherits JOIN pg_class parent ON parent.oid = inhparent \
                      JOIN pg_class child ON child.oid = inhrelid \
                      CROSS JOIN LATERAL (SELECT substring(pg_get_expr(child.relpartbound, \
                      child.oid) from 'modulus 16, remainder ([0-9]+)')::int AS part) AS bound \
                      WHERE parent.relkind = 'p' GROUP BY 1 ORDER BY 1";
    let expected = LARGE.map(|table| format!("{table}|16|t\n")).concat();
    assert_eq!(database.run(partitions), expected);
    let people: Vec<Tenant> =
        (0..40).map(|at| opened.tenant_of(ISSUER, &format!("p{at}")).unwrap()).collect();
    people.iter().for_each(|tenant| fill(&database, tenant));
    let part = |table: &str| format!("right(tableoid::regclass::text, 2)::int, '{table}'");
    let rows = LARGE.map(|table| format!("SELECT tenant, {} FROM stile.{table}", part(table)));
    let spread = database.run(&format!(
        "SELECT count(DISTINCT part) > 8, bool_and(one) FROM (SELECT tenant, min(part) AS part, \
         min(part) = max(part) AND count(DISTINCT name) = {} AS one \
         FROM ({}) AS r (tenant, part, name) GROUP BY tenant) AS t",
        LARGE.len(),
        rows.join(" UNION ALL ")
    ));
    assert_eq!(spread.trim(), "t|t");
}

#[test]
fn what_the_role_of_the_address_may_do_is_recognised() {
    let test = "what_the_role_of_the_address_may_do_is_recognised";
    let Some((database, _)) = database(test) else { return };
    let role = |address: &str| Database::open(address).unwrap().role().unwrap();
    assert_eq!(role(&database.servers_address()), DatabaseRole::OfServers);
    assert_eq!(role(&database.address()), DatabaseRole::OwnsTables);
    assert_eq!(role(&database.superuser_address()), DatabaseRole::SkipsRowSecurity);
    database.run(&format!("GRANT CREATE ON SCHEMA stile TO \"{SERVERS_ROLE}\""));
    assert_eq!(role(&database.servers_address()), DatabaseRole::OwnsTables);
}

#[test]
fn the_role_of_servers_reads_and_writes_rows_and_changes_nothing_else() {
    let test = "the_role_of_servers_reads_and_writes_rows_and_changes_nothing_else";
    let Some((database, opened)) = database(test) else { return };
    let ann = opened.tenant_of(ISSUER, "ann").unwrap();
    fill(&database, &ann);
    let settings = Settings::parse(&database.servers_address()).unwrap();
    let servers = PgConnection::open(&settings).unwrap();
    let name = format!("SELECT set_config('stile.tenant', '{}', true)", ann.number());
    let mut refused: Vec<String> = [
        "ALTER TABLE stile.records DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE stile.records NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE stile.records_00 DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE stile.records OWNER TO CURRENT_USER",
        "ALTER TABLE stile.records DETACH PARTITION stile.records_00",
        "ALTER TABLE stile.records ADD COLUMN more bigint",
        "DROP POLICY own_tenant ON stile.records",
        "ALTER POLICY own_tenant ON stile.records USING (true)",
        "CREATE POLICY mine ON stile.records USING (true)",
        "CREATE TABLE stile.mine (a bigint)",
        "CREATE TABLE stile_access.mine (a bigint)",
        "CREATE VIEW stile.mine AS SELECT 1",
        "CREATE FUNCTION stile.mine() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "CREATE INDEX ON stile.records (body)",
        "CREATE SCHEMA mine",
        "DROP TABLE stile.grants",
        "DROP SCHEMA stile CASCADE",
        "TRUNCATE stile.records",
        "DROP TRIGGER refuse_older_servers ON stile.history",
        "ALTER TABLE stile.history DISABLE TRIGGER ALL",
        "ALTER FUNCTION stile.refuse_older_servers() OWNER TO CURRENT_USER",
        "DROP FUNCTION stile.refuse_older_servers() CASCADE",
        "SET session_replication_role = replica",
        "SET row_security = off; SELECT * FROM stile.records",
        "SET ROLE stile",
        "UPDATE stile.schema_version SET version = 7",
        "ALTER ROLE CURRENT_USER BYPASSRLS",
    ]
    .map(str::to_owned)
    .into();
    // No partition is named, not even by who knows its name.
    for part in 0..16 {
        for table in LARGE {
            refused.push(format!("SELECT count(*) FROM stile.{table}_{part:02}"));
        }
        refused.push(format!("INSERT INTO stile.pieces_{part:02} VALUES (1, 7, 'x')"));
        refused.push(format!("DELETE FROM stile.records_{part:02}"));
    }
    for text in &refused {
        servers.batch(&format!("BEGIN; {name}")).unwrap();
        let error = servers.batch(text).map(|()| text).unwrap_err().to_string();
        let fence = text.starts_with("SET row_security");
        let is_refused = error.contains("(42501)") && (!fence || error.contains("row-level"));
        assert!(is_refused, "{text}: {error}");
        servers.batch("ROLLBACK").unwrap();
    }
    // What servers do works, on every table.
    let opened = Database::open(&database.servers_address()).unwrap();
    let connection = opened.write_of(&ann).unwrap();
    for table in TABLES {
        for text in [
            format!("UPDATE {table} SET tenant = tenant WHERE tenant = $1"),
            format!("SELECT tenant FROM {table} WHERE tenant = $1 FOR UPDATE"),
        ] {
            let sql = tenant_sql!(" AND $1::bigint > 0").with_head(&text);
            let sql = if text.ends_with("UPDATE") {
                let text = text.trim_end_matches(" FOR UPDATE");
                tenant_sql!(" AND $1::bigint > 0 FOR UPDATE").with_head(text)
            } else {
                sql.with_tail(" RETURNING tenant")
            };
            assert_eq!(connection.rows(&sql, &[]).unwrap().len(), 1, "{table}");
        }
    }
    connection.commit().unwrap();
    opened.tenant_of(ISSUER, "bob").unwrap();
    assert_eq!(opened.remove_person(&ann).unwrap(), u64::try_from(TABLES.len()).unwrap());
}

#[test]
fn a_database_is_prepared_by_its_owner_for_a_role_that_is_one_of_servers() {
    let test = "a_database_is_prepared_by_its_owner_for_a_role_that_is_one_of_servers";
    let Some(server) = PostgresServer::shared(test) else { return };
    let database = server.database();
    let refused =
        |address: &str, role: &str| Database::prepare(address, role).unwrap_err().to_string();
    let servers = database.servers_address();
    assert_eq!(Database::open(&servers).map(drop), Err(DatabaseError::NotPrepared));
    assert_eq!(Database::prepare(&servers, SERVERS_ROLE), Err(DatabaseError::NotPrepared));
    for (role, reason) in
        [("nobody", "knows no such role"), ("stile", "owns the tables"), ("postgres", "superuser")]
    {
        let error = refused(&database.address(), role);
        assert!(error.contains(&format!("`{role}`")) && error.contains(reason), "{error}");
    }
    // The tables are there, and the servers' role may not use them yet.
    assert_eq!(Database::open(&servers).map(drop), Err(DatabaseError::NotPrepared));
    for _ in 0..2 {
        Database::prepare(&database.address(), SERVERS_ROLE).unwrap();
        let role = Database::open(&servers).unwrap().role();
        assert_eq!(role, Ok(DatabaseRole::OfServers));
        // What the role was granted beside is taken back.
        database.run(&format!("GRANT ALL ON ALL TABLES IN SCHEMA stile TO \"{SERVERS_ROLE}\""));
    }
    // Tables of an older version are not changed by servers.
    let settings = Settings::parse(&servers).unwrap();
    let connection = PgConnection::open(&settings).unwrap();
    let later = ["ALTER TABLE tenants ADD COLUMN seen bigint"];
    let migrated = schema::migrate_by(&connection, &later).unwrap();
    assert_eq!(migrated, schema::Migration::NotAllowed);
    assert_eq!(database.run("SELECT version FROM stile.schema_version").trim(), "1");
}

#[test]
fn without_the_first_fence_a_transaction_sees_only_rows_of_its_tenant() {
    let test = "without_the_first_fence_a_transaction_sees_only_rows_of_its_tenant";
    let Some((database, opened)) = database(test) else { return };
    let [ann, bob] = ["ann", "bob"].map(|subject| opened.tenant_of(ISSUER, subject).unwrap());
    [&ann, &bob].into_iter().for_each(|tenant| fill(&database, tenant));
    let none = ReadLimit::none();
    let seen = |connection: &TenantConnection<'_>, table: &str| -> Vec<i64> {
        // The condition on the tenant is true of each row.
        let select = format!("SELECT tenant FROM {table} ");
        let sql = tenant_sql!("WHERE $1::bigint IS NOT NULL").with_head(&select);
        connection.rows(&sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    for table in TABLES {
        let all = database.run(&format!("SELECT count(*) FROM stile.{table}"));
        assert_eq!(all.trim(), "2", "{table}");
        for tenant in [&ann, &bob] {
            let connection = opened.read_of(tenant, &none).unwrap();
            assert_eq!(seen(&connection, table), [tenant.number()], "{table}");
            connection.roll_back();
        }
        // A transaction of nobody sees nothing, also on a connection that a tenant had before.
        let connection = opened.begin_read(&none).unwrap();
        let text = format!("SELECT tenant FROM {table}");
        assert!(connection.rows(&text, &[]).unwrap().is_empty(), "{table}");
        connection.end("ROLLBACK");
    }
}

#[test]
fn without_the_first_fence_a_transaction_writes_only_rows_of_its_tenant() {
    let test = "without_the_first_fence_a_transaction_writes_only_rows_of_its_tenant";
    let Some((database, opened)) = database(test) else { return };
    let [ann, bob] = ["ann", "bob"].map(|subject| opened.tenant_of(ISSUER, subject).unwrap());
    [&ann, &bob].into_iter().for_each(|tenant| fill(&database, tenant));
    let number = bob.number();
    let content =
        |table: &str| database.run(&format!("SELECT * FROM stile.{table} WHERE tenant = {number}"));
    for table in TABLES {
        let before = content(table);
        for text in [
            format!("UPDATE {table} SET tenant = tenant WHERE tenant = {number} "),
            format!("DELETE FROM {table} WHERE tenant = {number} "),
        ] {
            let connection = opened.write_of(&ann).unwrap();
            let sql = tenant_sql!("AND $1::bigint > 0 RETURNING tenant").with_head(&text);
            assert!(connection.rows(&sql, &[]).unwrap().is_empty(), "{text}");
            connection.commit().unwrap();
        }
        let moved = tenant_sql!("WHERE $1::bigint > 0")
            .with_head(&format!("UPDATE {table} SET tenant = {number} "));
        let connection = opened.write_of(&ann).unwrap();
        let error = connection.rows(&moved, &[]).unwrap_err().to_string();
        assert!(error.contains("row-level security"), "{table}: {error}");
        connection.roll_back();
        assert_eq!(content(table), before, "{table}");
    }
}

#[test]
fn a_transaction_that_writes_keeps_no_other_tenant_waiting() {
    let test = "a_transaction_that_writes_keeps_no_other_tenant_waiting";
    let Some((database, opened)) = database(test) else { return };
    let [ann, bob] = ["ann", "bob"].map(|subject| opened.tenant_of(ISSUER, subject).unwrap());
    let other = Database::open(&database.address()).unwrap();
    let lock = tenant_sql!("SELECT tenant FROM history WHERE tenant = $1 FOR UPDATE");
    let writing = opened.write_of(&ann).unwrap();
    writing.rows(&lock, &[]).unwrap();
    std::thread::scope(|scope| {
        let (waits, waiting) = mpsc::channel();
        // More than there are connections.
        for _ in 0..8 {
            let (waits, opened, ann) = (waits.clone(), &opened, &ann);
            scope.spawn(move || {
                waits.send(()).unwrap();
                opened.write_of(ann).unwrap().commit().unwrap();
            });
        }
        waiting.iter().take(8).for_each(drop);
        for server in [&opened, &other] {
            let connection = server.write_of(&bob).unwrap();
            connection.rows(&lock, &[]).unwrap();
            connection.commit().unwrap();
        }
        writing.commit().unwrap();
    });
}

#[test]
fn a_server_of_an_older_schema_reads_on_and_its_writes_are_refused_for_a_while() {
    let test = "a_server_of_an_older_schema_reads_on_and_its_writes_are_refused_for_a_while";
    let Some((hosted, database)) = database(test) else { return };
    let tenant = database.sole_tenant().unwrap().number();
    let settings = Arc::new(Settings::parse(&hosted.address()).unwrap());
    let older = PgConnection::open(&settings).unwrap();
    let name = format!("SELECT set_config('stile.tenant', '{tenant}', true)");
    let update = "UPDATE stile.history SET changes = changes + 1";
    older.batch(&format!("BEGIN; {name}")).unwrap();
    assert_eq!(older.rows("SELECT changes FROM stile.history", &[]).unwrap().len(), 1);
    let refused = older.batch(update).unwrap_err();
    assert!(refused.passes(), "{refused}");
    older.batch("ROLLBACK").unwrap();
    let this = schema::announcement();
    older.batch(&format!("BEGIN; {this}{name}; {update}; ROLLBACK")).unwrap();
}

#[test]
fn a_later_schema_changes_the_tables_once_and_people_stay_who_they_are() {
    let test = "a_later_schema_changes_the_tables_once_and_people_stay_who_they_are";
    let Some((hosted, database)) = database(test) else { return };
    let [sole, ann] = [database.sole_tenant().unwrap(), database.tenant_of("i", "ann").unwrap()];
    let settings = Arc::new(Settings::parse(&hosted.address()).unwrap());
    let connection = PgConnection::open(&settings).unwrap();
    let later = ["ALTER TABLE tenants ADD COLUMN seen bigint", "UPDATE tenants SET seen = 3"];
    for _ in 0..2 {
        let migrated = schema::migrate_by(&connection, &later).unwrap();
        assert_eq!(migrated, schema::Migration::Done);
        assert_eq!(hosted.run("SELECT seen FROM stile.tenants").split_whitespace().count(), 2);
    }
    assert_eq!(hosted.run("SELECT version FROM stile.schema_version").trim(), "3");
    assert_eq!(database.sole_tenant().unwrap(), sole);
    assert_eq!(database.tenant_of("i", "ann").unwrap(), ann);
    assert!(matches!(Database::open(&hosted.address()), Err(DatabaseError::Newer)));
}
