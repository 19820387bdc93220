//! Two databases that differ only in what a grant hides cannot be told apart by its client.
//!
//! A twin of a world keeps what the grant shows, and has everything else at random: other hidden
//! records, fields, declarations, streams, connections and grants, stored in another order with
//! another history. The same requests go to both. Bodies are compared byte for byte; of a cursor,
//! which is sealed with a fresh nonce, the length counts, and that both go on alike. Time is not
//! compared (`docs/threats.md`).

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value as Json;
use stile_domain::records::problem::Problem;
use stile_testkit::chance::{Chance, scaled, seconds, seed};

use super::bounded::fields_cursors;
use super::json::J;
use super::model::{
    CONNECTIONS, Decl, FIELDS, FieldDecl, Grant, KEYS, Rec, STREAMS, Share, Source, Stored, World,
    extra, field_decl, record, shuffle, some, source, value,
};
use super::oracle::{Oracle, Who};
use super::{Ask, client, draw, gives_pages, reading};

#[test]
fn security_what_a_grant_hides_cannot_be_observed() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (since, least) = (Instant::now(), scaled(30, 20_000));
    let (mut worlds, mut requests, mut succeeded) = (0, 0, 0);
    while worlds < least || seconds().is_some_and(|most| since.elapsed() < most) {
        worlds += 1;
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_same");
        let pair = Pair::new(&mut chance, &world, &grant);
        for endpoint in reading() {
            let times =
                if endpoint.path.starts_with("/v1/streams/{stream}/") || gives_pages(endpoint.id) {
                    20
                } else {
                    5
                };
            for _ in 0..times {
                // Also about what is hidden in one of them, or in both.
                let about = if chance.happens(70) { &world } else { &pair.twin };
                let ask = draw(&mut chance, about, Some(&grant), endpoint);
                pair.agree(&ask);
                requests += 1;
                succeeded += usize::from(pair.same(&mut chance, &ask));
            }
        }
    }
    println!("{worlds} worlds, {requests} requests, {succeeded} of them with an answer");
    assert!(succeeded * 6 > requests, "too few requests are answered to prove anything");
}

/// The same for a client of one grant.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) twin: World,
    grant: Grant,
    pub(crate) stored: [Stored; 2],
}

impl Pair {
    pub(crate) fn new(chance: &mut Chance, world: &World, grant: &Grant) -> Self {
        let twin = twin(chance, world, grant);
        let stored = [world, &twin].map(|world| {
            let mut grants: Vec<Grant> = (0..chance.below(3))
                .map(|at| Grant::random(chance, &format!("grt_other{at}")))
                .collect();
            grants.iter_mut().for_each(|grant| grant.revoked = chance.happens(50));
            grants.push(grant.clone());
            shuffle(chance, &mut grants);
            Stored::new(chance, world, &grants)
        });
        Self { world: world.clone(), twin, grant: grant.clone(), stored }
    }

    /// That the worlds themselves show the same, so that what differs is a fault of the program.
    fn agree(&self, ask: &Ask) {
        let [one, other] = [&self.world, &self.twin].map(|world| {
            let oracle = Oracle { world, who: Who::Client(&self.grant) };
            format!("{:?}", oracle.answer(ask))
        });
        assert_eq!(one, other, "the twin is none: {ask:?}");
    }

    /// Sends a request to both, and goes on where they say. Whether they answered.
    fn same(&self, chance: &mut Chance, ask: &Ask) -> bool {
        let mut asks = [ask.clone(), ask.clone()];
        for step in 0..20 {
            let told = [0, 1]
                .map(|at| asks[at].send(&self.stored[at].services, &client("grt_same", "t1")));
            let [one, other] = [&told[0], &told[1]].map(observable);
            assert_eq!(one, other, "{ask:?}");
            let [Ok(one), Ok(other)] = told else { return step > 0 };
            let limit = 1 + chance.below(5);
            let [one, other] = [one, other].map(|body| cursors(&body));
            let at = match chance.below(10) {
                0..6 => 0,
                6 | 7 => 1,
                _ => chance.below(one.len()),
            };
            let next = [one, other].map(|cursors| cursors.get(at).cloned().flatten());
            let [Some(one), Some(other)] = next else { break };
            if ask.endpoint.id == "getRecord" {
                let next =
                    |(ask, cursor): (&mut Ask, String)| *ask = ask.with("fields_cursor", cursor);
                asks.iter_mut().zip([one, other]).for_each(next);
                continue;
            }
            let bytes = ask.pairs.iter().any(|(name, _)| name.ends_with("_bytes"));
            let name = match (gives_pages(ask.endpoint.id), bytes) {
                (true, _) => "limit",
                (false, true) => "limit_bytes",
                (false, false) => "limit_chars",
            };
            let limit = if name == "limit" { limit } else { limit * 1000 };
            asks.iter_mut().zip([one, other]).for_each(|(ask, cursor)| {
                if name != "limit" {
                    let dropped =
                        ["offset_chars", "q", "before_chars", "after_chars", "offset_bytes"];
                    ask.pairs.retain(|(name, _)| !dropped.contains(&name.as_str()));
                }
                *ask = ask.with("cursor", cursor).with(name, limit);
            });
        }
        true
    }
}

/// The cursors of an answer: the next one, the previous one, and those of its records.
fn cursors(body: &str) -> Vec<Option<String>> {
    let body = J::parse(body);
    let window = body.get("window");
    let next = body.get("next_cursor").text().or(window.get("next_cursor").text());
    let next = next.or(body.get("more_fields").get("next_cursor").text());
    let since = body.get("next_changes_since").text();
    let each = body.get("data").items().iter().map(|one| one.get("cursor").text());
    let all = [next, window.get("previous_cursor").text(), since].into_iter().chain(each);
    all.map(|cursor| cursor.map(str::to_owned)).collect()
}

