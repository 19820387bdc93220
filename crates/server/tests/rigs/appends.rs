//! A service that holds its log open and writes on, while agents of two processes append to the
//! same log, and the processes are killed and started again.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{CANARY, Door, Field};

/// The agents at each process.
const AGENTS: usize = 2;

/// What the log begins with, which the agents know.
const FIRST: &str = "begins\n";

/// What an agent was told of its lines, by line.
type Lines = HashMap<String, bool>;

/// Appends one line. Returns whether the process lives.
fn append(agent: &mut Agent, chance: &mut Chance, lines: &mut Lines) -> bool {
    // Longer than a page of memory now and then, so that a kill can cut a line.
    let long = "x".repeat(if chance.happens(20) { 20_000 } else { 10 });
    let line = format!("agent {}-{} {long} {CANARY}", agent.name, lines.len());
    let arguments = json!({
        "path": "/app.log", "hash": ContentHash::digest(FIRST.as_bytes()),
        "size_bytes": FIRST.len(), "content": format!("{line}\n"),
    });
    match agent.call("text.append", arguments) {
        Told::Done(_) => drop(lines.insert(line, true)),
        Told::Refused(code) => assert_eq!(code, "busy"),
        Told::Nothing(_) => {
            lines.insert(line, false);
            return false;
        }
    }
    true
}

#[test]
fn a_service_and_agents_add_to_one_log_and_no_line_is_lost_or_torn() {
    let (seed, kills) = (seed(), scaled_long(6, 100, 2_000));
    println!("seed {seed}");
    let mut chance = Chance::of(seed);
    let mut field = Field::new();
    let log = field.root().join("app.log");
    std::fs::write(&log, FIRST).unwrap();
    let inode = std::fs::metadata(&log).unwrap().ino();
    let (is_over, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clock = Clock::default();
    let mut told: Vec<Lines> = (0..2 * AGENTS).map(|_| Lines::new()).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let mut pause = chance.fork();
        let (log, is_over, written) = (&log, &is_over, &written);
        scope.spawn(move || {
            let mut service = OpenOptions::new().append(true).open(log).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let number = written.load(Ordering::Relaxed);
                service.write_all(format!("service {number}\n").as_bytes()).unwrap();
                written.store(number + 1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(pause.below(20_000) as u64));
            }
        });
        for kill in 0..kills {
            let states = [(Door::Http, "state 0"), (Door::Stdio, "state 1")];
            let processes = states.map(|(door, state)| field.start(door, state));
            let mut agents: Vec<_> = told
                .iter_mut()
                .enumerate()
                .map(|(number, lines)| {
                    let client = processes[number % 2].client();
                    let name = format!("{number}.{kill}");
                    (Agent::new(name, client, chance.fork(), &clock), chance.fork(), lines)
                })
                .collect();
            let goal = chance.below(40);
            let made = AtomicUsize::new(0);
            let [doomed, other] = processes;
            std::thread::scope(|scope| {
                for (agent, chance, lines) in &mut agents {
                    let made = &made;
                    scope.spawn(move || {
                        while made.load(Ordering::Relaxed) <= goal && append(agent, chance, lines) {
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                while made.load(Ordering::Relaxed) < goal {
                    std::thread::sleep(Duration::from_millis(1));
                }
                field.kill(doomed);
                // Ends the appends to the process that lives.
                made.store(usize::MAX / 2, Ordering::Relaxed);
            });
            field.stop(other);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let took = started.elapsed();
    // A start recovers what the last kill left.
    for state in ["state 0", "state 1"] {
        let process = field.start(Door::Http, state);
        field.stop(process);
    }
    let text = field.text("/app.log");
    let mut found: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        *found.entry(line).or_default() += 1;
    }
    let mut expected = 1;
    for number in 0..written.load(Ordering::Relaxed) {
        let line = format!("service {number}");
        assert_eq!(found.remove(&*line), Some(1), "seed {seed}: {line}");
        expected += 1;
    }
    let (mut acknowledged, mut unknown) = (0, 0);
    for (line, is_acknowledged) in told.iter().flatten() {
        let times = found.remove(&**line);
        let short: String = line.chars().take(40).collect();
        assert!(times == Some(1) || times.is_none() && !is_acknowledged, "seed {seed}: {short}");
        acknowledged += usize::from(*is_acknowledged);
        unknown += usize::from(!is_acknowledged);
        expected += times.unwrap_or(0);
    }
    found.remove(FIRST.trim_end());
    let torn: Vec<String> = found.keys().map(|line| line.chars().take(60).collect()).collect();
    assert!(torn.is_empty(), "seed {seed}: {torn:?}");
    assert_eq!(text.lines().count(), expected, "seed {seed}");
    assert_eq!(std::fs::metadata(&log).unwrap().ino(), inode, "the log is another file now");
    println!(
        "{kills} kills in {took:.1?}: {} lines of the service, {acknowledged} of agents \
         acknowledged, {unknown} unanswered",
        written.load(Ordering::Relaxed)
    );
    assert!(acknowledged > kills, "hardly a line was appended");
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}
