//! Attempts a change until it can be made, and waits in between without a thread.
//!
//! An attempt runs on a thread that may block. If the attempt finds that it has to wait, it ends,
//! and its thread and the caller's share of the threads are free for other calls. Changes of one
//! folder take turns in the order of their first attempts. The wait ends after
//! [`super::SpaceOptions::lock_wait`], or when the call is cancelled.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use stile_domain::error::Refusal;
use tokio::time::{Instant, sleep, timeout_at};

use super::Space;
use super::disclosure::Disclosure;
use super::lock::{FolderTurn, Stop, Wait};
use super::write::Change;

/// The first pause between two attempts. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause while another process holds the lock. One change of a folder asks at a time.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
/// The longest pause while there is no room, since any number of changes ask.
const LONGEST_ROOM_PAUSE: Duration = Duration::from_millis(64);

impl Space {
    /// Attempts `work` until it is done or refused. A refusal tells what `to` allows.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        to: Disclosure,
        mut work: impl FnMut(&Change<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Refusal> {
        let deadline = Instant::now() + self.options.lock_wait;
        let mut pause = FIRST_PAUSE;
        let (mut turn, mut gives_up) = (None, false);
        loop {
            let (cancellation, call) = (self.cancellation.clone(), Arc::clone(&self.call));
            let made = to.clone();
            let attempt = self.answer(to.clone(), move |inner| {
                // What the owner gives back stands where it stood, beside whatever looks like it.
                if !call.is_of_owner() {
                    inner.refuse_twin(&made)?;
                }
                let turn = Cell::new(turn);
                let cancellation = &cancellation;
                let change = Change { inner, cancellation, call: &call, turn, gives_up };
                match work(&change) {
                    Ok(done) => Ok(Ok(done)),
                    Err(Stop::Refused(refusal)) => Err(refusal),
                    Err(Stop::MustWait(wait)) => Ok(Err((wait, work))),
                }
            });
            let wait = match attempt.await? {
                Ok(done) => return Ok(done),
                Err((wait, again)) => {
                    work = again;
                    wait
                }
            };
            let waiting = timeout_at(deadline, self.wait_without_thread(wait, &mut pause));
            tokio::select! {
                biased;
                () = self.cancellation.cancelled() => (turn, gives_up) = (None, true),
                waited = waiting => match waited {
                    Ok(next) => turn = next,
                    Err(_) => (turn, gives_up) = (None, true),
                },
            }
        }
    }

    /// Waits, and then for the caller's share of the threads. Returns the turn, if the caller has
    /// it. Nobody's turn waits for a share.
    async fn wait_without_thread(&self, wait: Wait, pause: &mut Duration) -> Option<FolderTurn> {
        if let Some(share) = &self.thread_share {
            share.give_back();
        }
        let turn = match wait {
            Wait::Turn(turn) => turn.await.ok(),
            Wait::Others(turn) => {
                sleep(*pause).await;
                *pause = (*pause * 2).min(LONGEST_PAUSE);
                Some(turn)
            }
            Wait::Room => {
                sleep(*pause).await;
                *pause = (*pause * 2).min(LONGEST_ROOM_PAUSE);
                None
            }
        };
        match &self.thread_share {
            Some(share) if !share.try_take_back() => {
                drop(turn);
                share.take_back().await;
                None
            }
            _ => turn,
        }
    }
}
