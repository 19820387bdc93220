#!/usr/bin/env bash
# Drives a running Stile with the Inspector's command line, a process for each call, in both eras:
#
#     inspector.sh --http URL --token FILE --reader-token FILE --narrow-token FILE
#     inspector.sh --stdio COMMAND [ARGUMENT...]
#
# The Inspector lists the tools before it calls one and calls only what is listed. So a refusal is
# tried with a third caller, one that may write somewhere, and on stdio with the same scopes.
# MODULES is the folder the packages are installed in, NODE the program to run them with.

set -euo pipefail

: "${MODULES:?the folder with the installed packages}" "${NODE:?the node program}"
inspector=$MODULES/@modelcontextprotocol/inspector/clients/launcher/build/index.js
label= era= step=
tmp=$(mktemp -d)
trap 'rm -rf -- "$tmp"' EXIT
export HOME=$tmp

fail() {
  printf 'FAILED %s: %s: %s: %s\n' "$label" "$era" "$step" "$*" >&2
  exit 1
}

begin() { step=$1; }
passed() { printf 'ok %s: %s: %s\n' "$label" "$era" "$step"; }

# One call as `writer`, `reader` or `narrow`: the answer goes to $tmp/answer, a refusal's to
# $tmp/error, and $status says which.
inspect() {
  local caller=$1 target=()
  shift
  if [ "$transport" = http ]; then
    target=("$url" --transport http --header "Authorization: Bearer $(cat "${tokens[$caller]}")")
    set -- "${target[@]}" "$@"
  else
    case $caller in
      writer) target=("${command[@]}") ;;
      reader) target=("${command[@]}" --scope read:/) ;;
      narrow) target=("${command[@]}" --scope read:/ --scope write:/elsewhere/) ;;
    esac
    set -- "$@" -- "${target[@]}"
  fi
  status=0
  timeout 30 "$NODE" "$inspector" --cli --quiet --format json --protocol-era "$era" "$@" \
    >"$tmp/answer" 2>"$tmp/error" </dev/null || status=$?
}

call() {
  local caller=$1 tool=$2 arguments=$3
  inspect "$caller" --method tools/call --tool-name "$(spelled "$tool")" --tool-args-json "$arguments"
}

# The name the server listed: dotted or underscored.
spelled() {
  grep -Fqx "$1" "$tmp/names" && echo "$1" || echo "${1/./_}"
}

# at a.b.0.c: that part of the answer, as text.
at() {
  "$NODE" -e '
    const answer = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    const part = process.argv[2].split(".").reduce((value, key) => value?.[key], answer);
    process.stdout.write(typeof part === "string" ? part : JSON.stringify(part) ?? "nothing");
  ' "$tmp/answer" "$1"
}

succeeds() {
  [ "$status" -eq 0 ] || fail "status $status: $(cat "$tmp/answer" "$tmp/error")"
}

# refused CODE: the last call was a tool error with this code.
refused() {
  [ "$status" -eq 5 ] || fail "status $status where the refusal $1 was due: $(cat "$tmp/answer" "$tmp/error")"
  equal "the code" "$(at result.structuredContent.error.code)" "$1"
}

