//! A client that keeps a copy by `changes_since` ends with exactly what it may see.
//!
//! Records are written, hidden, shown, deleted and created again while clients read sessions page
//! by page, abandon them, and start again from their last token. A second database gets the same
//! writes with other values in everything that the grant hides, and more writes to hidden data.
//! Both must give the same answers byte for byte.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::declaration::Declaration;
use stile_domain::records::identifiers::{RecordKey, SourceName};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::RecordService;
use stile_records::declarations::indexed_fields;
use stile_records::operations::Operation;
use stile_store::records::IncomingRecord;
use stile_testkit::chance::{Chance, scaled, seed};

use super::worlds::home::{Home, StoredGrant, TestRecords};
use super::worlds::model::{pick, some};
use super::worlds::{OperationRequest, client, owner};

const CONNECTIONS: [&str; 2] = ["a", "b"];
const DAY: i64 = 86_400 * 1_000_000;
/// A database with one stream in two connections.
struct Store {
    services: RecordService,
    /// The stored records, by connection and key.
    stored: RefCell<BTreeMap<(String, String), RecordFields>>,
    place: TestRecords,
}

/// What the grant hides.
#[derive(Clone, Debug)]
struct Hides {
    connection: bool,
    keys: bool,
    /// The time constraint is on this field; `when` is hidden itself.
    time: Option<&'static str>,
}

fn declaration() -> Json {
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date" });
    json!({
        "schema": { "properties": { "at": time, "when": time, "text": text, "more": text, "secret": text, "json": {} } },
        "cursor_field": "at", "consent_time_field": "at",
        "query": { "search": { "lexical_fields": ["text", "secret"] } },
    })
}

impl Store {
    fn new(home: &Home, hides: &Hides) -> Self {
        let place = home.place();
        let services = RecordService::new(place.open(Instant(0)));
        let store = Self { services, stored: RefCell::default(), place };
        let json = declaration();
        let parsed = Declaration::parse(&json).unwrap();
        store.write(0, |batch| {
            for connection in CONNECTIONS {
                let (connection, stream) =
                    (SourceName::parse(connection).unwrap(), SourceName::parse("s").unwrap());
                batch.declare(&connection, &stream, &json.to_string(), &indexed_fields(&parsed))?;
            }
            Ok(())
        });
        let mut share = json!({
            "name": "s", "connection_ids": if hides.connection { json!(["a"]) } else { json!(["a", "b"]) },
            "fields": ["at", "text", "more", "json"],
        });
        if let Some(field) = hides.time {
            share["time_constraint"] =
                json!({ "field": field, "since": "2026-01-02", "until": "2026-01-04" });
        }
        if hides.keys {
            share["resources"] = json!(["k0", "k1", "k2"]);
        }
        let terms = json!({
            "version": "0.1.0", "issued_at": "2026-01-01T00:00:00Z", "client": { "client_id": "c" },
            "access_mode": "continuous", "streams": [share], "expires_at": null,
        });
        let grant = stile_domain::records::grant::Grant::parse(&terms.to_string()).unwrap();
        let terms = grant.to_json().unwrap();
        let stored = StoredGrant { id: "g", terms: &terms, revoked: None, bound: None };
        store.place.keep_grants(&[stored]);
        store
    }

