//! How this program came to the machine.
//!
//! The place of the program tells that. The same knowledge names the words that start the program
//! again, because a copy in the cache of `npx` or `uvx` has no command of its own.

use std::path::{Path, PathBuf};

/// The name of the packages on PyPI and npm, as `Cargo.toml` has it for whoever publishes.
const DISTRIBUTION: &str = "stile-mcp";

/// How the program came to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installation {
    /// `npm install`.
    Npm,
    /// The cache of `npx`.
    Npx,
    /// `uv tool install`.
    Uv,
    /// The cache of `uvx`.
    Uvx,
    /// `pipx install`.
    Pipx,
    /// The cache of `pipx run`.
    PipxRun,
    /// `pip install` into an environment of Python.
    Pip,
    /// A package of Debian.
    Debian,
    /// A package of a system with RPM.
    Rpm,
    /// A formula of Homebrew.
    Homebrew,
    /// The store of Nix.
    Nix,
    /// `cargo install`.
    Cargo,
    /// A build in a checkout of the source.
    Checkout,
    /// A file that somebody put there.
    File,
}

impl Installation {
    /// Returns how the running program was installed, with its path if the system knows it.
    pub(crate) fn of_this_program() -> (Self, Option<PathBuf>) {
        match std::env::current_exe() {
            Ok(program) => (Self::of(&program, &|path| path.exists()), Some(program)),
            Err(_) => (Self::File, None),
        }
    }

    /// Returns how the program at a path was installed. `exists` says whether there is a file at a
    /// path.
    fn of(program: &Path, exists: &dyn Fn(&Path) -> bool) -> Self {
        let parts: Vec<&str> =
            program.components().filter_map(|part| part.as_os_str().to_str()).collect();
        let has = |name: &str| parts.contains(&name);
        let after = |name: &str| {
            let at = parts.iter().position(|part| *part == name)?;
            parts.get(at + 1).copied()
        };
        let environment = program.parent().and_then(Path::parent);
        let is_in_environment = environment.is_some_and(|it| exists(&it.join("pyvenv.cfg")));
        let is_of_system = program.starts_with("/usr/bin");
        if has("node_modules") {
            return if has("_npx") { Self::Npx } else { Self::Npm };
        }
        match (after("uv"), after("pipx")) {
            (Some("tools"), _) => return Self::Uv,
            (Some(cache), _) if is_in_environment || cache.starts_with("archive-") => {
                return Self::Uvx;
            }
            (_, Some("venvs")) => return Self::Pipx,
            (_, Some(_)) if is_in_environment => return Self::PipxRun,
            _ => {}
        }
        match () {
            () if is_in_environment => Self::Pip,
            () if program.starts_with("/nix/store") => Self::Nix,
            () if has("Cellar") => Self::Homebrew,
            () if after(".cargo") == Some("bin") => Self::Cargo,
            () if is_of_system && exists(Path::new("/var/lib/dpkg/info/stile.list")) => {
                Self::Debian
            }
            () if is_of_system && exists(Path::new("/var/lib/rpm")) => Self::Rpm,
            () if has("target") && environment.is_some_and(is_below_target) => Self::Checkout,
            () => Self::File,
        }
    }

    /// Returns the words that start the program from another folder and at another time.
    pub(crate) fn words(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Npx => Some(&["npx", "--yes", DISTRIBUTION]),
            Self::Uvx => Some(&["uvx", DISTRIBUTION]),
            Self::PipxRun => Some(&["pipx", "run", DISTRIBUTION]),
            _ => None,
        }
    }

    /// Returns the command as a person types it.
    pub(crate) fn command(self) -> String {
        self.words().map_or_else(|| "stile".to_owned(), |words| words.join(" "))
    }

    /// Returns what installed the program, and how it is updated.
    pub(crate) fn advice(self) -> (&'static str, &'static str) {
        match self {
            Self::Npm => (
                "npm installed it",
                "npm install --global stile-mcp@latest (without --global in the folder of a project)",
            ),
            Self::Npx => ("npx keeps it in its cache", "npx stile-mcp@latest"),
            Self::Uv => ("uv installed it", "uv tool upgrade stile-mcp"),
            Self::Uvx => ("uvx keeps it in its cache", "uvx stile-mcp@latest"),
            Self::Pipx => ("pipx installed it", "pipx upgrade stile-mcp"),
            Self::PipxRun => ("pipx keeps it in its cache", "pipx run --no-cache stile-mcp"),
            Self::Pip => (
                "pip installed it",
                "python -m pip install --upgrade stile-mcp, with the python beside the program",
            ),
            Self::Debian => {
                ("a package of Debian has it", "sudo apt install ./stile_VERSION_amd64.deb")
            }
            Self::Rpm => ("an RPM has it", "sudo rpm --upgrade stile-VERSION.x86_64.rpm"),
            Self::Homebrew => ("Homebrew installed it", "brew upgrade stile"),
            Self::Nix => ("it is in the store of Nix", "nix-env --upgrade stile"),
            Self::Cargo => (
                "cargo installed it",
                "cargo install --path crates/server --locked, in a newer checkout",
            ),
            Self::Checkout => ("it was built in a checkout", "git pull && cargo build --release"),
            Self::File => (
                "it is a file that somebody put there",
                "put the program of a newer archive in its place",
            ),
        }
    }
}

