//! Rigs that would lose a write if the server could: races between processes, kills, an editor that
//! knows no lock. Each one leaves a history that is checked afterwards, and logs that are searched
//! for canaries. And rigs that would tell one user's note to another if the gateway could.
//!
//! A test run does a few per cent of what the figures ask for. `STILE_RIG_SCALE=full` does all of
//! it in minutes, and `STILE_RIG_SCALE=long` more in hours, best with an optimised program named by
//! `STILE_BIN`. A usual run makes the same choices every time, a larger one takes its seed from the
//! clock; `STILE_RIG_SEED` repeats the choices of a run, though not the instants that the system
//! chooses.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod agent;
mod appends;
mod clock;
mod connections;
mod corpora;
mod crash;
mod creators;
mod disk;
mod door;
#[path = "../it/doors.rs"]
mod doors;
mod editor;
mod fleet;
mod ingest;
mod isolation;
mod mailbox;
mod moved;
mod movers;
mod neighbours;
mod race;
mod rotation;
mod servers;
#[path = "../it/sign_in_kit.rs"]
#[expect(dead_code, unreachable_pub, reason = "the rigs need a part of the kit")]
mod sign_in_kit;
mod soak;
mod starts;
mod undo;
mod usage;
