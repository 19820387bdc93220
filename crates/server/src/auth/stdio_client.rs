//! The client that starts `stile stdio`: makes a caller of it, under a name of its own.
//!
//! The name is the one of `--client`. A client that was configured without it has the name that it
//! gives itself when it opens the session, marked as such. Each client has a record among the
//! tokens, which says what it may do and when it was last used, and which the owner can revoke.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stile_domain::client_name::{DOCTOR, UNNAMED, self_named};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_domain::shell_word::quoted;
use stile_domain::sign_in::client_metadata::ClientName;
use stile_store::state::{AfterEnd, StateError, StdioAccess, TokenKind, TokenRecord, TokenStore};

use super::token_uses::TokenUses;

/// What a client that starts `stile stdio` may do.
#[derive(Clone, Debug)]
pub struct StdioRights {
    /// The user for whom the client acts.
    pub subject: String,
    /// The space that is served.
    pub space: ServedSpace,
    /// The scopes on files.
    pub scopes: Scopes,
    /// The access to records.
    pub records: RecordsClaim,
}

/// The space that a client is let into.
#[derive(Clone, Debug)]
pub enum ServedSpace {
    /// The space with this `aud`.
    Known(String),
    /// The space of this folder, which gets an `aud` when a client is recorded first.
    OfFolder(PathBuf),
}

impl ServedSpace {
    /// Returns the `aud`, after making one for a folder that has none.
    fn audience(&self, tokens: &TokenStore) -> Result<String, StateError> {
        match self {
            Self::Known(audience) => Ok(audience.clone()),
            Self::OfFolder(folder) => Ok(tokens.space_of(folder)?.audience),
        }
    }

    /// Returns the `aud` if there is one, and writes nothing.
    fn known_audience(&self, tokens: &TokenStore) -> Result<Option<String>, StateError> {
        match self {
            Self::Known(audience) => Ok(Some(audience.clone())),
            Self::OfFolder(_) if !tokens.has_tables() => Ok(None),
            Self::OfFolder(folder) => tokens.audience_of(folder),
        }
    }
}

/// Why a client may not act.
#[derive(Debug, thiserror::Error)]
pub enum StdioRefusal {
    /// The owner ended the client.
    #[error(
        "the owner ended the access of {client}, so nothing was done; if you are the owner, \
         `stile client allow {}` lets it in again",
        quoted(client)
    )]
    Ended {
        /// The name of the client.
        client: String,
    },
    /// The record of the client cannot be read or made.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Makes the caller of a process that one client started.
#[derive(Debug)]
pub struct StdioClient {
    rights: StdioRights,
    /// The name of `--client`.
    given: Option<String>,
    tokens: Arc<TokenStore>,
    uses: Arc<TokenUses>,
    clock: fn() -> i64,
    admitted: Mutex<Option<Principal>>,
}

impl StdioClient {
    /// Makes callers with `rights`. `given` is the name of `--client`; `clock` returns UTC seconds
    /// since 1970.
    pub fn new(
        rights: StdioRights,
        given: Option<String>,
        tokens: Arc<TokenStore>,
        clock: fn() -> i64,
    ) -> Self {
        let uses = TokenUses::new(Arc::clone(&tokens));
        Self { rights, given, tokens, uses, clock, admitted: Mutex::default() }
    }

    /// Checks before the first message that a client with a name of `--client` may act.
    ///
    /// # Errors
    /// [`StdioRefusal`].
    pub fn check(&self) -> Result<(), StdioRefusal> {
        self.given.as_ref().map_or(Ok(()), |_| self.principal_of_lists(None).map(drop))
    }

    /// Returns the caller of a list that no file and no record is looked at for. The list says what
    /// a client may do, so a client that is not recorded yet gets it before it is recorded, which
    /// takes several syncs of the disk. One that sees records is recorded first: what it may list
    /// depends on its record.
    ///
    /// # Errors
    /// [`StdioRefusal`], also for a client that was ended.
    pub fn principal_of_lists(
        &self,
        calls_itself: Option<&str>,
    ) -> Result<Principal, StdioRefusal> {
        let is_admitted = self.admitted().is_some();
        if is_admitted || self.rights.records != RecordsClaim::None || self.is_doctor() {
            return self.principal(calls_itself);
        }
        let client = self.name(calls_itself);
        let known = match self.rights.space.known_audience(&self.tokens)? {
            Some(audience) => {
                let wanted = stdio_record(&self.rights, &audience, &client, (self.clock)());
                self.tokens.known_stdio_client(&wanted)?
            }
            None => None,
        };
        match known {
            Some(StdioAccess::Ended(_)) => Err(StdioRefusal::Ended { client }),
            Some(StdioAccess::Allowed(_)) => self.principal(calls_itself),
            None => {
                let StdioRights { subject, scopes, records, .. } = &self.rights;
                let (scopes, records) = (scopes.clone(), records.clone());
                Ok(Principal::assert_verified(subject, None, Some(&client), scopes, records))
            }
        }
    }

