//! `text.gather`: pieces of several text files in one call, within the budget of one read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stile_domain::error::Refusal;
use stile_domain::journal::{CallTrace, FileTrace};
use stile_domain::limits::MAX_GATHERED;
use stile_domain::lines::LineRange;
use stile_domain::path::{FilePath, SpacePath};
use stile_domain::permit::{Gate, Permit, Read};
use stile_domain::tool_name::ShownTools;
use stile_domain::window::fair_shares;
use stile_store::space::{FileWindow, Space};

use super::text_read::{TextRead, TextWindow};
use crate::answer::Answer;
use crate::tool::{Output, Tool};

/// Read several pieces of text files at once, within the size of one answer; what did not fit has
/// `next_cursor`, for `text.read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextGather {
    /// At most 20, each as in `text.read`.
    #[schemars(length(min = 1, max = 20))]
    items: Vec<GatherItem>,
}

// One piece. Without a description: lists of tools are to be short.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GatherItem {
    path: FilePath,
    lines: Option<LineRange>,
    section: Option<String>,
    page: Option<u64>,
    q: Option<String>,
}

/// Pieces of text files, in the order in which they were asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GatheredText {
    pieces: Vec<Piece>,
}

/// A piece, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Piece {
    /// What `text.read` answers.
    Read(TextWindow),
    Refused(RefusedPiece),
}

/// A piece that was refused.
#[derive(Debug, Serialize, JsonSchema)]
struct RefusedPiece {
    /// Which file.
    path: SpacePath,
    /// Why, as in the error of `text.read`.
    error: Value,
    #[serde(skip)]
    refusal: Option<Refusal>,
}

impl Output for GatheredText {
    /// Renders each piece as `text.read` does, with an empty line between them.
    fn render(mut self, names: ShownTools) -> serde_json::Result<Answer> {
        let mut texts = Vec::with_capacity(self.pieces.len());
        for piece in &mut self.pieces {
            texts.push(match piece {
                Piece::Read(window) => window.text(),
                Piece::Refused(RefusedPiece { path, error, refusal }) => {
                    let refusal = refusal.take();
                    *error = refusal.as_ref().map_or(Value::Null, |refusal| refusal.to_json(names));
                    let why = refusal.map_or_else(String::new, |refusal| refusal.message(names));
                    format!("{path} not read: {why}")
                }
            });
        }
        Answer::with_text(texts.join("\n\n"), &self)
    }

    fn files(&self) -> Vec<FileTrace> {
        let pieces = self.pieces.iter();
        pieces
            .map(|piece| match piece {
                Piece::Read(window) => FileTrace {
                    path: window.path().clone(),
                    version: window.versions().0,
                    outcome: "ok",
                },
                Piece::Refused(RefusedPiece { path, refusal, .. }) => FileTrace {
                    path: path.clone(),
                    version: None,
                    outcome: refusal.as_ref().map_or("internal", |refusal| refusal.code().0),
                },
            })
            .collect()
    }
}

impl Tool for TextGather {
    const NAME: &'static str = "text.gather";
    const TITLE: &'static str = "Read several pieces of text";
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = Space;
    type Permits = Vec<Result<Permit<Read>, Refusal>>;
    type Output = GatheredText;
    type Error = Refusal;

    /// Asks for all files. One that the scopes do not cover makes the whole call need all scopes
    /// that are missing; what no scope helps against is the refusal of its piece.
    fn permits(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal> {
        let (mut permits, mut missing, mut has) = (Vec::new(), Vec::new(), Vec::new());
        for item in &self.items {
            match gate.permit(&item.path) {
                Err(Refusal::InsufficientScope { needed, granted }) => {
                    missing.extend(needed);
                    has = granted;
                }
                permit => permits.push(permit),
            }
        }
        if missing.is_empty() {
            return Ok(permits);
        }
        missing.sort_unstable_by_key(ToString::to_string);
        missing.dedup();
        Err(Refusal::InsufficientScope { needed: missing, granted: has })
    }

    async fn run(self, permits: Self::Permits, space: &Space) -> Result<GatheredText, Refusal> {
        if self.items.is_empty() || self.items.len() > MAX_GATHERED {
            return Err(Refusal::invalid_argument("`items` must have 1 to 20 members"));
        }
        let mut windows = Vec::with_capacity(self.items.len());
        for (item, permit) in self.items.into_iter().zip(permits) {
            let GatherItem { path, lines, section, page, q } = item;
            let request = TextRead::new(path.clone(), lines, section, page, q);
            let window = match permit {
                Ok(permit) => request.read(permit, space).await,
                Err(refusal) => Err(refusal),
            };
            windows.push((SpacePath::from(path), window));
        }
        let size = |window: &Result<FileWindow, Refusal>| {
            window.as_ref().map_or(0, |window| window.content.len())
        };
        let wanted: Vec<usize> = windows.iter().map(|(_, window)| size(window)).collect();
        let shares = fair_shares(space.limits().read_budget, &wanted);
        let pieces = windows.into_iter().zip(shares).map(|((path, window), share)| match window {
            Ok(window) => Piece::Read(TextWindow::new(path, window.within(share))),
            Err(refusal) => {
                Piece::Refused(RefusedPiece { path, error: Value::Null, refusal: Some(refusal) })
            }
        });
        Ok(GatheredText { pieces: pieces.collect() })
    }

    fn trace(&self) -> CallTrace {
        self.items
            .first()
            .map_or_else(CallTrace::default, |first| CallTrace::of_file(&first.path, None))
    }
}
