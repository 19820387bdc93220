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

mod notes_answers;
mod notes_bounds;
mod notes_secrets;
mod schemas;
mod stories;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use stile_domain::limits::FileLimits;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_store::journal::Journal;
use stile_store::space::{Space, SpaceOptions};
use stile_store::state::StateDir;
use stile_tools::calls::Services;
use stile_tools::registry::TOOLS;
use stile_tools::tool::Answer;

/// A space in a temporary folder, with a journal in another.
pub(crate) struct Rig {
    pub(crate) space: tempfile::TempDir,
    pub(crate) state_dir: StateDir,
    _state: tempfile::TempDir,
    pub(crate) services: Services,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let (space, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = SpaceOptions {
            limits: FileLimits::default(),
            lock_wait: Duration::from_secs(5),
            events: Arc::new(|_| {}),
        };
        let state_dir = StateDir::open(&state.path().join("state")).unwrap();
        let services = Services {
            space: Space::open_ambient(space.path(), options).unwrap().0,
            journal: Arc::new(Journal::open(&state_dir).unwrap()),
            tools: TOOLS,
        };
        Self { space, state_dir, _state: state, services }
    }

    /// Calls a tool, and holds the answer to its advertised schema.
    pub(crate) async fn call(&self, claim: &str, name: &str, arguments: Value) -> Answer {
        let answer = self.services.call(name, arguments, &principal(claim)).await.unwrap();
        let tool = stile_tools::registry::find(TOOLS, name).unwrap();
        stile_testkit::schema::check(&tool.card().output.into(), &answer.structured).unwrap();
        answer
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
