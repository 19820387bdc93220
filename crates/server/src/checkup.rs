//! Checks of the state of this server, with what to do about each: for `stile doctor` and the
//! owner's page.

use std::io;
use std::path::Path;

use stile_domain::byte_size::size;
use stile_domain::records::instant::Instant;
use stile_store::journal;
use stile_store::postgresql::Database;
use stile_store::probe;
use stile_store::state::{StateDir, StateError, TokenRecord, reserve};
use stile_store::state_backup::{self, RestoredState};

/// The room without which a change of a larger file may fail, in bytes.
const LITTLE_ROOM: u64 = 64 << 20;
/// The room below which a person should know, in bytes.
const ROOM_TO_NOTE: u64 = 1 << 30;
/// What an owner does about errors of a state whose disk is full.
pub const MAKE_ROOM: &str =
    "the disk of the state folder is full: make room on it, and run this again";
/// Midnight of 1 January 2026, before which no version of this program existed.
const FIRST_SECOND: i64 = 1_767_225_600;
/// How much of the journal is verified, in bytes: some 300,000 lines, in less than a second.
const CHAIN_BYTES: u64 = 128 << 20;
/// How many seconds two clocks may differ.
const CLOCK_STEP: i64 = 120;

/// What a check found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingGrade {
    /// Something that is as it should be.
    Good,
    /// Something that works now and may not later, or that nobody needs yet.
    Warning,
    /// Something that does not work.
    Bad,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked, in one or two words.
    pub step: String,
    /// Whether it is as it should be.
    pub outcome: FindingGrade,
    /// What is true of it now.
    pub detail: String,
    /// The next step for the person; `None` if the check passed.
    pub mend: Option<String>,
}

impl Finding {
    /// Reports what is as it should be.
    pub fn good(step: &str, detail: impl Into<String>) -> Self {
        Self {
            step: step.to_owned(),
            outcome: FindingGrade::Good,
            detail: detail.into(),
            mend: None,
        }
    }

    /// Reports what works now, and what would mend it.
    pub fn warning(step: &str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { outcome: FindingGrade::Warning, mend: Some(mend.into()), ..Self::good(step, detail) }
    }

    /// Reports what does not work, and what would mend it.
    pub fn bad(step: &str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { outcome: FindingGrade::Bad, mend: Some(mend.into()), ..Self::good(step, detail) }
    }
}

/// Reports an error of the state.
pub fn failed(step: &str, error: &StateError) -> Finding {
    Finding::bad(step, error.to_string(), "do as the message says")
}

/// Reports an error of a state whose disk may be full.
fn failed_on_disk(step: &str, error: &StateError, state: &StateDir) -> Finding {
    match reserve::is_disk_full(state) {
        true => Finding::bad(step, error.to_string(), MAKE_ROOM),
        false => failed(step, error),
    }
}

/// Checks a folder and the room on its disk.
pub fn folder(step: &str, shown: &str, path: &Path) -> Finding {
    let found = match probe::folder(path) {
        Err(error) => {
            let mend = "give yourself the right to read it, or name another folder";
            return Finding::bad(step, format!("{shown} cannot be read: {error}"), mend);
        }
        Ok(found) => found,
    };
    let free = found.free_bytes.map(size);
    let room = free.map_or_else(String::new, |free| format!(", {free} free"));
    if !found.is_writable {
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
    }
}

/// Checks the list of tokens, and the clock by what was written under it before.
pub fn tokens(
    tokens: Result<Vec<TokenRecord>, StateError>,
    state: &StateDir,
    now: i64,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    match tokens {
        Err(error) => findings.push(failed_on_disk("tokens", &error, state)),
        Ok(tokens) => {
            let live = tokens.iter().filter(|token| token.revoked.is_none() && token.expires > now);
            let detail = format!("{} made, {} of them valid", tokens.len(), live.count());
            findings.push(Finding::good("tokens", detail));
            findings.push(clock(&tokens, now));
        }
    }
    findings
}

/// Checks that a database on PostgreSQL answers and takes writes, and that it and this machine show
/// the same time.
pub fn database(database: &Database) -> Vec<Finding> {
    const STEP: &str = "database";
    let condition = match database.look() {
        Err(error) => {
            return vec![Finding::bad(STEP, error.to_string(), "do as the message says")];
        }
        Ok(condition) => condition,
    };
    let writes = match condition.writes.refusal() {
        None => Finding::good(STEP, "answers"),
        Some(reason) => Finding::warning(
            STEP,
            reason,
            "servers answer reads, and 503 to what writes, until the database takes writes again",
        ),
    };
    let clocks = match (condition.clock_fault(), condition.ahead_milliseconds) {
        (Some(fault), _) => Finding::bad(
            "clocks",
            fault,
            "set the clock of this machine, or that of the database; the database's counts, and a \
             server here is not ready until both agree",
        ),
        (None, Some(_)) => Finding::good("clocks", "this machine and the database agree"),
        (None, None) => Finding::warning(
            "clocks",
            "the database answered too slowly to compare them",
            "run this again when the database has less to do",
        ),
    };
    vec![writes, clocks]
}

