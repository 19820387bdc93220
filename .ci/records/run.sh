#!/usr/bin/env bash
# The records interface against its own OpenAPI document, by a property-based tester: as the owner, and as the client
# of a grant. No request may end in a server error, an undeclared status, or a body that the document does not allow.
#
#     run.sh STILE_BINARY [WORK_FOLDER]
#
# What is not checked is whether each request that the document allows is accepted: which parameters exclude each
# other is said in their descriptions.

source "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
prepare "$@"
folder=$work/records
mkdir -p "$folder"
install_python "$here/records" "$folder"
echo "installed: $((SECONDS - started)) s"

start_server --rate-per-second 100000 --rate-burst 100000
examples=$here/../examples/records
"$stile" import "$examples/messages.jsonl" --connection chat --stream messages --state "$tmp/state" 2>/dev/null
"$stile" import "$examples/contacts.json" --connection chat --stream contacts --state "$tmp/state" 2>/dev/null
"$stile" token --owner --state "$tmp/state" >"$tmp/owner"
grant=$("$stile" grant create --client tester --stream messages --field id --field body --state "$tmp/state" 2>/dev/null)
"$stile" token --grant "$grant" --state "$tmp/state" >"$tmp/client"

export SCHEMATHESIS_HOOKS=hooks PYTHONPATH=$here/records PYTHONDONTWRITEBYTECODE=1
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
checks=$checks,response_headers_conformance,negative_data_rejection,ignored_auth,unsupported_method
for who in owner client; do
  since=$SECONDS
  # In a folder of its own, since it leaves files behind.
  (cd "$tmp" && timeout 400 "$folder/venv/bin/schemathesis" --config-file "$here/records/schemathesis.toml" run "$origin/v1/openapi.json" \
    -H "Authorization: Bearer $(cat "$tmp/$who")" --checks "$checks" --phases coverage,fuzzing \
    --max-examples 60 --generation-database none --seed 20260101 --suppress-health-check all) >"$tmp/$who.log" 2>&1 ||
    { tail -n 80 "$tmp/$who.log" >&2; fail "the tester, as the $who"; }
  grep -E '^ *[0-9]+ generated' "$tmp/$who.log" | sed "s/^ */ok as the $who: /"
  echo "done as the $who: $((SECONDS - since)) s"
done
stop_server
