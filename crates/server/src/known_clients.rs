//! Which client the owner means who types a name or an identifier.
//!
//! History and journal know a caller by the approval or the token; the owner knows a client by its
//! name, or by the identifier that lists show. A client that signs in chooses its name itself, so
//! several may have the same one. Tokens that the owner gave one name are one client.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use stile_domain::client_name::{SeveralClients, is_self_named, meant_by};
use stile_domain::records::instant::Instant;
use stile_domain::shortened_id::{NotOneId, full, shortened};
use stile_domain::sign_in::client_metadata::name_of_itself;
use stile_domain::unseen::shown;
use stile_store::history::{ChangeAuthor, ChangeQuery};
use stile_store::state::{StateError, TokenKind, TokenStore};

/// The clients that the state knows.
pub struct KnownClients {
    clients: Vec<KnownClient>,
    /// Which client each approval and each token belongs to, by its number.
    of_caller: HashMap<String, usize>,
    /// The approval of each token that was issued under one.
    of_approvals: HashMap<String, String>,
}

struct KnownClient {
    /// The identifier that lists show.
    id: String,
    name: String,
    /// Whether the owner gave the client its name.
    is_named_by_owner: bool,
    /// When the client was let in first, in UTC seconds since 1970.
    since: i64,
    /// The approvals, or the token, with the tokens that were issued under them.
    callers: Vec<String>,
}

/// Whom the owner means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeantClient {
    /// Everybody of this name.
    Named(String),
    /// The callers with these approvals and tokens.
    Callers(Vec<String>),
}

/// Why what the owner typed means no client, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOneClient {
    /// Lists shorten several names to what the owner typed.
    #[error(transparent)]
    Names(#[from] SeveralClients),
    /// Several clients have the name.
    #[error("`{}` may mean several clients; nothing was done; name one of them by its identifier: \
             {choices}", shown(.typed))]
    SameName {
        /// What the owner typed.
        typed: String,
        /// The identifiers of the clients, with when they were let in.
        choices: String,
    },
    /// The beginning of an identifier means none or several.
    #[error(transparent)]
    Id(#[from] NotOneId),
}

/// Who is told from whom by a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bearer {
    /// The one to whom the owner gave the name.
    OfOwner(String),
    /// The client with this number.
    Client(usize),
    /// The one with this approval or token, which the state does not know any more.
    Forgotten(String),
}

