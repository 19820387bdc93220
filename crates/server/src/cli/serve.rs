//! `stile serve`: serves a folder and its records over HTTP.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::identifiers::SourceName;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_import::importer::ImportTarget;
use stile_records::RecordService;
use stile_store::space::Space;
use stile_store::staged_uploads::UploadFolder;
use stile_store::state::{
    RunningNote, RunningServer, SESSION_SECONDS, SpaceOfFolder, StateDir, TokenKey, TokenStore,
};
use stile_tools::space::SpaceTools;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::client_entry::absolute;
use super::home::Home;
use super::identity_provider::IdentityProvider;
use super::notify::Notifier;
use super::open::OpenSpace;
use super::open_people::{Everybody, PeopleFolder};
use super::settings_files::{http_client, public_https};
use super::welcome::Pages;
use super::{Failure, http_server, open, process, space, user_name, welcome};
use crate::auth::{EitherVerifier, LocalTokenIssuer, LocalVerifier, Minter, TokenUses, local_user};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::{Config, Environment, Resolved, SpaceRecords, YesNo};
use crate::fleet::Fleet;
use crate::http::HttpOptions;
use crate::http::kept_sessions::KeptSessions;
use crate::live_notes::ServedNotes;
use crate::owned_space::OwnedSpace;
use crate::owner_imports::uploads::Uploads;
use crate::owner_sign_in::openid::OpenIdSignIn;
use crate::people::People;
use crate::service::Service;
use crate::sign_in::client_documents::ClientDocuments;
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::routes::routes;
use crate::sign_in::settings::{AuthorizationServer, FolderLister, Owners, SignInSettings};

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
pub(super) fn run(resolved: &Resolved, environment: Environment<'_>) -> Result<(), Failure> {
    let config = &resolved.config;
    let provider = IdentityProvider::from_config(config)?;
    let options = http_server::options(config)?;
    process::log(config.log);
    process::raise_file_limit();
    let texts = open::owner_texts(config)?;
    if config.person.is_some() {
        let why = "a server serves all people; --person is for commands about one of them";
        return Err(Failure::Usage(why.to_owned()));
    }
    let home = Home::open(config)?;
    let issuer = provider.as_ref().map(|provider| provider.issuer.as_str());
    let people = PeopleFolder::of(config, &home, issuer)?;
    let own = people.as_ref().map(|people| people.with_own_root(resolved)).transpose()?;
    let resolved = own.as_ref().unwrap_or(resolved);
    let open_space = open::open_space_at(&home, resolved)?;
    let mut tools = open_space.tools();
    if provider.is_some() {
        // The tokens of an identity provider have roles. Only the gateway has the table of roles
        // that may see the structure of notes, so the note tools are not offered here.
        tools = tools.without_note_tools();
    }
    let owned = OwnedSpace::new(
        (config.root.clone(), home.state().clone()),
        tools.clone(),
        open_space.history.clone(),
        home.journal(),
    );
    let OpenSpace { space, journal, served: _served, .. } = open_space;
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
    let notes = served_notes(config, home.state(), &records, &space, environment)?;
    let service = open::service(config, tools, &journal, Some(records)).with_owner_texts(texts);
    let everybody = || Everybody {
        journal: Arc::clone(&journal),
        service: service.clone(),
        has_note_tools: provider.is_none(),
        tokens: local.as_ref().map(LocalTokens::issuer),
    };
    let people = people.map(|people| people.people(resolved, everybody()));
    let notifier = Notifier::new(environment);
    let fleet = match home.database() {
        Some(_) => Some(Fleet::new(Arc::new(home.tokens()?))),
        None => None,
    };
    if let (Some(fleet), Some(database)) = (fleet.clone(), home.database().cloned()) {
        service.metrics().add_others(move || fleet.metrics(&database.pools()));
    }
    // A connection of its own: no lookup of a token waits while a session is written.
    let kept_sessions = Some(KeptSessions::new(Arc::new(home.tokens()?)));
    // Where each person has a space, and where people sign in elsewhere, nobody owns them all.
    let owned = Some(owned).filter(|_| provider.is_none() && people.is_none());
    let options = HttpOptions { fleet: fleet.clone(), people, kept_sessions, ..options };
    let served = process::block_on(async {
        let heartbeat = fleet.clone().map(|fleet| tokio::spawn(fleet.keep_up()));
        let (keep, stop) = oneshot::channel::<()>();
        let notes = notes.map(|notes| {
            tokio::spawn(notes.keep_in_step(async {
                let _ = stop.await;
            }))
        });
        let served = match (&provider, &local) {
            (Some(provider), local) => {
                let user = user_name(environment);
                let signing = (provider, user.as_str(), local.as_ref());
                serve_hosted(resolved, options, service, signing, &notifier).await
            }
            (None, Some(local)) => {
                let offer = (options, service, owned);
                serve_local(resolved, environment, offer, local, &notifier).await
            }
            (None, None) => Ok(()),
        };
        notifier.stopping();
        if let (Some(heartbeat), Some(fleet)) = (heartbeat, fleet) {
            heartbeat.abort();
            fleet.leave().await;
        }
        drop(keep);
        if let Some(notes) = notes {
            // A batch of notes that is being stored is whole, or is rolled back.
            let _ = tokio::time::timeout(NOTES_STOP, notes).await;
        }
        space.close().await;
        served
    });
    journal.sync();
    served
}

