//! Tests of copies between the engines, on real databases.

use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use stile_domain::permit::Principal;
use stile_domain::records::authority::{OwnerPermit, RecordsClaim, RecordsPermit};
use stile_domain::records::grant::{Grant, StatedTerms, StreamGrant};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_domain::scope::Scopes;
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use stile_domain::records::problem::Problem;

use super::access::Access;
use super::*;
use crate::postgresql::DatabaseError;
use crate::records::{IncomingRecord, Records, WriteBatch};
use crate::sql::Cell;
use crate::state::{ACCESS_TABLES, TokenKey, TokenStore};

pub(super) const SMALL: StepSize = StepSize { rows: 3, bytes: 1 << 20 };

/// A database in one of the engines, which is removed when dropped.
struct Place {
    folder: tempfile::TempDir,
    database: Option<TestDatabase>,
}

/// Makes a folder in memory, where there is such a thing.
pub(super) fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.unwrap()
}

impl Place {
    fn in_sqlite() -> Self {
        Self { folder: folder(), database: None }
    }

    fn on_postgresql(server: &Arc<PostgresServer>) -> Self {
        Self { folder: folder(), database: Some(server.database()) }
    }

    fn address(&self) -> StoreAddress {
        match &self.database {
            None => StoreAddress::Folder(self.folder.path().to_owned()),
            Some(database) => StoreAddress::Postgresql(database.address()),
        }
    }

    fn open(&self) -> Result<Records, RecordsError> {
        let state = StateDir::open(self.folder.path()).unwrap();
        match &self.database {
            None => Records::open(&state, Instant(0)),
            Some(database) => {
                let database = Database::open(&database.address())?;
                Records::open_at(&state, &database, &database.sole_tenant()?, Instant(0))
            }
        }
    }

    fn sqlite(&self) -> Connection {
        let connection = Connection::open(self.folder.path().join("records.db")).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        connection
    }

    /// Runs a statement, as a damaged disk or another program would.
    fn tamper(&self, in_sqlite: &str, on_postgresql: &str) {
        match &self.database {
            None => assert_ne!(self.sqlite().execute(in_sqlite, []).unwrap(), 0, "{in_sqlite}"),
            Some(database) => drop(database.run(on_postgresql)),
        }
    }

    /// Returns all rows of all tables.
    fn rows(&self) -> Vec<String> {
        let Source { rows: end, access, .. } = open_source(&self.address(), Instant(0)).unwrap();
        let mut all = vec![format!("{:?}", end.history().unwrap())];
        let Access { rows, key } = access.unwrap().read().unwrap();
        all.push(format!("{:?}", key.map(|key| (key.secret, key.audience))));
        for (table, rows) in ACCESS_TABLES.iter().zip(rows) {
            assert!(!rows.is_empty(), "{} has no rows, so nothing is tried", table.name);
            all.extend(rows.iter().map(|row| format!("{} {row:?}", table.name)));
        }
        for table in &TABLES {
            let rows = end.rows_after(table, None, 100_000).unwrap();
            assert!(!rows.is_empty(), "{} has no rows, so nothing is tried", table.name);
            all.extend(rows.iter().map(|row| format!("{} {row:?}", table.name)));
        }
        all
    }

