//! `stile stdio`: one client, which started this process.

use clap::ArgMatches;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::records::Records;

use super::{Failure, local_user, start, token};
use crate::auth;
use crate::config::{Environment, Resolved};

/// Serves until standard input ends.
pub(super) fn run(
    resolved: &Resolved,
    matches: &ArgMatches,
    environment: Environment<'_>,
) -> Result<(), Failure> {
    let everything = || Scopes::from_iter([Scope::everything(Verb::Write)]);
    let scopes = token::scopes(matches)?.unwrap_or_else(everything);
    let records = token::grant(matches)?.unwrap_or(RecordsClaim::Owner);
    let principal = auth::local_user(&local_user(environment), scopes, records);
    start::log(resolved.config.log);
    let (state, open) = start::open(resolved)?;
    let (tools, journal, space) = (open.tools(), open.journal, open.space);
    // Where nothing was ever imported there is nothing to offer, and no database is made for that.
    let records =
        Records::exists(&state).then(|| start::open_records(&state, &journal)).transpose()?;
    let runtime = start::runtime()?;
    let service = start::service(&resolved.config, tools, &journal, records);
    let served = runtime.block_on(async {
        let stop = start::stop()?;
        let served = tokio::select! {
            served = crate::stdio::serve(service, principal, resolved.config.tool_names) => served,
            () = stop => Ok(()),
        };
        space.close().await;
        served
    });
    // A thread may still wait for input that will never come.
    runtime.shutdown_background();
    journal.sync();
    served.map_err(|error| Failure::Failed(format!("the server failed: {error}")))
}
