//! The fields of a record, a page at a time: the pages together are the record, and a cursor is
//! valid only for its record.

use std::collections::BTreeMap;

use stile_domain::permit::Principal;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::value::{FieldValue, RecordFields};
use stile_records::operations::Operation;
use stile_testkit::chance::{Chance, scaled, seed};

use super::oracle_answers::OracleCheck;
use super::worlds::json::J;
use super::worlds::model::{FieldDecl, Grant, Rec, Share, Source, Stored, World, pick, source};
use super::worlds::oracle::put;
use super::worlds::{OperationRequest, client, draw, owner};

/// Takes the cursors of all truncated records out of an answer, the outermost first.
pub(super) fn fields_cursors(actual: &mut J) -> Vec<String> {
    let mut cursors = Vec::new();
    match actual {
        J::Obj(members) => {
            if let Some(more) = members.get_mut("more_fields") {
                cursors.push(
                    more.take("next_cursor")
                        .text()
                        .expect("a record that was cut has a cursor")
                        .to_owned(),
                );
            }
            members.values_mut().for_each(|member| cursors.extend(fields_cursors(member)));
        }
        J::Arr(items) => items.iter_mut().for_each(|item| cursors.extend(fields_cursors(item))),
        _ => {}
    }
    cursors
}

const MISMATCH: Problem = Problem::InvalidFieldsCursor(CursorProblem::Mismatch);
const STALE: Problem = Problem::InvalidFieldsCursor(CursorProblem::Stale);
const MALFORMED: Problem = Problem::InvalidFieldsCursor(CursorProblem::Malformed);

impl OracleCheck<'_> {
    /// Reads all pages of a record's fields, with changing page sizes.
    pub(super) fn leaf_through(
        &self,
        chance: &mut Chance,
        request: &OperationRequest,
        first: &J,
        cursor: Option<&String>,
    ) {
        let Some(mut cursor) = cursor.cloned() else { return };
        let mut pages = vec![first.clone()];
        while let J::Num(before) = pages.last().unwrap().get("more_fields").get("shown") {
            let bytes = pick(chance, &["256", "400", "900", "3000"]);
            let next = request.with("fields_cursor", &cursor).with("preview_bytes", bytes);
            let mut actual = J::parse(&self.send(&next).unwrap());
            let cursors = fields_cursors(&mut actual);
            let expected = self.oracle.record_after(&next, before.parse().unwrap()).unwrap();
            actual.assert_is(&expected, &next);
            cursor = cursors.first().cloned().unwrap_or_default();
            pages.push(expected);
        }
        let mut plain = request.clone();
        plain.pairs.retain(|(name, _)| name != "preview_bytes");
        let mut whole = J::parse(&self.send(&plain).unwrap());
        for name in ["data", "previews"] {
            let mut members = BTreeMap::new();
            for page in &pages {
                let J::Obj(own) = page.get(name) else { continue };
                let twice = own.iter().find(|(name, value)| {
                    members.insert((*name).clone(), (*value).clone()).is_some()
                });
                assert_eq!(twice, None, "{request:?}");
            }
            let expected =
                if members.is_empty() && name == "previews" { J::Null } else { J::Obj(members) };
            whole.take(name).assert_is(&expected, request);
        }
    }
}

/// The first of several pages of a record, and its caller.
struct Cut {
    request: OperationRequest,
    grant: Option<usize>,
    cursor: String,
    connection: J,
    key: J,
}

