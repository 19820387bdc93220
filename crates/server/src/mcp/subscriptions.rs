//! Subscriptions: clients that are told when a resource has changed.
//!
//! In the lifecycle with sessions, `resources/subscribe` adds one address to a session, and the
//! session's event stream gets the notifications. Without sessions, `subscriptions/listen` is one
//! long request with its own addresses. In both a watch of the space decides by the scopes of the
//! subscriber's token what is told. A subscription ends with its token.
//!
//! A session's stream may come with another token of the same caller than the subscription did.
//! Such a stream gets notifications only if both tokens allow the same now. Of several open streams
//! the one opened last counts (`outlets`). While no stream is open nothing is sent, since the SDK
//! would keep it for whoever opens the next one.
//!
//! Where the rights of a subscriber are narrowed, a subscription goes on with the rights that are
//! left, if these cover it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::{self, BoxFuture};
use rmcp::RoleServer;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use stile_domain::permit::Principal;
use stile_store::space::Watch;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::list_changes::{CurrentRights, ListChange, ListListener, ShownLists};
use crate::auth::RIGHTS_CHECK;
use crate::clock::wall_clock;

/// How long a client may take to accept one notification. A client that takes longer is not told of
/// this change again, but of the next one.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether the token of a caller was revoked.
pub type RevocationCheck = Arc<dyn Fn(&Principal) -> bool + Send + Sync>;

/// When the token of a request expires. The endpoint puts this into the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct TokenExpiry(pub SystemTime);

/// The subscriptions of all sessions.
pub struct Subscriptions {
    sessions: Mutex<HashMap<String, Session>>,
    /// The client of each session.
    peers: Mutex<HashMap<String, Peer<RoleServer>>>,
    peer_added: Notify,
    /// What the client of each session was last shown of its lists.
    shown: Mutex<HashMap<String, ShownLists>>,
    is_revoked: RevocationCheck,
    rights: CurrentRights,
    stopping: CancellationToken,
}

struct Session {
    /// The caller whose token came with the event stream that was opened last; `None` while none is
    /// open. On stdio there is one caller, and no stream.
    stream: watch::Sender<Option<Principal>>,
    /// How many streams were opened.
    opened: u64,
    /// The open streams by their numbers, each with the caller whose token came with it.
    open: Vec<(u64, Principal)>,
    /// What ends the subscription to each address.
    ends: HashMap<String, CancellationToken>,
}

/// The open event stream of a session. Once it is dropped, nothing is sent to the session until the
/// next one opens.
pub struct OpenStream {
    of: Arc<Subscriptions>,
    session: String,
    number: u64,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut sessions = self.of.lock();
        let Some(state) = sessions.get_mut(&self.session) else { return };
        state.open.retain(|(number, _)| *number != self.number);
        state.stream.send_replace(state.open.last().map(|(_, caller)| caller.clone()));
        if state.is_unused() {
            sessions.remove(&self.session);
        }
    }
}

impl OpenStream {
    /// Returns what says whether the stream is the one of its session that messages go to.
    fn is_told(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (of, session, number) = (Arc::clone(&self.of), self.session.clone(), self.number);
        move || {
            let sessions = of.lock();
            let last = sessions.get(&session).and_then(|state| state.open.last());
            last.is_some_and(|(last, _)| *last == number)
        }
    }
}

/// Watches an address for a caller; `None` if the caller may not.
pub type WatchFor =
    Arc<dyn Fn(Principal) -> BoxFuture<'static, Option<Watch>> + Send + Sync + 'static>;

/// An address that a subscriber watches.
pub struct Watched {
    /// The address of the resource.
    pub uri: String,
    /// The watch, with the rights that the subscriber has.
    watch: Watch,
    /// The watch with the rights that the subscriber had, for the first wait after these changed.
    before: Option<Watch>,
    /// Watches the address again, with other rights.
    again: WatchFor,
}

/// How long a subscriber may be told of changes.
#[derive(Clone)]
pub struct SubscriberLife {
    /// The caller, whose token may be revoked.
    pub principal: Principal,
    /// When the token expires; `None` on stdio.
    pub expires: Option<SystemTime>,
}