impl KnownClients {
    /// Reads the clients. `now` is in UTC seconds since 1970.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn of(tokens: &TokenStore, now: i64) -> Result<Self, StateError> {
        let of_approvals = tokens.authorizations_of_tokens()?;
        let mut known = Self {
            clients: Vec::new(),
            of_caller: HashMap::new(),
            of_approvals: of_approvals.clone(),
        };
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for approval in tokens.authorizations()? {
            let number = *numbers.entry(approval.client.clone()).or_insert(known.clients.len());
            if number == known.clients.len() {
                known.clients.push(KnownClient {
                    id: approval.client,
                    name: approval.client_name,
                    is_named_by_owner: false,
                    since: approval.created,
                    callers: Vec::new(),
                });
            }
            known.add(number, approval.id);
        }
        for (jti, approval) in &of_approvals {
            if let Some(number) = known.of_caller.get(approval).copied() {
                known.add(number, jti.clone());
            }
        }
        let own_names = tokens.self_given_names(now)?;
        let mut records = tokens.list()?;
        records.retain(|record| {
            record.kind != TokenKind::Import && !of_approvals.contains_key(&record.jti)
        });
        for record in records {
            let own = || own_names.get(&record.jti).and_then(|name| name_of_itself(name));
            let is_named_by_owner = record.client.is_some();
            let number = known.clients.len();
            known.clients.push(KnownClient {
                name: record.client.or_else(own).unwrap_or(record.subject),
                is_named_by_owner,
                since: record.issued,
                callers: Vec::new(),
                id: record.jti.clone(),
            });
            known.add(number, record.jti);
        }
        Ok(known)
    }

    fn add(&mut self, number: usize, caller: String) {
        if let Some(client) = self.clients.get_mut(number) {
            client.callers.push(caller.clone());
            self.of_caller.insert(caller, number);
        }
    }

    /// Returns the callers that an identifier names exactly: those of a client, or an approval or a
    /// token by itself.
    pub fn callers_of(&self, id: &str) -> Option<Vec<String>> {
        let client = self.clients.iter().find(|client| client.id == id);
        client.map(|client| client.callers.clone()).or_else(|| {
            // Lines of older programs name the token alone.
            let issued = self.of_approvals.iter().filter(|(_, approval)| *approval == id);
            let issued = issued.map(|(jti, _)| jti.clone());
            let own = self.of_caller.contains_key(id).then(|| id.to_owned());
            own.map(|own| issued.chain([own]).collect())
        })
    }

    /// Returns the name of the client with an identifier, an approval or a token, with what tells
    /// it from others of the same name. A name that a client gave itself and that has such words
    /// is quoted.
    pub fn told(&self, id: &str) -> Option<String> {
        let number = self.of_caller.get(id).copied();
        let of_id = || self.clients.iter().position(|client| client.id == id);
        let client = self.clients.get(number.or_else(of_id)?)?;
        let same_name = || self.clients.iter().filter(|other| other.name == client.name);
        let since = minute(client.since);
        let same_minute = || same_name().filter(|other| minute(other.since) == since);
        let imitates = !client.is_named_by_owner && client.name.contains(" (since ");
        let name = if imitates { format!("“{}”", client.name) } else { client.name.clone() };
        Some(match (same_name().count(), same_minute().count()) {
            (0 | 1, _) => name,
            (_, 0 | 1) => format!("{name} (since {since})"),
            _ => format!("{name} (since {since}, {})", shortened(&client.id)),
        })
    }

    /// Returns whom a text means of those who made changes or calls. `all` are all of them, and
    /// `within` those of what is asked for: of several with one name only these count.
    ///
    /// # Errors
    /// [`NotOneClient`].
    pub fn meant_by(
        &self,
        typed: &str,
        all: &BTreeSet<ChangeAuthor>,
        within: &BTreeSet<ChangeAuthor>,
    ) -> Result<MeantClient, NotOneClient> {
        let names = meant_by(typed, all.iter().map(|author| author.name.as_str()));
        if let Some(callers) = self.callers_of(typed) {
            return match self.others_named(typed, &callers, self.bearers(all, &names)) {
                Some(several) => Err(several),
                None => Ok(MeantClient::Callers(callers)),
            };
        }
        if !names.is_empty() {
            let bearers = self.bearers(within, &names);
            if let Some(other) = self.begun_by(typed, &bearers) {
                return Err(NotOneClient::SameName {
                    typed: typed.to_owned(),
                    choices: [self.choices(&bearers), other].join(", "),
                });
            }
            return match (names.as_slice(), bearers.len()) {
                ([name], 0 | 1) => Ok(MeantClient::Named((*name).to_owned())),
                (_, 1) => Ok(MeantClient::Named(bearers.values().cloned().collect())),
                ([_], _) => Err(NotOneClient::SameName {
                    typed: typed.to_owned(),
                    choices: self.choices(&bearers),
                }),
                (several, _) => Err(NotOneClient::Names(SeveralClients {
                    typed: typed.to_owned(),
                    names: several.iter().map(|name| (*name).to_owned()).collect(),
                })),
            };
        }
        let ids = self.clients.iter().map(|client| client.id.as_str());
        let id = full(typed, ids.chain(self.of_caller.keys().map(String::as_str)))?;
        let callers = self.callers_of(&id).map(MeantClient::Callers);
        Ok(callers.unwrap_or_else(|| MeantClient::Named(typed.to_owned())))
    }

    /// Returns the refusal of an identifier that another client than the one with `callers` chose
    /// as its name: the identifier of a client may be an address that everybody knows. The choices
    /// name the one by its approvals.
    fn others_named(
        &self,
        typed: &str,
        callers: &[String],
        mut bearers: BTreeMap<Bearer, String>,
    ) -> Option<NotOneClient> {
        let own = |bearer: &Bearer| match bearer {
            Bearer::Client(number) => {
                self.clients.get(*number).is_some_and(|client| client.callers == callers)
            }
            Bearer::Forgotten(id) => callers.contains(id),
            Bearer::OfOwner(_) => false,
        };
        bearers.retain(|bearer, _| !own(bearer));
        if bearers.is_empty() {
            return None;
        }
        let ids = callers.iter().filter(|caller| *caller != typed).cloned();
        let choices = [self.choices(&bearers)].into_iter().chain(ids).collect::<Vec<_>>();
        Some(NotOneClient::SameName { typed: typed.to_owned(), choices: choices.join(", ") })
    }

    /// Returns, of a text that is a name of `bearers`, the identifier of another client that it
    /// begins, too. A client may choose what a list shows of another one as its name.
    fn begun_by(&self, typed: &str, bearers: &BTreeMap<Bearer, String>) -> Option<String> {
        let is_bearer = |number: usize| bearers.contains_key(&Bearer::Client(number));
        let ids = self.of_caller.iter().filter(|(_, number)| !is_bearer(**number));
        let ids = ids.map(|(id, _)| id.as_str());
        let clients = self.clients.iter().enumerate().filter(|(number, _)| !is_bearer(*number));
        let all = clients.map(|(_, client)| client.id.as_str()).chain(ids);
        match full(typed, all) {
            Ok(id) if id != typed => Some(id),
            Err(NotOneId::Several { first, .. }) => Some(first),
            Ok(_) | Err(NotOneId::TooShort(_)) => None,
        }
    }

    /// Returns those who bear one of `names`, each with the name.
    fn bearers(
        &self,
        authors: &BTreeSet<ChangeAuthor>,
        names: &[&str],
    ) -> BTreeMap<Bearer, String> {
        let of_name = authors.iter().filter(|author| names.contains(&author.name.as_str()));
        let bearer = |ChangeAuthor { name, token }: &ChangeAuthor| {
            let number = token.as_ref().and_then(|token| self.of_caller.get(token)).copied();
            let client = number.and_then(|number| self.clients.get(number));
            match (number, client, token) {
                (Some(number), Some(client), _) if !client.is_named_by_owner => {
                    Bearer::Client(number)
                }
                (None, _, Some(token)) if is_self_named(name) => Bearer::Forgotten(token.clone()),
                _ => Bearer::OfOwner(name.clone()),
            }
        };
        of_name.map(|author| (bearer(author), author.name.clone())).collect()
    }

    /// Names clients by their identifiers.
    fn choices(&self, bearers: &BTreeMap<Bearer, String>) -> String {
        let mut choices: Vec<String> = Vec::new();
        for (bearer, name) in bearers {
            let known = |client: &KnownClient| {
                format!("{} (since {})", shortened(&client.id), minute(client.since))
            };
            match bearer {
                Bearer::Client(number) => choices.extend(self.clients.get(*number).map(known)),
                Bearer::Forgotten(id) => choices.push(id.clone()),
                Bearer::OfOwner(_) => {
                    let own = self.clients.iter();
                    let own = own.filter(|client| client.is_named_by_owner && client.name == *name);
                    choices.extend(own.map(known));
                }
            }
        }
        choices.join(", ")
    }
}

