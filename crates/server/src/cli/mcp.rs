//! `stile mcp`: the content ladder alone, for one client, over a resource server that is elsewhere.
//!
//! It opens no state folder and writes no file. Nothing is asked of the resource server before the
//! client calls a tool.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_ladder::Ladder;
use stile_ladder::port::MAX_ANSWER_BYTES;

use super::{Failure, hosted, local_user, start};
use crate::auth;
use crate::config::{Config, Environment, Resolved, YesNo, is_exposed};
use crate::offer::Offer;
use crate::outbound::Bounds;
use crate::provider::{HttpRecordServer, TokenReader};

/// Serves until standard input ends.
pub(super) fn run(resolved: &Resolved, environment: Environment<'_>) -> Result<(), Failure> {
    let config = &resolved.config;
    let base = config.provider.as_deref().ok_or_else(|| {
        Failure::Usage(
            "--provider is missing: the address of the server that has the records".to_owned(),
        )
    })?;
    let file = config.token_file.clone().ok_or_else(|| {
        Failure::Usage(
            "--token-file is missing: the file with the token that the server gave you".to_owned(),
        )
    })?;
    let provider = provider(config, base, file)?;
    if is_exposed(base) {
        writeln!(
            io::stderr(),
            "warning: the token and records pass to and from --provider as plain text; use https"
        )?;
    }
    // What may be seen is decided by the resource server, for each request, from the token. Here
    // everything may be asked.
    let principal = auth::local_user(&local_user(environment), Scopes::none(), RecordsClaim::Owner);
    start::log(config.log);
    let runtime = start::runtime()?;
    let offer = Offer::of_records(Ladder::new(
        provider,
        config.budgets(),
        config.strict_schemas == YesNo::Yes,
    ));
    let served = runtime.block_on(async {
        let stop = start::stop()?;
        tokio::select! {
            served = crate::stdio::serve(offer, principal, config.tool_names) => served,
            () = stop => Ok(()),
        }
    });
    // A thread may still wait for input that will never come.
    runtime.shutdown_background();
    served.map_err(|error| Failure::Failed(format!("the server failed: {error}")))
}

fn provider(config: &Config, base: &str, file: PathBuf) -> Result<HttpRecordServer, Failure> {
    const FLAG: &str = "--token-file";
    let token = hosted::secret(FLAG, &file)?;
    let read_token: TokenReader = Arc::new(move || hosted::secret(FLAG, &file).ok());
    let bounds = Bounds {
        total: Duration::from_secs(config.provider_timeout_seconds),
        body_bytes: MAX_ANSWER_BYTES,
    };
    HttpRecordServer::new(hosted::outbound(config)?, base, &token, read_token, bounds)
        .map_err(|error| Failure::Failed(error.to_string()))
}
