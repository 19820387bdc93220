//! Every answer equals the oracle's, for the owner and for clients, to the last page.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::operation_declaration::OperationAccess;
use stile_records::operations::OPERATIONS;
use stile_testkit::chance::{Chance, scaled, seed};

use super::field_pages::fields_cursors;
use super::worlds::home::Home;
use super::worlds::json::J;
use super::worlds::model::{Grant, Stored, World};
use super::worlds::oracle::{Answer, Oracle, Refusal, Who, put, takes};
use super::worlds::{OperationRequest, client, draw, gives_pages, owner, read_operations};

/// How many requests with each operation, and with each of its parameters, succeeded and failed.
type Coverage = BTreeMap<String, (usize, usize)>;

/// One caller of one database, and the oracle for that caller.
pub(super) struct OracleCheck<'a> {
    pub(super) services: &'a RecordService,
    pub(super) caller: Principal,
    pub(super) oracle: Oracle<'a>,
}

#[test]
fn every_answer_equals_the_oracles() {
    let coverage = compare_with_oracle(&Home::Sqlite, scaled(45, 20_000));
    let enough =
        |name: &str| coverage.get(name).is_some_and(|(goods, bads)| *goods > 0 && *bads > 0);
    for operation in read_operations() {
        assert!(
            enough(&format!("{}?", operation.id)),
            "{} is not tried: {coverage:?}",
            operation.id
        );
        for parameter in
            operation.parameters.iter().filter(|parameter| !parameter.name.ends_with("cursor"))
        {
            let name = format!("{}?{}", operation.id, parameter.name);
            assert!(enough(&name), "{name} is not tried: {coverage:?}");
        }
    }
}

#[test]
fn every_answer_on_postgresql_equals_the_oracles() {
    if let Some(home) = Home::on_postgresql("every_answer_on_postgresql_equals_the_oracles") {
        compare_with_oracle(&home, scaled(3, 2000));
    }
}

#[test]
fn statements_on_postgresql_keep_tenants_apart_without_row_level_security() {
    let test = "statements_on_postgresql_keep_tenants_apart_without_row_level_security";
    if let Some(home) = Home::without_row_security(test) {
        compare_with_oracle(&home, scaled(3, 500));
    }
}

/// Compares the answers about some worlds with the oracle's, and returns what was tried.
#[expect(clippy::print_stdout, reason = "the seed repeats a run that failed")]
fn compare_with_oracle(home: &Home, worlds: usize) -> Coverage {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut coverage = Coverage::new();
    for _ in 0..worlds {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grants: Vec<Grant> =
            (0..3).map(|at| Grant::random(&mut chance, &format!("grt_{at}"))).collect();
        let stored = Stored::at(home, &mut chance, &world, &grants);
        for grant in std::iter::once(None).chain(grants.iter().map(Some)) {
            let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
            let oracle = Oracle { world: &world, who: grant.map_or(Who::Owner, Who::Client) };
            let bench = OracleCheck { services: &stored.services, caller, oracle };
            for operation in read_operations() {
                let times = if operation.path.starts_with("/v1/streams/{stream}/")
                    || gives_pages(operation.id)
                {
                    8
                } else {
                    3
                };
                // Few of those that name a blob find it.
                let times = if operation.path.contains("{blob_id}") { 10 } else { times };
                // What is the owner's alone is drawn for them alone.
                let times = if grant.is_none() { 3 * times } else { times };
                for _ in 0..times {
                    let request = draw(&mut chance, &world, grant, operation);
                    let good = bench.check(&mut chance, &request);
                    let names = request
                        .pairs
                        .iter()
                        .map(|(name, _)| name.split('[').next().unwrap().to_owned());
                    let names: BTreeSet<String> = names.chain([String::new()]).collect();
                    for name in names {
                        let (goods, bads) =
                            coverage.entry(format!("{}?{name}", operation.id)).or_default();
                        *if good { goods } else { bads } += 1;
                    }
                }
            }
        }
    }
    let declared = |(name, _): &(&String, &(usize, usize))| {
        !name.ends_with("cursor") && !name.ends_with("nope")
    };
    let mut least: Vec<_> = coverage
        .iter()
        .filter(declared)
        .map(|(name, (goods, bads))| (goods.min(bads), name))
        .collect();
    least.sort();
    println!(
        "tried least often: {:?}",
        least.iter().filter(|(count, _)| **count > 0).take(6).collect::<Vec<_>>()
    );
    coverage
}

#[test]
fn the_oracle_knows_every_operation_and_parameter() {
    for operation in OPERATIONS {
        let own: BTreeSet<&str> =
            operation.parameters.iter().map(|parameter| parameter.name).collect();
        match takes(operation.id) {
            Some(takes) => {
                let known: BTreeSet<&str> = takes.iter().map(|(name, _)| *name).collect();
                assert_eq!(own, known, "{}", operation.id);
            }
            None => {
                assert!(
                    operation.access == OperationAccess::OwnerOnly,
                    "the oracle does not answer {}; teach it",
                    operation.id
                )
            }
        }
    }
}

