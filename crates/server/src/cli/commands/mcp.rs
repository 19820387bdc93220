//! `stile mcp`: serves the tools about records to one client, for a resource server elsewhere.
//!
//! The command opens no state folder and writes no file. It sends no request to the resource server
//! before the client calls a tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_ladder::port::MAX_ANSWER_BYTES;
use stile_tools::toolset::Caller;

use crate::auth;
use crate::cli::compose::settings_files::{http_client, read_secret};
use crate::cli::compose::{open, process, stdio_server};
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, required, settings, user_name, warn_if_exposed};
use crate::config::Config;
use crate::mcp::handler::CallerSource;
use crate::mcp::presentation::Presentation;
use crate::outbound::OutboundLimits;
use crate::provider::{HttpRecordServer, TokenReader};
use crate::service::Service;

/// Serves until standard input ends.
pub(super) fn run(Invocation { matches, environment, .. }: Invocation<'_>) -> Result<(), Failure> {
    let config = &settings(matches, environment)?.config;
    let base =
        required(&config.provider, "--provider", "the address of the server that has the records")?;
    let token_file = required(
        &config.token_file,
        "--token-file",
        "the file with the token that the server gave you",
    )?;
    let server = record_server(config, base, token_file.clone())?;
    warn_if_exposed(base, "--provider", "the token and records")?;
    // The resource server decides for each request, from the token, what the client may see. This
    // process lets the client ask for everything.
    let principal = auth::local_user(&user_name(environment), Scopes::none(), RecordsClaim::Owner);
    process::log(config.log);
    let service = Service::new(open::ladder(config, server), None);
    let caller = CallerSource::Fixed(Box::new(Caller::local(principal)));
    process::block_on(stdio_server::serve(service, caller, Presentation::of(config)))
}

fn record_server(
    config: &Config,
    base: &str,
    token_file: PathBuf,
) -> Result<HttpRecordServer, Failure> {
    const FLAG: &str = "--token-file";
    let token = read_secret(FLAG, &token_file)?;
    let read_token: TokenReader = Arc::new(move || read_secret(FLAG, &token_file).ok());
    let bounds = OutboundLimits {
        total: Duration::from_secs(config.provider_timeout_seconds),
        body_bytes: MAX_ANSWER_BYTES,
    };
    HttpRecordServer::new(http_client(config)?, base, &token, read_token, bounds)
        .map_err(|error| Failure::Failed(error.to_string()))
}
