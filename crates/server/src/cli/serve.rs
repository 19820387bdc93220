//! `stile serve`: HTTP.

use std::io::{self, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Verb};
use stile_store::state::{TokenKey, TokenStore};

use stile_tools::registry;
use tokio_util::sync::CancellationToken;

use super::{Failure, hosted, local_user, start};
use crate::auth::{LocalVerifier, Order, Verifier, mint};
use crate::config::declarations::STATE;
use crate::config::{Config, Environment, Resolved, Source};
use crate::http::{GatewaySecret, HttpOptions, NotesOptions, Timeouts};
use crate::metrics::Metrics;
use crate::offer::Offer;

/// How long the token lives that a terminal is shown.
const SHOWN_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Serves until it is told to stop.
pub(super) fn run(resolved: &Resolved, environment: Environment<'_>) -> Result<(), Failure> {
    let config = &resolved.config;
    let provider = hosted::provider(config)?;
    let mut options = options(config)?;
    start::log(config.log);
    start::raise_file_limit();
    let (state, mut services) = start::open(resolved)?;
    let journal = Arc::clone(&services.journal);
    let space = services.space.clone();
    let records = start::open_records(&state, &journal)?;
    let runtime = start::runtime()?;
    let served = runtime.block_on(async {
        let served = match provider {
            Some(provider) => {
                // Hosted, notes tell their structure behind the gateway's role table and nowhere
                // else.
                services.tools = registry::FILES;
                options.authorization_servers = vec![provider.issuer.clone()];
                let verifier = provider.verifier(hosted::outbound(config)?).await?;
                let announce = |address: SocketAddr| say(&format!("listening on http://{address}"));
                until_stopped(
                    config,
                    options,
                    start::offer(config, services, Some(records)),
                    verifier,
                    announce,
                )
                .await
            }
            None => {
                let (key, tokens) = (TokenKey::open(&state)?, Arc::new(TokenStore::open(&state)?));
                let verifier =
                    Arc::new(LocalVerifier::new(&key, Arc::clone(&tokens), SystemTime::now));
                let announce = |address| announce(resolved, environment, &key, &tokens, address);
                until_stopped(
                    config,
                    options,
                    start::offer(config, services, Some(records)),
                    verifier,
                    announce,
                )
                .await
            }
        };
        space.close().await;
        served
    });
    // What is in flight was given its time by then.
    runtime.shutdown_background();
    journal.sync();
    served
}

/// Says a line to whoever started this, at once, so that no program that waits for it reads a part
/// of it.
pub(super) fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says where the server listens, and to a person how to connect a client.
fn announce(
    resolved: &Resolved,
    environment: Environment<'_>,
    key: &TokenKey,
    tokens: &TokenStore,
    address: SocketAddr,
) {
    say(&format!("listening on http://{address}"));
    if !io::stdout().is_terminal() {
        let _ = writeln!(io::stderr(), "mint a token with: {}", mint_command(&program(), resolved));
        return;
    }
    // Only now, so that a server that cannot listen leaves no token behind.
    let scopes = [Scope::everything(Verb::Write)].into_iter().collect();
    let order = Order {
        subject: local_user(environment),
        scopes,
        client: None,
        records: RecordsClaim::None,
        life: SHOWN_LIFE,
    };
    let _ = match mint(key, tokens, &order, SystemTime::now()) {
        Ok(minted) => {
            io::stdout().write_all(welcome(&program(), resolved, address, &minted.token).as_bytes())
        }
        Err(error) => writeln!(io::stderr(), "no token was minted: {error}"),
    };
}

/// Serves an offer, and its metrics where they are wanted, until the process is told to stop.
pub(super) async fn until_stopped(
    config: &Config,
    options: HttpOptions,
    offer: Offer,
    verifier: Arc<dyn Verifier>,
    announce: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let stop = start::stop()?;
    let Some(listen) = config.metrics_listen else {
        let served = crate::http::serve(options, offer, verifier, stop, announce).await;
        return served.map_err(|error| Failure::Failed(failed(config.listen, &error)));
    };
    let metrics = Arc::new(Metrics::default());
    let stopped = CancellationToken::new();
    let told = |address: SocketAddr| say(&format!("metrics on http://{address}/metrics"));
    let counted = crate::http::serve_metrics(
        listen,
        Arc::clone(&metrics),
        stopped.clone().cancelled_owned(),
        told,
    );
    let counted = async { counted.await.map_err(|error| Failure::Failed(failed(listen, &error))) };
    let served = async {
        let served =
            crate::http::serve(options, offer.counting(metrics), verifier, stop, announce).await;
        stopped.cancel();
        served.map_err(|error| Failure::Failed(failed(config.listen, &error)))
    };
    tokio::try_join!(counted, served).map(drop)
}

