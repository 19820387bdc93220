//! `stile space adopt --person`: the operator says that the folder of a person is the one that was
//! served before.
//!
//! The tokens of a person name the person and no folder. So while another folder is at the place of
//! the person's files, the servers refuse every call that is about files, and once the operator has
//! adopted it, the same tokens open it.

use std::io::Write;

use clap::ArgMatches;
use stile_domain::byte_size::size;
use stile_store::person_folder::{self, FolderStanding, number_and_birth};

use super::{Rights, Side, asked};
use crate::cli::compose::Home;
use crate::cli::compose::person_folder::PersonFolder;
use crate::cli::failure::Failure;
use crate::cli::terminal::local_time;
use crate::config::Config;

/// Shows both folders and the tokens of the person, and adopts the folder if the operator says so.
pub(super) fn adopt(
    home: &Home,
    config: &Config,
    (matches, output): (&ArgMatches, &mut dyn Write),
) -> Result<(), Failure> {
    let found = PersonFolder::of_any(home, config)?;
    let found = found.ok_or_else(|| Failure::Usage("name a person of a database".to_owned()))?;
    let PersonFolder { files, tenant, database } = &found;
    let folders = files.compared(database, tenant)?;
    let here = folders.here.as_deref().unwrap_or_default();
    let others: Vec<&str> =
        folders.of_history.iter().map(String::as_str).filter(|it| *it != here).collect();
    if files.standing(database, tenant)? != FolderStanding::Another && others.is_empty() {
        writeln!(output, "The folder is the one that was served, so there is nothing to adopt.")?;
        return Ok(());
    }
    let old = folders.served.as_deref().filter(|served| *served != here);
    let old = old.or_else(|| others.first().copied()).unwrap_or(here);
    let room = person_folder::room(&files.notes)?;
    writeln!(output, "old folder: {}", described(old))?;
    writeln!(
        output,
        "new folder: {}: {}, with {} of {}",
        files.notes.display(),
        described(here),
        if room.files == 1 { "1 file".to_owned() } else { format!("{} files", room.files) },
        size(room.bytes)
    )?;
    match others.as_slice() {
        [] => writeln!(output, "No old versions of files came with it.")?,
        others if others.contains(&old) => {
            writeln!(
                output,
                "The old versions of files that are beside it are of the old folder."
            )?;
        }
        others => writeln!(
            output,
            "The old versions of files that are beside it are of yet another folder: {}. Look \
             whether it is this person's.",
            others.iter().map(|it| described(it)).collect::<Vec<_>>().join("; ")
        )?,
    }
    let subject = home.subject().ok().flatten();
    match &subject {
        None => writeln!(output, "No token, approval or session here names the person.")?,
        Some(subject) => {
            let rights =
                Rights::of(&home.tokens()?, &|_, of| (of == subject).then_some(Side::Opens));
            rights?.write(output)?;
        }
    }
    if !matches.get_flag("yes") && !asked(output)? {
        writeln!(output, "Nothing was changed. Add --yes to do this.")?;
        return Ok(());
    }
    files.adopt(database, tenant)?;
    writeln!(
        output,
        "Done. The next request finds the files and their history, at each server that runs."
    )?;
    Ok(())
}

/// Says which folder is meant: its number in the file system, and when it was made.
fn described(identity: &str) -> String {
    let (number, born) = number_and_birth(identity);
    match born {
        Some(born) => format!("number {number}, made {}", local_time::in_words(born)),
        None => format!("number {number}"),
    }
}
