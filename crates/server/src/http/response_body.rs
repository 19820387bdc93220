//! Answers that take a while.
//!
//! The body of an answer carries along what must last as long as it does, such as the mark that its
//! connection is busy; and an event stream ends when the token expires that it was opened with,
//! however long its client would go on listening.

use std::any::Any;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// The wall clock may jump, so it is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A body that holds on to something until it ends.
pub struct GuardedBody {
    inner: Body,
    held: Option<Box<dyn Any + Send>>,
}

impl GuardedBody {
    /// Lets `what` live as long as `inner`.
    pub fn body(inner: Body, what: impl Any + Send) -> Body {
        Body::new(Self { inner, held: Some(Box::new(what)) })
    }
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            this.held = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body that ends at a moment of the wall clock.
pub struct ExpiringBody {
    inner: Option<Body>,
    expires: SystemTime,
    timer: Pin<Box<Sleep>>,
}

impl ExpiringBody {
    /// Ends `inner` at `expires`.
    pub fn body(inner: Body, expires: SystemTime) -> Body {
        let timer = Box::pin(sleep(next_look(expires, SystemTime::now()).unwrap_or_default()));
        Body::new(Self { inner: Some(inner), expires, timer })
    }
}

/// How long to wait before looking again; `None` once it has expired.
fn next_look(expires: SystemTime, now: SystemTime) -> Option<Duration> {
    expires.duration_since(now).ok().filter(|left| !left.is_zero()).map(|left| left.min(LOOK_AGAIN))
}

impl HttpBody for ExpiringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        while this.timer.as_mut().poll(cx).is_ready() {
            match next_look(this.expires, SystemTime::now()) {
                Some(wait) => this.timer.as_mut().reset(Instant::now() + wait),
                None => {
                    this.inner = None;
                    return Poll::Ready(None);
                }
            }
        }
        match &mut this.inner {
            Some(inner) => Pin::new(inner).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_looked_at_again_before_long_and_at_the_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(next_look(now + Duration::from_secs(5), now), Some(Duration::from_secs(5)));
        assert_eq!(next_look(now + Duration::from_secs(86_400), now), Some(LOOK_AGAIN));
        assert_eq!(next_look(now, now), None);
        assert_eq!(next_look(now - Duration::from_secs(1), now), None);
    }
}
