//! What a resource server answers to the content ladder, and how agents name records.
//!
//! An input is the number of a tool and the answer that it gets, or an identifier. The ladder must
//! neither panic nor answer at length, whatever it is told, and its answer fits the schema that the
//! tool advertises.

#![no_main]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::record_id::RecordId;
use stile_domain::records::request::ReadRequest;
use stile_domain::scope::Scopes;
use stile_ladder::Ladder;
use stile_ladder::budget::MAX_ANSWER_PART_BYTES;
use stile_ladder::port::{ErrorResponse, RecordServer};
use stile_testkit::schema;
use stile_tools::toolset::{Caller, Toolset as _};

/// A server that always says the same.
struct Parrot(String);

impl RecordServer for Parrot {
    fn send<'a>(
        &'a self,
        _: &'a Principal,
        _: ReadRequest,
    ) -> Pin<Box<dyn Future<Output = Result<String, ErrorResponse>> + Send + 'a>> {
        Box::pin(async { Ok(self.0.clone()) })
    }

    fn seal(&self, plain: &[u8]) -> Result<String, ErrorResponse> {
        Ok(URL_SAFE_NO_PAD.encode(plain))
    }

    fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(text).ok()
    }
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Ok(id) = RecordId::parse(&text) {
        assert_eq!(RecordId::parse(&id.to_string()), Ok(id));
    }
    let Some((first, answer)) = text.split_at_checked(1) else { return };
    let calls = [
        ("schema", json!({})),
        ("schema", json!({ "stream": "s", "detail": "full" })),
        ("search", json!({ "q": "x" })),
        ("query_records", json!({ "stream": "s" })),
        ("aggregate", json!({ "stream": "s", "metric": "count" })),
        ("fetch", json!({ "id": "c/s:k" })),
        ("read_record_field", json!({ "id": "c/s:k", "field_path": "f" })),
        ("read_record_field", json!({ "id": "c/s:k", "field_path": "f", "q": "x" })),
    ];
    let at = usize::from(first.as_bytes()[0]) % calls.len();
    let (tool, arguments) = &calls[at];
    let ladder = Ladder::new(Parrot(answer.to_owned()));
    let principal =
        Principal::assert_verified("fuzz", Some("t"), None, Scopes::none(), RecordsClaim::Owner);
    let (tool, caller) = (ladder.find(tool).expect("the tool exists"), Caller::local(principal));
    let answer = ready(ladder.call(tool, arguments.clone(), &caller)).expect("the tool exists");
    let structured = answer.to_tree();
    assert_ne!(structured["error"]["code"], "api_error", "it panicked");
    assert!(
        answer.text.len() <= MAX_ANSWER_PART_BYTES
            && structured.to_string().len() <= 2 * MAX_ANSWER_PART_BYTES
    );
    let definition =
        ladder.definitions().into_iter().find(|listed| listed.name == tool).expect("it is listed");
    schema::check(&Value::Object((definition.output)()), &structured).expect("it fits its schema");
});

/// What a future gives that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing is waited for"),
    }
}
