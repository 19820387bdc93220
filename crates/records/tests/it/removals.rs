//! What the owner removes is gone for everyone, and comes back as it was.

use std::sync::LazyLock;
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_records::RecordService;
use stile_records::operation_declaration::{OperationCall, OperationHandler};
use stile_records::operations::Operation;
use stile_records::removal::{Fate, RemovalRequest, Removed, RestoreError};
use stile_records::request_target::RequestTarget;
use stile_store::records::RestoreStep;

use super::worlds::home::{Home, StoredGrant, TestRecords};
use super::worlds::{client, owner};

const DAY: i64 = 86_400 * 1_000_000;

/// A time so many microseconds after the tests began. An ingest has the time of the clock.
fn at(micros: i64) -> Instant {
    static BEGAN: LazyLock<i64> = LazyLock::new(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_micros()).unwrap()
    });
    Instant(*BEGAN + micros)
}

struct Store {
    services: RecordService,
    place: TestRecords,
}

impl Store {
    /// A database with the stream `s` in the connections `a` and `b`.
    fn new(home: &Home) -> Self {
        let place = home.place();
        let store = Self { services: RecordService::new(place.open(at(0))), place };
        let long = "water the ferns ".repeat(70_000);
        for connection in ["a", "b"] {
            for key in 0..7 {
                let row = json!({
                    "id": format!("k{key}"), "at": format!("2026-01-0{}", key + 1),
                    "text": format!("ferns {key}"), "tags": ["x", key], "object": { "deep": [key] },
                    "long": if key == 3 && connection == "a" { long.as_str() } else { "short" },
                });
                store.ingest(connection, &row);
            }
        }
        store
    }

    fn ingest(&self, connection: &str, row: &Json) {
        let operation = Operation::IngestRecords.declaration();
        let OperationHandler::Store(handler) = operation.handler else { panic!() };
        let target = RequestTarget::new("s", "", &[("connection_id", connection)]);
        let call = OperationCall { operation, handler, target };
        let line = format!("{row}\n");
        let mut body = line.as_bytes();
        let stored = self.services.store(&owner(), at(1), &call, &mut body).unwrap();
        assert_eq!(stored["records_accepted"], 1, "{stored}");
    }

    fn read(&self, operation: Operation, caller: Option<&str>, pairs: &[(&str, &str)]) -> Json {
        let caller = caller.map_or_else(owner, |grant| client(grant, "t"));
        let call = operation.declaration().read_call(RequestTarget::new("s", "", pairs)).unwrap();
        let mut body = String::new();
        match self.services.answer(&caller, at(10), &call, &mut body) {
            Ok(()) => serde_json::from_str(&body).unwrap(),
            Err(problem) => json!(problem.code().0),
        }
    }

    /// Everything that a list shows, without its cursors.
    fn all(&self) -> Json {
        self.read(Operation::ListRecords, None, &[("order", "asc")])["data"].clone()
    }

    fn keys(&self, caller: Option<&str>) -> Vec<String> {
        keys(&self.read(Operation::ListRecords, caller, &[("order", "asc")]))
    }

    fn remove(&self, connection: &str, stream: Option<&str>, keys: &[&str], fate: Fate) -> Removed {
        self.services
            .carry_out_removal(&owner(), at(10), &request(connection, stream, keys, fate))
            .unwrap()
    }

    fn restore(&self, removed: &Removed) -> Result<RestoreStep, RestoreError> {
        let removal = removed.removal.as_ref().unwrap().as_str();
        self.services.restore_removal(&owner(), at(11), removal)
    }

    /// Makes a grant of `s` in some connections; of some records, if there are keys.
    fn grant(&self, id: &str, connections: &[&str], keys: &[&str]) {
        let mut share = json!({
            "name": "s", "connection_ids": connections, "fields": ["id", "at", "text"],
        });
        if !keys.is_empty() {
            share["resources"] = json!(keys);
        }
        let terms = json!({
            "version": "0.1.0", "issued_at": "2026-01-01T00:00:00Z", "client": { "client_id": "c" },
            "access_mode": "continuous", "streams": [share], "expires_at": null,
        });
        let terms = stile_domain::records::grant::Grant::parse(&terms.to_string()).unwrap();
        let terms = terms.to_json().unwrap();
        self.place.keep_grants(&[StoredGrant { id, terms: &terms, revoked: None, bound: None }]);
    }

    fn counts(&self) -> Vec<usize> {
        ["records", "pieces", "tokens"].map(|table| self.place.count(table)).to_vec()
    }
}

