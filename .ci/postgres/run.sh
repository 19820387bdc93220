#!/usr/bin/env bash
# The tests that need PostgreSQL, against a server that they start in a temporary folder and stop. Installs PostgreSQL
# by apt where this machine has none. A test that finds none fails here; elsewhere it is skipped with a line.
#
#     run.sh

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

shopt -s nullglob
has_server() {
  command -v initdb >/dev/null && return
  local found=(/usr/lib/postgresql/*/bin/initdb)
  [ ${#found[@]} -gt 0 ]
}

if ! has_server && command -v apt-get >/dev/null; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" apt-get update -q >/dev/null
  # The package starts a server of its own, which nothing here uses.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends postgresql >/dev/null
fi

# The whole workspace, so that nothing is built anew for other features.
STILE_REQUIRE_POSTGRES=1 cargo test --workspace --lib --test it -- postgresql both_engines changes::
# The suites that are for one store: of the operations, and of the content ladder.
STILE_TEST_STORE=postgresql STILE_REQUIRE_POSTGRES=1 cargo test --workspace --test it -- \
  byte_windows:: deletions:: field_pages:: forged_requests:: invalid_grants:: \
  binary:: budgets:: cursors:: dead_ends:: every_byte:: evidence:: forging:: hidden:: look_alikes:: \
  refusals:: three_ways::
