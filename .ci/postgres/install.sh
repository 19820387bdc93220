#!/usr/bin/env bash
# Installs PostgreSQL and PgBouncer by apt where this machine has none. The tests start servers of their own from its programs, in
# temporary folders, and stop them.
#
#     install.sh

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

shopt -s nullglob
has_server() {
  command -v initdb >/dev/null && return
  local found=(/usr/lib/postgresql/*/bin/initdb)
  [ ${#found[@]} -gt 0 ]
}

if ! { has_server && [ -x /usr/sbin/pgbouncer ]; } && command -v apt-get >/dev/null; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" apt-get update -q >/dev/null
  # The packages start servers of their own, which nothing here uses.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends postgresql pgbouncer >/dev/null
fi
