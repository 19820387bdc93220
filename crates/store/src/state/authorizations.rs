//! What the owner approved for clients, with the codes, refresh tokens and access tokens that were
//! issued from each approval.
//!
//! An authorization is one approval. All refresh tokens of an authorization are one family: ending
//! the authorization ends them and every access token. Codes and refresh tokens carry no rights;
//! the authorization does, so a stolen or restored one never allows more than the owner approved.
//! The database holds SHA-256 digests of codes and refresh tokens only.

use stile_domain::scope::Scopes;

use super::browser_sessions::SecretDigest;
use super::clients::{ClientRecord, store_approved};
use super::session_rows::{end_sessions_of, narrow_sessions_of};
use super::state_dir::StateError;
use super::tables::{TableError, TableRow, Tables, values};
use super::tokens::{TokenRecord, TokenStore, insert_token};

/// The used refresh tokens that a family keeps, so that the use of a copy of one ends the family.
const KEPT_SPENT: i64 = 32;
/// When a refresh token was used that was closed since another one of its fork was used.
const CLOSED: i64 = i64::MIN;

/// A code ends this long after it was issued, in seconds.
pub const CODE_SECONDS: i64 = 60;
/// A refresh token that was used is accepted again for so long, in seconds: two processes of one
/// client may refresh at once, and an answer may get lost.
pub const REFRESH_GRACE_SECONDS: i64 = 30;
/// What is kept of a code that was spent or that expired, in seconds, to notice its replay.
const CODE_KEPT_SECONDS: i64 = 24 * 60 * 60;

/// One approval of the owner. Times are UTC seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRecord {
    /// The identifier by which the authorization is shown and ended.
    pub id: String,
    /// The `client_id` of the client.
    pub client: String,
    /// The name that the client had when the owner approved.
    pub client_name: String,
    /// The user who approved.
    pub subject: String,
    /// The `aud` of the access tokens: the space.
    pub audience: String,
    /// The path scopes that were approved, as a `scope` claim.
    pub scopes: String,
    /// The grant on records that was made of the approval.
    pub grant: Option<String>,
    /// Whether one access token is all that the client gets.
    pub single_use: bool,
    /// When the owner approved.
    pub created: i64,
    /// When the authorization ends by itself.
    pub expires: i64,
    /// When a token was last issued.
    pub used: Option<i64>,
    /// When the authorization was ended.
    pub ended: Option<i64>,
}

/// A code, to be recorded with its authorization.
#[derive(Clone, Debug)]
pub struct NewCode<'a> {
    /// The digest of the code.
    pub digest: SecretDigest,
    /// The redirect address that the request named; `None` if it named none.
    pub redirect: Option<&'a str>,
    /// The PKCE challenge of the request.
    pub challenge: &'a str,
}

/// What presenting a code led to. The code is spent in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeSpent {
    /// The code was good and is now spent.
    Now(Box<SpentCode>),
    /// The code was spent before. Its authorization is now ended.
    Before,
    /// The code is unknown or too old, or its authorization has ended.
    Never,
}

/// A code that was good until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentCode {
    /// What the owner approved.
    pub authorization: AuthorizationRecord,
    /// The redirect address that the request named.
    pub redirect: Option<String>,
    /// The PKCE challenge of the request.
    pub challenge: String,
}

/// What presenting a refresh token led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshSpent {
    /// The token was good; its successor is recorded.
    Now(Box<AuthorizationRecord>),
    /// The token was good, its successor is recorded, and another token had been made from the same
    /// one. That one is of no use any more, and all access tokens so far have ended.
    Forked(Box<AuthorizationRecord>),
    /// The token was used before, too long ago. Its authorization is now ended.
    Replayed,
    /// The token is unknown, or its authorization has ended or is another client's.
    Never,
}

/// How long after a code was spent its tokens may still be being made, in seconds.
const REDEEMED_SECONDS: u64 = 10;

const COLUMNS: &str = "id, client, client_name, subject, audience, scopes, grant_id, single_use, \
                       created, expires, used, ended";

