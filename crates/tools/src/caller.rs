//! Who makes a call, and what belongs to the call besides its arguments.

use std::sync::Arc;

use stile_domain::permit::Principal;
use stile_domain::tool_name::ShownTools;
use stile_store::cancellation::Cancellation;
use stile_store::space::ThreadShare;

use crate::note_session::NoteSession;

/// A caller whose token was verified for this request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who calls, with the scopes and the claim about records of the token.
    pub principal: Principal,
    /// How the caller's list spells the names of tools, and so all that the caller reads.
    pub names: ShownTools,
    /// The session for notes that another server has; `None` where this server has the files.
    pub session: Option<NoteSession>,
    /// Cancels the call. A change that has not begun by then writes nothing.
    pub cancellation: Cancellation,
    /// The caller's share of the threads, which a call gives back while it waits.
    pub thread_share: Option<Arc<dyn ThreadShare>>,
}

impl Caller {
    /// Creates the caller for the local user, who started this process.
    pub fn local(principal: Principal) -> Self {
        let names = ShownTools::default();
        Self {
            principal,
            names,
            session: None,
            cancellation: Cancellation::default(),
            thread_share: None,
        }
    }
}
