//! Everything that puts the program together, in the order in which a server is made.
//!
//! `process` prepares the process. `settings_files` reads the files that settings name. `home` is
//! where keys, tokens and records are, and `open` opens the space, the records and the journal, and
//! makes a service of them; `open_people` does so for each of several people. `identity_provider`
//! and `local_tokens` say whose tokens count, and `sign_in` makes the pages. `http_server` and
//! `stdio_server` serve what was made. Commands of the owner take the same parts: `owner` for
//! records, `files_owner` for files, and `found_server` for the server that runs.

pub(crate) mod files_owner;
pub(crate) mod found_server;
pub(crate) mod home;
pub(crate) mod http_server;
pub(crate) mod identity_provider;
pub(crate) mod local_tokens;
pub(crate) mod open;
pub(crate) mod open_people;
pub(crate) mod owner;
pub(crate) mod person_folder;
pub(crate) mod process;
pub(crate) mod settings_files;
pub(crate) mod sign_in;
pub(crate) mod stdio_server;

pub(crate) use self::files_owner::FilesOwner;
pub(crate) use self::home::Home;
pub(crate) use self::identity_provider::IdentityProvider;
pub(crate) use self::local_tokens::LocalTokens;
pub(crate) use self::open::OpenSpace;
pub(crate) use self::owner::Owner;
