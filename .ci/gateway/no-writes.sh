#!/usr/bin/env bash
# That the gateway writes nothing, seen from its system calls:
#
#     no-writes.sh STILE_BINARY
#
# Traces it while it is called, before a store that answers well and badly, once beside a server that has the same
# state folder open and once without. Fails on every call that opens a file for writing, makes, moves, removes or
# changes one, whether or not it succeeds. Installs strace where there is none.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
folder=$here/gateway

# Calls that are not there on every machine are marked with `?`.
traced='execve,?open,openat,?openat2,?creat,?mkdir,mkdirat,?mknod,mknodat,?rename,?renameat,renameat2,?unlink,unlinkat'
traced+=',?rmdir,?link,linkat,?symlink,symlinkat,truncate,ftruncate,fallocate,?chmod,fchmod,fchmodat,?fchmodat2,?chown'
traced+=',fchown,fchownat,?lchown,setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,?utime,?utimes'
traced+=',?futimesat,utimensat,mount,copy_file_range,?io_uring_setup,memfd_create'

trace=(strace -f -qq -s 4096 -e trace="$traced" -e signal=none -o)

install_strace() {
  command -v strace >/dev/null && return
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
  { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends strace; } \
    >"$tmp/apt.log" 2>&1 || { cat "$tmp/apt.log" >&2; fail "strace could not be installed"; }
}

# The check itself is checked: a program that writes is found out, and one that does not is not.
prove_check() {
  "${trace[@]}" "$tmp/writes" sh -c 'echo kept > "$1"' sh "$tmp/kept"
  ! python3 "$folder/writes.py" "$tmp/writes" >/dev/null || fail "a write was not seen"
  "${trace[@]}" "$tmp/makes" mkdir "$tmp/made"
  ! python3 "$folder/writes.py" "$tmp/makes" >/dev/null || fail "a new folder was not seen"
  "${trace[@]}" "$tmp/reads" cat "$tmp/kept" >/dev/null
  python3 "$folder/writes.py" "$tmp/reads" || fail "something was seen where nothing was written"
}

# call ORIGIN TOOL NOTE: what the gateway answers.
call() {
  curl --silent --max-time 20 "$1/mcp" -H "Authorization: Bearer $(cat "$tmp/token")" -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
    -H 'Mcp-Method: tools/call' -H "Mcp-Name: $2" --data-binary @- <<JSON
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"$2","arguments":{"path":"$3"},"_meta":{
"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
"io.modelcontextprotocol/clientInfo":{"name":"check","version":"1"}}}}
JSON
}

# expect ORIGIN NOTE WORDS: that the answer about NOTE holds WORDS, from each tool.
expect() {
  local tool answer
  for tool in get_note_outline get_document_tree get_metadata_facets get_section_source; do
    answer=$(call "$1" "$tool" "$2")
    case $answer in *"$3"*) ;; *) fail "$tool about $2 does not answer \`$3\`: $answer" ;; esac
  done
}

# watch NAME FLAG...: traces a gateway with these flags from its start to its end.
watch() {
  local log=$tmp/$1.log calls=$tmp/$1.trace origin metrics tracer counted
  "${trace[@]}" "$calls" "$stile" gateway --upstream "$upstream" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
    --state "$tmp/state" --upstream-timeout-seconds 1 --log trace "${@:2}" </dev/null >/dev/null 2>"$log" &
  tracer=$!
  origin=$(said "$log" 'listening on ')
  gateway=$(awk '/execve\(/ { print $1; exit }' "$calls")
  metrics=$(said "$log" 'metrics on ')
  expect "$origin" good.md '"schema":"knowtation.'
  expect "$origin" missing.md 'Upstream 404'
  expect "$origin" broken.md 'Upstream 500'
  expect "$origin" garbage.md 'Upstream invalid response'
  expect "$origin" huge.md 'Note too large'
  expect "$origin" slow.md 'Upstream timeout'
  expect "$origin" ../good.md 'Invalid path'
  # Read whole: a reader that ends at the first match would end curl with an error.
  counted=$(curl --silent --fail --max-time 20 "$metrics") || fail "there are no metrics"
  case $counted in *stile_calls_total{*) ;; *) fail "the metrics have no calls" ;; esac
  # The tracer ends with the program that it started, and with its status.
  kill -TERM "$gateway"
  wait "$tracer" || fail "the gateway ended badly"
  gateway=
  python3 "$folder/writes.py" "$calls" || fail "the gateway writes ($1)"
  echo "ok   the gateway writes nothing ($1)"
}

gateway=
store=
end() {
  # The tracer ends with what it traces.
  [ -z "$gateway" ] || kill "$gateway" 2>/dev/null || true
  [ -z "$store" ] || kill "$store" 2>/dev/null || true
  clean_up
}
trap end EXIT
install_strace
# Some containers forbid tracing. The tests have shown by then, in two other ways, that nothing is written.
if ! strace -f -qq -o "$tmp/none" true 2>"$tmp/none.log"; then
  echo "not  tracing is not allowed on this machine: $(head -1 "$tmp/none.log")"
  exit 0
fi
prove_check
start_server
mint "$tmp/token" read:/
python3 "$folder/upstream.py" >"$tmp/store.log" &
store=$!
upstream=$(said "$tmp/store.log" 'listening on ')
watch "beside a server"
stop_server
before=$(find "$tmp/state" -printf '%p %s %i %T@ %C@\n' | sort)
watch "alone"
(umask 077 && echo secret >"$tmp/secret")
watch "with a token and a secret of its own" --upstream-credential own --upstream-token-file "$tmp/token" \
  --gateway-secret-file "$tmp/secret"
[ "$before" = "$(find "$tmp/state" -printf '%p %s %i %T@ %C@\n' | sort)" ] || fail "the state folder has changed"
echo "ok   the state folder is as it was"
