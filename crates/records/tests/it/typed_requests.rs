//! A request is the same request, whether it arrives as a query or as a value of its type.

use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::{FilterComparison, FilterParameter, Parameters};
use stile_domain::records::request::{
    AggregateRecords, GetFieldWindow, GetRecord, GetSchema, ListRecords, PathNames, ReadOperation,
    ReadRequest, SearchRecords,
};
use stile_records::RecordService;
use stile_testkit::chance::{Chance, scaled, seed};

use super::worlds::json::J;
use super::worlds::model::{Grant, NOW, Stored, World};
use super::worlds::{OperationRequest, client, draw, owner, read_operations};

/// Returns the request that was drawn, and whether its query has a number above its maximum.
fn typed<R: ReadOperation>(
    drawn: &OperationRequest,
    request: fn(R) -> ReadRequest,
) -> Result<(ReadRequest, bool), Problem> {
    let parameters = Parameters::parse(R::PARAMETERS, &drawn.pairs)?;
    let names = PathNames { stream: &drawn.stream, key: &drawn.key };
    let clamped = !parameters.clamped.is_empty();
    Ok((request(R::from_parameters(names, &parameters)), clamped))
}

/// Returns the request of an operation that has a type; `None` for another operation.
fn typed_request(drawn: &OperationRequest) -> Option<Result<(ReadRequest, bool), Problem>> {
    Some(match drawn.operation.id {
        GetSchema::ID => typed(drawn, ReadRequest::Schema),
        SearchRecords::ID => typed(drawn, ReadRequest::Search),
        ListRecords::ID => typed(drawn, ReadRequest::Records),
        AggregateRecords::ID => typed(drawn, ReadRequest::Aggregate),
        GetRecord::ID => typed(drawn, ReadRequest::Record),
        GetFieldWindow::ID => typed(drawn, ReadRequest::FieldWindow),
        _ => return None,
    })
}

/// Removes what differs between two answers to one request: its address, and sealed texts.
fn without_addresses(answer: &mut J) {
    match answer {
        J::Obj(members) => {
            let sealed = ["url", "links", "next_changes_since"];
            members.retain(|name, _| !sealed.contains(&name.as_str()) && !name.ends_with("cursor"));
            members.values_mut().for_each(without_addresses);
        }
        J::Arr(items) => items.iter_mut().for_each(without_addresses),
        J::Null | J::Bool(_) | J::Num(_) | J::Str(_) => {}
    }
}

fn comparable(answer: Result<String, Problem>) -> Result<J, Problem> {
    let mut answer = J::parse(&answer?);
    without_addresses(&mut answer);
    Ok(answer)
}

fn answer_typed(
    services: &RecordService,
    caller: &Principal,
    request: &ReadRequest,
) -> Result<String, Problem> {
    let mut out = String::new();
    services.answer_unjournalled(caller, Instant(NOW), request, &mut out).map(|()| out)
}

#[test]
fn a_typed_request_has_the_answer_of_its_query() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut compared = [0, 0];
    for _ in 0..scaled(8, 4000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_1");
        let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        let callers = [(None, owner()), (Some(&grant), client("grt_1", "t1"))];
        for (grant, caller) in &callers {
            for operation in read_operations() {
                let drawn = draw(&mut chance, &world, *grant, operation);
                let Some(typed) = typed_request(&drawn) else { continue };
                let sent = drawn.send(&stored.services, caller);
                let (request, is_clamped) = match typed {
                    Ok(typed) => typed,
                    Err(problem) => {
                        // The error for a grant comes before any other.
                        let refused = sent.unwrap_err();
                        let is_of_grant = refused.is_of_a_grant_without_effect();
                        assert!(refused == problem || is_of_grant, "{drawn:?}: {refused}");
                        continue;
                    }
                };
                let written = OperationRequest { pairs: request.pairs(), ..drawn.clone() };
                let again = typed_request(&written).unwrap().unwrap().0;
                assert_eq!(request.pairs(), again.pairs(), "{drawn:?}");
                // A warning of a lowered number is of the number that was sent.
                if is_clamped {
                    continue;
                }
                let own = comparable(answer_typed(&stored.services, caller, &request));
                compared[usize::from(own.is_ok())] += 1;
                assert_eq!(own, comparable(sent), "{drawn:?}");
            }
        }
    }
    assert!(compared.iter().all(|count| *count > 0), "{compared:?}");
}

#[test]
fn a_wrong_value_has_the_error_of_a_wrong_parameter() {
    let list = ListRecords::default;
    let long = || Some("x".repeat(5000));
    let condition = |field: &str, comparison, alternative| FilterParameter {
        field: field.to_owned(),
        comparison,
        alternative,
    };
    let many = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<String>>();
    let is = || FilterComparison::Is(String::new());
    let wrong = [
        ListRecords { limit: Some(0), ..list() },
        ListRecords { cursor: long(), ..list() },
        ListRecords { order: Some("up"), ..list() },
        ListRecords { fields: vec![String::new()], ..list() },
        ListRecords { fields: many(1001), ..list() },
        ListRecords { preview_bytes: Some(1), ..list() },
        ListRecords { connection: long().into(), ..list() },
        ListRecords { cursor: long(), connection: long().into(), ..list() },
        ListRecords { expand_limit: vec![("r".to_owned(), 0)], ..list() },
        ListRecords { conditions: vec![condition("", is(), None)], ..list() },
        ListRecords { conditions: vec![condition("a", is(), Some(16))], ..list() },
        ListRecords { conditions: vec![condition("a", is(), None); 2], ..list() },
        ListRecords { conditions: vec![condition("a", is(), Some(1)); 2], ..list() },
        ListRecords {
            conditions: vec![condition("a", FilterComparison::In(many(51)), Some(2))],
            ..list()
        },
        ListRecords {
            conditions: many(51).iter().map(|name| condition(name, is(), None)).collect(),
            ..list()
        },
    ];
    for request in wrong {
        let sent = Parameters::parse(ListRecords::PARAMETERS, &request.pairs()).map(drop);
        assert_eq!(request.checked().map(drop), sent, "{request:?}");
        assert!(sent.is_err(), "{request:?}");
    }
}
