//! A seam for tests: the n-th system call of a write fails, and the order of all is known. Nothing
//! at all in a build without tests.

use std::io;

/// The calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    Write,
    Sync,
    Rename,
}

#[cfg(not(test))]
#[inline]
pub(super) fn point(_: Call) -> io::Result<()> {
    Ok(())
}

/// The instant between the comparison and the exchange, where a test lets another program save.
#[cfg(not(test))]
#[inline]
pub(super) fn before_swap() {}

#[cfg(test)]
pub(super) use armed::{arm, before_swap, calls, disarm, on_swap, point};

#[cfg(test)]
mod armed {
    use super::{Call, io};
    use std::cell::{Cell, RefCell};

    thread_local! {
        static LEFT: Cell<Option<(u32, i32)>> = const { Cell::new(None) };
    }

    thread_local! {
        static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    }

    /// The calls of this thread since the last time it asked.
    pub(in crate::space) fn calls() -> Vec<Call> {
        CALLS.take()
    }

    thread_local! {
        static ON_SWAP: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    /// Does something at the next swap of this thread.
    pub(in crate::space) fn on_swap(act: impl FnOnce() + 'static) {
        ON_SWAP.set(Some(Box::new(act)));
    }

    pub(in crate::space) fn before_swap() {
        if let Some(act) = ON_SWAP.take() {
            act();
        }
    }

    /// Lets `after` calls pass and fails the next one with `errno`.
    pub(in crate::space) fn arm(after: u32, errno: i32) {
        LEFT.set(Some((after, errno)));
    }

    /// Whether the armed fault is still waiting; disarms it.
    pub(in crate::space) fn disarm() -> bool {
        LEFT.take().is_some()
    }

    pub(in crate::space) fn point(call: Call) -> io::Result<()> {
        CALLS.with_borrow_mut(|calls| calls.push(call));
        match LEFT.get() {
            Some((0, errno)) => {
                LEFT.set(None);
                Err(io::Error::from_raw_os_error(errno))
            }
            Some((left, errno)) => {
                LEFT.set(Some((left - 1, errno)));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