/// Returns the notes that the server keeps as records, if the settings say so.
fn served_notes(
    config: &Config,
    state: &StateDir,
    records: &RecordService,
    space: &Space,
    environment: Environment<'_>,
) -> Result<Option<ServedNotes>, Failure> {
    let SpaceRecords::Connection(connection) = &config.records_of_space else { return Ok(None) };
    let stream = SourceName::parse(NOTES).map_err(|bad| Failure::Failed(bad.to_string()))?;
    Ok(Some(ServedNotes {
        state: state.clone(),
        services: records.clone(),
        owner: local_user(&user_name(environment), Scopes::none(), RecordsClaim::Owner),
        space: space.clone(),
        target: ImportTarget { connection: connection.clone(), stream },
    }))
}

/// Serves callers whose tokens an identity provider signed.
async fn serve_hosted(
    Resolved { config, .. }: &Resolved,
    options: HttpOptions,
    service: Service,
    (provider, user, local): (&IdentityProvider, &str, Option<&LocalTokens>),
    notifier: &Notifier,
) -> Result<(), Failure> {
    let options = HttpOptions { authorization_servers: vec![provider.issuer.clone()], ..options };
    let outbound = http_client(config)?;
    let verifier = provider.verifier(outbound.clone()).await?;
    let on_listening = |address| {
        let note = local.and_then(|local| local.note(config, address));
        http_server::print_address(config, address);
        notifier.ready();
        note
    };
    if let Some(local) = local {
        let sign_in = provider
            .sign_in(config, outbound)?
            .map(|sign_in| sign_in.shared_by(&local.key, &local.tokens, std::time::Instant::now()));
        let who = match sign_in {
            Some(sign_in) => WhoSignsIn::People(Box::new(sign_in)),
            None => WhoSignsIn::Owner(Box::default()),
        };
        let sign_in = sign_in_routes(config, local, &service, &options, user, who)?;
        // Clients take the first authorization server that they are told of.
        let options = HttpOptions { sign_in, authorization_servers: Vec::new(), ..options };
        let local = Arc::clone(&local.verifier);
        let verifier = Arc::new(EitherVerifier { local, provider: verifier });
        return http_server::serve(config, options, service, verifier, on_listening).await;
    }
    http_server::serve(config, options, service, verifier, on_listening).await
}

/// The tokens that were minted with the key in the state folder, for the space that is served.
struct LocalTokens {
    state: StateDir,
    key: TokenKey,
    tokens: Arc<TokenStore>,
    space: SpaceOfFolder,
    verifier: Arc<LocalVerifier>,
    uses: Arc<TokenUses>,
}

impl LocalTokens {
    fn open(home: &Home, config: &Config) -> Result<Self, Failure> {
        let (key, tokens) = (home.key()?, Arc::new(home.tokens()?));
        // All spaces of `--spaces` have one audience; the subject says which of them a token is
        // for.
        let space = tokens.space_of(config.spaces.as_ref().unwrap_or(&config.root))?;
        let uses = TokenUses::new(Arc::clone(&tokens));
        let verifier = LocalVerifier::new(&key, &space.audience, Arc::clone(&tokens), wall_clock)
            .with_uses(Arc::clone(&uses));
        let state = home.state().clone();
        Ok(Self { state, key, tokens, space, verifier: Arc::new(verifier), uses })
    }

    /// Notes in the state folder where this server listens, so that commands find it.
    fn note(&self, config: &Config, address: SocketAddr) -> Option<RunningNote> {
        let folder = config.spaces.as_ref().unwrap_or(&config.root);
        let server = RunningServer {
            origin: format!("{}://{address}", http_server::scheme(config)),
            public_url: config.public_url.clone(),
            audience: self.space.audience.clone(),
            root: absolute(folder),
            pid: std::process::id(),
            started: unix_seconds(wall_clock()),
        };
        RunningNote::publish(&self.state, &server)
            .map_err(|error| {
                tracing::warn!(target: "stile", %error, "commands will not find this server");
            })
            .ok()
    }

    /// Returns what makes tokens for the owner's requests.
    fn issuer(&self) -> Arc<LocalTokenIssuer> {
        Arc::new(LocalTokenIssuer {
            key: self.key.clone(),
            tokens: Arc::clone(&self.tokens),
            audience: self.space.audience.clone(),
            verifier: Arc::clone(&self.verifier),
            clock: wall_clock,
            person: None,
        })
    }
}

/// Who signs in to the pages.
enum WhoSignsIn {
    /// The owner, with the space if it has one owner.
    Owner(Box<Option<OwnedSpace>>),
    /// People, at their identity provider.
    People(Box<OpenIdSignIn>),
}

