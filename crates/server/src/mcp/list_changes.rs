//! Tells clients that the tools or resources that they are shown have changed.
//!
//! What a caller is shown depends on rights, which the owner may change from another process, and
//! on what the server has. So while a client listens, its own lists are made again once a second
//! and compared. A client learns of no change of what others are shown.
//!
//! Lists may also change while a client does not listen. So the first comparison is with what the
//! client was last shown ([`ShownLists`]). Where that is not known, as after a restart of the
//! server, each stream begins by telling the client that its lists have changed, until the client
//! asks for a list.
//!
//! The subscriptions of a client end when its session leaves the memory of the server, which a
//! client does not notice. What it subscribed to is kept nowhere. So the streams that such a
//! session opens next each begin by telling that the resources have changed, until the client
//! subscribes, or asks for the resources after it was told: then it knows that it has to.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionSink};
use stile_domain::permit::Principal;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::Scopes;
use stile_tools::toolset::Caller;

use crate::clock::wall_clock;
use crate::service::Service;

/// How often the lists of a client that listens are compared.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may take to accept one notification.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a caller with what their token allows now; `None` once it allows nothing. May block.
pub type CurrentRights = Arc<dyn Fn(&Principal) -> Option<Principal> + Send + Sync>;

/// Returns whether a session has not ended. May block.
pub type IsOpen = Arc<dyn Fn() -> bool + Send + Sync>;

/// The names of the tools that a caller is shown.
type Tools = Vec<&'static str>;
/// What the resources of a caller follow from: scopes, the claim about records, and templates.
type Resources = (Scopes, RecordsClaim, Vec<String>);

/// What a caller is shown.
#[derive(Clone, Debug, PartialEq)]
struct Lists {
    tools: Tools,
    resources: Resources,
}

/// What a client has been shown of a list before it listens.
#[derive(Clone, Debug, Default, PartialEq)]
enum Earlier<T> {
    /// Not known: another process may have answered the client.
    #[default]
    Unknown,
    /// Nothing yet.
    Nothing,
    /// This list.
    Shown(T),
}

/// What a client was last shown of each of its lists.
#[derive(Clone, Debug, Default)]
pub struct ShownLists {
    tools: Earlier<Tools>,
    resources: Earlier<Resources>,
    /// Whether the client knows which of its subscriptions have ended.
    knows_subscriptions: bool,
}

/// Which lists have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListChange {
    /// The list of tools.
    pub tools: bool,
    /// The list of resources, or that of their templates.
    pub resources: bool,
}

/// A client that listens, and what it was shown.
pub struct ListListener {
    service: Service,
    caller: Caller,
    expires: Option<SystemTime>,
    rights: CurrentRights,
    is_open: Option<IsOpen>,
    known: Known,
}

/// What the client of a listener knows.
enum Known {
    /// What the client was shown before it listened.
    Before(ShownLists),
    /// What the client was last compared with.
    Compared(Lists),
    /// The session has ended, and its client was told the last change.
    Ended,
}

/// What a client that listens is shown now.
enum ListsNow {
    /// The session is open.
    Open(Lists),
    /// The session has ended, and its caller still has rights.
    OfEnded(Lists),
    /// The caller has no rights.
    None,
}

impl Lists {
    async fn of(service: &Service, caller: &Caller) -> Self {
        Self { tools: service.listed(caller).await, resources: resources_of(service, caller) }
    }
}

fn resources_of(service: &Service, caller: &Caller) -> Resources {
    let templates = service.resource_templates(caller);
    let templates = templates.into_iter().map(|template| template.uri.into_owned()).collect();
    let principal = &caller.principal;
    (principal.scopes().clone(), principal.records().clone(), templates)
}

impl<T: PartialEq> Earlier<T> {
    /// Returns whether a client that was shown this may miss a change to `now`.
    fn may_miss(&self, now: &T) -> bool {
        match self {
            Self::Unknown => true,
            Self::Nothing => false,
            Self::Shown(shown) => shown != now,
        }
    }
}

