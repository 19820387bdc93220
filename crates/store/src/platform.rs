//! What the store asks of the system beside the space: one function for each, in a form for each
//! system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    disk_bytes, free_bytes, identity, identity_of_open, is_writable, lock, lock_shared,
    open_unfollowed, read_at, steady, try_lock, try_lock_shared,
};
#[cfg(windows)]
pub(crate) use windows::{
    LOCKED_BYTE, disk_bytes, free_bytes, identity, identity_of_open, is_writable, lock,
    lock_shared, open_unfollowed, read_at, steady, try_lock, try_lock_shared,
};
