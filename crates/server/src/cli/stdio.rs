//! `stile stdio`: serves a folder and its records to the one client that started this process.

use std::sync::Arc;

use clap::ArgMatches;
use stile_domain::client_name::{DOCTOR, is_reserved};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::client_metadata::ClientName;

use super::open::OpenSpace;
use super::{Failure, open, owner, process, token, user_name};
use crate::auth::{ServedSpace, StdioClient, StdioRefusal, StdioRights};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::{Environment, Resolved};
use crate::mcp::handler::CallerSource;
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
    let claim = token::records_claim(matches)?;
    let given = owner::text(matches, "client").map(|name| client_name(name, environment));
    let given = given.transpose()?;
    process::log(resolved.config.log);
    let texts = open::owner_texts(&resolved.config)?;
    // Most clients ask for the lists first, which need no file: see docs/decisions/0095.
    let (home, open_space) = open::open_space_on_first_use(resolved)?;
    home.refuse_people("stile stdio", "serve people over HTTP with `stile serve --spaces`")?;
    let tokens = Arc::new(home.tokens_on_first_use()?);
    // A running client learns of the first import, so the tables are there for whom may see it.
    let sees_records = claim != RecordsClaim::None;
    let rights = StdioRights {
        subject: user_name(environment),
        space: ServedSpace::OfFolder(resolved.config.root.clone()),
        scopes,
        records: claim,
    };
    let client = Arc::new(StdioClient::new(rights, given, tokens, || unix_seconds(wall_clock())));
    client.check()?;
    let tools = open_space.tools();
    let OpenSpace { space, journal, served: _served, .. } = open_space;
    // If nothing was ever imported, a client of files alone gets no records, and no database is
    // made.
    let offers_records = sees_records || home.has_records();
    let records = offers_records.then(|| open::open_records(&home, &journal)).transpose()?;
    let service = open::service(&resolved.config, tools, &journal, records).with_owner_texts(texts);
    let served = process::block_on(async {
        let caller = CallerSource::Stdio(Arc::clone(&client));
        let served = serve(service, caller, Presentation::of(&resolved.config)).await;
        space.close().await;
        served
    });
    client.close();
    journal.sync();
    served
}

/// Serves one client over standard input and output, until the input ends or the process is asked
/// to stop.
pub(super) async fn serve(
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
) -> Result<(), Failure> {
    let failure = |error| Failure::Failed(format!("the server failed: {error}"));
    let stop = process::stop_signal().map_err(failure)?;
    tokio::select! {
        served = crate::stdio::serve(service, caller, presentation) => served.map_err(failure),
        () = stop => Ok(()),
    }
}

impl From<StdioRefusal> for Failure {
    fn from(refusal: StdioRefusal) -> Self {
        match refusal {
            StdioRefusal::Ended { .. } => Self::Failed(refusal.to_string()),
            StdioRefusal::State(error) => error.into(),
        }
    }
}

/// The environment variable by which `stile doctor` says that it starts an entry itself.
pub(super) const BY_DOCTOR: &str = "STILE_DOCTOR_CALLS";

/// Checks the name that `--client` gives.
fn client_name(text: &str, environment: Environment<'_>) -> Result<String, Failure> {
    let is_doctor = text == DOCTOR && environment(BY_DOCTOR).is_some();
    if is_reserved(text) && !is_doctor {
        return Err(Failure::Usage(format!(
            "--client: this program keeps the name `{}` for itself, so that the history can tell \
             its own calls apart; nothing was served: give another name, such as claude-desktop",
            text.escape_debug()
        )));
    }
    match ClientName::clean(text) {
        Some(name) if name.as_str() == text => Ok(text.to_owned()),
        _ => Err(Failure::Usage(format!(
            "--client: `{}` is not a name of printable characters, such as claude-desktop",
            text.escape_debug()
        ))),
    }
}
