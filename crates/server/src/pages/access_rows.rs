//! The rows of the page "who may do what": who has access, what for, and what the journal says.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant as Moment;

use maud::{Markup, html};
use stile_domain::audit::activity::DayCounts;
use stile_domain::path::SpacePath;
use stile_domain::percent::encode_component;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::records::grant::Grant;
use stile_domain::records::instant::Instant;
use stile_domain::scope::{Scope, Scopes, Verb};
use stile_domain::shell_word::quoted;
use stile_domain::sign_in::asked_access::{rights, sentence, summary};
use stile_domain::sign_in::client_metadata::name_of_itself;
use stile_domain::sign_in::redirect_uri::RedirectUri;
use stile_store::records::{GrantRecord, GrantStatus};
use stile_store::state::{AuthorizationRecord, TokenKind, TokenRecord};
use stile_store::state_backup;

use super::access_view::{
    Access, AccessView, CLIENTS_OF_PAGE, ClientRow, EndedRow, GrantRow, RightRow, SHARES_ITS_NAME,
    ShownClients, UnusedRow, WORTH_A_LOOK, WaitingRow, Warning, WeekRow,
};
use super::browser_session::BrowserSession;
use super::grant_words::{FEW_FIELDS, MAX_FIELDS, capitalised, stream_sentence};
use super::signed_in::{PageError, Visit};
use super::times::{day_of_instant, instant};
use crate::auth::{last_uses, signed_in_owner};
use crate::checkup::{self, Finding, FindingGrade};
use crate::owned_space::{CHART_DAYS, Digest, OwnedSpace};
use crate::sign_in::access_choices::below;
use crate::sign_in::authorize::{self, CONSENT_PATH};

/// A right that a form may keep has a number below this.
pub(super) const MAX_RIGHTS: usize = 64;
/// How many ended accesses the page names.
const MAX_ENDED: usize = 30;
/// How many waiting requests the page names.
const MAX_WAITING: usize = 5;
/// How many refused calls in a week are worth a look.
const MANY_REFUSED: u64 = 20;
/// What a token for an import may do.
const IMPORTS: &str = "may import into one stream of records, and may do nothing else";
const DAY: i64 = 86_400;
/// How long an access goes unused before the page says so.
const UNUSED: i64 = 30 * DAY;
/// An approval that lasts longer than this is worth a look.
const LONG: i64 = 300 * DAY;

/// Returns what the page shows.
pub(super) fn view<'a>(visit: &Visit<'a>) -> Result<AccessView<'a>, PageError> {
    let counted = digest(visit)?;
    let digest = counted.as_ref().and_then(Option::as_deref);
    let grants = grants(visit)?;
    let (all, ended) = clients(visit, &grants)?;
    let named = names(&all);
    let search = visit.text("q").trim();
    let sought = search.to_lowercase();
    let only_odd = visit.text("show") == WORTH_A_LOOK;
    let first = visit.text("page").parse().unwrap_or(0_usize).min(all.len());
    let count = all.len();
    let mut odd = 0;
    let mut found = Vec::new();
    for mut row in all {
        note(&mut row, digest, &named, visit.now);
        let is_odd = !row.warnings.is_empty() || !row.unused.is_empty();
        odd += usize::from(is_odd);
        if row.name.to_lowercase().contains(&sought) && (is_odd || !only_odd) {
            found.push(row);
        }
    }
    let fitting = found.len();
    let mut clients: Vec<ClientRow> = found.into_iter().skip(first).take(CLIENTS_OF_PAGE).collect();
    let is_odd = |row: &&ClientRow| !row.warnings.is_empty() || !row.unused.is_empty();
    let hidden_odd = odd - clients.iter().filter(is_odd).count().min(odd);
    let shown = ShownClients { all: count, fitting, search, first, only_odd, hidden_odd };
    // What it saw in a week is looked up for the clients that the page shows alone.
    for row in &mut clients {
        row.week = digest.map(|digest| week(digest, &row.name, visit.now));
    }
    Ok(AccessView {
        now: visit.now,
        waiting: waiting(visit),
        warnings: visit.owned().map(|space| of_server(visit, space, digest)).unwrap_or_default(),
        is_counting: counted.is_some_and(|counted| counted.is_none()),
        clients,
        shown,
        ended,
        grants: grant_rows(visit, grants)?,
        first_grant: visit.first_row(),
        has_space: visit.owned().is_some(),
        has_records: visit.owned().is_some() && visit.records().is_some(),
        ..AccessView::default()
    })
}

