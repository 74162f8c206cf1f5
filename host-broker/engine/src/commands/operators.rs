//! Tokens of remote operators: made, ended and listed by people.

use super::CommandResult;
use crate::broker::Broker;
use crate::flows::issuers;
use config::flows::FlowsTable;
use kernel::call::Header;
use model::bearer::Bearer;
use model::{Caller, TokenId};
use serde_json::{Map, Value, json};
use shared::Code;
use shared::numbers::counted;
use std::time::Duration;
use store::ledger::chain::RowKind;
use store::state::external_grants;
use store::state::operators;
use store::state::operators::{BEARER, LIFE_MAX, Operator, TokenRequest, fresh_id};
use store::{StoreError, Transaction};

/// The longest label, in bytes.
const LABEL_MAX: usize = 256;

impl Broker {
    /// Makes a token, which is shown once.
    pub(super) fn mint_operator(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        wanted: &TokenRequest,
    ) -> Result<CommandResult, StoreError> {
        let TokenRequest { parts, scopes, vault, life_seconds, label } = wanted;
        let invalid = |reason: &str| Ok(CommandResult::no(Code::InvalidParams, reason));
        if parts.is_empty() || scopes.is_empty() {
            return invalid("The token reaches nothing; name at least one operation and one scope.");
        }
        let life = Duration::from_secs(*life_seconds);
        if life.is_zero() || life > LIFE_MAX {
            return invalid("A token lives for a second at least and for 90 days at most.");
        }
        if label.len() > LABEL_MAX {
            return invalid("The label is longer than 256 bytes.");
        }
        if !self.config.flows.vaults.contains(vault) {
            return invalid("There is no such vault in [flows].");
        }
        let (Ok(token_id), Ok(bearer)) = (fresh_id(self.ids.as_ref()), Bearer::fresh(BEARER, self.ids.as_ref())) else {
            return Ok(CommandResult::no(Code::EvidenceUnavailable, "The system's random source failed."));
        };
        let operator = Operator {
            token_id,
            label: label.clone(),
            parts: parts.clone(),
            scopes: scopes.clone(),
            vault: vault.clone(),
            issued_by: header.caller_key.to_string(),
            issued_at: tx.now(),
            expires_at: tx.now().plus(life),
            revoked_at: None,
        };
        if !operators::issue(tx, &operator, &bearer.digest())? {
            return Ok(CommandResult::no(
                Code::Busy,
                "There are as many tokens as there can be; those that are over go after a day.",
            ));
        }
        let summary = format!("{} is a token until {}.", operator.token_id, operator.expires_at);
        let bearer = Value::String(bearer.reveal().to_string());
        Ok(noted(&operator, summary).shown_once(Map::from_iter([("bearer".to_owned(), bearer)])))
    }
}

/// Ends a token: at once, and permanently.
pub(super) fn revoke(tx: &Transaction<'_>, id: &TokenId) -> Result<CommandResult, StoreError> {
    let Some(operator) = operators::find(tx.view(), id)? else {
        return Ok(CommandResult::no(Code::InvalidParams, format!("There is no token {id}.")));
    };
    if operator.revoked_at.is_some() {
        return Ok(CommandResult::told(operator.document(), format!("{id} was ended before.")));
    }
    operators::revoke(tx, id)?;
    let ended = external_grants::revoke_all_of(tx, &Caller::Operator(id.clone()))?;
    let operator = Operator { revoked_at: Some(tx.now()), ..operator };
    Ok(noted(&operator, format!("{id} is ended, and so are the accesses that it has given: {ended}.")))
}

/// Lists all tokens, without their bearers, with the reason why one no longer holds.
pub(super) fn list(tx: &Transaction<'_>, flows: &FlowsTable) -> Result<CommandResult, StoreError> {
    let found = operators::list(tx.view())?;
    let mut tokens: Vec<_> = found.iter().map(Operator::document).collect();
    for (operator, document) in found.iter().zip(&mut tokens) {
        let why = issuers::lost_right(tx.view(), flows, &operator.issued_by)?;
        if let (Some(why), Some(document)) = (why, document.as_object_mut()) {
            document.insert("refused_because".to_owned(), why.into());
        }
    }
    Ok(CommandResult::told(json!({ "tokens": tokens }), counted(found.len(), "token", "tokens")))
}

fn noted(operator: &Operator, summary: String) -> CommandResult {
    let document = operator.document();
    CommandResult::done(RowKind::Noted, json!({ "operator": document }), document, summary)
}