    fn write<T>(
        &self,
        now: i64,
        write: impl FnOnce(&mut stile_store::records::WriteBatch<'_>) -> Result<T, Problem>,
    ) -> T {
        self.services
            .records
            .write_at(&owner().gate().owner().unwrap(), Instant(now), write)
            .unwrap()
    }

    /// Stores a record, or removes it.
    fn put(&self, now: i64, connection: &str, key: &str, fields: Option<&RecordFields>) {
        let place = (connection.to_owned(), key.to_owned());
        match fields {
            Some(fields) => self.stored.borrow_mut().insert(place, fields.clone()),
            None => self.stored.borrow_mut().remove(&place),
        };
        self.write(now, |batch| {
            let target = batch
                .target(&SourceName::parse(connection).unwrap(), &SourceName::parse("s").unwrap())?
                .unwrap();
            match fields {
                None => batch.delete(&target, key).map(drop),
                Some(fields) => {
                    let key = RecordKey::parse(key).unwrap();
                    let incoming = IncomingRecord {
                        key: &key,
                        emitted: Instant(now),
                        fields,
                        streamed: Vec::new(),
                    };
                    batch.upsert(&target, incoming).map(drop)
                }
            }
        });
    }

    /// Redeclares the stream, which changes where values are stored but no answer.
    fn redeclare(&self, now: i64, searchable: &str) {
        let mut json = declaration();
        json["query"]["search"]["lexical_fields"] = json!([searchable]);
        let parsed = Declaration::parse(&json).unwrap();
        self.write(now, |batch| {
            let target = batch
                .target(&SourceName::parse("a").unwrap(), &SourceName::parse("s").unwrap())?
                .unwrap();
            batch.redeclare(&target, &json.to_string(), &indexed_fields(&parsed)).map(drop)
        });
    }

    fn request(
        &self,
        caller: &Principal,
        now: i64,
        pairs: &[(&str, &str)],
    ) -> Result<String, Problem> {
        let pairs =
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let request = OperationRequest {
            operation: Operation::ListRecords.declaration(),
            stream: "s".to_owned(),
            key: String::new(),
            pairs,
        };
        request.send_at(&self.services, caller, Instant(now))
    }
}

/// The copy that a client keeps.
#[derive(Clone, Debug, Default)]
struct Copy {
    records: BTreeMap<(String, String), Json>,
    since: Option<String>,
    cursor: Option<String>,
}

impl Copy {
    /// The parameters of the next page.
    fn next(&self, limit: usize) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("limit", limit.to_string())];
        match &self.cursor {
            // As a client sends it that follows `next_cursor`; one that follows `links.next` sends
            // both.
            Some(cursor) if limit.is_multiple_of(2) => pairs.push(("cursor", cursor.clone())),
            cursor => {
                pairs.push((
                    "changes_since",
                    self.since.clone().unwrap_or_else(|| "beginning".to_owned()),
                ));
                pairs.extend(cursor.clone().map(|cursor| ("cursor", cursor)));
            }
        }
        pairs
    }

    /// Applies a page to the copy. Returns whether the page was the last one.
    fn take(&mut self, page: &Json) -> bool {
        if self.since.is_none() && self.cursor.is_none() {
            self.records.clear();
        }
        let mut seen = BTreeSet::new();
        for row in page["data"].as_array().unwrap() {
            let key = |name: &str| row[name].as_str().unwrap().to_owned();
            let place = (key("connection_id"), key("id"));
            assert!(seen.insert(place.clone()), "twice on a page");
            if row["deleted"] == true {
                assert_eq!(row.as_object().unwrap().len(), 8, "{row}");
                self.records.remove(&place);
            } else {
                self.records.insert(place, row.clone());
            }
        }
        let cursor = page["next_cursor"].as_str().map(str::to_owned);
        let since = page["next_changes_since"].as_str().map(str::to_owned);
        assert_eq!(
            (cursor.is_some(), since.is_some()),
            (page["has_more"] == true, page["has_more"] == false)
        );
        let is_last = since.is_some();
        self.cursor = cursor;
        self.since = since.or(self.since.take());
        is_last
    }
}

/// Returns an answer with each token replaced by its length.
fn observable(actual: &Result<String, Problem>) -> String {
    let mut actual = match actual {
        Ok(actual) => actual.clone(),
        Err(problem) => return format!("{problem:?}"),
    };
    let page: Json = serde_json::from_str(&actual).unwrap();
    for name in ["next_cursor", "next_changes_since"] {
        if let Some(token) = page[name].as_str() {
            actual = actual.replace(token, &format!("<{}>", token.len()));
        }
    }
    actual
}

/// Lists everything that a caller may see.
fn all(store: &Store, caller: &Principal, now: i64) -> BTreeMap<(String, String), Json> {
    let page: Json =
        serde_json::from_str(&store.request(caller, now, &[("limit", "100")]).unwrap()).unwrap();
    assert_eq!(page["has_more"], false);
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|row| {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        ((text("connection_id"), text("id")), row.clone())
    })
    .collect()
}

