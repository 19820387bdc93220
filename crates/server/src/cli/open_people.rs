//! Opens the services of people who each have a space and records of their own.

use std::path::PathBuf;
use std::sync::Arc;

use stile_records::RecordService;
use stile_store::journal::Journal;
use stile_store::postgresql::Tenant;
use stile_store::records::Records;
use stile_tools::space::SpaceTools;

use super::home::Home;
use super::{Failure, open};
use crate::clock;
use crate::config::{Config, Resolved, SpaceRecords};
use crate::people::{OpenService, People, Unavailable};
use crate::service::Service;

/// The issuer of subjects whose tokens `stile token` makes.
pub(super) const LOCAL_ISSUER: &str = "stile";

/// Where the people of a server have their spaces.
pub(super) struct PeopleFolder {
    folder: PathBuf,
    home: Home,
    /// The issuer of the subjects.
    issuer: String,
}

impl PeopleFolder {
    /// Returns the folder that the settings name; `None` if all callers have one space. `issuer` is
    /// the identity provider, if there is one.
    pub(super) fn of(
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
        let issuer = issuer.unwrap_or(LOCAL_ISSUER).to_owned();
        Ok(Some(Self { folder, home: home.clone(), issuer }))
    }

    /// Returns the settings with the operator's own space as the root. It is served to nobody else.
    pub(super) fn with_own_root(&self, resolved: &Resolved) -> Result<Resolved, Failure> {
        let tenant = self.tenant(None)?;
        let mut resolved = resolved.clone();
        resolved.config.root = self.folder.join(tenant.id()).join(open::NOTES);
        stile_store::state::create_space_folder(&resolved.config.root)?;
        Ok(resolved)
    }

    /// Returns the people, whose services share what `everybody` shares.
    pub(super) fn people(
        self,
        resolved: &Resolved,
        journal: &Arc<Journal>,
        everybody: &Service,
        has_note_tools: bool,
    ) -> Arc<People> {
        let (resolved, journal, everybody) =
            (resolved.clone(), Arc::clone(journal), everybody.clone());
        let open: OpenService = Box::new(move |subject| {
            let opened = self.open(&resolved, &journal, &everybody, subject, has_note_tools);
            opened.map_err(|failure| {
                tracing::error!(target: "stile::people", ?failure, "a space was not opened");
                Unavailable
            })
        });
        People::new(open)
    }

    fn open(
        &self,
        resolved: &Resolved,
        journal: &Arc<Journal>,
        everybody: &Service,
        subject: &str,
        has_note_tools: bool,
    ) -> Result<Service, Failure> {
        let (config, history) = (&resolved.config, open::server_settings(resolved));
        let tenant = self.tenant(Some(subject))?;
        let folder = self.folder.join(tenant.id());
        let space = open::open_space_of_person(config, &folder, journal, history.as_ref())?;
        let tools = SpaceTools::new(space, Arc::clone(journal));
        let tools = if has_note_tools { tools } else { tools.without_note_tools() };
        let records = match self.home.database() {
            Some(database) => Records::open_at(self.home.state(), database, &tenant, clock::now())?,
            None => return Err(Failure::Failed("there is no database".to_owned())),
        };
        let records = RecordService::new(records).with_journal(Arc::clone(journal));
        let shares = Arc::clone(everybody.shares());
        let service = open::service_with(config, tools, journal, Some(records), shares);
        let texts = everybody.owner_texts().clone();
        Ok(service.with_owner_texts(texts).with_metrics(Arc::clone(everybody.metrics())))
    }

    /// Returns the tenant of a subject, or of the operator.
    fn tenant(&self, subject: Option<&str>) -> Result<Tenant, Failure> {
        let Some(database) = self.home.database() else {
            return Err(Failure::Failed("there is no database".to_owned()));
        };
        let tenant = match subject {
            Some(subject) => database.tenant_of(&self.issuer, subject),
            None => database.sole_tenant(),
        };
        tenant.map_err(|error| Failure::Failed(error.to_string()))
    }
}
