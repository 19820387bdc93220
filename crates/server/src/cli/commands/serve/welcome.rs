//! What `stile serve` prints once it accepts connections: its address, and to a person at a
//! terminal how to connect a client.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use stile_domain::records::authority::RecordsClaim;
use stile_domain::scope::{Scope, Verb};
use stile_domain::shell_word::quoted;
use stile_store::state::SpaceOfFolder;

use crate::auth::{MintRequest, Minter, ShownToken};
use crate::cli::commands::sign_in;
use crate::cli::compose::http_server::{client_url, print_address};
use crate::cli::installation;
use crate::cli::terminal::{local_time, unix_time};
use crate::clock::wall_clock;
use crate::config::declarations::STATE;
use crate::config::{Resolved, Source};

/// How long the token is valid that is printed to a terminal.
const PRINTED_TOKEN_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The name of the client that gets what a terminal shows, until its owner gives it another one.
const PASTED: &str = "pasted-client";

/// Whether the server has pages for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    Offered,
    None,
}

/// What the server says once it accepts connections.
pub(super) struct Welcome<'a> {
    pub(super) resolved: &'a Resolved,
    /// The user who started the program.
    pub(super) user: &'a str,
    pub(super) minter: Minter<'a>,
    pub(super) pages: Pages,
}

impl Welcome<'_> {
    /// Prints the server's address to standard error.
    ///
    /// If standard output is a terminal, mints a token and prints how to connect a client there.
    /// If not, prints the command that mints a token to standard error.
    pub(super) fn print(&self, space: &SpaceOfFolder, address: SocketAddr) {
        let Self { resolved, minter, .. } = self;
        print_address(&resolved.config, address);
        let program = installation::words_of_this_program();
        if !io::stdout().is_terminal() {
            // The folder is named only where it must be, since this line may end up in a log.
            let root =
                (!space.is_only).then(|| resolved.config.root.to_string_lossy().into_owned());
            let command = mint_command(&program, resolved, root);
            let _ = writeln!(io::stderr(), "mint a token with: {command}");
            return;
        }
        // Not before the server listens: a server that cannot listen leaves no token behind.
        let order = MintRequest {
            subject: self.user.to_owned(),
            scopes: [Scope::everything(Verb::Write)].into_iter().collect(),
            client: Some(PASTED.to_owned()),
            records: RecordsClaim::None,
            life: PRINTED_TOKEN_LIFE,
        };
        let _ = match minter.mint_shown(&order, wall_clock()) {
            Ok(shown) => {
                let page = match self.pages {
                    Pages::Offered => self.page_link(address),
                    Pages::None => None,
                };
                let text = welcome(&program, resolved, address, &shown, page.as_deref());
                io::stdout().write_all(text.as_bytes())
            }
            Err(error) => writeln!(io::stderr(), "no token was minted: {error}"),
        };
    }

    /// Returns a new link to the owner's page; `None` if none can be recorded.
    fn page_link(&self, address: SocketAddr) -> Option<String> {
        let url = client_url(&self.resolved.config, address);
        let origin = url.strip_suffix("/mcp").unwrap_or(&url);
        let link = sign_in::new_link(self.minter.tokens, origin, self.user).ok()?;
        Some(link.address())
    }
}

/// Returns the flag that other commands need to find the same state folder.
fn state_arguments(resolved: &Resolved) -> Vec<String> {
    match resolved.source(&STATE) {
        Source::Default => Vec::new(),
        _ => vec!["--state".to_owned(), resolved.config.state.to_string_lossy().into_owned()],
    }
}

