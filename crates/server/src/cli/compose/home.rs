//! Where a command finds keys, tokens and records: the state folder, and the database on PostgreSQL
//! if the settings name one.

use stile_domain::records::instant::Instant;
use stile_store::journal::{JournalPlace, SharedJournal};
use stile_store::postgresql::{Database, KnownPerson, PersonName, Tenant};
use stile_store::records::Records;
use stile_store::state::reserve;
use stile_store::state::{Revocation, StateDir, StateError, TokenKey, TokenStore};

use crate::cli::failure::Failure;
use crate::config::Config;

/// The issuer of subjects whose tokens `stile token` makes.
pub(crate) const LOCAL_ISSUER: &str = "stile";

/// What an owner does about a disk that is so full that nothing on it can be ended.
const DISK_IS_FULL: &str = "the disk of the state folder is full, and the room that Stile keeps there \
    was not enough. What you wanted to end may still count: make room on that disk, then run the \
    command again. A server that is stopped lets nobody in meanwhile";

/// The state of this server, or of all servers that share a database.
#[derive(Clone)]
pub(crate) struct Home {
    state: StateDir,
    database: Option<Database>,
    person: Option<ChosenPerson>,
    /// The issuer of the subjects of people.
    issuer: String,
    /// Whether the command uses the room that the state keeps for ending an access.
    spends_reserve: bool,
}

/// The person whom `--person` names.
#[derive(Clone)]
struct ChosenPerson {
    /// A subject, or the identifier of a tenant.
    name: String,
}

impl Home {
    /// Opens the state folder, after making it if needed, and the database.
    pub(crate) fn open(config: &Config) -> Result<Self, StateError> {
        Self::with(StateDir::open(&config.state)?, config)
    }

    /// Opens the same, and makes no folder.
    pub(crate) fn open_existing(config: &Config) -> Result<Self, StateError> {
        Self::with(StateDir::open_existing(&config.state)?, config)
    }

    /// Adds the database that the settings name.
    pub(crate) fn with(state: StateDir, config: &Config) -> Result<Self, StateError> {
        let address = config.database.as_ref();
        let database = address.map(|address| Database::open(address.reveal())).transpose();
        let person = config.person.clone().map(|name| ChosenPerson { name });
        let issuer = config.issuer.clone().unwrap_or_else(|| LOCAL_ISSUER.to_owned());
        Ok(Self { state, database: database?, person, issuer, spends_reserve: false })
    }

