//! Lets tests fail the n-th system call of a write, read the order of all calls, and record what
//! each changed on the disk. Does nothing in a build without tests.

use std::io;

use super::identity::Identity;

/// The calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    OpenFolder,
    Write,
    Sync,
    Rename,
    Link,
}

/// What a call changed on the disk, or made durable.
#[derive(Clone, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests read it"))]
pub(super) enum Effect {
    MadeFile { folder: Identity, name: String, file: Identity, mode: u32 },
    MadeFolder { folder: Identity, name: String, made: Identity },
    Wrote { file: Identity, bytes: Vec<u8> },
    Overwrote { file: Identity, bytes: Vec<u8> },
    Truncated { file: Identity, size: u64 },
    SetMode { file: Identity, mode: u32 },
    Synced(Identity),
    Exchanged { folder: Identity, one: String, other: String },
    Renamed { folder: Identity, from: String, to_folder: Identity, to: String },
    Linked { folder: Identity, name: String, file: Identity },
    Removed { folder: Identity, name: String },
}

/// Records an effect, if a test wants it.
#[cfg(not(test))]
#[inline]
pub(super) fn record(_: impl FnOnce() -> io::Result<Effect>) {}

#[cfg(not(test))]
#[inline]
pub(super) fn point(_: Call) -> io::Result<()> {
    Ok(())
}

/// Marks the moment before a call that cannot be made to fail, when a test lets somebody act.
#[cfg(not(test))]
#[inline]
pub(super) fn moment() {}

/// Fails where a test lets the file system have no rename that exchanges or refuses to replace.
#[cfg(not(test))]
#[inline]
pub(super) fn flags() -> io::Result<()> {
    Ok(())
}

/// Returns how many bytes the next append writes at most, as on a full disk.
#[cfg(not(test))]
#[inline]
pub(super) fn most_written() -> Option<usize> {
    None
}

/// Marks the moment after an append was written and before its file is looked at again, when a test
/// lets another program save.
#[cfg(not(test))]
#[inline]
pub(super) fn before_check() {}

/// Marks the moment between the comparison and the exchange, when a test lets another program save.
#[cfg(not(test))]
#[inline]
pub(super) fn before_swap() {}

#[cfg(test)]
pub(super) use armed::{
    after_each_effect, arm, before_check, before_swap, calls, disarm, flags, lack_flags, moment,
    most_written, on_call, on_check, on_swap, point, record, record_effects, recorded,
    write_at_most,
};

#[cfg(test)]
mod armed {
    use super::{Call, Effect, io};
    use std::cell::{Cell, RefCell};

    /// What a test lets another program do.
    type Act = Box<dyn FnOnce()>;

    thread_local! {
        static LEFT: Cell<Option<(u32, i32)>> = const { Cell::new(None) };
        static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
        static EFFECTS: RefCell<Option<Vec<Effect>>> = const { RefCell::new(None) };
        static AFTER_EFFECT: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
        static ON_SWAP: Cell<Option<Act>> = const { Cell::new(None) };
        static ON_CHECK: Cell<Option<Act>> = const { Cell::new(None) };
        static MOST_WRITTEN: Cell<Option<usize>> = const { Cell::new(None) };
        static ON_CALL: Cell<Option<(u32, Act)>> = const { Cell::new(None) };
        static LACKS_FLAGS: Cell<Option<i32>> = const { Cell::new(None) };
    }

    /// Lets every rename of this thread that exchanges or refuses to replace fail with `errno`, as
    /// on a file system that has none.
    pub(in crate::space) fn lack_flags(errno: Option<i32>) {
        LACKS_FLAGS.set(errno);
    }

    pub(in crate::space) fn flags() -> io::Result<()> {
        LACKS_FLAGS.get().map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Lets `after` calls of this thread begin, and runs `act` before the next one.
    pub(in crate::space) fn on_call(after: u32, act: impl FnOnce() + 'static) {
        ON_CALL.set(Some((after, Box::new(act))));
    }

    /// Returns the calls of this thread since the last call of this function.
    pub(in crate::space) fn calls() -> Vec<Call> {
        CALLS.take()
    }

    /// Begins to record the effects of this thread.
    pub(in crate::space) fn record_effects() {
        EFFECTS.set(Some(Vec::new()));
    }

    /// Runs `act` after each effect of this thread that is recorded; `None` ends that.
    pub(in crate::space) fn after_each_effect(act: Option<Box<dyn FnMut()>>) {
        AFTER_EFFECT.set(act);
    }

    /// Returns the effects of this thread since recording began.
    pub(in crate::space) fn recorded() -> Vec<Effect> {
        EFFECTS.with_borrow(|effects| effects.clone().unwrap_or_default())
    }

    pub(in crate::space) fn record(effect: impl FnOnce() -> io::Result<Effect>) {
        EFFECTS.with_borrow_mut(|effects| {
            if let Some(effects) = effects {
                effects.push(effect().unwrap());
                AFTER_EFFECT.with_borrow_mut(|act| act.iter_mut().for_each(|act| act()));
            }
        });
    }

    /// Runs `act` at the next exchange of this thread.
    pub(in crate::space) fn on_swap(act: impl FnOnce() + 'static) {
        ON_SWAP.set(Some(Box::new(act)));
    }

    pub(in crate::space) fn before_swap() {
        if let Some(act) = ON_SWAP.take() {
            act();
        }
    }

    /// Runs `act` after the next append of this thread was written.
    pub(in crate::space) fn on_check(act: impl FnOnce() + 'static) {
        ON_CHECK.set(Some(Box::new(act)));
    }

    pub(in crate::space) fn before_check() {
        if let Some(act) = ON_CHECK.take() {
            act();
        }
    }

    /// Lets the next append of this thread write no more than `bytes` bytes.
    pub(in crate::space) fn write_at_most(bytes: usize) {
        MOST_WRITTEN.set(Some(bytes));
    }

    pub(in crate::space) fn most_written() -> Option<usize> {
        MOST_WRITTEN.take()
    }

    /// Lets `after` calls succeed, and fails the next one with `errno`.
    pub(in crate::space) fn arm(after: u32, errno: i32) {
        LEFT.set(Some((after, errno)));
    }

    /// Disarms the fault. Returns whether it was still pending.
    pub(in crate::space) fn disarm() -> bool {
        LEFT.take().is_some()
    }

    pub(in crate::space) fn moment() {
        match ON_CALL.take() {
            Some((0, act)) => act(),
            Some((left, act)) => ON_CALL.set(Some((left - 1, act))),
            None => {}
        }
    }

    pub(in crate::space) fn point(call: Call) -> io::Result<()> {
        moment();
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
