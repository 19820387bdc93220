//! Where a test keeps its databases: in SQLite, or on a real server of PostgreSQL.
//!
//! On PostgreSQL each database of a test is a tenant, beside those of the other tests of the
//! process. Their records have the same numbers, and keys and texts from the same small sets. A row
//! of another tenant that reached an answer would make it differ from the oracle's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stile_domain::records::instant::Instant;
use stile_store::postgresql::Database;
use stile_store::records::Records;
use stile_store::state::StateDir;
use stile_store::store_copy::StoreAddress;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

/// The engine of a test's databases.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    Sqlite,
    Postgresql(Arc<Shared>),
    /// A database on PostgreSQL for each test, which has one person's rows.
    Alone(Arc<PostgresServer>),
}

/// A database on PostgreSQL with many tenants.
#[derive(Debug)]
pub(crate) struct Shared {
    database: TestDatabase,
    address: String,
    tenants: AtomicUsize,
}

/// A database and its state folder, which are removed when dropped.
pub(crate) struct TestRecords {
    folder: tempfile::TempDir,
    tenant: Option<TestTenant>,
}

/// A grant as it is stored.
pub(crate) struct StoredGrant<'g> {
    pub(crate) id: &'g str,
    pub(crate) terms: &'g str,
    pub(crate) revoked: Option<i64>,
    pub(crate) bound: Option<&'g str>,
}

/// One of the tenants of a database.
struct TestTenant {
    shared: Arc<Shared>,
    /// `None` for the only person of a database.
    subject: Option<String>,
}

const ISSUER: &str = "https://issuer.example";

impl Home {
    /// Returns a database on PostgreSQL that the tests of this process share. `None`, after a line
    /// about it, if there is no PostgreSQL.
    pub(crate) fn on_postgresql(test: &str) -> Option<Self> {
        static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        Self::on_shared(test, &SHARED, TestDatabase::address)
    }

    /// Returns databases on PostgreSQL that have one person's rows each.
    pub(crate) fn alone_on_postgresql(test: &str) -> Option<Self> {
        PostgresServer::shared(test).map(Self::Alone)
    }

    /// Returns another database, in which PostgreSQL does not check that tenants stay apart: only
    /// the statements do.
    pub(crate) fn without_row_security(test: &str) -> Option<Self> {
        static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        Self::on_shared(test, &SHARED, TestDatabase::superuser_address)
    }

    fn on_shared(
        test: &str,
        shared: &Mutex<Weak<Shared>>,
        address: fn(&TestDatabase) -> String,
    ) -> Option<Self> {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let server = PostgresServer::shared(test)?;
        if let Some(shared) = shared.upgrade() {
            return Some(Self::Postgresql(shared));
        }
        let database = server.database();
        let (address, tenants) = (address(&database), AtomicUsize::new(0));
        let new = Arc::new(Shared { database, address, tenants });
        *shared = Arc::downgrade(&new);
        Some(Self::Postgresql(new))
    }

    /// Returns the engine of the tests that do not name one: SQLite, or with
    /// `STILE_TEST_STORE=postgresql` PostgreSQL, which must then be there.
    pub(crate) fn chosen() -> Self {
        match std::env::var("STILE_TEST_STORE").as_deref() {
            Ok("postgresql") => Self::on_postgresql("STILE_TEST_STORE").expect("a PostgreSQL"),
            _ => Self::Sqlite,
        }
    }

    /// Returns SQLite, and PostgreSQL unless there is none.
    pub(crate) fn all(test: &str) -> Vec<Self> {
        std::iter::once(Self::Sqlite).chain(Self::on_postgresql(test)).collect()
    }

    /// Makes a place for a new database.
    pub(crate) fn place(&self) -> TestRecords {
        let tenant = match self {
            Self::Sqlite => None,
            Self::Postgresql(shared) => {
                let number = shared.tenants.fetch_add(1, Ordering::Relaxed);
                let subject = Some(format!("subject {number}"));
                Some(TestTenant { shared: shared.clone(), subject })
            }
            Self::Alone(server) => {
                let database = server.database();
                let address = database.address();
                let shared = Arc::new(Shared { database, address, tenants: AtomicUsize::new(1) });
                Some(TestTenant { shared, subject: None })
            }
        };
        TestRecords { folder: folder(), tenant }
    }
}

/// A folder in memory, where there is such a thing.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = if Path::new("/dev/shm").is_dir() {
        tempfile::tempdir_in("/dev/shm")
    } else {
        tempfile::tempdir()
    };
    folder.unwrap()
}

