//! `stile backup` and `stile restore-backup`: copy the whole state to an archive and bring it back.

use std::path::Path;

use stile_domain::records::instant::Instant;
use stile_store::records::Records;
use stile_store::state::{StateDir, TokenStore};
use stile_store::state_backup::{self, Present};

use crate::cli::compose::owner;
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings};
use crate::cli::terminal::{Progress, Step, Unit, local_time};
use crate::cli::{flags, terminal};
use crate::clock;
use crate::owner_backup;

/// Copies the state, also while servers use it.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let file = flags::text(matches, "file").unwrap_or_default();
    if matches.get_flag("records_only") {
        let owner = owner::open(matches, environment)?;
        owner.services.backup(&owner.caller, Path::new(file))??;
        writeln!(output, "copied all records and grants to {file}")?;
        return Ok(());
    }
    let config = settings(matches, environment)?.config;
    let state = StateDir::open_existing(&config.state)?;
    // A database of an older version is migrated first, and the archive has the present form.
    let records = Records::exists(&state).then(|| Records::open(&state, clock::now()));
    let records = records.transpose()?.map(|records| owner::of_records(records, environment));
    let of_owner = records.as_ref().map(|owner| (&owner.services, &owner.caller));
    let total = state_backup::size(&state).unwrap_or_default();
    let (mut progress, mut done) = (Progress::new(), 0);
    let mut on_copied = |bytes| {
        done += bytes;
        progress.show(Step { action: "copying", done, total, unit: Unit::Bytes });
    };
    let made =
        owner_backup::to_file(&state, Path::new(file), of_owner, clock::now(), &mut on_copied);
    progress.clear();
    let (files, bytes) = made?.totals();
    writeln!(
        output,
        "copied the key, the tokens, the records and the journal to {file}: {files} files, {:.1} MB",
        bytes as f64 / 1e6
    )?;
    let note = "the archive holds the key and everything else of the state; keep it as safe";
    terminal::print_to_stderr(note)?;
    if config.database.is_some() {
        let note = "the database on PostgreSQL is not in the archive; copy it with pg_dump or a base \
                    backup at the same time";
        terminal::print_to_stderr(note)?;
    }
    Ok(())
}

/// Brings the state back from an archive.
pub(super) fn restore(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let file = flags::text(matches, "file").unwrap_or_default();
    let state = settings(matches, environment)?.config.state;
    let present = match matches.get_flag("replace") {
        true => Present::KeepAside,
        false => Present::Refuse,
    };
    let mut progress = Progress::new();
    let restored = state_backup::restore(Path::new(file), &state, present, &mut |done, total| {
        progress.show(Step { action: "restoring", done, total, unit: Unit::Bytes });
    });
    progress.clear();
    let restored = restored?;
    let (files, bytes) = restored.manifest.totals();
    let made_at = &restored.manifest.made_at;
    let made = Instant::parse(made_at).map_or_else(|| made_at.clone(), local_time::in_words);
    writeln!(
        output,
        "restored {files} files, {:.1} MB, as they were on {}; each has the checksum that it had",
        bytes as f64 / 1e6,
        made
    )?;
    // Whoever was signed in when the backup was made signs in again.
    let folder = StateDir::open_existing(&state)?;
    TokenStore::open(&folder)?.close_all_sessions()?;
    // The pages say it, too: whoever brought the state back may not be who looks after the clients.
    let noted = state_backup::note_restored(&folder, &restored.manifest, crate::clock::now());
    noted.map_err(|error| Failure::Failed(format!("cannot write to the state folder: {error}")))?;
    writeln!(
        output,
        "what you ended after that is valid again: `stile client list` and `stile token list` show \
         it, and `stile client end --all` ends what clients have"
    )?;
    if let Some(aside) = restored.aside {
        writeln!(output, "the state before is in {}", aside.display())?;
        writeln!(output, "a server that runs keeps to the state before until it is started again")?;
    }
    Ok(())
}
