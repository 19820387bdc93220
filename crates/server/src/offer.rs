//! What a server offers: the tools of a space, the note tools over a server that has the notes, and
//! the content ladder over records, beside a space or alone.
//!
//! Both transports and both lifecycles come here. Who is asking is an [`Asker`], made for each
//! request from the token that came with it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::stored_records::StoredRecords;
use serde_json::{Map, Value};
use stile_domain::error::Refusal;
use stile_domain::permit::Principal;
use stile_domain::records::problem::Problem;
use stile_ladder::budget::Budgets;
use stile_ladder::resources::{Body, Content};
use stile_ladder::trouble::Trouble;
use stile_ladder::{self, Ladder, LadderAnswer, Link};
use stile_records::RecordServices;
use stile_tools::calls::{Services, UnknownTool};
use stile_tools::hosted::session::Session;
use stile_tools::hosted::{self, Gateway, HostedAnswer};
use stile_tools::list::{self, ListError};
use stile_tools::registry;
use stile_tools::tool::{Answer, Card};

use crate::auth::Verified;
use crate::clock;
use crate::gateway::session_factory::{InvalidVaultClaim, SessionFactory};
use crate::metrics::{Ended, Metrics};

/// What a server offers. Clones are one offer.
#[derive(Clone)]
pub struct Offer {
    kind: Kind,
    records: Option<RecordServices>,
    ladder: Option<Ladder>,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
enum Kind {
    /// A space of this server's own.
    Space(Services),
    /// Notes that are elsewhere.
    Notes { gateway: Gateway, sessions: Arc<SessionFactory> },
    /// Nothing but the ladder.
    Records,
}

/// A caller whose token was verified just now.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Who, with which path scopes.
    pub principal: Principal,
    /// In whose name notes are read that are elsewhere.
    session: Option<Session>,
}

/// An answer, in whichever envelope it came.
#[derive(Clone, Debug)]
pub struct Told {
    /// The one text block.
    pub text: String,
    /// Ways to resources, beside the text.
    pub links: Vec<Link>,
    /// `structuredContent`.
    pub structured: Structured,
    /// `isError`.
    pub is_error: bool,
}

/// A structured answer.
#[derive(Clone, Debug)]
pub enum Structured {
    /// As a tree.
    Tree(Value),
    /// It is what the text says, which is compact JSON.
    SameAsText,
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Self {
        let Answer { text, structured, refusal } = answer;
        Self {
            text,
            links: Vec::new(),
            structured: Structured::Tree(structured),
            is_error: refusal.is_some(),
        }
    }
}

impl From<LadderAnswer> for Told {
    fn from(answer: LadderAnswer) -> Self {
        let LadderAnswer { text, structured, links, refusal } = answer;
        Self { text, links, structured: Structured::Tree(structured), is_error: refusal.is_some() }
    }
}

impl From<HostedAnswer> for Told {
    fn from(answer: HostedAnswer) -> Self {
        let HostedAnswer { text, outcome } = answer;
        Self {
            text,
            links: Vec::new(),
            structured: Structured::SameAsText,
            is_error: outcome.refused.is_some(),
        }
    }
}

/// A call that a token does not allow, whatever there is.
#[derive(Clone, Debug, PartialEq)]
pub enum Denied {
    /// Its scopes do not cover the file.
    Scopes(Refusal),
    /// It has nothing to do with records.
    Records(Problem),
}

impl Denied {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Scopes(refusal) => refusal.code().0,
            Self::Records(problem) => problem.code().0,
        }
    }

    /// What is needed, as scopes; a grant is none.
    pub fn scopes(&self) -> Vec<String> {
        match self {
            Self::Scopes(Refusal::InsufficientScope { needed, .. }) => {
                needed.iter().map(ToString::to_string).collect()
            }
            Self::Scopes(_) | Self::Records(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scopes(refusal) => refusal.fmt(formatter),
            Self::Records(problem) => problem.fmt(formatter),
        }
    }
}

/// Why a resource was not read.
#[derive(Clone, Debug, PartialEq)]
pub enum NotRead {
    /// A directory's.
    Listing(ListError),
    /// A record's.
    Record(Trouble),
}

