//! A person's editor saves, and asks nobody, while agents change the same files.
//!
//! The promise holds for an editor that closes a file within a second of opening it. What it
//! destroys itself it knows: it exchanges its new file with the old one where another editor would
//! rename over it, and reads through its own descriptor before it writes in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{RenameFlags, renameat_with};
use stile_domain::hash::ContentHash;
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::history::{Activity, Outcome, Save, lost};

use crate::agent::{Agent, Clock, Told};
use crate::servers::{CANARY, Door, Field};

/// How an editor saves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Rename,
    Truncate,
    Overwrite,
}

const MANNERS: [(Manner, &str); 3] = [
    (Manner::Rename, "renamed.md"),
    (Manner::Truncate, "truncated.md"),
    (Manner::Overwrite, "overwritten.md"),
];
/// Past this an editor held a file open for longer than the promise reaches.
const WITHIN: Duration = Duration::from_millis(900);

/// How long an editor waits for an agent to come in between.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an editor stops in the middle of a save for that.
const HELD: Duration = Duration::from_millis(300);

/// An editor with one file open.
struct Editor<'a> {
    manner: Manner,
    /// How many changes of its file agents were told of.
    acknowledged: &'a AtomicUsize,
    chance: Chance,
    saves: Vec<Save<ContentHash>>,
    /// What was overwritten by saves that took longer than the promise reaches.
    overwritten_late: Vec<ContentHash>,
}

impl Editor<'_> {
    /// Lets an agent come in between, if one does so in time.
    fn wait_for_agent(&self, time: Duration) {
        let (before, deadline) = (self.acknowledged.load(Ordering::Relaxed), Instant::now() + time);
        while self.acknowledged.load(Ordering::Relaxed) == before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn save(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        let number = self.saves.len() + self.overwritten_late.len();
        let lines = 1 + self.chance.below(30);
        let content: String = (0..lines)
            .map(|line| format!("save {number} of {name}, line {line} {CANARY}\n"))
            .collect();
        let opened = Instant::now();
        let overwrote = match self.manner {
            Manner::Rename => self.rename(folder, name, &content)?,
            Manner::Truncate => self.write(&folder.join(name), &content, true)?,
            Manner::Overwrite => self.write(&folder.join(name), &content, false)?,
        };
        let overwrote = ContentHash::digest(&overwrote);
        if opened.elapsed() < WITHIN {
            let version = ContentHash::digest(content.as_bytes());
            self.saves.push(Save { version, overwrote: Some(overwrote) });
        } else {
            // The save itself is not judged, but it did overwrite an earlier one.
            self.overwritten_late.push(overwrote);
        }
        Ok(())
    }

    fn rename(&mut self, folder: &Path, name: &str, content: &str) -> io::Result<Vec<u8>> {
        let (new, directory) = (format!("{name}~"), File::open(folder)?);
        fs::write(folder.join(&new), content)?;
        renameat_with(&directory, &new, &directory, name, RenameFlags::EXCHANGE)?;
        let overwrote = fs::read(folder.join(&new))?;
        fs::remove_file(folder.join(&new))?;
        Ok(overwrote)
    }

    fn write(&mut self, file: &Path, content: &str, truncate: bool) -> io::Result<Vec<u8>> {
        let mut file = OpenOptions::new().read(true).write(true).open(file)?;
        let mut overwrote = Vec::new();
        file.read_to_end(&mut overwrote)?;
        if truncate {
            file.set_len(0)?;
        }
        let held = self.chance.happens(50).then(|| self.chance.below(4));
        let mut offset = 0;
        for (number, piece) in content.as_bytes().chunks(content.len().div_ceil(4)).enumerate() {
            file.write_all_at(piece, offset)?;
            offset += piece.len() as u64;
            // Half of the saves are slow, so slow that an agent takes what is there for the whole.
            if held == Some(number) {
                self.wait_for_agent(HELD);
            }
        }
        file.set_len(offset)?;
        file.flush()?;
        Ok(overwrote)
    }
}

