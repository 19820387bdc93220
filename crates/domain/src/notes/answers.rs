//! The answer types of the note tools.
//!
//! No type has a field for a body, a snippet, a position in the text, or front matter beyond the
//! facets, so no code path can return one. The fields are serialized in their order here.

use std::borrow::Cow;
use std::collections::VecDeque;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::note_path::NotePath;
use crate::inline_schema::inline_schema;

/// The id of a heading, such as `h2-water-the-ferns-0007`: level, slug, and number among all
/// headings, from 1.
pub type HeadingId = String;

/// A field that is always `false`, such as `body_returned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlwaysFalse;

impl Serialize for AlwaysFalse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

inline_schema!(AlwaysFalse, { "type": "boolean", "const": false });

/// The schema of a string or null, in the one spelling that every client accepts.
fn nullable_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })
}

macro_rules! schema_id {
    ($name:ident, $id:literal) => {
        #[doc = concat!("`", $id, "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($id)
            }
        }

        inline_schema!($name, { "type": "string", "const": $id });
    };
}

schema_id!(NoteOutlineV1, "knowtation.note_outline/v1");
schema_id!(DocumentTreeV0, "knowtation.document_tree/v0");
schema_id!(MetadataFacetsV0, "knowtation.metadata_facets/v0");
schema_id!(SectionSourceV0, "knowtation.section_source/v0");

/// The headings of a note, in document order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoteOutline {
    /// Format of this answer.
    schema: NoteOutlineV1,
    /// Path of the note.
    path: NotePath,
    /// From the front matter or the file's name.
    #[schemars(schema_with = "nullable_string")]
    title: Option<String>,
    /// In document order.
    pub(super) headings: Vec<OutlineHeading>,
    /// Whether text was omitted or cut.
    pub(super) truncated: bool,
}

/// One heading of an outline, without the text below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, description = "A heading.")]
pub struct OutlineHeading {
    #[schemars(with = "u64")]
    pub(super) level: u8,
    pub(super) text: String,
    pub(super) id: HeadingId,
}

/// The headings of a note, as a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DocumentTree {
    /// Format of this answer.
    schema: DocumentTreeV0,
    /// Path of the note.
    path: NotePath,
    /// From the front matter or the file's name.
    #[schemars(schema_with = "nullable_string")]
    title: Option<String>,
    pub(super) root: TreeRoot,
    /// Whether text was omitted or cut.
    pub(super) truncated: bool,
}

/// The root above all headings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TreeRoot {
    pub(super) children: VecDeque<TreeNode>,
}

/// A heading with the headings below it. A child has a greater level, so the tree has at most six
/// levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    pub(super) id: HeadingId,
    pub(super) level: u8,
    pub(super) text: String,
    pub(super) children: VecDeque<TreeNode>,
}

impl JsonSchema for TreeNode {
    fn schema_name() -> Cow<'static, str> {
        "TreeNode".into()
    }
    fn inline_schema() -> bool {
        true
    }
    /// Writes six levels out, because some clients do not support `$ref`.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        (1..=6).fold(json_schema!({ "type": "object" }), |below, _| {
            json_schema!({
                "type": "object",
                "properties": {
                    "id": { "type": "string" },
                    "level": { "type": "integer" },
                    "text": { "type": "string" },
                    "children": { "type": "array", "items": below }
                },
                "required": ["id", "level", "text", "children"],
                "additionalProperties": false
            })
        })
    }
}

/// Facets from the front matter and the path of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MetadataFacets {
    /// Format of this answer.
    schema: MetadataFacetsV0,
    /// Path of the note.
    path: NotePath,
    facets: Facets,
    inferred: PathFacets,
    /// Whether a value was cut.
    truncated: bool,
}

