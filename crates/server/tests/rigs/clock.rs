//! The wall clock of a server jumps, forward and back, by hours, months and years.
//!
//! Law: tokens are valid and expire by the wall clock, and nothing else breaks. Files are read and
//! changed by their hashes. Cursors go on where they were. A cursor of changes goes on or is
//! refused as `cursor_expired`. No request is refused for its rate, none waits, and the journal
//! keeps its order.
//!
//! The rig runs itself again as a process that is the server, and that moves its own clock to where
//! a file says. The clock that the kernel stamps files with does not move.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes};
use stile_server::auth::{MintRequest, Minter};
use stile_store::clock::move_wall_clock;
use stile_store::journal;
use stile_store::state::{StateDir, TokenKey, TokenStore};
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::client::{Http, McpClient as _};
use stile_testkit::process::{Rig, Server};

use crate::servers::walk;

/// Names the file that says by how many seconds the clock is moved, in the process that serves.
const MOVED: &str = "STILE_RIG_CLOCK";
/// The arguments of that process, one on each line.
const ARGUMENTS: &str = "STILE_RIG_CLOCK_ARGUMENTS";
const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;
/// How long before now the token of the rig was issued. It is valid for a year.
const ISSUED_BEFORE: i64 = 300 * DAY;
/// Longer than a request may take, and shorter than any jump.
const PROMPT: Duration = Duration::from_secs(20);

/// A server whose clock the rig moves.
struct Jumping {
    rig: Rig,
    server: Server,
    moved: PathBuf,
    token: String,
    client: Http,
}

fn answered(file: &Path) -> PathBuf {
    file.with_extension("done")
}

/// Starts a server, in a process that runs the test of this name, whose clock is moved from the
/// start on by as many seconds as the file says.
fn launch(rig: &Rig, moved: &Path, test: &str) -> Server {
    let mut command = Command::new(&rig.binary);
    let (root, state) = (rig.root.to_str().unwrap(), rig.state.to_str().unwrap());
    let serve = ["stile", "serve", root, "--listen", "127.0.0.1:0", "--state", state];
    command.args([test, "--exact", "--nocapture"]).env("HOME", rig.home());
    command.env(MOVED, moved).env(ARGUMENTS, serve.join("\n"));
    Server::start(command)
}

impl Jumping {
    fn start(folder: &Path, test: &str) -> Self {
        let rig = Rig::below(folder, std::env::current_exe().unwrap());
        let moved = folder.join("moved");
        fs::write(&moved, "0").unwrap();
        let token = mint(&rig);
        let server = launch(&rig, &moved, test);
        let client = server.client(&token);
        Self { rig, server, moved, token, client }
    }

    /// Moves the server's clock to `seconds` after the machine's.
    fn jump(&self, seconds: i64) {
        let new = self.moved.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &self.moved).unwrap();
        let deadline = Instant::now() + PROMPT;
        while fs::read_to_string(answered(&self.moved)).ok() != Some(seconds.to_string()) {
            assert!(Instant::now() < deadline, "the clock did not move");
            std::thread::yield_now();
        }
    }

    /// Sends a request, which must be answered promptly.
    fn send(&mut self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.server.address,
            self.token,
            body.len()
        );
        let since = Instant::now();
        let reply = self.client.send(head.as_bytes()).unwrap();
        assert!(since.elapsed() < PROMPT, "{target} took {:?}", since.elapsed());
        (reply.status, reply.json())
    }

    fn get(&mut self, target: &str) -> Value {
        let (status, answer) = self.send("GET", target, "");
        assert_eq!(status, 200, "{target}: {answer}");
        answer
    }

    fn store(&mut self, id: usize) {
        let row = json!({ "id": format!("r{id:04}"), "n": id });
        let target = "/v1/ingest/rows?connection_id=rig";
        let (status, answer) = self.send("POST", target, &format!("{row}\n"));
        assert_eq!((status, &answer["records_accepted"]), (200, &json!(1)), "{answer}");
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let since = Instant::now();
        let answer = self.client.tool(name, arguments).unwrap();
        assert!(since.elapsed() < PROMPT, "{name} took {:?}", since.elapsed());
        answer
    }
}

