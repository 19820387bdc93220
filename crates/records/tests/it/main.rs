//! What a client can see of records through every operation, compared with a slow, simple oracle.
//!
//! `oracle_answers` compares each answer with the oracle's. `hidden_data` compares two databases
//! that differ only in what a grant hides. `invalid_grants` and `forged_requests` send requests
//! under invalid grants, with forged cursors and with senseless parameters. `typed_requests`
//! compares requests that this process makes with those that are sent. `STILE_RIG_SEED` repeats the
//! choices of a run, `STILE_RIG_SCALE` multiplies their number, and `STILE_RIG_SECONDS` keeps
//! `hidden_data` running for that many seconds.

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

mod byte_windows;
mod changes;
mod copies;
mod declared_operation;
mod deletions;
mod field_pages;
mod forged_requests;
mod hidden_data;
mod invalid_grants;
mod oracle_answers;
mod removals;
mod round_trips;
mod search_texts;
mod typed_requests;
#[expect(dead_code, reason = "some helpers serve the tests of the ladder alone")]
mod worlds;
