//! Tests of the journal of all servers: one place has their lines, whatever happens to a server or
//! to the database.

use std::sync::Arc;

use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::verify_tests::old_file;
use super::*;
use crate::postgresql::Database;

/// A server with a state folder of its own.
struct Server {
    folder: tempfile::TempDir,
    shared: SharedJournal,
}

impl Server {
    fn new(database: &TestDatabase) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedJournal::of(&Database::open(&database.address()).unwrap());
        Self { folder, shared }
    }

    fn state(&self) -> StateDir {
        StateDir::open(self.folder.path()).unwrap()
    }

    fn open(&self, keep: Option<Duration>) -> Journal {
        let options = JournalOptions { keep, shared: Some(self.shared.clone()) };
        Journal::open_as(&self.state(), options).unwrap()
    }

    /// Writes a line for each tool, and ends.
    fn write(&self, tools: &[&str]) {
        append(&self.open(None), tools);
    }

    /// Returns the journal of all servers, as the owner of this one reads it.
    fn place(&self) -> JournalPlace {
        JournalPlace::new(self.state(), Some(self.shared.clone()))
    }

    fn tools(&self) -> Vec<String> {
        let mut lines = self.place().lines(None).unwrap();
        let mut tools = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            tools.push(line.tool);
        }
        assert_eq!(lines.damaged(), 0);
        tools
    }

    fn faults(&self) -> Vec<FaultKind> {
        let found = self.place().verify(&mut |_| {}).unwrap();
        found.faults.into_iter().map(|fault| fault.kind).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        journal_files(&self.state()).unwrap()
    }
}

fn append(journal: &Journal, tools: &[&str]) {
    for tool in tools {
        let line = JournalLine { tool: (*tool).to_owned(), ..JournalLine::default() };
        journal.append(line).unwrap();
    }
}

fn database(test: &str) -> Option<TestDatabase> {
    Some(PostgresServer::shared(test)?.database())
}

#[test]
fn the_lines_of_all_servers_are_read_in_the_order_of_time() {
    let test = "the_lines_of_all_servers_are_read_in_the_order_of_time";
    let Some(database) = database(test) else { return };
    let (one, other) = (Server::new(&database), Server::new(&database));
    one.write(&["a", "b"]);
    let mut new_lines = one.place().new_lines().unwrap();
    let journal = other.open(None);
    append(&journal, &["c"]);
    one.write(&["d"]);
    append(&journal, &["e"]);
    drop(journal);
    assert_eq!(one.tools(), ["a", "b", "c", "d", "e"]);
    assert_eq!(other.tools(), one.tools());
    let followed: Vec<String> =
        new_lines.take().unwrap().into_iter().map(|line| line.tool).collect();
    assert_eq!(followed, ["c", "d", "e"]);
    assert!(new_lines.take().unwrap().is_empty());
    let found = one.place().verify(&mut |_| {}).unwrap();
    assert_eq!((found.files, found.lines, found.faults), (3, 5, vec![]));
    let mut lines = one.place().lines(Some(Instant(crate::now().0 + 1_000_000))).unwrap();
    assert_eq!(lines.next_line().unwrap(), None);
}

#[test]
fn more_lines_than_fit_in_a_batch_are_copied_once() {
    let test = "more_lines_than_fit_in_a_batch_are_copied_once";
    let Some(database) = database(test) else { return };
    let server = Server::new(&database);
    // As a server that was killed before it could copy.
    let journal = Journal::open(&server.state()).unwrap();
    let tools: Vec<String> = (0..2_345).map(|at| at.to_string()).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    append(&journal, &tools);
    drop(journal);
    assert!(server.tools().is_empty());
    let copiers: Vec<Journal> = (0..3).map(|_| server.open(None)).collect();
    drop(copiers);
    assert_eq!(server.tools(), tools);
    drop(server.open(None));
    assert_eq!(server.tools().len(), tools.len());
    assert!(server.faults().is_empty());
}

#[test]
fn a_line_that_was_torn_or_damaged_keeps_no_other_from_being_copied() {
    let test = "a_line_that_was_torn_or_damaged_keeps_no_other_from_being_copied";
    let Some(database) = database(test) else { return };
    let server = Server::new(&database);
    append(&Journal::open(&server.state()).unwrap(), &["a", "b", "c"]);
    let path = server.files().remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged = text.replacen("\"tool\":\"b\"", "\"tool\":\"\0", 1);
    std::fs::write(&path, damaged + "{\"at\":\"torn").unwrap();
    server.write(&["d"]);
    let mut lines = server.place().lines(None).unwrap();
    let mut tools = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        tools.push(line.tool);
    }
    assert_eq!((tools, lines.damaged()), (["a", "c", "d"].map(str::to_owned).to_vec(), 1));
    assert_eq!(server.faults().len(), 1);
}

