//! Tests of grants that earlier versions stored.
//!
//! The texts are what those versions wrote, before a grant had a source, a code of its purpose or a
//! retention.

use rusqlite::{Connection, params};
use stile_domain::permit::Principal;
use stile_domain::records::authority::{RecordsClaim, RecordsPermit};
use stile_domain::records::instant::Instant;
use stile_domain::records::problem::Problem;
use stile_domain::scope::Scopes;

use super::tests::permits;
use super::{NAME, schema};
use crate::records::{GrantStatus, Records};
use crate::state::StateDir;

const NOW: Instant = Instant(1_800_000_000_000_000);

/// The identifier, the text, the time of revocation, the token of a single use, and the state.
type StoredGrant = (&'static str, &'static str, Option<i64>, Option<&'static str>, GrantStatus);

const GRANTS: [StoredGrant; 5] = [
    (
        "grt_limited",
        r#"{"version":"0.1.0","issued_at":"2026-01-01T00:00:00Z","client":{"client_id":"Reader"},"purpose_description":"to sum up","access_mode":"continuous","streams":[{"name":"notes","connection_ids":["lab"],"fields":["body","id"],"resources":["plain"]}],"expires_at":null}"#,
        None,
        None,
        GrantStatus::Active,
    ),
    (
        "grt_single",
        r#"{"version":"0.1.0","issued_at":"2026-01-02T00:00:00Z","client":{"client_id":"Once"},"access_mode":"single_use","streams":[{"name":"notes","connection_ids":["lab"],"fields":["id"]}],"expires_at":"2099-01-01T00:00:00Z"}"#,
        None,
        Some("t1"),
        GrantStatus::Active,
    ),
    (
        "grt_timed",
        r#"{"version":"0.1.0","issued_at":"2026-01-03T00:00:00Z","client":{"client_id":"Old"},"access_mode":"continuous","streams":[{"name":"notes","connection_ids":["lab"],"fields":["id"],"time_constraint":{"field":"at","since":"2026-01-01T00:00:00Z"}}],"expires_at":"2026-02-01T00:00:00Z"}"#,
        None,
        None,
        GrantStatus::Expired,
    ),
    (
        "grt_revoked",
        r#"{"version":"0.1.0","issued_at":"2026-01-04T00:00:00Z","client":{"client_id":"Gone"},"access_mode":"continuous","streams":[{"name":"notes","connection_ids":["lab"],"fields":["id"]}],"expires_at":null}"#,
        Some(1_790_000_000_000_000),
        None,
        GrantStatus::Revoked,
    ),
    ("grt_damaged", r#"{"version":"0.1.0"}"#, None, None, GrantStatus::Invalid),
];

/// Makes a database of an earlier version, with its schema and these grants.
pub(in crate::records) fn older(version: usize, rows: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let older = Connection::open(folder.path().join(NAME)).unwrap();
    schema::MIGRATIONS[..version].iter().for_each(|step| older.execute_batch(step).unwrap());
    older.execute_batch(rows).unwrap();
    for (id, terms, revoked, bound, _) in GRANTS {
        let insert = "INSERT INTO grants (id, terms, revoked, bound) VALUES (?1, ?2, ?3, ?4)";
        older.execute(insert, params![id, terms, revoked, bound]).unwrap();
    }
    older.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
    older.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
    folder
}

fn opened(folder: &tempfile::TempDir) -> Records {
    Records::open(&StateDir::open(folder.path()).unwrap(), Instant(0)).unwrap()
}

#[test]
fn grants_of_every_earlier_schema_are_shown_as_they_were_stored() {
    for version in 1..=schema::MIGRATIONS.len() {
        let folder = older(version, "");
        let records = opened(&folder);
        assert_eq!(records.grants(&permits().0).unwrap().len(), GRANTS.len());
        for (id, terms, revoked, bound, status) in GRANTS {
            let found = records.find_grant(&permits().0, id).unwrap().unwrap();
            assert_eq!(found.status(NOW), status, "{id} of schema {version}");
            assert_eq!(found.revoked, revoked.map(Instant));
            assert_eq!(found.bound.as_deref(), bound);
            let shown = found.grant.map(|grant| grant.to_json().unwrap());
            let expected = (status != GrantStatus::Invalid).then(|| terms.to_owned());
            assert_eq!(shown, expected, "{id} of schema {version}");
        }
        assert!(records.revoke(&permits().0, "grt_limited", NOW).unwrap().is_some());
    }
}

#[test]
fn grants_of_an_earlier_schema_allow_what_they_allowed() {
    let folder = older(7, include_str!("store_of_schema_7.sql"));
    let records = opened(&folder);
    let keys = |grant: &str, token: &str| -> Result<Vec<&'static str>, Problem> {
        records.read(&client(grant, token), NOW, |view| {
            let sources = view.sources_of("notes", None)?;
            let mut found = Vec::new();
            for key in ["dna", "path", "long", "plain"] {
                if !view.find_by_key(&sources, key)?.is_empty() {
                    found.push(key);
                }
            }
            Ok(found)
        })
    };
    assert_eq!(keys("grt_limited", "t9"), Ok(vec!["plain"]));
    assert_eq!(keys("grt_single", "t1"), Ok(vec!["dna", "path", "long", "plain"]));
    assert_eq!(keys("grt_single", "t2"), Err(Problem::GrantConsumed));
    assert_eq!(keys("grt_timed", "t9"), Err(Problem::GrantExpired));
    assert_eq!(keys("grt_revoked", "t9"), Err(Problem::GrantRevoked));
    assert_eq!(keys("grt_damaged", "t9"), Err(Problem::GrantInvalid));
}

#[expect(clippy::disallowed_methods, reason = "a test is its own client")]
fn client(grant: &str, token: &str) -> RecordsPermit {
    let claim = RecordsClaim::Grant(grant.into());
    let client = Principal::assert_verified("ann", Some(token), None, Scopes::none(), claim);
    client.gate().records().unwrap()
}
