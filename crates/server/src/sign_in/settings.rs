//! What every endpoint of the authorization server uses.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use stile_domain::records::instant::Instant as RecordsInstant;
use stile_records::grant_answers::authorization_detail;
use stile_store::records::GrantStatus;
use stile_store::state::{AuthorizationRecord, StateError, TokenKey, TokenStore};

use super::client_documents::ClientDocuments;
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::pending::PendingRequests;
use super::record_access::OwnedRecords;
use super::sealed_client::ClientSeals;
use super::used_forms::UsedForms;
use crate::auth::{LocalVerifier, Minter, TokenUses, signed_in_owner};
use crate::clock::unix_seconds;
use crate::fair_share::{FairShare, Neighbour, Share, ShareUsedUp};
use crate::fleet::Fleet;
use crate::http::rate_limit::RateLimit;
use crate::http::stranger_places::WayIn;
use crate::owned_space::OwnedSpace;
use crate::owner_imports::uploads::Uploads;
use crate::owner_sign_in::methods::SignInMethods;
use crate::owner_sign_in::openid::OpenIdSignIn;
use crate::passkeys::PasskeyRefused;
use crate::people::People;
use crate::shares::Shares;

/// What the program configures.
pub struct SignInSettings {
    /// The key that signs access tokens.
    pub key: TokenKey,
    /// The state, with clients, approvals, sessions and tokens.
    pub tokens: Arc<TokenStore>,
    /// The `aud` of access tokens: the space.
    pub audience: String,
    /// The origin that clients use; if absent, that of each request.
    pub public_url: Option<String>,
    /// How long an access token lives.
    pub access_life: Duration,
    /// What verifies access tokens.
    pub verifier: Arc<LocalVerifier>,
    /// Whose the spaces and the records are that the pages show.
    pub owners: Owners,
    /// What lists the folders below a folder, for the owner to choose from.
    pub folders: FolderLister,
    /// The clients that `stile connect` knows: the word of the command, and the name.
    pub connectable: Vec<(&'static str, &'static str)>,
    /// The documents of clients; `None` if this server fetches none.
    pub documents: Option<ClientDocuments>,
    /// Where the time comes from.
    pub clock: fn() -> SystemTime,
    /// When tokens were last used.
    pub uses: Arc<TokenUses>,
    /// Signs people in at an identity provider; `None` if the owner signs in alone.
    pub provider: Option<OpenIdSignIn>,
    /// The files that were sent to the page and wait for their import.
    pub uploads: Arc<Uploads>,
    /// The servers that share the database; `None` for a server that shares it with none.
    pub fleet: Option<Arc<Fleet>>,
}

/// Whose the spaces and the records are.
pub enum Owners {
    /// All callers have one space, and perhaps nobody owns it alone.
    One {
        /// The records of the one owner; `None` if there are none, or no one owner.
        records: Option<OwnedRecords>,
        /// The space with its journal and history; `None` if it has more than one owner.
        space: Option<Box<OwnedSpace>>,
    },
    /// Each person owns a space and records. The person's own session on the pages shows who that
    /// is, and nothing that a token claims.
    Each(Arc<People>),
}

impl Owners {
    /// Returns whether each person owns a space here.
    pub fn are_people(&self) -> bool {
        matches!(self, Self::Each(_))
    }

