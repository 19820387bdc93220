//! The port through which a change that waits gives its caller's share of the threads back.

use std::fmt::Debug;
use std::pin::Pin;

/// The share of the threads that a call holds. The call gives it back while it waits.
pub trait ThreadShare: Debug + Send + Sync {
    /// Gives the share back.
    fn give_back(&self);

    /// Takes the share again if that can be done now. Returns whether it was taken.
    fn try_take_back(&self) -> bool;

    /// Waits until the share is taken again.
    fn take_back(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
