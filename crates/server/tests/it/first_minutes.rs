//! What a newcomer meets in the first ten minutes at a terminal.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use stile_domain::journal::JournalLine;
use stile_store::journal::Journal;
use stile_store::state::StateDir;
use stile_testkit::process::Rig;

struct Newcomer {
    _folder: tempfile::TempDir,
    rig: Rig,
}

impl Newcomer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
        std::fs::create_dir_all(rig.home()).unwrap();
        Self { _folder: folder, rig }
    }

    /// Returns a command in a folder, with the state of the newcomer.
    fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = self.rig.command(arguments);
        command.current_dir(folder).arg("--state").arg(&self.rig.state);
        command
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
        said(self.command(folder, arguments).output().unwrap())
    }
}

fn said(output: Output) -> (String, String, Option<i32>) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Returns the writing end of a pipe that nobody reads.
#[cfg(unix)]
fn unread_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[cfg(unix)]
#[test]
fn a_command_ends_quietly_when_nobody_reads_on() {
    let newcomer = Newcomer::new();
    let state = StateDir::open(&newcomer.rig.state).unwrap();
    let journal = Journal::open(&state).unwrap();
    let line = JournalLine { tool: "text.read".to_owned(), ..JournalLine::default() };
    journal.append(line).unwrap();
    drop(journal);
    for arguments in [&["audit"][..], &["token", "list", "--json"], &["config"]] {
        let mut command = newcomer.command(&newcomer.rig.root, arguments);
        let (_, error, code) = said(command.stdout(unread_pipe()).output().unwrap());
        assert_eq!((error.as_str(), code), ("", Some(0)), "{arguments:?}");
    }
    let mut help = newcomer.rig.command(&["--help"]);
    let (_, error, code) = said(help.stdout(unread_pipe()).output().unwrap());
    assert_eq!((error.as_str(), code), ("", Some(0)));
}

