//! Serves HTTP until the process is asked to stop: what `stile serve` and `stile gateway` share.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::settings_files::read_secret;
use super::{Failure, process};
use crate::auth::TokenVerifier;
use crate::config::Config;
use crate::http::{GatewayNotesOptions, GatewaySecret, HttpOptions, Timeouts};
use crate::metrics::Metrics;
use crate::service::Service;

/// Serves an offer until the process is asked to stop, and its metrics if they are configured.
/// `on_listening` is called with the address once connections are accepted.
pub(super) async fn serve(
    config: &Config,
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn TokenVerifier>,
    on_listening: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let stop = process::stop_signal()?;
    let Some(metrics_listen) = config.metrics_listen else {
        let served = crate::http::serve(options, service, verifier, stop, on_listening).await;
        return served.map_err(|error| listen_failure(config.listen, &error));
    };
    let metrics = Arc::new(Metrics::default());
    let service = service.with_metrics(Arc::clone(&metrics));
    let stopped = CancellationToken::new();
    let metrics_served = crate::http::serve_metrics(
        metrics_listen,
        metrics,
        stopped.clone().cancelled_owned(),
        |address| print_line(&format!("metrics on http://{address}/metrics")),
    );
    let served = async {
        let served = crate::http::serve(options, service, verifier, stop, on_listening).await;
        stopped.cancel();
        served.map_err(|error| listen_failure(config.listen, &error))
    };
    let metrics_served =
        async { metrics_served.await.map_err(|error| listen_failure(metrics_listen, &error)) };
    tokio::try_join!(metrics_served, served).map(drop)
}

/// Prints where the server listens to standard error.
pub(super) fn print_address(address: SocketAddr) {
    print_line(&format!("listening on http://{address}"));
}

/// Prints a line to standard error in one write. A program that waits for the line never reads only
/// a part of it.
fn print_line(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

pub(super) fn options(config: &Config) -> Result<HttpOptions, Failure> {
    let secret = config
        .gateway_secret_file
        .as_deref()
        .map(|file| read_secret("--gateway-secret-file", file))
        .transpose()?;
    Ok(HttpOptions {
        listen: config.listen,
        public_url: config.public_url.clone(),
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        authorization_servers: Vec::new(),
        max_body_bytes: config.max_body_bytes,
        rate_per_second: config.rate_per_second,
        rate_burst: config.rate_burst,
        sessions_per_subject: config.sessions_per_subject,
        session_idle: Duration::from_secs(config.session_idle_seconds),
        max_connections: config.max_connections,
        tool_names: config.tool_names,
        notes: GatewayNotesOptions {
            vault: config.vault.clone(),
            secret: secret.map(|secret| GatewaySecret::new(secret.as_bytes())),
            trusted_gateway: config.trust_gateway.clone(),
        },
        timeouts: Timeouts::default(),
    })
}

fn listen_failure(listen: SocketAddr, error: &io::Error) -> Failure {
    Failure::Failed(match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another program listens on {listen}; stop it, or choose another port with --listen"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "this machine does not have the address of {listen}; choose another with --listen"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("listening on {listen} is not allowed; choose a port above 1023 with --listen")
        }
        _ => format!("the server failed: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_failure_says_what_to_change() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 9999));
        let messages: Vec<String> = [
            io::ErrorKind::AddrInUse,
            io::ErrorKind::AddrNotAvailable,
            io::ErrorKind::PermissionDenied,
        ]
        .into_iter()
        .map(|kind| match listen_failure(listen, &kind.into()) {
            Failure::Failed(message) => message,
            other => panic!("{other:?}"),
        })
        .collect();
        insta::assert_snapshot!(messages.join("\n"));
    }
}
