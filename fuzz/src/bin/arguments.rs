//! Arguments of calls: whatever they are, a caller without scopes gets a refusal at once, which
//! says what to do and repeats no value.
//!
//! An input is JSON as a client sends it: `{"name": "text.read", "arguments": {"path": "/a"}}`.

#![no_main]

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Map, Value};
use stile_domain::limits::FileLimits;
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_domain::tool_name::Spelling;
use stile_store::space::{Space, SpaceOptions};
use stile_testkit::schema;
use stile_tools::call_log::CallLog;
use stile_tools::space::SpaceTools;
use stile_tools::tool::ToolEntry;
use stile_tools::toolset::Caller;

/// It stands in no message of ours, and no encoding changes it.
const CANARY: &str = "Canary7340173401";

static NOBODY: LazyLock<Caller> = LazyLock::new(|| {
    let nobody =
        Principal::assert_verified("nobody", None, None, Scopes::none(), RecordsClaim::None);
    Caller::local(nobody)
});

/// A space whose folder is gone: nothing that a call does here could succeed, and nothing is left
/// behind.
static SPACE: LazyLock<Space> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = SpaceOptions {
        limits: FileLimits::default(),
        mounts: Vec::new(),
        search_ignore: stile_store::space::SearchIgnore::default(),
        lock_wait: Duration::from_secs(5),
        appends_folder: None,
        documents: None,
        cleared: None,
        events: Arc::new(|_| {}),
    };
    Space::open_ambient(folder.path(), options).expect("an open folder").0
});

/// Each tool's schemas, which are slow to make.
static SCHEMAS: LazyLock<Vec<(&str, Value, Value)>> = LazyLock::new(|| {
    SpaceTools::built_in()
        .map(|tool| {
            let definition = tool.definition();
            (tool.name, definition.input.into(), (definition.output)().into())
        })
        .collect()
});

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(Value::Object(call)) = serde_json::from_slice(input) else { return Corpus::Reject };
    let Some(tool) = call.get("name").and_then(Value::as_str).and_then(find) else {
        return Corpus::Reject;
    };
    let arguments = call.get("arguments").unwrap_or(&Value::Null);
    a_caller_without_scopes_is_refused(tool, arguments);
    // Once everywhere, and once not where a refusal of its own would hide those of the other
    // arguments.
    a_caller_without_scopes_is_refused(tool, &marked(arguments, &[]));
    a_caller_without_scopes_is_refused(tool, &marked(arguments, &["path", "hash"]));
    Corpus::Keep
});

fn find(name: &str) -> Option<&'static ToolEntry<Space>> {
    let is = |spelling: Spelling, tool: &str| spelling.name(tool) == name;
    SpaceTools::built_in()
        .find(|tool| is(Spelling::Dotted, tool.name) || is(Spelling::Underscored, tool.name))
}

fn a_caller_without_scopes_is_refused(tool: &'static ToolEntry<Space>, arguments: &Value) {
    let (_, input, output) =
        SCHEMAS.iter().find(|(name, ..)| *name == tool.name).expect("the tool is listed");
    // No one may wait for anything here: whoever waits has touched something.
    let log = CallLog::disabled();
    let call = pin!(tool.call(arguments.clone(), &NOBODY, &SPACE, &log));
    let Poll::Ready(answer) = call.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("a call without a permit waits");
    };
    let failure = answer.failure.as_ref().expect("a call without a permit is refused");
    let structured = answer.to_tree();
    schema::check(output, &structured).expect("a refusal fits the output schema");
    let said = format!("{} {structured}", answer.text);

    match (tool.check_permits(arguments, &NOBODY, &log), failure.code.as_ref()) {
        (Err(denial), "insufficient_scope") => {
            fits_what_was_advertised(input, arguments);
            // The scope that is needed names the path, and nothing else does.
            let mut said = said;
            for scope in &denial.scopes {
                said = said.replace(scope, "");
            }
            assert!(!said.contains(CANARY), "{said}");
        }
        (Ok(()), "invalid_path" | "invalid_argument") => {
            // The names of the caller's own arguments may be repeated, and no value.
            let said = names(arguments).iter().fold(said, |said, name| {
                let quoted = Value::from(name.as_str()).to_string();
                said.replace(name, "").replace(quoted.trim_matches('"'), "")
            });
            assert!(!said.contains(CANARY), "{said}");
            assert!(
                !said.contains("do not fit the tool's input schema"),
                "it does not say what to correct"
            );
        }
        (asked, code) => panic!("asked {asked:?}, then {code}"),
    }
}

/// What is accepted fits the schema, but for `null` where an argument may be left out, and for
/// lengths, which are checked after leave is given.
fn fits_what_was_advertised(schema: &Value, arguments: &Value) {
    let required =
        schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // `null` means that there are no arguments.
    assert!(arguments.is_object() || arguments.is_null(), "arguments are an object");
    let mut given = arguments.as_object().cloned().unwrap_or_default();
    given
        .retain(|name, value| !value.is_null() || required.iter().any(|required| required == name));
    let mut schema = schema.clone();
    for property in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut)
    {
        if let Some(property) = property.as_object_mut() {
            property.retain(|keyword, _| !matches!(keyword.as_str(), "minLength" | "maxLength"));
        }
    }
    schema::check(&schema, &given.into()).expect("accepted arguments fit the input schema");
}

/// The same with a canary in every string and every name, but for the arguments that are `spared`.
fn marked(value: &Value, spared: &[&str]) -> Value {
    match value {
        Value::String(text) => format!("{text}{CANARY}").into(),
        Value::Array(items) => items.iter().map(|item| marked(item, spared)).collect(),
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| match name.as_str() {
                name if spared.contains(&name) => (name.to_owned(), value.clone()),
                "path" | "hash" | "lines" | "q" | "cursor" | "old" | "new" | "line" | "anchor"
                | "content" | "encoding" => (name.clone(), marked(value, spared)),
                _ => (format!("{name}{CANARY}"), marked(value, spared)),
            })
            .collect(),
        other => other.clone(),
    }
}

/// The names of all members, at any depth, that hold the canary.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let own = members.keys().filter(|name| name.contains(CANARY)).cloned();
            own.chain(members.values().flat_map(names)).collect()
        }
        Value::Array(items) => items.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}
