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
    /// `pip install`, into an environment of Python or beside it.
    Pip,
    /// `uv pip install` into an environment of uv, which has no pip.
    UvPip,
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
    /// A build of cargo, in a checkout of the source or beside it.
    Checkout,
    /// An image of a container.
    Image,
    /// The bundle of a client.
    Bundle,
    /// A file that somebody put there.
    File,
}

impl Installation {
    /// Returns how the running program was installed, with its path if the system knows it.
    pub(crate) fn of_this_program() -> (Self, Option<PathBuf>) {
        match std::env::current_exe() {
            Ok(program) => (Self::of(&program, &Machine), Some(program)),
            Err(_) => (Self::File, None),
        }
    }

    /// Returns how the program at a path was installed.
    fn of(program: &Path, files: &dyn Files) -> Self {
        let parts: Vec<&str> =
            program.components().filter_map(|part| part.as_os_str().to_str()).collect();
        let has = |name: &str| parts.contains(&name);
        let after = |name: &str| {
            let at = parts.iter().position(|part| *part == name)?;
            parts.get(at + 1).copied()
        };
        let exists = |path: &Path| files.text(path).is_some();
        let folder = program.parent().unwrap_or(program);
        let environment = folder.parent();
        let beside = |name: &str| environment.map(|it| it.join(name)).unwrap_or_default();
        let python = files.text(&beside("pyvenv.cfg"));
        let is_in_environment = python.is_some();
        let is_of_system = program.starts_with("/usr/bin");
        let is_kept = parts.iter().any(|part| part.starts_with("archive-v"));
        if has("node_modules") {
            return if has("_npx") { Self::Npx } else { Self::Npm };
        }
        match (after("uv"), after("pipx")) {
            (Some("tools"), _) => return Self::Uv,
            (Some(cache), _)
                if cache.starts_with("archive-") || cache.starts_with("environments-") =>
            {
                return Self::Uvx;
            }
            // The cache is where UV_CACHE_DIR says.
            _ if is_kept && is_in_environment => return Self::Uvx,
            // So is that of tools where UV_TOOL_DIR says.
            _ if exists(&beside("uv-receipt.toml")) => return Self::Uv,
            (_, Some("venvs")) => return Self::Pipx,
            (_, Some(_)) if is_in_environment => return Self::PipxRun,
            _ => {}
        }
        match () {
            // A line of the file says that uv made the environment.
            () if python.is_some_and(|text| text.lines().any(|line| line.starts_with("uv ="))) => {
                Self::UvPip
            }
            () if is_in_environment => Self::Pip,
            () if program.starts_with("/nix/store") => Self::Nix,
            () if has("Cellar") => Self::Homebrew,
            // `cargo install --root` writes what it installed beside the programs.
            () if files.text(&beside(".crates.toml")).is_some_and(|it| it.contains(CRATE)) => {
                Self::Cargo
            }
            () if is_of_system && exists(Path::new("/var/lib/dpkg/info/stile.list")) => {
                Self::Debian
            }
            () if is_of_system && exists(Path::new(PAGE_OF_RPM)) => Self::Rpm,
            () if environment.is_some_and(|it| files.has_python_package(it)) => Self::Pip,
            () if is_built_by_cargo(folder, &exists) => Self::Checkout,
            () if folder.ends_with("server") && exists(&beside("manifest.json")) => Self::Bundle,
            () if program == Path::new("/usr/local/bin/stile") && is_in_container(&exists) => {
                Self::Image
            }
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
            Self::UvPip => (
                "uv installed it into an environment of Python",
                "uv pip install --upgrade stile-mcp, in that environment",
            ),
            Self::Debian => {
                ("a package of Debian has it", "sudo apt install ./stile_VERSION_amd64.deb")
            }
            Self::Rpm => ("an RPM has it", "sudo rpm --upgrade stile-VERSION.x86_64.rpm"),
            Self::Homebrew => ("Homebrew installed it", "brew upgrade stile"),
            Self::Nix => (
                "it is in the store of Nix",
                "nix profile upgrade stile, or nix-env --upgrade stile if nix-env installed it",
            ),
            Self::Cargo => (
                "cargo installed it",
                "cargo install --path crates/server --locked, in a newer checkout",
            ),
            Self::Checkout => (
                "cargo built it, and nothing installed it",
                "git pull && cargo build --release, in the checkout",
            ),
            Self::Image => (
                "it is in a container, where images of Stile have it",
                "pull or build the newer image, and start the container again with the same volumes",
            ),
            Self::Bundle => {
                ("a client unpacked it from a bundle", "open the newer .mcpb in that client")
            }
            Self::File => (
                "it is a file that somebody put there",
                "put the program of a newer archive in its place",
            ),
        }
    }
}

/// What cargo calls the program.
const CRATE: &str = "\"stile-server ";
/// What the package of a system with RPM has beside the program.
const PAGE_OF_RPM: &str = "/usr/share/licenses/stile/LICENSE-MIT";

/// The files of the machine, which tell how a program came there.
trait Files {
    /// Returns the text of a file; `None` if there is no file.
    fn text(&self, path: &Path) -> Option<String>;
    /// Returns whether a folder with programs and libraries has the package for Python.
    fn has_python_package(&self, folder: &Path) -> bool;
}

struct Machine;

