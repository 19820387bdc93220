//! The rules of the content ladder, tested in one process with real databases.
//!
//! Every answer in every test passes [`checks`]: its advertised schema, its budgets in bytes, no
//! base64, identifiers that name a record, and lines that are literal calls. `dead_ends` walks
//! random and hostile worlds as three kinds of clients ([`walker`]), each using only what it is
//! shown. Each other module tests one rule.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "a helper of a test fails the test, and not every shared helper is used here"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own verified caller and its own operator"
)]

mod binary;
mod budgets;
mod checks;
mod cursors;
mod dead_ends;
mod declarations;
mod every_byte;
mod evidence;
mod foreign;
mod foreign_lists;
mod forging;
mod hidden;
mod lines;
mod look_alikes;
#[path = "../../../records/tests/it/worlds/mod.rs"]
mod records;
mod refusals;
mod stand_in;
mod three_ways;
mod walker;
mod worlds;

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_ladder::Ladder;
use stile_ladder::budget::Budgets;
use stile_ladder::port::RecordServer;
use stile_records::RecordService;
use stile_server::stored_records::StoredRecords as Port;
use stile_tools::answer::{Answer, Failure, ResourceLink};
use stile_tools::toolset::ResourceContent;
use stile_tools::toolset::ResourceError;
use stile_tools::toolset::{Caller, Toolset as _};

use records::model::{Grant, NOW, Source, World};

/// A caller of a ladder. Every answer is checked.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    ladder: Ladder,
    caller: Caller,
}

impl Client {
    pub(crate) fn new(services: &RecordService, caller: Principal) -> Self {
        Self::at(services, caller, || Instant(NOW))
    }

    /// Makes a client at another time.
    pub(crate) fn at(services: &RecordService, caller: Principal, clock: fn() -> Instant) -> Self {
        Self::over(Port::new(services.clone(), clock), caller)
    }

    pub(crate) fn over(server: impl RecordServer, caller: Principal) -> Self {
        Self::within(Budgets::default(), server, caller)
    }

    /// Makes a client with other budgets. The checks assume the default ones.
    pub(crate) fn within(budgets: Budgets, server: impl RecordServer, caller: Principal) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ladder = Ladder::new(server).with_budgets(budgets);
        Self { runtime, ladder, caller: Caller::local(caller) }
    }

    /// Calls a tool and checks the answer.
    pub(crate) fn call(&self, tool: &str, arguments: &Json) -> Called {
        let answer = self.call_unchecked(tool, arguments);
        checks::answer(tool, arguments, &answer);
        answer
    }

    /// Calls a tool without checks.
    pub(crate) fn call_unchecked(&self, tool: &str, arguments: &Json) -> Called {
        let tool = self.ladder.find(tool).unwrap();
        let call = self.ladder.call(tool, arguments.clone(), &self.caller);
        self.runtime.block_on(call).unwrap().into()
    }

    /// Calls a tool that must succeed.
    pub(crate) fn good(&self, tool: &str, arguments: &Json) -> Called {
        let answer = self.call(tool, arguments);
        assert_eq!(answer.failure, None, "{tool} {arguments}");
        answer
    }

    /// Calls a tool that must fail. Returns the error object without `next`.
    pub(crate) fn refused(&self, tool: &str, arguments: &Json) -> Json {
        let answer = self.call(tool, arguments);
        assert!(answer.failure.is_some(), "{tool} {arguments}: {}", answer.text);
        let mut error = answer.structured["error"].clone();
        error.as_object_mut().unwrap().remove("next");
        error
    }

    /// Calls a tool without checks. Returns the error object of a failure.
    pub(crate) fn raw(&self, tool: &str, arguments: &Json) -> Result<Called, Json> {
        let answer = self.call_unchecked(tool, arguments);
        match &answer.failure {
            None => Ok(answer),
            Some(_) => {
                let mut error = answer.structured["error"].clone();
                error.as_object_mut().unwrap().remove("next");
                Err(error)
            }
        }
    }

    /// Reads a resource without checks.
    pub(crate) fn raw_read(&self, uri: &str) -> Result<ResourceContent, Json> {
        let read = self.runtime.block_on(self.ladder.read_resource(uri, &self.caller));
        read.map_err(|error| Json::Object(error.data))
    }

    /// Reads a resource and checks its content.
    pub(crate) fn read(&self, uri: &str) -> Result<ResourceContent, ResourceError> {
        let read = self.runtime.block_on(self.ladder.read_resource(uri, &self.caller));
        if let Ok(content) = &read {
            checks::content(content);
        }
        read
    }

    /// Reads a resource that must be refused.
    pub(crate) fn unread(&self, uri: &str) -> Json {
        match self.read(uri) {
            Ok(content) => panic!("{uri}: {content:?}"),
            Err(error) => Json::Object(error.data),
        }
    }
}

/// Returns the sources of which a grant shows something; all for the owner.
pub(crate) fn seen<'a>(
    world: &'a World,
    grant: Option<&'a Grant>,
) -> impl Iterator<Item = &'a Source> {
    world
        .sources
        .iter()
        .filter(move |source| grant.is_none_or(|grant| grant.share(source).is_some()))
}

/// Returns the arguments with some replaced.
pub(crate) fn with(arguments: &Json, others: Json) -> Json {
    let mut arguments = arguments.clone();
    let Json::Object(others) = others else { panic!("{others}") };
    arguments.as_object_mut().unwrap().extend(others);
    arguments
}

/// Makes the arguments for reading a field.
pub(crate) fn of_field(id: &str, field: &str) -> Json {
    json!({ "id": id, "field_path": field })
}

/// An answer with its structure parsed.
#[derive(Debug, PartialEq)]
pub(crate) struct Called {
    pub(crate) text: String,
    pub(crate) structured: Json,
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