#[test]
fn a_change_of_the_lines_in_the_database_is_found() {
    let test = "a_change_of_the_lines_in_the_database_is_found";
    let Some(database) = database(test) else { return };
    let (one, other) = (Server::new(&database), Server::new(&database));
    one.write(&["a", "b", "c"]);
    database.run("UPDATE stile_access.journal_lines SET line = line || ' ' WHERE n = 2");
    assert!(matches!(other.faults()[..], [FaultKind::Line(_)]));
    database
        .run("UPDATE stile_access.journal_lines SET line = trim(E'\\\\x20' FROM line) WHERE n = 2");
    assert!(one.faults().is_empty());
    database.run("DELETE FROM stile_access.journal_lines WHERE n = 3");
    assert_eq!(other.faults(), [FaultKind::CutOff { missing: 1 }]);
    // Whoever changes the lines and how far they were copied is found by their own server.
    let name = one.files()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let chain = JournalChain::of_file(&name);
    let (chain, first) =
        chain.append(br#"{"at":"2026-01-01T00:00:00.000000Z","tool":"x","outcome":"ok"}"#);
    let mut forged = vec![first];
    let mut last = chain;
    for _ in 0..2 {
        let (next, line) =
            last.append(br#"{"at":"2026-01-01T00:00:00.000000Z","tool":"y","outcome":"ok"}"#);
        forged.push(line);
        last = next;
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    database.run("DELETE FROM stile_access.journal_lines");
    for (at, line) in forged.iter().enumerate() {
        database.run(&format!(
            "INSERT INTO stile_access.journal_lines VALUES ('{name}', {}, 'z', '\\x{}')",
            at + 1,
            hex(line)
        ));
    }
    let head = hex(last.head().as_bytes());
    database.run(&format!("UPDATE stile_access.journal_files SET chain = '\\x{head}'"));
    assert!(other.faults().is_empty());
    assert_eq!(one.faults(), [FaultKind::Rewritten]);
}

#[test]
fn lines_wait_in_their_files_while_the_database_is_gone() {
    let test = "lines_wait_in_their_files_while_the_database_is_gone";
    let Some(postgres) = PostgresServer::own(test) else { return };
    let database = postgres.database();
    let server = Server::new(&database);
    postgres.stop();
    // Old enough to be removed, and not copied.
    old_file(&server.state(), Duration::from_secs(3_600), &["a", "b"]);
    drop(server.open(Some(Duration::from_secs(60))));
    assert_eq!(server.files().len(), 1);
    assert_eq!(read_all(&server.state()).unwrap().lines.len(), 2);
    postgres.start();
    // A server that starts now may find the database resting from its failures, so it tries again.
    while !server.files().is_empty() {
        drop(server.open(Some(Duration::from_secs(60))));
    }
    let found = server.place().verify(&mut |_| {}).unwrap();
    assert_eq!((found.lines, found.faults), (2, vec![]), "their last line is not old");
    drop(Arc::clone(&postgres));
}

#[test]
fn old_lines_are_removed_from_the_database_and_do_not_come_back() {
    let test = "old_lines_are_removed_from_the_database_and_do_not_come_back";
    let Some(database) = database(test) else { return };
    let (one, other) = (Server::new(&database), Server::new(&database));
    one.write(&["a", "b"]);
    other.write(&["c"]);
    let name = one.files()[0].file_name().unwrap().to_str().unwrap().to_owned();
    database.run(&format!(
        "UPDATE stile_access.journal_files SET last = '2020-01-01T00:00:00.000000Z' \
         WHERE file = '{name}'"
    ));
    drop(other.open(Some(Duration::from_secs(24 * 60 * 60))));
    assert_eq!(one.tools(), ["c"]);
    one.write(&["d"]);
    assert_eq!(one.tools(), ["c", "d"]);
    let found = one.place().verify(&mut |_| {}).unwrap();
    assert_eq!((found.retired, found.faults), (1, vec![]));
}

#[test]
fn a_removed_line_is_gone_from_the_database_and_from_the_files_of_each_server() {
    let test = "a_removed_line_is_gone_from_the_database_and_from_the_files_of_each_server";
    let Some(database) = database(test) else { return };
    let (one, other) = (Server::new(&database), Server::new(&database));
    one.write(&["a", "secret", "b"]);
    other.write(&["secret", "c"]);
    let is_meant = |line: &JournalLine| line.tool == "secret";
    let planned = other.place().plan_removal(&is_meant).unwrap();
    assert_eq!((planned.lines, planned.files), (2, 2));
    assert_eq!(one.tools().len(), 5);
    assert_eq!(other.place().remove(&is_meant).unwrap(), planned);
    assert_eq!(other.place().remove(&is_meant).unwrap().lines, 0);
    assert_eq!(one.tools(), ["a", "b", "c"]);
    let found = one.place().verify(&mut |_| {}).unwrap();
    assert_eq!((found.lines, found.removed, found.faults), (3, 2, vec![]));
    let has_secret = |server: &Server| {
        server.files().iter().any(|path| std::fs::read_to_string(path).unwrap().contains("secret"))
    };
    assert!(!has_secret(&other) && has_secret(&one));
    one.write(&["d"]);
    assert!(!has_secret(&one));
    assert_eq!(one.tools(), ["a", "b", "c", "d"]);
    // Each file also verifies by itself, against the anchors of its own server.
    for server in [&one, &other] {
        assert_eq!(verify::verify(&server.state(), &mut |_| {}).unwrap().faults, []);
        assert!(server.faults().is_empty());
    }
}

#[test]
fn a_file_without_a_chain_that_a_server_copied_is_an_alarm_for_all() {
    let test = "a_file_without_a_chain_that_a_server_copied_is_an_alarm_for_all";
    let Some(database) = database(test) else { return };
    let (one, other) = (Server::new(&database), Server::new(&database));
    one.write(&["a"]);
    assert!(other.faults().is_empty());
    let line = "{\"at\":\"2026-01-01T00:00:00.000000Z\",\"tool\":\"forged\",\"outcome\":\"ok\"}\n";
    std::fs::write(one.files()[0].with_file_name("x.jsonl"), line).unwrap();
    one.write(&["b"]);
    assert_eq!(other.tools(), ["forged", "a", "b"]);
    assert_eq!(other.faults(), [FaultKind::Foreign]);
}