impl Files for Machine {
    fn text(&self, path: &Path) -> Option<String> {
        path.is_file().then(|| std::fs::read_to_string(path).unwrap_or_default())
    }

    fn has_python_package(&self, folder: &Path) -> bool {
        let below = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let begins = |name: &std::ffi::OsStr, with: &str| name.to_string_lossy().starts_with(with);
        let package = DISTRIBUTION.replace('-', "_") + "-";
        below(folder.join("lib")).filter(|it| begins(&it.file_name(), "python")).any(|python| {
            ["site-packages", "dist-packages"].iter().any(|packages| {
                below(python.path().join(packages)).any(|it| begins(&it.file_name(), &package))
            })
        })
    }
}

fn is_in_container(exists: &dyn Fn(&Path) -> bool) -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| exists(Path::new(mark)))
}

/// Returns whether a folder is one of a build: cargo marks the folder with all that it builds,
/// which is above it, with one folder for the kind of machine between them or none.
fn is_built_by_cargo(folder: &Path, exists: &dyn Fn(&Path) -> bool) -> bool {
    folder.ancestors().skip(1).take(2).any(|above| exists(&above.join(".rustc_info.json")))
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
        let debian = Known(&[
            ("/var/lib/dpkg/info/stile.list", ""),
            ("/home/ann/venv/pyvenv.cfg", "home = /usr/bin\n"),
            ("/home/ann/uvenv/pyvenv.cfg", "home = /usr/bin\nuv = 0.13.9\n"),
            ("/home/ann/.cache/uv/environments-v2/x/pyvenv.cfg", "uv = 0.13.9\n"),
            ("/fast/archive-v0/Xyz/pyvenv.cfg", "uv = 0.13.9\n"),
            ("/fast/stile-mcp/uv-receipt.toml", "[tool]\n"),
            ("/home/ann/.cache/pipx/x/pyvenv.cfg", ""),
            (
                "/home/ann/.cargo/.crates.toml",
                "[v1]\n\"stile-server 0.1.0 (path)\" = [\"stile\"]\n",
            ),
            ("/opt/tools/.crates.toml", "[v1]\n\"stile-server 0.1.0 (path)\" = [\"stile\"]\n"),
            ("/opt/others/.crates.toml", "[v1]\n\"ripgrep 14.0.0\" = [\"rg\"]\n"),
            ("/home/ann/stile/target/.rustc_info.json", ""),
            ("/home/ann/target/.rustc_info.json", ""),
            ("/tmp/build/.rustc_info.json", ""),
            ("/home/ann/Claude Extensions/stile/manifest.json", "{}"),
        ]);
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
            ("/fast/archive-v0/Xyz/bin/stile", Installation::Uvx),
            ("/fast/stile-mcp/bin/stile", Installation::Uv),
            ("/home/ann/venv/bin/stile", Installation::Pip),
            ("/home/ann/uvenv/bin/stile", Installation::UvPip),
            ("/home/ann/.local/bin/stile", Installation::Pip),
            ("/home/ann/Claude Extensions/stile/server/stile", Installation::Bundle),
            ("/usr/bin/stile", Installation::Debian),
            ("/nix/store/abc-stile-0.1.0/bin/stile", Installation::Nix),
            ("/home/linuxbrew/.linuxbrew/Cellar/stile/0.1.0/bin/stile", Installation::Homebrew),
            ("/home/ann/.cargo/bin/stile", Installation::Cargo),
            ("/opt/tools/bin/stile", Installation::Cargo),
            ("/opt/others/bin/stile", Installation::File),
            ("/home/ann/stile/target/release/stile", Installation::Checkout),
            ("/tmp/build/debug/stile", Installation::Checkout),
            ("/home/ann/old/target/release/stile", Installation::File),
            ("/home/ann/target/x86_64-unknown-linux-musl/dist/stile", Installation::Checkout),
            ("/home/uv/bin/stile", Installation::File),
            ("/opt/stile", Installation::File),
        ] {
            assert_eq!(Installation::of(Path::new(path), &debian), expected, "{path}");
        }
        let at = |path: &str, files| Installation::of(Path::new(path), files);
        assert_eq!(at("/usr/bin/stile", &Known(&[(PAGE_OF_RPM, "")])), Installation::Rpm);
        // Somebody copied it to where packages put programs.
        assert_eq!(at("/usr/bin/stile", &Known(&[])), Installation::File);
        let image = Known(&[("/run/.containerenv", "")]);
        assert_eq!(at("/usr/local/bin/stile", &image), Installation::Image);
        assert_eq!(at("/root/bin/stile", &image), Installation::File);
    }

    /// Files with their texts.
    struct Known(&'static [(&'static str, &'static str)]);

    impl Files for Known {
        fn text(&self, path: &Path) -> Option<String> {
            let found = self.0.iter().find(|(known, _)| path == Path::new(known));
            found.map(|(_, text)| (*text).to_owned())
        }

        fn has_python_package(&self, folder: &Path) -> bool {
            folder == Path::new("/home/ann/.local")
        }
    }

    #[test]
    fn a_package_of_python_beside_a_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.11/site-packages");
        std::fs::create_dir_all(packages.join("other-1.0.dist-info")).unwrap();
        assert!(!Machine.has_python_package(folder.path()));
        std::fs::create_dir(packages.join("stile_mcp-0.1.0.dist-info")).unwrap();
        assert!(Machine.has_python_package(folder.path()));
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
