//! A client cannot distinguish two databases that differ only in what its grant hides.
//!
//! The twin of a world has the same visible data and everything else at random: other hidden
//! records, fields, declarations, streams, connections and grants, stored in another order with
//! another history. Both get the same requests. Bodies must be equal byte for byte, except that
//! cursors, which are sealed with a fresh nonce, must have the same length and continue alike. Time
//! is not compared (`docs/threats.md`).

use std::time::Instant;

use serde_json::Value as Json;
use stile_domain::records::problem::Problem;
use stile_testkit::chance::{Chance, scaled, seconds, seed};

use super::field_pages::fields_cursors;
use super::worlds::home::Home;
use super::worlds::json::J;
use super::worlds::model::{Grant, Stored, World};
use super::worlds::oracle::{Oracle, Who};
use super::worlds::pair::Pair;
use super::worlds::{OperationRequest, client, draw, gives_pages, read_operations};

#[test]
fn what_a_grant_hides_cannot_be_observed() {
    let (requests, succeeded) = compare_pairs(&Home::Sqlite, scaled(30, 20_000));
    assert!(succeeded * 6 > requests, "too few requests are answered to prove anything");
}

#[test]
fn on_postgresql_a_client_cannot_observe_what_its_grant_hides() {
    let test = "on_postgresql_a_client_cannot_observe_what_its_grant_hides";
    if let Some(home) = Home::on_postgresql(test) {
        let (_, succeeded) = compare_pairs(&home, scaled(2, 2000));
        assert!(succeeded > 0, "no request was answered");
    }
}

/// Compares pairs of databases. Returns how many requests were sent and how many were answered.
#[expect(clippy::print_stdout, reason = "the seed repeats a run that failed")]
fn compare_pairs(home: &Home, least: usize) -> (usize, usize) {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let since = Instant::now();
    let (mut worlds, mut requests, mut succeeded) = (0, 0, 0);
    while worlds < least || seconds().is_some_and(|most| since.elapsed() < most) {
        worlds += 1;
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_same");
        let pair = Pair::new(home, &mut chance, &world, &grant);
        for operation in read_operations() {
            let times = if operation.path.starts_with("/v1/streams/{stream}/")
                || gives_pages(operation.id)
            {
                20
            } else {
                5
            };
            for _ in 0..times {
                // Also about what is hidden in one of them, or in both.
                let about = if chance.happens(70) { &world } else { &pair.twin };
                let request = draw(&mut chance, about, Some(&grant), operation);
                pair.agree(&request);
                requests += 1;
                succeeded += usize::from(pair.same(&mut chance, &request));
            }
        }
    }
    println!("{worlds} worlds, {requests} requests, {succeeded} of them with an answer");
    (requests, succeeded)
}

/// The same world with the same history in both engines: every answer has the same bytes, but for
/// cursors, which have the same length and continue alike.
#[test]
fn both_engines_give_the_same_answers() {
    let Some(home) = Home::on_postgresql("both_engines_give_the_same_answers") else { return };
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    for _ in 0..scaled(2, 2000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_same");
        let history = chance.fork();
        let stored = [Home::Sqlite, home.clone()].map(|home| {
            Stored::at(&home, &mut history.clone(), &world, std::slice::from_ref(&grant))
        });
        let pair = Pair { twin: world.clone(), world: world.clone(), grant: grant.clone(), stored };
        for operation in read_operations() {
            for _ in 0..20 {
                let request = draw(&mut chance, &world, Some(&grant), operation);
                pair.same(&mut chance, &request);
            }
        }
    }
}

impl Pair {
    /// Checks that the oracle gives the same answer for both worlds, so that a difference between
    /// the databases is a fault of the program.
    fn agree(&self, request: &OperationRequest) {
        let [one, other] = [&self.world, &self.twin].map(|world| {
            let oracle = Oracle { world, who: Who::Client(&self.grant) };
            format!("{:?}", oracle.answer(request))
        });
        assert_eq!(one, other, "the twin is none: {request:?}");
    }

    /// Sends a request to both and follows their cursors. Returns whether they answered.
    fn same(&self, chance: &mut Chance, request: &OperationRequest) -> bool {
        let mut requests = [request.clone(), request.clone()];
        for step in 0..20 {
            let actual = [0, 1]
                .map(|at| requests[at].send(&self.stored[at].services, &client("grt_same", "t1")));
            let [one, other] = [&actual[0], &actual[1]].map(observable);
            assert_eq!(one, other, "{request:?}");
            let [Ok(one), Ok(other)] = actual else { return step > 0 };
            let limit = 1 + chance.below(5);
            let [one, other] = [one, other].map(|body| cursors(&body));
            let at = match chance.below(10) {
                0..6 => 0,
                6 | 7 => 1,
                _ => chance.below(one.len()),
            };
            let next = [one, other].map(|cursors| cursors.get(at).cloned().flatten());
            let [Some(one), Some(other)] = next else { break };
            if request.operation.id == "getRecord" {
                let next = |(request, cursor): (&mut OperationRequest, String)| {
                    *request = request.with("fields_cursor", cursor)
                };
                requests.iter_mut().zip([one, other]).for_each(next);
                continue;
            }
            let bytes = request.pairs.iter().any(|(name, _)| name.ends_with("_bytes"));
            let name = match (gives_pages(request.operation.id), bytes) {
                (true, _) => "limit",
                (false, true) => "limit_bytes",
                (false, false) => "limit_chars",
            };
            let limit = if name == "limit" { limit } else { limit * 1000 };
            requests.iter_mut().zip([one, other]).for_each(|(request, cursor)| {
                if name != "limit" {
                    let dropped =
                        ["offset_chars", "q", "before_chars", "after_chars", "offset_bytes"];
                    request.pairs.retain(|(name, _)| !dropped.contains(&name.as_str()));
                }
                *request = request.with("cursor", cursor).with(name, limit);
            });
        }
        true
    }
}

/// Returns the cursors of an answer: the next one, the previous one, and those of its records.
pub(super) fn cursors(body: &str) -> Vec<Option<String>> {
    let body = J::parse(body);
    let window = body.get("window");
    let next = body.get("next_cursor").text().or(window.get("next_cursor").text());
    let next = next.or(body.get("more_fields").get("next_cursor").text());
    let since = body.get("next_changes_since").text();
    let each = body.get("data").items().iter().chain(body.get("groups").items());
    let each = each.map(|one| one.get("cursor").text());
    let all = [next, window.get("previous_cursor").text(), since].into_iter().chain(each);
    all.map(|cursor| cursor.map(str::to_owned)).collect()
}

/// Returns everything that a client receives, with each cursor replaced by its length.
pub(super) fn observable(actual: &Result<String, Problem>) -> String {
    match actual {
        Ok(body) => cursors(body)
            .into_iter()
            .flatten()
            .chain(fields_cursors(&mut J::parse(body)))
            .fold(body.clone(), |body, cursor| {
                body.replace(&cursor, &format!("<{} characters>", cursor.len()))
            }),
        Err(problem) => format!("{:?} {}", problem.code(), Json::Object(problem.to_json())),
    }
}
