//! A server that works for long, for callers that mean well beside callers that do not.
//!
//! Law: while one call in twenty is malformed, unauthorised, too large, out of bounds, stale or
//! given up, no proper call is refused, each answer is what was written, nothing fails inside the
//! server, and memory, descriptors, threads and the state folder stay within the bounds below.
//!
//! A test run takes some seconds. A full run takes a minute at 500 calls a second, a long run two
//! hours. `STILE_RIG_SECONDS` and `STILE_RIG_RATE` say another time and rate. If the machine is too
//! slow for the rate, the rig makes fewer calls and prints how many.

mod caller;
mod hostile;
mod watch;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::path::RESERVED_PREFIX;
use stile_testkit::chance::{Chance, scaled_long, seconds, seed};
use stile_testkit::leaks::Canaries;
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;
use crate::servers::{CANARY, walk};
use crate::usage::Usage;

use caller::Caller;
use hostile::Kind;
use watch::Watch;

const CALLERS: usize = 16;
/// One of so many calls is hostile.
const HOSTILE_EVERY: usize = 20;
/// A run ends when each kind of hostile call was made twice, at the earliest.
const LEAST_CALLS: usize = 2 * HOSTILE_EVERY * Kind::ALL.len();
/// How many records there are to read.
const RECORDS: usize = 500;
/// How many lines the file has that nobody changes.
const LARGE_LINES: usize = 20_000;
/// How many files change before a long run, to fill the cache of what is known of files: in that
/// run the callers would need an hour to fill it, and what grows besides would not be seen.
const CHANGING_FILES: usize = 512;
/// How often those files change in all: more often than the cache has places.
fn changes_before() -> usize {
    scaled_long(1, 1, 220_000)
}
/// Stands in a file beside the space, which no answer may show.
const OUTSIDE: &str = "bittern-90fa4411c7";
/// How much the rig lags behind before it gives up the calls that it could not make.
const LAG: Duration = Duration::from_secs(1);
/// How often the rig prints how far it is.
const REPORT: Duration = Duration::from_secs(60);

/// What all callers share.
struct Place {
    _folder: tempfile::TempDir,
    rig: Rig,
    server: Server,
    tokens: Tokens,
    pace: Pace,
    faults: Mutex<Vec<String>>,
}

/// The tokens that callers send.
struct Tokens {
    owner: String,
    /// A token that may read one folder in which nothing is.
    narrow: String,
    /// A token that the owner took back.
    revoked: String,
}

/// Says when the next call is due.
struct Pace {
    due: Mutex<Due>,
    interval: Duration,
    stop: AtomicBool,
}

/// When the next call is due, which one that is, and when the last one is due.
struct Due {
    next: Instant,
    number: usize,
    ends: Instant,
}

impl Pace {
    fn of(rate: usize) -> Self {
        let interval = Duration::from_secs(1) / u32::try_from(rate).unwrap();
        let (now, stop) = (Instant::now(), AtomicBool::new(false));
        Self { due: Mutex::new(Due { next: now, number: 0, ends: now }), interval, stop }
    }

    /// Calls are due from now on, for so long.
    fn begin(&self, took: Duration) {
        let mut due = self.due.lock().unwrap();
        due.next = Instant::now();
        due.ends = due.next + took;
    }

    /// Waits until another call is due, and says which one; `None` at the end.
    fn wait(&self) -> Option<usize> {
        let (at, number) = {
            let mut due = self.due.lock().unwrap();
            let (at, number) = (Instant::now().checked_sub(LAG).unwrap().max(due.next), due.number);
            let is_over = at >= due.ends && number >= LEAST_CALLS;
            if is_over || self.stop.load(Ordering::Relaxed) {
                return None;
            }
            (due.next, due.number) = (at + self.interval, number + 1);
            (at, number)
        };
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        Some(number)
    }
}

/// A line of the file that nobody changes.
fn large_line(number: usize) -> String {
    format!("line {number} of a file that nobody changes\n")
}

