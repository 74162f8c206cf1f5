//! The account that a call uses.

use crate::clean::{Filtered, Outcome};
use kernel::call::Call;
use kernel::contract::{Operation, UsedAccount};
use kernel::{Effect, Probe};
use model::Subject;
use policy::facts::AccountFact;
use shared::{Code, Provider};
use std::collections::BTreeSet;
use store::state::accounts;
use store::state::accounts::{ShownAccount, of};
use store::state::linking::{self, short_credentials};
use store::{StoreError, Transaction, View};

/// Returns the accounts that a call could use; `None` if it uses none.
fn candidates(view: &View, call: &Call) -> Result<Option<Vec<String>>, StoreError> {
    let needs = call.target.operation().is_some_and(|operation| operation.declaration().needs_account);
    match (&call.header.behalf, needs) {
        (_, false) => Ok(None),
        (Subject::Person(person), true) => of(view, &person.key(), &call.provider).map(Some),
        (Subject::Nobody(_), true) => Ok(Some(Vec::new())),
    }
}

/// Returns the account that a name means, as it is linked; `None` if there is none.
pub(crate) fn as_linked<'a>(operation: &dyn Operation, linked: &'a [String], name: &str) -> Option<&'a String> {
    let (owner, own) = model::owned(name);
    let is_it = |linked: &&String| {
        let (of, account) = model::owned(linked);
        of == owner && operation.is_same_account(account, own)
    };
    linked.iter().find(|linked| *linked == name).or_else(|| linked.iter().find(is_it))
}

/// Sets the account of a call that names none, if the person has exactly one. Sets the number of its link, to which
/// approvals are bound.
///
/// # Errors
/// [`StoreError`]; nothing may then be permitted.
pub fn choose(view: &View, call: &mut Call) -> Result<(), StoreError> {
    let chosen = match (candidates(view, call)?.as_deref(), &call.account_ref, call.target.operation()) {
        (Some([only]), None, _) => Some(only.clone()),
        (Some(linked), Some(named), Some(operation)) => as_linked(operation.as_ref(), linked, named).cloned(),
        (_, _, _) => None,
    };
    if chosen.is_some() {
        call.account_ref = chosen;
    }
    call.account_key = match (&call.account_ref, &call.header.behalf) {
        (Some(account), Subject::Person(person)) => {
            let (person, (owner, name)) = (person.key(), model::owned(account));
            accounts::key(view, (owner.unwrap_or(&person), &call.provider, name))?
        }
        (Some(_), Subject::Nobody(_)) | (None, _) => None,
    };
    Ok(())
}

/// Returns the fact whether there is an account for this call.
///
/// # Errors
/// [`StoreError`]; nothing may then be permitted.
pub fn fact(view: &View, call: &Call) -> Result<AccountFact, StoreError> {
    let Some(linked) = candidates(view, call)? else { return Ok(AccountFact::NotNeeded) };
    Ok(match &call.account_ref {
        Some(named) if linked.contains(named) => AccountFact::Linked,
        None if !linked.is_empty() => AccountFact::Ambiguous(linked),
        Some(_) | None => AccountFact::NotLinked,
    })
}

/// Returns an account with its credential. `account` begins with the owner if it is a shared one; otherwise it belongs to
/// `person`.
///
/// # Errors
/// [`StoreError`]; the account must then not be used.
pub fn used(view: &View, person: &str, capability: &Provider, account: &str) -> Result<UsedAccount, StoreError> {
    let (owner, name) = model::owned(account);
    let credential = linking::credential(view, owner.unwrap_or(person), capability, name)?;
    Ok(UsedAccount { name: name.to_owned(), credential })
}

/// The longest credential that is kept out of the results of other accounts, in encrypted form. Passwords are shorter, and
/// most OAuth tokens are longer.
const SHORT_BYTES_MAX: usize = 512;
/// The most of them.
const SHORT_MAX: usize = 16;

