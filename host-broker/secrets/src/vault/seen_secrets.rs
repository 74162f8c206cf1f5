//! The credential of an account, and the parts of it that must not come back.

use crate::SECRET_CHARS_MIN;
use crate::names::is_credential_key;
use kernel::Slots;
use kernel::execution::Execution;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The most texts of a credential that are kept out of results, and the most bytes of them. A search for more would
/// take longer than the call.
const TEXTS_MAX: usize = 32;
const BYTES_MAX: usize = 6 * 1024;

/// The credential of an account, as the vault keeps it.
#[derive(Serialize, Deserialize)]
pub struct Credential {
    /// The texts in it that must not come back.
    pub(super) hidden: Vec<String>,
    /// The provider's credential.
    pub given: Value,
}

/// Why a credential is not kept. The messages quote nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is too much to be looked for.
    #[error(
        "its credential is more than {TEXTS_MAX} texts or {BYTES_MAX} bytes, which is more than can be kept out of results"
    )]
    TooMuch,
    /// It is too little to be looked for.
    #[error("its credential has fewer than {SECRET_CHARS_MIN} characters, so it could not be kept out of results")]
    TooShort,
    /// The shown description holds a part of it.
    #[error("its description of the account holds a part of its credential")]
    Shown,
}

impl Credential {
    /// Creates the credential of this account from the provider's answer and the shown description.
    ///
    /// Every value of the credential is hidden, with two exceptions. The first is a value that is no secret by its name
    /// and that the description shows. The second is the account's own name.
    ///
    /// # Errors
    /// [`Unfit`]; it is not to be kept.
    pub fn new(given: Value, account: &str, shown: &Value) -> Result<Self, Unfit> {
        let mut texts = Vec::new();
        collect("", &given, &mut texts)?;
        let mut hidden: Vec<String> = Vec::new();
        for (name, text) in texts {
            let plain = text == account || PLAIN.contains(&name.as_str()) && is_leaf(shown, &text);
            if plain || hidden.contains(&text) {
                continue;
            }
            if is_within(shown, &text) {
                return Err(Unfit::Shown);
            }
            hidden.push(text);
        }
        Ok(Self { hidden, given })
    }
}

impl Credential {
    /// Returns the hidden texts whose members have the names of secrets.
    pub(super) fn passwords(&self) -> Vec<&str> {
        let mut found = Vec::new();
        named("", &self.given, &mut found);
        found.retain(|text| self.hidden.iter().any(|hidden| hidden == text));
        found
    }
}

/// Collects the texts whose members, or those around them, have the names of secrets.
fn named<'a>(name: &str, value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => found.extend(is_credential_key(name).then_some(text.as_str())),
        Value::Array(items) => items.iter().for_each(|item| named(name, item, found)),
        Value::Object(members) => members.iter().for_each(|(own, item)| {
            named(if is_credential_key(name) { name } else { own }, item, found);
        }),
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        use zeroize::Zeroize as _;
        self.hidden.zeroize();
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Keeps a text out of everything that comes back from this execution.
///
/// # Errors
/// [`Unfit`]; the text must not be used.
pub fn hide(text: &str, proof: &Execution) -> Result<(), Unfit> {
    SeenSecrets::of(proof.slots()).hide(text)
}

/// The texts of credentials that an execution has seen.
#[derive(Clone, Default)]
pub struct SeenSecrets(Arc<Mutex<Vec<Zeroizing<String>>>>);

impl SeenSecrets {
    /// The texts that an execution has seen.
    pub fn of(slots: &Slots) -> Self {
        slots.get()
    }

    /// Keeps a text out of everything that comes back from the execution. It serves a task that outlives the borrow of
    /// the execution.
    ///
    /// # Errors
    /// [`Unfit`]; the text must not be used.
    pub fn hide(&self, text: &str) -> Result<(), Unfit> {
        if text.chars().count() < SECRET_CHARS_MIN {
            return Err(Unfit::TooShort);
        }
        if text.len() > BYTES_MAX {
            return Err(Unfit::TooMuch);
        }
        self.note(&[text.to_owned()]);
        Ok(())
    }

    /// Notes texts that must not come back.
    pub(super) fn note(&self, texts: &[String]) {
        let mut seen = self.seen();
        for text in texts {
            if !seen.iter().any(|known| **known == *text) {
                seen.push(Zeroizing::new(text.clone()));
            }
        }
    }

    /// Checks whether this text is among them.
    pub(super) fn has(&self, text: &str) -> bool {
        self.seen().iter().any(|known| **known == *text)
    }

