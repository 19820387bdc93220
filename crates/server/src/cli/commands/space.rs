//! `stile space adopt`: the owner says that a folder is the same space as an earlier one.
//!
//! A folder that came back from a backup, or that moved to another disk, is another folder to the
//! server, so tokens and history of the old folder do not count for it. Only the owner can know
//! better. The command shows both folders and what will open the new one, and changes something
//! only if the owner says so, by a flag or on the terminal.

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
    let tokens = home.tokens()?;
    let folder = Path::new(text(matches, "folder").unwrap_or_default());
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
    let now = unix_seconds(wall_clock());
    writeln!(output, "old folder: {}", folder_of(old))?;
    writeln!(output, "new folder: {}", folder.canonicalize()?.display())?;
    let given_up = tokens.audience_of(folder)?.filter(|own| *own != old.audience);
    let (mut open, mut ended, mut ending) = (Vec::new(), Vec::new(), Vec::new());
    for token in tokens.list()? {
        let client = token.client.as_deref().unwrap_or("no client");
        let what = format!("token {} of {client}, `{}`", token.jti, token.scopes);
        let is_live = token.revoked.is_none() && token.expires > now;
        if is_live && given_up.is_some() && token.audience == given_up {
            ending.push(format!("{what}, until {}", minute(token.expires)));
        }
        if token.audience.as_ref() != Some(&old.audience) {
            continue;
        }
        match token.revoked {
            Some(when) => ended.push(format!("{what}: revoked on {}", minute(when))),
            None if token.expires <= now => {
                ended.push(format!("{what}: expired on {}", minute(token.expires)));
            }
            None => open.push(format!("{what}, until {}", minute(token.expires))),
        }
    }
    for approval in tokens.authorizations()? {
        let what = format!("approval of {}, `{}`", approval.client_name, approval.scopes);
        let is_live = approval.ended.is_none() && approval.expires > now;
        if is_live && given_up.as_ref() == Some(&approval.audience) {
            ending.push(format!("{what}, until {}", minute(approval.expires)));
        }
        if approval.audience != old.audience {
            continue;
        }
        match approval.ended {
            Some(when) => ended.push(format!("{what}: ended on {}", minute(when))),
            None if approval.expires <= now => {
                ended.push(format!("{what}: expired on {}", minute(approval.expires)));
            }
            None => open.push(format!("{what}, until {}", minute(approval.expires))),
        }
    }
    let heading = format!("These will open the new folder{}:", local_time::note_of_zone());
    write_list(output, &heading, &open)?;
    write_list(output, "These ended, and stay ended:", &ended)?;
    let title = "These were made for the new folder, and will open nothing any more:";
    write_list(output, title, &ending)?;
    let left = "The old folder will be a space of its own, which they do not open.";
    writeln!(output, "{left}")?;
    Ok(())
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