/// Mints a token long ago, so that the clock may be set back.
fn mint(rig: &Rig) -> String {
    let state = StateDir::open(&rig.state).unwrap();
    let (key, tokens) = (TokenKey::open(&state).unwrap(), TokenStore::open(&state).unwrap());
    let audience = tokens.space_of(&rig.root).unwrap().audience;
    let request = MintRequest {
        subject: "ann".to_owned(),
        scopes: [Scope::parse_raw("write:/").unwrap()].into_iter().collect::<Scopes>(),
        client: None,
        records: RecordsClaim::Owner,
        life: Duration::from_secs(YEAR.unsigned_abs()),
    };
    let then = SystemTime::now() - Duration::from_secs(ISSUED_BEFORE.unsigned_abs());
    Minter { key: &key, tokens: &tokens, audience: &audience }.mint(&request, then).unwrap().token
}

/// The keys of a page.
fn keys(page: &Value) -> Vec<String> {
    let rows = page["data"].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// What the rig follows over a jump.
struct Followed {
    text: String,
    records: usize,
    /// Where the next changes begin.
    changes: String,
}

/// One day of an agent, with a jump in the middle of all that it does.
fn day(place: &mut Jumping, followed: &mut Followed, jump: i64) {
    let hash = |text: &str| ContentHash::digest(text.as_bytes()).to_string();
    let first = place.get("/v1/streams/rows/records?limit=3");
    let cursor = first["next_cursor"].as_str().unwrap().to_owned();
    let read = place.tool("text.read", json!({ "path": "/note.md" }));
    assert_eq!(read["hash"], hash(&followed.text));

    place.jump(jump);

    // Files: a hash from before is right, and a stale one is not.
    let append = json!({ "path": "/note.md", "hash": read["hash"], "content": "more\n" });
    let changed = place.tool("text.append", append.clone());
    followed.text.push_str("more\n");
    assert_eq!(changed["hash"], hash(&followed.text), "{changed}");
    assert_eq!(place.tool("text.append", append)["error"]["code"], "stale");
    // Another program's save of the same length is seen at once.
    for letter in ["a", "b"] {
        fs::write(place.rig.root.join("other.md"), letter).unwrap();
        let seen = place.tool("text.read", json!({ "path": "/other.md" }));
        assert_eq!(seen["content"], letter);
        let named = json!({ "path": "/made.md", "content": letter });
        let made = place.tool("file.create", named);
        let gone = place.tool("file.remove", json!({ "path": "/made.md", "hash": made["hash"] }));
        assert!(gone.get("error").is_none(), "{gone}");
    }

    // The rest of a list comes after the cursor, without gaps or repetition.
    let rest = place.get(&format!("/v1/streams/rows/records?limit=100&cursor={cursor}"));
    let mut all = [keys(&first), keys(&rest)].concat();
    all.sort_unstable();
    let expected: Vec<_> = (0..followed.records).map(|id| format!("r{id:04}")).collect();
    assert_eq!(all, expected);
    // What changed since is exactly that, or the cursor is too old by the wall clock.
    place.store(followed.records);
    let new = format!("r{:04}", followed.records);
    followed.records += 1;
    let since = format!("/v1/streams/rows/records?limit=100&changes_since={}", followed.changes);
    let (status, mut answer) = place.send("GET", &since, "");
    if status == 200 {
        assert_eq!(keys(&answer), [new.as_str()], "{answer}");
    } else {
        assert_eq!((status, &answer["error"]["code"]), (410, &json!("cursor_expired")), "{answer}");
        answer = place.get("/v1/streams/rows/records?limit=100&changes_since=beginning");
        assert_eq!(keys(&answer).len(), followed.records);
    }
    followed.changes = answer["next_changes_since"].as_str().unwrap().to_owned();
    // More requests than a burst waits for would show a rate that counts by the wall clock.
    for _ in 0..20 {
        place.get("/v1/streams/rows/records/r0000");
    }
}

#[test]
fn a_clock_that_jumps_expires_tokens_and_breaks_nothing_else() {
    if let Some(moved) = std::env::var_os(MOVED) {
        return serve(Path::new(&moved));
    }
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let folder = tempfile::tempdir().unwrap();
    let test = "clock::a_clock_that_jumps_expires_tokens_and_breaks_nothing_else";
    let mut place = Jumping::start(folder.path(), test);
    let text = "# Note\n".to_owned();
    fs::write(place.rig.root.join("note.md"), &text).unwrap();
    (0..5).for_each(|id| place.store(id));
    let whole = place.get("/v1/streams/rows/records?limit=100&changes_since=beginning");
    let changes = whole["next_changes_since"].as_str().unwrap().to_owned();
    let mut followed = Followed { text, records: 5, changes };
    let jumps = scaled_long(12, 90, 90);
    let hours = |hours: usize| i64::try_from(hours).unwrap() * 3600;
    for jump in 0..jumps {
        // By hours or by months, within the life of the token.
        let reach = if chance.happens(50) { 100 } else { 50 * 24 };
        let back = if chance.happens(30) { 200 * 24 } else { 0 };
        let to = hours(chance.below(reach)) - hours(chance.below(back + 1));
        day(&mut place, &mut followed, to);
        // By years, where the token is not valid, and back.
        if jump % 4 == 0 {
            for years in [20, -20, -60] {
                place.jump(years * YEAR);
                let (status, answer) = place.send("GET", "/v1/streams/rows/records/r0000", "");
                assert_eq!(status, 401, "{years} years: {answer}");
            }
            place.jump(to);
            place.get("/v1/streams/rows/records/r0000");
        }
    }
    let (status, log) = place.server.stop();
    let log = String::from_utf8_lossy(&log);
    assert!(status.success() && !log.contains("ERROR") && !log.contains("panicked"), "{log}");
    let mut dated = Vec::new();
    // A jump by more than a day begins a new file.
    walk(&place.rig.state.join("journal"), &mut |path| {
        let lines = fs::read_to_string(path).unwrap();
        let at = |line: &str| serde_json::from_str::<Value>(line).unwrap()["at"].to_string();
        let of_file: Vec<String> = lines.lines().map(at).collect();
        assert!(of_file.is_sorted(), "lines of a file are dated in their order");
        dated.extend(of_file);
    });
    let read = journal::read_all(&StateDir::open(&place.rig.state).unwrap()).unwrap();
    assert_eq!((read.lines.len(), read.damaged), (dated.len(), 0));
    println!("{jumps} jumps, {} records, {} lines in the journal", followed.records, dated.len());
}

#[test]
fn a_server_keeps_the_journal_for_400_days_unless_it_is_told_otherwise() {
    if let Some(moved) = std::env::var_os(MOVED) {
        return serve(Path::new(&moved));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "clock::a_server_keeps_the_journal_for_400_days_unless_it_is_told_otherwise";
    let mut place = Jumping::start(folder.path(), test);
    fs::write(place.rig.root.join("note.md"), "# Note\n").unwrap();
    // After a jump by more than a day, lines go to a new file.
    for days in [-200, -198] {
        place.jump(days * DAY);
        place.tool("text.read", json!({ "path": format!("/{days}.md") }));
    }
    let Jumping { rig, server, moved, .. } = place;
    assert!(server.stop().0.success());
    let long_ago = SystemTime::now() - Duration::from_secs(500 * DAY.unsigned_abs());
    let journal = rig.state.join("journal");
    walk(&journal, &mut |path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(long_ago)).unwrap();
    });
    let kept = |name: &str| {
        let mut found = false;
        walk(&journal, &mut |path| found |= fs::read_to_string(path).unwrap().contains(name));
        found
    };
    assert!(kept("/-200.md") && kept("/-198.md"));
    fs::write(&moved, (201 * DAY).to_string()).unwrap();
    assert!(launch(&rig, &moved, test).stop().0.success());
    assert_eq!((kept("/-200.md"), kept("/-198.md")), (false, true), "after 401 and 399 days");
}

/// Serves, as the arguments say, and moves the clock to where the file says.
fn serve(moved: &Path) {
    if let Ok(seconds) = fs::read_to_string(moved).unwrap().parse() {
        move_wall_clock(seconds);
    }
    let file = moved.to_owned();
    std::thread::spawn(move || {
        let mut last = String::new();
        loop {
            let said = fs::read_to_string(&file).unwrap_or_default();
            if said != last
                && let Ok(seconds) = said.parse()
            {
                move_wall_clock(seconds);
                let _ = fs::write(answered(&file), &said);
                last = said;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let code = stile_server::cli::main_with(arguments.lines().map(OsString::from));
    assert_eq!(code, std::process::ExitCode::SUCCESS);
}