impl MeantClient {
    /// Asks for the changes of this client alone.
    pub fn limit(self, query: &mut ChangeQuery) {
        match self {
            Self::Named(name) => query.client = Some(name),
            Self::Callers(callers) => query.callers = Some(callers),
        }
    }
}

/// Returns a time to the minute.
fn minute(seconds: i64) -> Cow<'static, str> {
    let time = Instant::from_seconds(seconds).to_rfc3339();
    format!("{} UTC", time.get(..16).unwrap_or_default().replace('T', " ")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, name: &str, caller: &str) -> KnownClient {
        KnownClient {
            id: id.to_owned(),
            name: name.to_owned(),
            is_named_by_owner: false,
            since: 0,
            callers: vec![caller.to_owned()],
        }
    }

    fn author(name: &str, token: &str) -> ChangeAuthor {
        ChangeAuthor { name: name.to_owned(), token: Some(token.to_owned()) }
    }

    #[test]
    fn an_identifier_that_another_client_chose_as_its_name_means_neither() {
        let address = "https://app.example/client.json";
        let clients = vec![client(address, "app", "approval-one"), client("B7", address, "two")];
        let of_caller = HashMap::from([("approval-one".to_owned(), 0), ("two".to_owned(), 1)]);
        let known = KnownClients { clients, of_caller, of_approvals: HashMap::new() };
        let honest = BTreeSet::from([author("app", "approval-one")]);
        let all = BTreeSet::from([author("app", "approval-one"), author(address, "two")]);
        let of = |id: &str| MeantClient::Callers(vec![id.to_owned()]);
        assert_eq!(known.meant_by(address, &honest, &honest), Ok(of("approval-one")));
        let said = known.meant_by(address, &all, &honest).unwrap_err().to_string();
        assert!(said.contains("approval-one") && said.contains("B7"), "{said}");
        assert_eq!(known.meant_by("approval-one", &all, &all), Ok(of("approval-one")));
        assert_eq!(known.meant_by("B7", &all, &all), Ok(of("two")));
    }

    #[test]
    fn clients_of_one_name_are_told_apart_by_the_minute_or_the_identifier() {
        let client = |id, name, since| KnownClient { since, ..client(id, name, "caller") };
        let decoy = "cursor (since 1970-01-01 00:00 UTC)";
        let long = "A5XzZFc58PrVZIYJRon8mN2vWq0123456789abcdefgh";
        let clients = vec![
            client(long, "cursor", 5),
            client("B7", "cursor", 59),
            client("C8", "cursor", 61),
            client("D9", decoy, 0),
            client("E0", "alone", 0),
        ];
        let (of_caller, of_approvals) = (HashMap::new(), HashMap::new());
        let known = KnownClients { clients, of_caller, of_approvals };
        let told = |id: &str| known.told(id).unwrap();
        let first = "cursor (since 1970-01-01 00:00 UTC, A5XzZFc58PrVZIYJRon8…)";
        assert_eq!(
            (told(long), told("B7")),
            (first.into(), first.replace("A5XzZFc58PrVZIYJRon8…", "B7"))
        );
        assert_eq!(told("C8"), "cursor (since 1970-01-01 00:01 UTC)");
        assert_eq!((told("D9"), told("E0")), (format!("“{decoy}”"), "alone".to_owned()));
    }

    #[test]
    fn a_name_that_is_the_shown_identifier_of_another_client_means_neither() {
        let helper = "A5XzZFc58PrVZIYJRon8mN2vWq0123456789abcdefgh";
        let decoy = shortened(helper).into_owned();
        let clients = vec![client(helper, "helper", "one"), client("B7", &decoy, "two")];
        let of_caller = HashMap::from([("one".to_owned(), 0), ("two".to_owned(), 1)]);
        let known = KnownClients { clients, of_caller, of_approvals: HashMap::new() };
        let all = BTreeSet::from([author("helper", "one"), author(&decoy, "two")]);
        let said = known.meant_by(&decoy, &all, &all).unwrap_err().to_string();
        assert!(said.contains(helper) && said.contains("B7"), "{said}");
        let meant = known.meant_by("helper", &all, &all).unwrap();
        assert_eq!(meant, MeantClient::Named("helper".to_owned()));
        let meant = known.meant_by(&helper[..12], &all, &all).unwrap();
        assert_eq!(meant, MeantClient::Callers(vec!["one".to_owned()]));
    }
}
