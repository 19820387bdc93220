//! How Stile is reached: MCP over HTTP and stdio, tokens, configuration, the command line.
//!
//! The only crate that knows the MCP SDK, HTTP, JWT, clap and the environment. Every way in ends in
//! [`service::Service`], so none of them can do more than the caller's scopes, or role, allow.

pub mod auth;
pub mod by_vault;
pub(crate) mod challenges;
pub mod checkup;
pub mod cli;
mod clock;
pub mod config;
pub mod fair_share;
pub mod fleet;
pub mod gateway;
pub mod http;
pub mod known_clients;
mod live_notes;
pub mod mcp;
pub mod metrics;
pub mod outbound;
pub mod owned_space;
pub mod owner_backup;
pub mod owner_files;
pub mod owner_imports;
pub mod owner_sign_in;
pub mod pages;
pub mod passkeys;
pub mod people;
pub mod provider;
pub mod service;
pub mod shares;
pub mod sign_in;
pub mod stdio;
pub mod stored_records;
