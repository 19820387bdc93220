//! Serves one client over standard input and output: what `stile stdio` and `stile mcp` share.

use super::process;
use crate::cli::failure::Failure;
use crate::mcp::handler::CallerSource;
use crate::mcp::presentation::Presentation;
use crate::service::Service;

/// Serves one client over standard input and output, until the input ends or the process is asked
/// to stop.
pub(crate) async fn serve(
    service: Service,
    caller: CallerSource,
    presentation: Presentation,
) -> Result<(), Failure> {
    let failure = |error| Failure::Failed(format!("the server failed: {error}"));
    let stop = process::stop_signal().map_err(failure)?;
    tokio::select! {
        served = crate::stdio::serve(service, caller, presentation) => served.map_err(failure),
        () = stop => Ok(()),
    }
}
