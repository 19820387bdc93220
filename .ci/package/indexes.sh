#!/usr/bin/env bash
# The wheel and the packages for npm, got by their own clients from an index on loopback:
#
#     indexes.sh STILE_BINARY TARGET [WORK_FOLDER]
#
# Makes the packages of this version and of a next one from the program, and tells the whole story
# of `installed.py` with npm and with uv, each in an empty home. No client reaches another index.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$1" "${@:3}"
target=$2
source_folder=$here/package
folder=$work/package
mkdir -p "$folder"
cd -- "$here/.."
export PYTHONDONTWRITEBYTECODE=1

install_python "$source_folder" "$folder"
first=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
second=${first%.*}.$((${first##*.} + 1))
for version in "$first" "$second"; do
  python3 packaging/pack.py "$stile" "$target" "$tmp/$version" --indexes-only --version "$version"
done

for way in npm uv; do
  cp -r "$tmp/$first" "$tmp/published-$way"
  python3 "$source_folder/index.py" "$tmp/published-$way" >"$tmp/index-$way" &
  server_pid=$!
  index=$(said "$tmp/index-$way" 'listening on ')
  python3 "$source_folder/installed.py" "$way" "$index" "$tmp/published-$way" "$tmp/$second" \
    "$folder/venv/bin" "$first" "$second"
  kill "$server_pid" && wait "$server_pid" || true
  server_pid=
done
echo "packages of npm and PyPI tried: $((SECONDS - started)) s"