/// Checks that the journal can be written, and the chain of its newest lines.
pub fn journal(state: &StateDir) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = state.path().join("journal");
    match probe::folder(&folder) {
        Ok(found) if found.is_writable => {
            findings.push(Finding::good("journal", "can be written"));
            findings.push(chain(state));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mend = "the first command that needs it makes it";
            let chain = chain(state);
            findings.push(match chain.outcome {
                // What knows of the lines is left, and the lines are gone.
                FindingGrade::Bad => chain,
                _ => Finding::warning("journal", "there is none yet", mend),
            });
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
            // Nobody changed the journal of a disk that has no room to look at it.
            let mend = if reserve::is_disk_full(state) { MAKE_ROOM } else { MEND };
            return Finding::bad(STEP, format!("the journal cannot be read: {error}"), mend);
        }
    };
    let unread = match found.unread {
        0 => String::new(),
        1 => "; 1 older file was not read".to_owned(),
        older => format!("; {older} older files were not read"),
    };
    let removed = match found.removed {
        0 => String::new(),
        1 => "; the owner removed 1 line".to_owned(),
        lines => format!("; the owner removed {lines} lines"),
    };
    match found.faults.len() {
        0 => {
            let whole = match found.lines {
                1 => "1 line is as it was written".to_owned(),
                lines => format!("{lines} lines are as they were written"),
            };
            Finding::good(STEP, whole + &removed + &unread)
        }
        1 => Finding::bad(STEP, format!("the journal was changed in one place{unread}"), MEND),
        many => {
            Finding::bad(STEP, format!("the journal was changed in {many} places{unread}"), MEND)
        }
    }
}

/// A backup that is older is worth a look, in seconds.
const OLD_BACKUP: i64 = 30 * 86_400;

/// Returns whether a backup was made so long ago that the owner should make another.
pub fn is_old_backup(made: Instant, now: i64) -> bool {
    now.saturating_sub(made.seconds()) > OLD_BACKUP
}

/// Says when the state was copied last.
pub fn backup(state: &StateDir, now: i64) -> Finding {
    const STEP: &str = "backup";
    const MEND: &str = "make one, and copy it to another disk";
    let Some(made) = state_backup::last(state) else {
        return Finding::warning(STEP, "none was made with this state", MEND);
    };
    let days = now.saturating_sub(made.seconds()).max(0) / 86_400;
    let detail = match days {
        0 => "the last was made in the last 24 hours".to_owned(),
        1 => "the last was made a day ago".to_owned(),
        days => format!("the last was made {days} days ago"),
    };
    match is_old_backup(made, now) {
        true => Finding::warning(STEP, detail, MEND),
        false => Finding::good(STEP, detail),
    }
}

/// How long after a restore the owner is told what it means, in seconds: seven days.
const RESTORED_LATELY: i64 = 7 * 86_400;

/// Says that the state was brought back from an archive a few days ago; `None` if it was not. What
/// the owner ended after the archive was made is valid again.
pub fn restored(state: &StateDir, now: i64) -> Option<Finding> {
    let RestoredState { made, restored } = state_backup::last_restored(state)?;
    let ago = |at: Instant| now.saturating_sub(at.seconds()).max(0);
    let made = match ago(made) / 86_400 {
        0 => "in the last 24 hours".to_owned(),
        1 => "a day ago".to_owned(),
        days => format!("{days} days ago"),
    };
    let detail = format!(
        "the state was brought back from a backup that was made {made}, so what you ended after \
         that is valid again"
    );
    let mend = "look at all clients and tokens, and end again what you ended";
    (ago(restored) <= RESTORED_LATELY).then(|| Finding::warning("restore", detail, mend))
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

#[cfg(test)]
mod tests {
    use stile_domain::journal::JournalLine;
    use stile_store::state::TokenKind;

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
            (now - 5, now, FindingGrade::Good),
            (now + 60, now, FindingGrade::Good),
            (now + 3600, now, FindingGrade::Bad),
            (5, 5, FindingGrade::Bad),
        ] {
            assert_eq!(clock(&[token(issued)], now).outcome, outcome, "{issued} {now}");
        }
        assert_eq!(clock(&[], now).outcome, FindingGrade::Good);
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
        assert_eq!(found.outcome, FindingGrade::Bad);
        assert_eq!(found.detail, "the journal was changed in one place");
        assert!(found.mend.unwrap().contains("stile audit verify"));
    }

    #[test]
    fn a_journal_that_was_removed_as_a_whole_is_found_and_a_removal_by_the_owner_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let finding = || super::journal(&state).pop().unwrap();
        assert_eq!(finding().outcome, FindingGrade::Warning);
        let journal = journal::Journal::open(&state).unwrap();
        for subject in ["ann", "bob"] {
            let subject = Some(subject.to_owned());
            journal.append(JournalLine { subject, ..JournalLine::default() }).unwrap();
        }
        drop(journal);
        let is_ann = |line: &JournalLine| line.subject.as_deref() == Some("ann");
        journal::JournalPlace::new(state.clone(), None).remove(&is_ann).unwrap();
        assert_eq!(finding().detail, "1 line is as it was written; the owner removed 1 line");
        std::fs::remove_dir_all(folder.path().join("journal")).unwrap();
        assert_eq!(finding().outcome, FindingGrade::Bad);
        std::fs::remove_file(folder.path().join("journal.db")).unwrap();
        assert_eq!(finding().outcome, FindingGrade::Bad);
    }
}
