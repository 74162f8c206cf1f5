//! Remote operators: tokens for work on flows over HTTP, in the name of the person who made them.
//!
//! A token reaches one vault, flows of some scopes, and some operations on them. It never answers an approval request.
//! Each use checks the token, in the transaction of the operation. It ends at its expiry, at its revocation, and when
//! its creator is no longer an administrator.
//!
//! Source: flow-external-agent-gate, section 2.2.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::NoRandomness;
use model::Random;
use model::TokenId;
use model::bearer::{Prefix, fresh_name};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::Timestamp;
use shared::digest::Digest;
use shared::flow::operations::Part;
use shared::flow::{Scope, Vault};
use std::collections::BTreeSet;
use std::time::Duration;

/// The most tokens, including those that have ended and are not forgotten yet.
pub const TOKENS_MAX: usize = 1_000;
/// The longest life of a token.
pub const LIFE_MAX: Duration = Duration::from_hours(90 * 24);
/// The time for which an ended token is still listed.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The prefix of every bearer token.
pub const BEARER: Prefix = "optk_bearer_";

/// The requested properties of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// The operations.
    pub parts: BTreeSet<Part>,
    /// The scopes of the flows.
    pub scopes: BTreeSet<Scope>,
    /// The vault.
    pub vault: Vault,
    /// The life, in seconds.
    pub life_seconds: u64,
    /// The label for people.
    pub label: String,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The name.
    pub token_id: TokenId,
    /// The label for people.
    pub label: String,
    /// The operations.
    pub parts: BTreeSet<Part>,
    /// The scopes of the flows.
    pub scopes: BTreeSet<Scope>,
    /// The vault.
    pub vault: Vault,
    /// The creator, in the ledger's form.
    pub issued_by: String,
    /// The time of creation.
    pub issued_at: Timestamp,
    /// The time of expiry.
    pub expires_at: Timestamp,
    /// The time of revocation.
    pub revoked_at: Option<Timestamp>,
}

impl Operator {
    /// Returns the token as a document. Every field may be shown.
    pub fn document(&self) -> Value {
        json!({
            "token_id": self.token_id,
            "label": self.label,
            "scopes": self.parts,
            "tiers": self.scopes,
            "vault_id": self.vault,
            "issued_by": self.issued_by,
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        })
    }

    /// Returns the person who made it.
    pub fn maker(&self) -> &str {
        self.issued_by.strip_prefix("person:").unwrap_or_default()
    }
}

/// Makes a name.
///
/// # Errors
/// [`NoRandomness`].
pub fn fresh_id(ids: &dyn Random) -> Result<TokenId, NoRandomness> {
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "hexadecimal digits satisfy the grammar")]
    fresh_name("optk_", ids).map(|name| name.parse().expect("a token's name"))
}

const COLUMNS: &str = "token_id, label, parts, scopes, vault, issued_by, issued_at, expires_at, revoked_at";

/// A row as it is stored.
type Raw = ([String; 6], [i64; 2], Option<i64>);

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let texts = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
    Ok((texts, [row.get(6)?, row.get(7)?], row.get(8)?))
}

fn read((texts, [issued_at, expires_at], revoked_at): Raw) -> Result<Operator, StoreError> {
    let [token_id, label, parts, scopes, vault, issued_by] = texts;
    let bad = || StoreError::Stored { what: "operator token" };
    Ok(Operator {
        token_id: token_id.parse().map_err(|_bad| bad())?,
        label,
        parts: serde_json::from_str(&parts).map_err(|_bad| bad())?,
        scopes: serde_json::from_str(&scopes).map_err(|_bad| bad())?,
        vault: vault.parse().map_err(|_bad| bad())?,
        issued_by,
        issued_at: Timestamp::from_millis(issued_at),
        expires_at: Timestamp::from_millis(expires_at),
        revoked_at: revoked_at.map(Timestamp::from_millis),
    })
}

fn one(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Option<Operator>, StoreError> {
    let select = format!("SELECT {COLUMNS} FROM operator_tokens WHERE {condition}");
    view.prepare_cached(&select)
        .and_then(|mut s| s.query_row(with, raw).optional())
        .map_err(at("look an operator token up"))?
        .map(read)
        .transpose()
}

/// Returns the token of this name.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn find(view: &View, id: &TokenId) -> Result<Option<Operator>, StoreError> {
    one(view, "token_id = ?1", params![id.as_str()])
}

/// Returns the token of this bearer, valid or not.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn opened_by(view: &View, bearer: &Digest) -> Result<Option<Operator>, StoreError> {
    one(view, "bearer = ?1", params![bearer.as_bytes()])
}

/// Returns all tokens, the newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View) -> Result<Vec<Operator>, StoreError> {
    let select = format!("SELECT {COLUMNS} FROM operator_tokens ORDER BY issued_at DESC, token_id");
    let found: Vec<Raw> = view
        .prepare_cached(&select)
        .and_then(|mut s| s.query_map([], raw)?.collect())
        .map_err(at("list operator tokens"))?;
    found.into_iter().map(read).collect()
}

/// Stores a new token, and forgets those that ended a day ago. `false` if there are too many.
///
/// # Errors
/// [`StoreError`]; nothing was stored.
pub fn issue(tx: &Transaction<'_>, operator: &Operator, bearer: &Digest) -> Result<bool, StoreError> {
    const FORGET: &str = "DELETE FROM operator_tokens WHERE expires_at < ?1";
    const INSERT: &str = "INSERT INTO operator_tokens
            (token_id, bearer, label, parts, scopes, vault, issued_by, issued_at, expires_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    change(tx, FORGET, params![tx.now().minus(REMEMBERED).millis()])?;
    let count: i64 = tx
        .view()
        .prepare_cached("SELECT count(*) FROM operator_tokens")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(at("count operator tokens"))?;
    if usize::try_from(count).map_or(true, |count| count >= TOKENS_MAX) {
        return Ok(false);
    }
    let with = params![
        operator.token_id.as_str(),
        bearer.as_bytes(),
        operator.label,
        json!(operator.parts).to_string(),
        json!(operator.scopes).to_string(),
        operator.vault.as_str(),
        operator.issued_by,
        operator.issued_at.millis(),
        operator.expires_at.millis(),
    ];
    change(tx, INSERT, with).map(|_one| true)
}

/// Revokes a token permanently; a revoked one stays as it is.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn revoke(tx: &Transaction<'_>, id: &TokenId) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE operator_tokens SET revoked_at = ?2 WHERE token_id = ?1 AND revoked_at IS NULL";
    change(tx, UPDATE, params![id.as_str(), tx.now().millis()]).map(drop)
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<usize, StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change an operator token"))
}
