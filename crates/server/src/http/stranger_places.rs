//! The places of strangers: connections on which no good token came yet.
//!
//! A stranger can open thousands of connections and leave each of them before a request, in a
//! head, or in a body. So the connections of strangers have a bound of their own, and those of
//! verified callers are counted by [`Shares`](crate::shares::Shares) alone: whatever strangers do,
//! no connection of a verified caller is closed for them, and a place is left for the next one.
//!
//! Beyond the bound one connection is closed for each new one: of those that wait for their
//! client, the oldest, and if the server owes all of them an answer, the oldest of all. One source
//! (an address of IPv4, a /64 of IPv6) has at most half of the places, and so has each way in, so
//! neither one machine nor one endpoint takes all of them. Where several sources share a bound, the
//! source that has most loses first. *Source*: decision 60.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// What a connection of a stranger is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WayIn {
    /// Nothing yet: the head of a request has not arrived.
    NoRequest,
    /// `/mcp`.
    Mcp,
    /// The endpoints of the authorization server that programs call.
    OAuth,
    /// The records of `/v1`, and the notes that a gateway reads.
    Records,
    /// Metadata, and whether the server runs.
    Metadata,
    /// Pages for browsers, and addresses that lead nowhere.
    Pages,
}

impl WayIn {
    /// Returns the way in that the path of a request leads to.
    pub fn of(path: &str) -> Self {
        let below = |folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if path == "/" || path == "/mcp" || path == "/mcp/" {
            Self::Mcp
        } else if below("/oauth") {
            Self::OAuth
        } else if below("/v1") || below("/api") {
            Self::Records
        } else if path.contains("/.well-known/") || path == "/health" || path == "/ready" {
            Self::Metadata
        } else {
            Self::Pages
        }
    }

    /// Returns a name of the way in that no other has.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRequest => "",
            Self::Mcp => "mcp",
            Self::OAuth => "oauth",
            Self::Records => "records",
            Self::Metadata => "metadata",
            Self::Pages => "pages",
        }
    }
}

/// Whom a connection waits for. The order is that in which connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The client: for a handshake, a request, or the rest of one.
    Client,
    /// The server, which has the whole request.
    Server,
}

/// A connection of a stranger.
#[derive(Clone, Debug)]
struct Stranger {
    id: u64,
    source: IpAddr,
    way: WayIn,
    stage: Stage,
    /// Grows with the time at which the connection was opened or was last free.
    turn: u64,
    close: CancellationToken,
}

impl Stranger {
    /// Returns the key whose order is that in which connections of a source are closed.
    fn key(&self) -> CloseKey {
        (self.stage, self.turn, self.id)
    }
}

/// The stage, the turn and the number of a connection.
type CloseKey = (Stage, u64, u64);

/// Connections that share a bound, by source. Strangers choose how often there is a change, so each
/// change takes a time that grows with the logarithm of their number.
#[derive(Default)]
struct Group {
    count: usize,
    by_source: HashMap<IpAddr, BTreeSet<CloseKey>>,
    /// Each source with its number of connections and the one of them that is closed first. The
    /// last source loses first.
    order: BTreeSet<(usize, Reverse<CloseKey>, IpAddr)>,
}

impl Group {
    fn insert(&mut self, source: IpAddr, key: CloseKey) {
        self.change(source, |keys| keys.insert(key));
        self.count += 1;
    }

    fn remove(&mut self, source: IpAddr, key: CloseKey) {
        self.change(source, |keys| keys.remove(&key));
        self.count -= 1;
    }

    fn change(&mut self, source: IpAddr, change: impl FnOnce(&mut BTreeSet<CloseKey>) -> bool) {
        let place = |keys: &BTreeSet<CloseKey>| {
            keys.first().map(|first| (keys.len(), Reverse(*first), source))
        };
        let keys = self.by_source.entry(source).or_default();
        if let Some(before) = place(keys) {
            self.order.remove(&before);
        }
        change(keys);
        match place(keys) {
            Some(after) => {
                self.order.insert(after);
            }
            None => {
                self.by_source.remove(&source);
            }
        }
    }

    /// Returns how many connections a source has.
    fn of_source(&self, source: IpAddr) -> usize {
        self.by_source.get(&source).map_or(0, BTreeSet::len)
    }

    /// Returns the connection of a source that is closed first, but never `newest`.
    fn first_of(&self, source: IpAddr, newest: u64) -> Option<u64> {
        let keys = self.by_source.get(&source)?;
        keys.iter().map(|(_, _, id)| *id).find(|id| *id != newest)
    }

    /// Returns the connection that is closed first, of the source that has most, but never
    /// `newest`.
    fn first(&self, newest: u64) -> Option<u64> {
        self.order.iter().rev().find_map(|(_, _, source)| self.first_of(*source, newest))
    }
}