fn request(connection: &str, stream: Option<&str>, keys: &[&str], fate: Fate) -> RemovalRequest {
    let name = |name: &str| SourceName::parse(name).unwrap();
    let keys = keys.iter().map(|key| RecordKey::parse(key).unwrap()).collect();
    RemovalRequest { connection: name(connection), stream: stream.map(name), keys, fate }
}

fn keys(list: &Json) -> Vec<String> {
    let rows = list["data"].as_array().unwrap_or_else(|| panic!("{list}"));
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn homes(test: &str) -> Vec<Home> {
    Home::all(test)
}

#[test]
fn removed_records_are_gone_and_come_back_as_they_were() {
    for home in homes("removed_records_are_gone_and_come_back_as_they_were") {
        let store = Store::new(&home);
        let (before, counts) = (store.all(), store.counts());
        for (connection, stream, named) in
            [("a", Some("s"), &["k3", "k5"][..]), ("a", Some("s"), &[][..]), ("b", None, &[][..])]
        {
            let removed = store.remove(connection, stream, named, Fate::Kept);
            let gone = if named.is_empty() { 7 } else { named.len() };
            assert_eq!(removed.records as usize, gone);
            let left = store.all();
            assert_eq!(left.as_array().unwrap().len(), 14 - gone);
            let is_of = |row: &Json| row["connection_id"] == connection;
            let expected = before.as_array().unwrap().iter().filter(|row| {
                !is_of(row) || !named.is_empty() && !named.contains(&row["id"].as_str().unwrap())
            });
            assert!(left.as_array().unwrap().iter().eq(expected));
            let hits = store.read(Operation::Search, None, &[("q", "ferns"), ("limit", "100")]);
            assert_eq!(hits["data"].as_array().unwrap().len(), 14 - gone, "{hits}");
            assert_eq!(
                store.restore(&removed).unwrap(),
                RestoreStep { restored: gone as u64, blocked: 0 }
            );
            assert_eq!(store.all(), before, "times of ingest are those of the first time too");
            assert_eq!(store.counts(), counts);
            assert!(matches!(store.restore(&removed), Err(RestoreError::Unknown)));
        }
        let hits = store.read(Operation::Search, None, &[("q", "water"), ("limit", "100")]);
        assert_eq!(hits["data"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_removal_ends_the_grants_that_name_it_and_a_new_stream_of_the_name_revives_none() {
    let test = "a_removal_ends_the_grants_that_name_it_and_a_new_stream_of_the_name_revives_none";
    for home in homes(test) {
        let store = Store::new(&home);
        store.grant("both", &["a", "b"], &[]);
        store.grant("b", &["b"], &[]);
        store.grant("one", &["a"], &["k1"]);
        store.grant("other", &["a"], &["k2"]);
        let asked = request("a", Some("s"), &["k1"], Fate::Kept);
        let plan = store.services.plan_removal(&owner(), at(10), &asked).unwrap();
        let named: Vec<&str> = plan.grants.iter().map(|grant| grant.id.as_str()).collect();
        assert_eq!(named, ["one"], "a record ends the grants that name its key");
        assert_eq!(store.keys(Some("one")), ["k1"], "a plan changes nothing");
        assert_eq!(store.remove("a", Some("s"), &["k1"], Fate::Kept).grants, ["one"]);
        assert_eq!(store.keys(Some("both")).len(), 13);
        let removed = store.remove("a", Some("s"), &[], Fate::Kept);
        assert_eq!(removed.grants, ["both", "other"]);
        let listed = |grant| store.read(Operation::ListRecords, Some(grant), &[]);
        for ended in ["both", "other", "one"] {
            assert_eq!(listed(ended), "grant_revoked");
        }
        assert_eq!(store.keys(Some("b")).len(), 7);
        // A grant that was made by another program at the same moment.
        store.grant("late", &["a"], &[]);
        store.ingest("a", &json!({ "id": "k1", "at": "2026-02-01", "text": "new" }));
        for ended in ["both", "other", "one", "late"] {
            assert_eq!(listed(ended), "grant_revoked");
        }
        store.grant("new", &["a"], &[]);
        assert_eq!(store.keys(Some("new")), ["k1"]);
        // The stream is there, so what was removed joins it, and leaves its records alone.
        let restored = store.restore(&removed).unwrap();
        assert_eq!(restored, RestoreStep { restored: 6, blocked: 0 });
        assert_eq!(store.keys(Some("new")).len(), 7);
        assert_eq!(listed("both"), "grant_revoked");
    }
}

#[test]
fn clients_that_keep_a_copy_are_told_of_deletions_and_of_what_comes_back() {
    let test = "clients_that_keep_a_copy_are_told_of_deletions_and_of_what_comes_back";
    for home in homes(test) {
        let store = Store::new(&home);
        store.grant("b", &["b"], &[]);
        let changes = |caller: Option<&str>, since: &str| {
            let list = store.read(
                Operation::ListRecords,
                caller,
                &[("changes_since", since), ("limit", "100")],
            );
            let next = list["next_changes_since"].as_str().unwrap_or_else(|| panic!("{list}"));
            let told = list["data"].as_array().unwrap().iter().map(|row| {
                let gone = if row["deleted"] == true { "-" } else { "+" };
                format!(
                    "{gone}{}/{}",
                    row["connection_id"].as_str().unwrap(),
                    row["id"].as_str().unwrap()
                )
            });
            (told.collect::<Vec<_>>(), next.to_owned())
        };
        let (_, own) = changes(None, "beginning");
        let (_, theirs) = changes(Some("b"), "beginning");
        let some = store.remove("b", Some("s"), &["k0", "k6"], Fate::Kept);
        let (told, theirs) = changes(Some("b"), &theirs);
        assert_eq!(told, ["-b/k0", "-b/k6"]);
        store.restore(&some).unwrap();
        assert_eq!(changes(Some("b"), &theirs).0, ["+b/k0", "+b/k6"]);
        let all = store.remove("a", Some("s"), &[], Fate::Kept);
        let (told, own) = changes(None, &own);
        let gone: Vec<String> = (0..7).map(|key| format!("-a/k{key}")).collect();
        assert_eq!(told[..7], gone, "also of a stream that is not there any more");
        let other = store.remove("b", None, &[], Fate::Purged);
        assert!(other.removal.is_none());
        assert_eq!(changes(None, &own).0.len(), 7, "where no stream of the name is left too");
        assert_eq!(store.read(Operation::ListRecords, None, &[]), "not_found");
        store.restore(&all).unwrap();
        let back: Vec<String> = (0..7).map(|key| format!("+a/k{key}")).collect();
        assert_eq!(changes(None, &own).0[..7], back);
    }
}

#[test]
fn what_was_removed_goes_for_good_after_thirty_days_or_at_once() {
    let test = "what_was_removed_goes_for_good_after_thirty_days_or_at_once";
    for home in homes(test) {
        let store = Store::new(&home);
        store.remove("a", Some("s"), &["k3"], Fate::Purged);
        assert_eq!(store.place.count("records"), 13);
        let kept = store.remove("a", None, &[], Fate::Kept);
        assert_eq!(store.place.count("records"), 13, "they wait");
        let removals = |time| store.services.removals(&owner(), at(time)).unwrap();
        let [only] = removals(10).try_into().unwrap();
        assert_eq!((only.records, only.stream.is_whole), (6, true));
        assert_eq!(only.ends(), at(10 + 30 * DAY));
        let write = |time| {
            let permit = owner().gate().owner().unwrap();
            store.services.records.write_at(&permit, at(time), |_| Ok(())).unwrap();
        };
        write(9 + 30 * DAY);
        assert_eq!(removals(9 + 30 * DAY).len(), 1);
        write(10 + 30 * DAY);
        assert_eq!(removals(10).len(), 0);
        assert!(matches!(store.restore(&kept), Err(RestoreError::Unknown)));
        assert_eq!(store.place.count("records"), 7);
        let other = store.remove("b", Some("s"), &[], Fate::Kept);
        let removal = other.removal.as_ref().unwrap().as_str();
        assert_eq!(store.services.purge_removal(&owner(), at(12), removal).unwrap(), 7);
        assert_eq!(store.counts(), [0, 0, 0]);
        store.ingest("a", &json!({ "other": "key" }));
    }
}

#[test]
fn records_do_not_come_back_into_a_stream_with_another_key() {
    let store = Store::new(&Home::Sqlite);
    let removed = store.remove("a", Some("s"), &[], Fate::Kept);
    store.ingest("a", &json!({ "name": "no identifier" }));
    assert!(matches!(store.restore(&removed), Err(RestoreError::OtherKey { .. })));
    assert_eq!(store.all().as_array().unwrap().len(), 8);
    store.remove("a", Some("s"), &[], Fate::Purged);
    assert_eq!(store.restore(&removed).unwrap().restored, 7);
}

#[test]
fn what_is_not_there_cannot_be_removed() {
    let store = Store::new(&Home::Sqlite);
    for (connection, stream, keys) in [
        ("c", None, &[][..]),
        ("c", Some("s"), &[][..]),
        ("a", Some("t"), &[][..]),
        ("a", Some("s"), &["k1", "k9"][..]),
    ] {
        let request = request(connection, stream, keys, Fate::Kept);
        let refused = store.services.carry_out_removal(&owner(), at(10), &request);
        assert!(refused.is_err(), "{request:?}");
        assert_eq!(store.all().as_array().unwrap().len(), 14);
    }
}
