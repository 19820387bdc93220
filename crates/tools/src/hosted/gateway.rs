//! The life of a hosted call: role, arguments, one read, what the note tells.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::Value;
use stile_domain::notes::NotePath;
use stile_domain::notes::answers::AnswerExtent;
use stile_domain::role::Role;

use super::refusals::Refused;
use super::roles::is_tool_allowed;
use super::session::Session;
use super::tool::{HostedTool, TOOLS, Told};
use super::upstream::{NoteStore, Reading};
use crate::calls::UnknownTool;

/// Longer bodies are walked on a thread of their own, so that nobody else waits for them.
const LONG_BODY_BYTES: usize = 32 * 1024;

/// The note tools over a server that has the notes.
#[derive(Clone)]
pub struct Gateway {
    store: Arc<dyn NoteStore>,
}

/// A finished call.
#[derive(Clone, Debug, PartialEq)]
pub struct HostedAnswer {
    /// The structured answer as compact JSON, which is also the text.
    pub text: String,
    /// What may be known of it by an operator.
    pub outcome: Outcome,
}

/// All that is ever logged or counted of a call, beside how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The tool.
    pub tool: &'static str,
    /// Why it was refused, if it was.
    pub refused: Option<Refused>,
    /// How much was told.
    pub extent: Option<AnswerExtent>,
}

impl Outcome {
    /// `ok`, or the class of the refusal.
    pub fn class(&self) -> &'static str {
        self.refused.map_or("ok", Refused::class)
    }

    /// The class of the status that the server with the notes gave.
    pub fn status_class(&self) -> &'static str {
        self.refused.map_or("2xx", Refused::status_class)
    }
}

impl Gateway {
    /// A gateway before `store`.
    pub fn new(store: Arc<dyn NoteStore>) -> Self {
        Self { store }
    }

    /// The tools that a role may use, sorted by name.
    pub fn listed(&self, role: Role) -> Vec<HostedTool> {
        let mut tools: Vec<HostedTool> =
            TOOLS.iter().filter(|tool| is_tool_allowed(tool.name, role)).copied().collect();
        tools.sort_by_key(|tool| tool.name);
        tools
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`], where there is none of that name for this role. Every other failure is an
    /// answer.
    pub async fn call(
        &self,
        name: &str,
        arguments: &Value,
        session: &Session,
    ) -> Result<HostedAnswer, UnknownTool> {
        let tool = TOOLS.iter().find(|tool| tool.name == name).ok_or(UnknownTool)?;
        if !is_tool_allowed(tool.name, session.role) {
            return Err(UnknownTool);
        }
        let running = AssertUnwindSafe(self.run(*tool, arguments, session)).catch_unwind();
        // What a panic says may hold content, and is dropped.
        let told = running.await.unwrap_or_else(|_| Err(internal()));
        let name = tool.name;
        Ok(match told {
            Ok(Told { text, extent }) => {
                HostedAnswer { text, outcome: Outcome { tool: name, refused: None, extent } }
            }
            Err(refused) => {
                let outcome = Outcome { tool: name, refused: Some(refused), extent: None };
                HostedAnswer { text: refused.to_json().to_string(), outcome }
            }
        })
    }

    async fn run(
        &self,
        tool: HostedTool,
        arguments: &Value,
        session: &Session,
    ) -> Result<Told, Refused> {
        let path = tool.parse(arguments)?;
        let note =
            self.store.read(Reading::new(&path, session)).await.map_err(Refused::Upstream)?;
        if note.body_bytes() <= LONG_BODY_BYTES {
            return tool.derive(&path, note.as_note());
        }
        let derive = move |path: NotePath| tool.derive(&path, note.as_note());
        tokio::task::spawn_blocking(move || derive(path)).await.unwrap_or_else(|_| Err(internal()))
    }
}

fn internal() -> Refused {
    Refused::Internal { incident: stile_store::new_incident() }
}