impl TokenStore {
    /// Records what the owner approved, for which client, and the code that the client gets,
    /// durably. What the client was approved before, for the same person, has the same scopes from
    /// now on: the owner decided about the client, and a token of an earlier approval may no longer
    /// do what the owner took away.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn authorize(
        &self,
        authorization: &AuthorizationRecord,
        client: &ClientRecord,
        code: &NewCode<'_>,
    ) -> Result<(), StateError> {
        let now = authorization.created;
        // What is old is nobody's, so it is removed without keeping approvals waiting.
        self.remove_ended(now)?;
        self.change("record an authorization in", |tables| {
            insert_authorization(tables, authorization)?;
            end_narrowed_sessions(tables, authorization)?;
            tables.execute(
                "UPDATE authorizations SET scopes = ?2 WHERE client = ?1 AND subject = ?3 \
                 AND audience = ?4 AND single_use = 0 AND ended IS NULL",
                values![
                    authorization.client, authorization.scopes, authorization.subject,
                    authorization.audience
                ],
            )?;
            tables.execute(
                "INSERT INTO authorization_codes \
                 (digest, \"authorization\", redirect, challenge, created) VALUES (?1, ?2, ?3, ?4, ?5)",
                values![code.digest, authorization.id, code.redirect, code.challenge, now],
            )?;
            store_approved(tables, client, now)
        })
    }

    /// Spends a code, durably. A code that was spent before ends its authorization, unless another
    /// request redeems it at this moment. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn spend_code(&self, code: &SecretDigest, now: i64) -> Result<CodeSpent, StateError> {
        self.change_rows("spend a code of", |tables| {
            // Of several servers that redeem a code, one changes the row. The others wait for that
            // one, and then find the code spent.
            let spent = tables.first(
                "UPDATE authorization_codes SET spent = ?2 WHERE digest = ?1 AND spent IS NULL \
                 RETURNING \"authorization\", redirect, challenge, created",
                values![code, now],
                |row| {
                    let id: String = row.get(0)?;
                    Ok((id, row.get(1)?, row.get(2)?, row.get::<i64>(3)?))
                },
            )?;
            let Some((id, redirect, challenge, created)) = spent else {
                let known: Option<(String, i64)> = tables.first(
                    "SELECT \"authorization\", coalesce(spent, 0) FROM authorization_codes \
                     WHERE digest = ?1",
                    values![code],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )?;
                let Some((id, spent)) = known else { return Ok(CodeSpent::Never) };
                // A client that sends its request twice meets two servers at once. What the one
                // issues at this moment must not end before the client has it.
                let issued = lock(tables, &id)?.is_none_or(|found| found.used.is_some());
                if issued || now.abs_diff(spent) > REDEEMED_SECONDS {
                    end(tables, &id, now)?;
                }
                return Ok(CodeSpent::Before);
            };
            let is_young = (0..=CODE_SECONDS).contains(&now.saturating_sub(created));
            let live = find(tables, &id)?.filter(|found| is_young && is_live(found, now));
            Ok(match live {
                Some(authorization) => {
                    CodeSpent::Now(Box::new(SpentCode { authorization, redirect, challenge }))
                }
                None => CodeSpent::Never,
            })
        })
    }

    /// Spends a refresh token of a client and records its successor, durably. Ends the family if
    /// two parties have its tokens: the token was used more than [`REFRESH_GRACE_SECONDS`] ago, or
    /// one made from it was used since, or another one that was made from the same token was used.
    /// If there is such another one and it was not used, an answer may just have got lost. So the
    /// family goes on with this token alone: all access tokens so far end now, and the use of the
    /// other one will end the family. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn spend_refresh(
        &self,
        token: &SecretDigest,
        client: &str,
        successor: &SecretDigest,
        now: i64,
    ) -> Result<RefreshSpent, StateError> {
        self.change_rows("spend a refresh token of", |tables| {
            let Some(id) = authorization_id_of(tables, token)? else {
                return Ok(RefreshSpent::Never);
            };
            // Of several servers that spend tokens of a family, one has its row at a time.
            let live =
                lock(tables, &id)?.filter(|found| found.client == client && is_live(found, now));
            let Some(authorization) = live else { return Ok(RefreshSpent::Never) };
            let found = tables.first(
                "SELECT spent, parent FROM refresh_tokens WHERE digest = ?1",
                values![token],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let Some((spent, parent)) = found else { return Ok(RefreshSpent::Never) };
            let (spent, parent): (Option<i64>, Option<SecretDigest>) = (spent, parent);
            // A clock that was set back far is no grace.
            let is_late = |spent: i64| now.abs_diff(spent) > REFRESH_GRACE_SECONDS.unsigned_abs();
            let is_forked = has_spent_child(tables, &id, token, token)?
                || match parent {
                    Some(parent) => has_spent_child(tables, &id, &parent, token)?,
                    None => false,
                };
            if spent.is_some_and(is_late) || is_forked {
                end(tables, &id, now)?;
                return Ok(RefreshSpent::Replayed);
            }
            tables.execute(
                "UPDATE refresh_tokens SET spent = ?2 WHERE digest = ?1 AND spent IS NULL",
                values![token, now],
            )?;
            insert_refresh(tables, successor, &id, Some(token), now)?;
            drop_old_refresh_tokens(tables, &id)?;
            let closed = parent.map_or(Ok(0), |parent| close_fork(tables, &id, &parent, token))?;
            if closed == 0 {
                return Ok(RefreshSpent::Now(Box::new(authorization)));
            }
            end_access_tokens(tables, &id, now)?;
            Ok(RefreshSpent::Forked(Box::new(authorization)))
        })
    }

    /// Records the first refresh token of an authorization, durably.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn record_refresh(
        &self,
        token: &SecretDigest,
        authorization: &str,
        now: i64,
    ) -> Result<(), StateError> {
        self.change_rows("record a refresh token in", |tables| {
            insert_refresh(tables, token, authorization, None, now)
        })
    }

    /// Records an access token of an authorization, durably, which makes the token valid. Returns
    /// whether it did: the authorization may have ended meanwhile.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn record_of_authorization(
        &self,
        token: &TokenRecord,
        authorization: &str,
    ) -> Result<Issued, StateError> {
        self.change_rows("record", |tables| {
            let found = lock(tables, authorization)?;
            // The owner may have narrowed the authorization since the token was ordered.
            let is_current = |found: &AuthorizationRecord| {
                is_live(found, token.issued) && found.scopes == token.scopes
            };
            if !found.as_ref().is_some_and(is_current) {
                return Ok(Issued::AuthorizationEnded);
            }
            drop_expired_tokens(tables, authorization, token.issued)?;
            insert_token(tables, token)?;
            tables.execute(
                "INSERT INTO authorization_tokens (jti, \"authorization\") VALUES (?1, ?2)",
                values![token.jti, authorization],
            )?;
            tables.execute(
                "UPDATE authorizations SET used = ?2 WHERE id = ?1",
                values![authorization, token.issued],
            )?;
            Ok(Issued::Valid)
        })
    }

    /// Returns the authorization of a refresh token, whether it has ended or not.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn authorization_of_refresh(
        &self,
        token: &SecretDigest,
    ) -> Result<Option<AuthorizationRecord>, StateError> {
        self.read("look up", |tables| {
            authorization_id_of(tables, token)?.map_or(Ok(None), |id| find(tables, &id))
        })
    }

    /// Returns the authorization that an access token was issued from; `None` for a token of
    /// `stile token`.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn authorization_of_token(
        &self,
        jti: &str,
    ) -> Result<Option<AuthorizationRecord>, StateError> {
        self.read("look up", |tables| {
            let id: Option<String> = tables.first(
                "SELECT \"authorization\" FROM authorization_tokens WHERE jti = ?1",
                values![jti],
                |row| row.get(0),
            )?;
            id.map_or(Ok(None), |id| find(tables, &id))
        })
    }

    /// Returns all authorizations, in the order in which they were approved.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn authorizations(&self) -> Result<Vec<AuthorizationRecord>, StateError> {
        let all = format!("SELECT {COLUMNS} FROM authorizations ORDER BY created, id");
        self.read("list the authorizations of", |tables| tables.rows(&all, &[], authorization_of))
    }

    /// Returns the latest authorization of a client in a space that is in force; `None` if there is
    /// none. With `subject`, what other people approved does not count.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn latest_authorization(
        &self,
        (client, audience): (&str, &str),
        subject: Option<&str>,
        now: i64,
    ) -> Result<Option<AuthorizationRecord>, StateError> {
        let latest = format!(
            "SELECT {COLUMNS} FROM authorizations WHERE client = ?1 AND audience = ?2 \
             AND ended IS NULL AND expires > ?3 AND used IS NOT NULL AND (?4 = '' OR subject = ?4) \
             ORDER BY created DESC, id LIMIT 1"
        );
        // Nobody has an empty name.
        let subject = subject.unwrap_or_default();
        let values = values![client, audience, now, subject];
        self.read("look up", |tables| tables.first(&latest, values, authorization_of))
    }

    /// Ends an authorization with all its tokens, durably. Returns whether there is one of this
    /// identifier. `now` is in UTC seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn end_authorization(&self, id: &str, now: i64) -> Result<bool, StateError> {
        self.change("end an authorization of", |tables| {
            end(tables, id, now)?;
            Ok(find(tables, id)?.is_some())
        })
    }

    /// Gives an authorization these scopes in the place of its own, durably. They count from the
    /// next request on. Returns whether there is such an authorization that has not ended.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn set_approved_scopes(&self, id: &str, scopes: &str) -> Result<bool, StateError> {
        let change = "UPDATE authorizations SET scopes = ?2 WHERE id = ?1 AND ended IS NULL";
        self.change("change an authorization of", |tables| {
            let changed = tables.execute(change, values![id, scopes])?;
            narrow_sessions_of(tables, id)?;
            Ok(changed > 0)
        })
    }

    /// Gives an authorization these scopes and another grant in the place of `before`, in one step,
    /// durably. They count from the next request on. Returns whether there is such an authorization
    /// that has not ended and whose grant is `before`.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn replace_grant(
        &self,
        id: &str,
        scopes: &str,
        [before, after]: [Option<&str>; 2],
    ) -> Result<bool, StateError> {
        let change = "UPDATE authorizations SET scopes = ?2, grant_id = ?4 WHERE id = ?1 \
                      AND ended IS NULL AND coalesce(grant_id, '') = ?3";
        // No grant has an empty identifier.
        let before = before.unwrap_or_default();
        self.change("change an authorization of", |tables| {
            let changed = tables.execute(change, values![id, scopes, before, after])?;
            if changed > 0 {
                end_sessions_of(tables, id)?;
            }
            Ok(changed > 0)
        })
    }

    /// Ends all authorizations and tokens of a client, durably. The client stays known, so that it
    /// can ask the owner again. Returns whether there is one of this identifier. `now` is in UTC
    /// seconds.
    ///
    /// # Errors
    /// [`StateError::Database`] if the database fails.
    pub fn end_client(&self, id: &str, now: i64) -> Result<bool, StateError> {
        self.change("end a client of", |tables| {
            let all = "SELECT id FROM authorizations WHERE client = ?1";
            let ids: Vec<String> = tables.rows(all, values![id], |row| row.get(0))?;
            ids.iter().try_for_each(|authorization| end(tables, authorization, now))?;
            let known = tables.execute(
                "UPDATE clients SET ended = coalesce(ended, ?2) WHERE id = ?1",
                values![id, now],
            )?;
            Ok(known > 0)
        })
    }
}