/// What of the settings is about HTTP.
pub(super) fn options(config: &Config) -> Result<HttpOptions, Failure> {
    let secret = config
        .gateway_secret_file
        .as_deref()
        .map(|file| hosted::secret("--gateway-secret-file", file));
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
        notes: NotesOptions {
            vault: config.vault.clone(),
            secret: secret.transpose()?.map(|secret| GatewaySecret::new(secret.as_bytes())),
            trusted_gateway: config.trust_gateway.clone(),
        },
        timeouts: Timeouts::default(),
    })
}

fn failed(listen: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
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
    }
}

/// The flag that other commands need to find the same state.
fn state_arguments(resolved: &Resolved) -> Vec<String> {
    match resolved.source(&STATE) {
        Source::Default => Vec::new(),
        _ => vec!["--state".to_owned(), resolved.config.state.to_string_lossy().into_owned()],
    }
}

/// The program as another command line, or a client, can start it: by its own place where the
/// system tells it, since whoever runs it from a checkout has no `stile` among their commands.
fn program() -> String {
    std::env::current_exe()
        .map_or_else(|_| "stile".to_owned(), |path| path.to_string_lossy().into_owned())
}

fn mint_command(program: &str, resolved: &Resolved) -> String {
    let words = [program, "token", "--scope", "write:/"].map(str::to_owned);
    words
        .into_iter()
        .chain(state_arguments(resolved))
        .map(|word| quoted(&word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+,@%~\\".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Where a client on this machine, or behind the operator's proxy, finds the server.
fn url(config: &Config, address: SocketAddr) -> String {
    let origin = config.public_url.clone().unwrap_or_else(|| match address {
        SocketAddr::V4(address) if address.ip().is_unspecified() => {
            format!("http://127.0.0.1:{}", address.port())
        }
        SocketAddr::V6(address) if address.ip().is_unspecified() => {
            format!("http://[::1]:{}", address.port())
        }
        address => format!("http://{address}"),
    });
    origin + "/mcp"
}

/// What a person at a terminal needs to connect a client.
fn welcome(program: &str, resolved: &Resolved, address: SocketAddr, token: &str) -> String {
    let root = resolved.config.root.to_string_lossy().into_owned();
    let mut args = vec!["stdio".to_owned(), root.clone()];
    args.extend(state_arguments(resolved));
    let http = json!({
        "mcpServers": {
            "stile": {
                "type": "http",
                "url": url(&resolved.config, address),
                "headers": { "Authorization": format!("Bearer {token}") }
            }
        }
    });
    let stdio = json!({ "command": program, "args": args });
    format!(
        "\nServing {root}. Paste this into an MCP client that speaks HTTP; the token in it may read and\n\
         change everything for 30 days, so treat it as a password:\n\n{http:#}\n\n\
         For a client that starts its servers itself:\n\n\"stile\": {stdio}\n\n\
         A token that may do less: {program} token --scope read:/notes/ (see its --help).\n\
         Stop with Ctrl-C.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(flags: &[(&str, &str)]) -> Resolved {
        let flag = |name: &str| {
            flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned())
        };
        crate::config::resolve(&flag, &|name| (name == "HOME").then(|| "/home/ann".to_owned()))
            .unwrap()
    }

    #[test]
    fn what_a_terminal_shows() {
        let resolved = resolved(&[("root", "/srv/my notes"), ("state", "/nonexistent/the state")]);
        insta::assert_snapshot!(welcome(
            "/opt/stile",
            &resolved,
            resolved.config.listen,
            "THE.TOKEN.ITSELF"
        ));
        assert_eq!(
            mint_command("stile", &resolved),
            "stile token --scope write:/ --state '/nonexistent/the state'"
        );
    }

    #[test]
    fn the_address_that_clients_use() {
        let plain = resolved(&[]);
        for (address, shown) in [
            ("127.0.0.1:9999", "http://127.0.0.1:9999/mcp"),
            ("0.0.0.0:80", "http://127.0.0.1:80/mcp"),
            ("[::]:80", "http://[::1]:80/mcp"),
            ("[fe80::1]:80", "http://[fe80::1]:80/mcp"),
        ] {
            assert_eq!(url(&plain.config, address.parse().unwrap()), shown);
        }
        let public = resolved(&[("public_url", "https://notes.example.org")]);
        assert_eq!(url(&public.config, public.config.listen), "https://notes.example.org/mcp");
        assert_eq!(mint_command("stile", &plain), "stile token --scope write:/");
    }

    #[test]
    fn a_port_that_is_taken_says_so() {
        let config = resolved(&[]).config;
        let said: Vec<String> = [
            io::ErrorKind::AddrInUse,
            io::ErrorKind::AddrNotAvailable,
            io::ErrorKind::PermissionDenied,
        ]
        .into_iter()
        .map(|kind| failed(config.listen, &kind.into()))
        .collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
