//! What the owner removes is gone for everybody from then on, and nothing else is.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_records::operation_declaration::{OperationDeclaration, OperationMethod};
use stile_records::operations::OPERATIONS;
use stile_testkit::chance::{Chance, scaled, seed};

use super::truth::Bench;
use super::worlds::model::{Grant, NOW, Stored, World, some};
use super::worlds::oracle::{Oracle, Refusal, Who};
use super::worlds::{OperationRequest, client, draw, owner, read_operations};

pub(super) fn delete_operations() -> Vec<&'static OperationDeclaration> {
    let deletes = |operation: &&OperationDeclaration| operation.method == OperationMethod::Delete;
    OPERATIONS.iter().copied().filter(deletes).collect()
}

/// How a deletion ends: nothing, or its code and the connections that were told.
fn outcome(
    stored: &Stored,
    ask: &OperationRequest,
    grant: Option<&Grant>,
) -> Result<(), ((&'static str, u16), usize)> {
    let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
    stored.services.remove(&caller, Instant(NOW), &ask.remove_call()).map_err(|problem: Problem| {
        let told = Json::Object(problem.to_json());
        (problem.code(), told["available_connections"].as_array().map_or(0, Vec::len))
    })
}

#[test]
fn what_is_deleted_is_gone_and_nothing_else_is() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut codes: BTreeSet<Refusal> = BTreeSet::new();
    let (mut removed, mut emptied) = (0, 0);
    for _ in 0..scaled(8, 5000) {
        let mut chance = seeds.fork();
        let mut world = World::random(&mut chance);
        let grant = Grant { single_use: false, ..Grant::random(&mut chance, "grt_1") };
        let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        for _ in 0..12 {
            // One record mostly, so that there is something left.
            let one_record = chance.happens(85);
            let operation = delete_operations()
                .into_iter()
                .find(|one| one.path.contains("{id}") == one_record)
                .unwrap();
            let about = Some(&grant).filter(|_| chance.happens(50));
            let mut ask = draw(&mut chance, &world, about, operation);
            let of = some(&mut chance, &world.sources).connection;
            if !ask.pairs.iter().any(|(name, _)| name.starts_with("connect")) && chance.happens(50)
            {
                ask.pairs.push(("connection_id".to_owned(), of));
            }
            let refused = Oracle { world: &world, who: Who::Client(&grant) }.removed(&ask);
            assert_eq!(
                outcome(&stored, &ask, Some(&grant)).map_err(|told| told.0),
                refused.map(drop),
                "{ask:?}"
            );
            let expected = Oracle { world: &world, who: Who::Owner }.removed(&ask);
            let connections = match &expected {
                Err(("ambiguous_connection", _)) => {
                    Oracle { world: &world, who: Who::Owner }.having(&ask).len()
                }
                _ => 0,
            };
            let told = outcome(&stored, &ask, None);
            assert_eq!(
                told,
                expected.as_ref().map(|_| ()).map_err(|code| (*code, connections)),
                "{ask:?}"
            );
            codes.extend(expected.as_ref().err());
            for (connection, key) in expected.iter().flatten() {
                let source = world
                    .sources
                    .iter_mut()
                    .find(|one| one.connection == *connection && one.stream == ask.stream);
                assert!(source.unwrap().records.remove(key).is_some());
                removed += 1;
            }
            emptied += usize::from(
                operation.id == "deleteRecords" && expected.is_ok_and(|keys| !keys.is_empty()),
            );
            if told.is_ok() && chance.happens(50) {
                let again = Oracle { world: &world, who: Who::Owner }.removed(&ask);
                assert_eq!(
                    outcome(&stored, &ask, None).map_err(|told| told.0),
                    again.as_ref().map(|_| ()).map_err(|code| *code)
                );
                for (connection, key) in again.iter().flatten() {
                    let mut sources = world.sources.iter_mut();
                    let source = sources
                        .find(|one| one.connection == *connection && one.stream == ask.stream)
                        .unwrap();
                    source.records.remove(key);
                }
            }
            for grant in [None, Some(&grant)] {
                let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
                let oracle = Oracle { world: &world, who: grant.map_or(Who::Owner, Who::Client) };
                let bench = Bench { services: &stored.services, caller, oracle };
                for operation in read_operations() {
                    let ask = draw(&mut chance, &world, grant, operation);
                    bench.check(&mut chance, &ask);
                }
            }
        }
        let left: usize = world.sources.iter().map(|source| source.records.len()).sum();
        let rows: i64 = stored
            .database()
            .query_row("SELECT count(*) FROM records", [], |row| row.get(0))
            .unwrap();
        assert_eq!(usize::try_from(rows).unwrap(), left);
        if left == 0 {
            let rest = "SELECT (SELECT count(*) FROM pieces) + (SELECT count(*) FROM tokens)";
            assert_eq!(stored.database().query_row(rest, [], |row| row.get::<_, i64>(0)), Ok(0));
        }
    }
    assert!(removed > 20 && emptied > 0, "{removed} {emptied}");
    assert!(
        codes.contains(&("ambiguous_connection", 409)) && codes.contains(&("not_found", 404)),
        "{codes:?}"
    );
}
