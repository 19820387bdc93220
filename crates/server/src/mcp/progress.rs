//! Tells a client that its call is still being worked on.
//!
//! A client that wants to know sends a token with its call. Clients end calls that they hear
//! nothing of, so a call that works for longer than a second is reported once a second. The
//! progress is the number of seconds: what a tool has still to do is not known.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;

/// After how long a call is reported, and how often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Marks a request whose client accepts JSON only, and so no notification before the answer.
#[derive(Clone, Copy, Debug)]
pub struct JsonOnly;

/// Tells the client of a request of its progress, if it asked for it, until the future is dropped.
pub(super) async fn tell(context: &RequestContext<RoleServer>) -> Infallible {
    let parts = context.extensions.get::<http::request::Parts>();
    let accepts_json_only = parts.is_some_and(|parts| parts.extensions.get::<JsonOnly>().is_some());
    if let Some(token) = context.meta.get_progress_token().filter(|_| !accepts_json_only) {
        let mut seconds = 0_u32;
        loop {
            tokio::time::sleep(INTERVAL).await;
            seconds = seconds.saturating_add(1);
            let progress = ProgressNotificationParam::new(token.clone(), seconds.into());
            let progress = progress.with_message(format!("working for {seconds} s"));
            if context.peer.notify_progress(progress).await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}
