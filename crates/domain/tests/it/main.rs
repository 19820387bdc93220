//! Integration tests of the domain: compile-fail tests of authority, and the structure of notes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may use the machine"
)]

mod notes;
mod notes_differential;
mod notes_hostile;
mod notes_sections;
mod unauthorized;
