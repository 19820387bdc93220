//! Agents of several processes race to change the same files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::history::{Activity, Outcome, check_line};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{CANARY, Door, Field};

const AGENTS: usize = 4;

#[test]
fn no_agent_that_races_in_many_processes_loses_an_edit() {
    let (seed, goal) = (seed(), scaled_long(2_000, 100_000, 1_000_000));
    println!("seed {seed}");
    let mut chance = Chance::of(seed);
    let mut field = Field::new();
    // Two files in each of four folders: files in one folder share a lock, folders do not.
    let paths: Vec<String> =
        (0..8).map(|file| format!("/folder {}/file {file}.md", file / 2)).collect();
    let firsts: Vec<String> =
        paths.iter().map(|path| format!("{path} begins {CANARY}\n")).collect();
    for (path, first) in paths.iter().zip(&firsts) {
        let file = field.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, first).unwrap();
    }
    let doors = [Door::Http, Door::Stdio, Door::Http, Door::Stdio];
    let processes: Vec<_> = doors
        .iter()
        .enumerate()
        .map(|(number, door)| field.start(*door, &format!("state {number}")))
        .collect();
    let clock = Clock::default();
    let mut agents = Vec::new();
    for (number, process) in processes.iter().enumerate() {
        for agent in 0..AGENTS {
            agents.push(Agent::new(
                format!("{number}.{agent}"),
                process.client(),
                chance.fork(),
                &clock,
            ));
        }
    }
    let acknowledged = AtomicUsize::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for agent in &mut agents {
            scope.spawn(|| {
                let mut at = agent.chance.below(paths.len());
                while acknowledged.load(Ordering::Relaxed) < goal {
                    if agent.chance.happens(30) {
                        at = agent.chance.below(paths.len());
                    }
                    match agent.change(&paths[at]) {
                        Told::Done(_) => {
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                        }
                        Told::Refused(_) => {}
                        Told::Nothing(error) => panic!("{} got no answer: {error}", agent.name),
                    }
                }
            });
        }
    });
    let took = started.elapsed();
    // What every process shows in the end is the end of the line as well.
    for path in &paths {
        for agent in agents.iter_mut().step_by(AGENTS) {
            assert!(matches!(agent.read(path), Told::Done(_)));
        }
    }
    for process in processes {
        field.stop(process);
    }
    let (mut refused, mut handed_over, mut longest) = (0, 0, 0);
    for (path, first) in paths.iter().zip(&firsts) {
        let mut writers: HashMap<ContentHash, &str> = HashMap::new();
        let mut events = Vec::new();
        for agent in &agents {
            for event in agent.history.get(path).into_iter().flatten() {
                if let Activity::Requested(change) = event.activity {
                    writers.insert(change.version, &agent.name[..1]);
                    refused += usize::from(change.outcome == Outcome::Refused);
                }
                events.push(*event);
            }
        }
        let [first, last] =
            [first, &field.text(path)].map(|text| ContentHash::digest(text.as_bytes()));
        let line = check_line(first, last, &events)
            .unwrap_or_else(|faults| panic!("seed {seed}: {path}: {faults:?}"));
        handed_over +=
            line.windows(2).filter(|pair| writers.get(&pair[0]) != writers.get(&pair[1])).count();
        longest = longest.max(line.len());
    }
    let acknowledged = acknowledged.into_inner();
    println!(
        "{acknowledged} edits acknowledged and {refused} refused in {took:.1?}, {:.0} a second; the longest line has \
         {longest} versions; {handed_over} times the next version came from another process",
        acknowledged as f64 / took.as_secs_f64()
    );
    // A race in which nobody meets anybody proves nothing.
    assert!(refused > acknowledged / 50, "only {refused} edits were refused");
    assert!(handed_over > acknowledged / 50, "a file changed hands only {handed_over} times");
    assert_eq!(field.files().len(), paths.len(), "{:?}", field.files());
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}
