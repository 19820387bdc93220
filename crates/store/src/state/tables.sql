-- The tables of keys, tokens and sign-in, in the words of SQLite. postgresql/schema.rs makes the
-- same tables of this text.

CREATE TABLE tokens (
    jti TEXT PRIMARY KEY NOT NULL,
    subject TEXT NOT NULL,
    client TEXT,
    scopes TEXT NOT NULL,
    issued INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER,
    grant_id TEXT,
    owner INTEGER NOT NULL DEFAULT 0,
    audience TEXT,
    shown INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
-- Those that count and those that ended last, and those that begin as somebody typed it.
CREATE INDEX tokens_by_end ON tokens (coalesce(revoked, expires));
CREATE INDEX tokens_by_beginning ON tokens (substr(jti, 1, 4));
-- A space without a folder was made by the first `stile token`. It is bound to the first folder
-- that is served.
CREATE TABLE spaces (
    audience TEXT PRIMARY KEY NOT NULL,
    folder TEXT UNIQUE,
    path TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE clients (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    redirects TEXT NOT NULL,
    created INTEGER NOT NULL,
    used INTEGER,
    ended INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE authorizations (
    id TEXT PRIMARY KEY NOT NULL,
    client TEXT NOT NULL,
    client_name TEXT NOT NULL,
    subject TEXT NOT NULL,
    audience TEXT NOT NULL,
    scopes TEXT NOT NULL,
    grant_id TEXT,
    single_use INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER,
    ended INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX authorizations_of_clients ON authorizations (client);
CREATE INDEX authorizations_never_used ON authorizations (created) WHERE used IS NULL;
CREATE TABLE authorization_codes (
    digest BLOB PRIMARY KEY NOT NULL,
    "authorization" TEXT NOT NULL,
    redirect TEXT,
    challenge TEXT NOT NULL,
    created INTEGER NOT NULL,
    spent INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX authorization_codes_by_time ON authorization_codes (created);
CREATE TABLE refresh_tokens (
    digest BLOB PRIMARY KEY NOT NULL,
    "authorization" TEXT NOT NULL,
    created INTEGER NOT NULL,
    spent INTEGER,
    -- The refresh token from which this one was made; none for the first of a family.
    parent BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_tokens_of_authorizations ON refresh_tokens ("authorization");
CREATE TABLE authorization_tokens (
    jti TEXT PRIMARY KEY NOT NULL,
    "authorization" TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_of_authorizations ON authorization_tokens ("authorization");
CREATE TABLE browser_sessions (
    digest BLOB PRIMARY KEY NOT NULL,
    subject TEXT NOT NULL,
    created INTEGER NOT NULL,
    used INTEGER NOT NULL,
    -- The role of a person whom an identity provider signed in.
    role TEXT,
    -- The browser in words, and the address of its last use.
    browser TEXT,
    address TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX browser_sessions_by_time ON browser_sessions (created);
CREATE TABLE sign_in_links (
    digest BLOB PRIMARY KEY NOT NULL,
    subject TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_links_by_time ON sign_in_links (created);
CREATE TABLE owner_password (
    "only" INTEGER PRIMARY KEY NOT NULL CHECK ("only" = 1),
    subject TEXT NOT NULL,
    salt BLOB NOT NULL,
    hash BLOB NOT NULL,
    memory_kib INTEGER NOT NULL,
    passes INTEGER NOT NULL,
    changed INTEGER NOT NULL
) STRICT;
CREATE TABLE passkeys (
    credential BLOB PRIMARY KEY NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    domain TEXT NOT NULL,
    public_key BLOB NOT NULL,
    counter INTEGER NOT NULL,
    created INTEGER NOT NULL,
    last_used INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE token_uses (
    jti TEXT PRIMARY KEY NOT NULL,
    used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE short_lived (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    owner TEXT NOT NULL,
    value TEXT NOT NULL,
    -- In microseconds since 1970.
    made INTEGER NOT NULL,
    -- In seconds since 1970.
    ends INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX short_lived_of_owners ON short_lived (kind, owner);
CREATE INDEX short_lived_by_end ON short_lived (ends);
