//! What the ladder's tools have in common: each reads records, changes nothing, and needs nothing
//! of the gate but a token that concerns records.

use std::borrow::Cow;
use std::future::Future;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stile_domain::permit::Gate;
use stile_domain::records::authority::RecordsPermit;
use stile_tools::definition::ToolGroup;
use stile_tools::tool::Tool;

use super::call_context::CallContext;
use super::error::LadderError;
use super::output::{RecordOutput, Shape};

/// A tool that reads records. The doc comment of the implementing type is the description that
/// agents read.
pub trait RecordTool: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The canonical name of the tool.
    const NAME: &'static str;
    /// A short title for people.
    const TITLE: &'static str;
    /// The shape of the structured answers.
    type Shape: Shape;

    /// Reads from the server of the context and answers.
    fn run(
        self,
        context: &CallContext,
    ) -> impl Future<Output = Result<RecordOutput<Self::Shape>, LadderError>> + Send;
}

/// A [`RecordTool`] as a list of tools holds it.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct OnRecords<T>(T);

impl<T: JsonSchema> JsonSchema for OnRecords<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: RecordTool> Tool for OnRecords<T> {
    const NAME: &'static str = T::NAME;
    const TITLE: &'static str = T::TITLE;
    const GROUP: ToolGroup = ToolGroup::Records;
    const DESTRUCTIVE: bool = false;
    const IDEMPOTENT: bool = true;
    type Context = CallContext;
    type Permits = RecordsPermit;
    type Output = RecordOutput<T::Shape>;
    type Error = LadderError;

    fn permits(&self, gate: Gate<'_>) -> Result<RecordsPermit, LadderError> {
        Ok(gate.records()?)
    }

    async fn run(
        self,
        _: RecordsPermit,
        context: &CallContext,
    ) -> Result<Self::Output, LadderError> {
        let output = self.0.run(context).await?;
        Ok(output.with_shown(context.shown()))
    }
}
