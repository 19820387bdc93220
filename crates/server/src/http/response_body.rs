//! Response bodies that last.
//!
//! A [`GuardedBody`] keeps a value alive until the body ends, such as the mark that its connection
//! is busy. An [`ExpiringBody`] ends an event stream when the token expires that the stream was
//! opened with, and within a second after the token was revoked. If the stream answers a request,
//! the call behind it is cancelled then, and its client gets what the call answers to that, or an
//! error.

use std::any::Any;
use std::future::Future as _;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use stile_store::cancellation::Cancellation;

use crate::auth::{LAST_ANSWER, RIGHTS_CHECK};
use crate::clock::wall_clock;

/// A body that keeps a value until the body ends.
pub struct GuardedBody {
    inner: Body,
    guard: Option<Box<dyn Any + Send>>,
}

impl GuardedBody {
    /// Returns `inner` as a body that drops `guard` when it ends.
    pub fn wrap(inner: Body, guard: impl Any + Send) -> Body {
        Body::new(Self { inner, guard: Some(Box::new(guard)) })
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
            this.guard = None;
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

/// A body that ends with the token that it was opened with.
pub struct ExpiringBody {
    inner: Option<Body>,
    expires: SystemTime,
    is_revoked: Box<dyn Fn() -> bool + Send>,
    timer: Pin<Box<Sleep>>,
    ending: Ending,
}

/// A request whose stream may end before the answer.
pub struct UnansweredCall {
    /// Cancels the call behind the stream.
    pub cancellation: Cancellation,
    /// The event that ends the stream if the call does not answer.
    pub last_event: Bytes,
}

/// How a body ends that its token no longer allows.
enum Ending {
    /// At once.
    AtOnce,
    /// With the answer of a call, which is cancelled first.
    WithAnswer(UnansweredCall),
    /// With the answer of a call that was cancelled, or with this event.
    Begun(Bytes),
}

impl ExpiringBody {
    /// Returns `inner` as a body that ends at `expires`, a time of the wall clock, or soon after
    /// `is_revoked`. If it answers a `call`, it ends with the answer to that.
    pub fn wrap(
        inner: Body,
        expires: SystemTime,
        is_revoked: impl Fn() -> bool + Send + 'static,
        call: Option<UnansweredCall>,
    ) -> Body {
        let timer = Box::pin(sleep(until_next_check(expires, wall_clock()).unwrap_or_default()));
        let (is_revoked, inner) = (Box::new(is_revoked), Some(inner));
        let ending = call.map_or(Ending::AtOnce, Ending::WithAnswer);
        Body::new(Self { inner, expires, is_revoked, timer, ending })
    }

    /// Begins to end the body, or ends it with its last event, if it has one.
    fn end(&mut self) -> ControlFlow<Option<Bytes>> {
        match std::mem::replace(&mut self.ending, Ending::AtOnce) {
            Ending::AtOnce => ControlFlow::Break(None),
            Ending::WithAnswer(UnansweredCall { cancellation, last_event }) => {
                cancellation.cancel();
                self.ending = Ending::Begun(last_event);
                ControlFlow::Continue(())
            }
            Ending::Begun(last_event) => ControlFlow::Break(Some(last_event)),
        }
    }
}

/// Returns how long to wait before reading the clock again; `None` once the time has come.
fn until_next_check(expires: SystemTime, now: SystemTime) -> Option<Duration> {
    expires
        .duration_since(now)
        .ok()
        .filter(|left| !left.is_zero())
        .map(|left| left.min(RIGHTS_CHECK))
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
            let has_ended = matches!(this.ending, Ending::Begun(_));
            let wait = match until_next_check(this.expires, wall_clock()) {
                Some(wait) if !has_ended && !(this.is_revoked)() => wait,
                _ => match this.end() {
                    ControlFlow::Continue(()) => LAST_ANSWER,
                    ControlFlow::Break(last) => {
                        this.inner = None;
                        return Poll::Ready(last.map(|last| Ok(Frame::data(last))));
                    }
                },
            };
            this.timer.as_mut().reset(Instant::now() + wait);
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
    fn a_token_is_checked_twice_a_second_and_at_expiry() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(
            until_next_check(now + Duration::from_millis(5), now),
            Some(Duration::from_millis(5))
        );
        assert_eq!(until_next_check(now + Duration::from_secs(86_400), now), Some(RIGHTS_CHECK));
        assert_eq!(until_next_check(now, now), None);
        assert_eq!(until_next_check(now - Duration::from_secs(1), now), None);
    }
}
