//! Fixtures, scripted clients and the leak check for the tests of the other crates.

pub mod documents;
pub mod schema;