fn text(chance: &mut Chance) -> FieldValue {
    let long = "long words ".repeat(110);
    FieldValue::Text(pick(chance, &["one", "two", "2026-01-03", &long]).to_owned())
}

/// Returns the fields of a record, and the same fields with other values where they are hidden.
fn twins(chance: &mut Chance, hides: &Hides) -> (RecordFields, RecordFields) {
    let day = |chance: &mut Chance| {
        FieldValue::Text(pick(chance, &["2026-01-01", "2026-01-02", "2026-01-03", "soon"]).into())
    };
    let mut shown: RecordFields = vec![("at".into(), day(chance))];
    for name in ["text", "more"] {
        if chance.happens(70) {
            shown.push((name.into(), text(chance)));
        }
    }
    if chance.happens(30) {
        shown.push(("json".into(), FieldValue::Json(pick(chance, &["[1]", "{\"a\":1}"]).into())));
    }
    let when = day(chance);
    let hidden = |chance: &mut Chance| {
        let mut fields = shown.clone();
        if chance.happens(60) {
            fields.insert(chance.below(fields.len() + 1), ("secret".into(), text(chance)));
        }
        let when = if hides.time == Some("when") { when.clone() } else { day(chance) };
        fields.insert(chance.below(fields.len() + 1), ("when".into(), when));
        fields
    };
    (hidden(chance), hidden(chance))
}

fn hides(chance: &mut Chance) -> Hides {
    Hides {
        connection: chance.happens(40),
        keys: chance.happens(40),
        time: some(chance, &[None, Some("at"), Some("when")]),
    }
}

/// Returns whether the client may ever see a record with this connection and key.
fn is_named(hides: &Hides, connection: &str, key: &str) -> bool {
    let is_hidden = hides.connection && connection == "b" || hides.keys && key > "k2";
    !is_hidden
}

#[test]
fn a_copy_kept_by_changes_equals_what_the_caller_may_see() {
    let (actual, gone) = keep_copies(&Home::Sqlite, scaled(40, 5000));
    assert!(actual > 500 && gone > 50, "{actual} {gone}");
}

#[test]
fn a_copy_kept_by_changes_on_postgresql_equals_what_the_caller_may_see() {
    let test = "a_copy_kept_by_changes_on_postgresql_equals_what_the_caller_may_see";
    if let Some(home) = Home::on_postgresql(test) {
        let (actual, _) = keep_copies(&home, scaled(1, 500));
        assert!(actual > 0, "no change was read");
    }
}

/// Keeps copies of some databases. Returns how many changes were read, and how many of those were
/// removals.
#[expect(clippy::print_stdout, reason = "the seed repeats a run that failed")]
fn keep_copies(home: &Home, times: usize) -> (usize, usize) {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (mut actual, mut gone) = (0, 0);
    for _ in 0..times {
        let mut chance = seeds.fork();
        let hides = hides(&mut chance);
        let stores = [Store::new(home, &hides), Store::new(home, &hides)];
        let callers = [owner(), client("g", "t1")];
        let mut copies = [[Copy::default(), Copy::default()], [Copy::default(), Copy::default()]];
        let mut now = 1000 * DAY;
        for step in 0..120 {
            now += 1 + chance.below(1000) as i64;
            // The last of them finish undisturbed.
            let settle = step >= 100;
            match chance.below(if settle { 0 } else { 9 }.max(1)) {
                1..=4 => write(&mut chance, &stores, &hides, now),
                5 => noise(&mut chance, &stores, &hides, now),
                6 if chance.happens(30) => stores[chance.below(2)]
                    .redeclare(now, pick(&mut chance, &["text", "json", "more"])),
                7 => {
                    let at = chance.below(2);
                    copies.iter_mut().for_each(|pair| pair[at].cursor = None);
                }
                _ => {
                    for who in 0..2 {
                        let limit = some(&mut chance, &[1, 2, 3, 25]);
                        let [one, other] = [0, 1].map(|at| {
                            let copy = &copies[at][who];
                            let pairs = copy.next(limit);
                            let pairs: Vec<(&str, &str)> =
                                pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
                            stores[at].request(&callers[who], now, &pairs)
                        });
                        if who == 1 {
                            let plain = |actual: &Result<String, Problem>, copy: &Copy| {
                                let tokens = [copy.since.as_deref(), copy.cursor.as_deref()];
                                tokens
                                    .into_iter()
                                    .flatten()
                                    .fold(observable(actual), |actual, token| {
                                        actual.replace(token, "<sent>")
                                    })
                            };
                            assert_eq!(
                                plain(&one, &copies[0][1]),
                                plain(&other, &copies[1][1]),
                                "{hides:?}"
                            );
                        }
                        for (at, body) in [one, other].into_iter().enumerate() {
                            let page: Json = serde_json::from_str(&body.unwrap()).unwrap();
                            let rows = page["data"].as_array().unwrap();
                            actual += rows.len();
                            gone += rows.iter().filter(|row| row["deleted"] == true).count();
                            copies[at][who].take(&page);
                        }
                    }
                }
            }
        }
        for (at, store) in stores.iter().enumerate() {
            for (who, caller) in callers.iter().enumerate() {
                let copy = &mut copies[at][who];
                finish(store, caller, now, copy);
                // The session that was under way may be older than the last writes.
                finish(store, caller, now, copy);
                assert_eq!(copy.records, all(store, caller, now), "{hides:?}");
                let pairs = copy.next(2);
                let pairs: Vec<(&str, &str)> =
                    pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let page: Json =
                    serde_json::from_str(&store.request(caller, now, &pairs).unwrap()).unwrap();
                assert_eq!(page["data"], json!([]), "nothing changed since");
            }
        }
    }
    (actual, gone)
}

