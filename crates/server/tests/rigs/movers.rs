//! Agents of several processes move the same file at the same time, or different files to the same
//! place, or move a file that another agent changes.
//!
//! Law: of moves of one version exactly one wins, and of moves to one place exactly one wins. A
//! change and a move of the same version never both happen. Nothing is lost and nothing is twice.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled, seed};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{CANARY, Door, Field};

const DOORS: [Door; 4] = [Door::Http, Door::Stdio, Door::Http, Door::Stdio];

/// What all agents of a round do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contest {
    /// Each moves the same file to a place of its own.
    OneSource,
    /// Each moves a file of its own to the same place.
    OneTarget,
    /// Some move the file, and the others change it.
    MoveOrChange,
}

const CONTESTS: [Contest; 3] = [Contest::OneSource, Contest::OneTarget, Contest::MoveOrChange];

fn hash(text: &str) -> String {
    ContentHash::digest(text.as_bytes()).to_string()
}

impl Contest {
    fn source(self, number: usize) -> String {
        match self {
            Self::OneTarget => format!("/from {number}/own.md"),
            Self::OneSource | Self::MoveOrChange => "/from/one.md".to_owned(),
        }
    }

    /// Some targets are in a folder that has to be made, and some in the folder of the source.
    fn target(self, number: usize, count: usize) -> String {
        match (self, count % 3) {
            (Self::OneTarget, _) => format!("/to {count}/one.md"),
            (_, 0) => format!("/from/{number}.md"),
            (_, 1) => format!("/to/{number}.md"),
            _ => format!("/new {count}/{number}/one.md"),
        }
    }

    fn text(self, number: usize, count: usize) -> String {
        let number = if self == Self::OneTarget { number } else { 0 };
        format!("{count}-{number} {CANARY}\n")
    }

    /// Whether a code is one that a loser may be told.
    fn is_of_loser(self, code: &str) -> bool {
        match self {
            Self::OneSource => code == "not_found",
            Self::OneTarget => code == "already_exists",
            Self::MoveOrChange => code == "not_found" || code == "stale",
        }
    }
}

/// One agent's part in one round. Returns where the agent's file is and its text if the agent won.
fn play(
    agent: &mut Agent,
    (contest, number, count): (Contest, usize, usize),
) -> Result<Option<(String, String)>, String> {
    let (from, to) = (contest.source(number), contest.target(number, count));
    let text = contest.text(number, count);
    let is_change = contest == Contest::MoveOrChange && (number + count).is_multiple_of(2);
    let (told, won) = if is_change {
        let line = agent.new_line(&text);
        let new = format!("{text}{line}\n");
        let arguments =
            json!({ "path": from, "hash": hash(&text), "content": format!("{line}\n") });
        (agent.call("text.append", arguments), (from, new))
    } else {
        let arguments = json!({ "path": from, "hash": hash(&text), "to": to });
        (agent.call("file.move", arguments), (to, text))
    };
    match told {
        Told::Done(_) => Ok(Some(won)),
        Told::Refused(code) if contest.is_of_loser(&code) => Ok(None),
        told => Err(format!("{contest:?} {count}, agent {number}: {told:?}")),
    }
}

#[test]
fn exactly_one_of_many_processes_moves_a_file() {
    let (seed, rounds) = (seed(), scaled(240, 10_000));
    println!("seed {seed}");
    let mut chance = Chance::of(seed);
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
    let started = Instant::now();
    let mut wins = vec![0; agents.len()];
    for count in 0..rounds {
        let contest = CONTESTS[count % CONTESTS.len()];
        let mut expected = std::collections::BTreeMap::new();
        for number in 0..agents.len() {
            let path = contest.source(number);
            let file = field.root().join(&path[1..]);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, contest.text(number, count)).unwrap();
            expected.insert(path, contest.text(number, count));
        }
        let (start, won) = (Barrier::new(agents.len()), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for (number, agent) in agents.iter_mut().enumerate() {
                let (start, won) = (&start, &won);
                scope.spawn(move || {
                    start.wait();
                    let played = play(agent, (contest, number, count));
                    won.lock().unwrap().push((number, played));
                });
            }
        });
        let mut winners = Vec::new();
        for (number, played) in won.into_inner().unwrap() {
            let won = played.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            winners.extend(won.map(|won| (number, won)));
        }
        let [(winner, (path, text))] = winners.as_slice() else {
            panic!("seed {seed}: {contest:?} {count} was won by {winners:?}");
        };
        wins[*winner] += 1;
        expected.remove(&contest.source(*winner));
        expected.insert(path.clone(), text.clone());
        let expected: std::collections::BTreeMap<_, _> = expected
            .into_iter()
            .map(|(path, text)| (path, ContentHash::digest(text.as_bytes())))
            .collect();
        assert_eq!(field.files(), expected, "seed {seed}: {contest:?} {count}");
        for path in expected.keys() {
            std::fs::remove_file(field.root().join(&path[1..])).unwrap();
        }
    }
    println!("{rounds} rounds in {:.1?}, won by each: {wins:?}", started.elapsed());
    assert!(wins.iter().filter(|wins| **wins > 0).count() > 1, "one won always: {wins:?}");
    for process in processes {
        field.stop(process);
    }
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}

/// Law: whoever moves files from one folder to another while others move files back gets an answer,
/// and no file is lost.
#[test]
fn moves_in_both_directions_between_two_folders_all_end() {
    let moves = scaled(60, 2_000);
    let mut chance = Chance::of(seed());
    let mut field = Field::new();
    let processes: Vec<_> = DOORS
        .iter()
        .enumerate()
        .map(|(number, door)| field.start(*door, &format!("state {number}")))
        .collect();
    let clock = Clock::default();
    let texts: Vec<String> = (0..processes.len()).map(|n| format!("{n} {CANARY}\n")).collect();
    for (number, text) in texts.iter().enumerate() {
        for folder in ["one", "two"] {
            std::fs::create_dir_all(field.root().join(folder)).unwrap();
        }
        let folder = if number % 2 == 0 { "one" } else { "two" };
        std::fs::write(field.root().join(format!("{folder}/{number}.md")), text).unwrap();
    }
    std::thread::scope(|scope| {
        for (number, (process, text)) in processes.iter().zip(&texts).enumerate() {
            let mut agent = Agent::new(number.to_string(), process.client(), chance.fork(), &clock);
            scope.spawn(move || {
                for count in number..number + moves {
                    let [from, to] = if count % 2 == 0 { ["one", "two"] } else { ["two", "one"] };
                    let [from, to] = [from, to].map(|folder| format!("/{folder}/{number}.md"));
                    let arguments = json!({ "path": from, "hash": hash(text), "to": to });
                    let told = agent.call("file.move", arguments);
                    assert!(matches!(told, Told::Done(_)), "{from}: {told:?}");
                }
            });
        }
    });
    assert_eq!(field.files().len(), texts.len());
    for process in processes {
        field.stop(process);
    }
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}