equal() {
  [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

sha256() { printf "$1" | sha256sum | cut -d' ' -f1; }

names_of() {
  "$NODE" -e '
    const { result } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    for (const tool of result.tools) console.log(tool.name);
  ' "$tmp/answer"
}

story() {
  local folder path before after
  local notes="get_document_tree get_metadata_facets get_note_outline get_section_source"
  folder=/inspector-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
  path=$folder/notes/plan.md

  begin "list tools"
  inspect writer --method tools/list --strict
  succeeds
  names_of >"$tmp/names"
  equal "the list of tools" "$(sed -E 's/^(file|folder|note|text)_/\1./' "$tmp/names" | tr '\n' ' ')" \
    "file.append file.copy file.create file.find file.list file.move file.read file.remove file.search folder.create folder.move folder.remove $notes note.find note.links note.set_property note.tags text.append text.edit text.gather text.insert text.read text.replace text.search "
  passed

  begin create
  call writer file.create '{"path":"'"$path"'","content":"first\nsecond\n"}'
  succeeds
  before=$(sha256 'first\nsecond\n')
  equal "the hash" "$(at result.structuredContent.hash)" "$before"
  passed

  begin read
  call writer text.read '{"path":"'"$path"'","lines":[-1,0]}'
  succeeds
  equal "the content" "$(at result.structuredContent.content)" second
  equal "the hash" "$(at result.structuredContent.hash)" "$before"
  passed

  begin edit
  call writer text.replace '{"path":"'"$path"'","hash":"'"$before"'","lines":[1,2],"old":"first","new":"1st"}'
  succeeds
  after=$(sha256 '1st\nsecond\n')
  equal "the hash" "$(at result.structuredContent.hash)" "$after"
  call writer text.insert '{"path":"'"$path"'","hash":"'"$after"'","line":2,"anchor":"second","content":"between"}'
  succeeds
  after=$(sha256 '1st\nbetween\nsecond\n')
  equal "the hash" "$(at result.structuredContent.hash)" "$after"
  call writer text.append '{"path":"'"$path"'","hash":"'"$after"'","content":"third\n"}'
  succeeds
  after=$(sha256 '1st\nbetween\nsecond\nthird\n')
  equal "the hash" "$(at result.structuredContent.hash)" "$after"
  passed

  begin collide
  call writer text.append '{"path":"'"$path"'","hash":"'"$before"'","content":"lost"}'
  refused stale
  call writer text.read '{"path":"'"$path"'"}'
  succeeds
  equal "the hash" "$(at result.structuredContent.hash)" "$after"
  passed

  begin "list a directory"
  inspect writer --method resources/templates/list
  succeeds
  grep -qF 'list://{+path}' "$tmp/answer" || fail "no list://{+path}: $(cat "$tmp/answer")"
  inspect writer --method resources/read --uri list:///
  succeeds
  inspect writer --method resources/read --uri "list://$folder/notes"
  succeeds
  at result.contents.0.text >"$tmp/listing"
  mv "$tmp/listing" "$tmp/answer"
  equal "the path" "$(at path)" "$folder/notes"
  equal "the entry" "$(at entries.0.name) $(at entries.0.type) $(at entries.1)" "plan.md file nothing"
  passed

  begin "be refused"
  inspect reader --method tools/list
  succeeds
  equal "the tools of a reader" "$(names_of | sed -E 's/^(file|folder|note|text)_/\1./' | tr '\n' ' ')" "file.find file.list file.read file.search $notes note.find note.links note.tags text.gather text.read text.search "
  call narrow text.append '{"path":"'"$path"'","hash":"'"$after"'","content":"refused"}'
  if [ "$transport" = http ]; then
    [ "$status" -eq 1 ] || fail "status $status: $(cat "$tmp/answer" "$tmp/error")"
    grep -qi 'insufficient scope' "$tmp/error" || fail "the Inspector says $(cat "$tmp/error")"
    grep -qF 'write:' "$tmp/error" || fail "the scope that is needed is not named: $(cat "$tmp/error")"
  else
    refused insufficient_scope
  fi
  passed

  begin remove
  call writer file.remove '{"path":"'"$path"'","hash":"'"$after"'"}'
  succeeds
  call writer text.read '{"path":"'"$path"'"}'
  refused not_found
  passed
}

declare -A tokens=()
command=()
transport=
while [ $# -gt 0 ]; do
  case $1 in
    --http) transport=http url=$2; shift 2 ;;
    --token) tokens[writer]=$2; shift 2 ;;
    --reader-token) tokens[reader]=$2; shift 2 ;;
    --narrow-token) tokens[narrow]=$2; shift 2 ;;
    --stdio) transport=stdio; shift; command=("$@"); break ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
done
[ -n "$transport" ] || { echo "give --http or --stdio" >&2; exit 2; }
label="inspector $transport"
for era in legacy modern; do story; done