/// Reads a session to its end.
fn finish(store: &Store, caller: &Principal, now: i64, copy: &mut Copy) {
    for _ in 0..100 {
        let pairs = copy.next(2);
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = store.request(caller, now, &pairs).unwrap();
        if copy.take(&serde_json::from_str(&page).unwrap()) {
            return;
        }
    }
    panic!("a session without an end");
}

/// Makes the same write to both databases, except for hidden data.
fn write(chance: &mut Chance, stores: &[Store; 2], hides: &Hides, now: i64) {
    let (connection, key) =
        (pick(chance, &CONNECTIONS).to_owned(), format!("k{}", chance.below(5)));
    let deletes = chance.happens(30);
    let (one, other) = twins(chance, hides);
    for (store, fields) in stores.iter().zip([one, other]) {
        store.put(now, &connection, &key, Some(&fields).filter(|_| !deletes));
    }
}

/// Writes to one database what the client cannot notice: hidden records and hidden fields.
fn noise(chance: &mut Chance, stores: &[Store; 2], hides: &Hides, now: i64) {
    let store = &stores[chance.below(2)];
    for _ in 0..1 + chance.below(3) {
        let (connection, key) = (pick(chance, &CONNECTIONS), format!("k{}", chance.below(5)));
        let (fields, _) = twins(chance, hides);
        if !is_named(hides, connection, &key) {
            let deletes = chance.happens(30);
            store.put(now, connection, &key, Some(&fields).filter(|_| !deletes));
            continue;
        }
        let stored = store.stored.borrow().get(&(connection.to_owned(), key.clone())).cloned();
        if let Some(mut fields) = stored {
            fields.retain(|(name, _)| name != "secret");
            if chance.happens(80) {
                fields.insert(chance.below(fields.len() + 1), ("secret".into(), text(chance)));
            }
            store.put(now, connection, &key, Some(&fields));
        }
    }
}

fn fields(pairs: &[(&str, &str)]) -> RecordFields {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), FieldValue::Text((*value).to_owned())))
        .collect()
}

/// Returns the identifiers of a page, with `-` before deleted ones, and the token after the page.
fn page(store: &Store, now: i64, pairs: &[(&str, &str)]) -> (Vec<String>, Json) {
    let page: Json =
        serde_json::from_str(&store.request(&client("g", "t1"), now, pairs).unwrap()).unwrap();
    let rows = page["data"].as_array().unwrap().iter();
    let actual = rows.map(|row| {
        format!("{}{}", if row["deleted"] == true { "-" } else { "" }, row["id"].as_str().unwrap())
    });
    (actual.collect(), page.clone())
}