/// Notes the credentials that must not come back from a call: the short ones of its person, and of the owners of the accounts
/// that it and its nested call use.
///
/// # Errors
/// [`StoreError`]; the call must not begin then.
pub fn keep_out(view: &View, call: &mut Call) -> Result<(), StoreError> {
    let Some(person) = call.header.behalf.key() else { return Ok(()) };
    let nested = call.nested.as_ref().and_then(|nested| nested.call.account_ref.as_deref());
    let accounts = [call.account_ref.as_deref(), nested].into_iter().flatten();
    let owners = accounts.filter_map(|account| model::owned(account).0);
    let people: BTreeSet<&str> = owners.chain([&*person]).collect();
    let mut kept_out = Vec::new();
    for person in people {
        kept_out.extend(short_credentials(view, person, SHORT_BYTES_MAX, SHORT_MAX)?);
    }
    call.kept_out = kept_out;
    Ok(())
}

/// Notes what an effect tells about the credential of its account: it was refused, or it was accepted.
///
/// # Errors
/// [`StoreError`].
pub(crate) fn note_answer(tx: &Transaction<'_>, filtered: &Filtered) -> Result<(), StoreError> {
    let person;
    let (capability, account) = match &filtered.effect {
        Effect::Run(call) | Effect::Prepare(call) => {
            let needs = call.target.operation().is_some_and(|operation| operation.declaration().needs_account);
            let Some(account) = call.account_ref.as_deref().filter(|_| needs) else { return Ok(()) };
            person = call.header.behalf.key();
            (&call.provider, account)
        }
        Effect::Probe(probe) => {
            let Some(account) = probe.account.as_deref() else { return Ok(()) };
            person = None;
            (&probe.operation.declaration().provider, account)
        }
    };
    let (owner, name) = model::owned(account);
    let Some(owner) = owner.or(person.as_deref()) else { return Ok(()) };
    match &filtered.outcome {
        Outcome::Failed { code: Code::CapabilityAuthRequired, .. } => {
            accounts::note_refusal(tx, (owner, capability, name), filtered.intent.seq)
        }
        // Another failure tells nothing about the credential.
        Outcome::Failed { .. } => Ok(()),
        Outcome::Succeeded(_) | Outcome::Prepared(_) | Outcome::Probed { .. } => {
            accounts::clear_refusal(tx, (owner, capability, name), filtered.intent.seq)
        }
    }
}

/// Stores the account of a call with the approval request that shows it.
///
/// # Errors
/// [`StoreError`]; the approval request must not be sent.
pub(crate) fn keep_shown(tx: &Transaction<'_>, approval: i64, call: &Call) -> Result<(), StoreError> {
    let (Some(account), Some(person)) = (&call.account_ref, call.header.behalf.key()) else { return Ok(()) };
    let capability = call.provider.clone();
    let shown = ShownAccount { person, capability, account_ref: account.clone(), key: call.account_key };
    accounts::keep_shown(tx, approval, &shown)
}

/// Returns why the calls on a card cannot run, if a person can no longer use an account that the card shows.
///
/// # Errors
/// [`StoreError`]; the approval request must not be approved.
pub(crate) fn gone(view: &View, approval: i64) -> Result<Option<String>, StoreError> {
    Ok(accounts::gone_since_shown(view, approval)?.map(|ShownAccount { person, capability, account_ref, key: _ }| {
        format!(
            "It cannot run: {person} can no longer use the account {account_ref} at {capability} that the card shows. The \
             account was unlinked since, or linked again, or its share has ended. The agent can make the call again."
        )
    }))
}

/// Returns the account that a probe needs, with its present credential.
///
/// # Errors
/// [`StoreError`]; the probe must not begin then.
pub fn of_probe(view: &View, probe: &Probe) -> Result<Option<UsedAccount>, StoreError> {
    let capability = &probe.operation.declaration().provider;
    probe.account.as_deref().map(|account| used(view, "", capability, account)).transpose()
}
