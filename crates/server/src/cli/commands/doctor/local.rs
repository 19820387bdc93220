//! Checks this machine: the folders, the disk, the clock, the port, the databases and the journal.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use stile_store::postgresql::Database;
use stile_store::probe;
use stile_store::records::{Records, RecordsError};
use stile_store::state::{RunningServer, StateDir, StateError, check_disjoint, reserve};

use crate::checkup::{self, Finding, failed, folder};
use crate::cli::compose::{Home, open_people, owner};
use crate::cli::failure::Failure;
use crate::clock::{self, unix_seconds, wall_clock};
use crate::config::declarations::ROOT;
use crate::config::{Environment, Resolved, Source};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The step that checks records.
const RECORDS: &str = "records";

pub(super) fn check(
    matches: &ArgMatches,
    environment: Environment<'_>,
    resolved: &Resolved,
    server: Option<&RunningServer>,
    roots: &[PathBuf],
) -> Result<Vec<Finding>, Failure> {
    let config = &resolved.config;
    let mut findings = vec![root(resolved, roots)];
    if let Err(error) = check_disjoint(&config.root, &config.state) {
        findings.push(Finding::bad("folders", error.to_string(), "name other folders"));
    }
    match StateDir::open_existing(&config.state) {
        Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            findings.push(no_state(&config.state));
        }
        Err(error) => findings.push(failed("state", &error)),
        Ok(state) => {
            findings.push(folder("state", &state.path().display().to_string(), state.path()));
            match Home::with(state, config) {
                Err(error) => findings.push(failed("database", &error)),
                Ok(home) => {
                    if let Some(database) = home.database() {
                        findings.extend(checkup::database(database));
                    }
                    findings.extend(state_files(&home));
                    findings.extend(role(&home));
                    findings.extend(people_folders(&home, resolved));
                    if home.has_records() {
                        findings.push(records(&home, matches, environment));
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

/// Reports that the state folder is missing: a warning where `stile serve` can make it, and a
/// failure where this user may not write to the folder above it.
fn no_state(state: &Path) -> Finding {
    let (shown, state) = (state.display(), std::path::absolute(state).unwrap_or_default());
    let above = state.ancestors().skip(1).find_map(|folder| probe::folder(folder).ok());
    match above {
        Some(above) if above.is_writable => Finding::warning(
            "state",
            format!("there is no state folder {shown}"),
            "`stile serve` makes it",
        ),
        _ => Finding::bad(
            "state",
            format!("there is no state folder {shown}, and it cannot be made there"),
            "name another with --state or STILE_STATE",
        ),
    }
}

/// Checks that servers connect to their database with a role of their own.
fn role(home: &Home) -> Option<Finding> {
    Some(match home.database()?.role() {
        Err(error) => Finding::bad("role", error.to_string(), "see the check of the database"),
        Ok(role) => match role.caution() {
            None => Finding::good("role", "reads and writes rows, and changes no table"),
            Some(caution) => Finding::warning("role", caution, "docs/deployment.md shows how"),
        },
    })
}

/// Checks that the files of people are in the folders that were served.
fn people_folders(home: &Home, resolved: &Resolved) -> Vec<Finding> {
    const STEP: &str = "people";
    const MEND: &str = "`stile person list` says who each is; do as the message says";
    let (Some(database), Some(spaces)) = (home.database(), &resolved.config.spaces) else {
        return Vec::new();
    };
    match open_people::other_folders(database, spaces) {
        Err(failure) => vec![Finding::bad(STEP, said(&failure), "do as the message says")],
        Ok(found) if found.is_empty() => {
            vec![Finding::good(STEP, "have the folders that were served")]
        }
        Ok(found) => found.into_iter().map(|it| Finding::bad(STEP, it, MEND)).collect(),
    }
}

/// Checks the folder that is served, where `roots` are those that may be meant by a command that
/// names none.
fn root(resolved: &Resolved, roots: &[PathBuf]) -> Finding {
    let root = &resolved.config.root;
    let shown = root.display().to_string();
    if !roots.is_empty() {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        return Finding::warning(
            "root",
            format!("several folders were served, and none is now: {}", roots.join(", ")),
            "start `stile serve` with one of them, or name one with `--root`",
        );
    }
    match probe::folder(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if *resolved.source(&ROOT) == Source::Default {
                Finding::warning("root", format!("there is no {shown}"), "`stile serve` makes it")
            } else {
                Finding::bad("root", format!("there is no {shown}"), "make it, or name another")
            }
        }
        _ => folder("root", &shown, root),
    }
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
    findings.extend(checkup::tokens(tokens, home.state(), unix_seconds(wall_clock())));
    findings.extend(checkup::journal(home.state()));
    findings.extend(checkup::restored(home.state(), unix_seconds(wall_clock())));
    findings
}

/// Checks the records: of the one owner, or of every tenant of the database.
fn records(home: &Home, matches: &ArgMatches, environment: Environment<'_>) -> Finding {
    let check = |records: Records| {
        let owner = owner::of_records(records, environment);
        if matches.get_flag("deep") {
            owner.services.check_database(&owner.caller)?;
        }
        Ok(())
    };
    let now = clock::now();
    let checked = match home.database() {
        None => match Records::open(home.state(), now) {
            Err(busy @ RecordsError::Busy) => {
                Err(Finding::warning(RECORDS, busy.to_string(), "run this again after that"))
            }
            opened => opened.map_err(Failure::from).and_then(check).map_err(|failure| {
                let mend = match reserve::is_disk_full(home.state()) {
                    true => checkup::MAKE_ROOM,
                    false => "restore the state from a backup: `stile restore-backup`",
                };
                Finding::bad(RECORDS, said(&failure), mend)
            }),
        },
        Some(database) => each_tenant(home, database, &|records| check(records)),
    };
    match checked {
        Ok(()) if matches.get_flag("deep") => Finding::good(RECORDS, "every page is whole"),
        Ok(()) => Finding::good(RECORDS, "open; `--deep` checks every page"),
        Err(finding) => finding,
    }
}

/// Checks the records of each tenant, whatever is wrong with those of another one.
fn each_tenant(
    home: &Home,
    database: &Database,
    check: &dyn Fn(Records) -> Result<(), Failure>,
) -> Result<(), Finding> {
    const MEND: &str = "restore the database from a backup, as docs/deployment.md says; `stile \
                        person list` says who each is";
    let bad = |failure: &Failure| Finding::bad(RECORDS, said(failure), MEND);
    let tenants = database.tenants().map_err(|error| bad(&error.into()))?;
    let now = clock::now();
    let mut wrong = Vec::new();
    for tenant in &tenants {
        if let Err(failure) = home.records_of(tenant, now).and_then(check) {
            wrong.push(format!("{}: {}", tenant.id(), said(&failure)));
        }
    }
    match wrong.len() {
        0 => Ok(()),
        count => {
            let of = format!("{count} of {} have records that cannot be read", tenants.len());
            Err(Finding::bad(RECORDS, format!("{of}: {}", wrong.join("; ")), MEND))
        }
    }
}

/// Returns the words of a failure.
fn said(failure: &Failure) -> String {
    failure.report().0.trim().trim_start_matches("error: ").to_owned()
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
    use super::*;
    use crate::checkup::FindingGrade;

    #[test]
    fn a_free_port_and_a_used_one_are_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(port(address).detail.contains("another program listens"));
        drop(taken);
        assert_eq!(port(address).outcome, FindingGrade::Warning);
        assert_eq!(port("192.0.2.1:9".parse().unwrap()).outcome, FindingGrade::Bad);
    }
}
