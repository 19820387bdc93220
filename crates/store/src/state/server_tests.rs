//! The tables of tokens and sign-in on a real server of PostgreSQL: the same answers as on SQLite,
//! and one answer for all servers that share them.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stile_testkit::postgres::{PostgresServer, TestDatabase};

use super::{
    AuthorizationRecord, ClientKind, ClientRecord, CodeSpent, Issued, NewCode, Passkey,
    RefreshSpent, Revocation, SecretDigest, ShortLived, StateDir, StateError, StoredPassword,
    TokenKey, TokenKind, TokenRecord, TokenStore,
};
use crate::postgresql::Database;

/// What a caller asks of the tables. Small numbers name tokens, clients, secrets and times, so that
/// the calls meet.
type Call = (u8, u8, u8, u16);

/// Asks the tables, and returns the answer as a text.
fn ask(store: &TokenStore, (question, one, other, time): Call) -> String {
    fn text(answer: impl Debug) -> String {
        format!("{answer:?}")
    }
    /// A digest that is there already is refused by the table's key.
    fn refusable<T: Debug>(answer: Result<T, StateError>) -> String {
        answer.map_or_else(|_| "refused".to_owned(), text)
    }
    let (id, name) = (format!("id-{}", one % 4), format!("name-{}", other % 4));
    let (digest, successor): (SecretDigest, SecretDigest) = ([one % 4; 32], [other % 4; 32]);
    let now = i64::from(time) * 7;
    match question % 30 {
        0 => match store.find(&id).unwrap() {
            Some(_) => "known".to_owned(),
            None => refusable(store.record(&token(&id, &name, now))),
        },
        1 => match store.revoke(&id, now) {
            Ok(revocation) => text(revocation),
            Err(error) => error.to_string(),
        },
        2 => text(store.is_live(&id).unwrap()),
        3 => text((
            store.list().unwrap(),
            store.list_live(now).unwrap(),
            store.list_ended(now, None, 2).unwrap(),
            store.list_ended(now, Some(&name), 9).unwrap(),
            store.list_beginning(&id).unwrap(),
        )),
        4 => refusable(store.store_client(&client(&name, &id, now))),
        5 => text(store.find_client(&name).unwrap()),
        6 => text(store.clients().unwrap()),
        7 => text(store.end_client(&name, now).unwrap()),
        8 => {
            let known = store.authorizations().unwrap().iter().any(|known| known.id == id);
            let spent = store.spend_code(&digest, now).unwrap();
            if known || spent != CodeSpent::Never {
                return text(spent);
            }
            let code = NewCode { digest, redirect: Some(&name), challenge: "challenge" };
            refusable(store.authorize(
                &authorization(&id, &name, now),
                &client(&name, &id, now),
                &code,
            ))
        }
        9 => text(store.spend_code(&digest, now).unwrap()),
        10 => text(store.authorization_of_refresh(&digest).unwrap()),
        11 => match store.authorization_of_refresh(&digest).unwrap() {
            Some(_) => "known".to_owned(),
            None => refusable(store.record_refresh(&digest, &id, now)),
        },
        12 if store.authorization_of_refresh(&successor).unwrap().is_none() => {
            refusable(store.spend_refresh(&digest, &name, &successor, now))
        }
        13 => match store.find(&name).unwrap() {
            Some(_) => "known".to_owned(),
            None => text(store.record_of_authorization(&token(&name, &id, now), &id).unwrap()),
        },
        14 => text(store.authorization_of_token(&name).unwrap()),
        15 => text(store.authorizations().unwrap()),
        16 => text(store.latest_authorization((&name, &name), Some(&name), now).unwrap()),
        17 => text(store.end_authorization(&id, now).unwrap()),
        18 => text(store.set_approved_scopes(&id, "read:/a").unwrap()),
        19 => text(store.sessions(now).unwrap()),
        20 if store.session_user(&digest, now).unwrap().is_none() => {
            store.close_session(&digest).unwrap();
            refusable(store.open_session(&digest, &name, now))
        }
        21 => {
            store.set_session_role(&digest, &name).unwrap();
            store.note_session_place(&digest, &name, &id).unwrap();
            text((store.session_role(&digest).unwrap(), store.session_user(&digest, now).unwrap()))
        }
        22 => text(store.close_sessions_of(&name).unwrap()),
        23 => {
            let spent = store.spend_link(&digest, now).unwrap();
            store.record_link(&digest, &name, now).unwrap();
            text(spent)
        }
        24 => {
            store.set_owner_password(&password(now)).unwrap();
            text(store.owner_password().unwrap())
        }
        25 => text((store.remove_owner_password().unwrap(), store.owner_password().unwrap())),
        26 => text(store.add_passkey(&passkey(one % 4, now)).unwrap()),
        27 => text((
            store.use_passkey(&[one % 4; 16], u32::from(other % 3), now).unwrap(),
            store.passkeys().unwrap(),
        )),
        28 => {
            store.record_uses([(id.as_str(), now), (name.as_str(), now + 1)]).unwrap();
            let mut uses: Vec<_> = store.uses().unwrap().into_iter().collect();
            uses.sort();
            let mut of: Vec<_> = store.authorizations_of_tokens().unwrap().into_iter().collect();
            of.sort();
            text((uses, of))
        }
        29 => text((
            store.remove_passkey(&[one % 4; 16]).unwrap(),
            store.passkey(&[other % 4; 16]).unwrap(),
        )),
        _ => "nothing".to_owned(),
    }
}

