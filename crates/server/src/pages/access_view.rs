//! The page "who may do what": what waits for the owner, then each client as one line that opens.
//!
//! A line says in one sentence what the client may do, and when it called last. Opened, it has the
//! rights with what takes them away, what the client saw and changed this week, and the end of its
//! access, which asks once more.

use maud::{Markup, html};
use stile_domain::audit::activity::DayCounts;
use stile_domain::audit::words::listed;
use stile_domain::percent::encode_component;
use stile_domain::scope::{Scopes, Verb};
use stile_domain::unseen::shown;

use super::frame::{
    ACCESS_PATH, ACTIVITY_PATH, CONNECT_PATH, EDIT_PATH, GRANT_PATH, HEALTH_PATH, UNDO_PATH,
    csrf_field,
};
use super::room::Room;
use super::shown_text::shown_name;
use super::times::{ago, when};

/// The path to which the end of an authorization is sent.
pub const END_PATH: &str = "/owner/clients/end";
/// The path to which the narrowing of an authorization is sent.
pub const NARROW_PATH: &str = "/owner/clients/narrow";
/// The path to which a right that is taken away is sent.
pub const TAKE_AWAY_PATH: &str = "/owner/clients/take-away";
/// The path to which the revocation of a token is sent.
pub const REVOKE_TOKEN_PATH: &str = "/owner/clients/revoke-token";
/// The name of the field that keeps a right, before the number of the right.
pub(super) const KEPT_FIELD: &str = "keep-";
/// The path to which the revocation of a grant is sent.
pub const REVOKE_GRANT_PATH: &str = "/owner/clients/revoke-grant";

/// How many clients a page shows, if they fit.
pub(super) const CLIENTS_OF_PAGE: usize = 20;
/// Why a client is worth a look of whose name there is another one.
pub(super) const SHARES_ITS_NAME: &str = "shares its name";
/// The word of the query that shows only clients that are worth a look.
pub(super) const WORTH_A_LOOK: &str = "worth-a-look";
/// The bytes of the grants, of what ended, and of the rights of one client.
const GRANT_BYTES: usize = 12_000;
const ENDED_BYTES: usize = 6_000;
const RIGHT_BYTES: usize = 9_000;
/// The most rights of a form.
const MAX_KEPT: usize = 200;
/// The most grants of a page.
const MAX_GRANTS: usize = 100;
/// From so many clients on the page has a search.
const MANY: usize = 8;

/// What the page shows. Times are UTC seconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessView<'a> {
    /// The token of the forms of the session.
    pub(super) csrf_token: &'a str,
    /// The time now.
    pub(super) now: i64,
    /// What to say about the last change.
    pub(super) notice: Option<&'a str>,
    /// The requests for access that wait for the owner.
    pub(super) waiting: Vec<WaitingRow>,
    /// What is odd and not about one client.
    pub(super) warnings: Vec<String>,
    /// Whether the journal is still being counted.
    pub(super) is_counting: bool,
    /// The clients that may do something, the latest use first: one page of them.
    pub(super) clients: Vec<ClientRow>,
    /// Which of the clients are shown.
    pub(super) shown: ShownClients<'a>,
    /// What ended or expired, the latest first.
    pub(super) ended: Vec<EndedRow>,
    /// The grants that count.
    pub(super) grants: Vec<GrantRow>,
    /// The number of the first grant that is shown.
    pub(super) first_grant: usize,
    /// Whether this is the owner of a space, who has the other pages.
    pub(super) has_space: bool,
    /// Whether the owner can grant records.
    pub(super) has_records: bool,
}

/// Which of the clients a page shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShownClients<'a> {
    /// How many clients there are.
    pub(super) all: usize,
    /// What the name must contain.
    pub(super) search: &'a str,
    /// How many fit the search.
    pub(super) fitting: usize,
    /// The number of the first that is shown, from 0 on.
    pub(super) first: usize,
    /// Whether only those are shown that are worth a look.
    pub(super) only_odd: bool,
    /// How many others are worth a look.
    pub(super) hidden_odd: usize,
}

