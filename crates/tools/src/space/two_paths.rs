//! Calls that concern two paths, and need a permit for each.

use stile_domain::error::Refusal;

/// Returns both permits, or one refusal that names the scopes of both paths.
pub(super) fn both<A, B>(
    one: Result<A, Refusal>,
    other: Result<B, Refusal>,
) -> Result<(A, B), Refusal> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (
            Err(Refusal::InsufficientScope { mut needed, granted }),
            Err(Refusal::InsufficientScope { needed: more, .. }),
        ) => {
            needed.extend(more);
            needed.dedup();
            Err(Refusal::InsufficientScope { needed, granted })
        }
        // What no scope helps against is said after what one would help against.
        (Err(Refusal::Guarded { .. }), Err(refusal)) => Err(refusal),
        (Err(refusal), _) | (_, Err(refusal)) => Err(refusal),
    }
}