fn token(jti: &str, subject: &str, now: i64) -> TokenRecord {
    TokenRecord {
        jti: jti.to_owned(),
        audience: Some("urn:uuid:1".to_owned()),
        kind: if now % 2 == 0 { TokenKind::Shown } else { TokenKind::Bearer },
        subject: subject.to_owned(),
        client: None,
        grant: Some("grt_1".to_owned()),
        owner: now % 3 == 0,
        scopes: "read:/".to_owned(),
        issued: now,
        expires: now + 3600,
        revoked: None,
    }
}

fn client(id: &str, name: &str, now: i64) -> ClientRecord {
    ClientRecord {
        id: id.to_owned(),
        kind: if now % 2 == 0 { ClientKind::Added } else { ClientKind::Registered },
        name: name.to_owned(),
        redirects: vec!["https://client.example/a b".to_owned()],
        created: now,
        used: None,
        ended: None,
    }
}

fn authorization(id: &str, client: &str, now: i64) -> AuthorizationRecord {
    AuthorizationRecord {
        id: id.to_owned(),
        client: client.to_owned(),
        client_name: "Editor ü".to_owned(),
        subject: "ann".to_owned(),
        audience: "urn:uuid:1".to_owned(),
        scopes: "read:/".to_owned(),
        grant: None,
        single_use: true,
        created: now,
        expires: now + 100_000,
        used: None,
        ended: None,
    }
}

fn password(now: i64) -> StoredPassword {
    StoredPassword {
        subject: "ann".to_owned(),
        salt: vec![0; 16],
        hash: vec![255; 32],
        memory_kib: u32::MAX,
        passes: 1,
        changed: now,
    }
}

fn passkey(credential: u8, now: i64) -> Passkey {
    Passkey {
        credential: vec![credential; 16],
        subject: "ann".to_owned(),
        name: "phone".to_owned(),
        domain: "localhost".to_owned(),
        public_key: vec![0, 1, 255],
        counter: 0,
        created: now,
        last_used: None,
    }
}

/// A new database, and two servers that use it.
fn two_servers(test: &str) -> Option<(TestDatabase, [TokenStore; 2])> {
    let database = PostgresServer::shared(test)?.database();
    let open = || TokenStore::on(&Database::open(&database.address()).unwrap());
    let servers = [open(), open()];
    Some((database, servers))
}

