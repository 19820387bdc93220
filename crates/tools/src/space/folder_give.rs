//! `folder.give`: makes a folder again for an undo. For commands of the owner alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_domain::error::Refusal;
use stile_domain::history::past_folder::{FolderRest, PastFolder};
use stile_domain::journal::CallTrace;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Edit, Gate, Permit};
use stile_domain::tool_name::ShownTools;
use stile_store::space::Space;

use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Make a folder again, with what it held beside files.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderGive {
    /// Which folder.
    path: SpacePath,
    /// The permission bits that it gets if it is not there.
    mode: u32,
    /// The folder that a move made of it.
    from: Option<SpacePath>,
    /// What comes back from there: the kinds of the entries by their names.
    #[serde(default)]
    rest: FolderRest,
}

/// A folder that is there again.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FolderGiven {
    /// Its canonical path.
    path: SpacePath,
}

impl Output for FolderGiven {
    fn render(self, _: ShownTools) -> serde_json::Result<Answer> {
        Answer::json(&self)
    }
}

impl Tool for FolderGive {
    const NAME: &'static str = "folder.give";
    const TITLE: &'static str = "Make a folder again";
    const DESTRUCTIVE: bool = true;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = (Permit<Edit>, Option<Permit<Edit>>);
    type Output = FolderGiven;
    type Error = Refusal;

    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let from = self.from.as_ref().map(|from| gate.permit(from)).transpose()?;
        Ok((gate.permit(&self.path)?, from))
    }

    async fn run(self, permits: Self::Permits, space: &Space) -> Result<FolderGiven, Refusal> {
        let Self { path, mode, rest, .. } = self;
        space.give_folder(permits, PastFolder { mode, rest }).await?;
        Ok(FolderGiven { path })
    }

    fn trace(&self) -> CallTrace {
        CallTrace::of_file(&self.path, None)
    }
}