    /// Checks whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seen().is_empty()
    }

    /// The texts, for the search alone.
    pub(crate) fn texts(&self) -> MutexGuard<'_, Vec<Zeroizing<String>>> {
        self.seen()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Zeroizing<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SeenSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness(…)")
    }
}

/// The members beside a credential that may be no secret: its owner, its scope, its end.
const PLAIN: [&str; 13] = [
    "account",
    "account_email",
    "account_name",
    "email",
    "expires_at",
    "expiry",
    "name",
    "provider",
    "scope",
    "scopes",
    "token_type",
    "token_uri",
    "type",
];

/// Every text in a credential that is long enough to be told from ordinary text, with the name of its member.
fn collect(name: &str, value: &Value, texts: &mut Vec<(String, String)>) -> Result<(), Unfit> {
    let text = match value {
        Value::Null | Value::Bool(_) => return Ok(()),
        // A number may appear as its digits.
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => return items.iter().try_for_each(|item| collect(name, item, texts)),
        Value::Object(members) => {
            return members.iter().try_for_each(|(name, item)| collect(name, item, texts));
        }
    };
    if text.chars().count() < SECRET_CHARS_MIN {
        return if is_credential_key(name) && !text.is_empty() { Err(Unfit::TooShort) } else { Ok(()) };
    }
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    if texts.len() >= TEXTS_MAX || bytes + text.len() > BYTES_MAX {
        return Err(Unfit::TooMuch);
    }
    texts.push((name.to_owned(), text));
    Ok(())
}

fn is_leaf(shown: &Value, text: &str) -> bool {
    match shown {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(said) => said == text,
        Value::Array(items) => items.iter().any(|item| is_leaf(item, text)),
        Value::Object(members) => members.values().any(|item| is_leaf(item, text)),
    }
}

fn is_within(shown: &Value, text: &str) -> bool {
    match shown {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => number.to_string() == text,
        Value::String(said) => said.contains(text),
        Value::Array(items) => items.iter().any(|item| is_within(item, text)),
        Value::Object(members) => members.iter().any(|(name, item)| name.contains(text) || is_within(item, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hidden(given: &Value, shown: &Value) -> Result<Vec<String>, Unfit> {
        Credential::new(given.clone(), "worker@example.com", shown).map(|credential| credential.hidden.clone())
    }

    #[test]
    fn secrets_of_a_credential_are_hidden_and_shown_account_data_is_not() {
        let given = json!({
            "access_token": "ya29.hunter2hunter2",
            "refresh": ["1//0ghunter2", {"deeper": "hunter2-in-the-deep"}],
            "username": "worker@example.com",
            "email": "other@example.com",
            "name": "hunter2-in-the-name",
            "scope": "https://mail.example.com/",
            "pin": 1_234_567_890_123_456_u64,
            "token_type": "Bearer",
            "expires_in": 3600,
        });
        let shown = json!({"email": "other@example.com", "scopes": ["https://mail.example.com/"]});
        let mut found = hidden(&given, &shown).unwrap();
        found.sort();
        let expected =
            ["1//0ghunter2", "1234567890123456", "hunter2-in-the-deep", "hunter2-in-the-name", "ya29.hunter2hunter2"];
        assert_eq!(found, expected);
        assert!(!format!("{:?}", Credential::new(given, "a", &shown)).contains("hunter2"));
    }

    /// Attack (Accounts): A credential is so long, or has so many parts, that the search delays
    /// everybody. Or it is too short for a search.
    /// Defence: At most 32 texts and 6 KiB. Searches are built once, outside the loop. Shorter
    /// credentials are refused.
    #[test]
    fn credentials_that_results_could_leak_are_not_kept() {
        let with = |given: Value, shown: Value| hidden(&given, &shown);
        assert_eq!(with(json!({"password": "pw-4711"}), json!({})), Err(Unfit::TooShort));
        assert_eq!(with(json!({"region": "eu"}), json!({})), Ok(Vec::new()));
        let leaks = json!({"note": "its token is hunter2hunter2."});
        assert_eq!(with(json!({"token": "hunter2hunter2"}), leaks), Err(Unfit::Shown));
        assert_eq!(with(json!({"token": "hunter2hunter2"}), json!({"of hunter2hunter2": 1})), Err(Unfit::Shown));
        assert_eq!(with(json!({"email": "hunter2hunter2"}), json!({"a": "hunter2hunter2 too"})), Err(Unfit::Shown));
        assert_eq!(with(json!({"token": "x".repeat(BYTES_MAX + 1)}), json!({})), Err(Unfit::TooMuch));
        let many: Vec<String> = (0..=TEXTS_MAX).map(|n| format!("text number {n}")).collect();
        assert_eq!(with(json!(many), json!({})), Err(Unfit::TooMuch));
    }
}
