//! Opens the services of people who each have a space and records of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_records::RecordService;
use stile_store::journal::Journal;
use stile_store::person_folder::{FolderStanding, unsettled};
use stile_store::postgresql::{Database, Tenant, is_in_outage};
use stile_store::space::Unserved;
use stile_tools::definition::ToolGroup;
use stile_tools::space::SpaceTools;

use super::home::{Home, LOCAL_ISSUER};
use super::open::{self, OpenSpace};
use super::person_folder::{NOTES, files_in};
use crate::auth::LocalTokenIssuer;
use crate::cli::failure::Failure;
use crate::clock;
use crate::config::{Config, Resolved, SpaceRecords};
use crate::owned_space::OwnedSpace;
use crate::people::{OpenPerson, People, Person, Unavailable};
use crate::service::Service;

/// What the services of all people have in common.
pub(crate) struct Everybody {
    /// The journal of this server.
    pub(crate) journal: Arc<Journal>,
    /// What is served to nobody, and has the resources that all callers share.
    pub(crate) service: Service,
    /// Whether people have the note tools.
    pub(crate) has_note_tools: bool,
    /// What makes tokens of grants; `None` where an identity provider makes all tokens.
    pub(crate) tokens: Option<Arc<LocalTokenIssuer>>,
}

/// Where the people of a server have their spaces.
pub(crate) struct PeopleFolder {
    folder: PathBuf,
    home: Home,
    /// The issuer of the subjects.
    issuer: String,
}

impl PeopleFolder {
    /// Returns the folder that the settings name; `None` if all callers have one space. `issuer` is
    /// the identity provider, if there is one.
    pub(crate) fn of(
        config: &Config,
        home: &Home,
        issuer: Option<&str>,
    ) -> Result<Option<Self>, Failure> {
        let Some(folder) = config.spaces.clone() else { return Ok(None) };
        if home.database().is_none() {
            return Err(Failure::Usage(
                "--spaces needs --database, which knows whose each space is".to_owned(),
            ));
        }
        if config.records_of_space != SpaceRecords::Off {
            return Err(Failure::Usage(
                "--records-of-space is about one space; leave it or --spaces out".to_owned(),
            ));
        }
        home.refuse_owner_of_all()?;
        let issuer = issuer.unwrap_or(LOCAL_ISSUER).to_owned();
        Ok(Some(Self { folder, home: home.clone(), issuer }))
    }

    /// Opens the folder of all people, which is served to nobody, and the journal.
    pub(crate) fn open(&self, config: &Config) -> Result<OpenSpace, Failure> {
        stile_store::state::check_takes_folders(&self.folder).map_err(|error| {
            let folder = self.folder.display();
            Failure::Failed(format!(
                "cannot make a folder in {folder}: {error}; --spaces names a folder to which the \
                 user of the server may write"
            ))
        })?;
        open::open_folder_of_people(&self.home, config, &self.folder)
    }

    /// Returns the operator's own records, which are served to nobody.
    pub(crate) fn own_records(&self, journal: &Arc<Journal>) -> Result<RecordService, Failure> {
        let records = self.home.records_of(&self.own_tenant()?, clock::now())?;
        Ok(RecordService::new(records).with_journal(Arc::clone(journal)))
    }

    /// Returns the people.
    pub(crate) fn people(self, resolved: &Resolved, everybody: Everybody) -> Arc<People> {
        let resolved = resolved.clone();
        let open: OpenPerson = Box::new(move |subject| {
            self.open_person(&resolved, &everybody, subject).map_err(|failure| {
                match is_in_outage() {
                    true => tracing::debug!(?failure, "a space was not opened"),
                    false => tracing::error!(?failure, "a space was not opened"),
                }
                Unavailable
            })
        });
        People::new(open)
    }

