//! A macro that implements [`schemars::JsonSchema`] with a schema that is always written inline,
//! because some clients do not support `$ref`.

/// Implements `JsonSchema` for a type: `inline_schema!(Type, { "type": "string" });`.
macro_rules! inline_schema {
    ($type:ident, $schema:tt) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use inline_schema;
