//! Publications of the policy for the hosts of a fleet.

use super::CommandResult;
use crate::broker::Broker;
use config::published::PublishedPolicy;
use serde_json::json;
use shared::Code;
use std::collections::BTreeMap;
use store::ledger::chain::RowKind;
use store::state::publications;
use store::{StoreError, Transaction};

/// The signature of this host.
pub trait PolicySigner: Send + Sync {
    /// Returns the signed policy.
    ///
    /// # Errors
    /// The reason why this host cannot sign, and the remedy.
    fn sign(&self, policy: &PublishedPolicy) -> Result<String, String>;
}

impl Broker {
    /// Publishes a policy, if it is valid on this host.
    pub(super) fn publish_policy(
        &self,
        tx: &Transaction<'_>,
        files: &BTreeMap<String, String>,
    ) -> Result<CommandResult, StoreError> {
        let store = self.config.store.as_ref().zip(self.policy_signer.as_ref());
        let Some((store, signer)) = store else {
            let reason = "This host is in no fleet, so no other host reads its policy; add [store] to broker.toml.";
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        };
        if let Some(from) = store.policy_from.as_ref().filter(|from| **from != store.host) {
            let reason = format!("This host uses the policy of the host {from}; run the command there.");
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        }
        let number = publications::last(tx.view())?.saturating_add(1);
        let policy = PublishedPolicy { host: store.host.clone(), number, files: files.clone() };
        let checked = policy.check(&self.config, &self.catalogue.named()).map_err(|fault| fault.to_string());
        let document = match checked.and_then(|()| signer.sign(&policy)) {
            Ok(document) => document,
            Err(fault) => {
                return Ok(CommandResult::no(Code::InvalidParams, format!("{fault}; nothing was published.")));
            }
        };
        let publication = policy.publication();
        if !publications::publish(tx, &publication, &document)? {
            let reason = "Other hosts still use the former publication; repeat the command in 10 s.";
            return Ok(CommandResult::no(Code::Busy, reason));
        }
        let body = json!({ "number": number, "digest": publication.digest });
        let summary = format!(
            "Publication {number} of the host {} is in force. For the hosts that use it: host-broker fleet status",
            store.host
        );
        Ok(CommandResult::done(RowKind::Published, body.clone(), body, summary))
    }
}