#[test]
fn both_databases_answer_alike() {
    let test = "both_databases_answer_alike";
    let Some((database, servers)) = two_servers(test) else { return };
    let calls = proptest::collection::vec(any::<Call>(), 1..120);
    let mut runner = TestRunner::new(Config { cases: 12, ..Config::default() });
    let tables = "token_key, tokens, spaces, clients, authorizations, authorization_codes, \
                  refresh_tokens, authorization_tokens, browser_sessions, sign_in_links, \
                  owner_password, passkeys, token_uses";
    let run = runner.run(&calls, |calls| {
        database.run(&format!("SET search_path = stile_access; TRUNCATE {tables}"));
        let folder = tempfile::tempdir().unwrap();
        let file = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        for (at, call) in calls.into_iter().enumerate() {
            let expected = ask(&file, call);
            prop_assert_eq!(ask(&servers[at % 2], call), expected, "{:?}", call);
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_code_that_two_servers_get_at_once_is_spent_once() {
    let test = "a_code_that_two_servers_get_at_once_is_spent_once";
    let Some((_database, servers)) = two_servers(test) else { return };
    for round in 0..8 {
        let (id, digest) = (format!("id-{round}"), [round; 32]);
        let code = NewCode { digest, redirect: None, challenge: "challenge" };
        servers[0]
            .authorize(&authorization(&id, "editor", 100), &client("editor", "Editor", 100), &code)
            .unwrap();
        let spent: Vec<_> = std::thread::scope(|scope| {
            let spend = |store: &TokenStore| store.spend_code(&digest, 101).unwrap();
            let threads: Vec<_> =
                servers.iter().map(|store| scope.spawn(move || spend(store))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let now = spent.iter().filter(|spent| matches!(spent, CodeSpent::Now(_))).count();
        assert_eq!(now, 1, "{spent:?}");
        assert!(spent.contains(&CodeSpent::Before));
    }
}

/// Redeems a code as the token endpoint does. Returns whether the client gets a token.
fn redeem(store: &TokenStore, digest: SecretDigest, jti: &str) -> bool {
    let CodeSpent::Now(spent) = store.spend_code(&digest, 101).unwrap() else { return false };
    let id = &spent.authorization.id;
    store.record_refresh(&successor_of(jti), id, 101).unwrap();
    let issued = store.record_of_authorization(&token(jti, "subject", 101), id).unwrap();
    issued == Issued::Valid
}

/// Returns a digest that no other name has.
fn successor_of(name: &str) -> SecretDigest {
    *stile_domain::hash::ContentHash::digest(name.as_bytes()).as_bytes()
}

#[test]
fn of_two_servers_that_redeem_a_code_exactly_one_gives_a_token() {
    let test = "of_two_servers_that_redeem_a_code_exactly_one_gives_a_token";
    let Some((_database, servers)) = two_servers(test) else { return };
    for round in 0..24 {
        let (id, digest) = (format!("id-{round}"), successor_of(&format!("code {round}")));
        let code = NewCode { digest, redirect: None, challenge: "challenge" };
        let new = AuthorizationRecord { expires: 10_000, ..authorization(&id, "editor", 100) };
        servers[0].authorize(&new, &client("editor", "Editor", 100), &code).unwrap();
        let given: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = servers
                .iter()
                .enumerate()
                .map(|(at, store)| {
                    let jti = format!("token {round} of {at}");
                    scope.spawn(move || redeem(store, digest, &jti))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(given.iter().filter(|given| **given).count(), 1, "round {round}: {given:?}");
    }
}

#[test]
fn refreshes_of_unrelated_people_are_never_in_each_others_way() {
    let test = "refreshes_of_unrelated_people_are_never_in_each_others_way";
    let Some((_database, servers)) = two_servers(test) else { return };
    let people: Vec<String> = (0..6).map(|person| format!("person {person}")).collect();
    for person in &people {
        let (id, digest) = (format!("of {person}"), successor_of(&format!("code {person}")));
        let code = NewCode { digest, redirect: None, challenge: "challenge" };
        let new = AuthorizationRecord {
            expires: 10_000,
            client: person.clone(),
            ..authorization(&id, person, 100)
        };
        servers[0].authorize(&new, &client(person, person, 100), &code).unwrap();
        servers[0].record_refresh(&successor_of(&format!("{person} 0")), &id, 100).unwrap();
    }
    std::thread::scope(|scope| {
        for (at, person) in people.iter().enumerate() {
            let store = &servers[at % 2];
            scope.spawn(move || {
                for turn in 0..8 {
                    let spent = successor_of(&format!("{person} {turn}"));
                    let next = successor_of(&format!("{person} {}", turn + 1));
                    let done = store.spend_refresh(&spent, person, &next, 101 + turn).unwrap();
                    assert!(matches!(done, RefreshSpent::Now(_)), "{done:?}");
                    let token = token(&format!("{person} token {turn}"), person, 101 + turn);
                    let id = format!("of {person}");
                    let issued = store.record_of_authorization(&token, &id).unwrap();
                    assert_eq!(issued, Issued::Valid);
                }
            });
        }
    });
}

#[test]
fn a_fork_of_a_family_is_closed_at_its_next_use_on_any_server() {
    let test = "a_fork_of_a_family_is_closed_at_its_next_use_on_any_server";
    let Some((_database, [one, other])) = two_servers(test) else { return };
    let digest = successor_of;
    let code = NewCode { digest: digest("code"), redirect: None, challenge: "challenge" };
    let new = AuthorizationRecord { expires: 100_000, ..authorization("id", "editor", 100) };
    one.authorize(&new, &client("editor", "Editor", 100), &code).unwrap();
    one.record_refresh(&digest("10"), "id", 100).unwrap();
    for (store, branch) in [(&one, "11"), (&other, "12")] {
        let spent = store.spend_refresh(&digest("10"), "editor", &digest(branch), 101).unwrap();
        assert!(matches!(spent, RefreshSpent::Now(_)), "{spent:?}");
        let issued = store.record_of_authorization(&token(branch, "editor", 101), "id").unwrap();
        assert_eq!(issued, Issued::Valid);
    }
    let spent = one.spend_refresh(&digest("11"), "editor", &digest("13"), 4_000).unwrap();
    assert!(matches!(spent, RefreshSpent::Forked(_)), "{spent:?}");
    assert!(!other.is_live("11").unwrap() && !other.is_live("12").unwrap());
    let replayed = other.spend_refresh(&digest("12"), "editor", &digest("14"), 4_001).unwrap();
    assert_eq!(replayed, RefreshSpent::Replayed);
    let ended = one.spend_refresh(&digest("13"), "editor", &digest("15"), 4_002).unwrap();
    assert_eq!(ended, RefreshSpent::Never);
}

#[test]
fn a_client_that_renews_at_two_servers_at_once_each_day_goes_on_with_both_answers() {
    let test = "a_client_that_renews_at_two_servers_at_once_each_day_goes_on_with_both_answers";
    let Some((_database, servers)) = two_servers(test) else { return };
    let digest = successor_of;
    let [one, _] = &servers;
    let code = NewCode { digest: digest("code"), redirect: None, challenge: "challenge" };
    let new = AuthorizationRecord { expires: 1_000_000, ..authorization("id", "editor", 100) };
    one.authorize(&new, &client("editor", "Editor", 100), &code).unwrap();
    let mut last = "first".to_owned();
    one.record_refresh(&digest(&last), "id", 100).unwrap();
    for day in 1..=3 {
        let now = 100 + 86_100 * day;
        let pair = ["a", "b"].map(|which| format!("{which} of day {day}"));
        std::thread::scope(|scope| {
            for (store, next) in servers.iter().zip(&pair) {
                let last = &last;
                scope.spawn(move || {
                    let spent = store.spend_refresh(&digest(last), "editor", &digest(next), now);
                    let spent = spent.unwrap();
                    let goes_on = matches!(spent, RefreshSpent::Now(_) | RefreshSpent::Forked(_));
                    assert!(goes_on, "{spent:?}");
                });
            }
        });
        for (store, next) in servers.iter().zip(&pair) {
            let issued = store.record_of_authorization(&token(next, "editor", now), "id").unwrap();
            assert_eq!(issued, Issued::Valid);
        }
        assert!(pair.iter().all(|next| one.is_live(next).unwrap()));
        last.clone_from(&pair[1]);
    }
}

#[test]
fn a_revocation_on_one_server_counts_on_the_other_at_once() {
    let test = "a_revocation_on_one_server_counts_on_the_other_at_once";
    let Some((_database, [one, other])) = two_servers(test) else { return };
    one.record(&token("a", "ann", 1)).unwrap();
    assert!(other.is_live("a").unwrap());
    assert_eq!(other.revoke("a", 5).unwrap(), Revocation::Now);
    assert!(!one.is_live("a").unwrap());
    assert_eq!(one.revoke("a", 6).unwrap(), Revocation::Before(5));
    let ended = one.record_of_authorization(&token("b", "ann", 1), "none").unwrap();
    assert_eq!(ended, Issued::AuthorizationEnded);
}

#[test]
fn servers_that_start_at_once_sign_with_one_key() {
    let test = "servers_that_start_at_once_sign_with_one_key";
    let Some(server) = PostgresServer::shared(test) else { return };
    let database = server.database();
    let keys: Vec<TokenKey> = std::thread::scope(|scope| {
        let open = || TokenKey::of(&Database::open(&database.address()).unwrap()).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn a_text_with_u0000_is_unknown_and_no_error() {
    let test = "a_text_with_u0000_is_unknown_and_no_error";
    let Some((_database, [store, _])) = two_servers(test) else { return };
    assert!(!store.is_live("a\0").unwrap());
    assert_eq!(store.find_client("a\0").unwrap(), None);
}

#[test]
fn what_requests_do_and_what_cleans_up_reads_no_table_as_a_whole() {
    let test = "what_requests_do_and_what_cleans_up_reads_no_table_as_a_whole";
    let Some((database, [store, _])) = two_servers(test) else { return };
    database.log_plans();
    database.run(
        "SET search_path = stile_access; \
         INSERT INTO tokens (jti, subject, scopes, issued, expires) \
         SELECT 't' || n, 'p' || n, '', 100, 9000000000 FROM generate_series(1, 20000) AS n; \
         INSERT INTO authorizations (id, client, client_name, subject, audience, scopes, single_use, \
         created, expires, used) SELECT 'a' || n, 'c' || n, '', 'p' || n, '', '', 0, 100, 9000000000, \
         CASE WHEN n % 2 = 0 THEN 100 END FROM generate_series(1, 20000) AS n; \
         INSERT INTO clients (id, kind, name, redirects, created) \
         SELECT 'c' || n, 'added', '', '', 100 FROM generate_series(1, 20000) AS n; \
         INSERT INTO authorization_codes (digest, \"authorization\", challenge, created) \
         SELECT sha256(n::text::bytea), 'a' || n, '', 100 FROM generate_series(1, 20000) AS n; \
         INSERT INTO refresh_tokens (digest, \"authorization\", created) \
         SELECT sha256(n::text::bytea), 'a' || n, 100 FROM generate_series(1, 20000) AS n; \
         INSERT INTO authorization_tokens (jti, \"authorization\") \
         SELECT 't' || n, 'a' || n FROM generate_series(1, 20000) AS n; \
         INSERT INTO token_uses (jti, used) SELECT jti, 100 FROM tokens; \
         INSERT INTO browser_sessions (digest, subject, created, used) \
         SELECT sha256(n::text::bytea), 'p' || n, 100, 100 FROM generate_series(1, 20000) AS n; \
         INSERT INTO sign_in_links (digest, subject, created) \
         SELECT sha256(n::text::bytea), 'p' || n, 100 FROM generate_series(1, 20000) AS n; \
         INSERT INTO short_lived (kind, key, owner, value, made, ends) \
         SELECT 'session', 'k' || n, 'p' || n, '', 100, 9000000 FROM generate_series(1, 20000) AS n; \
         ANALYZE",
    );
    let store = {
        drop(store);
        TokenStore::on(&Database::open(&database.address()).unwrap())
    };
    let before = database.logged_plans().len();
    // More often than PostgreSQL plans a statement anew.
    for turn in 0..8_u8 {
        let (name, now) = (format!("own {turn}"), 101 + i64::from(turn));
        let (id, digest) = (format!("of {name}"), successor_of(&name));
        let code = NewCode { digest, redirect: None, challenge: "challenge" };
        let new = AuthorizationRecord {
            expires: 10_000,
            client: name.clone(),
            ..authorization(&id, &name, now)
        };
        store.authorize(&new, &client(&name, &name, now), &code).unwrap();
        assert!(matches!(store.spend_code(&digest, now).unwrap(), CodeSpent::Now(_)));
        store.record_refresh(&[turn; 32], &id, now).unwrap();
        for (token_id, spent, next) in
            [("x", [turn; 32], [turn + 100; 32]), ("y", [turn + 100; 32], [turn + 200; 32])]
        {
            let spent = store.spend_refresh(&spent, &name, &next, now).unwrap();
            assert!(matches!(spent, RefreshSpent::Now(_)), "{spent:?}");
            let token = token(&format!("{token_id} {name}"), &name, now);
            assert_eq!(store.record_of_authorization(&token, &id).unwrap(), Issued::Valid);
            assert!(store.is_live(&token.jti).unwrap());
            store.record_uses([(token.jti.as_str(), now)]).unwrap();
            store.authorization_of_token(&token.jti).unwrap().unwrap();
        }
        store.open_session(&digest, &name, now).unwrap();
        assert!(store.session_user(&digest, now + 1000).unwrap().is_some());
        store.record_link(&digest, &name, now).unwrap();
        assert!(store.spend_link(&digest, now).unwrap().is_some());
        let here = ShortLived { kind: "server", key: &name, owner: &name, value: "", ends: now };
        store.keep_short_lived(here, 1, now).unwrap();
        store.record_session_uses(&[("k7".to_owned(), now)], now).unwrap();
        store.remove_ended(now).unwrap();
        assert!(store.end_authorization(&id, now).unwrap());
        store.revoke(&format!("x {name}"), now).unwrap();
    }
    let plans = database.logged_plans().split_off(before);
    let about = |name: &str| plans.iter().filter(|plan| plan.contains(name)).count();
    for name in ["tokens", "authorization_codes", "refresh_tokens", "short_lived"] {
        assert!(about(name) >= 8, "{name}: {}", about(name));
    }
    let whole: Vec<&String> = plans.iter().filter(|plan| plan.contains("Seq Scan on")).collect();
    assert!(whole.is_empty(), "{} of {}: {whole:#?}", whole.len(), plans.len());
}