    /// Returns the name of the one folder that is served; `None` where each person has one.
    pub fn folder_name(&self) -> Option<String> {
        let Self::One { space: Some(space), .. } = self else { return None };
        Some(space.root.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns whether clients can ask for records.
    pub fn have_records(&self) -> bool {
        match self {
            Self::One { records, .. } => records.is_some(),
            Self::Each(_) => true,
        }
    }

    /// Returns the records that a signed-in person owns; `None` if there are none.
    pub fn records_of(&self, subject: &str) -> Option<OwnedRecords> {
        match self {
            Self::One { records, .. } => records.clone(),
            Self::Each(people) => {
                let service = people.of(subject).ok()?.service.records()?.clone();
                Some(OwnedRecords { service, owner: signed_in_owner(subject) })
            }
        }
    }
}

/// Lists the folders of a person whose paths continue a text: those directly below a folder, for
/// its path with a final slash. A folder comes before those whose names continue its own. The
/// person is the first argument, and the text the second.
pub type FolderLister = Arc<dyn Fn(&str, &str) -> Vec<String> + Send + Sync>;

/// The authorization server of one space.
pub struct AuthorizationServer {
    /// What the program configured.
    pub settings: SignInSettings,
    /// The requests that wait for the owner.
    pub pending: PendingRequests,
    /// What the owner signs in with.
    pub methods: SignInMethods,
    /// What makes and reads the identifiers of clients that register themselves.
    pub seals: ClientSeals,
    /// The forms of pages that made something.
    pub used_forms: UsedForms,
    rate: RateLimit,
    registrations: RateLimit,
    /// The threads that the sources of requests share.
    threads: Arc<FairShare>,
}

/// Requests to one endpoint that one address may send in a second, over time and at once.
const RATE: (u32, u32) = (20, 200);
/// The same for registrations.
const REGISTRATION_RATE: (u32, u32) = (1, 60);

impl AuthorizationServer {
    /// Makes a server with nothing pending.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(mut settings: SignInSettings) -> Result<Self, PasskeyRefused> {
        let seals = ClientSeals::new(&settings.key)
            .map_err(|_| PasskeyRefused::State(StateError::Random))?;
        let provider = settings.provider.take();
        let pending = PendingRequests::new(&settings.tokens);
        let methods = SignInMethods::new(&settings.tokens, &settings.key, provider)?;
        let fleet = settings.fleet.clone();
        let limit =
            |(per_second, burst)| RateLimit::new(per_second, burst).shared_by(fleet.clone());
        Ok(Self {
            methods: methods.shared_by(fleet.clone()),
            pending,
            seals,
            used_forms: UsedForms::default(),
            rate: limit(RATE),
            registrations: limit(REGISTRATION_RATE),
            threads: Shares::threads_of_strangers(),
            settings,
        })
    }

    /// Returns the clients, approvals, sessions and tokens.
    pub fn tokens(&self) -> &TokenStore {
        &self.settings.tokens
    }

    /// Returns the time in UTC seconds.
    pub fn now(&self) -> i64 {
        unix_seconds((self.settings.clock)())
    }

    /// Returns what makes access tokens.
    pub fn minter(&self) -> Minter<'_> {
        let SignInSettings { key, tokens, audience, .. } = &self.settings;
        Minter { key, tokens, audience }
    }

    /// Returns the time by which grants are judged.
    pub fn instant(&self) -> RecordsInstant {
        RecordsInstant::from_seconds(self.now())
    }

    /// Returns what a grant of a person's records allows now, as `authorization_details` say it;
    /// `None` if the grant does not exist, has ended or cannot be read.
    pub fn granted_detail(&self, subject: &str, id: &str) -> Option<Value> {
        let records = self.settings.owners.records_of(subject)?;
        let grant = records.service.find_grant(&records.owner, id).ok()??;
        let is_active = grant.status(self.instant()) == GrantStatus::Active;
        is_active.then(|| authorization_detail(grant.grant.as_ref()?)).flatten()
    }

    /// Ends an authorization with all its tokens, and revokes the grant that was made for it.
    ///
    /// # Errors
    /// [`StateError`] if the state cannot be written.
    pub fn end_authorization(&self, authorization: &AuthorizationRecord) -> Result<(), StateError> {
        self.tokens().end_authorization(&authorization.id, self.now())?;
        let Some(grant) = &authorization.grant else { return Ok(()) };
        let Some(records) = self.settings.owners.records_of(&authorization.subject) else {
            return Ok(());
        };
        let revoked = records.service.revoke_grant(&records.owner, grant, self.instant());
        if let Err(problem) = revoked {
            tracing::error!(target: "stile::sign_in", %problem, "a grant could not be revoked");
        }
        Ok(())
    }

    /// Takes one of the threads that answer requests, or waits for one. Sources take turns, and the
    /// ways in of a source do.
    ///
    /// # Errors
    /// [`ShareUsedUp`], if requests of the same source use up its share.
    pub async fn take_thread(&self, source: &str, way: WayIn) -> Result<Share, ShareUsedUp> {
        self.threads.take(&Neighbour::stranger(source, way.name()), 1).await
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    /// The address sends too many.
    pub fn take_turn(&self, address: &str) -> Result<(), OAuthError> {
        self.rate.take(address, Instant::now()).map_err(too_many)
    }

    /// Counts a registration of an address.
    ///
    /// # Errors
    /// The address registers too many.
    pub fn take_registration(&self, address: &str) -> Result<(), OAuthError> {
        self.registrations.take(address, Instant::now()).map_err(too_many)
    }
}

fn too_many(wait: Duration) -> OAuthError {
    let seconds = wait.as_secs().saturating_add(1);
    OAuthError::new(
        OAuthErrorCode::TooManyRequests,
        format!("too many requests from this address; try again in {seconds} s"),
    )
}
