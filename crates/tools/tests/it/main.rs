//! The tools through their registry, on a real folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own verified caller and its own operator"
)]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod encodings;
mod hidden_parents;
mod media_types;
mod near_names;
mod notes_answers;
mod notes_bounds;
mod notes_found;
mod notes_secrets;
mod pieces;
mod schemas;
mod spellings;
mod stories;
mod wrong_arguments;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stile_domain::limits::FileLimits;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::journal::Journal;
use stile_store::space::{SearchIgnore, Space, SpaceOptions};
use stile_store::state::StateDir;
use stile_tools::answer::{Answer, Failure, ResourceLink};
use stile_tools::definition::ToolDefinition;
use stile_tools::space::SpaceTools;
use stile_tools::tool::ToolEntry;
use stile_tools::toolset::{Caller, Toolset as _};

/// A space in a temporary folder, with a journal in another.
pub(crate) struct Rig {
    pub(crate) space: tempfile::TempDir,
    pub(crate) state_dir: StateDir,
    _state: tempfile::TempDir,
    pub(crate) tools: SpaceTools,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = SpaceOptions {
            limits: FileLimits::default(),
            mounts: Vec::new(),
            search_ignore: SearchIgnore::default(),
            lock_wait: Duration::from_secs(5),
            events: Arc::new(|_| {}),
            appends_folder: None,
            cleared: None,
            documents: None,
        };
        let state_dir = StateDir::open(&state.path().join("state")).unwrap();
        let space = Space::open_ambient(folder.path(), options).unwrap().0;
        let tools = SpaceTools::new(space, Arc::new(Journal::open(&state_dir).unwrap()));
        Self { space: folder, state_dir, _state: state, tools }
    }

    /// Calls a tool and holds the answer to its advertised schema.
    pub(crate) async fn call(&self, claim: &str, name: &str, arguments: Value) -> Called {
        let tool = self.tools.find(name).unwrap();
        let answer = self.tools.call(tool, arguments, &caller(claim)).await.unwrap();
        let called = Called::from(answer);
        let output = (definition(tool).output)().into();
        stile_testkit::schema::check(&output, &called.structured).unwrap();
        called
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.space.path().join(name)).unwrap()
    }
}

pub(crate) fn principal(claim: &str) -> Principal {
    Principal::assert_verified(
        "ann",
        Some("t1"),
        Some("a test"),
        Scopes::from_claim(claim),
        RecordsClaim::None,
    )
}

pub(crate) fn caller(claim: &str) -> Caller {
    Caller::local(principal(claim))
}

/// The definitions of all tools of a space.
pub(crate) fn definitions() -> Vec<ToolDefinition> {
    SpaceTools::built_in().map(ToolEntry::definition).collect()
}

/// The definition of one tool.
pub(crate) fn definition(name: &str) -> ToolDefinition {
    definitions().into_iter().find(|tool| tool.name == name).unwrap()
}

/// An answer with its structure as a tree.
#[derive(Debug, PartialEq)]
pub(crate) struct Called {
    pub(crate) text: String,
    pub(crate) structured: Value,
    pub(crate) links: Vec<ResourceLink>,
    pub(crate) failure: Option<Failure>,
}

impl From<Answer> for Called {
    fn from(answer: Answer) -> Self {
        let structured = answer.to_tree().into_owned();
        let Answer { text, links, failure, .. } = answer;
        Self { text, structured, links, failure }
    }
}
