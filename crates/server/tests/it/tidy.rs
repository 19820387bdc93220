//! Rules of style that no lint checks, over the source files of all crates.
//!
//! Each test prints everything that it finds. `EXCEPTED` lists what is still found and why; an entry
//! that finds nothing any more must be removed.
