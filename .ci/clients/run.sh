#!/usr/bin/env bash
# The official clients against a built server, over HTTP and stdio, and against the gateway:
#
#     run.sh STILE_BINARY [WORK_FOLDER]
#
# Installs the clients into WORK_FOLDER (default .ci/out), once.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
source_folder=$here/clients
folder=$work/clients
every=$here/../clients
python=$folder/venv/bin/python

# run NAME COMMAND...: its `ok` lines, and what it says on standard error only if it fails.
run() {
  local name=$1 log=$tmp/client.log since=$SECONDS
  shift
  if ! timeout 150 "$@" 2>"$log" </dev/null; then
    tail -n 40 "$log" >&2
    [ ! -s "$tmp/serve.log" ] || { echo "the server's log ends with:"; tail -n 20 "$tmp/serve.log"; } >&2
    fail "$name"
  fi
  echo "done $name: $((SECONDS - since)) s"
}

mkdir -p "$folder" "$folder/frameworks"
install_python "$source_folder" "$folder" &
python_installed=$!
install_python "$source_folder/frameworks" "$folder/frameworks" &
frameworks_installed=$!
install_modules "$source_folder" "$folder"
wait "$python_installed" || exit 1
wait "$frameworks_installed" || exit 1
# An ES module is resolved from where it lies, so it goes beside its node_modules.
cp "$source_folder/typescript_client.mjs" "$source_folder/records_client.mjs" "$every/drivers/typescript.mjs" "$folder/"
# Beside the sources nothing is made.
export PYTHONDONTWRITEBYTECODE=1
export MODULES=$folder/node_modules NODE=$node
echo "installed: $((SECONDS - started)) s"

start_server
mint "$tmp/token" write:/
mint "$tmp/reader" read:/
mint "$tmp/narrow" read:/ write:/elsewhere/
mkdir "$tmp/stdio-space"
http=(--http "$origin/mcp" --token "$tmp/token" --reader-token "$tmp/reader")
stdio=(--stdio "$stile" stdio "$tmp/stdio-space" --state "$tmp/stdio-state")

run "python http" "$python" "$source_folder/python_client.py" "${http[@]}"
run "agent frameworks" "$folder/frameworks/venv/bin/python" "$source_folder/frameworks/framework_clients.py" \
  --http "$origin/mcp" --token "$tmp/token"
run "python stdio" "$python" "$source_folder/python_client.py" "${stdio[@]}"
run "typescript http" "$node" "$folder/typescript_client.mjs" "${http[@]}"
run "typescript stdio" "$node" "$folder/typescript_client.mjs" "${stdio[@]}"
run "inspector http" "$source_folder/inspector.sh" "${http[@]}" --narrow-token "$tmp/narrow"
run "inspector stdio" "$source_folder/inspector.sh" "${stdio[@]}"

# The clients that take seconds, through the whole story of `just clients`: from the address alone,
# over a restart and an idle session, until the owner takes back what they changed.
must=find,register,consent,token,list,names,call,image,cancel,renew,restart,idle,undone
mkdir "$tmp/every"
for group in agents libraries fastmcp; do ln -s "$folder" "$tmp/every/$group"; done
for client in typescript-1 typescript-2 typescript-2-legacy python python-legacy; do
  run "story of $client" python3 -B "$every/rig/main.py" --stile "$stile" --installed "$tmp/every" \
    --must "$must" "$client"
done
python3 -B "$every/rig/main.py" --check

"$python" "$source_folder/records_client.py" --rows "$tmp/mail.jsonl"
"$stile" import "$tmp/mail.jsonl" --connection own --stream mail --key id --state "$tmp/state" >"$tmp/import.log" 2>&1 ||
  { cat "$tmp/import.log" >&2; fail "the rows were not imported"; }
# The picture is bytes, which only a declaration says.
declare_picture() {
  "$stile" declare --connection own --stream mail --state "$tmp/state" "$@"
}
declare_picture --show >"$tmp/declaration.json"
"$python" - "$tmp/declaration.json" <<'PICTURE'
import json, sys
with open(sys.argv[1]) as file:
    declaration = json.load(file)
declaration["schema"]["properties"]["picture"]["contentEncoding"] = "base64"
with open(sys.argv[1], "w") as file:
    json.dump(declaration, file)
PICTURE
declare_picture --from "$tmp/declaration.json"
grant=$("$stile" grant create --client check --stream mail --state "$tmp/state")
(umask 077; "$stile" token --state "$tmp/state" --grant "$grant" >"$tmp/records")
mkdir "$tmp/records-space"
http=(--http "$origin/mcp" --token "$tmp/records" --other-token "$tmp/token")
stdio=(--stdio "$stile" stdio "$tmp/records-space" --state "$tmp/state" --grant "$grant")
mcp=(--stdio "$stile" mcp --provider "$origin" --token-file "$tmp/records")

run "python records http" "$python" "$source_folder/records_client.py" "${http[@]}"
run "python records stdio" "$python" "$source_folder/records_client.py" "${stdio[@]}"
run "python records mcp" "$python" "$source_folder/records_client.py" "${mcp[@]}"
run "typescript records http" "$node" "$folder/records_client.mjs" "${http[@]}"
run "typescript records stdio" "$node" "$folder/records_client.mjs" "${stdio[@]}"
run "typescript records mcp" "$node" "$folder/records_client.mjs" "${mcp[@]}"
stop_server
mkdir "$tmp/gateway"
run "python gateway" "$python" "$source_folder/gateway_client.py" "$stile" "$tmp/gateway"
echo "all clients: $((SECONDS - started)) s"
