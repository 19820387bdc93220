# Sourced by each step: it runs in the checkout, and knows where to put what it makes.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
out=$PWD/.ci/out
mkdir -p "$out"
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0

# quietly COMMAND...: what it says is shown only where it fails.
quietly() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { tail -n 200 "$log"; rm -f "$log"; return 1; }
  rm -f "$log"
}

# The output of cargo's tests without the lines that say only that something goes on.
without_progress() { grep -vE '^ +(Compiling|Downloaded|Downloading) |\.\.\. ok$'; }

# Prints the path of the optimised program, and builds it where it is missing or old.
program() {
  # A caller must not go on with an older program.
  cargo build --release --quiet >&2 || return 1
  printf '%s' "$PWD/target/release/stile"
}
