#!/usr/bin/env bash
# The official conformance suite against a built server, at both versions and for both revisions:
#
#     run.sh STILE_BINARY [WORK_FOLDER]
#
# Installs the suite into WORK_FOLDER (default .ci/out), once. A scenario may fail only where
# baseline-*.yml says why, and every entry there must still be needed.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
source_folder=$here/conformance
folder=$work/conformance

install_modules "$source_folder" "$folder"
echo "installed: $((SECONDS - started)) s"
start_server
mint "$tmp/token" write:/

"$node" "$source_folder/proxy.mjs" "$origin" "$tmp/token" >"$tmp/proxy" 2>"$tmp/proxy.log" &
proxy_pid=$!
trap 'kill "$proxy_pid" 2>/dev/null || true; clean_up' EXIT
for _ in $(seq 100); do
  [ ! -s "$tmp/proxy" ] || break
  sleep 0.1
done
[ -s "$tmp/proxy" ] || { cat "$tmp/proxy.log" >&2; fail "the proxy did not start"; }
url=$(cat "$tmp/proxy")/mcp

# A baseline entry excuses a whole scenario, so this looks into those too: whatever the outcome,
# each message of ours must fit the schema of its revision.
answers_well_formed() {
  "$node" -e '
    const { globSync, readFileSync } = require("fs");
    const checks = globSync(process.argv[1] + "/*/checks.json").flatMap((file) => JSON.parse(readFileSync(file, "utf8")));
    const wrong = checks.filter(({ id, status }) => id === "wire-schema-valid" && status !== "SUCCESS");
    for (const { errorMessage, details } of wrong) console.error(errorMessage, JSON.stringify(details));
    process.exit(checks.length > 0 && wrong.length === 0 ? 0 : 1);
  ' "$1"
}

# suite NAME VERSION BASELINE ARGUMENT...
suite() {
  local name=$1 version=$2 baseline=$3 log=$folder/$1.log since=$SECONDS ran
  shift 3
  if ! NO_COLOR=1 timeout 150 "$node" "$folder/node_modules/conformance-$version/dist/index.js" server \
    --url "$url" "$@" --expected-failures "$source_folder/$baseline.yml" -o "$tmp/results/$name" >"$log" 2>&1 </dev/null; then
    grep -A3 -E '✗|✓|FAILURE|WARNING' "$log" | tail -n 60 >&2 || true
    [ -z "$(tail -n 20 "$tmp/serve.log")" ] || tail -n 20 "$tmp/serve.log" >&2
    fail "conformance $name: all that was said is in $log"
  fi
  ran=$(grep -c '^=== Running scenario' "$log") || fail "conformance $name ran nothing"
  sed -n 's/^ *~ //p' "$log" >>"$tmp/needed-$baseline"
  answers_well_formed "$tmp/results/$name" || fail "conformance $name: an answer does not fit the revision's schema"
  echo "ok conformance $name: $ran scenarios, $((SECONDS - since)) s"
}

suite 0.1-all 0.1 baseline-2025 --suite all
suite 0.2-requirements-2025-11-25 0.2 baseline-2025 --requirements 2025-11-25
suite 0.2-all-2025-11-25 0.2 baseline-2025 --suite all --spec-version 2025-11-25
suite 0.2-requirements-2026-07-28 0.2 baseline-2026 --requirements 2026-07-28
suite 0.2-all-2026-07-28 0.2 baseline-2026 --suite all --spec-version 2026-07-28

for baseline in baseline-2025 baseline-2026; do
  unneeded=$(sed -n 's/^ *- \([^ ]*\).*/\1/p' "$source_folder/$baseline.yml" | grep -vxFf "$tmp/needed-$baseline") || continue
  fail "$baseline.yml lists what no run needed: $unneeded"
done
stop_server
echo "conformance: $((SECONDS - started)) s"
