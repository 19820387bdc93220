//! What a server offers: a list of toolsets, and what they have in common whatever they work on.
//!
//! Both transports and both lifecycles of the protocol call a [`Service`]. A [`Caller`] is made for
//! each request from the token that came with it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;
use stile_domain::tool_name::{ShownTools, Spelling};
use stile_records::RecordService;
use stile_store::space::Watch;
use stile_tools::answer::Answer;
use stile_tools::definition::{ToolDefinition, ToolGroup};
use stile_tools::prompts::Prompts;
use stile_tools::space::SpaceTools;
use stile_tools::tool::Denial;
use stile_tools::toolset::{
    Caller, CompletedValues, Feature, FilePage, OnHangUp, ResourceContent, ResourceError,
    ResourceErrorKind, ResourceKind, Toolset, UnknownTool,
};

use crate::auth::VerifiedCaller;
use crate::config::ToolGroups;
use crate::fair_share::Resource;
use crate::gateway::session_factory::{SessionFactory, VaultRefused};
use crate::metrics::{CallLabels, Metrics};
use crate::shares::Shares;

/// What a server offers. Clones share everything.
#[derive(Clone, Default)]
pub struct Service {
    /// Each with what its calls work with, of what callers share.
    toolsets: Vec<(Arc<dyn Toolset>, Option<Resource>)>,
    /// How tokens become sessions, where another server has the notes.
    sessions: Option<Arc<SessionFactory>>,
    space: Option<SpaceTools>,
    records: Option<RecordService>,
    texts: OwnerTexts,
    metrics: Arc<Metrics>,
    shares: Arc<Shares>,
    /// The tools of the toolsets that this server does not offer.
    left_out: Arc<HashSet<&'static str>>,
    /// The group of each tool, by its canonical name, once it was asked for.
    groups: Arc<OnceLock<HashMap<&'static str, ToolGroup>>>,
}

/// What agents are told beside the tools.
#[derive(Clone, Debug, Default)]
pub struct OwnerTexts {
    /// What every agent reads first when it connects, in the owner's words.
    pub instructions: Option<Arc<str>>,
    /// The prompts, where files are served.
    pub prompts: Option<Arc<Prompts>>,
}

/// A toolset, the name of the tool or resource in it, and what its calls work with.
type Found<'a> = (&'a dyn Toolset, &'static str, Option<Resource>);

impl Service {
    /// Offers one toolset. Its instructions are the server's. Each of its calls takes a part of the
    /// resource `works_with`, unless the toolset itself does so.
    pub fn new(toolset: impl Toolset + 'static, works_with: Option<Resource>) -> Self {
        Self::default().with(toolset, works_with)
    }

    /// Offers the tools of a space, and whole notes to a gateway.
    pub fn of_space(tools: SpaceTools) -> Self {
        let texts = OwnerTexts { prompts: Some(Arc::default()), ..OwnerTexts::default() };
        Self { space: Some(tools.clone()), texts, ..Self::new(tools, Some(Resource::Threads)) }
    }

    /// Adds a toolset, whose calls each take a part of the resource `works_with`.
    #[must_use]
    pub fn with(mut self, toolset: impl Toolset + 'static, works_with: Option<Resource>) -> Self {
        self.toolsets.push((Arc::new(toolset), works_with));
        self
    }

    /// Offers only the tools of these groups, of the toolsets that were added before. A tool of
    /// another group does not exist for any caller.
    #[must_use]
    pub fn limited_to(self, groups: ToolGroups) -> Self {
        if groups == ToolGroups::ALL {
            return self;
        }
        let definitions = self.toolsets.iter().flat_map(|(toolset, _)| toolset.definitions());
        let left_out = definitions.filter(|tool| !groups.show(tool.group)).map(|tool| tool.name);
        Self { left_out: Arc::new(left_out.collect()), ..self }
    }

    /// Returns the tools that a caller may be told of, in a spelling: those that the rights of the
    /// caller lead to, in the groups that the caller's list shows.
    pub fn told_tools(
        &self,
        caller: &Caller,
        spelling: Spelling,
        groups: ToolGroups,
    ) -> ShownTools {
        ShownTools::from(spelling).only(|name| {
            !self.left_out.contains(name)
                && self.toolsets.iter().any(|(toolset, _)| toolset.may_show(name, caller))
                && (groups == ToolGroups::ALL
                    || self.group(name).is_some_and(|group| groups.show(group)))
        })
    }

    /// Returns the group of a tool, given by its canonical name.
    fn group(&self, name: &str) -> Option<ToolGroup> {
        let groups = self.groups.get_or_init(|| {
            self.definitions().into_iter().map(|tool| (tool.name, tool.group)).collect()
        });
        groups.get(name).copied()
    }