fn since(store: &Store, now: i64, token: &str) -> (Vec<String>, String) {
    let (actual, page) = page(store, now, &[("changes_since", token)]);
    (actual, page["next_changes_since"].as_str().unwrap().to_owned())
}

const AT: Hides = Hides { connection: true, keys: false, time: Some("at") };

#[test]
fn only_changes_that_the_caller_can_see_are_reported() {
    for home in Home::all("only_changes_that_the_caller_can_see_are_reported") {
        report_visible_changes(&home);
    }
}

fn report_visible_changes(home: &Home) {
    let store = Store::new(home, &AT);
    let record = |at: &str, text: &str, secret: &str| {
        fields(&[("at", at), ("text", text), ("secret", secret)])
    };
    let put = |now, key: &str, fields: &RecordFields| store.put(now, "a", key, Some(fields));
    let long = "long ".repeat(1000);
    put(1, "in", &record("2026-01-02", "x", "s"));
    put(1, "out", &record("2026-01-09", "x", "s"));
    let (actual, token) = since(&store, 2, "beginning");
    assert_eq!(actual, ["in"]);
    put(3, "in", &record("2026-01-02", "x", &long));
    put(3, "out", &record("2026-01-09", "y", "s"));
    put(3, "new", &record("2026-01-09", "y", "s"));
    store.put(3, "b", "other", Some(&record("2026-01-02", "x", "s")));
    store.redeclare(4, "more");
    let (actual, again) = since(&store, 5, &token);
    assert_eq!((actual, again.len()), (vec![], token.len()), "nothing that is hidden is a change");
    put(6, "in", &record("2026-01-09", "x", "s"));
    put(6, "out", &record("2026-01-02", "y", "s"));
    let (actual, later) = since(&store, 7, &again);
    assert_eq!(actual, ["-in", "out"], "what enters or leaves the time is there or gone");
    assert_eq!(since(&store, 7, &token).0, ["-in", "out"], "also since the token before");
    put(8, "out", &record("2026-01-02", &long, "s"));
    let (actual, last) = since(&store, 9, &later);
    assert_eq!(actual, ["out"]);
    put(10, "out", &record("2026-01-02", &format!("{long}."), "s"));
    let (actual, _) = since(&store, 11, &last);
    assert_eq!(actual, ["out"], "long values are compared by their digests");
    store.put(12, "a", "in", None);
    let (actual, _) = since(&store, 13, &later);
    assert_eq!(actual, ["out"], "what was hidden goes unseen");
}

#[test]
fn a_deletion_has_the_time_at_which_the_caller_lost_sight_of_the_record() {
    for home in Home::all("a_deletion_has_the_time_at_which_the_caller_lost_sight_of_the_record") {
        lose_sight(&home);
    }
}

fn lose_sight(home: &Home) {
    let store = Store::new(home, &AT);
    store.put(DAY, "a", "k", Some(&fields(&[("at", "2026-01-02")])));
    let (_, token) = since(&store, 2 * DAY, "beginning");
    store.put(3 * DAY, "a", "k", Some(&fields(&[("at", "2026-01-09")])));
    store.put(4 * DAY, "a", "k", None);
    let (_, page) = page(&store, 5 * DAY, &[("changes_since", &token)]);
    let expected = json!({
        "object": "record", "id": "k", "stream": "s", "connection_id": "a", "connector_instance_id": "a",
        "deleted": true, "deleted_at": "1970-01-04T00:00:00Z", "emitted_at": "1970-01-02T00:00:00Z",
    });
    assert_eq!(page["data"], json!([expected]));
}

#[test]
fn a_sync_token_is_bound_to_its_request_and_expires_only_by_time() {
    for home in Home::all("a_sync_token_is_bound_to_its_request_and_expires_only_by_time") {
        bind_tokens(&home);
    }
}