    /// Returns the caller, and notes the use. `calls_itself` is the name that the client gave when
    /// it opened the session. The first call decides the name.
    ///
    /// # Errors
    /// [`StdioRefusal`], also for a client that was ended since its last call.
    pub fn principal(&self, calls_itself: Option<&str>) -> Result<Principal, StdioRefusal> {
        let mut admitted = self.admitted();
        let principal = match &*admitted {
            Some(principal) => principal.clone(),
            None => admitted.insert(self.admit(calls_itself)?).clone(),
        };
        drop(admitted);
        let is_doctor = principal.client() == Some(DOCTOR);
        if let Some(jti) = principal.token().filter(|_| !is_doctor) {
            if !self.tokens.is_live(jti)? {
                let client = principal.client().unwrap_or(UNNAMED).to_owned();
                return Err(StdioRefusal::Ended { client });
            }
            self.uses.note(jti, (self.clock)());
        }
        Ok(principal)
    }

    /// Writes when the client was last used, at the end of the process.
    pub fn close(&self) {
        self.uses.write();
    }

    /// Whether the client was ended.
    pub fn is_ended(&self) -> bool {
        let admitted = self.admitted();
        let client = admitted.as_ref().filter(|it| it.client() != Some(DOCTOR));
        let jti = client.and_then(Principal::token);
        // A list that cannot be read ends nothing.
        jti.is_some_and(|jti| matches!(self.tokens.is_live(jti), Ok(false)))
    }

    fn admitted(&self) -> MutexGuard<'_, Option<Principal>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_doctor(&self) -> bool {
        self.given.as_deref() == Some(DOCTOR)
    }

    fn name(&self, calls_itself: Option<&str>) -> String {
        self.given.clone().unwrap_or_else(|| self_given(calls_itself))
    }

    fn admit(&self, calls_itself: Option<&str>) -> Result<Principal, StdioRefusal> {
        let client = self.name(calls_itself);
        let StdioRights { subject, scopes, records, .. } = &self.rights;
        if self.is_doctor() {
            // The client of a grant has a token identifier.
            let token = matches!(records, RecordsClaim::Grant(_));
            let token = token.then(|| uuid::Uuid::new_v4().to_string());
            return Ok(Principal::assert_verified(
                subject,
                token.as_deref(),
                Some(DOCTOR),
                scopes.clone(),
                records.clone(),
            ));
        }
        let audience = self.rights.space.audience(&self.tokens)?;
        let wanted = stdio_record(&self.rights, &audience, &client, (self.clock)());
        match self.tokens.admit_stdio_client(&wanted, AfterEnd::StaysOut)? {
            StdioAccess::Ended(_) => Err(StdioRefusal::Ended { client }),
            StdioAccess::Allowed(TokenRecord { jti, .. }) => {
                let (scopes, records) = (scopes.clone(), records.clone());
                let (jti, client) = (Some(jti.as_str()), Some(client.as_str()));
                Ok(Principal::assert_verified(subject, jti, client, scopes, records))
            }
        }
    }
}

/// Returns the record of a client that may act in the space `audience` from `now` on.
pub fn stdio_record(rights: &StdioRights, audience: &str, client: &str, now: i64) -> TokenRecord {
    let grant = match &rights.records {
        RecordsClaim::Grant(grant) => Some(grant.to_string()),
        RecordsClaim::None | RecordsClaim::Owner | RecordsClaim::Import(_) => None,
    };
    TokenRecord {
        jti: uuid::Uuid::new_v4().to_string(),
        audience: Some(audience.to_owned()),
        kind: TokenKind::Stdio,
        subject: rights.subject.clone(),
        client: Some(client.to_owned()),
        grant,
        owner: rights.records == RecordsClaim::Owner,
        scopes: rights.scopes.to_string(),
        issued: now,
        expires: TokenRecord::NEVER,
        revoked: None,
    }
}