/// Returns what is odd and not about one client, each with what to do about it.
fn of_server(visit: &Visit<'_>, space: &OwnedSpace, digest: Option<&Digest>) -> Vec<String> {
    let mut warnings = Vec::new();
    let damaged = digest.map_or(0, |digest| digest.damaged);
    if damaged > 0 {
        warnings.push(format!(
            "{damaged} lines of the journal cannot be read, so what they told is not shown here."
        ));
    }
    let mut found = vec![space.check_files("the folder of your files")];
    // What belongs to the server is the operator's where there are several people.
    if !visit.session.is_one_of_people {
        found.push(checkup::folder("state", "the state folder", space.state.path()));
        let journal = space.journal_findings(instant(visit.now)).into_iter();
        found.extend(journal.filter(|found| found.outcome == FindingGrade::Bad));
        found.extend(checkup::restored(&space.state, visit.now));
        // A state that nobody ever copied is new, or copied by other means.
        let backup = state_backup::last(&space.state);
        if backup.is_some_and(|made| checkup::is_old_backup(made, visit.now)) {
            let old = "The last backup is more than 30 days old. Health makes one.";
            warnings.push(old.to_owned());
        }
    }
    let odd = found.into_iter().filter(|found| found.outcome != FindingGrade::Good);
    warnings.extend(odd.map(|Finding { step, detail, mend, .. }| {
        let mend = mend.map(|mend| format!(" {}.", first_capital(&mend)));
        format!("{}: {detail}.{}", first_capital(&step), mend.unwrap_or_default())
    }));
    warnings
}

/// Returns a text with its first letter, one of ASCII, as a capital.
fn first_capital(text: &str) -> String {
    text.get(..1).map_or_else(String::new, str::to_ascii_uppercase) + text.get(1..).unwrap_or("")
}

/// Returns how many accesses have each name.
fn names(rows: &[ClientRow]) -> HashMap<String, usize> {
    let mut named: HashMap<String, usize> = HashMap::new();
    for row in rows {
        *named.entry(row.name.clone()).or_default() += 1;
    }
    named
}

/// Returns what the journal says, for the owner of the space; inside, `None` while it is being
/// counted.
fn digest(visit: &Visit<'_>) -> Result<Option<Option<Arc<Digest>>>, PageError> {
    let digest = visit.owned().map(|space| space.digest(instant(visit.now))).transpose();
    digest.map_err(|error| PageError::logged(&error))
}

/// Returns the requests that wait for the owner.
fn waiting(visit: &Visit<'_>) -> Vec<WaitingRow> {
    let server = visit.server;
    // A request is for whoever decides it. Where there are several people, a person learns of one
    // only from the client that asks.
    if visit.owned().is_none() || visit.session.is_one_of_people {
        return Vec::new();
    }
    let handles = server.pending.waiting(Moment::now());
    let found = handles.into_iter().filter_map(|handle| {
        let asked = authorize::find(server, &handle)?;
        let redirect = &asked.return_to.redirect;
        Some(WaitingRow {
            client_name: asked.client.name.clone(),
            host: host(redirect),
            address: format!("{CONSENT_PATH}?request={}", encode_component(&handle)),
        })
    });
    found.take(MAX_WAITING).collect()
}

