//! Clients, authorizations and sessions, over time and through clocks that jump.

use proptest::prelude::*;
use rusqlite::Connection;

use super::authorizations::{
    AuthorizationRecord, CODE_SECONDS, CodeSpent, Issued, NewCode, REFRESH_GRACE_SECONDS,
    RefreshSpent,
};
use super::browser_sessions::{LINK_SECONDS, SESSION_IDLE_SECONDS, SESSION_SECONDS};
use super::clients::{ClientKind, ClientRecord, MAX_UNUSED_CLIENTS, UNUSED_CLIENT_SECONDS};
use super::{ApprovedRights, StateDir, TokenKind, TokenRecord, TokenStanding, TokenStore};

const NOW: i64 = 1_800_000_000;

struct Ground {
    tokens: TokenStore,
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
        tokens.store_client(&client("editor", NOW)).unwrap();
        Self { tokens, folder }
    }

    /// With an authorization, whose code is `[1; 32]`.
    fn authorized() -> Self {
        let ground = Self::new();
        ground.authorize("one", 1);
        ground
    }

    fn authorize(&self, id: &str, code: u8) {
        let code = NewCode { digest: [code; 32], redirect: None, challenge: "challenge" };
        self.tokens.authorize(&authorization(id), &client("editor", NOW), &code).unwrap();
    }

    /// Records the first refresh token `[first; 32]` of the authorization.
    fn with_refresh(self, first: u8) -> Self {
        self.tokens.record_refresh(&[first; 32], "one", NOW).unwrap();
        self
    }

    fn refresh(&self, token: u8, next: u8, now: i64) -> RefreshSpent {
        self.tokens.spend_refresh(&[token; 32], "editor", &[next; 32], now).unwrap()
    }

    fn has_ended(&self, id: &str) -> bool {
        let all = self.tokens.authorizations().unwrap();
        all.iter().any(|found| found.id == id && found.ended.is_some())
    }
}

fn client(id: &str, created: i64) -> ClientRecord {
    ClientRecord {
        id: id.to_owned(),
        kind: ClientKind::Registered,
        name: "Editor".to_owned(),
        redirects: vec!["https://client.example/callback".to_owned()],
        created,
        used: None,
        ended: None,
    }
}

fn authorization(id: &str) -> AuthorizationRecord {
    AuthorizationRecord {
        id: id.to_owned(),
        client: "editor".to_owned(),
        client_name: "Editor".to_owned(),
        subject: "ann".to_owned(),
        audience: "urn:uuid:1".to_owned(),
        scopes: "read:/".to_owned(),
        grant: None,
        single_use: false,
        created: NOW,
        expires: NOW + 1_000_000,
        used: None,
        ended: None,
    }
}

fn token(jti: &str, issued: i64) -> TokenRecord {
    TokenRecord {
        jti: jti.to_owned(),
        audience: Some("urn:uuid:1".to_owned()),
        kind: TokenKind::Bearer,
        subject: "ann".to_owned(),
        client: Some("Editor".to_owned()),
        grant: None,
        owner: false,
        scopes: "read:/".to_owned(),
        issued,
        expires: issued + 3600,
        revoked: None,
    }
}

#[test]
fn a_code_is_good_once_and_for_a_minute_by_a_clock_that_may_jump() {
    for (later, is_good) in [
        (0, true),
        (CODE_SECONDS, true),
        (CODE_SECONDS + 1, false),
        // A clock that was set back would make a code live for longer.
        (-1, false),
        (-1_000_000, false),
        (1_000_000_000, false),
    ] {
        let ground = Ground::authorized();
        let spent = ground.tokens.spend_code(&[1; 32], NOW + later).unwrap();
        assert_eq!(matches!(spent, CodeSpent::Now(_)), is_good, "{later}");
        assert!(!ground.has_ended("one"));
        // Another request may be making the tokens at this moment.
        assert_eq!(ground.tokens.spend_code(&[1; 32], NOW + later).unwrap(), CodeSpent::Before);
        assert!(!ground.has_ended("one"));
        let after = NOW + later + 11;
        assert_eq!(ground.tokens.spend_code(&[1; 32], after).unwrap(), CodeSpent::Before);
        assert!(ground.has_ended("one"));
    }
    let ground = Ground::authorized();
    assert!(matches!(ground.tokens.spend_code(&[1; 32], NOW).unwrap(), CodeSpent::Now(_)));
    let issued = ground.tokens.record_of_authorization(&token("access", NOW), "one").unwrap();
    assert_eq!(issued, Issued::Valid);
    assert_eq!(ground.tokens.spend_code(&[1; 32], NOW).unwrap(), CodeSpent::Before);
    assert!(ground.has_ended("one"), "the tokens are made, so the code is replayed");
    assert_eq!(Ground::authorized().tokens.spend_code(&[2; 32], NOW).unwrap(), CodeSpent::Never);
}

