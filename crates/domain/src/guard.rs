//! Guarded names: secrets, and files that some program runs. No scope opens them by itself.
//!
//! A folder that a person shares often holds keys and passwords, and files that some program runs.
//! A scope such as `write:/` covers them, and hardly anybody thinks of them when they grant it. So
//! no caller reads or changes the first, or changes the second, unless the owner says so for a path
//! with a scope `unguard:`. Names are compared as those of `deny:` are.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::path::SpacePath;
use crate::same_name::folded_name;

/// What is guarded about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guarded {
    /// The file, or a folder around it, looks like a secret: nobody reads or changes it.
    Secret,
    /// Some program runs what is written there: nobody changes it.
    Running,
}

/// Names that are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedName {
    /// One name or several consecutive ones, anywhere in a path, in lower case. A name with a `*`
    /// at one end matches every name that has the rest at its other end.
    pub pattern: &'static str,
    /// What the row guards the names against.
    pub guarded: Guarded,
    /// Why the name is guarded, as the end of a sentence.
    pub reason: &'static str,
}

const fn secret(pattern: &'static str, reason: &'static str) -> GuardedName {
    GuardedName { pattern, guarded: Guarded::Secret, reason }
}

const fn running(pattern: &'static str, reason: &'static str) -> GuardedName {
    GuardedName { pattern, guarded: Guarded::Running, reason }
}

const KEY: &str = "holds a private key";
const SHELL: &str = "a shell runs it when it starts";
const EDITOR: &str = "an editor runs it when it starts";
const AGENT: &str = "tells an agent which programs to start";

/// The names that are guarded, secrets first.
pub const GUARDED_NAMES: &[GuardedName] = &[
    secret(".env*", "holds passwords and keys of programs"),
    secret(".ssh", "holds private keys"),
    secret(".gnupg", "holds private keys"),
    secret(".password-store", "holds passwords"),
    secret(".aws", "holds keys of a cloud account"),
    secret(".azure", "holds keys of a cloud account"),
    secret(".config/gcloud", "holds keys of a cloud account"),
    secret(".kube", "holds keys of a cluster"),
    secret(".docker/config.json", "holds passwords of registries"),
    secret(".netrc", "holds passwords of servers"),
    secret("_netrc", "holds passwords of servers"),
    secret(".pgpass", "holds passwords of databases"),
    secret(".my.cnf", "holds passwords of databases"),
    secret(".git-credentials", "holds passwords of repositories"),
    secret(".htpasswd", "holds hashes of passwords"),
    secret(".npmrc", "holds tokens of a registry"),
    secret(".pypirc", "holds passwords of a registry"),
    secret(".cargo/credentials*", "holds tokens of a registry"),
    secret(".vault-token", "holds a token"),
    secret("id_rsa", KEY),
    secret("id_dsa", KEY),
    secret("id_ecdsa", KEY),
    secret("id_ecdsa_sk", KEY),
    secret("id_ed25519", KEY),
    secret("id_ed25519_sk", KEY),
    secret("*.pem", KEY),
    secret("*.key", KEY),
    secret("*.ppk", KEY),
    secret("*.p12", "a store of keys"),
    secret("*.pfx", "a store of keys"),
    secret("*.jks", "a store of keys"),
    secret("*.keystore", "a store of keys"),
    secret("*.kdbx", "a store of passwords"),
    secret("*.keychain-db", "a store of passwords"),
    secret("wallet.dat", "holds private keys of a currency"),
    running(".git", "its hooks and settings start programs"),
    running(".hg", "its hooks and settings start programs"),
    running(".husky", "its scripts run when somebody commits"),
    running(".gitconfig", "its settings start programs"),
    running(".github/workflows", "its steps run on a server"),
    running(".gitlab-ci.yml", "its steps run on a server"),
    running(".pre-commit-config.yaml", "its steps run when somebody commits"),
    running(".obsidian/plugins", "its scripts run when the vault is opened"),
    running(".obsidian/community-plugins.json", "says which plugins run"),
    running("logseq/custom.js", "runs when the graph is opened"),
    running(".vscode", EDITOR),
    running(".idea", EDITOR),
    running(".zed", EDITOR),
    running(".vim", EDITOR),
    running(".vimrc", EDITOR),
    running(".exrc", EDITOR),
    running(".nvim.lua", EDITOR),
    running(".config/nvim", EDITOR),
    running(".emacs", EDITOR),
    running(".emacs.d", EDITOR),
    running(".dir-locals.el", EDITOR),
    running(".devcontainer", "an editor starts a container as it says"),
    running(".devcontainer.json", "an editor starts a container as it says"),
    running(".mcp.json", AGENT),
    running(".claude", AGENT),
    running(".claude.json", AGENT),
    running(".codex", AGENT),
    running(".cursor", AGENT),
    running(".gemini", AGENT),
    running(".bashrc", SHELL),
    running(".bash_profile", SHELL),
    running(".bash_login", SHELL),
    running(".bash_logout", SHELL),
    running(".bash_aliases", SHELL),
    running(".profile", SHELL),
    running(".login", SHELL),
    running(".cshrc", SHELL),
    running(".tcshrc", SHELL),
    running(".kshrc", SHELL),
    running(".zshenv", SHELL),
    running(".zshrc", SHELL),
    running(".zprofile", SHELL),
    running(".zlogin", SHELL),
    running(".zlogout", SHELL),
    running(".config/fish", SHELL),
    running(".inputrc", "turns keys into commands of a shell"),
    running(".xinitrc", "runs when somebody logs in"),
    running(".xprofile", "runs when somebody logs in"),
    running(".config/autostart", "its programs start when somebody logs in"),
    running(".config/systemd", "its programs start when somebody logs in"),
    running("library/launchagents", "its programs start when somebody logs in"),
    running(".local/bin", "its programs are found by their names"),
    running(".cargo/config*", "says which programs build and run"),
];