impl TestRecords {
    /// The file of a database of SQLite.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("state").join("records.db")
    }

    /// Returns where the database is, for a copy.
    pub(crate) fn address(&self) -> StoreAddress {
        match &self.tenant {
            None => StoreAddress::Folder(self.folder.path().join("state")),
            Some(tenant) => StoreAddress::Postgresql(tenant.shared.address.clone()),
        }
    }

    /// Opens the database, after making it if needed.
    pub(crate) fn open(&self, now: Instant) -> Records {
        let state = StateDir::open(&self.folder.path().join("state")).unwrap();
        let records = match &self.tenant {
            None => Records::open(&state, now).unwrap(),
            Some(TestTenant { shared, subject }) => {
                let database = Database::open(&shared.address).unwrap();
                let tenant = match subject {
                    Some(subject) => database.tenant_of(ISSUER, subject),
                    None => database.sole_tenant(),
                };
                let tenant = tenant.unwrap();
                Records::open_at(&state, &database, &tenant, now).unwrap()
            }
        };
        // Streams of a few records have an index by value, and some records after it.
        records.set_run_records(3);
        records
    }

    /// Counts the rows of a table; of `tokens`, which SQLite has, those of `text_words`.
    pub(crate) fn count(&self, table: &str) -> usize {
        let Some(tenant) = &self.tenant else {
            let text = format!("SELECT count(*) FROM {table}");
            let database = rusqlite::Connection::open(self.file()).unwrap();
            let count: i64 = database.query_row(&text, [], |row| row.get(0)).unwrap();
            return count.try_into().unwrap();
        };
        let table = if table == "tokens" { "text_words" } else { table };
        let text =
            format!("SELECT count(*) FROM stile.{table} WHERE tenant = ({})", tenant.number());
        tenant.shared.database.run(&text).trim().parse().unwrap()
    }

    /// Deletes rows of a table, as damage would. Returns how many.
    pub(crate) fn delete(&self, table: &str, condition: &str) -> usize {
        let Some(tenant) = &self.tenant else {
            let text = format!("DELETE FROM {table} WHERE {condition}");
            return rusqlite::Connection::open(self.file()).unwrap().execute(&text, []).unwrap();
        };
        let text = format!(
            "WITH gone AS (DELETE FROM stile.{table} WHERE tenant = ({}) AND {condition} RETURNING 1) \
             SELECT count(*) FROM gone",
            tenant.number()
        );
        tenant.shared.database.run(&text).trim().parse().unwrap()
    }

    /// Stores grants as they are, also such that the program would not make.
    pub(crate) fn keep_grants(&self, grants: &[StoredGrant<'_>]) {
        let Some(tenant) = &self.tenant else {
            let text =
                "INSERT OR REPLACE INTO grants (id, terms, revoked, bound) VALUES (?1, ?2, ?3, ?4)";
            let database = rusqlite::Connection::open(self.file()).unwrap();
            for StoredGrant { id, terms, revoked, bound } in grants {
                database.execute(text, rusqlite::params![id, terms, revoked, bound]).unwrap();
            }
            return;
        };
        let mut texts = String::new();
        for StoredGrant { id, terms, revoked, bound } in grants {
            let revoked = revoked.map_or_else(|| "NULL".to_owned(), |revoked| revoked.to_string());
            writeln!(
                texts,
                "INSERT INTO stile.grants (tenant, id, terms, revoked, bound) \
                 VALUES (({}), {}, {}, {revoked}, {}) ON CONFLICT (tenant, id) DO UPDATE \
                 SET terms = excluded.terms, revoked = excluded.revoked, bound = excluded.bound;",
                tenant.number(),
                literal(Some(id)),
                literal(Some(terms)),
                literal(*bound),
            )
            .unwrap();
        }
        tenant.shared.database.run(&texts);
    }
}

impl TestTenant {
    /// The query for the number of the tenant.
    fn number(&self) -> String {
        let (issuer, subject) = (literal(Some(ISSUER)), literal(self.subject.as_deref()));
        format!(
            "SELECT number FROM stile.tenants WHERE subject IS NOT DISTINCT FROM sha256({issuer} || '\\x00' || {subject})"
        )
    }
}

/// Writes a text as bytes in SQL.
fn literal(text: Option<&str>) -> String {
    let Some(text) = text else { return "NULL".to_owned() };
    let mut hex = String::new();
    text.bytes().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
    format!("decode('{hex}', 'hex')")
}
