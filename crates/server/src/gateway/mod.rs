//! The hosted gateway: the note tools over a server that has the notes.
//!
//! [`terms`] makes the session of a caller from its verified token and the configuration;
//! [`upstream`] is the one request that a call makes. What a call is, and which role may make it,
//! is in [`stile_tools::hosted`]. Nothing here opens a file or keeps anything.

pub mod terms;
pub mod upstream;
