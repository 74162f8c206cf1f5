//! The account that a call uses.

use kernel::Probe;
use kernel::call::Call;
use kernel::contract::UsedAccount;
use model::Subject;
use policy::facts::AccountFact;
use shared::Provider;
use std::collections::BTreeSet;
use store::state::accounts::of;
use store::state::linking::{self, short_credentials};
use store::{StoreError, View};

/// Returns the accounts that a call could use; `None` if it uses none.
fn candidates(view: &View, call: &Call) -> Result<Option<Vec<String>>, StoreError> {
    let needs = call.target.operation().is_some_and(|operation| operation.declaration().needs_account);
    match (&call.header.behalf, needs) {
        (_, false) => Ok(None),
        (Subject::Person(person), true) => of(view, &person.key(), &call.provider).map(Some),
        (Subject::Nobody(_), true) => Ok(Some(Vec::new())),
    }
}

/// Sets the account of a call that names none, if the person has exactly one.
///
/// # Errors
/// [`StoreError`]; nothing may then be permitted.
pub fn choose(view: &View, call: &mut Call) -> Result<(), StoreError> {
    if call.account_ref.is_none()
        && let Some([only]) = candidates(view, call)?.as_deref()
    {
        call.account_ref = Some(only.clone());
    }
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

/// Returns the account that a probe needs, with its present credential.
///
/// # Errors
/// [`StoreError`]; the probe must not begin then.
pub fn of_probe(view: &View, probe: &Probe) -> Result<Option<UsedAccount>, StoreError> {
    let capability = &probe.operation.declaration().provider;
    probe.account.as_deref().map(|account| used(view, "", capability, account)).transpose()
}
