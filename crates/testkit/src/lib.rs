//! Helpers for the tests of the other crates: fixtures, scripted clients, misbehaving servers and
//! the leak check.

pub mod authenticator;
pub mod bench;
pub mod chance;
pub mod client;
pub mod documents;
pub mod history;
pub mod hosted;
pub mod issuer;
pub mod leaks;
pub mod log;
pub mod postgres;
pub mod process;
pub mod readers;
pub mod reading;
pub mod schema;
pub mod silencer;
pub mod spreader;
pub mod swapper;
pub mod upstream;
pub mod wiretap;
pub mod zip;