/// Returns the name of a client that was configured without one.
fn self_given(calls_itself: Option<&str>) -> String {
    match calls_itself.and_then(ClientName::clean) {
        Some(name) => self_named(name.as_str()),
        None => UNNAMED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use stile_store::state::StateDir;

    use super::*;

    struct Rig {
        _folder: tempfile::TempDir,
        tokens: Arc<TokenStore>,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tokens = TokenStore::open(&StateDir::open(folder.path()).unwrap()).unwrap();
            Self { _folder: folder, tokens: Arc::new(tokens) }
        }

        fn client(&self, given: Option<&str>) -> StdioClient {
            let rights = StdioRights {
                subject: "ann".to_owned(),
                space: ServedSpace::Known("urn:uuid:1".to_owned()),
                scopes: Scopes::from_claim("read:/"),
                records: RecordsClaim::None,
            };
            let given = given.map(str::to_owned);
            StdioClient::new(rights, given, Arc::clone(&self.tokens), || 7)
        }
    }

    fn name(client: &StdioClient, calls_itself: Option<&str>) -> String {
        client.principal(calls_itself).unwrap().client().unwrap().to_owned()
    }

    #[test]
    fn a_client_has_the_name_of_its_entry_or_the_marked_one_that_it_gives_itself() {
        let rig = Rig::new();
        assert_eq!(name(&rig.client(Some("cursor")), Some("claude-ai")), "cursor");
        assert_eq!(name(&rig.client(None), Some("claude-ai")), "claude-ai (self-named)");
        assert_eq!(name(&rig.client(None), Some("\u{202e}\u{7}")), UNNAMED);
        let client = rig.client(None);
        assert_eq!(name(&client, None), UNNAMED);
        assert_eq!(name(&client, Some("another")), UNNAMED, "the first call decides");
        let listed = rig.tokens.list().unwrap();
        assert_eq!(listed.len(), 3, "{listed:#?}");
        assert!(listed.iter().all(|record| record.kind == TokenKind::Stdio));
    }

    #[test]
    fn an_ended_client_is_refused_at_once_and_at_its_next_start() {
        let rig = Rig::new();
        let client = rig.client(Some("cursor"));
        let principal = client.principal(None).unwrap();
        assert!(!client.is_ended());
        rig.tokens.revoke(principal.token().unwrap(), 8).unwrap();
        assert!(client.is_ended());
        for client in [client, rig.client(Some("cursor"))] {
            let refusal = client.principal(None).unwrap_err();
            assert!(matches!(refusal, StdioRefusal::Ended { .. }), "{refusal}");
        }
        assert!(rig.client(Some("codex")).check().is_ok());
    }

    #[test]
    fn a_new_client_is_recorded_by_its_first_call_and_not_by_a_list() {
        let rig = Rig::new();
        let client = rig.client(Some("cursor"));
        client.check().unwrap();
        let listed = client.principal_of_lists(Some("claude-ai")).unwrap();
        assert_eq!((listed.client(), listed.token()), (Some("cursor"), None));
        assert_eq!(rig.tokens.list().unwrap(), []);
        assert!(!client.is_ended());
        let called = client.principal(None).unwrap();
        assert_eq!(rig.tokens.list().unwrap()[0].jti, called.token().unwrap());
        // From now on a list is as any call.
        assert_eq!(client.principal_of_lists(None).unwrap().token(), called.token());
        assert_eq!(
            rig.client(Some("cursor")).principal_of_lists(None).unwrap().token(),
            called.token()
        );
        rig.tokens.revoke(called.token().unwrap(), 8).unwrap();
        for client in [client, rig.client(Some("cursor"))] {
            let refusal = client.principal_of_lists(None).unwrap_err();
            assert!(matches!(refusal, StdioRefusal::Ended { .. }), "{refusal}");
        }
        assert!(rig.client(Some("cursor")).check().is_err());
    }

    #[test]
    fn the_use_of_a_client_is_noted_and_that_of_the_doctor_is_not() {
        let rig = Rig::new();
        let client = rig.client(Some("cursor"));
        let jti = client.principal(None).unwrap().token().unwrap().to_owned();
        drop(client);
        assert_eq!(rig.tokens.uses().unwrap().get(&jti), Some(&7));
        assert_eq!(name(&rig.client(Some(DOCTOR)), Some("claude-ai")), DOCTOR);
        assert_eq!(rig.tokens.list().unwrap().len(), 1);
    }
}
