//! Tests of copies of one of several people, on real databases.

use std::sync::Arc;

use stile_domain::records::identifiers::SourceName;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::problem::Problem;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::tests::{SMALL, fields, fill_records, folder, is_half_copied, permits, put};
use super::*;
use crate::postgresql::{DatabaseError, tenant_sql};
use crate::records::Records;
use crate::state::TokenStore;

const ISSUER: &str = "https://issuer.example";

/// A database with several people.
struct Hosted {
    folder: tempfile::TempDir,
    database: TestDatabase,
}

impl Hosted {
    /// Makes a database with these people, whose records have the same keys and numbers.
    fn with(server: &Arc<PostgresServer>, people: &[&str]) -> Self {
        let hosted = Self { folder: folder(), database: server.database() };
        for person in people {
            let records = hosted.open(person).unwrap();
            fill_records(&records);
            put(&records, 50, "k9", &fields(&format!("the heron of {person}")));
        }
        hosted
    }

    fn address(&self) -> StoreAddress {
        StoreAddress::Postgresql(self.database.address())
    }

    fn open(&self, person: &str) -> Result<Records, RecordsError> {
        let state = StateDir::open(self.folder.path()).unwrap();
        let database = Database::open(&self.database.address())?;
        Records::open_at(&state, &database, &database.tenant_of(ISSUER, person)?, Instant(0))
    }

    fn number_of(&self, person: &str) -> i64 {
        let database = Database::open(&self.database.address()).unwrap();
        database.tenant_of(ISSUER, person).unwrap().number()
    }

    fn tenants(&self) -> String {
        self.database.run("SELECT number, id, subject, incomplete FROM stile.tenants ORDER BY 1")
    }
}

fn named(person: &str) -> PersonName {
    PersonName::Subject { issuer: ISSUER.to_owned(), subject: person.to_owned() }
}

fn at(folder: &tempfile::TempDir) -> StoreAddress {
    StoreAddress::Folder(folder.path().to_owned())
}

/// Returns all rows of a person that a copy takes over.
fn rows(end: &StoreAddress, person: &str) -> Vec<String> {
    let end = open_source_of(end, &named(person), Instant(0)).unwrap().rows;
    let mut all = vec![format!("{:?}", end.history().unwrap())];
    for table in TABLES.iter().filter(|table| !table.is_shared) {
        let rows = end.rows_after(table, None, 100_000).unwrap();
        assert!(!rows.is_empty(), "{} has no rows, so nothing is tried", table.name);
        all.extend(rows.iter().map(|row| format!("{} {row:?}", table.name)));
    }
    all
}

/// Opens a copy and copies all, without the comparison at the end.
fn copied(from: &StoreAddress, to: &StoreAddress, person: &PersonName) -> StoreCopy {
    let mut copy = StoreCopy::open_person(from, to, person, Instant(20)).unwrap();
    while copy.step().unwrap().is_some() {}
    copy
}

fn copy(from: &StoreAddress, to: &StoreAddress, person: &str) -> Vec<TableChecksum> {
    copied(from, to, &named(person)).verify(&mut |_| {}).unwrap()
}

fn refusal(from: &StoreAddress, to: &StoreAddress, person: &PersonName) -> CopyError {
    StoreCopy::open_person(from, to, person, Instant(20)).map(drop).unwrap_err()
}

#[test]
fn each_of_several_people_moves_to_a_folder_and_into_another_database_alone() {
    let test = "each_of_several_people_moves_to_a_folder_and_into_another_database_alone";
    let Some(server) = PostgresServer::shared(test) else { return };
    let first = Hosted::with(&server, &["ann", "bob"]);
    let other = Hosted::with(&server, &["eve"]);
    let of_eve = rows(&other.address(), "eve");
    let sealed = first.open("ann").unwrap().seal(b"cursor").unwrap();
    for person in ["ann", "bob"] {
        let before = rows(&first.address(), person);
        let heron = |rows: &[String], person: &str| {
            let text = format!("{:?}", format!("the heron of {person}").into_bytes());
            let text = text.trim_matches(['[', ']']).to_owned();
            rows.iter().any(|row| row.contains(&text))
        };
        assert!(heron(&before, person) && !heron(&before, "eve"), "{before:#?}");
        let alone = folder();
        let there = copy(&first.address(), &at(&alone), person);
        assert_eq!(rows(&at(&alone), person), before);
        let state = StateDir::open(alone.path()).unwrap();
        assert!(!TokenStore::exists(&state), "the tokens of the database stay there");
        let records = Records::open(&state, Instant(0)).unwrap();
        records.check(&permits("").0).unwrap();
        assert_eq!(records.unseal(&sealed), None, "so do the keys that seal cursors");

        // The person may be there already, with a space and without records.
        if person == "bob" {
            drop(other.open("bob").unwrap());
        }
        let tenants = other.tenants();
        let again = copied(&at(&alone), &other.address(), &named(person));
        let id = again.person().unwrap().to_owned();
        assert_eq!(again.verify(&mut |_| {}).unwrap(), there, "the same checksums");
        assert_eq!(rows(&other.address(), person), before);
        assert!(other.tenants().starts_with(&tenants), "nobody got another folder");
        assert_eq!(rows(&other.address(), "eve"), of_eve);
        assert_eq!(rows(&first.address(), person), before, "the source is as it was");

        let by_id = folder();
        let named_by_id = PersonName::Id(id);
        copied(&other.address(), &at(&by_id), &named_by_id).verify(&mut |_| {}).unwrap();
        assert_eq!(rows(&at(&by_id), person), before);
        let records = other.open(person).unwrap();
        records.check(&permits("").0).unwrap();
        put(&records, 60, "new", &fields("new words"));
    }
}

