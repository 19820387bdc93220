//! Checks this machine: the folders, the disk, the clock, the port, the databases and the journal.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use clap::ArgMatches;
use stile_store::journal;
use stile_store::probe;
use stile_store::state::{RunningServer, StateDir, StateError, TokenRecord, check_disjoint};

use super::Finding;
use crate::cli::home::Home;
use crate::cli::{Failure, owner};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::declarations::ROOT;
use crate::config::{Environment, Resolved, Source};

/// The room without which a change of a larger file may fail, in bytes.
const LITTLE_ROOM: u64 = 64 << 20;
/// The room below which a person should know, in bytes.
const ROOM_TO_NOTE: u64 = 1 << 30;
/// Midnight of 1 January 2026, before which no version of this program existed.
const FIRST_SECOND: i64 = 1_767_225_600;
/// How much of the journal is verified, in bytes: some 300,000 lines, in less than a second.
const CHAIN_BYTES: u64 = 128 << 20;
/// How many seconds two clocks may differ.
const CLOCK_STEP: i64 = 120;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn check(
    matches: &ArgMatches,
    environment: Environment<'_>,
    resolved: &Resolved,
    server: Option<&RunningServer>,
) -> Result<Vec<Finding>, Failure> {
    let config = &resolved.config;
    let mut findings = vec![root(resolved)];
    if let Err(error) = check_disjoint(&config.root, &config.state) {
        findings.push(Finding::bad("folders", error.to_string(), "name other folders"));
    }
    match StateDir::open_existing(&config.state) {
        Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            findings.push(Finding::warning(
                "state",
                format!("there is no state folder {}", config.state.display()),
                "`stile serve` makes it",
            ));
        }
        Err(error) => findings.push(failed("state", &error)),
        Ok(state) => {
            findings.extend(folder("state", &state.path().display().to_string(), state.path()));
            match Home::with(state, config) {
                Err(error) => findings.push(failed("database", &error)),
                Ok(home) => {
                    if home.database().is_some() {
                        findings.push(Finding::good("database", "answers"));
                    }
                    findings.extend(state_files(&home));
                    if home.has_records() {
                        findings.push(records(matches, environment));
                    }
                }
            }
        }
    }
    findings.push(match server {
        Some(RunningServer { origin, root, .. }) => {
            Finding::good("port", format!("{} is served at {origin}", root.display()))
        }
        None => port(config.listen),
    });
    Ok(findings)
}

fn failed(step: &str, error: &StateError) -> Finding {
    Finding::bad(step, error.to_string(), "do as the message says")
}

fn root(resolved: &Resolved) -> Finding {
    let root = &resolved.config.root;
    let shown = root.display().to_string();
    match probe::folder(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if *resolved.source(&ROOT) == Source::Default {
                Finding::warning("root", format!("there is no {shown}"), "`stile serve` makes it")
            } else {
                Finding::bad("root", format!("there is no {shown}"), "make it, or name another")
            }
        }
        _ => folder("root", &shown, root).pop().unwrap_or_else(|| Finding::good("root", shown)),
    }
}

/// Checks a folder and the room on its disk. The last finding is about the folder itself.
fn folder(step: &str, shown: &str, path: &std::path::Path) -> Vec<Finding> {
    let found = match probe::folder(path) {
        Err(error) => {
            let mend = "give yourself the right to read it, or name another folder";
            return vec![Finding::bad(step, format!("{shown} cannot be read: {error}"), mend)];
        }
        Ok(found) => found,
    };
    let megabytes = found.free_bytes.map(|bytes| bytes >> 20);
    let room = megabytes.map_or_else(String::new, |free| format!(", {free} MiB free"));
    let finding = if !found.is_writable {
        let mend = "agents can read it and change nothing; give yourself the right to write";
        Finding::warning(step, format!("{shown} cannot be written to"), mend)
    } else {
        let detail = format!("{shown}{room}");
        match found.free_bytes {
            Some(free) if free < LITTLE_ROOM => {
                Finding::bad(step, detail, "make room on the disk; changes may be refused")
            }
            Some(free) if free < ROOM_TO_NOTE => {
                Finding::warning(step, detail, "make room on the disk")
            }
            _ => Finding::good(step, detail),
        }
    };
    vec![finding]
}

/// Checks the key, the tokens, the clock and the journal.
fn state_files(home: &Home) -> Vec<Finding> {
    let mut findings = Vec::new();
    match home.existing_key() {
        Ok(_) => findings.push(Finding::good("key", "signs tokens")),
        Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            findings.push(Finding::warning("key", "there is none yet", "`stile serve` makes it"));
        }
        Err(error) => findings.push(failed("key", &error)),
    }
    let tokens = home.tokens().and_then(|tokens| tokens.list());
    let now = unix_seconds(wall_clock());
    match tokens {
        Err(error) => findings.push(failed("tokens", &error)),
        Ok(tokens) => {
            let live = tokens.iter().filter(|token| token.revoked.is_none() && token.expires > now);
            let detail = format!("{} made, {} of them valid", tokens.len(), live.count());
            findings.push(Finding::good("tokens", detail));
            findings.push(clock(&tokens, now));
        }
    }
    let state = home.state();
    let folder = state.path().join("journal");
    match probe::folder(&folder) {
        Ok(found) if found.is_writable => {
            findings.push(Finding::good("journal", "can be written"));
            findings.push(chain(state));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mend = "the first command that needs it makes it";
            findings.push(Finding::warning("journal", "there is none yet", mend));
        }
        Ok(_) | Err(_) => findings.push(Finding::bad(
            "journal",
            "cannot be written, so every change is refused",
            "give the folder `journal` in the state folder back to yourself (chown, chmod 700)",
        )),
    }
    findings
}

