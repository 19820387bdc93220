//! What a refusal may tell its caller: nothing of a parent that the scopes hide, and nothing of a
//! file that the caller may only append to.

use stile_domain::path::SpacePath;
use stile_domain::permit::{Action, Permit, Sight};

/// What the refusal of one call may tell.
#[derive(Clone, Debug)]
pub(super) struct Disclosure {
    pub(super) sight: Sight,
    /// The path that the call makes, with its missing parents.
    pub(super) made: Option<SpacePath>,
    /// Whether the call appends to a file that was not read.
    pub(super) is_unread: bool,
}

impl Disclosure {
    /// Returns what may be told to the holder of a permit.
    pub(super) fn of<A: Action>(permit: &Permit<A>) -> Self {
        Self { sight: permit.sight(), made: None, is_unread: false }
    }

    /// Returns the same for a call that makes the path of a permit.
    pub(super) fn making<A: Action>(self, permit: &Permit<A>) -> Self {
        Self { made: Some(permit.path().clone()), ..self }
    }

    /// Returns the same for a call that appends to a file that was not read.
    pub(super) fn unread(self) -> Self {
        Self { is_unread: true, ..self }
    }
}