/// Returns the routes with which clients get tokens by themselves.
///
/// Documents of clients are fetched only if the operator has said that clients come from elsewhere,
/// by naming the public address: they are requests to hosts that strangers choose.
fn sign_in_routes(
    config: &Config,
    local: &LocalTokens,
    service: &Service,
    options: &HttpOptions,
    user: &str,
    who: WhoSignsIn,
) -> Result<Option<Router>, Failure> {
    let (provider, owned) = match who {
        WhoSignsIn::Owner(owned) => (None, *owned),
        WhoSignsIn::People(provider) => (Some(*provider), None),
    };
    if config.sign_in == YesNo::No {
        return Ok(None);
    }
    let Some(space) = service.space() else { return Ok(None) };
    let owners = match &options.people {
        Some(people) => Owners::Each(Arc::clone(people)),
        None => {
            // The pages show the records of one owner, whom no identity provider signs in.
            let records = service.records().filter(|_| provider.is_none());
            let records = records.cloned().map(|service| {
                let owner = local_user(user, Scopes::none(), RecordsClaim::Owner);
                OwnedRecords { service, owner }
            });
            Owners::One { records, space: owned.map(Box::new) }
        }
    };
    let documents = match (&config.public_url, config.client_documents) {
        (Some(_), YesNo::Yes) => Some(ClientDocuments::new(public_https()?)),
        _ => None,
    };
    // A person's own session ends so long after the identity provider signed the person in. No
    // access token of a client outlives that.
    let most = if provider.is_some() { SESSION_SECONDS.unsigned_abs() } else { u64::MAX };
    let access_seconds = (config.access_token_seconds as u64).min(most);
    let uploads = UploadFolder::open(&local.state).map(Uploads::new)?;
    let server = AuthorizationServer::new(SignInSettings {
        key: local.key.clone(),
        tokens: Arc::clone(&local.tokens),
        audience: local.space.audience.clone(),
        public_url: config.public_url.clone(),
        verifier: Arc::clone(&local.verifier),
        owners,
        folders: folder_lister(space.clone(), options.people.clone(), user),
        access_life: Duration::from_secs(access_seconds),
        documents,
        clock: wall_clock,
        uses: Arc::clone(&local.uses),
        provider,
        uploads,
        fleet: options.fleet.clone(),
    });
    let server = server.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(Some(routes(&Arc::new(server))))
}

/// Returns what lists the folders of the space for its owner, on a blocking thread.
fn folder_lister(tools: SpaceTools, people: Option<Arc<People>>, user: &str) -> FolderLister {
    let user = user.to_owned();
    Arc::new(move |subject, folder| {
        let name = if people.is_some() { subject } else { &user };
        let everything = Scopes::from_iter([Scope::everything(Verb::Read)]);
        let owner = local_user(name, everything, RecordsClaim::None);
        let person = people.as_ref().map(|people| people.of(subject)).transpose();
        let Ok(person) = person else { return Vec::new() };
        let own = person.as_ref().and_then(|person| person.service.space());
        // People without a service of their own all have the one space.
        let tools = if person.is_some() { own } else { Some(&tools) };
        let Some(tools) = tools else { return Vec::new() };
        let found = Handle::current().block_on(tools.complete_folders(folder, &owner));
        found.values
    })
}

/// Serves callers whose tokens were minted with the key in the state folder.
async fn serve_local(
    resolved: &Resolved,
    environment: Environment<'_>,
    (options, service, owned): (HttpOptions, Service, Option<OwnedSpace>),
    local: &LocalTokens,
    notifier: &Notifier,
) -> Result<(), Failure> {
    let LocalTokens { key, tokens, space, verifier, .. } = local;
    let user = user_name(environment);
    let who = WhoSignsIn::Owner(Box::new(owned));
    let sign_in = sign_in_routes(&resolved.config, local, &service, &options, &user, who)?;
    let has_pages = sign_in.is_some();
    let options = HttpOptions { sign_in, ..options };
    if space.replaces_another {
        writeln!(io::stderr(), "{REPLACES_ANOTHER}")?;
    } else if space::left_behind(tokens, &resolved.config.root)?.is_some() {
        writeln!(io::stderr(), "{LEFT_BEHIND}")?;
    }
    let minter = Minter { key, tokens, audience: &space.audience };
    let on_listening = |address| {
        let note = local.note(&resolved.config, address);
        let pages = if has_pages { Pages::Offered } else { Pages::None };
        match resolved.config.spaces {
            // Nobody sits at a terminal as one of several people, so none gets a token there.
            Some(_) => http_server::print_address(&resolved.config, address),
            None => welcome::print_welcome(resolved, environment, (minter, pages), space, address),
        }
        notifier.ready();
        note
    };
    let verifier = Arc::clone(verifier);
    http_server::serve(&resolved.config, options, service, verifier, on_listening).await
}
