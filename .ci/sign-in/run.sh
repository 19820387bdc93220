#!/usr/bin/env bash
# Clients that know nothing but the address sign in to a built server, each through Chromium, in which
# the owner presses the button:
#
#     run.sh STILE_BINARY [WORK_FOLDER]
#
# The two SDKs and the Inspector are those of .ci/clients, and the conformance suite is that of
# .ci/conformance. Its scenarios `auth/…` test clients; two others test an authorization server.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
source_folder=$here/sign-in
clients=$work/clients
remote=$work/sign-in
python=$clients/venv/bin/python
export PYTHONDONTWRITEBYTECODE=1

install_chromium
mkdir -p "$clients"
install_python "$here/clients" "$clients" &
python_installed=$!
install_modules "$source_folder" "$remote"
install_modules "$here/conformance" "$work/conformance"
install_modules "$here/clients" "$clients"
wait "$python_installed" || exit 1
# An ES module is resolved from where it lies, so it goes beside the node_modules.
cp "$source_folder/typescript_sign_in.mjs" "$source_folder/remote_sign_in.mjs" "$clients/"
proxy=$remote/node_modules/mcp-remote/dist/proxy.js
inspector=$clients/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js
echo "installed: $((SECONDS - started)) s"

start_server
printf 'the plan\n' >"$tmp/space/plan.md"
url=$origin/mcp

# Profiles of Chromium go there, too.
export TMPDIR=$tmp

# sign_in NAME [--decision WORD] -- COMMAND...: the command signs in, and must end well.
sign_in() {
  local name=$1 since=$SECONDS
  shift
  mkdir -p "$tmp/home-$name"
  HOME=$tmp/home-$name timeout 150 "$node" "$source_folder/owner.mjs" \
    --stile "$stile" --state "$tmp/state" "$@" >"$tmp/$name.out" 2>"$tmp/$name.log" </dev/null || {
    cat "$tmp/$name.out" "$tmp/$name.log" >&2
    echo "the server's log ends with:" >&2
    tail -n 20 "$tmp/serve.log" >&2
    fail "$name"
  }
  grep '^ok ' "$tmp/$name.out"
  echo "done $name: $((SECONDS - since)) s"
}

sign_in python -- "$python" "$source_folder/python_sign_in.py" "$url" /plan.md $'the plan\n'
sign_in typescript -- "$node" "$clients/typescript_sign_in.mjs" "$url" /plan.md $'the plan\n'
sign_in refusal --decision deny -- \
  "$node" "$clients/typescript_sign_in.mjs" "$url" /plan.md $'the plan\n' --expect-refusal
sign_in mcp-remote -- "$node" "$clients/remote_sign_in.mjs" "$proxy" "$url" /plan.md $'the plan\n'
# The Inspector wants a terminal or a browser to open. It finds none, and prints the address.
sign_in inspector -- env MCP_AUTO_OPEN_ENABLED=true PATH=/nonexistent "$node" "$inspector" --cli --format json "$url" --transport http \
  --callback-url "http://127.0.0.1:$(free_port)/oauth/callback" \
  --method tools/call --tool-name file.list --tool-args-json '{"path":"/"}'
grep -q 'plan.md' "$tmp/inspector.out" || fail "the Inspector's answer has no plan.md"
port=$(free_port)
id=$("$stile" client add --state "$tmp/state" --name Conformance --redirect http://127.0.0.1/callback)
sign_in conformance -- "$node" "$work/conformance/node_modules/conformance-0.2/dist/index.js" \
  authorization --url "$origin" --client-id "$id" --resource "$url" --port "$port"
grep -q 'Total: 2 passed, 0 failed' "$tmp/conformance.out" || {
  cat "$tmp/conformance.out" >&2
  fail "the scenarios of an authorization server"
}
stop_server
echo "all clients signed in: $((SECONDS - started)) s"
