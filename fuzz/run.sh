#!/usr/bin/env bash
# Builds the fuzz targets and runs each for some seconds, two at a time:
#
#     fuzz/run.sh [SECONDS_PER_TARGET]
#     fuzz/run.sh --build                 builds them and runs none
#
# A run is the same on every machine, as far as it gets; FUZZ_SEED=0 makes each run another one.
# Fails on any finding: a broken law, a panic, more than 1 s for one input, more than 512 MB. Needs a stable
# toolchain and a C++ compiler, for the fuzzing engine; see README.md.

set -euo pipefail

# One per file in src/bin.
targets=(path_scope list_uri_cursor edit arguments token envelope request_head note upstream record_rows record_requests record_search ladder mailbox chat_rows find_patterns text_edits walk_cursor note_links note_property sign_in encodings section recall saved_files forms)
seconds=${1:-20}

[[ $seconds =~ ^([1-9][0-9]*|--build)$ ]] || { echo "usage: $0 [SECONDS_PER_TARGET | --build]" >&2; exit 2; }
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

since=$SECONDS
RUSTC_WRAPPER=$PWD/rustc.sh cargo build --release --quiet --target-dir target
echo "built in $((SECONDS - since)) s"
[ "$seconds" != --build ] || exit 0

# run TARGET: its log goes to target/TARGET.log, and one line here.
run() {
  local target=$1 log=target/$1.log status=0
  mkdir -p "corpus/$target" "artifacts/$target"
  "target/release/$target" "corpus/$target" "seeds/$target" \
    -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=512 -max_len=1024 \
    -artifact_prefix="artifacts/$target/" -print_final_stats=1 >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    echo "FINDING $target: the input is in fuzz/artifacts/$target, all that was said in fuzz/$log" >&2
    grep -E -A3 'panicked at|ERROR: libFuzzer|Test unit written' "$log" >&2 || tail -n 20 "$log" >&2
    return 1
  fi
  sed -n 's/^stat::number_of_executed_units: *//p; s/^stat::average_exec_per_sec: *//p; s/^stat::peak_rss_mb: *//p' "$log" |
    xargs printf "ok $target: %s inputs, %s a second, %s MB\n"
}

failed=0
running=0
for target in "${targets[@]}"; do
  if [ "$running" -eq 2 ]; then
    wait -n || failed=1
    running=1
  fi
  run "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit "$failed"
