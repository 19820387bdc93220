//! How much a thread reads: the bytes that its system calls returned.

/// Returns how many bytes a function reads on this thread, from files and all else, and what it
/// returns.
///
/// # Panics
/// If the kernel does not count it, which Linux does.
pub fn bytes_read<T>(function: impl FnOnce() -> T) -> (u64, T) {
    let before = read_so_far();
    let returned = function();
    // The first look reads its own file, too.
    (read_so_far() - before, returned)
}

#[expect(clippy::expect_used, reason = "a law about reads cannot be checked without their count")]
fn read_so_far() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let bytes = counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    bytes.expect("this kernel does not count what a thread reads")
}
