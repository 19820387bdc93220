//! Cursors that belong to another request, and parameters that no client would send.

use proptest::prelude::*;
use stile_domain::permit::Principal;
use stile_domain::records::problem::{CursorProblem, Problem};
use stile_domain::records::value::FieldValue;
use stile_testkit::chance::{Chance, scaled, seed};

use super::oracle_answers::refusal;
use super::worlds::json::J;
use super::worlds::model::{Grant, Stored, World, pick, some};
use super::worlds::oracle::{Answer, CURSOR, INVALID, Oracle, Refusal, WINDOW, Who};
use super::worlds::{OperationRequest, client, draw, gives_pages, owner, read_operations};

/// A request with more than one page, and the cursor of its second page.
struct Paged {
    request: OperationRequest,
    grant: Option<usize>,
    cursor: String,
}

fn next(body: &str) -> Option<String> {
    let body = J::parse(body);
    body.get("next_cursor")
        .text()
        .or(body.get("window").get("next_cursor").text())
        .map(str::to_owned)
}

/// Returns whether a parameter sets the size of a page, which a cursor is not bound to.
fn is_size(request: &OperationRequest, name: &str) -> bool {
    match request.operation.id {
        // A cursor of changes implies `changes_since`.
        operation if gives_pages(operation) => {
            let cut = matches!(name, "limit" | "preview_chars" | "preview_bytes");
            cut || matches!(name, "count" | "cursor" | "cursors" | "changes_since")
        }
        _ => name != "field",
    }
}

