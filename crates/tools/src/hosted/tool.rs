//! The note tools without their types, as the gateway lists them.

use serde_json::Value;
use stile_domain::notes::NotePath;
use stile_domain::notes::answers::AnswerExtent;
use stile_domain::notes::{Note, NoteTooLarge};

use super::refusals::{self, Refused};
use crate::arguments;
use crate::note_facets::GetMetadataFacets;
use crate::note_outline::GetNoteOutline;
use crate::note_sections::GetSectionSource;
use crate::note_tree::GetDocumentTree;
use crate::notes::NoteTool;
use crate::tool::{self, Card, Output as _};

/// All tools that the gateway knows. Which of them a caller may use is for [`super::roles`] to say.
pub const TOOLS: &[HostedTool] = &[
    HostedTool::of::<GetNoteOutline>(),
    HostedTool::of::<GetDocumentTree>(),
    HostedTool::of::<GetMetadataFacets>(),
    HostedTool::of::<GetSectionSource>(),
];

/// What a note tells, ready for any transport.
pub(super) struct Told {
    /// Compact JSON.
    pub(super) text: String,
    pub(super) extent: Option<AnswerExtent>,
}

/// A note tool without its type.
#[derive(Clone, Copy)]
pub struct HostedTool {
    /// The canonical name.
    pub name: &'static str,
    card: fn() -> Card,
    parse: fn(&Value) -> Result<NotePath, Refused>,
    derive: fn(&NotePath, Note<'_>) -> Result<Told, Refused>,
}

impl HostedTool {
    const fn of<T: NoteTool>() -> Self {
        Self {
            name: <T as NoteTool>::NAME,
            card: card_of::<T>,
            parse: parse::<T>,
            derive: derive::<T>,
        }
    }

    /// How it is listed.
    pub fn card(&self) -> Card {
        (self.card)()
    }

    pub(super) fn parse(&self, arguments: &Value) -> Result<NotePath, Refused> {
        (self.parse)(arguments)
    }

    pub(super) fn derive(&self, path: &NotePath, note: Note<'_>) -> Result<Told, Refused> {
        (self.derive)(path, note)
    }
}

/// The tool's own card, but that its refusals are the gateway's, and that it names no tool which is
/// not here.
fn card_of<T: NoteTool>() -> Card {
    let output = tool::output_schema::<T>(vec![refusals::schema()]);
    Card { description: tool::description::<T>(), output, ..tool::card::<T>() }
}

fn parse<T: NoteTool>(arguments: &Value) -> Result<NotePath, Refused> {
    match arguments::parse::<T>(arguments) {
        Ok(input) => Ok(input.path().clone()),
        Err(refusal) => Err(Refused::of_arguments(&refusal)),
    }
}

fn derive<T: NoteTool>(path: &NotePath, note: Note<'_>) -> Result<Told, Refused> {
    let answer = T::derive(path, note).map_err(|NoteTooLarge| Refused::TooLarge)?;
    let extent = answer.extent();
    // A section is told in some three hundred bytes.
    let sections = extent.map_or(0, |extent| usize::try_from(extent.sections).unwrap_or_default());
    let mut json = Vec::with_capacity(512 + 320 * sections);
    let told =
        serde_json::to_writer(&mut json, &answer).ok().and_then(|()| String::from_utf8(json).ok());
    let text = told.ok_or_else(|| Refused::Internal { incident: stile_store::new_incident() })?;
    Ok(Told { text, extent })
}
