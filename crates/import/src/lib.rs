//! Reads and writes the formats that people's data comes in: imports, exports and restores.
//!
//! A decoder takes one format apart into rows. [`input`] opens files and folders through the store,
//! and [`run`] stores the rows of an import. [`export`] writes records to files and [`restore`]
//! reads them back.

pub mod assets;
pub mod attachment;
pub mod chatgpt;
pub mod csv;
pub mod export;
mod exports;
pub mod input;
pub mod json_array;
pub mod known;
pub mod mail;
pub mod markdown;
pub mod mbox;
mod object;
pub mod restore;
pub mod run;
pub mod slack;
mod versions;

#[cfg(test)]
mod laws;

#[cfg(test)]
mod rig;