/// From the front matter; `project` also from the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Facets {
    #[schemars(schema_with = "nullable_string")]
    pub(super) project: Option<String>,
    pub(super) tags: Vec<String>,
    #[schemars(schema_with = "nullable_string")]
    pub(super) date: Option<String>,
    #[schemars(schema_with = "nullable_string")]
    pub(super) updated: Option<String>,
    #[schemars(schema_with = "nullable_string")]
    pub(super) causal_chain_id: Option<String>,
    pub(super) entity: Vec<String>,
    #[schemars(schema_with = "nullable_string")]
    pub(super) episode_id: Option<String>,
}

/// From the path. `source_type` is always null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PathFacets {
    #[schemars(schema_with = "nullable_string")]
    pub(super) folder: Option<String>,
    #[schemars(schema_with = "nullable_string")]
    pub(super) source_type: Option<String>,
}

/// The sections of a note, without their text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SectionSource {
    /// Format of this answer.
    schema: SectionSourceV0,
    /// Path of the note.
    path: NotePath,
    /// From the front matter or the file's name.
    #[schemars(schema_with = "nullable_string")]
    title: Option<String>,
    /// In document order.
    pub(super) sections: Vec<Section>,
    /// Whether text was omitted or cut.
    pub(super) truncated: bool,
}

/// A section: its heading, its place in the tree, and whether content follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Section {
    pub(super) section_id: String,
    pub(super) heading_id: HeadingId,
    #[schemars(with = "u64")]
    pub(super) level: u8,
    pub(super) heading_path: Vec<String>,
    pub(super) heading_text: String,
    pub(super) child_section_ids: Vec<String>,
    pub(super) body_available: bool,
    pub(super) body_returned: AlwaysFalse,
    pub(super) snippet_returned: AlwaysFalse,
}

/// The extent of an answer, for the journal and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerExtent {
    /// The number of headings or sections.
    pub sections: u64,
    /// Whether the answer was truncated.
    pub truncated: bool,
}

/// The answer of a note tool, as one JSON object.
pub trait NoteAnswer: Serialize + JsonSchema + Send {
    /// Returns the extent of the answer. An answer without headings has zero sections.
    fn extent(&self) -> AnswerExtent;
}

impl NoteOutline {
    pub(super) fn new(path: &NotePath, title: Option<String>, truncated: bool) -> Self {
        Self { schema: NoteOutlineV1, path: path.clone(), title, headings: Vec::new(), truncated }
    }
}

impl NoteAnswer for NoteOutline {
    fn extent(&self) -> AnswerExtent {
        AnswerExtent { sections: self.headings.len() as u64, truncated: self.truncated }
    }
}

impl DocumentTree {
    pub(super) fn new(path: &NotePath, title: Option<String>, truncated: bool) -> Self {
        Self {
            schema: DocumentTreeV0,
            path: path.clone(),
            title,
            root: TreeRoot::default(),
            truncated,
        }
    }
}

impl NoteAnswer for DocumentTree {
    fn extent(&self) -> AnswerExtent {
        let mut sections = 0;
        let mut left: Vec<&TreeNode> = self.root.children.iter().collect();
        while let Some(node) = left.pop() {
            sections += 1;
            left.extend(&node.children);
        }
        AnswerExtent { sections, truncated: self.truncated }
    }
}

impl MetadataFacets {
    pub(super) fn new(
        path: &NotePath,
        facets: Facets,
        inferred: PathFacets,
        truncated: bool,
    ) -> Self {
        Self { schema: MetadataFacetsV0, path: path.clone(), facets, inferred, truncated }
    }
}

impl NoteAnswer for MetadataFacets {
    fn extent(&self) -> AnswerExtent {
        AnswerExtent { sections: 0, truncated: self.truncated }
    }
}

impl SectionSource {
    pub(super) fn new(path: &NotePath, title: Option<String>, truncated: bool) -> Self {
        Self { schema: SectionSourceV0, path: path.clone(), title, sections: Vec::new(), truncated }
    }
}

impl NoteAnswer for SectionSource {
    fn extent(&self) -> AnswerExtent {
        AnswerExtent { sections: self.sections.len() as u64, truncated: self.truncated }
    }
}