/// Whether an access token was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// The token is recorded and valid.
    Valid,
    /// The authorization has ended, so the token is not valid.
    AuthorizationEnded,
}

fn is_live(authorization: &AuthorizationRecord, now: i64) -> bool {
    authorization.ended.is_none() && now < authorization.expires
}

/// Returns the authorization to which a refresh token belongs.
fn authorization_id_of(
    tables: Tables<'_>,
    token: &SecretDigest,
) -> Result<Option<String>, TableError> {
    let text = "SELECT \"authorization\" FROM refresh_tokens WHERE digest = ?1";
    tables.first(text, values![token], |row| row.get(0))
}

fn find(tables: Tables<'_>, id: &str) -> Result<Option<AuthorizationRecord>, TableError> {
    let one = format!("SELECT {COLUMNS} FROM authorizations WHERE id = ?1");
    tables.first(&one, values![id], authorization_of)
}

/// Finds an authorization, and keeps other transactions from changing it until this one ends.
fn lock(tables: Tables<'_>, id: &str) -> Result<Option<AuthorizationRecord>, TableError> {
    // Both databases lock a row that is written, also with the values that it had.
    let one = format!("UPDATE authorizations SET used = used WHERE id = ?1 RETURNING {COLUMNS}");
    tables.first(&one, values![id], authorization_of)
}

