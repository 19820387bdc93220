//! Keys that change and providers that fail, while servers run that believe them.

use std::time::{Duration, Instant};

use stile_testkit::issuer::Alg;

use crate::doors::{Doors, asked, bad_sets};

/// So far apart are two fetches that requests ask for.
const COOLDOWN: Duration = Duration::from_secs(30);

/// Longer than anything here may take, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until the cooldown of the last fetch is over.
fn cool(since: Instant) {
    std::thread::park_timeout(Duration::ZERO);
    while let Some(left) = (COOLDOWN + Duration::from_secs(1)).checked_sub(since.elapsed()) {
        std::thread::park_timeout(left);
    }
}

/// The one test that lets a cooldown pass, since it is real time that the program measures.
#[test]
fn a_server_keeps_serving_through_key_rotations_and_provider_failures() {
    std::thread::scope(|scope| {
        let began = Instant::now();
        // A provider that publishes a new key beside the old one.
        scope.spawn(move || {
            let doors = Doors::open();
            let before = doors.mint().expires_in(3000).token(Alg::Es256);
            doors.issuer().rotate();
            cool(Instant::now());
            let fetches = doors.issuer().fetches();
            for alg in [Alg::Es256, Alg::Rs256] {
                doors.assert_all("a new key", &doors.mint().token(alg), 200);
                doors.assert_all("an old key", &before, 200);
            }
            assert_eq!(
                doors.issuer().fetches() - fetches,
                doors.doors.len(),
                "one more fetch each"
            );
        });
        // A thousand requests at once that name keys which there are not.
        scope.spawn(move || {
            let doors = Doors::open();
            let good = doors.mint().expires_in(3000).token(Alg::Es256);
            cool(Instant::now());
            let fetches = doors.issuer().fetches();
            for (name, server) in &doors.doors {
                std::thread::scope(|storm| {
                    for thread in 0..50 {
                        let (doors, good) = (&doors, &good);
                        storm.spawn(move || {
                            for number in 0..20 {
                                let kid = format!("unknown-{thread}-{number}");
                                let token = doors.mint().header("kid", kid).token(Alg::Es256);
                                assert_eq!(asked(server, &token), 401, "{name}");
                            }
                            assert_eq!(asked(server, good), 200, "{name}");
                        });
                    }
                });
            }
            assert!(
                doors.issuer().fetches() - fetches <= doors.doors.len(),
                "at most one more fetch each"
            );
        });
        // Providers that fail in any way, after all was well.
        for (name, behaviour) in bad_sets() {
            scope.spawn(move || {
                let doors = Doors::open();
                let (known, unknown) =
                    (doors.mint().expires_in(3000), doors.mint().header("kid", "unknown"));
                doors.issuer().behave(behaviour);
                cool(Instant::now());
                let failing = Instant::now();
                for alg in [Alg::Es256, Alg::Rs256] {
                    // This one makes the fetch that fails.
                    doors.assert_all(name, &unknown.clone().token(alg), 503);
                    doors.assert_all(name, &known.clone().token(alg), 200);
                }
                let asked = doors.issuer().requests();
                // Each server fetched at its start, and probes at most once in a second.
                let allowed = 2 * (3 + failing.elapsed().as_secs() as usize);
                assert!(asked.len() <= allowed, "{name}: {} requests", asked.len());
                assert!(
                    asked.iter().all(|request| request.target == "/.well-known/jwks.json"),
                    "{name}"
                );
                assert!(began.elapsed() < PATIENCE, "{name}");
            });
        }
    });
}
