#!/bin/bash
# Makes the roles and the database of Stile, when the container of PostgreSQL starts for the first time.
#
# `stile_owner` owns the tables, and servers connect as `stile`. Both are plain roles. A superuser, or a
# role with BYPASSRLS, is not held by row-level security, which keeps the rows of one person from another.
set -euo pipefail
psql -v ON_ERROR_STOP=1 -v "password=$(cat /run/secrets/stile)" -v "owner=$(cat /run/secrets/owner)" \
    -U "${POSTGRES_USER:-postgres}" <<'SQL'
CREATE ROLE stile_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION
    PASSWORD :'owner';
CREATE ROLE stile LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION
    PASSWORD :'password';
CREATE DATABASE stile OWNER stile_owner ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C';
REVOKE ALL ON DATABASE stile FROM PUBLIC;
GRANT CONNECT ON DATABASE stile TO stile;
SQL