    fn open_person(
        &self,
        resolved: &Resolved,
        everybody: &Everybody,
        subject: &str,
    ) -> Result<Person, Failure> {
        let (config, history) = (&resolved.config, open::server_settings(resolved));
        let journal = &everybody.journal;
        let tenant = self.tenant(subject)?;
        let folder = self.folder.join(tenant.id());
        let standing = self.standing(config, &tenant)?;
        let unserved = match standing {
            FolderStanding::Another => Some(Unserved::Another),
            FolderStanding::Missing => Some(Unserved::Missing),
            FolderStanding::New | FolderStanding::Same => None,
        };
        let (space, history) = match unserved {
            Some(why) => (open::open_space_unserved(config, &folder, why, journal)?, None),
            None => open::open_space_of_person(config, &folder, journal, history.as_ref())?,
        };
        if standing == FolderStanding::New && serves_files(config) {
            files_in(&folder).record(self.database()?, &tenant)?;
        }
        let watched = Some(space.clone()).filter(|_| serves_files(config));
        let tools = SpaceTools::new(space, Arc::clone(journal));
        let tools = match everybody.has_note_tools {
            true => tools,
            false => tools.without_note_tools(),
        };
        let owned = OwnedSpace::new(
            (folder.join(NOTES), self.home.state().clone()),
            tools.clone(),
            history,
            self.home.journal().of_subject(subject),
        );
        let owned = match unserved {
            Some(why) => owned.unserved(why),
            None => owned,
        };
        let records = self.home.records_of(&tenant, clock::now())?;
        let records = RecordService::new(records).with_journal(Arc::clone(journal));
        let records = match &everybody.tokens {
            Some(tokens) => records.with_token_issuer(Arc::new(tokens.for_person(subject))),
            None => records,
        };
        let shares = Arc::clone(everybody.service.shares());
        let service = open::service_with(config, tools, journal, Some(records), shares);
        let service = service
            .with_owner_texts(everybody.service.owner_texts().clone())
            .with_metrics(Arc::clone(everybody.service.metrics()));
        // Once the operator has put the folder back or adopted it, the next request finds the space
        // open.
        let stays_open = unserved.is_none();
        Ok(Person { service, owned: Some(owned), space: watched, stays_open })
    }

    /// Returns whether the folder of a person is the one that was served before.
    fn standing(&self, config: &Config, tenant: &Tenant) -> Result<FolderStanding, Failure> {
        match serves_files(config) {
            true => {
                Ok(files_in(&self.folder.join(tenant.id())).standing(self.database()?, tenant)?)
            }
            // A server of records alone may be on a machine without the folders.
            false => Ok(FolderStanding::New),
        }
    }

    /// Says in the log whose folders are other ones than those that were served, or not there.
    pub(crate) fn warn_of_other_folders(&self, config: &Config) -> Result<(), Failure> {
        if !serves_files(config) {
            return Ok(());
        }
        for sentence in other_folders(self.database()?, &self.folder)? {
            tracing::warn!("{sentence}");
        }
        Ok(())
    }

    fn database(&self) -> Result<&Database, Failure> {
        self.home.database().ok_or_else(no_database)
    }

    /// Returns the tenant of a subject.
    fn tenant(&self, subject: &str) -> Result<Tenant, Failure> {
        Ok(self.database()?.tenant_of(&self.issuer, subject)?)
    }

    /// Returns the tenant of the operator.
    fn own_tenant(&self) -> Result<Tenant, Failure> {
        Ok(self.database()?.operators_tenant()?)
    }
}

/// Whether a server shows its callers files.
fn serves_files(config: &Config) -> bool {
    [ToolGroup::Files, ToolGroup::Find, ToolGroup::Notes].iter().any(|it| config.tools.show(*it))
}

/// Returns a sentence about the people whose folder is another one than the one that was served,
/// and one about those whose folder is not there any more.
pub(crate) fn other_folders(database: &Database, spaces: &Path) -> Result<Vec<String>, Failure> {
    let found = unsettled(database, &|id| files_in(&spaces.join(id)).notes)?;
    let sentence = |standing, what: &str| {
        let of = found.iter().filter(|(_, it)| *it == standing);
        let ids: Vec<&str> = of.map(|(id, _)| id.as_str()).collect();
        let named = ids.iter().take(NAMED_PEOPLE).copied().collect::<Vec<_>>().join(", ");
        let more = match ids.len().saturating_sub(NAMED_PEOPLE) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match ids.len() {
            0 => None,
            1 => Some(format!("the folder of a person {what}: {named}")),
            many => Some(format!("the folders of {many} people {what}: {named}{more}")),
        }
    };
    let another = "came from elsewhere since it was served, as a backup does, and no file in it is \
                   read or changed before you say that it is the same (`stile space adopt --person \
                   ID --spaces DIR`)";
    let missing = "was served and is not there, so no file is read or made before you put it back; \
                   records go on. Where it comes from a backup, say then that it is the same \
                   (`stile space adopt --person ID --spaces DIR`)";
    let sentences =
        [sentence(FolderStanding::Another, another), sentence(FolderStanding::Missing, missing)];
    Ok(sentences.into_iter().flatten().collect())
}

/// How many people a sentence names.
const NAMED_PEOPLE: usize = 5;

fn no_database() -> Failure {
    Failure::Failed("there is no database".to_owned())
}