/// Returns the clients that may do something, the latest use first and after them those not used
/// yet, and what ended.
fn clients(
    visit: &Visit<'_>,
    grants: &[GrantRecord],
) -> Result<(Vec<ClientRow>, Vec<EndedRow>), PageError> {
    let (server, session, now) = (visit.server, visit.session, visit.now);
    let tokens = server.tokens();
    let uses = server.settings.uses.all()?;
    let of_tokens = tokens.authorizations_of_tokens()?;
    let used_by_authorization = last_uses(&of_tokens, &uses);
    let sees_grants = visit.records().is_some();
    let counts = |id: &String| !sees_grants || grants.iter().any(|grant| grant.id == *id);
    let (mut rows, mut ended) = (Vec::new(), Vec::new());
    for mut record in tokens.authorizations()?.into_iter().filter(|it| may_end(session, it)) {
        if let Some(row) = ended_row(&record.client_name, record.ended, record.expires, now) {
            ended.push(row);
            continue;
        }
        record.grant = record.grant.filter(counts);
        let client = tokens.find_client(&record.client)?;
        let redirects = client.map(|client| client.redirects).unwrap_or_default();
        let used = used_by_authorization.get(&record.id).copied();
        rows.push(authorization_row(record, &hosts(&redirects), used, grants));
    }
    let own_names = tokens.self_given_names(now)?;
    // Only as many of those that ended are read as the page names.
    let of_person = (!session.administers()).then_some(session.subject.as_str());
    let by_command = tokens.list_live(now)?.into_iter().rev();
    let by_command = by_command.chain(tokens.list_ended(now, of_person, MAX_ENDED)?);
    let may_see = |token: &TokenRecord| session.administers() || is_own(session, token);
    let by_command =
        by_command.filter(|token| may_see(token) && !of_tokens.contains_key(&token.jti));
    for mut token in by_command {
        let own = || own_names.get(&token.jti).and_then(|name| name_of_itself(name));
        token.client = token.client.take().or_else(own);
        let name = token.client.as_deref().unwrap_or(&token.subject);
        if let Some(row) = ended_row(name, token.revoked, token.expires, now) {
            ended.push(row);
            continue;
        }
        token.grant = token.grant.filter(counts);
        let used = uses.get(&token.jti).copied();
        let mut row = token_row(token, used, grants);
        if let Access::Starts { connects, narrower, .. } = &mut row.access {
            *narrower = narrower_flags(&row.scopes, || {
                below((&server.settings.folders, &session.subject), "/").into_iter().next()
            });
            let known = server.settings.connectable.iter();
            *connects = known.map(|(word, _)| *word).find(|word| *word == row.name);
        }
        rows.push(row);
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.last_used, row.created)));
    ended.sort_by_key(|row| std::cmp::Reverse(row.at));
    ended.truncate(MAX_ENDED);
    Ok((rows, ended))
}

/// Returns flags with less than what some scopes allow: without the rights on everything, or, if
/// there is no other right, with a folder to read.
fn narrower_flags(scopes: &Scopes, folder: impl FnOnce() -> Option<SpacePath>) -> String {
    let is_kept = |scope: &&Scope| !scope.path().is_root() || !scope.verb().is_right();
    let mut kept: Vec<String> = scopes.iter().filter(is_kept).map(Scope::to_raw).collect();
    if !scopes.iter().filter(is_kept).any(|scope| scope.verb().is_right()) {
        let folder = folder().or_else(|| SpacePath::parse("/work").ok());
        kept.extend(folder.map(|folder| Scope::directory(Verb::Read, &folder).to_raw()));
    }
    let flags = kept.iter().map(|scope| format!("--scope {}", quoted(scope)));
    flags.collect::<Vec<_>>().join(" ")
}

/// Returns the row of an access that has ended; `None` if it counts.
fn ended_row(name: &str, ended: Option<i64>, expires: i64, now: i64) -> Option<EndedRow> {
    let (how, at) = match ended {
        Some(at) => ("you ended it", at),
        None if expires <= now => ("it expired", expires),
        None => return None,
    };
    Some(EndedRow { name: name.to_owned(), how, at })
}

/// Returns what the journal says of a client, by its name.
fn week(digest: &Digest, name: &str, now: i64) -> WeekRow {
    let seen = digest.seen(name);
    let of_client = digest.activity.clients.get(name);
    let days = (0..CHART_DAYS as i64).rev().map(|ago| {
        let day = day_of_instant(instant(now.saturating_sub(ago * DAY)));
        of_client.and_then(|days| days.get(&day)).copied().unwrap_or_default()
    });
    WeekRow {
        saw: seen.saw(),
        changed: seen.changed(),
        refused: seen.refused(),
        days: days.collect::<Vec<DayCounts>>(),
        day_ago: instant(now - 24 * 60 * 60).to_rfc3339(),
    }
}

