//! Two databases that differ only in what a grant hides.
//!
//! A twin of a world keeps what the grant shows and replaces the rest at random: hidden records,
//! fields, declarations, streams, connections and grants.

use std::collections::BTreeMap;

use stile_testkit::chance::Chance;

use super::home::Home;
use super::model::{
    CONNECTIONS, Decl, FIELDS, FieldDecl, Grant, KEYS, Rec, STREAMS, Share, Source, Stored, World,
    extra, field_decl, record, shuffle, some, source, value,
};

/// The same for a client of one grant.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) twin: World,
    pub(crate) grant: Grant,
    pub(crate) stored: [Stored; 2],
}

impl Pair {
    pub(crate) fn new(home: &Home, chance: &mut Chance, world: &World, grant: &Grant) -> Self {
        let twin = twin(chance, world, grant);
        let stored = [world, &twin].map(|world| {
            let mut grants: Vec<Grant> = (0..chance.below(3))
                .map(|at| Grant::random(chance, &format!("grt_other{at}")))
                .collect();
            grants.iter_mut().for_each(|grant| grant.revoked = chance.happens(50));
            grants.push(grant.clone());
            shuffle(chance, &mut grants);
            Stored::at(home, chance, world, &grants)
        });
        Self { world: world.clone(), twin, grant: grant.clone(), stored }
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