#[test]
fn a_cursor_is_valid_only_for_its_request() {
    let seed = seed();
    println!("STILE_RIG_SEED={seed}");
    let mut seeds = Chance::of(seed);
    let mut tried = 0;
    for _ in 0..scaled(5, 2000) {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let mut grants: Vec<Grant> =
            (0..2).map(|at| Grant::random(&mut chance, &format!("grt_{at}"))).collect();
        // Another grant with the same content, and another server with the same data.
        grants.push(Grant { id: "grt_copy".to_owned(), ..grants[0].clone() });
        let stored = Stored::new(&mut chance, &world, &grants);
        let elsewhere = Stored::new(&mut chance, &world, &grants);
        let caller = |grant: Option<usize>| -> Principal {
            grant.map_or_else(owner, |at| client(&grants[at].id, "t1"))
        };
        let expected = |grant: Option<usize>, request: &OperationRequest| {
            let who = grant.map_or(Who::Owner, |at| Who::Client(&grants[at]));
            Oracle { world: &world, who }.answer(request)
        };
        let mut paged: Vec<Paged> = Vec::new();
        for grant in [None, Some(0), Some(1), Some(2)] {
            for operation in read_operations()
                .into_iter()
                .filter(|one| one.parameters.iter().any(|own| own.name == "cursor"))
            {
                for _ in 0..12 {
                    let about = grant.map(|at| &grants[at]);
                    let size = if gives_pages(operation.id) { "limit" } else { "limit_chars" };
                    let request = draw(&mut chance, &world, about, operation).with(size, 1);
                    let mut request = request;
                    request.pairs.retain(|(name, _)| {
                        gives_pages(operation.id)
                            || !matches!(
                                name.as_str(),
                                "q" | "offset_chars" | "before_chars" | "after_chars"
                            )
                    });
                    if let Ok(body) = request.send(&stored.services, &caller(grant))
                        && let Some(cursor) = next(&body)
                    {
                        paged.push(Paged { request, grant, cursor });
                    }
                }
            }
        }
        // Every cursor with every request: with its own, or one that differs in the size of the
        // page alone, it goes on; where the request itself is refused that comes first; otherwise
        // it is a mismatch.
        for one in &paged {
            for other in &paged {
                let request = other.request.with("cursor", &one.cursor);
                let actual = request.send(&stored.services, &caller(other.grant));
                assert!(expected(other.grant, &other.request).is_ok());
                let same = one.grant == other.grant
                    && one.request.operation.id == other.request.operation.id
                    && (one.request.operation.id == "search"
                        || one.request.stream == other.request.stream)
                    && meant(&one.request) == meant(&other.request)
                    && (gives_pages(one.request.operation.id)
                        || one.request.key == other.request.key
                            && connection(&expected, one) == connection(&expected, other));
                match actual {
                    Ok(_) => assert!(
                        same,
                        "a cursor of {:?} goes on in {:?}",
                        one.request, other.request
                    ),
                    Err(Problem::InvalidCursor(CursorProblem::Mismatch)) => {
                        // The same parameters in another order, or written otherwise, may be told
                        // apart.
                        let exact =
                            one.request.pairs == other.request.pairs && one.grant == other.grant;
                        let path = one.request.path() == other.request.path();
                        assert!(!(exact && path), "{:?}", one.request);
                    }
                    Err(Problem::InvalidRequest { .. } | Problem::InvalidExpand { .. }) => {
                        let alone =
                            ["order", "sort", "count", "view", "filter", "expand", "expand_limit"];
                        let excluded = |(name, _): &(String, String)| {
                            alone.contains(&name.split('[').next().unwrap())
                        };
                        assert!(
                            is_changes(&one.request) && other.request.pairs.iter().any(excluded),
                            "{:?}",
                            other.request
                        );
                    }
                    Err(problem) => panic!("{:?}: {problem:?}", other.request),
                }
                tried += 1;
            }
            // The same request with one parameter of another's.
            for _ in 0..12 {
                let about = one.grant.map(|at| &grants[at]);
                let other = draw(&mut chance, &world, about, one.request.operation);
                let taken = pick(
                    &mut chance,
                    &[
                        "filter", "filter", "fields", "order", "sort", "view", "expand",
                        "expand_limit", "connection_id", "field", "q", "streams",
                    ],
                );
                let is_taken = |name: &str| name.split('[').next() == Some(taken);
                let mut request = one.request.clone();
                request.pairs.retain(|(name, _)| !is_taken(name));
                request.pairs.extend(other.pairs.into_iter().filter(|(name, _)| is_taken(name)));
                let same = meant(&request) == meant(&one.request);
                let is_other = gives_pages(request.operation.id) || taken == "field";
                if expected(one.grant, &request).is_err() || same || !is_other {
                    continue;
                }
                let actual =
                    request.with("cursor", &one.cursor).send(&stored.services, &caller(one.grant));
                assert_eq!(
                    actual,
                    Err(Problem::InvalidCursor(CursorProblem::Mismatch)),
                    "{:?} {request:?}",
                    one.request
                );
            }
            // The error of an unauthorised caller does not depend on the cursor.
            for grant in [None, Some(0), Some(1), Some(2)] {
                let request = one.request.with("cursor", &one.cursor);
                let actual = refusal(&request.send(&stored.services, &caller(grant)));
                // What the values of the records cause is found after the cursor is read.
                let of_values = ["number_too_long", "too_many_groups"];
                let first = expected(grant, &one.request).err();
                let first = first.filter(|(code, _)| !of_values.contains(code));
                let after = (grant != one.grant).then_some(CURSOR);
                assert_eq!(actual, first.or(after), "{:?}", one.request);
            }
            let there = one
                .request
                .with("cursor", &one.cursor)
                .send(&elsewhere.services, &caller(one.grant));
            assert_eq!(there, Err(Problem::InvalidCursor(CursorProblem::Malformed)));
            for forged in forged(&mut chance, &one.cursor) {
                let actual =
                    one.request.with("cursor", &forged).send(&stored.services, &caller(one.grant));
                assert_eq!(
                    actual,
                    Err(Problem::InvalidCursor(CursorProblem::Malformed)),
                    "{forged}"
                );
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

fn is_changes(request: &OperationRequest) -> bool {
    request.pairs.iter().any(|(name, _)| name == "changes_since")
}

/// The oracle's answer for the owner, or for one of the grants.
type Expected<'a> = dyn Fn(Option<usize>, &OperationRequest) -> Result<Answer, Refusal> + 'a;

/// The connection whose field a window is of.
fn connection(expected: &Expected<'_>, of: &Paged) -> Option<String> {
    match expected(of.grant, &of.request) {
        Ok(Answer::Window(window)) => window.around.get("connection_id").text().map(str::to_owned),
        _ => None,
    }
}

/// What the parameters mean but for the size of a page: under their only names, and without what is
/// so anyway.
fn meant(request: &OperationRequest) -> Vec<(String, String)> {
    let mut meant = Vec::new();
    for (name, value) in &request.pairs {
        let name = match name.as_str() {
            "connector_instance_id" => "connection_id",
            "fields[]" => "fields",
            "streams[]" => "streams",
            "expand[]" => "expand",
            "sort" => "order",
            other => other,
        };
        let value = match (name, value.as_str()) {
            // No field that orders lists begins with a minus here, and none is called so.
            ("order", "asc") => "asc",
            ("order", "desc") => "desc",
            ("order", order @ ("newest" | "relevance")) => order,
            ("order", sort) if sort.starts_with('-') => "desc",
            ("order", _) => "asc",
            (_, other) => other,
        };
        let is_default = name == "order" && matches!(value, "desc" | "newest");
        let lists = matches!(name, "fields" | "expand" | "streams");
        let values: Vec<&str> = if lists { value.split(',').collect() } else { vec![value] };
        for value in values {
            let pair = (name.to_owned(), value.to_owned());
            if !is_default && !is_size(request, name) && !meant.contains(&pair) {
                meant.push(pair);
            }
        }
    }
    meant.sort_by(|a, b| a.0.cmp(&b.0));
    meant
}

fn forged(chance: &mut Chance, cursor: &str) -> Vec<String> {
    let mut forged = vec![
        String::new(),
        "x".to_owned(),
        "beginning".to_owned(),
        format!("{cursor}A"),
        format!(" {cursor}"),
    ];
    forged.push(format!("{cursor}="));
    forged.push(cursor[..chance.below(cursor.len())].to_owned());
    forged.push(cursor[1..].to_owned());
    forged.push("A".repeat(4096));
    for _ in 0..4 {
        let at = chance.below(cursor.len());
        let letter = pick(chance, &["A", "z", "0", "_", "+", "é", "\0"]);
        let mut text = cursor.to_owned();
        text.replace_range(at..=at, letter);
        if text != cursor {
            forged.push(text);
        }
    }
    forged
}

#[test]
fn a_window_cursor_is_stale_when_its_field_has_changed() {
    let mut seeds = Chance::of(seed());
    for _ in 0..30 {
        let mut chance = seeds.fork();
        let world = World::random(&mut chance);
        let stored = Stored::new(&mut chance, &world, &[]);
        let operation =
            read_operations().into_iter().find(|one| one.id == "getFieldWindow").unwrap();
        let source = &some(&mut chance, &world.sources);
        let Some((key, record)) = source.records.iter().next() else { continue };
        let of = |name: &str| OperationRequest {
            operation,
            stream: source.stream.clone(),
            key: key.clone(),
            pairs: [("field", name), ("connection_id", &source.connection), ("limit_chars", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
        };
        let cursors: Vec<(String, String)> = record
            .fields
            .iter()
            .filter_map(|(name, _)| {
                Some((name.clone(), next(&of(name).send(&stored.services, &owner()).ok()?)?))
            })
            .collect();
        let Some((changed, _)) = cursors.first() else { continue };
        let mut fields = record.fields.clone();
        let of_changed = fields.iter_mut().filter(|(name, _)| name == changed);
        of_changed.for_each(|(_, value)| *value = FieldValue::Text("another".into()));
        stored.put(source, key, &fields);
        for (name, cursor) in &cursors {
            let actual = of(name).with("cursor", cursor).send(&stored.services, &owner());
            match name == changed {
                true => assert_eq!(actual, Err(Problem::InvalidCursor(CursorProblem::Stale))),
                false => assert!(
                    actual.is_ok(),
                    "{name}: a change elsewhere in the record makes nothing stale"
                ),
            }
        }
    }
}

/// Names of parameters, and what looks like them.
fn name() -> impl Strategy<Value = String> {
    let known: Vec<&str> =
        read_operations().iter().flat_map(|one| one.parameters).map(|own| own.name).collect();
    prop_oneof![
        6 => proptest::sample::select(known.clone()).prop_map(str::to_owned),
        2 => (proptest::sample::select(known), "(\\[\\]|\\[\\PC{0,5}\\]|\\[x\\]\\[g?t?e?\\]|\\[|\\]|\\[x|\0| )").prop_map(|(name, rest)| format!("{name}{rest}")),
        1 => "\\PC{0,12}",
        1 => proptest::sample::select(vec!["sort", "count", "window", "expand", "expand_limit[r]", "changes_since", "LIMIT", "subject_id"]).prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,30}",
        "-?[0-9]{0,25}(\\.[0-9]|e9)?",
        "(\\PC|\0|\r\n|,|e\u{301}|👩‍👧){0,40}",
        proptest::sample::select(vec![
            "asc", "compact", "full", "at", "messages", "a-mail", "", "null", "true"
        ])
        .prop_map(str::to_owned),
        "x{4000,4200}",
    ]
}

type Senseless = (Vec<(String, String)>, String, String, usize);

/// Parameters, a stream, a key, and a number below 100 that chooses the rest of a request.
fn senseless() -> impl Strategy<Value = Senseless> {
    (proptest::collection::vec((name(), value()), 0..5), value(), value(), 0usize..100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1))]

    #[test]
    fn senseless_parameters_are_refused_without_a_panic(
        seeds in any::<u64>(), requests in proptest::collection::vec(senseless(), 700..701),
    ) {
        let mut chance = Chance::of(seeds);
        let world = World::random(&mut chance);
        let grant = Grant { single_use: false, ..Grant::random(&mut chance, "grt_1") };
        let stored = Stored::new(&mut chance, &world, std::slice::from_ref(&grant));
        let endpoints = read_operations();
        for (at, (pairs, stream, key, kind)) in requests.into_iter().enumerate() {
            let operation = endpoints[at % endpoints.len()];
            let base = draw(&mut chance, &world, Some(&grant), operation);
            let request = OperationRequest {
                operation,
                stream: if kind < 80 { base.stream } else { stream },
                key: if kind < 80 { base.key } else { key },
                pairs,
            };
            let (caller, who) = match kind % 3 {
                0 => (owner(), Who::Owner),
                _ => (client("grt_1", "t1"), Who::Client(&grant)),
            };
            let actual = refusal(&request.send(&stored.services, &caller));
            let mut plain = request.clone();
            plain.pairs.retain(|(name, _)| !matches!(name.as_str(), "cursor" | "fields_cursor"));
            let cursor = plain.pairs.len() < request.pairs.len();
            let expected = Oracle { world: &world, who }.answer(&request).err();
            // No cursor is a good one here, so what would be answered is refused for it.
            let expected = expected.or(cursor.then_some(CURSOR));
            prop_assert_eq!(actual, expected, "{:?}", request);
            let unknown = request.pairs.iter().any(|(name, _)| {
                !operation.parameters.iter().any(|own| own.name == name.split('[').next().unwrap())
            });
            let is_refused = actual == Some(INVALID) || actual == Some(WINDOW);
            prop_assert!(!unknown || is_refused, "{:?}", request);
        }
    }
}
