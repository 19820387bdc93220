//! Serves HTTP until the process is asked to stop: what `stile serve` and `stile gateway` share.

use std::io::{self};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::uri::Scheme;
use stile_store::files::others_can_read;
use stile_store::state::RunningNote;
use tokio_util::sync::CancellationToken;

use super::process;
use super::settings_files::read_secret;
use crate::auth::TokenVerifier;
use crate::cli::failure::Failure;
use crate::cli::terminal::print_line;
use crate::config::{Config, YesNo};
use crate::http::peer::{DirectClients, PeerPolicy};
use crate::http::tls::{TlsFiles, TlsIdentity};
use crate::http::{GatewayNotesOptions, GatewaySecret, HttpOptions, Timeouts};
use crate::mcp::presentation::Presentation;
use crate::service::Service;

/// Serves an offer until the process is asked to stop, and its metrics if they are configured.
/// `on_listening` is called with the address once connections are accepted. The note that it
/// returns is withdrawn before the address is given up, so that nobody takes a later owner of the
/// address for this server.
pub(crate) async fn serve(
    config: &Config,
    options: HttpOptions,
    service: Service,
    verifier: Arc<dyn TokenVerifier>,
    on_listening: impl FnOnce(SocketAddr) -> Option<RunningNote>,
) -> Result<(), Failure> {
    let note = Mutex::new(None);
    let lock = || note.lock().unwrap_or_else(PoisonError::into_inner);
    let on_listening = |address| *lock() = on_listening(address);
    let stop = process::stop_signal()?;
    let stop = async {
        stop.await;
        lock().take();
    };
    let Some(metrics_listen) = config.metrics_listen else {
        let served = crate::http::serve(options, service, verifier, stop, on_listening).await;
        return served.map_err(|error| listen_failure(config.listen, &error));
    };
    let metrics = Arc::clone(service.metrics());
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
pub(crate) fn print_address(config: &Config, address: SocketAddr) {
    print_line(&format!("listening on {}://{address}", scheme(config)));
}

/// Returns the scheme that clients connect with.
pub(crate) fn scheme(config: &Config) -> Scheme {
    if config.tls_certificate.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
}

/// Returns the address that a client on this machine, or behind the operator's proxy, connects to.
pub(crate) fn client_url(config: &Config, address: SocketAddr) -> String {
    let scheme = scheme(config);
    let origin = config.public_url.clone().unwrap_or_else(|| match address {
        SocketAddr::V4(address) if address.ip().is_unspecified() => {
            format!("{scheme}://127.0.0.1:{}", address.port())
        }
        SocketAddr::V6(address) if address.ip().is_unspecified() => {
            format!("{scheme}://[::1]:{}", address.port())
        }
        address => format!("{scheme}://{address}"),
    });
    origin + "/mcp"
}

pub(crate) fn options(config: &Config) -> Result<HttpOptions, Failure> {
    let secret = config
        .gateway_secret_file
        .as_deref()
        .map(|file| read_secret("--gateway-secret-file", file))
        .transpose()?;
    let tls = tls(config)?;
    check_exposure(config)?;
    let direct = if config.behind_proxy.is_empty() || config.insecure_http == YesNo::Yes {
        DirectClients::Answered
    } else {
        DirectClients::Refused
    };
    Ok(HttpOptions {
        listen: config.listen,
        tls,
        peers: PeerPolicy::new(config.behind_proxy.clone(), direct),
        public_url: config.public_url.clone(),
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        authorization_servers: Vec::new(),
        sign_in: None,
        max_body_bytes: config.max_body_bytes,
        rate_per_second: config.rate_per_second,
        rate_burst: config.rate_burst,
        sessions_per_subject: config.sessions_per_subject,
        session_idle: Duration::from_secs(config.session_idle_seconds),
        max_connections: config.max_connections,
        presentation: Presentation::of(config),
        notes: GatewayNotesOptions {
            vault: config.vault.clone(),
            secret: secret.map(|secret| GatewaySecret::new(secret.as_bytes())),
            trusted_gateway: config.trust_gateway.clone(),
        },
        people: None,
        kept_sessions: None,
        fleet: None,
        timeouts: Timeouts::default(),
    })
}

/// Opens the certificate and its key, if they are configured.
fn tls(config: &Config) -> Result<Option<Arc<TlsIdentity>>, Failure> {
    let (certificate, key) = match (&config.tls_certificate, &config.tls_key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
        (Some(_), None) => {
            return Err(Failure::Usage("--tls-certificate needs --tls-key".to_owned()));
        }
        (None, Some(_)) => {
            return Err(Failure::Usage("--tls-key needs --tls-certificate".to_owned()));
        }
    };
    if others_can_read(&key) {
        print_line(
            "warning: every user of this machine can read the file of --tls-key; take the right \
             from others (chmod o-r)",
        );
    }
    let opened = TlsIdentity::open(TlsFiles { certificate, key });
    opened.map(Some).map_err(|error| Failure::Usage(error.to_string()))
}

/// Refuses to serve other machines over plain text, unless the operator has said that it may be.
fn check_exposure(config: &Config) -> Result<(), Failure> {
    let listen = config.listen;
    if listen.ip().to_canonical().is_loopback() || config.tls_certificate.is_some() {
        return Ok(());
    }
    if config.insecure_http == YesNo::Yes {
        print_line("warning: tokens and content pass to and from other machines as plain text");
        return Ok(());
    }
    if !config.behind_proxy.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "other machines can connect to --listen {listen}, and their tokens would pass as plain \
         text; give --tls-certificate and --tls-key, or --behind-proxy with the addresses of the \
         proxies that do TLS, or --insecure-http if everyone on the network may read and use the \
         tokens"
    )))
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
