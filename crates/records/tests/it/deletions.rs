//! A deletion removes its records for every caller, and no other record.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::operation_declaration::{OperationDeclaration, OperationMethod};
use stile_records::operations::OPERATIONS;
use stile_testkit::chance::{Chance, scaled, seed};

use super::oracle_answers::OracleCheck;
use super::worlds::model::{Grant, NOW, Stored, World, some};
use super::worlds::oracle::{Oracle, Refusal, Who};
use super::worlds::{OperationRequest, client, draw, owner, read_operations};

pub(super) fn delete_operations() -> Vec<&'static OperationDeclaration> {
    let deletes = |operation: &&OperationDeclaration| {
        operation.method == OperationMethod::Delete && operation.path.starts_with("/v1/streams")
    };
    OPERATIONS.iter().copied().filter(deletes).collect()
}

/// Sends a deletion. Returns the code of an error and the number of connections that it names.
fn outcome(
    stored: &Stored,
    request: &OperationRequest,
    grant: Option<&Grant>,
) -> Result<(), ((&'static str, u16), usize)> {
    let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
    stored.services.remove(&caller, Instant(NOW), &request.remove_call()).map_err(
        |problem: Problem| {
            let actual = Json::Object(problem.to_json());
            (problem.code(), actual["available_connections"].as_array().map_or(0, Vec::len))
        },
    )
}

#[test]
fn a_delete_removes_its_records_and_no_others() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut codes: BTreeSet<Refusal> = BTreeSet::new();
    let (mut removed, mut emptied) = (0, 0);
    let worlds = scaled(8, 5000);
    for world in 0..6 * worlds {
        // A few worlds more, if chance drew none of the rarer refusals.
        let needed = ["ambiguous_connection", "not_found"];
        let has = |code: &&str| codes.iter().any(|(drawn, _)| drawn == code);
        if world >= worlds && needed.iter().all(has) && emptied > 0 {
            break;
        }
        let mut chance = seeds.fork();
        let mut world = World::random(&mut chance);
        let grant = Grant { single_use: false, ..Grant::random(&mut chance, "grt_1") };
        let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        for _ in 0..12 {
            // Mostly one record, so that others remain.
            let one_record = chance.happens(85);
            let operation = delete_operations()
                .into_iter()
                .find(|one| one.path.contains("{id}") == one_record)
                .unwrap();
            let about = Some(&grant).filter(|_| chance.happens(50));
            let mut request = draw(&mut chance, &world, about, operation);
            let of = some(&mut chance, &world.sources).connection;
            if !request.pairs.iter().any(|(name, _)| name.starts_with("connect"))
                && chance.happens(50)
            {
                request.pairs.push(("connection_id".to_owned(), of));
            }
            let refused = Oracle { world: &world, who: Who::Client(&grant) }.removed(&request);
            assert_eq!(
                outcome(&stored, &request, Some(&grant)).map_err(|actual| actual.0),
                refused.map(drop),
                "{request:?}"
            );
            let expected = Oracle { world: &world, who: Who::Owner }.removed(&request);
            let connections = match &expected {
                Err(("ambiguous_connection", _)) => {
                    Oracle { world: &world, who: Who::Owner }.having(&request).len()
                }
                _ => 0,
            };
            let actual = outcome(&stored, &request, None);
            assert_eq!(
                actual,
                expected.as_ref().map(|_| ()).map_err(|code| (*code, connections)),
                "{request:?}"
            );
            codes.extend(expected.as_ref().err());
            for (connection, key) in expected.iter().flatten() {
                let source = world
                    .sources
                    .iter_mut()
                    .find(|one| one.connection == *connection && one.stream == request.stream);
                assert!(source.unwrap().records.remove(key).is_some());
                removed += 1;
            }
            emptied += usize::from(
                operation.id == "deleteRecords" && expected.is_ok_and(|keys| !keys.is_empty()),
            );
            if actual.is_ok() && chance.happens(50) {
                let again = Oracle { world: &world, who: Who::Owner }.removed(&request);
                assert_eq!(
                    outcome(&stored, &request, None).map_err(|actual| actual.0),
                    again.as_ref().map(|_| ()).map_err(|code| *code)
                );
                for (connection, key) in again.iter().flatten() {
                    let mut sources = world.sources.iter_mut();
                    let source = sources
                        .find(|one| one.connection == *connection && one.stream == request.stream)
                        .unwrap();
                    source.records.remove(key);
                }
            }
            for grant in [None, Some(&grant)] {
                let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
                let oracle = Oracle { world: &world, who: grant.map_or(Who::Owner, Who::Client) };
                let bench = OracleCheck { services: &stored.services, caller, oracle };
                for operation in read_operations() {
                    let request = draw(&mut chance, &world, grant, operation);
                    bench.check(&mut chance, &request);
                }
            }
        }
        let left: usize = world.sources.iter().map(|source| source.records.len()).sum();
        assert_eq!(stored.place.count("records"), left);
        if left == 0 {
            assert_eq!(["pieces", "tokens"].map(|table| stored.place.count(table)), [0, 0]);
        }
    }
    assert!(removed > 20 && emptied > 0, "{removed} {emptied}");
    assert!(
        codes.contains(&("ambiguous_connection", 409)) && codes.contains(&("not_found", 404)),
        "{codes:?}"
    );
}
