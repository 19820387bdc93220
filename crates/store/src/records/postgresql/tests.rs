//! Tests of the engine against a real server of PostgreSQL.

use stile_domain::records::identifiers::RecordKey;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::*;
use crate::records::sqlite::tests::{incoming, indexed, message, messages, permits};
use crate::records::{RecordQuery, Records, SortOrder};

/// A database with the tables of this version.
struct Hosted {
    records: Records,
    database: TestDatabase,
    _folder: tempfile::TempDir,
}

/// Opens a new database. `None` if there is no PostgreSQL.
fn hosted(test: &str) -> Option<Hosted> {
    Some(open(PostgresServer::shared(test)?.database()))
}

fn open(database: TestDatabase) -> Hosted {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(folder.path()).unwrap();
    let records = Records::open_at(&state, &database.address(), Instant(0)).unwrap();
    Hosted { records, database, _folder: folder }
}

impl Hosted {
    fn put(&self, key: &str, text: &str) -> Result<(), Problem> {
        self.records.write(&permits().0, |batch| {
            let target = messages(batch, &indexed())?;
            let key = RecordKey::parse(key).unwrap();
            batch.upsert(&target, incoming(&key, &message("2026-01-01", text))).map(drop)
        })
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