/// Returns whether a folder is `target` or a folder for one kind of machine below it.
fn is_below_target(folder: &Path) -> bool {
    folder.ends_with("target") || folder.parent().is_some_and(|parent| parent.ends_with("target"))
}

/// Returns the words that start this program from another folder and at another time. A copy in the
/// cache of `npx` or `uvx` may be gone tomorrow, so its words start it.
pub(crate) fn words_of_this_program() -> Vec<String> {
    let (installation, _) = Installation::of_this_program();
    match installation.words() {
        Some(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        None => vec![program()],
    }
}

/// Returns the program as a command line or a client can start it: its path if the system knows the
/// path, because a person who runs the program from a checkout has no command `stile`.
pub(crate) fn program() -> String {
    let Ok(program) = std::env::current_exe() else { return "stile".to_owned() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    lasting(&program, &folders).to_string_lossy().into_owned()
}

/// Returns the path in one of `folders` that leads to a program, if there is one. What manages
/// packages keeps a link there, and removes the program behind it when it has a newer one.
fn lasting(program: &Path, folders: &[PathBuf]) -> PathBuf {
    let name = program.file_name().unwrap_or_default();
    let leads_there = |path: &PathBuf| {
        path.is_absolute() && path.canonicalize().is_ok_and(|target| target == program)
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(leads_there);
    found.unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_program_tells_how_it_is_updated() {
        let exists = |path: &Path| {
            let environments = [
                "/home/ann/venv",
                "/home/ann/.cache/uv/environments-v2/x",
                "/home/ann/.cache/pipx/x",
            ];
            path == Path::new("/var/lib/dpkg/info/stile.list")
                || environments.iter().any(|it| path == Path::new(it).join("pyvenv.cfg"))
        };
        for (path, expected) in [
            (
                "/home/ann/.npm/_npx/1f/node_modules/stile-mcp-linux-x64/bin/stile",
                Installation::Npx,
            ),
            ("/usr/lib/node_modules/stile-mcp/node_modules/p/bin/stile", Installation::Npm),
            ("/home/ann/.local/share/uv/tools/stile-mcp/bin/stile", Installation::Uv),
            ("/home/ann/.cache/uv/archive-v0/Xyz/bin/stile", Installation::Uvx),
            ("/home/ann/.cache/uv/environments-v2/x/bin/stile", Installation::Uvx),
            ("/home/ann/.local/share/pipx/venvs/stile-mcp/bin/stile", Installation::Pipx),
            ("/home/ann/.cache/pipx/x/bin/stile", Installation::PipxRun),
            ("/home/ann/venv/bin/stile", Installation::Pip),
            ("/usr/bin/stile", Installation::Debian),
            ("/nix/store/abc-stile-0.1.0/bin/stile", Installation::Nix),
            ("/home/linuxbrew/.linuxbrew/Cellar/stile/0.1.0/bin/stile", Installation::Homebrew),
            ("/home/ann/.cargo/bin/stile", Installation::Cargo),
            ("/home/ann/stile/target/release/stile", Installation::Checkout),
            ("/home/ann/target/x86_64-unknown-linux-musl/dist/stile", Installation::Checkout),
            ("/home/uv/bin/stile", Installation::File),
            ("/opt/stile", Installation::File),
        ] {
            assert_eq!(Installation::of(Path::new(path), &exists), expected, "{path}");
        }
        let nothing = |path: &Path| path == Path::new("/var/lib/rpm");
        assert_eq!(Installation::of(Path::new("/usr/bin/stile"), &nothing), Installation::Rpm);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_folders_of_programs_lasts_longer_than_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["Cellar", "bin", "other"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let program = at("Cellar/stile");
        std::fs::write(&program, "").unwrap();
        std::fs::write(at("other/stile"), "").unwrap();
        std::os::unix::fs::symlink(&program, at("bin/stile")).unwrap();
        assert_eq!(lasting(&program, &[at("other"), at("bin")]), at("bin/stile"));
        assert_eq!(lasting(&program, &[at("other"), at("gone")]), program);
    }

    #[test]
    fn the_packages_have_the_name_that_the_publisher_gave_them() {
        let manifest = include_str!("../../../../Cargo.toml");
        assert!(manifest.contains(&format!("distribution = \"{DISTRIBUTION}\"\n")));
    }
}