/// A row of [`GUARDED_NAMES`], cut into its names.
struct GuardedRow {
    /// The first name of the pattern.
    first: &'static str,
    /// The names that follow it.
    more: Vec<&'static str>,
    guarded: Guarded,
}

/// The rows of [`GUARDED_NAMES`] as a walk asks for them. It asks for each file, so a name is
/// looked up and not compared with every row.
#[derive(Default)]
struct GuardedRows {
    /// The rows by their first name.
    exact: HashMap<&'static str, Vec<GuardedRow>>,
    /// Those whose first name has a `*`.
    wild: Vec<GuardedRow>,
}

static ROWS: LazyLock<GuardedRows> = LazyLock::new(|| {
    let mut rows = GuardedRows::default();
    for GuardedName { pattern, guarded, .. } in GUARDED_NAMES {
        let mut parts = pattern.split('/');
        let first = parts.next().unwrap_or_default();
        let row = GuardedRow { first, more: parts.collect(), guarded: *guarded };
        if first.contains('*') {
            rows.wild.push(row);
        } else {
            rows.exact.entry(first).or_default().push(row);
        }
    }
    rows
});

impl Guarded {
    /// Returns what is guarded about a path; [`Guarded::Secret`] where both are.
    pub fn of(path: &SpacePath) -> Option<Self> {
        let GuardedRows { exact, wild } = &*ROWS;
        let mut found = None;
        let mut names = path.components();
        while let Some(name) = names.next() {
            let name = folded_name(name);
            let of_name = exact.get(&*name).into_iter().flatten();
            let of_name = of_name.chain(wild.iter().filter(|row| fits(row.first, &name)));
            for row in of_name.filter(|row| row.is_followed_by(names.clone())) {
                match row.guarded {
                    Self::Secret => return Some(Self::Secret),
                    Self::Running => found = Some(Self::Running),
                }
            }
        }
        found
    }
}

