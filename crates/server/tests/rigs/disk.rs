//! The disk with the records becomes really full while they are written, and has room again.
//!
//! Law: a write that finds the disk full is refused as `storage_full`, and no other way. Every
//! acknowledged record stays and is whole, of a batch all or nothing is stored, small reads go on,
//! and once there is room the next write is stored, by the same process. The database passes the
//! complete check of SQLite. A file is not created while the journal finds no room: that is
//! `no_space`.
//!
//! The rig runs itself again in a mount namespace of its own, with a small disk in memory. A
//! machine that allows no namespace cannot run it, and the rig says so: there,
//! `a_full_disk_refuses_the_batch_and_keeps_the_rest` of the store limits the database's
//! pages instead.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stile_testkit::chance::{Chance, scaled_long, seed};
use stile_testkit::client::{Http, McpClient as _, Reply, read_reply};
use stile_testkit::process::{Rig, Server};

use crate::doors::binary;

/// Names the folder that the small disk is mounted on, in the process that has the namespace.
const DISK: &str = "STILE_RIG_SMALL_DISK";
/// Longer than a write waits for another process, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rows of a batch of the server.
const BATCH: u64 = 1000;

/// The disk and what fills it.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Fills the disk to the last byte.
    fn fill(&self) {
        let mut filler = File::create(self.folder.join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while filler.write_all(&vec![7; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.folder.join("filler")).unwrap();
    }
}

/// A server whose state is on the disk, and the owner's token.
struct Place<'a> {
    disk: &'a Disk,
    rig: Rig,
    server: Server,
    owner: String,
}

fn send(server: &Server, token: &str, method: &str, target: &str, body: &str) -> Reply {
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    server.client(token).send(head.as_bytes()).unwrap()
}

/// The code of a refusal.
fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_else(|| panic!("not a refusal: {answer}"))
}

fn text_of(id: &str) -> String {
    format!("{id} ").repeat(300)
}

