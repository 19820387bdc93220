//! What the owner asks costs what it finds, and not what the history keeps.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A call of one client in a history with many changes of others.
struct Crowd {
    rig: Rig,
    call: ChangeNumber,
    since: Instant,
}

impl Crowd {
    fn new(others: i64) -> Self {
        let rig = Rig::new();
        let one = Call::new(Author { client: Some("one".to_owned()), ..author("ann") });
        let call = keep_as(&rig.history, &one, "/work/new", [None, Some(b"new")]).unwrap();
        // A version that is a file of its own.
        let large = noise(300_000, 1);
        keep_as(&rig.history, &one, "/work/old", [Some(&large), Some(b"short")]).unwrap();
        rig.history
            .note_folders(&one, &[FolderBefore { path: path("/gone"), mode: 0o755, to: None }]);
        rig.add(others);
        let since = rig.history.changes(&ChangeQuery::default()).unwrap()[0].at;
        let undo = Author { tool: "undo".to_owned(), ..author("ann") };
        rig.replace_as(&undo, "/work/last", b"1", b"2");
        Self { rig, call: call.number(), since: Instant(since.0 + 1) }
    }

    /// Returns how many steps of the database each question takes, by its name.
    fn steps(&self) -> Vec<(&'static str, u64)> {
        let history = &self.rig.history;
        let finds = |query: ChangeQuery, found: usize| {
            assert_eq!(history.changes(&query).unwrap().len(), found, "{query:?}");
        };
        let (call, since, client) = (Some(self.call), Some(self.since), Some("one".to_owned()));
        let none = ChangeQuery::default;
        let of_path = |name: &str| ChangeQuery { path: Some(path(name)), ..none() };
        let counted = |name: &'static str, ask: &dyn Fn()| (name, steps_of(history, ask));
        vec![
            counted("the latest", &|| finds(ChangeQuery { limit: Some(3), ..none() }, 3)),
            counted("a call", &|| finds(ChangeQuery { call, ..none() }, 2)),
            counted("a file", &|| finds(of_path("/work/new"), 1)),
            counted("a folder", &|| finds(of_path("/work"), 3)),
            counted("a client", &|| finds(ChangeQuery { client: client.clone(), ..none() }, 2)),
            counted("a client of late", &|| {
                finds(ChangeQuery { client: Some("other 1".to_owned()), since, ..none() }, 0);
            }),
            counted("of late", &|| finds(ChangeQuery { since, ..none() }, 1)),
            counted("undos", &|| {
                let tool = Some("undo".to_owned());
                finds(ChangeQuery { tool, above: call, ..none() }, 1);
            }),
            counted("authors", &|| assert_eq!(history.authors(&none()).unwrap().len(), 22)),
            counted("callers", &|| {
                let callers = Some(vec!["of one".to_owned()]);
                finds(ChangeQuery { callers, ..none() }, 0);
            }),
            counted("clients", &|| assert_eq!(history.clients().unwrap().len(), 22)),
            counted("what became of a file", &|| {
                let gone = history.related_changes([path("/work/new")], ChangeNumber(0));
                assert_eq!(gone.unwrap().len(), 1);
            }),
            counted("a version", &|| {
                let before = OldVersion::parse("2").unwrap();
                history.find_version(&path("/work/old"), &before, None).unwrap();
            }),
            counted("modes of folders", &|| {
                let query = ChangeQuery { client: client.clone(), ..none() };
                assert_eq!(history.folder_notes(&query).unwrap().len(), 1);
                assert_eq!(history.folder_notes_at([&path("/gone")]).unwrap().len(), 1);
            }),
            counted("what is too old", &|| history.prune().unwrap()),
            counted("files of versions", &|| history.remove_orphans().unwrap()),
        ]
    }
}

impl Rig {
    /// Adds changes of twenty other clients, and notes of folders.
    fn add(&self, others: i64) {
        let connection = self.history.connection();
        let numbers = format!(
            "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers \
             WHERE i < {others})"
        );
        let digest = |column: &str| format!("unhex(printf('%064x', {column}))");
        let statements = [
            format!(
                "{numbers} INSERT INTO versions (hash, size, stored, share, is_first, last_change, \
                 last_path) SELECT {}, 1, 1, 'token', 0, i + 2, '/bulk' FROM numbers",
                digest("i")
            ),
            format!(
                "{numbers} INSERT INTO changes (space, call, at, kind, path, before, size_before, \
                 after, tool, subject, client, share, is_later, is_bulk, bytes) \
                 SELECT 1, i + 2, (SELECT max(at) FROM changes) + i, 'replaced', \
                 '/bulk/' || (i % 50), {}, 1, {}, 'text.edit', 'bob', 'other ' || (i % 20), \
                 'client other ' || (i % 20), 1, 0, 310 FROM numbers",
                digest("i"),
                digest("i + 1"),
            ),
            format!(
                "{numbers} INSERT INTO folders (space, path, mode, call, at, tool, subject, \
                 client, share, bytes) SELECT 1, '/bulk/' || i, 493, i + 2, i, 'folder.remove', \
                 'bob', 'other', 'token', 310 FROM numbers"
            ),
        ];
        connection.execute_batch(&statements.join(";")).unwrap();
    }

    fn replace_as(&self, author: &Author, name: &str, before: &[u8], after: &[u8]) {
        keep(&self.history, author, name, before, after).unwrap();
    }
}

/// Returns how many instructions of SQLite's machine both connections ran.
fn steps_of(history: &History, ask: &dyn Fn()) -> u64 {
    // What is prepared first is not counted.
    ask();
    let steps = Arc::new(AtomicU64::new(0));
    let count = |counted: Option<Arc<AtomicU64>>| {
        for connection in [history.connection(), history.relaxed()] {
            let handler = counted.clone().map(|counted| {
                move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    false
                }
            });
            let mut connection = connection;
            connection.progress_handler(1, handler).unwrap();
        }
    };
    count(Some(Arc::clone(&steps)));
    ask();
    count(None);
    steps.load(Ordering::Relaxed)
}

#[test]
fn what_the_owner_asks_costs_what_it_finds() {
    let (few, many) = (Crowd::new(100).steps(), Crowd::new(20_000).steps());
    let grown: Vec<_> =
        few.iter().zip(&many).filter(|((_, few), (_, many))| *many > few + few / 4 + 20).collect();
    assert!(grown.is_empty(), "{grown:?}");
}
