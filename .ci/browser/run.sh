#!/usr/bin/env bash
# In Chromium against a built server: pages of an allowed and of a foreign origin, with and without
# TLS, and the owner's own pages, of which it leaves pictures:
#
#     run.sh STILE_BINARY [WORK_FOLDER]

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
source_folder=$here/browser
export PYTHONDONTWRITEBYTECODE=1

install_chromium

# Two free ports for pages, so that the two origins differ.
read -r allowed foreign < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(2)]
for free in sockets: free.bind(("127.0.0.1", 0))
print(*(free.getsockname()[1] for free in sockets))')

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
  -keyout "$tmp/key.pem" -out "$tmp/certificate.pem" 2>"$tmp/openssl.log" ||
  { cat "$tmp/openssl.log" >&2; fail "no certificate was made"; }
trust=$(openssl x509 -in "$tmp/certificate.pem" -pubkey -noout |
  openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64)

# open_page NAME PORT [FLAG...]
open_page() {
  local name=$1 port=$2 since=$SECONDS
  shift 2
  timeout 90 python3 "$source_folder/browser.py" --server "$origin" --port "$port" \
    --token "$tmp/token" --owner "$tmp/owner" --trust "$trust" "$@" || fail "$name"
  echo "done $name: $((SECONDS - since)) s"
}

for scheme in http https; do
  tls=()
  [ "$scheme" = http ] || tls=(--tls-certificate "$tmp/certificate.pem" --tls-key "$tmp/key.pem")
  start_server --allowed-origins "http://127.0.0.1:$allowed" "${tls[@]}"
  [[ $origin == "$scheme"://* ]] || fail "the server listens on $origin"
  mint "$tmp/token" write:/
  (umask 077; "$stile" token --state "$tmp/state" --owner >"$tmp/owner")
  open_page "allowed $scheme" "$allowed"
  [ -e "$tmp/space/allowed.md" ] || fail "the page made no file"
  open_page "foreign $scheme" "$foreign" --foreign
  [ ! -e "$tmp/space/foreign.md" ] || fail "a foreign page made a file"
  stop_server
  rm -r "$tmp/space" "$tmp/serve.log"
done
# The owner's pages, at a name at which browsers allow passkeys.
since=$SECONDS
mkdir -p "$work/browser"
install_modules "$source_folder" "$work/browser"
cp "$source_folder/pages.mjs" "$work/browser/"
start_server
mkdir "$tmp/space/work" "$tmp/space/journal"
printf 'correct horse battery %s\n' "$RANDOM$RANDOM" >"$tmp/password"
"$stile" owner password --state "$tmp/state" <"$tmp/password" >"$tmp/owner.log"
(cd "$work/browser" &&
  timeout 450 "$node" pages.mjs "${origin/127.0.0.1/localhost}" "$tmp/password" "$work/browser/pictures") ||
  { cat "$tmp/serve.log" >&2; fail "the owner's pages"; }
stop_server
echo "done the owner's pages: $((SECONDS - since)) s, pictures in $work/browser/pictures"
echo "all pages: $((SECONDS - started)) s"