#[test]
fn a_path_is_taken_as_it_is_typed() {
    let newcomer = Newcomer::new();
    let (root, rig) = (newcomer.rig.root.clone(), &newcomer.rig);
    std::fs::create_dir(root.join("garden")).unwrap();
    let server = rig.serve(&[]);
    let mut client = server.client(&rig.token(&["write:/"], &["--client", "cursor"]));
    let arguments = json!({ "path": "/garden/journal.md", "content": "frost\n" });
    client.post("tools/call", json!({ "name": "file.create", "arguments": arguments })).unwrap();
    server.kill();

    let garden = root.join("garden");
    let absolute = garden.join("journal.md");
    for (folder, typed) in [
        (garden.as_path(), "journal.md"),
        (garden.as_path(), "./journal.md"),
        (garden.as_path(), "/garden/journal.md"),
        (root.as_path(), "garden/journal.md"),
        (root.parent().unwrap(), "garden/journal.md"),
        (root.parent().unwrap(), "space/garden/journal.md"),
        (Path::new("/"), absolute.to_str().unwrap()),
    ] {
        let (listed, error, code) = newcomer.run(folder, &["history", typed]);
        assert!(listed.contains("created /garden/journal.md"), "{typed}: {listed}{error}");
        assert_eq!(code, Some(0));
        let (audited, ..) = newcomer.run(folder, &["audit", "--path", typed]);
        assert!(audited.contains("cursor"), "{typed}: {audited}");
    }
    let (outline, _, code) = newcomer.run(&garden, &["note", "outline", "journal.md"]);
    assert!(outline.contains("headings"), "{outline}");
    assert_eq!(code, Some(0));

    // An empty result says so.
    let (listed, error, code) = newcomer.run(&garden, &["history", "weeds.md"]);
    assert!(listed.starts_with("There is no /garden/weeds.md in "), "{listed}{error}");
    assert_eq!(code, Some(0));
    let (_, told, _) = newcomer.run(&garden, &["audit", "--client", "nobody"]);
    assert_eq!(told, "the journal has no call of `nobody`\n");

    // A file that is elsewhere is not taken for one of the space.
    let elsewhere = root.with_file_name("elsewhere.md");
    std::fs::write(&elsewhere, "").unwrap();
    for command in [&["history"][..], &["note", "outline"]] {
        let typed = [command, &[elsewhere.to_str().unwrap()]].concat();
        let (_, told, code) = newcomer.run(&garden, &typed);
        assert!(told.contains("elsewhere.md is not in the folder that is served"), "{told}");
        assert_eq!(code, Some(2));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_means_the_served_folder_in_which_the_person_is() {
    let newcomer = Newcomer::new();
    let other = newcomer.rig.root.with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("boiler.md"), "the stopcock is in the cellar\n").unwrap();
    let inside = other.join("deep");
    std::fs::create_dir(&inside).unwrap();
    let _server = newcomer.rig.serve(&[]);
    let mint = ["token", "--scope", "read:/", "--root", other.to_str().unwrap()];
    assert!(newcomer.command(&inside, &mint).output().unwrap().status.success());
    let state = newcomer.rig.state.to_str().unwrap();
    let search = |folder: &Path| {
        let mut command = newcomer.rig.command(&["search", "--state", state, "stopcock"]);
        said(command.current_dir(folder).output().unwrap()).0
    };
    assert!(search(&inside).contains("/boiler.md"), "{}", search(&inside));
    let elsewhere = search(newcomer.rig.home().as_path());
    let served = newcomer.rig.root.canonicalize().unwrap();
    assert!(elsewhere.contains(&format!("words in {}", served.display())), "{elsewhere}");
    let late = newcomer.command(&inside, &["search", "stopcock"]).output().unwrap();
    let (_, error, code) = said(late);
    assert!(code == Some(2) && error.contains("flags stand before the question"), "{error}");
}

#[test]
fn a_service_without_a_manager_leaves_nothing_behind() {
    let newcomer = Newcomer::new();
    let home = newcomer.rig.home();
    let notes = home.join("notes");
    let mistyped = newcomer.rig.command(&["service", "install", "nots", "--no-start"]).output();
    let (_, error, code) = said(mistyped.unwrap());
    assert!(code == Some(2) && error.contains("there is no folder"), "{error}");
    std::fs::create_dir_all(&notes).unwrap();
    let mut install = newcomer.rig.command(&["service", "install", notes.to_str().unwrap()]);
    // The manager is found by an address in the environment, and there is none.
    let unmanaged = install.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("XDG_RUNTIME_DIR");
    let (output, error, code) =
        said(unmanaged.env("XDG_CONFIG_HOME", home.join("c")).output().unwrap());
    assert_eq!((output.as_str(), code), ("", Some(1)), "{error}");
    assert!(error.contains("so nothing was written") && error.contains("--no-start"), "{error}");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1, "the folder alone");
}