impl ShownLists {
    /// Returns what a client was shown whose session has just begun.
    pub fn nothing() -> Self {
        Self { tools: Earlier::Nothing, resources: Earlier::Nothing, knows_subscriptions: true }
    }

    /// Records that the client knows which of its subscriptions have ended.
    pub fn subscriptions_known(&mut self) {
        self.knows_subscriptions = true;
    }

    /// Records the tools that the client is shown now.
    pub fn tools_shown(&mut self, tools: &[&'static str]) {
        self.tools = Earlier::Shown(tools.to_vec());
    }

    /// Records the resources that `service` shows `caller` now.
    pub fn resources_shown(&mut self, service: &Service, caller: &Caller) {
        self.resources = Earlier::Shown(resources_of(service, caller));
    }

    fn change_to(&self, now: &Lists) -> ListChange {
        ListChange {
            tools: self.tools.may_miss(&now.tools),
            resources: !self.knows_subscriptions || self.resources.may_miss(&now.resources),
        }
    }
}

impl ListChange {
    fn between(earlier: &Lists, now: &Lists) -> Self {
        Self { tools: earlier.tools != now.tools, resources: earlier.resources != now.resources }
    }

    fn is_any(self) -> bool {
        self.tools || self.resources
    }
}

impl ListListener {
    /// Compares what `service` shows a caller with what it shows now. `expires` is when the token
    /// of the caller ends. What the client has been shown before is not known.
    pub fn new(
        service: Service,
        caller: Caller,
        expires: Option<SystemTime>,
        rights: CurrentRights,
    ) -> Self {
        let known = Known::Before(ShownLists::default());
        Self { service, caller, expires, rights, is_open: None, known }
    }

    /// Adds what the client has been shown before.
    #[must_use]
    pub fn after(self, shown: ShownLists) -> Self {
        Self { known: Known::Before(shown), ..self }
    }

    /// Ends the listening with a session, too.
    #[must_use]
    pub fn while_open(self, is_open: IsOpen) -> Self {
        Self { is_open: Some(is_open), ..self }
    }

    /// Waits until a list has changed. Returns `None` once the caller has no rights, or the session
    /// has ended. A change that comes with the end of the session is returned before. Asking
    /// whether the session is open takes one up again that was narrowed.
    pub async fn changed(&mut self) -> Option<ListChange> {
        loop {
            if !matches!(self.known, Known::Before(_)) {
                tokio::time::sleep(INTERVAL).await;
            }
            if self.expires.is_some_and(|expires| expires <= wall_clock()) {
                return None;
            }
            let (now, has_ended) = match self.lists_now().await {
                ListsNow::Open(now) => (now, false),
                ListsNow::OfEnded(now) => (now, true),
                ListsNow::None => return None,
            };
            let change = match &self.known {
                Known::Before(shown) => shown.change_to(&now),
                Known::Compared(earlier) => ListChange::between(earlier, &now),
                Known::Ended => return None,
            };
            self.known = if has_ended { Known::Ended } else { Known::Compared(now) };
            if change.is_any() {
                return Some(change);
            }
            if has_ended {
                return None;
            }
        }
    }

    /// Makes the lists. Rights are looked up on a blocking thread.
    async fn lists_now(&self) -> ListsNow {
        let (service, caller) = (self.service.clone(), self.caller.clone());
        let (rights, is_open) = (Arc::clone(&self.rights), self.is_open.clone());
        let made = tokio::task::spawn_blocking(move || {
            let is_open = is_open.is_none_or(|is_open| is_open());
            let principal = rights(&caller.principal)?;
            Some((Caller { principal, ..caller }, is_open))
        });
        match made.await.ok().flatten() {
            Some((caller, true)) => ListsNow::Open(Lists::of(&service, &caller).await),
            Some((caller, false)) => ListsNow::OfEnded(Lists::of(&service, &caller).await),
            None => ListsNow::None,
        }
    }

