//! `stile serve`: serves a folder and its records over HTTP.

mod notify;
mod welcome;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::client_name::in_one_alphabet;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::scope::Scopes;
use stile_domain::unseen::shown;
use stile_import::importer::ImportTarget;
use stile_records::RecordService;
use stile_store::journal::Journal;
use stile_store::postgresql::{Database, DatabaseRole};
use stile_store::space::Space;
use stile_store::state::{ServedFolder, StateDir, TokenKind, TokenRecord};
use stile_tools::space::SpaceTools;
use tokio::sync::oneshot;

use self::notify::Notifier;
use self::welcome::{Pages, Welcome};
use super::space;
use crate::auth::{EitherVerifier, Minter, local_user};
use crate::cli::compose::open_people::{Everybody, PeopleFolder};
use crate::cli::compose::settings_files::http_client;
use crate::cli::compose::sign_in::{WhoSignsIn, sign_in_routes};
use crate::cli::compose::{
    Home, IdentityProvider, LocalTokens, OpenSpace, http_server, open, process,
};
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::terminal;
use crate::clock::{unix_seconds, wall_clock};
use crate::config::{Config, Environment, Resolved, SpaceRecords};
use crate::fleet::Fleet;
use crate::http::HttpOptions;
use crate::http::carried_sessions::CarriedSessions;
use crate::http::kept_sessions::KeptSessions;
use crate::live_notes::ServedNotes;
use crate::owned_space::OwnedSpace;
use crate::service::{OwnerTexts, Service};

const REPLACES_ANOTHER: &str = "this is another folder than the one that was served from this path \
    before, so it is a space of its own: tokens of the other folder are refused here. If it is the \
    same folder from a backup or another disk, stop the server and run `stile space adopt`";
const LEFT_BEHIND: &str = "a folder that was served with this state is not there any more, and its \
    tokens are refused here. If this is the same folder at another place, stop the server and run \
    `stile space adopt`";

/// The stream of the notes that `--records-of-space` keeps as records.
const NOTES: &str = "notes";
/// How long the server waits for a batch of notes that is being stored when it stops.
const NOTES_STOP: Duration = Duration::from_secs(10);

/// Serves until the process is asked to stop.
pub(super) fn run(Invocation { matches, environment, .. }: Invocation<'_>) -> Result<(), Failure> {
    let resolved = settings(matches, environment)?;
    let choices = Choices::of(&resolved.config)?;
    let (server, offer, mut upkeep) = open(resolved, choices, environment)?;
    let served = process::block_on(upkeep.during(server.serve(offer)));
    // A thread that was abandoned may hold the collected uses, which would then be lost.
    if let Some(local) = &server.local {
        local.uses.write();
    }
    upkeep.journal.sync();
    served
}

/// What the settings alone decide, before anything is opened.
struct Choices {
    provider: Option<IdentityProvider>,
    options: HttpOptions,
    texts: OwnerTexts,
}

impl Choices {
    fn of(config: &Config) -> Result<Self, Failure> {
        let provider = IdentityProvider::from_config(config)?;
        let options = http_server::options(config)?;
        process::log(config.log);
        process::raise_file_limit();
        let texts = open::owner_texts(config)?;
        if config.person.is_some() {
            let why = "a server serves all people; --person is for commands about one of them";
            return Err(Failure::Usage(why.to_owned()));
        }
        Ok(Self { provider, options, texts })
    }
}