/// What a cursor is bound to besides its record: the requested fields.
fn asked(request: &OperationRequest) -> (Option<Vec<String>>, Option<String>) {
    let named = request
        .pairs
        .iter()
        .filter(|(name, _)| name.starts_with("fields") && !name.ends_with("cursor"));
    let mut names: Vec<String> =
        named.flat_map(|(_, value)| value.split(',').map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    let view = request.pairs.iter().find(|(name, _)| name == "view").map(|(_, view)| view.clone());
    ((!names.is_empty()).then_some(names), view)
}

#[test]
fn a_fields_cursor_is_valid_only_for_its_record() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (mut same, mut others, mut worlds) = (0, 0, 0);
    // Some worlds have few records that are cut.
    while worlds < scaled(5, 2000) || (worlds < 200 && (same <= 20 || others <= 100)) {
        worlds += 1;
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let mut grants: Vec<Grant> =
            (0..2).map(|at| Grant::random(&mut chance, &format!("grt_{at}"))).collect();
        grants.push(Grant { id: "grt_copy".to_owned(), ..grants[0].clone() });
        let stored = Stored::new(&mut chance, &world, &grants);
        let caller = |grant: Option<usize>| -> Principal {
            grant.map_or_else(owner, |at| client(&grants[at].id, "t1"))
        };
        let mut cuts = Vec::new();
        for grant in [None, Some(0), Some(1), Some(2)] {
            for _ in 0..12 {
                let request = draw(
                    &mut chance,
                    &world,
                    grant.map(|at| &grants[at]),
                    Operation::GetRecord.declaration(),
                );
                let request = request.with("preview_chars", 0).with("preview_bytes", 256);
                let Ok(actual) = request.send(&stored.services, &caller(grant)) else { continue };
                let actual = J::parse(&actual);
                if let Some(cursor) = actual.get("more_fields").get("next_cursor").text() {
                    let (connection, key) =
                        (actual.get("connection_id").clone(), actual.get("id").clone());
                    cuts.push(Cut { request, grant, cursor: cursor.to_owned(), connection, key });
                }
            }
        }
        for one in &cuts {
            for other in &cuts {
                let actual = other
                    .request
                    .with("fields_cursor", &one.cursor)
                    .send(&stored.services, &caller(other.grant));
                let is_same = one.grant == other.grant
                    && one.request.stream == other.request.stream
                    && (&one.connection, &one.key) == (&other.connection, &other.key)
                    && asked(&one.request) == asked(&other.request);
                match actual {
                    Ok(_) => assert!(is_same, "{:?} {:?}", one.request, other.request),
                    // Which fields are required depends on the connections that were asked for.
                    Err(problem) if problem == STALE => {
                        assert!(
                            is_same
                                && one.request.pairs != other.request.pairs
                                && asked(&one.request).0.is_some()
                        );
                    }
                    Err(problem) => {
                        assert!(problem == MISMATCH && !is_same, "{problem:?} {:?}", other.request)
                    }
                }
                *(if is_same { &mut same } else { &mut others }) += 1;
            }
            let plain = |cursor: &str| {
                one.request.with("fields_cursor", cursor).send(&stored.services, &caller(one.grant))
            };
            for forged in ["", "x", &one.cursor[1..], &format!("{}A", one.cursor)] {
                assert_eq!(plain(forged), Err(MALFORMED), "{forged}");
            }
            let list = OperationRequest {
                operation: Operation::ListRecords.declaration(),
                pairs: Vec::new(),
                ..one.request.clone()
            };
            let list = J::parse(
                &list.with("cursors", "each").send(&stored.services, &caller(one.grant)).unwrap(),
            );
            let listed = list.get("data").items()[0].get("cursor").text().unwrap();
            assert_eq!(plain(listed), Err(MISMATCH), "of a list");
            let missing = OperationRequest { key: "never there".to_owned(), ..one.request.clone() }
                .with("fields_cursor", "x");
            assert_eq!(
                missing.send(&stored.services, &caller(one.grant)),
                Err(Problem::NotFound),
                "the record first"
            );
        }
    }
    assert!(same > 20 && others > 100, "{same} {others}");
}