    /// Tells the client of a session, or of stdio, until it has gone or may listen no longer. While
    /// `is_told` says no, the client is told elsewhere.
    pub async fn tell(mut self, peer: Peer<RoleServer>, is_told: impl Fn() -> bool) {
        while let Some(change) = self.changed().await {
            if peer.is_transport_closed() {
                return;
            }
            if !is_told() {
                continue;
            }
            let sending = async {
                if change.tools {
                    peer.notify_tool_list_changed().await?;
                }
                if change.resources {
                    peer.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::ServiceError>(())
            };
            if matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// Tells the client of a `subscriptions/listen` of the lists that it `wants`.
    pub async fn tell_subscriber(mut self, sink: SubscriptionSink, wants: ListChange) {
        while let Some(change) = self.changed().await {
            let sending = async {
                if change.tools && wants.tools {
                    sink.notify_tool_list_changed().await?;
                }
                if change.resources && wants.resources {
                    sink.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::service::SubscriptionSendError>(())
            };
            if matches!(tokio::time::timeout(SEND_TIMEOUT, sending).await, Ok(Err(_))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn principal(scopes: &str) -> Principal {
        crate::auth::local_user("ann", Scopes::from_claim(scopes), RecordsClaim::None)
    }

    fn listener(rights: CurrentRights, shown: ShownLists) -> ListListener {
        let caller = Caller::local(principal("read:/a/"));
        ListListener::new(Service::default(), caller, None, rights).after(shown)
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_learns_of_its_own_changes_only_and_ends_with_its_rights() {
        let allowed = Arc::new(Mutex::new(Some(principal("read:/a/"))));
        let now = Arc::clone(&allowed);
        let rights: CurrentRights = Arc::new(move |_| now.lock().unwrap().clone());
        let mut listener = listener(rights, ShownLists::nothing());
        let two = tokio::time::timeout(INTERVAL * 2, listener.changed()).await;
        assert!(two.is_err(), "nothing changed");
        *allowed.lock().unwrap() = Some(principal("read:/a/ read:/b/"));
        let change = ListChange { tools: false, resources: true };
        assert_eq!(listener.changed().await, Some(change));
        *allowed.lock().unwrap() = None;
        assert_eq!(listener.changed().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_changed_before_the_listening_is_told_once_and_so_is_what_is_not_known() {
        let rights: CurrentRights = Arc::new(|caller| Some(caller.clone()));
        let mut shown = ShownLists::nothing();
        shown.tools_shown(&[]);
        shown.resources_shown(&Service::default(), &Caller::local(principal("read:/b/")));
        let resources = ListChange { tools: false, resources: true };
        let both = ListChange { tools: true, resources: true };
        for (shown, change) in [(shown, resources), (ShownLists::default(), both)] {
            let mut listener = listener(Arc::clone(&rights), shown);
            assert_eq!(listener.changed().await, Some(change));
            assert!(tokio::time::timeout(INTERVAL * 2, listener.changed()).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_ends_a_session_is_told_before_the_end() {
        let allowed = Arc::new(Mutex::new(principal("read:/a/ read:/b/")));
        let (now, open) = (Arc::clone(&allowed), Arc::new(Mutex::new(true)));
        let rights: CurrentRights = Arc::new(move |_| Some(now.lock().unwrap().clone()));
        let is_open = Arc::clone(&open);
        let listener = listener(rights, ShownLists::nothing());
        let mut listener = listener.while_open(Arc::new(move || *is_open.lock().unwrap()));
        assert!(tokio::time::timeout(INTERVAL * 2, listener.changed()).await.is_err());
        (*allowed.lock().unwrap(), *open.lock().unwrap()) = (principal("read:/a/"), false);
        let change = ListChange { tools: false, resources: true };
        assert_eq!(listener.changed().await, Some(change));
        assert_eq!(listener.changed().await, None);
    }
}