/// Verifies the chain of the newest lines of the journal.
fn chain(state: &StateDir) -> Finding {
    const STEP: &str = "chain";
    const MEND: &str = "run `stile audit verify`, which says what was changed where; lines before \
                        it are as they were written, so look who could write in the state folder";
    let found = match journal::verify_newest(state, CHAIN_BYTES) {
        Ok(found) => found,
        Err(error) => {
            return Finding::bad(STEP, format!("the journal cannot be read: {error}"), MEND);
        }
    };
    let unread = match found.unread {
        0 => String::new(),
        1 => "; 1 older file was not read".to_owned(),
        older => format!("; {older} older files were not read"),
    };
    match found.faults.len() {
        0 => Finding::good(STEP, format!("{} lines are as they were written{unread}", found.lines)),
        1 => Finding::bad(STEP, format!("the journal was changed in one place{unread}"), MEND),
        many => {
            Finding::bad(STEP, format!("the journal was changed in {many} places{unread}"), MEND)
        }
    }
}

/// Compares the clock with what was written under it before.
fn clock(tokens: &[TokenRecord], now: i64) -> Finding {
    let newest = tokens.iter().map(|token| token.issued).max().unwrap_or(now);
    if now < FIRST_SECOND {
        Finding::bad("clock", "shows a year before 2026", "set the clock of this machine")
    } else if newest > now + CLOCK_STEP {
        let minutes = (newest - now) / 60;
        Finding::bad(
            "clock",
            format!("was set back: the newest token was made {minutes} minutes from now"),
            "set the clock of this machine; new tokens are refused until then",
        )
    } else {
        Finding::good("clock", "goes forward")
    }
}

fn records(matches: &ArgMatches, environment: Environment<'_>) -> Finding {
    let opened = owner::open(matches, environment);
    let checked = opened.and_then(|owner| {
        if matches.get_flag("deep") {
            owner.services.check_database(&owner.caller)?;
        }
        Ok(())
    });
    match checked {
        Ok(()) if matches.get_flag("deep") => Finding::good("records", "every page is whole"),
        Ok(()) => Finding::good("records", "open; `--deep` checks every page"),
        Err(failure) => Finding::bad(
            "records",
            failure.report().0.trim().trim_start_matches("error: "),
            "restore the state from a backup: `stile restore-backup`",
        ),
    }
}

/// Returns whether something accepts connections there.
fn is_listening(listen: SocketAddr) -> bool {
    let mut address = listen;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()
}

fn port(listen: SocketAddr) -> Finding {
    if is_listening(listen) {
        return Finding::warning(
            "port",
            format!("another program listens on {listen}, or a server with another state"),
            "name that state with --state; or stop the program, or choose another port with \
             --listen",
        );
    }
    match TcpListener::bind(listen) {
        Ok(_) => Finding::warning(
            "port",
            format!("nothing listens on {listen}"),
            "start `stile serve`, or keep it running with `stile service install`",
        ),
        Err(error) => Finding::bad(
            "port",
            format!("this user cannot listen on {listen}: {error}"),
            "choose another address with --listen",
        ),
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::journal::JournalLine;
    use stile_store::state::TokenKind;

    use super::super::Outcome;
    use super::*;

    fn token(issued: i64) -> TokenRecord {
        TokenRecord {
            jti: String::new(),
            audience: None,
            kind: TokenKind::Bearer,
            subject: String::new(),
            client: None,
            grant: None,
            owner: false,
            scopes: String::new(),
            issued,
            expires: issued + 1,
            revoked: None,
        }
    }

    #[test]
    fn a_clock_that_was_set_back_is_found() {
        let now = 1_800_000_000;
        for (issued, now, outcome) in [
            (now - 5, now, Outcome::Good),
            (now + 60, now, Outcome::Good),
            (now + 3600, now, Outcome::Bad),
            (5, 5, Outcome::Bad),
        ] {
            assert_eq!(clock(&[token(issued)], now).outcome, outcome, "{issued} {now}");
        }
        assert_eq!(clock(&[], now).outcome, Outcome::Good);
    }

    #[test]
    fn an_altered_line_of_the_journal_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        assert_eq!(chain(&state).detail, "0 lines are as they were written");
        let journal = journal::Journal::open(&state).unwrap();
        for tool in ["text.read", "text.edit"] {
            let tool = tool.to_owned();
            journal.append(JournalLine { tool, ..JournalLine::default() }).unwrap();
        }
        drop(journal);
        assert_eq!(chain(&state).detail, "2 lines are as they were written");
        let files = std::fs::read_dir(folder.path().join("journal")).unwrap();
        let file = files.last().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("text.edit", "text.read")).unwrap();
        let found = chain(&state);
        assert_eq!(found.outcome, Outcome::Bad);
        assert_eq!(found.detail, "the journal was changed in one place");
        assert!(found.mend.unwrap().contains("stile audit verify"));
    }

    #[test]
    fn a_free_port_and_a_used_one_are_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(port(address).detail.contains("another program listens"));
        drop(taken);
        assert_eq!(port(address).outcome, Outcome::Warning);
        assert_eq!(port("192.0.2.1:9".parse().unwrap()).outcome, Outcome::Bad);
    }
}
