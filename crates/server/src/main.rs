//! The program `stile`.

fn main() -> std::process::ExitCode {
    stile_server::cli::main()
}
