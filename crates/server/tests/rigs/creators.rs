//! Agents of several processes make, and then remove, the same file at the same time.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled, seed};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{Door, Field};

const DOORS: [Door; 4] = [Door::Http, Door::Stdio, Door::Http, Door::Stdio];

/// What one round came to.
#[derive(Default)]
struct Round {
    /// What was made.
    made: Vec<String>,
    /// Who removed it.
    removed: Vec<usize>,
    faults: Vec<String>,
}

/// One agent's part in one round: whether it made the file, and whether it removed it.
fn play(
    number: usize,
    agent: &mut Agent,
    count: usize,
    field: &Field,
    start: &Barrier,
    round: &Mutex<Round>,
) -> [bool; 2] {
    let fault = |what: String| round.lock().unwrap().faults.push(what);
    // Every fourth in a folder that has to be made as well.
    let path = if count.is_multiple_of(4) {
        format!("/{count}/one.md")
    } else {
        format!("/{}.md", count % 8)
    };
    let file = field.root().join(path.trim_start_matches('/'));
    let content = agent.new_line("") + "\n";
    start.wait();
    let created = match agent.call("file.create", json!({ "path": path, "content": content })) {
        Told::Done(_) => {
            round.lock().unwrap().made.push(content.clone());
            true
        }
        Told::Refused(code) if code == "already_exists" => false,
        told => {
            fault(format!("{path} was not made: {told:?}"));
            false
        }
    };
    start.wait();
    let made = round.lock().unwrap().made.clone();
    if made.len() != 1 || std::fs::read_to_string(&file).ok().as_ref() != made.first() {
        fault(format!("{path} was made {} times", made.len()));
    }
    let hash = ContentHash::digest(made.concat().as_bytes()).to_string();
    start.wait();
    let removed = match agent.call("file.remove", json!({ "path": path, "hash": hash })) {
        Told::Done(_) => {
            round.lock().unwrap().removed.push(number);
            true
        }
        Told::Refused(code) if code == "not_found" || code == "stale" => false,
        told => {
            fault(format!("{path} was not removed: {told:?}"));
            false
        }
    };
    start.wait();
    let by = round.lock().unwrap().removed.clone();
    if by.len() != 1 || file.exists() {
        fault(format!("{path} was removed by {by:?}"));
    }
    start.wait();
    [created, removed]
}

#[test]
fn exactly_one_of_many_processes_makes_or_removes_a_file() {
    let rounds = scaled(200, 10_000);
    let mut chance = Chance::of(seed());
    let mut field = Field::new();
    let processes: Vec<_> = DOORS
        .iter()
        .enumerate()
        .map(|(number, door)| field.start(*door, &format!("state {number}")))
        .collect();
    let clock = Clock::default();
    let mut agents: Vec<Agent> = processes
        .iter()
        .enumerate()
        .map(|(number, process)| {
            Agent::new(number.to_string(), process.client(), chance.fork(), &clock)
        })
        .collect();
    let (start, round) = (Barrier::new(agents.len()), Mutex::new(Round::default()));
    let started = Instant::now();
    let wins: Vec<[usize; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = agents
            .iter_mut()
            .enumerate()
            .map(|(number, agent)| {
                let (field, start, round) = (&field, &start, &round);
                scope.spawn(move || {
                    let mut wins = [0, 0];
                    for count in 0..rounds {
                        let [made, removed] = play(number, agent, count, field, start, round);
                        wins[0] += usize::from(made);
                        wins[1] += usize::from(removed);
                        // Nobody leaves alone, or the others would wait for good.
                        if !round.lock().unwrap().faults.is_empty() {
                            break;
                        }
                        if start.wait().is_leader() {
                            *round.lock().unwrap() = Round::default();
                        }
                        start.wait();
                    }
                    wins
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let faults = round.into_inner().unwrap().faults;
    assert!(faults.is_empty(), "{faults:?}");
    println!(
        "{rounds} rounds in {:.1?}; files made and removed by each: {wins:?}",
        started.elapsed()
    );
    for process in processes {
        field.stop(process);
    }
    for part in [0, 1] {
        let winners = wins.iter().filter(|wins| wins[part] > 0).count();
        assert!(winners > 1, "one process won always: {wins:?}");
    }
    assert!(field.files().is_empty(), "{:?}", field.files());
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}