/// Opens the state, the space and the records, and makes of them what is served.
fn open(
    resolved: Resolved,
    Choices { provider, options, texts }: Choices,
    environment: Environment<'_>,
) -> Result<(Server, Offer, Upkeep), Failure> {
    let user = user_name(environment);
    let home = Home::open(&resolved.config)?;
    let issuer = provider.as_ref().map(|provider| provider.issuer.as_str());
    let people = PeopleFolder::of(&resolved.config, &home, issuer)?;
    let config = &resolved.config;
    let open_space = match &people {
        Some(people) => {
            people.warn_of_other_folders(config)?;
            people.open(config)?
        }
        None => open::open_space_at(&home, &resolved)?,
    };
    let tools = offered_tools(&open_space, provider.as_ref());
    let owned = OwnedSpace::new(
        (config.root.clone(), home.state().clone()),
        tools.clone(),
        open_space.history.clone(),
        home.journal(),
    );
    let OpenSpace { space, journal, served, .. } = open_space;
    let local = match provider {
        Some(_) if config.sign_in_client.is_none() => None,
        _ => Some(LocalTokens::open(&home, config)?),
    };
    let records = match &people {
        Some(people) => people.own_records(&journal)?,
        None => open::open_records(&home, &journal)?,
    };
    let records = match &local {
        Some(local) if provider.is_none() => records.with_token_issuer(local.issuer()),
        _ => records,
    };
    let notes = served_notes(config, home.state(), &records, &space, &user)?;
    let service = open::service(config, tools, &journal, Some(records)).with_owner_texts(texts);
    let people = people.map(|people| {
        let everybody = Everybody {
            journal: Arc::clone(&journal),
            service: service.clone(),
            has_note_tools: provider.is_none(),
            tokens: local.as_ref().map(LocalTokens::issuer),
        };
        people.people(&resolved, everybody)
    });
    let fleet = fleet(&home, &service)?;
    // A connection of its own: no lookup of a token waits while a session is written.
    // Without a key to sign with, a session is known to one server where it cannot be stored.
    let carried = match home.database() {
        Some(_) => home.key().ok().and_then(|key| CarriedSessions::new(&key).ok()),
        None => None,
    };
    let kept_sessions = Some(KeptSessions::new(Arc::new(home.tokens()?), carried));
    // Where each person has a space, and where people sign in elsewhere, nobody owns them all.
    let owned = Some(owned).filter(|_| provider.is_none() && people.is_none());
    owned.iter().for_each(OwnedSpace::count_ahead);
    let options = HttpOptions { fleet: fleet.clone(), people, kept_sessions, ..options };
    let notifier = Notifier::new(environment);
    Ok((
        Server { resolved, user, provider, local, notifier },
        Offer { options, service, owned },
        Upkeep { fleet, notes, space, journal, _served: served },
    ))
}

/// Returns the tools of the space that callers have.
fn offered_tools(open_space: &OpenSpace, provider: Option<&IdentityProvider>) -> SpaceTools {
    match provider {
        None => open_space.tools(),
        // The tokens of an identity provider have roles. Only the gateway has the table of roles
        // that may see the structure of notes, so the note tools are not offered here.
        Some(_) => open_space.tools().without_note_tools(),
    }
}

/// Returns the servers that share the database, whose metrics those of the service include.
fn fleet(home: &Home, service: &Service) -> Result<Option<Arc<Fleet>>, Failure> {
    let Some(database) = home.database().cloned() else { return Ok(None) };
    let fleet = Fleet::new(Arc::new(home.tokens()?), Some(database.clone()));
    let others = Arc::clone(&fleet);
    service.metrics().add_others(move || others.metrics(&database.pools()));
    let role = home.database().map(Database::role).transpose()?;
    if role == Some(DatabaseRole::OwnsTables)
        && let Some(caution) = role.and_then(DatabaseRole::caution)
    {
        tracing::warn!("{caution}");
    }
    Ok(Some(fleet))
}

/// Returns the notes that the server keeps as records, if the settings say so.
fn served_notes(
    config: &Config,
    state: &StateDir,
    records: &RecordService,
    space: &Space,
    user: &str,
) -> Result<Option<ServedNotes>, Failure> {
    let SpaceRecords::Connection(connection) = &config.records_of_space else { return Ok(None) };
    let stream = SourceName::parse(NOTES).map_err(|bad| Failure::Failed(bad.to_string()))?;
    Ok(Some(ServedNotes {
        state: state.clone(),
        services: records.clone(),
        owner: local_user(user, Scopes::none(), RecordsClaim::Owner),
        space: space.clone(),
        target: ImportTarget { connection: connection.clone(), stream },
    }))
}

/// What goes on beside the server, from its start to its end.
struct Upkeep {
    fleet: Option<Arc<Fleet>>,
    notes: Option<ServedNotes>,
    space: Space,
    journal: Arc<Journal>,
    /// Says to other processes that the folder is served.
    _served: Option<ServedFolder>,
}

impl Upkeep {
    /// Serves, and meanwhile says to other servers that this one runs, and keeps notes as records.
    async fn during<T>(&mut self, serving: impl Future<Output = T>) -> T {
        let heartbeat = self.fleet.clone().map(|fleet| tokio::spawn(fleet.keep_up()));
        let (keep, stop) = oneshot::channel::<()>();
        let notes = self.notes.take().map(|notes| {
            tokio::spawn(notes.keep_in_step(async {
                let _ = stop.await;
            }))
        });
        let served = serving.await;
        if let (Some(heartbeat), Some(fleet)) = (heartbeat, self.fleet.take()) {
            heartbeat.abort();
            fleet.leave().await;
        }
        drop(keep);
        if let Some(notes) = notes {
            // A batch of notes that is being stored is whole, or is rolled back.
            let _ = tokio::time::timeout(NOTES_STOP, notes).await;
        }
        self.space.close().await;
        served
    }
}

/// What is served to callers.
struct Offer {
    options: HttpOptions,
    service: Service,
    /// The space, if it has one owner.
    owned: Option<OwnedSpace>,
}

