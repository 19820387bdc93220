//! Which running server a command is about, so that nobody has to name what is plain.
//!
//! A server notes in the state folder where it listens ([`RunningServer`]). A note counts only
//! while its server runs, so a token never goes to a program that took the port of a server that
//! was killed.

use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use stile_store::state::{RunningServer, TokenStore, running_servers};

use super::home::Home;
use crate::cli::failure::Failure;
use crate::config::declarations::{LISTEN, ROOT};
use crate::config::{Resolved, Source};

/// Returns the servers that run with a state.
pub(crate) fn running(home: &Home) -> Result<Vec<RunningServer>, Failure> {
    running_servers(home.state()).map_err(|error| {
        Failure::Failed(format!(
            "cannot read which servers run, in {}: {error}",
            home.state().path().display()
        ))
    })
}

/// Returns the server that a command is about: the one that serves the folder, or listens on the
/// address, that the settings name, or else the only one. `None` if none of them runs.
pub(crate) fn found(
    resolved: &Resolved,
    home: &Home,
    tokens: &TokenStore,
) -> Result<Option<RunningServer>, Failure> {
    let mut servers = running(home)?;
    if *resolved.source(&ROOT) != Source::Default {
        let root = &resolved.config.root;
        // A folder that does not exist is served by nobody.
        let audience = if root.is_dir() { Some(tokens.space_of(root)?.audience) } else { None };
        servers.retain(|server| Some(&server.audience) == audience.as_ref());
    }
    let port = resolved.config.listen.port();
    if *resolved.source(&LISTEN) != Source::Default && port != 0 {
        servers.retain(|server| has_port(server, port));
    }
    chosen(servers, port)
}

/// Chooses among servers. Of several for one space, takes the one at the port of the settings,
/// or else the one that was started last, which is the first in the list.
fn chosen(servers: Vec<RunningServer>, preferred: u16) -> Result<Option<RunningServer>, Failure> {
    let Some(first) = servers.first() else { return Ok(None) };
    if servers.iter().all(|server| server.audience == first.audience) {
        let at_settings = servers.iter().find(|server| has_port(server, preferred));
        return Ok(at_settings.or(Some(first)).cloned());
    }
    let lines = servers
        .iter()
        .map(|server| format!("\n  --root {}    ({})", server.root.display(), server.origin));
    Err(Failure::Usage(format!(
        "several servers run with this state; name the folder of one:{}",
        lines.collect::<String>()
    )))
}

/// Returns the folder of a command that names none: the served one in which the person is, or else
/// the one that is served now, or the only one that was served with this state. `None` if that is
/// not plain.
pub(crate) fn served_root(
    resolved: &Resolved,
    home: &Home,
    tokens: &TokenStore,
) -> Result<Option<PathBuf>, Failure> {
    let known: Vec<PathBuf> = tokens.spaces()?.into_iter().filter_map(|it| it.path).collect();
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let around = known.iter().filter(|root| here.as_ref().is_some_and(|it| it.starts_with(root)));
    if let Some(innermost) = around.max_by_key(|root| root.components().count()) {
        return Ok(Some(innermost.clone()));
    }
    if let Some(server) = found(resolved, home, tokens)? {
        return Ok(Some(server.root));
    }
    Ok(match known.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    })
}

/// Returns the folders that were served with this state and that a command may mean where it names
/// none, and neither [`served_root`] nor the settings decide; empty if they decide.
pub(crate) fn possible_roots(
    resolved: &Resolved,
    tokens: &TokenStore,
) -> Result<Vec<PathBuf>, Failure> {
    let known: Vec<PathBuf> = tokens.spaces()?.into_iter().filter_map(|it| it.path).collect();
    Ok(if known.contains(&resolved.config.root) { Vec::new() } else { known })
}

/// Returns the origin that a client on this machine connects to.
pub(crate) fn client_origin(server: &RunningServer) -> String {
    server.public_url.clone().unwrap_or_else(|| local_origin(&server.origin))
}

/// Returns the origin with which a browser or a client on this machine reaches an address.
fn local_origin(origin: &str) -> String {
    origin.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
}