#[test]
fn a_refresh_token_is_forgiven_within_its_grace_and_ends_its_family_after() {
    let grace = REFRESH_GRACE_SECONDS;
    for (later, is_forgiven) in
        [(0, true), (grace, true), (-grace, true), (grace + 1, false), (-grace - 1, false)]
    {
        let ground = Ground::authorized().with_refresh(10);
        let issued = token("access", NOW);
        let recorded = ground.tokens.record_of_authorization(&issued, "one").unwrap();
        assert_eq!(recorded, Issued::Valid);
        assert!(matches!(ground.refresh(10, 11, NOW + 100), RefreshSpent::Now(_)));
        let again = ground.refresh(10, 12, NOW + 100 + later);
        assert_eq!(matches!(again, RefreshSpent::Now(_)), is_forgiven, "{later}");
        assert_eq!(ground.tokens.is_live("access").unwrap(), is_forgiven, "{later}");
        assert_eq!(ground.has_ended("one"), !is_forgiven, "{later}");
        // The whole family goes: also the token that the rightful client got.
        let next = ground.refresh(11, 13, NOW + 101);
        assert_eq!(matches!(next, RefreshSpent::Forked(_)), is_forgiven, "{later}");
    }
}

#[test]
fn a_fork_within_the_grace_ends_the_family_at_the_next_use_of_either_branch() {
    // Both parties have a successor of 10; whoever comes second shows the fork.
    for (first, second) in [(11, 12), (12, 11)] {
        let ground = Ground::authorized().with_refresh(10);
        for successor in [11, 12] {
            assert!(matches!(ground.refresh(10, successor, NOW), RefreshSpent::Now(_)));
        }
        let later = NOW + 3000;
        assert!(matches!(ground.refresh(first, 13, later), RefreshSpent::Forked(_)));
        assert_eq!(ground.refresh(second, 14, later), RefreshSpent::Replayed);
        assert!(ground.has_ended("one"));
        assert_eq!(ground.refresh(13, 15, later), RefreshSpent::Never);
    }
    // A successor was used, so its parent was not sent again because an answer got lost.
    let ground = Ground::authorized().with_refresh(10);
    assert!(matches!(ground.refresh(10, 11, NOW), RefreshSpent::Now(_)));
    assert!(matches!(ground.refresh(11, 12, NOW + 1), RefreshSpent::Now(_)));
    assert_eq!(ground.refresh(10, 13, NOW + 2), RefreshSpent::Replayed);
    assert!(ground.has_ended("one"));
}

#[test]
fn a_fork_within_the_grace_is_closed_at_the_next_use_of_either_branch() {
    let is_good = |spent: RefreshSpent| matches!(spent, RefreshSpent::Now(_));
    let is_fork = |spent: RefreshSpent| matches!(spent, RefreshSpent::Forked(_));
    for (first, second) in [(11, 12), (12, 11)] {
        let ground = Ground::authorized().with_refresh(10);
        let issue = |jti: &str| {
            let issued = ground.tokens.record_of_authorization(&token(jti, NOW), "one");
            assert_eq!(issued.unwrap(), Issued::Valid);
        };
        let is_live = |jti: &str| ground.tokens.is_live(jti).unwrap();
        issue("access 10");
        for successor in [11, 12] {
            assert!(is_good(ground.refresh(10, successor, NOW)));
            issue(&format!("access {successor}"));
        }
        assert!(is_live("access 10") && is_live("access 11") && is_live("access 12"));
        // Whoever comes first goes on alone: what the other one has opens nothing from now on.
        let later = NOW + 3000;
        assert!(is_fork(ground.refresh(first, 13, later)));
        assert!(!is_live("access 10") && !is_live("access 11") && !is_live("access 12"));
        issue("access 13");
        // An answer may get lost again, and the fork is closed once.
        assert!(is_good(ground.refresh(first, 14, later + 1)));
        assert!(is_live("access 13") && !ground.has_ended("one"));
        assert_eq!(ground.refresh(second, 15, later + 2), RefreshSpent::Replayed);
        assert!(ground.has_ended("one") && !is_live("access 13"));
    }
    // An answer that got lost ends nothing but what nobody has.
    let ground = Ground::authorized().with_refresh(10);
    assert!(is_good(ground.refresh(10, 11, NOW)) && is_good(ground.refresh(10, 12, NOW + 5)));
    assert!(is_fork(ground.refresh(12, 13, NOW + 4000)));
    assert!(is_good(ground.refresh(13, 14, NOW + 8000)) && !ground.has_ended("one"));
}

