//! Every operation refuses an invalid, expired or revoked grant before it checks anything else.

use std::collections::BTreeSet;

use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::instant::Instant;
use stile_domain::scope::Scopes;
use stile_testkit::chance::{Chance, scaled, seed};

use super::deletions::delete_operations;
use super::oracle_answers::refusal;
use super::worlds::model::{Grant, NOW, Stored, World};
use super::worlds::oracle::{Oracle, Who, standing};
use super::worlds::{client, draw, read_operations};

/// Returns texts that are a valid grant except in one place.
fn malformed(good: &Grant) -> Vec<String> {
    let good = good.terms();
    let mut texts =
        vec![String::new(), "{}".to_owned(), "null".to_owned(), format!("{good}{good}")];
    for (from, to) in [
        ("\"0.1.0\"", "\"0.1.1\""),
        ("{", "{\"all\":true,"),
        ("\"streams\":[", "\"streams\":[],\"none\":["),
        ("\"connection_ids\":[", "\"connection_ids\":[\"../x\","),
        ("\"connection_ids\":[", "\"connection_ids\":[\"*\","),
        ("\"fields\":[", "\"fields\":[\"\","),
        ("\"fields\":[", "\"resources\":[],\"fields\":["),
        ("\"fields\":[", "\"resources\":[\"\"],\"fields\":["),
        ("\"fields\":[", "\"time_constraint\":{\"field\":\"at\"},\"fields\":["),
        ("\"fields\":[", "\"time_constraint\":{\"since\":\"2026-01-01\"},\"fields\":["),
        ("\"fields\":[", "\"time_constraint\":{\"field\":\"at\",\"since\":\"soon\"},\"fields\":["),
        (
            "\"fields\":[",
            "\"time_constraint\":{\"field\":\"at\",\"since\":\"2026-01-02\",\"until\":\"2026-01-01\"},\"fields\":[",
        ),
        ("\"streams\":[{", "\"streams\":[{\"view\":\"v\","),
        ("\"access_mode\":\"", "\"access_mode\":\"un"),
        ("\"issued_at\":\"", "\"issued_at\":\"x"),
        ("\"client_id\":\"", "\"client_id\":\"\\u0000"),
    ] {
        assert!(good.contains(from), "{from}");
        texts.push(good.replacen(from, to, 1));
    }
    texts
}

#[test]
fn an_invalid_grant_is_refused_before_any_other_check() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    for _ in 0..scaled(6, 2000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let mut grants = Vec::new();
        for bits in 0..32usize {
            let mut grant = Grant::random(&mut chance, &format!("grt_{bits}"));
            grant.revoked = bits & 1 > 0;
            grant.single_use = bits & 2 > 0;
            grant.bound = (bits & 4 > 0).then(|| "t1".to_owned());
            grant.expires = (bits & 8 > 0).then_some("2026-01-31T00:00:00.000001Z");
            if bits & 16 > 0 {
                let texts = malformed(&only(&grant));
                grant.malformed = Some(texts[chance.below(texts.len())].clone());
            }
            grants.push(grant);
        }
        let stored = Stored::new(&mut chance, &world, &grants);
        for grant in &mut grants {
            for later in [0, 1] {
                for token in ["t1", "t2"] {
                    for operation in read_operations() {
                        let request = draw(&mut chance, &world, Some(grant), operation);
                        let actual = request.send_at(
                            &stored.services,
                            &client(&grant.id, token),
                            Instant(NOW + later),
                        );
                        let expired = later == 1 && grant.expires.is_some();
                        match standing(Some(grant), token, expired) {
                            Err(expected) => {
                                assert_eq!(
                                    refusal(&actual),
                                    Some(expected),
                                    "{request:?} {grant:?}"
                                )
                            }
                            Ok(()) => {
                                let oracle = Oracle { world: &world, who: Who::Client(grant) };
                                assert_eq!(
                                    refusal(&actual),
                                    oracle.answer(&request).err(),
                                    "{request:?} {grant:?}"
                                );
                                // The first request binds the grant, even if it is refused.
                                grant.bound.get_or_insert(token.to_owned());
                            }
                        }
                    }
                }
            }
        }
        for operation in read_operations() {
            let request = draw(&mut chance, &world, None, operation);
            let actual = request.send(&stored.services, &client("grt_nobody", "t1"));
            assert_eq!(refusal(&actual), Some(("grant_invalid", 403)), "{request:?}");
            let actual = request.send(&stored.services, &client("", ""));
            assert_eq!(refusal(&actual), Some(("grant_invalid", 403)), "{request:?}");
            let none = Principal::assert_verified(
                "ann",
                Some("t1"),
                None,
                Scopes::none(),
                RecordsClaim::None,
            );
            assert_eq!(
                refusal(&request.send(&stored.services, &none)),
                Some(("insufficient_scope", 403)),
                "{request:?}"
            );
        }
    }
}

