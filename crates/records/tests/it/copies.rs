//! A database that was copied to the other engine gives the same answers, and goes on with the
//! cursors of its source.
//!
//! Random worlds are copied from SQLite to PostgreSQL and back. Each request goes to the source and
//! to the copy, and each cursor of the source goes to both. The bodies must be equal byte for byte,
//! except that a cursor is sealed with a fresh nonce.

use stile_testkit::chance::{Chance, scaled, seed};

use super::hidden_data::{cursors, observable};
use super::worlds::home::Home;
use super::worlds::model::{Grant, Stored, World};
use super::worlds::{OperationRequest, client, draw, gives_pages, owner, read_operations};

#[test]
fn a_copy_gives_the_same_answers_and_goes_on_with_the_cursors_of_its_source() {
    let test = "a_copy_gives_the_same_answers_and_goes_on_with_the_cursors_of_its_source";
    let Some(home) = Home::alone_on_postgresql(test) else { return };
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let (mut continued, mut rounds) = (0, 0);
    // Some worlds have few pages.
    while rounds < scaled(2, 2000) || (continued <= 40 && rounds < 20) {
        rounds += 1;
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let grant = Grant::random(&mut chance, "grt_same");
        let source = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        let there = source.copied_to(&home);
        let back = there.copied_to(&Home::Sqlite);
        for operation in read_operations() {
            for at in 0..40 {
                // Half of the requests are the owner's, who sees all.
                let about = (at % 2 == 0).then_some(&grant);
                let mut request = draw(&mut chance, &world, about, operation);
                if gives_pages(operation.id) && chance.happens(60) {
                    request = request.with("limit", 1 + chance.below(3));
                }
                let is_owner = about.is_none();
                continued += compare(&source, &[&there, &back], request, is_owner);
            }
        }
    }
    assert!(continued > 40, "too few cursors of the source were sent to a copy: {continued}");
}

/// Sends a request to a source and its copies, and then what each cursor of the answer continues.
/// Returns the number of cursors that a copy continued.
fn compare(
    source: &Stored,
    copies: &[&Stored],
    request: OperationRequest,
    is_owner: bool,
) -> usize {
    let caller = if is_owner { owner() } else { client("grt_same", "t1") };
    let mut requests = vec![request];
    let (mut sent, mut continued) = (0, 0);
    while let Some(request) = requests.pop() {
        let actual = request.send(&source.services, &caller);
        for copy in copies {
            let other = request.send(&copy.services, &caller);
            assert_eq!(observable(&actual), observable(&other), "{request:?}");
        }
        sent += 1;
        let Ok(body) = actual else { continue };
        continued += usize::from(sent > 1);
        if sent > 3 {
            continue;
        }
        let of_this = cursors(&body);
        if let Some(Some(next)) = of_this.first() {
            requests.push(match request.operation.id {
                "getRecord" => request.with("fields_cursor", next),
                id if gives_pages(id) => request.with("cursor", next),
                _ => window_after(&request, next),
            });
        }
        // What changed since the source's last page.
        if let Some(Some(since)) = of_this.get(2) {
            requests.push(request.with("changes_since", since));
        }
    }
    continued
}

/// Returns the request for the window at a cursor.
fn window_after(request: &OperationRequest, cursor: &str) -> OperationRequest {
    let mut next = request.with("cursor", cursor);
    let dropped = ["offset_chars", "q", "before_chars", "after_chars", "offset_bytes"];
    next.pairs.retain(|(name, _)| !dropped.contains(&name.as_str()));
    next
}