/// As Gemini CLI does, whose requests each find the token used up.
#[test]
fn a_client_that_renews_twice_at_once_each_day_goes_on_with_both_answers() {
    let ground = Ground::authorized().with_refresh(10);
    let mut last = 10;
    for day in 1..=5 {
        let now = NOW + 86_100 * i64::from(day);
        let pair = [20 + 2 * day, 21 + 2 * day];
        for next in pair {
            let spent = ground.refresh(last, next, now);
            assert!(matches!(spent, RefreshSpent::Now(_) | RefreshSpent::Forked(_)), "{spent:?}");
            let access = token(&format!("access {next}"), now);
            let issued = ground.tokens.record_of_authorization(&access, "one").unwrap();
            assert_eq!(issued, Issued::Valid);
        }
        assert!(pair.iter().all(|it| ground.tokens.is_live(&format!("access {it}")).unwrap()));
        last = pair[usize::from(day % 2)];
    }
    assert!(!ground.has_ended("one"));
}

#[test]
fn the_last_use_of_a_client_outlives_the_token_that_it_used() {
    let ground = Ground::authorized();
    let issue = |jti: &str, at: i64| {
        let issued = ground.tokens.record_of_authorization(&token(jti, at), "one");
        assert_eq!(issued.unwrap(), Issued::Valid);
    };
    for (jti, at) in [("first", NOW), ("second", NOW + 1), ("unused", NOW + 2)] {
        issue(jti, at);
    }
    ground.tokens.record_uses([("first", NOW + 5), ("second", NOW + 9)]).unwrap();
    // All three expired days ago.
    issue("later", NOW + 500_000);
    let used: Vec<_> = ground.tokens.uses().unwrap().into_iter().collect();
    assert_eq!(used, [("second".to_owned(), NOW + 9)]);
    let mut kept: Vec<String> =
        ground.tokens.authorizations_of_tokens().unwrap().into_keys().collect();
    kept.sort();
    assert_eq!(kept, ["later", "second"]);
}