#[test]
fn a_fields_cursor_of_a_listed_record_continues_that_record() {
    let mut seeds = Chance::of(seed());
    let mut tried = 0;
    for _ in 0..scaled(5, 2000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let stored = Stored::new(&mut chance, &world, &[]);
        for _ in 0..20 {
            let source = &world.sources[chance.below(world.sources.len())];
            let mut list = draw(&mut chance, &world, None, Operation::ListRecords.declaration());
            list.pairs.retain(|(name, _)| {
                name.starts_with("fields") || name == "view" || name == "order"
            });
            list.stream = source.stream.clone();
            let list = list
                .with("connection_id", &source.connection)
                .with("preview_chars", 9)
                .with("preview_bytes", 300);
            let Ok(page) = list.send(&stored.services, &owner()) else { continue };
            for actual in J::parse(&page).get("data").items() {
                let Some(cursor) = actual.get("more_fields").get("next_cursor").text() else {
                    continue;
                };
                let mut one = OperationRequest {
                    operation: Operation::GetRecord.declaration(),
                    key: actual.get("id").text().unwrap().to_owned(),
                    ..list.clone()
                };
                one.pairs.retain(|(name, _)| name != "order");
                let first = J::parse(&one.send(&stored.services, &owner()).unwrap());
                assert_eq!(first.get("data"), actual.get("data"), "{one:?}");
                let next =
                    one.with("fields_cursor", cursor).send(&stored.services, &owner()).unwrap();
                assert_ne!(J::parse(&next).get("data"), actual.get("data"), "{one:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

/// A record in a database of its own, of which a client sees the fields `f00` to `f20`.
pub(super) struct One {
    pub(super) source: Source,
    pub(super) stored: Stored,
}

fn named(name: &str, value: &str) -> (String, FieldValue) {
    (name.to_owned(), FieldValue::Text(value.to_owned()))
}

fn twenty() -> RecordFields {
    (0..20).map(|at| named(&format!("f{at:02}"), &"words ".repeat(10))).collect()
}

impl One {
    pub(super) fn new(fields: RecordFields) -> Self {
        Self::with_bytes(fields, &[])
    }

    /// Makes a record in a stream that declares these fields as base64.
    pub(super) fn with_bytes(fields: RecordFields, names: &[&str]) -> Self {
        let mut chance = Chance::of(7);
        let mut source = source(&mut chance, "a-mail", "messages");
        source.decl.fields.extend(names.iter().map(|name| FieldDecl {
            name: (*name).to_owned(),
            schema: serde_json::json!({ "type": "string", "contentEncoding": "base64" }),
            exact: false,
            ops: Vec::new(),
            lexical: false,
            aggregations: Vec::new(),
        }));
        source.records = BTreeMap::from([("k".to_owned(), Rec { emitted: 0, fields, born: 1 })]);
        let share = Share {
            stream: "messages".to_owned(),
            connections: vec!["a-mail".to_owned()],
            fields: (0..21).map(|at| format!("f{at:02}")).collect(),
            time: None,
            keys: None,
        };
        let grant =
            Grant { single_use: false, shares: vec![share], ..Grant::random(&mut chance, "g") };
        let world = World { sources: vec![source.clone()] };
        let stored = Stored::new(&mut chance, &world, &[grant]);
        Self { source, stored }
    }

    fn request(&self, caller: &Principal, cursor: Option<&str>) -> Result<J, Problem> {
        let request = OperationRequest {
            operation: Operation::GetRecord.declaration(),
            stream: "messages".into(),
            key: "k".into(),
            pairs: Vec::new(),
        };
        let request = request.with("preview_chars", 100).with("preview_bytes", 600);
        let request =
            cursor.map_or(request.clone(), |cursor| request.with("fields_cursor", cursor));
        request.send(&self.stored.services, caller).map(|actual| J::parse(&actual))
    }
}

/// Something that is done to a record, and whether the owner and the client go on with their
/// cursors after it.
type Change<'a> = (&'a dyn Fn(&mut RecordFields), bool, bool);

#[test]
fn a_fields_cursor_is_stale_when_earlier_fields_have_changed() {
    let value = |fields: &mut RecordFields| fields[0] = named("f00", "another");
    let later = |fields: &mut RecordFields| {
        drop(fields.splice(15..16, [named("f20", ""), named("f15", "longer")]))
    };
    let hidden = |fields: &mut RecordFields| fields.insert(0, named("secret", "x"));
    let gone = |fields: &mut RecordFields| drop(fields.remove(2));
    let renamed = |fields: &mut RecordFields| fields[2].0 = "f20".to_owned();
    let swapped = |fields: &mut RecordFields| fields.swap(0, 1);
    let new = |fields: &mut RecordFields| fields.insert(0, named("f20", ""));
    let short = |fields: &mut RecordFields| fields.truncate(3);
    let changes: [Change<'_>; 8] = [
        (&value, true, true),
        (&later, true, true),
        (&hidden, false, true),
        (&gone, false, false),
        (&renamed, false, false),
        (&swapped, false, false),
        (&new, false, false),
        (&short, false, false),
    ];
    for (at, (change, owners, clients)) in changes.into_iter().enumerate() {
        for (caller, goes_on) in [(owner(), owners), (client("g", "t1"), clients)] {
            let one = One::new(twenty());
            let first = one.request(&caller, None).unwrap();
            let more = first.get("more_fields");
            assert_eq!(
                (more.get("shown"), more.get("total")),
                (&J::Num("8".into()), &J::Num("20".into()))
            );
            let mut fields = twenty();
            change(&mut fields);
            one.stored.put(&one.source, "k", &fields);
            let actual = one.request(&caller, more.get("next_cursor").text());
            match goes_on {
                true => assert!(actual.unwrap().get("data").get("f08").text().is_some(), "{at}"),
                false => assert_eq!(actual, Err(STALE), "{at}"),
            }
        }
    }
    // Where all that is left was told before, there is nothing more.
    let one = One::new(twenty());
    let first = one.request(&owner(), None).unwrap();
    one.stored.put(&one.source, "k", &twenty()[..8].to_vec());
    let mut rest =
        one.request(&owner(), first.get("more_fields").get("next_cursor").text()).unwrap();
    assert_eq!((rest.take("data"), rest.take("more_fields")), (J::Obj(BTreeMap::new()), J::Null));
}

#[test]
fn a_record_with_many_or_large_fields_has_a_small_answer() {
    let many: RecordFields =
        (0..100_000).map(|at| named(&format!("field {at}"), "value")).collect();
    let large =
        (0..50).map(|at| named(&format!("{at}{}", "n".repeat(500)), &"\u{1}".repeat(20_000)));
    for fields in [many, large.collect()] {
        let one = One::new(fields.clone());
        let (mut shown, mut cursor) = (0, None::<String>);
        for _ in 0..30 {
            let actual = one.request(&owner(), cursor.as_deref()).unwrap();
            let J::Obj(data) = actual.get("data") else { panic!() };
            let size: usize =
                data.iter().map(|(name, value)| name.len() + value.text().unwrap().len() + 6).sum();
            assert!(size <= 601 || data.len() == 1, "{size}");
            let next = &fields[shown..shown + data.len()];
            assert!(!data.is_empty() && next.iter().all(|(name, _)| data.contains_key(name)));
            shown += data.len();
            let mut more = actual.get("more_fields").clone();
            cursor = more.take("next_cursor").text().map(str::to_owned);
            let mut expected = J::Obj(BTreeMap::new());
            put(&mut expected, "shown", J::Num(shown.to_string()));
            put(&mut expected, "total", J::Num(fields.len().to_string()));
            assert_eq!(more, expected);
        }
    }
}