impl OracleCheck<'_> {
    pub(super) fn send(&self, request: &OperationRequest) -> Result<String, Problem> {
        request.send(self.services, &self.caller)
    }

    /// Compares an answer with the oracle's. Returns whether the request succeeded.
    pub(super) fn check(&self, chance: &mut Chance, request: &OperationRequest) -> bool {
        let (actual, expected) = (self.send(request), self.oracle.answer(request));
        let actual = match (actual, &expected) {
            (Err(problem), expected) => {
                let expected = expected.as_ref().err().copied();
                assert_eq!(Some(problem.code()), expected, "{request:?}: {problem}");
                if problem.code().1 == 409 {
                    let actual = J::of(&Json::Object(problem.to_json()));
                    let names = actual.get("available_connections").items().iter();
                    let names: Vec<_> = names.map(|one| one.get("connection_id").text()).collect();
                    let having = self.oracle.having(request);
                    assert_eq!(
                        names,
                        having.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>(),
                        "{request:?}"
                    );
                    assert_eq!(actual.get("retry_with").text(), Some("connection_id"));
                }
                return false;
            }
            (Ok(actual), Err(refusal)) => panic!("{request:?} is to be {refusal:?}: {actual}"),
            (Ok(actual), Ok(_)) => actual,
        };
        match expected.unwrap() {
            Answer::Whole(expected) => {
                let mut actual = J::parse(&actual);
                let cursors = fields_cursors(&mut actual);
                actual.assert_is(&expected, request);
                if request.operation.id == "getRecord" {
                    self.leaf_through(chance, request, &expected, cursors.first());
                }
            }
            Answer::Groups(_) => self.walk_groups(chance, request.clone(), actual),
            Answer::List(_) => self.walk(chance, request.clone(), actual),
            Answer::Window(_) => self.wander(chance, request, &actual),
            Answer::Bytes(window) => self.wander_in_bytes(chance, request, &actual, *window),
        }
        true
    }

    /// Returns whether a list is empty.
    pub(super) fn is_empty(&self, request: &OperationRequest) -> bool {
        matches!(self.oracle.answer(request), Ok(Answer::List(list)) if list.rows.is_empty())
    }

    /// Follows a list to its end, with pages of changing size.
    fn walk(&self, chance: &mut Chance, mut request: OperationRequest, mut actual: String) {
        let mut at = 0;
        loop {
            let Ok(Answer::List(list)) = self.oracle.answer(&request) else {
                panic!("{request:?}")
            };
            let mut page = J::parse(&actual);
            let next = page.take("next_cursor");
            let end = list.rows.len().min(at + list.limit);
            let more = end < list.rows.len();
            assert_eq!(next.text().is_some(), more, "{request:?}");
            let since = page.take("next_changes_since");
            assert_eq!(since.text().is_some(), list.changes && !more, "{request:?}");
            self.goes_on_after_each(chance, &request, &mut page, &list.rows[at..]);
            fields_cursors(&mut page);
            let (path, query) = (request.path(), request.query());
            let and = if query.is_empty() { "" } else { "&" };
            let mut links = J::Obj(BTreeMap::new());
            let this = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
            put(&mut links, "self", J::Str(this));
            let after = next.text().map(|next| J::Str(format!("{path}?{query}{and}cursor={next}")));
            put(&mut links, "next", after.unwrap_or(J::Null));
            let mut expected = J::Obj(BTreeMap::new());
            for (name, value) in [
                ("object", J::Str("list".into())),
                ("url", J::Str(path)),
                ("has_more", J::Bool(more)),
                ("data", J::Arr(list.rows[at..end].to_vec())),
                ("links", links),
                ("meta", list.meta),
            ] {
                put(&mut expected, name, value);
            }
            page.assert_is(&expected, &request);
            let Some(next) = next.text() else { break };
            at = end;
            request = request.with("cursor", next).with("limit", 1 + chance.below(4));
            actual = self.send(&request).unwrap();
        }
    }

    /// Follows the groups of an aggregation to their end.
    fn walk_groups(&self, chance: &mut Chance, mut request: OperationRequest, mut actual: String) {
        let mut at = 0;
        loop {
            let Ok(Answer::Groups(groups)) = self.oracle.answer(&request) else {
                panic!("{request:?}")
            };
            let mut page = J::parse(&actual);
            let next = page.take("next_cursor");
            let J::Arr(mut shown) = page.take("groups") else { panic!("{request:?}") };
            let cursors: Vec<J> = shown.iter_mut().map(|group| group.take("cursor")).collect();
            put(&mut page, "groups", J::Arr(shown));
            page.assert_is(&groups.page(at), &request);
            let each = request.pairs.iter().any(|(name, own)| name == "cursors" && own == "each");
            assert!(cursors.iter().all(|cursor| cursor.text().is_some() == each), "{request:?}");
            let middle = chance.below(cursors.len().max(1));
            if let Some(cursor) = cursors.get(middle).and_then(J::text) {
                let rest = request.with("cursor", cursor);
                let mut actual = J::parse(&self.send(&rest).unwrap());
                let J::Arr(mut shown) = actual.take("groups") else { panic!("{rest:?}") };
                shown.iter_mut().for_each(|group| drop(group.take("cursor")));
                let mut expected = groups.page(at + middle + 1);
                J::Arr(shown).assert_is(&expected.take("groups"), &rest);
            }
            at += groups.limit;
            assert_eq!(next.text().is_some(), at < groups.rows.len(), "{request:?}");
            let Some(next) = next.text() else { break };
            request = request.with("cursor", next).with("limit", 1 + chance.below(4));
            actual = self.send(&request).unwrap();
        }
    }

    /// Takes the cursors of a page's records, with one of which goes on exactly what comes after
    /// its record.
    fn goes_on_after_each(
        &self,
        chance: &mut Chance,
        request: &OperationRequest,
        page: &mut J,
        left: &[J],
    ) {
        let J::Arr(mut data) = page.take("data") else { panic!("{request:?}") };
        let cursors: Vec<J> = data.iter_mut().map(|one| one.take("cursor")).collect();
        let each = request.pairs.iter().any(|(name, value)| name == "cursors" && value == "each");
        assert!(cursors.iter().all(|cursor| cursor.text().is_some() == each), "{request:?}");
        put(page, "data", J::Arr(data));
        let at = chance.below(cursors.len().max(1));
        let Some(cursor) = cursors.get(at).and_then(J::text) else { return };
        let (after, limit) = (&left[at + 1..], 1 + chance.below(4));
        let mut next = request.with("cursor", cursor).with("limit", limit);
        if chance.happens(50) {
            next.pairs.retain(|(name, _)| name != "cursors");
        }
        let mut actual = J::parse(&self.send(&next).unwrap());
        let mut data = actual.take("data").items().to_vec();
        data.iter_mut().for_each(|one| drop((one.take("cursor"), fields_cursors(one))));
        let count = after.len().min(limit);
        J::Arr(data).assert_is(&J::Arr(after[..count].to_vec()), &next);
        assert_eq!(actual.get("next_cursor").text().is_some(), count < after.len(), "{next:?}");
    }

    /// Compares a window, then reads on to the end and one window back.
    fn wander(&self, chance: &mut Chance, request: &OperationRequest, actual: &str) {
        let Ok(Answer::Window(window)) = self.oracle.answer(request) else { panic!("{request:?}") };
        let (next, previous) = compare(request, actual, &window.shown());
        let (start, step) = (window.start, window.step);
        let mut plain = request.clone();
        plain.pairs.retain(|(name, _)| {
            matches!(name.as_str(), "field" | "connection_id" | "connector_instance_id")
        });
        if let Some(previous) = previous {
            let before = start.saturating_sub(step);
            let request = plain.with("cursor", previous);
            self.window(&request, before, start - before);
            self.window(&request.with("limit_chars", 100), before, 100);
        }
        let mut after = next.map(|next| (next, window.end));
        for _ in 0..4 {
            let Some((cursor, start)) = after else { break };
            let limit = 1 + chance.below(16_384);
            let request = plain.with("cursor", cursor).with("limit_chars", limit);
            after = self.window(&request, start, limit).map(|next| (next, start + limit));
        }
    }

    /// Compares the window of a cursor and returns the next cursor.
    fn window(&self, request: &OperationRequest, start: usize, limit: usize) -> Option<String> {
        let actual = self.send(request).unwrap();
        let Ok(Answer::Window(whole)) = self.oracle.answer(request) else { panic!("{request:?}") };
        compare(request, &actual, &whole.at(start, limit).shown()).0
    }
}

pub(super) fn compare(
    request: &OperationRequest,
    actual: &str,
    expected: &J,
) -> (Option<String>, Option<String>) {
    let mut actual = J::parse(actual);
    let mut window = actual.take("window");
    let [next, previous] = ["next_cursor", "previous_cursor"].map(|name| window.take(name));
    for (cursor, offset) in [(&next, "next_offset_"), (&previous, "previous_offset_")] {
        let offset =
            ["chars", "bytes"].map(|unit| window.get(&format!("{offset}{unit}")) == &J::Null);
        assert_eq!(*cursor == J::Null, offset == [true; 2], "{request:?}");
    }
    put(&mut actual, "window", window);
    actual.assert_is(expected, request);
    (next.text().map(str::to_owned), previous.text().map(str::to_owned))
}

/// Returns the code and the status of an error.
pub(super) fn refusal(actual: &Result<String, Problem>) -> Option<Refusal> {
    actual.as_ref().err().map(Problem::code)
}