#[test]
fn a_client_that_refreshes_for_ever_keeps_a_bounded_number_of_rows() {
    let ground = Ground::authorized().with_refresh(10);
    let digest = |number: u32| {
        let mut digest = [10; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        digest
    };
    let mut last = [10; 32];
    for number in 0..200 {
        let (next, now) = (digest(number), NOW + i64::from(number) * 60);
        let spent = ground.tokens.spend_refresh(&last, "editor", &next, now).unwrap();
        assert!(matches!(spent, RefreshSpent::Now(_)), "{number}");
        last = next;
    }
    let connection = Connection::open(ground.folder.path().join("stile.db")).unwrap();
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM refresh_tokens", [], |row| row.get(0)).unwrap();
    assert!(rows <= 40, "{rows}");
    // The use of a copy of one that is kept still ends the family.
    let stolen = ground.tokens.spend_refresh(&digest(190), "editor", &[1; 32], NOW + 13_000);
    assert_eq!(stolen.unwrap(), RefreshSpent::Replayed);
}

#[test]
fn a_later_approval_decides_what_the_earlier_ones_of_the_client_allow() {
    let ground = Ground::authorized();
    ground.tokens.record_of_authorization(&token("access", NOW), "one").unwrap();
    let rights = || ground.tokens.standing("access", NOW).unwrap();
    let allowed = |scopes: &str| {
        TokenStanding::ByApproval(ApprovedRights {
            authorization: "one".to_owned(),
            client: "editor".to_owned(),
            scopes: scopes.to_owned(),
            grant: None,
        })
    };
    assert_eq!(rights(), allowed("read:/"));
    let listed = || {
        let token = ground.tokens.list().unwrap().into_iter().find(|it| it.jti == "access");
        token.map(|token| (token.scopes, token.revoked)).unwrap()
    };
    let approve = |id: &str, code: u8, change: fn(AuthorizationRecord) -> AuthorizationRecord| {
        let code = NewCode { digest: [code; 32], redirect: None, challenge: "challenge" };
        let new = change(authorization(id));
        let client = client(&new.client, NOW);
        ground.tokens.authorize(&new, &client, &code).unwrap();
    };
    approve("two", 2, |new| AuthorizationRecord { scopes: "write:/a/".to_owned(), ..new });
    assert_eq!(rights(), allowed("write:/a/"));
    // Another client, another person and another space decide nothing here.
    approve("three", 3, |new| AuthorizationRecord { client: "other".to_owned(), ..new });
    approve("four", 4, |new| AuthorizationRecord { subject: "bob".to_owned(), ..new });
    approve("five", 5, |new| AuthorizationRecord { audience: "urn:uuid:2".to_owned(), ..new });
    assert_eq!(rights(), allowed("write:/a/"));
    assert!(ground.tokens.set_approved_scopes("one", "read:/a/").unwrap());
    assert_eq!(rights(), allowed("read:/a/"));
    assert_eq!(listed(), ("read:/a/".to_owned(), None), "the list has what a token may do now");
    assert_eq!(
        ground.tokens.standing("access", authorization("one").expires).unwrap(),
        TokenStanding::Refused
    );
    ground.tokens.end_client("editor", NOW).unwrap();
    assert_eq!(rights(), TokenStanding::Refused);
    assert_eq!(listed().1, Some(NOW));
    ground.tokens.record(&token("command", NOW)).unwrap();
    assert_eq!(ground.tokens.standing("command", NOW).unwrap(), TokenStanding::ByClaims);
    assert_eq!(ground.tokens.standing("unknown", NOW).unwrap(), TokenStanding::Refused);
}

#[test]
fn what_another_person_or_space_approved_later_hides_no_approval() {
    let ground = Ground::authorized();
    let approve = |id: &str, code: u8, subject: &str, audience: &str| {
        let code = NewCode { digest: [code; 32], redirect: None, challenge: "challenge" };
        let new = AuthorizationRecord {
            subject: subject.to_owned(),
            audience: audience.to_owned(),
            created: NOW + i64::from(code.digest[0]),
            ..authorization(id)
        };
        ground.tokens.authorize(&new, &client("editor", NOW), &code).unwrap();
    };
    approve("two", 2, "bob", "urn:uuid:1");
    approve("three", 3, "ann", "urn:uuid:2");
    for id in ["one", "two", "three"] {
        ground.tokens.record_of_authorization(&token(id, NOW), id).unwrap();
    }
    let latest = |subject: Option<&str>| {
        let client = ("editor", "urn:uuid:1");
        ground.tokens.latest_authorization(client, subject, NOW + 4).unwrap().unwrap().id
    };
    assert_eq!(latest(Some("ann")), "one");
    assert_eq!(latest(Some("bob")), "two");
    assert_eq!(latest(None), "two", "the one owner sees what anybody approved");
}

#[test]
fn an_authorization_that_has_ended_or_expired_issues_nothing() {
    let ends: [fn(&TokenStore) -> bool; 2] = [
        |tokens| tokens.end_client("editor", NOW).unwrap(),
        |tokens| tokens.end_authorization("one", NOW).unwrap(),
    ];
    for end in ends {
        let ground = Ground::authorized().with_refresh(10);
        ground.tokens.record_of_authorization(&token("access", NOW), "one").unwrap();
        assert!(end(&ground.tokens));
        assert!(!ground.tokens.is_live("access").unwrap());
        assert_eq!(ground.refresh(10, 11, NOW), RefreshSpent::Never);
        assert_eq!(ground.tokens.spend_code(&[1; 32], NOW).unwrap(), CodeSpent::Never);
        let late = ground.tokens.record_of_authorization(&token("late", NOW), "one").unwrap();
        assert_eq!(late, Issued::AuthorizationEnded);
        assert!(!ground.tokens.is_live("late").unwrap());
    }
    let ground = Ground::authorized().with_refresh(10);
    let expired = authorization("one").expires;
    assert_eq!(ground.refresh(10, 11, expired), RefreshSpent::Never);
    assert!(!ground.tokens.end_authorization("two", NOW).unwrap());
    assert!(!ground.tokens.end_client("two", NOW).unwrap());
}

#[test]
fn a_refresh_token_of_another_client_is_unknown_and_ends_nothing() {
    let ground = Ground::authorized().with_refresh(10);
    let stolen = ground.tokens.spend_refresh(&[10; 32], "thief", &[11; 32], NOW).unwrap();
    assert_eq!(stolen, RefreshSpent::Never);
    assert!(!ground.has_ended("one"));
    assert!(matches!(ground.refresh(10, 12, NOW), RefreshSpent::Now(_)));
}

#[test]
fn registrations_that_nobody_approved_are_dropped_when_old_or_many() {
    let ground = Ground::authorized();
    let later = NOW + UNUSED_CLIENT_SECONDS + 1;
    ground.tokens.store_client(&client("old", NOW + 1)).unwrap();
    let by_hand = ClientRecord { kind: ClientKind::Added, ..client("by hand", NOW) };
    ground.tokens.store_client(&by_hand).unwrap();
    let ids = || {
        let all = ground.tokens.clients().unwrap();
        all.into_iter().map(|client| client.id).collect::<Vec<_>>()
    };
    ground.tokens.store_client(&client("new", later + 1)).unwrap();
    assert_eq!(ids(), ["by hand", "editor", "new"]);
    let connection = Connection::open(ground.folder.path().join("stile.db")).unwrap();
    connection
        .execute(
            "INSERT INTO clients (id, kind, name, redirects, created) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
             SELECT 'c' || i, 'registered', 'n', '[]', ?2 + i FROM n",
            [MAX_UNUSED_CLIENTS + 20, later + 1],
        )
        .unwrap();
    ground.tokens.store_client(&client("last", later + 1)).unwrap();
    let left = ids();
    assert_eq!(left.len() as i64, MAX_UNUSED_CLIENTS + 2);
    assert!(left.contains(&"last".to_owned()) && !left.contains(&"new".to_owned()));
}

#[test]
fn a_session_ends_when_idle_and_at_a_fixed_time_and_a_link_after_ten_minutes() {
    let ground = Ground::new();
    let user = |now: i64| ground.tokens.session_user(&[7; 32], now).unwrap();
    assert_eq!(user(NOW), None);
    ground.tokens.open_session(&[7; 32], "ann", NOW).unwrap();
    let mut at = NOW;
    while at + SESSION_IDLE_SECONDS < NOW + SESSION_SECONDS {
        at += SESSION_IDLE_SECONDS;
        assert_eq!(user(at).as_deref(), Some("ann"), "{}", at - NOW);
    }
    assert_eq!(user(at + SESSION_IDLE_SECONDS + 1), None);
    assert_eq!(user(NOW + SESSION_SECONDS + 1), None);
    ground.tokens.close_session(&[7; 32]).unwrap();
    assert_eq!(user(at), None);

    for (later, is_good) in
        [(0, true), (LINK_SECONDS, true), (LINK_SECONDS + 1, false), (-1, false)]
    {
        ground.tokens.record_link(&[8; 32], "ann", NOW).unwrap();
        let spent = ground.tokens.spend_link(&[8; 32], NOW + later).unwrap();
        assert_eq!(spent.is_some(), is_good, "{later}");
        assert_eq!(ground.tokens.spend_link(&[8; 32], NOW).unwrap(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a client and a thief do with the tokens of a family, and however the clock jumps,
    /// no token is valid after the family has ended.
    #[test]
    fn nothing_of_a_family_is_valid_after_its_end(
        steps in prop::collection::vec((0u8..6, -40i64..4000), 1..12)
    ) {
        let ground = Ground::authorized().with_refresh(10);
        let (mut now, mut known, mut issued) = (NOW, vec![10u8], Vec::new());
        for (index, (pick, jump)) in steps.into_iter().enumerate() {
            now += jump;
            let presented = known[usize::from(pick) % known.len()];
            let next = 20 + u8::try_from(index).unwrap();
            let spent = ground.refresh(presented, next, now);
            if matches!(spent, RefreshSpent::Now(_) | RefreshSpent::Forked(_)) {
                prop_assert!(!ground.has_ended("one"));
                known.push(next);
                let access = token(&format!("access {index}"), now);
                if ground.tokens.record_of_authorization(&access, "one").unwrap() == Issued::Valid {
                    issued.push(access.jti);
                }
            }
            if ground.has_ended("one") {
                for jti in &issued {
                    prop_assert!(!ground.tokens.is_live(jti).unwrap());
                }
            }
        }
    }
}
