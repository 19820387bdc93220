//! What a server's process takes of the machine.

use std::fmt;
use std::path::Path;

use stile_testkit::process::Server;

use crate::servers::walk;

/// What a process takes at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Bytes in memory.
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Bytes of the files in the state folder.
    pub(crate) state: u64,
}

impl Usage {
    pub(crate) fn of(server: &Server, state: &Path) -> Self {
        let process = format!("/proc/{}", server.id());
        let count = |part: &str| std::fs::read_dir(format!("{process}/{part}")).unwrap().count();
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let memory: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
        Self {
            memory: memory << 10,
            descriptors: count("fd"),
            threads: count("task"),
            state: size(state),
        }
    }

    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            state: self.state.max(other.state),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, descriptors, threads, state } = self;
        write!(
            formatter,
            "{} MB of memory, {descriptors} descriptors, {threads} threads, {} MB of state",
            memory >> 20,
            state >> 20
        )
    }
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0;
    walk(folder, &mut |path| {
        bytes += std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    });
    bytes
}
