//! The pages of a server, and the authorization server with which clients get tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_store::staged_uploads::UploadFolder;
use stile_store::state::SESSION_SECONDS;
use stile_tools::space::SpaceTools;
use tokio::runtime::Handle;

use super::local_tokens::LocalTokens;
use super::settings_files::public_https;
use crate::auth::local_user;
use crate::cli::clients::CLIENTS;
use crate::cli::failure::Failure;
use crate::clock::wall_clock;
use crate::config::{Config, YesNo};
use crate::http::HttpOptions;
use crate::owned_space::OwnedSpace;
use crate::owner_imports::uploads::Uploads;
use crate::owner_sign_in::openid::OpenIdSignIn;
use crate::people::People;
use crate::service::Service;
use crate::sign_in::client_documents::ClientDocuments;
use crate::sign_in::record_access::OwnedRecords;
use crate::sign_in::routes::routes;
use crate::sign_in::settings::{AuthorizationServer, FolderLister, Owners, SignInSettings};

/// Who signs in to the pages.
pub(crate) enum WhoSignsIn {
    /// The owner, with the space if it has one owner.
    Owner(Box<Option<OwnedSpace>>),
    /// People, at their identity provider.
    People(Box<OpenIdSignIn>),
}

/// Returns the routes with which clients get tokens by themselves.
///
/// Documents of clients are fetched only if the operator has said that clients come from elsewhere,
/// by naming the public address: they are requests to hosts that strangers choose.
pub(crate) fn sign_in_routes(
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
    let uploads = UploadFolder::open(local.state()).map(Uploads::new)?;
    let server = AuthorizationServer::new(SignInSettings {
        key: local.key.clone(),
        tokens: Arc::clone(&local.tokens),
        audience: local.space.audience.clone(),
        public_url: config.public_url.clone(),
        verifier: Arc::clone(&local.verifier),
        owners,
        folders: folder_lister(space.clone(), options.people.clone(), user),
        connectable: CLIENTS.iter().map(|client| (client.name, client.title)).collect(),
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

/// The most folders of one folder that the pages know.
const MOST_FOLDERS: usize = 1_000;

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
        let found = tools.folders_that_continue(folder, &owner, MOST_FOLDERS);
        let found = Handle::current().block_on(found);
        found.values
    })
}
