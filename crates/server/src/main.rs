//! The program `stile`. Everything it does is in the library, so that tests can call it.

fn main() -> std::process::ExitCode {
    stile_server::cli::main()
}