/// One request for access that waits.
#[derive(Clone, Debug)]
pub(super) struct WaitingRow {
    pub(super) client_name: String,
    pub(super) host: String,
    /// The address of the page on which the owner decides.
    pub(super) address: String,
}

/// How a client got its access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// The owner approved its request. The identifier is that of the authorization.
    Approved {
        id: String,
        /// Where the client's answers go.
        host: String,
    },
    /// A command made a token. The identifier is that of the token.
    Token { jti: String },
    /// The client starts `stile stdio` on this computer.
    Starts {
        jti: String,
        /// How `stile connect` names the client, if it does.
        connects: Option<&'static str>,
        /// Flags with less than what it may do now: without its rights on everything, or with one
        /// folder alone.
        narrower: String,
    },
}

impl Access {
    /// Returns the approval or the token by which history and journal know the client.
    fn caller(&self) -> &str {
        match self {
            Self::Approved { id, .. } => id,
            Self::Token { jti } | Self::Starts { jti, .. } => jti,
        }
    }
}

/// One client that may do something.
#[derive(Clone, Debug)]
pub(super) struct ClientRow {
    pub(super) access: Access,
    /// The name of the client, or of the user where there is none.
    pub(super) name: String,
    /// What the client may do, in one sentence.
    pub(super) summary: Markup,
    /// What the client may do, each with the scope that the form sends back.
    pub(super) rights: Vec<RightRow>,
    pub(super) created: i64,
    /// When the access ends; `None` if only the owner ends it.
    pub(super) expires: Option<i64>,
    pub(super) last_used: Option<i64>,
    /// The path scopes.
    pub(super) scopes: Scopes,
    /// Whether it sees records by a grant.
    pub(super) has_grant: bool,
    /// The rights that it did not use for thirty days.
    pub(super) unused: Vec<UnusedRow>,
    /// What the owner should look at.
    pub(super) warnings: Vec<Warning>,
    /// What the journal says; `None` where this page has no journal.
    pub(super) week: Option<WeekRow>,
}

impl ClientRow {
    /// Returns whether it may use keys, passwords and files that programs run.
    pub(super) fn is_unguarded(&self) -> bool {
        self.scopes.iter().any(|scope| scope.verb() == Verb::Unguard)
    }
}

/// Something that the owner should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// The reason in a few words, as the line of a client has it: `may read all files`.
    pub(super) reason: &'static str,
    /// What is true, and what to do about it.
    pub(super) text: String,
}

/// A right that a client did not use for thirty days.
#[derive(Clone, Debug)]
pub(super) struct UnusedRow {
    pub(super) sentence: String,
    /// The scope.
    pub(super) scope: String,
    /// Whether the client reads what it does not change.
    pub(super) keeps_reading: bool,
}

/// What a client did.
#[derive(Clone, Debug, Default)]
pub(super) struct WeekRow {
    /// What it saw this week, as parts of a sentence.
    pub(super) saw: Vec<String>,
    /// What it changed this week, as parts of a sentence.
    pub(super) changed: Vec<String>,
    /// How many of its calls were refused this week.
    pub(super) refused: u64,
    /// Its calls of each of the last days, the earliest first.
    pub(super) days: Vec<DayCounts>,
    /// The time a day ago, as the undo takes it.
    pub(super) day_ago: String,
}

/// One thing that a client may do.
#[derive(Clone, Debug)]
pub(super) struct RightRow {
    /// The sentence, such as "May read the files in /work and below".
    pub(super) sentence: Markup,
    /// The scope, if the right can be taken away by itself.
    pub(super) scope: Option<String>,
}

/// One access that ended.
#[derive(Clone, Debug)]
pub(super) struct EndedRow {
    pub(super) name: String,
    /// How it ended: `you ended it`, `it expired`.
    pub(super) how: &'static str,
    pub(super) at: i64,
}

/// One grant on records.
#[derive(Clone, Debug)]
pub(super) struct GrantRow {
    pub(super) id: String,
    pub(super) client_name: String,
    /// What its first stream shows, in few words.
    pub(super) summary: Option<Markup>,
    pub(super) rights: Vec<Markup>,
    pub(super) expires: Option<i64>,
}