/// Notes what the owner should look at, of a client.
fn note(row: &mut ClientRow, digest: Option<&Digest>, named: &HashMap<String, usize>, now: i64) {
    let refused = digest.map_or(0, |digest| refused_this_week(digest, &row.name, now));
    row.warnings = warnings(row, refused, now);
    if let Some(digest) = digest {
        row.unused = unused(row, digest, now);
    }
    // Anybody may register under a name, and the counts of the journal go by name.
    if let Some(others) = named.get(&row.name).filter(|count| **count > 1) {
        row.warnings.push(Warning {
            reason: SHARES_ITS_NAME,
            text: format!(
                "{others} accesses have this name. What it saw and changed is counted for all of \
                 them; every call of this one, and what is taken back, is of this one. End those \
                 that you do not know."
            ),
        });
    }
}

/// Returns how many calls of a client were refused in the last seven days.
fn refused_this_week(digest: &Digest, name: &str, now: i64) -> u64 {
    let Some(days) = digest.activity.clients.get(name) else { return 0 };
    let of_day = |ago: i64| {
        let day = day_of_instant(instant(now.saturating_sub(ago * DAY)));
        days.get(&day).map_or(0, |counts| counts.refused)
    };
    (0..7).map(of_day).sum()
}

/// Returns what the owner should look at, each with its reason and what to do.
fn warnings(row: &ClientRow, refused: u64, now: i64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |reason, text: String| warnings.push(Warning { reason, text });
    for (verb, reason, deed) in [
        (Verb::Write, "a right on everything", "change"),
        (Verb::Read, "a right on everything", "read"),
    ] {
        if row.scopes.cover_subtree(verb, &SpacePath::root()) {
            warn(
                reason,
                format!(
                    "It may {deed} all files. Most clients need a few folders: leave it those."
                ),
            );
            break;
        }
    }
    if row.is_unguarded() {
        warn(
            "may use keys",
            "It may use keys, passwords and files that programs run. Whoever has a key can pass as \
             you: take that right away unless the client is there for it."
                .to_owned(),
        );
    }
    if refused >= MANY_REFUSED {
        warn(
            "was refused often",
            format!(
                "{refused} of its calls were refused this week. Look at its calls: it wants more \
                 than you gave, or does what you do not expect."
            ),
        );
    }
    let used = row.last_used.unwrap_or(row.created);
    if now.saturating_sub(used) > UNUSED {
        warn(
            "unused for 30 days",
            "It has not called for 30 days. End its access if you need it no more.".to_owned(),
        );
    }
    let is_long = |expires: i64| expires.saturating_sub(now) > LONG;
    if row.expires.is_some_and(is_long) && matches!(row.access, Access::Approved { .. }) {
        warn(
            "lasts long",
            "Its access lasts for most of a year. If that is longer than you need it, end it, and \
             allow it for less when it asks again."
                .to_owned(),
        );
    }
    warnings
}

/// Returns the rights that the client did not use for thirty days, although it called.
fn unused(row: &ClientRow, digest: &Digest, now: i64) -> Vec<UnusedRow> {
    let called = row.last_used.is_some_and(|used| now.saturating_sub(used) <= UNUSED);
    let Some(touched) = digest.touched(&row.name).filter(|_| called) else { return Vec::new() };
    if now.saturating_sub(row.created) <= UNUSED {
        return Vec::new();
    }
    let row_of = |scope: &Scope| match scope.verb() {
        _ if !touched.uses(scope) => Some(UnusedRow {
            sentence: format!("It may {}, and did not for 30 days.", sentence(scope)),
            scope: scope.to_string(),
            keeps_reading: false,
        }),
        Verb::Write if !touched.changed_by(scope) => Some(UnusedRow {
            sentence: format!("It may {}, and changed nothing there for 30 days.", sentence(scope)),
            scope: scope.to_string(),
            keeps_reading: true,
        }),
        _ => None,
    };
    row.scopes.iter().filter_map(row_of).take(MAX_RIGHTS).collect()
}