fn has_port(server: &RunningServer, port: u16) -> bool {
    Endpoint::of(&server.origin).is_some_and(|own| own.port == port)
}

/// Returns whether an address is one of a server: its public address, or the one it listens on
/// under any name that this machine has for itself.
pub(crate) fn leads_to(server: &RunningServer, url: &str) -> bool {
    let Some(wanted) = Endpoint::of(url) else { return false };
    let public = server.public_url.as_deref().and_then(Endpoint::of);
    let own = Endpoint::of(&server.origin);
    public.is_some_and(|public| public == wanted)
        || own.is_some_and(|own| own.is_reached_as(&wanted))
}

/// The parts of an origin.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint {
    scheme: String,
    host: String,
    port: u16,
}

impl Endpoint {
    fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let host = uri.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
        Some(Self { scheme, host, port })
    }

    fn address(&self) -> Option<IpAddr> {
        match self.host.as_str() {
            "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
            host => host.parse().ok(),
        }
    }

    /// Returns whether `wanted` leads to a socket that listens here.
    fn is_reached_as(&self, wanted: &Self) -> bool {
        let (Some(own), Some(other)) = (self.address(), wanted.address()) else { return false };
        let is_same = own == other
            || (own.is_unspecified() && (other.is_loopback() || other.is_unspecified()))
            || (wanted.host == "localhost" && own.is_loopback());
        is_same && self.port == wanted.port && self.scheme == wanted.scheme
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(origin: &str, audience: &str) -> RunningServer {
        RunningServer {
            origin: origin.to_owned(),
            public_url: None,
            audience: audience.to_owned(),
            root: PathBuf::from(format!("/srv/{audience}")),
            pid: 1,
            started: 1,
        }
    }

    #[test]
    fn an_address_is_of_a_server_under_the_names_that_this_machine_has_for_itself() {
        let leads = |origin: &str, url: &str| leads_to(&server(origin, "a"), url);
        for url in ["http://127.0.0.1:9999/mcp", "http://localhost:9999", "http://LOCALHOST:9999"] {
            assert!(leads("http://127.0.0.1:9999", url), "{url}");
            assert!(leads("http://0.0.0.0:9999", url), "{url}");
        }
        assert!(leads("http://[::]:80", "http://[::1]/mcp?names=dotted"));
        for url in [
            "http://127.0.0.1:9998/mcp",
            "https://127.0.0.1:9999/mcp",
            "http://10.0.0.5:9999/mcp",
            "http://127.0.0.1.example:9999",
            "http://user@example.org:9999",
            "",
            "mcp",
        ] {
            assert!(!leads("http://127.0.0.1:9999", url), "{url}");
        }
        let public = RunningServer {
            public_url: Some("https://notes.example.org".to_owned()),
            ..server("http://127.0.0.1:9999", "a")
        };
        assert!(leads_to(&public, "https://notes.example.org/mcp"));
        assert!(!leads_to(&public, "http://notes.example.org/mcp"));
        assert!(!leads_to(&public, "https://notes.example.org:8443/mcp"));
    }

    #[test]
    fn one_server_is_meant_and_several_are_named() {
        let (a, b) = (server("http://127.0.0.1:1", "a"), server("http://127.0.0.1:2", "b"));
        assert_eq!(chosen(Vec::new(), 1).unwrap(), None);
        assert_eq!(chosen(vec![a.clone()], 9).unwrap(), Some(a.clone()));
        let second = server("http://127.0.0.1:3", "a");
        let both = vec![second.clone(), a.clone()];
        assert_eq!(chosen(both.clone(), 1).unwrap(), Some(a.clone()));
        assert_eq!(chosen(both, 9).unwrap(), Some(second));
        let Failure::Usage(said) = chosen(vec![a, b], 1).unwrap_err() else {
            panic!("a wrong usage was expected")
        };
        insta::assert_snapshot!(said, @r"
        several servers run with this state; name the folder of one:
          --root /srv/a    (http://127.0.0.1:1)
          --root /srv/b    (http://127.0.0.1:2)
        ");
    }
}
