//! An operation is one declaration: routing, `Allow`, the OpenAPI document and the answer follow.

use serde_json::json;
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::records::request::parameters::{Parameter, ParameterType, Parameters};
use stile_records::context::ReadContext;
use stile_records::openapi::document;
use stile_records::operation_declaration::{
    OperationAccess, OperationDeclaration, OperationHandler, OperationMethod, ResponseContent,
    ResponseDeclaration,
};
use stile_records::operations::OPERATIONS;
use stile_records::request_target::RequestTarget;
use stile_records::response_sink::ResponseSink;
use stile_records::routing::{RouteError, route};
use stile_testkit::chance::{Chance, seed};

use super::worlds::model::{Grant, NOW, Stored, World};
use super::worlds::{client, owner};

/// An operation that `stile-records` does not have, on a path that it does not have.
static ECHO: OperationDeclaration = OperationDeclaration {
    id: "echo",
    method: OperationMethod::Get,
    path: "/v1/echo/{stream}",
    about: "Returns what it was sent.",
    parameters: &[Parameter::required("word", ParameterType::OneOf(&["one", "two"]), "A word.")],
    body: None,
    response: ResponseDeclaration {
        status: 203,
        about: "The word.",
        content: ResponseContent::Json { object: Some("echo"), required: &["object", "word"] },
    },
    other_responses: &[],
    access: OperationAccess::Granted,
    handler: OperationHandler::Read(echo),
};

/// The same, for the owner, with another method.
static OWNER_ECHO: OperationDeclaration = OperationDeclaration {
    id: "ownerEcho",
    method: OperationMethod::Post,
    access: OperationAccess::OwnerOnly,
    ..ECHO
};

fn echo(
    context: ReadContext<'_>,
    target: &RequestTarget,
    parameters: &Parameters,
    out: &mut dyn ResponseSink,
) -> Result<(), Problem> {
    let (stream, word) = (&target.stream, parameters.text("word"));
    out.write(&json!([context.view.caller(), stream, word]).to_string());
    Ok(())
}

fn operations() -> Vec<&'static OperationDeclaration> {
    OPERATIONS.iter().copied().chain([&ECHO, &OWNER_ECHO]).collect()
}

#[test]
fn a_new_declaration_is_routed_and_answered() {
    let mut chance = Chance::of(seed());
    let (world, grant) = (World::random(&mut chance), Grant::random(&mut chance, "grt_1"));
    let grant = Grant { expires: None, single_use: false, ..grant };
    let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
    let send = |method, caller, query: &str| {
        let (operation, target) = route(&operations(), method, "/v1/echo/a%2Fb", query).unwrap();
        let call = operation.read_call(target).unwrap();
        let mut body = String::new();
        stored.services.answer(&caller, Instant(NOW), &call, &mut body).map(|()| body)
    };
    let (ann, guest) = (owner(), client("grt_1", "t1"));
    assert_eq!(send("GET", guest.clone(), "word=one").unwrap(), r#"["grt_1","a/b","one"]"#);
    assert!(send("POST", ann, "word=two").unwrap().ends_with(r#""a/b","two"]"#));
    let refused = [
        (send("GET", guest.clone(), "word=three"), "invalid_request"),
        (send("GET", guest.clone(), "other=one"), "invalid_request"),
        (send("POST", guest, "word=one"), "insufficient_scope"),
    ];
    for (answer, code) in refused {
        assert_eq!(answer.unwrap_err().code().0, code);
    }
    let not_allowed = route(&operations(), "DELETE", "/v1/echo/a", "").unwrap_err();
    let RouteError::MethodNotAllowed { allowed } = not_allowed else { panic!("{not_allowed:?}") };
    assert_eq!(allowed, "GET, POST");
    assert!(matches!(route(OPERATIONS, "GET", "/v1/echo/a", ""), Err(RouteError::UnknownPath)));
}

#[test]
fn a_new_declaration_is_in_the_openapi_document() {
    let document = document("0.0.0", &operations());
    let item = &document["paths"][ECHO.path];
    assert_eq!(item["post"]["operationId"], "ownerEcho");
    let operation = &item["get"];
    assert_eq!(operation["operationId"], "echo");
    let parameters = operation["parameters"].as_array().unwrap();
    let names: Vec<_> = parameters.iter().map(|one| (&one["name"], &one["required"])).collect();
    assert_eq!(names, [(&json!("stream"), &json!(true)), (&json!("word"), &json!(true))]);
    let schema = &operation["responses"]["203"]["content"]["application/json"]["schema"];
    assert_eq!(schema["properties"]["object"]["const"], "echo");
    assert!(operation["responses"]["200"].is_null() && !operation["responses"]["404"].is_null());
}
