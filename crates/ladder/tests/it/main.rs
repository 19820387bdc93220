//! The laws of the content ladder, held in one process against real databases.
//!
//! Every answer of every test goes through [`checks`]: its advertised schema, its budgets in bytes,
//! no bytes in base64, identifiers that name a record, lines that are literal calls. `dead_ends`
//! walks random and hostile worlds as three kinds of clients ([`walker`]), each with nothing but
//! what its kind is shown; the others hold one law each.

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
mod foreign;
mod foreign_lists;
mod forging;
mod hidden;
mod lines;
#[path = "../../../records/tests/it/worlds/mod.rs"]
mod records;
mod refusals;
mod three_ways;
mod walker;
mod worlds;

use serde_json::{Value as Json, json};
use stile_domain::permit::Principal;
use stile_domain::records::instant::Instant;
use stile_ladder::budget::Budgets;
use stile_ladder::port::RecordServer;
use stile_ladder::resources::Content;
use stile_ladder::trouble::Trouble;
use stile_ladder::{Ladder, LadderAnswer};
use stile_records::RecordService;
use stile_server::stored_records::StoredRecords as Port;

use records::model::{Grant, NOW, Source, World};

/// One caller of one ladder, each of whose answers is checked.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    ladder: Ladder,
    caller: Principal,
}

impl Client {
    pub(crate) fn new(services: &RecordService, caller: Principal) -> Self {
        Self::at(services, caller, || Instant(NOW))
    }

    /// At another time.
    pub(crate) fn at(services: &RecordService, caller: Principal, clock: fn() -> Instant) -> Self {
        Self::over(Port::new(services.clone(), clock), caller)
    }

    pub(crate) fn over(server: impl RecordServer, caller: Principal) -> Self {
        Self::within(Budgets::default(), server, caller)
    }

    /// With other budgets than the usual, which the checks of answers are of.
    pub(crate) fn within(budgets: Budgets, server: impl RecordServer, caller: Principal) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { runtime, ladder: Ladder::new(server, budgets, false), caller }
    }

    /// Calls a tool.
    pub(crate) fn call(&self, tool: &str, arguments: &Json) -> LadderAnswer {
        let answer =
            self.runtime.block_on(self.ladder.call(tool, arguments, &self.caller)).unwrap();
        checks::answer(tool, arguments, &answer);
        answer
    }

    /// Calls a tool that is to answer.
    pub(crate) fn good(&self, tool: &str, arguments: &Json) -> LadderAnswer {
        let answer = self.call(tool, arguments);
        assert_eq!(answer.refusal, None, "{tool} {arguments}");
        answer
    }

    /// Calls a tool that is to refuse, and gives its error object without the hint at another tool.
    pub(crate) fn refused(&self, tool: &str, arguments: &Json) -> Json {
        let answer = self.call(tool, arguments);
        assert!(answer.refusal.is_some(), "{tool} {arguments}: {}", answer.text);
        let mut error = answer.structured["error"].clone();
        error.as_object_mut().unwrap().remove("next");
        error
    }

    /// Calls a tool without checks, where that is done often.
    pub(crate) fn raw(&self, tool: &str, arguments: &Json) -> Result<LadderAnswer, Json> {
        let answer =
            self.runtime.block_on(self.ladder.call(tool, arguments, &self.caller)).unwrap();
        match &answer.refusal {
            None => Ok(answer),
            Some(trouble) => Err(Json::Object(trouble.to_json())),
        }
    }

    /// Reads a resource in the same way.
    pub(crate) fn raw_read(&self, uri: &str) -> Result<Content, Json> {
        let read = self.runtime.block_on(self.ladder.read_resource(uri, &self.caller));
        read.map_err(|trouble| Json::Object(trouble.to_json()))
    }

    /// Reads a resource.
    pub(crate) fn read(&self, uri: &str) -> Result<Content, Trouble> {
        let read = self.runtime.block_on(self.ladder.read_resource(uri, &self.caller));
        if let Ok(content) = &read {
            checks::content(content);
        }
        read
    }

    /// Reads a resource that is to be refused.
    pub(crate) fn unread(&self, uri: &str) -> Json {
        match self.read(uri) {
            Ok(content) => panic!("{uri}: {content:?}"),
            Err(trouble) => Json::Object(trouble.to_json()),
        }
    }
}

/// The sources of a world that a grant, or the owner, sees something of.
pub(crate) fn seen<'a>(
    world: &'a World,
    grant: Option<&'a Grant>,
) -> impl Iterator<Item = &'a Source> {
    world
        .sources
        .iter()
        .filter(move |source| grant.is_none_or(|grant| grant.share(source).is_some()))
}

/// Arguments with some of them set to others.
pub(crate) fn with(arguments: &Json, others: Json) -> Json {
    let mut arguments = arguments.clone();
    let Json::Object(others) = others else { panic!("{others}") };
    arguments.as_object_mut().unwrap().extend(others);
    arguments
}

/// The arguments of a read of one field.
pub(crate) fn of_field(id: &str, field: &str) -> Json {
    json!({ "id": id, "field_path": field })
}
