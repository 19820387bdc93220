//! A mailbox that is larger than memory is imported, by the program itself.
//!
//! Law: every message is stored, the memory stays under 200 MB whatever the size of the mailbox,
//! and a second import changes nothing. A twentieth of a gigabyte in a test run, one at full scale,
//! and as many megabytes as `STILE_RIG_MEGABYTES` says.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use stile_testkit::chance::{Chance, scaled, seed};
use stile_testkit::process::Rig;

use crate::doors::binary;

/// The most memory that an import may take, in bytes.
const MOST: u64 = 200_000_000;
/// How often the memory of the program is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// Writes messages of all sizes until there are so many bytes; says how many messages.
fn write_mailbox(path: &Path, bytes: u64, chance: &mut Chance) -> u64 {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let (mut written, mut count) = (0, 0);
    let line = "QUJDRGVmZ2g0NTY3ODkrL0FCQ0RlZmdoNDU2Nzg5Ky9BQkNEZWZnaDQ1Njc4OSsvQUJDREVG\n";
    while written < bytes {
        let words = "the quince by the north wall\n".repeat(1 + chance.below(200));
        // One in fifty has an attachment of up to 2 MB, and one in a thousand of 20 MB.
        let lines = match chance.below(1000) {
            0 => 20_000_000 / line.len(),
            1..=20 => chance.below(2_000_000 / line.len()),
            _ => 0,
        };
        let lines = if count == 7 { 20_000_000 / line.len() } else { lines };
        let message = format!(
            "From ann@example.org Thu Jan  1 00:00:00 2026\nMessage-ID: <{count}@example.org>\n\
             Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: number {count}\n\
             Content-Type: multipart/mixed; boundary=x\n\n--x\n\n{words}\n--x\nContent-Type: image/png; name=a{count}.png\n\
             Content-Transfer-Encoding: base64\n\nAAAA{count:08}\n{}--x--\n\n",
            line.repeat(lines)
        );
        file.write_all(message.as_bytes()).unwrap();
        written += message.len() as u64;
        count += 1;
    }
    file.flush().unwrap();
    count
}

/// Imports a file; what it prints, and the peak of the memory that it has had, in bytes.
fn import(rig: &Rig, path: &Path) -> (String, u64) {
    let mut command = rig.command(&["import", path.to_str().unwrap(), "--connection", "rig"]);
    let mut child = command.arg("--state").arg(&rig.state).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let told = std::fs::read_to_string(&status).unwrap_or_default();
        let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak =
            peak.max(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024);
        std::thread::park_timeout(EVERY);
    }
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success());
    (String::from_utf8(ran.stdout).unwrap(), peak)
}

#[test]
fn a_mailbox_larger_than_memory_is_imported_in_little_of_it() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), binary());
    let path = folder.path().join("all.mbox");
    let wanted = std::env::var("STILE_RIG_MEGABYTES").ok().and_then(|text| text.parse().ok());
    let megabytes: u64 = wanted.unwrap_or(scaled(50, 1000) as u64);
    let count = write_mailbox(&path, megabytes * 1_000_000, &mut Chance::of(seed));
    let (said, peak) = import(&rig, &path);
    assert_eq!(said, format!("added {count}, changed 0, unchanged 0, bad 0\n"));
    println!("{count} messages, {megabytes} MB: peak of {} MB", peak / 1_000_000);
    assert!(peak > 0 && peak < MOST, "{peak} bytes of memory");
    let (said, peak) = import(&rig, &path);
    assert_eq!(
        said,
        format!("added 0, changed 0, unchanged {count}, bad 0\nnothing has changed\n")
    );
    assert!(peak < MOST, "{peak} bytes of memory");
}
