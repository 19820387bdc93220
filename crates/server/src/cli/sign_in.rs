//! `stile sign-in`: prints a link that opens the owner's pages in a browser, once, and its code.

use stile_domain::percent::encode_component;

use super::home::Home;
use super::{Failure, Invocation, http_server, settings, user_name};
use crate::clock::{unix_seconds, wall_clock};
use crate::pages::sign_in_page::SIGN_IN_PATH;
use crate::sign_in::secret::RandomSecret;

/// Records a one-time code and prints its link.
pub(super) fn run(
    Invocation { matches, environment, output, .. }: Invocation<'_>,
) -> Result<(), Failure> {
    let config = settings(matches, environment)?.config;
    let home = Home::open(&config)?;
    let code = RandomSecret::draw().map_err(|error| Failure::Failed(error.to_string()))?;
    let now = unix_seconds(wall_clock());
    home.tokens()?.record_link(&code.digest(), &user_name(environment), now)?;
    let given = matches.get_one::<String>("address").cloned().or_else(|| config.public_url.clone());
    let origin =
        given.unwrap_or_else(|| format!("{}://{}", http_server::scheme(&config), config.listen));
    let page = format!("{}{SIGN_IN_PATH}", origin.trim_end_matches('/'));
    // The link stands alone on its line, for programs and for terminals that open links.
    writeln!(output, "{page}?code={}", encode_component(code.reveal()))?;
    writeln!(output, "Or open {page} and paste this code: {}", code.reveal())?;
    Ok(())
}