impl Place {
    fn open(rate: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), binary());
        std::fs::write(folder.path().join("outside.md"), OUTSIDE).unwrap();
        std::os::unix::fs::symlink("../outside.md", rig.root.join("link.md")).unwrap();
        let large: String = (1..=LARGE_LINES).map(large_line).collect();
        std::fs::write(rig.root.join("large.md"), large).unwrap();
        let rows = folder.path().join("rows.jsonl");
        let mut file = std::fs::File::create(&rows).unwrap();
        for row in 0..RECORDS {
            let text = caller::record_text(row);
            writeln!(file, "{}", json!({ "id": format!("r{row}"), "text": text })).unwrap();
        }
        let mut import = rig.command(&["import"]);
        import.arg(&rows).args(["--stream", "rows", "--connection", "rig", "--state"]);
        let output = import.arg(&rig.state).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let revoked = rig.token(&["write:/"], &[]);
        let id = rig.command(&["token", "list", "--state"]).arg(&rig.state).output().unwrap();
        let id = String::from_utf8(id.stdout).unwrap();
        let id = id.split_whitespace().find(|word| is_id(word)).unwrap().to_owned();
        let mut revoke = rig.command(&["token", "revoke", &id, "--state"]);
        assert!(revoke.arg(&rig.state).output().unwrap().status.success());
        let tokens = Tokens {
            owner: rig.token(&["write:/"], &["--owner"]),
            narrow: rig.token(&["read:/narrow/"], &[]),
            revoked,
        };
        // Hostile calls are logged as warnings, if at all; two hours of the rest would fill memory.
        let server = rig.serve(&["--log", "warn"]);
        Self {
            _folder: folder,
            rig,
            server,
            tokens,
            pace: Pace::of(rate),
            faults: Mutex::default(),
        }
    }

    /// Changes files as another program does, and reads each version of them.
    fn fill_caches(&self) {
        let mut client = self.server.client(&self.tokens.owner);
        let path = |number: usize| format!("changing-{}.md", number % CHANGING_FILES);
        for number in 0..changes_before() {
            std::fs::write(self.rig.root.join(path(number)), large_line(number)).unwrap();
            // What was written last a while ago, since facts of a file that just changed may not
            // last and are not kept.
            if number >= CHANGING_FILES {
                let read = json!({ "path": format!("/{}", path(number + 1)) });
                let call = json!({ "name": "text.read", "arguments": read });
                // The rate of a user is limited, and this is as fast as it can be.
                while client.post("tools/call", call.clone()).unwrap().status == 429 {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Notes a fault, after which everybody stops.
    fn fail(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
        self.pace.stop.store(true, Ordering::Relaxed);
    }
}

fn is_id(word: &str) -> bool {
    word.len() == 36 && word.matches('-').count() == 4
}

/// The number in `STILE_RIG_RATE`, or that of the scale.
fn rate() -> usize {
    match std::env::var("STILE_RIG_RATE") {
        Ok(rate) => rate.parse().unwrap_or_else(|_| panic!("STILE_RIG_RATE is `{rate}`")),
        Err(_) => scaled_long(100, 500, 500),
    }
}

#[test]
fn a_server_that_works_for_long_refuses_no_proper_call_and_does_not_grow() {
    let took = seconds().unwrap_or(Duration::from_secs(scaled_long(4, 60, 7200) as u64));
    let (seed, rate) = (seed(), rate());
    println!("seed {seed}, {took:?} at {rate} calls a second");
    let mut chance = Chance::of(seed);
    let place = Place::open(rate);
    let idle = {
        // Everything that is made once is there before the first measure.
        let mut first = Caller::new(&place, CALLERS, chance.fork());
        first.begin().unwrap();
        for _ in 0..20 {
            first.act().unwrap();
        }
        drop(first);
        place.fill_caches();
        std::thread::sleep(Duration::from_millis(200));
        Usage::of(&place.server, &place.rig.state)
    };
    let mut callers: Vec<Caller<'_>> =
        (0..CALLERS).map(|number| Caller::new(&place, number, chance.fork())).collect();
    let watch = Watch::new(idle, took);
    let began = Instant::now();
    place.pace.begin(took);
    std::thread::scope(|scope| {
        let working: Vec<_> = callers
            .iter_mut()
            .map(|caller| {
                let place = &place;
                scope.spawn(move || {
                    let _stops = StopOnPanic(place);
                    if let Err(fault) = caller.work() {
                        place.fail(fault);
                    }
                })
            })
            .collect();
        let mut reported = Instant::now();
        while !working.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if let Err(fault) = watch.look(&place) {
                place.fail(fault);
            }
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                println!("{:?} s: {}", began.elapsed().as_secs(), watch.figures());
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let worked = began.elapsed();
    let faults = place.faults.lock().unwrap().join("\n");
    assert!(faults.is_empty(), "seed {seed}, after {worked:.0?}: {faults}");

    let mut figures = caller::Figures::default();
    for mut caller in callers {
        caller.check_files();
        figures.add(caller.into_figures());
    }
    let all = figures.calls();
    println!(
        "{all} calls in {worked:.1?}, {:.0} a second; {figures}\n{}",
        all as f64 / worked.as_secs_f64(),
        watch.figures()
    );
    for kind in Kind::ALL {
        assert!(figures.hostile(kind) > 0, "no hostile call was {kind:?}");
    }
    watch.assert_ended(&place, all);
    close(place, all);
}

/// Stops the server, and looks at what it leaves.
#[expect(clippy::print_stdout, reason = "a rig prints its figures")]
fn close(place: Place, calls: usize) {
    let Place { _folder: folder, rig, server, tokens, .. } = place;
    let (status, log) = server.stop();
    assert!(status.success(), "{status}");
    let canaries = Canaries::new()
        .plant("content", CANARY)
        .plant("outside", OUTSIDE)
        .plant("owner", &tokens.owner)
        .plant("narrow", &tokens.narrow)
        .plant("revoked", &tokens.revoked);
    canaries.assert_absent("the log", &log);
    let log = String::from_utf8_lossy(&log);
    for trouble in ["ERROR", "panicked"] {
        let line = log.lines().find(|line| line.contains(trouble));
        assert!(line.is_none(), "the log says: {}", line.unwrap());
    }
    walk(&rig.root, &mut |path| {
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(!name.starts_with(RESERVED_PREFIX), "{} was left behind", path.display());
    });
    let mut lines = 0;
    walk(&rig.state.join("journal"), &mut |path| lines += searched(path, &canaries));
    println!("{lines} lines in the journal, {} lines in the log", log.lines().count());
    assert!(lines > calls / 2, "{lines} lines for {calls} calls");
    drop(folder);
}

/// Searches a journal for what must not be in it, and returns the number of its lines.
fn searched(path: &Path, canaries: &Canaries) -> usize {
    let mut file = BufReader::new(std::fs::File::open(path).unwrap());
    let (mut part, mut lines) = (Vec::new(), 0);
    while file.read_until(b'\n', &mut part).unwrap() > 0 {
        lines += 1;
        if part.len() > 1 << 20 {
            canaries.assert_absent("the journal", &part);
            part.clear();
        }
    }
    canaries.assert_absent("the journal", &part);
    lines
}

/// Stops everybody where one of them panics.
struct StopOnPanic<'a>(&'a Place);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a caller panicked".to_owned());
        }
    }
}
