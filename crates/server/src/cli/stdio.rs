//! `stile stdio`: serves a folder and its records to the one client that started this process.

use clap::ArgMatches;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};

use super::open::OpenSpace;
use super::{Failure, open, process, token, user_name};
use crate::auth;
use crate::config::{Environment, Resolved};
use crate::mcp::presentation::Presentation;
use crate::service::Service;

/// Serves until standard input ends.
pub(super) fn run(
    resolved: &Resolved,
    matches: &ArgMatches,
    environment: Environment<'_>,
) -> Result<(), Failure> {
    let everything = || Scopes::from_iter([Scope::everything(Verb::Write)]);
    let scopes = token::scopes(matches)?.unwrap_or_else(everything);
    let scopes = token::with_denials(scopes, matches)?;
    let records = token::grant(matches)?.unwrap_or(RecordsClaim::Owner);
    let principal = auth::local_user(&user_name(environment), scopes, records);
    process::log(resolved.config.log);
    let texts = open::owner_texts(&resolved.config)?;
    let (home, open_space) = open::open_space(resolved)?;
    let tools = open_space.tools();
    let OpenSpace { space, journal } = open_space;
    // If nothing was ever imported, there are no records to offer, and no database is made.
    let records = home.has_records().then(|| open::open_records(&home, &journal)).transpose()?;
    let service = open::service(&resolved.config, tools, &journal, records).with_owner_texts(texts);
    let served = process::block_on(async {
        let served = serve(service, principal, Presentation::of(&resolved.config)).await;
        space.close().await;
        served
    });
    journal.sync();
    served
}

/// Serves one client over standard input and output, until the input ends or the process is asked
/// to stop.
pub(super) async fn serve(
    service: Service,
    principal: Principal,
    presentation: Presentation,
) -> Result<(), Failure> {
    let failure = |error| Failure::Failed(format!("the server failed: {error}"));
    let stop = process::stop_signal().map_err(failure)?;
    tokio::select! {
        served = crate::stdio::serve(service, principal, presentation) => served.map_err(failure),
        () = stop => Ok(()),
    }
}