    /// Runs what ends an access, or lists what can be ended. On a full disk, runs it once more with
    /// the room that the state folder keeps for this.
    pub(crate) fn with_reserve<T>(
        &self,
        mut work: impl FnMut(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.database.is_some() {
            return work(self);
        }
        let home = Self { spends_reserve: true, ..self.clone() };
        reserve::with_reserve(&self.state, || work(&home)).map_err(|failure| match failure {
            Failure::Failed(why) if reserve::is_disk_full(&self.state) => {
                Failure::Failed(format!("{why}; {DISK_IS_FULL}"))
            }
            failure => failure,
        })
    }

    /// Returns the same for a command about this person, unless `--person` names one.
    pub(crate) fn about(self, name: Option<&str>) -> Self {
        let name = name.filter(|_| self.database.is_some());
        let other = || name.map(|name| ChosenPerson { name: name.to_owned() });
        let person = self.person.clone().or_else(other);
        Self { person, ..self }
    }

    /// Returns the issuer of the subjects of people.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns whether each person has a space and records of their own in the database.
    pub(crate) fn has_people(&self) -> Result<bool, Failure> {
        self.database.as_ref().map_or(Ok(false), |database| Ok(database.has_people()?))
    }

    /// Refuses to make people where one owner has records: nobody could name these any more.
    pub(crate) fn refuse_owner_of_all(&self) -> Result<(), Failure> {
        let Some(database) = self.database.as_ref().filter(|_| !self.has_people().unwrap_or(true))
        else {
            return Ok(());
        };
        let Some(tenant) = database.existing_sole_tenant()? else { return Ok(()) };
        let rooms = database.room_of(&tenant)?;
        let kept = rooms.iter().filter(|it| ["records", "grants"].contains(&it.table.as_str()));
        if kept.map(|it| it.rows).sum::<u64>() == 0 {
            return Ok(());
        }
        Err(Failure::Usage(
            "the database has records of one owner, whom no command could name any more: copy them \
             to a person of another database with `stile migrate-store`; nothing was changed"
                .to_owned(),
        ))
    }

    /// Refuses a command that is for the one owner of a space, where each person has a space.
    /// `instead` says what does the same for a person.
    pub(crate) fn refuse_people(&self, command: &str, instead: &str) -> Result<(), Failure> {
        match self.has_people()? {
            false => Ok(()),
            true => Err(Failure::Usage(format!(
                "each person of the database has a space of their own, and `{command}` is for the \
                 one owner of a space; {instead}"
            ))),
        }
    }

    /// Returns the tenant whom the command is about: the person that `--person` names, or the one
    /// owner of the database. `None` without a database.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is no such person, or if the database has several people and
    /// none is named.
    pub(crate) fn tenant(&self) -> Result<Option<Tenant>, Failure> {
        match (&self.database, &self.person) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::Usage(
                "--person is about a person of a database; name the database with --database"
                    .to_owned(),
            )),
            (Some(database), Some(person)) => self.find_person(database, &person.name).map(Some),
            (Some(database), None) => {
                self.check_named()?;
                Ok(Some(database.sole_tenant()?))
            }
        }
    }

    /// Refuses a command that names no person, where each person has records of their own.
    pub(crate) fn check_named(&self) -> Result<(), Failure> {
        if self.person.is_some() || !self.has_people()? {
            return Ok(());
        }
        Err(Failure::Usage(
            "each person of the database has a space and records of their own; name one with \
             --person (`stile person list` shows them); nothing was changed"
                .to_owned(),
        ))
    }

    /// Finds a person by subject, or else by identifier.
    fn find_person(&self, database: &Database, name: &str) -> Result<Tenant, Failure> {
        let (issuer, subject) = (self.issuer.clone(), name.to_owned());
        let by_subject = database.find_person(&PersonName::Subject { issuer, subject })?;
        let found = match by_subject {
            None => database.find_person(&PersonName::Id(name.to_owned()))?,
            found => found,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let name = name.escape_debug();
        let is_of_name = |person: &KnownPerson| person.name.as_deref() == Some(&*name.to_string());
        let other = database.people()?.into_iter().find(is_of_name).and_then(|it| it.issuer);
        Err(Failure::Usage(match other {
            Some(issuer) => format!(
                "the database has a person `{name}` whose tokens `{}` issues: name that with \
                 --issuer, or the person by the identifier of `stile person list`; nothing was \
                 changed",
                issuer.escape_debug()
            ),
            None => format!(
                "the database has no person `{name}`; `stile person list` shows all, and `stile \
                 person add` makes one who has not called yet; nothing was changed"
            ),
        }))
    }

    /// Returns the subject that tokens and sessions of the command's person name; `None` if the
    /// command names no person.
    ///
    /// # Errors
    /// The errors of [`Home::tenant`]; [`Failure::Usage`] if the person is named by the identifier
    /// and no token says who that is.
    pub(crate) fn subject(&self) -> Result<Option<String>, Failure> {
        let Some(person) = &self.person else { return Ok(None) };
        let tenant = self.tenant()?;
        let subjects = std::iter::once(person.name.clone()).chain(self.tokens()?.subjects()?);
        let is_of = |subject: &String| {
            let found = self.database.as_ref()?.find_tenant(&self.issuer, subject).ok()??;
            (Some(found) == tenant).then_some(())
        };
        let mut found = subjects.filter(|subject| is_of(subject).is_some());
        found.next().map(Some).ok_or_else(|| {
            Failure::Usage(
                "no token says who this person is; name the person by the subject of their tokens"
                    .to_owned(),
            )
        })
    }

    /// Returns the people of the database for whom tokens were made.
    pub(crate) fn people_with_tokens(&self) -> Result<Vec<Tenant>, Failure> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let mut people = Vec::new();
        for subject in self.tokens()?.subjects()? {
            people.extend(database.find_tenant(&self.issuer, &subject)?);
        }
        Ok(people)
    }

    /// The state folder, which has what belongs to this server alone.
    pub(crate) fn state(&self) -> &StateDir {
        &self.state
    }

    /// The database that this server shares with others.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Returns the journal that all servers share, if there is a database.
    pub(crate) fn shared_journal(&self) -> Option<SharedJournal> {
        self.database.as_ref().map(SharedJournal::of)
    }

    /// Returns where the owner reads the journal: of all servers, or of this one.
    pub(crate) fn journal(&self) -> JournalPlace {
        JournalPlace::new(self.state.clone(), self.shared_journal())
    }

    /// Opens the tables of tokens and sign-in.
    pub(crate) fn tokens(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None if self.spends_reserve => TokenStore::open_on_any_disk(&self.state),
            None => TokenStore::open(&self.state),
        }
    }

    /// Opens the tables of tokens and sign-in, and makes none before the first use.
    pub(crate) fn tokens_on_first_use(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None => TokenStore::open_on_first_use(&self.state),
        }
    }

    /// Opens the tables of tokens for lookups, and writes to no file.
    pub(crate) fn tokens_to_read(&self) -> Result<TokenStore, StateError> {
        match &self.database {
            Some(database) => Ok(TokenStore::on(database)),
            None => TokenStore::open_to_read(&self.state),
        }
    }

    /// Reads the key that signs tokens, after making one if there is none.
    pub(crate) fn key(&self) -> Result<TokenKey, StateError> {
        match &self.database {
            Some(database) => TokenKey::of(database),
            None => TokenKey::open(&self.state),
        }
    }

    /// Reads the key that signs tokens, and makes no file.
    pub(crate) fn existing_key(&self) -> Result<TokenKey, StateError> {
        match &self.database {
            Some(database) => TokenKey::of(database),
            None => TokenKey::open_existing(&self.state),
        }
    }

    /// Revokes a token. On a full disk, uses the room that the state folder keeps for this.
    pub(crate) fn revoke(&self, jti: &str, now: i64) -> Result<Revocation, StateError> {
        match &self.database {
            Some(database) => TokenStore::on(database).revoke(jti, now),
            None => TokenStore::revoke_in(&self.state, jti, now),
        }
    }

    /// Returns whether there is a database of records, which [`Home::records`] would not make.
    pub(crate) fn has_records(&self) -> bool {
        self.database.is_some() || Records::exists(&self.state)
    }

    /// Opens the records of the owner, or of the person whom the command is about.
    pub(crate) fn records(&self, now: Instant) -> Result<Records, Failure> {
        match self.tenant()? {
            Some(tenant) => self.records_of(&tenant, now),
            None => Ok(Records::open(&self.state, now)?),
        }
    }

    /// Opens the records of a tenant of the database.
    pub(crate) fn records_of(&self, tenant: &Tenant, now: Instant) -> Result<Records, Failure> {
        match &self.database {
            Some(database) => Ok(Records::open_at(&self.state, database, tenant, now)?),
            None => Err(Failure::Failed("there is no database".to_owned())),
        }
    }
}