fn mint_command(program: &[String], resolved: &Resolved, root: Option<String>) -> String {
    let words = ["token", "--scope", "write:/"].map(str::to_owned);
    program
        .iter()
        .cloned()
        .chain(words)
        .chain(root.into_iter().flat_map(|root| ["--root".to_owned(), root]))
        .chain(state_arguments(resolved))
        .map(|word| quoted(&word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns what a person at a terminal needs to connect a client, and the link to the owner's page.
/// `program` has the words that start this program.
fn welcome(
    program: &[String],
    resolved: &Resolved,
    address: SocketAddr,
    shown: &ShownToken,
    page: Option<&str>,
) -> String {
    let Some((first, rest)) = program.split_first() else { return String::new() };
    let typed = program.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let page = page.map_or_else(String::new, |page| {
        format!(
            "Your page, on which you see and decide what agents do. The link works once, for ten\n\
             minutes; `{typed} page` prints another:\n\n  {page}\n\n"
        )
    });
    let (token, age) = match shown {
        ShownToken::Again(token) => (token, "the token of the last start"),
        ShownToken::New(token) => (token, "a new token"),
    };
    let until = local_time::day(unix_time::instant(token.expires));
    let token = &token.token;
    let root = resolved.config.root.to_string_lossy().into_owned();
    let mut args = rest.to_vec();
    args.extend(["stdio", &root, "--client", PASTED].map(str::to_owned));
    args.extend(state_arguments(resolved));
    let http = json!({
        "mcpServers": {
            "stile": {
                "type": "http",
                "url": client_url(&resolved.config, address),
                "headers": { "Authorization": format!("Bearer {token}") }
            }
        }
    });
    let quoted_root = quoted(&root);
    let stdio = json!({ "command": first, "args": args });
    format!(
        "\nServing {root}. Paste this into an MCP client that speaks HTTP. It holds {age},\n\
         which may read and change everything until {until}, so treat it as a password:\n\n\
         {http:#}\n\n\
         For a client that starts its servers itself, with a name of its own after --client:\n\n\
         \"stile\": {stdio}\n\n\
         {page}A token that may do less: {typed} token --scope read:/notes/ --root {quoted_root}\n\
         Stop with Ctrl-C.\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::MintedToken;

    fn resolved(flags: &[(&str, &str)]) -> Resolved {
        let flag = |name: &str| {
            flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned())
        };
        crate::config::resolve(&flag, &|name| (name == "HOME").then(|| "/home/ann".to_owned()))
            .unwrap()
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_terminal_shows_how_to_connect_a_client() {
        let resolved = resolved(&[("root", "/srv/my notes"), ("state", "/nonexistent/the state")]);
        let token = || MintedToken {
            token: "THE.TOKEN.ITSELF".to_owned(),
            jti: "t1".to_owned(),
            expires: 1_800_000_000,
        };
        let page = "http://127.0.0.1:9999/sign-in?code=THE-CODE";
        for (name, shown, page) in [
            ("welcome_new", ShownToken::New(token()), Some(page)),
            ("welcome_again", ShownToken::Again(token()), None),
        ] {
            let text =
                welcome(&words("/opt/stile"), &resolved, resolved.config.listen, &shown, page);
            insta::assert_snapshot!(name, text);
        }
        assert_eq!(
            mint_command(&words("stile"), &resolved, Some("/srv/my notes".to_owned())),
            "stile token --scope write:/ --root '/srv/my notes' --state '/nonexistent/the state'"
        );
    }

    #[test]
    fn clients_connect_to_the_public_url_or_to_this_machine() {
        let default = resolved(&[]);
        for (address, url) in [
            ("127.0.0.1:9999", "http://127.0.0.1:9999/mcp"),
            ("0.0.0.0:80", "http://127.0.0.1:80/mcp"),
            ("[::]:80", "http://[::1]:80/mcp"),
            ("[fe80::1]:80", "http://[fe80::1]:80/mcp"),
        ] {
            assert_eq!(client_url(&default.config, address.parse().unwrap()), url);
        }
        let public = resolved(&[("public_url", "https://notes.example.org")]);
        assert_eq!(
            client_url(&public.config, public.config.listen),
            "https://notes.example.org/mcp"
        );
        let tls = resolved(&[("tls_certificate", "/c.pem"), ("tls_key", "/k.pem")]);
        for (address, url) in [
            ("127.0.0.1:9999", "https://127.0.0.1:9999/mcp"),
            ("0.0.0.0:80", "https://127.0.0.1:80/mcp"),
            ("[::]:80", "https://[::1]:80/mcp"),
        ] {
            assert_eq!(client_url(&tls.config, address.parse().unwrap()), url);
        }
        assert_eq!(
            mint_command(&words("npx --yes stile-mcp"), &default, None),
            "npx --yes stile-mcp token --scope write:/"
        );
    }
}