#[test]
fn a_copy_of_a_person_that_is_cut_after_each_step_keeps_only_that_person_waiting() {
    let test = "a_copy_of_a_person_that_is_cut_after_each_step_keeps_only_that_person_waiting";
    let Some(server) = PostgresServer::shared(test) else { return };
    let source = Hosted::with(&server, &["ann", "bob"]);
    let (alone, target) = (folder(), Hosted::with(&server, &["bob"]));
    let (before, of_bob) = (rows(&source.address(), "ann"), rows(&target.address(), "bob"));
    let ends = [(source.address(), at(&alone)), (at(&alone), target.address())];
    for (from, to) in ends {
        let mut steps = 0;
        loop {
            let copy = StoreCopy::open_person(&from, &to, &named("ann"), Instant(20)).unwrap();
            let mut copy = copy.with_step_size(SMALL);
            if copy.step().unwrap().is_none() {
                copy.verify(&mut |_| {}).unwrap();
                break;
            }
            drop(copy);
            if steps % 9 == 0 {
                let opened = match &to {
                    StoreAddress::Folder(path) => {
                        Records::open(&StateDir::open(path).unwrap(), Instant(0))
                    }
                    StoreAddress::Postgresql(_) => {
                        drop(target.open("bob").unwrap());
                        let half = refusal(&to, &at(&folder()), &named("ann"));
                        assert!(
                            matches!(&half, CopyError::Records(error) if is_half_copied(error))
                        );
                        target.open("ann")
                    }
                };
                let error = opened.map(drop).unwrap_err();
                assert!(is_half_copied(&error), "{error}");
            }
            steps += 1;
        }
        assert!(steps > 50, "{steps}");
        assert_eq!(rows(&to, "ann"), before);
    }
    assert_eq!(rows(&target.address(), "bob"), of_bob);
    assert_eq!(target.database.run("SELECT count(*) FROM stile.person_copies").trim(), "0");
}

#[test]
fn a_changed_byte_of_a_person_is_found_and_the_next_run_mends_it() {
    let test = "a_changed_byte_of_a_person_is_found_and_the_next_run_mends_it";
    let Some(server) = PostgresServer::shared(test) else { return };
    let source = Hosted::with(&server, &["ann"]);
    let target = Hosted::with(&server, &["bob"]);
    let (before, of_bob) = (rows(&source.address(), "ann"), rows(&target.address(), "bob"));
    let complete = copied(&source.address(), &target.address(), &named("ann"));
    let number = target.database.run("SELECT max(number) FROM stile.tenants");
    target.database.run(&format!(
        "UPDATE stile.blob_pieces SET data = set_byte(data, 0, 1) WHERE tenant = {number}"
    ));
    let error = complete.verify(&mut |_| {}).map(drop).unwrap_err();
    assert!(
        matches!(&error, CopyError::Differs { tables } if *tables == ["blob_pieces"]),
        "{error}"
    );
    assert!(target.open("ann").map(drop).is_err_and(|error| is_half_copied(&error)));
    copy(&source.address(), &target.address(), "ann");
    assert_eq!(rows(&target.address(), "ann"), before);
    assert_eq!(rows(&target.address(), "bob"), of_bob);
}

#[test]
fn a_person_is_not_copied_over_records_nor_from_nowhere() {
    let test = "a_person_is_not_copied_over_records_nor_from_nowhere";
    let Some(server) = PostgresServer::shared(test) else { return };
    let hosted = Hosted::with(&server, &["ann", "bob"]);
    let (alone, empty) = (folder(), folder());
    copy(&hosted.address(), &at(&alone), "ann");
    let before = (rows(&hosted.address(), "ann"), rows(&hosted.address(), "bob"));
    let tenants = hosted.tenants();
    let nobody = PersonName::Id("0".repeat(32));
    for (from, to, person, is_expected) in [
        (hosted.address(), at(&empty), named("eve"), "NoPerson(\"--from\")"),
        (hosted.address(), at(&empty), nobody.clone(), "NoPerson(\"--from\")"),
        (at(&alone), hosted.address(), nobody, "NoPerson(\"--to\")"),
        (at(&alone), hosted.address(), named("bob"), "NotEmpty"),
        (at(&alone), hosted.address(), named("ann"), "SameStore"),
        (hosted.address(), at(&alone), named("bob"), "NotEmpty"),
        (at(&alone), at(&empty), named("ann"), "NoDatabase"),
    ] {
        let error = refusal(&from, &to, &person);
        assert!(format!("{error:?}").starts_with(is_expected), "{is_expected}: {error:?}");
    }
    let after = (rows(&hosted.address(), "ann"), rows(&hosted.address(), "bob"));
    assert_eq!(after, before);
    assert_eq!(hosted.tenants(), tenants);
    assert_ne!(hosted.number_of("ann"), hosted.number_of("bob"));
}