#[test]
fn a_malformed_grant_allows_nothing() {
    let mut chance = Chance::of(seed());
    let world = World::random(&mut chance);
    let good = only(&Grant::random(&mut chance, "grt_good"));
    let texts = malformed(&good);
    let grants: Vec<Grant> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| Grant {
            id: format!("grt_{at}"),
            malformed: Some(text.clone()),
            ..good.clone()
        })
        .chain([good.clone()])
        .collect();
    let stored = Stored::new(&mut chance, &world, &grants);
    for grant in &grants {
        for operation in read_operations() {
            let request = draw(&mut chance, &world, Some(&good), operation);
            let actual = refusal(&request.send(&stored.services, &client(&grant.id, "t1")));
            let is_invalid = actual == Some(("grant_invalid", 403));
            assert_eq!(is_invalid, grant.malformed.is_some(), "{} {request:?}", grant.terms());
        }
    }
}

#[test]
fn a_changed_or_revoked_grant_takes_effect_with_the_next_request() {
    let mut chance = Chance::of(seed());
    let world = World::random(&mut chance);
    let mut grant = only(&Grant::random(&mut chance, "grt_1"));
    grant.expires = None;
    let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
    let request = draw(
        &mut chance,
        &world,
        None,
        read_operations().into_iter().find(|one| one.id == "listStreams").unwrap(),
    );
    let mut request = request;
    request.pairs.clear();
    let actual = || refusal(&request.send(&stored.services, &client("grt_1", "t1")));
    assert_eq!(actual(), None);
    grant.malformed = Some("{}".to_owned());
    stored.keep(std::slice::from_ref(&grant));
    assert_eq!(actual(), Some(("grant_invalid", 403)));
    grant.malformed = None;
    stored.keep(std::slice::from_ref(&grant));
    assert_eq!(actual(), None);
    let owner = super::worlds::owner().gate().owner().unwrap();
    stored.services.records.revoke(&owner, "grt_1", Instant(NOW)).unwrap();
    assert_eq!(actual(), Some(("grant_revoked", 403)));
}

/// Returns a grant of one share without constraints, from which malformed texts can be made.
fn only(grant: &Grant) -> Grant {
    let mut grant = grant.clone();
    grant.shares.truncate(1);
    grant.shares[0].time = None;
    grant.shares[0].keys = None;
    grant.malformed = None;
    grant
}

#[test]
fn a_client_cannot_delete_and_learns_nothing_from_trying() {
    let mut seeds = Chance::of(seed());
    for _ in 0..5 {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let mut grant = Grant::random(&mut chance, "grt_1");
        grant.revoked = chance.happens(30);
        let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        let mut actual = BTreeSet::new();
        for operation in delete_operations().into_iter().cycle().take(50) {
            let request = draw(&mut chance, &world, Some(&grant), operation);
            actual.insert(format!(
                "{:?}",
                stored.services.remove(
                    &client("grt_1", "t1"),
                    Instant(NOW),
                    &request.remove_call()
                )
            ));
        }
        assert_eq!(actual.len(), 1, "{actual:?}");
        assert!(actual.iter().all(|actual| actual.contains("InsufficientScope")), "{actual:?}");
        let count =
            |world: &World| world.sources.iter().map(|source| source.records.len()).sum::<usize>();
        assert_eq!(stored.place.count("records"), count(&world));
    }
}
