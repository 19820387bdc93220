//! Integration tests of the domain: compile-fail tests of authority, and the structure of notes.
//!
//! Each program in `tests/unauthorized` misuses a permit and must not compile.

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

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler whose messages are stored beside the programs. Another compiler words its messages
/// differently, so the test then checks only that no program compiles.
const STDERR_COMPILER: &str = "rustc 1.95.0";

mod notes;
mod notes_differential;
mod notes_hostile;

#[test]
fn programs_without_authority_do_not_compile() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    if version.starts_with(STDERR_COMPILER.as_bytes()) {
        trybuild::TestCases::new().compile_fail("tests/unauthorized/*.rs");
    } else if std::env::var("TRYBUILD").is_ok() {
        trybuild::TestCases::new().compile_fail(copy_of_programs().join("*.rs"));
    } else {
        // In this mode `trybuild` records the messages. A program that compiles still fails.
        let myself = std::env::current_exe().unwrap();
        assert!(Command::new(myself).env("TRYBUILD", "overwrite").status().unwrap().success());
    }
}

fn copy_of_programs() -> PathBuf {
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unauthorized");
    std::fs::create_dir_all(&programs).unwrap();
    for entry in std::fs::read_dir("tests/unauthorized").unwrap() {
        let program = entry.unwrap().path();
        if program.extension().is_some_and(|extension| extension == "rs") {
            std::fs::copy(&program, programs.join(program.file_name().unwrap())).unwrap();
        }
    }
    programs
}