impl GuardedRow {
    /// Whether the names that follow the first one in a path are those of the row.
    fn is_followed_by<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        let fits_next =
            |part: &&str| names.next().is_some_and(|name| fits(part, &folded_name(name)));
        self.more.iter().all(fits_next)
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        (None, None) => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slow reference: each row is compared at each place of the path.
    fn slow(path: &SpacePath) -> Option<Guarded> {
        let names: Vec<_> = path.components().map(folded_name).collect();
        let is_in = |row: &GuardedName| {
            let parts: Vec<&str> = row.pattern.split('/').collect();
            let fit = |names: &[std::borrow::Cow<'_, str>]| {
                parts.iter().zip(names).all(|(part, name)| fits(part, name))
            };
            names.windows(parts.len()).any(fit)
        };
        let found = |guarded| GUARDED_NAMES.iter().any(|row| row.guarded == guarded && is_in(row));
        [Guarded::Secret, Guarded::Running].into_iter().find(|guarded| found(*guarded))
    }

    fn some_name() -> impl Strategy<Value = String> {
        let parts = GUARDED_NAMES.iter().flat_map(|row| row.pattern.split('/'));
        let parts: Vec<String> = parts.map(|part| part.replace('*', "x")).collect();
        prop_oneof![
            proptest::sample::select(parts),
            "\\.[a-z]{1,4}".prop_map(|name: String| name),
            "[a-zA-Z]{1,4}\\.(PEM|key|md)",
        ]
    }

    proptest! {
        #[test]
        fn a_looked_up_name_agrees_with_comparing_every_row(
            names in proptest::collection::vec(some_name(), 1..5),
            shouts in any::<bool>(),
        ) {
            let path = format!("/{}", names.join("/"));
            let path = if shouts { path.to_uppercase() } else { path };
            let path = SpacePath::parse(&path).unwrap();
            prop_assert_eq!(Guarded::of(&path), slow(&path));
        }
    }

    fn of(path: &str) -> Option<Guarded> {
        Guarded::of(&SpacePath::parse(path).unwrap())
    }

    #[test]
    fn secrets_and_running_files_are_guarded_wherever_they_are_and_however_they_are_written() {
        use Guarded::{Running, Secret};
        for (path, expected) in [
            ("/.env", Some(Secret)),
            ("/a/.env.production", Some(Secret)),
            ("/a/.ENV. .", Some(Secret)),
            ("/.e\u{200b}nv", Some(Secret)),
            ("/.ssh", Some(Secret)),
            ("/home/.ssh/config", Some(Secret)),
            ("/keys/server.PEM", Some(Secret)),
            ("/id_ed25519", Some(Secret)),
            ("/.config/gcloud/credentials.db", Some(Secret)),
            ("/.git/config", Some(Running)),
            ("/a/.git", Some(Running)),
            ("/.obsidian/plugins/x/main.js", Some(Running)),
            ("/Library/LaunchAgents/a.plist", Some(Running)),
            ("/.ssh/.bashrc", Some(Secret)),
            ("/id_ed25519.pub", None),
            ("/environment.md", None),
            ("/.obsidian/app.json", None),
            ("/plugins/a.js", None),
            ("/.github/README.md", None),
            ("/.gitignore", None),
            ("/gcloud/.config", None),
            ("/notes about .env files.md", None),
            ("/", None),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn each_row_is_folded_has_a_reason_and_stands_once() {
        let mut patterns: Vec<&str> = GUARDED_NAMES.iter().map(|row| row.pattern).collect();
        for row in GUARDED_NAMES {
            assert!(row.pattern.split('/').all(|name| folded_name(name) == name), "{row:?}");
            assert!(!row.reason.is_empty() && !row.reason.ends_with('.'), "{row:?}");
        }
        patterns.sort_unstable();
        patterns.dedup();
        assert_eq!(patterns.len(), GUARDED_NAMES.len());
    }
}
