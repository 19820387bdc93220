//! The note tools for whoever does not have the notes: what the gateway offers.
//!
//! The same tools, from the same declarations, with three things of their own. What a caller may
//! use is decided by its role ([`roles`]) and not by path scopes, which are the business of the
//! server that has the notes. A note is read once, through a port ([`upstream`]), in the name of a
//! [`session::Session`] that was made from a verified token. And a refusal says which kind of thing
//! went wrong, and nothing else ([`refusals`]).
//!
//! There is no journal here and nothing is kept: not a note, not an answer, not an error.

pub mod gateway;
pub mod refusals;
pub mod roles;
pub mod session;
mod tool;
pub mod upstream;

pub use gateway::{Gateway, HostedAnswer, Outcome};
pub use tool::{HostedTool, TOOLS};