fn insert_authorization(tables: Tables<'_>, new: &AuthorizationRecord) -> Result<(), TableError> {
    let insert = "INSERT INTO authorizations (id, client, client_name, subject, audience, scopes, \
                  grant_id, single_use, created, expires) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let row = values![
        new.id, new.client, new.client_name, new.subject, new.audience, new.scopes, new.grant,
        new.single_use, new.created, new.expires,
    ];
    tables.execute(insert, row).map(drop)
}

/// Removes codes that are too old to notice their replay, and approvals whose code nobody redeemed.
pub(super) fn remove_old_codes(tables: Tables<'_>, now: i64) -> Result<(), TableError> {
    let [before, after] =
        [now.saturating_sub(CODE_KEPT_SECONDS), now.saturating_add(CODE_KEPT_SECONDS)];
    // The clock may have been set back since.
    let codes = "DELETE FROM authorization_codes WHERE created < ?1 OR created > ?2";
    tables.execute(codes, values![before, after])?;
    let unused = "DELETE FROM authorizations WHERE used IS NULL AND created < ?1";
    tables.execute(unused, values![before]).map(drop)
}

fn insert_refresh(
    tables: Tables<'_>,
    token: &SecretDigest,
    authorization: &str,
    parent: Option<&SecretDigest>,
    now: i64,
) -> Result<(), TableError> {
    tables
        .execute(
            "INSERT INTO refresh_tokens (digest, \"authorization\", created, parent) \
             VALUES (?1, ?2, ?3, ?4)",
            values![token, authorization, now, parent],
        )
        .map(drop)
}