    /// Returns the entries of the index, in a form of the engine.
    fn index(&self) -> Vec<String> {
        if let Some(database) = &self.database {
            let text = "SELECT 't', number, encode(words, 'hex') FROM stile.text_words UNION \
                        SELECT 'w', tag, encode(token, 'hex') FROM stile.word_blocks ORDER BY 1, 2, 3";
            return database.run(text).lines().map(str::to_owned).collect();
        }
        let connection = self.sqlite();
        let table = "CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'tokens', 'instance')";
        connection.execute_batch(table).unwrap();
        let text = "SELECT doc, \"offset\", term FROM temp.v ORDER BY 1, 2, 3";
        let mut query = connection.prepare(text).unwrap();
        let rows = query.query_map([], |row| {
            let [doc, offset]: [i64; 2] = [row.get(0)?, row.get(1)?];
            Ok(format!("{doc} {offset} {}", row.get::<_, String>(2)?))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is its own owner and its own client")]
pub(super) fn permits(grant: &str) -> (OwnerPermit, RecordsPermit) {
    let owner = Principal::assert_verified("ann", None, None, Scopes::none(), RecordsClaim::Owner);
    let claim = RecordsClaim::Grant(grant.into());
    let client = Principal::assert_verified("ann", Some("t1"), None, Scopes::none(), claim);
    (owner.gate().owner().unwrap(), client.gate().records().unwrap())
}

fn name(text: &str) -> SourceName {
    SourceName::parse(text).unwrap()
}

fn write<T>(
    records: &Records,
    now: i64,
    write: impl FnOnce(&mut WriteBatch<'_>) -> Result<T, Problem>,
) -> T {
    records.write_at(&permits("").0, at(now), write).unwrap()
}

/// Some microseconds after these tests began. Older lines of the log would be removed.
fn at(micros: i64) -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    Instant(START.get_or_init(crate::now).0 + micros)
}

pub(super) fn put(records: &Records, now: i64, key: &str, fields: &RecordFields) {
    write(records, now, |batch| {
        let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
        let key = RecordKey::parse(key).unwrap();
        let emitted = at(now);
        batch.upsert(&target, IncomingRecord { key: &key, emitted, fields, streamed: Vec::new() })
    });
}

pub(super) fn fields(text: &str) -> RecordFields {
    vec![
        ("at".to_owned(), FieldValue::Text("2026-01-02".to_owned())),
        ("n".to_owned(), FieldValue::Number("12345678901234567890.0e-400".into())),
        ("text".to_owned(), FieldValue::Text(text.to_owned())),
    ]
}

/// Returns rows for all tables of tokens and sign-in, and a key.
fn some_access() -> Access {
    let (text, bytes) =
        (|text: &str| Cell::Text(text.to_owned()), |byte| Cell::Bytes(vec![byte; 32]));
    let (number, none) = (Cell::Integer, Cell::Null);
    let token = |jti: &str, revoked: Cell| {
        let (issued, expires) = (number(5), number(i64::MAX));
        vec![
            text(jti),
            text("ann"),
            text("c"),
            text("read:/"),
            issued,
            expires,
            revoked,
            text("grt_1"),
            number(1),
            none.clone(),
            number(0),
        ]
    };
    let rows = vec![
        // Languages order these otherwise than bytes do.
        vec![token("a-b", none.clone()), token("B", number(7)), token("aB", none.clone())],
        vec![vec![text("urn:uuid:x"), none.clone(), text("/srv/notes")]],
        vec![vec![
            text("id"),
            text("registered"),
            text("Ed"),
            text("[]"),
            number(1),
            none.clone(),
            number(2),
        ]],
        vec![vec![
            text("auth"),
            text("id"),
            text("Ed"),
            text("ann"),
            text("urn:uuid:x"),
            text("read:/"),
            none.clone(),
            number(0),
            number(1),
            number(2),
            none.clone(),
            number(3),
        ]],
        vec![vec![bytes(1), text("auth"), none.clone(), text("s256"), number(1), number(2)]],
        vec![vec![bytes(2), text("auth"), number(1), none.clone(), bytes(9)]],
        vec![vec![text("a-b"), text("auth")]],
        vec![vec![
            bytes(3),
            text("ann"),
            number(1),
            number(2),
            none.clone(),
            text("Firefox on Linux"),
            none.clone(),
        ]],
        vec![vec![bytes(4), text("ann"), number(1)]],
        vec![vec![
            number(1),
            text("ann"),
            bytes(5),
            bytes(6),
            number(19_456),
            number(2),
            number(3),
        ]],
        vec![vec![
            bytes(7),
            text("ann"),
            text("key"),
            text("notes.example"),
            bytes(8),
            number(4),
            number(5),
            none.clone(),
        ]],
        vec![vec![text("a-b"), number(9)]],
    ];
    let key = TokenKey { secret: [9; 32], audience: uuid::Uuid::from_u128(7).urn().to_string() };
    Access { rows, key: Some(key) }
}

/// Stores tokens and records with everything that a database can hold.
fn fill(place: &Place) {
    open_target(&place.address()).unwrap().access.unwrap().write(&some_access()).unwrap();
    fill_records(&place.open().unwrap());
}

/// Stores records with everything that a database can hold.
pub(super) fn fill_records(records: &Records) {
    let indexed = IndexedFields {
        cursor_field: Some("at".to_owned()),
        cursor_is_time: true,
        time_field: Some("at".to_owned()),
        searchable: ["text".to_owned()].into(),
        ..IndexedFields::default()
    };
    let blob: Vec<u8> = (0..150_000_u32).map(|at| (at >> 7) as u8).collect();
    let blob = write(records, 1, |batch| {
        batch.declare(&name("mail"), &name("messages"), "{\"a\\u0000\":1}", &indexed)?;
        batch.declare(&name("empty"), &name("messages"), "{}", &indexed)?;
        batch.put_blob(&mut &blob[..])
    });
    let file = format!("[{{\"blob_id\":\"{}\",\"mime_type\":\"text/plain\"}}]", blob.unwrap().id);
    put(records, 2, "zero\0key", &fields("with \0 inside"));
    put(records, 3, "long", &fields(&"wörter 👩‍👧 und mehr ".repeat(2000)));
    let mut with_file = fields("a file");
    with_file.push(("files".to_owned(), FieldValue::Json(file)));
    put(records, 4, "file", &with_file);
    for at in 0..70 {
        put(records, 5, &format!("k{at}"), &fields(&format!("some words of {at}")));
    }
    put(records, 6, "k3", &fields("other words"));
    put(records, 7, "k69", &fields("the last record"));
    write(records, 8, |batch| {
        let target = batch.target(&name("mail"), &name("messages"))?.unwrap();
        batch.delete(&target, "k69")
    });
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
    let [bound, revoked] =
        [(); 2].map(|()| records.grant(&permits("").0, &grant).unwrap().unwrap());
    records.read(&permits(&bound).1, crate::now(), |view| view.sources()).unwrap();
    records.revoke(&permits("").0, &revoked, crate::now()).unwrap();
}

/// Opens a copy and copies all, without the comparison at the end.
fn copied(from: &Place, to: &Place, size: StepSize) -> StoreCopy {
    let copy = StoreCopy::open(&from.address(), &to.address(), Instant(20)).unwrap();
    let mut copy = copy.with_step_size(size);
    while copy.step().unwrap().is_some() {}
    copy
}

fn copy(from: &Place, to: &Place) -> Result<Vec<TableChecksum>, CopyError> {
    copied(from, to, StepSize::default()).verify(&mut |_| {})
}

/// The pairs of engines that there are: from and to.
fn directions(test: &str) -> Vec<(Place, Place)> {
    let mut all = vec![(Place::in_sqlite(), Place::in_sqlite())];
    if let Some(server) = PostgresServer::shared(test) {
        all.push((Place::in_sqlite(), Place::on_postgresql(&server)));
        all.push((Place::on_postgresql(&server), Place::in_sqlite()));
    }
    all
}

pub(super) fn is_half_copied(error: &RecordsError) -> bool {
    matches!(error, RecordsError::HalfCopied | RecordsError::Hosted(DatabaseError::HalfCopied))
}

#[test]
fn a_copy_to_the_other_engine_and_back_equals_the_source() {
    let test = "a_copy_to_the_other_engine_and_back_equals_the_source";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (first, other, back) =
        (Place::in_sqlite(), Place::on_postgresql(&server), Place::in_sqlite());
    fill(&first);
    let there = copy(&first, &other).unwrap();
    assert_eq!(other.rows(), first.rows());
    assert_eq!(copy(&other, &back).unwrap(), there, "the same checksums");
    assert_eq!(back.rows(), first.rows());
    assert_eq!(back.index(), first.index());
    let [first, other, back] = [&first, &other, &back].map(|place| place.open().unwrap());
    let sealed = first.seal(b"cursor").unwrap();
    for copy in [&other, &back] {
        copy.check(&permits("").0).unwrap();
        assert_eq!(copy.unseal(&sealed).as_deref(), Some(&b"cursor"[..]));
        // Numbers go on after those that deleted records had.
        put(copy, 30, "new", &fields("new"));
    }
    put(&first, 30, "new", &fields("new"));
}

#[test]
fn the_index_of_a_copy_equals_that_of_records_that_were_stored() {
    for (from, to) in directions("the_index_of_a_copy_equals_that_of_records_that_were_stored") {
        fill(&from);
        copy(&from, &to).unwrap();
        let stored = match &to.database {
            None => Place::in_sqlite(),
            Some(_) => Place::on_postgresql(&PostgresServer::shared("").unwrap()),
        };
        fill(&stored);
        let index = to.index();
        assert!(index.len() > 100, "{}", index.len());
        assert_eq!(index, stored.index());
    }
}

#[test]
fn records_stored_after_a_copy_get_the_numbers_that_they_had_got_at_the_source() {
    for (from, to) in directions("records_stored_after_a_copy_get_the_numbers") {
        fill(&from);
        copy(&from, &to).unwrap();
        for place in [&from, &to] {
            let records = place.open().unwrap();
            put(&records, 30, "new", &fields("new words"));
            put(&records, 31, "k3", &fields("other words again"));
        }
        assert_eq!(from.rows(), to.rows());
    }
}

#[test]
fn a_copy_that_is_cut_after_each_step_equals_one_that_is_not() {
    for (from, to) in directions("a_copy_that_is_cut_after_each_step_equals_one_that_is_not") {
        fill(&from);
        let mut steps = 0;
        loop {
            let copy = StoreCopy::open(&from.address(), &to.address(), Instant(20)).unwrap();
            let mut copy = copy.with_step_size(SMALL);
            if copy.step().unwrap().is_none() {
                copy.verify(&mut |_| {}).unwrap();
                break;
            }
            drop(copy);
            if steps % 9 == 0 {
                let error = to.open().map(drop).unwrap_err();
                assert!(is_half_copied(&error), "{error}");
            }
            steps += 1;
        }
        assert!(steps > 50, "{steps}");
        assert_eq!(to.rows(), from.rows());
        let uncut = Place::in_sqlite();
        copy(&from, &uncut).unwrap();
        let back = Place::in_sqlite();
        copy(&to, &back).unwrap();
        assert_eq!(back.index(), uncut.index());
    }
}

#[test]
fn a_changed_byte_of_the_target_is_found_and_the_next_run_mends_it() {
    for (from, to) in directions("a_changed_byte_of_the_target_is_found") {
        fill(&from);
        for (table, column) in [
            ("pieces", "text"),
            ("blob_pieces", "data"),
            ("changes", "body"),
            ("streams", "declaration"),
        ] {
            let to = match &to.database {
                None => Place::in_sqlite(),
                Some(_) => Place::on_postgresql(&PostgresServer::shared("").unwrap()),
            };
            let complete = copied(&from, &to, StepSize::default());
            let value = match table {
                "streams" => format!("replace({column}, '1', '2')"),
                _ => format!("CAST(substr({column}, 1, length({column}) - 1) || 'x' AS BLOB)"),
            };
            to.tamper(
                &format!("UPDATE {table} SET {column} = {value}"),
                &format!("UPDATE stile.{table} SET {column} = set_byte({column}, 0, 1)"),
            );
            let error = complete.verify(&mut |_| {}).map(drop).unwrap_err();
            let CopyError::Differs { tables } = &error else { panic!("{table}: {error}") };
            assert_eq!(*tables, [table]);
            assert!(to.open().map(drop).is_err_and(|error| is_half_copied(&error)));
            copy(&from, &to).unwrap();
            assert_eq!(to.rows(), from.rows(), "{table}");
        }
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_noticed_and_the_next_run_copies_what_is_new() {
    for (from, to) in directions("a_source_that_changes_meanwhile_is_noticed") {
        fill(&from);
        let copy_of = || copied(&from, &to, SMALL);
        let complete = copy_of();
        put(&from.open().unwrap(), 40, "k5", &fields("changed meanwhile"));
        let error = complete.verify(&mut |_| {}).map(drop).unwrap_err();
        let CopyError::SourceChanged { tables } = &error else { panic!("{error}") };
        assert_eq!(*tables, ["records", "changes"]);
        let complete = copy_of();
        let records = from.open().unwrap();
        let grants = records.grants(&permits("").0).unwrap();
        for grant in grants {
            records.revoke(&permits("").0, &grant.id, crate::now()).unwrap();
        }
        let error = complete.verify(&mut |_| {}).map(drop).unwrap_err();
        let CopyError::SourceChanged { tables } = &error else { panic!("{error}") };
        assert_eq!(*tables, ["grants"]);
        let error = error.to_string();
        assert!(error.contains("stop what writes to the source"), "{error}");
        copy_of().verify(&mut |_| {}).unwrap();
        assert_eq!(to.rows(), from.rows());
    }
}

#[test]
fn a_change_of_the_source_before_the_end_is_copied_if_its_table_was_not_yet() {
    for (from, to) in directions("a_change_of_the_source_before_the_end_is_copied") {
        fill(&from);
        let copy = StoreCopy::open(&from.address(), &to.address(), Instant(20)).unwrap();
        let mut copy = copy.with_step_size(SMALL);
        copy.step().unwrap();
        put(&from.open().unwrap(), 40, "k5", &fields("changed meanwhile"));
        while copy.step().unwrap().is_some() {}
        copy.verify(&mut |_| {}).unwrap();
        assert_eq!(to.rows(), from.rows());
    }
}

#[test]
fn a_target_with_records_or_with_a_part_of_others_is_left_as_it_is() {
    for (from, to) in directions("a_target_with_records_or_with_a_part_of_others") {
        let open = |from: &Place, to: &Place| {
            StoreCopy::open(&from.address(), &to.address(), Instant(20)).map(drop).unwrap_err()
        };
        fill(&from);
        assert!(matches!(open(&from, &from), CopyError::SameStore));
        let third = Place::in_sqlite();
        fill(&third);
        // Opening the target makes a key, and that alone does not count as records.
        drop(to.open().unwrap());
        let copy = StoreCopy::open(&from.address(), &to.address(), Instant(20)).unwrap();
        let error = open(&third, &to);
        assert!(matches!(error, CopyError::OtherSource), "{error}");
        assert!(matches!(open(&to, &third), CopyError::Records(RecordsError::HalfCopied)));
        drop(copy);
        self::copy(&from, &to).unwrap();
        let before = to.rows();
        assert!(matches!(open(&third, &to), CopyError::NotEmpty));
        assert!(matches!(open(&from, &to), CopyError::SameStore));
        assert_eq!(to.rows(), before);
        let empty = Place::in_sqlite();
        assert!(matches!(open(&empty, &to), CopyError::NoRecords));
    }
}

#[test]
fn a_database_of_several_people_is_neither_copied_nor_copied_into_as_a_whole() {
    let test = "a_database_of_several_people_is_neither_copied_nor_copied_into_as_a_whole";
    let Some(server) = PostgresServer::shared(test) else { return };
    let (one, several) = (Place::in_sqlite(), Place::on_postgresql(&server));
    fill(&one);
    fill(&several);
    let address = several.database.as_ref().unwrap().address();
    Database::open(&address).unwrap().tenant_of("issuer", "ann").unwrap();
    for (from, to) in [(&one, &several), (&several, &Place::in_sqlite())] {
        let opened = StoreCopy::open(&from.address(), &to.address(), Instant(20)).map(drop);
        assert!(matches!(opened, Err(CopyError::SeveralPeople)));
    }
    let hosted = server.database();
    Database::open(&hosted.address()).unwrap().tenant_of("issuer", "ann").unwrap();
    let to = StoreAddress::Postgresql(hosted.address());
    let opened = StoreCopy::open(&one.address(), &to, Instant(20)).map(drop);
    assert!(matches!(opened, Err(CopyError::SeveralPeople)));
    assert_eq!(hosted.run("SELECT count(*) FROM stile.tenants").trim(), "1", "nothing is written");
}

#[test]
fn a_target_with_tokens_and_no_records_is_left_as_it_is() {
    for (from, to) in directions("a_target_with_tokens_and_no_records_is_left_as_it_is") {
        fill(&from);
        let access = open_target(&to.address()).unwrap().access.unwrap();
        access.write(&some_access()).unwrap();
        let opened = StoreCopy::open(&from.address(), &to.address(), Instant(20)).map(drop);
        let error = opened.unwrap_err();
        assert!(matches!(error, CopyError::NotEmpty), "{error}");
    }
}

#[test]
fn a_token_that_is_revoked_at_the_source_before_the_end_is_revoked_in_the_copy() {
    for (from, to) in directions("a_token_that_is_revoked_at_the_source_before_the_end") {
        fill(&from);
        let complete = copied(&from, &to, StepSize::default());
        let tokens = match &from.database {
            None => TokenStore::open(&StateDir::open(from.folder.path()).unwrap()).unwrap(),
            Some(database) => TokenStore::on(&Database::open(&database.address()).unwrap()),
        };
        tokens.revoke("a-b", 77).unwrap();
        complete.verify(&mut |_| {}).unwrap();
        assert!(from.rows().iter().any(|row| row.contains("a-b") && row.contains("77")));
        assert_eq!(to.rows(), from.rows());
    }
}

#[test]
fn a_second_copy_into_the_same_target_ends_without_harm() {
    for (from, to) in directions("a_second_copy_into_the_same_target_ends_without_harm") {
        fill(&from);
        let [mut one, mut other] = [(); 2].map(|()| {
            let copy = StoreCopy::open(&from.address(), &to.address(), Instant(20)).unwrap();
            copy.with_step_size(SMALL)
        });
        one.step().unwrap();
        assert!(other.step().is_err());
        one.step().unwrap();
        while one.step().unwrap().is_some() {}
        one.verify(&mut |_| {}).unwrap();
        assert_eq!(to.rows(), from.rows());
    }
}

#[test]
fn an_address_never_shows_in_an_error() {
    let address = StoreAddress::parse("postgres://ann:secret@127.0.0.1:1/x?connect_timeout=1");
    let empty = Place::in_sqlite();
    drop(empty.open().unwrap());
    let error = StoreCopy::open(&empty.address(), &address, Instant(0)).map(drop).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
}