/// Returns the grants that count.
pub(super) fn grants(visit: &Visit<'_>) -> Result<Vec<GrantRecord>, PageError> {
    let Some(records) = visit.records() else { return Ok(Vec::new()) };
    let owner = signed_in_owner(&visit.session.subject);
    let mut grants =
        records.service.grants(&owner).map_err(|problem| PageError::of_records(&problem))?;
    grants.retain(|grant| grant.status(crate::clock::now()) == GrantStatus::Active);
    Ok(grants)
}

/// Returns whether a person sees an authorization and may end it: their own, or all.
pub(super) fn may_end(session: &BrowserSession, record: &AuthorizationRecord) -> bool {
    session.administers() || record.subject == session.subject
}

/// Returns whether a token that a command made is for a person who owns a space.
pub(super) fn is_own(session: &BrowserSession, token: &TokenRecord) -> bool {
    session.is_one_of_people && token.subject == session.subject
}

/// Returns what each stream of a grant shows, as [`stream_sentence`] says it; nothing for a grant
/// that is not known here.
fn seen(records: &RecordsClaim, grants: &[GrantRecord], most_fields: usize) -> Vec<Markup> {
    let RecordsClaim::Grant(id) = records else { return Vec::new() };
    let found = grants.iter().find(|record| *record.id == **id);
    let grant = found.and_then(|record| record.grant.as_ref());
    let sentence = |stream| stream_sentence(stream, most_fields);
    grant.map(|grant| grant.streams.iter().map(sentence).collect()).unwrap_or_default()
}

/// Returns what [`rights`] does, and says of a grant what it shows.
pub(super) fn rights_in_words(
    scopes: &Scopes,
    records: &RecordsClaim,
    grants: &[GrantRecord],
) -> Vec<Markup> {
    let mut said: Vec<Markup> =
        rights(scopes, records).iter().map(|right| html! { (right) }).collect();
    let seen = seen(records, grants, MAX_FIELDS);
    if !seen.is_empty() {
        // The last right is the one on records.
        said.pop();
        said.extend(seen);
    }
    said
}

/// Returns what [`summary`] does as sentences, and says of a grant what it shows first.
fn summary_in_words(scopes: &Scopes, records: &RecordsClaim, grants: &[GrantRecord]) -> Markup {
    let sentence = |records| capitalised(html! { (summary(scopes, records)) });
    let seen = seen(records, grants, FEW_FIELDS);
    let Some((first, others)) = seen.split_first() else {
        return html! { (sentence(records)) "." };
    };
    let may_use_files = scopes.iter().any(|scope| scope.verb().is_right());
    html! {
        @if may_use_files { (sentence(&RecordsClaim::None)) ". " }
        (capitalised(first.clone()))
        @match others.len() {
            0 => {}
            1 => { ", and one more stream" }
            more => { ", and " (more) " more streams" }
        }
        "."
    }
}

fn authorization_row(
    record: AuthorizationRecord,
    hosts: &str,
    used: Option<i64>,
    grants: &[GrantRecord],
) -> ClientRow {
    let scopes = Scopes::from_claim(&record.scopes);
    let records = match &record.grant {
        Some(grant) => RecordsClaim::Grant(grant.as_str().into()),
        None => RecordsClaim::None,
    };
    let allowing = scopes.iter().filter(|scope| scope.verb() != Verb::Deny);
    let right = |scope: &Scope| RightRow {
        sentence: html! { "May " (sentence(scope)) },
        scope: Some(scope.to_string()),
    };
    let mut rights: Vec<RightRow> = allowing.take(MAX_RIGHTS).map(right).collect();
    let fixed = |sentence| RightRow { sentence, scope: None };
    let denying = scopes.iter().filter(|scope| scope.verb() == Verb::Deny);
    rights.extend(denying.map(|scope| fixed(html! { "Will " (sentence(scope)) })));
    if records != RecordsClaim::None {
        let of_records = rights_in_words(&Scopes::none(), &records, grants);
        rights.extend(of_records.into_iter().map(|right| fixed(capitalised(right))));
    }
    ClientRow {
        access: Access::Approved { id: record.id, host: hosts.to_owned() },
        name: record.client_name,
        summary: summary_in_words(&scopes, &records, grants),
        rights,
        created: record.created,
        expires: Some(record.expires),
        last_used: used,
        scopes,
        has_grant: records != RecordsClaim::None,
        unused: Vec::new(),
        warnings: Vec::new(),
        week: None,
    }
}

