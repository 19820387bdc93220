//! Many users of many vaults at once, through one gateway: nobody is ever told what is another's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use serde_json::json;
use stile_testkit::chance::{Chance, scaled, seed};
use stile_testkit::hosted::{AUDIENCE, Hosted, Lifecycle, NOTE_TOOLS, Peer, refusal};
use stile_testkit::issuer::Alg;
use stile_testkit::upstream::{Behaviour, Received, Reply, Upstream};

use crate::doors::binary;

const SESSIONS: usize = 200;
const SUBJECTS: usize = 50;
const VAULTS: usize = 5;
/// Few, so that the same path is asked for in many names at once.
const NOTES: usize = 40;

/// Whose a token is.
struct Holder {
    user: String,
    vault: String,
    session: usize,
}

/// What the server with the notes makes sure of, while it answers.
struct Watch {
    holders: HashMap<String, Holder>,
    asked: Vec<AtomicUsize>,
    wrong: Mutex<Vec<String>>,
}

/// Stands in the note of one path, user and vault, in every place that a tool tells of.
fn canary(user: &str, vault: &str, path: &str) -> String {
    format!("canary-{user}-{vault}-{}-end", path.trim_end_matches(".md"))
}

impl Watch {
    fn answer(&self, received: &Received) -> Reply {
        let (users, vaults) = (received.values("x-user-id"), received.values("x-vault-id"));
        let tokens = received.values("authorization");
        let token =
            tokens.first().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let Some(holder) = self.holders.get(token) else {
            return self.fail(format!("an unknown token: {tokens:?}"));
        };
        if tokens.len() != 1 || users != [holder.user.as_str()] || vaults != [holder.vault.as_str()]
        {
            return self.fail(format!(
                "{users:?} and {vaults:?} with the token of {} in {}",
                holder.user, holder.vault
            ));
        }
        let Some(path) = received.note() else {
            return self.fail(format!("no note: {}", received.target));
        };
        let asked = self.asked[holder.session].fetch_add(1, Ordering::Relaxed);
        let canary = canary(&holder.user, &holder.vault, &path);
        let reply = if path.starts_with("missing") {
            Reply::refusal(404, &canary)
        } else {
            Reply::note(
                &json!({ "title": canary, "project": canary, "tags": [canary] }),
                &format!("# {canary}\n\n## {canary}\n"),
            )
        };
        // So that answers overtake each other.
        reply.after(Duration::from_micros(
            (asked as u64 * 7919 + holder.session as u64 * 104_729) % 3000,
        ))
    }

    fn fail(&self, what: String) -> Reply {
        self.wrong.lock().unwrap().push(what);
        Reply::refusal(500, "wrong")
    }
}

/// Fails unless every canary in an answer is the one that belongs there, and there is one.
fn assert_own(told: &str, own: &str) {
    let found: Vec<&str> = told.match_indices("canary").map(|(at, _)| &told[at..]).collect();
    assert!(!found.is_empty(), "{told}");
    for found in found {
        assert!(found.starts_with(own), "{own} was told {found}");
    }
}

#[test]
fn no_caller_gets_anothers_answer_however_many_call_at_once() {
    let calls = scaled(4_000, 100_000) / SESSIONS;
    let hosted = Hosted::new(binary());
    let who = |session: usize| {
        // The sessions of one subject are in different vaults.
        let vault = (session + session / SUBJECTS) % VAULTS;
        (format!("u{:02}", session % SUBJECTS), format!("v{vault}"))
    };
    let mut holders = HashMap::new();
    let tokens: Vec<[String; 2]> = (0..SESSIONS)
        .map(|session| {
            let (user, vault) = who(session);
            let role = ["viewer", "editor", "evaluator", "admin"][session % 4];
            let mint = || {
                hosted.issuer.mint(&user, AUDIENCE).vault(&vault).role(role).expires_in(3 * 3600)
            };
            let tokens = [mint().token(Alg::Es256), mint().actor("robot").token(Alg::Es256)];
            for token in &tokens {
                holders.insert(
                    token.clone(),
                    Holder { user: user.clone(), vault: vault.clone(), session },
                );
            }
            tokens
        })
        .collect();
    assert_eq!(holders.len(), 2 * SESSIONS);
    let asked = (0..SESSIONS).map(|_| AtomicUsize::new(0)).collect();
    let watch = Arc::new(Watch { holders, asked, wrong: Mutex::default() });
    let upstream = {
        let watch = Arc::clone(&watch);
        Upstream::start(Behaviour::notes(move |received| watch.answer(received)))
    };
    let many = ["--rate-per-second", "1000000", "--rate-burst", "1000000"];
    let gateway = hosted.gateway(&upstream.url(), &many);
    let (start, done, seed) = (Barrier::new(SESSIONS), AtomicBool::new(false), seed());
    std::thread::scope(|scope| {
        let callers: Vec<_> = tokens
            .iter()
            .enumerate()
            .map(|(session, tokens)| {
                let (gateway, start) = (&gateway, &start);
                let (user, vault) = who(session);
                scope.spawn(move || {
                    let revision = ["2025-06-18", "2025-11-25"][session % 2];
                    let mut inside = Peer::open(gateway, &tokens[0], Lifecycle::Session(revision));
                    let mut outside = Peer::open(gateway, &tokens[0], Lifecycle::Sessionless);
                    let mut chance = Chance::of(seed ^ (session as u64) << 32);
                    start.wait();
                    for _ in 0..calls {
                        let (tool, _) = NOTE_TOOLS[chance.below(NOTE_TOOLS.len())];
                        let kind = if chance.happens(10) { "missing" } else { "note" };
                        let path = format!("{kind}{:02}.md", chance.below(NOTES));
                        let peer = if chance.happens(20) { &mut outside } else { &mut inside };
                        peer.token.clone_from(&tokens[chance.below(2)]);
                        let told = peer.told(tool, &path);
                        if kind == "missing" {
                            assert_eq!(told, refusal("Upstream 404"));
                        } else {
                            assert_own(&told, &canary(&user, &vault, &path));
                        }
                    }
                })
            })
            .collect();
        // What was received is checked as it comes, and need not be kept.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                upstream.take_requests();
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        let ended: Vec<_> = callers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let wrong = watch.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        for caller in ended {
            caller.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    for (session, asked) in watch.asked.iter().enumerate() {
        assert_eq!(
            asked.load(Ordering::Relaxed),
            calls,
            "session {session}: one read for each call, with its own token"
        );
    }
}