#[test]
fn a_person_is_not_copied_into_nor_from_a_database_that_is_half_copied_itself() {
    let test = "a_person_is_not_copied_into_nor_from_a_database_that_is_half_copied_itself";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (source, alone, whole) = (Hosted::with(&server, &["ann"]), folder(), folder());
    let (from, half) = (source.address(), Hosted::with(&server, &[]));
    copy(&from, &at(&alone), "ann");
    copy(&from, &at(&whole), "ann");
    let mut cut = StoreCopy::open(&at(&whole), &half.address(), Instant(20)).unwrap();
    cut.step().unwrap();
    let tenants = half.tenants();
    for (from, to) in [(at(&alone), half.address()), (half.address(), at(&folder()))] {
        let error = refusal(&from, &to, &named("ann"));
        assert!(matches!(error, CopyError::Database(DatabaseError::HalfCopied)), "{error:?}");
    }
    assert_eq!(half.tenants(), tenants, "no person was made");
    while cut.step().unwrap().is_some() {}
    cut.verify(&mut |_| {}).unwrap();
}

/// Waits until a transaction waits for a lock, or the thread ended without waiting.
fn wait_for_lock<T>(database: &TestDatabase, thread: &std::thread::ScopedJoinHandle<'_, T>) {
    let text = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while !thread.is_finished() && database.run(text).trim() == "0" {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_has_a_person_open_cannot_write_between_the_rows_of_a_copy() {
    let test = "a_server_that_has_a_person_open_cannot_write_between_the_rows_of_a_copy";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (source, target) = (Hosted::with(&server, &["ann"]), Hosted::with(&server, &["bob"]));
    let before = rows(&source.address(), "ann");
    let (open, bob) = (target.open("ann").unwrap(), target.open("bob").unwrap());
    let write = || open.write_at(&permits("").0, Instant(30), |_| Ok(()));
    write().unwrap();
    let (from, to) = (source.address(), target.address());
    let mut copy = StoreCopy::open_person(&from, &to, &named("ann"), Instant(20)).unwrap();
    assert_eq!(write(), Err(Problem::NotStored), "from the beginning of the copy");
    while copy.step().unwrap().is_some() {}
    assert_eq!(write(), Err(Problem::NotStored), "until its end");
    put(&bob, 60, "new", &fields("others write"));
    copy.verify(&mut |_| {}).unwrap();
    assert_eq!(rows(&target.address(), "ann"), before);
    put(&open, 60, "new", &fields("new words"));
    open.check(&permits("").0).unwrap();
}

#[test]
fn a_write_and_the_beginning_of_a_copy_wait_for_each_other() {
    let test = "a_write_and_the_beginning_of_a_copy_wait_for_each_other";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (source, target) = (Hosted::with(&server, &["ann"]), Hosted::with(&server, &["bob"]));
    let open = target.open("ann").unwrap();

    let database = Database::open(&target.database.address()).unwrap();
    let ann = database.tenant_of(ISSUER, "ann").unwrap();
    let set = |value| {
        tenant_sql!(" WHERE number = $1")
            .with_head(&format!("UPDATE tenants SET incomplete = {value}"))
    };
    let beginning = database.write_of(&ann).unwrap();
    let lock = tenant_sql!("SELECT 1 FROM history WHERE tenant = $1 FOR UPDATE");
    beginning.rows(&lock, &[]).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| open.write_at(&permits("").0, Instant(30), |_| Ok(())));
        wait_for_lock(&target.database, &waiting);
        beginning.rows(&set(1), &[]).unwrap();
        beginning.commit().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(Problem::NotStored));
    });
    let ending = database.write_of(&ann).unwrap();
    ending.rows(&set(0), &[]).unwrap();
    ending.commit().unwrap();

    let (from, to) = (source.address(), target.address());
    let [mail, messages] = ["mail", "messages"].map(|name| SourceName::parse(name).unwrap());
    std::thread::scope(|scope| {
        let mut waiting = None;
        let written = open.write_at(&permits("").0, Instant(30), |batch| {
            batch.declare(&mail, &messages, "{}", &IndexedFields::default())?;
            let copy = scope.spawn(|| refusal(&from, &to, &named("ann")));
            wait_for_lock(&target.database, &copy);
            waiting = Some(copy);
            Ok(())
        });
        written.unwrap();
        let refused = waiting.unwrap().join().unwrap();
        assert!(matches!(refused, CopyError::NotEmpty), "{refused}");
    });
    open.write_at(&permits("").0, Instant(40), |_| Ok(())).unwrap();
}