    /// Makes a session of each token, for tools over notes that another server has.
    #[must_use]
    pub fn with_sessions(self, sessions: SessionFactory) -> Self {
        Self { sessions: Some(Arc::new(sessions)), ..self }
    }

    /// Offers records at `/v1`.
    #[must_use]
    pub fn with_records(self, records: RecordService) -> Self {
        Self { records: Some(records), ..self }
    }

    /// Tells agents what the owner wants them to read.
    #[must_use]
    pub fn with_owner_texts(self, texts: OwnerTexts) -> Self {
        Self { texts, ..self }
    }

    /// What agents are told beside the tools.
    pub fn owner_texts(&self) -> &OwnerTexts {
        &self.texts
    }

    /// Counts calls in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Where calls are counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Shares these resources among callers.
    #[must_use]
    pub fn with_shares(self, shares: Arc<Shares>) -> Self {
        Self { shares, ..self }
    }

    /// The resources that callers share.
    pub fn shares(&self) -> &Arc<Shares> {
        &self.shares
    }

    /// The records of `/v1`, if the service has any.
    pub fn records(&self) -> Option<&RecordService> {
        self.records.as_ref()
    }

    /// The space whose whole notes a gateway may read, if the service has one.
    pub fn space(&self) -> Option<&SpaceTools> {
        self.space.as_ref()
    }

    /// Returns the caller of a request that came with this token.
    ///
    /// # Errors
    /// [`VaultRefused`], if the token does not say which vault it is for, or no server has the
    /// notes of that vault.
    pub fn caller(&self, verified: &VerifiedCaller, token: &str) -> Result<Caller, VaultRefused> {
        let session = match &self.sessions {
            Some(sessions) => Some(sessions.session(verified, token)?),
            None => None,
        };
        Ok(Caller { session, ..Caller::local(verified.principal.clone()) })
    }