impl Place<'_> {
    /// Stores one record. Returns whether it was stored; another refusal than of a full disk fails.
    fn store(&self, id: &str) -> bool {
        let row = json!({ "id": id, "text": text_of(id) });
        let target = "/v1/ingest/rows?connection_id=rig";
        let reply = send(&self.server, &self.owner, "POST", target, &format!("{row}\n"));
        let answer = reply.json();
        if reply.status == 200 {
            assert_eq!(answer["records_accepted"], 1, "{answer}");
            return true;
        }
        let log = || String::from_utf8_lossy(&self.server.log_so_far()).into_owned();
        assert_eq!((reply.status, code(&answer)), (507, "storage_full"), "{answer}\n{}", log());
        false
    }

    /// Reads a record, which must be whole; `None` if it is not stored.
    fn read(&self, stream: &str, id: &str) -> Option<()> {
        let target = format!("/v1/streams/{stream}/records/{id}");
        let reply = send(&self.server, &self.owner, "GET", &target, "");
        let answer = reply.json();
        if reply.status == 404 {
            return None;
        }
        assert_eq!(reply.status, 200, "a small read goes on: {answer}");
        assert_eq!(answer["data"]["text"], text_of(id), "{id} is whole");
        Some(())
    }

    fn count(&self, stream: &str) -> u64 {
        let reply = send(&self.server, &self.owner, "GET", "/v1/streams", "");
        let answer = reply.json();
        assert_eq!(reply.status, 200, "{answer}");
        let streams = answer["data"].as_array().unwrap();
        let found = streams.iter().find(|found| found["name"] == stream);
        found.map_or(0, |found| found["record_count"].as_u64().unwrap())
    }

    /// Sends rows in one request: two batches, and the rest once the disk is full. Returns how many
    /// the server acknowledged.
    fn store_many(&self, stream: &str, full: Receiver<()>) -> u64 {
        let mut connection = TcpStream::connect(self.server.address).unwrap();
        let head = format!(
            "POST /v1/ingest/{stream}?connection_id=rig HTTP/1.1\r\nHost: {}\r\n\
             Authorization: Bearer {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            self.server.address, self.owner
        );
        connection.write_all(head.as_bytes()).unwrap();
        for row in 0..20 * BATCH {
            if row == 2 * BATCH {
                full.recv().unwrap();
            }
            let id = format!("m{row}");
            let line = format!("{}\n", json!({ "id": id, "text": text_of(&id) }));
            let piece = format!("{:x}\r\n{line}\r\n", line.len());
            // The server answers before the end once it can store no more.
            if connection.write_all(piece.as_bytes()).is_err() {
                break;
            }
        }
        let _ = connection.write_all(b"0\r\n\r\n");
        let reply = read_reply(&mut std::io::BufReader::new(connection)).unwrap();
        let answer = reply.json();
        if reply.status != 200 {
            assert_eq!((reply.status, code(&answer)), (507, "storage_full"), "{answer}");
            return 0;
        }
        assert_eq!(answer["errors"][0]["code"], "storage_full", "the disk was full: {answer}");
        answer["records_accepted"].as_u64().unwrap()
    }

    /// Begins an import by a process of its own.
    fn import(&self, stream: &str, file: &Path) -> std::process::Child {
        let mut command = self.rig.command(&["import"]);
        command.arg(file).args(["--stream", stream, "--connection", "rig", "--state"]);
        command.arg(&self.rig.state).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Fills the disk while two clients and an import write, and makes room again.
    fn fill_and_make_room(&self, round: usize, chance: &mut Chance, rows: &Path) -> Figures {
        let stored = AtomicUsize::new(0);
        let ended = AtomicBool::new(false);
        let (tell, full) = channel();
        let id = |number: usize| format!("s{round}-{number}");
        let (many, imported) = (format!("many{round}"), format!("imported{round}"));
        for number in 0..3 {
            assert!(self.store(&id(number)), "there is room");
            stored.fetch_add(1, Ordering::Relaxed);
        }
        let mut figures = Figures::default();
        std::thread::scope(|scope| {
            let many = &many;
            let bulk = scope.spawn(move || self.store_many(many, full));
            let reads = scope.spawn(|| {
                let mut reads = 0;
                let mut agent = self.server.client(&self.owner);
                while !ended.load(Ordering::Relaxed) {
                    let number = reads % stored.load(Ordering::Relaxed);
                    assert!(self.read("rows", &id(number)).is_some(), "{number} was acknowledged");
                    read_file(&mut agent);
                    reads += 1;
                }
                reads
            });
            let _ends = EndOnDrop(&ended);
            let import = self.import(&imported, rows);
            let moment = Duration::from_micros(chance.below(200_000) as u64);
            let mut began = None;
            let mut write = |goal: &mut dyn FnMut(bool) -> bool| {
                let deadline = Instant::now() + PATIENCE;
                loop {
                    let next = stored.load(Ordering::Relaxed);
                    let is_stored = self.store(&id(next));
                    if is_stored {
                        stored.store(next + 1, Ordering::Relaxed);
                    } else {
                        figures.refused += 1;
                        assert!(self.read("rows", &id(next)).is_none(), "{next} was refused");
                    }
                    if goal(is_stored) {
                        return;
                    }
                    assert!(Instant::now() < deadline, "the disk is not full");
                }
            };
            // The disk becomes full in the middle of what the other two store.
            write(&mut |_| {
                if began.is_none() && self.count(many) > 0 {
                    began = Some(Instant::now());
                }
                began.is_some_and(|began| began.elapsed() >= moment)
            });
            self.disk.fill();
            tell.send(()).unwrap();
            write(&mut |is_stored| !is_stored);
            figures.bulk = bulk.join().unwrap();
            // Two imports may still find room that the database has and does not use.
            let mut import = Some(import);
            while figures.imports_refused == 0 && figures.imports_stored < 2 {
                let next = || self.import(&format!("late{round}"), rows);
                let ended = import.take().unwrap_or_else(next).wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&ended.stderr);
                if !ended.status.success() {
                    assert!(said.contains("the disk is full"), "{said}");
                    figures.imports_refused = 1;
                } else {
                    figures.imports_stored += 1;
                }
            }
            let mut more = 0..10;
            write(&mut |_| more.next().is_none());
            self.create_until_refused(round);
            self.disk.make_room();
            assert!(self.store(&id(stored.load(Ordering::Relaxed))), "there is room again");
            stored.fetch_add(1, Ordering::Relaxed);
            ended.store(true, Ordering::Relaxed);
            figures.reads = reads.join().unwrap();
        });
        figures.stored = stored.into_inner();
        figures.imported = self.count(&imported);
        assert_eq!(self.count(&many), figures.bulk, "what was acknowledged is stored");
        figures
    }

    /// Creates files until the journal finds no room. Asserts that the refusal is `no_space`, and
    /// that the refused file alone is not there.
    fn create_until_refused(&self, round: usize) {
        let mut agent = self.server.client(&self.owner);
        // All states of a run serve one space.
        let state = self.rig.state.file_name().unwrap().to_str().unwrap();
        for number in 0..1000 {
            let path = format!("/full/{state}/{round}/{number}.md");
            let arguments = json!({ "path": path, "content": "# New\n" });
            let answer = agent.tool("file.create", arguments).unwrap();
            let read = agent.tool("text.read", json!({ "path": path })).unwrap();
            if answer.get("error").is_some() {
                assert_eq!(code(&answer), "no_space", "{answer}");
                assert_eq!(code(&read), "not_found", "{read}");
                return;
            }
            assert_eq!(read["content"], "# New\n", "{read}");
        }
        panic!("the journal still finds room");
    }

    /// Asserts that all is there that was acknowledged.
    fn check(&self, rounds: &BTreeMap<usize, Figures>) {
        for (round, figures) in rounds {
            for number in 0..figures.stored {
                assert!(self.read("rows", &format!("s{round}-{number}")).is_some());
            }
            let many = format!("many{round}");
            assert_eq!(self.count(&many), figures.bulk);
            for row in [0, figures.bulk / 2, figures.bulk.saturating_sub(1)] {
                assert_eq!(self.read(&many, &format!("m{row}")).is_some(), row < figures.bulk);
            }
            assert_eq!(self.count(&format!("imported{round}")), figures.imported);
        }
        let all: u64 = rounds.values().map(|figures| figures.stored as u64).sum();
        assert_eq!(self.count("rows"), all, "nothing that was refused is stored");
    }
}

