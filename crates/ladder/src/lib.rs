//! The content ladder: how an agent reads records of any size in bounded steps.
//!
//! Six tools and two kinds of resources over a resource server, which is asked through a [`port`].
//! Each rung is one file: [`schema`], [`search`], [`query_records`], [`aggregate`], [`fetch`] and
//! [`read_record_field`]. Whatever an answer shortens it names, with the call that reads on: in its
//! text, in its structure and as a link, so that every kind of client finds the way ([`entry`]).
//! How much is shown is decided by [`budget`], from what is there.
//!
//! The ladder has no authority: who may see what is decided by the resource server, for each
//! request, from the caller's token.

pub mod aggregate;
mod answers;
pub mod arguments;
pub mod budget;
mod bytes;
mod climb;
pub mod entry;
mod exact;
pub mod fetch;
mod identity;
mod lines;
pub mod port;
pub mod query_records;
pub mod read_record_field;
pub mod resources;
pub mod schema;
pub mod search;
mod shown;
mod told;
pub mod trouble;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::problem::Problem;

use self::budget::{Budgets, CEILING, is_longer};
use self::climb::Climb;
use self::port::{Declined, RecordServer, too_large};
use self::trouble::Trouble;
use stile_tools::calls::UnknownTool;
use stile_tools::tool::{self, Card};

/// A way to a resource, beside the text of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its address.
    pub uri: String,
    /// What it is, in a word.
    pub name: String,
    /// What is behind it, for a model that sees nothing else.
    pub description: String,
    /// Its media type.
    pub mime_type: String,
}

impl Link {
    /// The bytes of all that it says.
    fn len(&self) -> usize {
        [&self.uri, &self.name, &self.description, &self.mime_type]
            .into_iter()
            .map(String::len)
            .sum()
    }
}

/// A finished call.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderAnswer {
    /// The text block, enough by itself.
    pub text: String,
    /// `structuredContent`, enough by itself.
    pub structured: Json,
    /// Ways to what the text does not show.
    pub links: Vec<Link>,
    /// Why it was refused, if it was.
    pub refusal: Option<Trouble>,
}

impl LadderAnswer {
    /// The answer that a refusal makes of a call of this tool. Whoever has its structure or its
    /// text alone has the code.
    fn refused(tool: &str, trouble: Trouble) -> Self {
        let mut error = trouble.to_json();
        if let Some(tool) = trouble.next(tool).filter(|_| !error.contains_key("next")) {
            error.insert("next".to_owned(), json!({ "tool": tool }));
        }
        let structured = json!({ "error": error });
        Self {
            text: lines::plain(structured.to_string()),
            structured,
            links: Vec::new(),
            refusal: Some(trouble),
        }
    }

    /// Whether it is longer than any should be, since the resource server says what no honest one
    /// does.
    fn is_over(&self) -> bool {
        let links: usize = self.links.iter().map(Link::len).sum();
        self.text.len() > CEILING || links > CEILING || is_longer(&self.structured, CEILING)
    }
}

/// One tool of the ladder. Its doc comment is what agents read.
pub(crate) trait Rung: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;

    /// The schema of a successful answer.
    fn output() -> Json;

    /// Climbs it.
    fn run(self, climb: &Climb<'_>) -> impl Future<Output = Result<LadderAnswer, Trouble>> + Send;
}

type Climbing<'a> = Pin<Box<dyn Future<Output = Result<LadderAnswer, Trouble>> + Send + 'a>>;

/// A tool of the ladder without its type.
#[derive(Clone, Copy)]
struct DeclaredRung {
    name: &'static str,
    card: fn() -> Card,
    run: for<'a> fn(&'a Json, &'a Climb<'a>) -> Climbing<'a>,
}

impl DeclaredRung {
    const fn of<T: Rung>() -> Self {
        Self { name: T::NAME, card: card::<T>, run: run::<T> }
    }
}

/// All rungs, from the widest view to the closest.
const RUNGS: [DeclaredRung; 6] = [
    DeclaredRung::of::<schema::Schema>(),
    DeclaredRung::of::<search::Search>(),
    DeclaredRung::of::<query_records::QueryRecords>(),
    DeclaredRung::of::<aggregate::Aggregate>(),
    DeclaredRung::of::<fetch::Fetch>(),
    DeclaredRung::of::<read_record_field::ReadRecordField>(),
];

fn run<'a, T: Rung>(arguments: &'a Json, climb: &'a Climb<'a>) -> Climbing<'a> {
    Box::pin(async move { arguments::parse::<T>(arguments)?.run(climb).await })
}

