//! Ctrl-C in an import: says what is stored and how to go on, and ends the process.
//!
//! An import stores whole batches, and each is on the disk before the next begins. So a process may
//! end at any moment, as a kill ends it, and the next run finds what is stored unchanged.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use stile_import::report::{BadRowPolicy, ImportProgress};

use crate::cli::compose::process;
use crate::cli::failure::Failure;

/// The exit code of a program that was interrupted, as a shell reports it.
const INTERRUPTED: i32 = 130;

/// How far an import is, for the moment of an interruption.
#[derive(Clone, Default)]
pub(super) struct Reached(Arc<Mutex<Option<ImportProgress>>>);

impl Reached {
    /// Begins to wait for an interruption.
    pub(super) fn watch(policy: BadRowPolicy) -> Result<Self, Failure> {
        let reached = Self::default();
        let shared = reached.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Caught from here on, and waited for on the thread.
        let signal = runtime.block_on(async { process::stop_signal() })?;
        std::thread::spawn(move || {
            runtime.block_on(signal);
            let text = farewell(policy, shared.last());
            let _ = io::stderr().write_all(text.as_bytes());
            std::process::exit(INTERRUPTED);
        });
        Ok(reached)
    }

    /// Notes how far the import is.
    pub(super) fn note(&self, progress: ImportProgress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    fn last(&self) -> Option<ImportProgress> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what an interrupted import stored, and how to go on.
fn farewell(policy: BadRowPolicy, reached: Option<ImportProgress>) -> String {
    let stored = match (policy, reached) {
        (BadRowPolicy::Skip, Some(ImportProgress { storing: true, bytes, total })) if bytes > 0 => {
            let percent = (bytes.min(total) * 100).checked_div(total).unwrap_or(100);
            format!("The rows of about {percent}% of the input are stored, in whole batches")
        }
        _ => "Nothing was stored".to_owned(),
    };
    format!(
        "\ninterrupted. {stored}. Run the same command again to go on: it stores no row a second \
         time.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_import_says_what_is_stored() {
        let at = |storing, bytes| Some(ImportProgress { storing, bytes, total: 200 });
        for (policy, reached, expected) in [
            (BadRowPolicy::Skip, at(true, 100), "The rows of about 50% of the input are stored"),
            (BadRowPolicy::Skip, at(false, 100), "Nothing was stored."),
            (BadRowPolicy::Skip, at(true, 0), "Nothing was stored."),
            (BadRowPolicy::StoreNothing, at(true, 100), "Nothing was stored."),
            (BadRowPolicy::Skip, None, "Nothing was stored."),
        ] {
            let said = farewell(policy, reached);
            assert!(said.contains(expected) && said.contains("again to go on"), "{said}");
        }
    }
}