/// Returns whether a token of a family that was made from `parent` was used, `except` left aside.
fn has_spent_child(
    tables: Tables<'_>,
    id: &str,
    parent: &SecretDigest,
    except: &SecretDigest,
) -> Result<bool, TableError> {
    let one = "SELECT 1 FROM refresh_tokens WHERE \"authorization\" = ?1 AND parent = ?2 \
               AND digest <> ?3 AND spent IS NOT NULL AND spent <> ?4 LIMIT 1";
    let found = tables.first(one, values![id, parent, except, CLOSED], |row| row.get::<i64>(0))?;
    Ok(found.is_some())
}

/// Closes the unused tokens of a family that were made from `parent`, `used` left aside. Returns
/// how many there were.
fn close_fork(
    tables: Tables<'_>,
    id: &str,
    parent: &SecretDigest,
    used: &SecretDigest,
) -> Result<usize, TableError> {
    tables.execute(
        "UPDATE refresh_tokens SET spent = ?4 WHERE \"authorization\" = ?1 AND parent = ?2 \
         AND digest <> ?3 AND spent IS NULL",
        values![id, parent, used, CLOSED],
    )
}

/// Drops the refresh tokens of a family that are older than the [`KEPT_SPENT`] that were used last.
fn drop_old_refresh_tokens(tables: Tables<'_>, id: &str) -> Result<(), TableError> {
    tables
        .execute(
            "DELETE FROM refresh_tokens WHERE \"authorization\" = ?1 AND created < \
             (SELECT created FROM refresh_tokens WHERE \"authorization\" = ?1 \
             AND spent IS NOT NULL ORDER BY created DESC LIMIT 1 OFFSET ?2)",
            values![id, KEPT_SPENT],
        )
        .map(drop)
}

