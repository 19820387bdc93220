#!/usr/bin/env bash
# What is handed out, made from a built server and tried as its users would:
#
#     run.sh STILE_BINARY [WORK_FOLDER]
#
# The archive has the program it should have, the manifest of the bundle is valid and the command in
# the manifest answers, the Debian package is installed, started as a service and removed, and the
# packages for PyPI and npm are got from an index on loopback by `uv` and `npm`.
# Needs cargo-deb. Without root or sudo the package is unpacked and not installed, and the last line
# says so.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
source_folder=$here/package
folder=$work/package
cd -- "$here/.."
files=$PWD/target/dist-files
export PYTHONDONTWRITEBYTECODE=1

install_modules "$source_folder" "$folder"
echo "installed: $((SECONDS - started)) s"

PROGRAM=$stile packaging/dist >"$tmp/dist.log" 2>&1 ||
  { cat "$tmp/dist.log" >&2; fail "packaging/dist"; }
bundle=$files/current.mcpb
(cd "$files" && sha256sum --quiet -c current.sha256) || fail "the checksums"
cmp -s "$stile" "$files/current/stile" || fail "the archive has another program"
echo "archive, bundle and checksums made: $((SECONDS - started)) s"

mkdir "$tmp/bundle"
python3 "$source_folder/unpack.py" "$bundle" "$tmp/bundle"
"$node" "$folder/node_modules/@anthropic-ai/mcpb/dist/cli/cli.js" validate "$tmp/bundle/manifest.json" \
  >"$tmp/validate.log" 2>&1 || { cat "$tmp/validate.log" >&2; fail "the manifest is not valid"; }
mkdir "$tmp/folder"
printf 'the plan\n' >"$tmp/folder/plan.md"
HOME=$tmp/bundle-home python3 "$source_folder/bundle.py" "$tmp/bundle" "$tmp/folder" "$files/server.json"
echo "the bundle answers: $((SECONDS - started)) s"

cargo deb --package stile-server --no-build --no-strip --output "$tmp/stile.deb" >"$tmp/deb.log" 2>&1 ||
  { cat "$tmp/deb.log" >&2; fail "cargo deb"; }
dpkg-deb --info "$tmp/stile.deb" >"$tmp/info"
grep -q '^ Package: stile$' "$tmp/info" || { cat "$tmp/info" >&2; fail "the package has another name"; }

# as_root COMMAND...: as root, or by sudo where it asks for no password.
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_install=yes
as_root true 2>/dev/null || can_install="neither root nor sudo"
! dpkg-query -W stile >/dev/null 2>&1 || can_install="this machine has the package already"

program=/usr/bin/stile
if [ "$can_install" = yes ]; then
  remove() { as_root dpkg --purge stile >"$tmp/purge.log" 2>&1 || true; }
  trap 'remove; clean_up' EXIT
  as_root dpkg --install "$tmp/stile.deb" >"$tmp/install.log" 2>&1 ||
    { cat "$tmp/install.log" >&2; fail "dpkg --install"; }
  dpkg -L stile >"$tmp/installed"
  cmp -s "$stile" "$program" || fail "the package installed another program"
else
  dpkg-deb --extract "$tmp/stile.deb" "$tmp/root"
  program=$tmp/root/usr/bin/stile
fi
[ "$("$program" --version)" = "$("$stile" --version)" ] || fail "stile --version"
mkdir "$tmp/home"
HOME=$tmp/home python3 "$source_folder/service.py" "$program" "$tmp/folder"
echo "the service ran: $((SECONDS - started)) s"

if [ "$can_install" = yes ]; then
  as_root dpkg --purge stile >"$tmp/purge.log" 2>&1 || { cat "$tmp/purge.log" >&2; fail "dpkg --purge"; }
  # Folders of others stay, and nothing else.
  while IFS= read -r path; do
    [ ! -f "$path" ] && [ ! -L "$path" ] || fail "the removed package left $path"
  done <"$tmp/installed"
  [ ! -e /usr/share/doc/stile ] || fail "the removed package left /usr/share/doc/stile"
  # What belongs to the person stays.
  [ -e "$tmp/home/.local/state/stile/key.json" ] || fail "the state is gone with the package"
  [ "$(cat "$tmp/folder/plan.md")" = "the plan" ] || fail "the folder is not what it was"
  echo "package, bundle and service tried: $((SECONDS - started)) s"
else
  echo "NOT RUN: installing and removing the Debian package ($can_install); the rest took $((SECONDS - started)) s"
fi
"$source_folder/indexes.sh" "$stile" "$(rustc -vV | sed -n 's/^host: //p')" "$work"
