//! Tells clients that the tools or resources that they are shown have changed.
//!
//! What a caller is shown depends on rights, which the owner may change from another process, and
//! on what the server has. So while a client listens, its own lists are made again once a second
//! and compared. A client learns of no change of what others are shown.

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

/// What a caller is shown.
#[derive(Clone, Debug, PartialEq)]
struct Lists {
    tools: Vec<&'static str>,
    /// The resources follow from these three.
    resources: (Scopes, RecordsClaim, Vec<String>),
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
    /// What the client was shown when the listening began, or was last told of.
    shown: Option<Lists>,
}

impl Lists {
    async fn of(service: &Service, caller: &Caller) -> Self {
        let templates = service.resource_templates(caller);
        let templates = templates.into_iter().map(|template| template.uri.into_owned()).collect();
        let principal = &caller.principal;
        Self {
            tools: service.listed(caller).await,
            resources: (principal.scopes().clone(), principal.records().clone(), templates),
        }
    }
}

impl ListListener {
    /// Compares what `service` shows a caller with what it shows now. `expires` is when the token
    /// of the caller ends.
    pub fn new(
        service: Service,
        caller: Caller,
        expires: Option<SystemTime>,
        rights: CurrentRights,
    ) -> Self {
        Self { service, caller, expires, rights, is_open: None, shown: None }
    }

    /// Ends the listening with a session, too.
    #[must_use]
    pub fn while_open(self, is_open: IsOpen) -> Self {
        Self { is_open: Some(is_open), ..self }
    }

    /// Waits until a list has changed. Returns `None` once the caller has no rights, or the session
    /// has ended.
    pub async fn changed(&mut self) -> Option<ListChange> {
        let mut shown = match self.shown.take() {
            Some(shown) => shown,
            None => Lists::of(&self.service, &self.caller).await,
        };
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.expires.is_some_and(|expires| expires <= wall_clock()) {
                return None;
            }
            let now = self.lists_now().await?;
            let change = ListChange {
                tools: now.tools != shown.tools,
                resources: now.resources != shown.resources,
            };
            shown = now;
            if change.tools || change.resources {
                self.shown = Some(shown);
                return Some(change);
            }
        }
    }

    /// Makes the lists. Rights are looked up on a blocking thread.
    async fn lists_now(&self) -> Option<Lists> {
        let (service, caller) = (self.service.clone(), self.caller.clone());
        let (rights, is_open) = (Arc::clone(&self.rights), self.is_open.clone());
        let made = tokio::task::spawn_blocking(move || {
            if is_open.is_some_and(|is_open| !is_open()) {
                return None;
            }
            let principal = rights(&caller.principal)?;
            Some(Caller { principal, ..caller })
        });
        let caller = made.await.ok().flatten()?;
        Some(Lists::of(&service, &caller).await)
    }

    /// Tells the client of a session, or of stdio, until it has gone or may listen no longer.
    pub async fn tell(mut self, peer: Peer<RoleServer>) {
        while let Some(change) = self.changed().await {
            if peer.is_transport_closed() {
                return;
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

    #[tokio::test(start_paused = true)]
    async fn a_listener_learns_of_its_own_changes_only_and_ends_with_its_rights() {
        let allowed = Arc::new(Mutex::new(Some(principal("read:/a/"))));
        let now = Arc::clone(&allowed);
        let rights: CurrentRights = Arc::new(move |_| now.lock().unwrap().clone());
        let caller = Caller::local(principal("read:/a/"));
        let mut listener = ListListener::new(Service::default(), caller, None, rights);
        let two = tokio::time::timeout(INTERVAL * 2, listener.changed()).await;
        assert!(two.is_err(), "nothing changed");
        *allowed.lock().unwrap() = Some(principal("read:/a/ read:/b/"));
        let change = ListChange { tools: false, resources: true };
        assert_eq!(listener.changed().await, Some(change));
        *allowed.lock().unwrap() = None;
        assert_eq!(listener.changed().await, None);
    }
}
