//! `stile space adopt`: the owner says that a folder is the same space as an earlier one.
//!
//! A folder that came back from a backup, or that moved to another disk, is another folder to the
//! server, so tokens and history of the old folder do not count for it. Only the owner can know
//! better. The command shows both folders and what will open the new one, and changes something
//! only if the owner says so, by a flag or on the terminal.
//!
//! `of_person` does the same for the folder of a person, which the operator of several people
//! restored.

mod of_person;

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::Path;

use stile_store::history::{History, HistoryError};
use stile_store::state::{OldSpace, StateError, TokenStore, UnservedFolders, check_disjoint};

use crate::cli::compose::Home;
use crate::cli::failure::Failure;
use crate::cli::flags::text;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::local_time;
use crate::cli::terminal::unix_time::minute;
use crate::clock::{unix_seconds, wall_clock};

/// Runs a subcommand.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let Some(("adopt", matches)) = matches.subcommand() else { return Ok(()) };
    let resolved = settings(matches, environment)?;
    let home = Home::open_existing(&resolved.config)?;
    let folder = match (text(matches, "folder"), &resolved.config.person) {
        (Some(folder), None) => Path::new(folder),
        (None, Some(_)) => return of_person::adopt(&home, &resolved.config, (matches, output)),
        (Some(_), Some(_)) => {
            let why = "the folder of a person is in that of --spaces: name DIR or --person, and \
                       not both";
            return Err(Failure::Usage(why.to_owned()));
        }
        (None, None) => {
            let why = "name the folder, or with --person and --spaces whose folder it is";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    let tokens = home.tokens()?;
    check_disjoint(folder, &resolved.config.state)?;
    let old = choose(tokens.other_spaces(folder)?, text(matches, "from"))?;
    write_plan(&tokens, folder, &old, output)?;
    if !matches.get_flag("yes") && !asked(output)? {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return Ok(());
    }
    // A server knows its space by what it read at its start, whether or not it has a history.
    let Some(_unserved) = UnservedFolders::hold(home.state(), folder, &old)? else {
        return Err(HistoryError::InUse.into());
    };
    // The history comes first: after an interruption the command finds the old space again.
    History::adopt(home.state(), folder, &old)?;
    tokens.adopt(folder, &old, unix_seconds(wall_clock()))?;
    writeln!(output, "Done. Start the server with this folder.")?;
    Ok(())
}

/// Returns a space whose folder is not there any more although tokens or approvals for it are
/// valid, so that `folder` may be the same folder at another place; `None` if there is none.
pub(super) fn left_behind(
    tokens: &TokenStore,
    folder: &Path,
) -> Result<Option<OldSpace>, StateError> {
    let now = unix_seconds(wall_clock());
    let mut gone = tokens.other_spaces(folder)?;
    gone.retain(|space| !space.is_there);
    if gone.is_empty() {
        return Ok(None);
    }
    let of_tokens = tokens.list()?.into_iter();
    let of_tokens = of_tokens.filter(|it| it.revoked.is_none() && it.expires > now);
    let approvals = tokens.authorizations()?.into_iter();
    let approvals = approvals.filter(|it| it.ended.is_none() && it.expires > now);
    let live: BTreeSet<String> = of_tokens
        .filter_map(|token| token.audience)
        .chain(approvals.map(|approval| approval.audience))
        .collect();
    Ok(gone.into_iter().find(|space| live.contains(&space.audience)))
}

/// Returns the old space that the owner means.
fn choose(spaces: Vec<OldSpace>, from: Option<&str>) -> Result<OldSpace, Failure> {
    let means = |space: &OldSpace| match from {
        Some(from) => space.audience == from || space.path.as_deref() == Some(Path::new(from)),
        // A folder that is where it was served is another space, unless the owner names it.
        None => !space.is_there,
    };
    let (mut meant, others): (Vec<_>, Vec<_>) = spaces.into_iter().partition(means);
    match (meant.pop(), meant.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            let all = others.into_iter().chain(meant).chain(last);
            let lines: Vec<String> = all
                .map(|space| format!("  --from {}  {}", space.audience, folder_of(&space)))
                .collect();
            if lines.is_empty() {
                let none =
                    "no other folder was served with this state, so there is nothing to adopt";
                return Err(Failure::Failed(none.to_owned()));
            }
            let which = "name the space that the folder was before:";
            Err(Failure::Usage(format!("{which}\n{}", lines.join("\n"))))
        }
    }
}

