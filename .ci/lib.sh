# Sourced by the checks here: where they install things, and the one server they start and end.
# A check calls `prepare STILE_BINARY [WORK_FOLDER]` first; afterwards $stile, $work and $tmp are set.

set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
server_pid=
started=$SECONDS

fail() {
  printf 'FAILED %s\n' "$*" >&2
  exit 1
}

prepare() {
  [ $# -ge 1 ] || fail "usage: $0 STILE_BINARY [WORK_FOLDER]"
  stile=$(realpath -- "$1")
  [ -x "$stile" ] || fail "$1 is not a program"
  mkdir -p -- "${2:-$here/out}"
  work=$(realpath -- "${2:-$here/out}")
  tmp=$(mktemp -d)
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

clean_up() {
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
  fi
  rm -rf -- "$tmp"
}

# install_modules SOURCE TARGET [without-node]: what SOURCE/package-lock.json pins, into TARGET. Sets
# $node to the Node it pins too: two of these packages need a newer one than some systems have.
install_modules() {
  mkdir -p "$2"
  if ! cmp -s "$1/package-lock.json" "$2/package-lock.json" || [ ! -e "$2/installed" ]; then
    rm -f "$2/installed"
    cp "$1/package.json" "$1/package-lock.json" "$2/"
    (cd "$2" && timeout 600 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$2/npm.log" 2>&1 ||
      { cat "$2/npm.log" >&2; fail "npm could not install $2"; }
    touch "$2/installed"
  fi
  [ "${3:-}" != without-node ] || return 0
  node=$(echo "$2"/node_modules/node-linux-*/bin/node)
  [ -x "$node" ] || fail "no Node for this machine in $2"
}

# install_python SOURCE TARGET: what SOURCE/requirements.txt pins, into a new environment TARGET/venv.
install_python() {
  if ! cmp -s "$1/requirements.txt" "$2/requirements.txt"; then
    rm -rf "$2/venv" "$2/requirements.txt"
    # Some systems have a pip but nothing to put one into a new environment.
    python3 -m venv --without-pip "$2/venv"
    timeout 300 python3 -m pip --python "$2/venv/bin/python" install --quiet --disable-pip-version-check \
      -r "$1/requirements.txt" >"$2/pip.log" 2>&1 || { cat "$2/pip.log" >&2; fail "pip could not install $2"; }
    cp "$1/requirements.txt" "$2/"
  fi
}

# install_chromium: Chromium from the system's packages, unless it is there.
install_chromium() {
  command -v chromium >/dev/null && return
  { apt-get update && apt-get install -y --no-install-recommends chromium; } >"$work/chromium.log" 2>&1 ||
    { tail -n 20 "$work/chromium.log" >&2; fail "Chromium could not be installed"; }
  echo "installed: $((SECONDS - started)) s"
}

# free_port: prints a port of this machine that nothing uses.
free_port() {
  python3 -c 'import socket; free = socket.socket(); free.bind(("127.0.0.1", 0)); print(free.getsockname()[1])'
}

# said FILE WORDS: what follows WORDS in a line of FILE, as soon as that line is there and whole.
said() {
  local tries line
  for tries in $(seq 200); do
    while IFS= read -r line; do
      case $line in *"$2"*) printf '%s' "${line##*"$2"}"; return 0 ;; esac
    done 2>/dev/null <"$1" || true
    sleep 0.1
  done
  cat "$1" >&2
  fail "it did not say \`$2\`"
}

# start_server FLAG...: starts `stile serve` on an empty space and sets $origin.
start_server() {
  mkdir "$tmp/space"
  "$stile" serve "$tmp/space" --listen 127.0.0.1:0 --state "$tmp/state" "$@" >"$tmp/serve.out" 2>"$tmp/serve.log" &
  server_pid=$!
  origin=$(said "$tmp/serve.log" 'listening on ')
}

# Ends the server as a service manager would and expects a clean end.
stop_server() {
  local pid=$server_pid status=0 tries
  kill -TERM "$pid"
  for tries in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$pid" 2>/dev/null && fail "the server was still there 10 s after SIGTERM"
  server_pid=
  wait "$pid" || status=$?
  [ "$status" -eq 0 ] || fail "the server ended with status $status after SIGTERM"
}

# mint FILE SCOPE...
mint() {
  local file=$1 scopes=() scope
  shift
  for scope; do scopes+=(--scope "$scope"); done
  (umask 077; "$stile" token --state "$tmp/state" "${scopes[@]}" >"$file")
  [ "$(wc -l <"$file")" -eq 1 ] || fail "stile token printed more or less than one line"
}
