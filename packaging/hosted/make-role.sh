#!/bin/bash
# Makes the role and the database of Stile, when the container of PostgreSQL starts for the first time.
#
# The role is a plain one. A superuser, or a role with BYPASSRLS, is not held by row-level security,
# which keeps the rows of one person from another.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -v "password=$(cat /run/secrets/stile)" -U "${POSTGRES_USER:-postgres}" <<'SQL'
CREATE ROLE stile LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION
    PASSWORD :'password';
CREATE DATABASE stile OWNER stile ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C';
REVOKE ALL ON DATABASE stile FROM PUBLIC;
SQL