fn token_row(token: TokenRecord, used: Option<i64>, grants: &[GrantRecord]) -> ClientRow {
    let (scopes, records) = (Scopes::from_claim(&token.scopes), token.records_claim());
    // The name of such a token says into which stream.
    let (said, summary) = match token.kind {
        TokenKind::Import => {
            let imports = html! { (IMPORTS) };
            (vec![imports.clone()], html! { (capitalised(imports)) "." })
        }
        _ => (
            rights_in_words(&scopes, &records, grants),
            summary_in_words(&scopes, &records, grants),
        ),
    };
    let right = |right| RightRow { sentence: capitalised(right), scope: None };
    ClientRow {
        access: match token.kind {
            TokenKind::Stdio => {
                Access::Starts { jti: token.jti, connects: None, narrower: String::new() }
            }
            _ => Access::Token { jti: token.jti },
        },
        name: token.client.unwrap_or(token.subject),
        summary,
        rights: said.into_iter().map(right).collect(),
        created: token.issued,
        expires: (token.expires < TokenRecord::NEVER).then_some(token.expires),
        last_used: used,
        scopes,
        has_grant: matches!(records, RecordsClaim::Grant(_)),
        unused: Vec::new(),
        warnings: Vec::new(),
        week: None,
    }
}

/// Returns the rows of the grants that count. A grant that came of an approval has the identifier
/// of its client, and is shown under the name that the client had then.
fn grant_rows(visit: &Visit<'_>, grants: Vec<GrantRecord>) -> Result<Vec<GrantRow>, PageError> {
    let approvals = match grants.is_empty() {
        true => Vec::new(),
        false => visit.server.tokens().authorizations()?,
    };
    let named = approvals.into_iter().filter_map(|it| Some((it.grant?, it.client_name)));
    let mut named: HashMap<String, String> = named.collect();
    let rows = grants.into_iter().filter_map(|record| {
        let name = named.remove(&record.id);
        grant_row(record, name)
    });
    Ok(rows.collect())
}

fn grant_row(record: GrantRecord, name: Option<String>) -> Option<GrantRow> {
    let Grant { client, streams, expires, .. } = record.grant?;
    Some(GrantRow {
        id: record.id,
        client_name: name.unwrap_or(client),
        summary: streams.first().map(|stream| capitalised(stream_sentence(stream, FEW_FIELDS))),
        rights: streams.iter().map(|it| capitalised(stream_sentence(it, MAX_FIELDS))).collect(),
        expires: expires.map(|Instant(micros)| micros / 1_000_000),
    })
}

/// Returns where an answer goes: a host, or this computer.
fn host(redirect: &RedirectUri) -> String {
    if redirect.stays_on_this_computer() {
        "a program on this computer".to_owned()
    } else {
        redirect.host().to_owned()
    }
}

