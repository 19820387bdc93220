//! The system calls of Windows that Stile makes, behind functions that are safe to call.
//!
//! Rust's standard library can open a file by its whole path, and has no call that opens a name in
//! an open folder, renames between open folders, or says which file a handle has. This crate makes
//! those calls. It decides nothing: which file may be opened, and what an error means, is decided
//! where the functions are called. It is the one crate with unsafe code, and empty on every other
//! system.
#![cfg(windows)]

pub mod files;
pub mod machine;

use std::io;

/// Turns the answer of a call that says with 0 that it failed into a result.
fn checked(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