#[test]
fn no_save_of_an_editor_is_lost_among_agents() {
    // Each of the manners saves so often: 20,000 saves in a long run.
    let (seed, goal) = (seed(), scaled_long(40, 1_000, 20_000_usize.div_ceil(MANNERS.len())));
    println!("seed {seed}");
    let mut chance = Chance::of(seed);
    let mut field = Field::new();
    for (_, name) in MANNERS {
        fs::write(field.root().join(name), format!("{name} begins {CANARY}\n")).unwrap();
    }
    let processes = [field.start(Door::Http, "state 0"), field.start(Door::Stdio, "state 1")];
    let clock = Clock::default();
    let mut agents: Vec<Agent> = (0..6)
        .map(|number| {
            let client = processes[number % 2].client();
            let mut agent = Agent::new(number.to_string(), client, chance.fork(), &clock);
            // An append goes to the file that an editor has open, and the promise of appends does
            // not reach to editors that write to it in place.
            agent.appends = false;
            agent
        })
        .collect();
    let (busy, root) = (AtomicUsize::new(MANNERS.len()), field.root());
    let acknowledged = MANNERS.map(|_| AtomicUsize::new(0));
    let mut editors: Vec<Editor<'_>> = MANNERS
        .iter()
        .zip(&acknowledged)
        .map(|((manner, _), acknowledged)| Editor {
            manner: *manner,
            acknowledged,
            chance: chance.fork(),
            saves: Vec::new(),
            overwritten_late: Vec::new(),
        })
        .collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for agent in &mut agents {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) > 0 {
                    let file = agent.chance.below(MANNERS.len());
                    match agent.change(&format!("/{}", MANNERS[file].1)) {
                        Told::Done(_) => {
                            acknowledged[file].fetch_add(1, Ordering::Relaxed);
                        }
                        Told::Refused(_) => {}
                        Told::Nothing(error) => panic!("{} got no answer: {error}", agent.name),
                    }
                }
            });
        }
        for (editor, (_, name)) in editors.iter_mut().zip(MANNERS) {
            let (busy, root) = (&busy, &root);
            scope.spawn(move || {
                for _ in 0..goal {
                    // Mostly an agent comes in between; now and then a save follows the last at
                    // once.
                    if editor.chance.happens(70) {
                        editor.wait_for_agent(PATIENCE);
                    }
                    if let Err(error) = editor.save(root, name) {
                        busy.store(0, Ordering::Relaxed);
                        panic!("{name} could not be saved: {error}");
                    }
                    // Not all agents have read by then what others just made.
                    std::thread::sleep(Duration::from_micros(editor.chance.below(20_000) as u64));
                }
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    let took = started.elapsed();
    // What is still kept is judged when the processes end.
    for process in processes {
        field.stop(process);
    }
    let files = field.files();
    let mut all_kept = 0;
    for (editor, (manner, name)) in editors.iter().zip(MANNERS) {
        let mut changes = Vec::new();
        for agent in &agents {
            let events = agent.history.get(&format!("/{name}")).into_iter().flatten();
            changes.extend(events.filter_map(|event| match event.activity {
                Activity::Requested(change) => Some(change),
                Activity::Read(_) => None,
            }));
        }
        let beside = format!("/{} (conflict ", name.trim_end_matches(".md"));
        let copies: Vec<ContentHash> = files
            .iter()
            .filter(|(path, _)| path.starts_with(&beside))
            .map(|(_, hash)| *hash)
            .collect();
        let accounted = [copies.as_slice(), &editor.overwritten_late].concat();
        let faults = lost(&changes, &editor.saves, files[&format!("/{name}")], &accounted);
        let count = |outcome| changes.iter().filter(|change| change.outcome == outcome).count();
        let kept = editor.saves.iter().filter(|save| copies.contains(&save.version)).count();
        all_kept += kept;
        println!(
            "{manner:?}: {} saves judged and {} too late, {} edits acknowledged and {} refused, {} conflict copies, \
             {kept} of them saves",
            editor.saves.len(),
            editor.overwritten_late.len(),
            count(Outcome::Acknowledged),
            count(Outcome::Refused),
            copies.len()
        );
        assert!(faults.is_empty(), "seed {seed}: {manner:?}: {faults:?}");
        assert!(
            editor.saves.len() > goal / 2,
            "{} saves were too late to be judged",
            editor.overwritten_late.len()
        );
        assert!(count(Outcome::Acknowledged) > goal / 4, "hardly an agent came in between");
    }
    println!("{took:.1?}");
    assert!(all_kept > goal / 40, "hardly a save was displaced, so hardly one could be lost");
    assert_eq!(field.strays(), [] as [std::path::PathBuf; 0]);
    field.assert_quiet();
}