/// Returns the hosts to which a client's answers may go, each once.
fn hosts(redirects: &[String]) -> String {
    let parsed = redirects.iter().filter_map(|redirect| RedirectUri::parse_of_owner(redirect).ok());
    let hosts: BTreeSet<String> = parsed.map(|redirect| host(&redirect)).collect();
    if hosts.is_empty() {
        return "nowhere: the client is no longer known".to_owned();
    }
    hosts.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use stile_domain::journal::JournalLine;

    use super::*;

    #[test]
    fn the_line_that_narrows_a_client_leaves_less_than_it_has() {
        let of = |claim: &str| {
            let folder = || SpacePath::parse("/my notes").ok();
            narrower_flags(&Scopes::from_claim(claim), folder)
        };
        assert_eq!(of("read:/ write:/journal/"), "--scope write:/journal/");
        assert_eq!(of("write:/"), "--scope 'read:/my notes/'");
        assert_eq!(of("write:/ deny:/x"), "--scope deny:/x --scope 'read:/my notes/'");
        let none = narrower_flags(&Scopes::from_claim("read:/"), || None);
        assert_eq!(none, "--scope read:/work/");
    }

    #[test]
    fn hosts_are_named_once_and_this_computer_in_words() {
        let redirects = [
            "https://claude.ai/api/mcp/auth_callback",
            "https://claude.ai/other",
            "http://127.0.0.1:7777/callback",
            "nonsense",
        ]
        .map(str::to_owned);
        assert_eq!(hosts(&redirects), "a program on this computer, claude.ai");
        assert_eq!(hosts(&[]), "nowhere: the client is no longer known");
    }

    fn row(access: Access, expires: Option<i64>, used: Option<i64>) -> ClientRow {
        ClientRow {
            access,
            name: "cursor".to_owned(),
            summary: html! {},
            rights: Vec::new(),
            created: 0,
            expires,
            last_used: used,
            scopes: Scopes::none(),
            has_grant: false,
            unused: Vec::new(),
            warnings: Vec::new(),
            week: None,
        }
    }

    #[test]
    fn what_is_odd_is_said_and_nothing_else() {
        let approved = || Access::Approved { id: String::new(), host: String::new() };
        let now = 100 * DAY;
        let quiet = row(approved(), Some(now + 90 * DAY), Some(now - DAY));
        assert!(warnings(&quiet, 19, now).is_empty());
        let mut odd = row(approved(), Some(now + 365 * DAY), None);
        odd.scopes = Scopes::from_claim("unguard:/ write:/");
        let found = warnings(&odd, 20, now);
        let words = ["change all files", "keys", "20 of its calls", "30 days", "most of a year"];
        assert_eq!(found.len(), words.len());
        for (warning, word) in found.iter().zip(words) {
            assert!(warning.text.contains(word), "{word}: {}", warning.text);
            // A reason is short, and what to do follows what is true.
            assert!(warning.reason.len() < 24 && warning.text.len() > 60, "{}", warning.text);
        }
    }

    #[test]
    fn a_right_on_everything_is_said_unless_something_is_taken_from_it() {
        let said = |claim: &str| {
            let mut row = row(Access::Token { jti: String::new() }, None, Some(0));
            row.scopes = Scopes::from_claim(claim);
            let found = warnings(&row, 0, 0);
            found.into_iter().map(|warning| warning.text).collect::<String>()
        };
        assert!(said("read:/").contains("read all files"));
        assert!(said("write:/").contains("change all files"));
        assert_eq!(said("write:/work/ read:/notes/"), "");
        assert_eq!(said("write:/ deny:/secret"), "");
    }

    #[test]
    fn a_right_that_nobody_used_for_thirty_days_is_named() {
        let now = 100 * DAY;
        let line = |tool: &str, path: &str| JournalLine {
            at: instant(now - DAY).to_rfc3339(),
            subject: Some("ann".to_owned()),
            client: Some("cursor".to_owned()),
            tool: tool.to_owned(),
            path: SpacePath::parse(path).ok(),
            outcome: "ok".to_owned(),
            ..JournalLine::default()
        };
        let digest = Digest::of_lines(&[
            line("text.read", "/work/plan.md"),
            line("text.edit", "/journal/day.md"),
        ]);
        let named = |created, used| {
            let mut row = row(Access::Token { jti: String::new() }, None, Some(used));
            row.scopes = Scopes::from_claim("write:/work/ write:/journal/ read:/attic/ deny:/x");
            row.created = created;
            let unused = unused(&row, &digest, now);
            unused.into_iter().map(|row| (row.scope, row.keeps_reading)).collect::<Vec<_>>()
        };
        let both = [("write:/work/".to_owned(), true), ("read:/attic/".to_owned(), false)];
        assert_eq!(named(0, now - DAY), both);
        assert_eq!(named(now - DAY, now), [], "it is new");
        assert_eq!(named(0, 0), [], "it does not call at all, which is said otherwise");
    }

    #[test]
    fn an_access_ends_once_and_says_how() {
        let how = |ended, expires| ended_row("a", ended, expires, 10).map(|row| (row.how, row.at));
        assert_eq!(how(None, 11), None);
        assert_eq!(how(None, 10), Some(("it expired", 10)));
        assert_eq!(how(Some(3), 5), Some(("you ended it", 3)));
    }
}