/// How a call on the ladder ended, in a word of ours: codes are another server's.
fn outcome_of(refusal: Option<&Trouble>) -> &'static str {
    match refusal.map(Trouble::status) {
        None => "ok",
        Some(status) if status >= 500 => "failed",
        Some(_) => "refused",
    }
}

impl Asker {
    /// The local user, who started this process.
    pub fn local(principal: Principal) -> Self {
        Self { principal, session: None }
    }
}

impl Offer {
    /// The tools of a space.
    pub fn of_space(services: Services) -> Self {
        Self { kind: Kind::Space(services), records: None, ladder: None, metrics: Arc::default() }
    }

    /// The note tools over a server that has the notes.
    pub fn of_notes(gateway: Gateway, sessions: SessionFactory) -> Self {
        let kind = Kind::Notes { gateway, sessions: Arc::new(sessions) };
        Self { kind, records: None, ladder: None, metrics: Arc::default() }
    }

    /// The content ladder and nothing else.
    pub fn of_records(ladder: Ladder) -> Self {
        Self { kind: Kind::Records, records: None, ladder: Some(ladder), metrics: Arc::default() }
    }

    /// The same offer, and these records beside it, with the ladder over them.
    #[must_use]
    pub fn with_records(
        self,
        records: RecordServices,
        budgets: Budgets,
        strict_schemas: bool,
    ) -> Self {
        let ladder =
            Ladder::new(StoredRecords::new(records.clone(), clock::now), budgets, strict_schemas);
        Self { records: Some(records), ladder: Some(ladder), ..self }
    }

    /// Whether records can be read here.
    pub fn has_ladder(&self) -> bool {
        self.ladder.is_some()
    }

    /// The records, where there are any.
    pub fn records(&self) -> Option<&RecordServices> {
        self.records.as_ref()
    }

    /// The same offer, counting its calls there.
    #[must_use]
    pub fn counting(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The space, where there is one.
    pub fn space(&self) -> Option<&Services> {
        match &self.kind {
            Kind::Space(services) => Some(services),
            Kind::Notes { .. } | Kind::Records => None,
        }
    }

    /// Whether these are notes that are elsewhere.
    pub fn is_gateway(&self) -> bool {
        matches!(self.kind, Kind::Notes { .. })
    }

    /// The asker of a request that came with this token.
    ///
    /// # Errors
    /// [`InvalidVaultClaim`]: the token does not say which vault it is for.
    pub fn asker(&self, verified: &Verified, token: &str) -> Result<Asker, InvalidVaultClaim> {
        let session = match &self.kind {
            Kind::Space(_) | Kind::Records => None,
            Kind::Notes { sessions, .. } => Some(sessions.session(verified, token)?),
        };
        Ok(Asker { principal: verified.principal.clone(), session })
    }

    /// Every tool that anybody is ever shown.
    pub fn cards(&self) -> Vec<Card> {
        let mut cards: Vec<Card> = match &self.kind {
            Kind::Space(services) => services.tools.iter().map(|tool| tool.card()).collect(),
            Kind::Notes { .. } => hosted::TOOLS.iter().map(|tool| tool.card()).collect(),
            Kind::Records => Vec::new(),
        };
        cards.extend(self.ladder.iter().flat_map(Ladder::own_cards));
        cards
    }

    /// The names of the tools that this caller is shown, sorted.
    pub fn listed(&self, asker: &Asker) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = match (&self.kind, &asker.session) {
            (Kind::Space(services), _) => {
                services.listed(&asker.principal).into_iter().map(|tool| tool.name).collect()
            }
            (Kind::Notes { gateway, .. }, Some(session)) => {
                gateway.listed(session.role).into_iter().map(|tool| tool.name).collect()
            }
            (Kind::Notes { .. }, None) | (Kind::Records, _) => Vec::new(),
        };
        if self.shows_records(asker) {
            names.extend(Ladder::names());
            names.sort_unstable();
        }
        names
    }

    /// Whether this caller is shown the ladder.
    pub fn shows_records(&self, asker: &Asker) -> bool {
        self.ladder.is_some() && Ladder::is_for(&asker.principal)
    }

