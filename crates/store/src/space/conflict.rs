//! Conflict copies: visible files with what another program saved while a file was being changed.

use std::sync::Arc;

use stile_domain::journal::JournalLine;
use stile_domain::path::SpacePath;

use super::{names, os};

/// Receives journal lines of events that no call caused.
pub type SpaceEvents = Arc<dyn Fn(JournalLine) + Send + Sync>;

/// Renames a temporary file of the folder `from` to a free visible name in `folder`. Returns `None`
/// if that fails; the next start tries again.
pub(super) fn make_conflict_copy(
    from: &os::Handle,
    folder: &os::Handle,
    name: &str,
    original: &str,
) -> Option<String> {
    let when = jiff::Zoned::now().strftime("%Y-%m-%d %H-%M-%S").to_string();
    for attempt in 1..1000 {
        let copy = names::conflict_copy(original, &when, attempt);
        match os::move_ours((from, name), (folder, &copy)) {
            Ok(()) => {
                let _ = os::sync(folder);
                return Some(copy);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                tracing::error!(kind = ?error.kind(), "a save of another program could not be given a visible name");
                return None;
            }
        }
    }
    None
}

/// Reports a conflict copy in the journal, with the path of the copy.
pub(super) fn report_copy(events: &SpaceEvents, beside: &SpacePath, copy: &str) {
    let folder = beside.split().map_or_else(SpacePath::root, |(folder, _)| folder);
    tracing::warn!("a save of another program was kept as a conflict copy");
    events(JournalLine {
        tool: "conflict_copy".to_owned(),
        path: folder.child(copy),
        outcome: "ok".to_owned(),
        ..JournalLine::default()
    });
}
