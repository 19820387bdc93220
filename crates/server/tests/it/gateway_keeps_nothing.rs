//! The gateway writes no file. Seen from outside, by a system that would end it for the first byte.
//!
//! `.ci/gateway/no-writes.sh` looks at the same from its system calls.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use stile_testkit::client::McpClient as _;
use stile_testkit::issuer::Alg;
use stile_testkit::process::Server;
use stile_testkit::upstream::{Behaviour, Reply};

use crate::gateway_kit::{Hosted, TOOLS, call, metrics, post};
use crate::support::{Client, initialize};

/// All that is known of a file or a folder but when it was read.
#[derive(PartialEq)]
struct Seen {
    path: PathBuf,
    inode: u64,
    mode: u32,
    /// Of its last changes, in content and otherwise.
    times: [(i64, i64); 2],
    content: Vec<u8>,
}

/// All there is below a folder.
fn below(folder: &Path) -> Vec<Seen> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        let content = if about.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        let times = [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())];
        found.push(Seen {
            path: path.clone(),
            inode: about.ino(),
            mode: about.mode(),
            times,
            content,
        });
        if about.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Takes away, or gives back, the right to write to folders and files.
fn writable(folder: &Path, is: bool) {
    for Seen { path, mode, .. } in below(folder) {
        let mode = if is { mode | 0o200 } else { mode & !0o222 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode & 0o7777)).unwrap();
    }
}

/// Files and folders of the disk that a process has open for writing.
fn open_for_writing(process: u32) -> Vec<PathBuf> {
    let proc = PathBuf::from(format!("/proc/{process}"));
    let numbers =
        std::fs::read_dir(proc.join("fd")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found = Vec::new();
    for number in numbers {
        // What was closed since is not open.
        let Ok(about) = std::fs::metadata(proc.join("fd").join(&number)) else { continue };
        let Ok(info) = std::fs::read_to_string(proc.join("fdinfo").join(&number)) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let writes = u32::from_str_radix(flags.trim(), 8).unwrap() & 0o3 != 0;
        if writes && (about.is_file() || about.is_dir()) {
            found.push(std::fs::read_link(proc.join("fd").join(&number)).unwrap());
        }
    }
    found
}

/// The gateway where it may write to no file at all, and would be ended by the system if it did.
fn confined(hosted: &Hosted, flags: &[&str]) -> Server {
    let folder = hosted.ground.folder.path();
    let gateway = hosted.ground.rig.gateway_command(flags);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 0 && exec \"$@\"", "sh"])
        .arg(gateway.get_program())
        .args(gateway.get_args());
    for (name, value) in gateway.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    for (name, place) in [
        ("TMPDIR", "tmp"),
        ("XDG_STATE_HOME", "xdg"),
        ("XDG_CACHE_HOME", "xdg"),
        ("XDG_CONFIG_HOME", "xdg"),
    ] {
        command.env(name, folder.join(place));
    }
    command.current_dir(folder.join("cwd"));
    Server::start(command)
}

fn note() -> Behaviour {
    Behaviour::always(Reply::note(&json!({ "title": "A" }), "# A\n\ntext\n"))
}

fn keeps_nothing(local: bool) {
    let hosted = Hosted::new(note());
    let folder = hosted.ground.folder.path().to_owned();
    for place in ["home", "tmp", "xdg", "cwd"] {
        std::fs::create_dir_all(folder.join(place)).unwrap();
    }
    let secret = hosted.ground.file("secret", "secret-of-the-gateway");
    let provider = hosted.flags();
    let url = hosted.upstream.url();
    let limits =
        ["--upstream-timeout-seconds", "1", "--metrics-listen", "127.0.0.1:0", "--log", "trace"];
    let mut flags = vec!["--upstream", &url, "--gateway-secret-file", secret.to_str().unwrap()];
    flags.extend(limits);
    let token = if local {
        hosted.ground.token.clone()
    } else {
        flags.extend(provider.iter().map(String::as_str));
        hosted.mint("ann").token(Alg::Es256)
    };
    writable(&folder, false);
    let before = below(&folder);

    let server = confined(&hosted, &flags);
    let mut client = server.client(&token);
    for behaviour in [
        note(),
        Behaviour::note_of(500_000),
        Behaviour::note_of(5 << 20),
        Behaviour::status(404),
        Behaviour::status(500),
        Behaviour::body("{"),
        Behaviour::cut_in_body(),
        Behaviour::Silence,
        Behaviour::Refuse,
        note(),
    ] {
        hosted.upstream.set(behaviour);
        for tool in TOOLS {
            call(&mut client, tool, "inbox/one.md");
            assert_eq!(open_for_writing(server.id()), Vec::<PathBuf>::new());
        }
    }
    post(&mut client, TOOLS[0], &json!({ "path": "../one.md" }));
    assert_eq!(server.client("none").post("tools/list", json!({})).unwrap().status, 401);
    assert!(client.request("tools/list", json!({})).unwrap()["result"]["tools"].is_array());
    let opened = initialize("2025-11-25", "test").to_string();
    assert_eq!(
        client.send(&Client::post_bytes(&token, &[], opened.as_bytes())).unwrap().status,
        200
    );
    assert_eq!(metrics(&server).status, 200);
    assert_eq!(open_for_writing(server.id()), Vec::<PathBuf>::new());
    assert!(below(&folder) == before, "something has changed while it ran");
    let (status, _) = server.stop();
    assert!(status.success(), "{status}");
    assert!(below(&folder) == before, "something has changed as it ended");
    writable(&folder, true);
}

#[test]
fn a_gateway_with_an_identity_provider_writes_no_file() {
    keeps_nothing(false);
}

#[test]
fn a_gateway_with_the_key_of_a_server_writes_no_file() {
    keeps_nothing(true);
}

/// The confinement is one: what writes is ended in it, and a file that is open for writing is seen.
#[test]
fn the_watch_reports_a_written_file() {
    let folder = tempfile::tempdir().unwrap();
    let before = below(folder.path());
    let file = std::fs::File::create(folder.path().join("kept")).unwrap();
    assert!(open_for_writing(std::process::id()).contains(&folder.path().join("kept")));
    assert!(below(folder.path()) != before);
    drop(file);
    let script = "ulimit -f 0 && exec sh -c 'echo kept > \"$0\"' \"$1\"";
    let ran = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(folder.path().join("kept"))
        .output()
        .unwrap();
    assert!(!ran.status.success(), "{ran:?}");
}