#[test]
fn tokens_are_revoked_by_their_beginning_and_the_command_says_what_ended() {
    let newcomer = Newcomer::new();
    let root = newcomer.rig.root.clone();
    let mint = ["token", "--scope", "read:/notes/", "--client", "cursor"];
    let (token, note, _) = newcomer.run(&root, &mint);
    assert!(!token.is_empty(), "{note}");
    let (listed, ..) = newcomer.run(&root, &["token", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let jti = listed[0]["jti"].as_str().unwrap();
    let (told, error, code) = newcomer.run(&root, &["token", "revoke", &jti[..6]]);
    assert_eq!(code, Some(0), "{error}");
    let allowed = format!("{jti} is revoked: it allowed cursor read:/notes/");
    assert!(told.starts_with(&allowed), "{told}");
}

#[test]
fn a_list_without_a_row_says_so_and_what_makes_one() {
    let newcomer = Newcomer::new();
    let root = newcomer.rig.root.clone();
    for (arguments, sentence) in [
        (&["token", "list"][..], "There is no token yet. `stile token --scope read:/` makes one"),
        (&["client", "list"], "There is no client yet."),
        (&["grant", "list"], "There is no grant yet"),
        (&["streams"], "There are no records yet. `stile import FILE"),
        (&["connections"], "There are no records yet."),
        (&["records", "removed"], "There are no removed records"),
        (&["owner", "passkeys"], "There is no passkey yet."),
        (&["owner", "sessions"], "No browser is signed in."),
    ] {
        let (output, error, code) = newcomer.run(&root, arguments);
        // A program reads a table without rows, as before.
        assert_eq!((output.lines().count(), code), (1, Some(0)), "{arguments:?}: {output}");
        assert!(
            error.starts_with(sentence) && error.lines().count() == 1,
            "{arguments:?}: {error}"
        );
        let (output, error, _) = newcomer.run(&root, &[arguments, &["--json"]].concat());
        assert_eq!((output.trim(), error.as_str()), ("[]", ""), "{arguments:?}");
    }
}

#[test]
fn access_before_the_first_start_is_to_the_folder_that_is_served_first() {
    let newcomer = Newcomer::new();
    let home = newcomer.rig.home();
    // Nothing listens here, whatever else runs on this machine.
    let before = |arguments: &[&str]| {
        let mut command = newcomer.command(&home, arguments);
        said(command.env("STILE_LISTEN", "127.0.0.1:1").output().unwrap())
    };
    let (output, error, code) = before(&["connect", "cursor", "--write"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(output.contains("In the folder that is served first, Cursor may read"), "{output}");
    let default = home.join("stile");
    let only = format!("`stile serve` without one\nserves {}.", default.display());
    assert!(output.contains(&only) && !output.contains("In /"), "{output}");
    let (token, error, _) = before(&["token", "--scope", "read:/", "--client", "scripts"]);
    assert!(token.trim().starts_with("eyJ") && token.lines().count() == 1, "{token}");
    assert!(error.contains("opens the one that is served first"), "{error}");
    // No folder was served, so none can be named.
    for arguments in [&["history"][..], &["undo", "--since", "5h"]] {
        let (_, error, code) = newcomer.run(&home, arguments);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("no folder was served with this state yet"), "{error}");
    }
    let server = newcomer.rig.serve(&[]);
    let told = server.said_after("clients that got access before a folder was served ");
    let clients = "reach this one now: cursor, scripts; `stile token list` shows their tokens";
    assert_eq!(told, clients);
    drop(server);
    let (output, error, code) = before(&["connect", "vscode", "--write"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(output.contains(&format!("In {}, ", newcomer.rig.root.display())), "{output}");
    let (_, error, _) = before(&["token", "--scope", "read:/"]);
    assert!(!error.contains("served first"), "{error}");
}

#[test]
fn a_mistyped_command_is_told_the_nearest_one_first() {
    let newcomer = Newcomer::new();
    for (typed, meant) in [("serv", "'serve'"), ("versio", "'version'"), ("conect", "'connect'")] {
        let (_, error, code) = said(newcomer.rig.command(&[typed]).output().unwrap());
        let first = error.split("exist").nth(1).and_then(|rest| rest.split(' ').nth(1));
        let first = first.unwrap().trim_end().trim_end_matches(',');
        let first = first.lines().next().unwrap();
        assert_eq!((first, code), (meant, Some(2)), "{error}");
    }
}

/// A small file system, which only the administrator of the machine can mount.
#[cfg(target_os = "linux")]
struct SmallDisk<'a>(&'a Path);

#[cfg(target_os = "linux")]
impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs"]).arg(at);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }

    fn fill(&self) {
        use std::io::Write as _;

        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        for size in [65_536, 4_096, 512, 1] {
            while filler.write_all(&vec![7; size]).is_ok() {}
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_by_commands_that_fail_on_it_and_by_the_doctor() {
    let newcomer = Newcomer::new();
    std::fs::create_dir_all(&newcomer.rig.state).unwrap();
    let Some(disk) = SmallDisk::mount(&newcomer.rig.state) else {
        return eprintln!("skipped: this user cannot mount a small disk");
    };
    let root = newcomer.rig.root.to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| {
        let mut command = newcomer.command(&newcomer.rig.root, arguments);
        command.args(["--root", &root]).env("STILE_LISTEN", "127.0.0.1:1");
        said(command.output().unwrap())
    };
    let mint = ["token", "--scope", "read:/"];
    assert_eq!(run(&mint).2, Some(0));
    let rows = newcomer.rig.home().join("rows.jsonl");
    std::fs::write(&rows, "{\"id\":\"a\"}\n").unwrap();
    let names = ["--connection", "c", "--stream", "s", "--key", "id"];
    let import = [&["import", rows.to_str().unwrap()][..], &names].concat();
    let imported = newcomer.run(&newcomer.rig.root, &import);
    assert_eq!(imported.2, Some(0), "{imported:?}");
    disk.fill();
    for arguments in [&mint[..], &["connect", "cursor", "--write"]] {
        let (_, error, code) = run(arguments);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("the disk of the state folder is full: make room"), "{error}");
    }
    let (told, ..) = run(&["doctor"]);
    assert!(told.contains("the disk of the state folder is full: make room on it"), "{told}");
    for alarm in ["look who could write", "from a backup", "do as the message says"] {
        assert!(!told.contains(alarm), "{alarm}: {told}");
    }
}

#[test]
fn a_token_that_a_server_with_a_provider_alone_refuses_is_warned_of() {
    let newcomer = Newcomer::new();
    let root = newcomer.rig.root.clone();
    let mint = ["token", "--scope", "read:/"];
    let warns = |environment: &[(&str, &str)]| {
        let mut command = newcomer.command(&root, &mint);
        let (token, error, code) =
            said(command.envs(environment.iter().copied()).output().unwrap());
        assert!(code == Some(0) && token.starts_with("eyJ"), "{error}");
        error.contains("takes this token only if it has --sign-in-client too")
    };
    let issuer = ("STILE_ISSUER", "https://id.example");
    assert!(!warns(&[]));
    assert!(warns(&[issuer]));
    assert!(!warns(&[issuer, ("STILE_SIGN_IN_CLIENT", "stile")]));
}

#[test]
fn a_history_that_nothing_can_be_in_says_so() {
    let newcomer = Newcomer::new();
    for arguments in [&["history"][..], &["undo", "--since", "5h"]] {
        let (output, error, code) = newcomer.run(&newcomer.rig.home(), arguments);
        assert_eq!((output.as_str(), code), ("", Some(2)), "{error}");
        assert!(error.contains("no folder was served with this state yet"), "{error}");
        assert!(error.contains("`stile serve FOLDER`"), "{error}");
    }
}

#[test]
fn a_backup_to_a_folder_that_is_not_there_names_the_folder() {
    let newcomer = Newcomer::new();
    newcomer.run(&newcomer.rig.root, &["token", "list"]);
    let to = newcomer.rig.state.with_file_name("none").join("state.tar");
    let (_, error, code) = newcomer.run(&newcomer.rig.root, &["backup", to.to_str().unwrap()]);
    let said = format!("error: cannot find the folder {}: ", to.parent().unwrap().display());
    assert!(error.starts_with(&said) && code == Some(1), "{error}");
}

#[test]
fn a_name_that_a_command_would_take_for_a_flag_is_refused() {
    let newcomer = Newcomer::new();
    let root = newcomer.rig.root.clone();
    let space = root.to_str().unwrap();
    for arguments in [
        &["token", "--scope", "read:/", "--client=--all"][..],
        &["client", "add", "--name=-x", "--redirect", "https://a.example/cb"],
        &["stdio", space, "--client=--write"],
        &["connect", "cursor", "--name=-x"],
    ] {
        let (output, error, code) = newcomer.run(&root, arguments);
        assert_eq!((output.as_str(), code), ("", Some(2)), "{arguments:?}: {error}");
        assert!(error.contains("begins with"), "{arguments:?}: {error}");
    }
    let (tokens, ..) = newcomer.run(&root, &["token", "list", "--json"]);
    assert_eq!(tokens.trim(), "[]");
}

#[test]
fn a_client_is_named_as_people_write_it_and_a_hosted_one_gets_an_address() {
    let newcomer = Newcomer::new();
    let root = newcomer.rig.root.clone();
    for typed in ["cursor", "Cursor", "CURSOR"] {
        let (shown, error, code) = newcomer.run(&root, &["connect", typed]);
        assert!(shown.starts_with("Cursor keeps its servers in "), "{shown}{error}");
        assert_eq!(code, Some(0));
    }
    let (shown, ..) = newcomer.run(&root, &["connect", "Claude Code"]);
    assert!(shown.starts_with("Claude Code keeps its servers in "), "{shown}");
    let (told, ..) = newcomer.run(&root, &["connect", "ChatGPT"]);
    assert!(
        told.contains("http://127.0.0.1:9999/mcp is an address of this machine alone"),
        "{told}"
    );
    let public = ["connect", "chatgpt", "--public-url", "https://notes.example.org"];
    let (told, ..) = newcomer.run(&root, &public);
    assert!(told.contains("\n  https://notes.example.org/mcp\n"), "{told}");
    assert!(told.contains("`stile doctor --public https://notes.example.org`"), "{told}");
    let scoped = ["connect", "cursor", "--scope", "read:/nots/", "--root", root.to_str().unwrap()];
    let (_, note, _) = newcomer.run(&root, &scoped);
    assert!(note.contains("nothing is at `/nots` now"), "{note}");
}

#[test]
fn the_program_says_how_it_is_updated_and_what_it_is() {
    let newcomer = Newcomer::new();
    let (told, _, code) = said(newcomer.rig.command(&["update"]).output().unwrap());
    assert!(told.contains("git pull && cargo build --release"), "{told}");
    assert_eq!(code, Some(0));
    let version = said(newcomer.rig.command(&["version"]).output().unwrap());
    assert_eq!(version, said(newcomer.rig.command(&["--version"]).output().unwrap()));
    let help = said(newcomer.rig.command(&["help", "token", "list"]).output().unwrap());
    assert_eq!(help, said(newcomer.rig.command(&["token", "list", "--help"]).output().unwrap()));
    let (steps, _, code) = said(newcomer.rig.command(&[]).output().unwrap());
    assert!(steps.starts_with("stile serve ") && steps.lines().count() == 5, "{steps}");
    assert_eq!(code, Some(0));
}

/// Returns whether a process catches an interruption.
#[cfg(target_os = "linux")]
fn catches_interruptions(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
    // SIGINT is the signal 2, and the first bit stands for the signal 1.
    caught.is_some_and(|caught| caught & 2 != 0)
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_import_says_what_is_stored_and_how_to_go_on() {
    let newcomer = Newcomer::new();
    let rows = newcomer.rig.root.join("rows.jsonl");
    std::fs::write(&rows, "{\"id\":1}\n").unwrap();
    let line = ["import", rows.to_str().unwrap(), "--connection", "c", "--stream", "s"];
    let (_, error, code) = newcomer.run(&newcomer.rig.root, &line);
    assert_eq!(code, Some(0), "{error}");

    // A writer that does not end keeps the import waiting.
    let database = rusqlite::Connection::open(newcomer.rig.state.join("records.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::fs::write(&rows, "{\"id\":2}\n").unwrap();
    let mut import = newcomer.command(&newcomer.rig.root, &line);
    let mut import = import.stderr(Stdio::piped()).spawn().unwrap();
    while !catches_interruptions(import.id()) {
        assert!(import.try_wait().unwrap().is_none(), "the import ended");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&import);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (_, error, code) = said(import.wait_with_output().unwrap());
    assert!(error.contains("Nothing was stored. Run the same command again to go on"), "{error}");
    assert_eq!(code, Some(130));
    drop(database);
    let (stored, error, _) = newcomer.run(&newcomer.rig.root, &line);
    assert!(stored.starts_with("added 1,"), "{stored}{error}");
}

#[test]
fn times_are_those_of_the_place_unless_utc_is_asked_for() {
    let newcomer = Newcomer::new();
    newcomer.run(&newcomer.rig.root, &["token", "--scope", "read:/"]);
    let listed = |flags: &[&str]| {
        let arguments = [&["token", "list"], flags].concat();
        let mut command = newcomer.command(&newcomer.rig.root, &arguments);
        said(command.env("TZ", "Asia/Kathmandu").output().unwrap()).0
    };
    let minutes = |listed: &str| {
        let time = listed.lines().nth(1).unwrap().split_whitespace().nth(5).unwrap().to_owned();
        let (hours, minutes) = time.split_once(':').unwrap();
        hours.parse::<u32>().unwrap() * 60 + minutes.parse::<u32>().unwrap()
    };
    let (here, utc) = (listed(&[]), listed(&["--utc"]));
    assert!(here.contains("  MINTED  ") && utc.contains("  MINTED (UTC)  "), "{here}{utc}");
    // Kathmandu is ahead of UTC by 5 hours and 45 minutes, all the year.
    let day = 24 * 60;
    assert_eq!((minutes(&here) + day - minutes(&utc)) % day, 5 * 60 + 45, "{here}{utc}");
}

/// A search at the terminal speaks to a person: it names flags and folders, and no tool, and it
/// shows nothing that is guarded.
#[test]
fn a_search_at_the_terminal_speaks_to_a_person() {
    let newcomer = Newcomer::new();
    let home = newcomer.rig.home();
    let ask = |arguments: &[&str]| {
        let mut all = vec!["search"];
        all.extend(arguments);
        let mut command = newcomer.rig.command(&all);
        said(command.current_dir(&home).output().unwrap())
    };
    let state = newcomer.rig.state.to_str().unwrap();
    let (_, error, code) = ask(&["--state", state, "--root", "/nonexistent/notes", "stopcock"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("there is no folder /nonexistent/notes. Name the folder"), "{error}");
    let root = newcomer.rig.root.to_str().unwrap();
    std::fs::write(newcomer.rig.root.join(".env"), "stopcock=1").unwrap();
    std::fs::write(newcomer.rig.root.join("id_rsa"), "stopcock").unwrap();
    std::fs::write(newcomer.rig.root.join("cellar.md"), "the stopcock").unwrap();
    let here = ["--state", state, "--root", root];
    for (arguments, says) in [
        (&["--in", "/nope", "stopcock"][..], "--in: there is no /nope in "),
        (&["--since", "soon", "stopcock"], "--since: `soon` is neither a date"),
        (&["--limit", "0", "stopcock"], "--limit must be a number from 1 to 50"),
        (&[""], "the question has no word to look for"),
        (&["-cellar"], "the question has no word to look for"),
    ] {
        let (output, error, code) = ask(&[&here[..], arguments].concat());
        assert!(output.is_empty() && code != Some(0), "{output}");
        assert!(error.contains(says), "{error}");
        for word in ["file.", "file_", "argument", "`q`", "modified_after", "Nothing was read"] {
            assert!(!error.contains(word), "{word}: {error}");
        }
    }
    let (output, error, code) = ask(&[&here[..], &["stopcock"]].concat());
    assert_eq!((code, error.as_str()), (Some(0), ""), "{output}");
    assert!(output.contains("/cellar.md") && output.contains("1 file has any"), "{output}");
    assert!(output.contains("2 guarded files were not looked into"), "{output}");
    assert!(!output.contains("id_rsa") && !output.contains("=1"), "{output}");
}
