//! Every answer is the oracle's, for the owner and for clients, to the last page.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_records::RecordService;
use stile_records::operation_declaration::OperationAccess;
use stile_records::operations::OPERATIONS;
use stile_testkit::chance::{Chance, scaled, seed};

use super::bounded::fields_cursors;
use super::worlds::json::J;
use super::worlds::model::{Grant, Stored, World};
use super::worlds::oracle::{Answer, Oracle, Refusal, Who, put, takes};
use super::worlds::{OperationRequest, client, draw, gives_pages, owner, read_operations};

/// How often each endpoint, and each parameter of it, was in a request that succeeded, and in one
/// that did not.
type Coverage = BTreeMap<String, (usize, usize)>;

/// One caller of one database, and what they are to be told.
pub(super) struct Bench<'a> {
    pub(super) services: &'a RecordService,
    pub(super) caller: Principal,
    pub(super) oracle: Oracle<'a>,
}

#[test]
fn every_answer_is_the_oracles() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut coverage = Coverage::new();
    for _ in 0..scaled(30, 20_000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grants: Vec<Grant> =
            (0..3).map(|at| Grant::random(&mut chance, &format!("grt_{at}"))).collect();
        let stored = Stored::new(&mut chance, &world, &grants);
        for grant in std::iter::once(None).chain(grants.iter().map(Some)) {
            let caller = grant.map_or_else(owner, |grant| client(&grant.id, "t1"));
            let oracle = Oracle { world: &world, who: grant.map_or(Who::Owner, Who::Client) };
            let bench = Bench { services: &stored.services, caller, oracle };
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
                    let ask = draw(&mut chance, &world, grant, operation);
                    let good = bench.check(&mut chance, &ask);
                    let names = ask
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
fn the_oracle_knows_every_endpoint_and_parameter() {
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

impl Bench<'_> {
    pub(super) fn send(&self, ask: &OperationRequest) -> Result<String, Problem> {
        ask.send(self.services, &self.caller)
    }

    /// Whether the request succeeds, as it must.
    pub(super) fn check(&self, chance: &mut Chance, ask: &OperationRequest) -> bool {
        let (told, expected) = (self.send(ask), self.oracle.answer(ask));
        let told = match (told, &expected) {
            (Err(problem), expected) => {
                let expected = expected.as_ref().err().copied();
                assert_eq!(Some(problem.code()), expected, "{ask:?}: {problem}");
                if problem.code().1 == 409 {
                    let told = J::of(&Json::Object(problem.to_json()));
                    let names = told.get("available_connections").items().iter();
                    let names: Vec<_> = names.map(|one| one.get("connection_id").text()).collect();
                    let having = self.oracle.having(ask);
                    assert_eq!(
                        names,
                        having.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>(),
                        "{ask:?}"
                    );
                    assert_eq!(told.get("retry_with").text(), Some("connection_id"));
                }
                return false;
            }
            (Ok(told), Err(refusal)) => panic!("{ask:?} is to be {refusal:?}: {told}"),
            (Ok(told), Ok(_)) => told,
        };
        match expected.unwrap() {
            Answer::Whole(expected) => {
                let mut told = J::parse(&told);
                let cursors = fields_cursors(&mut told);
                told.assert_is(&expected, ask);
                if ask.operation.id == "getRecord" {
                    self.leaf_through(chance, ask, &expected, cursors.first());
                }
            }
            Answer::List(_) => self.walk(chance, ask.clone(), told),
            Answer::Window(_) => self.wander(chance, ask, &told),
            Answer::Bytes(window) => self.wander_in_bytes(chance, ask, &told, *window),
        }
        true
    }

    /// Whether a list has nothing in it.
    pub(super) fn is_empty(&self, ask: &OperationRequest) -> bool {
        matches!(self.oracle.answer(ask), Ok(Answer::List(list)) if list.rows.is_empty())
    }

    /// Follows a list to its end, with pages of changing size.
    fn walk(&self, chance: &mut Chance, mut ask: OperationRequest, mut told: String) {
        let mut at = 0;
        loop {
            let Ok(Answer::List(list)) = self.oracle.answer(&ask) else { panic!("{ask:?}") };
            let mut page = J::parse(&told);
            let next = page.take("next_cursor");
            let end = list.rows.len().min(at + list.limit);
            let more = end < list.rows.len();
            assert_eq!(next.text().is_some(), more, "{ask:?}");
            let since = page.take("next_changes_since");
            assert_eq!(since.text().is_some(), list.changes && !more, "{ask:?}");
            self.goes_on_after_each(chance, &ask, &mut page, &list.rows[at..]);
            fields_cursors(&mut page);
            let (path, query) = (ask.path(), ask.query());
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
            page.assert_is(&expected, &ask);
            let Some(next) = next.text() else { break };
            at = end;
            ask = ask.with("cursor", next).with("limit", 1 + chance.below(4));
            told = self.send(&ask).unwrap();
        }
    }

    /// Takes the cursors of a page's records, with one of which goes on exactly what comes after
    /// its record.
    fn goes_on_after_each(
        &self,
        chance: &mut Chance,
        ask: &OperationRequest,
        page: &mut J,
        left: &[J],
    ) {
        let J::Arr(mut data) = page.take("data") else { panic!("{ask:?}") };
        let cursors: Vec<J> = data.iter_mut().map(|one| one.take("cursor")).collect();
        let each = ask.pairs.iter().any(|(name, value)| name == "cursors" && value == "each");
        assert!(cursors.iter().all(|cursor| cursor.text().is_some() == each), "{ask:?}");
        put(page, "data", J::Arr(data));
        let at = chance.below(cursors.len().max(1));
        let Some(cursor) = cursors.get(at).and_then(J::text) else { return };
        let (after, limit) = (&left[at + 1..], 1 + chance.below(4));
        let mut next = ask.with("cursor", cursor).with("limit", limit);
        if chance.happens(50) {
            next.pairs.retain(|(name, _)| name != "cursors");
        }
        let mut told = J::parse(&self.send(&next).unwrap());
        let mut data = told.take("data").items().to_vec();
        data.iter_mut().for_each(|one| drop((one.take("cursor"), fields_cursors(one))));
        let count = after.len().min(limit);
        J::Arr(data).assert_is(&J::Arr(after[..count].to_vec()), &next);
        assert_eq!(told.get("next_cursor").text().is_some(), count < after.len(), "{next:?}");
    }

    /// Compares a window, and goes on to the end and one step back.
    fn wander(&self, chance: &mut Chance, ask: &OperationRequest, told: &str) {
        let Ok(Answer::Window(window)) = self.oracle.answer(ask) else { panic!("{ask:?}") };
        let (next, previous) = compare(ask, told, &window.shown());
        let (start, step) = (window.start, window.step);
        let mut plain = ask.clone();
        plain.pairs.retain(|(name, _)| {
            matches!(name.as_str(), "field" | "connection_id" | "connector_instance_id")
        });
        if let Some(previous) = previous {
            let before = start.saturating_sub(step);
            let ask = plain.with("cursor", previous);
            self.window(&ask, before, start - before);
            self.window(&ask.with("limit_chars", 100), before, 100);
        }
        let mut after = next.map(|next| (next, window.end));
        for _ in 0..4 {
            let Some((cursor, start)) = after else { break };
            let limit = 1 + chance.below(16_384);
            let ask = plain.with("cursor", cursor).with("limit_chars", limit);
            after = self.window(&ask, start, limit).map(|next| (next, start + limit));
        }
    }

    /// Sends a request with a cursor, which goes on here, and gives the next one.
    fn window(&self, ask: &OperationRequest, start: usize, limit: usize) -> Option<String> {
        let told = self.send(ask).unwrap();
        let Ok(Answer::Window(whole)) = self.oracle.answer(ask) else { panic!("{ask:?}") };
        compare(ask, &told, &whole.at(start, limit).shown()).0
    }
}

pub(super) fn compare(
    ask: &OperationRequest,
    told: &str,
    expected: &J,
) -> (Option<String>, Option<String>) {
    let mut told = J::parse(told);
    let mut window = told.take("window");
    let [next, previous] = ["next_cursor", "previous_cursor"].map(|name| window.take(name));
    for (cursor, offset) in [(&next, "next_offset_"), (&previous, "previous_offset_")] {
        let offset =
            ["chars", "bytes"].map(|unit| window.get(&format!("{offset}{unit}")) == &J::Null);
        assert_eq!(*cursor == J::Null, offset == [true; 2], "{ask:?}");
    }
    put(&mut told, "window", window);
    told.assert_is(expected, ask);
    (next.text().map(str::to_owned), previous.text().map(str::to_owned))
}

/// For the table of refusals of other tests.
pub(super) fn refusal(told: &Result<String, Problem>) -> Option<Refusal> {
    told.as_ref().err().map(Problem::code)
}