fn card<T: Rung>() -> Card {
    let mut output = Map::new();
    output.insert("type".to_owned(), "object".into());
    output.insert("anyOf".to_owned(), json!([T::output(), error_schema()]));
    Card {
        name: T::NAME,
        title: T::TITLE,
        description: tool::description::<T>(),
        input: tool::closed_schema::<T>(),
        output,
        read_only: true,
        destructive: false,
        idempotent: true,
    }
}

/// The error object of records: what the resource server says is handed on whole, so it is open.
fn error_schema() -> Json {
    json!({
        "type": "object",
        "properties": { "error": {
            "type": "object",
            "properties": { "type": { "type": "string" }, "code": { "type": "string" }, "message": { "type": "string" } },
            "required": ["code", "message"]
        } },
        "required": ["error"],
        "additionalProperties": false
    })
}

/// The tools over one resource server. Clones are one.
#[derive(Clone)]
pub struct Ladder {
    inner: Arc<Inner>,
}

struct Inner {
    server: Box<dyn RecordServer>,
    budgets: Budgets,
    strict_schemas: bool,
}

impl Ladder {
    /// Over this resource server, with the usual budgets.
    pub fn over(server: impl RecordServer) -> Self {
        Self::new(server, Budgets::default(), false)
    }

    /// Over this resource server. With `strict_schemas` the input schema of `read_record_field` has
    /// the `oneOf` that says which arguments belong together, which major model interfaces refuse.
    pub fn new(server: impl RecordServer, budgets: Budgets, strict_schemas: bool) -> Self {
        Self { inner: Arc::new(Inner { server: Box::new(server), budgets, strict_schemas }) }
    }

    /// Whether this caller has anything to do with records, and so is shown the tools.
    pub fn is_for(caller: &Principal) -> bool {
        *caller.records() != RecordsClaim::None
    }

    /// The name of the tool, if it is one of these.
    pub fn name(name: &str) -> Option<&'static str> {
        RUNGS.iter().find(|rung| rung.name == name).map(|rung| rung.name)
    }

    /// The names of all tools, sorted.
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<&'static str> = RUNGS.iter().map(|rung| rung.name).collect();
        names.sort_unstable();
        names
    }

    /// How the tools are listed, in reading order.
    pub fn cards(strict_schemas: bool) -> Vec<Card> {
        let mut cards: Vec<Card> = RUNGS.iter().map(|rung| (rung.card)()).collect();
        if strict_schemas && let Some(last) = cards.last_mut() {
            read_record_field::make_strict(&mut last.input);
        }
        cards
    }

    /// How this ladder's tools are listed.
    pub fn own_cards(&self) -> Vec<Card> {
        Self::cards(self.inner.strict_schemas)
    }

    /// Whether a caller may ask at all. What they may see is decided by the resource server.
    ///
    /// # Errors
    /// [`Problem::InsufficientScope`].
    pub fn ask(caller: &Principal) -> Result<(), Problem> {
        caller.gate().records().map(drop)
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`UnknownTool`]; every other failure is an answer.
    pub async fn call(
        &self,
        name: &str,
        arguments: &Json,
        caller: &Principal,
    ) -> Result<LadderAnswer, UnknownTool> {
        let rung = RUNGS.iter().find(|rung| rung.name == name).ok_or(UnknownTool)?;
        let climb = Climb::new(self.inner.server.as_ref(), self.inner.budgets, caller, arguments);
        let climbed =
            guarded(rung.name, caller, async { (rung.run)(arguments, &climb).await }).await;
        let answer = climbed.unwrap_or_else(|trouble| LadderAnswer::refused(rung.name, trouble));
        let answer = if answer.is_over() {
            LadderAnswer::refused(rung.name, too_large().into())
        } else {
            answer
        };
        let error = answer.refusal.as_ref().map(Trouble::to_json);
        self.inner.server.tell(caller, rung.name, error.as_ref().map_or(Ok(()), Err));
        Ok(answer)
    }
}

/// Does something for a caller who may ask, so that a panic in it is an answer.
async fn guarded<T>(
    what: &'static str,
    caller: &Principal,
    climbing: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    Ladder::ask(caller).map_err(Declined::from)?;
    AssertUnwindSafe(climbing).catch_unwind().await.unwrap_or_else(|_| Err(panicked(what)))
}

/// The panic hook has logged where it happened; what it said may hold content and is dropped.
fn panicked(tool: &'static str) -> Trouble {
    let incident = stile_tools::new_incident();
    tracing::error!(incident, tool, "a rung of the ladder panicked");
    Trouble::Declined(Problem::Internal { incident }.into())
}
