//! What a server offers: the tools of a space, or the note tools over a server that has the notes.
//!
//! Both transports and both lifecycles come here. Who is asking is an [`Asker`], made for each request from the
//! token that came with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use stile_domain::error::Refusal;
use stile_domain::permit::Principal;
use stile_tools::calls::{Services, UnknownTool};
use stile_tools::hosted::session::Session;
use stile_tools::hosted::{self, Gateway, HostedAnswer};
use stile_tools::list::ListError;
use stile_tools::records::RecordServices;
use stile_tools::registry;
use stile_tools::tool::{Answer, Card};

use crate::auth::Verified;
use crate::gateway::terms::{NoVault, Terms};
use crate::metrics::{Ended, Metrics};

/// What a server offers. Clones are one offer.
#[derive(Clone)]
pub struct Offer {
    kind: Kind,
    records: Option<RecordServices>,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
enum Kind {
    /// A space of this server's own.
    Space(Services),
    /// Notes that are elsewhere.
    Notes { gateway: Gateway, terms: Arc<Terms> },
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
        Self { text, structured: Structured::Tree(structured), is_error: refusal.is_some() }
    }
}

impl From<HostedAnswer> for Told {
    fn from(answer: HostedAnswer) -> Self {
        let HostedAnswer { text, outcome } = answer;
        Self { text, structured: Structured::SameAsText, is_error: outcome.refused.is_some() }
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
        Self { kind: Kind::Space(services), records: None, metrics: Arc::default() }
    }

    /// The note tools over a server that has the notes.
    pub fn of_notes(gateway: Gateway, terms: Terms) -> Self {
        Self { kind: Kind::Notes { gateway, terms: Arc::new(terms) }, records: None, metrics: Arc::default() }
    }

    /// The same offer, and these records beside it.
    #[must_use]
    pub fn with_records(self, records: RecordServices) -> Self {
        Self { records: Some(records), ..self }
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
            Kind::Notes { .. } => None,
        }
    }

    /// The asker of a request that came with this token.
    ///
    /// # Errors
    /// [`NoVault`]: the token does not say which vault it is for.
    pub fn asker(&self, verified: &Verified, token: &str) -> Result<Asker, NoVault> {
        let session = match &self.kind {
            Kind::Space(_) => None,
            Kind::Notes { terms, .. } => Some(terms.session(verified, token)?),
        };
        Ok(Asker { principal: verified.principal.clone(), session })
    }

    /// Every tool that anybody is ever shown.
    pub fn cards(&self) -> Vec<Card> {
        match &self.kind {
            Kind::Space(services) => services.tools.iter().map(|tool| tool.card()).collect(),
            Kind::Notes { .. } => hosted::TOOLS.iter().map(|tool| tool.card()).collect(),
        }
    }

    /// The names of the tools that this caller is shown, sorted.
    pub fn listed(&self, asker: &Asker) -> Vec<&'static str> {
        match (&self.kind, &asker.session) {
            (Kind::Space(services), _) => services.listed(&asker.principal).into_iter().map(|tool| tool.name).collect(),
            (Kind::Notes { gateway, .. }, Some(session)) => {
                gateway.listed(session.role).into_iter().map(|tool| tool.name).collect()
            }
            (Kind::Notes { .. }, None) => Vec::new(),
        }
    }

    /// Whether a call may be made, decided from path scopes before anything is touched. The gateway has none:
    /// there a tool that a role may not use does not exist.
    ///
    /// # Errors
    /// The refusal.
    pub fn ask(&self, name: &str, arguments: &Value, asker: &Asker) -> Result<(), Refusal> {
        let Kind::Space(services) = &self.kind else { return Ok(()) };
        services.ask(name, arguments, &asker.principal).inspect_err(|refusal| {
            if let Some(tool) = registry::find(services.tools, name) {
                self.count(tool.name, refusal.code().0, "none", Duration::ZERO);
            }
        })
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`]; every other failure is an answer.
    pub async fn call(&self, name: &str, arguments: Value, asker: &Asker) -> Result<Told, UnknownTool> {
        let began = Instant::now();
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
            (Kind::Notes { .. }, None) => Err(UnknownTool),
        }
    }

    /// Whether a resource may be read. The gateway has none.
    ///
    /// # Errors
    /// The refusal.
    pub fn ask_resource(&self, uri: &str, asker: &Asker) -> Result<(), Refusal> {
        self.space().map_or(Ok(()), |services| services.ask_resource(uri, &asker.principal))
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn read_resource(&self, uri: &str, asker: &Asker) -> Result<String, ListError> {
        match self.space() {
            Some(services) => services.read_resource(uri, &asker.principal).await,
            None => Err(ListError::NoSuchResource),
        }
    }

    fn count(&self, tool: &'static str, outcome: &'static str, upstream: &'static str, took: Duration) {
        self.metrics.count(Ended { tool, outcome, upstream }, took);
    }
}
