//! The hosted gateway: the note tools over notes that another server has.
//!
//! [`session_factory`] makes the session of a caller from the verified token and the configuration.
//! [`http_note_store`] makes the one request that a call needs, to the server of the session's
//! vault. [`stile_tools::remote_notes`] says what a call is and which role may make it. The gateway
//! opens no file for writing and keeps nothing.

pub mod http_note_store;
pub mod session_factory;