/// What happened while the disk was full once.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    stored: usize,
    refused: usize,
    bulk: u64,
    imported: u64,
    imports_refused: usize,
    imports_stored: usize,
    reads: usize,
}

/// Sets a flag when dropped.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn read_file(agent: &mut Http) {
    let answer = agent.tool("text.read", json!({ "path": "/small.md" })).unwrap();
    assert_eq!(answer["content"], "# Small\n", "{answer}");
}

/// Asserts that the database in the state folder is whole.
fn check_database(state: &Path) {
    let database = rusqlite::Connection::open(state.join("records.db")).unwrap();
    let check =
        |pragma: &str| -> String { database.query_row(pragma, [], |row| row.get(0)).unwrap() };
    assert_eq!(check("PRAGMA integrity_check"), "ok");
    let broken = database.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!broken, "a row refers to one that is gone");
}

#[test]
fn a_full_disk_loses_no_acknowledged_record_and_stops_nothing_for_good() {
    const NAME: &str = "disk::a_full_disk_loses_no_acknowledged_record_and_stops_nothing_for_good";
    if let Some(folder) = std::env::var_os(DISK) {
        return in_namespace(&Disk { folder: folder.into() });
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=384m,mode=700 none \"$2\" || exit 77; \
                  exec \"$0\" \"$1\" --exact --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([NAME.as_ref(), folder.path()])
        .env(DISK, folder.path())
        .output();
    let said = output.as_ref().map(|output| String::from_utf8_lossy(&output.stdout));
    // 101 is a failed test.
    match output.as_ref().ok().and_then(|output| output.status.code()) {
        Some(0) => println!("{}", said.unwrap()),
        Some(101) => {
            let errors = output.as_ref().map(|output| String::from_utf8_lossy(&output.stderr));
            panic!("{}\n{}", said.unwrap(), errors.unwrap())
        }
        other => println!("nothing checked: this machine allows no namespace ({other:?})"),
    }
}

#[expect(clippy::print_stdout, reason = "a rig prints its figures")]
fn in_namespace(disk: &Disk) {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut chance = Chance::of(seed);
    let elsewhere = tempfile::tempdir().unwrap();
    let rows = elsewhere.path().join("rows.jsonl");
    let mut file = std::io::BufWriter::new(File::create(&rows).unwrap());
    for row in 0..3 * BATCH {
        let id = format!("i{row}");
        writeln!(file, "{}", json!({ "id": id, "text": text_of(&id) })).unwrap();
    }
    drop(file);
    let mut total = Figures::default();
    for place in 0..scaled_long(1, 10, 100) {
        let state = disk.folder.join(format!("state{place}"));
        let rig = Rig { binary: binary(), root: elsewhere.path().join("space"), state };
        std::fs::create_dir_all(&rig.root).unwrap();
        std::fs::write(rig.root.join("small.md"), "# Small\n").unwrap();
        let owner = rig.token(&["write:/"], &["--owner"]);
        let many = ["--rate-per-second", "1000000", "--rate-burst", "1000000"];
        let server = rig.serve(&many);
        let mut place = Place { disk, rig, server, owner };
        let mut rounds = BTreeMap::new();
        for round in 0..2 {
            let figures = place.fill_and_make_room(round, &mut chance, &rows);
            println!("{figures:?}");
            total.stored += figures.stored;
            total.refused += figures.refused;
            total.bulk += figures.bulk;
            total.imported += figures.imported;
            total.imports_refused += figures.imports_refused;
            total.imports_stored += figures.imports_stored;
            total.reads += figures.reads;
            rounds.insert(round, figures);
        }
        place.check(&rounds);
        let (status, log) = std::mem::replace(&mut place.server, place.rig.serve(&many)).stop();
        let log = String::from_utf8_lossy(&log);
        assert!(status.success(), "{log}");
        // A read is answered where its line finds no room in the journal, and a change is made
        // where its version finds none in the history. The log says so.
        let is_full = |line: &str| {
            line.contains("doing=\"journal\"") && line.contains("StorageFull")
                || line.contains("was not kept") && line.contains("disk is full")
        };
        let is_trouble =
            |line: &&str| line.contains("panicked") || line.contains("ERROR") && !is_full(line);
        assert_eq!(log.lines().find(is_trouble), None);
        place.check(&rounds);
        assert!(place.server.stop().0.success());
        check_database(&place.rig.state);
        std::fs::remove_dir_all(&place.rig.state).unwrap();
    }
    println!("{total:?}");
}
