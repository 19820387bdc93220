#!/usr/bin/env bash
# Counts the instructions of the hot paths with callgrind, and compares them with counts.tsv:
#
#     run.sh [--write] [PROGRAM]
#
# Fails with the names of the paths that take over 2 % more than what is stored. With --write it
# stores the counts, also to guard what was gained. PROGRAM is the benchmark `instructions`, built
# without optimisation; the script builds it where PROGRAM is left out. The counts are of one
# toolchain, which is named beside them. Takes half a minute.

set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
stored=$here/counts.tsv
write= program=
for argument; do
  case $argument in
    --write) write=1 ;;
    *) program=$argument ;;
  esac
done

if ! command -v valgrind >/dev/null; then
  sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get install -y --no-install-recommends valgrind >/dev/null ||
    { echo "instructions: valgrind is missing and cannot be installed" >&2; exit 1; }
fi
if [ -z "$program" ]; then
  cd -- "$here/../.."
  program=$(cargo bench --profile dev --workspace --bench instructions --no-run 2>&1 |
    sed -n 's|.*Executable benches/instructions.rs (\(.*\))|\1|p')
  [ -x "$program" ] || { echo "instructions: the benchmark was not built" >&2; exit 1; }
fi

# count NAME: the instructions of one path.
count() {
  local log
  log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --toggle-collect='instructions::measured*' "$program" "$1" 2>&1) || { echo "$log" >&2; exit 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' <<<"$log"
}

toolchain=$(rustc --version)
{
  printf '# %s, %s, without optimisation\n' "$toolchain" "$(uname -m)"
  for name in $("$program" --list); do
    printf '%s\t%s\n' "$name" "$(count "$name")"
  done
} >"${stored%.tsv}.now"
trap 'rm -f "${stored%.tsv}.now"' EXIT

if [ -n "$write" ]; then
  cp "${stored%.tsv}.now" "$stored"
  cat "$stored"
  exit 0
fi
awk -F '\t' '
  FNR == 1 { title[++files] = $0; next }
  files == 1 { before[$1] = $2; next }
  {
    change = 100 * ($2 - before[$1]) / (before[$1] ? before[$1] : 1)
    printf "%-10s %12d %12d %+7.2f %%\n", $1, before[$1], $2, change
    if (change > 2) worse = worse " " $1
    if (change < -2) better = better " " $1
  }
  END {
    if (title[1] != title[2])
      print "counts.tsv is of another toolchain: " substr(title[1], 3) " is not " substr(title[2], 3)
    if (worse) print "more instructions than before:" worse
    if (better) print "fewer instructions, which --write stores:" better
    exit worse || title[1] != title[2]
  }' "$stored" "${stored%.tsv}.now"