/// Drops the access tokens of an authorization that expired a day ago or earlier, except the one
/// that was used last, which says when that was. Every server refuses an unknown token, too.
fn drop_expired_tokens(
    tables: Tables<'_>,
    authorization: &str,
    now: i64,
) -> Result<(), TableError> {
    let long_ago = now.saturating_sub(24 * 60 * 60);
    tables.execute(
        "DELETE FROM tokens WHERE expires < ?2 AND jti IN \
         (SELECT jti FROM authorization_tokens WHERE \"authorization\" = ?1) AND jti NOT IN \
         (SELECT jti FROM token_uses WHERE jti IN \
         (SELECT jti FROM authorization_tokens WHERE \"authorization\" = ?1) \
         ORDER BY used DESC LIMIT 1)",
        values![authorization, long_ago],
    )?;
    // The list of all tokens is asked by key, for the few tokens of this approval.
    for gone in ["token_uses", "authorization_tokens"] {
        let text = format!(
            "DELETE FROM {gone} WHERE jti IN (SELECT issued.jti FROM authorization_tokens AS issued \
             WHERE issued.\"authorization\" = ?1 AND NOT EXISTS \
             (SELECT 1 FROM tokens WHERE tokens.jti = issued.jti))"
        );
        tables.execute(&text, values![authorization])?;
    }
    Ok(())
}

/// Ends the sessions of the earlier approvals of a client that a new approval narrows.
fn end_narrowed_sessions(tables: Tables<'_>, new: &AuthorizationRecord) -> Result<(), TableError> {
    let earlier: Vec<(String, String)> = tables.rows(
        "SELECT id, scopes FROM authorizations WHERE client = ?1 AND subject = ?2 \
         AND audience = ?3 AND single_use = 0 AND ended IS NULL",
        values![new.client, new.subject, new.audience],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let now = Scopes::from_claim(&new.scopes);
    let is_narrowed = |scopes: &str| Scopes::from_claim(scopes).is_narrowed_by(&now);
    let narrowed = earlier.iter().filter(|(_, scopes)| is_narrowed(scopes));
    narrowed.map(|(id, _)| id).try_for_each(|id| narrow_sessions_of(tables, id))
}

/// Ends an authorization, its codes, its refresh tokens and its access tokens.
fn end(tables: Tables<'_>, id: &str, now: i64) -> Result<(), TableError> {
    tables.execute(
        "UPDATE authorizations SET ended = ?2 WHERE id = ?1 AND ended IS NULL",
        values![id, now],
    )?;
    end_sessions_of(tables, id)?;
    tables.execute("DELETE FROM refresh_tokens WHERE \"authorization\" = ?1", values![id])?;
    end_access_tokens(tables, id, now)
}

/// Ends all tokens and authorizations of a space.
pub(super) fn end_all_of_space(
    tables: Tables<'_>,
    audience: &str,
    now: i64,
) -> Result<(), TableError> {
    let live = "SELECT id FROM authorizations WHERE audience = ?1 AND ended IS NULL";
    for id in tables.rows(live, values![audience], |row| row.get::<String>(0))? {
        end(tables, &id, now)?;
    }
    let revoke = "UPDATE tokens SET revoked = ?2 WHERE audience = ?1 AND revoked IS NULL";
    tables.execute(revoke, values![audience, now]).map(drop)
}

/// Ends the access tokens that were issued from an authorization so far.
fn end_access_tokens(tables: Tables<'_>, id: &str, now: i64) -> Result<(), TableError> {
    tables
        .execute(
            "UPDATE tokens SET revoked = ?2 WHERE revoked IS NULL AND jti IN \
             (SELECT jti FROM authorization_tokens WHERE \"authorization\" = ?1)",
            values![id, now],
        )
        .map(drop)
}

fn authorization_of(row: &TableRow) -> Result<AuthorizationRecord, TableError> {
    Ok(AuthorizationRecord {
        id: row.get(0)?,
        client: row.get(1)?,
        client_name: row.get(2)?,
        subject: row.get(3)?,
        audience: row.get(4)?,
        scopes: row.get(5)?,
        grant: row.get(6)?,
        single_use: row.get(7)?,
        created: row.get(8)?,
        expires: row.get(9)?,
        used: row.get(10)?,
        ended: row.get(11)?,
    })
}