impl Subscriptions {
    /// Keeps subscriptions until `stopping` is cancelled.
    pub fn new(
        is_revoked: RevocationCheck,
        rights: CurrentRights,
        stopping: CancellationToken,
    ) -> Self {
        let (sessions, peers, peer_added) = (Mutex::default(), Mutex::default(), Notify::new());
        let shown = Mutex::default();
        Self { sessions, peers, peer_added, shown, is_revoked, rights, stopping }
    }

    /// Returns what a caller may do now.
    pub fn rights(&self) -> &CurrentRights {
        &self.rights
    }

    /// Records how the client of a session is reached.
    pub fn session_has_peer(&self, session: &str, peer: &Peer<RoleServer>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.get(session).is_none_or(|known| known.is_transport_closed()) {
            // The SDK closes sessions that idle, and says so to nobody. Their subscriptions have
            // ended.
            let closed = |(id, known): (&String, &Peer<RoleServer>)| {
                known.is_transport_closed().then(|| id.clone())
            };
            let closed: Vec<String> = peers.iter().filter_map(closed).collect();
            closed.iter().for_each(|id| drop(peers.remove(id)));
            peers.insert(session.to_owned(), peer.clone());
            let mut shown = self.shown_lists();
            closed.iter().for_each(|id| drop(shown.remove(id)));
            self.peer_added.notify_waiters();
        }
    }

    /// Records that a session has just begun, so that its client was shown no list.
    pub fn session_opened(&self, session: &str) {
        self.shown_lists().insert(session.to_owned(), ShownLists::nothing());
    }

    /// Records with `record` what the client of a session is shown of its lists.
    pub fn lists_shown(&self, session: &str, record: impl FnOnce(&mut ShownLists)) {
        record(self.shown_lists().entry(session.to_owned()).or_default());
    }

    /// Records that the client of a session is shown its resources. If it listens, it was told that
    /// these have changed, should its subscriptions have ended.
    pub fn resources_listed(&self, session: &str) {
        if self.has_stream(session) {
            self.lists_shown(session, ShownLists::subscriptions_known);
        }
    }

    /// Returns what the client of a session was last shown of its lists. Of a session that began in
    /// another process, or that left the memory, nothing is known, so its client is told of a
    /// change until it looks.
    pub fn shown_to(&self, session: &str) -> ShownLists {
        self.shown_lists().get(session).cloned().unwrap_or_default()
    }

    fn shown_lists(&self) -> MutexGuard<'_, HashMap<String, ShownLists>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the client of a session on an open stream when its lists change, until the returned
    /// guard is dropped. Cancels `ended` if the session or its rights end before.
    pub fn tell_of_lists(
        self: &Arc<Self>,
        stream: &OpenStream,
        listener: ListListener,
        ended: CancellationToken,
    ) -> DropGuard {
        let (shared, session) = (Arc::clone(self), stream.session.clone());
        let is_told = stream.is_told();
        let end = CancellationToken::new();
        let dropped = end.clone();
        tokio::spawn(async move {
            let telling = async {
                // A session that left the memory has another peer, and is shown everything anew.
                let peer = shared.peer(&session).await;
                listener.after(shared.shown_to(&session)).tell(peer, is_told).await;
            };
            tokio::select! {
                () = telling => ended.cancel(),
                () = dropped.cancelled() => {}
                () = shared.stopping.cancelled() => {}
            }
        });
        end.drop_guard()
    }

    /// Waits until it is known how the client of a session is reached. A client may open its event
    /// stream before it says that it is initialized.
    async fn peer(&self, session: &str) -> Peer<RoleServer> {
        loop {
            let added = self.peer_added.notified();
            let mut added = std::pin::pin!(added);
            added.as_mut().enable();
            match self.known_peer(session) {
                Some(peer) => return peer,
                None => added.await,
            }
        }
    }