#[derive(Default)]
struct State {
    next: u64,
    strangers: HashMap<u64, Stranger>,
    all: Group,
    by_way: HashMap<WayIn, Group>,
}

/// The places of strangers on a server.
#[derive(Clone)]
pub struct StrangerPlaces {
    places: usize,
    state: Arc<Mutex<State>>,
}

impl StrangerPlaces {
    /// Has `places` places, at least one.
    pub fn new(places: usize) -> Self {
        Self { places: places.max(1), state: Arc::default() }
    }

    /// Gives a place to a connection that `source` has opened, and closes another one if there
    /// are too many.
    pub fn take(&self, source: IpAddr) -> Place {
        let close = CancellationToken::new();
        let id = self.lock().turn();
        let place = Place { of: self.clone(), source, id, close, is_in: AtomicBool::new(false) };
        place.change(|_| {});
        place
    }

    /// Closes other connections than `newest` until those of its source, those of its way in, and
    /// all keep to their bounds.
    fn make_room(&self, state: &mut State, newest: u64) {
        let half = (self.places / 2).max(1);
        let Some(&Stranger { source, way, .. }) = state.strangers.get(&newest) else { return };
        while state.all.of_source(source) > half {
            let first = state.all.first_of(source, newest);
            if !state.close(first) {
                break;
            }
        }
        while let Some(group) = state.by_way.get(&way).filter(|group| group.count > half) {
            let first = group.first(newest);
            if !state.close(first) {
                break;
            }
        }
        while state.all.count > self.places {
            let first = state.all.first(newest);
            if !state.close(first) {
                break;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn insert(&mut self, stranger: Stranger) {
        let (source, key) = (stranger.source, stranger.key());
        self.all.insert(source, key);
        self.by_way.entry(stranger.way).or_default().insert(source, key);
        self.strangers.insert(stranger.id, stranger);
    }

    fn remove(&mut self, id: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&id)?;
        let (source, key) = (stranger.source, stranger.key());
        self.all.remove(source, key);
        if let Some(group) = self.by_way.get_mut(&stranger.way) {
            group.remove(source, key);
        }
        Some(stranger)
    }

    /// Closes a connection. Returns whether there was one.
    fn close(&mut self, id: Option<u64>) -> bool {
        let closed = id.and_then(|id| self.remove(id));
        closed.inspect(|stranger| stranger.close.cancel()).is_some()
    }
}

/// The place of one connection, given back when dropped.
pub struct Place {
    of: StrangerPlaces,
    /// The source that opened the connection. Behind a proxy, that is the proxy.
    source: IpAddr,
    id: u64,
    close: CancellationToken,
    /// Whether the connection counts as a stranger's. Requests of verified callers look at this
    /// alone, and wait for no lock that strangers take.
    is_in: AtomicBool,
}

impl Place {
    /// Returns whether the connection counts as a stranger's now.
    pub fn is_of_stranger(&self) -> bool {
        self.is_in.load(Ordering::Acquire) && !self.close.is_cancelled()
    }

    /// Returns whether requests of this source came through a proxy, which opened the connection.
    pub fn is_proxied(&self, source: IpAddr) -> bool {
        self.source != source
    }

    /// Counts a request of a stranger: from now on the connection is of the request's source and
    /// way in, and waits for the rest of the request.
    pub fn begin(&self, source: IpAddr, way: WayIn) {
        self.change(|stranger| {
            (stranger.source, stranger.way, stranger.stage) = (source, way, Stage::Client);
        });
    }

    /// Notes that the whole request has arrived, and that the client now waits for the server.
    pub fn request_arrived(&self) {
        if self.is_of_stranger() {
            self.change(|stranger| stranger.stage = Stage::Server);
        }
    }

    /// Notes that the request was answered, and that no caller was verified. The connection is the
    /// youngest of those that wait for their clients.
    pub fn answered(&self) {
        let turn = self.of.lock().turn();
        self.change(|stranger| {
            (stranger.way, stranger.stage) = (WayIn::NoRequest, Stage::Client);
            stranger.turn = turn;
        });
    }

    /// Changes the entry of a connection, or enters it, and closes others if there are too many.
    fn change(&self, change: impl FnOnce(&mut Stranger)) {
        let mut state = self.of.lock();
        if self.close.is_cancelled() {
            return;
        }
        let stranger = state.remove(self.id);
        let mut stranger = stranger.unwrap_or_else(|| Stranger {
            id: self.id,
            source: self.source,
            way: WayIn::NoRequest,
            stage: Stage::Client,
            turn: state.turn(),
            close: self.close.clone(),
        });
        change(&mut stranger);
        state.insert(stranger);
        self.is_in.store(true, Ordering::Release);
        self.of.make_room(&mut state, self.id);
    }

    /// Gives the place back: the connection is a verified caller's.
    pub fn leave(&self) {
        if self.is_in.swap(false, Ordering::AcqRel) {
            self.of.lock().remove(self.id);
        }
    }

    /// Completes when the connection must close to make room for another.
    pub async fn must_close(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    /// The connections that are still open, by their position in the list.
    fn open(places: &[Place]) -> Vec<usize> {
        let is_open = |place: &Place| !place.close.is_cancelled();
        places.iter().enumerate().filter(|(_, place)| is_open(place)).map(|(at, _)| at).collect()
    }

    #[test]
    fn one_source_has_half_of_the_places_and_loses_its_oldest_first() {
        let places = StrangerPlaces::new(8);
        let other = places.take(source(2));
        other.begin(source(2), WayIn::Pages);
        let all: Vec<Place> = (0..20).map(|_| places.take(source(1))).collect();
        assert_eq!(open(&all), [16, 17, 18, 19]);
        assert!(other.is_of_stranger());
    }

    #[test]
    fn one_way_in_has_half_of_the_places_and_the_source_with_most_loses_first() {
        let places = StrangerPlaces::new(8);
        let of = |number| {
            let place = places.take(source(number));
            place.begin(source(number), WayIn::OAuth);
            place
        };
        let all: Vec<Place> = [1, 2, 3, 3, 4, 5].map(of).into();
        // The first of source 3, and then the oldest, since each source has one.
        assert_eq!(open(&all), [1, 3, 4, 5]);
        let elsewhere = places.take(source(6));
        elsewhere.begin(source(6), WayIn::Mcp);
        assert!(elsewhere.is_of_stranger());
    }

    #[test]
    fn strangers_never_have_more_than_all_places_and_each_source_keeps_its_part() {
        let places = StrangerPlaces::new(8);
        let own = places.take(source(99));
        let all: Vec<Place> = (0..100).map(|number| places.take(source(number % 3))).collect();
        assert!(open(&all).len() <= 8);
        assert!(own.is_of_stranger());
    }

    #[test]
    fn what_waits_for_its_client_goes_before_what_waits_for_the_server() {
        let places = StrangerPlaces::new(4);
        let all: Vec<Place> = (0..2).map(|_| places.take(source(1))).collect();
        all[0].begin(source(1), WayIn::OAuth);
        all[0].request_arrived();
        let next = places.take(source(1));
        assert_eq!(open(&all), [0]);
        next.begin(source(1), WayIn::OAuth);
        next.request_arrived();
        // Both wait for the server, and nobody may hold a place for good.
        let last = places.take(source(1));
        assert!(open(&all).is_empty());
        assert!(next.is_of_stranger() && last.is_of_stranger());
    }

    #[test]
    fn a_verified_caller_leaves_and_is_never_closed_for_strangers() {
        let places = StrangerPlaces::new(2);
        let own = places.take(source(1));
        own.begin(source(1), WayIn::Mcp);
        own.leave();
        let all: Vec<Place> = (0..9).map(|_| places.take(source(1))).collect();
        assert!(!own.close.is_cancelled() && !own.is_of_stranger());
        assert_eq!(open(&all), [8]);
        drop(all);
        let state = places.lock();
        assert!(state.strangers.is_empty() && state.all.by_source.is_empty(), "all are given back");
        assert_eq!((state.all.count, state.all.order.len()), (0, 0));
    }

    #[test]
    fn behind_a_proxy_the_source_of_each_request_counts() {
        let places = StrangerPlaces::new(8);
        let proxy = source(1);
        let through = |number: u8| {
            let place = places.take(proxy);
            place.begin(source(number), WayIn::Pages);
            assert!(place.is_proxied(source(number)));
            place
        };
        let own = through(9);
        let all: Vec<Place> = (0..20).map(|_| through(2)).collect();
        assert!(own.is_of_stranger());
        assert!(open(&all).len() <= 4);
    }

    #[test]
    fn the_oldest_goes_by_when_it_was_last_free() {
        let places = StrangerPlaces::new(4);
        let all: Vec<Place> = (0..2).map(|_| places.take(source(1))).collect();
        all[0].begin(source(1), WayIn::Pages);
        all[0].request_arrived();
        all[0].answered();
        let _next = places.take(source(1));
        assert_eq!(open(&all), [0]);
    }

    #[test]
    fn each_route_has_a_way_in() {
        for (path, way) in [
            ("/", WayIn::Mcp),
            ("/mcp/", WayIn::Mcp),
            ("/oauth/token", WayIn::OAuth),
            ("/v1/streams", WayIn::Records),
            ("/api/v1/notes/a", WayIn::Records),
            ("/.well-known/oauth-protected-resource/mcp", WayIn::Metadata),
            ("/mcp/.well-known/openid-configuration", WayIn::Metadata),
            ("/health", WayIn::Metadata),
            ("/consent", WayIn::Pages),
            ("/oauthx", WayIn::Pages),
        ] {
            assert_eq!(WayIn::of(path), way, "{path}");
        }
    }
}
