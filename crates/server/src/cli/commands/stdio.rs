//! `stile stdio`: serves a folder and its records to the one client that started this process.

use std::sync::Arc;

use stile_domain::client_name::{DOCTOR, is_reserved};
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::sign_in::client_metadata::ClientName;

use crate::auth::{ServedSpace, StdioClient, StdioRights};
use crate::cli::compose::{OpenSpace, open, process, stdio_server};
use crate::cli::failure::Failure;
use crate::cli::flags::{self, access};
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::Environment;
use crate::mcp::handler::CallerSource;
use crate::mcp::presentation::Presentation;

/// Serves until standard input ends.
pub(super) fn run(Invocation { matches, environment, .. }: Invocation<'_>) -> Result<(), Failure> {
    let resolved = &settings(matches, environment)?;
    let everything = || Scopes::from_iter([Scope::everything(Verb::Write)]);
    let scopes = access::scopes(matches)?.unwrap_or_else(everything);
    let scopes = access::with_denials(scopes, matches)?;
    let claim = access::records_claim(matches)?;
    let given = flags::text(matches, "client").map(|name| client_name(name, environment));
    let given = given.transpose()?;
    process::log(resolved.config.log);
    // Without a flag everything is meant, and nothing is looked at.
    if flags::text(matches, "scope").or(flags::text(matches, "deny")).is_some() {
        let root = Some(resolved.config.root.as_path()).filter(|root| root.is_dir());
        access::print_doubts(&scopes, root)?;
    }
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
        let served = stdio_server::serve(service, caller, Presentation::of(&resolved.config)).await;
        space.close().await;
        served
    });
    client.close();
    journal.sync();
    served
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
    access::check_client_name(text, "nothing was served")?;
    match ClientName::clean(text) {
        Some(name) if name.as_str() == text => Ok(text.to_owned()),
        _ => Err(Failure::Usage(format!(
            "--client: `{}` is not a name of printable characters, such as claude-desktop",
            text.escape_debug()
        ))),
    }
}
