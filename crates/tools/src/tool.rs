//! The shape of a tool, and what is derived from it.

use std::future::Future;
use std::pin::Pin;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use stile_domain::error::Refusal;
use stile_domain::hash::ContentHash;
use stile_domain::notes::answers::AnswerExtent;
use stile_domain::path::SpacePath;
use stile_domain::permit::{Gate, Permits, Principal};
use stile_store::space::Space;

use crate::arguments;

/// One thing that an agent can do.
///
/// The doc comment of the type is the description that agents read.
pub trait Tool: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The canonical name, with a dot.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;
    /// Whether it can destroy what is there. Meaningless for a tool that only reads.
    const DESTRUCTIVE: bool;
    /// Whether the same call again changes nothing more.
    const IDEMPOTENT: bool;
    /// Which call goes on from here, said after the description where that call can be made.
    const NEXT: &'static str = "";
    /// How its refusals are told.
    const ENVELOPE: Envelope = Envelope::COMMON;
    /// Whether the journal names the file that a call was about.
    const NAMES_FILE: bool = true;
    /// What it asks for.
    type Permits: Permits + 'static;
    /// What it answers.
    type Output: Output;

    /// The permits for exactly this call, or a refusal that knows nothing of what exists.
    ///
    /// # Errors
    /// [`Refusal::InsufficientScope`].
    fn ask(&self, gate: Gate<'_>) -> Result<Self::Permits, Refusal>;

    /// Does it.
    fn run(
        self,
        permits: Self::Permits,
        space: &Space,
    ) -> impl Future<Output = Result<Self::Output, Refusal>> + Send;

    /// What the journal says of it: the file, and the version that the caller based it on.
    fn trace(&self) -> (&SpacePath, Option<ContentHash>);
}

/// What a tool answers.
pub trait Output: Serialize + JsonSchema + Send {
    /// The one text block; by default the structured answer as compact JSON.
    fn text(&self) -> Option<String> {
        None
    }
    /// The versions that the journal records: read or replaced, and made.
    fn versions(&self) -> (Option<ContentHash>, Option<ContentHash>) {
        (None, None)
    }
    /// How much of a note's structure it tells, which the journal records too.
    fn extent(&self) -> Option<AnswerExtent> {
        None
    }
}

/// How a tool's refusals are told, and what its output schema says of them. One for all tools but
/// those whose contract has its own.
#[derive(Clone, Copy)]
pub struct Envelope {
    /// What is wrong with arguments that did not parse, given the tool's input schema. It repeats
    /// no value.
    pub explain: fn(&Map<String, Value>, &Value) -> Refusal,
    /// The answer that a refusal makes.
    pub refused: fn(Refusal) -> Answer,
    /// The schemas of such answers.
    pub schemas: fn() -> Vec<Value>,
}

impl Envelope {
    /// Code, message and what a program can use besides, in an `error` object.
    pub const COMMON: Self =
        Self { explain: arguments::explain, refused: Answer::refused, schemas: common_errors };
}

/// A finished call, ready for any transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `structuredContent`.
    pub structured: Value,
    /// The text block.
    pub text: String,
    /// What was refused, if it was.
    pub refusal: Option<Refusal>,
}

impl Answer {
    /// The answer that a refusal makes.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            structured: json!({ "error": refusal.to_json() }),
            text: refusal.to_string(),
            refusal: Some(refusal),
        }
    }
}

/// What a finished call leaves for the journal.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The file.
    pub path: Option<SpacePath>,
    /// The version read or replaced.
    pub before: Option<ContentHash>,
    /// The version made.
    pub after: Option<ContentHash>,
    /// How much of a note's structure was told.
    pub extent: Option<AnswerExtent>,
}

impl Trace {
    /// What is known of a call before it is made.
    fn before<T: Tool>(input: &T) -> Self {
        let (path, before) = input.trace();
        Self { path: T::NAMES_FILE.then(|| path.clone()), before, ..Self::default() }
    }
}

/// A call that may not be made, and what the journal says of it.
#[derive(Debug)]
pub struct Denied {
    /// Why not.
    pub refusal: Refusal,
    /// What it was about.
    pub trace: Trace,
}

type Asking = fn(&Value, &Principal) -> Result<(), Box<Denied>>;
type Running<'a> = Pin<Box<dyn Future<Output = (Answer, Trace)> + Send + 'a>>;

/// A tool without its type, as the registry lists it.
#[derive(Clone, Copy)]
pub struct Declared {
    /// The canonical name.
    pub name: &'static str,
    /// Whether its permits allow no change.
    pub read_only: bool,
    envelope: Envelope,
    card: fn() -> Card,
    ask: Asking,
    call: for<'a> fn(Value, &'a Principal, &'a Space) -> Running<'a>,
}

/// A tool as clients are shown it.
#[derive(Clone, Debug)]
pub struct Card {
    /// The canonical name.
    pub name: &'static str,
    /// A short title for people.
    pub title: &'static str,
    /// What agents read about it.
    pub description: String,
    /// The flat, closed schema of its arguments.
    pub input: Map<String, Value>,
    /// The schema of its structured answer, which admits a refusal.
    pub output: Map<String, Value>,
    /// `readOnlyHint`: whether its permits allow no change.
    pub read_only: bool,
    /// `destructiveHint`.
    pub destructive: bool,
    /// `idempotentHint`.
    pub idempotent: bool,
}