/// For whom the server is, and whose tokens count.
struct Server {
    resolved: Resolved,
    /// The user who started the program.
    user: String,
    provider: Option<IdentityProvider>,
    local: Option<LocalTokens>,
    notifier: Notifier,
}

impl Server {
    /// Serves until the process is asked to stop.
    async fn serve(&self, offer: Offer) -> Result<(), Failure> {
        let served = match (&self.provider, &self.local) {
            (Some(provider), local) => self.serve_hosted(offer, provider, local.as_ref()).await,
            (None, Some(local)) => self.serve_local(offer, local).await,
            (None, None) => Ok(()),
        };
        self.notifier.stopping();
        served
    }

    /// Serves callers whose tokens an identity provider signed.
    async fn serve_hosted(
        &self,
        Offer { options, service, .. }: Offer,
        provider: &IdentityProvider,
        local: Option<&LocalTokens>,
    ) -> Result<(), Failure> {
        let config = &self.resolved.config;
        let options =
            HttpOptions { authorization_servers: vec![provider.issuer.clone()], ..options };
        let outbound = http_client(config)?;
        let verifier = provider.verifier(outbound.clone()).await?;
        let on_listening = |address| {
            let note = local.and_then(|local| local.note(config, address));
            http_server::print_address(config, address);
            self.notifier.ready();
            note
        };
        let Some(local) = local else {
            return http_server::serve(config, options, service, verifier, on_listening).await;
        };
        if local.space.replaces_another {
            writeln!(io::stderr(), "{REPLACES_ANOTHER}")?;
        }
        let sign_in = provider
            .sign_in(config, outbound)?
            .map(|sign_in| sign_in.shared_by(&local.key, &local.tokens, Instant::now()));
        let who = match sign_in {
            Some(sign_in) => WhoSignsIn::People(Box::new(sign_in)),
            None => WhoSignsIn::Owner(Box::default()),
        };
        let sign_in = sign_in_routes(config, local, &service, &options, &self.user, who)?;
        // Clients take the first authorization server that they are told of.
        let options = HttpOptions { sign_in, authorization_servers: Vec::new(), ..options };
        let local = Arc::clone(&local.verifier);
        let verifier = Arc::new(EitherVerifier { local, provider: verifier });
        http_server::serve(config, options, service, verifier, on_listening).await
    }

    /// Names the clients whose tokens were made before a folder was served: they open this one now.
    fn say_who_waited(
        &self,
        LocalTokens { tokens, space, .. }: &LocalTokens,
    ) -> Result<(), Failure> {
        let live = tokens.list_live(unix_seconds(wall_clock()))?;
        // A client that starts the server itself names its folder.
        let is_meant = |token: &&TokenRecord| {
            token.audience.as_ref() == Some(&space.audience)
                && token.kind != TokenKind::Stdio
                && !token.scopes.is_empty()
        };
        let name = |token: &TokenRecord| match &token.client {
            Some(client) => in_one_alphabet(client).into_owned(),
            None => format!("a token of {}", token.subject),
        };
        let names: BTreeSet<String> = live.iter().filter(is_meant).map(name).collect();
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            let line = format!(
                "clients that got access before a folder was served reach this one now: {}; `stile \
                 token list` shows their tokens",
                shown(&names.join(", "))
            );
            terminal::print_to_stderr(&line)?;
        }
        Ok(())
    }

    /// Serves callers whose tokens were minted with the key in the state folder.
    async fn serve_local(
        &self,
        Offer { options, service, owned }: Offer,
        local: &LocalTokens,
    ) -> Result<(), Failure> {
        let LocalTokens { key, tokens, space, verifier, .. } = local;
        let config = &self.resolved.config;
        let who = WhoSignsIn::Owner(Box::new(owned));
        let sign_in = sign_in_routes(config, local, &service, &options, &self.user, who)?;
        let pages = if sign_in.is_some() { Pages::Offered } else { Pages::None };
        let options = HttpOptions { sign_in, ..options };
        if space.replaces_another {
            writeln!(io::stderr(), "{REPLACES_ANOTHER}")?;
        } else if config.spaces.is_none() && space::left_behind(tokens, &config.root)?.is_some() {
            writeln!(io::stderr(), "{LEFT_BEHIND}")?;
        }
        if config.spaces.is_none() && space.was_without_folder {
            self.say_who_waited(local)?;
        }
        let minter = Minter { key, tokens, audience: &space.audience };
        let on_listening = |address| {
            let note = local.note(config, address);
            match config.spaces {
                // Nobody sits at a terminal as one of several people, so none gets a token there.
                Some(_) => http_server::print_address(config, address),
                None => Welcome { resolved: &self.resolved, user: &self.user, minter, pages }
                    .print(space, address),
            }
            self.notifier.ready();
            note
        };
        let verifier = Arc::clone(verifier);
        http_server::serve(config, options, service, verifier, on_listening).await
    }
}
