//! What a client can see of records through every operation, against a slow and obvious oracle.
//!
//! `truth` compares each answer with the oracle's. `hidden` compares two databases that differ only
//! in what a grant hides. `states` and `hostile` go through grants that do not count, forged cursors
//! and senseless parameters. `STILE_RIG_SEED` repeats the choices of a run, `STILE_RIG_SCALE` makes
//! more of them, and `STILE_RIG_SECONDS` keeps `hidden` running for that many seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own verified caller and its own operator"
)]

mod bounded;
mod bytes;
mod changes;
mod deletes;
mod hidden;
mod hostile;
mod states;
mod truth;
mod words;
#[expect(dead_code, reason = "some helpers serve the tests of the ladder alone")]
mod worlds;