impl Declared {
    /// Declares a tool.
    pub const fn of<T: Tool>() -> Self {
        Self {
            name: T::NAME,
            read_only: <T::Permits as Permits>::READ_ONLY,
            envelope: T::ENVELOPE,
            card: card::<T>,
            ask: ask::<T>,
            call: call::<T>,
        }
    }

    /// How it is listed.
    pub fn card(&self) -> Card {
        (self.card)()
    }

    /// Whether `principal` may make exactly this call. Arguments that do not parse pass: the tool
    /// itself says what is wrong with them, and touches nothing.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn ask(&self, arguments: &Value, principal: &Principal) -> Result<(), Box<Denied>> {
        (self.ask)(arguments, principal)
    }

    /// The answer that a refusal makes, in the tool's own envelope.
    pub fn refused(&self, refusal: Refusal) -> Answer {
        (self.envelope.refused)(refusal)
    }

    /// Parses, asks and runs.
    pub fn call<'a>(
        &self,
        arguments: Value,
        principal: &'a Principal,
        space: &'a Space,
    ) -> Running<'a> {
        (self.call)(arguments, principal, space)
    }
}

fn ask<T: Tool>(arguments: &Value, principal: &Principal) -> Result<(), Box<Denied>> {
    let Ok(input) = arguments::parse::<T>(arguments) else { return Ok(()) };
    let trace = Trace::before(&input);
    input.ask(principal.gate()).map(drop).map_err(|refusal| Box::new(Denied { refusal, trace }))
}

/// The only caller of [`Tool::run`].
fn call<'a, T: Tool>(arguments: Value, principal: &'a Principal, space: &'a Space) -> Running<'a> {
    Box::pin(async move {
        let input = match arguments::parse::<T>(&arguments) {
            Ok(input) => input,
            Err(refusal) => return ((T::ENVELOPE.refused)(refusal), Trace::default()),
        };
        let mut trace = Trace::before(&input);
        let outcome = match input.ask(principal.gate()) {
            Ok(permits) => input.run(permits, space).await,
            Err(refusal) => Err(refusal),
        };
        match outcome.and_then(|output| Ok((render(&output)?, output))) {
            Ok((answer, output)) => {
                let (before, after) = output.versions();
                trace.before = before.or(trace.before);
                trace.after = after;
                trace.extent = output.extent();
                (answer, trace)
            }
            Err(refusal) => ((T::ENVELOPE.refused)(refusal), trace),
        }
    })
}

fn render<O: Output>(output: &O) -> Result<Answer, Refusal> {
    let structured = serde_json::to_value(output)
        .map_err(|error| stile_store::incident("answer", &error.into()))?;
    let text = output.text().unwrap_or_else(|| structured.to_string());
    Ok(Answer { structured, text, refusal: None })
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator()
}

/// Flat and plain: no `$schema`, no title, no `format` that only schemars knows, no nullable
/// unions. Some clients refuse a whole tool list for any of these.
fn plain(value: &mut Value) {
    if let Value::Object(object) = value {
        if !object.get("format").is_some_and(|format| format == "uri") {
            object.remove("format");
        }
        object.remove("title");
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::String(description)) = object.get_mut("description") {
            // A doc comment is wrapped for its readers here, not for an agent's.
            *description = description.replace('\n', " ");
        }
        object.remove("$schema");
        if let Some(Value::Array(words)) = object.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        for (keyword, value) in object {
            match value {
                // The names in here are a tool's, not the schema language's.
                Value::Object(properties) if keyword == "properties" => {
                    properties.values_mut().for_each(plain)
                }
                _ => plain(value),
            }
        }
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(plain);
    }
}

fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = Value::from(generator().into_root_schema_for::<T>());
    plain(&mut schema);
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the definition of a tool, as clients are shown it.
pub fn card<T: Tool>() -> Card {
    let next = if T::NEXT.is_empty() { String::new() } else { format!(" {}", T::NEXT) };
    Card {
        name: T::NAME,
        title: T::TITLE,
        description: description::<T>() + &next,
        input: input_schema::<T>(),
        output: output_schema::<T>((T::ENVELOPE.schemas)()),
        read_only: <T::Permits as Permits>::READ_ONLY,
        destructive: T::DESTRUCTIVE,
        idempotent: T::IDEMPOTENT,
    }
}

/// The doc comment of the type.
pub fn description<T: JsonSchema>() -> String {
    let schema = schema_of::<T>();
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn input_schema<T: Tool>() -> Map<String, Value> {
    closed_schema::<T>()
}

/// The schema of a type, without its description.
pub fn closed_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = schema_of::<T>();
    schema.remove("description");
    schema
}

/// `type: object` at the root for clients that read no further, and beside it what is answered: the
/// output, or one of `refusals`.
pub(crate) fn output_schema<T: Tool>(refusals: Vec<Value>) -> Map<String, Value> {
    let mut success = schema_of::<T::Output>();
    success.remove("description");
    success.insert("additionalProperties".to_owned(), false.into());
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert(
        "anyOf".to_owned(),
        std::iter::once(Value::Object(success)).chain(refusals).collect(),
    );
    schema
}

/// The common error object.
pub(crate) fn common_errors() -> Vec<Value> {
    vec![json!({
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": { "code": { "type": "string" }, "message": { "type": "string" } },
                "required": ["code", "message"]
            }
        },
        "required": ["error"],
        "additionalProperties": false
    })]
}
