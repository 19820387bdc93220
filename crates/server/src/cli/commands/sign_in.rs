//! `stile page`, or `stile sign-in`: prints a link that opens the owner's page, once, and its code,
//! and opens the page in a browser where there is a screen.

use std::io::{self, IsTerminal as _};
use std::process::{Command, Stdio};

use stile_domain::percent::encode_component;
use stile_domain::unseen::shown;
use stile_store::state::TokenStore;

use crate::cli::compose::{Home, found_server, http_server};
use crate::cli::failure::Failure;
use crate::cli::invocation::{Invocation, settings, user_name};
use crate::cli::{flags, terminal};
use crate::clock::{unix_seconds, wall_clock};
use crate::config::declarations::PUBLIC_URL;
use crate::config::{Environment, Resolved, Source};
use crate::pages::sign_in_page::SIGN_IN_PATH;
use crate::sign_in::secret::RandomSecret;

/// Records a one-time code, and prints its link and the code apart.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let resolved = settings(matches, environment)?;
    let home = Home::open(&resolved.config)?;
    let tokens = home.tokens()?;
    let origin = match flags::text(matches, "address") {
        Some(address) => address.to_owned(),
        None => origin(&resolved, &home)?,
    };
    home.check_named()?;
    let user = home.subject()?.unwrap_or_else(|| user_name(environment));
    let link = new_link(&tokens, &origin, &user)?;
    // A script that reads the link finds nothing else on standard output.
    writeln!(output, "{}", link.address())?;
    let (page, code) = (&link.page, link.code.reveal());
    let whose = match &resolved.config.person {
        Some(_) => format!("the name of {}", shown(&user)),
        None => "your name".to_owned(),
    };
    let opener = opener(io::stdout().is_terminal(), environment);
    let begin = match opener.is_some_and(|opener| opens(opener, page)) {
        true => format!("Your browser opens {page}. Paste this code there, or open the link"),
        false => format!("Open the link in a browser, or open {page} and paste this code"),
    };
    terminal::print_to_stderr(&format!(
        "{begin}:\n\n  {code}\n\nBoth work once between them, for ten minutes. Whoever has one can \
         decide in {whose}."
    ))?;
    Ok(())
}

/// Returns the program that opens a page for the person at this terminal; `None` for a script, and
/// where the session has no screen.
fn opener(is_terminal: bool, environment: Environment<'_>) -> Option<&'static str> {
    let has = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    match cfg!(target_os = "macos") {
        _ if !is_terminal => None,
        true => (!has("SSH_CONNECTION")).then_some("open"),
        false => (has("WAYLAND_DISPLAY") || has("DISPLAY")).then_some("xdg-open"),
    }
}

/// Asks a program to open a page. The code is not in the address: everybody on this machine can
/// read what a program was started with.
fn opens(opener: &str, page: &str) -> bool {
    let mut command = Command::new(opener);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// A link that signs in once.
pub(super) struct Link {
    /// The address of the page that takes the code.
    page: String,
    code: RandomSecret,
}

impl Link {
    /// Returns the address that a browser opens.
    pub(super) fn address(&self) -> String {
        format!("{}?code={}", self.page, encode_component(self.code.reveal()))
    }
}

/// Records a one-time code for the pages at an origin.
pub(super) fn new_link(tokens: &TokenStore, origin: &str, user: &str) -> Result<Link, Failure> {
    let code = RandomSecret::draw().map_err(|error| Failure::Failed(error.to_string()))?;
    tokens.record_link(&code.digest(), user, unix_seconds(wall_clock()))?;
    Ok(Link { page: format!("{}{SIGN_IN_PATH}", origin.trim_end_matches('/')), code })
}

/// Returns the origin of the server whose pages the link opens.
fn origin(resolved: &Resolved, home: &Home) -> Result<String, Failure> {
    let config = &resolved.config;
    let server = found_server::found(resolved, home, &home.tokens()?)?;
    Ok(match (&config.public_url, server) {
        (Some(url), _) if *resolved.source(&PUBLIC_URL) != Source::Default => url.clone(),
        (_, Some(server)) => found_server::client_origin(&server),
        (_, None) => {
            terminal::print_to_stderr(match home.database() {
                None => {
                    "warning: no server runs with this state; start `stile serve` before you open \
                     the link"
                }
                Some(_) => {
                    "warning: no server runs here with this state, so this link leads to this \
                     machine; name the address of the servers in STILE_PUBLIC_URL, as they have it"
                }
            })?;
            format!("{}://{}", http_server::scheme(config), config.listen)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_opens_for_a_person_at_a_screen_alone() {
        let of = |is_terminal, set: &str| {
            opener(is_terminal, &|name| (name == set).then(|| ":0".to_owned()))
        };
        let (display, remote) = (of(true, "DISPLAY"), of(true, "SSH_CONNECTION"));
        assert_eq!((of(false, "DISPLAY"), remote), (None, None), "a script, or another machine");
        let expected = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        assert_eq!(display, Some(expected));
        assert!(!opens("stile-has-no-such-program", "http://localhost/"));
    }
}
