//! Opens what serves a space: at the start of a server, or for the first call that touches files.
//!
//! The start of a program that serves one client opens the root folder alone, since most clients
//! ask for lists before they touch a file, and many never touch one. What a file call relies on is
//! done before it is answered, whichever call is the first: the file system is probed, what killed
//! processes left is cleaned up, and their appends are recovered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;

use super::root::Root;
use super::{
    Abilities, Inner, OpenError, Space, SpaceOptions, append_intent, clean, held, keeper, lock,
    names, os,
};
use crate::history::History;
use crate::on_first_use::OnFirstUse;

impl Space {
    /// Opens what serves a space, unless it is open. Fails with a refusal that has the number of a
    /// line of the log.
    pub(super) fn opened(
        space: &OnFirstUse<Arc<Inner>, OpenError>,
    ) -> Result<&Arc<Inner>, Refusal> {
        space.get().map_err(|OpenError(error)| crate::incident("opening the space", &error))
    }
}

impl Inner {
    /// Opens what serves a space whose root is open: probes the file system, and cleans up after
    /// killed processes. Also returns notices for the person who started the program.
    pub(super) fn open(
        root: Arc<Root>,
        options: &Arc<SpaceOptions>,
        history: Option<Arc<History>>,
    ) -> Result<(Self, Vec<String>), OpenError> {
        let (process, _) = uuid::Uuid::new_v4().as_u64_pair();
        let folders = Arc::new(lock::Folders::default());
        let mut notices = Vec::new();
        let mut abilities = probe(&root);
        for mount in root.mounts() {
            match root.open_folder(mount) {
                Ok(folder) => abilities = abilities.and(&probe(&folder)),
                Err(_) => notices.push(format!(
                    "`{mount}`, which `mounts` names, is not a folder of the space that can be opened"
                )),
            }
        }
        if !abilities.lock {
            notices.push(
                "this file system has no advisory locks on folders: every change will be refused"
                    .to_owned(),
            );
        } else {
            clean::clean(&root, &folders, &options.events);
        }
        if abilities.exchange == Some(false) {
            notices.push(
                "this file system cannot exchange two files in one step: while a file is changed its name is absent \
                 for an instant. A program that opens it just then finds no file; one that saves it just then keeps \
                 its save, and the change is refused"
                    .to_owned(),
            );
        }
        let held = history.as_ref().map(|history| held::Held::open(Arc::clone(history), process));
        let held = held.transpose()?;
        if let Some(held) = held.as_ref().filter(|_| abilities.lock) {
            held::clean(held, &root, &options.events);
        }
        let intents = options.appends_folder.as_deref();
        let intents = intents.map(|at| append_intent::AppendIntents::open(at, &root, process));
        let intents = intents.transpose()?;
        if let Some(intents) = intents.as_ref().filter(|_| abilities.lock) {
            append_intent::recover(intents, &root, &folders, &options.events);
        }
        let keeper = keeper::Keeper::new(process, held, Arc::clone(&options.events));
        let kept = (history, keeper, intents);
        Ok((Self::new(root, folders, abilities, Arc::clone(options), kept), notices))
    }
}

/// How long a start waits for the lock of the root before it probes without it.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// Probes locks and the exchange in the root, with two empty temporary files.
///
/// Holds the lock of the root, since the cleaner of another starting process would remove the
/// files. If it removed them nevertheless, that says nothing about the file system.
fn probe(root: &os::Handle) -> Abilities {
    let locked = lock::await_lock(root, Instant::now() + PROBE_PATIENCE);
    let owner = names::Owner::new(uuid::Uuid::new_v4().as_u64_pair().0, 0);
    let empty = ContentHash::digest(b"");
    let name = |sequence| {
        names::TemporaryName::new(
            &owner,
            sequence,
            names::ChangeKind::Create,
            None,
            Some(&empty),
            "probe",
        )
        .to_string()
    };
    let (one, other) = (name(0), name(1));
    let made = os::make_file(root, &one, os::NEW_FILE)
        .and_then(|_| os::make_file(root, &other, os::NEW_FILE));
    let exchange = match made.and_then(|_| os::exchange(root, &one, &other)) {
        Ok(()) => Some(true),
        Err(error) if os::is_unsupported(&error) => Some(false),
        Err(_) => None,
    };
    for name in [one, other] {
        let _ = os::unlink(root, &name);
    }
    if matches!(locked, Ok(true)) {
        os::unlock(root);
    }
    Abilities { lock: locked.is_ok(), exchange }
}