/// All that a client gets, with the length of each cursor in its place.
fn observable(told: &Result<String, Problem>) -> String {
    match told {
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

/// Another world that shows the same.
fn twin(chance: &mut Chance, world: &World, grant: &Grant) -> World {
    let mut sources: Vec<Source> = Vec::new();
    for own in &world.sources {
        match grant.share(own) {
            Some(share) => sources.push(twin_source(chance, own, share)),
            None if chance.happens(40) => {}
            None if chance.happens(60) => {
                sources.push(source(chance, &own.connection, &own.stream))
            }
            None => sources.push(own.clone()),
        }
    }
    for connection in CONNECTIONS.iter().chain(&["hidden"]) {
        for stream in STREAMS.iter().chain(&["hidden"]) {
            let there = |own: &Source| own.connection == *connection && own.stream == *stream;
            if chance.happens(25) && !world.sources.iter().any(there) {
                let new = source(chance, connection, stream);
                if grant.share(&new).is_none() {
                    sources.push(new);
                }
            }
        }
    }
    if sources.is_empty() {
        sources.extend(world.sources.first().cloned());
    }
    World { sources }
}

fn twin_source(chance: &mut Chance, own: &Source, share: &Share) -> Source {
    let mut records = BTreeMap::new();
    for (key, record) in &own.records {
        if share.sees(key, record) {
            records.insert(key.clone(), twin_record(chance, key, record, share));
        } else if chance.happens(30) {
            records.insert(key.clone(), record.clone());
        }
    }
    for _ in 0..chance.below(12) {
        let (key, new) = (some(chance, &KEYS), record(chance));
        let shown = own.records.get(&key).is_some_and(|record| share.sees(&key, record));
        if !shown && !share.sees(&key, &new) {
            records.insert(key, new);
        }
    }
    Source { decl: twin_decl(chance, &own.decl, share), records, ..own.clone() }
}

fn is_shown(share: &Share, name: &str) -> bool {
    share.fields.iter().any(|field| field == name)
}

/// The same granted fields in the same order, among other hidden ones.
fn twin_record(chance: &mut Chance, key: &str, own: &Rec, share: &Share) -> Rec {
    let mut fields: Vec<_> =
        own.fields.iter().filter(|(name, _)| is_shown(share, name)).cloned().collect();
    for (name, flavour) in FIELDS.iter().filter(|(name, _)| !is_shown(share, name)) {
        let new = if chance.happens(30) {
            own.field(name).cloned()
        } else {
            Some(value(chance, *flavour))
        };
        if let Some(new) = new.filter(|_| chance.happens(75)) {
            fields.insert(chance.below(fields.len() + 1), (name.clone(), new));
        }
    }
    let mut made = Rec { emitted: own.emitted, fields, born: own.born };
    // What says that it may be seen goes on saying so, maybe with another time.
    if let Some((name, _, _)) = share.time.as_ref().filter(|(name, _, _)| !is_shown(share, name)) {
        made.fields.retain(|(own, _)| own != name);
        let as_it_was = own.field(name).unwrap().clone();
        let at = chance.below(made.fields.len() + 1);
        made.fields.insert(at, (name.clone(), value(chance, super::model::Flavour::Time)));
        if !share.sees(key, &made) {
            made.fields[at].1 = as_it_was;
        }
    }
    assert!(share.sees(key, &made));
    made
}

/// The same of every granted field, and anything of the others.
fn twin_decl(chance: &mut Chance, own: &Decl, share: &Share) -> Decl {
    let mut fields: Vec<FieldDecl> =
        own.fields.iter().filter(|field| is_shown(share, &field.name)).cloned().collect();
    let mut exact_given = own.exact_given;
    if !exact_given && chance.happens(30) {
        fields.iter_mut().for_each(|field| field.exact = own.exact(field));
        exact_given = true;
    }
    for (name, flavour) in FIELDS.iter().filter(|(name, _)| !is_shown(share, name)) {
        if chance.happens(60) {
            let new = field_decl(chance, name, *flavour);
            fields.insert(chance.below(fields.len() + 1), new);
        }
    }
    let hidden = |fits: &dyn Fn(&FieldDecl) -> bool| -> Vec<String> {
        let hidden = fields.iter().filter(|field| !is_shown(share, &field.name) && fits(field));
        hidden.map(|field| field.name.clone()).collect()
    };
    let (scalars, times) = (hidden(&FieldDecl::is_scalar), hidden(&FieldDecl::is_time));
    let one = |chance: &mut Chance, shown: &Option<String>, others: &[String]| match shown {
        Some(name) if is_shown(share, name) => Some(name.clone()),
        _ if others.is_empty() || chance.happens(30) => None,
        _ => Some(some(chance, others)),
    };
    let cursor = one(chance, &own.cursor, &scalars);
    let consent = one(chance, &own.consent, &times);
    // A key of which a part is hidden is not shown at all.
    let key = if !own.key.is_empty() && own.key.iter().all(|name| is_shown(share, name)) {
        own.key.clone()
    } else {
        scalars.first().filter(|_| chance.happens(70)).cloned().into_iter().collect()
    };
    let mut required: Vec<String> =
        own.required.iter().filter(|name| is_shown(share, name)).cloned().collect();
    for name in hidden(&|_| true) {
        if chance.happens(20) {
            required.insert(chance.below(required.len() + 1), name);
        }
    }
    let extra = extra(chance, &fields);
    Decl { fields, exact_given, key, cursor, consent, required, extra }
}
