//! Programs that misuse a permit must not compile.
//!
//! The programs are in `tests/unauthorized`. The test runs the compiler on them directly, with the
//! library that Cargo has just built, since a second build of the library and of its dependencies
//! would take most of a minute.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The compiler whose messages the snapshots hold. Another compiler words its messages differently,
/// so the test then checks only that no program compiles.
const SNAPSHOT_COMPILER: &str = "rustc 1.95.0";

/// Uses the library as it may be used, so that a failure of the other programs is their own.
const AUTHORIZED: &str = "fn main() { let _ = stile_domain::path::SpacePath::root(); }";

fn rustc() -> Command {
    Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()))
}

/// Returns the library of the last build, in the folder of this test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(program.parent().unwrap()).unwrap().map(Result::unwrap);
    let is_library = |name: &str| name.starts_with("libstile_domain-") && name.ends_with(".rlib");
    files
        .filter(|file| is_library(&file.file_name().to_string_lossy()))
        .max_by_key(|file| file.metadata().unwrap().modified().unwrap())
        .expect("Cargo builds the library before its tests")
        .path()
}

fn compile(program: &Path, library: &Path) -> Output {
    let mut dependencies = std::ffi::OsString::from("dependency=");
    dependencies.push(library.parent().unwrap());
    let mut domain = std::ffi::OsString::from("stile_domain=");
    domain.push(library);
    rustc()
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("-L")
        .arg(dependencies)
        .arg("--extern")
        .arg(domain)
        .arg(program)
        .output()
        .unwrap()
}

/// Returns the messages of a compiler without line numbers, and with paths that begin in the crate.
fn without_line_numbers(messages: &str) -> String {
    let line = |line: &str| {
        let rest = line.trim_start_matches([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        if let Some(place) = rest.strip_prefix("--> ").or_else(|| rest.strip_prefix("::: ")) {
            let file = place.split(".rs:").next().unwrap_or_default();
            let file = file.rsplit("crates/domain/").next().unwrap_or_default();
            return format!("--> {file}.rs\n");
        }
        let is_numbered = rest.starts_with(['|', '=', '+', '-', '~']);
        format!("{}\n", if is_numbered { rest } else { line })
    };
    messages.lines().map(line).collect()
}

#[test]
fn programs_without_authority_do_not_compile() {
    let library = library();
    let authorized = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authorized.rs");
    std::fs::write(&authorized, AUTHORIZED).unwrap();
    let compiled = compile(&authorized, &library);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let version = rustc().arg("--version").output().unwrap().stdout;
    let mut programs = 0;
    for file in std::fs::read_dir("tests/unauthorized").unwrap() {
        let program = file.unwrap().path();
        let name = program.file_stem().unwrap().to_str().unwrap();
        let compiled = compile(&program, &library);
        assert!(!compiled.status.success(), "{name} compiles");
        if version.starts_with(SNAPSHOT_COMPILER.as_bytes()) {
            let messages = without_line_numbers(std::str::from_utf8(&compiled.stderr).unwrap());
            insta::assert_snapshot!(name, messages);
        }
        programs += 1;
    }
    assert!(programs >= 10, "only {programs} programs");
}