impl AccessView<'_> {
    /// Returns the content of the page.
    pub(super) fn markup(&self) -> Markup {
        let mut room = Room::of_page();
        let grants = room.take(self.grants(&mut Room::of(GRANT_BYTES)));
        let ended = room.take(self.ended_clients(&mut Room::of(ENDED_BYTES)));
        let clients = room.fit(&self.clients, self.clients.len(), |row| self.client(row));
        html! {
            h1 { "Who may do what" }
            @if let Some(notice) = self.notice {
                p class="notice" role="status" { (notice) }
            }
            @if !self.waiting.is_empty() { (self.waiting_requests()) }
            @for warning in &self.warnings {
                p class="warning" { (warning) " " a href=(HEALTH_PATH) { "Look at Health" } }
            }
            @if self.is_counting {
                p class="muted" {
                    "The calls of the last 30 days are still being counted. "
                    a href=(ACCESS_PATH) { "Load the page again" }
                }
            }
            section aria-labelledby="clients" {
                h2 id="clients" { "Clients" }
                @if self.shown.all > MANY || !self.shown.search.is_empty() { (self.search()) }
                (self.others_worth_a_look())
                (clients)
                @if self.clients.is_empty() { (self.empty()) }
                (self.paging(clients.shown))
            }
            (grants)
            @if !self.ended.is_empty() { (ended) }
        }
    }

    /// Leads to the clients that are worth a look and are not on the page.
    fn others_worth_a_look(&self) -> Markup {
        let ShownClients { hidden_odd, only_odd, .. } = self.shown;
        html! {
            @if only_odd {
                p { "These are worth a look. " a href=(ACCESS_PATH) { "Show all clients" } }
            } @else if hidden_odd > 0 {
                p class="warning" {
                    @if hidden_odd == 1 { "One more client is worth a look. " }
                    @else { (hidden_odd) " more clients are worth a look. " }
                    a href={ (ACCESS_PATH) "?show=" (WORTH_A_LOOK) } { "Show them" }
                }
            }
        }
    }

    fn grants(&self, room: &mut Room) -> Markup {
        let shown =
            room.fit(self.grants.iter().skip(self.first_grant), MAX_GRANTS, |row| self.grant(row));
        let here = format!("{ACCESS_PATH}?q={}", encode_component(self.shown.search));
        html! {
            @if !self.grants.is_empty() || self.has_records {
                section aria-labelledby="grants" {
                    h2 id="grants" { "Grants on records" }
                    @if self.grants.is_empty() {
                        p class="muted" { "No client sees any of your records by a grant." }
                    }
                    (shown)
                    (shown.next_page((self.first_grant, self.grants.len()), &here))
                    @if self.has_records {
                        p class="links" { a href=(GRANT_PATH) { "Make a grant" } }
                    }
                }
            }
        }
    }

    fn waiting_requests(&self) -> Markup {
        html! {
            section class="waiting" aria-labelledby="waiting" {
                h2 id="waiting" { "Waiting for you" }
                ul class="rows" {
                    @for row in &self.waiting {
                        li {
                            span {
                                strong { bdi { (shown_name(&row.client_name)) } } " asks for access. "
                                span class="muted" { "Its answer goes to " (row.host) "." }
                            }
                            a class="button" href=(row.address) { "Look at it" }
                        }
                    }
                }
                p class="muted" {
                    "Go on only with what you have just begun yourself. A request waits for ten \
                     minutes."
                }
            }
        }
    }

    fn search(&self) -> Markup {
        html! {
            form class="search" method="get" action=(ACCESS_PATH) role="search" {
                label for="q" { "Find a client" }
                input id="q" name="q" type="search" maxlength="100" placeholder="Name of a client"
                    value=(shown(self.shown.search));
                button class="plain" { "Find" }
            }
        }
    }

    fn empty(&self) -> Markup {
        html! {
            div class="empty" {
                @if self.shown.first > 0 {
                    p { "There is no such page. " a href=(ACCESS_PATH) { "Show the first" } }
                } @else if self.shown.search.is_empty() {
                    p { "You approved no client, and there is no valid token." }
                    @if self.has_space {
                        p { a class="button" href=(CONNECT_PATH) { "Connect a client" } }
                    }
                } @else {
                    p { "No client is called like this. " a href=(ACCESS_PATH) { "Show all" } }
                }
            }
        }
    }

    fn paging(&self, shown: usize) -> Markup {
        let ShownClients { search, first, fitting, .. } = self.shown;
        let next = first.saturating_add(shown);
        let only = if self.shown.only_odd { "&show=worth-a-look" } else { "" };
        let search = encode_component(search);
        let to = |first: usize| format!("{ACCESS_PATH}?page={first}&q={search}{only}");
        html! {
            @if first > 0 || next < fitting {
                nav class="paging" aria-label="More clients" {
                    @if first > 0 {
                        a href=(to(first.saturating_sub(CLIENTS_OF_PAGE))) { "Used later" }
                    }
                    @if next < fitting { a href=(to(next)) { "Used earlier" } }
                }
            }
        }
    }

    fn client(&self, row: &ClientRow) -> Markup {
        let week = row.week.as_ref();
        html! {
            details class="client" {
                summary {
                    span class="who" { bdi { (shown_name(&row.name)) } }
                    span class="used" {
                        @match row.last_used {
                            Some(at) => { (ago(self.now, at)) }
                            None => { "not used yet" }
                        }
                    }
                    span class="what" {
                        (row.summary)
                        @if row.warnings.iter().any(|it| it.reason == SHARES_ITS_NAME) {
                            " Allowed " (ago(self.now, row.created)) "."
                        }
                        @if !row.warnings.is_empty() || !row.unused.is_empty() {
                            " " span class="flag" { "Look: " (reason(row)) }
                        }
                    }
                    @if let Some(week) = week { (chart(&week.days)) }
                }
                div class="open" {
                    @for warning in &row.warnings { p class="warning" { (warning.text) } }
                    @for unused in &row.unused { (self.unused(row, unused)) }
                    (self.rights(row))
                    @if let Some(week) = week { (self.week(row.access.caller(), week)) }
                    (self.facts(row))
                    (self.end(row))
                }
            }
        }
    }

    fn rights(&self, row: &ClientRow) -> Markup {
        let rights = Room::of(RIGHT_BYTES).fit(&row.rights, row.rights.len(), |right| {
            html! { li { (right.sentence) } }
        });
        let can_narrow = row.rights.iter().filter(|right| right.scope.is_some()).count() > 1;
        let kept =
            Room::of(RIGHT_BYTES).fit(row.rights.iter().enumerate(), MAX_KEPT, |(at, right)| {
                html! { li { (kept_right(at, right)) } }
            });
        // A form without all rights would take away those that it lacks.
        let can_narrow = can_narrow && kept.shown == row.rights.len();
        html! {
            h3 { "What it may do" }
            @if let Access::Approved { id, .. } = &row.access {
                p class="links" { a href={ (EDIT_PATH) "?id=" (encode_component(id)) } { "Change it, folder by folder" } }
            }
            @match &row.access {
                Access::Approved { id, .. } if can_narrow => {
                    form method="post" action=(NARROW_PATH) {
                        (csrf_field(self.csrf_token))
                        input type="hidden" name="id" value=(id);
                        ul class="rights" { (kept) }
                        button class="plain" { "Keep only what is ticked" }
                    }
                }
                access => {
                    ul class="rights" { (rights) }
                    (rights.and_more(row.rights.len()))
                    @match access {
                        Access::Token { jti } if self.has_space => {
                            (self.replacing_link(row, jti))
                        }
                        Access::Starts { connects, narrower, .. } => {
                            (narrowed_by_command(*connects, narrower))
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Returns the link to what puts a narrower token in the place of one. A token that sees
    /// records alone is as wide as its grant.
    fn replacing_link(&self, row: &ClientRow, jti: &str) -> Markup {
        html! {
            @if row.scopes.iter().any(|scope| scope.verb().is_right()) {
                p class="links" {
                    a href={ (CONNECT_PATH) "?replaces=" (encode_component(jti)) "#token" } {
                        "Make a narrower token in its place"
                    }
                }
            } @else if row.has_grant && self.has_records {
                p class="links" { a href=(GRANT_PATH) { "Make a narrower grant" } }
            }
        }
    }

    /// Shows a right that nobody used, with what takes it away.
    fn unused(&self, row: &ClientRow, unused: &UnusedRow) -> Markup {
        let words = if unused.keeps_reading { "Let it only read there" } else { "Take it away" };
        html! {
            div class="warning" {
                p { (unused.sentence) }
                @match &row.access {
                    Access::Approved { id, .. } => {
                        form method="post" action=(TAKE_AWAY_PATH) {
                            (csrf_field(self.csrf_token))
                            input type="hidden" name="id" value=(id);
                            input type="hidden" name="scope" value=(unused.scope);
                            @if unused.keeps_reading {
                                input type="hidden" name="instead" value="read";
                            }
                            button class="plain" {
                                (words) span class="unseen" { ": " (unused.sentence) }
                            }
                        }
                    }
                    Access::Token { jti } => {
                        (self.replacing_link(row, jti))
                    }
                    Access::Starts { .. } => {
                        p { "What it may do says below how to take that away." }
                    }
                }
            }
        }
    }

    fn week(&self, caller: &str, week: &WeekRow) -> Markup {
        let client = encode_component(caller);
        let activity = format!("{ACTIVITY_PATH}?client={client}&days=7");
        let undo = format!("{UNDO_PATH}?client={client}&since={}", encode_component(&week.day_ago));
        html! {
            h3 { "This week" }
            @if week.saw.is_empty() && week.changed.is_empty() {
                p { "It saw and changed nothing." }
            }
            @if !week.saw.is_empty() { p { "It " (listed(&week.saw)) "." } }
            @if !week.changed.is_empty() { p { "It " strong { (listed(&week.changed)) } "." } }
            @if week.refused > 0 { p { (refused(week.refused)) } }
            p class="links" {
                a href=(activity) { "Every call" }
                @if !week.changed.is_empty() { a href=(undo) { "Take back what it changed in the last 24 hours" } }
            }
        }
    }

    fn facts(&self, row: &ClientRow) -> Markup {
        html! {
            dl {
                @match &row.access {
                    Access::Approved { host, .. } => {
                        dt { "Approved" } dd { (when(self.now, row.created)) }
                        dt { "Answers go to" } dd { (host) }
                    }
                    Access::Token { jti } => {
                        dt { "Token made" } dd { (when(self.now, row.created)) }
                        dt { "Its number" } dd { code { (jti) } }
                    }
                    Access::Starts { .. } => {
                        dt { "Connected" } dd { (when(self.now, row.created)) }
                        dt { "How" } dd { "It starts Stile on this computer." }
                    }
                }
                @if let Some(at) = row.last_used { dt { "Last used" } dd { (when(self.now, at)) } }
                @if let Some(at) = row.expires { dt { "Ends" } dd { (when(self.now, at)) } }
            }
        }
    }

    /// Returns what ends the access of a client. It opens first, and so asks once.
    fn end(&self, row: &ClientRow) -> Markup {
        let (path, field, id) = match &row.access {
            Access::Approved { id, .. } => (END_PATH, "id", id),
            Access::Token { jti } | Access::Starts { jti, .. } => (REVOKE_TOKEN_PATH, "jti", jti),
        };
        let name = shown_name(&row.name);
        self.asks_once("End this access…", &format!("End the access of {name}"), (path, field, id))
    }

    fn asks_once(
        &self,
        label: &str,
        button: &str,
        (path, field, id): (&str, &str, &str),
    ) -> Markup {
        html! {
            details class="confirm" {
                summary { (label) }
                form method="post" action=(path) {
                    (csrf_field(self.csrf_token))
                    input type="hidden" name=(field) value=(id);
                    p {
                        "Its next call is refused. What it has read already stays with it: ending \
                         the access does not take that back."
                    }
                    button class="danger" { (button) }
                }
            }
        }
    }

    fn grant(&self, row: &GrantRow) -> Markup {
        let name = shown_name(&row.client_name);
        html! {
            details class="client" {
                summary {
                    span class="who" { bdi { (name) } }
                    span class="used" {
                        @match row.expires {
                            Some(at) => { "ends " (ago(self.now, at)) }
                            None => { "has no end" }
                        }
                    }
                    span class="what" { @if let Some(summary) = &row.summary { (summary) "." } }
                }
                div class="open" {
                    ul class="rights" { @for right in &row.rights { li { (right) } } }
                    dl {
                        dt { "Its number" } dd { code { (row.id) } }
                        @if let Some(at) = row.expires { dt { "Ends" } dd { (when(self.now, at)) } }
                    }
                    (self.asks_once(
                        "Revoke this grant…",
                        &format!("Revoke the grant of {name}"),
                        (REVOKE_GRANT_PATH, "id", &row.id),
                    ))
                }
            }
        }
    }

    fn ended_clients(&self, room: &mut Room) -> Markup {
        let shown = room.fit(&self.ended, self.ended.len(), |row| {
            html! {
                li {
                    bdi { (shown_name(&row.name)) }
                    span class="muted" { (row.how) ", " (when(self.now, row.at)) }
                    @if self.has_space {
                        a href={ (ACTIVITY_PATH) "?days=31&client=" (encode_component(&row.name)) } {
                            "What it did" span class="unseen" { ": " (shown_name(&row.name)) }
                        }
                    }
                }
            }
        });
        html! {
            details class="past" {
                summary { "Ended and expired (" (self.ended.len()) ")" }
                ul class="rows" { (shown) }
                (shown.and_more(self.ended.len()))
            }
        }
    }
}

/// Returns why a client is worth a look, in a few words.
fn reason(row: &ClientRow) -> String {
    let mut reasons: Vec<&str> = row.warnings.iter().map(|warning| warning.reason).collect();
    if !row.unused.is_empty() {
        reasons.push("a right unused");
    }
    match reasons.as_slice() {
        [first, _, ..] => format!("{first}, and {} more", reasons.len() - 1),
        _ => reasons.concat(),
    }
}

/// Says why a client that starts Stile is not narrowed here, and what narrows it.
fn narrowed_by_command(connects: Option<&'static str>, narrower: &str) -> Markup {
    html! {
        p class="muted" {
            "It starts Stile itself, and what it may do stands in its own settings on that \
             computer, so this page can end its access and not narrow it."
        }
        @match connects {
            Some(name) => {
                p class="muted" {
                    "This line, in a terminal there, leaves it less. "
                    a href={ (CONNECT_PATH) "?connects=" (name) "#command" } {
                        "Choose other folders or rights"
                    }
                }
                p class="copy" { code { "stile connect " (name) " " (narrower) " --write" } }
            }
            None => {
                p class="muted" {
                    "In its settings, put the rights that it needs in the place of those behind "
                    code { "stile stdio" } ", and start it again. With these it may do less:"
                }
                p class="copy" { code { (narrower) } }
            }
        }
    }
}

fn kept_right(number: usize, right: &RightRow) -> Markup {
    html! {
        @if let Some(scope) = &right.scope {
            label {
                input type="checkbox" value=(scope) checked name={ (KEPT_FIELD) (number) };
                span { (right.sentence) }
            }
        } @else {
            (right.sentence)
        }
    }
}

fn refused(count: u64) -> String {
    match count {
        1 => "One call was refused.".to_owned(),
        count => format!("{count} calls were refused."),
    }
}

/// The height of the chart, in its own units.
const CHART_HEIGHT: u64 = 20;

/// Draws the calls of each day: changes below, reads above them.
fn chart(days: &[DayCounts]) -> Markup {
    let total = |counts: &DayCounts| counts.reads.saturating_add(counts.changes);
    let most = days.iter().map(total).max().unwrap_or(0);
    let (reads, changes) = days.iter().fold((0_u64, 0_u64), |(reads, changes), counts| {
        (reads.saturating_add(counts.reads), changes.saturating_add(counts.changes))
    });
    // What happened at all is seen.
    let height = |count: u64| match count {
        0 => 0,
        count => (count.saturating_mul(CHART_HEIGHT) / most.max(1)).max(1),
    };
    let bars = |from: &dyn Fn(&DayCounts) -> u64, count: &dyn Fn(&DayCounts) -> u64| {
        let mut path = String::new();
        for (at, counts) in days.iter().enumerate() {
            let (from, height) = (height(from(counts)), height(count(counts)));
            if height > 0 {
                path.push_str(&format!("M{} {}v-{height}", at * 4 + 2, CHART_HEIGHT - from));
            }
        }
        path
    };
    let label = format!("Reads: {reads}, changes: {changes}, in {} days", days.len());
    html! {
        svg class="chart" viewBox={ "0 0 " (days.len() * 4) " " (CHART_HEIGHT) } role="img"
            aria-label=(label)
        {
            title { (label) }
            path class="reads" d=(bars(&|counts| counts.changes, &|counts| counts.reads)) {}
            path class="changes" d=(bars(&|_| 0, &|counts| counts.changes)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(sentence: &str, scope: Option<&str>) -> RightRow {
        RightRow { sentence: html! { (sentence) }, scope: scope.map(str::to_owned) }
    }

    fn view(name: &str, rights: Vec<RightRow>, week: Option<WeekRow>) -> String {
        AccessView {
            csrf_token: "t",
            now: 1_800_000_000,
            clients: vec![ClientRow {
                access: Access::Approved { id: "a1".to_owned(), host: "claude.ai".to_owned() },
                name: name.to_owned(),
                summary: html! { "May read /a." },
                rights,
                created: 1_790_000_000,
                expires: Some(1_810_000_000),
                last_used: None,
                scopes: Scopes::none(),
                has_grant: false,
                unused: Vec::new(),
                warnings: Vec::new(),
                week,
            }],
            shown: ShownClients { all: 1, ..ShownClients::default() },
            ..AccessView::default()
        }
        .markup()
        .into_string()
    }

    #[test]
    fn a_client_with_two_rights_can_be_narrowed_and_each_can_be_ended() {
        let rights = vec![right("a", Some("read:/a")), right("b", Some("read:/b"))];
        let two = view("Claude", rights, None);
        assert!(two.contains(NARROW_PATH) && two.contains(END_PATH), "{two}");
        let one = view("Claude", vec![right("a", Some("read:/a")), right("b", None)], None);
        assert!(!one.contains(NARROW_PATH) && one.contains(END_PATH), "{one}");
    }

    #[test]
    fn the_end_of_an_access_names_the_client_and_what_stays_with_it() {
        let page = view("Claude", vec![right("a", None)], None);
        let (_, end) = page.split_once("class=\"confirm\"").unwrap();
        assert!(end.contains("End the access of Claude</button>"), "{end}");
        assert!(end.contains("stays with it"), "{end}");
    }

    #[test]
    fn the_name_of_a_client_is_text_and_short() {
        let hostile = format!("<script>\u{202e}{}", "x".repeat(4096));
        let page = view(&hostile, vec![right("<b>", None)], Some(WeekRow::default()));
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(!page.contains('\u{202e}'), "{page}");
        let (shown, _) = page.split_once("class=\"links\"").unwrap();
        assert!(!shown.contains(&"x".repeat(100)), "{page}");
    }

    #[test]
    fn a_chart_shows_each_day_and_says_its_sums() {
        let day = |reads, changes| DayCounts { reads, changes, refused: 9 };
        let drawn = chart(&[day(0, 0), day(30, 10), day(1, 0)]).into_string();
        assert!(drawn.contains("Reads: 31, changes: 10, in 3 days"), "{drawn}");
        assert!(drawn.contains("class=\"reads\" d=\"M6 15v-15M10 20v-1\""), "{drawn}");
        assert!(drawn.contains("class=\"changes\" d=\"M6 20v-5\""), "{drawn}");
    }
}
