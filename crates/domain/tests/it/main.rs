//! Laws of authority that the compiler holds: each program in `tests/unauthorized` must not
//! compile.

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

/// The compiler whose words are kept beside the programs. Another one says the same in other words,
/// so with it only the refusal itself is checked.
const WORDS_OF: &str = "rustc 1.95.0";

mod notes;
mod notes_differential;
mod notes_hostile;

#[test]
fn authority_cannot_be_made_up() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    if version.starts_with(WORDS_OF.as_bytes()) {
        trybuild::TestCases::new().compile_fail("tests/unauthorized/*.rs");
    } else if std::env::var("TRYBUILD").is_ok() {
        trybuild::TestCases::new().compile_fail(copy_of_programs().join("*.rs"));
    } else {
        // In this mode the words of a refusal are taken down, and a program that compiles still
        // fails.
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