    fn known_peer(&self, session: &str) -> Option<Peer<RoleServer>> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(session).filter(|peer| !peer.is_transport_closed()).cloned()
    }

    /// Subscribes a session to an address, in place of an earlier subscription to it.
    pub fn add(
        self: &Arc<Self>,
        session: &str,
        watched: Watched,
        life: SubscriberLife,
        peer: Peer<RoleServer>,
    ) {
        self.lists_shown(session, ShownLists::subscriptions_known);
        let (end, uri) = (CancellationToken::new(), watched.uri.clone());
        let mut sessions = self.lock();
        let state = sessions.entry(session.to_owned()).or_insert_with(Session::new);
        let stream = life.expires.is_some().then(|| state.stream.subscribe());
        if let Some(earlier) = state.ends.insert(uri.clone(), end.clone()) {
            earlier.cancel();
        }
        drop(sessions);
        let (shared, session) = (Arc::clone(self), session.to_owned());
        tokio::spawn(async move {
            let telling = tell_session(&shared, watched, life, stream, &peer);
            tokio::select! {
                () = telling => shared.remove_ended(&session, &uri, &end),
                () = end.cancelled() => {}
                () = shared.stopping.cancelled() => {}
            }
        });
    }

    /// Ends the subscription of a session to an address, if there is one.
    pub fn remove(&self, session: &str, uri: &str) {
        let mut sessions = self.lock();
        let Some(state) = sessions.get_mut(session) else { return };
        state.ends.remove(uri).iter().for_each(CancellationToken::cancel);
    }

    /// Records the caller whose token came with a session's event stream, until the returned value
    /// is dropped.
    pub fn stream_opened(self: &Arc<Self>, session: &str, caller: &Principal) -> OpenStream {
        let mut sessions = self.lock();
        let state = sessions.entry(session.to_owned()).or_insert_with(Session::new);
        state.opened += 1;
        state.open.push((state.opened, caller.clone()));
        state.stream.send_replace(Some(caller.clone()));
        OpenStream { of: Arc::clone(self), session: session.to_owned(), number: state.opened }
    }

    /// Returns whether an event stream of a session is open here.
    pub fn has_stream(&self, session: &str) -> bool {
        self.lock().get(session).is_some_and(|state| !state.open.is_empty())
    }

    /// Ends all subscriptions of a session that has ended.
    pub fn session_ended(&self, session: &str) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        self.shown_lists().remove(session);
        if let Some(state) = self.lock().remove(session) {
            state.ends.values().for_each(CancellationToken::cancel);
        }
    }

    /// Tells the client of a `subscriptions/listen` of changes until the request or the token ends,
    /// or the server stops.
    ///
    /// Each address and each list is told once at the beginning: the SDK acknowledges the request
    /// before this function can watch anything, so a change may have come in between. And of a
    /// client without a session nobody knows which list it was shown last.
    pub async fn listen(
        self: &Arc<Self>,
        context: SubscriptionContext,
        resources: Vec<Watched>,
        lists: ListListener,
        life: SubscriberLife,
    ) {
        let mut tasks = JoinSet::new();
        let wants = wanted_lists(context.accepted());
        if wants.tools || wants.resources {
            tasks.spawn(lists.tell_subscriber(context.sink().clone(), wants));
        }
        for mut watched in resources {
            let (sink, shared, mut life) = (context.sink().clone(), Arc::clone(self), life.clone());
            tasks.spawn(async move {
                loop {
                    let sending = sink.notify_resource_updated(watched.uri.clone());
                    if matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Err(_))) {
                        return;
                    }
                    if !shared.changed(&mut watched, &mut life, || false).await {
                        return;
                    }
                }
            });
        }
        let all_ended = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all_ended => {}
            () = context.cancelled() => {}
            () = self.stopping.cancelled() => {}
        }
    }

    /// Waits for a change. Returns `false` once the token has ended, or allows it no longer, or
    /// `is_gone` says so. If the token allows less, but this still, it is watched again with what
    /// is left, and a change in between is one.
    async fn changed(
        &self,
        watched: &mut Watched,
        life: &mut SubscriberLife,
        is_gone: impl Fn() -> bool,
    ) -> bool {
        loop {
            let woken = tokio::time::timeout(RIGHTS_CHECK, watched.changed()).await.is_ok();
            if is_gone() {
                return false;
            }
            if self.has_ended(life) && !self.goes_on(watched, life).await {
                return false;
            }
            if woken {
                return true;
            }
        }
    }

    /// Watches an address again with the rights that are left. Returns whether these cover it.
    async fn goes_on(&self, watched: &mut Watched, life: &mut SubscriberLife) -> bool {
        if life.expires.is_some_and(|expires| expires <= wall_clock()) {
            return false;
        }
        let (rights, caller) = (Arc::clone(&self.rights), life.principal.clone());
        let left = tokio::task::spawn_blocking(move || rights(&caller)).await.ok().flatten();
        let Some(left) = left else { return false };
        let Some(watch) = (watched.again)(left.clone()).await else { return false };
        watched.before = Some(std::mem::replace(&mut watched.watch, watch));
        life.principal = left;
        true
    }

    /// Returns whether two callers may read the same files now. What each may do can have changed
    /// since it was verified.
    async fn may_read_the_same(&self, one: Principal, other: Principal) -> bool {
        let rights = Arc::clone(&self.rights);
        let compared = tokio::task::spawn_blocking(move || {
            let [one, other] = [rights(&one)?, rights(&other)?];
            Some(one.scopes() == other.scopes())
        });
        compared.await.ok().flatten().unwrap_or(false)
    }

    fn has_ended(&self, life: &SubscriberLife) -> bool {
        let has_expired = life.expires.is_some_and(|expires| expires <= wall_clock());
        has_expired || (self.is_revoked)(&life.principal)
    }

    /// Forgets a subscription that ended by itself, unless another one took its place.
    fn remove_ended(&self, session: &str, uri: &str, end: &CancellationToken) {
        end.cancel();
        let mut sessions = self.lock();
        if let Some(state) = sessions.get_mut(session) {
            if state.ends.get(uri).is_some_and(CancellationToken::is_cancelled) {
                state.ends.remove(uri);
            }
            if state.is_unused() {
                sessions.remove(session);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Begins to watch an address.
    pub fn new(uri: String, watch: Watch, again: WatchFor) -> Self {
        Self { uri, watch, before: None, again }
    }

    /// Waits for a change. A watch whose place another one took is asked until a wait for both has
    /// begun anew: it has seen what came before the new one.
    async fn changed(&mut self) {
        let Some(before) = self.before.take() else { return self.watch.changed().await };
        future::select(pin!(before.changed()), pin!(self.watch.changed())).await;
    }
}

impl Session {
    fn new() -> Self {
        let (open, ends) = (Vec::new(), HashMap::new());
        Self { stream: watch::Sender::new(None), opened: 0, open, ends }
    }

    fn is_unused(&self) -> bool {
        self.open.is_empty() && self.ends.is_empty()
    }
}

/// Tells a session's event stream of changes, until the session or the token ends.
async fn tell_session(
    shared: &Subscriptions,
    mut watched: Watched,
    mut life: SubscriberLife,
    mut stream: Option<watch::Receiver<Option<Principal>>>,
    peer: &Peer<RoleServer>,
) {
    while shared.changed(&mut watched, &mut life, || peer.is_transport_closed()).await {
        if let Some(stream) = &mut stream {
            // A change before the first stream is told once there is one.
            let opened = stream.wait_for(Option::is_some).await.map(|opened| opened.clone());
            let Ok(Some(opened)) = opened else { return };
            if shared.has_ended(&life) && !shared.goes_on(&mut watched, &mut life).await {
                return;
            }
            if !shared.may_read_the_same(opened, life.principal.clone()).await {
                continue;
            }
        }
        let update = ResourceUpdatedNotificationParam::new(&watched.uri);
        let sending = peer.notify_resource_updated(update);
        if matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Err(_))) {
            return;
        }
    }
}

fn wanted_lists(filter: &SubscriptionFilter) -> ListChange {
    ListChange {
        tools: filter.tools_list_changed == Some(true),
        resources: filter.resources_list_changed == Some(true),
    }
}

/// Returns the part of a request's filter that can be accepted: the lists that are `offered`, and
/// addresses that can be watched.
pub fn acceptable(
    requested: &SubscriptionFilter,
    offered: ListChange,
    is_watchable: impl Fn(&str) -> bool,
) -> SubscriptionFilter {
    let wanted = wanted_lists(requested);
    let uris = requested.resource_subscriptions.iter().flatten();
    let accepted: Vec<String> = uris.filter(|uri| is_watchable(uri)).cloned().collect();
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = (wanted.tools && offered.tools).then_some(true);
    filter.resources_list_changed = (wanted.resources && offered.resources).then_some(true);
    filter.resource_subscriptions = (!accepted.is_empty()).then_some(accepted);
    filter
}