    /// Returns what this agent reads when it connects: the owner's words first, with the names of
    /// tools as the agent is shown them.
    pub fn instructions(&self, caller: &Caller) -> Cow<'static, str> {
        // A caller of records alone has nothing to do with files.
        let is_shown = |(toolset, _): &&(Arc<dyn Toolset>, Option<Resource>)| {
            caller.names.has_any(|name| toolset.find(name).is_some())
        };
        let first = self.toolsets.iter().find(is_shown).or(self.toolsets.first());
        let own = first.map_or(Cow::Borrowed(""), |(toolset, _)| toolset.instructions(caller));
        match &self.texts.instructions {
            Some(text) => {
                let text = caller.names.spelling().respelled(text);
                format!("{text}\n\n{own}").into()
            }
            None => own,
        }
    }

    /// Returns values for the argument of a resource template that continue `begun`.
    pub async fn complete(
        &self,
        template: &str,
        argument: &str,
        begun: &str,
        caller: &Caller,
    ) -> CompletedValues {
        for (toolset, _) in &self.toolsets {
            let found = toolset.complete(template, argument, begun, caller).await;
            if !found.values.is_empty() {
                return found;
            }
        }
        CompletedValues::default()
    }

    /// Returns whether the server offers a feature of the protocol beside tools.
    pub fn has(&self, feature: Feature) -> bool {
        self.toolsets.iter().any(|(toolset, _)| toolset.features().contains(&feature))
    }

    /// Returns the definitions of all tools that any caller is ever shown.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let all = self.toolsets.iter().flat_map(|(toolset, _)| toolset.definitions());
        all.filter(|tool| !self.left_out.contains(tool.name)).collect()
    }

    /// Returns the names of the tools that this caller is shown, sorted.
    pub async fn listed(&self, caller: &Caller) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (toolset, _) in &self.toolsets {
            names.extend(toolset.listed(caller).await);
        }
        names.retain(|name| !self.left_out.contains(name));
        names.sort_unstable();
        names
    }

    fn find(&self, name: &str) -> Option<Found<'_>> {
        let found = self.toolsets.iter().find_map(|(toolset, works_with)| {
            Some((toolset.as_ref(), toolset.find(name)?, *works_with))
        });
        found.filter(|(_, name, _)| !self.left_out.contains(name))
    }

    fn find_resource(&self, uri: &str) -> Option<Found<'_>> {
        self.toolsets.iter().find_map(|(toolset, works_with)| {
            Some((toolset.as_ref(), toolset.find_resource(uri)?, *works_with))
        })
    }

    /// Returns what a call of this tool works with, of what callers share.
    pub fn works_with(&self, name: &str) -> Option<Resource> {
        self.find(name)?.2
    }

    /// Returns whether each call of this tool goes through folders.
    pub fn walks(&self, name: &str) -> bool {
        self.find(name).is_some_and(|(toolset, name, _)| toolset.walks(name))
    }

    /// Returns what a read of this MCP resource works with, of what callers share.
    pub fn resource_works_with(&self, uri: &str) -> Option<Resource> {
        self.find_resource(uri)?.2
    }

    /// Decides from the token alone whether a call may be made. An unknown tool passes; the call
    /// itself says so.
    pub fn check_permits(
        &self,
        name: &str,
        arguments: &Value,
        caller: &Caller,
    ) -> Result<(), Denial> {
        let Some((toolset, name, _)) = self.find(name) else { return Ok(()) };
        toolset
            .check_permits(name, arguments, caller)
            .inspect_err(|denial| self.count_denial(name, denial))
    }

    /// Returns what happens to a call of this tool whose client hangs up.
    pub fn on_hang_up(&self, name: &str) -> OnHangUp {
        self.find(name).map_or(OnHangUp::Finish, |(toolset, ..)| toolset.on_hang_up())
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`]. Every other failure is an answer.
    pub async fn call(
        &self,
        name: &str,
        arguments: Value,
        caller: &Caller,
    ) -> Result<Answer, UnknownTool> {
        let began = Instant::now();
        let (toolset, tool, _) = self.find(name).ok_or(UnknownTool)?;
        let answer = toolset.call(tool, arguments, caller).await?;
        let (outcome, upstream) = match &answer.failure {
            Some(failure) => (failure.outcome, failure.upstream),
            None => ("ok", toolset.upstream_on_success()),
        };
        self.metrics.count(CallLabels { tool, outcome, upstream }, began.elapsed());
        Ok(answer)
    }

    /// Returns the resources that are listed for this caller.
    pub fn resources(&self, caller: &Caller) -> Vec<ResourceKind> {
        self.toolsets.iter().flat_map(|(toolset, _)| toolset.resources(caller)).collect()
    }

    /// Returns a page of the files that were changed last and that this caller may read, the first
    /// page without a cursor.
    ///
    /// # Errors
    /// [`ResourceError`] if the cursor is not one of a list of files, or the files cannot be found.
    pub async fn recent_files(
        &self,
        cursor: Option<&str>,
        caller: &Caller,
    ) -> Result<FilePage, ResourceError> {
        match self.with_resources() {
            Some((toolset, _)) => toolset.recent_files(cursor, caller).await,
            None => Ok(FilePage::default()),
        }
    }

    /// Returns what a list or a completion of resources works with, of what callers share.
    pub fn resource_list_works_with(&self) -> Option<Resource> {
        *self.with_resources().map(|(_, works_with)| works_with)?
    }

    /// Returns the toolset whose resources are listed: the first that has any.
    fn with_resources(&self) -> Option<&(Arc<dyn Toolset>, Option<Resource>)> {
        self.toolsets.iter().find(|(toolset, _)| toolset.features().contains(&Feature::Resources))
    }

    /// Returns the templates of resources that are listed for this caller.
    pub fn resource_templates(&self, caller: &Caller) -> Vec<ResourceKind> {
        self.toolsets.iter().flat_map(|(toolset, _)| toolset.resource_templates(caller)).collect()
    }

    /// Decides from the token alone whether a resource may be read. An unknown resource passes; the
    /// read itself says so.
    pub fn check_resource(&self, uri: &str, caller: &Caller) -> Result<(), Denial> {
        let Some((toolset, name, _)) = self.find_resource(uri) else { return Ok(()) };
        toolset.check_resource(uri, caller).inspect_err(|denial| self.count_denial(name, denial))
    }

    /// Watches a resource of any toolset for changes that the caller may see.
    pub async fn watch_resource(&self, uri: &str, caller: &Caller) -> Result<Watch, ResourceError> {
        match self.find_resource(uri) {
            Some((toolset, ..)) => toolset.watch_resource(uri, caller).await,
            None => Err(ResourceError::not_watched(uri)),
        }
    }

    /// Returns whether an address is one of a resource that some toolset knows.
    pub fn knows_resource(&self, uri: &str) -> bool {
        self.find_resource(uri).is_some()
    }

    /// Reads a resource of any toolset.
    pub async fn read_resource(
        &self,
        uri: &str,
        caller: &Caller,
    ) -> Result<ResourceContent, ResourceError> {
        let Some((toolset, tool, _)) = self.find_resource(uri) else {
            return Err(if self.has(Feature::Resources) {
                ResourceError::unknown(uri)
            } else {
                ResourceError::none_here()
            });
        };
        let began = Instant::now();
        let read = toolset.read_resource(uri, caller).await;
        let outcome = match read.as_ref().map_err(|error| error.kind) {
            Ok(_) => "ok",
            Err(ResourceErrorKind::Failed) => "failed",
            Err(_) => "refused",
        };
        self.metrics.count(CallLabels { tool, outcome, upstream: "none" }, began.elapsed());
        read
    }

    fn count_denial(&self, tool: &'static str, denial: &Denial) {
        self.metrics
            .count(CallLabels { tool, outcome: denial.code, upstream: "none" }, Duration::ZERO);
    }
}