/// Says where the folder of a space was, and whether it is there.
pub(super) fn folder_of(space: &OldSpace) -> String {
    match (&space.path, space.is_there) {
        (None, _) => "a folder whose path another folder has now".to_owned(),
        (Some(path), true) => format!("{} (is there)", path.display()),
        (Some(path), false) => format!("{} (is not there any more)", path.display()),
    }
}

/// Shows both folders, and what opens the new one.
fn write_plan(
    tokens: &TokenStore,
    folder: &Path,
    old: &OldSpace,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(output, "old folder: {}", folder_of(old))?;
    writeln!(output, "new folder: {}", folder.canonicalize()?.display())?;
    let given_up = tokens.audience_of(folder)?.filter(|own| *own != old.audience);
    let rights = Rights::of(tokens, &|audience, _| match audience {
        Some(audience) if audience == old.audience => Some(Side::Opens),
        Some(audience) if given_up.as_deref() == Some(audience) => Some(Side::Ends),
        _ => None,
    })?;
    rights.write(output)?;
    let left = "The old folder will be a space of its own, which they do not open.";
    writeln!(output, "{left}")?;
    Ok(())
}

/// What becomes of a token or an approval when a folder is adopted.
#[derive(Clone, Copy)]
enum Side {
    /// It opens the new folder.
    Opens,
    /// It was made for the new folder before that was adopted, and opens nothing any more.
    Ends,
}

/// The tokens and approvals that a plan names, each as a line.
#[derive(Default)]
struct Rights {
    open: Vec<String>,
    ended: Vec<String>,
    ending: Vec<String>,
}

impl Rights {
    /// Sorts all tokens and approvals. `side` gets the audience of each and its subject.
    fn of(
        tokens: &TokenStore,
        side: &dyn Fn(Option<&str>, &str) -> Option<Side>,
    ) -> Result<Self, Failure> {
        let now = unix_seconds(wall_clock());
        let mut rights = Self::default();
        for token in tokens.list()? {
            let client = token.client.as_deref().unwrap_or("no client");
            let what = format!("token {} of {client}, `{}`", token.jti, token.scopes);
            let ended = token.revoked.map(|when| ("revoked", when));
            let side = side(token.audience.as_deref(), &token.subject);
            rights.add((what, side), (ended, token.expires), now);
        }
        for approval in tokens.authorizations()? {
            let what = format!("approval of {}, `{}`", approval.client_name, approval.scopes);
            let ended = approval.ended.map(|when| ("ended", when));
            let side = side(Some(&approval.audience), &approval.subject);
            rights.add((what, side), (ended, approval.expires), now);
        }
        Ok(rights)
    }

    fn add(
        &mut self,
        (what, side): (String, Option<Side>),
        (ended, expires): (Option<(&str, i64)>, i64),
        now: i64,
    ) {
        let ended = ended.or_else(|| (expires <= now).then_some(("expired", expires)));
        let until = || format!("{what}, until {}", minute(expires));
        match (side, ended) {
            (None, _) | (Some(Side::Ends), Some(_)) => {}
            (Some(Side::Ends), None) => self.ending.push(until()),
            (Some(Side::Opens), None) => self.open.push(until()),
            (Some(Side::Opens), Some((how, when))) => {
                self.ended.push(format!("{what}: {how} on {}", minute(when)));
            }
        }
    }

    fn write(&self, output: &mut dyn Write) -> Result<(), Failure> {
        let heading = format!("These will open the new folder{}:", local_time::note_of_zone());
        write_list(output, &heading, &self.open)?;
        write_list(output, "These ended, and stay ended:", &self.ended)?;
        let title = "These were made for the new folder, and will open nothing any more:";
        write_list(output, title, &self.ending)?;
        Ok(())
    }
}

fn write_list(output: &mut dyn Write, title: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(output, "{title}")?;
    lines.iter().try_for_each(|line| writeln!(output, "  {}", line.escape_debug()))
}

/// Asks on a terminal whether to go on; `false` where there is no terminal.
fn asked(output: &mut dyn Write) -> io::Result<bool> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Ok(false);
    }
    write!(output, "Is the new folder the same space? [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