    /// Whether a call may be made, decided from the token alone before anything is touched. The
    /// gateway has no scopes: there a tool that a role may not use does not exist.
    ///
    /// # Errors
    /// The refusal.
    pub fn ask(&self, name: &str, arguments: &Value, asker: &Asker) -> Result<(), Denied> {
        if self.ladder.is_some()
            && let Some(name) = Ladder::name(name)
        {
            return self.ask_records(name, asker);
        }
        let Kind::Space(services) = &self.kind else { return Ok(()) };
        services.ask(name, arguments, &asker.principal).map_err(|refusal| {
            if let Some(tool) = registry::find(services.tools, name) {
                self.count(tool.name, refusal.code().0, "none", Duration::ZERO);
            }
            Denied::Scopes(refusal)
        })
    }

    fn ask_records(&self, name: &'static str, asker: &Asker) -> Result<(), Denied> {
        Ladder::ask(&asker.principal).map_err(|problem| {
            self.count(name, problem.code().0, "none", Duration::ZERO);
            if let Some(records) = &self.records {
                records.tell_tool(&asker.principal, name, Err(&problem.to_json()));
            }
            Denied::Records(problem)
        })
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`]; every other failure is an answer.
    pub async fn call(
        &self,
        name: &str,
        arguments: Value,
        asker: &Asker,
    ) -> Result<Told, UnknownTool> {
        let began = Instant::now();
        if let (Some(ladder), Some(name)) = (&self.ladder, Ladder::name(name)) {
            let answer = ladder.call(name, &arguments, &asker.principal).await?;
            self.count(name, outcome_of(answer.refusal.as_ref()), "none", began.elapsed());
            return Ok(answer.into());
        }
        match (&self.kind, &asker.session) {
            (Kind::Space(services), _) => {
                let tool = registry::find(services.tools, name).ok_or(UnknownTool)?.name;
                let answer = services.call(name, arguments, &asker.principal).await?;
                let outcome = answer.refusal.as_ref().map_or("ok", |refusal| refusal.code().0);
                self.count(tool, outcome, "none", began.elapsed());
                Ok(answer.into())
            }
            (Kind::Notes { gateway, .. }, Some(session)) => {
                let answer = gateway.call(name, &arguments, session).await?;
                let (outcome, took) = (answer.outcome, began.elapsed());
                self.count(outcome.tool, outcome.class(), outcome.status_class(), took);
                // These are all the fields that a line about a hosted call may have.
                tracing::debug!(
                    target: "stile::gateway",
                    tool = outcome.tool,
                    outcome = outcome.class(),
                    upstream = outcome.status_class(),
                    elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    sections = outcome.extent.map(|extent| extent.sections),
                    truncated = outcome.extent.map(|extent| extent.truncated),
                );
                Ok(answer.into())
            }
            (Kind::Notes { .. }, None) | (Kind::Records, _) => Err(UnknownTool),
        }
    }

    /// Whether a resource may be read. The gateway has none.
    ///
    /// # Errors
    /// The refusal.
    pub fn ask_resource(&self, uri: &str, asker: &Asker) -> Result<(), Denied> {
        if self.ladder.is_some() && stile_ladder::resources::is_one(uri) {
            return self.ask_records("resource", asker);
        }
        self.space().map_or(Ok(()), |services| {
            services.ask_resource(uri, &asker.principal).map_err(Denied::Scopes)
        })
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// [`NotRead`].
    pub async fn read_resource(&self, uri: &str, asker: &Asker) -> Result<Content, NotRead> {
        if let Some(ladder) = self.ladder.as_ref().filter(|_| stile_ladder::resources::is_one(uri))
        {
            let began = Instant::now();
            let read = ladder.read_resource(uri, &asker.principal).await;
            self.count("resource", outcome_of(read.as_ref().err()), "none", began.elapsed());
            return read.map_err(NotRead::Record);
        }
        let Some(services) = self.space() else {
            return Err(NotRead::Listing(ListError::NoSuchResource));
        };
        let text = services.read_resource(uri, &asker.principal).await.map_err(NotRead::Listing)?;
        Ok(Content {
            body: Body::Text(text),
            mime_type: list::MIME_TYPE.to_owned(),
            meta: Map::new(),
        })
    }

    fn count(
        &self,
        tool: &'static str,
        outcome: &'static str,
        upstream: &'static str,
        took: Duration,
    ) {
        self.metrics.count(Ended { tool, outcome, upstream }, took);
    }
}