fn bind_tokens(home: &Home) {
    let store = Store::new(home, &AT);
    for key in ["k1", "k2", "k3"] {
        store.put(1, "a", key, Some(&fields(&[("at", "2026-01-02")])));
    }
    let caller = client("g", "t1");
    let (_, first) = page(&store, DAY, &[("changes_since", "beginning"), ("limit", "1")]);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert!(
        first.get("next_changes_since").is_none(),
        "who stores it early would pass over the rest"
    );
    let (_, token) = since(&store, DAY, "beginning");
    let list: Json =
        serde_json::from_str(&store.request(&caller, DAY, &[("limit", "1")]).unwrap()).unwrap();
    let listed = list["next_cursor"].as_str().unwrap();
    let refused =
        |who: &Principal, pairs: &[(&str, &str)]| store.request(who, DAY, pairs).unwrap_err();
    let mismatch = Problem::InvalidChangesSince(CursorProblem::Mismatch);
    for other in [cursor, listed] {
        assert_eq!(refused(&caller, &[("changes_since", other)]), mismatch);
    }
    assert_eq!(
        refused(&owner(), &[("changes_since", &token)]),
        mismatch,
        "the owner is another caller"
    );
    assert_eq!(refused(&caller, &[("changes_since", &token), ("connection_id", "a")]), mismatch);
    for garbage in ["", "2026-01-01T00:00:00Z", "AAAA", &token[1..]] {
        let malformed = Problem::InvalidChangesSince(CursorProblem::Malformed);
        assert_eq!(refused(&caller, &[("changes_since", garbage)]), malformed);
    }
    let mismatch = Problem::InvalidCursor(CursorProblem::Mismatch);
    assert_eq!(refused(&caller, &[("changes_since", "beginning"), ("cursor", listed)]), mismatch);
    assert_eq!(refused(&caller, &[("cursor", &token)]), mismatch);
    assert_eq!(refused(&caller, &[("cursor", cursor), ("fields", "text")]), mismatch);
    for (name, value) in [("order", "asc"), ("filter[text]", "x")] {
        for (with, value_of) in [("changes_since", "beginning"), ("cursor", cursor)] {
            assert_eq!(
                refused(&caller, &[(with, value_of), (name, value)]).code(),
                ("invalid_request", 400)
            );
        }
    }
    let kept = 30 * DAY;
    assert!(store.request(&caller, DAY + kept, &[("changes_since", &token)]).is_ok());
    let late =
        |pairs: &[(&str, &str)]| store.request(&caller, DAY + kept + 1, pairs).unwrap_err().code();
    assert_eq!(late(&[("changes_since", &token)]), ("cursor_expired", 410));
    assert_eq!(late(&[("cursor", cursor)]), ("cursor_expired", 410));
    assert!(store.request(&caller, DAY + kept + 1, &[("changes_since", "beginning")]).is_ok());
}

#[test]
fn old_changes_are_forgotten_but_none_that_a_token_still_needs() {
    let store = Store::new(&Home::Sqlite, &AT);
    let lines = || -> i64 {
        let database = rusqlite::Connection::open(store.place.file()).unwrap();
        database.query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).unwrap()
    };
    for day in 0..40 {
        store.put(
            day * DAY,
            "a",
            "k",
            Some(&fields(&[("at", "2026-01-02"), ("text", &day.to_string())])),
        );
        let (_, token) = since(&store, day * DAY, "beginning");
        assert_eq!(since(&store, day * DAY, &token).0, Vec::<String>::new());
    }
    assert_eq!(lines(), 32, "thirty days, one for clocks, and today's");
    store.put(100 * DAY, "a", "other", Some(&fields(&[])));
    assert_eq!(lines(), 0, "any write does");
}

#[test]
fn links_lead_to_the_next_page() {
    for home in Home::all("links_lead_to_the_next_page") {
        follow_links(&home);
    }
}

fn follow_links(home: &Home) {
    let store = Store::new(home, &AT);
    for key in ["k1", "k2", "k3"] {
        store.put(1, "a", key, Some(&fields(&[("at", "2026-01-02")])));
    }
    let mut actual = Vec::new();
    let mut query = "changes_since=beginning&limit=1".to_owned();
    loop {
        let pairs: Vec<(&str, &str)> =
            query.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        let (ids, page) = page(&store, DAY, &pairs);
        actual.extend(ids);
        match page["links"]["next"].as_str() {
            Some(next) => query = next.split_once('?').unwrap().1.to_owned(),
            None => break,
        }
    }
    assert_eq!(actual, ["k1", "k2", "k3"]);
}

