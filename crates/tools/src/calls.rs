//! The life of a call from its name to its line in the journal.
//!
//! Whatever the transport, a call comes through here: it is authorized, run, journalled once, and
//! only then answered. A mutation does not begin where it could not be journalled.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::Value;
use stile_domain::error::Refusal;
use stile_domain::journal::JournalLine;
use stile_domain::permit::Principal;
use stile_domain::scope::Verb;
use stile_store::journal::Journal;
use stile_store::space::Space;

use crate::registry;
use crate::tool::{Answer, Declared, Denied, Trace};

/// What calls are made on.
#[derive(Clone)]
pub struct Services {
    /// The files.
    pub space: Space,
    /// What the owner can read afterwards.
    pub journal: Arc<Journal>,
    /// The tools there are; [`registry::TOOLS`] but in tests.
    pub tools: &'static [Declared],
}

/// No tool has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTool;

impl Services {
    /// Whether a call may be made, decided before anything is touched. A refusal is journalled
    /// here, since the call then ends here.
    ///
    /// # Errors
    /// The refusal, where scopes do not suffice.
    pub fn ask(&self, name: &str, arguments: &Value, principal: &Principal) -> Result<(), Refusal> {
        let Some(tool) = registry::find(self.tools, name) else { return Ok(()) };
        tool.ask(arguments, principal).map_err(|denied| {
            let Denied { refusal, trace } = *denied;
            let _ = self.journal.append(line(tool.name, principal, trace, Some(&refusal)));
            refusal
        })
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`]; every other failure is an [`Answer`].
    pub async fn call(
        &self,
        name: &str,
        arguments: Value,
        principal: &Principal,
    ) -> Result<Answer, UnknownTool> {
        let tool = registry::find(self.tools, name).ok_or(UnknownTool)?;
        if !tool.read_only
            && let Err(error) = self.journal.check_writable()
        {
            return Ok(tool.refused(stile_store::incident("journal", &error)));
        }
        let running = AssertUnwindSafe(tool.call(arguments, principal, &self.space)).catch_unwind();
        let (mut answer, trace) = running.await.unwrap_or_else(|_| {
            // The panic hook has logged where it happened; what it said may hold content and is
            // dropped.
            let incident = stile_store::new_incident();
            tracing::error!(incident, tool = tool.name, "a handler panicked");
            (tool.refused(Refusal::Internal { incident }), Trace::default())
        });
        let path = trace.path.clone();
        if let Err(error) =
            self.journal.append(line(tool.name, principal, trace, answer.refusal.as_ref()))
            && !tool.read_only
            && answer.refusal.is_none()
        {
            let failed = stile_store::incident("journal", &error);
            answer = tool.refused(path.map_or(failed, |path| Refusal::UnknownOutcome { path }));
        }
        Ok(answer)
    }

    /// The tools that this caller is shown, sorted by name: changing ones only with some `write:`
    /// scope, reading ones only with some scope at all.
    pub fn listed(&self, principal: &Principal) -> Vec<Declared> {
        let needed = |tool: &Declared| if tool.read_only { Verb::Read } else { Verb::Write };
        let mut tools: Vec<Declared> = self
            .tools
            .iter()
            .filter(|tool| principal.scopes().any(needed(tool)))
            .copied()
            .collect();
        tools.sort_by_key(|tool| tool.name);
        tools
    }
}

pub(crate) fn line(
    tool: &str,
    principal: &Principal,
    trace: Trace,
    refusal: Option<&Refusal>,
) -> JournalLine {
    JournalLine {
        at: String::new(),
        subject: Some(principal.subject().to_owned()),
        token: principal.token().map(str::to_owned),
        client: principal.client().map(str::to_owned),
        tool: tool.to_owned(),
        path: trace.path,
        before: trace.before,
        after: trace.after,
        sections: trace.extent.map(|extent| extent.sections),
        truncated: trace.extent.map(|extent| extent.truncated),
        outcome: refusal.map_or("ok", |refusal| refusal.code().0).to_owned(),
        incident: match refusal {
            Some(Refusal::Internal { incident }) => Some(*incident),
            _ => None,
        },
    }
}
