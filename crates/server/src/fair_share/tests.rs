//! Who may take how much, and who waits.

use super::*;

fn neighbour(subject: &str, client: &str) -> Neighbour {
    Neighbour { subject: subject.into(), client: client.into() }
}

fn of(capacity: usize) -> Arc<FairShare> {
    FairShare::new(Resource::Calls, capacity, 4, Duration::from_secs(60))
}

/// Takes single units until the client may take no more.
fn take_all(shared: &Arc<FairShare>, by: &Neighbour) -> Vec<Share> {
    std::iter::from_fn(|| shared.try_take(by, 1).ok()).collect()
}

#[test]
fn a_client_gets_half_its_subject_two_thirds_and_many_clients_of_it_four_fifths() {
    let shared = of(60);
    let mut held = take_all(&shared, &neighbour("ann", "laptop"));
    assert_eq!(held.len(), 30);
    held.extend(take_all(&shared, &neighbour("ann", "phone")));
    assert_eq!(held.len(), 40);
    for number in 0..100 {
        held.extend(take_all(&shared, &neighbour("ann", &number.to_string())));
    }
    assert_eq!(held.len(), 48);
}

#[test]
fn a_client_that_holds_nothing_is_served_beside_greedy_clients_of_its_subject() {
    // Of a smaller resource, the fourth client of a subject may have to wait its turn.
    for capacity in 12..64 {
        let shared = of(capacity);
        let held: Vec<_> = ["a", "b", "c"]
            .iter()
            .flat_map(|client| take_all(&shared, &neighbour("ann", client)))
            .collect();
        assert!(shared.try_take(&neighbour("ann", "d"), 1).is_ok(), "{}", held.len());
        assert!(shared.try_take(&neighbour("bob", ""), 1).is_ok(), "{}", held.len());
    }
}

#[test]
fn a_caller_who_holds_nothing_is_served_beside_three_greedy_subjects() {
    for capacity in 4..64 {
        let shared = of(capacity);
        let greedy = ["ann", "bob", "cid"].map(|subject| neighbour(subject, "a"));
        let mut held: Vec<_> = greedy.iter().map(|by| shared.try_take(by, 1).unwrap()).collect();
        // Clients that hold nothing may take more than those that hold something.
        for client in ["a", "b", "c"] {
            for Neighbour { subject, .. } in &greedy {
                held.extend(take_all(&shared, &neighbour(subject, client)));
            }
        }
        assert!(shared.try_take(&neighbour("dan", ""), 1).is_ok(), "of {capacity}: {held:?}");
    }
}

#[test]
fn everything_is_given_back_and_forgotten() {
    let shared = of(8);
    let mut share = shared.try_take(&neighbour("ann", ""), 2).unwrap();
    share.grow(1).unwrap();
    assert_eq!(shared.lock().used, 3);
    drop(share);
    assert_eq!(shared.lock().used, 0);
    assert!(shared.lock().subjects.by_name.is_empty());
    assert!(shared.lock().subjects.order.is_empty());
}

#[test]
fn a_share_is_of_the_client_that_took_it() {
    let share = of(8).try_take(&neighbour("ann", "laptop"), 2).unwrap();
    assert!(share.is_of(&neighbour("ann", "laptop")));
    assert!(!share.is_of(&neighbour("ann", "phone")));
    assert!(!share.is_of(&neighbour("bob", "laptop")));
    assert_eq!(format!("{share:?}"), "Share(Calls, 2)");
}

#[test]
fn a_refusal_names_the_resource() {
    let used_up = ShareUsedUp(Resource::Calls).to_string();
    assert_eq!(used_up, "the caller's share of calls in flight is used up");
}

#[tokio::test]
async fn those_who_wait_take_turns_by_subject_and_then_by_client() {
    let shared = of(1);
    let held = shared.try_take(&neighbour("zoe", ""), 1).unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let names = [("ann", "a"), ("ann", "a"), ("ann", "b"), ("bob", "c"), ("bob", "c")];
    let mut tasks = Vec::new();
    for (subject, client) in names {
        let (shared, served) = (Arc::clone(&shared), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let share = shared.take(&neighbour(subject, client), 1).await.unwrap();
            served.lock().unwrap().push(client);
            drop(share);
        }));
        // The task runs until it waits, so that the queue has the order of this list.
        tokio::task::yield_now().await;
    }
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), ["a", "c", "b", "c", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_the_patience_and_a_queue_has_a_bounded_length() {
    let shared = FairShare::new(Resource::Threads, 1, 1, Duration::from_secs(5));
    let by = neighbour("ann", "");
    let held = shared.try_take(&by, 1).unwrap();
    let waiting = shared.take(&by, 1);
    let refused = shared.take(&by, 1);
    let (waited, refused) = tokio::join!(waiting, refused);
    assert_eq!(refused.unwrap_err(), ShareUsedUp(Resource::Threads));
    assert_eq!(waited.unwrap_err(), ShareUsedUp(Resource::Threads));
    drop(held);
    assert!(shared.take(&by, 1).await.is_ok());
}

#[tokio::test]
async fn a_waiter_that_has_gone_takes_nothing() {
    let shared = of(1);
    let held = shared.try_take(&neighbour("ann", ""), 1).unwrap();
    {
        let by = neighbour("bob", "");
        let gone = shared.take(&by, 1);
        tokio::pin!(gone);
        assert!(futures::poll!(&mut gone).is_pending());
    }
    assert_eq!(shared.lock().subjects.by_name.len(), 1);
    drop(held);
    assert_eq!(shared.lock().used, 0);
    assert!(shared.try_take(&neighbour("cid", ""), 1).is_ok());
}