#[test]
fn a_session_of_many_changes_reports_each_once() {
    for home in Home::all("a_session_of_many_changes_reports_each_once") {
        report_many_changes(&home);
    }
}

fn report_many_changes(home: &Home) {
    for hides in [AT, Hides { keys: true, ..AT }, Hides { time: Some("when"), ..AT }] {
        let store = Store::new(home, &hides);
        let put_all = |now: i64, text: &str| {
            store.write(now, |batch| {
                let target = batch
                    .target(&SourceName::parse("a").unwrap(), &SourceName::parse("s").unwrap())?
                    .unwrap();
                for number in 0..2500 {
                    let day = if number % 3 == 0 { "2026-01-09" } else { "2026-01-02" };
                    let fields = fields(&[("at", day), ("when", day), ("text", text)]);
                    let key = RecordKey::parse(&format!("k{number}")).unwrap();
                    batch.upsert(
                        &target,
                        IncomingRecord {
                            key: &key,
                            emitted: Instant(now),
                            fields: &fields,
                            streamed: Vec::new(),
                        },
                    )?;
                }
                Ok(())
            });
        };
        // Two of the three keys that are named may be seen at their time.
        let expected = if hides.keys { 2 } else { 1666 };
        let mut copy = Copy::default();
        let caller = client("g", "t1");
        let mut session = || {
            let mut actual = 0;
            loop {
                let pairs = copy.next(100);
                let pairs: Vec<(&str, &str)> =
                    pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let page: Json =
                    serde_json::from_str(&store.request(&caller, 5, &pairs).unwrap()).unwrap();
                actual += page["data"].as_array().unwrap().len();
                if copy.take(&page) {
                    return (actual, copy.records.len());
                }
            }
        };
        assert_eq!(session(), (0, 0));
        put_all(1, "x");
        assert_eq!(session(), (expected, expected), "new ones");
        put_all(2, "y");
        assert_eq!(session(), (expected, expected), "changed ones");
        assert_eq!(session(), (0, expected));
    }
}

impl Store {
    /// A store with what a backup of this one has in it.
    fn restored(&self, backup: &std::path::Path) -> Self {
        let place = Home::Sqlite.place();
        std::fs::create_dir(place.file().parent().unwrap()).unwrap();
        std::fs::copy(backup, place.file()).unwrap();
        let services = RecordService::new(place.open(Instant(0)));
        Self { services, stored: self.stored.clone(), place }
    }
}

#[test]
fn a_sync_token_from_before_a_restore_is_refused() {
    let store = Store::new(&Home::Sqlite, &AT);
    let (folder, caller) = (super::worlds::home::folder(), client("g", "t1"));
    let backup = folder.path().join("backup");
    let put = |store: &Store, key: &str, text: &str| {
        store.put(DAY, "a", key, Some(&fields(&[("at", "2026-01-02"), ("text", text)])));
    };
    ["k1", "k2", "k3"].iter().for_each(|key| put(&store, key, "first"));
    store.services.records.backup(&owner().gate().owner().unwrap(), &backup).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing stays beside it");
    put(&store, "k1", "second");
    put(&store, "k4", "second");
    let (_, first) = page(&store, DAY, &[("changes_since", "beginning"), ("limit", "1")]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let (_, token) = since(&store, DAY, "beginning");
    let restored = store.restored(&backup);
    let refused = |store: &Store, token: &str| {
        for pair in [("changes_since", token), ("cursor", cursor)] {
            assert_eq!(store.request(&caller, DAY, &[pair]), Err(Problem::ChangesExpired));
        }
    };
    refused(&restored, &token);
    // As many changes and records as the token counts.
    put(&restored, "k2", "third");
    put(&restored, "k5", "third");
    refused(&restored, &token);
    let (actual, fresh) = since(&restored, DAY, "beginning");
    assert_eq!((actual.len(), fresh.len()), (4, token.len()));
    assert_eq!(since(&restored, DAY, &fresh).0, Vec::<String>::new());
    let again = store.restored(&backup);
    put(&again, "k3", "fourth");
    put(&again, "k6", "fourth");
    refused(&again, &fresh);
    assert_eq!(since(&store, DAY, &token).0, Vec::<String>::new(), "what was not restored goes on");
}
