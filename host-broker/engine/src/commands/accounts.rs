//! Commands that link, unlink and share persons' accounts.

use super::CommandResult;
use crate::broker::Broker;
use config::near_miss;
use model::{Account, Caller, Share};
use serde_json::json;
use shared::{Code, Group, Provider};
use store::ledger::chain::RowKind;
use store::state::accounts;
use store::state::linking as stored;
use store::state::linking::Resealed;
use store::state::one_time_values;
use store::{StoreError, Transaction};

/// The longest label, in bytes.
const LABEL_MAX: usize = 256;

impl Broker {
    /// Unlinks a person's accounts: those at this capability, of this name, or all of them.
    pub(super) fn unlink_accounts(
        &mut self,
        tx: &Transaction<'_>,
        person: &str,
        capability: Option<&Provider>,
        account_ref: Option<&str>,
    ) -> Result<CommandResult, StoreError> {
        let count = self.unlink(tx, person, capability, account_ref)?;
        let which = json!({ "person": person, "capability": capability, "account_ref": account_ref, "count": count });
        let body = json!({ "unlinked": which });
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, format!("{count} account(s) of {person} unlinked.")))
    }

    /// Links an account.
    pub(super) fn link_account(&self, tx: &Transaction<'_>, account: &Account) -> Result<CommandResult, StoreError> {
        let Account { person, capability, account_ref, label, .. } = account;
        let no = |reason: String| Ok(CommandResult::no(Code::InvalidParams, reason));
        if !self.config.knows_person(person) {
            return no("A person is an issuer of the configuration and a name, such as broker:ann.".to_owned());
        }
        if !self.has_accounts(capability) {
            let known = self.catalogue.providers().map(|(name, _)| name).filter(|name| self.has_accounts(name));
            let hint = near_miss(capability.as_str(), known.map(Provider::as_str));
            return no(format!("There is no capability '{capability}' that works with accounts{hint}."));
        }
        if !model::is_ref(account_ref) {
            return no("An account's name has 1 to 128 letters, digits and `._@+-`.".to_owned());
        }
        if label.as_ref().is_some_and(|label| label.len() > LABEL_MAX || label.chars().any(char::is_control)) {
            return no(format!("A label is one line of at most {LABEL_MAX} bytes."));
        }
        let is_new = accounts::link(tx, account)?;
        let body = json!({ "linked": account, "is_new": is_new });
        let summary = format!("{person} has the account {account_ref} at {capability}.");
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Ends the account linking that a group has begun.
    pub(super) fn purge_group(&mut self, tx: &Transaction<'_>, group: &Group) -> Result<CommandResult, StoreError> {
        let count = self.end_what_a_group_began(tx, &Caller::Group(group.clone()).to_string())?;
        let body = json!({ "purged": { "group": group, "count": count } });
        let summary =
            format!("{count} link session(s) and approval request(s) of {group} ended; linked accounts stay linked.");
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Shares an account with another person, or ends the share.
    pub(super) fn share_account(
        &self,
        tx: &Transaction<'_>,
        share: &Share,
        on: bool,
        by: &str,
    ) -> Result<CommandResult, StoreError> {
        let Share { person, capability, account_ref, with } = share;
        let no = |reason: String| Ok(CommandResult::no(Code::InvalidParams, reason));
        if ![person, with].into_iter().all(|person| self.config.knows_person(person)) {
            return no("A person is an issuer of the configuration and a name, such as broker:ann.".to_owned());
        }
        if person == with {
            return no("Whose account it is works with it anyway.".to_owned());
        }
        let changed = if on { accounts::share(tx, share, by)? } else { Some(accounts::unshare(tx, share)?) };
        let Some(changed) = changed else {
            return no(format!("{person} has no account {account_ref} at {capability}."));
        };
        let body = json!({ "share": share, "on": on, "changed": changed });
        let summary = match (on, changed) {
            (true, _) => format!("{with} may work with the account {person}/{account_ref} at {capability}."),
            (false, true) => format!("{with} may no longer work with the account {person}/{account_ref}."),
            (false, false) => format!("{with} could not work with the account {person}/{account_ref}."),
        };
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Encrypts every record of the vault under the present master key.
    pub(super) fn renew_vault(&mut self, tx: &Transaction<'_>, forget: bool) -> Result<CommandResult, StoreError> {
        let Some(vault) = self.vault.clone() else {
            return Ok(CommandResult::no(Code::EvidenceUnavailable, "The vault is not open.".to_owned()));
        };
        let Resealed { renewed, unreadable, forgotten, approval_requests } =
            stored::reseal(tx, |place, record| vault.resealed(place, record), forget)?;
        // They live for minutes, and an agent can ask again.
        one_time_values::forget_all(tx)?;
        for approval_request in approval_requests {
            self.cancel_link(tx, approval_request)?;
        }
        let body = json!({ "renewed": renewed, "unreadable": unreadable, "forgotten": forgotten });
        let summary = [
            (true, format!("{renewed} record(s) are under the present master key now.")),
            (unreadable > 0, format!("{unreadable} cannot be opened and are left as they are; --forget clears them.")),
            (forgotten > 0, format!("{forgotten} that could not be opened are forgotten.")),
        ];
        let summary = summary.into_iter().filter_map(|(is_so, sentence)| is_so.then_some(sentence));
        let summary = summary.collect::<Vec<_>>().join(" ");
        Ok(CommandResult::done(RowKind::Noted, json!({ "vault": body }), body, summary))
    }

    fn has_accounts(&self, capability: &Provider) -> bool {
        let listed = self.catalogue.provider(capability);
        listed.is_some_and(|listed| listed.operations.values().any(|operation| operation.declaration().needs_account))
    }
}
