//! Commands that link, unlink and share persons' accounts.

use super::CommandResult;
use crate::accounts::as_linked;
use crate::broker::Broker;
use config::near_miss;
use kernel::contract::{LinkedByOperator, Operation};
use model::{Account, Caller, Ciphertext, GivenSecret, Place, RecordKind, Share};
use secrets::vault::seen_secrets::Credential;
use serde_json::{Value, json};
use shared::numbers::counted;
use shared::{Code, Group, Provider};
use std::sync::Arc;
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
        let spelled = match (capability, account_ref) {
            (Some(capability), Some(account)) => Some(self.spelled(tx, person, capability, account)?),
            (_, account) => account.map(str::to_owned),
        };
        let account_ref = spelled.as_deref();
        if let (Some(capability), Some(account)) = (capability, account_ref)
            && !accounts::own(tx.view(), person, capability)?.iter().any(|own| own == account)
            && stored::waiting(tx.view(), person, Some(capability), Some(account))?.is_empty()
        {
            let reason = format!("{person} has no account {account} at {capability}; see host-broker account list.");
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        }
        let count = self.unlink(tx, person, capability, account_ref)?;
        let which = json!({ "person": person, "capability": capability, "account_ref": account_ref, "count": count });
        let body = json!({ "unlinked": which });
        let summary = format!("{} of {person} unlinked.", counted(count, "account", "accounts"));
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Links an account, and stores its password if the capability signs in with one.
    pub(super) fn link_account(
        &self,
        tx: &Transaction<'_>,
        account: &Account,
        password: Option<&GivenSecret>,
    ) -> Result<CommandResult, StoreError> {
        let Account { person, capability, account_ref, label, .. } = account;
        let no = |reason: String| Ok(CommandResult::no(Code::InvalidParams, reason));
        if !self.config.knows_person(person) {
            return no("A person is an issuer of the configuration and a name, such as broker:ann.".to_owned());
        }
        let Some(operation) = self.with_accounts(capability) else {
            let known = self.catalogue.providers().map(|(name, _)| name);
            let known = known.filter(|name| self.with_accounts(name).is_some()).map(Provider::as_str);
            let hint = near_miss(capability.as_str(), known);
            return no(format!("There is no capability '{capability}' that works with accounts{hint}."));
        };
        if !model::is_ref(account_ref) {
            return no("An account's name has 1 to 128 letters, digits and `._@+-`.".to_owned());
        }
        if let Some(fault) = operation.account_fault(account_ref) {
            return no(fault.to_owned());
        }
        if label.as_ref().is_some_and(|label| label.len() > LABEL_MAX || label.chars().any(char::is_control)) {
            return no(format!("A label is one line of at most {LABEL_MAX} bytes."));
        }
        let spelled = self.spelled(tx, person, capability, account_ref)?;
        let account = &Account { account_ref: spelled, ..account.clone() };
        let account_ref = &account.account_ref;
        let sealed = match (operation.linked_by_operator(), password) {
            (LinkedByOperator::Password, Some(password)) => match self.sealed(account, password) {
                Ok(sealed) => Some(sealed),
                Err(reason) => return no(reason),
            },
            (LinkedByOperator::Password, None) => {
                return no(format!("{capability} signs in with a password. Add: --password-file FILE."));
            }
            (LinkedByOperator::No, _) => {
                return no(format!(
                    "{capability} needs a credential, which only a sign-in gives. The person links the account by signing in: \
                     ext_auth_begin."
                ));
            }
            (LinkedByOperator::Name, Some(_)) => {
                return no(format!("{capability} takes no password. Link the account without one."));
            }
            (LinkedByOperator::Name, None) => None,
        };
        let known = accounts::known(tx.view())?;
        let similar =
            if known.contains(person) { String::new() } else { near_miss(person, known.iter().map(String::as_str)) };
        let is_new = accounts::link(tx, account)?;
        if let Some(sealed) = &sealed {
            stored::keep_credential(tx, (person, capability, account_ref), Some((sealed, None)))?;
        }
        let body = json!({ "linked": account, "is_new": is_new, "password": sealed.is_some() });
        let kept = match (&sealed, is_new) {
            (Some(_), true) => " The vault has its password.",
            (Some(_), false) => " The vault has its new password.",
            (None, _) => "",
        };
        let hint = if similar.is_empty() { String::new() } else { format!(" {person} is new to the broker{similar}.") };
        let summary = format!("{person} has the account {account_ref} at {capability}.{kept}{hint}");
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Ends the account linking that a group has begun.
    pub(super) fn purge_group(&mut self, tx: &Transaction<'_>, group: &Group) -> Result<CommandResult, StoreError> {
        let count = self.end_what_a_group_began(tx, &Caller::Group(group.clone()).to_string())?;
        let body = json!({ "purged": { "group": group, "count": count } });
        let ended = counted(count, "link session or approval request", "link sessions and approval requests");
        let summary = format!("{ended} of {group} ended; linked accounts stay linked.");
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Shares an account with another person, or ends the share.
    pub(super) fn share_account(
        &self,
        tx: &Transaction<'_>,
        share: &Share,
        (on, new): (bool, bool),
        by: &str,
    ) -> Result<CommandResult, StoreError> {
        let spelled = self.spelled(tx, &share.person, &share.capability, &share.account_ref)?;
        let share = &Share { account_ref: spelled, ..share.clone() };
        let Share { person, capability, account_ref, with } = share;
        let no = |reason: String| Ok(CommandResult::no(Code::InvalidParams, reason));
        if ![person, with].into_iter().all(|person| self.config.knows_person(person)) {
            return no("A person is an issuer of the configuration and a name, such as broker:ann.".to_owned());
        }
        if person == with {
            return no("Whose account it is works with it anyway.".to_owned());
        }
        if on && !new {
            let known = accounts::known(tx.view())?;
            if !known.contains(with) {
                let hint = near_miss(with, known.iter().map(String::as_str));
                return no(format!(
                    "The broker knows no person {with}{hint}. It knows persons with an account or a share, and those who \
                     made calls lately. To share with a person before that, add: --new."
                ));
            }
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
            (true, format!("{} under the present master key now.", counted(renewed, "record is", "records are"))),
            (unreadable > 0, format!("{unreadable} cannot be opened and are left as they are; --forget clears them.")),
            (forgotten > 0, format!("{forgotten} that could not be opened are forgotten.")),
        ];
        let summary = summary.into_iter().filter_map(|(is_so, sentence)| is_so.then_some(sentence));
        let summary = summary.collect::<Vec<_>>().join(" ");
        Ok(CommandResult::done(RowKind::Noted, json!({ "vault": body }), body, summary))
    }

    /// Returns the encrypted password of an account.
    fn sealed(&self, account: &Account, password: &GivenSecret) -> Result<Ciphertext, String> {
        let Account { person, capability, account_ref, .. } = account;
        let vault = self.vault.as_deref().ok_or("The vault is not open.")?;
        let given = provider::accounts::of_password(password.reveal());
        let credential = Credential::new(given, account_ref, &Value::Null)
            .map_err(|unfit| format!("The account is not linked: {unfit}."))?;
        let place = Place { what: RecordKind::Credential, person, capability, name: account_ref };
        vault.seal_given(&place, &credential).map_err(|fault| format!("The account is not linked: {fault}."))
    }

    /// Returns the name of an account as it is linked, if it is, or else this name. A mail address is the same in any letter
    /// case.
    fn spelled(
        &self,
        tx: &Transaction<'_>,
        person: &str,
        capability: &Provider,
        account_ref: &str,
    ) -> Result<String, StoreError> {
        let own = accounts::own(tx.view(), person, capability)?;
        let operation = self.with_accounts(capability);
        let linked = operation.and_then(|operation| as_linked(operation.as_ref(), &own, account_ref));
        Ok(linked.cloned().unwrap_or_else(|| account_ref.to_owned()))
    }

    /// Returns an action of the capability that uses accounts.
    pub(crate) fn with_accounts(&self, capability: &Provider) -> Option<&Arc<dyn Operation>> {
        let listed = self.catalogue.provider(capability)?;
        listed.operations.values().find(|operation| operation.declaration().needs_account)
    }
}
