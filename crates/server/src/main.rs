//! The program `stile`. Everything it does is in the library, so that tests can call it.

/// The allocator of the static program: that of musl takes one lock for all threads (decision 75).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    stile_server::cli::main()
}
