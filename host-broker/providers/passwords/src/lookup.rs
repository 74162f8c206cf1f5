//! The entry that a call names: it is looked up before a person is asked, and read after the approval.

use crate::Passwords;
use crate::entry::{Entry, EntryName, Login};
use crate::failures::{guardrail, unavailable};
use filter::holds_own;
use provider::contract::{Execution, Failure, Guard};
use serde_json::{Map, Value};

/// The entries that fit the parameters.
pub(crate) struct Fitting(Vec<Entry>);

impl Fitting {
    /// Returns the user name and the address that a person approves with the entry, as far as the manager lists them.
    pub(crate) fn precondition(&self) -> Option<Value> {
        let [Entry { username, url, .. }] = self.0.as_slice() else { return None };
        let parts = [("username", username), ("url", url)];
        let listed: Map<String, Value> =
            parts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?.into()))).collect();
        (!listed.is_empty()).then_some(Value::Object(listed))
    }
}

/// The entry that a call names.
pub(crate) struct Wanted<'a> {
    /// The name.
    pub(crate) entry: &'a EntryName,
    /// The user name.
    pub(crate) username: Option<&'a str>,
}

impl Wanted<'_> {
    /// Checks that an operator has allowed the entry, and that exactly one fits.
    pub(crate) fn guard(&self, passwords: &Passwords, facts: Option<&Fitting>) -> Guard {
        if !passwords.allowed.allows(self.entry) {
            return Guard::Refuse(guardrail(
                "This entry may not be read. An operator allows entries in `entries` of the provider's table.",
            ));
        }
        match facts.map(|Fitting(entries)| entries.as_slice()) {
            None => Guard::NeedsRemote,
            Some([_one]) => Guard::Pass,
            Some([]) => {
                Guard::Refuse(guardrail("The password manager has no such entry. Find its name with find_login."))
            }
            Some([..]) if self.username.is_none() => Guard::Refuse(guardrail(
                "Several entries have this name. Name the user name, too: find_login lists both.",
            )),
            Some([..]) => {
                Guard::Refuse(guardrail("Several entries have this name and user name. A person must rename one."))
            }
        }
    }

    /// Looks the entry up.
    pub(crate) async fn fitting(&self, passwords: &Passwords, execution: &Execution) -> Result<Fitting, Failure> {
        let mut entries = passwords.entries(execution).await?.entries;
        let is_its = |entry: &Entry| self.username.is_none() || self.username == entry.username.as_deref();
        entries.retain(|entry| entry.name == *self.entry && is_its(entry));
        Ok(Fitting(entries))
    }
}

/// Reads the approved entry. A secret of the broker's own is refused.
///
/// # Errors
/// [`Failure`]; nothing was changed.
pub(crate) async fn login(
    passwords: &Passwords,
    facts: Option<Fitting>,
    execution: &Execution,
) -> Result<(Entry, Login), Failure> {
    let entries = facts.map_or_else(Vec::new, |Fitting(entries)| entries);
    let Ok([entry]) = <[Entry; 1]>::try_from(entries) else { return Err(changed()) };
    let login = passwords.store.login(&entry, execution).await?;
    // A person has approved the entry with its user name and its address.
    let lists_all = passwords.store.lists_content();
    let is_same = |listed: &Option<String>, now: &Option<String>| listed == now || !lists_all && listed.is_none();
    if !is_same(&entry.username, &login.username) || !is_same(&entry.url, &login.url) {
        return Err(changed());
    }
    if login.password.is_empty() {
        return Err(Failure::Refused { message: "The entry has no password.".into() });
    }
    let Some(scrubber) = &passwords.scrubber else { return Err(unavailable("The broker does not run.")) };
    if holds_own(Value::String(login.password.to_string()), scrubber) {
        return Err(Failure::Guard(guardrail("This is a secret of the broker's own, which no agent gets.")));
    }
    if passwords.holds_key(&login.password, execution)? {
        return Err(Failure::Guard(guardrail("This opens the password manager itself, so no agent gets it.")));
    }
    Ok((entry, login))
}

/// The entry is no longer the approved one.
fn changed() -> Failure {
    Failure::Guard(guardrail("The entry has changed since the approval. Find it again."))
}
