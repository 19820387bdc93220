//! Reads the files that settings name: secrets, tokens and certificates.

use std::path::Path;
use std::time::Duration;

use stile_store::state::read_settings;

use crate::cli::failure::Failure;
use crate::config::Config;
use crate::outbound::OutboundClient;
use crate::outbound::public_https::{PublicHttps, SystemNetwork};

/// Returns the client for requests to other servers, which trusts the configured authorities.
pub(crate) fn http_client(config: &Config) -> Result<OutboundClient, Failure> {
    let connect = Duration::from_secs(config.upstream_connect_seconds);
    http_client_with(config.ca_file.as_deref(), connect)
}

/// Returns a client for requests to other servers that trusts the authorities in `ca_file`, too.
pub(crate) fn http_client_with(
    ca_file: Option<&Path>,
    connect: Duration,
) -> Result<OutboundClient, Failure> {
    let authorities = ca_file.map(|file| read("--ca-file", file)).transpose()?;
    OutboundClient::new(authorities.as_deref(), connect)
        .map_err(|error| Failure::Usage(format!("--ca-file {error}")))
}

/// Returns what fetches documents that strangers name, from the public network only. It trusts the
/// system's authorities and no others.
pub(crate) fn public_https() -> Result<PublicHttps, Failure> {
    PublicHttps::new(SystemNetwork, None).map_err(|error| Failure::Failed(error.to_string()))
}

/// Reads the one line of a file that holds a secret or a token. `flag` names the file in errors.
pub(crate) fn read_secret(flag: &str, file: &Path) -> Result<String, Failure> {
    let text = read(flag, file)?;
    let secret = text.trim();
    let fits = !secret.is_empty()
        && secret.len() <= 8 * 1024
        && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(secret.to_owned())
    } else {
        Err(Failure::Usage(format!(
            "the file of {flag} must hold one line of printable ASCII without spaces"
        )))
    }
}

fn read(flag: &str, file: &Path) -> Result<String, Failure> {
    read_settings(file)
        .map_err(|error| Failure::Usage(format!("cannot read the file of {flag}: {error}")))
}
